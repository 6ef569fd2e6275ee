#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What of a job can be reached from the network: its interface's address and no other.
. "${srcdir:-.}/tests/lib/lib.sh"
mkdir "$mp_dir/kept"
mp_run tests/am/listening -n 2 -c "tcp udp tcp-smp" -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- 127.0.0.1 2
if grep -q ' lo$' /proc/net/if_inet6 2>/dev/null; then
    AMPHORA_INTERFACE=::1
    export AMPHORA_INTERFACE
    mp_run tests/am/listening -n 2 -c "tcp udp" -- ::1
    mp_run tests/am/listening -n 2 -c "tcp udp tcp-smp" -o "-servers 1 -iofwd /fwd=$mp_dir/kept" -- ::1 2
    mp_run tests/gex/am/gex_am -n 2 -c "tcp udp"
else
    mp_skip "IPv6" "this host has no IPv6"
fi
mp_done
