#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How runs of iofwd-run -trap end: exit codes, signals, deaths of its processes at any time, and what refuses to start.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap"
trap 'quiet_end; mount_end' EXIT

# Servers that do not answer: within 10 s the program is started without forwarding, beside the other cases.  It has not their mark.
quiet_start
(
    IOFWD_OPTIONAL=1 timeout -k 5 30 "$builddir/iofwd-run" -servers "$mp_dir/quiet" -trap busybox sh -c 'echo out; exit 3' \
        >"$mp_dir/silent.out" 2>&1
    echo $? >"$mp_dir/silent.code"
) &
silent=$!
mark=TRAP_TEST=$$.$(date +%N)
export "${mark?}"

# ends CODE COMMAND...: the run ends with that exit code
ends() {
    want=$1
    shift
    run "$@"
    code=$?
    echo "exit code $code"
    [ "$code" = "$want" ]
}

nothing_left() {
    mp_until 10 mp_none_besides
}

# the test itself and the shells that run it have the mark, too
mp_none_besides() {
    [ "$(mp_marked "$mark" | while read -r pid; do
        case $(cat "/proc/$pid/comm" 2>/dev/null) in busybox | iofwd-run | iofwd-trap | trap_ends) echo "$pid" ;; esac
    done)" = "" ]
}

# started COMMAND...: in the background, with the program at work; sets front, supervisor, program
started() {
    rm -f "$mp_dir/kept/works"
    run "$@" >"$mp_dir/run.out" 2>&1 &
    limiter=$!
    mp_until 10 test -s "$mp_dir/kept/works" || return 1
    program=$(cat "$mp_dir/kept/works")
    supervisor=$(awk '/^PPid/ { print $2 }' "/proc/$program/status")
    front=$(awk '/^PPid/ { print $2 }' "/proc/$supervisor/status")
}

loop='echo $$ >/fwd/works; while :; do echo x >>/fwd/log; done'

supervisor_dies() {
    started busybox sh -c "(while :; do busybox stat /fwd/log >/dev/null; done) & $loop" || return 1
    kill -9 "$supervisor"
    wait "$limiter"
    code=$?
    cat "$mp_dir/run.out"
    [ "$code" = 1 ] && [ "$(grep -c "the supervisor has died" "$mp_dir/run.out")" = 1 ] && nothing_left
}

front_dies() {
    started busybox sh -c "$loop" || return 1
    kill -9 "$front"
    nothing_left
}

# What the program has started ends, too, also what has left its session.
front_of_tree_dies() {
    started busybox sh -c "(while :; do busybox stat /fwd/log >/dev/null; done) & busybox setsid sh -c '(busybox sleep 1000) & wait' & $loop" || return 1
    kill -9 "$front"
    nothing_left
}

both_die() {
    started busybox sh -c "$loop" || return 1
    kill -9 "$front" "$supervisor"
    nothing_left
}

program_dies() {
    started busybox sh -c "$loop" || return 1
    kill -9 "$program"
    wait "$limiter"
    [ $? = 137 ] && nothing_left
}

signal_passes() {
    started busybox sh -c "trap 'exit 5' TERM; $loop" || return 1
    kill -TERM "$front"
    wait "$limiter"
    [ $? = 5 ] && nothing_left
}

# At any time of the first second a SIGKILL leaves nothing behind.
early_deaths() {
    i=0
    while [ $i -lt "${TRAP_DEATHS:-12}" ]; do
        "$builddir/iofwd-run" -servers "$addresses" -trap busybox sh -c "$loop" >/dev/null 2>&1 &
        victim=$!
        busybox usleep $((i * 17000 % 200000))
        children=
        # the program itself, not libtool's script of that name, whose children are others
        case $(readlink /proc/$victim/exe) in */iofwd-trap) children=$(cat /proc/$victim/task/$victim/children) ;; esac
        if [ $((i % 3)) = 0 ] || [ -z "$children" ]; then
            kill -9 "$victim"
        elif [ $((i % 3)) = 1 ]; then
            kill -9 $children 2>/dev/null
        else
            kill -9 "$victim" $children 2>/dev/null
        fi
        wait "$victim" 2>/dev/null
        i=$((i + 1))
    done
    nothing_left
}

# What the program has left behind goes on, and the servers are still there.
daemon_goes_on() {
    run busybox sh -c '(busybox usleep 300000; echo late >/fwd/late) >/dev/null 2>&1 &' || return 1
    mp_until 10 grep -q late "$mp_dir/kept/late" && nothing_left
}

says() {
    text=$1
    shift
    "$@" >"$mp_dir/says.out" 2>&1
    code=$?
    cat "$mp_dir/says.out"
    [ $code != 0 ] && [ "$(grep -c . "$mp_dir/says.out")" = 1 ] && grep -q "$text" "$mp_dir/says.out"
}

no_servers() {
    says "$1" timeout 20 "$builddir/iofwd-run" -servers "$mp_dir/$2" -trap busybox true
}

optional() {
    IOFWD_OPTIONAL=1 timeout 30 "$builddir/iofwd-run" -servers "$mp_dir/old" -trap busybox sh -c 'echo out; exit 3' >"$mp_dir/optional.out" 2>&1
    code=$?
    cat "$mp_dir/optional.out"
    [ $code = 3 ] && grep -q out "$mp_dir/optional.out" && grep -q "goes on without forwarding" "$mp_dir/optional.out"
}

silent() {
    wait $silent
    quiet_end
    cat "$mp_dir/silent.out"
    [ "$(cat "$mp_dir/silent.code")" = 3 ] && grep -q "no I/O server has answered in 10 s" "$mp_dir/silent.out" &&
        grep -q out "$mp_dir/silent.out"
}

inside() {
    mkdir -p "$mp_dir/kept/in"
    says "another supervisor already receives" run "$builddir/iofwd-trap" -check
}

mp_try "the program's exit code" ends 7 busybox sh -c 'exit 7'
mp_try "the program's signal" ends 143 busybox sh -c 'kill -TERM $$'
mp_try "a program that does not exist" ends 127 "$mp_dir/none"
mp_try "a signal passes to the program" signal_passes
mp_try "the program is killed" program_dies
mp_try "the supervisor is killed: one sentence, and its tree ends" supervisor_dies
mp_try "the front is killed" front_dies
mp_try "the front of a tree is killed" front_of_tree_dies
mp_try "front and supervisor are killed" both_die
mp_try "SIGKILL in the first moments" early_deaths
mp_try "a process that the program leaves behind" daemon_goes_on
mp_try "-trap inside of -trap" inside
mp_try "IOFWD_TRAP_FDS=1-2" says "IOFWD_TRAP_FDS=1-2: two numbers" env IOFWD_TRAP_FDS=1-2 "$builddir/iofwd-run" -servers "$addresses" -trap busybox true
mp_try "no address file" no_servers "there is no address file" nowhere
mp_try "IOFWD_OPTIONAL, and servers that do not answer" silent
cp "$addresses" "$mp_dir/old"
kill "$(cat "$mp_dir/servers.pid")"
mp_until 10 test ! -e "$addresses"
mp_try "no servers" no_servers "address" addresses
mp_try "IOFWD_OPTIONAL, and servers that have ended" optional
mp_done
