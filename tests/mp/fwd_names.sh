#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The ways there are to name a file: two names at two servers, other processes' descriptors, walks that change directory.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"
names=$builddir/tests/mp/fwd_names

# As in fwd_lib.sh, but at standing servers, where the processes of a program have servers of their own in turn.
fwd_servers() {
    fwd_kept=$1
    shift
    rm -f "$mp_dir/addresses"
    AMPHORA_STATS=1 "$builddir/iofwd-server" -daemon -foreground -servers 3 -iofwd "/fwd=$fwd_kept" \
        -address-file "$mp_dir/addresses" >"$mp_dir/stats" 2>&1 &
    fwd_server=$!
    timeout -k 5 110 "$builddir/iofwd-run" -servers "$mp_dir/addresses" -wait 30 sh -c 'exec "$@" 2>&1' sh "$@" </dev/null
    fwd_code=$?
    kill $fwd_server
    wait $fwd_server
    return $fwd_code
}

fwd_both "two names at two servers" "$names" pairs
mp_done
