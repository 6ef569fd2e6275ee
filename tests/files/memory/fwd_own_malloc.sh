#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs whose malloc is their own and may not be called before main, as that of GCL (Maxima): the preload library does not call it at
# their start.  See fwd_own_malloc.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
names="standing: a program that writes a file
standing: a program that inherits a directory and files
standing: as lines of JSON
standing far: a program that writes a file
standing far: a program that inherits a directory and files
standing far: as lines of JSON
job: a program that writes a file
job: a program that inherits a directory and files
job: as lines of JSON
job over udp: a program that writes a file
job over tcp: a sentence says that libfabric needs more than malloc
job over tcp: no sentence about a malloc that calls the C library's
the address of malloc is an entry of the program"
if mp_sanitized asan; then
    fwd_skip_all "sanitizers have a malloc of their own"
fi
program=$builddir/tests/files/memory/fwd_own_malloc
mkdir "$mp_dir/kept"
cp "$program" "$mp_dir/kept/copy"

# prints TEXT COMMAND...: below the prefix kept in $mp_dir/kept, COMMAND prints these lines and nothing else
prints() {
    printf %b "$1" >"$mp_dir/expected"
    shift
    fwd_servers "$mp_dir/kept" "$@" >"$mp_dir/got"
    code=$?
    diff "$mp_dir/expected" "$mp_dir/got" && [ $code = 0 ]
}

# The second program is a forwarded one, and has inherited the directory, an open file, and a library path.
# shellcheck disable=SC2016 # for the shell inside
inherits() {
    prints '/fwd: a line\n/fwd: a line\n' env LD_LIBRARY_PATH=/fwd:/usr/lib sh -c 'cd /fwd && exec 5<copy && "$1" x ./copy /fwd/y' sh "$program"
}

for way in standing "standing far" job; do
    unset FWD_STANDING IOFWD_NEAR
    case $way in standing*) export FWD_STANDING=1 ;; esac
    case $way in *far) export IOFWD_NEAR=0 ;; esac
    mp_try "$way: a program that writes a file" prints "$(pwd): a line\n" "$program" /fwd/x
    mp_try "$way: a program that inherits a directory and files" inherits
    mp_try "$way: as lines of JSON" prints "$(pwd): a line\n" env AMPHORA_LOG_FORMAT=json "$program" /fwd/x
done

unset FWD_STANDING IOFWD_NEAR
export AMPHORA_SMP=0 AMPHORA_CONDUIT=udp
mp_try "job over udp: a program that writes a file
job over tcp: a sentence says that libfabric needs more than malloc" prints "$(pwd): a line\n" "$program" /fwd/x

# The program says it, and cat, whose malloc is the C library's, does not.
# shellcheck disable=SC2016 # for the shell inside
warned() {
    fwd_servers "$mp_dir/kept" sh -c '"$1" /fwd/x; cat /fwd/x' sh "$program" >"$mp_dir/got"
    cat "$mp_dir/got"
    [ "$(grep -c '^amphora: .*: this program has a malloc of its own.*AMPHORA_CONDUIT=udp' "$mp_dir/got")" = 1 ]
}

export AMPHORA_CONDUIT=tcp
mp_try "job over tcp: a sentence says that libfabric needs more than malloc" warned

# As in OpenFOAM: what this malloc gives is freed by the C library.
cat >"$mp_dir/calls.c" <<'END'
#include <stdio.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t len_bytes);
static int calls;

void *malloc(size_t len_bytes)
{
    calls++;
    return __libc_malloc(len_bytes);
}

int main(void)
{
    FILE *file = fopen("/fwd/calls", "w");

    return !file || fprintf(file, "written\n") < 0 || fclose(file) != 0 || calls == 0;
}
END
calls_c_library() {
    ${CC:-gcc} -std=gnu11 -O1 -o "$mp_dir/calls" "$mp_dir/calls.c" && prints "written\n" sh -c '"$1" && cat /fwd/calls' sh "$mp_dir/calls"
}
mp_try "job over tcp: no sentence about a malloc that calls the C library's" calls_c_library
unset AMPHORA_SMP AMPHORA_CONDUIT

# A program that is not position-independent and takes the address of the C library's malloc has an entry for it, which is not a malloc of
# its own.  As in other programs, handlers of fork that its constructors have set may use forwarded files.
cat >"$mp_dir/entry.c" <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *(*volatile take)(size_t);

static void say(const char *word)
{
    int fd = open("/fwd/entry", O_WRONLY | O_APPEND | O_CREAT, 0600);

    if (fd < 0 || write(fd, word, strlen(word)) < 0 || close(fd) != 0)
        perror(word);
}

static void before(void)
{
    say("before ");
}

static void in_child(void)
{
    say("in child ");
}

__attribute__((constructor)) static void early(void)
{
    take = malloc;
    pthread_atfork(before, NULL, in_child);
}

int main(void)
{
    char text[64] = "";
    pid_t child = fork();

    if (child == 0) {
        say("child\n");
        _exit(0);
    }

    waitpid(child, NULL, 0);

    int fd = open("/fwd/entry", O_RDONLY);

    if (!take(1) || read(fd, text, sizeof text - 1) <= 0)
        return 1;

    fputs(text, stdout);
    return 0;
}
END
entry() {
    # shellcheck disable=SC2086
    ${CC:-gcc} -std=gnu11 -O1 -fno-pie -no-pie -o "$mp_dir/entry" "$mp_dir/entry.c" -lpthread || return
    for near in 0 1; do
        rm -f "$mp_dir/kept/entry"
        FWD_STANDING=1 IOFWD_NEAR=$near prints "before in child child\n" timeout -s KILL 40 "$mp_dir/entry" || return
    done
}
mp_try "the address of malloc is an entry of the program" entry
mp_done
