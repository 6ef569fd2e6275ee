#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# IOFWD_TRACE: the lines of forwarded calls are those that strace prints of the same run in a local directory; what stayed local, and why;
# decisions in the log; and what a call costs when nothing is traced.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/trace/fwd_trace
mkdir "$mp_dir/here" "$mp_dir/kept"
here=$(cd "$mp_dir/here" && pwd -P)

# The server's directory is unknown to the program, and so are the descriptors of amphora-run: without standard input.
"$builddir/iofwd-server" -daemon -foreground -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
    >"$mp_dir/server" 2>&1 &
server=$!
trap 'kill $server; rm -rf "$mp_dir"' EXIT
run() {
    timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" -wait 30 "$@" </dev/null
}

# ours FILE: a trace without the numbers of threads and without sides, with the names of system calls
ours() {
    sed -e 's/^[0-9]* //' -e 's/  <[^>]*>$//' -e "s#/fwd#@#g; s#$here#@#g" \
        -e 's/^\(open\|creat\)\(64\)\{0,1\}(/openat(AT_FDCWD, /' -e 's/^openat64(/openat(/' -e 's/^\(pread\|pwrite\)(/\164(/' \
        -e 's/^posix_fadvise\(64\)\{0,1\}(/fadvise64(/' -e 's/^\(fstat\|lstat\|stat\|fstatat\)64(/\1(/' \
        -e 's/^fcntl64(/fcntl(/' -e 's/^\(mknodat(.*\), 0) =/\1) =/' "$1"
}

# strace's FILE in the same form
theirs() {
    sed -e 's/) *= /) = /' -e 's/AT_FDCWD<[^<>]*>/AT_FDCWD/g' -e "s#$here#@#g" \
        -e 's/^newfstatat(\([^,]*\), "", \(.*\), AT_EMPTY_PATH)/fstat(\1, \2)/' -e 's/^newfstatat(/fstatat(/' \
        -e 's/^faccessat2(/faccessat(/' -e 's/^\(fchmodat(.*\))  *=/\1, 0) =/' -e 's/^\(fcntl(.*F_GETFL) = \).*/\1FLAGS/' \
        "$1"
}

# ---- a C program, call by call ----

if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    strace -y -s 32 -o "$mp_dir/strace" "$program" "$here" "$mp_dir/local" && run -trace="all,$mp_dir/trace" "$program" /fwd "$mp_dir/local"
    theirs "$mp_dir/strace" | sed -n '/^chdir("\/")/,/^exit_group/p' | sed '$d' >"$mp_dir/theirs"
    ours "$mp_dir/trace" | sed -n '/^chdir("\/")/,$p' | sed 's/^\(fcntl(.*F_GETFL) = \).*/\1FLAGS/' >"$mp_dir/ours"
    { diff "$mp_dir/theirs" "$mp_dir/ours" && test "$(wc -l <"$mp_dir/ours")" -gt 35; } >"$mp_dir/out"
    mp_report $? "a C program: $(wc -l <"$mp_dir/ours") lines as strace's" "$mp_dir/out"

    # ---- cat and cp: the calls on their files; how they move the data depends on the file systems ----

    # files FILE: the lines that name a file in the directory, but for copying
    files() {
        grep -E '["<]@[/>"]' "$1" | grep -Ev '^(copy_file_range|read|write|ioctl|mmap|munmap|execve|fadvise64|lseek|flistxattr|fgetxattr|.*= -1 )'
    }
    for command in cat cp; do
        head -c 300000 /dev/zero >"$here/in"
        cp "$here/in" "$mp_dir/kept/in"
        rm -f "$here/out" "$mp_dir/kept/out" "$mp_dir/trace"
        out=out
        [ $command = cat ] && out=
        strace -y -o "$mp_dir/strace" $command "$here/in" ${out:+"$here/out"} >"$mp_dir/null"
        run -trace="$mp_dir/trace" $command /fwd/in ${out:+/fwd/out} >"$mp_dir/null"
        theirs "$mp_dir/strace" >"$mp_dir/theirs.all"
        ours "$mp_dir/trace" >"$mp_dir/ours.all"
        files "$mp_dir/theirs.all" >"$mp_dir/theirs"
        files "$mp_dir/ours.all" >"$mp_dir/ours"
        { diff "$mp_dir/theirs" "$mp_dir/ours" && test -s "$mp_dir/ours"; } >"$mp_dir/out"
        mp_report $? "$command: $(wc -l <"$mp_dir/ours") lines as strace's" "$mp_dir/out"
    done
else
    for name in "a C program" cat cp; do
        mp_skip "$name: lines as strace's" "no strace here, or it may not trace"
    done
fi

# ---- sides and times ----

rm -f "$mp_dir/trace"
IOFWD_PASSTHROUGH=0 run -trace="all,$mp_dir/trace" "$program" /fwd "$mp_dir/local"
awk '
    /\/fwd/ && !/<server [0-9]+, (request|[0-9]+ requests up to) [0-9sc]+-[0-9]+, [0-9.]+ us, [0-9.]+ us there(, [0-9.]+ us of them in the queue)?>$/ && !/dup2|close\(77/ { print "no server: " $0; bad = 1 }
    !/\/fwd/ && !/<local: [a-z ]+, [0-9.]+ us>$/ && !/ = \?$/ { print "not local: " $0; bad = 1 }
    sub(/, [0-9.]+ us of them in the queue>$/, ">") {}
    / us there>$/ { if ($(NF - 2) > $(NF - 4) + 0.2) { print "longer there than here: " $0; bad = 1 } n++ }
    END { print n + 0, "lines with a time of the server"; exit bad || n < 25 }' "$mp_dir/trace" >"$mp_dir/out"
mp_report $? "each line says which side decided, and how long it took there" "$mp_dir/out"

run -trace="$mp_dir/passed" python3 -c 'import os
fd = os.open("/fwd/passed", os.O_WRONLY | os.O_CREAT)
for i in range(9): os.write(fd, b"abc")' >"$mp_dir/out" 2>&1
cat "$mp_dir/passed" >>"$mp_dir/out"
[ "$(grep -Ec '^[0-9]+ write\([0-9]+</fwd/passed>, "abc", 3\) = 3  <passed, [0-9.]+ us>$' "$mp_dir/out")" -ge 5 ]
mp_report $? "calls by a descriptor that the server has passed are said to be" "$mp_dir/out"

# The time travels in the reply's header; here in the other byte order than this machine's.
rm -rf "$mp_dir/kept/"*
AMPHORA_SMP=0 AMPHORA_TEST_SWAP=1 IOFWD_TRACE=1 timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
    "$program" /fwd "$mp_dir/local" >"$mp_dir/out" 2>&1 </dev/null
! grep -q local: "$mp_dir/out" && awk '{ sub(/, [0-9.]+ us of them in the queue>$/, ">") } / us there>$/ { n++; bad += $(NF - 2) > $(NF - 4) + 0.2 } END { exit bad || n <= 25 }' "$mp_dir/out"
mp_report $? "on standard error, over a network in another byte order, without the local calls" "$mp_dir/out"

echo x >"$mp_dir/kept/here"
run -trace mv /fwd/here "$mp_dir/none/there" >"$mp_dir/out" 2>&1
grep -Eq '^[0-9]+ rename.*"/fwd/here".* = -1 (EXDEV|ENOENT) \(.*<(client|server)' "$mp_dir/out"
mp_report $? "a rename that fails is a line" "$mp_dir/out"

# awk and sort read by streams, which read by themselves.
printf 'b\na\n' >"$mp_dir/kept/lines"
run -trace="$mp_dir/stream" sort /fwd/lines >"$mp_dir/out" 2>&1
cat "$mp_dir/stream" >>"$mp_dir/out"
head -n 2 "$mp_dir/out" | tr -d '\n' | grep -qx ab && grep -Eq 'fopen.*"/fwd/lines"|open.*"/fwd/lines"' "$mp_dir/out" &&
    grep -Eq '^[0-9]+ read\([0-9]+</fwd/lines>, "b.na.n", [0-9]+\) = 4 ' "$mp_dir/out" && grep -Eq '^[0-9]+ fread.*</fwd/lines>\) = 4 ' "$mp_dir/out"
mp_report $? "what a stream reads is a line, and the function that made it read" "$mp_dir/out"

# What the coalescing layer keeps costs no request.
IOFWD_CONSISTENCY=session run -trace="$mp_dir/held" python3 -c 'import os
fd = os.open("/fwd/held", os.O_WRONLY | os.O_CREAT)
for i in range(4): os.write(fd, b"abc")
os.close(fd)' >"$mp_dir/out" 2>&1
cat "$mp_dir/held" >>"$mp_dir/out"
grep -Eq '^[0-9]+ write\([0-9]+</fwd/held>, "abc", 3\) = 3  <held, [0-9.]+ us>$' "$mp_dir/out"
mp_report $? "a write that is coalesced is held" "$mp_dir/out"

IOFWD_TRACE=1 timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
    "$builddir/tests/files/data/iofwd_files" >"$mp_dir/out" 2>&1 </dev/null
grep -Eq '^[0-9]+ mkdir\("/fwd/[0-9]+\.dir", 0700\) = -1 EEXIST \(File exists\)  <server' "$mp_dir/out"
mp_report $? "a program that uses iofwd.h" "$mp_dir/out"

if [ "$(uname -m)" = x86_64 ]; then
    run -trace="$mp_dir/number" python3 -c 'import ctypes
ctypes.CDLL(None).syscall(ctypes.c_long(87), b"/fwd/gone")' >"$mp_dir/out" 2>&1
    cat "$mp_dir/number" >>"$mp_dir/out"
    grep -Eq '^[0-9]+ syscall\(unlink, "/fwd/gone"\) = -1 ENOENT .*<server' "$mp_dir/out"
    mp_report $? "a call by syscall() is named, with its path" "$mp_dir/out"
else
    mp_skip "a call by syscall() is named, with its path" "the number is x86-64's"
fi

run -trace=/no/such/folder/trace true >"$mp_dir/out" 2>&1
test $? = 2 && grep -q 'no such folder' "$mp_dir/out"
mp_report $? "a trace into no folder is refused" "$mp_dir/out"
IOFWD_TRACE=/no/such/folder/trace run cat /fwd/lines >"$mp_dir/out" 2>&1
grep -q 'the trace goes to standard error' "$mp_dir/out" && grep -q 'open.*/fwd/lines' "$mp_dir/out"
mp_report $? "a file that cannot be opened is said, and the lines are not lost" "$mp_dir/out"

# ---- decisions ----

ln -s /fwd/lines "$mp_dir/link"
AMPHORA_LOG=debug run sh -c 'cat "$1"; tail -n 1 -f /fwd/lines & sleep=$!
    until grep -q polling "$2" 2>/dev/null; do sleep 0.02; done; kill $sleep' sh "$mp_dir/link" "$mp_dir/out" >"$mp_dir/out" 2>&1
grep -q ': /fwd/lines is forwarded, as /fwd/lines' "$mp_dir/out" && grep -q 'a symbolic link leads below a prefix, to /fwd/lines' "$mp_dir/out" &&
    grep -q 'inotify_add_watch is refused on a forwarded file: EOPNOTSUPP' "$mp_dir/out"
mp_report $? "AMPHORA_LOG=debug: prefixes, links, refusals" "$mp_dir/out"
AMPHORA_LOG=debug AMPHORA_LOG_FORMAT=json run cat /fwd/lines >"$mp_dir/null" 2>"$mp_dir/out"
grep -q '"level":"debug".*"pid":[0-9]*,"message":"/fwd/lines is forwarded' "$mp_dir/out" && ! grep -q '^amphora' "$mp_dir/out" &&
    { ! command -v python3 >/dev/null || python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin if line[0] == "{"]' <"$mp_dir/out"; }
mp_report $? "AMPHORA_LOG_FORMAT=json: decisions are objects too" "$mp_dir/out"
AMPHORA_LOG=debug timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 cat /fwd/lines >"$mp_dir/out" 2>&1
grep -q '/fwd/lines is lines in the export ' "$mp_dir/out"
mp_report $? "AMPHORA_LOG=debug: exports" "$mp_dir/out"

# ---- a line is one line ----

name=$(printf 'new\nline<\033>7')
# shellcheck disable=SC2016
run -trace="$mp_dir/trace.names" sh -c 'echo text >"$1"; cat "$1"' sh "/fwd/$name" >"$mp_dir/null" 2>&1
cp "$mp_dir/trace.names" "$mp_dir/out"
grep -qF '</fwd/new\nline\74\33\0767>' "$mp_dir/out" && ! grep -q '^line' "$mp_dir/out"
mp_report $? "control characters of an open file's name, as strace prints them" "$mp_dir/out"

AMPHORA_LOG=debug timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 cat "/fwd/none$name" >"$mp_dir/out" 2>&1
grep -qF '/fwd/nonenew\nline<\033>7 is forwarded' "$mp_dir/out" &&
    grep -qF ': open of /fwd/nonenew\nline<\033>7' "$mp_dir/out" && ! grep -q '^line' "$mp_dir/out"
mp_report $? "AMPHORA_LOG=debug: control characters of names, in lines of clients and servers" "$mp_dir/out"

# ---- off: one load and one branch that is not taken ----

if [ "$(uname -m)" = x86_64 ] && command -v gdb >/dev/null && ! mp_sanitized asan; then
    cat >"$mp_dir/at.c" <<'C'
#include <stddef.h>
#include <stdio.h>

#include "iofwd/interpose/entry/state.h"

int main(void)
{
    printf("%zu\n", offsetof(struct amph_ip_state, trace));
    return 0;
}
C
    ${CC:-gcc} -std=gnu11 -include "$builddir/config.h" -I"$builddir" -I"$srcdir" -I"$srcdir/include" -o "$mp_dir/at" "$mp_dir/at.c" || exit 99
    state=$(nm "$builddir/.libs/libiofwd_preload.so" | awk '$3 == "amph_ip_state" { print $1 }')
    at=${state:+$((0x$state + $("$mp_dir/at")))}
    for name in read write pread64 fstat lseek64 unlink; do
        # the instruction that looks at the byte, and the first branch behind it
        gdb -batch -nx -ex "disassemble $name" "$builddir/.libs/libiofwd_preload.so" 2>/dev/null |
            awk -v name="$name" -v at="$(printf '0x%x' "${at:-0}")" '
                index($0, "# " at " ") { touched++; want = 1; if ($0 !~ /\tcmpb /) print name ": more than a comparison: " $0; next }
                want && /\tj/ { if ($0 !~ /\tjn?e /) print name ": another branch: " $0; want = 0 }
                END { if (touched != 1) print name ": looks " touched + 0 " times" }'
    done >"$mp_dir/out"
    test -n "$at" && test ! -s "$mp_dir/out"
    mp_report $? "nothing traced: a caught call looks once, and branches once" "$mp_dir/out"
else
    mp_skip "nothing traced: a caught call looks once, and branches once" "it takes gdb and x86-64"
fi
mp_done
