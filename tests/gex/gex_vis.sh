#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Vector, indexed and strided transfers; see gex_vis.c.  The seed is in the name of each test.  GEX_ROUNDS: how many (scripts/check-nightly
# has more); a round of seven processes takes a third of a second on two busy cores.
. "${srcdir:-.}/tests/lib/lib.sh"
seed=$mp_seed
limit=$((60 + ${GEX_ROUNDS:-0}))
mp_run tests/gex/gex_vis -t $limit -- $seed
mp_run tests/gex/gex_vis -t $limit -n "2 3" -c "udp udp-smp" -- $seed
GASNET_VIS_AMPIPE=0 mp_run tests/gex/gex_vis -t $limit -n "2" -c tcp -- no-packing $seed
GASNET_VIS_MAXCHUNK=100000 mp_run tests/gex/gex_vis -t $limit -n "3" -c tcp -- all-packed $seed
mp_done
