#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How servers with few descriptors divide them among their clients.  See fwd_budget.c.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"
program=$builddir/tests/mp/fwd_budget

# expect DESCRIPTORS NAME ARGUMENTS...: with servers that may have so many each; the programs may have more
expect() {
    printf '#!/bin/sh\nulimit -n %d\nexec "%s/iofwd-server" "$@"\n' "$1" "$builddir" >"$mp_dir/server"
    chmod +x "$mp_dir/server"
    expect_name=$2
    shift 2
    mkdir "$mp_dir/kept"
    AMPHORA_STATS=1 timeout -k 5 90 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" \
        -timeout 80 "$program" "$@" /fwd >"$mp_dir/out" 2>&1 </dev/null
    expect_status=$?
    test $expect_status -eq 0 && grep -qx "done" "$mp_dir/out"
    mp_report $? "$expect_name" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

# 64 of 512 are the reserve, 32 those of the server itself at most.
expect 512 "a lone client gets seven eighths" lone 416
expect 512 "busy clients share them" busy 416
expect 200 "a child of a client that has all it may" inherited
expect 200 "the last descriptors are the server's own" many
mp_done
