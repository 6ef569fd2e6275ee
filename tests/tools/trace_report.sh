#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-trace report: the page in a headless Chromium.  What it shows are SQL's numbers, before and after zoom, search and filters; it asks for
# nothing; paths of any text stay text; long runs; output that cannot be written.
# TRACE_REPORT_CALLS=N: the calls of the long run (scripts/check-nightly: a million), TRACE_REPORT_MS=N: how long its page may take to open.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
case $AMPHORA_RUN in /*) ;; *) AMPHORA_RUN=$(pwd)/$AMPHORA_RUN ;; esac
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
mkdir "$mp_dir/none" "$mp_dir/work"
XDG_RUNTIME_DIR=$mp_dir/none # no servers
export XDG_RUNTIME_DIR

why=""
command -v python3 >/dev/null || why="no python3 here"
[ -x "$trace" ] || why="iofwd-trace is not built: it takes SQLite and zlib (libsqlite3-dev, zlib1g-dev)"
if [ -n "$why" ]; then
    for number in $(seq 30); do
        mp_skip "case $number of the page" "$why"
    done
    mp_done
    exit
fi

# ---- the command ----

# refused NAME CODE WORDS COMMAND...: the exit code, and one line on standard error that has WORDS
refused() {
    name=$1 code=$2 words=$3
    shift 3
    mp_wanted "$name" || return 0
    "$@" >"$mp_dir/stdout" 2>"$mp_dir/out" </dev/null
    status=$?
    [ $status = "$code" ] && [ "$(wc -l <"$mp_dir/out")" = 1 ] && grep -q -- "$words" "$mp_dir/out" && [ ! -s "$mp_dir/stdout" ]
    result=$?
    echo "exit code $status" >>"$mp_dir/out"
    mp_report $result "$name" "$mp_dir/out"
}

(cd "$mp_dir/work" && timeout 60 "$run" -record "$mp_dir/small" sh -c 'echo a >a; cp a b; cat a b none' >/dev/null 2>&1)
refused "a full disk" 1 "/dev/full cannot be written: No space left on device" "$trace" report "$mp_dir/small" -o /dev/full
refused "a folder as the output" 1 "$mp_dir/work cannot be written: Is a directory" "$trace" report "$mp_dir/small" -o "$mp_dir/work"
refused "an output in no folder" 1 "cannot be written: No such file" "$trace" report "$mp_dir/small" -o "$mp_dir/no/report.html"
refused "a full standard output" 1 "standard output: No space left on device" sh -c "\"$trace\" report \"$mp_dir/small\" -o - >/dev/full"
refused "a limit of file sizes" 1 "cannot be written: File too large" \
    sh -c "trap '' XFSZ; ulimit -f 64; exec \"$trace\" report \"$mp_dir/small\" -o \"$mp_dir/part.html\""
[ ! -e "$mp_dir/part.html" ]
mp_report $? "a part of a page is not left behind" /dev/null
refused "a size of 0" 2 "size 0 is no number of megabytes" "$trace" report "$mp_dir/small" -size 0
refused "a size that is no number" 2 "size 3x is no number of megabytes" "$trace" report "$mp_dir/small" -size 3x

mkdir "$mp_dir/foreign"
head -c 9000 /dev/urandom >"$mp_dir/foreign/a.trace"
"$trace" report "$mp_dir/foreign" -o "$mp_dir/foreign.html" >"$mp_dir/out" 2>&1
status=$?
[ $status = 1 ] && [ "$(wc -l <"$mp_dir/out")" = 2 ] && grep -q 'a.trace: it is no file of recorded calls; it is left out' "$mp_dir/out" &&
    grep -q 'none of its files can be read' "$mp_dir/out" && [ ! -e "$mp_dir/foreign.html" ]
mp_report $? "a foreign trace" "$mp_dir/out"

(cd "$srcdir/tools/trace/page/uplot" && for file in uPlot.iife.min.js uPlot.min.css LICENSE; do
    grep -q "sha256 of .$file. | $(sha256sum "$file" | cut -d' ' -f1) |" README.md || echo "$file is not the one that README.md names"
done) >"$mp_dir/out"
[ ! -s "$mp_dir/out" ]
mp_report $? "the chart library is unchanged" "$mp_dir/out"

# ---- the page ----

# The driver prints a line "ok NAME", "not ok NAME" with "# ..." lines behind it, or "skip NAME: reason" for each case.
timeout -k 5 550 env PYTHONDONTWRITEBYTECODE=1 python3 "$srcdir/tests/tools/trace_report.py" "$mp_dir" "$trace" "$run" "$AMPHORA_RUN" >"$mp_dir/cases" 2>"$mp_dir/said"
status=$?
while IFS= read -r line; do
    case $line in
    "ok "*) name=${line#ok } && result=0 ;;
    "not ok "*) name=${line#not ok } && result=1 ;;
    "skip "*) name=${line#skip } && mp_skip "${name%%: *}" "${name#*: }" && continue ;;
    *) echo "$line" && continue ;;
    esac
    mp_wanted "$name" && mp_report $result "$name" /dev/null
done <"$mp_dir/cases"
if [ $status != 0 ]; then
    mp_report $status "the driver of the browser" "$mp_dir/said"
fi
mp_done
