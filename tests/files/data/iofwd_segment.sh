#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Reads and writes whose buffers lie in the program's segment; see iofwd_segment.c.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"
seed=$mp_seed
IOFWD_PASSTHROUGH=0
export IOFWD_PASSTHROUGH
for conduit in smp tcp; do
    for stripe in 1 2:64K; do
        IOFWD_STRIPE=$stripe
        export IOFWD_STRIPE
        mp_run tests/files/data/iofwd_segment -n "1 3" -t 60 -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept" -- "$seed"
    done
done
# pieces smaller than a page of the file system
IOFWD_PIECE=4096 IOFWD_STRIPE=2
export IOFWD_PIECE IOFWD_STRIPE
mp_run tests/files/data/iofwd_segment -n 2 -t 60 -c "smp tcp" -o "-servers 2 -iofwd /fwd=$mp_dir/kept" -- "$seed"
mp_done
