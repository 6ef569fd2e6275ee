#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-run picks the way into a program by itself: preload, else mount, else trap; -v says which and why, and IOFWD_STRICT=1 refuses only
# what no way can forward.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "the choice of the way"
trap 'mount_end "$mp_dir/m"' EXIT
mount_off "$mp_dir/m"
unset IOFWD_STRICT IOFWD_PREFIX AMPHORA_JOB AMPHORA_LOG
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"
bin=$mp_dir/bin
mkdir "$bin"
cc=${CC:-cc}

# Each program copies its standard input to the file that it is given.
cat >"$mp_dir/put.c" <<'X'
#include <fcntl.h>
#include <unistd.h>
#ifdef GO
__attribute__((section(".note.go.buildid"), used, aligned(4))) static const struct { unsigned n[3]; char name[4], id[4]; } note = {
    { 3, 4, 4 }, "Go", "id" };
#endif
int main(int argc, char **argv)
{
    char bytes[4096];
    int fd = open(argv[argc - 1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n = read(0, bytes, sizeof bytes);
    return fd < 0 || n <= 0 || write(fd, bytes, (size_t)n) != n;
}
X
if ! $cc -o "$bin/dynamic" "$mp_dir/put.c" || ! $cc -static -o "$bin/static" "$mp_dir/put.c" || ! $cc -DGO -o "$bin/go" "$mp_dir/put.c"; then
    echo "1..0 # SKIP no static programs can be linked here"
    exit 0
fi
printf '#!%s/static\n' "$bin" >"$bin/script"
chmod +x "$bin/script"

run() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" "$@"
}

# puts WAY WHY PROGRAM: iofwd-run -v takes this way and says why, and the data arrives
puts() {
    rm -f "$mp_dir/kept/put"
    echo "by $1" | $within "$builddir/iofwd-run" -servers "$addresses" -v "$bin/$3" /fwd/put >"$mp_dir/out" 2>&1 &&
        grep -q "^iofwd-run: the way into .*/$3 is $1: .*$2" "$mp_dir/out" && [ "$(wc -l <"$mp_dir/out")" = 1 ] &&
        [ "$(cat "$mp_dir/kept/put")" = "by $1" ]
    mp_report $? "$4" "$mp_dir/out"
}

within="timeout -k 5 60"
puts preload "the library catches its calls" dynamic "a dynamic program is preloaded"
puts mount "statically linked" static "a static program finds the prefix mounted"
puts mount "Go code" go "a program with Go code finds it mounted"

# A script's own name is its interpreter's first argument.
rm -f "$mp_dir/kept/put"
echo text | run -v "$bin/script" /fwd/put >"$mp_dir/out" 2>&1 && grep -q "/script is mount" "$mp_dir/out" && [ "$(cat "$mp_dir/kept/put")" = text ]
mp_report $? "a script is judged by its interpreter" "$mp_dir/out"

rm -f "$mp_dir/kept/put"
echo text | run -v -preload "$bin/dynamic" /fwd/put >"$mp_dir/out" 2>&1 &&
    grep -q "/dynamic is preload: an option says so" "$mp_dir/out" && [ "$(cat "$mp_dir/kept/put")" = text ]
mp_report $? "-v names the way that an option gives" "$mp_dir/out"

# Hosts that allow less: one whose /dev/fuse cannot be opened, and one that forbids user namespaces.
cat >"$mp_dir/nofuse" <<'X'
#!/bin/sh
exec unshare -m sh -c 'mount --bind /dev/fuse /dev/fuse && mount -o remount,bind,nodev /dev/fuse && exec timeout -k 5 60 "$@"' sh "$@"
X
cat >"$mp_dir/nospace" <<'X'
#!/usr/bin/env python3
import ctypes, os, struct, sys
numbers = {"x86_64": [272, 317], "aarch64": [97, 277]}[os.uname().machine]  # unshare, seccomp
numbers = numbers if sys.argv[0].endswith("noway") else numbers[:1]
rows = [(0x20, 0, 0, 0)]  # EPERM for them, all else is allowed
for number in numbers:
    rows += [(0x15, 0, 1, number), (6, 0, 0, 0x50001)]
rows += [(6, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)), 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp("timeout", ["timeout", "-k", "5", "60"] + sys.argv[1:])
X
chmod +x "$mp_dir/nofuse" "$mp_dir/nospace"
cp "$mp_dir/nospace" "$mp_dir/noway"
traps=no
if "$mp_dir/nofuse" "$builddir/iofwd-run" -servers "$addresses" -trap busybox true >"$mp_dir/out" 2>&1; then
    traps=yes
fi
if [ $traps = yes ]; then
    within=$mp_dir/nofuse
    puts trap "mount is not possible: /dev/fuse cannot be opened" static "without /dev/fuse a static program is trapped"
    puts preload "the library catches its calls" dynamic "without /dev/fuse a dynamic program is preloaded"
    within=$mp_dir/nospace
    puts trap "mount is not possible: user namespaces are forbidden" static "where namespaces are forbidden it is trapped"
else
    for name in "without /dev/fuse a static program is trapped" "without /dev/fuse a dynamic program is preloaded" \
        "where namespaces are forbidden it is trapped"; do
        mp_skip "$name" "$(tail -n 1 "$mp_dir/out")"
    done
fi

# A host that forbids user namespaces and filters.
says_why() {
    echo text | "$mp_dir/noway" "$builddir/iofwd-run" -servers "$addresses" "$bin/static" "$mp_dir/local" >"$mp_dir/out" 2>&1
    [ $? = "$1" ] && grep -q "static is statically linked.*; mount is not possible: .*trap is not: " "$mp_dir/out" &&
        [ "$(wc -l <"$mp_dir/out")" = 1 ]
}
says_why 0 && [ "$(cat "$mp_dir/local")" = text ]
mp_report $? "a program that no way reaches runs after a warning" "$mp_dir/out"
echo text | "$mp_dir/noway" "$builddir/iofwd-run" -servers "$addresses" -v "$bin/static" "$mp_dir/local" >"$mp_dir/out" 2>&1 &&
    grep -q "^iofwd-run: no way into .*/static suits" "$mp_dir/out" && ! grep -q "is preload" "$mp_dir/out"
mp_report $? "then -v names no way" "$mp_dir/out"
rm "$mp_dir/local"
IOFWD_STRICT=1
export IOFWD_STRICT
says_why 126 && [ ! -e "$mp_dir/local" ]
mp_report $? "IOFWD_STRICT=1 refuses it" "$mp_dir/out"
within="timeout -k 5 60"
puts mount "statically linked" static "IOFWD_STRICT=1 does not refuse what can be mounted"
unset IOFWD_STRICT

# One way only.
other=$(find "$builddir/.libs" -name 'libamphora.so' | head -n 1)
mp_try "the other ways take our library out of LD_PRELOAD, and leave others" sh -c '
    for way in mount trap; do
        [ $way = mount ] || [ $3 = yes ] || continue
        LD_PRELOAD=$1:$2 "$4/iofwd-run" -servers "$5" -$way busybox sh -c "echo \"\$LD_PRELOAD\"" >"$6" || exit 1
        cat "$6"
        [ "$(cat "$6")" = "$2" ] || exit 1
    done' sh "$builddir/.libs/libiofwd_preload.so" "$other" $traps "$builddir" "$addresses" "$mp_dir/list"
mp_try "two ways at once are refused" sh -c '"$@" -mount --trap true; [ $? = 2 ]' sh "$builddir/iofwd-run" -servers "$addresses"
mp_try "two dashes name a way, too" sh -c '"$@" --preload --v true 2>&1' sh "$builddir/iofwd-run" -servers "$addresses"
mp_try "--check names the way from the file" sh -c '"$1" --check "$2/dynamic" | grep "^way: preload" && ! "$1" --check "$2/static" >"$3" &&
    grep "^way: mount, else trap" "$3"' sh "$builddir/iofwd-run" "$bin" "$mp_dir/said"

# A preloaded shell that starts a static program: the warning names the way that forwards both.
nested() {
    rm -f "$mp_dir/kept/nested"
    # shellcheck disable=SC2016
    echo text | run "$@" sh -c '"$1/static" /fwd/nested; :' sh "$bin" >"$mp_dir/out" 2>&1
}
nested
grep -q 'static is statically linked.*start it, or what starts it, by "iofwd-run -mount"' "$mp_dir/out" && [ ! -e "$mp_dir/kept/nested" ]
mp_report $? "a static program that a preloaded shell starts is named, with the remedy" "$mp_dir/out"
nested -mount
[ ! -s "$mp_dir/out" ] && [ "$(cat "$mp_dir/kept/nested")" = text ]
mp_report $? "the remedy forwards both" "$mp_dir/out"

# A program that only the servers have, below a prefix.
mkdir "$mp_dir/kept/a b"
printf '#!/bin/sh\nprintf "%%s\\n" "$0" "$@"; cat >/fwd/put\n' >"$mp_dir/kept/a b/words"
cp "$bin/dynamic" "$mp_dir/kept/put=1"
ln -s /bin/cat "$mp_dir/kept/link"
chmod +x "$mp_dir/kept/a b/words"

# words COMMAND...: does it start the script with all its words?
words() {
    rm -f "$mp_dir/kept/put"
    echo text | timeout -k 5 60 "$@" "/fwd/a b/words" "two  words" '' "\$x" >"$mp_dir/out" 2>&1
    words_code=$?
    printf '%s\n' "/fwd/a b/words" "two  words" '' "\$x" | cmp - "$mp_dir/out" && [ $words_code = 0 ] && [ "$(cat "$mp_dir/kept/put")" = text ]
}
words "$builddir/iofwd-run" -servers "$addresses"
mp_report $? "a script below a prefix is started with all its words" "$mp_dir/out"
words "$builddir/iofwd-run" -servers "$addresses" -mount
mp_report $? "the same by -mount" "$mp_dir/out"
words "$builddir/amphora-run" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept"
mp_report $? "amphora-run starts it, too" "$mp_dir/out"
echo linked >"$mp_dir/kept/read"
echo binary | run "/fwd/put=1" /fwd/put && [ "$(cat "$mp_dir/kept/put")" = binary ] && [ "$(run /fwd/link /fwd/read)" = linked ]
mp_report $? "so are a program, and a link to one of this host" "$mp_dir/out"

# The same along PATH: the servers' directory comes first, as that of a Python environment that has been activated.
mkdir -p "$mp_dir/kept/venv"
printf '#!/bin/sh\necho "there $*"\n' >"$mp_dir/kept/venv/basename"
chmod +x "$mp_dir/kept/venv/basename"
path_before=$PATH
along() {
    PATH=/fwd/venv:$path_before "$@" >"$mp_dir/out" 2>&1
}
along run basename a/b && echo "there a/b" | cmp - "$mp_dir/out" && along run dirname a/b && echo a | cmp - "$mp_dir/out" &&
    along run -mount basename a/b && echo "there a/b" | cmp - "$mp_dir/out" && along run -trap basename a/b && echo b | cmp - "$mp_dir/out" &&
    PATH=$path_before:/fwd/venv run basename a/b >"$mp_dir/out" && echo b | cmp - "$mp_dir/out" && { along run nowhere; [ $? = 127 ]; }
mp_report $? "a program of the servers is found along PATH, in its order" "$mp_dir/out"
cp "$bin/static" "$mp_dir/static"
echo static | PATH=/fwd/venv:$mp_dir:$path_before run -v static /fwd/put >"$mp_dir/out" 2>&1 && grep -q "/static is mount" "$mp_dir/out" &&
    [ "$(cat "$mp_dir/kept/put")" = static ]
mp_report $? "a static program of this host is not started by preload therefore" "$mp_dir/out"
along "$builddir/amphora-run" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" basename a/b && echo "there a/b" | cmp - "$mp_dir/out"
mp_report $? "amphora-run finds it, too" "$mp_dir/out"

# Variables whose names a shell does not accept, such as functions that bash exports, are the program's.
names() {
    env -i 'a.b=1' 'BASH_FUNC_module%%=() { :; }' PATH="$PATH" "$@" /fwd/env >"$mp_dir/out" 2>&1
    grep -q '^a\.b=1$' "$mp_dir/out" && grep -q '^BASH_FUNC_module%%=() {' "$mp_dir/out"
}
cp "$(command -v env)" "$mp_dir/kept/env"
names "$builddir/iofwd-run" -servers "$addresses" && names "$builddir/amphora-run" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept"
mp_report $? "it gets the whole environment" "$mp_dir/out"

along_check() {
    PATH=/fwd/venv:$path_before run -check "$@"
}

# refuses CODE SENTENCE OPTION... PROGRAM
refuses() {
    refuses_code=$1 refuses_pattern=$2
    shift 2
    run "$@" >"$mp_dir/out" 2>&1
    [ $? = "$refuses_code" ] && grep -q "$refuses_pattern" "$mp_dir/out" && [ "$(wc -l <"$mp_dir/out")" = 1 ]
}
refuses 127 "cannot start /fwd/none: No such file" /fwd/none && refuses 127 "cannot start /fwdx/none: No such file" /fwdx/none
mp_report $? "one that the servers do not have either is not found" "$mp_dir/out"
timeout -k 5 60 "$builddir/iofwd-run" -servers "$mp_dir/none" -wait 50 -iofwd /fwd /fwdx/none >"$mp_dir/out" 2>&1
code=$?
timeout -k 5 60 "$builddir/iofwd-run" -servers "$mp_dir/none" /fwd/none >>"$mp_dir/out" 2>&1
[ $code$? = 127127 ] && [ "$(wc -l <"$mp_dir/out")" = 3 ] && [ "$(grep -c 'cannot start /.*/none: No such file' "$mp_dir/out")" = 2 ]
mp_report $? "it is so before and without servers, too" "$mp_dir/out"
refuses 126 "cannot start /fwd/link by -trap: .*leave out -trap" -trap /fwd/link
mp_report $? "-trap refuses it, with the remedy" "$mp_dir/out"

# -check reads the file that the servers have, and does not start it.
checks() {
    checks_code=$1 checks_pattern=$2
    shift 2
    "$@" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    echo "exit code $code" >>"$mp_dir/out"
    [ $code = "$checks_code" ] && grep -q "$checks_pattern" "$mp_dir/out"
}
cp "$bin/static" "$mp_dir/kept/still"
checks 0 '^way: preload' run -check /fwd/put=1 && grep -q '^/fwd/put=1: a [0-9]*-bit program for' "$mp_dir/out" && grep -q '^calls: .* are forwarded:' "$mp_dir/out" &&
    checks 1 '^way: mount' run -check /fwd/still && checks 0 '^/fwd/venv/basename: a script; its interpreter /bin/sh is ' along_check basename &&
    checks 0 '^way: preload' run -check "$bin/dynamic"
mp_report $? "-check looks at the file that the servers have" "$mp_dir/out"
checks 127 "cannot start /fwd/none: No such file" run -check /fwd/none && [ "$(wc -l <"$mp_dir/out")" = 2 ] &&
    checks 127 "only this host was searched: there is no address file of servers" env XDG_RUNTIME_DIR="$mp_dir/empty" "$builddir/iofwd-run" -check /fwd/none &&
    checks 127 "there is no address file $mp_dir/none" "$builddir/iofwd-run" -servers "$mp_dir/none" -check /fwd/none
mp_report $? "it says where it did not look" "$mp_dir/out"

# What the choice costs a preloaded program: no system call more than if the way was given.
name="the choice costs a preloaded program no system call"
name2="the linker looks for our libraries in no directory that lacks them"
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    own=$(find "$builddir" -maxdepth 2 -path "*/.libs/iofwd-run" | head -n 1)
    for way in "" -preload; do
        # shellcheck disable=SC2086
        strace -f -c -o "$mp_dir/calls$way" "${own:-$builddir/iofwd-run}" -servers "$addresses" $way true >/dev/null 2>&1
    done
    tail -n 1 "$mp_dir/calls" "$mp_dir/calls-preload" >"$mp_dir/out"
    [ "$(awk 'END { print $(NF - 2) + 0 }' "$mp_dir/calls")" = "$(awk 'END { print $(NF - 2) + 0 }' "$mp_dir/calls-preload")" ]
    mp_report $? "$name" "$mp_dir/out"

    echo text >"$mp_dir/kept/searched"
    strace -f -e trace=open,openat -o "$mp_dir/opens" "${own:-$builddir/iofwd-run}" -servers "$addresses" -preload cat /fwd/searched >"$mp_dir/out" 2>&1
    [ "$(cat "$mp_dir/out")" = text ] && ! grep -E 'lib(amphora|iofwd)[^"]*" *, .*ENOENT' "$mp_dir/opens" >"$mp_dir/out"
    mp_report $? "$name2" "$mp_dir/out"
else
    mp_skip "$name" "strace cannot be used here"
    mp_skip "$name2" "strace cannot be used here"
fi
mp_done
