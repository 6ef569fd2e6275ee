#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every forwarded call against real servers; the prefix does not exist here, its directory is another one.
srcdir=${srcdir:-.}
. "$srcdir/tests/mp/lib.sh"
fresh() {
    rm -rf "$mp_dir/srv"
    mkdir "$mp_dir/srv"
}
for c in smp tcp tcp-smp; do
    for n in 1 3; do
        fresh
        mp_run tests/mp/iofwd_calls -n $n -c $c -t 60 -o "-servers 2 -iofwd /fwd=$mp_dir/srv" -- "$mp_dir/srv"
    done
done
mp_done
