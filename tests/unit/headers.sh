#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every header, installed and internal, compiles alone: it includes what it uses, so that the order of includes does not matter.
# tests/gex/api/gex_headers.sh compiles the public ones with all warnings in all thread modes.
set -u
builddir=${builddir:-.}
srcdir=${srcdir:-.}
CC=${CC:-cc}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-headers.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
trap 'exit 99' HUP INT TERM
count=0

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
iofwd $fuse
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
    count=$((count + 1))
    # shellcheck disable=SC2086 # options are words
    found=$(complaints "$folder" $options)
    if [ -z "$found" ]; then
        echo "ok $count - each header of $folder compiles alone"
    else
        echo "not ok $count - each header of $folder compiles alone"
        echo "$found" | sed 's/^/# /'
    fi
done <<EOF
$folders
EOF
echo "1..$count"
