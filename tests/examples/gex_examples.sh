#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The small examples run and say what they should.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run examples/hello_am -n "1 4" -c "smp tcp-smp"
mp_run examples/ring -n "1 3" -c "smp tcp"
mp_run examples/put_get -n "2 3" -c "smp tcp"

# The README's first program, as printed there, and the UPC program of its table.
awk '/^```/ { inside = 0 } inside; /^```c$/ && !done++ { inside = 1 }' "$srcdir/README.md" >"$mp_dir/first.c"

if mp_wanted "the README's first program"; then
    ${CC:-cc} -DGASNET_SEQ -Wall -Werror -I"$srcdir/include" "$mp_dir/first.c" -o "$mp_dir/first" \
        -L"$builddir/.libs" -Wl,-rpath,"$(cd "$builddir/.libs" && pwd)" -lamphora >"$mp_dir/out" 2>&1 &&
        timeout 60 "$AMPHORA_RUN" -n 4 "$mp_dir/first" >"$mp_dir/out" 2>&1 &&
        [ "$(grep -c 'process [0-3] heard from process [0-3]' "$mp_dir/out")" = 4 ]
    mp_report $? "the README's first program" "$mp_dir/out"
fi

if nm -D "$builddir/.libs/libamphora.so" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    mp_skip "heat in a bar, in UPC" "amphora-upcc builds programs without the library's sanitizer, which must be there from the start"
elif mp_wanted "heat in a bar, in UPC"; then
    "$builddir/amphora-upcc" -O2 "$srcdir/examples/bar.upc" -o "$mp_dir/bar" -lm >"$mp_dir/out" 2>&1 &&
        timeout 100 "$builddir/amphora-upcrun" -n 2 "$mp_dir/bar" >"$mp_dir/out" 2>&1 &&
        grep -q '^2 threads, 32 points' "$mp_dir/out" && grep -q '^  16  48\.3' "$mp_dir/out"
    mp_report $? "heat in a bar, in UPC" "$mp_dir/out"
fi
mp_done
