#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
# The launcher gives the others this long after the first exit with code 0.  Where members wait for ever it must pass; elsewhere nobody may
# wait for it, and as it is longer than a job's -timeout, one who did would change the exit code.
never=100s
export GASNET_EXITTIMEOUT

# exits NET WAY CODE EXPECTED [WORDS]: for mp_queue: one job
exits() {
    out=$mp_dir/job.$mp_queued
    smp=0
    [ "$1" != smp ] || smp=1
    AMPHORA_SMP=$smp "$AMPHORA_RUN" -n 3 -conduit "$1" -timeout 40 "$builddir/tests/am/am_exit" "$2" "$3" >"$out" 2>&1
    rc=$?
    cat "$out"
    echo "exit code $rc, expected $4"
    [ $rc -eq "$4" ] && { [ -z "${5-}" ] || [ "$(grep -o 'unflushed words' "$out" | wc -l)" -eq "$5" ]; }
}

# The same where members sleep at once when they wait, so that the first to return is away before the others have run.
asleep() {
    (export AMPHORA_WAIT=block && exits "$@")
}

# way WAY CODE EXPECTED [WORDS]: the job ends with EXPECTED before its -timeout, and WORDS unflushed words of members arrive
way() {
    for net in smp tcp udp; do
        mp_queue "$net: $1 $2" exits $net "$@"
    done
}
GASNET_EXITTIMEOUT=$never
way all 0 0 3
way all 7 7 3
way one 9 9
way handler 5 5
way return 0 0 3
way return 3 3 3
way die 3 3
way abort 6 134
way fail 4 4
GASNET_EXITTIMEOUT=2s
way one 0 0
GASNET_EXITTIMEOUT=$never
for k in 1 2 3; do
    mp_queue "smp: return 3 by members that sleep, $k" asleep smp return 3 3 3
done
mp_queue_end
# Other launchers, which ignore the exit code of a process that has left in order, are told to end the job; members that return together are
# not cut short.
foreign() {
    mp_wanted "mpiexec.hydra: $1 $2" || return 0
    if ! command -v mpiexec.hydra >/dev/null; then
        mp_skip "mpiexec.hydra: $1 $2" "mpiexec.hydra is missing"
        return 0
    fi
    timeout -k 5 30 mpiexec.hydra -n 3 "$builddir/tests/am/am_exit" "$1" "$2" >"$mp_dir/out" 2>&1 </dev/null
    rc=$?
    echo "exit code $rc, expected $2" >>"$mp_dir/out"
    [ $rc -eq "$2" ] && [ "$(grep -o 'unflushed words' "$mp_dir/out" | wc -l)" -ge "$3" ]
    mp_report $? "mpiexec.hydra: $1 $2" "$mp_dir/out"
}
GASNET_EXITTIMEOUT=$never
foreign fail 4 1
foreign return 3 3
foreign return 0 3
# The message that all have met may be lost, and is sent again.
word=$("$builddir/tests/am/am_exit" word)
AMPHORA_STATS=1 AMPHORA_SMP=0 AMPHORA_UDP_LOSE_HANDLER=$word timeout -k 5 60 "$AMPHORA_RUN" -n 4 -conduit udp "$builddir/tests/am/am_exit" \
    all 0 >"$mp_dir/out" 2>&1 && ! grep -q 'not ended' "$mp_dir/out" && grep -Eq 'udp_lost +3 ' "$mp_dir/out"
mp_report $? "udp: nobody is waited for where the last word is lost" "$mp_dir/out"
mp_done
