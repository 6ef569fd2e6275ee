#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bad input for every way into a program: servers that cannot be found, program files that cannot be run, hosts that forbid a way.  Each
# ends after at most 10 s with one sentence and a non-zero exit code; where the servers are missing, or the host forbids the way,
# IOFWD_OPTIONAL=1 goes on without forwarding.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
trap 'kill -CONT $servers 2>/dev/null; mount_end "$mp_dir/at"' EXIT
unset IOFWD_STRICT IOFWD_OPTIONAL IOFWD_PREFIX AMPHORA_JOB AMPHORA_LOG
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR
bin=$mp_dir/bin
pre=$mp_dir/pre
mkdir -p -m 755 "$bin" "$pre" "$mp_dir/kept" "$mp_dir/at"
mkdir -m 700 "$XDG_RUNTIME_DIR"
chmod 755 "$mp_dir"
echo local >"$pre/in"
echo local >"$mp_dir/at/in"
echo kept >"$mp_dir/kept/in"
servers=
start_servers() {
    "$builddir/iofwd-server" -daemon -servers 2 -iofwd "$pre=$mp_dir/kept" -address-file "$addresses" -pid-file "$mp_dir/servers.pid" \
        >"$mp_dir/start" 2>&1 || { cat "$mp_dir/start"; exit 99; }
    servers="$(cat "$mp_dir/servers.pid") $(cat "/proc/$(cat "$mp_dir/servers.pid")/task/"*/children)"
}
start_servers

# The program prints a file, and says nothing if that fails.
cat >"$mp_dir/show.c" <<'X'
#include <stdio.h>
int main(int argc, char **argv)
{
    char text[64];
    FILE *f = fopen(argv[argc - 1], "r");
    return !f || !fgets(text, sizeof text, f) || fputs(text, stdout) < 0;
}
X
cc=${CC:-cc}
$cc -o "$bin/show" "$mp_dir/show.c" && "$builddir/iofwd-cc" $cc -o "$bin/wrapped" "$mp_dir/show.c" &&
    "$builddir/iofwd-instrument" -server "$addresses" -prefix "$pre" -o "$bin/instrumented" "$bin/show" || exit 99
ways="preload wrapper instrument mount trap iofwd-mount"
if $cc -static -o "$bin/static" "$mp_dir/show.c" 2>/dev/null && "$builddir/iofwd-cc" $cc -static -o "$bin/wrapped-static" "$mp_dir/show.c"; then
    ways="$ways wrapper-static"
fi

can() {
    "$@" >"$mp_dir/can" 2>&1 || tail -n 1 "$mp_dir/can"
}
no_mount=$(can "$builddir/iofwd-run" -servers "$addresses" -mount true)
no_trap=$(can "$builddir/iofwd-run" -servers "$addresses" -trap true)
[ -x "$MOUNT" ] || no_mount="iofwd-mount is not built"

# by WAY ADDRESS-FILE: prints the file of the servers, or the local one of that name
by() {
    bounded="timeout -k 1 25"
    case $1 in
    wrapper) $bounded env AMPHORA_JOB="$2" IOFWD_PREFIX="$pre" "$bin/wrapped" "$pre/in" ;;
    wrapper-static) $bounded env AMPHORA_JOB="$2" IOFWD_PREFIX="$pre" "$bin/wrapped-static" "$pre/in" ;;
    instrument) $bounded env AMPHORA_JOB="$2" "$bin/instrumented" "$pre/in" ;;
    iofwd-mount) $bounded "$MOUNT" -servers "$2" "$mp_dir/at" && "$bin/show" "$mp_dir/at/in" ;;
    *) $bounded "$builddir/iofwd-run" -servers "$2" "-$1" "$bin/show" "$pre/in" ;;
    esac
}

# possible WAY NAME: false after a skip
possible() {
    case $1 in
    mount | iofwd-mount) why=$no_mount ;;
    trap) why=$no_trap ;;
    *) why= ;;
    esac
    [ -z "$why" ] || mp_skip "$2" "$why"
    [ -z "$why" ]
}

# said FILE CODE MILLISECONDS: one sentence, an exit code that is not 0, and in time
said() {
    echo "exit code $2 after $3 ms"
    cat "$1"
    [ "$2" != 0 ] && [ "$3" -lt 12000 ] && [ "$(wc -l <"$1")" = 1 ] && grep -Eq '^(amphora|iofwd-[a-z]*)( -trap)?: .' "$1"
}

# fails COMMAND...: it does so
fails() {
    began=$(date +%s%N)
    "$@" >"$mp_dir/fails" 2>&1 </dev/null
    said "$mp_dir/fails" $? $((($(date +%s%N) - began) / 1000000))
}

# goes_on COMMAND...: with IOFWD_OPTIONAL it prints the local file, and says so
goes_on() {
    IOFWD_OPTIONAL=1
    export IOFWD_OPTIONAL
    "$@" >"$mp_dir/goes" 2>"$mp_dir/goes.errors" </dev/null
    code=$?
    unset IOFWD_OPTIONAL
    cat "$mp_dir/goes" "$mp_dir/goes.errors"
    [ $code = 0 ] && [ "$(cat "$mp_dir/goes")" = local ] && [ "$(grep -c 'IOFWD_OPTIONAL' "$mp_dir/goes.errors")" = 1 ] &&
        [ "$(wc -l <"$mp_dir/goes.errors")" = 2 ]
}

# ---- servers ----

works() {
    by "$1" "$addresses" >"$mp_dir/works"
    code=$?
    [ "$1" != iofwd-mount ] || mount_off "$mp_dir/at"
    [ $code = 0 ] && [ "$(cat "$mp_dir/works")" = kept ]
}
missing() {
    fails by "$1" "$2" && goes_on by "$1" "$2"
}
for way in $ways; do
    name="$way: the servers are found"
    possible $way "$name" || continue
    mp_try "$name" works $way
done

# Address files that are none, beside servers that answer.
: >"$mp_dir/empty"
head -c 3000 /dev/urandom >"$mp_dir/random"
mkfifo "$mp_dir/fifo"
sed '$d' "$addresses" >"$mp_dir/cut"
sed '/^prefix/d' "$addresses" >"$mp_dir/prefixless"
sed 's/^\(server .* .*\)....$/\1/' "$addresses" >"$mp_dir/short"
for way in $ways; do
    for cause in "an empty address file:empty" "random bytes:random" "a FIFO as address file:fifo" "an address file without its last line:cut" \
        "an address file without prefixes:prefixless" "an address file with shorter addresses:short"; do
        name="$way: ${cause%:*}: one sentence, or IOFWD_OPTIONAL goes on"
        possible $way "$name" || continue
        mp_try "$name" missing $way "$mp_dir/${cause#*:}"
    done
done
making() {
    fails "$builddir/iofwd-instrument" -server "$mp_dir/$1" -prefix "$pre" -o "$mp_dir/made" "$bin/show" && [ ! -e "$mp_dir/made" ]
}
for file in empty random fifo cut prefixless; do
    mp_try "instrument: built with an address file that is none: $file" making $file
done

# Hung servers: all ways at once, because each takes 10 s.  One user's runs by mount wait for each other, unless they have a folder each.
kill -STOP $servers
for way in $ways; do
    for optional in 0 1; do
        {
            began=$(date +%s%N)
            mkdir -m 700 "$mp_dir/runtime.$way.$optional"
            XDG_RUNTIME_DIR=$mp_dir/runtime.$way.$optional IOFWD_OPTIONAL=$optional by $way "$addresses" >"$mp_dir/hung.$way.$optional" 2>&1 </dev/null
            echo "$? $((($(date +%s%N) - began) / 1000000))" >"$mp_dir/hung.$way.$optional.end"
        } &
        hung="${hung:-} $!"
    done
done
# The ranks of one program share a folder, and the wait.
mkdir -m 700 "$mp_dir/runtime.ranks"
for rank in 0 1 2 3; do
    {
        began=$(date +%s%N)
        XDG_RUNTIME_DIR=$mp_dir/runtime.ranks by mount "$addresses" >"$mp_dir/rank.$rank" 2>&1 </dev/null
        echo "$? $((($(date +%s%N) - began) / 1000000))" >"$mp_dir/rank.$rank.end"
    } &
    hung="$hung $!"
done
wait $hung
kill -CONT $servers
ranks() {
    for rank in 0 1 2 3; do
        read -r code ms <"$mp_dir/rank.$rank.end"
        said "$mp_dir/rank.$rank" "$code" "$ms" || return 1
    done
}
name="mount: four ranks beside servers that do not answer wait at the same time"
possible mount "$name" && mp_try "$name" ranks
hung() {
    read -r code ms <"$mp_dir/hung.$1.0.end"
    said "$mp_dir/hung.$1.0" "$code" "$ms" || return 1
    read -r code ms <"$mp_dir/hung.$1.1.end"
    echo "exit code $code after $ms ms"
    cat "$mp_dir/hung.$1.1"
    [ "$code" = 0 ] && [ "$ms" -lt 13000 ] && grep -qx local "$mp_dir/hung.$1.1" && grep -q IOFWD_OPTIONAL "$mp_dir/hung.$1.1"
}
cp "$addresses" "$mp_dir/old"
head -n 2 "$addresses" >"$mp_dir/damaged"
kill "$(cat "$mp_dir/servers.pid")"
mp_until 10 test ! -e "$addresses"
for way in $ways; do
    for cause in "no address file:none" "a damaged address file:damaged" "servers that have ended:old" "servers that do not answer:"; do
        name="$way: ${cause%:*}: one sentence, or IOFWD_OPTIONAL goes on"
        possible $way "$name" || continue
        if [ -n "${cause#*:}" ]; then
            mp_try "$name" missing $way "$mp_dir/${cause#*:}"
        else
            mp_try "$name" hung $way
        fi
    done
done
start_servers

# IOFWD_OPTIONAL decides for all that the program starts, and only before the first forwarded call.
children() {
    # shellcheck disable=SC2016
    goes_on "$builddir/iofwd-run" -servers "$mp_dir/old" -preload sh -c '[ -e "$2/in" ] && "$1" "$2/in" && ! "$1" "$2/none"' sh "$bin/show" "$pre"
}
mp_try "preload: what the program starts goes on in silence" children

# ---- program files ----

cp "$bin/show" "$bin/stripped"
strip "$bin/stripped"
"$builddir/iofwd-instrument" -server "$addresses" -prefix "$pre" -o "$bin/stripped-instrumented" "$bin/stripped"
cp "$bin/wrapped" "$bin/stripped-wrapped"
strip "$bin/stripped-wrapped"
echo text >"$bin/text"
echo '#!/nowhere/sh' >"$bin/orphan"
head -c 100 "$bin/show" >"$bin/cut-100"
head -c 3000 "$bin/show" >"$bin/cut-3000"
{ head -c 64 "$bin/show" && seq 3000; } >"$bin/overwritten"
cp "$bin/show" "$bin/other-machine"
case $(uname -m) in x86_64) machine='\267' ;; *) machine='\076' ;; esac
printf "$machine" | dd of="$bin/other-machine" bs=1 seek=18 conv=notrunc 2>/dev/null
chmod 755 "$bin"/*

stripped() {
    case $1 in
    wrapper) env AMPHORA_JOB="$addresses" IOFWD_PREFIX="$pre" "$bin/stripped-wrapped" "$pre/in" ;;
    instrument) "$bin/stripped-instrumented" "$pre/in" ;;
    *) "$builddir/iofwd-run" -servers "$addresses" "-$1" "$bin/stripped" "$pre/in" ;;
    esac >"$mp_dir/works" && [ "$(cat "$mp_dir/works")" = kept ]
}
for way in preload wrapper instrument mount trap; do
    possible $way "$way: a stripped program" || continue
    mp_try "$way: a stripped program" stripped $way
done
run_bad() {
    case $1 in
    instrument) fails "$builddir/iofwd-instrument" -o "$mp_dir/made" "$bin/$2" && [ ! -e "$mp_dir/made" ] ;;
    any) fails "$builddir/iofwd-run" -servers "$addresses" "$bin/$2" "$pre/in" ;;
    wrapper) ! "$builddir/iofwd-cc" $cc -o "$mp_dir/made" "$bin/$2" && [ ! -e "$mp_dir/made" ] ;;
    *)
        IOFWD_STRICT=1
        export IOFWD_STRICT
        fails "$builddir/iofwd-run" -servers "$addresses" "-$1" "$bin/$2" "$pre/in"
        set -- $?
        unset IOFWD_STRICT
        return "$1"
        ;;
    esac
}
for file in text cut-100 cut-3000 overwritten other-machine; do
    for way in any preload wrapper instrument mount trap; do
        possible $way "$way: $file" || continue
        mp_try "$way: $file" run_bad $way $file
    done
done
orphan() {
    run_bad "$1" orphan && grep "the interpreter or loader that it names does not exist" "$mp_dir/fails"
}
for way in any preload mount trap; do
    possible $way "$way: a script whose interpreter is missing" || continue
    mp_try "$way: a script whose interpreter is missing" orphan $way
done

# Set-uid: to the dynamic linker and to the servers the program is another user's.
set_uid() {
    case $1 in
    preload) IOFWD_STRICT=1 fails "$builddir/iofwd-run" -servers "$addresses" -preload "$bin/set-uid" "$pre/in" ;;
    instrument) fails "$builddir/iofwd-instrument" -o "$mp_dir/made" "$bin/set-uid" ;;
    wrapper) fails env AMPHORA_JOB="$addresses" IOFWD_PREFIX="$pre" "$bin/set-uid-wrapped" "$pre/in" ;;
    *) "$builddir/iofwd-run" -servers "$addresses" "-$1" "$bin/set-uid" "$pre/in" >"$mp_dir/works" && [ "$(cat "$mp_dir/works")" = kept ] ;;
    esac
}
cp "$bin/show" "$bin/set-uid"
cp "$bin/wrapped-static" "$bin/set-uid-wrapped" 2>/dev/null
why=
if [ "$(id -u)" != 0 ] || ! chown 65534 "$bin/set-uid" "$bin/set-uid-wrapped"; then
    why="not root, or no static programs"
elif ! chmod 4755 "$bin/set-uid" "$bin/set-uid-wrapped" || findmnt -no OPTIONS -T "$bin" | grep -q nosuid; then
    why="the file system of the test has no set-uid programs"
fi
for way in preload wrapper instrument mount trap; do
    name="$way: a set-uid program"
    possible $way "$name" || continue
    if [ -n "$why" ]; then
        mp_skip "$name" "$why"
    else
        mp_try "$name" set_uid $way
    fi
done

# ---- hosts ----

# without CALL...: these system calls are forbidden
cat >"$mp_dir/without" <<'X'
#!/usr/bin/env python3
import ctypes, os, struct, sys
numbers = {"x86_64": {"unshare": 272, "seccomp": 317}, "aarch64": {"unshare": 97, "seccomp": 277}}[os.uname().machine]
forbidden = [numbers[name] for name in sys.argv[1].split(",")]
rows = [(0x20, 0, 0, 0)]  # EPERM for these, all else is allowed
for number in forbidden:
    rows += [(0x15, 0, 1, number), (6, 0, 0, 0x50001)]
rows.append((6, 0, 0, 0x7fff0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)), 0, 0):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
X
chmod +x "$mp_dir/without"
no_device() {
    unshare -m sh -c 'mount --bind /dev/fuse /dev/fuse && mount -o remount,bind,nodev /dev/fuse && exec "$@"' sh "$@"
}
by_run() {
    way=$1
    shift
    "$@" "$builddir/iofwd-run" -servers "$addresses" "-$way" "$bin/show" "$pre/in"
}
mount_then_show() {
    "$@" "$MOUNT" -servers "$addresses" "$mp_dir/at" && "$bin/show" "$mp_dir/at/in"
}
forbidden() {
    fails "$@" && goes_on "$@"
}
for case in "mount: /dev/fuse cannot be opened:by_run mount no_device" "mount: user namespaces are forbidden:by_run mount $mp_dir/without unshare" \
    "trap: the kernel refuses the filter:by_run trap $mp_dir/without seccomp" "iofwd-mount: /dev/fuse cannot be opened:mount_then_show no_device"; do
    name=${case%:*}
    possible "${name%%:*}" "$name" || continue
    # shellcheck disable=SC2086
    mp_try "$name: one sentence, or IOFWD_OPTIONAL goes on" forbidden ${case##*:}
done

mount_point() {
    fails "$MOUNT" -servers "$addresses" "$1" && IOFWD_OPTIONAL=1 fails "$MOUNT" -servers "$addresses" "$1"
}
in_use() {
    mount_on "$mp_dir/at" && mount_point "$mp_dir/at"
    code=$?
    mount_off "$mp_dir/at"
    return $code
}
for case in "a mount point in use:in_use" "a mount point that does not exist:mount_point $mp_dir/nowhere" \
    "a mount point that is a file:mount_point $pre/in"; do
    name="iofwd-mount: ${case%:*}"
    possible mount "$name" || continue
    # shellcheck disable=SC2086
    mp_try "$name" ${case#*:}
done

# No way is left for a static program: it runs on local files after one sentence, and not at all with IOFWD_STRICT.
none_left() {
    "$mp_dir/without" unshare,seccomp "$builddir/iofwd-run" -servers "$addresses" "$bin/static" "$pre/in" >"$mp_dir/goes" 2>&1
    cat "$mp_dir/goes"
    [ "$(tail -n 1 "$mp_dir/goes")" = local ] && [ "$(wc -l <"$mp_dir/goes")" = 2 ] &&
        grep -q 'statically linked.*mount is not possible: user namespaces are forbidden.*trap is not: the kernel refuses' "$mp_dir/goes" &&
        ! grep -q 'iofwd-run -mount runs the program' "$mp_dir/goes" &&
        fails env IOFWD_STRICT=1 "$mp_dir/without" unshare,seccomp "$builddir/iofwd-run" -servers "$addresses" "$bin/static" "$pre/in"
}
if [ -x "$bin/static" ] && [ -z "$no_mount$no_trap" ]; then
    mp_try "no way is left for a static program" none_left
else
    mp_skip "no way is left for a static program" "$no_mount$no_trap"
fi
mp_done
