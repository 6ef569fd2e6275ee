#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How servers with few descriptors divide them among their clients.  See fwd_budget.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/limits/fwd_budget

# expect DESCRIPTORS NAME ARGUMENTS...: with servers that may have DESCRIPTORS each; the programs may have more
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
expect 100 "as many processes as there are descriptors for, then ENFILE" clients
grep -q "the I/O server refuses this client: it is out of descriptors; raise its hard limit" "$mp_dir/out" &&
    awk '/^iofwd server/ { for (i = 1; i < NF; i++) if ($(i + 1) == "refusals") sum += $i } END { exit !(sum > 0) }' "$mp_dir/out"
mp_report $? "a process that is refused says why, and the server counts it" "$mp_dir/out"

# A server without any descriptor leaves connections waiting, does not spin meanwhile, and takes them when it has one again.
mkdir "$mp_dir/kept"
printf '#!/bin/sh\necho $$ >"%s/pid"\nexec "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
# shellcheck disable=SC2016 # for the shell inside
timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" -timeout 50 sh -c '
    pid=$(cat "$1/pid")
    ticks() { awk "{ print \$14 + \$15 }" "/proc/$pid/stat"; }
    sh -c "echo x >/fwd/first"
    prlimit --pid "$pid" --nofile=5: || exit 77
    before=$(ticks)
    sh -c "echo x >/fwd/file" &
    client=$!
    sleep 0.5
    test $(($(ticks) - before)) -lt 15 || echo "the server spins"
    kill -0 $client && ! test -e "$1/kept/file" && prlimit --pid "$pid" --nofile=200: && wait $client &&
        test -s "$1/kept/file" && echo served' sh "$mp_dir" >"$mp_dir/out" 2>&1 </dev/null
mp_status=$?
test $mp_status -ne 0 || { grep -qx served "$mp_dir/out" && ! grep -q spins "$mp_dir/out"; } || mp_status=1
mp_report $mp_status "a server without descriptors does not spin" "$mp_dir/out"
mp_done
