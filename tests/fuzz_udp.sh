#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Builds the udp conduit's protocol with libFuzzer and the sanitizers, and lets it run for a few seconds.
srcdir=${srcdir:-.}
builddir=${builddir:-.}
echo "1..1"
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
if ! printf 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return 0; }\n' >"$dir/t.c" ||
    ! clang -fsanitize=fuzzer "$dir/t.c" -o "$dir/t" 2>/dev/null; then
    echo "ok 1 - fuzzing the packets of udp # SKIP no clang with libFuzzer here"
    exit 0
fi
if clang -g -O1 -std=gnu11 -w -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -include "$builddir/config.h" -I"$builddir" \
    -I"$srcdir" -I"$srcdir/include" "$srcdir/tests/fuzz_udp.c" "$srcdir"/conduits/udp/rdp_*.c -L"$builddir/.libs" -lamphora -lpthread \
    -o "$dir/fuzz" >"$dir/out" 2>&1 &&
    LD_LIBRARY_PATH=$builddir/.libs timeout $((${FUZZ_SECONDS:-8} + 60)) "$dir/fuzz" -max_total_time="${FUZZ_SECONDS:-8}" -max_len=2000 -seed=1 -rss_limit_mb=1024 \
        -artifact_prefix="$dir/" >"$dir/out" 2>&1; then
    echo "ok 1 - fuzzing the packets of udp: $(grep -oE 'Done [0-9]+ runs' "$dir/out")"
else
    echo "not ok 1 - fuzzing the packets of udp"
    tail -n 40 "$dir/out" | sed 's/^/# /'
fi
