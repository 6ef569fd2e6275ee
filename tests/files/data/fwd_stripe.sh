#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files spread over 1, 2, 3 and 5 of the servers, in equal parts and in units; see fwd_stripe.c.  The seed is in the name of each test.
. "${srcdir:-.}/tests/lib/lib.sh"
seed=$mp_seed
run=0
for conduit in smp tcp tcp-smp; do
    for stripe in 1 2 2:64K 3:256K 5 *.c=1,*=4:4K,4; do
        run=$((run + 1))
        width=${stripe##*,}
        width=${width%%:*}
        mkdir "$mp_dir/kept.$run"
        IOFWD_STRIPE=$stripe
        export IOFWD_STRIPE
        mp_run tests/files/data/fwd_stripe -n 1 -c $conduit -o "-servers 5 -iofwd /fwd=$mp_dir/kept.$run" -t 90 -- $width $((seed + run))
        rm -rf "$mp_dir/kept.$run"
    done
done
mp_done
