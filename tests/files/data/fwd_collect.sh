#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collected reads and writes give what plain ones give; see fwd_collect.c.  The seed is in the name of each test.
. "${srcdir:-.}/tests/lib/lib.sh"
seed=$mp_seed
run=0
for conduit in smp tcp; do
    for setting in "posix 4 1" "session 4 1" "session 1 1" "session 16 2"; do
        set -- $setting
        run=$((run + 1))
        mkdir "$mp_dir/kept.$run"
        IOFWD_CONSISTENCY=$1 IOFWD_BLOCKS=$2 IOFWD_STRIPE=$3
        export IOFWD_CONSISTENCY IOFWD_BLOCKS IOFWD_STRIPE
        mp_run tests/files/data/fwd_collect -n 2 -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept.$run" -t 90 -- "$setting" $((seed + run))
    done
done
mp_done
