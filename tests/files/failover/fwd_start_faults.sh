#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each system call that a starting server makes is made to fail in turn (fault_start.c, preloaded): the server serves all the same, or says
# why not and ends with an exit code, and its job ends.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
shim=$mp_dir/fault_start.so
${CC:-gcc} -std=gnu11 -shared -fPIC -O1 -o "$shim" "$srcdir/tests/files/failover/fault_start.c" -ldl || exit 1
printf '#!/bin/sh\nLD_PRELOAD=%s exec "%s/iofwd-server" "$@"\n' "$shim" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
mkdir "$mp_dir/kept"
FAULT_NOTE=$mp_dir/note
export FAULT_NOTE

# one CONDUIT SMP STEP: 0 if the job is right; $failed is the call that failed, if any
one() {
    rm -f "$FAULT_NOTE"
    FAULT_AT=$3 AMPHORA_SMP=$2 timeout -k 5 30 "$AMPHORA_RUN" -n 1 -servers 1 -conduit "$1" -server-program "$mp_dir/server" \
        -iofwd "/fwd=$mp_dir/kept" -timeout 20 sh -c 'echo through >/fwd/x && cat /fwd/x' >"$mp_dir/one" 2>&1 </dev/null
    code=$?
    failed=$(cat "$FAULT_NOTE" 2>/dev/null)
    [ $code = 0 ] && grep -qx through "$mp_dir/one" && return 0
    [ $code -gt 0 ] && [ $code -lt 124 ] && grep '^amphora: ' "$mp_dir/one" | grep -qv 'has ended; its calls give EIO'
}

# steps CONDUIT SMP MINIMUM: until no step is left
steps() {
    bad=0 step=0 failed=first
    : >"$mp_dir/out"
    while [ -n "$failed" ] && [ $step -lt 200 ]; do
        step=$((step + 1))
        one "$1" "$2" $step || { bad=1 && echo "step $step ($failed): exit code $code" && cat "$mp_dir/one"; } >>"$mp_dir/out"
    done
    [ $step -gt "$3" ] || { bad=1 && echo "only $step steps failed"; } >>"$mp_dir/out"
    mp_report $bad "each step of a server's start fails in turn: $1" "$mp_dir/out"
}

steps smp 1 12
steps udp 0 12
mp_done
