#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A full file system: small ones in memory, in a mount namespace of the test's own, one for a program by itself and one for the servers.
# See fwd_full.c.
mounts_for="a full file system"
. "${srcdir:-.}/tests/files/mounts.sh"
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/limits/fwd_full
trap 'umount "$mp_dir/l" "$mp_dir/f" 2>/dev/null; rm -rf "$mp_dir"' EXIT
mkdir "$mp_dir/l" "$mp_dir/f"

# fresh DIRECTORY: an empty file system there
fresh() {
    umount "$1" 2>/dev/null
    mount -t tmpfs -o size=4m,nr_inodes=40 none "$1"
}

# compare NAME SETTING...: the answers, and the files
compare() {
    compare_name=$1
    shift
    fresh "$mp_dir/l"
    fresh "$mp_dir/f"
    timeout -k 5 60 "$program" each "$mp_dir/l" >"$mp_dir/local" 2>&1 </dev/null
    (
        export "$@"
        fwd_servers "$mp_dir/f" "$program" each /fwd
    ) >"$mp_dir/forwarded"
    fwd_tree "$mp_dir/l" >"$mp_dir/l.tree"
    fwd_tree "$mp_dir/f" >"$mp_dir/f.tree"
    { diff "$mp_dir/local" "$mp_dir/forwarded" && diff "$mp_dir/l.tree" "$mp_dir/f.tree"; } >"$mp_dir/out" 2>&1 &&
        test "$(grep -c ENOSPC "$mp_dir/local")" -gt 10
    mp_report $? "$compare_name: each call's answer ($(wc -l <"$mp_dir/forwarded") lines)" "$mp_dir/out"
}

# right WHAT SETTING...: the program says so itself
right() {
    right_what=$1
    shift
    fresh "$mp_dir/f"
    (
        export "$@"
        fwd_servers "$mp_dir/f" "$program" "$right_what" /fwd
    ) >"$mp_dir/out"
    grep -q '^as it should be' "$mp_dir/out"
    mp_report $? "$right_what ($*)" "$mp_dir/out"
}

# large SETTING...: large writes, whose data comes by pipes; what did not fit may not be in the file later
large() {
    for place in l f; do
        umount "$mp_dir/$place" 2>/dev/null
        mount -t tmpfs -o size=9m none "$mp_dir/$place"
    done
    timeout -k 5 60 "$builddir/tests/files/data/fwd_splice" full "$mp_dir/l" "$mp_dir" >"$mp_dir/local" 2>&1 </dev/null
    (
        export "$@"
        fwd_servers "$mp_dir/f" "$builddir/tests/files/data/fwd_splice" full /fwd "$mp_dir"
    ) >"$mp_dir/forwarded"
    { diff "$mp_dir/local" "$mp_dir/forwarded" && cmp "$mp_dir/l/full" "$mp_dir/f/full"; } >"$mp_dir/out" 2>&1 &&
        test "$(grep -c ENOSPC "$mp_dir/local")" -ge 3
    mp_report $? "large writes ($*): each call's answer ($(wc -l <"$mp_dir/forwarded") lines)" "$mp_dir/out"
}

large IOFWD_PIPES=16
large IOFWD_PIPES=0
compare "one host" AMPHORA_SMP=1
compare "over a network" AMPHORA_SMP=0
for net in AMPHORA_SMP=1 AMPHORA_SMP=0; do
    right late $net
    right late $net IOFWD_CONSISTENCY=session
    right late $net IOFWD_STRIPE=2:64K
    right late $net IOFWD_STRIPE=2
    right late $net IOFWD_STRIPE=2:64K IOFWD_CONSISTENCY=session
    right map $net IOFWD_PASSTHROUGH=0
done

# the map is one of the file itself
fresh "$mp_dir/l"
fresh "$mp_dir/f"
{ timeout -k 5 60 "$program" map "$mp_dir/l"; echo "ended with $?"; } >"$mp_dir/local" 2>"$mp_dir/out" </dev/null
fwd_servers "$mp_dir/f" sh -c 'exec 2>/dev/null; "$1" map /fwd; echo "ended with $?"' sh "$program" >"$mp_dir/forwarded"
diff "$mp_dir/local" "$mp_dir/forwarded" >"$mp_dir/out" 2>&1 && grep -q "ended with 135" "$mp_dir/local"
mp_report $? "a map of the file itself: SIGBUS, as locally" "$mp_dir/out"
mp_done
