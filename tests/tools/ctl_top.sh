#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-ctl top, metrics and progress, amphora-run -progress, and log lines as JSON: what they say is what the clients did.
. "${srcdir:-.}/tests/tools/ctl_lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
ctl=$builddir/iofwd-ctl
run=$builddir/iofwd-run
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
file=$mp_dir/addresses
mkdir "$mp_dir/kept"
mkfifo "$mp_dir/hold"

end_all() {
    [ -z "${writer:-}" ] || kill "$writer" 2>/dev/null
    [ -z "${listener:-}" ] || kill "$listener" 2>/dev/null
    test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"
    rm -rf "$mp_dir"
}
trap 'end_all' EXIT

up() {
    env "$@" timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$file" \
        -pid-file "$mp_dir/pid"
}

# python EXPRESSION: its value; standard input is one JSON document, d
python() {
    python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

# A client that writes all the time.
up >"$mp_dir/out" 2>&1
IOFWD_PASSTHROUGH=0 timeout 300 "$run" -servers "$file" sh -c 'exec 5>/fwd/busy; : >"$1"; while :; do echo text >&5; done' sh "$mp_dir/begun" \
    >"$mp_dir/writer" 2>&1 &
writer=$!
mp_until 30 test -e "$mp_dir/begun"

timeout 60 "$ctl" top -servers "$file" -interval 0.5 -count 2 -json >"$mp_dir/out" 2>&1
[ "$(wc -l <"$mp_dir/out")" = 2 ] && tail -n 1 "$mp_dir/out" | python '(d["interval_s"] >= 0.5, len(d["servers"]), d["servers_reached"],
    sum(s["server_calls_per_s"] for s in d["servers"]) > 0, sum(s["server_bytes_written_per_s"] for s in d["servers"]) > 0,
    all(0 < s["latency_p50_ns"] <= s["latency_p99_ns"] for s in d["servers"] if s["server_calls_per_s"]),
    [s["server_calls_per_s"] for s in d["servers"]] == sorted((s["server_calls_per_s"] for s in d["servers"]), reverse=True))' \
    >"$mp_dir/said" 2>&1 && grep -qx '(True, 2, 2, True, True, True, True)' "$mp_dir/said"
mp_report $? "top as JSON: rates of a busy client, sorted" "$mp_dir/out"

# Its calls reach no server, which learns of them when it is asked.
timeout 300 "$run" -servers "$file" python3 -c 'import os, sys
fd = os.open("/fwd/passed", os.O_RDWR | os.O_CREAT)
for i in range(1000): os.pwrite(fd, b"0123456789", 0)
for i in range(50): os.pread(fd, 5, 0)
print("ready", flush=True)
sys.stdin.read()' <"$mp_dir/hold" >"$mp_dir/passed" 2>&1 &
passed=$!
exec 7>"$mp_dir/hold"
mp_until 30 grep -q ready "$mp_dir/passed"
{
    timeout 60 "$ctl" clients -servers "$file"
    timeout 60 "$ctl" files -servers "$file"
    timeout 60 "$ctl" status -servers "$file" -json
} >"$mp_dir/out" 2>&1
exec 7>&-
wait $passed
cat "$mp_dir/passed" >>"$mp_dir/out"
grep -Eq ' 9\.8K +250 ' "$mp_dir/out" && grep -Eq ' 9\.8K .*/fwd/passed' "$mp_dir/out" && grep -Eq '"server_calls_passed":1[0-9]{3}' "$mp_dir/out"
mp_report $? "calls by passed descriptors are counted" "$mp_dir/out"

{
    timeout 60 "$ctl" top -servers "$file" -interval 0.2 -count 1 -by client -sort WRITE/S -json | python 'd["clients"][0]["bytes_written_per_s"] > 0'
    timeout 60 "$ctl" top -servers "$file" -interval 0.2 -count 1 -by server
} >"$mp_dir/out" 2>&1
grep -qx True "$mp_dir/out" && grep -q 'CALLS/S .*WRITE/S' "$mp_dir/out" && grep -q '2 servers, .* calls/s, ' "$mp_dir/out"
mp_report $? "top by client, and as text" "$mp_dir/out"

{
    said 2 "is not what top sorts by" "$ctl" top -servers "$file" -by user && said 2 "is no column" "$ctl" top -servers "$file" -sort SIZE &&
        said 2 "is not an interval" "$ctl" top -servers "$file" -interval 0 && said 2 "is not a number of tables" "$ctl" top -servers "$file" -count 0 &&
        said 2 "not an option of iofwd-ctl status" "$ctl" status -servers "$file" -interval 3 &&
        said 2 "not an option of iofwd-ctl metrics" "$ctl" metrics -servers "$file" -json && said 2 "needs a value" "$ctl" top -servers "$file" -sort
} >"$mp_dir/out" 2>&1
mp_report $? "options that a command does not take are refused" "$mp_dir/out"

# Before it looks for servers: none are there.
{
    said 2 "is not what top sorts by" "$ctl" top -servers "$mp_dir/none" -by user && said 2 "is no column" "$ctl" top -servers "$mp_dir/none" -sort SIZE &&
        said 2 "is not an interval" "$ctl" top -servers "$mp_dir/none" -interval 0 &&
        said 2 "is not a number of tables" "$ctl" top -servers "$mp_dir/none" -count 0 &&
        said 2 "is not an interval" "$ctl" progress -servers "$mp_dir/none" -interval x
    if "$ctl" metrics -listen 1 -servers "$mp_dir/none" 2>&1 | grep -q "built without"; then
        said 1 "built without" "$ctl" metrics -servers "$mp_dir/none" -listen 0
    else
        said 2 "-listen takes" "$ctl" metrics -servers "$mp_dir/none" -listen 0
    fi
} >"$mp_dir/out" 2>&1
mp_report $? "wrong values are refused where there are no servers, too" "$mp_dir/out"

# On a terminal.
pane() {
    tmux -S "$mp_dir/tmux" capture-pane -p 2>/dev/null
}

shows() {
    pane | grep -qE -- "$1"
}

key() {
    tmux -S "$mp_dir/tmux" send-keys "$1"
}

if ! command -v tmux >/dev/null; then
    mp_skip "on a terminal: views, sorting and the end by keys" "there is no tmux"
elif timeout 10 "$ctl" top -servers "$file" </dev/null 2>&1 | grep -q "built without ncurses"; then
    mp_skip "on a terminal: views, sorting and the end by keys" "iofwd-ctl was built without ncurses"
else
    {
        TERM=screen tmux -S "$mp_dir/tmux" -f /dev/null new-session -d -x 150 -y 20 "$ctl top -servers $file -interval 0.3; echo \"code \$?\" >$mp_dir/code" &&
            mp_until 20 shows 'STATE' && key f && mp_until 20 shows 'OPENER' && key c && mp_until 20 shows 'PROCESS' && key s &&
            mp_until 20 shows 'STATE' && mp_until 20 shows '[1-9][0-9.KM]* calls/s' && key '>' && key r && key '+' && mp_until 20 shows 'every 0.6 s' &&
            key q && mp_until 20 test -s "$mp_dir/code" && grep -qx 'code 0' "$mp_dir/code"
    } >"$mp_dir/out" 2>&1
    ok=$?
    pane >>"$mp_dir/out"
    mp_report $ok "on a terminal: views, sorting and the end by keys" "$mp_dir/out"
    tmux -S "$mp_dir/tmux" kill-server 2>/dev/null
fi

kill "$writer"
wait "$writer" 2>/dev/null
writer=

# Metrics, by another project's parser where it is there.
cat >"$mp_dir/parse.py" <<'END'
import json, subprocess, sys
text = open(sys.argv[1]).read()
status = json.load(open(sys.argv[2]))["servers"]
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
    samples = [s for family in parse(text) for s in family.samples]
    found = {(s.name, s.labels.get("server"), s.labels.get("le")): s.value for s in samples}
except ImportError:
    import re
    found = {}
    for line in text.splitlines():
        m = re.fullmatch(r'([a-z0-9_]+)\{server="(\d+)"(?:,host="[^"]*")?(?:,le="([^"]*)")?\} (\S+)', line)
        assert m or line.startswith("# "), line
        if m:
            found[m[1], m[2], m[3]] = float(m[4])
assert text.endswith("# EOF\n")
for s in status:
    n = str(s["server"])
    for name in "calls", "bytes_written", "bytes_read", "errors":
        assert found["amphora_server_%s_total" % name, n, None] == s["server_" + name], name
    assert found["amphora_server_files", n, None] == s["server_files"]
    assert found["amphora_server_up", n, None] == 1
    assert found["amphora_server_latency_seconds_count", n, None] == s["latency"]["count"]
    assert found["amphora_server_latency_seconds_bucket", n, "+Inf"] == s["latency"]["count"]
assert sum(s["server_calls"] for s in status) > 0
assert "/fwd" not in text
print("equal")
END
{
    "$ctl" metrics -servers "$file" >"$mp_dir/metrics" && "$ctl" status -json -servers "$file" >"$mp_dir/status" &&
        python3 "$mp_dir/parse.py" "$mp_dir/metrics" "$mp_dir/status"
} >"$mp_dir/out" 2>&1
grep -qx equal "$mp_dir/out"
mp_report $? "metrics are OpenMetrics text with the numbers of status, and without paths" "$mp_dir/out"

answers() {
    curl -s --max-time 5 --unix-socket "$mp_dir/socket" -o "$mp_dir/got" -w '%{http_code} %{content_type}\n' "http://host$1" >"$mp_dir/code" &&
        grep -q "^$2 $3" "$mp_dir/code"
}

if ! command -v curl >/dev/null; then
    mp_skip "metrics on a socket, on a port; left sockets, sockets in use, the end" "there is no curl"
elif timeout 10 "$ctl" metrics -listen 0 -servers "$file" 2>&1 | grep -q "built without"; then
    mp_skip "metrics on a socket, on a port; left sockets, sockets in use, the end" "iofwd-ctl was built without libmicrohttpd"
else
    {
        "$ctl" metrics -listen "$mp_dir/socket" -servers "$file" &
        listener=$!
        mp_until 20 answers /metrics 200 application/openmetrics-text && python3 "$mp_dir/parse.py" "$mp_dir/got" "$mp_dir/status" &&
            [ "$(stat -c %a "$mp_dir/socket")" = 600 ] && answers /other 404 text/plain &&
            said 1 "cannot listen on" "$ctl" metrics -listen "$mp_dir/socket" -servers "$file" &&
            kill -KILL $listener && { wait $listener; test -S "$mp_dir/socket"; } &&
            { "$ctl" metrics -listen "$mp_dir/socket" -servers "$file" & listener=$!; } && mp_until 20 answers /metrics 200 application &&
            kill $listener && { wait $listener; echo "ended with $?"; } && test ! -e "$mp_dir/socket" &&
            said 2 "-listen takes" "$ctl" metrics -listen 70000 -servers "$file" && said 2 "-listen takes" "$ctl" metrics -listen x -servers "$file"
        listener=
    } >"$mp_dir/out" 2>&1
    ok=$?
    grep -qx 'ended with 0' "$mp_dir/out" && [ $ok = 0 ]
    mp_report $? "metrics on a socket, on a port; left sockets, sockets in use, the end" "$mp_dir/out"
fi
kill "$(cat "$mp_dir/pid")"
gone() {
    test ! -e "$mp_dir/pid"
}
mp_until 20 gone

# Progress: the last line counts everything.
head -c 1000000 /dev/urandom >"$mp_dir/data"
timeout -k 5 100 "$AMPHORA_RUN" -n 2 -servers 2 -progress -iofwd "/fwd=$mp_dir/kept" sh -c 'cat "$1" >"/fwd/p$AMPHORA_RANK"; cat "/fwd/p$AMPHORA_RANK" >/dev/null' sh \
    "$mp_dir/data" >"$mp_dir/out" 2>&1
code=$?
[ $code = 0 ] && grep -q 's in all: written 1953K, read 1953K, .* calls, 0 errors$' "$mp_dir/out"
mp_report $? "amphora-run -progress: its last line has the bytes of the whole job" "$mp_dir/out"

timeout -k 5 100 "$AMPHORA_RUN" -n 1 -progress true >"$mp_dir/out" 2>&1
code=$?
[ $code = 0 ] && grep -q 'has no I/O servers' "$mp_dir/out"
mp_report $? "amphora-run -progress without servers says so" "$mp_dir/out"

# Log lines.
cat >"$mp_dir/log.py" <<'END'
import json, re, sys
trace, log = open(sys.argv[1]).read(), open(sys.argv[2]).read()
lines = [json.loads(line) for line in log.splitlines()]
ids = re.findall(r"ENOENT.*request (\S+?),", trace)
found = [l for l in lines if l.get("request") in ids and "No such file" in l["message"]]
print(len(lines) > 0, len(ids) > 0, len(found) > 0, all({"time", "level", "process", "pid", "message"} <= set(l) for l in lines))
END
rm -f "$file.log"
up AMPHORA_LOG=debug AMPHORA_LOG_FORMAT=json >"$mp_dir/out" 2>&1
timeout 60 "$run" -servers "$file" -trace rm -f '/fwd/none"x' >"$mp_dir/trace" 2>&1
timeout 60 "$run" -servers "$file" -trace cat /fwd/none >>"$mp_dir/trace" 2>&1
kill "$(cat "$mp_dir/pid")"
mp_until 20 gone
python3 "$mp_dir/log.py" "$mp_dir/trace" "$file.log" >>"$mp_dir/out" 2>&1
cat "$mp_dir/trace" >>"$mp_dir/out"
grep -qx 'True True True True' "$mp_dir/out"
mp_report $? "log lines as JSON: a failed call has the same request id in the client's trace and in the server's log" "$mp_dir/out"
mp_done
