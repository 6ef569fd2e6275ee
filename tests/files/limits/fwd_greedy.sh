#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Clients that take all workers, memory and collective buffers that a server lets them take do not stop another client's calls.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"

# greedy PROCESSES CONDUITS WHAT
greedy() {
    mp_run tests/files/limits/fwd_greedy -n "$1" -c "$2" -t 40 -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- "$3" "$mp_dir/kept"
}

greedy 6 "smp tcp" threads
IOFWD_CLIENT_MEMORY=1M IOFWD_PIECE=1M
export IOFWD_CLIENT_MEMORY IOFWD_PIECE
greedy 2 tcp memory
greedy 2 "smp tcp" collective

# A server gives a client's segment no more than a quarter of the addresses that it may have besides its own 1.1 GB.
unset IOFWD_CLIENT_MEMORY IOFWD_PIECE
GASNET_MAX_SEGSIZE=192M/P
export GASNET_MAX_SEGSIZE
if nm "$builddir/.libs/libamphora.a" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    mp_skip "a segment that the server maps" "the sanitizer itself takes more addresses"
    mp_skip "a segment for which the server has too few addresses" "the sanitizer itself takes more addresses"
else
    mp_run tests/files/limits/fwd_greedy -n 1 -c smp -t 40 -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- segment "$mp_dir/kept" 1
    printf '#!/bin/sh\nulimit -v 1700000\nexec "%s/.libs/iofwd-server" "$@"\n' "$builddir" >"$mp_dir/server"
    chmod +x "$mp_dir/server"
    LD_LIBRARY_PATH=$(cd "$builddir" && pwd)/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    mp_run tests/files/limits/fwd_greedy -n 1 -c smp -t 40 \
        -o "-servers 1 -server-program $mp_dir/server -iofwd /fwd=$mp_dir/kept" -- segment "$mp_dir/kept" 0
fi
mp_done
