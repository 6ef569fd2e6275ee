#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signal handlers that fork in the midst of calls on streams, descriptors, sets of epoll, and of changes that a process near its servers makes by
# itself (IOFWD_NEAR=1); and forks beside asynchronous I/O; see fwd_fork_handlers.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/process/fwd_fork_handlers
export fwd_time=150 # a busy host, or a sanitizer, takes long for some hundred forks

# on_this_host PROGRAM SECTION: but for what hangs in the C library
on_this_host() {
    [ "$2" = asynchronous ] || timeout -s KILL "$fwd_time" "$@" "$mp_dir/local" "$mp_dir"
}

# run NAME SECTION: every call succeeds, on this host and forwarded
run() {
    fwd_both_standing "$1" forks on_this_host "$program" "$2"
}

for near in 0 1; do
    export IOFWD_NEAR=$near
    for section in streams descriptors sets changes asynchronous; do
        run "$section, IOFWD_NEAR=$near" "$section"
    done
done
mp_done
