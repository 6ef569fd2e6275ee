#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads use files while others fork, start programs, take signals, are cancelled and end; see fwd_forks.c.  The servers are
# standing ones: near them (IOFWD_NEAR=1) the program reads files by itself.  FORKS_SECONDS: how long a forwarded case takes (0.5); the
# local run, which shows that the program itself is right, takes a fifth of a second.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/process/fwd_forks
export FORKS_SECONDS="${FORKS_SECONDS:-0.5}"
export fwd_time=$((${FORKS_SECONDS%.*} + 100))

# run NAME SECTION [SETTING...]: all calls of the section succeed, on this host and forwarded
run() {
    run_name=$1 run_section=$2
    shift 2
    mp_wanted "$run_name" || return 0
    mp_remove "$mp_dir/local" "$mp_dir/kept"
    mkdir "$mp_dir/local" "$mp_dir/kept"
    env "$@" FORKS_SECONDS=0.2 timeout -k 5 "$fwd_time" "$program" "$run_section" "$mp_dir/local" "$mp_dir" >"$mp_dir/out" 2>&1 &&
        FWD_STANDING=1 && fwd_servers "$mp_dir/kept" env "$@" "$program" "$run_section" /fwd "$mp_dir" >"$mp_dir/out"
    run_code=$?
    cat "$mp_dir/stats" >>"$mp_dir/out"
    [ $run_code = 0 ] && grep -q ' rounds$' "$mp_dir/out"
    mp_report $? "$run_name ($(sed -n 's/ rounds$//p' "$mp_dir/out") rounds)" "$mp_dir/out"
}

for near in 0 1; do
    export IOFWD_NEAR=$near
    for section in all forks execs spawns shells handlers forking-handlers lock-waits cancels ends jumps; do
        run "$section, IOFWD_NEAR=$near" "$section"
    done
done
export AMPHORA_SMP=0
run "all, over a network" all
run "forks, over a network" forks
mp_done
