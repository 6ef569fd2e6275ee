#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Many starts of a job with I/O servers under another launcher (FWD_STARTS, 20; the nightly run: 1000): each one ends well, or with a
# sentence that says why.  An exit code without a word is a failure.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 AMPHORA_SERVERS=1 IOFWD_PREFIX="/fwd=$mp_dir/kept"
server=$builddir/iofwd-server
run=$builddir/iofwd-run
mkdir "$mp_dir/kept"

# hydra PROGRAM..., open_mpi PROGRAM...: two ranks and a server
hydra() {
    mpiexec.hydra -n 2 "$@" : -n 1 "$server"
}
open_mpi() {
    mpirun.openmpi --oversubscribe -x AMPHORA_SERVERS -x IOFWD_PREFIX -n 2 "$@" : -x AMPHORA_SERVERS -x IOFWD_PREFIX -n 1 "$server"
}

# starts LAUNCHER COMMAND
starts() {
    starts_name="${FWD_STARTS:-20} starts under $1: each ends well"
    if ! command -v "$2" >/dev/null; then
        mp_skip "$starts_name" "there is no $2"
        mp_skip "no start under $1 ends without a word" "there is no $2"
        return
    fi
    : >"$mp_dir/failed"
    silent=0 failed=0 n=0
    while [ $n -lt "${FWD_STARTS:-20}" ]; do
        n=$((n + 1))
        "$1" timeout -k 5 60 "$run" sh -c 'echo "start $1" >/fwd/$$; rm /fwd/$$' sh $n >"$mp_dir/one" 2>&1 </dev/null
        code=$?
        [ $code -eq 0 ] && continue
        failed=$((failed + 1))
        grep -q '^amphora\|^iofwd' "$mp_dir/one" || silent=$((silent + 1))
        { echo "start $n: exit code $code"; cat "$mp_dir/one"; } >>"$mp_dir/failed"
    done
    test $failed -eq 0
    mp_report $? "$starts_name" "$mp_dir/failed"
    test $silent -eq 0
    mp_report $? "no start under $1 ends without a word" "$mp_dir/failed"
}
starts hydra mpiexec.hydra
starts open_mpi mpirun.openmpi
mp_done
