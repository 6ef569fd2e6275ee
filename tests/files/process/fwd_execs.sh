#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is open and locked at the server, or in programs that open files by themselves (fwd_is_near), while a program runs whose parent has ended: the files that the program has inherited, and no
# others, however it was started and though it makes no call.  Another user who is executed finds nothing of its parent's.
AMPHORA_LOG=error # no warning of static programs (fwd_bypass.sh)
export AMPHORA_LOG
if [ "${EXECS_INSIDE:-}" != 1 ] && unshare -m mount -t tmpfs none /mnt 2>/dev/null; then
    EXECS_INSIDE=1 exec unshare -m sh "$0"
fi
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
kept=$mp_dir/kept
program=$builddir/tests/files/process/fwd_execs
go=$mp_dir/go
mkdir -p "$kept/m"
mkfifo "$go"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
if [ "${EXECS_INSIDE:-}" = 1 ]; then
    mount -t tmpfs none "$kept/m" || exit 1
fi
timeout 300 "$builddir/iofwd-server" -daemon -iofwd "/fwd=$kept" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >/dev/null ||
    exit 1
pid=$(awk '/^server/ { print $3 }' "$mp_dir/addresses")

# with COMMAND...: runs it with its files forwarded, on the host $on if there is one
on=''
with() {
    ${on:+fwd_on_host "$on"} timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" "$@"
}

# state FILE: is it open at the server, and locked?
state() {
    fwd_holders "$pid" "$kept/$1" | grep -q . && state_open=open || state_open=closed
    flock -n "$kept/$1" true && state_locked=free || state_locked=locked
    echo "$state_open $state_locked"
}
is() {
    [ "$(state "$1")" = "$2 $3" ]
}
# soon FILE OPEN LOCKED: it is, or will be within some seconds
soon() {
    mp_until 10 is "$@" || echo "$1 is $(state "$1"), not $2 $3"
}

# starts NAME WAY CLOSED KEPT COMMAND: while the command, which reads the pipe "go", runs without its parent, the file "closed" is in the
# state CLOSED and "kept" in the state KEPT (-: not opened); afterwards both are closed
starts() {
    starts_name="${on:+over a network, }$2: $1"
    mp_wanted "$starts_name" || return 0
    starts_closed=closed starts_kept=kept
    [ "$3" = - ] && starts_closed=-
    [ "$4" = - ] && starts_kept=-
    : >"$kept/closed"
    : >"$kept/kept"
    {
        # shellcheck disable=SC2046 # two names
        with "$program" "$2" $(for name in $starts_closed $starts_kept; do [ $name = - ] && echo - || echo "/fwd/$name"; done) "$5" &
        exec 6>"$go"
        [ "$2" = exec ] || wait $!
        # shellcheck disable=SC2086 # two words
        [ "$3" = - ] || soon closed $3
        # shellcheck disable=SC2086
        [ "$4" = - ] || soon kept $4
        sleep 0.1 # and it remains so
        # shellcheck disable=SC2086
        [ "$4" = - ] || soon kept $4
        echo word >&6
        exec 6>&-
        wait
        soon closed closed free
        soon kept closed free
    } >"$mp_dir/out" 2>&1
    test ! -s "$mp_dir/out"
    mp_report $? "$starts_name" "$mp_dir/out"
}

# The command makes no forwarded call, or it uses the inherited file.
quiet="exec cat <$go >/dev/null"
writes="cat <$go >&3"
for way in exec fork vfork clone spawn system popen pclose; do
    starts "a program that inherits none" $way "closed free" - "$quiet"
    starts "a program that inherits one of two" $way "closed free" "open locked" "$quiet"
    starts "one that writes it" $way "closed free" "open locked" "$writes"
    grep -qx word "$kept/kept" || echo "not ok - $way: the word is not there"
    starts "one that closes what it inherits" $way "closed free" "closed free" "exec 3>&-; $quiet"
    starts "through several programs" $way "closed free" "open locked" "exec env env sh -c '$quiet'"
    starts "through several, and not to the last" $way "closed free" "closed free" "exec env sh -c 'exec 3>&-; exec env cat <$go >/dev/null'"
done
starts "a file that an action copies, and one that it closes" copies "open locked" "closed free" "$quiet"
starts "closefrom, a copy as standard output" closefrom "open locked" "closed free" "exec cat <$go"

echo 'int read(int, void *, unsigned long); int main(void) { char c; while (read(0, &c, 1) > 0); return 0; }' >"$mp_dir/s.c"
cat >"$mp_dir/f.c" <<END
#include <unistd.h>
int main(int argc, char **argv) { if (fork() == 0) execv(argv[1], argv + 1); return 0; }
END
if gcc -static -o "$mp_dir/static" "$mp_dir/s.c" 2>/dev/null && gcc -static -o "$mp_dir/forks" "$mp_dir/f.c" 2>/dev/null; then
    for way in exec fork spawn popen; do
        starts "a static program that inherits none" $way "closed free" - "exec $mp_dir/static <$go >/dev/null"
        starts "a static program that inherits one of two" $way "closed free" "open locked" "exec $mp_dir/static <$go >/dev/null"
        starts "a program that a static one has started" $way "closed free" "open locked" "exec $mp_dir/forks /bin/sh -c '$writes'"
    done
else
    for way in exec fork spawn popen; do
        for what in "a static program that inherits none" "a static program that inherits one of two" \
            "a program that a static one has started"; do
            mp_skip "$way: $what" "no static C library"
        done
    done
fi

# An exec that fails changes nothing.
fails() {
    : >"$kept/closed"
    : >"$kept/kept"
    with "$program" fails /fwd/closed /fwd/kept "$go" &
    exec 6>"$go"
    soon closed open locked
    soon kept open locked
    exec 6>&-
    wait $! || echo "exit code $?"
    soon closed closed free
    cat "$kept/closed" "$kept/kept"
}
fails >"$mp_dir/out" 2>&1
printf 'closed\nstill\nkept\n' | cmp -s - "$mp_dir/out"
mp_report $? "an exec that fails" "$mp_dir/out"

# Python's own way.
python() {
    : >"$kept/closed"
    : >"$kept/kept"
    with python3 -c 'import fcntl, os, subprocess, sys
closed = open("/fwd/closed", "r+")
kept = open("/fwd/kept", "r+")
for f in closed, kept:
    fcntl.flock(f, fcntl.LOCK_EX)
subprocess.Popen(["sh", "-c", "exec cat <" + sys.argv[1]], stdout=subprocess.DEVNULL, pass_fds=[kept.fileno()], close_fds=True)
os._exit(0)' "$go" &
    exec 6>"$go"
    wait $!
    soon closed closed free
    soon kept open locked
    exec 6>&-
    soon kept closed free
}
if python3 -c 'import subprocess' 2>/dev/null; then
    python >"$mp_dir/out" 2>&1
    test ! -s "$mp_dir/out"
    mp_report $? "Python's subprocess with pass_fds" "$mp_dir/out"
else
    mp_skip "Python's subprocess with pass_fds" "no Python"
fi

# The file system of files that are no longer open can be unmounted.
unmounts() {
    with "$program" fork /fwd/m/closed - "$quiet" &
    exec 6>"$go"
    wait $!
    mp_until 10 umount "$kept/m" || echo "it is busy"
    exec 6>&-
    wait
}
if [ "${EXECS_INSIDE:-}" = 1 ]; then
    unmounts 2>"$mp_dir/err" >"$mp_dir/out"
    test ! -s "$mp_dir/out"
    mp_report $? "a file system is unmounted while a child of an ended program runs" "$mp_dir/out"
else
    mp_skip "a file system is unmounted while a child of an ended program runs" "needs root"
fi

# Another user: no socket where it inherits no file.  Where it does, one, which has nothing for it; what it sends there concerns no one else.
if [ "$(id -u)" = 0 ]; then
    chmod 755 "$mp_dir"
    with "$program" nobody /fwd/closed - >"$mp_dir/out" 2>&1 && test ! -s "$mp_dir/out"
    mp_report $? "another user who inherits none" "$mp_dir/out"
    fwd_is_near && sockets='' || sockets='socket: nothing'
    with "$program" nobody /fwd/closed /fwd/kept >"$mp_dir/out" 2>&1 && [ "$(cat "$mp_dir/out")" = "$sockets" ]
    mp_report $? "another user who inherits one" "$mp_dir/out"
else
    mp_skip "another user who inherits none" "needs root"
    mp_skip "another user who inherits one" "needs root"
fi

# Over a network, where no socket can be passed, a program that inherits none closes all as well, and what it inherits goes on.
PATH=$PATH:/usr/sbin:/sbin
near=amph-execs-near-$$ far=amph-execs-far-$$
kill "$(cat "$mp_dir/pid")"
mp_until 20 test ! -e "$mp_dir/pid"
network() {
    ip netns add $near 2>/dev/null && ip netns add $far && ip link add eth0 netns $near type veth peer name eth0 netns $far &&
        ip -n $near addr add 10.99.7.1/24 dev eth0 && ip -n $far addr add 10.99.7.2/24 dev eth0 && ip -n $near link set eth0 up &&
        ip -n $far link set eth0 up && ip -n $near link set lo up && ip -n $far link set lo up || return 1
    export AMPHORA_SMP=0
    fwd_on_host $far timeout 300 "$builddir/iofwd-server" -daemon -servers 1 -conduit tcp -interface 10.99.7.2 -iofwd "/fwd=$kept" \
        -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >/dev/null || return 1
    pid=$(awk '/^server/ { print $3 }' "$mp_dir/addresses")
    on=$near
}
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; ip netns del $near; ip netns del $far; rm -rf "$mp_dir"' EXIT
if network 2>"$mp_dir/out"; then
    for way in exec fork spawn; do
        starts "a program that inherits none" $way "closed free" - "$quiet"
        starts "a program that inherits one" $way - "open locked" "$quiet"
        starts "one that inherits one of two, and writes it" $way "closed free" "open locked" "$writes"
    done
else
    on=network
    for way in exec fork spawn; do
        for what in "a program that inherits none" "a program that inherits one" "one that inherits one of two, and writes it"; do
            mp_skip "over a network, $way: $what" "makes hosts of network name spaces, which takes root and iproute2"
        done
    done
fi
mp_done
