#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records of active messages, puts, gets and collectives (IOFWD_RECORD): what each call sent and to whom, by each conduit; only what is asked for;
# nothing and no instruction without it; programs with the static library are told.  See fwd_messages.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
source=$srcdir/tests/files/trace/fwd_messages.c
program=$mp_dir/messages
unset AMPHORA_JOB IOFWD_PREFIX

# sql DIR QUERY: the answer's rows, without the names of its columns
sql() {
    "$trace" sql "$1" "$2" -csv | tail -n +2 | tr -d '"\r'
}

# record KINDS PROCESSES OPTIONS... -- ARGUMENTS...
record() {
    rm -rf "$mp_dir/r"
    record_kinds=$1 record_n=$2
    shift 2
    record_options=''
    while [ "$1" != -- ]; do
        record_options="$record_options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    IOFWD_RECORD=$record_kinds timeout -k 5 60 "$AMPHORA_RUN" -n "$record_n" $record_options -timeout 50 -record "$mp_dir/r" "$program" "$@" \
        >"$mp_dir/out" 2>&1 </dev/null
}

# Events of the queries' waits are left out: whether there is something to wait for is chance.
rows="SELECT rank, name, peer, count(*), sum(bytes) FROM calls WHERE side = 'message' AND name NOT LIKE 'event_wait%' AND name <> 'coll_barrier_nb'
    GROUP BY rank, name, peer ORDER BY rank, name"

# wanted RANK NEXT BEFORE: what a process sends to the next one, and answers to the one before it
wanted() {
    cat <<ROWS
$1,am_commit,$2,1,300
$1,am_reply_short,$3,11,0
$1,am_request_medium,$2,10,1000
$1,coll_barrier,,1,0
$1,coll_broadcast_nb,0,1,64
$1,rma_get_nbi,$2,1,8
$1,rma_put,$2,5,5000
$1,rma_put_nb,$2,1,500
$1,rma_strided_put,$2,1,30
ROWS
}

if [ ! -x "$trace" ] || [ ! -e "$builddir/.libs/libiofwd_messages.so" ] || mp_sanitized asan tsan; then
    for number in $(seq 16); do
        mp_skip "case $number of recorded messages" "needs iofwd-trace and shared libraries, without sanitizers, which the program has not"
    done
    mp_done
    exit
fi

libs=$(cd "$builddir/.libs" && pwd)
${CC:-cc} -O1 -DGASNET_PAR "-I$srcdir/include" -o "$program" "$source" "-L$libs" -lamphora "-Wl,-rpath,$libs" || exit 99

for conduit in smp tcp udp; do
    record am,rma,coll 3 -conduit "$conduit" --
    mp_status=$?
    { wanted 0 1 2 && wanted 1 2 0 && wanted 2 0 1; } >"$mp_dir/wanted"
    sql "$mp_dir/r" "$rows" >"$mp_dir/got" 2>>"$mp_dir/out"
    diff "$mp_dir/wanted" "$mp_dir/got" >>"$mp_dir/out" 2>&1 && test $mp_status = 0
    mp_report $? "$conduit: each message, its peer and its bytes" "$mp_dir/out"
    # each answer was sent after its request, and each process's calls follow on one another
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE side = 'message' AND (ns < 0 OR NOT returned)")" = 0 &&
        test "$(sql "$mp_dir/r" "SELECT min(a.start_ns > r.start_ns) FROM (SELECT start_ns, rank, peer, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS n
            FROM calls WHERE name = 'am_reply_short') a JOIN (SELECT start_ns, rank, peer, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS n
            FROM calls WHERE name IN ('am_request_medium', 'am_commit')) r ON a.peer = r.rank AND a.rank = r.peer AND a.n = r.n")" = 1
    mp_report $? "$conduit: answers follow their requests" "$mp_dir/out"
done

for command in summary ranks timeline "export -format chrome"; do
    # shellcheck disable=SC2086
    set -- $command
    "$trace" "$1" "$mp_dir/r" ${2:+"$2"} ${3:+"$3"} >"$mp_dir/out" 2>&1
    # a summary has the 25 calls that took longest, and all kinds of calls
    grep -Eq 'rma_put|messages|^rma +[1-9]' "$mp_dir/out"
    mp_report $? "iofwd-trace $command shows them" "$mp_dir/out"
done

record am 2 --
test "$(sql "$mp_dir/r" "SELECT group_concat(DISTINCT class) FROM calls WHERE side = 'message'")" = am
mp_report $? "only what is asked for" "$mp_dir/out"
record '' 2 --
test "$(sql "$mp_dir/r" "SELECT count(*) || ' ' || sum(side = 'message') FROM calls" | sed 's/^[1-9][0-9]*/some/')" = 'some 0'
mp_report $? "nothing unless asked for" "$mp_dir/out"
record am,rmq 2 --
test $? = 1 && grep -q 'IOFWD_RECORD=am,rmq: rmq is none of am, rma and coll' "$mp_dir/out"
mp_report $? "an unknown word is refused" "$mp_dir/out"
record coll 2 -- stuck
test "$(sql "$mp_dir/r" "SELECT rank || ' ' || returned FROM calls WHERE name = 'coll_barrier'")" = '0 0'
mp_report $? "a barrier that never ends is there" "$mp_dir/out"

if ${CC:-cc} -DGASNET_PAR "-I$srcdir/include" -o "$mp_dir/static" "$source" "$builddir/.libs/libamphora.a" \
    -lhwloc -lnettle -ldl -lpthread -lm 2>"$mp_dir/out"; then
    program=$mp_dir/static
    record am 2 --
    test $? = 0 && grep -q 'the messages of .*static are not recorded, because it is linked with libamphora.a' "$mp_dir/out"
    mp_report $? "a program with the static library is told" "$mp_dir/out"
    program=$mp_dir/messages
else
    mp_skip "a program with the static library is told" "there is no static library"
fi

# instructions OPTIONS...: of one round, in thousandths
instructions() {
    for rounds in 1000 3000; do
        timeout -k 5 120 "$AMPHORA_RUN" -n 1 -timeout 100 "$@" valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" hot $rounds 2>&1 </dev/null |
            sed -n 's/^.*Collected : \([0-9]*\).*$/\1/p'
    done | { read -r few && read -r many && echo $(((many - few) / 2)); }
}
if command -v valgrind >/dev/null; then
    plain=$(instructions)
    recorded=$(instructions -record "$mp_dir/i")
    echo "$plain $recorded" >"$mp_dir/out"
    # functions in between would take 20 more in a round; what depends on the time takes one or two
    test "$plain" -gt 100000 && test $((recorded - plain)) -lt 9000 && test $((plain - recorded)) -lt 9000
    mp_report $? "not asked for: no instruction more in a message, a put and a barrier ($((plain / 1000)))" "$mp_dir/out"
else
    mp_skip "not asked for: no instruction more in a message, a put and a barrier" "no valgrind here, or it cannot run this build"
fi
mp_done
