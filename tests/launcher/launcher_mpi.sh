#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of Open MPI under amphora-run, which serves PMI-1: several processes would be as many jobs of rank 0.  Libraries of the same
# names stand for the real ones; those are in tests/files/programs/fwd_mpi_real.sh.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX AMPHORA_MPI_SINGLETONS
cc=${CC:-cc}
dir=$mp_dir/lib
mkdir "$dir" "$mp_dir/kept"
export LD_LIBRARY_PATH="$dir"

# library FILE NEEDED...
library() {
    library_file=$1
    shift
    echo "int f_$(echo "$library_file" | tr -c 'a-z0-9\n' _)(void) { return 0; }" >"$mp_dir/lib.c"
    $cc -shared -fPIC -Wl,--no-as-needed "-Wl,-soname,$library_file" -o "$dir/$library_file" "$mp_dir/lib.c" "-L$dir" "$@" || exit 99
}
library libopen-pal.so.40
echo 'int PMIx_Init(void *proc, void *info, unsigned long ninfo) { return 0; }' >"$mp_dir/lib.c"
$cc -shared -fPIC -Wl,-soname,libpmix.so.2 -o "$dir/libpmix.so.2" "$mp_dir/lib.c" || exit 99
echo 'int PMIx_Init(void *, void *, unsigned long); int MPI_Init(int *c, char ***v) { return PMIx_Init(0, 0, 0); }' >"$mp_dir/lib.c"
$cc -shared -fPIC -Wl,--no-as-needed -Wl,-soname,libmpi.so.40 -o "$dir/libmpi.so.40" "$mp_dir/lib.c" "-L$dir" -l:libopen-pal.so.40 \
    -l:libpmix.so.2 || exit 99
library libmpi.so.12
library libapplication.so -l:libmpi.so.40
cat >"$mp_dir/main.c" <<'X'
#include <stdio.h>
int main(void) { puts("ran"); return 0; }
X
cat >"$mp_dir/load.c" <<'X'
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*init)(int *, char ***) = library ? (int (*)(int *, char ***))dlsym(library, "MPI_Init") : 0;
    FILE *f = argc > 2 ? fopen(argv[2], "w") : stdout;
    if (!library || !f || (init && argc == 2 && init(&argc, &argv)))
        return 9;
    puts("ran");
    return 0;
}
X
# program NAME NEEDED...
program() {
    program_name=$1
    shift
    $cc -Wl,--no-as-needed -o "$mp_dir/$program_name" "$mp_dir/main.c" "-L$dir" "$@" || exit 99
}
program direct -l:libmpi.so.40
program hidden -l:libapplication.so
program mpich -l:libmpi.so.12
program launcher -l:libopen-pal.so.40
$cc -o "$mp_dir/load" "$mp_dir/load.c" || exit 99
printf '#!%s\n' "$mp_dir/hidden" >"$mp_dir/script"
chmod +x "$mp_dir/script"

job() {
    timeout -k 5 60 "$AMPHORA_RUN" "$@" >"$mp_dir/out" 2>&1 </dev/null
}

for name in direct hidden script; do
    job -n 3 "$mp_dir/$name"
    test $? -eq 126 && grep -q 'amphora-run: .*uses Open MPI.*mpirun -n 3' "$mp_dir/out" && test "$(wc -l <"$mp_dir/out")" -eq 1
    mp_report $? "several processes of Open MPI are refused with one sentence ($name)" "$mp_dir/out"
done
for name in mpich launcher; do
    job -n 2 "$mp_dir/$name"
    test $? -eq 0 && test "$(grep -c '^ran$' "$mp_dir/out")" -eq 2
    mp_report $? "other programs start ($name)" "$mp_dir/out"
done
job -n 1 "$mp_dir/direct"
test $? -eq 0 && grep -q '^ran$' "$mp_dir/out"
mp_report $? "one process of Open MPI starts" "$mp_dir/out"
AMPHORA_MPI_SINGLETONS=1 job -n 2 "$mp_dir/direct"
test $? -eq 0 && test "$(grep -c '^ran$' "$mp_dir/out")" -eq 2
mp_report $? "AMPHORA_MPI_SINGLETONS=1: several start" "$mp_dir/out"

# What only shows when it runs, in jobs that forward: a program that a script starts, a library that is loaded later.
forwarding() {
    job -servers 1 -iofwd "/fwd=$mp_dir/kept" "$@"
}
forwarding -n 2 sh -c '"$1"; exit' sh "$mp_dir/hidden"
test $? -ne 0 && grep -q 'uses Open MPI' "$mp_dir/out" && ! grep -q '^ran$' "$mp_dir/out"
mp_report $? "a program of Open MPI that a script starts ends with the sentence" "$mp_dir/out"
forwarding -n 2 "$mp_dir/load" libmpi.so.40
test $? -ne 0 && grep -q 'uses Open MPI' "$mp_dir/out" && ! grep -q '^ran$' "$mp_dir/out"
mp_report $? "so does one that loads the library later" "$mp_dir/out"
forwarding -n 2 "$mp_dir/load" libmpi.so.40 /fwd/file
test $? -ne 0 && grep -q 'uses Open MPI' "$mp_dir/out" && ! grep -q '^ran$' "$mp_dir/out" && test ! -e "$mp_dir/kept/file"
mp_report $? "so does one that loads it before it opens a forwarded file" "$mp_dir/out"
forwarding -n 2 "$mp_dir/load" libmpi.so.12
test $? -eq 0 && test "$(grep -c '^ran$' "$mp_dir/out")" -eq 2
mp_report $? "a program that loads another MPI goes on" "$mp_dir/out"
forwarding -n 1 "$mp_dir/load" libmpi.so.40
test $? -eq 0 && grep -q '^ran$' "$mp_dir/out"
mp_report $? "one process that loads Open MPI goes on" "$mp_dir/out"
forwarding -n 2 env PMIX_NAMESPACE=job "$mp_dir/load" libmpi.so.40
test $? -eq 0 && test "$(grep -c '^ran$' "$mp_dir/out")" -eq 2
mp_report $? "so does a rank of mpirun" "$mp_dir/out"

# MPICH beside iofwd-server under a launcher of PMI-1 (its variables stand for it).
beside() {
    timeout -k 5 60 env PMI_FD=-1 PMI_RANK=0 PMI_SIZE=3 AMPHORA_SERVERS=1 "IOFWD_PREFIX=/fwd=$mp_dir/kept" \
        LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" "$@" >"$mp_dir/out" 2>&1 </dev/null
}
beside "$mp_dir/mpich"
test $? -eq 1 && grep -q 'mpich uses MPICH.*take the 1 I/O servers' "$mp_dir/out" && ! grep -q '^ran$' "$mp_dir/out"
mp_report $? "MPICH beside servers that it would take for ranks ends with a sentence" "$mp_dir/out"
beside sh -c "'$mp_dir/mpich'; exit \$?"
test $? -eq 1 && grep -q 'mpich uses MPICH' "$mp_dir/out"
mp_report $? "so does MPICH that a script starts" "$mp_dir/out"
AMPHORA_SERVERS=0 job -n 2 "$mp_dir/mpich"
test $? -eq 0 && test "$(grep -c '^ran$' "$mp_dir/out")" -eq 2
mp_report $? "MPICH under amphora-run goes on" "$mp_dir/out"
mp_done
