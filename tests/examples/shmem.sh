#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The OpenSHMEM-like example library and its programs, which write files by plain fopen, also through I/O servers.
. "${srcdir:-.}/tests/lib/lib.sh"
check=tests/examples/shmem_check
mp_run $check -c smp
mp_run $check -c tcp -n "2 3 7"
mp_run $check -c "tcp-smp udp" -n "3 4"

# misuse WORD PATTERN CODE
misuse() {
    timeout -k 5 30 "$AMPHORA_RUN" -n 2 -conduit smp -timeout 20 "$builddir/$check" "$1" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    [ $code -eq "$3" ] && grep -Eq "$2" "$mp_dir/out"
    mp_report $? "misuse: $1" "$mp_dir/out"
}
misuse pe 'shmem_int_p: there is no PE 2; the job has 2' 1
misuse local 'shmem_int_p: 4 bytes at .* are neither in the symmetric heap nor a variable' 1
misuse set 'PE_start 0, logPE_stride 0, PE_size 3 is no set of the job.s 2 PEs' 1
misuse free 'nothing in the symmetric heap begins at' 1
misuse exit '^' 7

# The heat does not depend on the number of processes and the network.
# heat NAME OPTIONS...: prints the total; the picture goes to $out
heat() {
    name=$1
    shift
    timeout -k 5 60 "$AMPHORA_RUN" -timeout 50 "$@" "$builddir/examples/shmem/heat" 64 100 "$out" >"$mp_dir/out" 2>&1 </dev/null &&
        cmp "$file" "$mp_dir/heat1.pgm" >>"$mp_dir/out" 2>&1
    mp_report $? "heat: $name" "$mp_dir/out"
}
file=$mp_dir/heat1.pgm out=$file
heat "one process" -n 1
for n in 2 7; do
    file=$mp_dir/heat.pgm out=$file
    heat "$n processes" -n $n
done
AMPHORA_SMP=0 heat "tcp, 4 processes" -n 4 -conduit tcp
AMPHORA_SMP=0 heat "udp, 3 processes" -n 3 -conduit udp
mkdir "$mp_dir/served"
file=$mp_dir/served/heat.pgm out=/fwd/heat.pgm
heat "its picture through I/O servers" -n 3 -servers 2 -iofwd "/fwd=$mp_dir/served"
# The same objects in a static program: no library is placed before libc there, the linker leads the calls.
libs="$builddir/.libs/libiofwd_wrap.a $builddir/.libs/libiofwd.a $builddir/.libs/libamphora.a"
objects="$builddir/examples/shmem/heat-heat.o $builddir/examples/shmem/.libs/libshmem.a"
missing=
for lib in $libs $objects; do
    [ -r "$lib" ] || missing=$lib
done
# shellcheck disable=SC2086
if [ "$missing" ]; then
    echo "# no static program: there is no $missing"
elif ! ${CC:-cc} -static -o "$mp_dir/heat" $objects "@$builddir/iofwd/calls/iofwd-wrap.args" $libs -lm -lnettle -ldl -lpthread \
    >"$mp_dir/out" 2>&1; then
    if grep -q 'cannot find -l' "$mp_dir/out"; then
        echo "# no static program: $(grep -m 1 'cannot find -l' "$mp_dir/out")"
    else
        mp_report 1 "a static program is linked" "$mp_dir/out"
    fi
else
    rm -f "$file"
    timeout -k 5 60 "$AMPHORA_RUN" -timeout 50 -n 3 -servers 2 -iofwd "/fwd=$mp_dir/served" "$mp_dir/heat" 64 100 "$out" \
        >"$mp_dir/out" 2>&1 </dev/null && cmp "$file" "$mp_dir/heat1.pgm" >>"$mp_dir/out" 2>&1
    mp_report $? "heat: static, its picture through I/O servers" "$mp_dir/out"
fi
mp_run examples/shmem/sort -n "1 3 7" -c "smp"
mp_run examples/shmem/sort -n "4" -c "tcp udp"
mp_run examples/shmem/histogram -n "1 4" -c "smp"
mp_run examples/shmem/histogram -n "3" -c "tcp-smp udp"
mp_done
