#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The UPC++-like example library and its programs, which write files by plain streams, also through I/O servers.
. "${srcdir:-.}/tests/lib/lib.sh"
check=tests/examples/upcxx_check
if [ ! -x "$builddir/$check" ]; then
    echo "1..0 # SKIP configure found no C++17 compiler (on Debian: apt-get install g++)"
    exit 0
fi
mp_run $check -c smp
mp_run $check -c tcp -n "2 3 7"
mp_run $check -c "tcp-smp udp" -n "3 4"

# misuse WORD PATTERN
misuse() {
    timeout -k 5 30 "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/$check" "$1" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    [ $code -eq 1 ] && grep -Eq "$2" "$mp_dir/out"
    mp_report $? "misuse: $1" "$mp_dir/out"
}
misuse wait 'future::wait: was called by a callback or a remote procedure call'
misuse result 'future::result: the future is not ready'
misuse delete 'nothing in the shared segment begins there'
misuse foreign 'deallocate: the memory belongs to another process'
misuse promise 'promise: is fulfilled more often'
misuse rank 'rpc: there is no such process'

# The wave does not depend on the number of processes and the network.
# wave NAME OPTIONS...
wave() {
    name=$1
    shift
    timeout -k 5 60 "$AMPHORA_RUN" -timeout 50 "$@" "$builddir/examples/upcxx/stencil" 200 60 "$out" >"$mp_dir/out" 2>&1 </dev/null &&
        cmp "$file" "$mp_dir/wave1" >>"$mp_dir/out" 2>&1
    mp_report $? "stencil: $name" "$mp_dir/out"
}
file=$mp_dir/wave1 out=$file
wave "one process" -n 1
file=$mp_dir/wave out=$file
wave "2 processes" -n 2
wave "7 processes" -n 7
AMPHORA_SMP=0 wave "tcp, 4 processes" -n 4 -conduit tcp
AMPHORA_SMP=0 wave "udp, 3 processes" -n 3 -conduit udp
mkdir "$mp_dir/served"
file=$mp_dir/served/wave out=/fwd/wave
wave "its file through I/O servers" -n 3 -servers 2 -iofwd "/fwd=$mp_dir/served"
mp_run examples/upcxx/dht -n "1 7" -c smp
mp_run examples/upcxx/dht -n 3 -c "tcp udp"
mp_run examples/upcxx/histogram -n "1 4" -c smp
mp_run examples/upcxx/histogram -n 4 -c "tcp-smp udp"
mp_done
