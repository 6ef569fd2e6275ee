#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One file under random reads, writes, truncations, maps and copies, checked against a model: on one host, spread over two servers,
# gathered, and through tcp and through udp that loses datagrams.  FWD_SEED=N FWD_OPERATIONS=N; scripts/check-nightly asks for a million.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
seed=${FWD_SEED:-2}
ops=${FWD_OPERATIONS:-4000}

# fsx NAME OPERATIONS SETTING...
fsx() {
    fsx_name=$1 fsx_ops=$2
    shift 2
    mkdir -p "$mp_dir/kept"
    (
        for setting in "$@"; do
            export "${setting?}"
        done
        fwd_servers "$mp_dir/kept" "$builddir/tests/files/data/fwd_fsx" "$seed" "$fsx_ops" /fwd
    ) >"$mp_dir/out" 2>&1
    fsx_status=$?
    cat "$mp_dir/stats" >>"$mp_dir/out"
    test $fsx_status -eq 0 && { fwd_is_near || test "$(fwd_counted calls)" -ge $((fsx_ops / 2)); }
    mp_report $? "$fsx_name: $fsx_ops operations, seed $seed" "$mp_dir/out"
}

fsx "on one host" "$ops"
fsx "two servers" "$ops" IOFWD_STRIPE=2:16384
fsx "gathered" "$ops" IOFWD_CONSISTENCY=session
fsx "tcp" $((ops / 4)) AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp
fsx "udp, 5 of 100 datagrams lost" $((ops / 16)) AMPHORA_SMP=0 AMPHORA_CONDUIT=udp AMPHORA_UDP_LOSS=5 AMPHORA_UDP_SEED=7
mp_done
