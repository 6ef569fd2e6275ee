#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each system call that a starting server, or a client that attaches to servers, makes is made to fail in turn (fault_start.c,
# preloaded).  A server serves all the same, or says why not and ends with an exit code, and its job ends; a client's calls succeed all the
# same, or the program gets an errno, and a sentence says why.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
shim=$mp_dir/fault_start.so
client=$mp_dir/fault_client
allocations=-DALLOCATIONS
if nm "$builddir/.libs/libamphora.a" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    allocations='' # they are the sanitizer's
fi
# shellcheck disable=SC2086 # one word or none
${CC:-gcc} -std=gnu11 $allocations -shared -fPIC -O1 -o "$shim" "$srcdir/tests/files/failover/fault_start.c" -ldl || exit 1
${CC:-gcc} -std=gnu11 -O1 -o "$client" "$srcdir/tests/files/failover/fault_client.c" || exit 1
printf '#!/bin/sh\nLD_PRELOAD=%s FAULT_PROGRAM=iofwd-server exec "%s/iofwd-server" "$@"\n' "$shim" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
mkdir "$mp_dir/kept"
FAULT_NOTE=$mp_dir/note
export FAULT_NOTE

# one_server CONDUIT SMP STEP: 0 if the job is right
one_server() {
    FAULT_AT=$3 AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 1 -conduit "$1" -server-program "$mp_dir/server" \
        -iofwd "/fwd=$mp_dir/kept" -timeout 20 sh -c 'echo through >/fwd/x && cat /fwd/x' >"$mp_dir/one" 2>&1 </dev/null
    code=$?
    [ $code = 0 ] && grep -qx through "$mp_dir/one" && return 0
    [ $code -gt 0 ] && [ $code -lt 124 ] && grep '^amphora: ' "$mp_dir/one" | grep -qv 'has ended; its calls give EIO'
}

# one_client CONDUIT SMP STEP: 0 if the client is right.  The shim comes behind the preload library, so that it has the calls of the
# client's own sockets and memory, too.
one_client() {
    # shellcheck disable=SC2016 # for the shell inside
    AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 1 -conduit "$1" -iofwd "/fwd=$mp_dir/kept" -timeout 20 \
        sh -c 'LD_PRELOAD="$LD_PRELOAD $1" FAULT_PROGRAM=fault_client FAULT_ALL=1 FAULT_AT=$2 exec "$3" /fwd/x' sh "$shim" "$3" "$client" \
        >"$mp_dir/one" 2>&1 </dev/null
    code=$?
    [ $code = 0 ] && grep -qx through "$mp_dir/one" && return 0
    [ $code = 1 ] && grep -q '^amphora: ' "$mp_dir/one" && grep -qx '[a-z]*: E[A-Z0-9]*' "$mp_dir/one"
}

# steps KIND CONDUIT SMP MINIMUM: until no step is left
steps() {
    bad=0 step=0 failed=first
    : >"$mp_dir/out"
    while [ -n "$failed" ] && [ $step -lt 300 ]; do
        step=$((step + 1))
        rm -f "$FAULT_NOTE"
        right=0
        "one_$1" "$2" "$3" $step || right=1
        failed=$(cat "$FAULT_NOTE" 2>/dev/null) # the call that failed, if any
        [ $right = 0 ] || { bad=1 && echo "step $step ($failed): exit code $code" && cat "$mp_dir/one"; } >>"$mp_dir/out"
    done
    [ $step -gt "$4" ] || { bad=1 && echo "only $step steps failed"; } >>"$mp_dir/out"
    [ -z "$failed" ] || { bad=1 && echo "steps do not end"; } >>"$mp_dir/out"
}

steps server smp 1 12
mp_report $bad "each step of a server's start fails in turn: smp" "$mp_dir/out"
steps server udp 0 12
mp_report $bad "each step of a server's start fails in turn: udp" "$mp_dir/out"
for conduit in smp tcp udp; do
    steps client $conduit "$([ $conduit = smp ] && echo 1 || echo 0)" 12
    mp_report $bad "each step of a client's attach fails in turn: $conduit" "$mp_dir/out"
done
mp_done
