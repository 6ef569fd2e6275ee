#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The recorder: each line that strace prints of the same run has a record or belongs to a listed class; nothing is lost by SIGKILL, abort,
# fork or exec; many processes; the budget; damaged and foreign files; and the answers of iofwd-trace.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
trace=$builddir/iofwd-trace
run=$builddir/iofwd-run
if [ ! -x "$trace" ]; then
    for number in $(seq 150); do
        mp_skip "case $number of the recorder" "iofwd-trace is not built: it takes SQLite (libsqlite3-dev)"
    done
    mp_done
    exit
fi
unset AMPHORA_JOB IOFWD_PREFIX
XDG_RUNTIME_DIR=$mp_dir/none # no servers
IOFWD_TRACE_PACK=0 # the cases look at files as they were written
export XDG_RUNTIME_DIR IOFWD_TRACE_PACK
mkdir "$mp_dir/none" "$mp_dir/cwd"

# sql DIR QUERY
sql() {
    "$trace" sql "$1" "$2" | tail -n 1 | tr -d ' '
}

# ---- beside strace ----

lines="SELECT c.tid, c.name, c.fd, c.result, c.path, (c.start_ns + (SELECT zero_ns FROM losses)) / 1e9 AS start,
    (c.end_ns + (SELECT zero_ns FROM losses)) / 1e9 AS end FROM calls c"

# same NAME COMMAND...: the records of a run, and strace's lines of the same
same() {
    name=$1
    shift
    if ! command -v python3 >/dev/null || ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
        mp_skip "$name: as strace" "no strace or python3 here, or it may not trace"
        return
    fi
    mp_wanted "$name: as strace" || return 0
    rm -rf "$mp_dir/r" "$mp_dir/cwd/"*
    (cd "$mp_dir/cwd" && timeout 100 strace -f -y -ttt -T -s 4096 -o "$mp_dir/strace" "$run" -record "$mp_dir/r" "$@") </dev/null >"$mp_dir/said" 2>&1
    "$trace" sql "$mp_dir/r" "$lines" -json >"$mp_dir/lines" 2>>"$mp_dir/said"
    python3 "$srcdir/tests/files/trace/record_check.py" "$mp_dir/strace" "$mp_dir/lines" "$mp_dir/r/" >"$mp_dir/out" 2>&1
    status=$?
    cat "$mp_dir/said" >>"$mp_dir/out"
    mp_report $status "$name: as strace ($(sed -n 's/^ *\([0-9]*\) recorded$/\1/p' "$mp_dir/out") records)" "$mp_dir/out"
}

head -c 300000 /dev/zero >"$mp_dir/big"
same cat cat "$mp_dir/big" /etc/hostname
same cp cp -a "$mp_dir/big" copy
command -v git >/dev/null && same git sh -c 'git init -q . && echo a >a && git add a && git -c user.name=a -c user.email=a@b commit -q -m a && git log --oneline'
python=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null)
[ -n "$python" ] && same python3 "$python" -c 'import json, os, tempfile
with open("a", "w") as f: json.dump(list(range(1000)), f)
os.rename("a", "b"); os.stat("b"); os.listdir(".")
with tempfile.TemporaryFile() as f: f.write(b"x" * 100000); f.seek(5); f.read(10)'
same perl perl -e 'open(F, ">a"); print F "x" x 10000; close F; open(F, "<a"); seek(F, 100, 0); read(F, $b, 50); close F; rename "a", "b"; mkdir "d";
    opendir(D, "."); @l = readdir D; unlink "b"; rmdir "d"; system("true")'
same sqlite3 sqlite3 x.db "CREATE TABLE t(a); INSERT INTO t VALUES(1), (2); SELECT sum(a) FROM t; VACUUM"
same make sh -c 'echo "int f(void) { return 0; }" >a.c && echo "int f(void); int main(void) { return f(); }" >b.c &&
    printf "p: a.o b.o\n\tgcc -o p a.o b.o\n%%.o: %%.c\n\tgcc -c \$<\n" >Makefile && PATH=/usr/bin:/bin make -j2'
if command -v gfortran >/dev/null; then
    cat >"$mp_dir/f.f90" <<'F'
program f
  integer :: i
  real :: x(1000)
  x = 1.0
  open(10, file='a', form='unformatted')
  do i = 1, 20
    write(10) x
  end do
  rewind(10)
  read(10) x
  close(10)
  open(11, file='b')
  write(11, *) x(1:10)
  close(11, status='delete')
end program
F
    gfortran -o "$mp_dir/f" "$mp_dir/f.f90" && same gfortran "$mp_dir/f"
else
    mp_skip "gfortran: as strace" "no gfortran here"
fi
cat >"$mp_dir/o.c" <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    int bad = 0;
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < 64; i++) {
        char name[32], b[100] = "";
        snprintf(name, sizeof name, "file%d", i % 8);
        int fd = open(name, O_RDWR | O_CREAT, 0666);
        if (pwrite(fd, b, sizeof b, i * 100L) != sizeof b || pread(fd, b, sizeof b, 0) < 0 || close(fd) != 0)
            bad = 1;
    }
    return bad;
}
C
if ${CC:-cc} -fopenmp -o "$mp_dir/o" "$mp_dir/o.c" 2>/dev/null; then
    same OpenMP "$mp_dir/o"
else
    mp_skip "OpenMP: as strace" "the compiler has no OpenMP"
fi

# ---- nothing is lost ----

cat >"$mp_dir/k.c" <<'C'
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int fd = open("/dev/null", O_WRONLY), pair[2];
    long n = argc > 2 ? atol(argv[2]) : 1000;
    for (long i = 0; i < n; i++)
        if (write(fd, "xy", 2) != 2)
            return 1;
    if (strcmp(argv[1], "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(argv[1], "abort") == 0)
        abort();
    if (strcmp(argv[1], "exec") == 0)
        execl(argv[0], argv[0], "end", "7", (char *)NULL);
    if (strcmp(argv[1], "vfork") == 0 && vfork() == 0) {
        execl(argv[0], argv[0], "end", "7", (char *)NULL);
        _exit(1);
    }
    if (strcmp(argv[1], "wait") == 0 && pipe(pair) == 0) {
        alarm(1);
        return (int)read(pair[0], &n, 1);
    }
    if (strcmp(argv[1], "fork") == 0)
        for (int i = 0; i < 64; i++)
            if (fork() == 0) {
                for (long k = 0; k < n; k++)
                    if (write(fd, "abc", 3) != 3)
                        _exit(1);
                _exit(0);
            }
    while (wait(NULL) > 0) {
    }
    return 0;
}
C
${CC:-cc} -o "$mp_dir/k" "$mp_dir/k.c" || exit 99

# counted NAME WRITES ARGUMENT...
counted() {
    name=$1 wanted=$2
    shift 2
    rm -rf "$mp_dir/r"
    "$run" -record "$mp_dir/r" "$mp_dir/k" "$@" >"$mp_dir/out" 2>&1
    got=$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'write' AND returned")
    echo "$got writes, not $wanted" >>"$mp_dir/out"
    test "$got" = "$wanted"
    mp_report $? "$name" "$mp_dir/out"
}
counted "SIGKILL: all $((5000)) calls are there" 5000 kill 5000
counted "abort: all calls are there" 1000 abort
counted "exec: those of both programs" 1007 exec
counted "64 children of fork: those of all" $((100 + 64 * 100)) fork 100
test "$(sql "$mp_dir/r" 'SELECT count(DISTINCT process) FROM calls')" = 65 &&
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'fork'")" = 64
mp_report $? "64 children of fork: each a process of its own" "$mp_dir/out"
counted "a call that never returns" 1000 wait
test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'read' AND NOT returned")" = 1
mp_report $? "a call that never returns is there" "$mp_dir/out"

counted "vfork: the parent's calls, and the child's program" 1007 vfork
# shellcheck disable=SC2016
if unshare -m sh -c 'mount -t tmpfs -o size=400k none "$1"' sh "$mp_dir/none" 2>/dev/null; then
    # shellcheck disable=SC2016
    timeout 100 unshare -m sh -c 'mount -t tmpfs -o size=400k none "$1" && "$2" -record "$1" "$3" end 400000; code=$?
        "$4" sql "$1" "SELECT count(*) FROM calls WHERE name = '"'write'"'" | tail -n 1 | tr -d " "; exit $code' \
        sh "$mp_dir/none" "$run" "$mp_dir/k" "$trace" >"$mp_dir/out" 2>&1
    test $? = 0 && grep -q 'No space left on device' "$mp_dir/out" && test "$(tail -n 1 "$mp_dir/out")" -gt 10000
    mp_report $? "a full disk ends the records, with a sentence, not the program; what was written is read" "$mp_dir/out"
else
    mp_skip "a full disk ends the records, with a sentence, not the program; what was written is read" "mount is not allowed here"
fi

# ---- short processes ----

echo small >"$mp_dir/small"
rm -rf "$mp_dir/r"
# shellcheck disable=SC2016
"$run" -record "$mp_dir/r" sh -c 'for i in $(seq 200); do cat "$1" || exit; done' sh "$mp_dir/small" >/dev/null 2>"$mp_dir/out"
short=$(sql "$mp_dir/r" "SELECT count(DISTINCT process) || ',' || sum(bytes) FROM calls WHERE path = '$mp_dir/small' AND class = 'read'")
kib=$(du -sk "$mp_dir/r" | cut -f 1)
{ echo "$short; $kib KiB, $(ls "$mp_dir/r" | wc -l) files" && du -k "$mp_dir/r/"* | cut -f 1 | sort -n | uniq -c; } >>"$mp_dir/out"
test "$short" = 200,1200
mp_report $? "200 short processes: the calls of each" "$mp_dir/out"
test "$kib" -le $((200 * 17))
mp_report $? "200 short processes: at most 17 KiB each on disk, for fork and program" "$mp_dir/out"

# ---- programs without the recorder ----

if ${CC:-cc} -static -o "$mp_dir/static" "$mp_dir/k.c" 2>"$mp_dir/out"; then
    unrecorded="static is statically linked, so its file calls are not recorded; link it by iofwd-cc"
    rm -rf "$mp_dir/r"
    "$run" -record "$mp_dir/r" "$mp_dir/static" end 7 >"$mp_dir/out" 2>&1
    test $? = 0 && test "$(grep -c "$unrecorded" "$mp_dir/out")" = 1
    mp_report $? "iofwd-run: a static program is said not to be recorded" "$mp_dir/out"
    rm -rf "$mp_dir/r"
    timeout 60 "$AMPHORA_RUN" -n 2 -timeout 50 -record "$mp_dir/r" "$mp_dir/static" end 7 >"$mp_dir/out" 2>&1
    test $? = 0 && test "$(grep -c "$unrecorded" "$mp_dir/out")" = 1
    mp_report $? "amphora-run: a static program is said not to be recorded" "$mp_dir/out"
    rm -rf "$mp_dir/r"
    # shellcheck disable=SC2016
    "$run" -record "$mp_dir/r" sh -c '"$1" end 7; "$1" end 7; true' sh "$mp_dir/static" >"$mp_dir/out" 2>&1
    test $? = 0 && test "$(grep -c "$unrecorded" "$mp_dir/out")" = 1 && "$trace" summary "$mp_dir/r" | grep -q "$unrecorded"
    mp_report $? "a static program that a recorded one starts is said once, and in the summary" "$mp_dir/out"
    for way in trap mount; do
        "$run" -record "$mp_dir/r" -$way "$mp_dir/static" end 7 >"$mp_dir/out" 2>&1
        test $? = 2 && grep -q -- "-$way is not possible: mount and trap need servers" "$mp_dir/out"
        mp_report $? "-$way with -record is refused without servers" "$mp_dir/out"
    done
    if "$builddir/iofwd-cc" "${CC:-cc}" -static -o "$mp_dir/wrapped" "$mp_dir/k.c" >"$mp_dir/out" 2>&1; then
        rm -rf "$mp_dir/r"
        "$run" -record "$mp_dir/r" "$mp_dir/wrapped" end 1234 >"$mp_dir/out" 2>&1
        test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'write'")" = 1234 && test ! -s "$mp_dir/out"
        mp_report $? "a static program that iofwd-cc has linked is recorded" "$mp_dir/out"
        echo '#include <stdio.h>
            int main(void) { FILE *f = fopen("/dev/null", "w"); for (int i = 0; i < 77; i++) fprintf(f, "%1000d", i); return fclose(f); }' >"$mp_dir/p.c"
        rm -rf "$mp_dir/r"
        "$builddir/iofwd-cc" "${CC:-cc}" -static -o "$mp_dir/wrapped" "$mp_dir/p.c" >"$mp_dir/out" 2>&1
        "$run" -record "$mp_dir/r" "$mp_dir/wrapped" >>"$mp_dir/out" 2>&1
        test "$(sql "$mp_dir/r" "SELECT count(*) || ',' || sum(bytes) FROM calls WHERE name LIKE '%fprintf%' AND path = '/dev/null'")" = 77,77000
        mp_report $? "a static program that iofwd-cc has linked: its streams are recorded" "$mp_dir/out"
    else
        mp_skip "a static program that iofwd-cc has linked is recorded" "there is no static library"
        mp_skip "a static program that iofwd-cc has linked: its streams are recorded" "there is no static library"
    fi
else
    for number in 1 2 3 4 5 6 7; do
        mp_skip "case $number of programs without the recorder" "this compiler makes no static programs"
    done
fi

# ---- the budget ----

rm -rf "$mp_dir/r"
IOFWD_TRACE_BUDGET=1M "$run" -record "$mp_dir/r" "$mp_dir/k" end 400000 >"$mp_dir/out" 2>&1
"$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
# all: what the file calls of the recording are, with the sums
sums=$(sql "$mp_dir/r" "SELECT (SELECT count(*) FROM calls WHERE name = 'write') || ',' ||
    (SELECT sum(calls) FROM totals t JOIN names USING(name_id) WHERE name = 'write') || ',' || (SELECT sum(bytes) FROM totals) || ',' ||
    (SELECT summed_calls FROM losses) || ',' ||
    ((SELECT count(*) FROM calls WHERE layer = 'posix') + (SELECT sum(calls) FROM totals))")
IFS=, read -r events summed bytes beyond all <<END
$sums
END
echo "$events $summed $bytes" >>"$mp_dir/out"
test "$summed" -gt 20000 && test "$bytes" = $((summed * 2)) && test "$((events + summed))" -ge 400000 && test "$((events + summed))" -le 400128 &&
    grep -q "$beyond calls were beyond IOFWD_TRACE_BUDGET" "$mp_dir/out"
mp_report $? "beyond the budget: sums by file, and the slowest" "$mp_dir/out"
test "$(du -sk "$mp_dir/r" | cut -f 1)" -le 1400
mp_report $? "beyond the budget: no more on disk" "$mp_dir/out"
for command in "ranks $mp_dir/r" "files $mp_dir/r" "patterns $mp_dir/r" "patterns $mp_dir/r -json" "diff $mp_dir/r $mp_dir/r" "export $mp_dir/r"; do
    "$trace" $command >"$mp_dir/out" 2>&1 && grep -q 'calls were beyond IOFWD_TRACE_BUDGET' "$mp_dir/out"
    mp_report $? "beyond the budget: $(echo "$command" | sed "s# .*/r##") says so" "$mp_dir/out"
done
# twice WORDS COMMAND...: refused with a sentence
twice() {
    words=$1
    shift
    "$trace" "$@" >"$mp_dir/out" 2>&1
    test $? = 2 && grep -q -e "$words" "$mp_dir/out" && test "$(wc -l <"$mp_dir/out")" = 1
}
twice "give one of them" patterns "$mp_dir/r" -json -csv && twice "give one of them" sql "$mp_dir/r" -csv 'SELECT 1' --json &&
    twice "-format is given twice" export "$mp_dir/r" -format csv -format jsonl && twice "is given twice" report "$mp_dir/r" -o a -o b &&
    "$trace" patterns "$mp_dir/r" -json -json >"$mp_dir/out"
mp_report $? "two formats for one answer are refused" "$mp_dir/out"
"$trace" ranks "$mp_dir/r" >"$mp_dir/out" 2>&1
echo "all: $all" >>"$mp_dir/out"
awk -v all="$all" 'NR == 2 { exit $5 != all }' "$mp_dir/out" && test "$all" -ge 400000
mp_report $? "beyond the budget: ranks counts the sums" "$mp_dir/out"
"$trace" diff "$mp_dir/r" "$mp_dir/r" >"$mp_dir/out" 2>&1
awk 'NR > 1 && $2 >= 390000 { found = 1 } END { exit !found }' "$mp_dir/out"
mp_report $? "beyond the budget: diff counts the sums" "$mp_dir/out"
rm -rf "$mp_dir/r"
(ulimit -f 512 && "$run" -record "$mp_dir/r" "$mp_dir/k" end 400000) >"$mp_dir/out" 2>&1
test $? = 0 && grep -q 'a file cannot grow' "$mp_dir/out"
mp_report $? "a limit of file sizes ends the records, with a sentence, not the program" "$mp_dir/out"

# ---- compressed; damaged; foreign ----

rm -rf "$mp_dir/r"
# a compressed file has blocks of 64 K calls: one that is whole, and a part of another
"$run" -record "$mp_dir/r" "$mp_dir/k" end 100000
size=$(cat "$mp_dir/r/"*.trace | wc -c)
echo "$size bytes" >"$mp_dir/out"
test "$size" -lt $((100000 * 8))
mp_report $? "a long run has less than 8 bytes a call on disk" "$mp_dir/out"
before=$("$trace" sql "$mp_dir/r" 'SELECT * FROM calls' -csv | sha256sum)
mkdir "$mp_dir/plain"
cp "$mp_dir/r/"*.trace "$mp_dir/plain"
"$trace" pack "$mp_dir/r" >"$mp_dir/out" 2>&1
packed=$?
if grep -q 'built without libzstd' "$mp_dir/out"; then
    mp_skip "compressed: the same calls in 8 bytes each" "built without libzstd"
else
    size=$(cat "$mp_dir/r/"*.tracez | wc -c)
    echo "$size bytes" >>"$mp_dir/out"
    test $packed = 0 && test "$before" = "$("$trace" sql "$mp_dir/r" 'SELECT * FROM calls' -csv | sha256sum)" && test "$size" -lt $((100000 * 8))
    mp_report $? "compressed: the same calls in $((size * 10 / 100000)) tenths of a byte each" "$mp_dir/out"

    # pack was killed before it could remove the file that it had compressed
    cp "$mp_dir/plain/"*.trace "$mp_dir/r"
    "$trace" sql "$mp_dir/r" 'SELECT * FROM calls' -csv 2>"$mp_dir/out" | sha256sum >"$mp_dir/both"
    test "$before" = "$(cat "$mp_dir/both")" && "$trace" pack "$mp_dir/r" >"$mp_dir/out" 2>&1 && test -z "$(find "$mp_dir/r" -name '*.trace')"
    mp_report $? "compressed: a file that is there in both forms counts once, and is packed again" "$mp_dir/out"
fi

# last_block FILE: the bytes of the last block of a compressed file
last_block() {
    at=$((12 + $(od -An -tu4 -j 8 -N 4 "$1")))
    end=$(wc -c <"$1")
    while [ "$at" -lt "$end" ]; do
        last=$((12 + $(od -An -tu4 -j $((at + 8)) -N 4 "$1")))
        at=$((at + last))
    done
    echo "$last"
}

# cut NAME FILE BYTES CALLS: of the file without its last bytes, some calls are there, and a sentence says that others are not
cut() {
    rm -rf "$mp_dir/r"
    mkdir "$mp_dir/r"
    head -c "-$3" "$2" >"$mp_dir/r/${2##*/}"
    "$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1 && grep -q 'up to [0-9]* of its records are missing: it was cut off' "$mp_dir/out" &&
        test "$(sql "$mp_dir/r" 'SELECT count(*) FROM calls')" $4
    mp_report $? "$1" "$mp_dir/out"
}
for file in "$mp_dir/plain/"*.trace; do
    cut "cut off, at the last block" "$file" 1 "-gt 95000"
    cut "cut off, at half" "$file" $(($(wc -c <"$file") / 2)) "-gt 25000"
    cut "cut off, in the ring" "$file" $(($(wc -c <"$file") - 20000)) "-ge 0"
done
if [ $packed = 0 ]; then
    rm -rf "$mp_dir/r"
    mkdir "$mp_dir/whole"
    cp "$mp_dir/plain/"*.trace "$mp_dir/whole"
    "$trace" pack "$mp_dir/whole" >"$mp_dir/out" 2>&1
    for file in "$mp_dir/whole/"*.tracez; do
        cut "cut off, compressed: the blocks before" "$file" 1 "-gt 60000"
        cut "cut off, compressed: between two blocks" "$file" "$(last_block "$file")" "-gt 60000"
        cp "$file" "$mp_dir/r"
        printf 'damaged' | dd of="$mp_dir/r/${file##*/}" bs=1 seek=$(($(wc -c <"$file") * 9 / 10)) conv=notrunc 2>/dev/null
        "$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1 && grep -q 'up to [0-9]* of its records are missing' "$mp_dir/out"
        mp_report $? "damaged, compressed: the blocks before" "$mp_dir/out"
    done
    # what is missing is not forgotten when the file is compressed
    for file in "$mp_dir/plain/"*.trace; do
        cut "cut off, before it is compressed" "$file" 1 "-gt 95000"
    done
    "$trace" pack "$mp_dir/r" >"$mp_dir/out" 2>&1
    "$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
    grep -q 'tracez: up to [0-9]* of its records are missing' "$mp_dir/out"
    mp_report $? "cut off, before it is compressed: said afterwards" "$mp_dir/out"
else
    for number in 1 2 3 4 5; do
        mp_skip "case $number of compressed files that are cut off" "built without libzstd"
    done
fi
rm -rf "$mp_dir/plain" "$mp_dir/whole"

# packs NAME FILES COMMAND...: afterwards there are packed files, or not, and all writes
packs() {
    name=$1 wanted=$2
    shift 2
    rm -rf "$mp_dir/r"
    "$@" >"$mp_dir/out" 2>&1
    echo "exit code $?" >>"$mp_dir/out"
    writes=$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE name = 'write'")
    found=$(find "$mp_dir/r" -name '*.tracez' | wc -l),$(find "$mp_dir/r" -name '*.trace' | wc -l)
    echo "$found files, $writes writes" >>"$mp_dir/out"
    test "$found" = "$wanted" && test "$writes" -ge 5000 && grep -q "exit code ${code:-0}$" "$mp_dir/out"
    mp_report $? "$name" "$mp_dir/out"
}
if [ $packed = 0 ]; then
    packs "iofwd-run compresses the records at the end" 1,0 env IOFWD_TRACE_PACK=16K "$run" -record "$mp_dir/r" "$mp_dir/k" end 5000
    packs "iofwd-run: not below IOFWD_TRACE_PACK" 0,1 env IOFWD_TRACE_PACK=1M "$run" -record "$mp_dir/r" "$mp_dir/k" end 5000
    code=137 packs "iofwd-run: a program that a signal ends gives it on" 1,0 env IOFWD_TRACE_PACK=16K sh -c '"$@"; exit $?' sh \
        "$run" -record "$mp_dir/r" "$mp_dir/k" kill 5000
    code=7 packs "iofwd-run: the exit code is the program's" 3,0 env IOFWD_TRACE_PACK=16K "$run" -record "$mp_dir/r" sh -c '"$1" end 5000; exit 7' sh "$mp_dir/k"
    packs "amphora-run compresses the records at the end" 2,0 env IOFWD_TRACE_PACK=16K timeout 60 "$AMPHORA_RUN" -n 2 -timeout 50 -record "$mp_dir/r" \
        "$mp_dir/k" end 5000
    # what cannot be packed: a folder is in the way of the compressed file, made by the program itself
    # shellcheck disable=SC2016
    code=5 packs "records that cannot be compressed: a sentence" 6,3 env IOFWD_TRACE_PACK=16K "$run" -record "$mp_dir/r" sh -c \
        '"$2" end 5000; for f in "$1"/*.trace; do mkdir "$f"z.new; done; exit 5' sh "$mp_dir/r" "$mp_dir/k"
    grep -q 'are not all compressed; iofwd-trace pack .* tries it again' "$mp_dir/out"
    mp_report $? "records that cannot be compressed: the remedy" "$mp_dir/out"
    rm -rf "$mp_dir/r"
    mkfifo "$mp_dir/fifo"
    # shellcheck disable=SC2016
    IOFWD_TRACE_PACK=16K "$run" -record "$mp_dir/r" sh -c 'trap "echo caught; exit 3" TERM; echo ready >"$1"; while :; do sleep 0.01; done' \
        sh "$mp_dir/fifo" >"$mp_dir/out" 2>&1 &
    read -r _ <"$mp_dir/fifo"
    kill -TERM $!
    wait $!
    test $? = 3 && grep -q caught "$mp_dir/out"
    mp_report $? "iofwd-run: a signal reaches the program" "$mp_dir/out"
else
    for number in 1 2 3 4 5 6 7 8; do
        mp_skip "case $number of compressing at the end" "built without libzstd"
    done
fi
rm -rf "$mp_dir/r"
"$run" -record "$mp_dir/r" true
file=$(echo "$mp_dir/r/"*.trace)
refused() {
    "$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1
    test $? = 1 && grep -q "$2" "$mp_dir/out"
    mp_report $? "$1" "$mp_dir/out"
}
cp "$file" "$mp_dir/kept"
printf '\7' | dd of="$file" bs=1 seek=12 conv=notrunc 2>/dev/null
refused "another version is refused" 'version 7'
printf '\1\2\3\4' | dd of="$file" bs=1 seek=8 conv=notrunc 2>/dev/null
refused "another byte order is refused" 'other byte order'
echo hello >"$file"
refused "a short file is refused" 'fewer than a header'

# A call that lasted two years, and a sum of such, beside one of 5 ns: the first two are left out, with a sentence.
if command -v python3 >/dev/null; then
    python3 - "$mp_dir/kept" "$file" <<'EOF'
import struct, sys
header = bytearray(open(sys.argv[1], 'rb').read(4096))
header[88:96] = struct.pack('=Q', 0)  # no ring: slots follow
header[112:136] = bytes(24)
start, = struct.unpack_from('=Q', header, 24)
name = struct.pack('=II56s', 4 << 24, 0, b'read')
def call(ns): return struct.pack('=IHBBQQqqQiIQ', 1 << 24 | 2 << 16, 0, 0, 0, start, (start + ns) % 2**64, 1, 0, 1, 3, 0, 0)
def total(ns): return struct.pack('=IIQQQQQQQ', 6 << 24, 0, 0, 1, 1, ns, ns, start, start)
open(sys.argv[2], 'wb').write(bytes(header) + name + call(5) + 9 * call(2**63 - 2 * start) + call(2 * 31536000 * 10**9) + total(2**63 - 1) + total(7))
EOF
    for command in summary files ranks timeline patterns "export -format csv"; do
        set -- $command
        "$trace" "$1" "$mp_dir/r" ${2:+"$2"} ${3:+"$3"} >"$mp_dir/out" 2>&1 &&
            grep -q "$file: 11 of its records have impossible times and are left out.*record the run again" "$mp_dir/out"
        mp_report $? "damaged times, $1: a sentence" "$mp_dir/out"
    done
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE ns = 5")" = 1 && test "$(sql "$mp_dir/r" "SELECT sum(ns) FROM totals")" = 7
    mp_report $? "damaged times: the other records are there" "$mp_dir/out"
else
    mp_skip "damaged times" "no python3 here"
fi
rm "$file"
mkfifo "$file"
refused "a FIFO is refused" 'no regular file'
rm "$file"
refused "an empty folder is said" 'no files of recorded calls'
"$run" -record /proc/none true >"$mp_dir/out" 2>&1
test $? = 2 && grep -q 'records cannot be written there' "$mp_dir/out"
mp_report $? "a folder that cannot be made is refused" "$mp_dir/out"

# earlier SAID COMMAND...: is it said that the records of an earlier run are there?
earlier() {
    said=$1
    shift
    rm -rf "$mp_dir/r"
    "$@" >"$mp_dir/out" 2>&1
    grep -q 'earlier run' "$mp_dir/out" && echo "the first run" >>"$mp_dir/out"
    "$@" >>"$mp_dir/out" 2>&1
    test "$(grep -c -e 'records of an earlier run are there' -e 'the first run' "$mp_dir/out")" = "$said"
    mp_report $? "records of an earlier run: ${1##*/}, said $said times" "$mp_dir/out"
}
earlier 1 "$run" -record "$mp_dir/r" true
earlier 1 timeout 60 "$AMPHORA_RUN" -n 2 -timeout 50 -record "$mp_dir/r" true
earlier 0 env PMI_RANK=1 "$run" -record "$mp_dir/r" true

# names that would command the terminal, or be lines of their own
rm -rf "$mp_dir/r"
bell=$(printf 'new\nline\033[31mred')
# shellcheck disable=SC2016
"$run" -record "$mp_dir/r" sh -c 'echo text >"$1"; cat "$1"' sh "$mp_dir/cwd/$bell" >"$mp_dir/out" 2>&1
for command in files summary; do
    "$trace" "$command" "$mp_dir/r" >"$mp_dir/out.$command" 2>&1
done
"$trace" sql "$mp_dir/r" "SELECT path FROM calls WHERE path LIKE '%red'" >"$mp_dir/out.sql"
cat "$mp_dir"/out.* >"$mp_dir/out"
grep -qF '/new\nline\033[31mred' "$mp_dir/out.files" && grep -qF '/new\nline\033[31mred' "$mp_dir/out.sql" && ! grep -q "$(printf '\033')" "$mp_dir/out" &&
    ! grep -q '^line' "$mp_dir/out"
mp_report $? "control characters of names are visible in tables" "$mp_dir/out"
"$trace" sql "$mp_dir/r" "SELECT path FROM calls WHERE path LIKE '%red' LIMIT 1" -json >"$mp_dir/out"
grep -qF '/new\u000aline\u001b[31mred"' "$mp_dir/out"
mp_report $? "control characters of names are what they are in JSON" "$mp_dir/out"

# former VERSION ANSWER: a run of dd that a former version recorded: reads of /dev/zero, and as many forwarded writes
former() {
    for form in plain packed; do
        rm -rf "$mp_dir/r"
        mkdir "$mp_dir/r"
        case $form in
        plain) gzip -dc "$srcdir/tests/files/trace/former/version-$1.trace.gz" >"$mp_dir/r/one.trace" ;;
        packed) cp "$srcdir/tests/files/trace/former/version-$1.tracez" "$mp_dir/r/one.tracez" ;;
        esac
        "$trace" sql "$mp_dir/r" "SELECT count(*), sum(ns), sum(server_ns), sum(start_ns), sum(requests), sum(side = 'forwarded'), min(path) FROM calls" -csv \
            >"$mp_dir/out" 2>&1
        if grep -q 'built without libzstd' "$mp_dir/out"; then
            mp_skip "version $1, $form: the same calls" "built without libzstd"
            continue
        fi
        test "$(tail -n 1 "$mp_dir/out")" = "$2"
        mp_report $? "version $1, $form: the same calls" "$mp_dir/out"
    done
}
former 2 1210,31815454,1034261,27269536001,602,604,/dev/zero
former 4 1612,33098643,2169269,32734687319,802,804,/dev/zero
former 3 1610,858240990,2177908,599346049311,802,804,/dev/zero

# ---- answers ----

rm -rf "$mp_dir/r"
"$run" -trace "$mp_dir/r/" sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do cat "$1/missing" 2>/dev/null; done; cat "$2"' \
    sh "$mp_dir" "$mp_dir/big" >"$mp_dir/null"
"$trace" summary "$mp_dir/r" >"$mp_dir/out" 2>&1
grep -Eq '^open(at|64)? +ENOENT +22 ' "$mp_dir/out"
mp_report $? "summary: errors by name" "$mp_dir/out"
for command in summary files ranks timeline patterns "export -format chrome" "export -format csv" "export -format jsonl"; do
    set -- $command
    "$trace" "$1" "$mp_dir/r" ${2:+"$2"} ${3:+"$3"} >"$mp_dir/out" 2>&1 && test "$(wc -l <"$mp_dir/out")" -gt 1
    mp_report $? "iofwd-trace $command" "$mp_dir/out"
done
"$trace" patterns "$mp_dir/r" >"$mp_dir/out" 2>&1
grep -q 'opens of files that do not exist' "$mp_dir/out"
mp_report $? "patterns: opens of files that do not exist" "$mp_dir/out"
"$trace" diff "$mp_dir/r" "$mp_dir/r" >"$mp_dir/out" 2>&1 && awk '!NF { exit } NR > 1 && $2 != $3 { bad = 1 } END { exit bad || NR < 5 }' "$mp_dir/out"
mp_report $? "diff: a run and itself" "$mp_dir/out"

rm -rf "$mp_dir/r"
"$run" -record "$mp_dir/r" cp "$mp_dir/big" "$mp_dir/copied" >"$mp_dir/out" 2>&1
"$trace" sql "$mp_dir/r" "SELECT path, path2, bytes, name FROM calls WHERE class = 'write'" >>"$mp_dir/out" 2>&1
test "$(sql "$mp_dir/r" "SELECT sum(bytes) FROM calls WHERE class = 'write' AND path LIKE '%/copied'")" = "$(stat -c %s "$mp_dir/big")" &&
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE class = 'write' AND path LIKE '%/big'")" = 0
mp_report $? "cp writes its copy, not its source" "$mp_dir/out"
# only_reads QUERY...: each is refused with the sentence, and nothing is written
only_reads() {
    mkdir "$mp_dir/other"
    cp "$(command -v true)" "$mp_dir/other/true"
    (cd "$mp_dir/other" && ls) >"$mp_dir/other.before"
    for query in "$@"; do
        (cd "$mp_dir/other" && "$trace" sql "$mp_dir/r" "$query") >"$mp_dir/out" 2>&1
        test $? = 1 && grep -q 'takes SELECT, and changes no table and no file' "$mp_dir/out" || { echo "$query" >>"$mp_dir/out" && return 1; }
    done
    (cd "$mp_dir/other" && ls) | diff - "$mp_dir/other.before" >"$mp_dir/out"
}
only_reads "ATTACH 'file' AS x" "VACUUM INTO 'file'" "SELECT load_extension('./true')" "PRAGMA main.journal_mode = wal" "PRAGMA temp_store_directory = '.'" \
    "CREATE TABLE t(a)" "DELETE FROM events" "UPDATE events SET fd = 0" "DROP VIEW calls" "BEGIN" "PRAGMA writable_schema = 1" \
    "CREATE VIRTUAL TABLE t USING fts5(a)" "CREATE TEMP TABLE t AS SELECT 1" "INSERT INTO names VALUES(1000, 'a', 'b')" "ANALYZE" "DETACH main" \
    "PRAGMA main.user_version = 1"
mp_report $? "sql: what would write is refused" "$mp_dir/out"
"$trace" sql "$mp_dir/r" "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 3), c AS (SELECT * FROM calls WHERE class = 'open')
    SELECT (SELECT sum(i) FROM n) || errno_name(2) || (SELECT count(*) > 0 FROM c, all_calls, losses, json_each('[1]'))
    || (SELECT count(*) > 20 FROM pragma_table_info('events')) AS x" >"$mp_dir/out" 2>&1
test "$(tail -n 1 "$mp_dir/out")" = 6ENOENT11 && "$trace" sql "$mp_dir/r" "PRAGMA table_info(calls)" 2>&1 | grep -q start_ns
status=$?
"$trace" sql "$mp_dir/r" "UPDATE sqlite_master SET sql = 'a'" >>"$mp_dir/out" 2>&1
test $? = 1 && test $status = 0
mp_report $? "sql: what only reads is answered" "$mp_dir/out"
"$trace" sql "$mp_dir/r" "SELECT 1; SELECT 2" >"$mp_dir/out" 2>&1
test $? = 1 && grep -q 'one query at a time.*SELECT 2' "$mp_dir/out" && "$trace" sql "$mp_dir/r" "SELECT 1;" >>"$mp_dir/out" 2>&1
mp_report $? "a second query is refused" "$mp_dir/out"

name='an answer that memory does not suffice for: a sentence, no table'
if mp_sanitized asan tsan; then
    mp_skip "$name" "a sanitizer needs more addresses than the limit leaves"
else
    (
        ulimit -v 60000
        exec "$trace" sql "$mp_dir/r" "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
            SELECT printf('%.1000c', 'x') FROM n" >"$mp_dir/table" 2>"$mp_dir/out"
    )
    test $? = 1 && grep -q 'not enough memory' "$mp_dir/out" && [ ! -s "$mp_dir/table" ]
    mp_report $? "$name" "$mp_dir/out"
fi

# ---- the command line ----

# misused WORDS...: exit code 2, with one sentence on standard error
misused() {
    "$trace" "$@" >"$mp_dir/answer" 2>"$mp_dir/out"
    test $? = 2 && test ! -s "$mp_dir/answer" && test "$(wc -l <"$mp_dir/out")" = 1
    mp_report $? "refused: iofwd-trace $(echo "$*" | sed "s#$mp_dir#DIR#g")" "$mp_dir/out"
}
misused
misused nothing
misused summary
misused summary "$mp_dir/r" -json
misused export "$mp_dir/r" -prefix x
misused export "$mp_dir/r" -format
misused export "$mp_dir/r" -format xml
misused report "$mp_dir/r" -size 0
misused replay "$mp_dir/r"
for command in summary files ranks timeline patterns sql diff export pack replay report bench; do
    "$trace" $command -help >"$mp_dir/out" 2>&1 && grep -q "^usage: iofwd-trace $command " "$mp_dir/out"
    mp_report $? "iofwd-trace $command -help" "$mp_dir/out"
done
timeout 60 "$trace" bench "$run" >"$mp_dir/out" 2>&1
test $? = 0 && grep -q '^nothing ' "$mp_dir/out" && grep -q '^iofwd-run -record ' "$mp_dir/out" && ! grep -q 'earlier run' "$mp_dir/out"
mp_report $? "bench: the cost of a recorded call, and nothing about its own records" "$mp_dir/out"
mkdir "$mp_dir/empty"
"$trace" pack "$mp_dir/empty" >"$mp_dir/out" 2>&1
test $? = 1 && grep -q 'has no records' "$mp_dir/out"
mp_report $? "pack of a folder without records is refused" "$mp_dir/out"

# ---- paths that are not UTF-8 ----

odd=$(printf 'a\377b\303\244\300\200c')
rm -rf "$mp_dir/r"
echo word >"$mp_dir/$odd"
"$run" -record "$mp_dir/r" cat "$mp_dir/$odd" >"$mp_dir/out" 2>&1
for format in jsonl csv chrome; do
    "$trace" export "$mp_dir/r" -format $format >"$mp_dir/out" 2>&1 && iconv -f UTF-8 -t UTF-8 "$mp_dir/out" >"$mp_dir/null" &&
        grep -q "$(printf '/a\357\277\275b\303\244\357\277\275\357\277\275c')" "$mp_dir/out"
    mp_report $? "export -format $format is UTF-8, whatever the paths" "$mp_dir/out"
done

# ---- forwarded calls ----

rm -rf "$mp_dir/r"
mkdir "$mp_dir/kept.d"
IOFWD_TRACE_DIR=$mp_dir/r
mkdir "$mp_dir/r"
export IOFWD_TRACE_DIR
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 cp "$mp_dir/big" /fwd/copy >"$mp_dir/out" 2>&1
unset IOFWD_TRACE_DIR
"$trace" sql "$mp_dir/r" "SELECT name, path, side, requests, server_ns, ns FROM calls WHERE path LIKE '/fwd%'" >>"$mp_dir/out" 2>&1
test "$(sql "$mp_dir/r" "SELECT count(*) > 2 AND min(side) = 'forwarded' AND max(server_ns) > 0 AND min(ns - server_ns) > -200000 FROM calls WHERE path = '/fwd/copy'")" = 1
mp_report $? "forwarded calls have the server and its time" "$mp_dir/out"

# timed CONDITION COMMAND: calls by one server, recorded, fulfil the condition of SQL
timed() {
    rm -rf "$mp_dir/r"
    IOFWD_PASSTHROUGH=0 timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" sh -c "$2" >"$mp_dir/out" 2>&1
    "$trace" summary "$mp_dir/r" >>"$mp_dir/out" 2>&1
    "$trace" sql "$mp_dir/r" "SELECT count(*), sum(requests), sum(queue_ns), sum(file_ns), sum(network_ns), sum(ns) FROM calls WHERE server IS NOT NULL" >>"$mp_dir/out" 2>&1
    test "$(sql "$mp_dir/r" "SELECT $1 FROM calls WHERE server IS NOT NULL")" = 1 && grep -A1 "^server .*queue_ms.*file_ms.*network_ms" "$mp_dir/out" | grep -q "^ *0 "
}

# measured NAME CONDITION COMMAND
measured() {
    mp_wanted "$1" || return 0
    timed "$2" "$3"
    mp_report $? "$1" "$mp_dir/out"
}

# once NAME CONDITION COMMAND: the condition holds in one of five runs, as the server may wait for a processor in the others
once() {
    mp_wanted "$1" || return 0
    once_left=5
    until timed "$2" "$3"; do
        once_left=$((once_left - 1))
        [ $once_left -gt 0 ] || break
    done
    test $once_left -gt 0
    mp_report $? "$1" "$mp_dir/out"
}

parts="min(queue_ns >= 0 AND file_ns >= 0 AND network_ns >= 0 AND queue_ns + file_ns = server_ns AND queue_ns + file_ns + network_ns <= ns * 1.03 + 100000)"
measured "times in queue, at files and on the way add up" "count(*) > 100 AND sum(file_ns) > 0 AND sum(network_ns) > 0 AND $parts" \
    'dd if=/dev/zero of=/fwd/alone bs=1024 count=200 conv=notrunc status=none'
once "a large write does not wait for its own pieces" "sum(requests) > 100 AND sum(queue_ns) * 5 < sum(ns) AND $parts" \
    'dd if=/dev/zero of=/fwd/alone bs=4M count=32 status=none'
measured "requests of eight processes at one server wait there" "count(*) > 800 AND sum(queue_ns) * 20 > sum(server_ns) AND $parts" \
    'for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=/fwd/many$i bs=256k count=100 status=none & done; wait'
# A child asks for a lock that its parent holds; the parent keeps it for 100 ms after the child has said so.
cat >"$mp_dir/lock.py" <<'EOF'
import fcntl, os, sys, time

lock = fcntl.lockf if sys.argv[1] == 'record' else fcntl.flock
for turn in range(3):
    held = open('/fwd/lock', 'a+')
    lock(held, fcntl.LOCK_EX)
    ready = os.pipe()
    if os.fork() == 0:
        wanted = open('/fwd/lock', 'a+')
        os.write(ready[1], b'x')
        lock(wanted, fcntl.LOCK_EX)
        os._exit(0)
    os.read(ready[0], 1)
    time.sleep(0.1)
    lock(held, fcntl.LOCK_UN)
    os.wait()
EOF
for kind in record flock; do
    if [ -z "$python" ]; then
        mp_skip "the wait for a lock is queue time ($kind)" "no python3 here"
        continue
    fi
    measured "the wait for a lock is queue time ($kind)" "max(queue_ns) > 20000000 AND max(file_ns) * 2 < max(queue_ns) AND $parts" \
        "'$python' '$mp_dir/lock.py' $kind"
done
rm -rf "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" \
    sh -c 'cat </fwd/copy >>/fwd/redirected; md5sum </fwd/redirected' >"$mp_dir/out" 2>&1
"$trace" sql "$mp_dir/r" "SELECT DISTINCT exe, name, fd, path FROM calls c JOIN processes USING(process) WHERE fd < 2" >>"$mp_dir/out" 2>&1
test "$(sql "$mp_dir/r" "SELECT count(DISTINCT path) FROM calls WHERE path LIKE '/fwd/redirected' AND side = 'forwarded' AND name IN ('read', 'write')")" = 1 &&
    test "$(sql "$mp_dir/r" "SELECT count(*) FROM calls WHERE path LIKE '/memfd:%'")" = 0
mp_report $? "a descriptor that another program opened has its path" "$mp_dir/out"

cat >"$mp_dir/s.c" <<'C'
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char b[1024];
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_DSYNC, 0666);
    for (int i = 0; i < 4000; i++)
        if (write(fd, b, sizeof b) != sizeof b)
            return 1;
    return argc > 2;
}
C
${CC:-cc} -o "$mp_dir/s" "$mp_dir/s.c" || exit 99
rm -rf "$mp_dir/r"
IOFWD_PASSTHROUGH=0 timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" "$mp_dir/s" /fwd/s >"$mp_dir/out" 2>&1
size=$(cat "$mp_dir/r/"*.trace | wc -c)
in_stream=3584 # seven laps of the ring; a forwarded call takes two of its slots
echo "$(((size - 69632) * 10 / in_stream)) tenths of a byte each" >>"$mp_dir/out"
test "$size" -gt 69632 && test $((size - 69632)) -le $((in_stream * 8)) &&
    test "$(sql "$mp_dir/r" "SELECT count(*) || ' ' || min(requests) || ' ' || min(server_ns > 0) FROM calls WHERE name = 'write' AND side = 'forwarded'" | tr -d ' ')" = 400011
mp_report $? "a long forwarded run has at most 8 bytes a call on disk ($(((size - 69632) * 10 / in_stream)) tenths)" "$mp_dir/out"

# ---- streams of the C library ----

cat >"$mp_dir/stdio.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char b[100000];
    char *line = NULL, text[300] = "";
    size_t cap = 0;
    FILE *f = fopen(argv[1], "w+");
    if (!f || fwrite(b, 1000, 100, f) != 100 || fprintf(f, "\n%*d\n", 199, argc) != 201 || fputs(memset(text, 'x', 100) ? text : b, f) < 0)
        return 1;
    for (int i = 0; i < 20000; i++)
        if (fputc('y', f) == EOF || fputs(argv[0] + strlen(argv[0]) - 2, f) < 0)
            return 2;
    if (fflush(f) != 0 || fseek(f, 100000, SEEK_SET) != 0 || getline(&line, &cap, f) != 1 || getline(&line, &cap, f) != 200)
        return 3;
    if (!fgets(text, sizeof text, f) || fseek(f, 0, SEEK_SET) != 0 || fread(b, 100, 500, f) != 500 || fseek(f, -1, SEEK_SET) == 0)
        return 4;
    while (fread(b, 1, sizeof b, f) > 0) {
    }
    if (fclose(f) != 0 || !(f = fopen(argv[1], "a")))
        return 5;
    return fputs("end", f) < 0 || fclose(f) != 0 ? 6 : argc - 2;
}
C
${CC:-cc} -D_GNU_SOURCE -O1 -fno-builtin -o "$mp_dir/stdio" "$mp_dir/stdio.c" || exit 99

# stdio NAME QUERY ANSWER
stdio() {
    "$trace" sql "$mp_dir/r" "$2" >"$mp_dir/out" 2>&1
    test "$(tail -n 1 "$mp_dir/out" | tr -d ' ')" = "$3"
    mp_report $? "$1" "$mp_dir/out"
}
rm -rf "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" "$mp_dir/stdio" /fwd/stdio >"$mp_dir/out" 2>&1
mp_report $? "a program that uses forwarded streams" "$mp_dir/out"
of="FROM calls WHERE path = '/fwd/stdio' AND"
stdio "forwarded streams: the calls themselves, with path and bytes" "SELECT group_concat(n) FROM (SELECT replace(name, '__getdelim', 'getline') || ':' ||
    count(*) || ':' || sum(bytes) AS n $of layer = 'stdio' AND name <> 'fread' AND (name <> 'fputs' OR bytes >= 64) GROUP BY name ORDER BY 1)" \
    "fclose:2:0,fflush:1:0,fgets:1:299,fprintf:1:201,fputs:1:100,fseek:3:0,fwrite:1:100000,getline:2:201"
size=$(stat -c %s "$mp_dir/kept.d/stdio")
stdio "forwarded streams: what they cause, once each" "SELECT sum(bytes) FILTER (WHERE class = 'write') || ',' || min(caused) || ',' || (sum(requests) > 10) || ',' ||
    count(*) FILTER (WHERE name = 'close') || ',' || (sum(bytes) FILTER (WHERE class = 'read') >= $size) $of layer = 'posix' AND name <> 'fopen'" "$size,1,1,2,1"
stdio "forwarded streams: what is caused is within the call" "SELECT count(*) > 3 AND count(*) = sum((SELECT count(*) FROM calls o WHERE o.layer = 'stdio' AND
    o.tid = c.tid AND o.start_ns <= c.start_ns AND o.end_ns + o.ns / 1000 + 1 >= c.end_ns) = 1) FROM calls c WHERE caused AND class IN ('read', 'seek', 'close') AND
    c.start_ns > (SELECT min(start_ns) FROM calls WHERE name = 'fseek') AND c.start_ns < (SELECT max(start_ns) FROM calls WHERE name = 'fopen')" 1
stdio "forwarded streams: characters and pieces of a few bytes are not" "SELECT count(*) < 60 $of 1" 1
stdio "forwarded streams: errors" "SELECT group_concat(DISTINCT name || errno_name(errno)) $of failed" fseekEINVAL,lseekEINVAL
stdio "forwarded streams: the offset of what is caused" "SELECT count(*) = 0 OR count(*) FILTER (WHERE offset IS NULL) = 0 $of class IN ('read', 'write')" 1
"$trace" files "$mp_dir/r" >"$mp_dir/out" 2>&1
test "$(awk '$NF == "/fwd/stdio" { print $6 }' "$mp_dir/out")" = "$size"
mp_report $? "files: the bytes of streams are counted once" "$mp_dir/out"
mkdir "$mp_dir/again"
"$trace" replay "$mp_dir/r" -prefix "$mp_dir/again" -no-think >"$mp_dir/out" 2>&1
test $? = 0 && ! grep -q 'ended otherwise' "$mp_dir/out" && test "$(sed -n 's/^\([0-9]*\) calls were made again.*/\1/p' "$mp_dir/out")" -gt 8
mp_report $? "replay: the calls that forwarded streams cause" "$mp_dir/out"

rm -rf "$mp_dir/r"
"$run" -record "$mp_dir/r" "$mp_dir/stdio" "$mp_dir/local" >"$mp_dir/out" 2>&1
mp_report $? "a program that uses streams of this host" "$mp_dir/out"
stdio "streams of this host: calls, paths and bytes" "SELECT count(*) || ',' || sum(bytes) || ',' || max(side) FROM calls WHERE path LIKE '%/local' AND
    layer = 'stdio' AND name IN ('fwrite', 'fgets', 'fclose', 'fprintf')" "5,100500,local"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 env IOFWD_TRACE=1 "$mp_dir/stdio" /fwd/stdio >"$mp_dir/out" 2>&1
grep -q 'fwrite(.*, 1000, 100, [0-9]*</fwd/stdio>) = 100 ' "$mp_dir/out" && grep -q ' read([0-9]*</fwd/stdio>, .* = 8192  <server' "$mp_dir/out" && ! grep -q 'fputc' "$mp_dir/out"
mp_report $? "IOFWD_TRACE: lines of streams have the path" "$mp_dir/out"

# ---- maps ----

cat >"$mp_dir/m.c" <<'C'
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int fd = open(argv[1], O_RDWR | O_CREAT, 0666);
    char *at = ftruncate(fd, 8192) ? MAP_FAILED : mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || close(fd) != 0)
        return 1;
    at[5000] = 1;
    return msync(at, 8192, MS_SYNC) != 0 || munmap(at, 8192) != 0 || argc != 2;
}
C
${CC:-cc} -o "$mp_dir/m" "$mp_dir/m.c" || exit 99
rm -rf "$mp_dir/r"
timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" env IOFWD_TRACE=1 "$mp_dir/m" /fwd/m >"$mp_dir/lines" 2>&1
stdio "maps of forwarded files: msync and munmap have the file, and are forwarded" "SELECT group_concat(name || ':' || path || ':' || side) FROM
    (SELECT * FROM calls WHERE name IN ('msync', 'munmap') AND path IS NOT NULL ORDER BY start_ns)" msync:/fwd/m:forwarded,munmap:/fwd/m:forwarded
grep -q ' munmap(.*<\(server\|client\)' "$mp_dir/lines"
mp_report $? "maps of forwarded files: munmap is a line" "$mp_dir/lines"

# ---- syscall() ----

if [ "$(getconf LONG_BIT)" = 64 ]; then
    cat >"$mp_dir/y.c" <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char b[100], to[200];
    snprintf(to, sizeof to, "%s.to", argv[1]);
    long fd = syscall(SYS_openat, AT_FDCWD, argv[1], O_RDWR | O_CREAT, 0600);
    return syscall(SYS_pwrite64, fd, argv[1], 3L, 40L) != 3 || syscall(SYS_lseek, fd, 5L, SEEK_SET) != 5 || syscall(SYS_read, fd, b, 77L) != 38 ||
           fallocate(fd, 0, 20, 30) != 0 || posix_fallocate(fd, 10, 40) != 0 || sync_file_range(fd, 1, 2, SYNC_FILE_RANGE_WRITE) != 0 ||
           posix_fadvise(fd, 3, 4, POSIX_FADV_NORMAL) != 0 || readahead(fd, 5, 6) != 0 || syscall(SYS_fcntl, fd, F_GETFL) < 0 || syscall(SYS_close, fd) != 0 || syscall(SYS_renameat, AT_FDCWD, argv[1], AT_FDCWD, to) != 0 || argc != 2;
}
C
    ${CC:-cc} -D_GNU_SOURCE -o "$mp_dir/y" "$mp_dir/y.c" || exit 99
    for path in /fwd/y "$mp_dir/y.here"; do
        rm -rf "$mp_dir/r"
        timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept.d" -timeout 50 -record "$mp_dir/r" \
            env IOFWD_TRACE=all "$mp_dir/y" "$path" >"$mp_dir/lines" 2>&1
        "$trace" sql "$mp_dir/r" "SELECT name || ':' || coalesce(offset, '-') || ':' || coalesce(length, '-') || ':' || coalesce(flags, '-') || ':' ||
            replace(path || coalesce(':' || path2, ''), '$path', 'y') AS line FROM calls WHERE path LIKE '$path%' AND name <> 'openat' ORDER BY start_ns" -csv |
            tr -d '\r' >"$mp_dir/out" 2>&1
        printf '%s\n' line pwrite64:40:3:-:y lseek:5:-:0:y read:5:77:-:y fallocate:20:30:0:y posix_fallocate:10:40:-:y \
            sync_file_range:1:2:2:y posix_fadvise:3:4:-:y readahead:5:6:-:y fcntl:-:-:3:y close:-:-:-:y renameat:-:-:-:y:y.to | diff - "$mp_dir/out" >"$mp_dir/diff"
        status=$?
        cat "$mp_dir/lines" >>"$mp_dir/diff"
        mp_report $status "syscall() and calls on ranges: offset, length, flags and both paths, $(basename "$path")" "$mp_dir/diff"
        grep -q 'syscall(pwrite64, [0-9]*<.*>, ".*", 3, 40) = 3 ' "$mp_dir/lines" && grep -q 'syscall(lseek, [0-9]*<.*>, 5, SEEK_SET) = 5 ' "$mp_dir/lines" &&
            grep -q 'syscall(close, [0-9]*<.*>) = 0 ' "$mp_dir/lines"
        mp_report $? "syscall(): a line has the call's own arguments, $(basename "$path")" "$mp_dir/lines"
    done
else
    for number in 1 2 3 4; do
        mp_skip "case $number of syscall()" "64-bit arguments take two words here"
    done
fi

# ---- jobs ----

rm -rf "$mp_dir/r"
timeout 100 "$AMPHORA_RUN" -n 64 -timeout 90 -record "$mp_dir/r" "$mp_dir/k" end 100 >"$mp_dir/out" 2>&1
"$trace" ranks "$mp_dir/r" >>"$mp_dir/out" 2>&1
test "$(sql "$mp_dir/r" "SELECT count(*) || ':' || min(rank) || ':' || max(rank) || ':' || min(n) || ':' || max(n)
    FROM (SELECT rank, count(*) AS n FROM calls WHERE name = 'write' GROUP BY rank)")" = 64:0:63:100:100
mp_report $? "amphora-run -record: the calls of each of 64 ranks" "$mp_dir/out"
mp_done
