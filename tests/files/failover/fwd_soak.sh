#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Jobs one after the other, and jobs with a process that is killed at a random moment: the exit code is right, and no process, no shared
# memory object and no file of theirs stays.  SOAK_JOBS, SOAK_KILLS: how many; SOAK_PROCESSES: of the largest job; TEST_SEED: which
# processes are killed, and when.  scripts/check-nightly asks for many.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/calls/fwd_random
state=$mp_seed

# any N: sets $any to a number below N
any() {
    state=$(((state * 1103515245 + 12345) % 2147483648))
    any=$((state / 65536 % $1))
}

# words PID: its command line; nothing where it has gone
words() {
    { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | cut -c1-120
}

shared_objects() {
    find /dev/shm -user "$(id -u)" -newer "$mp_dir/begun" 2>/dev/null | grep amph
}

# started JOB OPTIONS...: a job of clients that forward files in random ways, its launcher as $launcher
started() {
    job=$1
    shift
    dir=$mp_dir/job mark=$$-$job
    mp_remove "$dir"
    mkdir -p "$dir/tmp" "$dir/kept"
    # shellcheck disable=SC2016 # for the shell inside
    (
        export TMPDIR="$dir/tmp" SOAK_MARK="$mark"
        exec "$AMPHORA_RUN" "$@" -iofwd "/fwd=$dir/kept" -timeout 30 sh -c 'mkdir "/fwd/$AMPHORA_RANK" "$2/$AMPHORA_RANK" && "$0" "$1" "$3" 1 "/fwd/$AMPHORA_RANK" "$2/$AMPHORA_RANK"' \
            "$program" "$job" "$dir" "$calls" >/dev/null 2>"$dir/told"
    ) </dev/null &
    launcher=$!
}

# ended: waits for the job; $code is its exit code, and $left what it left behind (after a moment, for what has been killed to go)
ended() {
    wait "$launcher" 2>/dev/null
    code=$?
    left=''
    mp_until 10 mp_none_marked "SOAK_MARK=$mark"
    for pid in $(mp_marked "SOAK_MARK=$mark"); do
        left="$left process $pid ($(words "$pid"));"
    done
    left="$left$(find "$dir/tmp" -mindepth 1 -printf ' %f;')$(shared_objects)"
}

# role PID: who is it?
role() {
    what=$(words "$1")
    parent=$(sed -n 's/^PPid:\t//p' "/proc/$1/status" 2>/dev/null)
    case $what in
    *iofwd-server*) echo server ;;
    "$AMPHORA_RUN"* | *amphora-run*) [ "$1" = "$launcher" ] && echo launcher || echo agent ;;
    *) grep -qs amphora-run "/proc/$parent/cmdline" && echo compute || echo child ;;
    esac
}

# one_kill JOB: 0 if all was right
one_kill() {
    any 3
    conduit=$(echo smp tcp udp | cut -d' ' -f$((any + 1)))
    any 3
    death=$(echo end eio failover | cut -d' ' -f$((any + 1)))
    hosts=''
    any 2
    [ $any = 1 ] && [ $conduit != smp ] && hosts="-hosts $mp_dir/hosts"
    # shellcheck disable=SC2086 # two words or none
    started "$1" -n 3 -servers 2 -conduit $conduit -on-server-death $death $hosts
    any 800
    sleep "0.$(printf %03d $any)"
    any 1000
    victim=$(mp_marked "SOAK_MARK=$mark" | awk -v at=$any '{ pid[NR] = $1 } END { if (NR) print pid[1 + at % NR] }')
    who=none
    if [ -n "$victim" ]; then
        who=$(role "$victim")
        kill -9 "$victim" 2>/dev/null || who=none
    fi
    ended
    echo "job $1 ($conduit, $death$hosts): $who killed, exit code $code, left:$left"
    cat "$dir/told"
    [ -z "$left" ] || return 1
    case $who.$death in
    none.*) [ $code = 0 ] ;;
    server.eio | server.failover | child.*) [ $code -lt 124 ] || [ $code = 137 ] ;; # the program says how it takes it
    *) [ $code = 137 ] || [ $code = 0 ] ;; # 0: it was over at that moment
    esac
}

: >"$mp_dir/begun"
yes hostA | head -3 >"$mp_dir/hosts" && yes hostB | head -2 >>"$mp_dir/hosts"
calls=100
: >"$mp_dir/out"
bad=0
for job in $(seq "${SOAK_JOBS:-2}"); do
    any 3
    started "$job" -n $((any * 3 + 2)) -servers $((any + 1))
    ended
    [ $code = 0 ] && [ -z "$left" ] || { bad=1 && echo "job $job: exit code $code, left:$left" && cat "$dir/told"; } >>"$mp_dir/out"
done
mp_report $bad "${SOAK_JOBS:-2} jobs one after the other" "$mp_dir/out"
: >"$mp_dir/out"
started 0 -n "${SOAK_PROCESSES:-8}" -servers 4
ended
{ echo "exit code $code, left:$left" && cat "$dir/told"; } >"$mp_dir/out"
[ $code = 0 ] && [ -z "$left" ]
mp_report $? "a job of ${SOAK_PROCESSES:-8} processes and 4 servers" "$mp_dir/out"
calls=3000
: >"$mp_dir/out"
bad=0
for job in $(seq "${SOAK_KILLS:-4}"); do
    one_kill "$job" >"$mp_dir/one" || { bad=1 && cat "$mp_dir/one" >>"$mp_dir/out"; }
    [ -z "${SOAK_LOG:-}" ] || head -n 1 "$mp_dir/one" >>"$SOAK_LOG"
done
mp_report $bad "${SOAK_KILLS:-4} jobs of which a process is killed, seed $mp_seed" "$mp_dir/out"
mp_done
