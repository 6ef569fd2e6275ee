#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs of processes with different (pretended) page sizes: the largest is taken; one that does not divide it is refused, naming both
# hosts.
. "${srcdir:-.}/tests/lib/lib.sh"

# Gives process i the i-th page size of a list.
cat >"$mp_dir/with_page" <<'EOF'
#!/bin/sh
AMPHORA_TEST_PAGE=$(echo "$1" | cut -d, -f$((AMPHORA_RANK + 1)))
export AMPHORA_TEST_PAGE
shift
exec "$@"
EOF
chmod +x "$mp_dir/with_page"

# pages LIST PROGRAM ARGS: two processes a host
pages() {
    pg_list=$1
    shift
    pg_n=$(echo "$pg_list" | tr ',' ' ' | wc -w)
    i=0
    while [ $i -lt "$pg_n" ]; do
        echo "host$((i / 2))"
        i=$((i + 1))
    done >"$mp_dir/hosts"
    timeout -k 5 60 "$AMPHORA_RUN" -n "$pg_n" -conduit tcp -hosts "$mp_dir/hosts" -timeout 50 \
        "$mp_dir/with_page" "$pg_list" "$@" >"$mp_dir/out" 2>&1 </dev/null
    pg_rc=$?
}

pages 65536,65536 "$builddir/tests/gex/gex_job" 65536
mp_report $pg_rc "pages of 64 KiB" "$mp_dir/out"
pages 4096,65536,16384,8192 "$builddir/tests/gex/gex_job" 65536
mp_report $pg_rc "pages of 4, 64, 16 and 8 KiB" "$mp_dir/out"
pages 8192,4096,12288 "$builddir/tests/gex/gex_job" 12288
pg_ok=1
{ [ $pg_rc -ne 0 ] && [ $pg_rc -lt 124 ] && grep -q 'host0' "$mp_dir/out" && grep -q 'host1' "$mp_dir/out" &&
    grep -q '12288' "$mp_dir/out" && grep -q '8192' "$mp_dir/out"; } || pg_ok=0
mp_report $((1 - pg_ok)) "pages that do not divide each other" "$mp_dir/out"
mp_done
