#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Hosts that are reached by ssh, with a stand-in for ssh that runs the line for the shell on this machine: the tree of agents, what is
# carried to the other hosts, hosts that do not answer, and kill -9 of each part.  Real hosts: scripts/check-launchers.
. "${srcdir:-.}/tests/lib/lib.sh"
run=$AMPHORA_RUN
job=$builddir/tests/launcher/launcher_job
case $job in /*) ;; *) job=$PWD/$job ;; esac
mkdir "$mp_dir/tmp" "$mp_dir/bin"
cat >"$mp_dir/bin/ssh" <<'EOF'
#!/bin/sh
while [ $# -gt 2 ]; do
    case $1 in -o | -F) shift 2 ;; *) shift ;; esac
done
case $1 in
dead*) echo "ssh: connect to host $1 port 22: No route to host" >&2; exit 255 ;;
mute*) exec sleep 1000 ;;
noisy*) echo "Welcome to $1" ;;
esac
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22" FAKE_HOST=$1
cd /
exec sh -c "$2"
EOF
chmod +x "$mp_dir/bin/ssh"
export AMPHORA_SSH="$mp_dir/bin/ssh -q" TMPDIR="$mp_dir/tmp"

hosts() {
    printf "$1" >"$mp_dir/hosts"
}
# expect NAME CODE WORDS COMMAND...
expect() {
    name=$1 code=$2 words=$3
    shift 3
    timeout -k 5 40 "$@" >"$mp_dir/out" 2>&1 </dev/null
    rc=$?
    ok=0
    [ $rc -eq "$code" ] || ok=1
    grep -Eq "$words" "$mp_dir/out" || ok=1
    [ -z "$(ls -A "$mp_dir/tmp")" ] || ok=1
    rm -rf "$mp_dir/tmp/"*
    echo "exit code $rc, expected $code; $(ls -A "$mp_dir/tmp" | wc -l) files left" >>"$mp_dir/out"
    mp_report $ok "$name" "$mp_dir/out"
}

hosts 'nodeA:2\nnodeB:2\nnodeC:2\nnodeD:2\n'
value="a 'quoted' \"value\" \$HOME
of two lines"
export value
mkdir "$mp_dir/a b"
cat >"$mp_dir/look" <<'EOF'
[ "$value" = "a 'quoted' \"value\" \$HOME
of two lines" ] && [ "$PWD" = "$EXPECTED" ] && [ -z "${SSH_CONNECTION-}" ] && echo the same
EOF
hosts 'nodeA:2\nnodeB:2\nnodeC:2\nnodeD:2\n'
expect "environment and working directory" 0 "^\[7\] the same" sh -c "run=\$(realpath '$run'); cd '$mp_dir/a b' && EXPECTED='$mp_dir/a b' \
    exec \$run -hosts ../hosts -n 8 -label sh '$mp_dir/look'"
for fanout in 1 2 16; do
    expect "exchange, 5 + 3 processes, fan-out $fanout" 0 "joined its job already" env AMPHORA_SSH_FANOUT=$fanout JOB_MODE=check \
        "$run" -hosts "$mp_dir/hosts" -n 5 -servers 3 -server-program "$job" "$job"
    expect "network between the hosts, fan-out $fanout" 0 "over 8 processes: sum [0-9]*, right" env AMPHORA_SSH_FANOUT=$fanout \
        "$run" -hosts "$mp_dir/hosts" -n 8 "$builddir/examples/ring"
done
expect "pmi1 over hosts" 0 "joined its job already" env AMPHORA_BOOT=pmi1 JOB_MODE=check AMPHORA_SSH_FANOUT=1 \
    "$run" -hosts "$mp_dir/hosts" -n 7 "$job"
mkdir "$mp_dir/kept"
expect "files through servers on hosts of their own" 0 "kept" sh -c "echo nodeS:2 >$mp_dir/shosts
    $run -hosts $mp_dir/hosts -server-hosts $mp_dir/shosts -n 2 -servers 2 -iofwd /fwd=$mp_dir/kept sh -c '
        echo \$AMPHORA_RANK >/fwd/\$AMPHORA_RANK' && [ \$(cat $mp_dir/kept/0)\$(cat $mp_dir/kept/1) = 01 ] && echo kept"
printf '#!/bin/sh\necho "$0 $1 $2" >/fwd/by.$AMPHORA_RANK; cat /fwd/by.$AMPHORA_RANK\n' >"$mp_dir/kept/words"
chmod +x "$mp_dir/kept/words"
expect "a program that only the servers have" 0 "^\[1\] /fwd/words two  words end$" "$run" -hosts "$mp_dir/hosts" -server-hosts "$mp_dir/shosts" \
    -n 3 -servers 2 -iofwd "/fwd=$mp_dir/kept" -label /fwd/words "two  words" end
expect "a program that nobody has" 127 "cannot start /fwd/none: No such file" "$run" -hosts "$mp_dir/hosts" -n 3 -servers 1 -iofwd "/fwd=$mp_dir/kept" /fwd/none
printf 'nodeA:1 program=/fwd/words\nnodeB:1 program=/bin/echo\nnodeS:1\n' >"$mp_dir/own"
expect "the same where each host has a program of its own" 0 "^\[0\] /fwd/words one end$" "$run" -hosts "$mp_dir/own" -n 2 -servers 1 \
    -iofwd "/fwd=$mp_dir/kept" -label echo one end
expect "input reaches process 0, output is whole" 0 "^20000 588895$" sh -c "seq 100000 120000 | head -n 20000 |
    $run -hosts $mp_dir/hosts -n 3 sh -c '
    [ \$AMPHORA_RANK = 0 ] && cat; :' | awk '{ n++; b += length(\$0) } END { print n, b + 468895 }'"
expect "exit code of a process elsewhere" 7 "compute 2 \(process [0-9]*\) on nodeB ended with exit code 7" \
    "$run" -hosts "$mp_dir/hosts" -n 3 sh -c '[ $AMPHORA_RANK = 2 ] && exit 7; sleep 30'
expect "a program that is not there" 127 "cannot start /no/such on host nodeA" "$run" -hosts "$mp_dir/hosts" -n 2 /no/such
hosts "arch=$(uname -m) program=/bin/echo\nnodeA\nnodeB program=/usr/bin/printf\n"
expect "a program for a host and for a kind of machine" 0 "^%s nodes" "$run" -hosts "$mp_dir/hosts" -n 2 \
    true '%s nodes\n' x
expect "the other host's" 0 "^x nodes\$" "$run" -hosts "$mp_dir/hosts" -n 2 true '%s nodes\n' x
hosts 'nodeA\nnodeB run=/no/amphora-run\n'
expect "amphora-run is not there" 1 "the host nodeB cannot be reached or has no agent \(exit code 127" \
    "$run" -hosts "$mp_dir/hosts" -n 2 true
hosts 'nodeA\ndead1\nnodeC\n'
expect "a dead host" 1 "the host dead1 cannot be reached.*No route to host" "$run" -hosts "$mp_dir/hosts" -n 3 true
expect "a dead host further down" 1 "the host dead1 cannot be reached.*No route to host" env AMPHORA_SSH_FANOUT=1 \
    "$run" -hosts "$mp_dir/hosts" -n 3 true
hosts 'nodeA\nmute1\n'
expect "a host that says nothing" 1 "the host mute1 cannot be reached: no agent has answered within 1 s" env AMPHORA_SSH_TIMEOUT=1s "$run" \
    -hosts "$mp_dir/hosts" -n 2 true
hosts 'nodeA\nnoisy1\n'
expect "a shell that greets" 1 "the host noisy1 does not answer as an agent does" "$run" -hosts "$mp_dir/hosts" -n 2 true
hosts 'nodeA program=\n'
expect "a path that is empty" 1 "line 1 of the host file" "$run" -hosts "$mp_dir/hosts" -n 1 true
hosts 'nodeA\n'
expect "no room for the servers" 1 "has 1 slots, but 2" sh -c "echo nodeS >$mp_dir/s
    exec $run -hosts $mp_dir/hosts -server-hosts $mp_dir/s -servers 2 -server-program true true"
expect "no ssh" 1 "cannot execute no-such-ssh" "$run" -ssh no-such-ssh -hosts "$mp_dir/hosts" true

# ---- kill -9 ----
# All hosts hang from the launcher here, since with this stand-in for ssh an agent's processes, which it ends, would hold those of the
# agents below it.

parent() {
    cut -d' ' -f4 "/proc/$1/stat"
}

# The launcher is killed before all hosts have answered, and when all have ended but it has not removed the job's directory: the agent does.
nothing_left() {
    [ -z "$(ls -A "$mp_dir/tmp")" ] && mp_none_marked "FAULT_MARK=$1"
}
gone() {
    mp_until 10 nothing_left "$1" && return
    ls -lR "$mp_dir/tmp"
    mp_marked "FAULT_MARK=$1" | sed 's#.*#/proc/&/cmdline#' | xargs grep -a .
    return 1
}
begun() {
    [ -n "$(ls -A "$mp_dir/tmp")" ]
}
hosts 'localhost\nmute1\n'
(
    export FAULT_MARK="$$-mute"
    exec "$run" -hosts "$mp_dir/hosts" -n 2 true
) >"$mp_dir/out" 2>&1 </dev/null &
launcher=$!
mp_until 10 begun
was_begun=$?
kill -9 $launcher
wait $launcher 2>/dev/null
[ $was_begun = 0 ] && gone "$$-mute" >>"$mp_dir/out" 2>&1
mp_report $? "kill -9 of the launcher while a host has not answered" "$mp_dir/out"

if strace -o /dev/null true 2>/dev/null; then
    FAULT_MARK="$$-end" timeout -k 5 40 strace -o "$mp_dir/traced" -e trace=rmdir -e inject=rmdir:signal=KILL "$run" -n 2 true \
        >"$mp_dir/out" 2>&1 </dev/null
    cat "$mp_dir/traced" >>"$mp_dir/out"
    grep -q 'killed by SIGKILL' "$mp_dir/traced" && gone "$$-end" >>"$mp_dir/out" 2>&1
    mp_report $? "kill -9 of the launcher as it removes the job's directory" "$mp_dir/out"
fi

ready() {
    [ -e "$dir/ready/0" ] && [ -e "$dir/ready/1" ] && [ -e "$dir/ready/2" ] && [ -e "$dir/ready/3" ]
}
# fault PHASE VICTIM CODE WORDS SIGNAL LIMIT-MS
fault() {
    dir=$mp_dir/$1-$2 mark=$$-$1-$2
    mkdir -p "$dir/ready"
    out=$dir/out
    hosts 'nodeA:2\nnodeB:2\n'
    (
        export FAULT_MARK="$mark" JOB_MODE="$1" JOB_ARGUMENT="$dir/ready"
        exec "$run" -n 3 -servers 1 -hosts "$mp_dir/hosts" -server-program "$job" -timeout 30 "$job"
    ) >"$out" 2>&1 </dev/null &
    launcher=$!
    mp_until 20 ready || echo "the job did not get ready" >>"$out"
    before=$(mp_marked "FAULT_MARK=$mark" | wc -l)
    agent=$(cut -d' ' -f2 "$dir/ready/2") # of nodeB
    near=$(cut -d' ' -f2 "$dir/ready/0")
    case $2 in
    compute) victim=$(cut -d' ' -f1 "$dir/ready/2") ;;
    agent | silent) victim=$agent ;;
    ssh) victim=$(parent "$near") ;; # the substitute for ssh has become the guardian
    launcher) victim=$launcher ;;
    esac
    start=$(mp_now_ms)
    kill "-$5" "$victim"
    wait "$launcher" 2>/dev/null
    code=$?
    ended=$(($(mp_now_ms) - start))
    [ "$5" = STOP ] && kill -CONT "$victim" 2>/dev/null
    mp_until 15 mp_none_marked "FAULT_MARK=$mark"
    took=$(($(mp_now_ms) - start))
    left=$(mp_marked "FAULT_MARK=$mark" | wc -l)
    ok=0
    [ "$5" = STOP ] && rm -rf "$mp_dir/tmp/"* # the launcher has killed what it holds for a process of its own
    [ $code -eq "$3" ] && [ "$before" -ge 12 ] && [ "$left" -eq 0 ] && [ -z "$(ls -A "$mp_dir/tmp")" ] && [ $took -le "$6" ] || ok=1
    lines=$(grep -c "^amphora-run:" "$out")
    if [ "$2" = launcher ]; then
        [ "$lines" -eq 0 ] || ok=1
    else
        [ "$lines" -eq 1 ] && grep -Eq "$4" "$out" || ok=1
    fi
    echo "exit code $code (expected $3) after $ended ms, $before processes before, $left left after $took ms," \
        "$(ls -A "$mp_dir/tmp" | wc -l) files left, $lines lines" >>"$out"
    mp_report $ok "SIG$5 to $2 in phase $1 ($took ms)" "$out"
}
for phase in start run; do
    fault $phase compute 137 "compute 2 \(process [0-9]*\) on nodeB was killed by signal 9" KILL 5000
    fault $phase agent 137 "the host nodeB is lost: its agent was killed by signal 9" KILL 5000
    fault $phase ssh 137 "the host nodeA is lost: its ssh was killed by signal 9" KILL 5000
    fault $phase launcher 137 "" KILL 5000
done
export AMPHORA_HEARTBEAT=2s

# The two jobs that are stopped for two heartbeats run beside each other and beside that of a silent host, each with a host
# file and a TMPDIR of its own.

# frozen: all processes of a job are stopped for two heartbeats, as when a virtual machine pauses, and go on.
frozen() {
    dir=$mp_dir/frozen mark=$$-frozen
    mkdir -p "$dir/ready" "$dir/tmp"
    printf 'nodeA:2\nnodeB:2\n' >"$dir/hosts"
    (
        export TMPDIR="$dir/tmp"
        export FAULT_MARK="$mark" JOB_MODE=run JOB_ARGUMENT="$dir/ready"
        exec "$run" -n 3 -servers 1 -hosts "$dir/hosts" -server-program "$job" -timeout 30 "$job"
    ) >"$dir/out" 2>&1 </dev/null &
    launcher=$!
    mp_until 20 ready || echo "the job did not get ready"
    processes=$(mp_marked "FAULT_MARK=$mark")
    # shellcheck disable=SC2086 # numbers
    kill -STOP $processes
    sleep 4.2
    # shellcheck disable=SC2086
    kill -CONT $processes
    sleep 1.2 # each side looks every half second
    kill -KILL "$launcher"
    wait "$launcher" 2>/dev/null
    code=$?
    cat "$dir/out"
    echo "exit code $code, $(echo "$processes" | wc -w) processes"
    mp_until 15 mp_none_marked "FAULT_MARK=$mark"
    [ $code = 137 ] && ! grep '^amphora-run:' "$dir/out"
}

# all_are STATES PID...: each process is in one of these states (of ps)
all_are() {
    states=$1
    shift
    for pid; do
        case $(ps -o stat= -p "$pid") in
        [$states]*) ;;
        *) return 1 ;;
        esac
    done
}

# suspended: ^Z stops all processes of a job and its launcher for two heartbeats, fg continues them.  The launcher gets a process group
# of its own, as from a shell with job control.
suspended() {
    dir=$mp_dir/suspended mark=$$-suspended
    mkdir -p "$dir/ready" "$dir/tmp"
    printf 'nodeA:2\nnodeB:2\n' >"$dir/hosts"
    (
        export TMPDIR="$dir/tmp"
        export FAULT_MARK="$mark" JOB_MODE=run JOB_ARGUMENT="$dir/ready"
        exec perl -e 'setpgrp; exec @ARGV' "$run" -n 3 -servers 1 -hosts "$dir/hosts" -server-program "$job" -timeout 60 "$job"
    ) >"$dir/out" 2>&1 </dev/null &
    launcher=$!
    mp_until 20 ready || echo "the job did not get ready"
    members=$(cut -d' ' -f1 "$dir"/ready/[0-3])
    kill -TSTP "$launcher"
    # shellcheck disable=SC2086 # numbers
    mp_until 10 all_are T "$launcher" $members || echo "not all are stopped"
    sleep 4.2
    # shellcheck disable=SC2086
    all_are T "$launcher" $members || echo "not all have stayed stopped"
    kill -CONT "$launcher"
    # shellcheck disable=SC2086
    mp_until 10 all_are RSD "$launcher" $members || echo "not all have been continued"
    sleep 1.2 # each side looks every half second
    # shellcheck disable=SC2086
    all_are RSD "$launcher" $members || echo "not all live"
    echo "$members" | wc -w
    kill -KILL "$launcher"
    wait "$launcher" 2>/dev/null
    code=$?
    cat "$dir/out"
    echo "exit code $code"
    mp_until 15 mp_none_marked "FAULT_MARK=$mark"
    [ $code = 137 ] && ! grep '^amphora-run:' "$dir/out"
}

all_followed() {
    suspended >"$mp_dir/suspended.out" 2>&1
    code=$?
    cat "$mp_dir/suspended.out"
    [ $code = 0 ] && ! grep -q '^not ' "$mp_dir/suspended.out"
}

mp_queue "a job whose processes are stopped for two heartbeats goes on" frozen
mp_queue "^Z stops a job on all hosts for two heartbeats, and fg continues it" all_followed
fault run silent 1 "the host nodeB is lost: nothing has come from it for 2 s" STOP 10000
mp_done
