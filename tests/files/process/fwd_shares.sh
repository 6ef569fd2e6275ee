#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that share an open file share its offset, also where small calls are gathered; see fwd_shares.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
for conduit in smp tcp; do
    for setting in "posix 1" "session 1" "session 2:64K"; do
        set -- $setting
        mkdir "$mp_dir/kept.$conduit.$1.${2%:*}"
        IOFWD_CONSISTENCY=$1 IOFWD_STRIPE=$2
        export IOFWD_CONSISTENCY IOFWD_STRIPE
        mp_run tests/files/process/fwd_shares -n 1 -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept.$conduit.$1.${2%:*}" -t 60 -- "$setting"
    done
done
unset IOFWD_STRIPE

# A file that a process has opened and no other has come to stays its own over exec: small calls of the new image are gathered.
# carried NAME MAX WANTED COMMAND: COMMAND gives WANTED in at most MAX calls at the servers
IOFWD_CONSISTENCY=session
export mp_dir
mkdir "$mp_dir/kept"
mkfifo "$mp_dir/other"
carried() {
    carried_name=$1 carried_most=$2 carried_want=$3
    fwd_servers "$mp_dir/kept" bash -c "$4" >"$mp_dir/said"
    carried_as=$?
    cat "$mp_dir/stats" >>"$mp_dir/said"
    test $carried_as -eq 0 && test "$(head -n 1 "$mp_dir/said")" = "$carried_want" && test "$(fwd_counted calls)" -gt 0 &&
        test "$(fwd_counted calls)" -le "$carried_most"
    mp_report $? "$carried_name ($(fwd_counted calls) calls)" "$mp_dir/said"
}
dd='dd bs=16 count=2000 status=none'
carried "a shell's redirection of output" 100 32000 "$dd </dev/zero >/fwd/one; stat -c %s /fwd/one"
carried "a shell's redirection of input" 100 "$(head -c 32000 /dev/zero | cksum)" "$dd </fwd/one | cksum"
carried "through two programs" 100 32000 "nice env $dd </dev/zero >/fwd/two; stat -c %s /fwd/two"
carried "two programs at one redirection" 5000 64000 "{ $dd </dev/zero & $dd </dev/zero; wait; } >/fwd/both; stat -c %s /fwd/both"
carried "a program beside what was forked before it" 5000 64000 "(exec >/fwd/beside; { $dd </dev/zero; echo done >\$mp_dir/other; } & exec $dd </dev/zero)
    read word <\$mp_dir/other; stat -c %s /fwd/beside"
mp_done
