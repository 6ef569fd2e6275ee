#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/am/am_gather
# Pretended page sizes: the largest is the job's, and what does not divide it is refused with both hosts named.
pages() { # PAGES-OF-0 PAGES-OF-1
    timeout -k 5 40 "$AMPHORA_RUN" -n 2 -conduit smp -timeout 30 sh -c 'if [ "$AMPHORA_RANK" = 0 ]; then p=$1; else p=$2; fi
        AMPHORA_TEST_PAGE=$p exec "$0"' "$builddir/tests/am/am_gather" "$1" "$2" >"$mp_dir/out" 2>&1 </dev/null
}
pages 4096 65536 && [ "$(grep -c '^page 65536$' "$mp_dir/out")" = 2 ]
mp_report $? "the largest page size is the job's" "$mp_dir/out"
ok=0
pages 8192 12288 && ok=1
grep -q 'page sizes do not fit.* on host .* 8192 .* on host .* 12288' "$mp_dir/out" || ok=1
mp_report $ok "page sizes that do not divide are refused" "$mp_dir/out"
mp_done
