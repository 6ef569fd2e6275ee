#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files whose descriptors a server has passed to its client (IOFWD_PASSTHROUGH), which then makes their calls itself: the same results,
# files and errors as locally, whatever the program and other processes do; who gets descriptors, and who does not.  See
# fwd_passthrough.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_passthrough

# counted WHAT: the sum of what the servers have counted of it
counted() {
    sed -n "s/.* \([0-9]*\) $1.*/\1/p" "$mp_dir/stats" | awk '{ sum += $1 } END { print sum + 0 }'
}

# with NAME LEAST SECTION SETTING...: compares, and looks whether calls were made by passed descriptors (LEAST at least; 0: none)
with() {
    with_name=$1 with_least=$2 with_section=$3
    shift 3
    mp_wanted "$with_name: by passed descriptors" || return 0
    fwd_both "$with_name" env "$@" "$program" "$with_section"
    with_passed=$(counted 'calls by passed descriptors')
    if [ "$with_least" = 0 ]; then
        [ "$with_passed" = 0 ]
    else
        [ "$with_passed" -ge "$with_least" ]
    fi
    mp_report $? "$with_name: by passed descriptors ($with_passed calls)" "$mp_dir/stats"
}

with "calls of all kinds" 5000 calls A=1
with "calls of all kinds, of another seed" 5000 calls TEST_SEED=77
with "open files that processes share" 2000 shared A=1
with "threads" 50000 threads A=1
with "signal handlers, jumps, cancelled threads" 10000 signals A=1
with "child processes of all kinds" 50 processes A=1
with "descriptors that are closed" 1000 closes A=1
with "shared maps" 500 maps A=1
with "in a session" 3000 calls IOFWD_CONSISTENCY=session
with "in a session, shared" 100 shared IOFWD_CONSISTENCY=session
IOFWD_STRIPE=2
export IOFWD_STRIPE
with "striped, but for those that are opened to append" 1000 calls A=1
unset IOFWD_STRIPE
mkdir "$mp_dir/records"
with "recorded" 5000 calls IOFWD_TRACE_DIR="$mp_dir/records"
with "switched off at the process" 0 maps IOFWD_PASSTHROUGH=0
# a setting of the servers too, as env sets it for the program only
IOFWD_PASSTHROUGH=0
export IOFWD_PASSTHROUGH
with "switched off at the servers" 0 maps IOFWD_PASSTHROUGH=1
unset IOFWD_PASSTHROUGH
AMPHORA_SMP=0
export AMPHORA_SMP
with "no shared memory" 0 maps A=1
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
mp_done
