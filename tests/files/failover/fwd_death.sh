#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The server dies in the middle of large, gathered, announced, spread and non-blocking calls (-on-server-death eio), or while somebody waits
# (failover, too: what was in a FIFO is lost with its server); see fwd_death.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# death WHAT SETTING...
death() {
    death_what=$1
    shift
    mkdir "$mp_dir/kept"
    env "$@" timeout -k 5 40 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death "$death_how" -iofwd "/fwd=$mp_dir/kept" -timeout 30 \
        "$builddir/tests/files/failover/fwd_death" "$death_what" /fwd "$mp_dir/kept" >"$mp_dir/out" 2>&1 </dev/null
    death_code=$?
    test $death_code -eq 0 && grep -q '^as it should be' "$mp_dir/out" && test "$(grep -c "$death_told" "$mp_dir/out")" = 1
    mp_report $? "$death_what ($death_how $*)" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

death_how=eio
death_told='calls on its files give EIO'
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
for what in polled polled-long selected watched reads opens collective; do
    death $what AMPHORA_SMP=1
done
death polled AMPHORA_SMP=0
death reads AMPHORA_SMP=0 AMPHORA_CONDUIT=udp
death_how=failover
death_told='the next one takes over'
for what in polled polled-long selected watched reads collective; do
    death $what AMPHORA_SMP=1
done
death polled AMPHORA_SMP=0
mp_done
