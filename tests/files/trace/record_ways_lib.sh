# SPDX-License-Identifier: BSD-3-Clause
# For record_trap.sh and record_mount.sh: calls of programs that the preload library does not reach are recorded by the process that
# forwards them.  Before it is sourced: way, and run of trap_lib.sh or the test beside it; servers keep /fwd in $mp_dir/kept.
trace=$builddir/iofwd-trace
records=$mp_dir/records
mkdir -p "$mp_dir/kept"

if ! ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -static -o "$mp_dir/ways" "$srcdir/tests/files/trace/record_ways.c" -lpthread 2>"$mp_dir/why"; then
    echo "1..1"
    echo "ok 1 - recording # SKIP this compiler makes no static programs"
    exit 0
fi
if [ ! -x "$trace" ]; then
    echo "1..1"
    echo "ok 1 - recording # SKIP iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"
    exit 0
fi

# recorded COMMAND...: runs it, with new records; its output is in $mp_dir/said
recorded() {
    rm -rf "$records"
    run -record "$records" "$@" >"$mp_dir/said" 2>&1 </dev/null
}

# sql QUERY: the last line of the answer
sql() {
    "$trace" sql "$records" "$1" 2>&1 | tail -n 1 | tr -d ' '
}

# is NAME WANTED QUERY: the answer is that
is() {
    mp_wanted "$1" || return 0
    got=$(sql "$3")
    { echo "$got, not $2" && cat "$mp_dir/said" && "$trace" sql "$records" "SELECT * FROM calls LIMIT 50"; } >"$mp_dir/out" 2>&1
    test "$got" = "$2"
    mp_report $? "$1" "$mp_dir/out"
}

# ---- each call with its members ----

# missing: expected lines without a record, each record used once
missing() {
    "$trace" sql "$records" "SELECT pid, tid, name, path, coalesce(offset, -1), coalesce(length, -1),
        result, errno FROM calls" -csv | tr ',' ' ' >"$mp_dir/lines"
    awk -v way="$way" 'NR == FNR { there[$0]++; next }
        $1 == way || $1 == "both" { line = $0; sub(/^[a-z]* /, "", line); n++; if (there[line]-- < 1) { print "no record: " line; bad = 1 } }
        END { print n " lines"; exit bad || n < 60 }' "$mp_dir/lines" "$mp_dir/said"
}

export IOFWD_PASSTHROUGH=0
recorded "$mp_dir/ways" /fwd all
echo "exit code $?" >>"$mp_dir/said"
unset IOFWD_PASSTHROUGH
missing >"$mp_dir/out"
status=$?
cat "$mp_dir/lines" >>"$mp_dir/out"
mp_report $status "a static program: path, offset, length, result and errno of each call" "$mp_dir/out"
is "each process has records of its own, and each thread its number" 3,5 \
    "SELECT count(DISTINCT pid) || ',' || (SELECT count(DISTINCT tid) FROM calls WHERE pid = (SELECT pid FROM calls WHERE path = '/fwd/data'
    LIMIT 1)) FROM calls c JOIN processes p USING(process, pid) WHERE exe LIKE '%/ways'"
is "a rename has both paths" /fwd/folder/fwd/other "SELECT path || path2 FROM calls WHERE name = 'rename'"
is "all calls are forwarded, have returned, and most have a server and its time" 1 \
    "SELECT min(side) = 'forwarded' AND min(returned) = 1 AND sum(requests > 0 AND server_ns > 0 AND ns >= server_ns) * 2 > count(*) FROM calls"
is "the program and its folder" "$mp_dir/ways,$PWD" "SELECT exe || ',' || cwd FROM processes WHERE exe LIKE '%/ways' LIMIT 1"
is "the name of the recorder" "$way" "SELECT group_concat(DISTINCT recorder) FROM processes"

# ---- what iofwd-trace says ----

for command in summary files timeline patterns "export -format csv"; do
    set -- $command
    "$trace" "$1" "$records" ${2:+"$2"} ${3:+"$3"} >"$mp_dir/out" 2>&1 && test "$(wc -l <"$mp_dir/out")" -gt 1
    mp_report $? "iofwd-trace $command" "$mp_dir/out"
done
"$trace" summary "$records" >"$mp_dir/out" 2>&1
grep -q 'forwarded calls of a program only: its local calls are not here' "$mp_dir/out"
mp_report $? "summary: local calls are not seen" "$mp_dir/out"
before=$("$trace" sql "$records" 'SELECT * FROM calls' -csv | sha256sum)
"$trace" pack "$records" >"$mp_dir/out" 2>&1
packed=$?
if grep -q 'built without libzstd' "$mp_dir/out"; then
    mp_skip "compressed: the same calls" "built without libzstd"
else
    test $packed = 0 && test "$before" = "$("$trace" sql "$records" 'SELECT * FROM calls' -csv | sha256sum)" &&
        "$trace" summary "$records" | grep -q 'its local calls are not here'
    mp_report $? "compressed: the same calls" "$mp_dir/out"
fi

# ---- made again ----

mkdir "$mp_dir/again"
"$trace" replay "$records" -prefix "$mp_dir/again" -no-think >"$mp_dir/out" 2>&1
replayed=$?
made=$(sed -n 's/^\([0-9]*\) calls were made again.*/\1/p' "$mp_dir/out")
otherwise=$(sed -n 's/^\([0-9]*\) calls ended otherwise.*/\1/p' "$mp_dir/out")
test $replayed = 0 && test "$made" -gt 15 && test $((${otherwise:-0} * 2)) -lt "$made"
mp_report $? "replay: the calls whose files are known" "$mp_dir/out"

# ---- refused before they are forwarded ----

if [ "$way" = trap ]; then
    cat >"$mp_dir/refused.c" <<'C'
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    return rename(argv[1], argv[2]) == 0 || link(argv[2], argv[1]) == 0 || chroot("/fwd") == 0 || argc != 3;
}
C
    ${CC:-cc} -static -o "$mp_dir/refused" "$mp_dir/refused.c" || exit 99
    : >"$mp_dir/kept/source"
    recorded -trace="$mp_dir/lines" "$mp_dir/refused" /fwd/source "$mp_dir/there"
    is "refused before it is forwarded: a rename from a prefix to the host" "/fwd/source,$mp_dir/there,18,-1,forwarded" \
        "SELECT path || ',' || path2 || ',' || errno || ',' || result || ',' || side FROM calls WHERE name LIKE 'rename%'"
    is "refused before it is forwarded: a link, and a call that only the kernel carries out" "chroot:/fwd:1,link:$mp_dir/there:2" \
        "SELECT group_concat(x) FROM (SELECT name || ':' || path || ':' || errno AS x FROM calls WHERE failed AND name IN ('link', 'chroot') ORDER BY 1)"
    grep -Eq "^[0-9]+ rename\(\"/fwd/source\", \"$mp_dir/there\"\) = -1 EXDEV .*<client" "$mp_dir/lines"
    mp_report $? "refused before it is forwarded: a line" "$mp_dir/lines"
fi

# ---- programs ----

rm -rf "$mp_dir/kept/"*
head -c 300000 /dev/urandom >"$mp_dir/kept/big"
# shellcheck disable=SC2016
recorded -trace="$mp_dir/traced" busybox sh -c 'busybox cat /fwd/big >/dev/null; busybox cp /fwd/big /fwd/copy; busybox mv /fwd/copy /fwd/moved
    busybox ls -l /fwd; busybox cat /fwd/none; busybox rm /fwd/moved; echo end >/fwd/shell'
is "cat: all bytes" 300000 "SELECT sum(bytes) FROM calls WHERE class = 'read' AND pid = (SELECT pid FROM calls WHERE path = '/fwd/big' LIMIT 1)"
is "cp: all bytes" 300000 "SELECT sum(bytes) FROM calls WHERE class = 'write' AND path = '/fwd/copy'"
is "mv" /fwd/copy,/fwd/moved,0 "SELECT path || ',' || path2 || ',' || result FROM calls WHERE name = 'rename'"
is "ls reads the folder" 1 "SELECT sum(result) > 0 FROM calls WHERE name = 'getdents' AND path = '/fwd'"
is "an error" 2 "SELECT errno FROM calls WHERE failed AND path = '/fwd/none' LIMIT 1"
is "rm" 1 "SELECT count(*) FROM calls WHERE name = 'unlink' AND path = '/fwd/moved'"
is "fork and exec: a process each" 7 "SELECT count(*) FROM processes WHERE exe LIKE '%/busybox'"
sed 's/^[0-9]* //; s/(.*//' "$mp_dir/traced" | sort | uniq -c >"$mp_dir/printed"
"$trace" sql "$records" 'SELECT name FROM calls' -csv | tail -n +2 | tr -d '\r' | sort | uniq -c >"$mp_dir/names"
diff "$mp_dir/printed" "$mp_dir/names" >"$mp_dir/out" 2>&1 && test -s "$mp_dir/names"
mp_report $? "-trace prints a line for each record" "$mp_dir/out"

# A supervisor learns of a close by the process's end, maybe after the next process has renamed the file.
grep -Eq '^[0-9]+ p?write\(</fwd/copy>, ' "$mp_dir/traced" && grep -Eq ' close\(</fwd/(copy|moved)>\) = 0 ' "$mp_dir/traced" && ! grep -Eq '\(<[0-9]' "$mp_dir/traced"
mp_report $? "-trace: lines with the paths of open files" "$mp_dir/traced"
run -trace="$mp_dir/alone" busybox cp /fwd/big /fwd/copy >"$mp_dir/said" 2>&1 </dev/null
grep -Eq '^[0-9]+ p?write\(</fwd/copy>, ' "$mp_dir/alone" && grep -q ' close(</fwd/copy>) = 0 ' "$mp_dir/alone" && ! grep -Eq '\(<[0-9]' "$mp_dir/alone"
mp_report $? "-trace without -record: lines with the paths of open files" "$mp_dir/alone"
run -trace=all,"$mp_dir/alone" busybox cat /fwd/big >"$mp_dir/null" 2>"$mp_dir/said" </dev/null
grep -q "IOFWD_TRACE=all: calls that stay on this host do not pass through iofwd-$way" "$mp_dir/said"
mp_report $? "-trace=all: local calls have no lines, which is said" "$mp_dir/said"

program=$(sql "SELECT pid FROM calls WHERE path = '/fwd/shell' LIMIT 1")
grep "shell" "$mp_dir/traced" >"$mp_dir/out"
grep -q "^$program open" "$mp_dir/out"
mp_report $? "-trace: with the program's thread in front" "$mp_dir/out"
recorded -trace busybox cat /fwd/shell
cp "$mp_dir/said" "$mp_dir/out"
grep -q 'close(' "$mp_dir/out" || mp_until 10 grep -q 'close(' "$mp_dir/said"
grep -q '^[0-9]* open(.*shell.*server' "$mp_dir/said"
mp_report $? "-trace: on standard error" "$mp_dir/said"

if command -v go >/dev/null && mkdir -p "$mp_dir/go" && cat >"$mp_dir/go/main.go" <<'G' && (cd "$mp_dir/go" && HOME=$mp_dir CGO_ENABLED=0 go build -o ../gone main.go) >"$mp_dir/out" 2>&1; then
package main

import (
	"fmt"
	"os"
	"sync"
)

func main() {
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			name := fmt.Sprintf("/fwd/go%d", i)
			if os.WriteFile(name, make([]byte, 1000+i), 0666) != nil {
				os.Exit(1)
			}
			data, err := os.ReadFile(name)
			if err != nil || len(data) != 1000+i {
				os.Exit(2)
			}
		}(i)
	}
	group.Wait()
}
G
    recorded "$mp_dir/gone"
    is "Go: what was written and read" 8028,8028,8 "SELECT sum(bytes) FILTER (WHERE class = 'write') || ',' || sum(bytes) FILTER (WHERE class = 'read')
        || ',' || count(DISTINCT path) FROM calls WHERE path LIKE '/fwd/go%'"
else
    mp_skip "Go: what was written and read" "no go here, or it cannot build"
fi

# ---- nothing is lost ----

many="SELECT count(*) FROM calls WHERE name = 'pwrite' AND path = '/fwd/many' AND returned"
recorded "$mp_dir/ways" /fwd many 5000 kill
is "SIGKILL of the program: all calls are there" 5000 "$many"
recorded "$mp_dir/ways" /fwd children 100
is "100 children: those of all" 100,1000 "SELECT count(DISTINCT pid) || ',' || count(*) FROM calls WHERE name = 'pwrite'"

# ---- the budget, and other limits ----

# the budget has room for about 7700 calls; on a busy machine a call takes milliseconds
export IOFWD_TRACE_BUDGET=1M IOFWD_PASSTHROUGH=0
recorded "$mp_dir/ways" /fwd many 9000 missing
echo "exit code $?" >>"$mp_dir/said"
unset IOFWD_TRACE_BUDGET IOFWD_PASSTHROUGH
is "beyond the budget: calls are counted" 1 "SELECT (SELECT count(*) FROM calls WHERE name = 'pwrite') + dropped_calls BETWEEN 9000 AND 9020
    AND dropped_calls > 1000 FROM losses"
is "beyond the budget: errors are kept" 1 "SELECT count(*) > 0 FROM calls WHERE failed AND path = '/fwd/missing'"
test "$(du -sk "$records" | cut -f 1)" -le 1200
mp_report $? "beyond the budget: no more on disk" "$mp_dir/said"
