#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A connection between two compute processes is reset by the network.  If nothing was in flight, the job goes on over a new
# connection; otherwise it ends with one sentence, and no wait lasts for ever.
. "${srcdir:-.}/tests/lib/lib.sh"

# job CONDUIT WHAT: its exit code
job() {
    rm -f "$mp_dir/ready" "$mp_dir/sent" "$mp_dir/came"
    AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -conduit "$1" -timeout 50 "$builddir/tests/am/am_reset" "$2" "$mp_dir" \
        >"$mp_dir/out" 2>&1 </dev/null
}

# ends CONDUIT WHAT: with a sentence that has the cause, the host and the remedy
ends() {
    mp_wanted "$1: a lost $2" || return 0
    job "$1" "$2"
    rc=$?
    ok=0
    [ $rc = 1 ] || ok=1
    grep -q 'on host .* cannot be reached: the network connection to it broke.*; check the network.*start the job again' "$mp_dir/out" || ok=1
    echo "exit code $rc" >>"$mp_dir/out"
    mp_report $ok "$1: a lost $2 ends the job with a sentence" "$mp_dir/out"
}

for conduit in tcp verbs; do
    [ $conduit = verbs ] && export AMPHORA_MR_DEBUG=1
    if mp_wanted "$conduit: nothing in flight"; then
        job $conduit nothing
        mp_report $? "$conduit: nothing in flight, the job goes on" "$mp_dir/out"
    fi
    ends $conduit request
    ends $conduit reply
    ends $conduit get
done
mp_done
