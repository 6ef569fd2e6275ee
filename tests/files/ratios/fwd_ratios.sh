#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each pattern of calls of ratios_figures.sh runs to its end, directly and in the three ways below a prefix.  The comments have the times of
# a few calls each, beside whatever else runs.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

mp_timeout=300 mp_check "the patterns run to their end" sh "$srcdir/tests/files/ratios/ratios_figures.sh" -short
cp "$mp_dir/out" "$mp_dir/table"
sed 's/^/# /' "$mp_dir/table"

# A figure is a positive number in each column.
patterns=$(grep -c '^    { "' "$srcdir"/tests/files/ratios/ratios_*.c | awk -F : '{ n += $2 } END { print n }')
column=2
for way in direct near job server; do
    n=$(awk -v column=$column 'NR > 1 && $column + 0 > 0' "$mp_dir/table" | wc -l)
    [ "$n" = "$patterns" ]
    mp_report $? "$way: $n patterns of $patterns" "$mp_dir/table"
    column=$((column == 2 ? 3 : column + 2))
done
mp_done
