#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Vector, indexed and strided transfers; see gex_vis.c.  The seed is in the name of each test.
. "${srcdir:-.}/tests/lib/lib.sh"
seed=$mp_seed
mp_run tests/gex/gex_vis -- $seed
mp_run tests/gex/gex_vis -n "2 3" -c "udp udp-smp" -- $seed
GASNET_VIS_AMPIPE=0 mp_run tests/gex/gex_vis -n "2" -c tcp -- no-packing $seed
GASNET_VIS_MAXCHUNK=100000 mp_run tests/gex/gex_vis -n "3" -c tcp -- all-packed $seed
mp_done
