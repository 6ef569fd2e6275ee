#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A mount whose servers do not answer (they are stopped): what waits for them can be killed, also more processes than the client has
# requests; a signal that the program handles changes nothing; and when the servers continue, so does the mount.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "servers that hang"
trap 'go_on; mount_end "$mp_dir/m"' EXIT
m=$mp_dir/m
pids='' # of processes in the background

go_on() {
    # shellcheck disable=SC2046
    kill -CONT $(pgrep -P "$(cat "$mp_dir/servers.pid")") 2>/dev/null
}
stopped() {
    for pid; do
        case $(cut -d' ' -f3 "/proc/$pid/stat") in
        T) ;;
        *) return 1 ;;
        esac
    done
}
hang() {
    servers=$(pgrep -P "$(cat "$mp_dir/servers.pid")")
    # shellcheck disable=SC2086
    kill -STOP $servers
    # shellcheck disable=SC2086
    mp_until 20 stopped $servers
}
# After each case the servers go on.
case_of() {
    mp_try "$@"
    go_on
}

# hangs PID: it waits in the kernel for the file system
hangs() {
    grep -qE 'fuse|request_wait|folio|lookup|rwsem|open_last|path_openat' "/proc/$1/wchan" 2>/dev/null
}
# ended PID...: none of them lives
ended() {
    for pid; do
        case $(cut -d' ' -f3 "/proc/$pid/stat" 2>/dev/null) in
        '' | Z | X) ;;
        *) return 1 ;;
        esac
    done
}
# all_killed: those of $pids, each of which hangs, end at most 2 seconds after SIGKILL
all_killed() {
    for pid in $pids; do
        mp_until 20 hangs "$pid" || { echo "process $pid does not wait: $(cat "/proc/$pid/wchan")"; code=1; }
    done
    # shellcheck disable=SC2086
    kill -9 $pids
    # shellcheck disable=SC2086
    mp_until 2 ended $pids || { echo "not ended after 2 seconds: $pids"; ps -o pid,stat,wchan:30,args -p "$(echo $pids | tr ' ' ,)"; code=1; }
    pids=
}
works() {
    timeout 20 sh -c 'echo new >"$1/new" && [ "$(cat "$1/new")" = new ] && rm "$1/new"' sh "$m"
}

echo data >"$mp_dir/kept/f"
mkdir "$mp_dir/kept/d"

# killed COMMAND...: the command, which hangs, can be killed, and then the mount works
killed() {
    code=0
    exec 7<>"$m/f"
    hang
    "$@" &
    pids=$!
    all_killed
    go_on
    exec 7<&-
    works && return $code
}
case_of "kill -9 ends a read" killed dd "if=/proc/self/fd/7" iflag=direct bs=4k count=1
direct_read() {
    killed perl -e 'use Fcntl; open my $f, "<&=", 7; sysread $f, my $b, 4' # the pages are not read yet
}
case_of "kill -9 ends a read through the pages" direct_read
case_of "kill -9 ends a write" killed sh -c 'echo more >&7'
case_of "kill -9 ends an open" killed cat "$m/other"
case_of "kill -9 ends a listing" killed ls "$m/d"
case_of "kill -9 ends an fsync" killed perl -e 'use IO::Handle; open my $f, "+<&=", 7; $f->sync'

# A process with a lock: its end releases the lock, for which it asks the server.
locked() {
    code=0
    perl -e 'use Fcntl qw(:DEFAULT :flock); open my $f, "+<", $ARGV[0] or die; my $l = pack("s s x![q] q q i x![q]", F_WRLCK, 0, 0, 0, 0); fcntl $f, F_SETLK, $l or die "$!";
        open my $h, ">", $ARGV[1]; close $h; sleep 1000' "$m/f" "$mp_dir/held" &
    pids=$!
    mp_until 20 test -e "$mp_dir/held" || return 1
    hang
    # shellcheck disable=SC2086
    kill -9 $pids
    # shellcheck disable=SC2086
    mp_until 2 ended $pids || { echo "not ended after 2 seconds"; code=1; }
    pids=
    go_on
    timeout 20 perl -e 'use Fcntl; open my $f, "+<", $ARGV[0] or die; my $l = pack("s s x![q] q q i x![q]", F_WRLCK, 0, 0, 0, 0); fcntl $f, F_SETLKW, $l or die "$!"' "$m/f" &&
        works && return $code
}
case_of "kill -9 ends the owner of a lock, and then the lock is free" locked

# More than the client has requests and the session has idle threads.
many() {
    code=0
    exec 7<>"$m/f"
    hang
    i=0
    while [ $((i += 1)) -le 90 ]; do
        dd if=/proc/self/fd/7 iflag=direct bs=4k count=1 2>/dev/null &
        pids="$pids $!"
    done
    all_killed
    go_on
    exec 7<&-
    works && return $code
}
case_of "kill -9 ends 90 readers" many

# What the killed processes had open is closed at the server once it goes on.
closed() {
    [ "$(ls -l $(pgrep -P "$(cat "$mp_dir/servers.pid")" | sed 's#.*#/proc/&/fd#') | grep -c "kept/f\$")" = 0 ]
}
case_of "the server has none of their files open" mp_until 10 closed

# A signal with a handler: the read continues, as on a local disk.
handled() {
    exec 7<"$m/f"
    hang
    perl -e 'my $n = 0; $SIG{USR1} = sub { $n++ }; open my $f, "<&=", 7; open my $armed, ">", shift; close $armed;
        my $got = sysread $f, my $b, 4; print defined $got ? $b : "$!", " after $n signals\n"' "$mp_dir/armed" >"$mp_dir/read" &
    pid=$!
    mp_until 20 test -e "$mp_dir/armed"
    mp_until 20 hangs $pid
    kill -USR1 $pid
    mp_until 20 grep -q "^SigPnd:.*0*200$\|^ShdPnd:.*0*200$" "/proc/$pid/status"
    go_on
    wait $pid
    exec 7<&-
    cat "$mp_dir/read"
    grep -qxE '(data|more) after 1 signals' "$mp_dir/read" # the killed write may have been on its way to the server
}
case_of "a signal with a handler does not end a read" handled
mp_done
