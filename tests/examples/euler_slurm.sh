#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# examples/euler_mpi under Slurm: its batch script, run by a slurmctld and four slurmd with their munged, each on a host of its own made of
# name spaces; and srun of the unchanged program by each way in.  With Open MPI and MPICH, by PMIx and PMI-2.  All files have the bits of a
# direct run, and each server those of the ranks that are attached to it.
#
# Needs root.  Everything runs in a process name space of its own, so nothing is left however it ends.
if [ -z "${EULER_INSIDE:-}" ] && [ "$(id -u)" = 0 ] && unshare --mount --pid --fork --mount-proc --uts --net true 2>/dev/null; then
    EULER_INSIDE=1 exec unshare --mount --pid --fork --kill-child=KILL --mount-proc --propagation private sh "$0" "$@"
fi
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
unset IOFWD_FC IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_pml=ob1
example=$srcdir/examples/euler_mpi
front=ec nodes="e1 e2 e3 e4"
cd "$mp_dir" || exit 99
chmod 755 .

cat >names <<'END'
a slurmctld and four slurmd
Open MPI: built by iofwd-fc
Open MPI: a direct run
Open MPI: the batch script, by PMIx
Open MPI: each rank is attached to server (rank mod 2)
Open MPI: srun, preload
Open MPI: srun, instrument
Open MPI: srun, mount
Open MPI: srun, trap
MPICH: built by iofwd-fc
MPICH: a direct run
MPICH: the batch script, by PMI-2
MPICH: each rank is attached to server (rank mod 2)
MPICH: srun, preload
MPICH: srun, instrument
MPICH: srun, mount
MPICH: srun, trap
END
skip_all() {
    while read -r name; do mp_skip "$name" "$1"; done <names
    mp_done
    exit 0
}
[ -n "${EULER_INSIDE:-}" ] || skip_all "makes hosts of name spaces, which takes root and the right to do so"
for program in slurmctld slurmd munged sbatch srun ip nsenter setpriv gfortran; do
    command -v $program >/dev/null || PATH=$PATH:/usr/sbin:/sbin
    command -v $program >/dev/null || skip_all "there is no $program here (Debian: slurm-wlm munge iproute2 util-linux gfortran)"
done
id munge >/dev/null 2>&1 || skip_all "there is no user munge here"

# ---- hosts ----

on() {
    on_host=$1
    shift
    nsenter -t "$(cat "$mp_dir/$on_host/holder")" -n -m -u -- "$@"
}

# One host: a network address, a name, and /dev/shm and some directories of its own.
make_host() {
    mkdir -p "$1/munge" "$1/scratch" "$1/spool" "$1/tmp"
    ip netns add "$1"
    ip link add "to-$1" netns switch type veth peer name eth0 netns "$1"
    ip -n switch link set "to-$1" master bridge0 up
    ip -n "$1" addr add "10.99.8.$2/24" dev eth0
    ip -n "$1" link set eth0 up
    ip -n "$1" link set lo up
    nsenter --net="/run/netns/$1" unshare --uts --mount --propagation private sh -c 'hostname "$1" && mount -t tmpfs none /dev/shm &&
        mount --bind "$1/munge" munge && mount --bind "$1/scratch" scratch &&
        mount --bind "$1/tmp" tmp && echo $$ >"$1/holder" && exec sleep 100000' sh "$1" </dev/null >/dev/null 2>&1 &
    mp_until 20 test -s "$1/holder"
}

make_hosts() {
    mount -t tmpfs none /run && mkdir munge scratch state tmp /run/netns || return
    ip netns add switch && ip -n switch link add bridge0 type bridge && ip -n switch link set bridge0 up || return
    printf '127.0.0.1 localhost\n' >hosts
    number=1
    for host in $front $nodes; do
        echo "10.99.8.$number $host" >>hosts
        number=$((number + 1))
    done
    mount --bind hosts /etc/hosts || return
    number=1
    for host in $front $nodes; do
        make_host "$host" $number || return
        number=$((number + 1))
    done
}

write_settings() {
    cat >slurm.conf <<END
ClusterName=euler
SlurmctldHost=$front(10.99.8.1)
AuthType=auth/munge
AuthInfo=socket=$mp_dir/munge/socket
CredType=cred/munge
SlurmUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SlurmdParameters=config_overrides
MpiDefault=none
TmpFS=$mp_dir/tmp
StateSaveLocation=$mp_dir/state
SlurmdSpoolDir=$mp_dir/%n/spool
SlurmctldPidFile=$mp_dir/slurmctld.pid
SlurmdPidFile=$mp_dir/%n/slurmd.pid
SlurmctldLogFile=$mp_dir/slurmctld.log
SlurmdLogFile=$mp_dir/%n/slurmd.log
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8
END
    number=2
    for host in $nodes; do
        echo "NodeName=$host NodeAddr=10.99.8.$number CPUs=8" >>slurm.conf
        number=$((number + 1))
    done
    export SLURM_CONF="$mp_dir/slurm.conf"
}

start_slurm() {
    make_hosts && write_settings || return
    dd if=/dev/urandom of=munge.key bs=128 count=1 2>/dev/null && chown munge munge.key && chmod 400 munge.key || return
    for host in $front $nodes; do
        chown munge "$host/munge" || return
        on "$host" setpriv --reuid=munge --regid=munge --clear-groups munged --force --key-file="$mp_dir/munge.key" --socket="$mp_dir/munge/socket" \
            --pid-file="$mp_dir/munge/pid" --log-file="$mp_dir/munge/log" --seed-file="$mp_dir/munge/seed" || return
    done
    on $front slurmctld || return
    for host in $nodes; do
        on "$host" slurmd -N "$host" || return
    done
    mp_until 60 sh -c '[ "$(nsenter -t "$1" -n -m -u -- sinfo -h -o "%D %t")" = "4 idle" ]' sh "$(cat "$mp_dir/$front/holder")" && return
    on $front sinfo
    cat slurmctld.log ./*/slurmd.log
    return 1
}

# ---- one MPI library ----

# that NAME COMMAND...: one TAP line for a command
that() {
    that_name=$1
    shift
    mp_wanted "$that_name" || return 0
    timeout -k 5 200 "$@" >out 2>&1 </dev/null
    mp_report $? "$that_name" out
}

skip_library() {
    grep "^$1: " names >skipped
    while read -r name; do mp_skip "$name" "$2"; done <skipped
}

# Returns whether both servers' directories together have the files of a direct run.
equal() {
    rm -rf all
    mkdir all
    cp e3/scratch/*/* e4/scratch/*/* all/ && [ "$(find all -name 'scalar.*' | wc -l)" -eq 12 ] && diff -r direct all
}

empty() {
    for host in e3 e4; do
        on $host sh -c "rm -rf $mp_dir/scratch/*"
    done
}

# batch_script LIBRARY MPI-TYPE
batch_script() {
    empty
    rm -f "$1"/servers.*
    on $front env SLURM_MPI_TYPE="$2" SCRATCH="$mp_dir/scratch" PATH="$builddir:$PATH" \
        sbatch --wait --ntasks-per-node=2 --chdir="$mp_dir/$1" --output="$mp_dir/$1/said" "$mp_dir/$1/euler.slurm"
    code=$?
    cat "$1/said"
    [ $code = 0 ] && equal
}

# Which server has the first rank's and the second rank's files: the two ranks of e1 have one each.
attached() {
    where=$(cd e3/scratch && echo */scalar.000004.*) && where=$where/$(cd e4/scratch && echo */scalar.000004.*)
    echo "$where"
    echo "$where" | grep -q '^[^ ]*4.0000 [^ ]*4.0002/[^ ]*4.0001 [^ ]*4.0003$'
}

# srun_way LIBRARY MPI-TYPE COMMAND...: standing servers on e3 and e4, four ranks on e1 and e2 with the command
srun_way() {
    library=$1 type=$2
    shift 2
    empty
    for host in e3 e4; do
        number=$((${host#e} - 3))
        rm -f "$library/servers.$number"
        on $host mkdir -p "$mp_dir/scratch/kept"
        on $host "$builddir/iofwd-server" -daemon -servers 1 -conduit tcp -iofwd "/euler=$mp_dir/scratch/kept" \
            -address-file "$mp_dir/$library/servers.$number" -pid-file "$mp_dir/$host/server" || return
    done
    on $front env IOFWD_PREFIX=/euler XDG_RUNTIME_DIR="$mp_dir/tmp" srun --chdir="$mp_dir/$library" -w e1,e2 -N 2 -n 4 --ntasks-per-node=2 --mpi="$type" \
        sh "$example/attach.sh" "$mp_dir/$library/servers" "$@" euler.nml /euler
    code=$?
    kill "$(cat e3/server)" "$(cat e4/server)"
    mp_until 20 test ! -e e3/server && mp_until 20 test ! -e e4/server # the next servers have the same files
    [ $code = 0 ] || tail -n 20 e1/slurmd.log e2/slurmd.log
    [ $code = 0 ] && equal
}

# ways NAME LIBRARY MPI-TYPE: the program unchanged, by each way in
ways() {
    that_way() {
        way_name=$1
        shift
        mp_wanted "$way_name" || return 0
        srun_way "$@" >out 2>&1 </dev/null
        way_code=$?
        if [ $way_code -ne 0 ] && grep -q 'user namespaces\|/dev/fuse\|WAIT_KILLABLE' out; then
            mp_skip "$way_name" "$(grep 'user namespaces\|/dev/fuse\|WAIT_KILLABLE' out | tail -n 1)"
        else
            mp_report $way_code "$way_name" out
        fi
    }
    that_way "$1: srun, preload" "$2" "$3" "$builddir/iofwd-run" -iofwd /euler ./plain
    "$builddir/iofwd-instrument" -prefix /euler -o "$2/copy" "$2/plain" >out 2>&1 || cat out
    that_way "$1: srun, instrument" "$2" "$3" env -u IOFWD_PREFIX ./copy
    that_way "$1: srun, mount" "$2" "$3" env -u IOFWD_PREFIX "$builddir/iofwd-run" -mount ./plain
    that_way "$1: srun, trap" "$2" "$3" env -u IOFWD_PREFIX "$builddir/iofwd-run" -trap ./plain
}

# build COMPILER: plain and euler_mpi in this directory
build() {
    "$1" -O1 -ffp-contract=off -o plain "$example/euler_mpi.f90" &&
        "$builddir/iofwd-fc" "$1" -O1 -ffp-contract=off -o euler_mpi "$example/euler_mpi.f90" &&
        cp "$example/attach.sh" "$example/euler.slurm" .
}

# library NAME SUFFIX MPI-TYPE PMI-NAME
library() {
    command -v "mpifort.$2" >/dev/null && command -v "mpirun.$2" >/dev/null || {
        skip_library "$1" "no Fortran compiler of $1 here"
        return
    }
    mkdir "$2"
    cd "$2" || exit 99
    printf '&euler nx = 64, ny = 50, steps = 12, every = 4, restart_every = 6 /\n' >euler.nml
    build "mpifort.$2" >../out 2>&1
    cd ..
    mp_report $? "$1: built by iofwd-fc" out
    rm -rf direct
    mkdir direct
    that "$1: a direct run" "mpirun.$2" -n 4 "$2/plain" "$2/euler.nml" direct
    mp_wanted "$1: the batch script, by $4" && {
        batch_script "$2" "$3" >out 2>&1
        mp_report $? "$1: the batch script, by $4" out
    }
    mp_wanted "$1: each rank is attached to server (rank mod 2)" && {
        attached >out 2>&1
        mp_report $? "$1: each rank is attached to server (rank mod 2)" out
    }
    ways "$1" "$2" "$3"
}

start_slurm >out 2>&1
code=$?
mp_report $code "a slurmctld and four slurmd" out
if [ $code = 0 ]; then
    library "Open MPI" openmpi pmix PMIx
    library "MPICH" mpich pmi2 PMI-2
else
    skip_library "Open MPI" "Slurm did not start"
    skip_library "MPICH" "Slurm did not start"
fi
mp_done
