#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recorder's calls of MPI-IO, with each MPI library that is here: what each call moved and where, by C, Fortran and mpi_f08; the file calls
# within them; errors, a killed rank, a library that is loaded for itself, another tool on the profiling interface; and strace's lines of a run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
unset AMPHORA_JOB IOFWD_PREFIX
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
export UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n XDG_RUNTIME_DIR="$mp_dir/none"
mkdir "$mp_dir/none" "$mp_dir/work"

cat >"$mp_dir/io.c" <<'C'
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRY(call) \
    if ((call) != MPI_SUCCESS) \
        return fprintf(stderr, "%s\n", #call), 1

int run(int argc, char **argv)
{
    int rank, data[256] = { 0 }, block[1] = { 64 }, all[1] = { 128 }, from[1];
    MPI_File f;
    MPI_Status status;
    MPI_Request request, two[2];
    MPI_Datatype part;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && strcmp(argv[2], "killed") == 0) {
        TRY(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &f));
        if (rank == 1)
            kill(getpid(), SIGKILL);
        TRY(MPI_File_sync(f));
        TRY(MPI_File_close(&f));
        return 1;
    }

    if (MPI_File_open(MPI_COMM_SELF, "/nonexistent/a", MPI_MODE_RDONLY, MPI_INFO_NULL, &f) == MPI_SUCCESS)
        return 1;
    TRY(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &f));
    TRY(MPI_File_set_size(f, 4096));
    TRY(MPI_File_write_at(f, rank * 1000, data, 100, MPI_INT, MPI_STATUS_IGNORE));
    TRY(MPI_File_write_at_all(f, rank * 1000, data, 200, MPI_INT, &status));
    TRY(MPI_File_sync(f));
    MPI_Barrier(MPI_COMM_WORLD);
    TRY(MPI_File_seek(f, 8, MPI_SEEK_SET));
    TRY(MPI_File_read(f, data, 10, MPI_INT, &status));
    TRY(MPI_File_read(f, data, 10, MPI_INT, MPI_STATUS_IGNORE));
    TRY(MPI_File_iread_at(f, 16, data, 5, MPI_INT, &request));
    MPI_Wait(&request, &status);
    TRY(MPI_File_iwrite_at(f, rank * 1000, data, 100, MPI_INT, &two[0]));
    TRY(MPI_File_iread_at(f, 24, data + 100, 5, MPI_INT, &two[1]));
    usleep(20000);
    TRY(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    TRY(MPI_File_read_at(f, 4090, data, 5, MPI_INT, &status)); /* six bytes are left */

    from[0] = rank * 64;
    MPI_Type_create_subarray(1, all, block, from, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    TRY(MPI_File_set_view(f, 512, MPI_INT, part, "native", MPI_INFO_NULL));
    TRY(MPI_File_write_all(f, data, 64, MPI_INT, &status));
    TRY(MPI_File_read_at_all_begin(f, 0, data, 64, MPI_INT));
    TRY(MPI_File_read_at_all_end(f, data, &status));
    TRY(MPI_File_close(&f));
    MPI_Type_free(&part);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        TRY(MPI_File_delete(argv[1], MPI_INFO_NULL));
    MPI_Finalize();
    return 0;
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
    return run(argc, argv);
}
#endif
C
cat >"$mp_dir/load.c" <<'C'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    int (*run)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "run") : NULL;
    if (!run)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    return run(argc - 1, argv);
}
C
cat >"$mp_dir/tool.c" <<'C'
#include <mpi.h>
int MPI_File_write_at(MPI_File f, MPI_Offset at, const void *data, int n, MPI_Datatype type, MPI_Status *status)
{
    return PMPI_File_write_at(f, at, data, n, type, status);
}
C
cat >"$mp_dir/io.f90" <<'F'
program io
#ifdef F08
  use mpi_f08
  type(MPI_File) :: f
  type(MPI_Status) :: status
#else
  use mpi
  integer :: f, status(MPI_STATUS_SIZE)
#endif
  integer :: e, rank, x(100)
  character(200) :: name
  integer(MPI_OFFSET_KIND) :: at
  x = 1
  call MPI_Init(e)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, e)
  call get_command_argument(1, name)
  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, f, e)
  at = rank * 400
  call MPI_File_write_at_all(f, at, x, 100, MPI_INTEGER, status, e)
  call MPI_File_read_at(f, at, x, 50, MPI_INTEGER, MPI_STATUS_IGNORE, e)
  call MPI_File_close(f, e)
  call MPI_Finalize(e)
end program io
F

# What a rank does: name, whether it failed, offset, length, result; RANK stands for its offset.
wanted_c='MPI_File_open|1|||-1
MPI_File_open|0|||0
MPI_File_set_size|0|4096||0
MPI_File_write_at|0|RANK000|400|400
MPI_File_write_at_all|0|RANK000|800|800
MPI_File_sync|0|||0
MPI_File_seek|0|8||0
MPI_File_read|0|8|40|40
MPI_File_read|0|48|40|40
MPI_File_iread_at|0|16|20|0
MPI_async_read|0|16|20|20
MPI_File_iwrite_at|0|RANK000|400|0
MPI_async_write|0|RANK000|400|400
MPI_File_iread_at|0|24|20|0
MPI_async_read|0|24|20|20
MPI_File_read_at|0|4090|20|6
MPI_File_set_view|0|512||0
MPI_File_write_all|0|VIEW|256|256
MPI_File_read_at_all_begin|0|VIEW|256|0
MPI_File_read_at_all_end|0|||256
MPI_File_close|0|||0'
wanted_f='MPI_File_open|0|||0
MPI_File_write_at_all|0|FORT|400|400
MPI_File_read_at|0|FORT|200|200
MPI_File_close|0|||0'

# of_ranks TEXT: what both ranks do
of_ranks() {
    echo "$1" | sed 's/RANK000/0/; s/VIEW/512/; s/FORT/0/'
    echo "$1" | sed 's/RANK/1/; s/VIEW/768/; s/FORT/400/'
}

# sql DIR QUERY: the answer's rows, without the names of its columns
sql() {
    "$trace" sql "$1" "$2" -csv | tail -n +2 | tr -d '"\r'
}

calls="SELECT name || '|' || failed || '|' || coalesce(offset, '') || '|' || coalesce(length, '') || '|' || result FROM calls WHERE side = 'mpi-io'
    AND name <> 'MPI_File_delete' ORDER BY rank, start_ns"
# File calls on the data that are in no call of MPI-IO of their thread's process.
outside="SELECT count(*) FROM calls c WHERE path LIKE '%/data' AND side = 'local' AND NOT async AND NOT EXISTS
    (SELECT 1 FROM calls m WHERE m.side = 'mpi-io' AND m.process = c.process AND m.start_ns <= c.start_ns AND m.end_ns >= c.end_ns)"

# same NAME WANTED COMMAND...: the records of two ranks
same() {
    same_name=$1 same_wanted=$2
    shift 2
    mp_wanted "$same_name" || return 0
    rm -rf "$mp_dir/r" "$mp_dir/data"
    mkdir "$mp_dir/r"
    timeout -k 5 100 "$mpirun" -n 2 "$run" -record "$mp_dir/r" "$@" >"$mp_dir/out" 2>&1 </dev/null
    same_status=$?
    of_ranks "$same_wanted" >"$mp_dir/wanted"
    sql "$mp_dir/r" "$calls" >"$mp_dir/got" 2>>"$mp_dir/out"
    diff "$mp_dir/wanted" "$mp_dir/got" >>"$mp_dir/out" 2>&1 && test $same_status = 0 && test "$(sql "$mp_dir/r" "$outside")" = 0
    mp_report $? "$same_name" "$mp_dir/out"
}

names="C: each call, what it moved and where
the file calls that they cause are within them
a request lasts until its end is seen
an error has its class
a library that is loaded for itself
another tool on the profiling interface: recorded once
a killed rank: its last call and that of the other are there
every line of strace on the file has a record
Fortran, mpi
Fortran, mpi_f08"

for library in openmpi mpich; do
    mpicc=mpicc.$library mpirun=mpirun.$library
    if [ ! -x "$trace" ] || ! { command -v $mpicc && command -v $mpirun; } >/dev/null; then
        echo "$names" >"$mp_dir/names"
        while read -r name; do mp_skip "$library: $name" "no $mpicc here, or iofwd-trace is not built"; done <"$mp_dir/names"
        continue
    fi
    # shellcheck disable=SC2086
    $mpicc -w -o "$mp_dir/io" "$mp_dir/io.c" && $mpicc -w -DLIBRARY -shared -fPIC -o "$mp_dir/io.so" "$mp_dir/io.c" &&
        ${CC:-cc} -o "$mp_dir/load" "$mp_dir/load.c" -ldl && $mpicc -shared -fPIC -o "$mp_dir/tool.so" "$mp_dir/tool.c" || exit 99

    same "$library: C: each call, what it moved and where" "$wanted_c" "$mp_dir/io" "$mp_dir/data"
    inside=$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE path LIKE '%/data' AND side = 'local' AND class IN ('open', 'read', 'write', 'close')")
    echo "$inside file calls" >"$mp_dir/out"
    test "$inside" -ge 8 && test "$(sql "$mp_dir/r" "$outside")" = 0
    mp_report $? "$library: the file calls that they cause are within them" "$mp_dir/out"
    sql "$mp_dir/r" "SELECT name, ns, async FROM calls WHERE name LIKE 'MPI_async%' OR name LIKE 'MPI_File_i%'" >"$mp_dir/out"
    test "$(sql "$mp_dir/r" "SELECT sum(ns > 19000000) || ' ' || count(*) || ' ' || min(ns > 0) FROM calls WHERE async AND side = 'mpi-io'")" = "4 6 1"
    mp_report $? "$library: a request lasts until its end is seen" "$mp_dir/out"
    sql "$mp_dir/r" "SELECT errno, path FROM calls WHERE side = 'mpi-io' AND failed" >"$mp_dir/out"
    printf '#include <mpi.h>\n#include <stdio.h>\nint main(void) { return printf("%%d,/nonexistent/a\\n", MPI_ERR_NO_SUCH_FILE) < 0; }\n' >"$mp_dir/class.c"
    $mpicc -o "$mp_dir/class" "$mp_dir/class.c" && test "$(sort -u "$mp_dir/out")" = "$("$mp_dir/class")"
    mp_report $? "$library: an error has its class" "$mp_dir/out"
    same "$library: a library that is loaded for itself" "$wanted_c" "$mp_dir/load" "$mp_dir/data" "$mp_dir/io.so"
    # shellcheck disable=SC2016
    same "$library: another tool on the profiling interface: recorded once" "$wanted_c" sh -c 'LD_PRELOAD="$LD_PRELOAD $3" exec "$1" "$2"' sh "$mp_dir/io" "$mp_dir/data" "$mp_dir/tool.so"

    rm -rf "$mp_dir/r"
    mkdir "$mp_dir/r"
    timeout -k 5 60 "$mpirun" -n 2 "$run" -record "$mp_dir/r" "$mp_dir/io" "$mp_dir/data" killed >"$mp_dir/out" 2>&1 </dev/null
    sql "$mp_dir/r" "SELECT * FROM calls WHERE side = 'mpi-io'" >>"$mp_dir/out"
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'MPI_File_open' AND side = 'mpi-io'")" = 2 &&
        test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'kill' OR name LIKE 'MPI_File_%' AND rank = 1")" = 1
    mp_report $? "$library: a killed rank: its last call and that of the other are there" "$mp_dir/out"

    if command -v python3 >/dev/null && command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
        rm -rf "$mp_dir/r" "$mp_dir/data"
        timeout -k 5 100 strace -f -y -ttt -T -s 4096 -o "$mp_dir/strace" "$run" -record "$mp_dir/r" "$mp_dir/io" "$mp_dir/data" </dev/null >"$mp_dir/said" 2>&1
        "$trace" sql "$mp_dir/r" "SELECT c.tid, c.name, c.fd, c.result, c.path, (c.start_ns + (SELECT zero_ns FROM losses)) / 1e9 AS start,
            (c.end_ns + (SELECT zero_ns FROM losses)) / 1e9 AS end FROM calls c WHERE side = 'local'" -json >"$mp_dir/lines" 2>>"$mp_dir/said"
        # the rest is the MPI library's start: sockets, shared memory, what it reads about the machine
        grep -E "^[0-9]+ +[0-9.]+ (execve|clone3?|v?fork|<)|$mp_dir/data|$mp_dir/r/" "$mp_dir/strace" >"$mp_dir/lines.strace"
        python3 "$srcdir/tests/files/trace/record_check.py" "$mp_dir/lines.strace" "$mp_dir/lines" "$mp_dir/r/" >"$mp_dir/out" 2>&1
        mp_report $? "$library: every line of strace on the file has a record" "$mp_dir/out"
    else
        mp_skip "$library: every line of strace on the file has a record" "no strace or python3 here, or it may not trace"
    fi

    for interface in mpi mpi_f08; do
        define=-DF90
        [ $interface = mpi_f08 ] && define=-DF08
        if command -v "mpifort.$library" >/dev/null && "mpifort.$library" -cpp $define -J "$mp_dir" -o "$mp_dir/iof" "$mp_dir/io.f90" >"$mp_dir/out" 2>&1; then
            same "$library: Fortran, $interface" "$wanted_f" "$mp_dir/iof" "$mp_dir/data"
        else
            mp_skip "$library: Fortran, $interface" "no mpifort.$library here, or it lacks $interface"
        fi
    done
done
mp_done
