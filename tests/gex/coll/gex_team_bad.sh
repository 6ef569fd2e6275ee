#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each misuse of teams, endpoints and kinds ends the job with a non-zero code and a sentence that names the call and the value.
. "${srcdir:-.}/tests/lib/lib.sh"

# misuse NAME PATTERN: the job fails with exit code 1 and says something that matches
misuse() {
    mp_queue "misuse $1" mp_misuse 1 "$2" "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/tests/gex/coll/gex_team_bad" "$1"
}

misuse split_color 'gex_TM_Split: the colour is -3 and must not be negative'
misuse split_flags 'gex_TM_Split: flags are 0x[0-9a-f]+; GEX_FLAG_TM_NO_SCRATCH or one of'
misuse split_no_scratch 'gex_TM_Split: the scratch space has no bytes; give 64 or more'
misuse split_scratch_outside 'gex_TM_Split: scratch space of 64 bytes at address 0x[0-9a-f]+ lies outside the bound segment'
misuse split_differently 'gex_TM_Split: ranks [01] and [01] of the parent ask for the team of colour 0 with different flags or scratch'
misuse split_pair 'gex_TM_Split: a value of gex_TM_Pair stands for no team'
misuse create_kind 'gex_TM_Create: flags are 0; exactly one of GEX_FLAG_TM_SYMMETRIC_SCRATCH'
misuse create_twice 'gex_TM_Create: entries 0 and 1 name the same endpoint of process 0'
misuse create_count 'gex_TM_Create: num_new_tms is 2; the list names 1 endpoints of this process'
misuse create_rank 'gex_TM_Create: entry 1 names rank 7; there are 2'
misuse create_lists 'gex_TM_Create: process [01] is named as a member and gives another list'
misuse create_absent 'gex_TM_Create: process 1 is named as a member and gives another list'
misuse create_no_ep 'gex_TM_Create: entry [01] names endpoint 5 of this process, which does not exist'
misuse destroy_world 'gex_TM_Destroy: the team of gex_Client_Init lives as long as the job'
misuse destroy_busy 'a team of 2 is destroyed while 1 of its collectives are under way'
misuse destroy_twice 'gex_TM_Destroy: the team is not valid: it was never made or has been destroyed'
misuse use_destroyed 'gex_RMA_PutBlocking: the team is not valid'
misuse translate_rank 'gex_TM_TranslateRankToJobrank: rank 2 is out of range; the team has 2 members'
misuse pair_index 'gex_TM_Pair: endpoint index 32 is out of range; a process has at most 32'
misuse pair_unknown "gex_RMA_PutBlocking: no segment of process [01]'s endpoint 3 is known here"
misuse pair_rank 'gex_AM_RequestShort: rank 2 is out of range; the team has 2 members'
misuse message_to_none 'message from process 0 to handler 200 .* cannot be delivered: this process has no such endpoint for messages'
misuse message_unable 'gex_AM_RequestShort: endpoint 1 of this process was created without GEX_EP_CAPABILITY_AM'
misuse bind_twice 'gex_EP_BindSegment: endpoint 0 has a segment already, [0-9]+ bytes at'
misuse segment_scratch 'gex_Segment_Destroy: a team of 2 members has its scratch space in this segment'
misuse kind_in_use 'gex_MK_Destroy: 1 segments of this kind still exist'
misuse kind_host 'gex_MK_Destroy: GEX_MK_HOST cannot be destroyed'
misuse kind_invalid 'gex_MK_QueryClass: GEX_MK_INVALID is no memory kind'
mp_done
