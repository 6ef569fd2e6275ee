#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the libraries export: the shared ones the documented names and what a .map file lists for the package's own parts, the archives
# only names with a registered prefix (tests/lib/prefixes.txt).
set -u
builddir=${builddir:-.}
srcdir=${srcdir:-.}
CC=${CC:-cc}
libs=$builddir/.libs
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-symbols.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
count=0

# report NAME FILE: fails if the file is not empty, and shows it
report() {
    count=$((count + 1))
    if [ ! -s "$2" ]; then
        echo "ok $count - $1"
    else
        echo "not ok $count - $1"
        sed 's/^/# /' "$2"
    fi
}

# skip NAME REASON
skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

# exported LIBRARY: the names that it defines for others, without version nodes and versions
exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $NF); print $NF }' | sort -u
}

# wanted FILE...: the names that these import
wanted() {
    for file in "$@"; do
        nm -D "$file" 2>/dev/null
    done | awk '$1 == "U" || $2 ~ /^[BDRV]$/ { sub(/@.*/, "", $NF); print $NF }' | sort -u
}

# node MAP NODE: the names that a version node of a .map file exports
node() {
    awk -v node="$2" '
        $1 == node { inside = 1 }
        inside && /^}/ { inside = 0 }
        inside && /;$/ && $1 != "*;" { sub(/;$/, "", $1); print $1 }' "$1" | sort -u
}

# The words of all public headers, with macros expanded and not: a documented name is one of them.
cd "$srcdir/include" && include=$(pwd) && cd "$OLDPWD" || exit 99
for header in "$include"/*.h "$include"/../upc-bridge/include/*.h; do
    printf '#include "%s"\n' "$header" >"$dir/header.c"
    ${CC} -E -P "-I$include" "-I$include/../upc-bridge/include" -DGASNET_SEQ "$dir/header.c" 2>/dev/null
    cat "$header"
done | grep -oE '[A-Za-z_][A-Za-z0-9_]*' >"$dir/words"
sort -u "$dir/words" -o "$dir/words"

# shared LIBRARY MAP PRIVATE-NODE PUBLIC-PREFIX...: checks one shared library
shared() {
    library=$1 map=$2 private=$3
    shift 3
    pattern="^($(echo "$*" | tr ' ' '|'))"
    if [ ! -e "$libs/$library" ]; then
        skip "$library exports documented names" "built without shared libraries"
        skip "$library's private names are listed" "built without shared libraries"
        return
    fi

    exported "$libs/$library" >"$dir/exported"
    grep -E "$pattern" "$dir/exported" | grep -v '^upcx_' | comm -23 - "$dir/words" >"$dir/bad"
    report "$library exports documented names" "$dir/bad"

    node "$srcdir/$map" "$private" | sed -e 's/\*/.*/' -e 's/.*/^&$/' >"$dir/listed"
    grep -vE "$pattern" "$dir/exported" | grep -vEf "$dir/listed" >"$dir/bad"
    report "$library's private names are listed in $map" "$dir/bad"
}

shared libamphora.so base/libamphora.map AMPHORA_PRIVATE gex_ gasnet_ gasnett_ gasneti_ amphora_
shared libiofwd.so iofwd/libiofwd.map IOFWD_PRIVATE iofwd_
shared amphora_ofi.so conduits/ofi/amphora_ofi.map AMPHORA_OFI_PRIVATE no_public_name
shared libamphora-upc.so upc-bridge/libamphora-upc.map NO_PRIVATE_NODE upc_ upcx_ amphora_upc_

# Former names of public functions, kept for one release: each "#define OLD NEW" of iofwd.h whose NEW is exported.
if [ -e "$libs/libiofwd.so" ]; then
    exported "$libs/libiofwd.so" >"$dir/exported"
    awk '$1 == "#define" && NF == 3 && $2 ~ /^iofwd_/ { print $3, $2 }' "$include/iofwd.h" | sort |
        join - "$dir/exported" | awk '{ print $2 }' | sort >"$dir/former"
    comm -23 "$dir/former" "$dir/exported" >"$dir/bad"
    [ -s "$dir/former" ] || echo "iofwd.h names no former function" >"$dir/bad"
    report "libiofwd.so exports the former names of its functions" "$dir/bad"
else
    skip "libiofwd.so exports the former names of its functions" "built without shared libraries"
fi

# A line of a .map file that is no longer defined or no longer used is removed.
# used LIBRARY MAP PRIVATE-NODE [NAME-ASKED-BY-DLSYM]
used() {
    if [ ! -e "$libs/$1" ]; then
        skip "$1 has each private name of its list" "built without shared libraries"
        skip "each private name of $1 has a user in the package" "built without shared libraries"
        return
    fi
    node "$srcdir/$2" "$3" >"$dir/listed"
    exported "$libs/$1" | comm -23 "$dir/listed" - >"$dir/bad"
    report "$1 has each private name of its list" "$dir/bad"

    # shellcheck disable=SC2046
    {
        wanted $(find "$libs" "$builddir" -maxdepth 1 -type f \( -name '*.so*' -o -perm -u+x ! -name '*.la' \) ! -name "$1*")
        echo "${4:-}"
    } | sort -u | comm -23 "$dir/listed" - >"$dir/bad"
    report "each private name of $1 has a user in the package" "$dir/bad"
}

used libamphora.so base/libamphora.map AMPHORA_PRIVATE
used libiofwd.so iofwd/libiofwd.map IOFWD_PRIVATE amph_fwd_interface

# functions LIBRARY: it exports functions that the public headers name, and nothing else.
functions() {
    if [ ! -e "$libs/$1" ]; then
        skip "$1 exports documented functions only" "built without shared libraries"
        return
    fi
    nm -D --defined-only "$libs/$1" | awk '$2 != "T" { print $2, $3 }' >"$dir/bad"
    exported "$libs/$1" | comm -23 - "$dir/words" >>"$dir/bad"
    report "$1 exports documented functions only" "$dir/bad"
}

functions libiofwd_messages.so

# The placeholders of libpsm export what their lists of calls have.
for name in psm psm2; do
    library=amphora_no_$name.so
    if [ ! -e "$libs/$library" ]; then
        skip "$library exports ${name}_ names only" "built without shared libraries"
        continue
    fi
    nm -D --defined-only "$libs/$library" | awk '$2 != "A" { print $2, $3 }' | grep -v "^T ${name}_" >"$dir/bad"
    report "$library exports ${name}_ names only" "$dir/bad"
done

if [ -e "$libs/amphora_ofi.so" ]; then
    node "$srcdir/conduits/ofi/amphora_ofi.map" AMPHORA_OFI_PRIVATE >"$dir/listed"
    exported "$libs/amphora_ofi.so" | comm -23 "$dir/listed" - >"$dir/bad"
    report "amphora_ofi.so exports its entry and its port" "$dir/bad"
else
    skip "amphora_ofi.so exports its entry and its port" "built without shared libraries"
fi

# archive FILE: its global names have registered prefixes, and those with a public prefix are documented.  Not checked are
# upcx_, whose families of names the macros of a header compose, and __wrap_, whose names are the linker's.
grep -v '^#' "$srcdir/tests/lib/prefixes.txt" | awk '{ sub(/_$/, "", $1); print "^" $1 "(_|$)" }' >"$dir/prefixes"
archive() {
    if [ ! -e "$1" ]; then
        skip "${1##*/} has registered prefixes only" "built without static libraries"
        skip "${1##*/}'s names with a public prefix are documented" "built without static libraries"
        return
    fi
    nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }' | grep -v '^__[at]san\|^__odr_asan' | sort -u |
        tee "$dir/global" | grep -vEf "$dir/prefixes" >"$dir/bad"
    report "${1##*/} has registered prefixes only" "$dir/bad"

    grep -E '^(gex|gasnet|gasnett|gasneti|iofwd|upc|amphora)_' "$dir/global" | comm -23 - "$dir/words" >"$dir/bad"
    report "${1##*/}'s names with a public prefix are documented" "$dir/bad"
}

for name in libamphora libiofwd amphora_ofi libamphora-upc libiofwd_wrap; do
    archive "$libs/$name.a"
done
archive "$builddir/libgasnet_tools-seq.a"
archive "$builddir/libgasnet_tools-par.a"

# program NAME: what one file of a program defines for another has a registered prefix.  Not checked is what the program takes from
# a shared library by a copy, which has a version.
program() {
    file=$libs/$1
    [ -e "$file" ] || file=$builddir/$1
    nm -g --defined-only "$file" | awk 'NF == 3 { print $3 }' |
        grep -v -e '^_' -e '@' -e '^main$' -e '^data_start$' | grep -vEf "$dir/prefixes" >"$dir/bad"
    report "$1 has registered prefixes only" "$dir/bad"
}

for name in amphora-info amphora-perf amphora-run amphora-upcc amphora-upcrun iofwd-cc iofwd-ctl iofwd-instrument iofwd-mount \
    iofwd-run iofwd-server iofwd-trace iofwd-trap nbmrw upc-bench upcxlate; do
    if [ -e "$libs/$name" ] || [ -e "$builddir/$name" ]; then
        program "$name"
    else
        skip "$name has registered prefixes only" "not built"
    fi
done

# wrong_room FILE: of the lines "FOLDER NAME" those whose prefix belongs to another room.  iofwd/calls/ generates code of all rooms
# of iofwd/; amph_fwd is the interface of iofwd/client/, too.
wrong_room() {
    awk -v list="$srcdir/tests/lib/prefixes.txt" '
        BEGIN {
            while ((getline line <list) > 0)
                if (line ~ /^amph_/) { split(line, part, " "); room[part[1]] = part[2] }
        }
        {
            for (prefix = $2; prefix != "" && !(prefix in room); )
                if (!sub(/_[^_]*$/, "", prefix)) prefix = ""
            if (index($1 "/", room[prefix] "/") == 1 || $1 == "iofwd/calls" && room[prefix] ~ /^iofwd\//) next
            if (prefix == "amph_fwd" && $1 ~ /^iofwd\/client(\/|$)/) next
            print $1 " defines " $2 ", whose prefix " (prefix == "" ? "is not registered" : "belongs to " room[prefix])
        }' "$1"
}

# Left out: objects whose source is gone or has moved, and those of the tests.
(cd "$builddir" && find am base boot conduits extended iofwd launcher tools upc-bridge -name '*.o' ! -name 'tests_*' 2>/dev/null |
    xargs -r nm -gA --defined-only 2>/dev/null) | awk -v src="$srcdir" -v objects="$builddir" '
    $NF ~ /^amph_/ {
        file = $1
        sub(/:.*/, "", file)
        sub(/\.libs\//, "", file)
        sub(/\.o$/, "", file)
        folder = stem = file
        sub(/\/[^\/]*$/, "", folder)
        sub(/.*\//, "", stem)
        if (!(file in there)) {
            name = stem
            sub(/^[^-]*-/, "", name)
            there[file] = system("test -f " src "/" folder "/" name ".c -o -f " src "/" folder "/" stem ".c -o -f " objects "/" folder "/" name ".c") == 0
        }
        if (there[file]) print folder, $NF
    }' | sort -u >"$dir/defined"
wrong_room "$dir/defined" >"$dir/bad"
report "what files share has the prefix of the room that defines it" "$dir/bad"

awk '!/^#/ && NF { print $1 }' "$srcdir/tests/lib/prefixes.txt" | sort | uniq -d >"$dir/bad"
report "each prefix has one room" "$dir/bad"
echo "1..$count"
