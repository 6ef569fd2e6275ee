#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Signal handlers that may have come in the midst of a malloc: forks, forwarded calls and the notice of a server's death allocate nothing.
# See fwd_handler_memory.c.  Over a network the networks' own libraries allocate memory; a fork does not use them.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# without_malloc SECTION SETTING...
without_malloc() {
    mp_wanted "$*: nothing is allocated" || return 0
    section=$1
    shift
    rm -rf "$mp_dir/kept"
    mkdir "$mp_dir/kept"
    env "$@" timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death eio -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
        "$builddir/tests/files/process/fwd_handler_memory" "$section" /fwd >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$section $*: nothing is allocated" "$mp_dir/out"
}

without_malloc forks AMPHORA_SMP=1
without_malloc forks AMPHORA_SMP=0
without_malloc calls AMPHORA_SMP=1
without_malloc death AMPHORA_SMP=1
mp_done
