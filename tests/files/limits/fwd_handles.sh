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

# The usual limit of users: the program itself then takes the last descriptor.
mkdir "$mp_dir/kept.few"
FWD_ALONE=1
export FWD_ALONE
if ulimit -S -n 1024; then
    mp_run tests/files/limits/fwd_handles -n 1 -c smp -o "-servers 2 -iofwd /fwd=$mp_dir/kept.few" -t 90
fi
mp_done
