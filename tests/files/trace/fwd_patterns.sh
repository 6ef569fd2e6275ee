#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-trace patterns: each finding is there for a program that shows it, with a cost and a remedy, and not for one that nearly does.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
if [ ! -x "$trace" ]; then
    for number in $(seq 62); do
        mp_skip "case $number of the findings" "iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"
    done
    mp_done
    exit
fi
unset AMPHORA_JOB IOFWD_PREFIX
XDG_RUNTIME_DIR=$mp_dir/none # no servers
export XDG_RUNTIME_DIR
mkdir "$mp_dir/none" "$mp_dir/cwd"

cat >"$mp_dir/p.c" <<'C'
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static char data[1 << 17];
static int failed;
static void need(int ok)
{
    failed |= !ok;
}
/* n writes or reads of size bytes, each step bytes behind the one before, from `from` on */
static void data_calls(const char *name, char what, long n, long size, long step, long from)
{
    int fd = open(name, O_RDWR | O_CREAT, 0666);
    for (long i = 0; i < n; i++)
        need((what == 'w' ? pwrite(fd, data, size, from + i * step) : pread(fd, data, size, from + i * step)) >= 0);
    close(fd);
}
/* WHAT N SIZE STEP FROM NAME: w, r; o: opens; s: stats; f: fsyncs; c: chmods; x: in no order; /: the next calls are a child's */
int main(int argc, char **argv)
{
    struct stat st;
    pid_t child = -1;
    for (int i = 1; i + 5 < argc; i += 6) {
        long n = atol(argv[i + 1]), size = atol(argv[i + 2]), step = atol(argv[i + 3]), from = atol(argv[i + 4]);
        const char *name = argv[i + 5];
        int fd;
        switch (argv[i][0]) {
        case '/':
            if (child == 0)
                _exit(failed);
            if (child > 0 && strcmp(name, "later") == 0)
                while (wait(NULL) > 0) {
                }
            child = fork();
            if (child != 0)
                for (i += 6; i + 5 < argc && argv[i][0] != '/'; i += 6) {
                }
            i -= child != 0 ? 6 : 0;
            break;
        case 'o':
            while (n-- > 0)
                if ((fd = open(name, O_RDONLY)) >= 0)
                    close(fd);
            break;
        case 's':
            while (n-- > 0)
                need(stat(name, &st) == 0);
            break;
        case 'c':
            need(chmod(name, 0600) == 0);
            break;
        case 'f':
            fd = open(name, O_RDWR);
            while (n-- > 0)
                need(fsync(fd) == 0);
            close(fd);
            break;
        case 'x':
            fd = open(name, O_RDWR);
            for (long k = 0; k < n; k++)
                need(pread(fd, data, size, (k * k * 31 + k * 17) % n * size) >= 0);
            close(fd);
            break;
        default:
            data_calls(name, argv[i][0], n, size, step, from);
        }
    }
    if (child == 0)
        _exit(failed);
    while (wait(NULL) > 0) {
    }
    return failed;
}
C
${CC:-cc} -o "$mp_dir/p" "$mp_dir/p.c" || exit 99

# look SHOWN FINDING ARGUMENTS: is it among the findings of the run?
look() {
    rm -rf "$mp_dir/r" "$mp_dir/cwd"
    mkdir "$mp_dir/cwd"
    head -c 1000000 /dev/zero >"$mp_dir/cwd/in"
    head -c 1000000 /dev/zero >"$mp_dir/cwd/in2"
    (cd "$mp_dir/cwd" && "$run" -record "$mp_dir/r" "$mp_dir/p" $3) >"$mp_dir/out" 2>&1 || echo "the program failed: $?" >>"$mp_dir/out"
    answer "$1" "$2"
}
answer() {
    timeout 100 "$trace" patterns "$mp_dir/r" -json >>"$mp_dir/out" 2>&1 || echo "patterns failed" >>"$mp_dir/out"
    # its remedy is not empty, and it has calls and a cost
    found=$(grep -c "^{\"finding\":\"$2\",\"remedy\":\"[^\"][^\"]*\",\"subject\":\"[^\"]*\",\"calls\":[1-9][0-9]*,\"ns\":[1-9]" "$mp_dir/out")
    ! grep -q failed "$mp_dir/out" && if [ "$1" = yes ]; then [ "$found" -gt 0 ]; else [ "$found" = 0 ]; fi
    mp_report $? "$2: $1" "$mp_dir/out"
}
# record_rank DIRECTORY RANK WRITES
record_rank() {
    (cd "$mp_dir/cwd" && AMPHORA_RANK=$2 "$run" -record "$1" "$mp_dir/p" w "$3" 100 100 0 "rank$2") >>"$mp_dir/out" 2>&1
}
# both FINDING ARGUMENTS-THAT-SHOW-IT ARGUMENTS-THAT-DO-NOT
both() {
    look yes "$1" "$2"
    look no "$1" "$3"
}

both "many small writes" "w 200 100 100 0 a" "w 50 100 100 0 a"
both "many small reads" "r 200 100 100 0 in" "r 50 100 100 0 in"
both "a file that is opened again and again" "o 20 0 0 0 in" "o 9 0 0 0 in"
both "opens of files that do not exist" "o 30 0 0 0 none" "o 10 0 0 0 none"
both "many calls on names and attributes" "s 1500 0 0 0 in" "s 500 0 0 0 in"
four="/ 0 0 0 0 - r 1 100 0 0 in / 0 0 0 0 - r 1 100 0 0 in / 0 0 0 0 - r 1 100 0 0 in / 0 0 0 0 - r 1 100 0 0"
both "the same file read by all processes" "$four in" "/ 0 0 0 0 - r 1 9 0 0 in / 0 0 0 0 - r 1 9 0 0 in2"
both "a file written by several processes at once, with overlap" "/ 0 0 0 0 - w 5 100 100 0 a / 0 0 0 0 - w 5 100 100 50 a" \
    "/ 0 0 0 0 - w 5 100 100 0 a / 0 0 0 0 - w 5 100 100 500 a"
both "data read back that has just been written" "w 1 8192 0 0 a r 1 8192 0 0 a" "w 1 8192 0 0 a r 1 100 0 0 a"
both "reads or writes in no order" "x 100 100 0 0 in" "r 100 100 100 0 in"
both "the same step between calls" "r 100 100 1000 0 in" "r 100 100 100 0 in"
both "large calls that do not begin at a block's start" "w 12 65536 65536 100 a" "w 12 65536 65536 0 a"
both "written and never read back" "w 1 100 0 0 a" "w 1 100 0 0 a r 1 100 0 0 a"
both "attributes that were set and that nobody asks for" "c 1 0 0 0 in" "c 1 0 0 0 in s 1 0 0 0 in"
both "files synchronised often" "f 12 0 0 0 in" "f 5 0 0 0 in"
both "files read by one process, once" "r 1 100 0 0 in" "r 1 100 0 0 in r 1 100 0 0 in"
both "files read by one process, again and again" "r 1 100 0 0 in r 1 100 0 0 in" "r 1 100 0 0 in"
both "files read by several processes" "/ 0 0 0 0 - r 1 9 0 0 in / 0 0 0 0 - r 1 9 0 0 in" "/ 0 0 0 0 - r 1 9 0 0 in / 0 0 0 0 - r 1 9 0 0 in2"
both "files written by one process, once" "w 1 100 0 0 a" "w 1 100 0 0 a w 1 100 0 0 a"
both "files written by one process, again and again" "w 1 100 0 0 a w 1 100 0 0 a" "w 1 100 0 0 a"
both "files written by several processes" "/ 0 0 0 0 - w 1 9 0 0 a / 0 0 0 0 - w 1 9 0 9 a" "/ 0 0 0 0 - w 1 9 0 0 a / 0 0 0 0 - w 1 9 0 0 b"
both "files written and read by the same process only" "w 1 100 0 0 a r 1 100 0 0 a" "w 1 100 0 0 a r 1 100 0 0 in"
both "files written by one process and read by another" "/ 0 0 0 0 - w 1 9 0 0 a / 0 0 0 0 later r 1 9 0 0 a" \
    "/ 0 0 0 0 - w 1 9 0 0 a / 0 0 0 0 later r 1 9 0 0 in"

# Overlaps are found by sorting: 200,000 writes in a time that a comparison of each with each does not meet.  Its calls are those
# that meet another process.
look yes "a file written by several processes at once, with overlap" "/ 0 0 0 0 - w 100000 10 10 0 a / 0 0 0 0 - w 100000 10 10 5 a"
! grep -q 'patterns failed' "$mp_dir/out"
mp_report $? "overlaps among 200,000 writes are found in time" "$mp_dir/out"
look yes "a file written by several processes at once, with overlap" "/ 0 0 0 0 - w 5 100 100 0 a / 0 0 0 0 - w 5 100 100 450 a"
grep "with overlap" "$mp_dir/out" | grep -q '"calls":2,.*"detail":"first at offset 450"'
mp_report $? "an overlap counts the calls that share bytes" "$mp_dir/out"

# A block that is written again at its place is in no disorder.
look no "reads or writes in no order" "w 100 65536 0 0 a"

# What is read lies elsewhere in the file.
look no "data read back that has just been written" "w 1 8192 0 0 in r 1 8192 0 500000 in"

# Calls with a constant stride forward are in order; backward they are not.
look no "reads or writes in no order" "r 100 100 1000 0 in"
look yes "reads or writes in no order" "r 100 100 -1000 100000 in"

# All processes of one rank read it, and none of the others.
rm -rf "$mp_dir/r"
(cd "$mp_dir/cwd" && AMPHORA_RANK=0 "$run" -record "$mp_dir/r" "$mp_dir/p" $four in) >"$mp_dir/out" 2>&1
for rank in 1 2 3; do
    (cd "$mp_dir/cwd" && AMPHORA_RANK=$rank "$run" -record "$mp_dir/r" "$mp_dir/p" w 1 9 0 0 a) >>"$mp_dir/out" 2>&1
done
answer no "the same file read by all processes"

# A rank that only waits for input has no slow file.
rm -rf "$mp_dir/r"
: >"$mp_dir/out"
for rank in 0 1 2; do
    record_rank "$mp_dir/r" "$rank" 100
done
cat >"$mp_dir/waits.c" <<'C'
#include <poll.h>
int main(void)
{
    return poll(0, 0, 1000);
}
C
${CC:-cc} -o "$mp_dir/waits" "$mp_dir/waits.c" || exit 99
AMPHORA_RANK=3 "$run" -record "$mp_dir/r" "$mp_dir/waits" >>"$mp_dir/out" 2>&1
answer no "one process waits longer than the others"

# A finding on many files is one line for a reader.
many=''
for file in 1 2 3 4 5; do
    many="$many f 12 0 0 0 in w 12 10 10 0 a$file f 12 0 0 0 a$file"
done
look yes "files synchronised often" "$many"
"$trace" patterns "$mp_dir/r" >"$mp_dir/out" 2>&1
[ "$(grep -c 'files synchronised often' "$mp_dir/out")" = 1 ] && grep 'files synchronised often' "$mp_dir/out" | grep -q ' and 3 more'
mp_report $? "findings of one kind are one line, with examples" "$mp_dir/out"

# Ranks with the same calls, or one with many more.  Those with the same calls are copies of one recording, so that what else the machine
# does gives none of them a longer time.
# Where a recording's header (iofwd/trace/format.h) has the rank's lowest byte, and the host's name, a part of what names the process.
rank_at=68 host_at=144
[ "$(printf '\1\0' | od -An -tu2 | tr -d ' ')" = 1 ] || rank_at=71
# put FILE AT BYTES
put() {
    printf '%b' "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
straggler() {
    rm -rf "$mp_dir/r" "$mp_dir/one"
    mkdir "$mp_dir/r" "$mp_dir/one"
    : >"$mp_dir/out"
    record_rank "$mp_dir/one" 0 2000
    for rank in $2; do
        for file in "$mp_dir"/one/*.trace; do
            copy=$mp_dir/r/rank$rank.${file##*/}
            cp "$file" "$copy"
            put "$copy" $rank_at "\\0$rank"
            put "$copy" $host_at "$rank"
        done
    done
    [ "$1" = no ] || record_rank "$mp_dir/r" 3 100000
    answer "$1" "one process waits longer than the others"
}
straggler yes "0 1 2"
straggler no "0 1 2 3"
"$trace" ranks "$mp_dir/r" >"$mp_dir/out" 2>&1
grep -q 'clocks of 4 hosts were not measured' "$mp_dir/out"
mp_report $? "hosts without a measured clock are said" "$mp_dir/out"

# servers
one_server() {
    rm -rf "$mp_dir/r" "$mp_dir/kept"
    mkdir "$mp_dir/r" "$mp_dir/kept"
    IOFWD_PASSTHROUGH=0 timeout 60 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 50 -record "$mp_dir/r" \
        "$mp_dir/p" w "$2" 131072 "${3:-131072}" 0 /fwd/large >"$mp_dir/out" 2>&1
    answer "$1" "one slow large file at one server"
}
one_server yes 800
one_server no 80
# many bytes, in a file that stays small
one_server no 800 0
mp_done
