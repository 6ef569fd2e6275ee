#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs on another host than their server: what they wait for and what they need not wait for, with a second client that would see a wrong
# answer (fwd_round_trips.c), and at most so many requests for what usual programs do.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_round_trips
file=$mp_dir/addresses
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
export AMPHORA_SMP=0 IOFWD_NEAR=0
trap 'down; rm -rf "$mp_dir"' EXIT

up() {
    mp_remove "$mp_dir/kept"
    mkdir -p "$mp_dir/kept/folder"
    echo "some text" >"$mp_dir/kept/text"
    for name in a b c; do echo "$name" >"$mp_dir/kept/folder/$name"; done
    timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 1 -conduit "$1" -iofwd "/fwd=$mp_dir/kept" -address-file "$file" \
        -pid-file "$mp_dir/pid" -log "$mp_dir/log" >/dev/null
}

down() {
    test -f "$mp_dir/pid" || return 0
    kill "$(cat "$mp_dir/pid")"
    mp_until 20 test ! -e "$mp_dir/pid"
}

# server: the process of the only server, the supervisor's child
server() {
    pgrep -P "$(cat "$mp_dir/pid")" | head -n 1
}

part() {
    timeout -k 5 100 "$builddir/iofwd-run" -servers "$file" "$program" "$1" /fwd "$(server)"
    code=$?
    kill -CONT "$(server)"
    return $code
}

for conduit in tcp udp; do
    up $conduit || mp_report 1 "a server with -conduit $conduit" "$mp_dir/log"
    for part in closes locks holders copies seeks directories; do
        mp_try "$conduit: $part" part $part
    done
    down
done

up tcp
export IOFWD_CONSISTENCY=session
mp_try "tcp, session: copies" part copies
unset IOFWD_CONSISTENCY

# requests MOST COMMAND...: the command makes at most so many
requests() {
    most=$1
    shift
    rm -f "$mp_dir/trace"
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$file" -trace="$mp_dir/trace" "$@" >/dev/null || return
    n=$(awk '/requests up to/ { sub(/ requests up to.*/, ""); n += $NF; next } /, request / { n++ } END { print n + 0 }' "$mp_dir/trace")
    cat "$mp_dir/trace"
    echo "$n requests, at most $most"
    [ "$n" -le "$most" ] && [ "$n" -gt 0 ]
}

# a directory of 20 files: an open, all names, a close
mkdir "$mp_dir/kept/twenty"
for i in 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18 19 20; do echo "$i" >"$mp_dir/kept/twenty/$i"; done
mp_try "ls -f asks for a directory's names once" requests 5 ls -f /fwd/twenty
mp_try "a file is copied by its server" requests 14 cp /fwd/twenty/01 /fwd/twenty/copy
cmp "$mp_dir/kept/twenty/01" "$mp_dir/kept/twenty/copy" >"$mp_dir/out" 2>&1
mp_report $? "and the copy is right" "$mp_dir/out"
mp_done
