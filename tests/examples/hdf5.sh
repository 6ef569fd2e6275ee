#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/hdf5, a C++ program with HDF5's library: built by iofwd-c++, and unchanged by preload, iofwd-instrument, mount and trap.  The file has
# the bits of a direct run.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
unset IOFWD_CXX IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
cd "$mp_dir" || exit 99
source=$srcdir/examples/hdf5/table.cc

cat >names <<'END'
built without and with iofwd-c++
standing servers start
a direct run
built by iofwd-c++: the file of a direct run
preload: the file of a direct run
instrument: the file of a direct run
mount: the file of a direct run
trap: the file of a direct run
without servers, the wrapped program runs as the plain one
END
if ! { command -v h5c++ >/dev/null && h5c++ -std=c++17 -o plain "$source" && ./plain try.h5 100; } >out 2>&1; then
    while read -r name; do
        mp_skip "$name" "no h5c++ that works here (Debian: libhdf5-dev)"
    done <names
    mp_done
    exit 0
fi

# that NAME COMMAND...: one TAP line for a command
that() {
    that_name=$1
    shift
    mp_wanted "$that_name" || return 0
    timeout -k 5 200 "$@" >out 2>&1 </dev/null
    mp_report $? "$that_name" out
}

# same NAME COMMAND...: the command makes /fwd/table.h5 and prints what a direct run prints
same() {
    same_name=$1
    shift
    mp_wanted "$same_name" || return 0
    rm -f kept/table.h5
    timeout -k 5 200 "$@" /fwd/table.h5 20000 >said 2>out </dev/null
    same_code=$?
    if grep -q 'user namespaces\|/dev/fuse\|WAIT_KILLABLE' out && [ $same_code -ne 0 ]; then
        mp_skip "$same_name" "$(tail -n 1 out)"
        return
    fi
    [ $same_code -eq 0 ] && diff direct.out said >>out 2>&1 && cmp direct.h5 kept/table.h5 >>out 2>&1
    mp_report $? "$same_name" out
}

mkdir kept
that "built without and with iofwd-c++" "$builddir/iofwd-c++" h5c++ -std=c++17 -o wrapped "$source"
that "standing servers start" "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/servers" -pid-file "$mp_dir/pid"
that "a direct run" sh -c './plain direct.h5 20000 >direct.out'
same "built by iofwd-c++: the file of a direct run" env AMPHORA_JOB="$mp_dir/servers" IOFWD_PREFIX=/fwd ./wrapped
same "preload: the file of a direct run" "$builddir/iofwd-run" -servers servers ./plain
"$builddir/iofwd-instrument" -server servers -o copy plain >out 2>&1 || cat out
same "instrument: the file of a direct run" ./copy
same "mount: the file of a direct run" "$builddir/iofwd-run" -servers servers -mount ./plain
same "trap: the file of a direct run" "$builddir/iofwd-run" -servers servers -trap ./plain
that "without servers, the wrapped program runs as the plain one" sh -c './wrapped local.h5 20000 | diff direct.out - && cmp direct.h5 local.h5'
mp_done
