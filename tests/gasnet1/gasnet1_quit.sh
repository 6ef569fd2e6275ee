#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
. "${srcdir:-.}/tests/lib/lib.sh"
# quits CONDUIT SMP HOW: nodes 0 and 2 of 4 are told, and the job ends with node 1's code
quits() {
    AMPHORA_SMP=$2 timeout -k 5 40 "$AMPHORA_RUN" -n 4 -conduit "$1" -timeout 30 "$builddir/tests/gasnet1/gasnet1_quit" "$3" \
        >"$mp_dir/out" 2>&1 </dev/null
    q_code=$?
    q_told=$(grep -c 'this node was told to quit' "$mp_dir/out")
    echo "exit $q_code, $q_told were told" >>"$mp_dir/out"
    [ $q_code -eq 9 ] && [ "$q_told" = 2 ]
    mp_report $? "SIGQUIT, $1, $3" "$mp_dir/out"
}
for q_how in exit die; do
    quits smp 1 $q_how
    quits tcp 0 $q_how
done
mp_done
