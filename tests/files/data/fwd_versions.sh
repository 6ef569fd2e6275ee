#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a process holds of a file (data read ahead, attributes) shows each change as soon as another process has made it; see
# fwd_versions.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/data/fwd_versions

# expect SERVERS NAME PART [OPTION...]: both processes say "done"
expect() {
    expect_servers=$1
    expect_name=$2
    expect_part=$3
    shift 3
    mp_wanted "$expect_name" || return 0
    mkdir "$mp_dir/kept" "$mp_dir/fifos"
    mkfifo "$mp_dir/fifos/0" "$mp_dir/fifos/1"
    timeout -k 5 100 "$AMPHORA_RUN" -n 2 -servers "$expect_servers" -iofwd "/fwd=$mp_dir/kept" -timeout 90 "$@" \
        "$program" "$expect_part" /fwd "$mp_dir/fifos" >"$mp_dir/out" 2>&1 </dev/null
    test $? -eq 0 && test "$(grep -cx "done" "$mp_dir/out")" -eq 2
    mp_report $? "$expect_name" "$mp_dir/out"
    rm -rf "$mp_dir/kept" "$mp_dir/fifos"
}

# no copy becomes so old that it is fetched again because of its age
export IOFWD_CACHE_AGE=20000
for part in data attributes offset; do
    TEST_ROUNDS=2000 expect 1 "$part, one server" "$part"
    TEST_ROUNDS=2000 expect 2 "$part, each process with a server of its own" "$part"
    AMPHORA_SMP=0 TEST_ROUNDS=100 expect 2 "$part, over tcp" "$part" -conduit tcp
    IOFWD_STRIPE=2 TEST_ROUNDS=300 expect 2 "$part, striped" "$part"
done

AMPHORA_ON_SERVER_DEATH=failover TEST_ROUNDS=600 expect 3 "data, while servers die" death

# calls_of PART BYTES: how many calls the servers execute for a process that reads BYTES, after it has written them, by KiB
calls_of() {
    mkdir "$mp_dir/kept"
    AMPHORA_STATS=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$program" many /fwd "$1" 2>"$mp_dir/stats" >"$mp_dir/out" </dev/null
    calls_status=$?
    cat "$mp_dir/stats" >>"$mp_dir/out"
    rm -rf "$mp_dir/kept"
    test $calls_status -eq 0 && calls=$(fwd_counted calls)
}

unset IOFWD_CACHE_AGE
# 8,192 writes, 2,000 records written and read by threads, and the reads
calls_of 8388608 && test "$calls" -lt 14000
mp_report $? "small reads are answered from what was read ahead ($calls calls)" "$mp_dir/out"
IOFWD_CACHE_AGE=0 calls_of 8388608 && test "$calls" -gt 18000
mp_report $? "without holding anything, each read asks ($calls calls)" "$mp_dir/out"

# If /dev/shm is full there are no versions, and the servers work without them.
if unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then
    mkdir "$mp_dir/kept"
    mp_check "a full /dev/shm" unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && run=$1 kept=$2 &&
        text=$("$run" -n 1 -servers 1 -iofwd "/fwd=$kept" -timeout 50 sh -c "echo written >/fwd/f && cat /fwd/f") && test "$text" = written' \
        sh "$AMPHORA_RUN" "$mp_dir/kept"
else
    mp_skip "a full /dev/shm" "this test may not mount"
fi

mp_done
