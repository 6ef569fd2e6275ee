#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A checked build ends the job with a sentence for each misuse that the specifications leave undefined, and finds none in programs
# that are right.
. "${srcdir:-.}/tests/lib/lib.sh"
conduit=smp prog=gex_debug
mp_queue_width=6 # such a job waits for its end for most of its time

# misuse NAME PATTERN [CODE]: the job fails (with that code) and says something that matches
misuse() {
    smp=0
    [ $conduit != smp ] || smp=1
    mp_queue "$prog $conduit $1" mp_misuse "${3:-1}" "$2" env AMPHORA_SMP=$smp "$AMPHORA_RUN" -n 2 -conduit $conduit -timeout 20 \
        "$builddir/tests/gex/api/$prog" "$1"
}

from_handler='was called from a handler \(128, bad\); a handler may only reply'
held='was called by a thread that holds a handler-safe lock'
misuse request_in_handler "gex_AM_RequestShort $from_handler"
misuse put_in_handler "gex_RMA_PutBlocking $from_handler"
misuse get_in_handler "gex_RMA_GetNB $from_handler"
misuse poll_in_handler "gasnet_AMPoll $from_handler"
misuse test_in_handler "gex_Event_Test $from_handler"
misuse sync_in_handler "gex_NBI_Wait $from_handler"
misuse barrier_in_handler "gex_Coll_BarrierNB $from_handler"
misuse prepare_in_handler "gex_AM_PrepareRequestMedium $from_handler"
misuse reply_twice 'gex_AM_ReplyShort: handler 128 has replied already'
misuse reply_to_reply 'gex_AM_ReplyShort was called by the handler of a reply \(129\)'
misuse reply_left 'handler 128 \(bad\) returned between gex_AM_PrepareReplyMedium and its commit'
misuse reply_between 'gex_AM_ReplyShort was called between gex_AM_PrepareReplyMedium and its commit'
misuse other_token 'gex_Token_Info: the token is not that of the handler'
misuse stale_token 'gex_Token_MaxReplyMedium: the token is not that of the handler'
misuse stale_reply 'gex_AM_ReplyShort: the token is not that of the handler'
for prog in gex_debug gex_debug_par; do
    misuse lock_left 'handler 128 \(bad\) returned while it held a handler-safe lock'
    misuse reply_locked "gex_AM_ReplyShort $held"
    misuse put_locked "gex_RMA_PutBlocking $held"
    misuse poll_locked "gasnet_AMPoll $held"
    misuse wait_locked "GASNET_BLOCKUNTIL $held"
    misuse lock_twice 'gex_HSL_Lock: this thread holds the lock .* already and would wait for itself'
    misuse unlock_free 'gex_HSL_Unlock: this thread does not hold the lock'
    misuse destroy_held 'gex_HSL_Destroy: this thread holds the lock .* already; unlock it first'
    misuse nested_commit '^' 9
done
prog=gex_debug
misuse put_between 'gex_RMA_PutBlocking was called between gex_AM_PrepareRequestMedium and its commit'
misuse poll_between 'gasnet_AMPoll was called between gex_AM_PrepareRequestLong and its commit'
misuse other_dest 'CommitRequestLong: the destination is 0x[0-9a-f]+, but 0x[0-9a-f]+ was given to the prepare call'
misuse prepare_offset 'PrepareRequestMedium: GEX_FLAG_SELF_SEG_OFFSET is not for prepared messages'
misuse event_twice 'the event 0x[0-9a-f]+ has been consumed'
misuse event_array 'the event 0x[0-9a-f]+ has been consumed'
misuse event_flags 'gex_Event_WaitSome: flags are 0x1; they are reserved'
misuse nbi_flags 'gex_NBI_Wait: flags are 0x2; they are reserved'
misuse never_self 'PutBlocking: the flags \(0x8\) say that the target is another process, but it is process 0 itself'
misuse never_nbrhd 'RequestShort: GEX_FLAG_PEER_NEVER_NBRHD says that process 1 is no neighbour of process 0, but it is'
misuse never_nbrhd_put 'PutNBI: GEX_FLAG_PEER_NEVER_NBRHD says that process 1 is no neighbour'
misuse two_self 'GetBlocking: flags 0x280 hold several of GEX_FLAG_SELF_SEG_UNKNOWN'
misuse two_peer 'GetBlocking: flags 0x6000 hold several of GEX_FLAG_PEER_SEG_UNKNOWN'
misuse two_copy 'RequestMedium: flags 0x6 hold several of GEX_FLAG_LC_COPY_YES'
misuse not_bound "PutBlocking: 8 bytes at 0x[0-9a-f]+ are said to lie in this process's segment"
misuse offset_outside "PutBlocking: 8 bytes at 0x[0-9a-f]+ are said to lie in this process's segment"
misuse least_request 'RequestMedium: GEX_FLAG_AM_PREPARE_LEAST_CLIENT and _ALLOC are for the queries'
misuse null_source 'RequestMedium: the memory of 8 bytes in this process is NULL'
misuse poll_early 'gasnet_AMPoll was called before gex_Client_Init'
misuse wait_early 'gex_Event_Wait was called before gex_Client_Init'
misuse nbi_early 'gex_NBI_Wait was called before gex_Client_Init'
misuse region_early 'gex_NBI_BeginAccessRegion was called before gex_Client_Init'
misuse prepare_early 'gex_AM_PrepareRequestMedium was called before gex_Client_Init'
conduit=tcp
misuse leaf_after_root 'the event 0x[0-9a-f]+ has been consumed'
misuse leaf_of_leaf 'gex_Event_QueryLeaf: the event 0x[0-9a-f]+ is a leaf itself'
misuse leaf_deferred 'gex_Event_QueryLeaf: the operation has no leaf of category 0x8'
misuse leaf_of_get 'gex_Event_QueryLeaf: the operation has no leaf of category 0x8'
misuse region_twice 'the event 0x[0-9a-f]+ has been consumed'

mp_queue_end

# Programs that are right.
mp_run tests/gex/am/gex_am_checked -n 3
mp_run tests/gex/am/gex_np_checked -n 3
mp_run tests/gex/gex_rma_checked -n 3
mp_run tests/gex/gex_flags_checked -n 3
mp_done
