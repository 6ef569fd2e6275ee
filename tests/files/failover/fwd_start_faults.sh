#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each system call that a starting server, or a client that attaches to servers, makes is made to fail in turn (fault_start.c,
# preloaded).  A server serves all the same, or says why not and ends with an exit code, and its job ends; a client's calls succeed all the
# same, or the program gets an errno, and a sentence says why.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
shim=$mp_dir/fault_start.so
client=$mp_dir/fault_client
allocations=-DALLOCATIONS
if mp_sanitized asan tsan; then
    allocations='' # they are the sanitizer's
fi
# shellcheck disable=SC2086 # one word or none
${CC:-gcc} -std=gnu11 $allocations -shared -fPIC -O1 -o "$shim" "$srcdir/tests/files/failover/fault_start.c" -ldl || exit 1
${CC:-gcc} -std=gnu11 -O1 -o "$client" "$srcdir/tests/files/failover/fault_client.c" || exit 1
printf '#!/bin/sh\nLD_PRELOAD=%s FAULT_PROGRAM=iofwd-server exec "%s/iofwd-server" "$@"\n' "$shim" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"

# one_server CONDUIT SMP STEP: 0 if the job is right
one_server() {
    FAULT_AT=$3 AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 1 -conduit "$1" -server-program "$mp_dir/server" \
        -iofwd "/fwd=$kept" -timeout 20 sh -c 'echo through >/fwd/x && cat /fwd/x' >"$kept.out" 2>&1
    code=$?
    [ $code = 0 ] && grep -qx through "$kept.out" && return 0
    [ $code -gt 0 ] && [ $code -lt 124 ] && grep '^amphora: ' "$kept.out" | grep -qv 'has ended; its calls give EIO'
}

# one_client CONDUIT SMP STEP: 0 if the client is right.  The shim comes behind the preload library, so that it has the calls of the
# client's own sockets and memory, too.
one_client() {
    # shellcheck disable=SC2016 # for the shell inside
    AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 1 -conduit "$1" -iofwd "/fwd=$kept" -timeout 20 \
        sh -c 'LD_PRELOAD="$LD_PRELOAD $1" FAULT_PROGRAM=fault_client FAULT_ALL=1 FAULT_AT=$2 exec "$3" /fwd/x' sh "$shim" "$3" "$client" \
        >"$kept.out" 2>&1
    code=$?
    [ $code = 0 ] && grep -qx through "$kept.out" && return 0
    [ $code = 1 ] && grep -q '^amphora: ' "$kept.out" && grep -qx '[a-z]*: E[A-Z0-9]*' "$kept.out"
}

# one_daemon CONDUIT SMP STEP: 0 if servers that are said to run serve a client, or the next one
one_daemon() {
    code=0
    export AMPHORA_INTERFACE=lo # a search for one would be a step that may find none
    FAULT_AT=$3 AMPHORA_SMP=$2 LD_PRELOAD=$shim FAULT_PROGRAM=iofwd-server timeout -k 5 30 "$builddir/iofwd-server" -daemon \
        -conduit "$1" -iofwd "/fwd=$kept" -address-file "$kept.address" -pid-file "$kept.pid" >"$kept.out" 2>&1 || code=$?
    [ $code = 0 ] || { grep -q '^amphora: ' "$kept.out" && [ ! -e "$kept.pid" ]; return; }
    one_attached "$2" || one_attached "$2" || code=$?
    kill "$(cat "$kept.pid")"
    mp_until 10 test ! -e "$kept.pid" && [ $code = 0 ]
}

one_attached() {
    AMPHORA_SMP=$1 timeout -k 5 30 "$builddir/iofwd-run" -servers "$kept.address" "$client" /fwd/x >>"$kept.out" 2>&1
}

# steps KIND CONDUIT SMP MINIMUM: for mp_queue: until no step is left
steps() {
    kept=$mp_dir/kept.$mp_queued
    mkdir "$kept"
    export FAULT_NOTE="$kept.note"
    bad=0 step=0 failed=first
    while [ -n "$failed" ] && [ $step -lt 300 ]; do
        step=$((step + 1))
        rm -f "$FAULT_NOTE"
        right=0
        "one_$1" "$2" "$3" $step || right=1
        failed=$(cat "$FAULT_NOTE" 2>/dev/null) # the call that failed, if any
        [ $right = 0 ] || { bad=1 && echo "step $step ($failed): exit code $code" && cat "$kept.out"; }
    done
    [ $step -gt "$4" ] || { bad=1 && echo "only $step steps failed"; }
    [ -z "$failed" ] || { bad=1 && echo "steps do not end"; }
    return $bad
}

mp_queue "each step of a server's start fails in turn: smp" steps server smp 1 12
mp_queue "each step of a server's start fails in turn: udp" steps server udp 0 12
mp_queue "each step of servers' start by -daemon fails in turn" steps daemon udp 0 12
for conduit in smp tcp udp; do
    smp=0
    [ $conduit != smp ] || smp=1
    mp_queue "each step of a client's attach fails in turn: $conduit" steps client $conduit $smp 12
done
mp_done
