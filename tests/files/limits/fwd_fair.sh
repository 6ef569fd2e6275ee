#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One client's large writes do not starve another's small calls; see fwd_fair.c.
. "${srcdir:-.}/tests/lib/lib.sh"
# in /dev/shm if there is one: the test measures how the server takes turns, not the disk
kept=$(mktemp -d -p /dev/shm amphora-fair.XXXXXX 2>/dev/null) || { kept=$mp_dir/kept && mkdir "$kept"; }
trap 'rm -rf "$mp_dir" "$kept"' EXIT
mp_run tests/files/limits/fwd_fair -n 2 -c "smp tcp" -t 40 -o "-servers 1 -iofwd /fwd=$kept"
mp_done
