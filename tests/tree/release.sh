#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a release says of itself agrees: the version of configure, amphora.h, NEWS and the programs; and the documents that a reader is
# sent to are there, and in the distribution.
. "${srcdir:-.}/tests/lib/lib.sh"
version=$("$builddir/amphora-info" -V | sed -n 's/^amphora //p')

{
    grep -q "AMPHORA_VERSION \"$version\"" "$srcdir/include/amphora.h" || echo "include/amphora.h has another version than $version"
    head -n 1 "$srcdir/NEWS" | grep -Eq "^Amphora $version( \(unreleased\))?$" || echo "NEWS begins with $(head -n 1 "$srcdir/NEWS")"
    "$AMPHORA_RUN" -version | grep -q " $version$" || echo "amphora-run -version: $("$AMPHORA_RUN" -version)"
} >"$mp_dir/out"
[ -n "$version" ] && [ ! -s "$mp_dir/out" ]
mp_report $? "one version everywhere: $version" "$mp_dir/out"

for program in amphora-run amphora-info amphora-perf amphora-upcc amphora-upcrun iofwd-run iofwd-server iofwd-mount iofwd-trap iofwd-ctl iofwd-trace \
    iofwd-instrument nbmrw upc-bench upcxlate; do
    [ -x "$builddir/$program" ] || continue # iofwd-mount without libfuse3
    for option in -version --version; do
        "$builddir/$program" $option >"$mp_dir/said" 2>&1 && head -n 1 "$mp_dir/said" | grep -q " $version$" ||
            echo "$program $option: $(head -n 1 "$mp_dir/said")"
    done
done >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "every program prints the version" "$mp_dir/out"

# Each program has its page, which names the options of its help, and -help and -version where it takes them (iofwd-cc leaves these to the
# compiler); iofwd-attach is a part of iofwd-run.
# named PAGE OPTION...: further options are in a help text on standard input, "-s, --sizes A" and "-json|-csv": each word that begins with a
# dash, but for a short form of all programs, and a library
named() {
    page=$1
    shift
    for option in $(grep -oE '(^|[][ |,])--?[a-zA-Z][a-zA-Z-]*' | tr -d '][ |,' | sed -E 's/^--(help|version)$/-\1/' |
        { cat && printf '%s\n' "$@"; } | sort -u | grep -vxE -e '-h|-lLIB'); do
        sed 's/\\//g' "$srcdir/man/$page.1" | grep -qF -e "$option" || echo "man/$page.1 does not have $option of its help"
    done
}
{
    for program in $(cd "$srcdir" && cat ./*/local.mk ./*/*/local.mk | sed -n 's/^bin_PROGRAMS += *//p'); do
        page=$srcdir/man/$program.1
        [ $program = iofwd-attach ] || [ -f "$page" ] || echo "$program has no manual page"
        [ -f "$page" ] && [ -x "$builddir/$program" ] || continue
        always=
        ! "$builddir/$program" -version 2>/dev/null | grep -q " $version$" || always='-help -version'
        # shellcheck disable=SC2086
        "$builddir/$program" -help 2>/dev/null | named "$program" $always
    done
    sed -n '/^usage: /,/^END/p' "$srcdir/dropin/gasnetrun.in" | named gasnetrun
} >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "every program has a manual page, with its options" "$mp_dir/out"

for heading in Added Changed Fixed; do
    grep -qx "$heading" "$srcdir/NEWS" || echo "no section $heading"
done >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "NEWS has the sections of a changelog" "$mp_dir/out"

# Files, folders and manual pages that README and CONTRIBUTING name; doc/iofwd-calls.md is made by the build.
cat "$srcdir/README.md" "$srcdir/CONTRIBUTING.md" >"$mp_dir/text"
{
    for name in $(grep -oE '(LICENSE|NEWS|[A-Z]+\.md|(scripts|doc|examples|dropin|tests|base)/[a-zA-Z0-9_./-]*[a-z0-9])' "$mp_dir/text" | sort -u); do
        [ -e "$srcdir/$name" ] || [ -e "$builddir/$name" ] || echo "there is no $name"
    done
    for name in $(grep -oE 'man ([0-9] )?[a-z][a-z_0-9-]+' "$mp_dir/text" | sed 's/.* //' | sort -u); do
        ls "$srcdir"/man/"$name".[1-8] "$builddir"/man/"$name".[1-8] >"$mp_dir/found" 2>/dev/null
        [ -s "$mp_dir/found" ] || echo "there is no manual page $name"
    done
} >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "what README and CONTRIBUTING name is there" "$mp_dir/out"

configure=$(cd "$srcdir" && pwd)/configure
mkdir "$mp_dir/a b"
(cd "$mp_dir/a b" && timeout 100 "$configure" --quiet) >"$mp_dir/out" 2>&1
[ $? = 1 ] && grep -q 'error: the path of this folder has a space in it' "$mp_dir/out"
mp_report $? "configure refuses a path with which libtool cannot build" "$mp_dir/out"
mp_done
