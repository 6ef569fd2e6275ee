#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs whose main thread ends by pthread_exit: the process ends with its last thread, by exit, although Amphora has threads of its
# own in it; nothing that its streams hold is lost.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
programs=$builddir/tests/files/process
mkdir "$mp_dir/kept"

# under CONDUIT COMMAND...: one job with a server; its exit code
under() {
    under_smp=0
    [ "$1" = smp ] && under_smp=1
    AMPHORA_SMP=$under_smp timeout -k 5 40 "$AMPHORA_RUN" -n "$processes" -servers 1 -conduit "$1" -iofwd "/fwd=$mp_dir/kept" \
        -timeout 30 "$2" "$3" ${4:+"$4"} >"$mp_dir/out" 2>&1 </dev/null
}

# ends WHAT CONDUIT EXIT-CODE LINES: the lines of the forwarded file, as words
ends() {
    mp_wanted "a forwarding program: $1, $2" || return 0
    rm -f "$mp_dir/kept/file"
    processes=1
    under "$2" "$programs/fwd_last_thread" "$1" /fwd/file
    code=$?
    echo "exit code $code" >>"$mp_dir/out"
    cat "$mp_dir/kept/file" >>"$mp_dir/out" 2>&1
    [ $code = "$3" ] && printf '%b' "$4" | cmp -s - "$mp_dir/kept/file"
    mp_report $? "a forwarding program: $1, $2" "$mp_dir/out"
}

for conduit in ${MP_CONDUITS:-smp tcp udp}; do
    ends plain "$conduit" 0 'main\nsecond thread\nat exit\n'
    ends aio "$conduit" 0 'main\nrequests\nsecond thread\nat exit\n'
    ends signal "$conduit" 143 'main\nsecond thread\nat exit\n'
    IOFWD_CONSISTENCY=session ends quick "$conduit" 5 'main\nsecond write\nat quick exit\n'

    mp_wanted "a GASNet client after a non-blocking write: $conduit" || continue
    processes=2
    under "$conduit" "$programs/iofwd_last_thread" /fwd/nb
    code=$?
    echo "exit code $code" >>"$mp_dir/out"
    [ $code = 0 ] && [ "$(grep -c '^second thread of [01]$' "$mp_dir/out")" = 2 ] &&
        [ "$(cat "$mp_dir/kept/nb.0" "$mp_dir/kept/nb.1" | grep -cx written)" = 2 ]
    mp_report $? "a GASNet client after a non-blocking write: $conduit" "$mp_dir/out"
done
mp_done
