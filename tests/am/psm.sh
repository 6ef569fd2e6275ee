#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The stand-ins for Intel's PSM libraries (conduits/psm_absent.c): libfabric finds all its symbols in them, a process that loads libfabric
# does not run the real ones' constructors, and naming their provider does.
. "${srcdir:-.}/tests/lib/lib.sh"

libs=$builddir/.libs
fabric=$(ldd "$libs/amphora_ofi.so" 2>/dev/null | awk '/libfabric/ { print $3 }')

# complete STAND-IN PREFIX: the stand-in has all symbols with that prefix that libfabric wants; prints those it lacks
complete() {
    nm -D --undefined-only "$fabric" | awk '{ print $2 }' | grep "^$2" | sort >"$mp_dir/wanted"
    nm -D --defined-only "$libs/$1" | awk '$2 == "T" { sub(/@@/, "@", $3); print $3 }' | sort >"$mp_dir/offered"
    [ -s "$mp_dir/wanted" ] && ! comm -23 "$mp_dir/wanted" "$mp_dir/offered" | grep .
}

# initialised [NAME=VALUE]: the PSM libraries whose constructors run
initialised() {
    env LD_DEBUG=libs "$@" "$builddir/amphora-info" 2>&1 | sed -n 's/.*calling init: .*\/\(libpsm[^/]*\|amphora_no_psm[^/]*\)$/\1/p' | sort | paste -sd ' '
}

# loads WANTED [NAME=VALUE]
loads() {
    wanted=$1
    shift
    loaded=$(initialised "$@")
    echo "loaded: $loaded"
    [ "$loaded" = "$wanted" ]
}

why=
if [ -z "$fabric" ] || ! readelf -d "$fabric" | grep -q 'libpsm2\.so\.2'; then
    why="libfabric here does not depend on PSM"
elif ls /dev/hfi1* /dev/ipath* >/dev/null 2>&1; then
    why="this machine has a PSM device"
fi

# check NAME FUNCTION ARGUMENT...
check() {
    name=$1
    shift
    if [ -n "$why" ]; then
        mp_skip "$name" "$why"
    elif mp_wanted "$name"; then
        "$@" >"$mp_dir/out" 2>&1
        mp_report $? "$name" "$mp_dir/out"
    fi
}

check "libfabric finds all symbols of psm" complete amphora_no_psm.so psm_
check "libfabric finds all symbols of psm2" complete amphora_no_psm2.so psm2_
check "the stand-ins are loaded, the libraries not" loads "amphora_no_psm.so amphora_no_psm2.so"
check "FI_PROVIDER=psm2 loads libpsm2" loads "amphora_no_psm.so libpsm2.so.2" FI_PROVIDER=psm2
check "FI_PROVIDER=^psm2 loads neither" loads "amphora_no_psm.so amphora_no_psm2.so" FI_PROVIDER=^psm2
mp_done
