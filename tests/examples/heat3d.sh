#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# heat3d gives the same bits with any number of threads and servers, by UPC-IO and by plain fopen, and after a restart on others.
. "${srcdir:-.}/tests/lib/lib.sh"
AMPHORA_UPC_HEAP=64M
export AMPHORA_UPC_HEAP
heat=$builddir/examples/heat3d/heat3d
mkdir "$mp_dir/served" "$mp_dir/again" "$mp_dir/net"
# run THREADS SERVERS DIR CONDUIT ARGUMENTS...: files go to DIR, through servers where there are any
run() {
    n=$1 s=$2 dir=$3 conduit=$4
    shift 4
    if [ "$s" -gt 0 ]; then
        "$AMPHORA_RUN" -n "$n" -servers "$s" -iofwd "/heat3d=$dir" -conduit "$conduit" -timeout 60 "$heat" -side 20 "$@" /heat3d
    else
        "$AMPHORA_RUN" -n "$n" -conduit "$conduit" -timeout 60 "$heat" -side 20 "$@" "$dir"
    fi
}
# that NAME COMMAND...: one TAP line for a function of this file
that() {
    name=$1
    shift
    "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$name" "$mp_dir/out"
}
that "one thread, no servers, in a directory that it creates" run 1 0 "$mp_dir/one" smp -steps 12 -every 5
that "four threads, two servers, UPC-IO" run 4 2 "$mp_dir/served" smp -steps 12 -every 5
for step in 5 10 12; do
    mp_check "snapshot $step has the same bits" cmp "$mp_dir/one/heat.$step" "$mp_dir/served/heat.$step"
done
cp "$mp_dir/served/heat.5" "$mp_dir/again/start"
that "restart on three threads and one server, plain fopen" run 3 1 "$mp_dir/again" smp -steps 12 -every 5 -depth 3 -way stdio \
    -restart /heat3d/start
mp_check "the end has the same bits" cmp "$mp_dir/one/heat.12" "$mp_dir/again/heat.12"
cp "$mp_dir/again/heat.10" "$mp_dir/net/start"
mp_check "restart over tcp on two threads and three servers, UPC-IO" env AMPHORA_SMP=0 "$AMPHORA_RUN" -n 2 -servers 3 -iofwd \
    "/heat3d=$mp_dir/net" -conduit tcp -timeout 60 "$heat" -steps 12 -depth 1 -restart /heat3d/start /heat3d
mp_check "its end has the same bits, too" cmp "$mp_dir/one/heat.12" "$mp_dir/net/heat.12"
that "what is no snapshot is refused" sh -c 'out=$("$@" 2>&1); code=$?; echo "$out"; [ $code = 1 ] && echo "$out" | grep -q "no snapshot"' sh \
    "$AMPHORA_RUN" -n 2 -timeout 60 "$heat" -side 20 -restart "$heat" "$mp_dir/one"
mp_done
