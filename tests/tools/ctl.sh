#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-ctl: what it says of servers is what their clients did; orders; wrong and dead servers, wrong keys, other users, lost output.
. "${srcdir:-.}/tests/tools/ctl_lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
ctl=$builddir/iofwd-ctl
run=$builddir/iofwd-run
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
file=$mp_dir/addresses
mkdir "$mp_dir/kept"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT

up() {
    count=$1
    shift
    env "$@" timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers "$count" -iofwd "/fwd=$mp_dir/kept" -address-file "$file" \
        -pid-file "$mp_dir/pid" $extra
}
extra=""

down() {
    down_pid=$(cat "$mp_dir/pid" 2>/dev/null) || return 0
    kill "$down_pid" 2>/dev/null
    mp_until 20 not_running "$down_pid"
}

not_running() {
    ! kill -0 "$1" 2>/dev/null
}

# client NAME SCRIPT: runs SCRIPT as a client and then lets it wait with what it has open until `leave NAME`
client() {
    mkfifo "$mp_dir/$1.go"
    timeout 100 "$run" -servers "$file" sh -c "$2"'
        : >"$1.ready"; read line <"$1.go"; '"${3:-}" sh "$mp_dir/$1" >"$mp_dir/$1.out" 2>&1 &
    eval "client_$1=$!"
    mp_until 30 test -e "$mp_dir/$1.ready"
}

leave() {
    echo go >"$mp_dir/$1.go"
    eval "wait \$client_$1"
}

# json COMMAND EXPRESSION: the value of the expression of Python on the answer d
json() {
    "$ctl" "$1" -json -servers "$file" | python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$2"
}

# default_file: without -servers and AMPHORA_JOB the address file of iofwd-server's default place is taken
default_file() {
    ln -s "$file" "$mp_dir/iofwd-servers" && XDG_RUNTIME_DIR=$mp_dir "$ctl" status && rm "$mp_dir/iofwd-servers"
}

up 2 >"$mp_dir/out" 2>&1
head -c 300000 /dev/urandom >"$mp_dir/data"
client one "exec 5>/fwd/x 6>/fwd/y; cat '$mp_dir/data' >&5; cat /fwd/x >/fwd/z; cat /fwd/none"
{
    "$ctl" status -all -servers "$file" && "$ctl" clients -servers "$file" && "$ctl" files -servers "$file"
} >"$mp_dir/out" 2>&1
grep -Eq '^ +0 .* serving ' "$mp_dir/out" && grep -Eq '^ +1 .* serving ' "$mp_dir/out" && grep -q ' /fwd/x ' "$mp_dir/out" &&
    grep -q 'server_calls  *[1-9][0-9]* calls: ' "$mp_dir/out"
mp_report $? "status, clients and files as text" "$mp_dir/out"

# a name that would be a line of its own, and command the terminal of whoever looks
client names "exec 5>'/fwd/$(printf 'new\nline\033[31mred')'"
{
    "$ctl" files -servers "$file" && "$ctl" top -by file -count 1 -interval 0.1 -servers "$file"
} >"$mp_dir/out" 2>&1
test "$(grep -cF '/fwd/new\nline\033[31mred' "$mp_dir/out")" = 2 && ! grep -q -e "$(printf '\033')" -e '^line' "$mp_dir/out"
mp_report $? "control characters of names are visible" "$mp_dir/out"
leave names

{
    json status 'sum(s["server_bytes_written"] for s in d["servers"])'
    json status 'sum(s["server_bytes_read"] for s in d["servers"])'
    json status 'sum(s["server_errors"] for s in d["servers"]) > 0'
    json status 'sum(s["latency"]["count"] for s in d["servers"]) >= sum(s["server_calls"] for s in d["servers"]) > 0'
    json status 'all(0 < s["latency"]["p50_ns"] <= s["latency"]["p99_ns"] for s in d["servers"] if s["latency"]["count"])'
    json files 'sorted(f["path"] for f in d["files"])'
    json files '[f["bytes_written"] for f in d["files"] if f["path"] == "/fwd/x"]'
    json clients 'sum(c["files"] for c in d["clients"]) >= 2'
    json clients 'sum(c["bytes_written"] for c in d["clients"]) <= 600000'
} >"$mp_dir/out" 2>&1
printf '%s\n' 600000 300000 True True True "['/fwd/x', '/fwd/y']" "[300000]" True True | diff - "$mp_dir/out" >"$mp_dir/diff"
mp_report $? "as JSON: bytes, errors, latencies and files are what the client did" "$mp_dir/diff"

{
    said 1 "no servers at" "$ctl" status -servers "$mp_dir/nothing" &&
        said 1 "no servers at $mp_dir/iofwd-servers" env XDG_RUNTIME_DIR="$mp_dir" "$ctl" status && default_file && said 2 "is no command" "$ctl" look -servers "$file" &&
        said 2 "not an option" "$ctl" status -loud -servers "$file" && said 2 "one word too many" "$ctl" status -servers "$file" x &&
        said 2 "needs an argument" "$ctl" loglevel -servers "$file" && said 2 "needs a value" "$ctl" status -servers &&
        echo "no address file" >"$mp_dir/junk" && said 1 "does not start with" "$ctl" status -servers "$mp_dir/junk"
} >"$mp_dir/out" 2>&1
mp_report $? "a wrong command line or address file gets a sentence" "$mp_dir/out"

awk '$1 == "key" { $2 = substr($2, 2) substr($2, 1, 1) } { print }' "$file" >"$mp_dir/wrong"
chmod 600 "$mp_dir/wrong"
{
    said 1 "refuses the key" "$ctl" status -servers "$mp_dir/wrong" && said 1 "none of the 2 servers" "$ctl" stop -servers "$mp_dir/wrong" &&
        json status 'len(d["servers"])'
} >"$mp_dir/out" 2>&1
mp_report $? "a wrong key: neither looking nor orders" "$mp_dir/out"

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    mkdir "$mp_dir/other" && cp "$file" "$mp_dir/other/a" && chown -R nobody "$mp_dir/other" && chmod 755 "$mp_dir" "$mp_dir/other"
    other() {
        setpriv --reuid=nobody --clear-groups "$ctl" "$@" -servers "$mp_dir/other/a"
    }
    if other -help >/dev/null 2>&1 && other status >"$mp_dir/out" 2>&1; then
        {
            said 1 "from its own user or root" setpriv --reuid=nobody --clear-groups "$ctl" stop -servers "$mp_dir/other/a" &&
                said 1 "from its own user or root" setpriv --reuid=nobody --clear-groups "$ctl" drain -servers "$mp_dir/other/a" &&
                said 1 "from its own user or root" setpriv --reuid=nobody --clear-groups "$ctl" loglevel debug -servers "$mp_dir/other/a" &&
                json status 's["state"] == "serving" and s["log"] == "warn"' 2>/dev/null || json status '[s["state"] for s in d["servers"]]'
        } >"$mp_dir/out" 2>&1
        grep -qx "\['serving', 'serving'\]" "$mp_dir/out"
        mp_report $? "another user who has the key may look and gives no orders" "$mp_dir/out"
    else
        mp_skip "another user who has the key may look and gives no orders" "another user cannot run the programs of this directory"
    fi
else
    mp_skip "another user who has the key may look and gives no orders" "this takes root and setpriv"
fi

{
    "$ctl" loglevel debug -servers "$file" && json status '[s["log"] for s in d["servers"]]' &&
        said 1 "it takes warn|error|info|debug" "$ctl" loglevel loud -servers "$file" &&
        mv "$file.log" "$mp_dir/old.log" && "$ctl" reload IOFWD_CLIENT_FILES=7 IOFWD_CLIENT_MEMORY=2M AMPHORA_LOG=info -servers "$file" &&
        json status '[(s["limit_client_files"], s["limit_client_memory"], s["log"]) for s in d["servers"]]' &&
        said 1 "cannot change while a server runs" "$ctl" reload IOFWD_PREFIX=/other -servers "$file" &&
        said 1 "there is no setting IOFWD_NOPE" "$ctl" reload IOFWD_NOPE=1 -servers "$file" &&
        said 1 "is out of bounds" "$ctl" reload IOFWD_CLIENT_FILES=0 -servers "$file" &&
        timeout 60 "$run" -servers "$file" sh -c 'exec 3>/fwd/1 4>/fwd/2 5>/fwd/3 6>/fwd/4 7>/fwd/5 8>/fwd/6 9>/fwd/7 && echo seven && : >/fwd/8'
    test -e "$file.log" && grep -c "IOFWD_CLIENT_FILES=7 is set now" "$mp_dir/old.log"
} >"$mp_dir/out" 2>&1
grep -qx "\['debug', 'debug'\]" "$mp_dir/out" && grep -qx "\[(7, 2097152, 'info'), (7, 2097152, 'info')\]" "$mp_dir/out" &&
    grep -qx seven "$mp_dir/out" && grep -qx 2 "$mp_dir/out" && grep -q 'Too many open files' "$mp_dir/out"
mp_report $? "loglevel and reload: level, limits and the log file, and what cannot change" "$mp_dir/out"

"$ctl" reload IOFWD_CLIENT_FILES=100 -servers "$file" >/dev/null
client two "exec 5>/fwd/t; echo first >&5" 'echo second >&5; cat /fwd/t; (echo of a child) >/fwd/u; cat /fwd/u'
{
    "$ctl" drain -servers "$file" && json status '[s["state"] for s in d["servers"]]' &&
        said 1 "is being drained" "$run" -servers "$file" cat /fwd/x && leave one && test -e "$file" &&
        json status 'sum(s["server_clients"] for s in d["servers"]) > 0' && leave two && cat "$mp_dir/two.out" &&
        mp_until 20 test ! -e "$mp_dir/pid" && grep 'last client has left' "$file.log"
} >"$mp_dir/out" 2>&1
ok=$?
[ $ok = 0 ] && grep -qx "\['draining', 'draining'\]" "$mp_dir/out" && grep -qx 'of a child' "$mp_dir/out" && grep -qx second "$mp_dir/out" &&
    grep -qx True "$mp_dir/out" && [ ! -e "$file" ]
mp_report $? "drain: no further clients; the others and their children go on; the servers end with the last one" "$mp_dir/out"

up 2 >/dev/null 2>&1
cp "$file" "$mp_dir/copy"
{
    said 0 "the servers have ended" "$ctl" stop -servers "$file" && mp_until 20 test ! -e "$mp_dir/pid" && test ! -e "$file" &&
        grep 'iofwd-ctl stop' "$file.log" && said 1 "2 of 2 servers" "$ctl" status -servers "$mp_dir/copy" &&
        said 1 "does not listen" "$ctl" files -servers "$mp_dir/copy" && said 1 "none of the 2 servers" "$ctl" stop -servers "$mp_dir/copy" &&
        said 1 "unreachable" "$ctl" status -json -servers "$mp_dir/copy"
} >"$mp_dir/out" 2>&1
mp_report $? "stop, and servers that have ended" "$mp_dir/out"

# The process that supervises these has no descriptor left to restart them with, and tries again each second.
up 2 >"$mp_dir/out" 2>&1
{
    pid=$(cat "$mp_dir/pid")
    # shellcheck disable=SC2046 # several numbers
    prlimit --pid "$pid" --nofile=3:3 && kill -9 $(ps -o pid= --ppid "$pid") &&
        mp_until 20 sh -c "grep -c 'another takes its place' '$file.log' | grep -qx 2" &&
        said 1 "are running (process $pid" timeout 20 "$builddir/iofwd-server" -daemon -iofwd "/fwd=$mp_dir" -address-file "$file" &&
        said 0 "the servers have ended" "$ctl" stop -servers "$file" && not_running "$pid" && test ! -e "$file"
} >>"$mp_dir/out" 2>&1
mp_report $? "servers that have all died: the supervisor keeps the address file, and stop ends it" "$mp_dir/out"
down

# The threads of a server share one core at one real-time priority: none may keep another one from it.
name="servers under real-time priority on one core end when they are told to"
if chrt -f 1 taskset -c 0 true 2>/dev/null; then
    {
        chrt -f 1 taskset -c 0 timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$file" \
            -pid-file "$mp_dir/pid" && said 0 "serving" "$ctl" status -servers "$file" && pid=$(cat "$mp_dir/pid") && kill "$pid" &&
            { mp_until 10 not_running "$pid" || { chrt -f 2 kill -KILL -- $(ps -o pid= --ppid "$pid") "$pid"; false; }; }
    } >"$mp_dir/out" 2>&1
    mp_report $? "$name" "$mp_dir/out"
else
    mp_skip "$name" "this takes the right to set a real-time priority"
fi

extra="-conduit tcp"
up 1 >"$mp_dir/out" 2>&1
sed 's/^server [^ ]*/server elsewhere/' "$file" >"$mp_dir/far"
chmod 600 "$mp_dir/far"
{
    said 0 serving "$ctl" status -servers "$mp_dir/far" && said 1 "on its own host only" "$ctl" stop -servers "$mp_dir/far"
} >>"$mp_dir/out" 2>&1
mp_report $? "over tcp one may look and gives no orders" "$mp_dir/out"
extra=""

{
    for target in /dev/full closed; do
        if [ $target = closed ]; then
            "$ctl" status -servers "$file" >&-
        else
            "$ctl" status -servers "$file" >$target
        fi
        echo "exit code $?"
    done
} >"$mp_dir/out" 2>&1
[ "$(grep -c 'could not be written' "$mp_dir/out")" = 2 ] && [ "$(grep -cx 'exit code 1' "$mp_dir/out")" = 2 ]
mp_report $? "output that cannot be written is reported" "$mp_dir/out"
down

timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" sh -c 'echo word >/fwd/j; "$1" status; "$1" clients -json
    "$1" drain; echo "exit code $?"; "$1" stop; echo "exit code $?"; "$1" loglevel info; echo "exit code $?"' sh "$ctl" >"$mp_dir/out" 2>&1
grep -Eq '^ +1 .* serving ' "$mp_dir/out" && [ "$(grep -c 'belongs to a job' "$mp_dir/out")" -ge 2 ] &&
    [ "$(grep -cx 'exit code 1' "$mp_dir/out")" = 2 ] && grep -qx 'exit code 0' "$mp_dir/out" && grep -q '"bytes_written":5' "$mp_dir/out"
mp_report $? "a job's servers: looking and the log level; drain and stop are the job's" "$mp_dir/out"
mp_done
