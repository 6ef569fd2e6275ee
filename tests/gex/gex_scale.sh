# SPDX-License-Identifier: BSD-3-Clause
# Many more processes than cores: 64 on each network, everybody talks to everybody, and no process takes more than 8 MiB.
#   gex_scale.sh --table "16 32 64 128 256"     prints a line for each number and network instead (doc/scale.md)
. "${srcdir:-.}/tests/lib/lib.sh"

# The program itself, not the script around it that libtool makes for uninstalled ones.
prog=$builddir/tests/gex/gex_scale
if [ -x "$builddir/tests/gex/.libs/gex_scale" ]; then
    prog=$builddir/tests/gex/.libs/gex_scale
    LD_LIBRARY_PATH=$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
fi

# job CONDUIT PROCESSES MIB
job() {
    smp=0
    [ "$1" != smp ] || smp=1
    AMPHORA_SMP=$smp timeout -k 5 100 "$AMPHORA_RUN" -n "$2" -conduit "$1" "$prog" "$(date +%s%N)" "$3"
}

if [ "${1:-}" = --table ]; then
    for c in smp tcp udp; do
        for n in $2; do
            printf '%s ' "$c"
            job $c "$n" 1000000 </dev/null || echo "$n processes: failed"
        done
    done
    exit
fi
for c in smp tcp udp; do
    job $c 64 8 >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "64 processes on $c" "$mp_dir/out"
done
echo "1..$mp_count"
