#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-trace replay: the calls of a recorded run are made again below a scratch folder, with the same results, and nothing else is touched.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
if [ ! -x "$trace" ]; then
    for number in $(seq 18); do
        mp_skip "case $number of replay" "iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"
    done
    mp_done
    exit
fi
unset AMPHORA_JOB IOFWD_PREFIX
XDG_RUNTIME_DIR=$mp_dir/none # no servers
export XDG_RUNTIME_DIR
mkdir "$mp_dir/none" "$mp_dir/cwd" "$mp_dir/scratch"

cat >"$mp_dir/p.c" <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void compute(int ms)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}
static int fill(const char *name)
{
    char b[1000];
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0666);
    memset(b, 7, sizeof b);
    for (int i = 0; i < 50; i++)
        if (write(fd, b, sizeof b) != sizeof b)
            return 1;
    return pread(fd, b, sizeof b, 500) != sizeof b || lseek(fd, 0, SEEK_SET) != 0 || read(fd, b, 10) != 10 || fsync(fd) != 0 || close(fd) != 0;
}
static void *thread(void *name)
{
    return (void *)(long)fill(name);
}
int main(int argc, char **argv)
{
    pthread_t th;
    int pair[2], status = 0, fd, copy;
    struct stat st;
    char c = 0, names[2][32] = { "thread", "more" };
    if (strcmp(argv[1], "names") == 0) {
        struct flock l = { .l_type = F_WRLCK, .l_len = 10 };
        fd = open("input", O_RDONLY);
        copy = dup(fd);
        return mkdir("d", 0777) != 0 || fill("d/a") != 0 || rename("d/a", "d/b") != 0 || stat("d/b", &st) != 0 || stat("d/a", &st) == 0 ||
               link("d/b", "d/c") != 0 || unlink("d/b") != 0 || truncate("d/c", 100) != 0 || chmod("d/c", 0600) != 0 || access("d/c", R_OK) != 0 ||
               symlink("c", "d/l") != 0 || read(copy, &c, 1) != 1 || fcntl(fd = open("d/c", O_RDWR), F_SETLK, &l) != 0 || ftruncate(fd, 7) != 0 ||
               unlink("d/l") != 0 || unlink("d/c") != 0 || rmdir("d") != 0 || open("d/none", O_RDONLY) >= 0;
    }
    if (strcmp(argv[1], "compute") == 0) {
        compute(400);
        return fill("computed");
    }
    if (strcmp(argv[1], "threads") == 0) {
        for (int i = 0; i < 2; i++)
            if (pthread_create(&th, NULL, thread, names[i]) != 0 || fill(i ? "main2" : "main1") != 0 || pthread_join(th, NULL) != 0)
                return 1;
        return 0;
    }
    if (pipe(pair) != 0) /* processes: a child that writes what its parent waits for */
        return 1;
    fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fork() == 0) {
        compute(200);
        _exit(write(fd, "child", 5) != 5 || write(pair[1], "x", 1) != 1);
    }
    if (read(pair[0], &c, 1) != 1 || write(fd, "parent", 6) != 6)
        return 1;
    return wait(&status) < 0 || status;
}
C
${CC:-cc} -pthread -o "$mp_dir/p" "$mp_dir/p.c" || exit 99

# again NAME COMMAND...: recorded in the folder cwd, and replayed
again() {
    name=$1
    shift
    rm -rf "$mp_dir/r" "$mp_dir/cwd"
    mkdir "$mp_dir/cwd"
    head -c 5000 /dev/zero >"$mp_dir/cwd/input"
    (cd "$mp_dir/cwd" && "$run" -record "$mp_dir/r" "$@") >"$mp_dir/out" 2>&1 || echo "the program failed" >>"$mp_dir/out"
    fwd_tree "$mp_dir/cwd" >"$mp_dir/before"
    timeout 50 "$trace" replay "$mp_dir/r" -prefix "$mp_dir/scratch" >>"$mp_dir/out" 2>&1 && ! grep -q 'ended otherwise\|failed' "$mp_dir/out" &&
        fwd_tree "$mp_dir/cwd" | cmp - "$mp_dir/before" >>"$mp_dir/out" && test -z "$(ls "$mp_dir/scratch")"
    mp_report $? "$name: the same results, its own files untouched" "$mp_dir/out"
}
seconds() {
    sed -n "s/^recorded \([0-9.]*\) s, replayed \([0-9.]*\) s$/\\$1/p" "$mp_dir/out"
}
again names "$mp_dir/p" names
grep -q '^meta  *1[0-9] ' "$mp_dir/out"
mp_report $? "names: the calls are made" "$mp_dir/out"
again threads "$mp_dir/p" threads
grep -q '^write  *200 ' "$mp_dir/out"
mp_report $? "threads: the calls of all" "$mp_dir/out"
again processes "$mp_dir/p" processes
awk -v s="$(seconds 2)" 'BEGIN { exit !(s >= 0.2) }'
mp_report $? "processes: a parent waits for what its child wrote" "$mp_dir/out"
again compute "$mp_dir/p" compute
awk -v s="$(seconds 2)" 'BEGIN { exit !(s >= 0.4) }'
mp_report $? "compute: the time between calls is kept" "$mp_dir/out"
timeout 50 "$trace" replay "$mp_dir/r" -prefix "$mp_dir/scratch" -no-think >"$mp_dir/out" 2>&1 && awk -v s="$(seconds 2)" 'BEGIN { exit !(s < 0.4) }'
mp_report $? "-no-think leaves it out" "$mp_dir/out"

# requests, which are carried out while the program goes on
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -pthread -o "$mp_dir/async" "$srcdir/tests/files/trace/fwd_record_async.c" -lrt || exit 99
again requests "$mp_dir/async" data aio
grep -q '^write  *4 ' "$mp_dir/out" && grep -q '^read  *4 ' "$mp_dir/out" && grep -q '^sync  *1 ' "$mp_dir/out"
mp_report $? "requests: the calls are made" "$mp_dir/out"
again "requests that fail and are short" "$mp_dir/async" data ends
grep -q '^write  *2 ' "$mp_dir/out" && grep -q '^read  *2 ' "$mp_dir/out" && awk -v s="$(seconds 2)" 'BEGIN { exit !(s >= 0.03 && s < 5) }'
mp_report $? "requests that fail and are short: the calls are made" "$mp_dir/out"

# below a prefix of servers, with another setting
rm -rf "$mp_dir/r"
mkdir "$mp_dir/kept" "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 50 -record "$mp_dir/r" \
    sh -c 'cd /fwd && mkdir scratch && "$0" threads' "$mp_dir/p" >"$mp_dir/out" 2>&1
for setting in "" IOFWD_CONSISTENCY=session IOFWD_STRIPE=2; do
    timeout 60 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$trace" replay "$mp_dir/r" -prefix /fwd/scratch $setting >"$mp_dir/out" 2>&1 && ! grep -q 'ended otherwise\|failed' "$mp_dir/out" &&
        grep -q '^write  *200 ' "$mp_dir/out" && test -z "$(ls "$mp_dir/kept/scratch")"
    mp_report $? "forwarded files, ${setting:-no setting}" "$mp_dir/out"
done

# refuse NAME TEXT ARGUMENT...
refuse() {
    name=$1 text=$2
    shift 2
    timeout 50 "$trace" replay "$mp_dir/r" "$@" >"$mp_dir/out" 2>&1
    test $? != 0 && grep -q "$text" "$mp_dir/out"
    mp_report $? "$name" "$mp_dir/out"
}
refuse "without a prefix" 'needs -prefix'
refuse "a setting that is none" 'IOFWD_NONE is no setting' -prefix "$mp_dir/scratch" IOFWD_NONE=1
mp_done
