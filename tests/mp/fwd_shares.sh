#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Processes that share an open file share its offset, also where small calls are gathered; see fwd_shares.c.
. "${srcdir:-.}/tests/mp/lib.sh"
for conduit in smp tcp; do
    for setting in "posix 1" "session 1" "session 2:64K"; do
        set -- $setting
        mkdir "$mp_dir/kept.$conduit.$1.${2%:*}"
        IOFWD_CONSISTENCY=$1 IOFWD_STRIPE=$2
        export IOFWD_CONSISTENCY IOFWD_STRIPE
        mp_run tests/mp/fwd_shares -n 1 -c $conduit -o "-servers 2 -iofwd /fwd=$mp_dir/kept.$conduit.$1.${2%:*}" -t 60 -- "$setting"
    done
done
mp_done
