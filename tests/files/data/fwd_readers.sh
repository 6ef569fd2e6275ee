#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Several threads of a server read one call's data (IOFWD_READERS), and what they read is right; see fwd_readers.c.
. "${srcdir:-.}/tests/lib/lib.sh"
slices() {
    sed -n 's/.* \([0-9]*\) slices of large reads by further threads.*/\1/p' "$mp_dir/out"
}
AMPHORA_STATS=1 IOFWD_PASSTHROUGH=0
export AMPHORA_STATS IOFWD_PASSTHROUGH
for readers in 1 2 4; do
    IOFWD_READERS=$readers timeout -k 5 110 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir" -timeout 100 \
        tests/files/data/fwd_readers /fwd/data "$mp_dir/data" >"$mp_dir/out" 2>&1
    mp_report $? "with $readers, whatever is read is what the file has" "$mp_dir/out"
    if [ "$readers" = 1 ]; then
        [ "$(slices)" = 0 ]
    elif [ "$(nproc)" -lt 2 ]; then
        echo "one core only" >>"$mp_dir/out"
        (exit 77)
    else
        [ "$(slices)" -gt 0 ]
    fi
    mp_report $? "with $readers, slices that others than the progress thread have read: $(slices)" "$mp_dir/out"
done
mp_done
