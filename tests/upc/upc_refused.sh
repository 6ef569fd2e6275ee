#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What upcxlate cannot translate it refuses: each program of tests/upc/refused ends with its message, at the line that says "here".
srcdir=${srcdir:-.} builddir=${builddir:-.}
count=0 dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
for f in "$srcdir"/tests/upc/refused/*.upc; do
    count=$((count + 1))
    name=${f##*/}
    want=$(sed -n '1s/.*expect: \(.*\) \*\/$/\1/p' "$f")
    line=$(grep -n '/\* here \*/' "$f" | head -n 1 | cut -d: -f1)
    timeout 60 "$builddir/amphora-upcc" -c "$f" -o "$dir/out.o" >"$dir/out" 2>&1 </dev/null
    code=$?
    if [ $code = 1 ] && [ -n "$want" ] && [ ! -e "$dir/out.o" ] &&
        grep -q "$name:${line:-[0-9]*}: upcxlate: .*$want" "$dir/out"; then
        echo "ok $count - ${name%.upc}"
    else
        echo "not ok $count - ${name%.upc} (exit $code; expected at line $line: $want)"
        sed 's/^/# /' "$dir/out"
        rm -f "$dir/out.o"
    fi
done
echo "1..$count"
[ $count -gt 50 ]
