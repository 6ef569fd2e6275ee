#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random file calls, made in a local directory and in a forwarded one: results, errno, data and the trees left behind are the same; also
# with files spread over two servers, gathered, and through tcp and through udp that loses datagrams.
# FWD_SEED=N FWD_CALLS=N repeats one; scripts/check-nightly asks for many.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
seed=${FWD_SEED:-2}
calls=${FWD_CALLS:-2400}

# with NAME PROCESSES CALLS SETTING...
with() {
    with_name=$1 with_procs=$2 with_calls=$3
    shift 3
    for setting in "$@"; do
        export "${setting?}"
    done
    fwd_both "random calls, $with_name, seed $seed, $with_calls by $with_procs processes" "$builddir/tests/files/calls/fwd_random" "$seed" \
        "$with_calls" "$with_procs"
    for setting in "$@"; do
        unset "${setting%%=*}"
    done
}

for procs in ${FWD_PROCS:-1 3}; do
    with "one host" "$procs" "$calls"
    with "two servers" "$procs" $((calls / 4)) IOFWD_STRIPE=2:4K
    with tcp "$procs" $((calls / 4)) AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp
done
# What one process has gathered the others see after fsync or close: so there is one.
with gathered 1 "$calls" IOFWD_CONSISTENCY=session
with "gathered, two servers" 1 $((calls / 4)) IOFWD_CONSISTENCY=session IOFWD_STRIPE=2:4K
with "gathered, tcp" 1 $((calls / 4)) IOFWD_CONSISTENCY=session AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp
with "udp, 5 of 100 datagrams lost" 1 $((calls / 16)) AMPHORA_SMP=0 AMPHORA_CONDUIT=udp AMPHORA_UDP_LOSS=5 AMPHORA_UDP_SEED=7
mp_done
