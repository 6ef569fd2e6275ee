#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of other languages and models on forwarded files: Fortran's file forms; an OpenMPI program of 4 ranks, each a client of its own.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

if command -v gfortran >/dev/null; then
    if gfortran -O1 -o "$mp_dir/fortran" "$srcdir/tests/files/programs/fwd_fortran.f90" >"$mp_dir/out" 2>&1; then
        fwd_both "Fortran" "$mp_dir/fortran"
    else
        mp_report 1 "Fortran: the program compiles" "$mp_dir/out"
    fi
else
    fwd_skip "Fortran" "no gfortran on this machine"
fi

# An MPI program's own start-up makes sessions of its own, so that what it leaves is compared, and the lines that it prints.
# mpi_skip REASON
mpi_skip() {
    fwd_skip "OpenMPI, 4 ranks" "$1"
    mp_skip "OpenMPI: each rank was a client of its own" "$1"
    mp_skip "OpenMPI: rank mod S is the server" "$1"
}

if command -v mpicc >/dev/null && command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    printf '#include <mpi.h>\n' >"$mp_dir/mpi_h.c"
    if ! mpicc -c -o "$mp_dir/mpi_h.o" "$mp_dir/mpi_h.c" 2>"$mp_dir/out"; then
        mpi_skip "Open MPI is here without its headers (libopenmpi-dev)"
    elif mpicc -O1 -o "$mp_dir/mpi" "$srcdir/tests/files/programs/fwd_mpi.c" >"$mp_dir/out" 2>&1; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
        OMPI_MCA_plm_rsh_agent=true OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1
        export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_plm_rsh_agent \
            OMPI_MCA_btl OMPI_MCA_mpi_yield_when_idle
        # the directory first, then the scratch directory, which the program does not need
        printf '#!/bin/sh\nexec mpirun -n 4 %s "$1"\n' "$mp_dir/mpi" >"$mp_dir/mpi.sh"
        chmod +x "$mp_dir/mpi.sh"
        fwd_both "OpenMPI, 4 ranks" "$mp_dir/mpi.sh"
        joined=$(grep -c '^  client .*bytes written' "$mp_dir/stats")
        [ "$joined" -ge 4 ]
        mp_report $? "OpenMPI: each rank was a client of its own ($joined clients)" "$mp_dir/stats"
        busy=$(sed -n 's/^  client .* of server \([0-9]*\): .*/\1/p' "$mp_dir/stats" | sort | uniq -c | awk '$1 == 2' | wc -l)
        [ "$busy" = 2 ]
        mp_report $? "OpenMPI: rank mod S is the server" "$mp_dir/stats"
    else
        mp_report 1 "OpenMPI: the program compiles" "$mp_dir/out"
    fi
else
    mpi_skip "no Open MPI on this machine"
fi
mp_done
