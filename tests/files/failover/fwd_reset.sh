#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The connections of a forwarding program to its servers are reset by the network, while both sides live.  Under each policy its calls end:
# with EIO and one sentence that has the cause and a remedy, or at the next server.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
mkdir "$mp_dir/kept"
${CC:-gcc} -std=gnu11 -O1 -o "$mp_dir/reset" "$srcdir/tests/files/failover/fwd_reset.c" -ldl -lpthread || exit 1

# job POLICY data|control TIMES BYTES
job() {
    AMPHORA_SMP=0 timeout -k 5 70 "$AMPHORA_RUN" -n 1 -servers 2 -conduit tcp -on-server-death "$1" -iofwd "/fwd=$mp_dir/kept" -timeout 60 \
        "$mp_dir/reset" "$2" "$3" /fwd/x "$4" >"$mp_dir/out" 2>&1 </dev/null
}

for policy in end eio; do
    for what in data control; do
        mp_wanted "$policy: lost $what connection" || continue
        ok=1
        job $policy $what 0 1000000000000
        [ $? = 1 ] && grep -qx 'write: EIO' "$mp_dir/out" && [ "$(grep -c 'cannot be reached (.*): .*EIO; start .* again' "$mp_dir/out")" = 1 ] && ok=0
        mp_report $ok "$policy: lost $what connection" "$mp_dir/out"
    done
done

for what in data control; do
    mp_wanted "failover: lost $what connection" || continue
    ok=1
    job failover $what 1 5000192
    [ $? = 0 ] && grep -qx 'wrote 5000192' "$mp_dir/out" && [ "$(stat -c %s "$mp_dir/kept/x")" = 5000192 ] && ok=0
    mp_report $ok "failover: lost $what connection" "$mp_dir/out"
done

# A reply that confirms data which was lost with the connection before would make a read return old bytes.
${CC:-gcc} -std=gnu11 -O1 -DPROGRAM -o "$mp_dir/reset_read" "$srcdir/tests/files/failover/fwd_reset_read.c" &&
    ${CC:-gcc} -std=gnu11 -O1 -fPIC -shared -o "$mp_dir/reset_read.so" "$srcdir/tests/files/failover/fwd_reset_read.c" || exit 1

reads() {
    for at in 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        AMPHORA_SMP=0 LD_PRELOAD="$mp_dir/reset_read.so" RESET_AT=$at timeout -k 5 70 "$AMPHORA_RUN" -n 1 -servers 2 -conduit tcp \
            -on-server-death failover -iofwd "/fwd=$mp_dir/kept" -timeout 60 "$mp_dir/reset_read" /fwd/r >"$mp_dir/out" 2>&1 </dev/null
        [ $? = 0 ] && grep -qx 'all right' "$mp_dir/out" && grep -q 'the next one takes over' "$mp_dir/out" || return 1
    done
}

if mp_wanted "failover: connections lost while a read's data arrive"; then
    reads
    mp_report $? "failover: connections lost while a read's data arrive" "$mp_dir/out"
fi
mp_done
