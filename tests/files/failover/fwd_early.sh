#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server is killed while its job starts: before it has joined the job, before its first client has come, or at a random moment of its first
# second.  By -on-server-death, the job ends (end), calls give the right answer or EIO (eio), or all calls are right (failover).
# EARLY_KILLS: how many random kills; TEST_SEED: which server, job and moment.  scripts/check-nightly asks for many.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/failover/fwd_early
EARLY_PROGRAM=$builddir/iofwd-server
export EARLY_PROGRAM
state=$mp_seed
printf '#!/bin/sh\nexec "%s" server "$@"\n' "$program" >"$mp_dir/server"
chmod +x "$mp_dir/server"

# any N: sets $any to a number below N
any() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    any=$((state / 65536 % $1))
}

# died_late: the server died when all processes had left, and it may have had data to write: that is a failure under each policy.
died_late() {
    [ "$code.$died" = 137.1 ] && tail -n 1 "$kept.out" | grep -q '^amphora-run: server .* was killed by signal 9 (Killed); the job ends$'
}

# early POLICY CONDUIT KIND VICTIM DELAY_US WORK_MS: 0 if the job is right
early() {
    kept=$mp_dir/kept.$mp_queued
    rm -rf "$kept"
    mkdir "$kept"
    smp=0
    [ "$2" != smp ] || smp=1
    may=''
    [ "$1" != eio ] || may=eio
    began=$(mp_now_ms)
    # shellcheck disable=SC2086 # a word or none
    EARLY_VICTIM=$4 EARLY_US=$5 AMPHORA_SMP=$smp timeout -k 5 40 "$AMPHORA_RUN" -n 2 -servers 2 -conduit "$2" -on-server-death "$1" \
        -server-program "$mp_dir/server" -iofwd "/fwd=$kept" -timeout 30 "$program" "$3" /fwd "$6" $may \
        >"$kept.out" 2>&1 </dev/null
    code=$?
    echo "policy $1, $2, $3, server $4 killed after $5 us: exit code $code after $(($(mp_now_ms) - began)) ms"
    cat "$kept.out"
    died=$(grep -c '^amphora-run: server .* was killed by signal 9' "$kept.out")
    case $1 in
    end) [ "$code.$died" = 137.1 ] || [ "$code.$died" = 0.0 ] ;; # 0: all was over at that moment
    *) [ "$(grep -c ' rounds, ' "$kept.out")" = 2 ] && { [ "$code.$died" = 0.0 ] || [ "$code.$died" = 0.1 ] || died_late; } ;;
    esac
}

# certain NAME DELAY_US: a kill that no job can miss
certain() {
    for policy in end eio failover; do
        for conduit in smp tcp udp; do
            mp_queue "$1: $policy, $conduit" certain_kills $policy $conduit "$2"
        done
    done
}

certain_kills() {
    bad=0
    for kind in plain joined; do
        for victim in 2 3; do
            early "$1" "$2" $kind $victim "$3" 10 && [ "$died" = 1 ] || bad=1
        done
    done
    return $bad
}

# random POLICY CONDUIT KILLS
random() {
    kills='' # "KIND VICTIM DELAY_US" of each
    for k in $(seq "$3"); do
        any 2
        kind=$(echo plain joined | cut -d' ' -f$((any + 1)))
        any 2
        victim=$((any + 2))
        any 1000
        delay=$((any * 1000))
        [ $((k % 2)) = 0 ] || delay=$((delay / 5)) # the start itself is short
        any 1000
        kills="$kills $kind $victim $((delay + any + 1))"
    done
    # shellcheck disable=SC2086 # the words of all kills
    mp_queue "$3 kills at random moments of the first second: $1, $2, seed $mp_seed" random_kills "$1" "$2" $kills
}

random_kills() {
    bad=0
    policy=$1 conduit=$2
    shift 2
    while [ $# -gt 0 ]; do
        early "$policy" "$conduit" "$1" "$2" "$3" 1000 || bad=1
        shift 3
    done
    return $bad
}

# lossy: no kill, but a network that loses much: the job starts all the same.
lossy() {
    bad=0
    for kind in plain joined; do
        for seed in 1 2 3; do
            AMPHORA_UDP_LOSS=30 AMPHORA_UDP_SEED=$seed early failover udp $kind none 0 10 && [ "$died" = 0 ] || bad=1
        done
    done
    return $bad
}
mp_queue "a start over udp that loses 30 % of its datagrams" lossy

# host POLICY CONDUIT [eio]: a host on which only servers run is lost: its agent is killed, and the servers below it must not go on.
host() {
    bad=0
    kept=$mp_dir/kept.$mp_queued
    for delay in 0 200000; do
        rm -rf "$kept"
        mkdir "$kept"
        EARLY_AGENT=1 EARLY_VICTIM=2 EARLY_US=$delay timeout -k 5 40 "$AMPHORA_RUN" -n 2 -servers 3 -hosts "$mp_dir/compute" \
            -server-hosts "$mp_dir/servers" -conduit "$2" -on-server-death "$1" -server-program "$mp_dir/server" \
            -iofwd "/fwd=$kept" -timeout 30 "$program" joined /fwd 1000 ${3:+"$3"} >"$kept.out" 2>&1
        code=$?
        cat "$kept.out"
        echo "delay $delay us: exit code $code"
        lost=$(grep -c '^amphora-run: the agent of host hostB .* was killed by signal 9 (Killed); .* its 2 servers' "$kept.out")
        [ "$code.$lost" = 0.1 ] && [ "$(grep -c ' rounds, ' "$kept.out")" = 2 ] || bad=1
    done
    return $bad
}
printf 'hostA:2\n' >"$mp_dir/compute"
printf 'hostB:2\nhostC:1\n' >"$mp_dir/servers"
for conduit in tcp udp; do
    mp_queue "a host of servers is lost: failover, $conduit" host failover $conduit
    mp_queue "a host of servers is lost: eio, $conduit" host eio $conduit eio
done

# leaves_meanwhile: all processes leave the job while the launcher is stopped, and it learns of the death of a server first.
leaves_meanwhile() {
    kept=$mp_dir/kept.$mp_queued
    mkdir "$kept"
    EARLY_VICTIM=none EARLY_US=0 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -servers 2 -on-server-death eio -server-program "$mp_dir/server" \
        -iofwd "/fwd=$kept" -timeout 50 "$program" joined /fwd "$kept.enough" eio >"$kept.out" 2>&1 </dev/null &
    timeout=$!
    timeout 20 sh -c 'until [ "$(ls "$1" | wc -l)" -ge 2 ]; do sleep 0.01; done' sh "$kept" # both work
    launcher=$(pgrep -P $timeout)
    agent=$(pgrep -P "$launcher")
    processes=$(pgrep -P "$agent" -x fwd_early)
    kill -STOP "$launcher"
    kill -KILL "$(pgrep -P "$agent" -x iofwd-server | head -n 1)"
    : >"$kept.enough"
    for process in $processes; do
        timeout 20 sh -c 'while kill -0 "$1"; do sleep 0.01; done' sh "$process" 2>/dev/null
    done
    kill -CONT "$launcher"
    wait $timeout
    code=$?
    cat "$kept.out"
    echo "exit code $code, processes $processes"
    [ $code = 0 ] && [ "$(echo "$processes" | wc -w)" = 2 ] && [ "$(grep -c ' rounds, ' "$kept.out")" = 2 ]
}
mp_queue "processes that leave while the launcher learns of a server's death" leaves_meanwhile

certain "a server that dies before it joins the job" 0
for policy in end eio failover; do
    for conduit in smp tcp udp; do
        random $policy $conduit "${EARLY_KILLS:-1}"
    done
done
mp_done
