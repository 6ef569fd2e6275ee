#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Records of other hosts are compressed there at the end of a job: a host is a stand-in for ssh that runs the line on this machine, with a
# host name of its own and, if a case says so, with a disk of its own below the folder of the records, or another iofwd-trace.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
unset AMPHORA_JOB IOFWD_PREFIX
names="a shared folder: each host compresses its records
each host has a folder of its own: it compresses its records
a job that fails: the records are compressed, and its exit code stays
IOFWD_TRACE_PACK=0 leaves the records of other hosts as they are
records that cannot be compressed there: a sentence names the host
SIGTERM while a host compresses its records: the job ends at once, with a sentence
a host that is lost while it compresses its records: a sentence, and no call is lost"

if [ ! -x "$trace" ] || ! unshare -u -m true 2>/dev/null; then
    echo "$names" >"$mp_dir/names"
    while read -r name; do mp_skip "$name" "iofwd-trace is not built, or name spaces are not allowed here"; done <"$mp_dir/names"
    mp_done
    exit
fi

own=$(cd "$builddir" && pwd)/iofwd-trace
cat >"$mp_dir/enter" <<END
#!/bin/sh
hostname "\$1"
[ ! -d "$mp_dir/disk" ] || mount --bind "$mp_dir/disk" "$mp_dir/r"
[ ! -e "$mp_dir/other" ] || mount --bind "$mp_dir/other" "$own"
exec sh -c "\$2"
END
cat >"$mp_dir/ssh" <<END
#!/bin/sh
while [ \$# -gt 2 ]; do
    case \$1 in -o | -F) shift 2 ;; *) shift ;; esac
done
export SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
cd /
exec unshare -u -m "$mp_dir/enter" "\$1" "\$2"
END
chmod +x "$mp_dir/ssh" "$mp_dir/enter"
printf 'near-host:1\nfar-host:1\n' >"$mp_dir/hosts"

# job WORD...: a recorded job of a process on each host
job() {
    timeout -k 5 60 "$AMPHORA_RUN" -ssh "$mp_dir/ssh -q" -hosts "$mp_dir/hosts" -n 2 -timeout 50 -record "$mp_dir/r" "$@" >"$mp_dir/out" 2>&1 </dev/null
}
run() {
    rm -rf "$mp_dir/r"
    mkdir "$mp_dir/r"
    job "$@"
    mp_status=$?
    ls "$mp_dir/r" >>"$mp_dir/out"
}
# files SUFFIX [FOLDER]: how many records of the far host have it
files() {
    find "${2:-$mp_dir/r}" -name "far-host.*.$1" | wc -l
}
# calls: how many calls of the far host are in the records
calls() {
    "$trace" sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE calls.host = 'far-host' AND name = 'read'" -csv 2>>"$mp_dir/out" |
        tail -n 1 | tr -d '"\r'
}
export IOFWD_TRACE_PACK=1
loop='i=0; while [ $i -lt 3 ]; do cat /etc/passwd >/dev/null; i=$((i + 1)); done'

run sh -c "$loop"
test $mp_status = 0 && test "$(files trace)" = 0 && test "$(files tracez)" -gt 2 && test "$(calls)" -gt 2
mp_report $? "a shared folder: each host compresses its records" "$mp_dir/out"

mkdir "$mp_dir/disk"
run sh -c "$loop"
test $mp_status = 0 && test "$(files trace "$mp_dir/disk")" = 0 && test "$(files tracez "$mp_dir/disk")" -gt 2 && test "$(files tracez)" = 0
mp_report $? "each host has a folder of its own: it compresses its records" "$mp_dir/out"
rm -rf "$mp_dir/disk"

run sh -c "$loop; exit 7"
test $mp_status = 7 && test "$(files trace)" = 0 && test "$(files tracez)" -gt 2
mp_report $? "a job that fails: the records are compressed, and its exit code stays" "$mp_dir/out"

IOFWD_TRACE_PACK=0 run sh -c "$loop"
test $mp_status = 0 && test "$(files tracez)" = 0 && test "$(files trace)" -gt 2
mp_report $? "IOFWD_TRACE_PACK=0 leaves the records of other hosts as they are" "$mp_dir/out"

printf '#!/bin/sh\nexit 3\n' >"$mp_dir/other"
chmod +x "$mp_dir/other"
run sh -c "$loop"
test $mp_status = 0 && test "$(files trace)" -gt 2 && grep -q 'the records of the host far-host below .* are not all compressed; there, iofwd-trace pack' "$mp_dir/out"
mp_report $? "records that cannot be compressed there: a sentence names the host" "$mp_dir/out"

printf '#!/bin/sh\necho $PPID >%s/agent\nexec sleep 90\n' "$mp_dir" >"$mp_dir/other"
rm -rf "$mp_dir/r"
mkdir "$mp_dir/r"
job sh -c "$loop" &
mp_until 30 test -s "$mp_dir/agent"
pkill -TERM -P $!
wait $!
mp_status=$?
test $mp_status = 0 && grep -q "the host far-host .* not all compressed, because the job's end is due" "$mp_dir/out" && ! kill -0 "$(cat "$mp_dir/agent")" 2>/dev/null
mp_report $? "SIGTERM while a host compresses its records: the job ends at once, with a sentence" "$mp_dir/out"

printf '#!/bin/sh\nkill -KILL $PPID\nexec sleep 90\n' >"$mp_dir/other"
run sh -c "$loop"
rm "$mp_dir/other"
test $mp_status = 0 && grep -q 'the host far-host .* not all compressed, because it is lost' "$mp_dir/out" && test "$(calls)" -gt 2
mp_report $? "a host that is lost while it compresses its records: a sentence, and no call is lost" "$mp_dir/out"
mp_done
