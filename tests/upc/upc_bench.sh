#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# upc-bench gives every kind of row with sane numbers, JSON and a picture, refuses what it does not know, and leaves nothing behind.
. "${srcdir:-.}/tests/lib/lib.sh"
cd "$builddir" || exit 99
mkdir "$mp_dir/files"
looks_right() {
    ./upc-bench -n 2 -c smp,tcp -b 8:4K -r 1 -d "$mp_dir/files" --json --svg "$mp_dir/plot.svg" >"$mp_dir/json" || return
    cat "$mp_dir/json"
    python3 - "$mp_dir/json" "$mp_dir/plot.svg" <<'P' || return
import json, sys, xml.dom.minidom
rows = [json.loads(line) for line in open(sys.argv[1])]
tests = {r["test"] for r in rows}
assert len(tests) == 16, tests
assert {r["conduit"] for r in rows} == {"smp", "tcp"}
for r in rows:
    assert r["value"] > 0 and r["procs"] == 2, r
    assert r["limit"] is None or abs(r["ratio"] * r["limit_value"] / r["value"] - 1) < 0.01, r # one pair
picture = xml.dom.minidom.parse(sys.argv[2])
assert len(picture.getElementsByTagName("polyline")) == 6
words = [t.firstChild.data for t in picture.getElementsByTagName("text")]
assert "8" in words and "4K" in words, words
assert len(picture.getElementsByTagName("circle")) == sum(r["test"] in ("upc_put", "upc_get", "upc_cyclic") for r in rows)
P
    [ -z "$(ls "$mp_dir/files")" ]
}
looks_right >"$mp_dir/out" 2>&1
mp_report $? "every kind of row on smp and tcp, JSON, a picture" "$mp_dir/out"
refused() {
    ! ./upc-bench -t nonsense && ! ./upc-bench -b 10:5 && ! ./upc-bench --inside
}
refused >"$mp_dir/out" 2>&1
mp_report $? "what is not understood is refused" "$mp_dir/out"

# names WORD OPTION...: upc-bench refuses the options, in one line that has the word
names() {
    word=$1
    shift
    ./upc-bench "$@" >"$mp_dir/said" 2>&1
    status=$?
    cat "$mp_dir/said"
    [ $status = 2 ] && [ "$(grep -c . "$mp_dir/said")" = 1 ] && grep -qF -e "$word" "$mp_dir/said"
}
all_named() {
    names "-S some" -S some && names "-n 4x" -n 4x && names "-n 0" -n 0 && names "-r 99" -r 99 && names "-r -1" -r -1 &&
        names "-b 10:5" -b 10:5 && names "-b 1G" -b 1G && names "-b 36028797018963969K" -b 36028797018963969K &&
        names "none of smp|" -c smp,zork && names "-c is given nothing" -c '' && names "-t is given nothing" -t '' && names "leave out -b" --check -b 8:8 && names nonsense -t nonsense && names stray stray
}
all_named >"$mp_dir/out" 2>&1
mp_report $? "one line says which option is refused, and why" "$mp_dir/out"
mp_done
