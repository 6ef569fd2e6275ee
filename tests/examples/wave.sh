#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/wave: the same files, bit for bit, whatever the number of processes and the conduit, written by servers or not; restart.
. "${srcdir:-.}/tests/lib/lib.sh"
export AMPHORA_RUN mp_dir
wave=$builddir/examples/wave/wave
if [ ! -x "$wave" ]; then
    echo "1..0 # SKIP examples/wave is not built (no libpng)"
    exit 0
fi
export wave
mkdir "$mp_dir/servers" "$mp_dir/servers2"
cat >"$mp_dir/small.params" <<'END'
nx = 120   # comment
ny = 80
steps = 60
sponge = 10
pulse = 0.4 0.5 0.03 1
pulse = 1.1 0.2 0.05 -0.5
obstacle = circle 0.9 0.5 0.15
obstacle = box 0.2 0.1 0.25 0.9
probe = 0.7 0.7
series_every = 5
vector_every = 30
restart_every = 30
END

# run NAME AMPHORA-RUN-OPTIONS... -- WAVE-OPTIONS...: one line of TAP
run() {
    run_name=$1
    shift
    run_opts=
    while [ "$1" != -- ]; do
        run_opts="$run_opts $1"
        shift
    done
    shift
    mp_check "$run_name" "$AMPHORA_RUN" -timeout 50 $run_opts "$wave" -quiet "$@" "$mp_dir/small.params"
}

# same NAME DIR: the files of DIR are those of the one-process run
same() {
    mp_check "$1" diff -r "$mp_dir/ref" "$2"
}

run "one process" -n 1 -- -output "$mp_dir/ref"
mp_check "all files are there" test -s "$mp_dir/ref/scalars.txt" -a -s "$mp_dir/ref/vector_000060.bin" \
    -a -s "$mp_dir/ref/restart_000030.bin" -a -s "$mp_dir/ref/pressure.png"
for n in 2 3 4 7; do
    run "$n processes" -n $n -- -output "$mp_dir/out$n"
    same "$n processes: equal to one" "$mp_dir/out$n"
done
AMPHORA_SMP=0 run "3 processes over tcp" -n 3 -conduit tcp -- -output "$mp_dir/tcp"
same "3 processes over tcp: equal to one" "$mp_dir/tcp"

# The prefix leads to a directory of another name: what arrives there has passed a server.
for job in "1 1" "3 2" "4 1"; do
    set -- $job
    run "$1 processes, $2 servers" -n "$1" -servers "$2" -iofwd "/wave-fwd=$mp_dir/servers" -- -output "/wave-fwd/$1"
    cp "$mp_dir/out" "$mp_dir/table"
    mp_check "$1 processes, $2 servers: the servers counted all bytes" awk -v want="$(cat "$mp_dir/servers/$1"/* | wc -c)" \
        '/^ *server .*bytes written/ { table = 1; next } table && NF == 7 { sum += $4 }
         END { if (sum != want || want == 0) { print sum " bytes counted, " want " in the files"; exit 1 } }' "$mp_dir/table"
    same "$1 processes, $2 servers: equal to one" "$mp_dir/servers/$1"
done

# A run of 30 steps continued by another number of processes equals the uninterrupted one.
run "the first half" -n 2 -- -steps 30 -output "$mp_dir/half"
run "the second half on 3 processes" -n 3 -- -restart "$mp_dir/half/restart_000030.bin" -output "$mp_dir/half"
same "restart: equal to the whole run" "$mp_dir/half"
run "the first half through servers" -n 3 -servers 2 -iofwd "/wave-fwd=$mp_dir/servers2" -- -steps 30 -output /wave-fwd/half
run "the second half through servers" -n 2 -servers 2 -iofwd "/wave-fwd=$mp_dir/servers2" -- \
    -restart /wave-fwd/half/restart_000030.bin -output /wave-fwd/half
same "restart through servers: equal to the whole run" "$mp_dir/servers2/half"

# refuses NAME PATTERN: with the parameters as they are now, the run fails and says why
refuses() {
    "$AMPHORA_RUN" -timeout 50 -n 2 "$wave" -quiet -restart "$mp_dir/half/restart_000030.bin" -output "$mp_dir/no" \
        "$mp_dir/small.params" >"$mp_dir/said" 2>&1 </dev/null
    refused=$?
    mp_check "$1" sh -c "cat '$mp_dir/said'; [ $refused -ne 0 ] && grep -q '$2' '$mp_dir/said'"
}
echo "pulse = 0.1 0.1 0.1 1" >>"$mp_dir/small.params"
refuses "a restart file of another set-up is refused" "does not continue this run"
echo "cfl = 7" >>"$mp_dir/small.params"
refuses "a wrong value is refused with its line" "small.params:14: cfl = 7"
mp_done
