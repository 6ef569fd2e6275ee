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
    grep -q '<rect.*fill-opacity' "$mp_dir/plot.svg" && grep -q '>1K read, collected<' "$mp_dir/plot.svg" && python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
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
    ! ./nbmrw "$@" 2>"$mp_dir/said" && grep -qE 'is not allowed; it takes .*(size|number|seq, random or both|write-fresh, .*unlink)|is not an option' "$mp_dir/said"
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
# Standing servers: the files of one run are theirs, beside direct calls in another directory and plain TCP streams; nothing is left.
elsewhere() {
    rm -rf "$mp_dir/kept" && mkdir "$mp_dir/kept" || return
    ./iofwd-server -daemon -servers 3 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/servers" -pid-file "$mp_dir/pid" || return
    code=0
    "$@" || code=$?
    kill "$(cat "$mp_dir/pid")"
    mp_until 20 test ! -e "$mp_dir/pid" # the next servers have the same files
    [ $code = 0 ] && [ -z "$(ls "$mp_dir/kept"; ls "$dir/direct")" ]
}
sweeps() {
    ./nbmrw -servers "$mp_dir/servers" -d "$dir/direct" -f 1M:4M -s 4 -c 2M:2M -r 2 -w 1,2 -o seq -m write-fresh,read \
        -T "$1,$1" -svg "$mp_dir/sweep.svg" -caption "a < b & c" -json="$mp_dir/json" >"$mp_dir/table" || return
    cat "$mp_dir/table"
    python3 - "$mp_dir/json" "$mp_dir/sweep.svg" <<'P'
import json, sys, xml.dom.minidom
rows = [json.loads(line) for line in open(sys.argv[1])]
ways = {(r["way"], r["width"]) for r in rows}
assert ways == {("direct", 1), ("forwarded", 1), ("forwarded", 2), ("TCP streams", 1), ("TCP streams", 2)}, ways
assert {(r["file_bytes"], r["bytes"]) for r in rows} == {(1 << 20, 1 << 20), (4 << 20, 2 << 20)}
assert {r["test"] for r in rows} == {"nbmrw-write-fresh", "nbmrw-read"} and len(rows) == 20
assert all((r.get("limit") == "TCP streams") == (r["way"] == "forwarded") for r in rows)
root = xml.dom.minidom.parse(sys.argv[2]).documentElement
words = [t.firstChild.data for t in root.getElementsByTagName("text")]
for word in "Reading, by file size", "Writing new files, by number of servers", "2 servers", "1 server", "TCP streams", "direct", "a < b & c":
    assert word in words, (word, words)
P
}
# No direct calls where no directory is given for them; a prefix that is named.
forwarded_only() {
    ./nbmrw -servers "$mp_dir/servers" -P /fwd/ -r 1 -f 64K:64K -c 1K:1K -o seq -m data,unlink >"$mp_dir/table" || return
    cat "$mp_dir/table"
    grep -q '^read *collected' "$mp_dir/table" && grep -q '^unlink *forwarded' "$mp_dir/table" && ! grep -q ' direct ' "$mp_dir/table"
}
too_wide() {
    ! ./nbmrw -servers "$mp_dir/servers" -w 1,4 >"$mp_dir/said" 2>&1 && grep -q "shared by 4 servers.*has 3 servers" "$mp_dir/said"
}
broken_off() {
    ./nbmrw -servers "$mp_dir/servers" -d "$dir/direct" -r 100 -c 8:8 -f 8M:8M -o seq -m data >"$mp_dir/table" 2>&1 &
    pid=$!
    until [ -n "$(ls "$mp_dir"/kept/*/f.0 2>/dev/null)" ]; do
        kill -0 $pid || return
    done
    kill $pid
    wait $pid
    [ $? = 143 ]
}
mkdir "$dir/direct"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
./nbmrw --sink "$port" &
sink=$!
mp_until 20 python3 -c "import socket; socket.create_connection(('localhost', $port))" 2>/dev/null
elsewhere sweeps "localhost:$port" >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: standing servers by file size and number, beside direct calls and TCP streams" "$mp_dir/out"
kill $sink
elsewhere forwarded_only >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: standing servers without direct calls" "$mp_dir/out"
elsewhere too_wide >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: a width above the number of standing servers is refused" "$mp_dir/out"
elsewhere broken_off >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: broken off with standing servers, nothing is left" "$mp_dir/out"
other_hosts() {
    printf 'hostA\nhostB\nhostC\n' >"$mp_dir/hosts" && mkdir "$mp_dir/there" || return
    ./nbmrw -hosts "$mp_dir/hosts" -S 2 -C tcp -D "$mp_dir/there" -r 1 -f 1M:1M -c 1M:1M -w 1,2 -o seq -m data >"$mp_dir/table" || return
    cat "$mp_dir/table"
    grep -q '^read *forwarded *2' "$mp_dir/table" && [ -z "$(ls "$mp_dir/there")" ]
}
other_hosts >"$mp_dir/out" 2>&1
mp_report $? "nbmrw -hosts: servers on other hosts" "$mp_dir/out"
# says WORDS ARGUMENT...: refused with a sentence
says() {
    words=$1
    shift
    timeout 20 ./nbmrw "$@" >"$mp_dir/said" 2>&1
    [ $? = 2 ] && grep -q "$words" "$mp_dir/said"
}
options() {
    says "neither a number .* nor an address file" -S nowhere && says "give one of both" -S "$mp_dir/table" -H hosts &&
        says "is of standing servers" -P /x && says "by --hosts FILE" -D /x && says "leave out --hosts" -F -H hosts &&
        says "leave out --file-sizes" -F -c 1K && says "leave out --file-sizes" --figures=stat -S 2 &&
        says "name its file by --svg" -caption x && says "names 1 places" -T a:1 -w 2 &&
        says "number from 1 to 101" -r 102 && says "number from 2 to 1024" -s 1 && says "up to 64M" -c 1K:65M
}
options >"$mp_dir/out" 2>&1
mp_report $? "nbmrw: options that exclude each other get a sentence" "$mp_dir/said"
for wrong in "-f 0" "-c 9:1" "-c 1K:65M" "-r 0" "-w 9" "-S 0" "-p x" "-o up" "-m none" "words"; do
    refuses $wrong >"$mp_dir/out" 2>&1
    mp_report $? "nbmrw refuses $wrong" "$mp_dir/out"
done
mp_done
