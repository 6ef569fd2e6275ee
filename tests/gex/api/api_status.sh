#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The API as a table: each name of tests/gex/api/api_names.txt with the header that defines it and a test that uses it, or a reason from
# tests/gex/api/api_reasons.txt.  Fails where a name has neither, where doc/gasnet-api-status.md does not say what is so, and where a program
# made of all names (addresses of functions, values of constants, sizes of types and fields) does not compile, link and run.
#
#   tests/gex/api/api_status.sh             the test
#   tests/gex/api/api_status.sh --write     writes doc/gasnet-api-status.md (make api-status)
#   tests/gex/api/api_status.sh --missing   lists what has neither
#
# A test counts that names the thing, outside comments and strings, before or after macros are expanded; one that uses it in a way that
# cannot be seen says so in a comment: "api: NAME".
set -u
builddir=${builddir:-.}
srcdir=${srcdir:-.}
CC=${CC:-cc}
CXX=${CXX:-c++}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-api.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
names=$srcdir/tests/gex/api/api_names.txt
reasons=$srcdir/tests/gex/api/api_reasons.txt
table=$srcdir/doc/gasnet-api-status.md
count=0

# result STATUS NAME: a TAP line with the output if it failed
result() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        sed 's/^/# /' "$dir/out"
    fi
}

# ---- where names are defined: what the compiler sees of the public headers ----

for header in $(sed -n 's/^h //p' "$names"); do
    if [ -e "$srcdir/include/$header" ]; then
        echo "D include/$header $header"
        echo "#include \"$header\"" >>"$dir/all.h"
    fi
done >"$dir/facts"
cat >"$dir/defined.awk" <<'EOA'
/^# [0-9]+ "/ {
    where = $3
    gsub(/"/, "", where)
    ours = sub(/^.*\/include\/amphora\//, "include/amphora/", where) || sub(/^.*\/include\/gasnet/, "include/gasnet", where)
    next
}
!ours { next }
/^#define / {
    sub(/\(.*/, "", $2)
    print "D", where, $2
    next
}
/^#/ { next }
{
    n = split($0, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++)
        if (word[i] ~ /^(_?gas|gex|GAS|GEX|PLAT)/ && !seen[where, word[i]]++)
            print "D", where, word[i]
}
EOA
$CC -E -dD -DGASNET_SEQ -I"$srcdir/include" "$dir/all.h" -o "$dir/all.i" || exit 1
awk -f "$dir/defined.awk" "$dir/all.i" >>"$dir/facts"
# One row a line: rows and their strings may go on in the next line.
cat "$srcdir/base/settings/env_defs.h" "$srcdir/base/settings/env_accepted.h" | tr -s '\n\\ ' '   ' | sed 's/"  *"//g; s/ENV(\|ACCEPT(/\
&/g' | awk '/^ENV\([A-Z]/ { print "E base/settings/env_defs.h", first_text($0) } /^ACCEPT\("/ { print "A", first_text($0) "|" second_text($0) }
    function first_text(s) { sub(/^[^"]*"/, "", s); sub(/".*/, "", s); return s }
    function second_text(s) { sub(/^[^"]*"[^"]*"[^"]*"/, "", s); sub(/"\).*/, "", s); return s }' >>"$dir/facts"

# ---- what the tests use ----

cat >"$dir/uses.awk" <<'EOA'
function name_file() {
    file = FILENAME
    sub(/^.*tests\//, "tests/", file)
    shell = file ~ /\.(sh|names)$/
    inside = 0
}
FNR == 1 { name_file() }
/^# [0-9]+ "/ && expanded {
    ours = index($3, "tests/") > 0
    file = $3
    gsub(/"/, "", file)
    sub(/^.*tests\//, "tests/", file)
    next
}
expanded && !ours { next }
{
    line = $0
    if (line ~ /api: /) {
        marker = line
        sub(/.*api: /, "", marker)
        sub(/ *\*\/.*/, "", marker)
        n = split(marker, word, / +/)
        for (i = 1; i <= n; i++)
            print "U", file, 1, word[i]
    }
    if (!shell) {
        gsub(/\\"/, "", line)
        if (inside && sub(/^.*\*\//, "", line))
            inside = 0
        if (inside)
            next
        if (line !~ /getenv|setenv/)
            gsub(/"[^"]*"/, " ", line)
        gsub(/\/\*[^*]*\*+([^\/*][^*]*\*+)*\//, " ", line)
        sub(/\/\/.*/, "", line)
        if (sub(/\/\*.*/, "", line))
            inside = 1
    }
    if (line ~ /^ *# *include/) {
        gsub(/[<>"]/, " ", $0)
        print "U", file, 1, $2 == "include" ? $3 : $2
        next
    }
    n = split(line, word, /[^A-Za-z0-9_]+/)
    for (i = 1; i <= n; i++)
        if (word[i] ~ /^(_?gas|gex_|GAS|GEX_|PLATFORM_|[A-Z]+_)/ || (word[i] ~ /^[a-z]+$/ && !shell))
            uses[file, word[i]]++
}
END {
    for (key in uses) {
        split(key, part, SUBSEP)
        print "U", part[1], uses[key], part[2]
    }
}
EOA
sources=$(find "$srcdir/tests" \( -name '*.c' -o -name '*.cc' -o -name '*.h' -o -name '*.sh' -o -name '*.names' \) \
    ! -name 'api_status*' ! -name 'gex_headers*' | sort)
awk -f "$dir/uses.awk" $sources >>"$dir/facts"
mkdir -p "$dir/stub/criterion" # what is asserted counts, not by what
touch "$dir/stub/criterion/criterion.h" "$dir/stub/criterion/parameterized.h" "$dir/stub/criterion/theories.h"
for source in $(grep -lE '##' $(echo "$sources" | grep '\.c$')); do
    grep -qE '^#include [<"](gasnet|tests/unit/unit_tools)' "$source" || continue
    $CC -E -DGASNET_SEQ -I"$dir/stub" -I"$srcdir" -I"$srcdir/include" "$source" -o "$dir/one.i" && cat "$dir/one.i"
done >"$dir/tests.i"
awk -v expanded=1 -f "$dir/uses.awk" "$dir/tests.i" >>"$dir/facts"

# ---- the table ----

cat >"$dir/table.awk" <<'EOA'
function reason(what, name,    i) {
    for (i = 1; i <= nreasons; i++)
        if (rkind[i] == what && (rname[i] == name || (rname[i] ~ /\*$/ && index(name, substr(rname[i], 1, length(rname[i]) - 1)) == 1)))
            return rtext[i]
    return ""
}
# The names that stand for entry: each of a family, or itself.  Fills family[], returns how many.
function expand(entry,    i, at, n) {
    at = index(entry, "[M]")
    if (!at) {
        family[1] = entry
        sub(/^[^.]*_t\./, "", family[1])
        return 1
    }
    family[1] = substr(entry, 1, at - 1) substr(entry, at + 3)
    for (i = 0; i <= 16; i++)
        family[i + 2] = substr(entry, 1, at - 1) i substr(entry, at + 3)
    return 18
}
function better(name, file, n) {
    return n > most[name] || (n == most[name] && file < best[name])
}
# facts: D header name, E file setting, U test uses name, A variable|text; the reasons; the table as it is; the names
FILENAME ~ /facts$/ && $1 == "D" { if (!($3 in header)) header[$3] = $2; next }
FILENAME ~ /facts$/ && $1 == "E" { setting[$3] = $2; next }
FILENAME ~ /facts$/ && $1 == "A" { split(substr($0, 3), part, "|"); accepted[part[1]] = part[2]; next }
FILENAME ~ /facts$/ {
    used[$2, $4] = 1
    if (better($4, $2, $3)) { best[$4] = $2; most[$4] = $3 }
    next
}
FILENAME ~ /reasons.txt$/ {
    if ($1 == "undefined" || $1 == "untested") {
        nreasons++
        rkind[nreasons] = $1
        rname[nreasons] = $2
        rtext[nreasons] = substr($0, length($1) + length($2) + 3)
    }
    next
}
FILENAME ~ /\.md$/ {
    if (split($0, cell, / *\| */) >= 6) { gsub(/`/, "", cell[2]); said[cell[2]] = cell[5] }
    next
}
/^#/ || NF == 0 { next }
/^= / { category = substr($0, 3); next }
{
    kind = $1
    entry = $2
    n = expand(entry)
    where = ""
    test = ""
    note = ""
    for (i = n; i >= 1; i--) {
        if (!(family[i] in header)) { where = ""; break }
        where = header[family[i]]
    }
    if (kind == "e")
        where = setting[entry]
    if (kind == "s") # a field is where its type is; the program below has all of them
        where = header[substr(entry, 1, index(entry, ".") - 1)]
    if (kind == "e" && !where && (entry in accepted))
        note = "accepted without effect: " accepted[entry]
    else if (!where) {
        note = reason("undefined", entry)
        if (!note) { print "X " entry " (" category "): not defined" ; next }
    }
    if (where) {
        for (i = n; i >= 1; i--) {
            if (i == 1 && n > 1) continue
            if (!(family[i] in best)) { test = ""; break }
            test = best[family[i]]
            if (said[entry] && ((said[entry], family[i]) in used)) test = said[entry]
        }
        if ((entry in best)) test = said[entry] && ((said[entry], entry) in used) ? said[entry] : best[entry]
        if (!test) {
            note = reason("untested", entry)
            if (!note) { print "X " entry " (" category "): no test" (i > 1 && n > 1 ? " of " family[i] : ""); next }
        }
    }
    row[++rows] = "R " category "|" kind "|" entry "|" where "|" test "|" note
}
END { for (i = 1; i <= rows; i++) print row[i] }
EOA
touch "$dir/empty.md"
[ -e "$table" ] && old=$table || old=$dir/empty.md
awk -f "$dir/table.awk" "$dir/facts" "$reasons" "$old" "$names" >"$dir/rows"
grep '^X ' "$dir/rows" | cut -c3- >"$dir/missing"

cat >"$dir/print.awk" <<'EOA'
BEGIN {
    FS = "|"
    kinds["f"] = "call"; kinds["c"] = "constant"; kinds["m"] = "macro"; kinds["t"] = "type"; kinds["s"] = "field"; kinds["v"] = "variable"
    kinds["h"] = "header"; kinds["e"] = "environment"
    print "# The GASNet API: what is defined where, and what tests it"
    print ""
    print "Made by `make api-status` (tests/gex/api/api_status.sh) from tests/gex/api/api_names.txt, the headers and the tests; `make check` fails where it does"
    print "not hold. `[M]`: one call for each number of arguments, 0 to 16, and one that counts them. A name without a header or without a"
    print "test has its reason in the last column."
}
{
    sub(/^R /, "", $1)
    if ($1 != category) {
        category = $1
        print "\n## " category "\n\n| name | kind | header | test | note |\n|---|---|---|---|---|"
    }
    print "| `" $3 "` | " kinds[$2] " | " $4 " | " $5 " | " $6 " |"
}
EOA
grep '^R ' "$dir/rows" | awk -f "$dir/print.awk" >"$dir/table.md"

case ${1:-} in
--write)
    cat "$dir/missing" >&2
    mkdir -p "${table%/*}" && cp "$dir/table.md" "$table"
    [ ! -s "$dir/missing" ]
    exit
    ;;
--missing)
    cat "$dir/missing"
    exit
    ;;
esac
cp "$dir/missing" "$dir/out"
[ ! -s "$dir/missing" ]
result $? "each name is defined and tested, or there is a reason"
diff "$table" "$dir/table.md" >"$dir/out" 2>&1
result $? "doc/gasnet-api-status.md says what is so (else: make api-status)"

# ---- a program of all names, without those that its build defines ----

cat >"$dir/program.awk" <<'EOA'
BEGIN {
    FS = "|"
    print "#ifdef __cplusplus\n#define FN(f) reinterpret_cast<fn>(f)\n#else\n#define FN(f) (fn)(f)\n#endif"
    print "typedef void (*fn)(void);\nint main(void)\n{\n    unsigned long sum = 0, calls = 0;\n    volatile fn f;"
}
function take(name) {
    print "#ifndef " name "\n    f = FN(" name "), calls++, sum += f != 0;\n#endif"
}
$4 == "" { next }
{ name = $3 }
$2 == "f" && (at = index(name, "[M]")) {
    for (i = 0; i <= 16; i++)
        take(substr(name, 1, at - 1) i substr(name, at + 3))
    next
}
$2 == "f" { take(name) }
$2 == "v" { print "    sum += !&" name ";" }
$2 == "m" { print "#ifndef " name "\n#error " name " is not defined\n#endif" }
$2 == "c" { print "    sum += 0 * sizeof(" name ");" }
$2 == "t" { print "    sum += 0 * sizeof(" name ");" }
$2 == "s" { split(name, part, "."); print "    sum += 0 * sizeof(((" part[1] " *)0)->" part[2] ");" }
END { print "    return sum == calls && calls > 500 ? 0 : 1;\n}" }
EOA
{
    echo '#include <stddef.h>'
    cat "$dir/all.h"
    grep '^R ' "$dir/rows" | grep -vE '\|e\||\|(GASNET_SEQ|GASNETT_THREAD_SINGLE)\|' | awk -f "$dir/program.awk"
} >"$dir/program.c"
cp "$dir/program.c" "$dir/program.cc"
if [ -e "$builddir/.libs/libamphora.so" ]; then
    lib="-L$builddir/.libs -Wl,-rpath,$builddir/.libs -lamphora"
else
    lib="$builddir/.libs/libamphora.a ${NETTLE_LIBS:--lnettle} -ldl -lpthread -lrt"
fi
quiet="-Wall -Wextra -Wno-cast-function-type -Wno-address -Wno-deprecated-declarations"
for mode in SEQ PARSYNC PAR; do
    for compiler in "$CC -std=gnu11" "$CXX -std=c++17"; do
        suffix=c
        [ "$compiler" = "$CC -std=gnu11" ] || suffix=cc
        if ! command -v ${compiler%% *} >/dev/null 2>&1; then
            count=$((count + 1))
            echo "ok $count - ${compiler#* }, $mode # SKIP no compiler $compiler"
            continue
        fi
        $compiler $quiet -DGASNET_$mode -I"$srcdir/include" "$dir/program.$suffix" -o "$dir/program" $lib >"$dir/out" 2>&1 &&
            [ ! -s "$dir/out" ] && "$dir/program" >>"$dir/out" 2>&1
        result $? "a program of all names: ${compiler##*=}, $mode"
    done
done
echo "1..$count"
