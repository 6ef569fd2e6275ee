#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Quota, EIO, a full device and interruptions of the servers' file system reach the caller as they are: a program whose own file system has
# faults (fault_fs.c, preloaded) beside one whose servers' has them.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/failover/fwd_faults
shim=$mp_dir/fault_fs.so
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
IOFWD_PASSTHROUGH=0 # the faults are the server's, so its calls must be
export IOFWD_PASSTHROUGH
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
${CC:-gcc} -std=gnu11 -shared -fPIC -O1 -o "$shim" "$srcdir/tests/files/failover/fault_fs.c" -ldl || exit 1

# up SETTING=VALUE...: servers with faults; down: their end
up() {
    rm -rf "$mp_dir/f"
    mkdir "$mp_dir/f"
    env "$@" LD_PRELOAD="$shim" timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/f" \
        -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >"$mp_dir/log" 2>&1
}
down() {
    kill "$(cat "$mp_dir/pid")"
    timeout 20 sh -c 'while test -e "$1"; do sleep 0.02; done' sh "$mp_dir/pid" # it takes its files along
}

# compare NAME PART [SETTING=VALUE...]
compare() {
    compare_name=$1 compare_part=$2
    shift 2
    rm -rf "$mp_dir/l"
    mkdir "$mp_dir/l"
    env "$@" LD_PRELOAD="$shim" "$program" "$compare_part" "$mp_dir/l" >"$mp_dir/local"
    up "$@"
    env "$@" timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" "$program" "$compare_part" /fwd >"$mp_dir/forwarded" 2>&1
    down
    { diff "$mp_dir/local" "$mp_dir/forwarded" && diff -r "$mp_dir/l" "$mp_dir/f"; } >"$mp_dir/out" 2>&1 &&
        grep -q EDQUOT "$mp_dir/local" && test -s "$mp_dir/f/EINTR"
    mp_report $? "$compare_name ($(grep -c . "$mp_dir/local") answers)" "$mp_dir/out"
}

# A small call that took long sends no large ones of its file to workers, which each costs a wake-up.
slow_once() {
    rm -f "$mp_dir/addresses.log"
    up AMPHORA_STATS=1
    timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" "$program" slow /fwd
    code=$?
    down
    timeout 20 sh -c 'until grep -q "ended$" "$1"; do sleep 0.02; done' sh "$mp_dir/addresses.log"
    cat "$mp_dir/addresses.log"
    [ $code = 0 ] && awk '/handed to workers/ { for (i = 4; i <= NF; i++) if ($i == "handed") { n += $(i - 2); seen = 1 } }
        END { exit !(seen && n < 200) }' "$mp_dir/addresses.log"
}

compare "each call" each
compare "each call, over a network" each AMPHORA_SMP=0
compare "each call, spread" each IOFWD_STRIPE=2:64K
compare "many small writes" late
compare "many small writes, gathered" late IOFWD_CONSISTENCY=session
compare "many small writes, gathered, over a network" late IOFWD_CONSISTENCY=session AMPHORA_SMP=0
slow_once >"$mp_dir/out" 2>&1
mp_report $? "a call that was slow once" "$mp_dir/out"
mp_done
