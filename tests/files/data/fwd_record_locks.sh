#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Record locks that a client holds itself, by descriptors that servers have passed: the same results and the same locks for others as
# locally, whichever process asks and by which way; death of clients and servers.  See fwd_record_locks.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_record_locks

fwd_passed "several open files of a file" 1 handles
fwd_passed "random calls" 500 random
fwd_passed "random calls, of another seed" 500 random TEST_SEED=77
fwd_nservers=1
fwd_passed "one server, several open files" 10 handles
fwd_passed "one server, random calls" 500 random TEST_SEED=5
fwd_passed "one server, threads" 100 threads
fwd_nservers=2
fwd_passed "waits" 1 waits
fwd_passed "processes that count" 100 counts
fwd_passed "threads" 100 threads
fwd_passed "programs that are executed" 1 exec
fwd_passed "descriptors that are closed" 1 closes
fwd_passed "many files" 1 many
fwd_passed "few descriptors" 1 few
if fwd_is_near; then # a lock that a server has held is free a moment later
    for ended in "processes that have ended" "processes that have ended while the server is late"; do
        fwd_skip "$ended" "doc/limits.md excludes it"
        mp_skip "$ended: calls by passed descriptors" "doc/limits.md excludes it"
    done
else
    fwd_passed "processes that have ended" 20 ended
    fwd_nservers=1
    fwd_passed "processes that have ended while the server is late" 1 ended LATE=1
    fwd_nservers=2
fi
fwd_passed "in a session" 500 random IOFWD_CONSISTENCY=session
fwd_passed "with failover" 0 waits AMPHORA_ON_SERVER_DEATH=failover
fwd_passed "switched off" 0 handles IOFWD_PASSTHROUGH=0

# ---- standing servers: clients and servers that are killed ----

export IOFWD_NEAR=0 # servers make the calls

kept=$mp_dir/kept address=$mp_dir/address
mkdir "$kept"

start_server() {
    "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$kept" -address-file "$address" >"$mp_dir/standing" 2>&1 </dev/null
    server=$("$builddir/iofwd-ctl" status -servers "$address" | awk 'NR == 2 { print $3 }')
}

# Ends a process that looks after a server, which was killed or has been started again.
end_servers() {
    parent=$(sed -n 's/^iofwd-server: process \([0-9]*\),.*/\1/p' "$mp_dir/standing")
    kill "$parent"
    mp_until 20 has_ended "$parent"
}

has_ended() {
    ! kill -0 "$1" 2>/dev/null
}

# client NAME SECTION SETTING...: in the background, with its number in $mp_dir/NAME.pid and what it says in $mp_dir/NAME
client() {
    client_name=$1 client_section=$2
    shift 2
    : >"$mp_dir/$client_name"
    # shellcheck disable=SC2016 # for the shell inside
    env "$@" "$builddir/iofwd-run" -servers "$address" sh -c 'echo $$ >"$1.pid"; shift; exec "$@"' sh "$mp_dir/$client_name" \
        "$program" "$client_section" /fwd "$mp_dir" >"$mp_dir/$client_name" 2>"$mp_dir/$client_name.log" &
}

says() {
    mp_until 20 grep -qx "$2" "$mp_dir/$1" && return 0
    cat "$mp_dir/$1" "$mp_dir/$1.log"
    return 1
}

end_of() {
    kill -9 "$(cat "$mp_dir/$1.pid")"
}

# A process, whichever one the kernel knows as its owner, waits for a lock of the file.
is_waiting() {
    grep -q -- "-> POSIX .*:$(stat -c %i "$kept/held") " /proc/locks
}

# who SETTING: the process that holds the lock
who() {
    env "$1" "$builddir/iofwd-run" -servers "$address" "$program" who /fwd "$mp_dir"
}

is_free() {
    [ "$(who A=1)" = 0 ]
}

# The lock of a client that is killed goes to the one that waits, by whichever way each has it.
killed() {
    for first in 1 0; do
        for second in 1 0; do
            for third in hold hold-both; do
                client first hold IOFWD_PASSTHROUGH=$first
                says first held || return 1
                client second $third IOFWD_PASSTHROUGH=$second
                [ $third = hold ] || says second "has the other" || return 1
                mp_until 20 is_waiting || return 1
                for asks in 1 0; do
                    [ "$(who IOFWD_PASSTHROUGH=$asks)" = "$(cat "$mp_dir/first.pid")" ] || return 1
                done
                grep -qx held "$mp_dir/second" && return 1
                end_of first
                says second held || return 1
                end_of second
                wait
                mp_until 20 is_free || return 1
            done
        done
    done
}

# A wait at the server ends with it; one of a client that has other locks ends with the lock that it waits for, and the client hears
# of the server's death all the same.
server_killed() {
    for waiter in hold hold-both; do
        start_server
        client first hold A=1
        says first held || return 1
        client second $waiter A=1
        [ $waiter = hold ] || says second "has the other" || return 1
        mp_until 20 is_waiting || return 1
        kill -9 "$server"
        mp_until 20 has_ended "$server" || return 1
        [ $waiter = hold ] || end_of first
        says second EIO || return 1
        [ $waiter = hold-both ] || end_of first
        wait
        end_servers
    done
}

# A program that is executed gets the locks of eight open files; that it loses the others is said.
executes() {
    "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/locked" -timeout 60 python3 -c '
import fcntl, os, sys
files = [open("/fwd/%d" % i, "w+") for i in range(int(sys.argv[1]))]
for f in files:
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.set_inheritable(f.fileno(), True)
os.environ["PATH"] = ":".join(["/none"] * 5 + [os.environ["PATH"]]) # execvp tries each folder
os.execvp("true", ["true"])' "$1" 2>&1 </dev/null
}

loses() {
    mkdir "$mp_dir/locked"
    executes 8 >"$mp_dir/says" || {
        cat "$mp_dir/says"
        return 1
    }
    grep "record locks" "$mp_dir/says" && return 1

    # two files whose versions share a line are not both passed: the second is locked at its server, as are those after it, and
    # none is lost then.  The lines follow from the files' inodes: others each time.
    # The process says it once, of however many files and attempts of exec.
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        mv "$mp_dir/locked" "$mp_dir/locked.$attempt"
        mkdir "$mp_dir/locked"
        executes 12 >"$mp_dir/says" || break
        grep -q "loses record locks: " "$mp_dir/says" || continue
        [ "$(wc -l <"$mp_dir/says")" = 1 ] && return 0
        break
    done

    cat "$mp_dir/says"

    return 1
}

# A lock of a client on another host, whose number no process has here: it is not taken for one that has ended (100 ms each time).
far_lock() {
    mkdir -p "$mp_dir/far"
    "$builddir/iofwd-server" -daemon -servers 1 -conduit tcp -iofwd "/fwd=$mp_dir/far" -address-file "$mp_dir/far.address" >/dev/null || return
    mkfifo "$mp_dir/far.go"
    # shellcheck disable=SC2016 # for the shell inside
    AMPHORA_SMP=0 timeout 60 unshare -p -f sh -c 'echo $(($(cat /proc/sys/kernel/pid_max) - 50)) >/proc/sys/kernel/ns_last_pid; "$@"; exit' sh \
        "$builddir/iofwd-run" -servers "$mp_dir/far.address" python3 -c '
import fcntl, sys
f = open("/fwd/f", "w+")
fcntl.lockf(f, fcntl.LOCK_EX)
print("held", flush=True)
open(sys.argv[1]).read()' "$mp_dir/far.go" >"$mp_dir/far.says" 2>&1 &
    mp_until 20 grep -q held "$mp_dir/far.says"
    IOFWD_NEAR=0 timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/far.address" python3 -c '
import fcntl, os, time
g = open("/fwd/g", "w+") # with a lock of its own the process must not leave its calls to the server
fcntl.lockf(g, fcntl.LOCK_EX)
f = open("/fwd/f", "r+")
began = time.monotonic()
refused = 0
for i in range(30):
    try:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        refused += 1
print(refused, "refused,", "at once" if time.monotonic() - began < 1.5 else time.monotonic() - began)' >"$mp_dir/far.refused" 2>&1
    echo >"$mp_dir/far.go"
    wait
    "$builddir/iofwd-ctl" stop -servers "$mp_dir/far.address" >/dev/null
    cat "$mp_dir/far.says" "$mp_dir/far.refused"
    grep -q "^30 refused, at once$" "$mp_dir/far.refused"
}

mp_try "a program that is executed loses locks, which is said" loses
if unshare -p -f true 2>/dev/null && [ -w /proc/sys/kernel/ns_last_pid ]; then
    mp_try "a lock of a client on another host is refused at once" far_lock
else
    mp_skip "a lock of a client on another host is refused at once" "this user may make no process namespace"
fi
AMPHORA_ON_SERVER_DEATH=eio
export AMPHORA_ON_SERVER_DEATH
start_server
mp_try "the lock of a client that is killed is free" killed
"$builddir/iofwd-ctl" stop -servers "$address" >"$mp_dir/out" 2>&1
mp_report $? "the servers end" "$mp_dir/out"
mp_try "waits hear of the death of their server" server_killed
mp_done
