#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each misuse ends the job with a non-zero code and a sentence that names the call and the value.
. "${srcdir:-.}/tests/lib/lib.sh"

# misuse NAME PATTERN [CODE]: the job fails (with that code) and says something that matches
misuse() {
    mp_queue "misuse $1" mp_misuse "${3:-}" "$2" "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/tests/gex/api/gex_bad" "$1"
}

misuse attach_early 'gasnet_attach was called before gasnet_init' 3
misuse rank_early 'gex_System_QueryJobRank was called before'
misuse put_early 'gex_RMA_PutBlocking was called before'
misuse am_early 'an active message was sent before gasnet_init' 3
misuse put_rank 'PutBlocking: rank 1000 is out of range; the team has 2'
misuse get_rank 'GetNB: rank 2 is out of range'
misuse am_rank 'gex_AM_RequestShort: rank 5 is out of range'
misuse put_outside 'PutBlocking: 8 bytes at 0x[0-9a-f]+ lie outside the segment of process 1'
misuse list_outside 'VectorPutBlocking: 8 bytes at 0x[0-9a-f]+ lie outside the segment of process 1'
misuse put_self 'PutBlocking: 8 bytes at 0x[0-9a-f]+ lie outside the segment of process 0'
misuse get_offset 'GetBlocking: 8 bytes at offset [0-9]+ lie outside the segment of process 1'
misuse commit_twice 'CommitRequestMedium: the descriptor is not one that .* or it has been used up'
misuse commit_other 'CommitRequestLong: the descriptor is not one that'
misuse commit_args 'CommitRequestMedium: 100 bytes and 1 arguments; prepared were at most 200 bytes and 0 arguments'
misuse commit_bytes 'CommitRequestMedium: 201 bytes .*; prepared were at most 200'
misuse prepare_twice 'PrepareRequestLong: this thread.s last prepared message has not been committed'
misuse prepare_least 'PrepareRequestMedium: least_payload is 201, but may be at most most_payload \(200\)'
misuse prepare_lc 'lc_opt must be NULL where the buffer is the library'
misuse prepare_client 'lc_opt must be GEX_EVENT_NOW, GEX_EVENT_GROUP or the address of an event where the buffer is the client'
misuse cancel_flags 'gex_AM_Cancel: flags must be 0, not 0x1'
misuse both_least 'not with both'
misuse nb_group 'gex_RMA_PutNB: lc_opt must be GEX_EVENT_NOW, GEX_EVENT_DEFER or the address of an event'
misuse nbi_event 'gex_RMA_PutNBI: lc_opt must be GEX_EVENT_NOW, GEX_EVENT_DEFER or GEX_EVENT_GROUP'
misuse long_outside 'RequestLong: 100 bytes at 0x[0-9a-f]+ lie outside the segment of process 1'
misuse medium_size 'RequestMedium: a payload of [0-9]+ bytes is too large; to process 1 at most [0-9]+'
misuse medium_defer 'lc_opt must be GEX_EVENT_NOW'
misuse no_handler 'message from process 0 to handler 222 .* cannot be delivered'
misuse value_size 'a value has 1 to 8 bytes, not 9'
misuse no_op 'GEX_EVENT_NO_OP cannot be tested or waited for'
misuse notify_twice 'gasnet_barrier_notify was called twice'
misuse wait_alone 'gasnet_barrier_wait was called without gasnet_barrier_notify'
misuse barrier_flags 'flags 0x63 are not'
misuse nested_region 'regions do not nest'
misuse max_args 'at most 16 arguments, not 17'
misuse bad_team 'the team is not valid'
misuse handler_twice 'handler index 201 \(mine\) is taken twice' 5
misuse handler_args 'handler 201 \(mine\) wants 17 arguments; a message has at most 16' 5
misuse handler_index "handler index 100 .* is not a client's" 5
misuse init_twice 'initialised already' 5
misuse attach_twice 'attached already' 5
misuse big_segment 'a segment of [0-9]+ bytes was asked for; this process can have at most [0-9]+' 5
GASNET_MAX_SEGSIZE=lots
export GASNET_MAX_SEGSIZE
misuse max_args 'GASNET_MAX_SEGSIZE="lots" is not allowed'
mp_done
