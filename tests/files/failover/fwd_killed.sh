#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients that are killed while they wait in a call leave to others what a local process would.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
killed=$builddir/tests/files/failover/fwd_killed

fwd_both "what waits and what does not" "$killed" sizes
for smp in 1 0; do
    AMPHORA_SMP=$smp fwd_both "a reader of a FIFO is killed (smp $smp)" "$killed" reader
    AMPHORA_SMP=$smp fwd_both "a writer is killed (smp $smp)" "$killed" writer
done
fwd_both "a process that waits for the other end is killed" "$killed" opener
fwd_both "more readers than a server has threads" "$killed" readers
fwd_both "likewise of those that wait for the other end" "$killed" openers
mp_done
