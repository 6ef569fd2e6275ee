#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The memory model, without and with I/O servers beside; and misuse, which ends the job with a sentence.
. "${srcdir:-.}/tests/lib/lib.sh"
AMPHORA_UPC_HEAP=16M
export AMPHORA_UPC_HEAP
mp_run tests/upc/upc_litmus -n "1 2 4 7" -c "smp" -- 200
mp_run tests/upc/upc_litmus -n "2 4" -c "tcp tcp-smp udp" -- 20
mp_run tests/upc/upc_litmus -n "3" -c "smp" -o "-servers 2" -- 50

# misuse WORD PATTERN CODE
misuse() {
    timeout -k 5 30 "$AMPHORA_RUN" -n 2 -conduit "${3:-smp}" -timeout 20 "$builddir/tests/upc/upc_bad" "$1" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    [ $code -ne 0 ] && [ $code -ne 124 ] && grep -Eq "$2" "$mp_dir/out"
    mp_report $? "misuse: $1" "$mp_dir/out"
}
misuse values "upc_barrier: this thread's value is [01], another thread's value differs"
misuse wait 'upc_wait was called without upc_notify'
misuse notify 'upc_notify was called twice'
misuse wait_value 'upc_wait: its value is 2, that of upc_notify was 1'
misuse free 'upc_free .*: nothing is allocated at offset 0x[0-9a-f]+ of thread 0'
misuse free_twice 'upc_free .*: nothing is allocated at offset'
misuse unlock 'upc_unlock: this thread does not hold the lock'
misuse lock_twice 'upc_lock: this thread holds the lock already'
misuse no_lock 'upc_lock: .* is not a lock'
misuse between 'upc_all_broadcast was called between upc_notify and upc_wait'
misuse domain 'upc_all_atomicdomain_alloc: type 20 has no operations 0x10'
AMPHORA_SMP=0 misuse not_local 'a pointer to shared memory of thread [01] was cast to a local pointer' tcp
misuse copy_from_null 'read through a null pointer-to-shared'
misuse get_from_null 'read through a null pointer-to-shared'
misuse set_null 'a null pointer-to-shared was written to'
misuse put_to_null 'a null pointer-to-shared was written to'
misuse global_exit 'gasnet_exit\(5\)'
misuse exit 'exit|3'
misuse kill 'signal|SIGABRT|ABRT'
AMPHORA_UPC_HEAP=1T misuse nothing 'AMPHORA_UPC_HEAP asks for 1099511627776 bytes'
# Threads that wait learn of upc_global_exit(0) and end by themselves: the launcher need not kill them.
for net in smp tcp; do
    AMPHORA_SMP=$([ $net = smp ]; echo $((1 - $?))) timeout -k 5 30 "$AMPHORA_RUN" -n 3 -conduit $net -timeout 20 \
        "$builddir/tests/upc/upc_bad" global_exit_0 >"$mp_dir/out" 2>&1 </dev/null && ! grep -q 'have not ended' "$mp_dir/out"
    mp_report $? "upc_global_exit(0) on $net" "$mp_dir/out"
done
mp_check "without misuse nothing is said" "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/tests/upc/upc_bad" nothing
mp_done
