#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The ways there are to name a file: two names at two servers, other processes' descriptors, walks that change directory.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
names=$builddir/tests/files/calls/fwd_names

# As in fwd_lib.sh, but at standing servers, where the processes of a program have servers of their own in turn.
fwd_servers() {
    fwd_kept=$1
    shift
    rm -f "$mp_dir/addresses"
    AMPHORA_STATS=1 "$builddir/iofwd-server" -daemon -foreground -servers 3 -iofwd "/fwd=$fwd_kept" \
        -address-file "$mp_dir/addresses" >"$mp_dir/stats" 2>&1 &
    fwd_server=$!
    timeout -k 5 110 "$builddir/iofwd-run" -servers "$mp_dir/addresses" -wait 30 sh -c 'exec "$@" 2>&1' sh "$@" </dev/null
    fwd_code=$?
    kill $fwd_server
    wait $fwd_server
    return $fwd_code
}

fwd_both "two names at two servers" "$names" pairs

cat >"$mp_dir/numbers" <<'X'
cd "$1"
export LC_ALL=C
printf 'a\nb\n' >in
exec 3<in 4>out 5<. 6<>both
read x <&3; echo "$x"; cat /dev/fd/3; cat /proc/self/fd/3; cat <&3
cat /proc/$$/fd/3; cat "/proc/$$/task/$$/fd/3"; cat /proc/thread-self/fd/3; sh -c 'cat /proc/$PPID/fd/3'
echo one >/proc/$$/fd/4; echo two >&4; cat out; echo three >>/dev/fd/4; cat out; sh -c 'echo four >/proc/$PPID/fd/4'; cat out
mv in moved; cat /dev/fd/3; rm moved; cat /dev/fd/3 /proc/$$/fd/3; sh -c 'cat /proc/$PPID/fd/3'
echo nameless; ls -l /proc/self/fd | awk '$9 > 3 && $9 < 7 { print $1, $9, $11, $12 }'; stat -c %A /dev/fd/4; stat -L -c %F /dev/fd/4
readlink /proc/self/fd/4 /proc/$$/fd/4 /dev/fd/4 /proc/self/cwd; readlink -f /dev/fd/4 /proc/$$/fd/4 /proc/self/cwd
realpath /dev/fd/4 /proc/self/fd/5/out /proc/self/cwd/out; cat /proc/self/fd/5/out /proc/$$/fd/5/out; cat /proc/self/cwd/out; ls /proc/self/fd/5/ /proc/self/cwd/
cat /proc/self/fd/4/x /proc/self/fd/77 /proc/self/fd/5/nothing 2>&1; cd /proc/$$/fd && cat 4 && readlink 4; cd "$1"
chmod 751 /proc/$$/fd/4; stat -c %a out; truncate -s 2 /proc/self/fd/4; stat -c %s out; find /proc/self/fd -name 6 -printf '%y %l\n'
sleep 20 </dev/fd/6 & sleep=$!
while [ "$(cat "/proc/$sleep/comm")" != sleep ]; do :; done
echo both >/dev/fd/6; cat "/proc/$sleep/fd/6"; cat "/proc/$sleep/fd/0"; kill $sleep
X
fwd_both "files by the numbers of descriptors" bash "$mp_dir/numbers"
fwd_both "what a number's name can do" "$names" numbers
IOFWD_STRIPE=2:4K fwd_both "what a number's name can do, two servers" "$names" numbers
fwd_both "a working directory that has been removed" "$names" gone
fwd_both "walks that change directory" "$names" walks

mkdir -p "$mp_dir/t/tmp"
(
    TMPDIR=/fwd/tmp
    export TMPDIR
    fwd_servers "$mp_dir/t" sh -c 'mktemp >/dev/null && ls "$TMPDIR" | wc -l'
) >"$mp_dir/out" 2>&1
grep -qx 1 "$mp_dir/out" && test "$(find "$mp_dir/t/tmp" -name 'tmp.*' | wc -l)" = 1
mp_report $? "TMPDIR may lie below a prefix" "$mp_dir/out"
mp_done
