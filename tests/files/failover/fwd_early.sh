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

# early POLICY CONDUIT KIND VICTIM DELAY_US WORK_MS: 0 if the job is right
early() {
    rm -rf "$mp_dir/kept"
    mkdir "$mp_dir/kept"
    smp=0
    [ "$2" != smp ] || smp=1
    may=''
    [ "$1" != eio ] || may=eio
    began=$(mp_now_ms)
    # shellcheck disable=SC2086 # a word or none
    EARLY_VICTIM=$4 EARLY_US=$5 AMPHORA_SMP=$smp timeout -k 5 40 "$AMPHORA_RUN" -n 2 -servers 2 -conduit "$2" -on-server-death "$1" \
        -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" -timeout 30 "$program" "$3" /fwd "$6" $may \
        >"$mp_dir/one" 2>&1 </dev/null
    code=$?
    echo "policy $1, $2, $3, server $4 killed after $5 us: exit code $code after $(($(mp_now_ms) - began)) ms"
    cat "$mp_dir/one"
    died=$(grep -c '^amphora-run: server .* was killed by signal 9' "$mp_dir/one")
    case $1 in
    end) [ "$code.$died" = 137.1 ] || [ "$code.$died" = 0.0 ] ;; # 0: all was over at that moment
    *) [ "$code" = 0 ] && [ "$died" -le 1 ] && [ "$(grep -c ' rounds, ' "$mp_dir/one")" = 2 ] ;;
    esac
}

# a kill that no job can miss
# certain NAME DELAY_US
certain() {
    for policy in end eio failover; do
        for conduit in smp tcp udp; do
            bad=0
            : >"$mp_dir/out"
            for kind in plain joined; do
                for victim in 2 3; do
                    early $policy $conduit $kind $victim "$2" 10 >"$mp_dir/said" && [ "$died" = 1 ] ||
                        { bad=1 && cat "$mp_dir/said" >>"$mp_dir/out"; }
                done
            done
            mp_report $bad "$1: $policy, $conduit" "$mp_dir/out"
        done
    done
}

# random POLICY CONDUIT KILLS
random() {
    bad=0
    : >"$mp_dir/out"
    for k in $(seq "$3"); do
        any 2
        kind=$(echo plain joined | cut -d' ' -f$((any + 1)))
        any 2
        victim=$((any + 2))
        any 1000
        delay=$((any * 1000))
        [ $((k % 2)) = 0 ] || delay=$((delay / 5)) # the start itself is short
        any 1000
        early "$1" "$2" "$kind" "$victim" $((delay + any + 1)) 1000 >"$mp_dir/said" || { bad=$((bad + 1)) && cat "$mp_dir/said" >>"$mp_dir/out"; }
    done
    mp_report $bad "$3 kills at random moments of the first second: $1, $2, seed $mp_seed" "$mp_dir/out"
}

# No kill, but a network that loses much: the job starts all the same.
bad=0
: >"$mp_dir/out"
for kind in plain joined; do
    for seed in 1 2 3; do
        AMPHORA_UDP_LOSS=30 AMPHORA_UDP_SEED=$seed early failover udp $kind none 0 10 >"$mp_dir/said" && [ "$died" = 0 ] ||
            { bad=1 && cat "$mp_dir/said" >>"$mp_dir/out"; }
    done
done
mp_report $bad "a start over udp that loses 30 % of its datagrams" "$mp_dir/out"

# A host on which only servers run is lost: its agent is killed, and the servers below it must not go on.
# host POLICY CONDUIT
host() {
    : >"$mp_dir/out"
    bad=0
    printf 'hostA:2\n' >"$mp_dir/compute"
    printf 'hostB:2\nhostC:1\n' >"$mp_dir/servers"
    for delay in 0 200000; do
        rm -rf "$mp_dir/kept"
        mkdir "$mp_dir/kept"
        EARLY_AGENT=1 EARLY_VICTIM=2 EARLY_US=$delay timeout -k 5 40 "$AMPHORA_RUN" -n 2 -servers 3 -hosts "$mp_dir/compute" \
            -server-hosts "$mp_dir/servers" -conduit "$2" -on-server-death "$1" -server-program "$mp_dir/server" \
            -iofwd "/fwd=$mp_dir/kept" -timeout 30 "$program" joined /fwd 1000 ${3:+"$3"} >"$mp_dir/one" 2>&1 </dev/null
        code=$?
        cat "$mp_dir/one" >>"$mp_dir/out"
        echo "delay $delay us: exit code $code" >>"$mp_dir/out"
        lost=$(grep -c '^amphora-run: the agent of host hostB .* was killed by signal 9 (Killed); .* its 2 servers' "$mp_dir/one")
        [ "$code.$lost" = 0.1 ] && [ "$(grep -c ' rounds, ' "$mp_dir/one")" = 2 ] || bad=1
    done
    mp_report $bad "a host of servers is lost: $1, $2" "$mp_dir/out"
}
for conduit in tcp udp; do
    host failover $conduit
    host eio $conduit eio
done

certain "a server that dies before it joins the job" 0
for policy in end eio failover; do
    for conduit in smp tcp udp; do
        random $policy $conduit "${EARLY_KILLS:-1}"
    done
done
mp_done
