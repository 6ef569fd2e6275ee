#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian by preload, mount and trap: the same output, exit code and files as in a local directory.  A part of
# scripts/check-nightly.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
. "$srcdir/tests/files/programs/fwd_debian_programs.sh"
. "$srcdir/tests/files/programs/fwd_debian_more.sh"
run=$builddir/iofwd-run
export LC_ALL=C.UTF-8 TZ=UTC HOME="$mp_dir/home" TMPDIR="$mp_dir/tmp"
mkdir "$HOME" "$TMPDIR" "$mp_dir/kept"
IOFWD_PREFIX="/fwd=$mp_dir/kept" timeout 60 "$builddir/iofwd-server" -daemon -servers 2 -address-file "$mp_dir/addresses" \
    -pid-file "$mp_dir/pid" >/dev/null || exit 1
trap 'kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT

# work_in DIRECTORY NAME OUTPUT COMMAND...: the program's work, done by `COMMAND sh`
work_in() {
    where=$1 name=$2 output=$3
    shift 3
    # shellcheck disable=SC2016
    (cd / && timeout -k 5 120 "$@" sh -c 'cd "$1" && for f in programs more; do . "$2_$f.sh"; done; "in_$3"' sh "$where" \
        "$srcdir/tests/files/programs/fwd_debian" "$name") >"$output" 2>&1 </dev/null
    echo "exit code $?" >>"$output"
    sed -i "s#$where#@DIR#g" "$output"
}

# compare NAME WAY
compare() {
    rm -rf "$mp_dir/local" "$mp_dir/kept/work"
    mkdir "$mp_dir/local" "$mp_dir/kept/work"
    work_in "$mp_dir/local" "$1" "$mp_dir/direct" env
    work_in /fwd/work "$1" "$mp_dir/forwarded" "$run" -servers "$mp_dir/addresses" "-$2"
    { diff -a "$mp_dir/direct" "$mp_dir/forwarded" && diff -r "$mp_dir/local" "$mp_dir/kept/work"; } >"$mp_dir/out" 2>&1
    mp_report $? "$1 by $2" "$mp_dir/out"
}

for way in preload mount trap; do
    while read -r name program excluded; do
        mp_wanted "$name by $way" || continue
        if [ "$excluded" = $way ]; then
            mp_skip "$name by $way" "doc/limits.md excludes it"
        elif command -v "$program" >/dev/null; then
            compare "$name" $way
        else
            mp_skip "$name by $way" "there is no $program"
        fi
    done <<END
$debian_programs
END
done
mp_done
