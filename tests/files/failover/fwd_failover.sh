#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# -on-server-death failover: servers are killed at many moments while a program works, and its files are those of a run without kills.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/failover/fwd_failover
mkdir "$mp_dir/local"
timeout 60 "$program" "$mp_dir/local" "$mp_dir/local" 0 0 >"$mp_dir/out" 2>&1
mp_report $? "the program by itself" "$mp_dir/out"
fwd_tree "$mp_dir/local" | sed 's/ directory.*//' >"$mp_dir/expected"

# kill_at NAME "SETTING=VALUE..." SERVERS KILLS DELAYS_US
kill_at() {
    : >"$mp_dir/out"
    kill_bad=0
    for delay in $5; do
        rm -rf "$mp_dir/kept"
        mkdir "$mp_dir/kept"
        # shellcheck disable=SC2086 # several settings
        env $2 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers "$3" -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
            "$program" /fwd "$mp_dir/kept" "$4" "$delay" >"$mp_dir/one" 2>&1 </dev/null
        code=$?
        fwd_tree "$mp_dir/kept" >"$mp_dir/tree"
        if [ $code -ne 0 ] || ! diff "$mp_dir/expected" "$mp_dir/tree" >"$mp_dir/diff" ||
            [ "$(grep -c 'the next one takes over' "$mp_dir/one")" -lt "$4" ]; then
            kill_bad=1
            { echo "delay $delay: exit code $code" && cat "$mp_dir/one" "$mp_dir/diff"; } >>"$mp_dir/out"
        fi
    done
    mp_report $kill_bad "$1" "$mp_dir/out"
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
kill_at "tcp: likewise" AMPHORA_SMP=0 2 1 "${FWD_MOMENTS:-300 9000 20000 40000 60000}"
kill_at "udp: likewise" "AMPHORA_SMP=0 AMPHORA_CONDUIT=udp" 2 1 "${FWD_MOMENTS:-5000 30000}"
kill_at "two of three servers, one after the other" AMPHORA_SMP=1 3 2 "${FWD_MOMENTS:-3000 20000}"
kill_at "files spread over four servers" "AMPHORA_SMP=1 IOFWD_STRIPE=3" 4 1 "${FWD_MOMENTS:-2000 15000}"
kill_at "collected calls: what was not acknowledged is written again" \
    "AMPHORA_SMP=1 IOFWD_CONSISTENCY=session" 2 1 "${FWD_MOMENTS:-1000 8000 30000}"
kill_at "collected calls, two of four servers" "AMPHORA_SMP=1 IOFWD_CONSISTENCY=session" 4 2 "${FWD_MOMENTS:-30000 64000}"

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

# one NAME ARGUMENT...: the program, with two servers
one() {
    one_name=$1
    shift
    AMPHORA_SMP=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$program" "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$one_name" "$mp_dir/out"
}
one "locks, and the name, survive exec and then their server" exec /fwd
one "and with descriptors above 1023" exec-high /fwd
one "more locks than go through exec: the file is lost with its server, for others it is not" exec-much /fwd
one "files and directories that were renamed before their server dies" renamed /fwd
one "a file that is gone is not created again" removed /fwd
one "more files than there are recovery records" reused /fwd
one "offsets after an append and in a directory" placed /fwd
for what in unanswered whole; do
    AMPHORA_SMP=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 8 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$program" $what /fwd >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "calls that may have been done are made again only where that makes no difference, and then whole: $what" "$mp_dir/out"
done
for what in home other; do
    IOFWD_STRIPE=4 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 4 -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$program" spread-$what /fwd >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "a spread file that loses a server ($what) is closed at the others with it" "$mp_dir/out"
done
for delay in 3000 9000 20000; do
    one "three processes write at one offset when its server dies (after $delay us)" share /fwd "$delay"
done
for how in kill stop; do
    for after in 0 300 1000 3000 9000; do
        one "and one of them is ${how}ed $after us later" share /fwd 9000 $how $after
    done
done

# with one of two processes stopped, see fwd_stopped.c
for what in alone after soon late; do
    death=failover
    [ $what != alone ] || death=eio
    for smp in 1 0; do
        rm -rf "$mp_dir/kept"
        mkdir "$mp_dir/kept"
        AMPHORA_SMP=$smp timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death $death -iofwd "/fwd=$mp_dir/kept" \
            -timeout 20 "$builddir/tests/files/process/fwd_stopped" $what /fwd "$mp_dir/kept" >"$mp_dir/out" 2>&1 </dev/null
        mp_report $? "a process is stopped while its call is done: $what (smp $smp)" "$mp_dir/out"
    done
done
mp_done
