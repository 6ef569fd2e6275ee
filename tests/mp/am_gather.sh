#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/mp/lib.sh"
mp_run tests/mp/am_gather
# Pretended page sizes: the largest is the job's, and what does not divide it is refused with both hosts named.
pages() { # PAGES-OF-EVEN PAGES-OF-ODD
    "$AMPHORA_RUN" -n 2 -conduit smp -timeout 30 sh -c 'if [ "$AMPHORA_RANK" = 0 ]; then p=$1; else p=$2; fi
        AMPHORA_TEST_PAGE=$p exec "$0"' "$builddir/tests/mp/am_gather" "$1" "$2"
}
largest() { pages 4096 65536 | grep -c '^page 65536$' | grep -qx 2; }
refused() { out=$(pages 8192 12288 2>&1) && return 1; echo "$out" | grep 'page sizes do not fit.*on host.*8192.*on host.*12288\|page sizes do not fit.*on host.*12288.*on host.*8192'; }
mp_timeout=40
mp_check "the largest page size is the job's" largest
mp_check "page sizes that do not divide are refused" refused
mp_done
