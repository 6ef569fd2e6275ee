#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The corners of POSIX and Linux: as on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
truth=$builddir/tests/files/calls/fwd_truth

fwd_both "memory that is not there" "$truth" memory
fwd_both "errno after success" "$truth" untouched
fwd_both "appending together" "$truth" together
IOFWD_CONSISTENCY=session fwd_both "appending together, gathered" "$truth" together
AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp fwd_both "appending together, tcp" "$truth" together
fwd_both "what is told beyond stat" "$truth" marks
fwd_both "flags of one call" "$truth" flagged
IOFWD_CONSISTENCY=session fwd_both "flags of one call, gathered" "$truth" flagged
IOFWD_STRIPE=2:4K fwd_both "flags of one call, two servers" "$truth" flagged
fwd_both "flags of newer kernels, and SIGPIPE" "$truth" lately
fwd_both "flags that nobody knows" "$truth" unknown
fwd_both "the limit of file sizes" "$truth" limit
fwd_both "links that lead out" "$truth" links
fwd_both "the umask and default ACLs" "$truth" masked
fwd_both "record locks and exec" "$truth" locked
fwd_both "record locks of many ranges" "$truth" ranges
fwd_both "record locks of many files" "$truth" many-files
AMPHORA_WAIT=block fwd_both "record locks of many files, servers asleep" "$truth" many-files
fwd_both "cancelled threads" "$truth" cancelled
fwd_both "threads cancelled before a call" "$truth" cancelled-before

mkdir -p "$mp_dir/two"
mkfifo "$mp_dir/go" "$mp_dir/done"
timeout 60 "$AMPHORA_RUN" -n 2 -servers 2 -iofwd "/fwd=$mp_dir/two" -timeout 50 "$truth" held-by /fwd "$mp_dir" >"$mp_dir/out" 2>&1
test "$(grep -c '^held by the other: 0 1 1 from 10, 20 bytes$' "$mp_dir/out")" -eq 2
mp_report $? "F_GETLK names the client of another server" "$mp_dir/out"
mp_done
