#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What calls on local files cost in a program that forwards others: plain, under the preload library, built by iofwd-cc, and as a copy
# of iofwd-instrument; all but the first are attached to a server.  Not a part of the suite:
#
#   srcdir=. builddir=build chrt -f 10 taskset -c 1 sh tests/files/ways/ways_figures.sh [RUNS]
#
# Runs take turns, RUNS (9) of each; a figure is the median of theirs, in nanoseconds.  A way may cost 20 ns a call more than the plain
# program; open+close and mmap+munmap are two calls each.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
runs=${1:-9}
place=$(mktemp -d /dev/shm/amphora-ways.XXXXXX) || exit 99
mount_start
trap 'mount_end; rm -rf "$place"' EXIT
source="-O2 -std=gnu11 -D_GNU_SOURCE -I$srcdir $srcdir/tests/files/ways/ways_bench.c"
# shellcheck disable=SC2086
{
    ${CC:-cc} $source -o "$mp_dir/plain" && "$builddir/iofwd-cc" ${CC:-cc} $source -o "$mp_dir/wrapped" &&
        "$builddir/iofwd-instrument" -o "$mp_dir/instrumented" "$mp_dir/plain"
} >"$mp_dir/out" 2>&1 || { cat "$mp_dir/out"; exit 99; }

i=0
while [ $i -lt "$runs" ]; do
    "$mp_dir/plain" "$place" | sed 's/^/plain /'
    "$builddir/iofwd-run" -servers "$addresses" "$mp_dir/plain" "$place" | sed 's/^/preload /'
    for way in wrapped instrumented; do
        env AMPHORA_JOB="$addresses" IOFWD_PREFIX=/fwd "$mp_dir/$way" "$place" | sed "s/^/$way /"
    done
    i=$((i + 1))
done >"$mp_dir/figures"

sort -k1,2 -k3n "$mp_dir/figures" | awk '
    function out() { if (n) median[key] = value[int((n + 1) / 2)]; n = 0 }
    { if ($1 " " $2 != key) { out(); key = $1 " " $2 } value[++n] = $3; if (!seen[$2]++) name[++names] = $2 }
    function cell(way, call, more) {
        more = median[way " " call] - median["plain " call]
        return sprintf("%+d%s", more, more <= (call ~ /\+/ ? 40 : 20) ? "" : " MISSED")
    }
    END {
        out()
        printf "%-14s %8s %16s %16s %16s\n", "ns a call", "plain", "preload", "wrapped", "instrumented"
        for (i = 1; i <= names; i++)
            printf "%-14s %8d %16s %16s %16s\n", name[i], median["plain " name[i]], cell("preload", name[i]), cell("wrapped", name[i]),
                cell("instrumented", name[i])
    }'
