#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The figures of iofwd-run -trap beside an empty supervisor, no forwarding, a trivial filter, and the preload library.  Not a part of the suite:
#
#   srcdir=. builddir=build chrt -f 10 sh tests/files/trap/trap_figures.sh [PAIRS]
#
# Runs take turns, PAIRS (5) of each; a figure is the median of theirs.  The last column is what must not be exceeded.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
pairs=${1:-5}
mp_dir2=$(mktemp -d /dev/shm/amphora-trap.XXXXXX) || exit 99
rmdir "$mp_dir/kept" 2>/dev/null
ln -s "$mp_dir2" "$mp_dir/kept"
mount_start
trap 'mount_end; rm -rf "$mp_dir2"' EXIT
${CC:-cc} -O2 -D_GNU_SOURCE -I"$srcdir" -static -o "$mp_dir/static" "$srcdir/tests/files/trap/trap_bench.c" || exit 99
${CC:-cc} -O2 -D_GNU_SOURCE -I"$srcdir" -o "$mp_dir/dynamic" "$srcdir/tests/files/trap/trap_bench.c" || exit 99

i=0
while [ $i -lt "$pairs" ]; do
    "$mp_dir/static" empty | sed 's/^/empty /'
    "$mp_dir/static" calls "$mp_dir2" | sed 's/^/plain /'
    "$mp_dir/static" floor | sed 's/^/floor /'
    "$builddir/iofwd-run" -servers "$addresses" "$mp_dir/dynamic" calls /fwd | sed 's/^/preload /'
    run "$mp_dir/static" calls /fwd | sed 's/^/trap /'
    i=$((i + 1))
done >"$mp_dir/figures"

# a line "WAY CALL MEDIAN"
sort -k1,2 -k3n "$mp_dir/figures" | awk '
    function out() { if (n) median[key] = value[int((n + 1) / 2)]; n = 0 }
    { if ($1 " " $2 != key) { out(); key = $1 " " $2 } value[++n] = $3 }
    function row(call, limit) {
        printf "%-16s %9d %9s %9d %9d  %s\n", call, median["plain " call], ("preload " call) in median ? median["preload " call] : "-",
            median["trap " call], limit, median["trap " call] <= limit ? "" : "MISSED"
    }
    END {
        out()
        trip = median["empty empty_round_trip"]
        printf "a round trip of an empty supervisor: %d ns\n", trip
        printf "a filter that only looks at one argument: pread +%d ns, lseek +%d ns\n",
            median["floor ordinary_pread"] - median["plain ordinary_pread"], median["floor ordinary_lseek"] - median["plain ordinary_lseek"]
        printf "%-16s %9s %9s %9s %9s\n", "ns a call", "plain", "preload", "trap", "limit"
        row("ordinary_pread", median["plain ordinary_pread"] + 60)
        row("ordinary_lseek", median["plain ordinary_lseek"] + 60)
        row("library_fstat", 2 * trip)
        row("local_stat", 2 * trip)
        row("relative_access", 2 * trip)
        row("stat", trip + median["preload stat"] + 5000)
        row("read_4k", trip + median["preload read_4k"] + 5000)
        row("read_1m", 2 * median["preload read_1m"])
    }'
