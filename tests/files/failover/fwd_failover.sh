#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# -on-server-death failover: servers are killed at many moments while a program works, and its files are those of a run without kills.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/failover/fwd_failover
mkdir "$mp_dir/local"
timeout 60 "$program" "$mp_dir/local" "$mp_dir/local" 0 0 >"$mp_dir/out" 2>&1
mp_report $? "the program by itself" "$mp_dir/out"
fwd_tree "$mp_dir/local" | sed 's/ directory.*//' >"$mp_dir/expected"

# killed SERVERS KILLS DELAYS_US: for mp_queue: kills while the program works, one run for each delay
killed() {
    kept=$mp_dir/kept.$mp_queued
    bad=0
    for delay in $3; do
        rm -rf "$kept"
        mkdir "$kept"
        timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers "$1" -on-server-death failover -iofwd "/fwd=$kept" -timeout 50 \
            "$program" /fwd "$kept" "$2" "$delay" >"$kept.out" 2>&1
        code=$?
        fwd_tree "$kept" >"$kept.tree"
        if [ $code -ne 0 ] || ! diff "$mp_dir/expected" "$kept.tree" >"$kept.diff" ||
            [ "$(grep -c 'the next one takes over' "$kept.out")" -lt "$2" ]; then
            bad=1
            echo "delay $delay: exit code $code"
            cat "$kept.out" "$kept.diff"
        fi
    done
    return $bad
}

# set_and_killed "SETTING=VALUE..." SERVERS KILLS DELAYS_US
set_and_killed() {
    # shellcheck disable=SC2163,SC2086 # several settings
    export $1
    shift
    killed "$@"
}

# kill_at NAME "SETTING=VALUE..." SERVERS KILLS DELAYS_US
kill_at() {
    kill_name=$1
    shift
    mp_queue "$kill_name" set_and_killed "$@"
}

moments=${FWD_MOMENTS:-"0 700 2500 6000 11000 23000 47000 90000"}
kill_at "smp: the server is killed at many moments" AMPHORA_SMP=1 2 1 "$moments"
rm -rf "$mp_dir/kept"
mkdir "$mp_dir/kept"
AMPHORA_LOG=debug timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
    "$program" /fwd "$mp_dir/kept" 1 23000 >"$mp_dir/out" 2>&1 </dev/null
grep -Eq '/fwd/.*, which I/O server [0-9]+ had open, is open at I/O server [0-9]+' "$mp_dir/out"
failover_code=$?
tail -n 20 "$mp_dir/out" >"$mp_dir/one"
mp_report $failover_code "AMPHORA_LOG=debug names the files that are taken over" "$mp_dir/one"
grep 'server died during the call' "$mp_dir/out" >"$mp_dir/one"
! grep -v ' \[request [0-9sc]*-[0-9]*\]$' "$mp_dir/one" >>"$mp_dir/one.lacking" && test ! -s "$mp_dir/one.lacking"
mp_report $? "a call that is made again is named with its request" "$mp_dir/one"
kill_at "tcp: likewise" AMPHORA_SMP=0 2 1 "${FWD_MOMENTS:-300 9000 20000 40000 60000}"
kill_at "udp: likewise" "AMPHORA_SMP=0 AMPHORA_CONDUIT=udp" 2 1 "${FWD_MOMENTS:-5000 30000}"
kill_at "two of three servers, one after the other" AMPHORA_SMP=1 3 2 "${FWD_MOMENTS:-3000 20000}"
kill_at "files spread over four servers" "AMPHORA_SMP=1 IOFWD_STRIPE=3" 4 1 "${FWD_MOMENTS:-2000 15000}"
kill_at "collected calls: what was not acknowledged is written again" \
    "AMPHORA_SMP=1 IOFWD_CONSISTENCY=session" 2 1 "${FWD_MOMENTS:-1000 8000 30000}"
kill_at "collected calls, two of four servers" "AMPHORA_SMP=1 IOFWD_CONSISTENCY=session" 4 2 "${FWD_MOMENTS:-30000 64000}"
mp_queue_end

# Files that programs of a shell inherit: the offset goes on where the program before has left it.
mkdir "$mp_dir/sh"
for smp in 1 0; do
    rm -f "$mp_dir"/sh/*
    # shellcheck disable=SC2016 # for the shell inside
    AMPHORA_SMP=$smp timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 3 -on-server-death failover -iofwd "/fwd=$mp_dir/sh" -timeout 50 sh -c '
        k="$1 kill /fwd"
        (seq 1000; $k; seq 1001 2000; cat /proc/self/comm; $k; seq 3) >/fwd/out
        (read -r first; head -c 1 >/dev/null; cat) </fwd/out | sed 5q >/fwd/in' sh "$program" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    (seq 2000; echo cat; seq 3) >"$mp_dir/wanted"
    test $code -eq 0 && cmp "$mp_dir/wanted" "$mp_dir/sh/out" >>"$mp_dir/out" 2>&1
    mp_report $? "what the programs of a shell write to one file, over two deaths (smp $smp)" "$mp_dir/out"
done

AMPHORA_SMP=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
    "$program" wait /fwd >"$mp_dir/out" 2>&1 </dev/null
mp_report $? "a process that waits for another to find a server sleeps, and does it itself when that one is killed" "$mp_dir/out"

AMPHORA_SMP=1 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 20 \
    "$program" wait-stopped /fwd >"$mp_dir/out" 2>&1 </dev/null
mp_report $? "and when that one is stopped, which goes on later" "$mp_dir/out"

# with_servers COUNT ARGUMENT...: for mp_queue: the program, with COUNT servers
with_servers() {
    kept=$mp_dir/kept.$mp_queued
    servers=$1
    shift
    mkdir "$kept"
    AMPHORA_SMP=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers "$servers" -on-server-death failover -iofwd "/fwd=$kept" -timeout 50 \
        "$program" "$@" 2>&1
}

# striped ARGUMENT...: likewise, with files of four parts
striped() {
    export IOFWD_STRIPE=4
    with_servers 4 "$@"
}

# one NAME ARGUMENT...: the program, with two servers
one() {
    one_name=$1
    shift
    mp_queue "$one_name" with_servers 2 "$@"
}

one "locks, and the name, survive exec and then their server" exec /fwd
one "and with descriptors above 1023" exec-high /fwd
one "more locks than go through exec: the file is lost with its server, for others it is not" exec-much /fwd
one "files and directories that were renamed before their server dies" renamed /fwd

# The kernel closes the descriptors of a dead process one after the other, the highest first: its connection to the client,
# then memory that takes a while to be freed, then its connection to the launcher.
cat >"$mp_dir/slow_server" <<EOF
#!/bin/sh
file=/dev/shm/amphora-slow.\$\$
fallocate -l 512M "\$file" && exec 9<"\$file"
rm -f "\$file"
exec "$builddir/iofwd-server" "\$@"
EOF
chmod +x "$mp_dir/slow_server"
slow_end() {
    fallocate -l 1100M "/dev/shm/amphora-slow.$$" || {
        rm -f "/dev/shm/amphora-slow.$$"
        echo "needs 1.1 GB in /dev/shm"
        return 77
    }
    rm "/dev/shm/amphora-slow.$$"
    mkdir "$mp_dir/slow"
    AMPHORA_SMP=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -server-program "$mp_dir/slow_server" \
        -iofwd "/fwd=$mp_dir/slow" -timeout 50 "$program" renamed /fwd 2>&1
}
mp_queue "a program that ends while its dead server is still being taken apart" slow_end

one "a file that is gone is not created again" removed /fwd
one "more files than there are recovery records" reused /fwd
one "offsets after an append and in a directory" placed /fwd
for what in unanswered whole; do
    mp_queue "calls that may have been done are made again only where that makes no difference, and then whole: $what" \
        with_servers 11 $what /fwd
done
for what in home other; do
    mp_queue "a spread file that loses a server ($what) is closed at the others with it" striped spread-$what /fwd
done
for delay in 3000 9000 20000; do
    one "three processes write at one offset when its server dies (after $delay us)" share /fwd "$delay"
done
for delay in 3000 9000 20000; do
    mp_queue "three processes write at one offset of a striped file when a server dies (after $delay us)" \
        striped share-striped /fwd "$delay"
done
for how in kill stop; do
    for after in 0 300 1000 3000 9000; do
        one "and one of them is ${how}ed $after us later" share /fwd 9000 $how $after
    done
done

one "the data of processes that have ended stay when one with an unread answer was killed" killed-sharer /fwd

# stopped WHAT SMP: one of two processes is stopped, see fwd_stopped.c
stopped() {
    kept=$mp_dir/kept.$mp_queued
    mkdir "$kept"
    death=failover
    [ "$1" != alone ] || death=eio
    AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death $death -iofwd "/fwd=$kept" \
        -timeout 20 "$builddir/tests/files/process/fwd_stopped" "$1" /fwd "$kept"
}
for what in alone after soon late; do
    for smp in 1 0; do
        mp_queue "a process is stopped while its call is done: $what (smp $smp)" stopped $what $smp
    done
done
mp_done
