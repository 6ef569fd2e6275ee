#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each misuse of a collective ends the job with a non-zero code and a sentence that names the call and the value.
. "${srcdir:-.}/tests/lib/lib.sh"

# misuse NAME PATTERN: the job fails with exit code 1 and says something that matches
misuse() {
    mp_queue "misuse $1" mp_misuse 1 "$2" "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/tests/gex/coll/gex_coll_bad" "$1"
}

misuse barrier_flags 'gex_Coll_BarrierNB: flags 0x1 are not'
misuse root 'gex_Coll_BroadcastNB: root 2 is out of range; the team has 2'
misuse flags 'gex_Coll_BroadcastNB: flags 0x[0-9a-f]+ are not for collectives'
misuse pair 'gex_Coll_BroadcastNB: .*gex_TM_Pair stands for no team'
misuse type 'gex_Coll_ReduceToAllNB: 0x3 is not one GEX_DT_ constant'
misuse type_size 'ReduceToAllNB: dt_sz is 4, but an element of type 0x20 has 8 bytes'
misuse none 'ReduceToOneNB: 0 elements of 8 bytes'
misuse bits_of_double 'ReduceToOneNB: operation 0x40 is not one for reductions of type 0x20'
misuse subtraction 'ReduceToOneNB: operation 0x80 is not one for reductions'
misuse no_function 'need a function; user_op is NULL'
misuse user_type 'operation 0x[0-9a-f]* is not one for reductions of type 0x40'
misuse busy_team 'a team of 2 is destroyed while 1 of its collectives are under way'
misuse images 'process 1 is said to have 2 images'
misuse no_operator 'gasnet_coll_reduce: there is no operator 3; gasnet_coll_init was given 0'
misuse two_words 'gasnet_coll_broadcast: flags 0x[0-9a-f]+ are not one of'
misuse image 'gasnet_coll_scatter: image 7 is out of range; the team has 2'
misuse team_notify 'gasnet_coll_barrier_notify was called twice'
misuse team_wait 'gasnet_coll_barrier_wait was called without gasnet_coll_barrier_notify'
mp_check "without misuse nothing is said" "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/tests/gex/coll/gex_coll_bad" nothing
mp_done
