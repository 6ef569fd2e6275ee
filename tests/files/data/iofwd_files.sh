#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files by name, collected and non-blocking calls of iofwd.h; see iofwd_files.c.
. "${srcdir:-.}/tests/lib/lib.sh"
run=0
for conduit in smp tcp; do
    for stripe in 1 2; do
        run=$((run + 1))
        mkdir "$mp_dir/kept.$run"
        IOFWD_STRIPE=$stripe
        export IOFWD_STRIPE
        mp_run tests/files/data/iofwd_files -n "1 3" -t 20 -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept.$run" -- $run
    done
done
mp_done
