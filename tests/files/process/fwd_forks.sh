#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Threads use files while others fork, start programs, take signals, are cancelled and end; see fwd_forks.c.  The servers are
# standing ones: near them (IOFWD_NEAR=1) the program reads files by itself.  FORKS_SECONDS: how long a forwarded case takes (0.5); the
# local run, which shows that the program itself is right, takes a fifth of a second.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/process/fwd_forks
export FORKS_SECONDS="${FORKS_SECONDS:-0.5}"
export fwd_time=$((${FORKS_SECONDS%.*} + 100))

on_this_host() {
    env FORKS_SECONDS=0.2 timeout -k 5 "$fwd_time" "$@" "$mp_dir/local" "$mp_dir"
}

# The allocator of GCC 12's ASan, other than the C library's, does not take its locks for a fork: what another thread holds stays locked in
# the child, whose next allocation hangs, on this host as well.  In these sections children allocate (opendir) while threads do.
hung_by_asan=''
if mp_sanitized asan; then
    hung_by_asan=' all forks cancels ends '
fi

# run NAME SECTION: all calls of the section succeed, on this host and forwarded
run() {
    case $hung_by_asan in
    *" $2 "*)
        mp_skip "$1" "ASan's allocator keeps the locks of other threads in forked children"
        return
        ;;
    esac
    fwd_both_standing "$1" rounds on_this_host "$program" "$2"
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
