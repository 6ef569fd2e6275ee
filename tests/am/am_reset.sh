#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A connection between two compute processes is reset by the network.  If nothing was in flight, the job goes on over a new
# connection; otherwise it ends with one sentence, and no wait lasts for ever.
. "${srcdir:-.}/tests/lib/lib.sh"

# job CONDUIT WHAT: its exit code; the output is in $job.out
job() {
    job=$mp_dir/job.$mp_queued
    mkdir "$job"
    AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -conduit "$1" -timeout 50 "$builddir/tests/am/am_reset" "$2" "$job" \
        >"$job.out" 2>&1
    rc=$?
    cat "$job.out"
    echo "exit code $rc"
    return $rc
}

# ends CONDUIT WHAT: with a sentence that has the cause, the host and the remedy
ends() {
    job "$1" "$2"
    [ $rc = 1 ] &&
        grep -q 'on host .* cannot be reached: the network connection to it broke.*; check the network.*start the job again' "$job.out"
}

# Most of a job's time is spent waiting for a limit of seconds, so many run at a time.
mp_queue_width=16
for conduit in tcp verbs; do
    [ $conduit = verbs ] && export AMPHORA_MR_DEBUG=1
    mp_queue "$conduit: nothing in flight, the job goes on" job $conduit nothing
    for what in request reply get; do
        mp_queue "$conduit: a lost $what ends the job with a sentence" ends $conduit $what
    done
done

unset AMPHORA_MR_DEBUG # with which no packs are made, as over verbs

# Nothing but a pack is lost: a put that travels by itself would be lost during a transfer.
loses_pack() {
    ends tcp pack && grep -q 'broke; [0-9]* messages to it' "$job.out"
}

mp_queue "tcp: lost puts that travelled in one message end the job with a sentence" loses_pack

emulated() {
    AMPHORA_RMA=emulate
    export AMPHORA_RMA
    ends "$@"
}

# The fragments of emulated puts and gets are messages, which can be lost as others.
mp_queue "tcp: a lost get by messages ends the job with a sentence" emulated tcp get

# stopped: a member that is stopped for longer than the limit, with its receive window full, is not taken for dead
stopped() {
    job=$mp_dir/job.$mp_queued
    mkdir "$job"
    AMPHORA_TCP_TIMEOUT=1s AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -conduit tcp -timeout 50 "$builddir/tests/am/am_reset" puts "$job" \
        >"$job.out" 2>&1 &
    stopped_job=$!
    mp_until 30 test -e "$job/ready"
    receiver=$(cat "$job/receiver")
    kill -STOP "$receiver"
    sleep 5 # in which nothing may happen
    kill -CONT "$receiver"
    : >"$job/enough"
    wait $stopped_job
    rc=$?
    cat "$job.out"
    echo "exit code $rc"
    return $rc
}
mp_queue "tcp: a member that is stopped" stopped

# refused TEXT COMMAND...: a job over udp whose members cannot hear each other ends with one sentence of each member that has noticed
# it, of which the second may have before the launcher ends the job
refused() {
    refused_text=$1 job=$mp_dir/job.$mp_queued
    shift
    AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -conduit udp -timeout 50 "$@" >"$job.out" 2>&1
    rc=$?
    cat "$job.out"
    echo "exit code $rc"
    grep '^amphora: ' "$job.out" >"$job.said"
    [ $rc = 1 ] && [ -s "$job.said" ] && ! grep -qv "on host .* cannot be reached: $refused_text" "$job.said" &&
        [ -z "$(grep -o '^amphora: compute [0-9]*' "$job.said" | sort | uniq -d)" ]
}

# shellcheck disable=SC2016 # for the shell inside
mp_queue "udp: members with and without authentication" refused 'AMPHORA_UDP_MAC is not the same there as here; set it alike' \
    sh -c 'AMPHORA_UDP_MAC=$AMPHORA_RANK exec "$@"' sh "$builddir/tests/am/am_reset" nothing "$mp_dir"
mp_queue "udp: a member without a socket" refused 'its host refuses all packets.*; check the network' \
    "$builddir/tests/am/am_reset" deaf "$mp_dir"

# A network name space whose loopback interface is down.
# cut_off CONDUIT SENTENCE
cut_off() {
    job=$mp_dir/job.$mp_queued
    AMPHORA_SMP=0 AMPHORA_UDP_TIMEOUT=2s timeout -k 5 60 unshare -rn "$AMPHORA_RUN" -n 2 -conduit "$1" -timeout 50 \
        "$builddir/tests/am/am_reset" nothing "$mp_dir" >"$job.out" 2>&1
    rc=$?
    cat "$job.out"
    echo "exit code $rc"
    [ $rc = 1 ] && grep -q "$2: Network is unreachable" "$job.out"
}
cut_off_or_skip() {
    if unshare -rn true 2>/dev/null; then
        mp_queue "$1: a host whose network is down says so" cut_off "$@"
    else
        mp_skip "$1: a host whose network is down says so" "no network name spaces here"
    fi
}
cut_off_or_skip udp 'udp: nothing can be sent'
cut_off_or_skip tcp 'tcp: another process cannot be reached'
mp_done
