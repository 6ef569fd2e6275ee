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

fwd_kill_clients "$program"
fwd_kill_server "$program"
mp_done
