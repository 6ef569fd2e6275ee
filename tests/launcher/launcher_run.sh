#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a user sees of amphora-run: output, input, exit codes, signals, limits, what is left behind.
. "${srcdir:-.}/tests/lib/lib.sh"
job=$builddir/tests/launcher/launcher_job
run=$AMPHORA_RUN
# A server that never joins and stays until it is told to end.
printf '#!/bin/sh\nexec sleep 60\n' >"$mp_dir/stays"
chmod +x "$mp_dir/stays"

# expect NAME CODE PATTERN COMMAND...: exit code, and (unless empty) a pattern in the output; the standard input is the caller's
expect() {
    name=$1 code=$2 words=$3
    shift 3
    timeout -k 5 40 "$@" >"$mp_dir/out" 2>&1
    rc=$?
    ok=0
    [ $rc -eq "$code" ] || ok=1
    if [ -n "$words" ]; then grep -qE "$words" "$mp_dir/out" || ok=1; fi
    echo "exit code $rc, expected $code; expected words: $words" >>"$mp_dir/out"
    mp_report $ok "$name" "$mp_dir/out"
}
limited() {
    timeout -k 5 60 "$run" "$@"
}
same() {
    printf '%s\n' "$3" >"$mp_dir/out"
    [ "$2" = "$3" ]
    mp_report $? "$1" "$mp_dir/out"
}

# output and input
same "standard input goes to process 0" "abc 3" "$(echo abc | limited -n 3 sh -c 'if [ $PMI_RANK = 0 ]; then read a; echo $a $PMI_SIZE; fi')"
same "a megabyte through cat" "$(seq 200000 | cksum)" "$(seq 200000 | limited -n 1 cat | cksum)"
same "labels" "[0] x [1] x [2] x" "$(limited -n 3 -label echo x | sort | tr '\n' ' ' | sed 's/ $//')"
same "lines stay whole" "4000 aaaaaaaaaa" "$(limited -n 4 sh -c 'i=0; while [ $i -lt 1000 ]; do printf aaaaa; echo aaaaa; i=$((i+1)); done' |
    sort | uniq -c | sed 's/^ *//')"
same "a last line without a newline gets one" "2 x" "$(limited -n 2 printf x | sort | uniq -c | sed 's/^ *//')"
same "alone, bytes pass as they come" "x" "$(limited -n 1 printf x)"
same "standard error stays standard error" "" "$(limited -n 2 sh -c 'echo x >&2' 2>/dev/null)"
same "relative numbers in each group" "0/2 1/2" "$(limited -n 2 -servers 3 -server-program "$mp_dir/stays" sh -c 'echo $PMI_RANK/$PMI_SIZE' 2>/dev/null |
    sort | tr '\n' ' ' | sed 's/ $//')"

# exit codes
expect "exit code 0" 0 "" "$run" -n 4 true </dev/null
expect "exit code of the one that fails" 7 "compute 2 .* ended with exit code 7" "$run" \
    -n 4 sh -c '[ $PMI_RANK != 2 ] || exit 7; sleep 30' </dev/null
expect "128 + signal" 139 "killed by signal 11" "$run" -n 3 sh -c '[ $PMI_RANK != 1 ] || kill -SEGV $$; sleep 30' </dev/null
expect "leaving by gasnet_exit(5)" 5 "called gasnet_exit\(5\)" "$run" -n 3 "$job" exit 5 </dev/null
expect "servers for no files" 0 "warning: -servers 2 is given, but neither -iofwd" "$run" -n 1 -servers 2 true </dev/null
same "servers whose files IOFWD_PREFIX names" "" "$(IOFWD_PREFIX=/fwd=$mp_dir timeout 40 "$run" -n 1 -servers 1 true 2>&1 </dev/null)"
expect "abort" 6 "ended the job with exit code 6" "$run" -n 3 "$job" abort 6 </dev/null
expect "_exit(0) of a member is a death" 1 "without leaving the job" "$run" -n 3 "$job" slip 0 </dev/null
expect "_exit(3) of a member" 3 "ended with exit code 3" "$run" -n 3 "$job" slip 3 </dev/null
expect "a member that does not come" 1 "has ended, but other processes wait" "$run" -n 3 "$job" absent </dev/null
expect "a member below a shell that dies" 1 "without leaving" "$run" -n 2 sh -c "$job slip 0; sleep 30" </dev/null
expect "a server's death ends the job" 137 "server 0 .* killed by signal 9" \
    env JOB_MODE=deaths JOB_ARGUMENT=9 "$run" -n 2 -servers 2 -server-program "$job" "$job" </dev/null
expect "-on-server-death eio: the job goes on" 0 "server 0 .* EIO from now on" \
    env JOB_MODE=deaths JOB_ARGUMENT=1 "$run" -n 2 -servers 2 -on-server-death eio -server-program "$job" "$job" </dev/null
# The first server has joined and waits for the second, which comes when the compute process has ended already, or never.
mkfifo "$mp_dir/gate"
cat >"$mp_dir/listener-is-open" <<END
#!/bin/sh
until [ -f "$mp_dir/first" ] && readlink /proc/"\$(cat "$mp_dir/first")"/fd/* 2>&1 |
    sed -n 's/^socket:.\([0-9]*\).*/ \1 @amphora-control/p' >"\$1" && grep -qFf "\$1" /proc/net/unix; do sleep 0.02; done
END
cat >"$mp_dir/servers" <<END
#!/bin/sh
if [ "\$PMI_RANK" = 0 ]; then
    echo \$\$ >"$mp_dir/first.new" && mv "$mp_dir/first.new" "$mp_dir/first"
else
    eval "\$SECOND"
fi
exec "$(realpath "$builddir")/iofwd-server"
END
chmod +x "$mp_dir/listener-is-open" "$mp_dir/servers"
export SECOND="read -r nothing <$mp_dir/gate"
expect "a job that ends while its servers start" 0 "^iofwd server 1: 0 calls" env AMPHORA_STATS=1 "$run" -n 1 -servers 2 -timeout 20 \
    -iofwd "/fwd=$mp_dir" -server-program "$mp_dir/servers" sh -c "exec 9>$mp_dir/gate; $mp_dir/listener-is-open $mp_dir/sockets" </dev/null
rm "$mp_dir/first"
export SECOND="$mp_dir/listener-is-open $mp_dir/sockets; exit 3"
expect "a server that ends before it has joined does not hold up the others" 0 "^through the other" \
    "$run" -n 1 -servers 2 -timeout 20 -on-server-death eio -iofwd "/fwd=$mp_dir" -server-program "$mp_dir/servers" \
    sh -c 'echo through the other >/fwd/said && cat /fwd/said' </dev/null
rm "$mp_dir/first"
expect "or ends the job" 3 "server 1 .* ended with exit code 3; the job ends" \
    "$run" -n 1 -servers 2 -timeout 20 -iofwd "/fwd=$mp_dir" -server-program "$mp_dir/servers" sh -c 'cat /fwd/said; sleep 15' </dev/null
unset SECOND
expect "-grace takes seconds" 1 "it takes a number of seconds from 0 on" "$run" -grace soon true </dev/null
expect "the time limit" 124 "time limit of 0.5 s" "$run" -n 2 -timeout 0.5 sleep 30 </dev/null
expect "a reader that goes away" 141 "signal 13" sh -c "{ $run -n 1 yes; echo \$? >$mp_dir/rc; } | head -n 1 >/dev/null; exit \$(cat $mp_dir/rc)" </dev/null

# signals
ready() {
    [ "$(grep -c ready "$mp_dir/got")" -ge "$1" ]
}
signalled() {
    : >"$mp_dir/got" # before the shell that is to become the job may do it: what an earlier test left there says "ready" too
    # A shell starts background commands with SIGINT ignored.
    env --default-signal=INT "$run" -n 2 -timeout 60 $signalled_options sh -c "$4" >"$mp_dir/got" 2>&1 </dev/null &
    pid=$!
    want=0
    for sig in $2; do
        want=$((want + 2)) # both processes are, and again when they have had the last signal
        mp_until 50 ready $want
        kill -"$sig" $pid
    done
    wait $pid
    rc=$?
    echo "exit code $rc, expected $3" >>"$mp_dir/got"
    [ $rc -eq "$3" ]
    mp_report $? "$1" "$mp_dir/got"
}
signalled_options=""
signalled "SIGTERM reaches the job" TERM 143 'echo ready; exec sleep 30'
signalled "SIGINT that the processes handle" INT 0 'trap "echo caught; exit 0" INT; echo ready; while :; do sleep 0.05; done'
signalled "a second SIGINT ends what ignores the first" "INT INT" 130 'trap "" TERM; trap "echo ready" INT; echo ready; while :; do sleep 0.05; done'
signalled_options="-grace 0.5"
signalled "one SIGTERM ends what ignores it" TERM 143 'trap "" TERM; echo ready; while :; do sleep 0.05; done'
grep -q "2 of 2 compute processes have not ended 0.5 s (-grace) after signal 15" "$mp_dir/got"
mp_report $? "and a sentence says so" "$mp_dir/got"
signalled "SIGTERM that the processes handle in time" TERM 0 'trap "exit 0" TERM; echo ready; while :; do sleep 0.05; done'
signalled_options=""
signalled "SIGUSR1 is passed on" USR1 0 'trap "exit 0" USR1; echo ready; while :; do sleep 0.05; done'

# the mapping
printf 'hostA\nhostB\nhostA\nhostB:2\n' >"$mp_dir/hosts"
expect "-v prints the mapping" 0 "^compute +1 +1 +hostB +1 +(little|big) +[0-9]+K +8K" \
    env JOB_MODE=check "$run" -n 3 -servers 2 -hosts "$mp_dir/hosts" -v -server-program "$job" "$job" </dev/null
expect "a host named again is warned of" 0 "warning: line 3 .* hostA: 0 2; hostB: 1" "$run" -n 3 -hosts "$mp_dir/hosts" true </dev/null
expect "names that are said to be pretended hosts" 0 "^compute +1 +1 +b.invalid " "$run" -n 2 -host a.invalid,b.invalid \
    -pretend -v true </dev/null
if grep -q . /proc/net/if_inet6 2>/dev/null; then
    expect "IPv6 addresses as host names" 0 "^compute +2 +2 +::1 " "$run" -n 3 -host 'localhost,[::1]:2' \
        -v "$builddir/examples/ring" </dev/null
fi
expect "-map block" 0 "^compute +2 +2 +[^ ]+ +1 " "$run" -n 4 -servers 2 -map block -v -server-program "$mp_dir/stays" true </dev/null
printf 'hostA\nhostB\nhostA\nhostC\nhostB\n' >"$mp_dir/near"
printf 'arch=%s program=/bin/echo\nhostA\nhostB program=/usr/bin/printf\n' "$(uname -m)" >"$mp_dir/kinds"
expect "a program for this kind of machine" 0 "^%s of a kind" "$run" -n 2 -hosts "$mp_dir/kinds" /no/such '%s of a kind\n' x </dev/null
expect "-map near" 0 "^compute +1 +1 +hostB +2 " "$run" -n 2 -servers 3 -hosts "$mp_dir/near" -map near -v -server-program "$mp_dir/stays" \
    true </dev/null
expect "-map list" 0 "^compute +0 +0 +[^ ]+ +1 " "$run" -n 2 -servers 2 -map 1,0 -v -server-program "$mp_dir/stays" true </dev/null
expect "-bind core" 0 "" "$run" -n 2 -bind core true </dev/null

# what is left behind
left() {
    mp_marked "RUN_MARK=$1" | wc -l
}
mkdir "$mp_dir/tmp"
env TMPDIR=$mp_dir/tmp RUN_MARK=$$ timeout -k 5 60 "$run" -n 2 sh -c 'sleep 30 & setsid sleep 31 & (trap "" TERM; sleep 32) & exit 0' </dev/null >/dev/null 2>&1
same "background children end with the job" "0 0" "$(left $$) $(ls -A "$mp_dir/tmp" | wc -l)"
env TMPDIR=$mp_dir/tmp RUN_MARK=$$ timeout -k 5 60 "$run" -n 2 sh -c 'sleep 30 & setsid sleep 31 & exit 3' </dev/null >/dev/null 2>&1
same "also when it fails" "0 0" "$(left $$) $(ls -A "$mp_dir/tmp" | wc -l)"
same "64 processes start and end within 5 s" yes "$(start=$(date +%s); limited -n 64 true </dev/null; [ $(($(date +%s) - start)) -le 5 ] && echo yes)"
mp_done
