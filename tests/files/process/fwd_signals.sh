#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server that does not answer, and what ends a program that waits for it: a signal that would end it on a local file system.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
export IOFWD_NEAR=0 # servers make the calls
program=$builddir/tests/files/process/fwd_signals
address=$mp_dir/addresses

mkdir "$mp_dir/kept"
mkfifo "$mp_dir/in"
"$builddir/iofwd-server" -daemon -foreground -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$address" \
    >"$mp_dir/server" 2>&1 &
daemon=$!
trap 'kill -CONT $(servers) 2>/dev/null; kill $daemon 2>/dev/null; wait $daemon; rm -rf "$mp_dir"' EXIT

# servers: the daemon and its children
servers() {
    echo "$daemon" $(cat "/proc/$daemon/task/$daemon/children" 2>/dev/null)
}

# ended PID: is it gone, or waiting for its parent?
ended() {
    ! [ -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status"
}

# sleeping: the call waits for its server; before that a signal would end the program anyway
sleeping() {
    in_call && grep -q '^State:.S' "/proc/$pid/status"
}

# in_call: the program has said that it makes the call
in_call() {
    grep -q '^calling$' "$mp_dir/said"
}

# begin WHAT: starts the program, until it is ready
begin() {
    "$builddir/iofwd-run" -servers "$address" -wait 30 "$program" "$1" /fwd <"$mp_dir/in" >"$mp_dir/said" 2>&1 &
    pid=$!
    exec 9>"$mp_dir/in"
    mp_until 30 grep -q '^ready$' "$mp_dir/said"
}

# socket_of PID...: the abstract sockets on which these processes listen
socket_of() {
    for inode in $(for each; do readlink /proc/$each/fd/*; done | sed -n 's/^socket:\[\([0-9]*\)\]$/\1/p'); do
        awk -v inode="$inode" '$7 == inode && $4 == "00010000" { print substr($8, 2) }' /proc/net/unix
    done | grep '^amphora-control-' | sort -u
}

# fill_backlog: a stopped server takes no connection, so its backlog fills
fill_backlog() {
    fillers=
    for name in $(socket_of $(servers)); do
        "$program" fill "$name" >"$mp_dir/filled.$name" 2>&1 &
        fillers="$fillers $!"
        mp_until 30 grep -q '^full$' "$mp_dir/filled.$name" || return 1
    done
    [ -n "$fillers" ]
}

# stopped WHAT SIGNAL NUMBER [COMMAND]: the program ends by the signal while its server is stopped; COMMAND is run before the call
stopped() {
    mp_wanted "$2 ends a program whose server is stopped: $1${4:+, $4}" || return 0
    fillers=
    begin "$1"
    kill -STOP $(servers)
    ${4:-:} || echo "$4 failed"
    echo go >&9
    mp_until 30 sleeping
    kill "-$2" "$pid"
    mp_until 4 ended "$pid"
    gone=$?
    [ -z "$fillers" ] || kill $fillers
    kill -CONT $(servers)
    [ $gone = 0 ] || kill -9 "$pid"
    wait "$pid" 2>/dev/null
    code=$?
    exec 9>&-
    echo "ended: $gone, code $code" >>"$mp_dir/said"
    [ $gone = 0 ] && [ $code = $((128 + $3)) ]
    mp_report $? "$2 ends a program whose server is stopped: $1${4:+, $4}" "$mp_dir/said"
}

for what in first small large; do
    stopped $what TERM 15
    stopped $what USR1 10
done
# by a passed descriptor it would be a map of the file itself, which needs no server
IOFWD_PASSTHROUGH=0
export IOFWD_PASSTHROUGH
stopped mapped TERM 15
stopped mapped USR1 10
unset IOFWD_PASSTHROUGH
stopped first TERM 15 fill_backlog

# The servers are not there yet: the first call waits for their address file.
if mp_wanted "TERM ends a program that waits for servers to start"; then
    LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" AMPHORA_JOB=$mp_dir/missing AMPHORA_JOB_WAIT=30s IOFWD_PREFIX=/fwd \
        "$program" first /fwd <"$mp_dir/in" >"$mp_dir/said" 2>&1 &
    pid=$!
    exec 9>"$mp_dir/in"
    mp_until 30 grep -q '^ready$' "$mp_dir/said"
    echo go >&9
    mp_until 30 sleeping
    kill -TERM "$pid"
    mp_until 4 ended "$pid"
    gone=$?
    [ $gone = 0 ] || kill -9 "$pid"
    wait "$pid" 2>/dev/null
    code=$?
    exec 9>&-
    [ $gone = 0 ] && [ $code = 143 ]
    mp_report $? "TERM ends a program that waits for servers to start" "$mp_dir/said"
fi

if mp_wanted "a signal that the program blocks stays blocked"; then
    begin blocked
    kill -STOP $(servers)
    echo go >&9
    mp_until 30 sleeping
    kill -TERM "$pid"
    mp_until 1 ended "$pid"
    early=$?
    kill -CONT $(servers)
    wait "$pid"
    code=$?
    exec 9>&-
    [ $early = 1 ] && [ $code = 0 ]
    mp_report $? "a signal that the program blocks stays blocked" "$mp_dir/said"
fi

if mp_wanted "a thread cancelled in the first call leaves no lock"; then
    begin cancelled
    echo go >&9
    mp_until 20 ended "$pid" || kill -9 "$pid"
    wait "$pid"
    code=$?
    exec 9>&-
    [ $code = 0 ]
    mp_report $? "a thread cancelled in the first call leaves no lock" "$mp_dir/said"
fi
# Servers that stand still now and then let the waits of four programs last, and requests queue.
if mp_wanted "a handler cuts no call on a file short"; then
    pids= code=0
    : >"$mp_dir/said"
    for i in 1 2 3 4; do
        IOFWD_PASSTHROUGH=0 "$builddir/iofwd-run" -servers "$address" "$program" alarmed /fwd >>"$mp_dir/said" 2>&1 </dev/null &
        pids="$pids $!"
    done
    sleep 0.3
    for i in 1 2 3; do
        kill -STOP $(servers)
        sleep 0.9 # waits let signals in after 0.6 s
        kill -CONT $(servers)
        sleep 0.2
    done
    for pid in $pids; do
        wait "$pid" || code=$?
    done
    mp_report $code "a handler cuts no call on a file short" "$mp_dir/said"
fi
mp_done
