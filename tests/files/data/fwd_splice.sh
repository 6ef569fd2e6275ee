#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Large writes whose data a server takes from a pipe (IOFWD_PIPES): the same files, answers and errors as locally; see
# fwd_splice.c.  splice_fault.c makes what other kernels, file systems and limits may do to pipes.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_splice
real=$AMPHORA_RUN
IOFWD_PASSTHROUGH=0
export IOFWD_PASSTHROUGH

# with NAME LEAST SECTION SETTING...: compares, and looks whether pipes have been used (LEAST bytes at least; 0: none)
with() {
    with_name=$1 with_least=$2 with_section=$3
    shift 3
    fwd_both_counted "$with_name" "$with_least" "bytes that came by pipes" env "$@" "$program" "$with_section"
}

# A setting of the servers too, as env sets it for the program only.
with "sizes, files and processes of all kinds" 100000000 data A=1
with "memory with holes" 4000000 holes A=1
IOFWD_STRIPE=2:256K
export IOFWD_STRIPE
with "striped in small units" 50000000 data A=1
IOFWD_STRIPE=2
with "striped by the call" 50000000 data A=1
unset IOFWD_STRIPE
with "in a session" 50000000 data IOFWD_CONSISTENCY=session
mkdir "$mp_dir/records"
with "recorded" 100000000 data IOFWD_TRACE_DIR="$mp_dir/records"
IOFWD_PIPES=0
export IOFWD_PIPES
with "switched off" 0 data A=1
IOFWD_PIPES=1
with "one pipe for all" 1000000 data A=1
unset IOFWD_PIPES
AMPHORA_SMP=0
export AMPHORA_SMP
with "no shared memory" 0 data A=1
unset AMPHORA_SMP

if nm "$builddir/.libs/libamphora.a" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    for what in refused partial limited broken; do
        for name in "same output" "same files" "passed through the servers" "bytes that came by pipes"; do
            mp_skip "splice: $what: $name" "a sanitizer must be loaded first"
        done
    done
else
    ${CC:-cc} -shared -fPIC -o "$mp_dir/fault.so" "$srcdir/tests/files/data/splice_fault.c" -ldl || exit 1
    # shellcheck disable=SC2016 # for the scripts
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/.libs LD_PRELOAD=%s/fault.so exec %s/.libs/iofwd-server "$@"\n' \
        "$builddir" "$mp_dir" "$builddir" >"$mp_dir/server"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec "%s" -server-program "%s/server" "$@"\n' "$real" "$mp_dir" >"$mp_dir/run"
    chmod +x "$mp_dir/server" "$mp_dir/run"
    AMPHORA_RUN=$mp_dir/run
    export SPLICE_FAULT
    SPLICE_FAULT=refused
    with "splice: refused" 0 data A=1
    SPLICE_FAULT=partial
    with "splice: partial" 100000000 data A=1
    SPLICE_FAULT=limited
    with "splice: limited" 0 data A=1
    SPLICE_FAULT=broken
    with "splice: broken" 1000000 retry A=1
    unset SPLICE_FAULT
    AMPHORA_RUN=$real
fi

# A client is killed in the midst of its writes, again and again; others write at the same server.
# shellcheck disable=SC2016 # for the shell inside
fwd_both "clients that are killed" sh -c '
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        : >"$2/out.$i"
        "$0" forever "$1" "$2" >"$2/out.$i" &
        until grep -q begun "$2/out.$i"; do sleep 0.01; done
        sleep "0.0$i"
        kill -9 $!
        wait $! 2>/dev/null
        tr -d "\001-\377" <"$1/forever" | wc -c | grep -qx 0 || echo "a hole"
        rm "$1/forever" "$2/out.$i"
    done
    exec "$0" data "$1" "$2"' "$program"

# A server is killed while its client writes; the other one takes over, and every byte is written.
mkdir "$mp_dir/kept" "$mp_dir/scratch" "$mp_dir/local"
"$program" failover "$mp_dir/local" "$mp_dir/scratch" >/dev/null
rm "$mp_dir/scratch/half"
# shellcheck disable=SC2016 # for the shells inside
printf '#!/bin/sh\necho $$ >>"%s/servers"\nexec "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
# shellcheck disable=SC2016 # for the shell inside
timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -on-server-death failover \
    -iofwd "/fwd=$mp_dir/kept" -timeout 50 sh -c '
    "$1" failover /fwd "$2" &
    until [ -e "$2/half" ]; do sleep 0.01; done
    while read -r server; do
        ! find "/proc/$server/fd" -lname "*/kept/failover" | grep -q . || kill -9 "$server"
    done <"$3"
    wait $!' sh "$program" "$mp_dir/scratch" "$mp_dir/servers" >"$mp_dir/out" 2>&1
code=$?
[ $code -eq 0 ] && grep -qx written "$mp_dir/out" && grep -q "the next one takes over" "$mp_dir/out" &&
    cmp "$mp_dir/kept/failover" "$mp_dir/local/failover" >>"$mp_dir/out" 2>&1
mp_report $? "a server that is killed" "$mp_dir/out"
mp_done
