#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random file calls, made in a local directory and in a forwarded one: results, errno, data and the trees left behind are the same.
# FWD_SEED=N FWD_CALLS=N repeats one; scripts/check-long asks for many.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"
seed=${FWD_SEED:-2}
calls=${FWD_CALLS:-4000}
for procs in ${FWD_PROCS:-1 3}; do
    fwd_both "random calls, seed $seed, $calls by $procs processes" "$builddir/tests/mp/fwd_random" "$seed" "$calls" "$procs"
done
mp_done
