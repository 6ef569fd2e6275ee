#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Python's own tests of files, with their working and temporary directory in a local directory and below a forwarded prefix: each case ends
# the same.  For scripts/check-nightly; OUTSIDE_TESTS names others.  Needs Debian's libpython3.11-testsuite, or another Python with its tests.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
python=$(for p in /usr/bin/python3 python3; do "$p" -c 'import test.test_os' 2>/dev/null && echo "$p" && break; done)
if [ -z "$python" ]; then
    echo "1..0 # SKIP there is no python3 with its own tests here (Debian: libpython3.11-testsuite)"
    exit 0
fi
tests=${OUTSIDE_TESTS:-test_os test_posix test_posixpath test_genericpath test_file test_fileio test_tempfile test_shutil test_glob
    test_pathlib test_mmap test_filecmp test_fileinput test_stat test_largefile test_import test_logging test_gzip
    test_tarfile test_zipfile test_bz2 test_lzma test_io test_dbm test_dbm_dumb test_shelve test_mailbox test_sqlite3 test_selectors
    test_zipimport test_compileall test_runpy test_venv test_httpservers test_asyncio.test_events test_asyncio.test_unix_events}

# Of each case its name and how it ended, without what depends on the process; and how all ended.
cat >"$mp_dir/run" <<'EOF'
TMPDIR=$3 "$1" -m test -v --timeout 600 --tempdir "$3" "$2" >"$4/log" 2>&1 </dev/null
echo "exit $?"
grep -aoE '^test\w+ \([A-Za-z0-9_.]+\)|\.\.\. .*|^(ok|FAIL|ERROR|skipped .*)$' "$4/log" | sed 's/test_[0-9]*_tmp/TEMPORARY/g; s/[0-9.]*s ok/ok/'
tail -n 40 "$4/log" | grep -a -A8 '^ERROR\|^FAIL' | sed 's/^/# /' >&2
EOF
for t in $tests; do
    # A distribution leaves some tests out: Debian 12 has no test_sqlite3.
    if ! "$python" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("test." + sys.argv[1]))' "$t" 2>/dev/null; then
        mp_skip "$t" "this Python comes without it"
        continue
    fi
    mp_wanted "$t" || continue

    for side in l f; do
        rm -rf "$mp_dir/$side"
        mkdir -p "$mp_dir/$side/kept" "$mp_dir/$side/scratch"
    done
    sh "$mp_dir/run" "$python" "$t" "$mp_dir/l/kept" "$mp_dir/l/scratch" 2>"$mp_dir/l/errors" |
        sed "s#$mp_dir/l/kept#@DIR#g" >"$mp_dir/l/out"
    timeout 700 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/f/kept" -timeout 690 \
        sh "$mp_dir/run" "$python" "$t" /fwd "$mp_dir/f/scratch" 2>"$mp_dir/f/errors" </dev/null | sed "s#/fwd#@DIR#g" >"$mp_dir/f/out"
    { diff "$mp_dir/l/out" "$mp_dir/f/out" || cat "$mp_dir/f/errors"; } >"$mp_dir/out" 2>&1
    cmp -s "$mp_dir/l/out" "$mp_dir/f/out" && test "$(wc -l <"$mp_dir/f/out")" -gt 2
    mp_report $? "$t: $(grep -c '^test' "$mp_dir/f/out") cases" "$mp_dir/out"
done
mp_done
