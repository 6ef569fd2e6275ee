#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files whose descriptors a server has passed to its client (IOFWD_PASSTHROUGH), which then makes their calls itself: the same results,
# files and errors as locally, whatever the program and other processes do; who gets descriptors, and who does not.  See
# fwd_passthrough.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_passthrough

fwd_passed "calls of all kinds" 5000 calls
fwd_passed "calls of all kinds, of another seed" 5000 calls TEST_SEED=77
fwd_passed "open files that processes share" 2000 shared
fwd_passed "threads" 50000 threads
fwd_passed "scattered buffers" 900 vectors
fwd_passed "signal handlers, jumps, cancelled threads" 10000 signals
fwd_passed "child processes of all kinds" 20 processes
fwd_passed "descriptors that are closed" 1000 closes
fwd_passed "shared maps" 500 maps
fwd_passed "many files" 23000 many
fwd_passed "in a session" 3000 calls IOFWD_CONSISTENCY=session
fwd_passed "in a session, shared" 100 shared IOFWD_CONSISTENCY=session
IOFWD_STRIPE=2
export IOFWD_STRIPE
fwd_passed "striped, but for those that are opened to append" 1000 calls
unset IOFWD_STRIPE
mkdir "$mp_dir/records"
fwd_passed "recorded" 5000 calls IOFWD_TRACE_DIR="$mp_dir/records"
fwd_passed "switched off at the process" 0 maps IOFWD_PASSTHROUGH=0
# a setting of the servers too, as env sets it for the program only
IOFWD_PASSTHROUGH=0
export IOFWD_PASSTHROUGH
fwd_passed "switched off at the servers" 0 maps IOFWD_PASSTHROUGH=1
unset IOFWD_PASSTHROUGH
AMPHORA_SMP=0
export AMPHORA_SMP
fwd_passed "no shared memory" 0 maps
unset AMPHORA_SMP

# ---- the death of servers ----

# The server's process number, and then its program.
# shellcheck disable=SC2016 # for the shells inside
printf '#!/bin/sh\necho $$ >>"%s/servers"\nexec "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"

# Calls give EIO soon after the server's death, although the process could make them.
death() {
    mp_wanted "a server's death ends the calls" || return 0
    mkdir "$mp_dir/kept"
    rm -f "$mp_dir/servers"
    # shellcheck disable=SC2016 # for the shell inside
    timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -server-program "$mp_dir/server" -on-server-death eio \
        -iofwd "/fwd=$mp_dir/kept" -timeout 50 sh -c '
        "$1" until /fwd "$2" >"$2/begun" &
        until grep -q begun "$2/begun"; do sleep 0.01; done
        find "/proc/$!/fd" -lname "*/kept/until" | grep -q . && echo "has a descriptor"
        kill -9 "$(cat "$2/servers")"
        wait $!
        cat "$2/begun"' sh "$program" "$mp_dir" >"$mp_dir/out" 2>&1 </dev/null
    grep -qx "ended EIO" "$mp_dir/out" && grep -qx "has a descriptor" "$mp_dir/out"
    mp_report $? "a server's death ends the calls" "$mp_dir/out"
    rm -r "$mp_dir/kept"
}

# The other server takes over, and every byte is written.
failover() {
    mp_wanted "another server takes over" || return 0
    mkdir "$mp_dir/kept" "$mp_dir/scratch" "$mp_dir/local"
    rm -f "$mp_dir/servers"
    "$program" failover "$mp_dir/local" "$mp_dir/scratch" >/dev/null
    rm "$mp_dir/scratch/half"
    # shellcheck disable=SC2016 # for the shell inside
    AMPHORA_STATS=1 timeout -k 5 90 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -on-server-death failover \
        -iofwd "/fwd=$mp_dir/kept" -timeout 80 sh -c '
        "$1" failover /fwd "$2" &
        until [ -e "$2/half" ]; do sleep 0.01; done
        find "/proc/$!/fd" -lname "*/kept/placed" | grep -q . && echo "has a descriptor"
        while read -r server; do
            find "/proc/$server/fd" -lname "*/kept/failover" | grep -q . && kill -9 "$server" && break
        done <"$3"
        wait $!' sh "$program" "$mp_dir/scratch" "$mp_dir/servers" >"$mp_dir/out" 2>&1 </dev/null
    failover_code=$?
    [ $failover_code -eq 0 ] && grep -qx written "$mp_dir/out" && grep -q "the next one takes over" "$mp_dir/out" &&
        grep -qx "has a descriptor" "$mp_dir/out" &&
        cmp "$mp_dir/kept/failover" "$mp_dir/local/failover" >>"$mp_dir/out" 2>&1 &&
        cmp "$mp_dir/kept/placed" "$mp_dir/local/placed" >>"$mp_dir/out" 2>&1
    mp_report $? "another server takes over" "$mp_dir/out"
    rm -r "$mp_dir/kept" "$mp_dir/scratch" "$mp_dir/local"
}

death
failover

# ---- who gets descriptors ----

export IOFWD_NEAR=0 # servers make the calls

kept=$mp_dir/kept only=$mp_dir/only address=$mp_dir/address
mkdir "$kept" "$only"
echo hello >"$only/file"
# where this test may give the server a group that a client can lack
if [ "$(id -u)" = 0 ] && setpriv --groups 0,4242 true 2>/dev/null; then
    grouped="setpriv --groups 0,4242"
else
    grouped=env
fi
$grouped "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$kept" -iofwd "/only=$only" -read-only /only -address-file "$address" \
    >"$mp_dir/standing" 2>&1 </dev/null
mp_report $? "standing servers" "$mp_dir/standing"
server=$("$builddir/iofwd-ctl" status -servers "$address" | awk 'NR == 2 { print $3 }')

# of NAME: a counter of the server
of() {
    "$builddir/iofwd-ctl" status -all -servers "$address" | awk -v name="$1" '$1 == name { print $2 }'
}

is_of() {
    [ "$(of "$1")" = "$2" ]
}

# gets NAME LEAST MOST COMMAND...: a client that is started so gets that many descriptors
gets() {
    gets_name=$1 gets_least=$2 gets_most=$3
    shift 3
    mp_wanted "$gets_name" || return 0
    gets_before=$(of server_passed)
    timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    gets_code=$?
    gets_passed=$(($(of server_passed) - gets_before))
    echo "exit code $gets_code, $gets_passed descriptors passed" >>"$mp_dir/out"
    [ $gets_code -eq 0 ] && [ $gets_passed -ge "$gets_least" ] && [ $gets_passed -le "$gets_most" ]
    mp_report $? "$gets_name" "$mp_dir/out"
}

plain="$builddir/iofwd-run -servers $address"
run="$grouped $plain"
# shellcheck disable=SC2086 # several words
gets "a client of the same user gets descriptors" 2 3 $run "$program" maps /fwd "$mp_dir"
for i in 1 2 3 4 5 6 7 8; do
    echo "line $i" >"$kept/lines.$i"
done
truncate -s 1M "$kept/long"
# shellcheck disable=SC2086
{
    gets "small files that are read with large buffers are not worth one" 0 0 $run dd if=/fwd/lines.1 of=/dev/null bs=96K
    gets "nor if their size is known" 0 0 $run cat /fwd/lines.1 /fwd/lines.2 /fwd/lines.3 /fwd/lines.4
    gets "nor one after another" 0 0 $run grep -r line. /fwd/lines.5 /fwd/lines.6 /fwd/lines.7 /fwd/lines.8
    gets "a large read is" 1 1 $run dd if=/fwd/long of=/dev/null bs=1M count=1
}
rm "$kept"/lines.* "$kept/long"
if unshare -m true 2>/dev/null; then
    mkdir "$mp_dir/root"
    # shellcheck disable=SC2086
    gets "in another mount namespace it gets none" 0 0 unshare -m $run "$program" maps /fwd "$mp_dir"
    # shellcheck disable=SC2016,SC2086 # for the shell inside; several words
    gets "with another root it gets none" 0 0 unshare -m sh -c 'mount --rbind / "$1" && shift && exec chroot "$@"' sh \
        "$mp_dir/root" "$mp_dir/root" $run "$program" maps /fwd "$mp_dir"
else
    mp_skip "in another mount namespace it gets none" "no mount namespaces here"
    mp_skip "with another root it gets none" "no mount namespaces here"
fi
# rights NAME MOST COMMAND...: a client that lacks some of the server's rights, or gives them up, gets at most so many
rights() {
    if [ "$grouped" = env ]; then
        mp_skip "$1" "not root"
    else
        rights_name=$1 rights_most=$2
        shift 2
        gets "$rights_name" "$rights_most" "$rights_most" "$@"
    fi
}
# shellcheck disable=SC2086 # several words
{
    rights "without a group of the server's it gets none" 0 $plain "$program" maps /fwd "$mp_dir"
    rights "without a capability of the server's it gets none" 0 $grouped --bounding-set -dac_override $plain "$program" maps /fwd "$mp_dir"
    rights "once it has left the server's groups it gets no more" 1 $run "$program" leaves /fwd "$mp_dir"
    rights "a child that has left the server's groups gets none" 1 $run "$program" child-leaves /fwd "$mp_dir"
    gets "the descriptor of a read-only prefix only reads" 1 1 $run "$program" only /only/file "$mp_dir"
}

# ---- clients that are killed ----

# shellcheck disable=SC2086 # several words
kills() {
    echo "the server's descriptors: $(find "/proc/$server/fd" -type l | wc -l)"
    kills_before=$(of server_passed)
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        : >"$mp_dir/begun"
        # shellcheck disable=SC2016,SC2086 # for the shell inside; several words
        $run sh -c 'echo $$ >"$2/pid"; exec "$1" forever /fwd "$2" >"$2/begun"' sh "$program" "$mp_dir" &
        mp_until 20 grep -q begun "$mp_dir/begun" || return 1
        sleep "0.00$((i % 10))"
        kill -9 "$(cat "$mp_dir/pid")"
        wait $! 2>/dev/null
    done

    # nothing of them is left: no client, no open file, no descriptor; their calls are counted
    mp_until 20 is_of server_clients 0 && is_of server_files 0 || return 1
    echo "passed $(($(of server_passed) - kills_before)), calls $(of server_calls_passed)"
    ! find "/proc/$server/fd" -lname "*/forever" | grep . &&
        [ $(($(of server_passed) - kills_before)) -eq 20 ] && [ "$(of server_calls_passed)" -gt 160 ] &&
        timeout 20 $run "$program" small /fwd "$mp_dir"
}
mp_try "clients that are killed leave nothing" kills

# ---- few descriptors ----

# few SECTION LIMIT: with passthrough a process gets as many descriptors as without (with both, one more or less in some runs): it
# gives up those that were passed
few() {
    few_without=$(IOFWD_PASSTHROUGH=0 few_files "$1" "$2")
    few_before=$(of server_passed)
    few_with=$(few_files "$1" "$2")
    few_passed=$(($(of server_passed) - few_before))
    echo "$few_with, without passthrough $few_without; $few_passed were passed"
    [ "$few_without" -gt 0 ] && [ $((few_with + 1)) -ge "$few_without" ] && [ $few_passed -gt 0 ]
}

# shellcheck disable=SC2016,SC2086 # for the shell inside; several words
few_files() {
    sh -c 'ulimit -n "$1" && shift && exec timeout 30 "$@"' sh "$2" $run "$program" "$1" /fwd "$mp_dir" 2>/dev/null |
        sed -n 's/^files \([0-9]*\) EMFILE$/\1/p'
}
for limit in 70 100 256; do
    mp_try "files of a process that may have $limit descriptors" few few $limit
    mp_try "local descriptors of a process that may have $limit" few few-local $limit
done

"$builddir/iofwd-ctl" stop -servers "$address" >"$mp_dir/out" 2>&1
mp_report $? "the servers end" "$mp_dir/out"
mp_done
