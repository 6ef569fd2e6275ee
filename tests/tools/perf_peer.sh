#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tools/perf/peer/compare.py: the benchmark that is built with Amphora and, where their compilers are, with the MPIs.  A figure for each
# test asked for; what does not end well is told.  Figures are not checked here.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_timeout=200
compare="python3 $srcdir/tools/perf/peer/compare.py -builddir $builddir -repeat 1 -samples 1"
pairs="round_trip:8 round_trip:65536 flood:8 flood:65536 put:8 get:65536 fetch_add puts:8 gets:4096"
colls="barrier broadcast:8 reduce:65536 reduce_all:8 scatter:16384 gather:8 gather_all:65536 exchange:16384"

# rows NAME N ARGUMENTS...: exit code 0, and N tests with a positive time
rows() {
    rows_name=$1 rows_n=$2
    shift 2
    mp_check "$rows_name" sh -c "$compare $* >'$mp_dir/rows'; code=\$?; cat '$mp_dir/rows'; [ \$code -eq 0 ] &&
        awk 'NR > 1 && \$4 > 0 { n++ } END { exit n != $rows_n }' '$mp_dir/rows'"
}

# told NAME PATTERN ARGUMENTS...: exit code 1, and a sentence with the pattern
told() {
    told_name=$1 told_pattern=$2
    shift 2
    mp_check "$told_name" sh -c "$compare $* >'$mp_dir/told' 2>&1; code=\$?; cat '$mp_dir/told'; [ \$code -eq 1 ] && grep -q -- '$told_pattern' '$mp_dir/told'"
}

rows "two processes" 17 "$pairs $colls"
rows "three processes" 8 -n 3 "$colls"
# Not MPICH: its processes never give a core away, and need minutes here beside other work.
peer=""
command -v mpicc.openmpi >/dev/null && peer="-library openmpi"
rows "two processes over tcp" 4 -conduit tcp $peer "round_trip:4096 flood:64 put:8 exchange:8"
if pkg-config --exists ucx 2>/dev/null; then
    for conduit in smp tcp; do
        mp_check "UCX over $conduit, which has no collectives" sh -c "$compare -conduit $conduit -library ucx round_trip:65536 flood:8 put:8 gets:4096 fetch_add \
            broadcast:8 >'$mp_dir/ucx'; code=\$?; cat '$mp_dir/ucx'; [ \$code -eq 0 ] &&
            awk '\$1 == \"broadcast\" { none = \$5 == \"-\" } NR > 1 && \$5 > 0 { n++ } END { exit n != 5 || !none }' '$mp_dir/ucx'"
    done
else
    mp_skip "UCX over smp, which has no collectives" "pkg-config knows no ucx (package libucx-dev)"
    mp_skip "UCX over tcp, which has no collectives" "pkg-config knows no ucx (package libucx-dev)"
fi
told "a peer that fails" "compare.py: broken: exit code 7: it has no network" -peer "'broken=sh -c \"echo it has no network >&2; exit 7\"'" round_trip
told "a peer that prints something else" "compare.py: other: it prints other lines than TEST BYTES MICROSECONDS" -peer "'other=echo'" round_trip
told "a test that does not exist" "compare.py: amphora: exit code 2: peer: there is no test nonsense" nonsense
told "a size with a letter" "compare.py: amphora: exit code 2: peer: a block has a multiple of 8 bytes" put:8K
told "a block that is too large" "a block has a multiple of 8 bytes" exchange:4194304

# refused NAME CODE PATTERN COMMAND...: this exit code, and one sentence at the end
refused() {
    refused_name=$1 refused_code=$2 refused_pattern=$3
    shift 3
    "$@" >"$mp_dir/refused" 2>&1 </dev/null
    code=$?
    echo "exit code $code" >>"$mp_dir/refused"
    [ $code = "$refused_code" ] && tail -n 2 "$mp_dir/refused" | grep -q -- "$refused_pattern" && ! grep -q Traceback "$mp_dir/refused"
    mp_report $? "$refused_name" "$mp_dir/refused"
}

refused "a peer without a command" 2 "argument -peer: invalid NAME=COMMAND value: 'foo'" $compare -peer foo round_trip
refused "no processes" 2 "argument -n: invalid positive value: '0'" $compare -n 0 round_trip
refused "a compiler that is not there" 1 "gasnet.c cannot be compiled by no-such-compiler: " env CC=no-such-compiler $compare round_trip

# The source tree's copy, in which nothing is built, and then what ./configure && make leaves there.
tree=$mp_dir/tree
mkdir -p "$tree/tools/perf" "$mp_dir/elsewhere"
cp -R "$srcdir/tools/perf/peer" "$tree/tools/perf/"
cp -R "$srcdir/include" "$tree/"
copied() {
    (cd "$mp_dir/elsewhere" && "$@")
}
refused "no build" 1 "there is no build of Amphora in build or $tree/build or $tree; name its folder by -builddir" \
    copied python3 "$tree/tools/perf/peer/compare.py" round_trip
refused "a folder without a build" 1 "there is no build of Amphora in nowhere; name" copied python3 "$tree/tools/perf/peer/compare.py" -builddir nowhere
build=$(cd "$builddir" && pwd)
ln -s "$build/amphora-run" "$build/.libs" "$tree/"
copied python3 "$tree/tools/perf/peer/compare.py" -repeat 1 -samples 1 round_trip:8 >"$mp_dir/rows" 2>&1 && grep -q '^round_trip  *8 ' "$mp_dir/rows"
mp_report $? "without -builddir, the build of the source tree" "$mp_dir/rows"
mp_done
