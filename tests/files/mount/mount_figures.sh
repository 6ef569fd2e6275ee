#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The figures of iofwd-mount beside libfuse's passthrough_ll (of Debian's libfuse3-dev, compiled here), the preload library, and the
# directory itself.  Not a part of the suite; needs a quiet machine:
#
#   srcdir=. builddir=build chrt -f 10 sh tests/files/mount/mount_figures.sh [PAIRS]
#
# Runs take turns, PAIRS (9) of each; a figure is the median of theirs.  Both file systems have the same time-outs, sizes of reads and
# threads.  The last column is what must not be exceeded: 1.15 x (passthrough_ll + preload), and for reads from the kernel's cache
# passthrough_ll / 0.95.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
pairs=${1:-9}
example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
memory=$(mktemp -d /dev/shm/amphora-mount.XXXXXX) || exit 99
ln -s "$memory" "$mp_dir/kept"
mount_start
trap 'mount_end "$mp_dir/far" "$mp_dir/warm" "$mp_dir/peer_far" "$mp_dir/peer_warm"; rm -rf "$memory"' EXIT
${CC:-cc} -O2 -D_GNU_SOURCE -I"$srcdir" -o "$mp_dir/bench" "$srcdir/tests/files/mount/mount_bench.c" || exit 99
# shellcheck disable=SC2046 # words of pkg-config
${CC:-cc} -O2 -w -o "$mp_dir/passthrough_ll" "$example" $(pkg-config --cflags --libs fuse3) || exit 99

# peer DIR OPTIONS: passthrough_ll of the same files
peer() {
    mkdir "$1"
    "$mp_dir/passthrough_ll" -o "source=$memory,$2" "$1" || exit 99
}

mount_on "$mp_dir/far" && peer "$mp_dir/peer_far" cache=auto,timeout=1 || exit 99
mount_on "$mp_dir/warm" && peer "$mp_dir/peer_warm" cache=auto,timeout=1 || exit 99

i=0
while [ $i -lt "$pairs" ]; do
    "$mp_dir/bench" far "$memory" | sed 's/^/direct /'
    "$builddir/iofwd-run" -servers "$addresses" "$mp_dir/bench" far /fwd | sed 's/^/preload /'
    "$mp_dir/bench" far "$mp_dir/peer_far" | sed 's/^/peer /'
    "$mp_dir/bench" far "$mp_dir/far" | sed 's/^/mount /'
    "$mp_dir/bench" warm "$memory" | sed 's/^/direct /'
    "$mp_dir/bench" warm "$mp_dir/peer_warm" | sed 's/^/peer /'
    "$mp_dir/bench" warm "$mp_dir/warm" | sed 's/^/mount /'
    i=$((i + 1))
done >"$mp_dir/figures" || exit 1

sort -k1,2 -k3n "$mp_dir/figures" | awk '
    function out() { if (n) median[key] = value[int((n + 1) / 2)]; n = 0 }
    { if ($1 " " $2 != key) { out(); key = $1 " " $2 } value[++n] = $3; calls[$2] = 1 }
    function row(call, limit) {
        printf "%-16s %9d %9s %14d %9d %9d %7.2f  %s\n", call, median["direct " call], ("preload " call) in median ? median["preload " call] : "-",
            median["peer " call], median["mount " call], limit, median["mount " call] / limit, median["mount " call] <= limit ? "" : "MISSED"
    }
    END {
        out()
        printf "%-16s %9s %9s %14s %9s %9s %7s\n", "ns a call", "direct", "preload", "passthrough_ll", "mount", "limit", "ratio"
        n = split("stat access_missing open_close create_unlink mkdir_rmdir rename list_1000 read_4k read_1m write_4k write_1m", far)
        for (i = 1; i <= n; i++)
            row(far[i], 1.15 * (median["peer " far[i]] + median["preload " far[i]]))
        row("warm_4k", median["peer warm_4k"] / 0.95)
        row("warm_1m", median["peer warm_1m"] / 0.95)
    }'
