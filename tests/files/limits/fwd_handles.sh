#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files are open at the server exactly as long as a process holds them; see fwd_handles.c.
. "${srcdir:-.}/tests/lib/lib.sh"

i=0
for conduit in smp tcp; do
    for n in 1 3; do
        i=$((i + 1))
        mkdir "$mp_dir/kept.$i"
        FWD_ALONE=1
        export FWD_ALONE
        [ $n = 1 ] || unset FWD_ALONE
        mp_run tests/files/limits/fwd_handles -n $n -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept.$i" -t 90
    done
done
mp_done
