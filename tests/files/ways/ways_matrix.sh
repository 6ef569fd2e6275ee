#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The matrix {languages} x {linkages} x {ways} x {operations} (ways_matrix.py): each cell works, is refused with a documented sentence, or
# is inapplicable with a reason.  make check fills the rows of C; WAYS_LANGUAGES="c c++ fortran go rust java" those of other languages, as
# scripts/check-nightly does.  The results go to ways-results.txt in the build directory; scripts/ways-table makes the table of
# doc/ways-in.md from them.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "the matrix of ways"
trap 'mount_end "$mp_dir/m"' EXIT
mount_off "$mp_dir/m"
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR mp_dir
mkdir -m 700 "$XDG_RUNTIME_DIR"
if ! "$builddir/iofwd-run" -servers "$addresses" -mount true 2>"$mp_dir/why" || ! "$builddir/iofwd-run" -servers "$addresses" -trap true 2>"$mp_dir/why"; then
    echo "1..1"
    echo "ok 1 - the matrix of ways # SKIP $(tail -n 1 "$mp_dir/why")"
    exit 0
fi

results=$builddir/ways-results.txt
set --
missing=
for language in ${WAYS_LANGUAGES:-c}; do
    case $language in
    c) compiler=gcc ;;
    c++) compiler=g++ ;;
    fortran) compiler=gfortran ;;
    go) compiler=go ;;
    rust) compiler=rustc ;;
    java) compiler=javac ;;
    *) echo "Bail out! WAYS_LANGUAGES: there are no programs in $language" && exit 99 ;;
    esac
    if command -v $compiler >/dev/null; then
        set -- "$@" "$language"
    else
        missing="$missing $language"
    fi
done

python3 "$srcdir/tests/files/ways/ways_matrix.py" "$results" "$@" >"$mp_dir/tap"
cat "$mp_dir/tap"
mp_count=$(grep -c '^\(not \)\{0,1\}ok ' "$mp_dir/tap")
for language in $missing; do
    mp_skip "$language" "there is no compiler for it here"
done

"$srcdir/scripts/ways-table" "$results" >"$mp_dir/table" && "$srcdir/scripts/ways-table" -check "$srcdir/doc/ways-in.md" "$results" >"$mp_dir/out" 2>&1
mp_report $? "the table of doc/ways-in.md agrees with the results" "$mp_dir/out"
mp_done
