#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that each write a file of their own through one server of the same host, beside the same processes without forwarding.
# Not a part of the suite:
#
#   srcdir=. builddir=build sh tests/files/data/writers_figures.sh [RUNS [write|read]]
#
# Runs take turns, RUNS (9) of each; a figure is the median of theirs, in GB/s.  Files are in memory: 32 MiB by calls of 1 MiB, 8 MiB by
# calls of 4 KiB.  "server" is IOFWD_PASSTHROUGH=0: the server makes the calls; "no pipes" is IOFWD_PIPES=0 besides.
set -u
: "${srcdir:=.}" "${builddir:=build}"
runs=${1:-9} how=${2:-write}
dir=$(mktemp -d /dev/shm/amphora-writers.XXXXXX) || exit 99
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/files"
${CC:-cc} -O2 -std=gnu11 -D_GNU_SOURCE -I"$srcdir" -o "$dir/bench" "$srcdir/tests/files/data/writers_bench.c" || exit 99

forwarded() {
    "$builddir/amphora-run" -n 1 -servers 1 -conduit smp -iofwd "/fwd=$dir/files" "$dir/bench" /fwd "$@"
}

printf '%-10s %-8s %10s %16s %16s %16s\n' call processes direct forwarded server 'no pipes'
for sizes in "1048576 33554432" "4096 8388608"; do
    for n in 1 2 4 8; do
        i=0
        while [ $i -lt "$runs" ]; do
            # shellcheck disable=SC2086
            {
                printf 'direct ' && "$dir/bench" "$dir/files" $n $sizes 0.5 "$how" || exit 1
                printf 'forwarded ' && forwarded $n $sizes 0.5 "$how" || exit 1
                printf 'server ' && IOFWD_PASSTHROUGH=0 forwarded $n $sizes 0.5 "$how" || exit 1
                printf 'area ' && IOFWD_PASSTHROUGH=0 IOFWD_PIPES=0 forwarded $n $sizes 0.5 "$how" || exit 1
            }
            i=$((i + 1))
        done | sort -k1,1 -k2n | awk -v call="${sizes% *}" -v n=$n '
            { if ($1 != key) { if (k) median[key] = value[int((k + 1) / 2)]; key = $1; k = 0 } value[++k] = $2 }
            function cell(way) { return sprintf("%.2f (%.2f)", median[way], median[way] / median["direct"]) }
            END {
                median[key] = value[int((k + 1) / 2)]
                printf "%-10d %-8d %10.2f %16s %16s %16s\n", call, n, median["direct"], cell("forwarded"), cell("server"), cell("area")
            }'
    done
done
