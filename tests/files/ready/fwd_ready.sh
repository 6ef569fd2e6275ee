#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Waiting for FIFOs, and what does not wait: as on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
ready=$builddir/tests/files/ready/fwd_ready

fwd_both "files are always ready" "$ready" files
fwd_both "a FIFO's states" "$ready" states
fwd_both "local and forwarded ones" "$ready" mixed
AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp fwd_both "local and forwarded ones, tcp" "$ready" mixed
fwd_both "many FIFOs" "$ready" many
fwd_both "signals and cancellation" "$ready" interrupted
fwd_both "select" "$ready" sets
fwd_both "epoll" "$ready" watched
fwd_both "epoll sets with several descriptors" "$ready" copied
fwd_both "epoll sets of several processes" "$ready" shared
AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp fwd_both "epoll sets of several processes, tcp" "$ready" shared
fwd_both "waits by syscall()" "$ready" by_number
fwd_both "what waits and what does not" "$ready" blocking
fwd_both "how large FIFOs are" "$ready" pipe_sizes
mp_done
