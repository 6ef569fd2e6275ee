#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Servers that belong to no job (iofwd-server -daemon), programs attached to them by iofwd-run, who starts before whom, and the end.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
export IOFWD_NEAR=0 # servers make the calls
server=$builddir/iofwd-server
run=$builddir/iofwd-run
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
file=$mp_dir/addresses
mkdir "$mp_dir/kept"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT

# up COUNT [SETTING=VALUE...]
up() {
    up_count=$1
    shift
    env AMPHORA_STATS=1 "$@" timeout -k 5 60 "$server" -daemon -servers "$up_count" -iofwd "/fwd=$mp_dir/kept" -address-file "$file" \
        -pid-file "$mp_dir/pid"
}

# gone PROCESS: waits until it has ended
gone() {
    timeout 20 sh -c 'while kill -0 "$1" 2>/dev/null; do sleep 0.02; done' sh "$1"
}

# down: ends the daemon and waits until it has gone; what it logged goes to $mp_dir/log
down() {
    down_pid=$(cat "$mp_dir/pid")
    kill "$down_pid"
    gone "$down_pid"
    mv "$file.log" "$mp_dir/log"
}

head -c 3000000 /dev/urandom >"$mp_dir/big"
for setting in AMPHORA_SMP=1 AMPHORA_SMP=0 "AMPHORA_SMP=0 AMPHORA_CONDUIT=udp"; do
    rm -rf "$mp_dir/kept/"*
    {
        # shellcheck disable=SC2086 # several settings
        up 2 $setting &&
            env $setting timeout 60 "$run" -servers "$file" sh -c 'cp "$1" /fwd/big && cmp "$1" /fwd/big && test ! -e "$2/big" || exit 1
                echo a line >/fwd/a; sort </fwd/a | uniq >/fwd/b; cat /fwd/b; ls /fwd' sh "$mp_dir/big" /nonexistent
        echo "exit code $?"
        test "$(stat -c %a "$file")" = 600 && echo mode
        down
        test ! -e "$file" && test ! -e "$mp_dir/pid" && echo gone
        cat "$mp_dir/log"
    } >"$mp_dir/out" 2>&1
    cmp -s "$mp_dir/big" "$mp_dir/kept/big" && grep -q '^exit code 0$' "$mp_dir/out" && grep -q '^mode$' "$mp_dir/out" &&
        grep -q '^gone$' "$mp_dir/out" && grep -q '300000[0-9] bytes written' "$mp_dir/out" && grep -q 'ended$' "$mp_dir/log"
    mp_report $? "$setting: a daemon serves programs by iofwd-run, ends at SIGTERM and takes its files along" "$mp_dir/out"
done

# Programs may be there before the servers, stay while others come and go, and are many.
many=""
{
    timeout 60 "$run" -servers "$file" -wait 30 sh -c 'echo early >/fwd/early; while test ! -e /fwd/stop; do sleep 0.05; done' &
    early=$!
    timeout 60 env AMPHORA_JOB="$file" AMPHORA_JOB_WAIT=30s IOFWD_PREFIX=/fwd LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" \
        sh -c 'echo early too >/fwd/early2' &
    early2=$!
    up 3 && wait $early2
    for i in 1 2 3 4 5 6; do
        timeout 60 "$run" -servers "$file" sh -c "echo $i >/fwd/n.$i" &
        many="$many $!"
    done
    # shellcheck disable=SC2086 # a list of processes
    wait $many
    timeout 60 "$run" -servers "$file" sh -c 'cat /fwd/early /fwd/early2 /fwd/n.*; touch /fwd/stop'
    wait $early
    echo "exit code $?"
    down
    cat "$mp_dir/log"
} >"$mp_dir/out" 2>&1
test "$(grep -c '^[1-6]$' "$mp_dir/out")" = 6 && grep -q '^early$' "$mp_dir/out" && grep -q '^early too$' "$mp_dir/out" &&
    grep -q '^exit code 0$' "$mp_dir/out" && test "$(grep -c '^iofwd server [012]: [1-9]' "$mp_dir/log")" = 3
mp_report $? "programs start before the servers, come and go, and are dealt out to all of them" "$mp_dir/out"

# Ranks of other launchers' programs: server (rank mod S).
{
    up 3
    for v in "OMPI_COMM_WORLD_RANK=0" "PMI_RANK=3" "PMIX_RANK=6" "SLURM_PROCID=9" "OMPI_COMM_WORLD_RANK=4"; do
        env "$v" timeout 60 "$run" -servers "$file" sh -c 'echo x >>/fwd/ranks'
    done
    down
    cat "$mp_dir/log"
} >"$mp_dir/out" 2>&1
calls() { sed -n "s/^iofwd server $1: \([0-9]*\) calls.*/\1/p" "$mp_dir/log"; }
test "$(grep -c x "$mp_dir/kept/ranks")" = 5 && test "$(calls 0)" -eq "$(($(calls 1) * 4))" && test "$(calls 1)" -gt 0 && test "$(calls 2)" -eq 0
mp_report $? "an MPI program's ranks attach to server (rank mod S)" "$mp_dir/out"

# Without descriptors 0 to 2 no file of the servers gets their numbers: they serve, log and end as ever.
{
    up 1 <&- >&- 2>&-
    timeout 20 "$run" -servers "$file" sh -c 'echo served >/fwd/closed; cat /fwd/closed'
    down
    cat "$mp_dir/log"
} >"$mp_dir/out" 2>&1
grep -qx served "$mp_dir/out" && test ! -e "$file" && grep -q 'ended$' "$mp_dir/log"
mp_report $? "a daemon that is started with closed standard descriptors" "$mp_dir/out"
{
    up 1 >/dev/full
    echo "exit code $?"
    timeout 20 "$run" -servers "$file" cat /fwd/closed
    down
} >"$mp_dir/out" 2>&1
grep -qx "exit code 0" "$mp_dir/out" && grep -q "standard output cannot be written: No space left" "$mp_dir/out" && grep -qx served "$mp_dir/out"
mp_report $? "a daemon whose standard output cannot be written serves" "$mp_dir/out"

# What goes wrong is said.
{
    up 1
    daemon=$(cat "$mp_dir/pid")
    timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$file"
    echo "second $?"
    for prefix in /other fwd /fwdx /fwd:/other; do timeout 20 "$run" -servers "$file" -iofwd $prefix true || echo "not exported $prefix $?"; done
    for prefix in /fwd /fwd/ /fwd/sub :/fwd; do timeout 20 "$run" -servers "$file" -iofwd $prefix true && echo "exported $prefix"; done
    (umask 077 && sed 's/^key ..../key 0000/' "$file" >"$mp_dir/old")
    timeout 20 "$run" -servers "$mp_dir/old" cat /fwd/n.1
    echo "old $?"
    down
    timeout 20 "$server" -daemon "-iofwd=/fwd=$mp_dir/kept" -read-only=/other -address-file "$file"
    echo "unexported $?"
    timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/nowhere" -address-file "$file"
    echo "nowhere $?"
    timeout 20 "$server" -daemon -iofwd / -address-file "$file"
    echo "root $?"
    timeout 20 "$server" -daemon -iofwd "/a
b=$mp_dir/kept" -address-file "$file"
    echo "broken $?"
    timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$file" -interface lo
    echo "interface $?"
    timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$file" -conduit smp
    echo "smp $?"
    timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -iofwd "/fwd/=$mp_dir" -address-file "$file"
    echo "twice $?"
    (mkdir "$mp_dir/gone" && cd "$mp_dir/gone" && rmdir "$mp_dir/gone" && timeout 20 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file a)
    echo "gone $?"
    timeout 20 "$run" -servers "$file" cat /fwd/n.1
    echo "nofile $?"
    timeout 20 "$run" -servers
    echo "novalue $?"
    echo "amphora-servers 1" >"$file"
    timeout 20 "$run" -servers "$file" cat /fwd/n.1
    echo "damaged $?"
} >"$mp_dir/out" 2>&1
grep -q "are running (process $daemon watches" "$mp_dir/out" && grep -q '^second 1$' "$mp_dir/out" &&
    grep -q "^iofwd-run: -iofwd /other: the servers of $file export /fwd" "$mp_dir/out" && test "$(grep -c '^not exported .* 1$' "$mp_dir/out")" = 4 &&
    test "$(grep -c '^exported ' "$mp_dir/out")" = 4 &&
    grep -q 'does not know the key .*; give it their present address or job file' "$mp_dir/out" && grep -q '^old 1$' "$mp_dir/out" &&
    grep -q '"/other" is none of the paths' "$mp_dir/out" && grep -q '^unexported 1$' "$mp_dir/out" &&
    grep -q "cannot open directory" "$mp_dir/out" && grep -q '^nowhere 1$' "$mp_dir/out" &&
    grep -q "the root directory cannot be forwarded" "$mp_dir/out" && grep -q '^root 2$' "$mp_dir/out" &&
    grep -q 'takes no path with a line break' "$mp_dir/out" && grep -q '^broken 2$' "$mp_dir/out" &&
    grep -q 'interface needs -conduit' "$mp_dir/out" && grep -q '^interface 2$' "$mp_dir/out" &&
    grep -q 'whose clients need no conduit' "$mp_dir/out" && grep -q '^smp 2$' "$mp_dir/out" &&
    grep -q '/fwd is mapped to two directories' "$mp_dir/out" && grep -q '^twice 1$' "$mp_dir/out" &&
    grep -q 'working directory, which has no path' "$mp_dir/out" && grep -q '^gone 1$' "$mp_dir/out" &&
    ! grep -q '^usage' "$mp_dir/out" && grep -q 'there is no address file' "$mp_dir/out" && grep -q '^nofile 1$' "$mp_dir/out" && grep -q '^novalue 2$' "$mp_dir/out" &&
    grep -q 'no whole address file' "$mp_dir/out" && grep -q '^damaged 1$' "$mp_dir/out"
mp_report $? "a second daemon, a prefix or directory that is not there, no file, a damaged and an old one are each told in a sentence" \
    "$mp_dir/out"
rm -f "$file"

# A killed server: programs that come are served at once, by the other and soon by its successor.
{
    up 2
    server_pid() { awk -v n="$1" '/^server/ && i++ == n { print $3 }' "$file"; }
    timeout 30 "$run" -servers "$file" sh -c 'exec 3>/fwd/open; touch /fwd/begun; while test ! -e "$1"; do sleep 0.02; done
        cat /fwd/n.1 | sed s/^/child:/
        echo x >&3 || echo lost
        cat /fwd/n.1 >&3' sh "$mp_dir/killed" &
    holder=$!
    while test ! -e "$mp_dir/kept/begun"; do sleep 0.02; done
    for n in 0 1; do
        dead=$(server_pid $n)
        kill -9 "$dead"
        timeout 20 "$run" -servers "$file" cat /fwd/n.1 && timeout 20 "$run" -servers "$file" cat /fwd/n.2 &&
            timeout 20 "$run" -servers "$file" cat /fwd/n.3 && echo "served $n"
        timeout 20 sh -c "until grep -q 'server $n is process' '$file.log'; do sleep 0.02; done"
        timeout 20 sh -c "while grep -q ' $dead ' '$file'; do sleep 0.02; done"
        kill -0 "$(server_pid $n)" && echo "successor $n"
    done
    touch "$mp_dir/killed"
    wait $holder
    for n in 1 2 3; do timeout 20 "$run" -servers "$file" sh -c "echo $n >/fwd/after.$n"; done
    down
    cat "$mp_dir/log"
} >"$mp_dir/out" 2>&1
{ for n in 0 1; do grep -qx "served $n" "$mp_dir/out" && grep -qx "successor $n" "$mp_dir/out" || exit 1; done; } &&
    grep -q '^child:.' "$mp_dir/out" && ! grep -q 'refuses this client' "$mp_dir/out" && grep -qx lost "$mp_dir/out" &&
    grep -q '^cat: .*: Input/output error' "$mp_dir/out" && test "$(cat "$mp_dir"/kept/after.*)" = "1
2
3" && grep -q 'ended by signal 9 (Killed); another takes its place' "$mp_dir/log" && grep -q 'ended$' "$mp_dir/log"
mp_report $? "a killed server of a daemon is started again, and new programs find a server" "$mp_dir/out"

# An export that may only be read.
echo there >"$mp_dir/kept/there"
timeout -k 5 60 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -read-only=/fwd -address-file "$file" -pid-file "$mp_dir/pid" \
    >"$mp_dir/out" 2>&1
# shellcheck disable=SC2016 # for the shell inside
timeout 20 "$run" -servers "$file" sh -c 'cat /fwd/there; echo x >/fwd/new || rm /fwd/there || echo refused' >"$mp_dir/said" 2>&1 </dev/null
down_pid=$(cat "$mp_dir/pid")
kill "$down_pid"
gone "$down_pid"
{ cat "$mp_dir/said" && grep -qx there "$mp_dir/said" && grep -qx refused "$mp_dir/said" && test -e "$mp_dir/kept/there"; } >>"$mp_dir/out"
mp_report $? "a daemon with -read-only lets programs read and nothing else" "$mp_dir/out"

# In a directory where others may write, as /tmp, another may have put something in the place of the files.
common=$mp_dir/common
mkdir "$common"
chmod 1777 "$common"
in_common() {
    timeout -k 5 60 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$common/file" "$@" -pid-file "$mp_dir/pid"
}
{
    echo untouched >"$mp_dir/target"
    ln -s "$mp_dir/target" "$common/file.log"
    in_common && echo "logs through a link"
    in_common -log "$mp_dir/other.log" && cp "$common/file" "$mp_dir/addresses.2" && timeout 20 "$run" -servers "$common/file" cat /fwd/there
    down_pid=$(cat "$mp_dir/pid")
    kill "$down_pid"
    gone "$down_pid"
    ln -s "$mp_dir/addresses.2" "$common/file"
    timeout 20 "$run" -servers "$common/file" cat /fwd/there
    rm "$common/file"
    cp "$mp_dir/addresses.2" "$common/file"
    if [ "$(id -u)" = 0 ]; then
        chown 65534 "$common/file"
        timeout 20 "$run" -servers "$common/file" cat /fwd/there
        AMPHORA_JOB=$common/file IOFWD_PREFIX=/fwd LD_PRELOAD=$builddir/.libs/libiofwd_preload.so timeout 20 cat /fwd/there
    else
        echo "it is not trusted"; echo "it is not trusted"
    fi
} >"$mp_dir/out" 2>&1
test "$(grep -c 'it is not trusted' "$mp_dir/out")" = 3 && ! grep -q through "$mp_dir/out" && test "$(grep -cx there "$mp_dir/out")" = 1 &&
    test "$(cat "$mp_dir/target")" = untouched
mp_report $? "address files and logs that others could have made are not trusted" "$mp_dir/out"

# Two sets of servers with one file for their numbers: the second one does not start, and the file keeps the first one's.
twice_one_file() {
    first=$mp_dir/first.addresses second=$mp_dir/second.addresses number=$mp_dir/one.pid
    mkdir -p "$mp_dir/twice"
    "$server" -daemon -iofwd "/a=$mp_dir/twice" -address-file "$first" -pid-file "$number" || return
    pid=$(cat "$number")
    ! timeout -k 5 60 "$server" -daemon -iofwd "/b=$mp_dir/twice" -address-file "$second" -pid-file "$number" 2>"$mp_dir/twice.said"
    refused=$?
    cat "$mp_dir/twice.said"
    [ $refused = 0 ] && [ ! -e "$second" ] && grep -q "other servers, which still run (process $pid)" "$mp_dir/twice.said" &&
        [ "$(cat "$number")" = "$pid" ]
    kept=$?
    kill "$pid" && mp_until 20 test ! -e "$number" &&
        "$server" -daemon -iofwd "/b=$mp_dir/twice" -address-file "$second" -pid-file "$number" && kill "$(cat "$number")" &&
        mp_until 20 test ! -e "$number" && return $kept
}
mp_try "-pid-file of servers that still run is refused, and free when they have ended" twice_one_file

# In a directory of everybody's the file of -pid-file is no way to another file.
mkdir -m 1777 "$mp_dir/common"
echo precious >"$mp_dir/precious"
ln -s "$mp_dir/precious" "$mp_dir/common/pid"
timeout 60 "$server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$file" -pid-file "$mp_dir/common/pid" >"$mp_dir/out" 2>&1
code=$?
cat "$file.log" >>"$mp_dir/out" 2>&1
test $code -ne 0 && grep -q 'cannot write .*common/pid' "$mp_dir/out" && grep -q '^precious$' "$mp_dir/precious"
mp_report $? "-pid-file does not follow a link that another user may have made" "$mp_dir/out"
mp_done
