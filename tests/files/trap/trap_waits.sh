#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Under iofwd-run -trap: calls that wait (FIFOs, locks), the signals that end them, and threads that change what the supervisor looks at.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap"
build_static trap_waits
cases="fifo fifo_interrupted fifo_restarted many_wait record_locks locks_interrupted free_at_end many_wait_for_locks killed_while_waiting
appends race reopen"
for case in $cases; do
    both trap_waits "$case"
done

# Waits that sleep at once look for signals as often.
mp_remove "$mp_dir/plain/fifo_restarted" "$mp_dir/kept/fifo_restarted"
export AMPHORA_WAIT=block
both trap_waits fifo_restarted
mp_done
