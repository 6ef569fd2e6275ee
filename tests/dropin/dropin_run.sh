#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# GASNet's launchers, programs started without a launcher, and which conduit a program uses.
. "${srcdir:-.}/tests/lib/lib.sh"
bin=$builddir/dropin
jobs=$builddir/tests/dropin/dropin_job
unset AMPHORA_CONDUIT GASNET_PSHM_NODES GASNET_SUPERNODE_MAXSIZE

# says NAME LINES PATTERN COMMAND...: the command succeeds and prints LINES lines that match
says() {
    s_name=$1 s_lines=$2 s_pattern=$3
    shift 3
    timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    s_code=$?
    s_found=$(grep -Ec -- "$s_pattern" "$mp_dir/out")
    [ $s_code -eq 0 ] && [ "$s_found" = "$s_lines" ]
    s_ok=$?
    [ $s_ok -eq 0 ] || echo "exit $s_code, $s_found lines match $s_pattern" >>"$mp_dir/out"
    mp_report $s_ok "$s_name" "$mp_dir/out"
}

# refuses NAME PATTERN COMMAND...: the command fails by its own exit code with a sentence that matches
refuses() {
    r_name=$1 r_pattern=$2
    shift 2
    timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    r_code=$?
    [ $r_code -ne 0 ] && [ $r_code -lt 124 ] && grep -Eq -- "$r_pattern" "$mp_dir/out"
    mp_report $? "$r_name" "$mp_dir/out"
}

# The conduit that a program uses by default, and what overrides it.
says "a program built for smp" 3 'over smp built SMP' "$AMPHORA_RUN" -n 3 "${jobs}_smp"
says "a program built for tcp" 3 'over tcp built TCP' "$AMPHORA_RUN" -n 3 "${jobs}_tcp"
says "a program built for udp" 2 'over udp built UDP' "$AMPHORA_RUN" -n 2 "${jobs}_udp"
says "a program built for nothing" 2 'over smp built AMPHORA' "$AMPHORA_RUN" -n 2 "$jobs"
says "-conduit wins" 2 'over smp built TCP' "$AMPHORA_RUN" -n 2 -conduit smp "${jobs}_tcp"
says "AMPHORA_CONDUIT wins" 2 'over tcp built SMP' env AMPHORA_CONDUIT=tcp "$AMPHORA_RUN" -n 2 "${jobs}_smp"
refuses "smp on two hosts" 'smp \(for which this program was built\) reaches one host only' "$AMPHORA_RUN" -n 2 -N 2 "${jobs}_smp"

# gasnetrun.
says "gasnetrun_smp" 3 'node ./3 sum 6 over smp .* args a b  c$' "$bin/gasnetrun_smp" -n 3 "$jobs" a 'b  c'
says "gasnetrun_tcp" 3 'sum 6 over tcp' "$bin/gasnetrun_tcp" -np 3 -- "$jobs"
says "gasnetrun_ofi" 2 'sum 3 over tcp' "$bin/gasnetrun_ofi" --n=2 "$jobs"
says "gasnetrun_udp" 2 'sum 3 over udp' "$bin/gasnetrun_udp" -n 2 "$jobs"
says "amudprun" 2 'sum 3 over udp' "$bin/amudprun" -np 2 "$jobs"
refuses "gasnetrun_ibv without verbs" 'conduit verbs' "$bin/gasnetrun_ibv" -n 2 "$jobs"
says "AMPHORA_CONDUIT wins over gasnetrun's name" 2 'over tcp' env AMPHORA_CONDUIT=tcp "$bin/gasnetrun_smp" -n 2 "$jobs"
says "options without effect" 2 'sum 3' "$bin/gasnetrun_tcp" -n 2 -c 2 -E PATH,HOME -spawner=fork -k "$jobs"
says "-t starts nothing" 0 'sum' "$bin/gasnetrun_tcp" -n 2 -t "$jobs"
says "-t says what it would do" 1 'amphora-run.* -n 2 .*-conduit tcp' "$bin/gasnetrun_tcp" -n 2 -t "$jobs"
says "-v" 1 'gasnetrun_smp: .*amphora-run' "$bin/gasnetrun_smp" -n 2 -v "$jobs"
says "GASNET_SPAWN_VERBOSE" 1 'gasnetrun_smp: .*amphora-run' env GASNET_SPAWN_VERBOSE=1 "$bin/gasnetrun_smp" -n 2 "$jobs"
says "-N" 5 'hosts 2 supernodes 2' "$bin/gasnetrun_tcp" -n 5 -N 2 "$jobs"
says "-N deals runs" 1 'compute +2 +2 +host0' "$bin/gasnetrun_tcp" -n 5 -N 2 -v "$jobs"
says "-N alone" 2 'sum 3 .*hosts 2' "$bin/gasnetrun_tcp" -N 2 "$jobs"
says "GASNET_SSH_SERVERS" 4 'hosts 2 supernodes 2' env GASNET_SSH_SERVERS="hostA hostB" "$bin/gasnetrun_tcp" -n 4 "$jobs"
printf 'host1\n# a comment\nhost2\nhost3\n' >"$mp_dir/nodes"
says "GASNET_SSH_NODEFILE" 4 'hosts 2 supernodes 2' env GASNET_SSH_NODEFILE="$mp_dir/nodes" "$bin/gasnetrun_tcp" -n 4 -N 2 "$jobs"
says "servers" 2 'node ./2 sum 3' "$bin/gasnetrun_tcp" -n 2 -servers 1 "$jobs"
mkdir "$mp_dir/data"
echo forwarded >"$mp_dir/data/file"
says "forwarding" 1 '^forwarded$' "$bin/gasnetrun_smp" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/data" cat /fwd/file
PMIRUN_CMD="$AMPHORA_RUN -n %N %C" MPIRUN_CMD="$AMPHORA_RUN -n %N %P %A 100%%"
export PMIRUN_CMD MPIRUN_CMD
says "-spawner pmi" 2 'sum 3 over tcp .* args x y$' "$bin/gasnetrun_tcp" -n 2 -spawner pmi "$jobs" 'x y'
says "-spawner mpi" 2 'sum 3 over tcp .* args x y 100%$' "$bin/gasnetrun_tcp" -n 2 -spawner mpi "$jobs" x y
says "GASNET_TCP_SPAWNER" 1 'gasnetrun_tcp: .* -n 2 ' env GASNET_TCP_SPAWNER=pmi "$bin/gasnetrun_tcp" -n 2 -t "$jobs"
unset PMIRUN_CMD MPIRUN_CMD
says "-help" 1 '^usage: gasnetrun_tcp -n N' "$bin/gasnetrun_tcp" -help
says "-version" 1 '^amphora-run .*[0-9]$' "$bin/gasnetrun_tcp" -version
refuses "no program" 'no program was given' "$bin/gasnetrun_tcp" -n 2
refuses "no number" 'say how many processes' "$bin/gasnetrun_tcp" "$jobs"
refuses "a bad number" '-n takes a number above 0, not "many"' "$bin/gasnetrun_tcp" -n many "$jobs"
refuses "an unknown option" 'there is no option -frobnicate' "$bin/gasnetrun_tcp" -n 2 -frobnicate "$jobs"
refuses "an unknown spawner" 'there is no spawner carrier' "$bin/gasnetrun_tcp" -n 2 -spawner carrier "$jobs"
refuses "the program's exit code" 'exit code 7' "$bin/gasnetrun_tcp" -n 2 sh -c 'exit 7'

# Started without a launcher.
says "an smp program by itself" 1 'node 0/1 sum 1 over smp' "${jobs}_smp"
says "an smp program and GASNET_PSHM_NODES" 3 'node ./3 sum 6 over smp .* args a b$' env GASNET_PSHM_NODES=3 "${jobs}_smp" a b
says "a udp program and its number" 3 'node ./3 sum 6 over udp .* args a b$' "${jobs}_udp" 3 a b
says "a udp program without a number" 1 'node 0/1 .* args a b$' "${jobs}_udp" a b
says "a udp program in a job keeps its arguments" 2 'node ./2 .* args 3 a$' "$bin/gasnetrun_udp" -n 2 "${jobs}_udp" 3 a
says "arguments whose list has no end" 3 'node ./3 sum 6 over udp .* args a b$' env DROPIN_ARGUMENTS=no-end "${jobs}_udp" 3 a b
says "no arguments, and no end" 1 'node 0/1 .* args$' env DROPIN_ARGUMENTS=no-end "${jobs}_udp"
says "a client that has no arguments keeps the program's" 3 'node ./3 sum 6 over smp .* args a  b$' env DROPIN_ARGUMENTS=none \
    GASNET_PSHM_NODES=3 "${jobs}_smp" 'a  b'
says "GASNET_PSHM_NODES is smp's" 1 'node 0/1' env GASNET_PSHM_NODES=3 "${jobs}_tcp"

# Shared memory among some of the processes only; other variables.
says "GASNET_SUPERNODE_MAXSIZE" 5 'sum 15 over tcp .*hosts 1 supernodes 3' env GASNET_SUPERNODE_MAXSIZE=2 "$bin/gasnetrun_tcp" -n 5 "$jobs"
says "GASNET_SUPERNODE_MAXSIZE and smp" 3 'over smp .*supernodes 1' env GASNET_SUPERNODE_MAXSIZE=1 "$bin/gasnetrun_smp" -n 3 "$jobs"
mkdir "$mp_dir/tmp"
says "GASNET_TMPDIR" 1 "^$mp_dir/tmp/amphora" env GASNET_TMPDIR="$mp_dir/tmp" "$bin/gasnetrun_smp" -n 1 printenv AMPHORA_JOB
says "a conduit's variable is known, with the reason" 1 'GASNET_OFI_NUM_BBUFS.*buffers and limits follow' \
    env GASNET_OFI_NUM_BBUFS=3 "$builddir/amphora-info" -c
mp_done
