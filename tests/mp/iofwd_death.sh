#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server is killed while its clients write: EIO at once, no hang, the other server's clients go on.
srcdir=${srcdir:-.}
. "$srcdir/tests/mp/lib.sh"
mkdir "$mp_dir/srv"
mp_run tests/mp/iofwd_death -n "2 3" -c "smp tcp" -t 60 -o "-servers 2 -on-server-death eio -iofwd /fwd=$mp_dir/srv"
mp_done
