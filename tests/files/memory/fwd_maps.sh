#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Memory maps of forwarded files: as on a local run; databases whose processes share memory; what is left when they are killed.
# The processes map the files themselves, by descriptors that the server passes; and then, without these, pages that it fills.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# twice NAME COMMAND...: in both ways
twice() {
    twice_name=$1
    shift
    fwd_both "$twice_name" "$@"
    IOFWD_PASSTHROUGH=0
    export IOFWD_PASSTHROUGH
    fwd_both "$twice_name, in pages" "$@"
    unset IOFWD_PASSTHROUGH
}

twice "maps" "$builddir/tests/files/memory/fwd_maps"

cat >"$mp_dir/wal" <<'X'
cd "$1"
sqlite3 db "pragma journal_mode = wal; create table t (a integer primary key, b);"
for w in 1 2 3; do
    for i in 1 2 3 4 5 6 7 8 9 10; do
        echo "insert into t (b) select hex(randomblob(99)) from (select 1 union select 2 union select 3);"
    done | sqlite3 -cmd ".timeout 20000" db &
done
for i in 1 2 3; do sqlite3 -cmd ".timeout 20000" db "select count(*) % 3 from t;"; done
wait
sqlite3 db "select count(*) from t; pragma integrity_check; pragma wal_checkpoint(truncate); pragma journal_mode;"
ls | grep -c .
# A writer is killed in the middle of a transaction: with another process on the file, and alone.
cat >"$2/writer" <<'P'
import os, sqlite3, sys
c = sqlite3.connect("db", timeout=20, isolation_level=None)
for i in range(10): c.execute("insert into t (b) values ('committed')")
c.execute("begin immediate")
c.execute("insert into t (b) select randomblob(3000) from t")
if sys.argv[1] == "alone" or os.fork() == 0:
    os.kill(os.getpid(), 9)
print(os.wait()[1])
P
cat >"$2/reader" <<'P'
import os, sqlite3, sys
c = sqlite3.connect("db", timeout=20, isolation_level=None)
print(c.execute("select count(*) from t").fetchone())
print(os.system("python3 " + sys.argv[1] + " alone 2>&1") != 0)
print(c.execute("select count(*), max(length(b)) from t").fetchone(), c.execute("insert into t (b) values ('after')").rowcount)
P
python3 "$2/reader" "$2/writer"
python3 "$2/writer" alone >/dev/null 2>&1; echo $?
sqlite3 db "select count(*), max(length(b)) from t; pragma integrity_check; insert into t (b) values ('last'); select count(*) from t;"
rm db*
X
if command -v sqlite3 >/dev/null && python3 -c 'import sqlite3' 2>/dev/null; then
    twice "sqlite3 with a write-ahead log" sh "$mp_dir/wal"
    left=$(ls "/dev/shm/iofwd-$(id -u)" 2>&1 | wc -l)
    # another test's maps may be under way; ours have all ended, and the next map of any file takes away what the killed ones left
    [ "$left" -lt 20 ]
    mp_report $? "what killed processes leave in shared memory is taken away by the next ($left files)" "$mp_dir/out"
else
    fwd_skip "sqlite3 with a write-ahead log" "there is no sqlite3, or python3 without it"
    fwd_skip "sqlite3 with a write-ahead log, in pages" "there is no sqlite3, or python3 without it"
    mp_skip "what killed processes leave in shared memory is taken away by the next" "there is no sqlite3, or python3 without it"
fi

# Who has another /dev/shm is as on another host, and must not change a database whose memory it does not share; whichever server it has.
cat >"$mp_dir/apart.py" <<'X'
import os, sqlite3, sys
os.chdir("/fwd")
apart = "unshare -m sh -c 'mount -t tmpfs none /dev/shm && sqlite3 db \"insert into t values (3);\" 2>/dev/null'"
c = sqlite3.connect("db", isolation_level=None)
c.execute("pragma journal_mode = wal")
c.execute("create table t (a)")
print(*[os.waitstatus_to_exitcode(os.system(apart)) for i in range(4)])
c.execute("insert into t values (2)")
print(os.system("sqlite3 db 'insert into t values (4)'"), *c.execute("select count(*) from t").fetchone())
c.close()
print(os.system(apart))
c = sqlite3.connect("db")
print(*c.execute("select count(*) from t").fetchone(), *c.execute("pragma integrity_check").fetchone())
X
mkdir "$mp_dir/apart"
if unshare -m true 2>/dev/null && command -v sqlite3 >/dev/null; then
    fwd_servers "$mp_dir/apart" python3 "$mp_dir/apart.py" >"$mp_dir/out"
    printf '10 10 10 10\n0 2\n0\n3 ok\n' | diff - "$mp_dir/out" >"$mp_dir/diff" 2>&1
    mp_report $? "what other hosts map cannot be shared while it is locked" "$mp_dir/diff"
else
    mp_skip "what other hosts map cannot be shared while it is locked" "no sqlite3, or no right to make a mount"
fi

cat >"$mp_dir/maps.py" <<'X'
import mmap, os, sys
os.chdir(sys.argv[1])
f = open("m", "w+b")
f.truncate(10000)
m = mmap.mmap(f.fileno(), 0)
m[5:10] = b"hello"
print(open("m", "rb").read(12), m.flush())
m.resize(20000)
m[15000:15003] = b"end"
print(len(m), m.find(b"end"), os.stat("m").st_size)
r = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
c = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
c[0:1] = b"c"
print(r[15000:15003], m[0:1], c[0:1])
if os.fork() == 0:
    m[9000:9003] = b"kid"
    os._exit(0)
os.wait()
print(r[9000:9003])
f.seek(30000)
f.write(b"beyond")
f.flush()
m.resize(30006)
print(m[30000:], m[12:14])
X
if command -v python3 >/dev/null; then
    twice "python's mmap" python3 "$mp_dir/maps.py"
else
    fwd_skip "python's mmap" "there is no python3"
    fwd_skip "python's mmap, in pages" "there is no python3"
fi

# With failover: maps of before and after the death of the server are one memory.
cat >"$mp_dir/failover.py" <<'X'
import mmap, os, subprocess
os.chdir("/fwd")
f = open("m", "w+b", buffering=0)
f.write(b"0" * 5000)
m = mmap.mmap(f.fileno(), 5000)
m[0:3] = b"one"
servers = subprocess.run(["pgrep", "-P", str(os.getppid()), "iofwd-server"], capture_output=True, text=True).stdout.split()
os.kill(int(servers[0]), 9)
print(os.pread(f.fileno(), 3, 0))
n = mmap.mmap(f.fileno(), 5000)
g = open("m", "r+b", buffering=0)
k = mmap.mmap(g.fileno(), 5000)
m[10:13], n[20:23], k[30:33] = b"two", b"new", b"ggg"
print([p[10:33] for p in (m, n, k)], g.read()[10:33])
os.ftruncate(f.fileno(), 9000)
print(m.flush(), os.fstat(g.fileno()).st_size)
X
if command -v python3 >/dev/null && command -v pgrep >/dev/null; then
    mkdir "$mp_dir/failover"
    timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover -iofwd "/fwd=$mp_dir/failover" python3 "$mp_dir/failover.py" \
        >"$mp_dir/out" 2>"$mp_dir/said"
    both=two0000000new0000000ggg
    printf "b'one'\n[b'%s', b'%s', b'%s'] b'%s'\nNone 9000\n" $both $both $both $both | diff - "$mp_dir/out" >"$mp_dir/diff" ||
        cat "$mp_dir/said" >>"$mp_dir/diff"
    ! [ -s "$mp_dir/diff" ]
    mp_report $? "maps before and after a server's death (failover)" "$mp_dir/diff"
else
    mp_skip "maps before and after a server's death (failover)" "there is no python3, or no pgrep"
fi

# One process after the other adds to a counter; LMDB's lock file has mutexes that all of them share.
cat >"$mp_dir/counter.py" <<'X'
import lmdb, os, sys
os.chdir(sys.argv[1])
def count(name, how):
    e = lmdb.open(name, map_size=1 << 28, **how)
    for i in range(30):
        with e.begin(write=True) as t:
            t.put(b"n", str(int(t.get(b"n", b"0")) + 1).encode())
    with e.begin() as t:
        return t.get(b"n")
hows = {"plain": {"sync": False}, "map": {"sync": False, "writemap": True}}
if len(sys.argv) == 4:
    count(sys.argv[3], hows[sys.argv[3]])
    sys.exit(0)
for name, how in hows.items():
    kids = [os.spawnv(os.P_NOWAIT, sys.executable, ["python3", sys.argv[0], ".", "", name]) for k in range(3)]
    print([os.waitpid(k, 0)[1] for k in kids], count(name, how))
    for f in os.listdir(name):
        os.unlink(name + "/" + f)
X
lmdb=''
for python in /usr/bin/python3 python3; do
    [ -n "$lmdb" ] || ! "$python" -c 'import lmdb' 2>/dev/null || lmdb=$python
done
if [ -n "$lmdb" ]; then
    twice "LMDB" "$lmdb" "$mp_dir/counter.py"
else
    fwd_skip "LMDB" "there is no python3 with LMDB (Debian: python3-lmdb)"
    fwd_skip "LMDB, in pages" "there is no python3 with LMDB (Debian: python3-lmdb)"
fi
mp_done
