#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Random programs (tests/upc/upc_random.c) as plain C and as UPC on 1, 3 and 4 threads: what they print is the same.
#   upc_random.sh [COUNT [FIRST]]
. "${srcdir:-.}/tests/lib/lib.sh"
count=${1:-4} first=${2:-1}

one() { # SEED
    "$builddir/tests/upc/upc_random" "$1" >"$mp_dir/r.c" && cp "$mp_dir/r.c" "$mp_dir/r.upc" &&
        gcc -std=gnu11 -w -DPLAIN -fwrapv -O0 "$mp_dir/r.c" -o "$mp_dir/plain" && "$mp_dir/plain" >"$mp_dir/want" &&
        "$builddir/amphora-upcc" -w -fwrapv -O0 "$mp_dir/r.upc" -o "$mp_dir/upc" || return 1
    [ "$(wc -l <"$mp_dir/want")" -gt 20 ] || return 1
    for n in 1 3 4; do
        "$builddir/amphora-upcrun" -n $n -network smp -timeout 50 "$mp_dir/upc" >"$mp_dir/got" || return 1
        diff "$mp_dir/want" "$mp_dir/got" || return 1
    done
}
seed=$first
while [ $seed -lt $((first + count)) ]; do
    one $seed >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "random program $seed" "$mp_dir/out"
    seed=$((seed + 1))
done
mp_done
