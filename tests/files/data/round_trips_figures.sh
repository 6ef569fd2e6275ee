#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How many requests usual programs make to a server on another host, for how many of them they wait, and how long they take beside direct
# runs.  Not a part of the suite:
#
#   srcdir=. builddir=build sh tests/files/data/round_trips_figures.sh [RUNS [PROGRAM]...]
#
# RUNS (5) of each kind take turns; milliseconds are their medians.  Server and programs are on this host and share no memory (AMPHORA_SMP=0);
# files are in memory.  CONDUIT=udp in the environment takes the place of tcp.  The source tree is that of "git status", "ls -lR" and "find".
# With SHARED=1 they share memory, so that the programs do by themselves what they can (near files), and requests are not counted.
# IOFWD_NEAR=0 besides: as processes of jobs, which have no near files.
set -u
: "${srcdir:=.}" "${builddir:=build}" "${CONDUIT:=tcp}" "${SHARED:=0}"
runs=${1:-5}
[ $# = 0 ] || shift
builddir=$(cd "$builddir" && pwd)
dir=$(mktemp -d /dev/shm/amphora-trips.XXXXXX) || exit 99
trap 'test -f "$dir/pid" && kill "$(cat "$dir/pid")"; sleep 1; rm -rf "$dir"' EXIT
[ "$SHARED" = 1 ] || export AMPHORA_SMP=0
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX

mkdir "$dir/direct"
git clone -q "$srcdir" "$dir/direct/tree" && git -C "$dir/direct/tree" status >/dev/null || exit 99

# 2,000 small files in 20 directories
mkdir "$dir/direct/small" "$dir/direct/c" "$dir/direct/lib"
for d in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    mkdir "$dir/direct/small/$d"
    for f in 0 1 2 3 4 5 6 7 8 9; do
        for g in 0 1 2 3 4 5 6 7 8 9; do head -c $((d * 200 + f * 20 + g + 100)) /dev/zero >"$dir/direct/small/$d/$f$g"; done
    done
done
tar cf "$dir/small.tar" -C "$dir/direct" small

# five C files with three headers, and a program of them
for h in x y z; do
    awk -v h=$h 'BEGIN { for (i = 0; i < 100; i++) print "static inline int " h "_" i "(int n) { return n * " i "; }" }' >"$dir/direct/c/$h.h"
done
for i in 1 2 3 4 5; do
    printf '#include <stdio.h>\n#include "x.h"\n#include "y.h"\n#include "z.h"\nint f%d(int n) { return x_1(n) + y_2(n) + z_3(n); }\n' $i >"$dir/direct/c/f$i.c"
done
printf 'int f1(int);\nint main(void) { return f1(0); }\n' >"$dir/direct/c/main.c"
printf 'O = f1.o f2.o f3.o f4.o f5.o main.o\nprog: $(O)\n\tgcc -o $@ $(O)\n%%.o: %%.c x.h y.h z.h\n\tgcc -c -o $@ $<\n' >"$dir/direct/c/Makefile"

# modules of Python's library
python3 - "$dir/direct/lib" <<'END' || exit 99
import json, os, shutil, sys
of = os.path.dirname(os.path.dirname(json.__file__))
for name in 'json email http urllib xml logging concurrent asyncio unittest argparse.py csv.py tarfile.py zipfile.py difflib.py random.py'.split():
    path = os.path.join(of, name)
    (shutil.copytree if os.path.isdir(path) else shutil.copy)(path, os.path.join(sys.argv[1], name))
END
echo 'import json, email.message, http.client, urllib.request, xml.dom.minidom, logging.config, concurrent.futures, asyncio, unittest
import argparse, csv, tarfile, zipfile, difflib, random' >"$dir/imports.py"
PYTHONPATH=$dir/direct/lib python3 "$dir/imports.py"
{
    echo 'create table t(a,b);'
    awk 'BEGIN { for (i = 0; i < 300; i++) print "insert into t values(" i ",'\''value " i "'\'');" }'
} >"$dir/insert.sql"
# git reads files again that are as new as its index
find "$dir/direct/tree" -type f ! -path '*/.git/*' -exec touch -d '2 hours ago' {} +
cp -a "$dir/direct" "$dir/kept"

"$builddir/iofwd-server" -daemon -servers 1 -conduit "$CONDUIT" -iofwd "/fwd=$dir/kept" -address-file "$dir/address" -pid-file "$dir/pid" \
    -log "$dir/log" >/dev/null || exit 1

# prepare PROGRAM DIRECTORY: what the program needs, or what an earlier run has left
prepare() {
    case $1 in
    "git status") git -C "$2/tree" status >/dev/null ;;
    sqlite) rm -f "$2"/d.db* ;;
    gcc | make) rm -f "$2"/c/*.o "$2/c/prog" ;;
    cp) rm -rf "$2/copy" ;;
    "tar x") rm -rf "$2/out" && mkdir "$2/out" ;;
    rm) rm -rf "$2/gone" && cp -r "$2/small" "$2/gone" ;;
    log) rm -f "$2/log" ;;
    esac
}

# run_one PROGRAM DIRECTORY [WRAPPER...]
run_one() {
    program=$1 at=$2
    shift 2
    case $program in
    true) "$@" /bin/true ;;
    cat) "$@" cat "$at/c/main.c" ;;
    "git status") "$@" git -C "$at/tree" status ;;
    sqlite) "$@" sqlite3 "$at/d.db" <"$dir/insert.sql" ;;
    gcc) "$@" sh -c 'for i in 1 2 3 4 5; do gcc -c -o "$1/c/f$i.o" "$1/c/f$i.c"; done' sh "$at" ;;
    ls) "$@" ls -lR "$at/tree" ;;
    find) "$@" find "$at/tree" -size +10M ;;
    cp) "$@" cp -r "$at/small" "$at/copy" ;;
    "tar c") "$@" tar cf "$dir/out.tar" -C "$at" small ;;
    "tar x") "$@" tar xf "$dir/small.tar" -C "$at/out" ;;
    rm) "$@" rm -rf "$at/gone" ;;
    python) "$@" env PYTHONPATH="$at/lib" python3 "$dir/imports.py" ;;
    make) "$@" make -s -C "$at/c" prog ;;
    log) "$@" awk -v to="$at/log" 'BEGIN { for (i = 0; i < 2000; i++) { print "line", i, "of a log" >to; fflush(to) } }' ;;
    esac >/dev/null
}

# timed KIND PROGRAM DIRECTORY [WRAPPER...]: a line "KIND milliseconds"
timed() {
    kind=$1
    shift
    prepare "$1" "$kept"
    began=$(date +%s%N)
    run_one "$@" || echo "$1 has failed" >&2
    echo "$kind $((($(date +%s%N) - began) / 1000))"
}

# count PROGRAM: counts="REQUESTS AWAITED"
count() {
    rm -f "$dir/trace"
    prepare "$1" "$dir/kept"
    run_one "$1" /fwd "$builddir/iofwd-run" -servers "$dir/address" -trace="$dir/trace" || echo "$1 has failed" >&2

    # what a stream causes has a line of its own before that of the function, which says the same requests again
    counts=$(awk '
        / f(open|open64|read|write|flush|close|seeko|seeko64|printf|gets|getc)\(/ || /(getline|rewind)\(/ { next }
        { n = 0 }
        /requests up to/ { n = $0; sub(/ requests up to.*/, "", n); sub(/.* /, "", n) }
        /, request / { n = 1 }
        { all += n }
        !/not awaited/ { awaited += n }
        END { print all + 0, awaited + 0 }' "$dir/trace")
}

[ $# -gt 0 ] || set -- true cat "git status" sqlite gcc ls find cp "tar c" "tar x" rm python make log
printf '%-12s %10s %10s %12s %12s %8s\n' program requests awaited 'direct, ms' 'forwarded' ratio
for program; do
    counts="- -"
    [ "$SHARED" = 1 ] || count "$program"

    i=0
    while [ $i -lt "$runs" ]; do
        kept=$dir/direct timed direct "$program" "$dir/direct"
        kept=$dir/kept timed forwarded "$program" /fwd "$builddir/iofwd-run" -servers "$dir/address"
        i=$((i + 1))
    done | sort -k1,1 -k2n | awk -v program="$program" -v counts="$counts" '
        { if ($1 != key) { if (k) median[key] = value[int((k + 1) / 2)]; key = $1; k = 0 } value[++k] = $2 }
        END {
            if (k) median[key] = value[int((k + 1) / 2)]
            split(counts, c, " ")
            if (!k) printf "%-12s %10s %10s\n", program, c[1], c[2]
            else printf "%-12s %10s %10s %12.2f %12.2f %8.2f\n", program, c[1], c[2], median["direct"] / 1000, median["forwarded"] / 1000,
                median["forwarded"] / median["direct"]
        }'
done
