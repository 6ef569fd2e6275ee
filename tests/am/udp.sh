#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs over udp whose wire loses datagrams, and over libfabric's udp provider.
. "${srcdir:-.}/tests/lib/lib.sh"
export AMPHORA_UDP_LOSS=20 AMPHORA_UDP_SEED=7
mp_run tests/am/am_traffic -n 2 -c "udp udp-smp"
# A process sends 400 packets again, most of them after a time-out, which is as long as round trips vary: the job takes 1.3 s on an idle
# host (ThreadSanitizer: 2.7 s), and minutes on a busy one.
mp_run tests/gex/coll/gex_barrier -n 4 -c udp -t 300
export AMPHORA_UDP_LOSS=2
mp_run tests/gex/gex_rma -n 3 -c udp
unset AMPHORA_UDP_LOSS AMPHORA_UDP_SEED
export AMPHORA_UDP_PORT=ofi
mp_run tests/am/am_traffic -n 3 -c "udp udp-smp"
mp_run tests/gex/gex_rma -n 3 -c udp
mp_done
