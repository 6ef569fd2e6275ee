#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every header, installed and internal, compiles alone: it includes what it uses, so that the order of includes does not matter.
# tests/gex/api/gex_headers.sh compiles the public ones with all warnings in all thread modes.
# A part of scripts/check-nightly.
. "${srcdir:-.}/tests/lib/lib.sh"
CC=${CC:-cc}
dir=$mp_dir

# The mount's headers need libfuse3's, where these are.
if fuse=$(pkg-config --cflags fuse3 2>/dev/null); then
    without=/none
else
    fuse="" without='iofwd/mount/*'
fi

# One test each: a folder and the options that its headers need.  upc-bridge/include is left out: it is in the language UPC.
folders="base
boot
conduits
am
extended -DGASNET_PAR
iofwd -DGASNET_PAR $fuse
upc-bridge -DGASNET_SEQ
launcher
tools -DGASNET_SEQ
include -DGASNET_SEQ
tests/am
tests/gex -DGASNET_SEQ"

# complaints FOLDER OPTION...: what the compiler says about each header of the folder by itself.
complaints() {
    folder=$1
    shift

    (cd "$srcdir" && find "$folder" -name '*.h' ! -path 'upc-bridge/include/*' ! -path "$without" | sort) | while IFS= read -r header; do
        printf '#include "%s"\n' "$header" >"$dir/alone.c"
        $CC -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -include config.h -I"$builddir" -I"$srcdir" -I"$srcdir/include" "$@" \
            "$dir/alone.c" >"$dir/out" 2>&1 || { echo "$header"; head -5 "$dir/out"; }
    done
}

while read -r folder options; do
    # shellcheck disable=SC2086 # options are words
    complaints "$folder" $options >"$mp_dir/complaints"
    [ ! -s "$mp_dir/complaints" ]
    mp_report $? "each header of $folder compiles alone" "$mp_dir/complaints"
done <<EOF
$folders
EOF
mp_done
