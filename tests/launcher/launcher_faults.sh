#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of a compute process, a server, an agent and the launcher, in each phase of a job whose processes have children and
# children in sessions of their own: the job ends within two seconds, says why in one line, keeps the exit code, leaves nothing.
. "${srcdir:-.}/tests/lib/lib.sh"
job=$builddir/tests/launcher/launcher_job
limit_ms=2000
printf 'hostA:2\nhostB:1\nhostB:1\n' >"$mp_dir/hosts"

ready() {
    [ -e "$dir/ready/0" ] && [ -e "$dir/ready/1" ] && [ -e "$dir/ready/2" ] && [ -e "$dir/ready/3" ]
}

# fault PHASE VICTIM EXPECTED-CODE WORDS: a second try where only the time was too long, since other work on the machine can do that
fault() {
    try_fault "$1" "$2" "$3" "$4" first
    if [ $ok -eq 0 ] && [ $took -gt $limit_ms ]; then try_fault "$1" "$2" "$3" "$4" second; fi
    [ $took -le $limit_ms ] || ok=1
    mp_report $ok "kill -9 of $2 in phase $1 ($took ms)" "$out"
}

try_fault() {
    dir=$mp_dir/$1-$2-$5 mark=$$-$1-$2-$5
    mkdir -p "$dir/ready" "$dir/tmp"
    out=$dir/out
    # exec: so that $! is the launcher itself, not a shell; libtool's wrapper execs as well
    (
        export TMPDIR="$dir/tmp" FAULT_MARK="$mark" JOB_MODE="$1" JOB_ARGUMENT="$dir/ready"
        exec "$AMPHORA_RUN" -n 3 -servers 1 -hosts "$mp_dir/hosts" -server-program "$job" -timeout 30 "$job"
    ) >"$out" 2>&1 </dev/null &
    launcher=$!
    mp_until 10 ready || echo "the job did not get ready" >>"$out"
    before=$(mp_marked "FAULT_MARK=$mark" | wc -l)
    case $2 in
    compute) victim=$(cut -d' ' -f1 "$dir/ready/1") ;;
    server) victim=$(cut -d' ' -f1 "$dir/ready/3") ;;
    agent) victim=$(cut -d' ' -f2 "$dir/ready/0") ;;
    launcher) victim=$launcher ;;
    esac
    start=$(mp_now_ms)
    kill -9 "$victim"
    wait "$launcher" 2>/dev/null
    code=$?
    mp_until 10 mp_none_marked "FAULT_MARK=$mark"
    took=$(($(mp_now_ms) - start))
    left=$(mp_marked "FAULT_MARK=$mark" | wc -l)
    ok=0
    [ $code -eq "$3" ] || ok=1
    [ "$before" -ge 13 ] || ok=1 # launcher, 2 agents, 4 processes with 2 children each; less where it went wrong
    [ "$left" -eq 0 ] || ok=1
    [ -z "$(ls -A "$dir/tmp")" ] || ok=1
    lines=$(grep -c "^amphora-run:" "$out")
    if [ "$2" = launcher ]; then
        [ "$lines" -eq 0 ] || ok=1
    else
        [ "$lines" -eq 1 ] && grep -q "$4" "$out" || ok=1
    fi
    echo "exit code $code (expected $3), $before processes before, $left left after $took ms, $(ls -A "$dir/tmp" | wc -l) files left," \
        "$lines lines" >>"$out"
}

for phase in start exchange run leave; do
    fault $phase compute 137 "compute 1 (process [0-9]*) on hostA was killed by signal 9"
    fault $phase server 137 "server 0 (process [0-9]*) on hostB was killed by signal 9"
    fault $phase agent 137 "the agent of host hostA (process [0-9]*) was killed by signal 9"
    fault $phase launcher 137 ""
done
mp_done
