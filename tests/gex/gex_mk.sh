#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
mp_run tests/gex/gex_mk -n "1 3" -c "smp tcp"
timeout 60 "$AMPHORA_RUN" -n 2 -conduit smp -timeout 30 "$builddir/tests/gex/gex_mk" >"$mp_dir/said" 2>&1
for class in CUDA_UVA HIP ZE; do
    mp_check "the reason why $class is not there" grep "GEX_MK_CLASS_$class is for device memory, for which this library was not built" \
        "$mp_dir/said"
done
mp_done
