#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The corners of POSIX and Linux: as on a local run.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"
truth=$builddir/tests/mp/fwd_truth

fwd_both "memory that is not there" "$truth" memory
fwd_both "errno after success" "$truth" untouched
fwd_both "appending together" "$truth" together
IOFWD_CONSISTENCY=session fwd_both "appending together, gathered" "$truth" together
AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp fwd_both "appending together, tcp" "$truth" together
fwd_both "what is told beyond stat" "$truth" marks
fwd_both "flags of one call" "$truth" flagged
IOFWD_CONSISTENCY=session fwd_both "flags of one call, gathered" "$truth" flagged
IOFWD_STRIPE=2:4K fwd_both "flags of one call, two servers" "$truth" flagged
fwd_both "the limit of file sizes" "$truth" limit
fwd_both "links that lead out" "$truth" links
fwd_both "record locks and exec" "$truth" locked
fwd_both "cancelled threads" "$truth" cancelled
mp_done
