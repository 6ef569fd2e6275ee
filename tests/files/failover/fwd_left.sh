#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server or a client that is killed in the midst of a change leaves no version of a file under way, which would make all clients of that
# user ask for each read and stat: another server of the user ends it; see fwd_left.c.
. "${srcdir:-.}/tests/files/own_shm.sh"
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
export IOFWD_NEAR=0 # the servers make the calls
mkdir "$mp_dir/one" "$mp_dir/two"
end_all() {
    kill $writers 2>/dev/null
    for end_pid in one two; do
        end_number=$(cat "$mp_dir/$end_pid.pid" 2>/dev/null) && kill -CONT "$end_number" && kill "$end_number"
    done
    rm -rf "$mp_dir"
}
writers=
trap end_all EXIT

# stand NAME: a standing server that exports the directory of that name
stand() {
    "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/$1=$mp_dir/$1" -address-file "$mp_dir/$1.addresses" -pid-file "$mp_dir/$1.pid" >"$mp_dir/$1.out" 2>&1 ||
        cat "$mp_dir/$1.out"
}

# leave NAME...: ends standing servers and waits until they have ended, since the next ones have the same files
leave() {
    for leave_name; do
        kill "$(cat "$mp_dir/$leave_name.pid")"
        mp_until 20 test ! -e "$mp_dir/$leave_name.pid"
    done
}

# left NAME REPLACED COMMAND...: the first server is killed while a client of it executes the command over and over; REPLACED no: its
# supervisor is stopped meanwhile and starts no other one
left() {
    left_name=$1 left_replaced=$2
    shift 2
    mp_wanted "$left_name" || return 0
    stand one
    stand two
    # shellcheck disable=SC2016 # for the shell inside
    IOFWD_PASSTHROUGH=0 "$builddir/iofwd-run" -servers "$mp_dir/one.addresses" sh -c 'while "$@"; do :; done' sh "$@" >"$mp_dir/writer" 2>&1 </dev/null &
    writers=$!
    mp_until 20 test -s "$mp_dir/one/x"
    [ "$left_replaced" = yes ] || kill -STOP "$(cat "$mp_dir/one.pid")"
    timeout -k 5 90 "$builddir/tests/files/failover/fwd_left" "$(awk '/^server/ { print $3 }' "$mp_dir/one.addresses")" >"$mp_dir/out" 2>&1
    mp_report $? "$left_name" "$mp_dir/out"
    kill $writers 2>/dev/null
    wait $writers 2>/dev/null
    writers=
    kill -CONT "$(cat "$mp_dir/one.pid")"
    leave one two
    rm -f "$mp_dir/one/x"
}

left "killed while it writes, and replaced" yes dd if=/dev/zero of=/one/x bs=8M count=8 conv=notrunc
left "killed while it writes" no dd if=/dev/zero of=/one/x bs=8M count=8 conv=notrunc
left "killed while it shortens and lengthens a file" no dd if=/dev/zero of=/one/x bs=4M count=2

# in_session ID: the processes of that session
in_session() {
    ps -e -o pid=,sid= | awk -v session="$1" '$2 == session { print $1 }'
}

# job NAME: all processes of a job are killed, while its programs write with descriptors that its server has passed
job() {
    mp_wanted "$1" || return 0
    stand two
    mkdir "$mp_dir/job"
    setsid "$AMPHORA_RUN" -n 2 -servers 1 -iofwd "/job=$mp_dir/job" sh -c 'dd if=/dev/zero of=/job/$$ bs=1M count=10000 conv=notrunc' \
        >"$mp_dir/writer" 2>&1 </dev/null &
    session=$!
    # shellcheck disable=SC2016 # for the shell inside
    mp_until 20 sh -c 'test "$(find "$1" -size +20M | wc -l)" = 2' sh "$mp_dir/job"
    # shellcheck disable=SC2046 # one word for each
    timeout -k 5 90 "$builddir/tests/files/failover/fwd_left" $(in_session $session) >"$mp_dir/out" 2>&1
    mp_report $? "$1" "$mp_dir/out"
    wait $session 2>/dev/null
    leave two
}

job "a job that is killed as a whole while it writes"
mp_done
