#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/euler_mpi, a Fortran program with MPI that knows nothing of Amphora, with each rank attached to server (rank mod 2): built by
# iofwd-fc, and unchanged by preload, iofwd-instrument, mount and trap; with Open MPI (or what mpifort is) and with MPICH.  All files have the
# bits of a direct run.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
unset IOFWD_FC IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
trap 'for file in "$mp_dir"/pid.*; do test -f "$file" && kill "$(cat "$file")"; done; rm -rf "$mp_dir"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
example=$srcdir/examples/euler_mpi
attach="sh $example/attach.sh $mp_dir/servers"
compiler=mpifort launcher=mpirun
command -v mpifort.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null && compiler=mpifort.openmpi launcher=mpirun.openmpi
cd "$mp_dir" || exit 99
printf '&euler nx = 64, ny = 50, steps = 12, every = 4, restart_every = 6 /\n' >euler.nml
printf '&euler nx = 64, ny = 50, steps = 12, every = 4, restart_every = 6, restart_from = 6 /\n' >again.nml

names="built without and with iofwd-fc
standing servers start
a direct run
built by iofwd-fc: the files of a direct run
built by iofwd-fc: a restart gives the same files
preload: the files of a direct run
instrument: the files of a direct run
mount: the files of a direct run
trap: the files of a direct run
each rank is attached to server (rank mod 2)
without servers, the wrapped program runs as the plain one
a missing folder is reported in one sentence
MPICH: built without and with iofwd-fc
MPICH: built by iofwd-fc: the files of a direct run
MPICH: preload: the files of a direct run
MPICH: instrument: the files of a direct run
MPICH: mount: the files of a direct run
MPICH: trap: the files of a direct run"
skip_all() {
    echo "$names" | while read -r name; do echo "$name"; done >names
    while read -r name; do mp_skip "$name" "$1"; done <names
    mp_done
    exit 0
}

{ command -v $compiler && command -v $launcher; } >/dev/null || skip_all "no Fortran compiler of an MPI library here"
printf 'program p\nuse mpi\ninteger :: e\ncall MPI_Init(e)\ncall MPI_Finalize(e)\nend program p\n' >p.f90
{ $compiler p.f90 -o p && timeout -k 5 60 $launcher -n 2 ./p; } >out 2>&1 || skip_all "$compiler or $launcher does not work here"

# that NAME COMMAND...: one TAP line for a command
that() {
    that_name=$1
    shift
    mp_wanted "$that_name" || return 0
    timeout -k 5 200 "$@" >out 2>&1 </dev/null
    mp_report $? "$that_name" out
}

# shellcheck disable=SC2016
that "built without and with iofwd-fc" sh -c '"$1" -O1 -ffp-contract=off -o plain "$2/euler_mpi.f90" && "$3/iofwd-fc" "$1" -O1 -ffp-contract=off -o wrapped "$2/euler_mpi.f90"' \
    sh $compiler "$example" "$builddir"
mkdir direct kept kept/0 kept/1
# shellcheck disable=SC2016
that "standing servers start" sh -c 'for i in 0 1; do "$1/iofwd-server" -daemon -servers 1 -iofwd "/euler=$2/kept/$i" -address-file "$2/servers.$i" -pid-file "$2/pid.$i" || exit 1; done' \
    sh "$builddir" "$mp_dir"
that "a direct run" $launcher -n 4 ./plain euler.nml direct

# same NAME COMMAND...: four ranks with the command in front leave the files of a direct run, over both servers
same() {
    same_name=$1
    shift
    mp_wanted "$same_name" || return 0
    timeout -k 5 200 "$@" >out 2>&1 </dev/null
    same_code=$?
    if grep -q 'user namespaces\|/dev/fuse\|WAIT_KILLABLE' out && [ $same_code -ne 0 ]; then
        mp_skip "$same_name" "$(tail -n 1 out)"
        return
    fi
    rm -rf all
    mkdir all
    cp kept/0/* kept/1/* all/ >>out 2>&1
    [ $same_code -eq 0 ] && [ "$(find all -name 'scalar.*' | wc -l)" -eq 12 ] && diff -r direct all >>out 2>&1
    mp_report $? "$same_name" out
}

# empty: removes all files behind the servers
empty() {
    rm -rf kept/0/* kept/1/*
}

export IOFWD_PREFIX=/euler
same "built by iofwd-fc: the files of a direct run" $launcher -n 4 $attach ./wrapped euler.nml /euler
# energy.txt goes on where the run ended: back to its first lines, up to the restart
rm -f kept/*/scalar.000008* kept/*/scalar.000012* kept/*/vector.000008* kept/*/vector.000012* kept/*/restart.000012* kept/*/pressure.ppm
for file in kept/*/energy.txt; do
    head -n 2 "$file" >lines && cat lines >"$file"
done
same "built by iofwd-fc: a restart gives the same files" $launcher -n 4 $attach ./wrapped again.nml /euler
empty
same "preload: the files of a direct run" $launcher -n 4 $attach "$builddir/iofwd-run" -iofwd /euler ./plain euler.nml /euler
empty
"$builddir/iofwd-instrument" -prefix /euler -o copy plain >out 2>&1 || cat out
same "instrument: the files of a direct run" env -u IOFWD_PREFIX $launcher -n 4 $attach ./copy euler.nml /euler
where=$(cd kept && echo */scalar.000004.*)
empty
same "mount: the files of a direct run" env -u IOFWD_PREFIX $launcher -n 4 $attach "$builddir/iofwd-run" -mount ./plain euler.nml /euler
empty
same "trap: the files of a direct run" env -u IOFWD_PREFIX $launcher -n 4 $attach "$builddir/iofwd-run" -trap ./plain euler.nml /euler
that "each rank is attached to server (rank mod 2)" \
    test "$where" = "0/scalar.000004.0000 0/scalar.000004.0002 1/scalar.000004.0001 1/scalar.000004.0003"
unset IOFWD_PREFIX
mkdir local
# shellcheck disable=SC2016
that "without servers, the wrapped program runs as the plain one" sh -c '"$1" -n 4 ./wrapped euler.nml local && diff -r direct local' sh $launcher
# shellcheck disable=SC2016
that "a missing folder is reported in one sentence" sh -c '! "$1" -n 1 ./plain euler.nml nowhere >said 2>&1; grep "euler_mpi: rank 0: .*cannot be" said' sh $launcher

# ---- MPICH: the same files, whatever the MPI library ----

if ! { command -v mpifort.mpich && command -v mpirun.mpich; } >/dev/null || [ $compiler != mpifort.openmpi ]; then
    echo "$names" | grep '^MPICH: ' >left
    while read -r name; do mp_skip "$name" "no MPICH beside Open MPI here"; done <left
    mp_done
    exit 0
fi

mkdir mpich
cd mpich || exit 99
# shellcheck disable=SC2016
that "MPICH: built without and with iofwd-fc" sh -c '"$1" -O1 -ffp-contract=off -o plain "$2/euler_mpi.f90" && "$3/iofwd-fc" "$1" -O1 -ffp-contract=off -o wrapped "$2/euler_mpi.f90"' \
    sh mpifort.mpich "$example" "$builddir"
"$builddir/iofwd-instrument" -prefix /euler -o copy plain >out 2>&1 || cat out
cd ..
launcher="mpirun.mpich -n 4 $attach"
empty
same "MPICH: built by iofwd-fc: the files of a direct run" env IOFWD_PREFIX=/euler $launcher mpich/wrapped euler.nml /euler
empty
same "MPICH: preload: the files of a direct run" $launcher "$builddir/iofwd-run" -iofwd /euler mpich/plain euler.nml /euler
empty
same "MPICH: instrument: the files of a direct run" $launcher mpich/copy euler.nml /euler
empty
same "MPICH: mount: the files of a direct run" $launcher "$builddir/iofwd-run" -mount mpich/plain euler.nml /euler
empty
same "MPICH: trap: the files of a direct run" $launcher "$builddir/iofwd-run" -trap mpich/plain euler.nml /euler
mp_done
