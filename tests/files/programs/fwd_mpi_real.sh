#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of the distribution's MPI libraries with forwarded files: MPICH, whose transport is UCX, and Open MPI with its own transport
# and with UCX.  Both overwrite the C library's mmap and its relatives.  A program that only greets, and one with a file of each rank, one
# of all, and MPI's own file calls: under iofwd-run, the library's own launcher and amphora-run, compared with a run without forwarding.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK
server=$builddir/iofwd-server
run=$builddir/iofwd-run
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n

cat >"$mp_dir/hello.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: sum %d\n", rank, size, sum);
    MPI_Finalize();
    return 0;
}
END

# early DIR: reads a file before MPI_Init
cat >"$mp_dir/early.c" <<'END'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char path[4200], word[20] = "";
    int rank, size;
    snprintf(path, sizeof path, "%s/input", argv[1]);
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%19s", word) != 1 || fclose(f) != 0)
        return perror(path), 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d: %s\n", rank, size, word);
    MPI_Finalize();
    return 0;
}
END

# expect COMMAND...: what the others are compared with; the command gets one more argument, a local directory
expect() {
    rm -rf "$mp_dir/l"
    mkdir "$mp_dir/l"
    timeout -k 5 60 "$@" "$mp_dir/l" >"$mp_dir/raw" 2>&1 </dev/null
    expected_code=$?
    sort "$mp_dir/raw" >"$mp_dir/expected"
    fwd_tree "$mp_dir/l" >"$mp_dir/expected-tree"
}

# same NAME COMMAND...: its output and the files in the servers' directory are as expected
same() {
    same_name=$1
    shift
    rm -rf "$mp_dir/kept/"*
    timeout -k 5 60 "$@" >"$mp_dir/raw" 2>"$mp_dir/errors" </dev/null
    same_code=$?
    sort "$mp_dir/raw" >"$mp_dir/got"
    {
        echo "exit code $same_code, expected $expected_code"
        diff "$mp_dir/expected" "$mp_dir/got" && fwd_tree "$mp_dir/kept" | diff "$mp_dir/expected-tree" - && [ $same_code = $expected_code ]
        same_result=$?
        cat "$mp_dir/errors"
    } >"$mp_dir/out" 2>&1
    mp_report $same_result "$same_name" "$mp_dir/out"
}

# all_ways LIBRARY PROGRAM: with $launcher, and what has been set before each library below
all_ways() {
    library=$1 program=$2
    attached="$run -servers $mp_dir/addresses"
    expect "$program"
    same "$library, $(basename "$program"), alone under iofwd-run" $attached "$program" /fwd
    same "$library, $(basename "$program"), alone under amphora-run" \
        "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 50 "$program" /fwd

    expect $launcher -n 3 "$program"
    same "$library, $(basename "$program"), ranks under iofwd-run" $launcher -n 3 $attached "$program" /fwd
    same "$library, $(basename "$program"), the launcher under iofwd-run" $attached $launcher -n 3 "$program" /fwd
    same "$library, $(basename "$program"), $under_amphora" \
        "$AMPHORA_RUN" -n $amphora_ranks -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 50 $amphora_inner "$program" /fwd

    # hydra counts the servers as ranks of MPI, whose MPI_Init then waits for them
    [ -z "$carry" ] && return
    same "$library, $(basename "$program"), with iofwd-server as the second program" env AMPHORA_SERVERS=2 \
        "IOFWD_PREFIX=/fwd=$mp_dir/kept" $launcher $carry -n 3 "$run" "$program" /fwd : $carry -n 2 "$server"
}

# early LIBRARY: $launcher and $carry are set.  Forwarded calls before MPI_Init, by the program itself and by a shell that starts it.
early() {
    rm -rf "$mp_dir/kept/"*
    echo read >"$mp_dir/kept/input"
    second="$carry -n 2 $server"
    export AMPHORA_SERVERS=2 "IOFWD_PREFIX=/fwd=$mp_dir/kept"
    timeout -k 5 60 $launcher $carry -n 2 "$run" "$mp_dir/early" /fwd : $second >"$mp_dir/out" 2>"$mp_dir/errors" </dev/null &&
        printf 'rank 0 of 2: read\nrank 1 of 2: read\n' >"$mp_dir/wanted" && sort "$mp_dir/out" | diff "$mp_dir/wanted" - >>"$mp_dir/errors"
    mp_report $? "$1, with iofwd-server as the second program: a file is read before MPI_Init" "$mp_dir/errors"

    # shellcheck disable=SC2016 # for the shell inside
    timeout -k 5 60 $launcher $carry -n 2 "$run" sh -c 'cd /fwd && exec "$@"' sh cat input : $second >"$mp_dir/out" 2>"$mp_dir/errors" </dev/null &&
        printf 'read\nread\n' | diff - "$mp_dir/out" >>"$mp_dir/errors"
    mp_report $? "$1, with iofwd-server as the second program: a shell uses files and executes another program" "$mp_dir/errors"

    # shellcheck disable=SC2016
    timeout -k 5 60 $launcher $carry -n 2 "$run" sh -c 'cd /fwd && "$@" && "$@"' sh "$mp_dir/hello" : $second >"$mp_dir/out" 2>"$mp_dir/errors" \
        </dev/null && printf 'rank 0 of 2: sum 1\nrank 0 of 2: sum 1\nrank 1 of 2: sum 1\nrank 1 of 2: sum 1\n' >"$mp_dir/wanted" &&
        sort "$mp_dir/out" | diff "$mp_dir/wanted" - >>"$mp_dir/errors"
    mp_report $? "$1, with iofwd-server as the second program: a shell uses files before two MPI programs" "$mp_dir/errors"

    # as on several hosts
    # shellcheck disable=SC2016
    timeout -k 5 60 $launcher $carry -n 2 "$run" sh -c 'cd /fwd && OMPI_COMM_WORLD_LOCAL_SIZE=1 "$@"' sh "$mp_dir/hello" : $second \
        >"$mp_dir/out" 2>&1 </dev/null
    test $? != 0 && grep -q 'calls MPI_Init after another process of its rank' "$mp_dir/out"
    mp_report $? "$1, with iofwd-server as the second program: on several hosts that is a sentence" "$mp_dir/out"
    unset AMPHORA_SERVERS IOFWD_PREFIX
}

# compiled LIBRARY COMPILER LAUNCHER: false: it is not there, as a line says
compiled() {
    for tool in "$2" "$3"; do
        command -v "$tool" >/dev/null && continue
        mp_skip "$1" "there is no $tool"
        return 1
    done
    {
        "$2" -O1 -o "$mp_dir/hello" "$mp_dir/hello.c" && "$2" -O1 -o "$mp_dir/early" "$mp_dir/early.c" &&
            "$2" -O1 -o "$mp_dir/files" "$srcdir/tests/files/programs/fwd_mpi.c"
    } >"$mp_dir/out" 2>&1
    compiled_code=$?
    [ $compiled_code = 0 ] || mp_report $compiled_code "$1: the programs are compiled" "$mp_dir/out"
    return $compiled_code
}

mkdir "$mp_dir/kept"
"$server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" -log "$mp_dir/log" -pid-file "$mp_dir/pid" >/dev/null
if compiled "MPICH" mpicc.mpich mpiexec.hydra; then
    launcher="mpiexec.hydra" carry="" under_amphora="three ranks under amphora-run" amphora_ranks=3 amphora_inner=""
    for program in hello files; do
        all_ways "MPICH" "$mp_dir/$program"
    done

    # Both processes print the sentence, and the job ends although the server waits for them.
    timeout -k 5 30 env AMPHORA_SERVERS=1 "IOFWD_PREFIX=/fwd=$mp_dir/kept" \
        mpiexec.hydra -n 2 "$run" "$mp_dir/hello" /fwd : -n 1 "$server" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    [ $code != 0 ] && [ $code != 124 ] && grep -q 'uses MPICH, which would take the 1 I/O servers' "$mp_dir/out"
    mp_report $? "MPICH beside servers of its job ends with a sentence" "$mp_dir/out"

    # mpirun closes the connection to amphora-run, which PMI_FD names.
    if command -v mpirun.openmpi >/dev/null; then
        timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 \
            mpirun.openmpi --oversubscribe -n 2 "$mp_dir/hello" /fwd >"$mp_dir/out" 2>&1 </dev/null
        code=$?
        [ $code != 0 ] && [ $code != 124 ] && grep -q 'PMI_fd' "$mp_dir/out" && ! grep -q '^rank' "$mp_dir/out"
        mp_report $? "MPICH under Open MPI's mpirun inside amphora-run: MPICH's words and a code" "$mp_dir/out"
    fi
fi
if compiled "Open MPI" mpicc.openmpi mpirun.openmpi; then
    carry="-x AMPHORA_SERVERS -x IOFWD_PREFIX" under_amphora="mpirun under amphora-run" amphora_ranks=1
    for pml in ob1 ucx; do
        if [ $pml = ucx ] && ! ompi_info --param pml ucx 2>/dev/null | grep -q ucx; then
            mp_skip "Open MPI with UCX" "this Open MPI has no UCX"
            continue
        fi
        launcher="mpirun.openmpi --oversubscribe --mca pml $pml --mca pml_ucx_tls any --mca pml_ucx_devices any"
        amphora_inner="$launcher -n 3"
        export OMPI_MCA_pml=$pml OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any
        for program in hello files; do
            all_ways "Open MPI ($pml)" "$mp_dir/$program"
        done
        early "Open MPI ($pml)"
    done
fi
kill "$(cat "$mp_dir/pid")"
mp_until 10 test ! -e "$mp_dir/addresses"
mp_done
