#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tasks with descriptor tables of their own (unshare, close_range, clone): what one closes or opens does not concern the other.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

for section in unshare close_range locks clone descendants zero proc requests waits ends maps finding directory; do
    if [ "$section" = proc ] && fwd_is_near; then
        fwd_skip "own descriptor tables: proc" "files that a program opens by itself have the servers' names in /proc"
        continue
    fi
    fwd_both "own descriptor tables: $section" "$builddir/tests/files/process/fwd_tables" "$section"
done
for section in race while-copied killed-at-start; do
    fwd_both "own descriptor tables: $section" "$builddir/tests/files/process/fwd_tables_race" "$section"
done

# A server's lock agents have tables of their own.  A server that is a client of other servers keeps its export nevertheless.
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
mkdir -p "$mp_dir/kept/sub"
trap 'for pid in "$mp_dir"/pid*; do test -f "$pid" && kill "$(cat "$pid")"; done; rm -rf "$mp_dir"' EXIT
if mp_wanted "a server of a forwarded directory serves record locks"; then
    {
        timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/near=$mp_dir/kept" -address-file "$mp_dir/near" \
            -pid-file "$mp_dir/pid1" &&
            timeout -k 5 60 "$builddir/iofwd-run" -servers "$mp_dir/near" "$builddir/iofwd-server" -daemon -servers 1 \
                -iofwd /far=/near/sub -address-file "$mp_dir/far" -pid-file "$mp_dir/pid2" &&
            timeout -k 5 60 "$builddir/iofwd-run" -servers "$mp_dir/far" "$builddir/tests/files/process/fwd_tables" locks /far "$mp_dir" &&
            echo after >"$mp_dir/text" &&
            timeout -k 5 60 "$builddir/iofwd-run" -servers "$mp_dir/far" sh -c 'cat "$1" >/far/new && ls /far' sh "$mp_dir/text"
        echo "exit code $?"
        timeout -k 5 60 "$builddir/tests/files/process/fwd_tables" locks "$mp_dir/kept" "$mp_dir" >"$mp_dir/local"
        grep -c . "$mp_dir/local"
        grep -vxF -f "$mp_dir/out" "$mp_dir/local"
    } >"$mp_dir/out" 2>&1
    grep -q '^exit code 0$' "$mp_dir/out" && test "$(tail -n 1 "$mp_dir/out")" -gt 20 && cmp -s "$mp_dir/text" "$mp_dir/kept/sub/new"
    mp_report $? "a server of a forwarded directory serves record locks" "$mp_dir/out"
fi
mp_done
