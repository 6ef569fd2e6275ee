#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# -on-server-death eio: the server dies in the middle of large, gathered, announced, spread and non-blocking calls; see fwd_death.c.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"

# death WHAT SETTING...
death() {
    death_what=$1
    shift
    mkdir "$mp_dir/kept"
    env "$@" timeout -k 5 40 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death eio -iofwd "/fwd=$mp_dir/kept" -timeout 30 \
        "$builddir/tests/mp/fwd_death" "$death_what" /fwd "$mp_dir/kept" >"$mp_dir/out" 2>&1 </dev/null
    death_code=$?
    test $death_code -eq 0 && grep -q '^as it should be' "$mp_dir/out" && test "$(grep -c 'calls on its files give EIO' "$mp_dir/out")" = 1
    mp_report $? "$death_what ($*)" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

for net in AMPHORA_SMP=1 AMPHORA_SMP=0; do
    for what in large running announced announced-read nonblocking; do
        death $what $net
    done
    death gathered $net IOFWD_CONSISTENCY=session
    death ahead $net IOFWD_CONSISTENCY=session
    death spread $net IOFWD_STRIPE=2
    death spread $net IOFWD_STRIPE=2:256K
done
death running AMPHORA_SMP=0 AMPHORA_CONDUIT=udp
mp_done
