#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nbmrw runs, gives every kind of row, sane JSON and a picture, and leaves nothing behind.
. "${srcdir:-.}/tests/lib/lib.sh"
dir=$mp_dir/files
mkdir "$dir"
looks_right() {
    ./nbmrw -q -r 3 -c 1K:1M -f 1M:1M -S 2 -w 1,2 -d "$dir" --json="$mp_dir/json" --svg "$mp_dir/plot.svg" >"$mp_dir/table" || return
    cat "$mp_dir/table"
    for word in write-fresh write-over read stat open-close create unlink; do
        for way in direct forwarded; do grep -q "^$word *$way" "$mp_dir/table" || return; done
    done
    grep -q '^read *collected .* 1K ' "$mp_dir/table" && grep -q '^read *forwarded *2 seq' "$mp_dir/table" || return
    python3 - "$mp_dir/json" <<'P' || return
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) > 20
for r in rows:
    assert 0 < r["least"] <= r["q1"] <= r["median"] <= r["q3"] <= r["most"], r
    assert r["way"] == "direct" or r["ratio"] > 0, r
P
    grep -q '<rect.*fill-opacity' "$mp_dir/plot.svg" && python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
        "$mp_dir/plot.svg" || return
    [ -z "$(ls "$dir")" ]
}
# All rows, with limits and JSON; whether they are reached is no matter of a test.
shows_figures() {
    timeout 100 ./nbmrw --figures="$1" -r 1 -d "$dir" --json="$mp_dir/json" >"$mp_dir/table"
    code=$?
    cat "$mp_dir/table"
    [ $code = 0 ] || [ $code = 3 ] || return
    [ "$(grep -c MISSED "$mp_dir/table")" -gt 0 ] && [ $code = 0 ] && return 1
    python3 - "$mp_dir/json" "$2" <<'P' || return
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len(rows) == int(sys.argv[2]), len(rows)
for r in rows:
    assert r["value"] > 0 and r["wanted"] > 0 and r["reached"] in (True, False), r
    assert r["unit"] == "1/s" or abs(r["ratio"] * r["limit_value"] / r["value"] - 1) < 0.01, r
    assert r["unit"] == "1/s" or r["ratio_q1"] <= r["ratio"] <= r["ratio_q3"], r
P
    [ -z "$(ls "$dir")" ]
}
refuses() {
    ! ./nbmrw "$@" 2>"$mp_dir/said" && grep -q "not understood" "$mp_dir/said"
}
# A single width, and what it does not apply to: both are in the table and the picture.
one_width() {
    ./nbmrw -q -r 3 -c 1K:1M -f 1M:1M -S 2 -w 2 -m data -o seq -d "$dir" --svg "$mp_dir/one.svg" >"$mp_dir/table" || return
    cat "$mp_dir/table"
    grep -q '^read *forwarded *1 seq .* 1K ' "$mp_dir/table" && grep -q '^read *forwarded *2 seq .* 1M ' "$mp_dir/table" || return
    grep -q 'forwarded on 2' "$mp_dir/one.svg"
}
cd "$builddir" || exit 1
looks_right >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: every kind of row, JSON, box plots" "$mp_dir/out"
one_width >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: one width only, with a picture" "$mp_dir/out"
timeout 20 ./nbmrw -q -S 2 -w 1,4 -d "$dir" >"$mp_dir/out" 2>&1
test $? -eq 2 && grep -q 'shared by 4 servers' "$mp_dir/out"
mp_report $? "nbmrw: a width above the number of servers is refused" "$mp_dir/out"
shows_figures "1 MiB" 5 >"$mp_dir/out" 2>&1
mp_report $? "nbmrw --figures: in the segment and not" "$mp_dir/out"
timeout 20 ./nbmrw --figures="no such row" >"$mp_dir/out" 2>&1
test $? -eq 2 && grep -q 'no row of --figures has "no such row"' "$mp_dir/out"
mp_report $? "nbmrw --figures: a row that is none" "$mp_dir/out"
shows_figures "clients" 2 >"$mp_dir/out" 2>&1
mp_report $? "nbmrw --figures: 4 clients on 2 servers" "$mp_dir/out"
shows_figures "tcp, 4" 2 >"$mp_dir/out" 2>&1
mp_report $? "nbmrw --figures: beside a TCP stream" "$mp_dir/out"
# Sizes that double, 1 KiB among those that do not meet it, once each; as many files as were asked for.
doubles() {
    ./nbmrw -r 1 -s 2 -c 512:4K -f 256K:1M -S 1 -w 1 -o seq -m data -p 0.001 -d "$dir" >"$mp_dir/table" || return
    cat "$mp_dir/table"
    for file in 256K 512K 1M; do
        [ "$(awk -v f=$file '$1 == "read" && $2 == "direct" && $5 == f { print $6 }' "$mp_dir/table" | tr '\n' ' ')" = "512 1K 2K 4K " ] || return
    done
    ./nbmrw -r 1 -c 512:8K -f 64K:64K -S 1 -w 1 -o seq -m data -d "$dir" >"$mp_dir/table" || return
    [ "$(awk '$1 == "read" && $2 == "direct" { print $6 }' "$mp_dir/table" | tr '\n' ' ')" = "512 1K 4K 8K " ] && [ -z "$(ls "$dir")" ]
}
# Broken off, it leaves nothing either.
ends() {
    ./nbmrw -r 100 -c 8:8 -f 8M:8M -S 1 -w 1 -o seq -m data -d "$dir" >"$mp_dir/table" 2>&1 &
    pid=$!
    until [ -n "$(ls "$dir"/*/f.0 2>/dev/null)" ]; do
        kill -0 $pid || return
    done
    kill $pid
    wait $pid
    [ $? = 143 ] && [ -z "$(ls "$dir")" ]
}
doubles >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: sizes that double, and 1 KiB" "$mp_dir/out"
ends >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: broken off, nothing is left" "$mp_dir/out"
for wrong in "-f 0" "-c 9:1" "-c 1K:65M" "-r 0" "-w 9" "-S x" "-p x" "-o up" "-m none" "words"; do
    refuses $wrong >"$mp_dir/out" 2>&1
    mp_report $? "nbmrw refuses $wrong" "$mp_dir/out"
done
mp_done
