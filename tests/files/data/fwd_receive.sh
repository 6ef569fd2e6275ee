#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Large writes whose data clients without shared memory put into receive areas of the servers: the same files, answers and
# errors as locally; see fwd_splice.c, which makes the writes.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_splice
AMPHORA_SMP=0
AMPHORA_CONDUIT=tcp
export AMPHORA_SMP AMPHORA_CONDUIT

# with NAME LEAST SECTION: compares, and looks whether receive areas have been used (LEAST bytes at least; 0: none)
with() {
    fwd_both_counted "$1" "$2" "bytes that came by receive areas" "$program" "$3"
}

with "sizes, files and processes of all kinds" 50000000 data
IOFWD_STRIPE=2:256K
export IOFWD_STRIPE
with "striped in small units" 10000000 data
unset IOFWD_STRIPE
AMPHORA_CONDUIT=udp
with "over udp" 50000000 data
AMPHORA_CONDUIT=tcp

# copies NAME LEAST: programs one after the other write 24 MiB each
copies() {
    # shellcheck disable=SC2016 # for the shell inside
    fwd_both_counted "$1" "$2" "bytes that came by receive areas" sh -c '
        dd if=/dev/urandom of="$2/data" bs=1M count=24 status=none
        for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
            dd if="$2/data" of="$1/copy" bs=1M status=none && cmp "$2/data" "$1/copy" && rm "$1/copy" || echo "not the same"
        done' sh
}

# A server with little memory makes no receive areas.
IOFWD_SERVER_MEMORY=1M
export IOFWD_SERVER_MEMORY
fwd_nservers=1
copies "a server with little memory" 0

# Memory for two receive areas at a time: those of clients that have ended are given back, if late on a busy machine.
IOFWD_SERVER_MEMORY=5M
copies "clients one after the other" $((8 * 20 << 20))
unset IOFWD_SERVER_MEMORY

# A client is killed in the midst of its writes, again and again; others write at the same server.
# shellcheck disable=SC2016 # for the shell inside
fwd_both "clients that are killed" sh -c '
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        : >"$2/out.$i"
        "$0" forever "$1" "$2" >"$2/out.$i" &
        until grep -q begun "$2/out.$i"; do sleep 0.01; done
        sleep "0.0$i"
        kill -9 $!
        wait $! 2>/dev/null
        tr -d "\001-\377" <"$1/forever" | wc -c | grep -qx 0 || echo "a hole"
        rm "$1/forever" "$2/out.$i"
    done
    exec "$0" data "$1" "$2"' "$program"

# A server is killed while its client writes; the other one takes over, and every byte is written.
mkdir "$mp_dir/kept" "$mp_dir/scratch" "$mp_dir/local"
"$program" failover "$mp_dir/local" "$mp_dir/scratch" >/dev/null
rm "$mp_dir/scratch/half"
# shellcheck disable=SC2016 # for the shells inside
printf '#!/bin/sh\necho $$ >>"%s/servers"\nexec "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
# shellcheck disable=SC2016 # for the shell inside
timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -on-server-death failover \
    -iofwd "/fwd=$mp_dir/kept" -timeout 50 sh -c '
    "$1" failover /fwd "$2" &
    until [ -e "$2/half" ]; do sleep 0.01; done
    while read -r server; do
        ! find "/proc/$server/fd" -lname "*/kept/failover" | grep -q . || kill -9 "$server"
    done <"$3"
    wait $!' sh "$program" "$mp_dir/scratch" "$mp_dir/servers" >"$mp_dir/out" 2>&1
code=$?
[ $code -eq 0 ] && grep -qx written "$mp_dir/out" && grep -q "the next one takes over" "$mp_dir/out" &&
    cmp "$mp_dir/kept/failover" "$mp_dir/local/failover" >>"$mp_dir/out" 2>&1
mp_report $? "a server that is killed" "$mp_dir/out"
mp_done
