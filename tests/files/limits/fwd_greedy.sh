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
GASNET_MAX_SEGSIZE=192M/P IOFWD_PASSTHROUGH=0
export GASNET_MAX_SEGSIZE IOFWD_PASSTHROUGH
if mp_sanitized asan tsan; then
    mp_skip "a segment that the server maps" "the sanitizer itself takes more addresses"
    mp_skip "a segment for which the server has too few addresses" "the sanitizer itself takes more addresses"
    mp_skip "a transfer area for which the server has too few addresses" "the sanitizer itself takes more addresses"
    mp_skip "a smaller transfer area" "the sanitizer itself takes more addresses"
else
    mp_run tests/files/limits/fwd_greedy -n 1 -c smp -t 40 -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- segment "$mp_dir/kept" 1
    printf '#!/bin/sh\nulimit -v 1700000\nexec "%s/.libs/iofwd-server" "$@"\n' "$builddir" >"$mp_dir/server"
    chmod +x "$mp_dir/server"
    LD_LIBRARY_PATH=$(cd "$builddir" && pwd)/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    mp_run tests/files/limits/fwd_greedy -n 1 -c smp -t 40 \
        -o "-servers 1 -server-program $mp_dir/server -iofwd /fwd=$mp_dir/kept" -- segment "$mp_dir/kept" 0

    # area PIECE: a forwarded program whose transfer area has four slots of this size, at the same server
    ${CC:-gcc} -std=gnu11 -O1 -o "$mp_dir/client" "$srcdir/tests/files/failover/fault_client.c" || exit 1
    area() {
        IOFWD_PIECE=$1 IOFWD_SLOTS=4 timeout -k 5 50 "$AMPHORA_RUN" -n 1 -servers 1 -conduit smp -server-program "$mp_dir/server" \
            -iofwd "/fwd=$mp_dir/kept" -timeout 40 "$mp_dir/client" /fwd/x >"$mp_dir/out" 2>&1 </dev/null
        code=$?
        echo "exit code $code" >>"$mp_dir/out"
    }
    area 64M
    [ $code = 1 ] && grep -qx 'open: ENOMEM' "$mp_dir/out" &&
        grep -q '^amphora: server 0 .*offers [0-9]* bytes of memory, which are not mapped.*(ulimit -v)' "$mp_dir/out" &&
        grep -q '^amphora: compute .*refuses this client: .*(ulimit -v)' "$mp_dir/out"
    mp_report $? "a transfer area for which the server has too few addresses" "$mp_dir/out"
    area 1M
    [ $code = 0 ] && grep -qx through "$mp_dir/out"
    mp_report $? "a smaller transfer area" "$mp_dir/out"
fi
mp_done
