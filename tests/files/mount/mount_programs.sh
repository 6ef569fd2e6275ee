#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian on a mount of iofwd-mount: each does the same in a local directory and on the mount, and output and files must be
# the same.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "programs on a mount"
trap 'mount_end "$mp_dir/m"' EXIT

# both NAME SCRIPT: SCRIPT, with the directory to work in as its working directory, and the tree of the sources as $1
both() {
    mp_wanted "$1" || return 0
    if [ -n "${3:-}" ] && ! command -v "$3" >/dev/null; then
        mp_skip "$1" "there is no $3"
        return 0
    fi
    rm -rf "$mp_dir/l" "$mp_dir/m/w"
    mkdir "$mp_dir/l" "$mp_dir/m/w"
    (cd "$mp_dir/l" && timeout -k 5 100 sh -euc "$2" sh "$srcdir"; echo "exit code $?") >"$mp_dir/l.out" 2>&1 </dev/null
    (cd "$mp_dir/m/w" && timeout -k 5 100 sh -euc "$2" sh "$srcdir"; echo "exit code $?") >"$mp_dir/m.out" 2>&1 </dev/null
    sed -i "s#$mp_dir/m/w#@DIR#g; s#$mp_dir/l#@DIR#g" "$mp_dir/l.out" "$mp_dir/m.out"
    fwd_tree "$mp_dir/l" >"$mp_dir/l.tree"
    fwd_tree "$mp_dir/kept/w" >"$mp_dir/m.tree"
    {
        diff -a "$mp_dir/l.out" "$mp_dir/m.out" && diff -a "$mp_dir/l.tree" "$mp_dir/m.tree" && grep -a '^exit code 0$' "$mp_dir/l.out"
    } >"$mp_dir/out" 2>&1 || { cat "$mp_dir/m.out" >>"$mp_dir/out" && false; }
    mp_report $? "$1: same output, same files ($(wc -l <"$mp_dir/m.tree") lines)" "$mp_dir/out"
}

both "cp -a, find, du, diff" 'cp -a "$1/iofwd" "$1/man" . && find . -type f -newermt 1990-01-01 | sort && find . | xargs ls -ld | awk "{ print \$1, \$2, \$5, \$9 }" && diff -r "$1/iofwd" iofwd && rm -r man'
both "tar out and in" 'tar -C "$1" -cf t.tar iofwd/client && mkdir x && tar -C x -xf t.tar && diff -r "$1/iofwd/client" x/iofwd/client && tar -df t.tar -C x && touch -d 2001-01-01 t.tar'
both "rsync, twice" 'rsync -a "$1/iofwd/" d/ && rsync -ai --delete "$1/iofwd/" d/ && rm d/local.mk && echo more >d/extra && rsync -ai --delete "$1/iofwd/" d/' rsync
both "git init, add, commit, clone, gc, fsck" '
    export GIT_AUTHOR_DATE="2020-01-01 00:00:00 +0000" GIT_COMMITTER_DATE="2020-01-01 00:00:00 +0000" GIT_CONFIG_GLOBAL=/dev/null HOME=/nonexistent
    mkdir a && cp -r "$1/iofwd/client" a/ && cd a && git init -q -b main . && git -c user.name=n -c user.email=e add . && git -c user.name=n -c user.email=e commit -qm one
    git mv client/api/api.c client/api/moved.c && git -c user.name=n -c user.email=e commit -qam two && git log --stat --format=%s && cd ..
    git clone -q a b && cd b && git fsck --full 2>/dev/null && git status --short && git gc -q && git fsck && git log --format=%H && cd .. && diff -r a/client b/client
    rm -rf a/.git b/.git' git
both "sqlite3, rollback journal and two processes" '
    sqlite3 d.db "create table t (k integer primary key, v text); with recursive c(i) as (select 1 union all select i + 1 from c where i < 3000) insert into t select i, hex(i * 7919) from c;"
    (for i in 1 2 3 4 5 6 7 8 9 10; do sqlite3 -cmd ".timeout 20000" d.db "update t set v = v || 1 where k = 1;"; done) &
    for i in 1 2 3 4 5 6 7 8 9 10; do sqlite3 -cmd ".timeout 20000" d.db "update t set v = v || 1 where k = 1;"; done
    wait; sqlite3 d.db "select v from t where k = 1; select count(*), sum(length(v)) from t; pragma integrity_check;" >o; cat o; rm d.db' sqlite3
both "sqlite3, write-ahead log in shared memory" '
    sqlite3 w.db "pragma journal_mode = wal; create table t (k integer); insert into t values (1), (2); select sum(k) from t;"; rm -f w.db*' sqlite3
both "python3: imports, byte code, mmap, zip" '
    mkdir p && echo "def f(x): return x * 2" >p/m.py && touch p/__init__.py && python3 -c "import sys; sys.path.insert(0, \".\"); import p.m, os; print(p.m.f(21), sorted(os.listdir(\"p/__pycache__\")))" && rm -r p/__pycache__
    python3 -c "
import mmap, os
f = open(\"map\", \"w+b\"); f.truncate(100000); m = mmap.mmap(f.fileno(), 0); m[5000:5003] = b\"abc\"; m.flush(); print(os.pread(f.fileno(), 3, 5000)); m[70000:70002] = b\"zz\"; m.close(); f.close()
print(open(\"map\", \"rb\").read()[70000:70002])
r = open(\"map\", \"rb\"); q = mmap.mmap(r.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE); q[0:1] = b\"X\"; print(q[0:1], os.pread(r.fileno(), 1, 0))
" && python3 -m zipfile -c z.zip map && python3 -m zipfile -t z.zip && rm z.zip'
both "gcc -c, ar, link, run" '
    echo "int g(void); int main(void) { return g() - 42; }" >m.c; echo "int g(void) { return 42; }" >g.c
    gcc -c m.c g.c && ar rcD l.a g.o && gcc -o prog m.o l.a && ./prog && echo ran && rm prog'
both "make -j4 with time stamps" '
    printf "all: c\nc: a b\n\tcat a b >c\na b:\n\techo \$@ >\$@\n" >Makefile; make -j4 2>&1 | sort; make; touch a; sleep 0.02; touch a; make' make
both "static busybox: sh, cp, mv, sort, vi-less tools" '
    busybox sh -c "seq 1 2000 >n && busybox sort -r n >r && busybox cp n k && busybox mv k j && busybox tail -n 2 r && busybox ln -s j s && busybox md5sum n j s && busybox tar cf t n j && busybox tar tf t && busybox find . | busybox sort && busybox rm t"' busybox
both "dd with seek, conv=notrunc, sparse, append, fsync" '
    dd if=/dev/zero of=s bs=1 count=1 seek=10M status=none && stat -c %s s && yes | head -c 300000 >y && dd if=y of=s bs=4k conv=notrunc,fsync seek=3 status=none && dd if=y of=s bs=7000 oflag=append conv=notrunc status=none && cp --sparse=always s c && cmp s c && stat -c %s s && truncate -s 5000 c && tail -c 3 c | od -c && dd if=s of=d bs=64k iflag=direct status=none && cmp s d'
both "fio, psync and mmap, verified" '
    fio --name=a --size=8m --bs=16k --rw=randrw --ioengine=psync --verify=crc32c --do_verify=1 --minimal --output=/dev/null && fio --name=b --size=4m --bs=4k --rw=randwrite --ioengine=mmap --verify=crc32c --minimal --output=/dev/null && ls && rm -f a.* b.*' fio
both "vim and ed" '
    printf "one\ntwo\nthree\n" >t && if command -v vim >/dev/null; then vim -N -u NONE -es -c "%s/two/2/" -c wq t; else sed -i s/two/2/ t; fi; cat t; if command -v ed >/dev/null; then printf "1d\nw\nq\n" | ed -s t; else sed -i 1d t; fi; cat t; ls -A'
both "links, modes, times, FIFOs, attributes, renames" '
    umask 027; echo a >a; mkdir d; ln a h; ln -s ../a d/s; chmod 4640 a; stat -c "%a %h %s" a h d; touch -d "2001-02-03 04:05:06.789" a; stat -c %y a; mkfifo f; (echo through >f &) ; cat f; mv -n a d/; mv d/a x; cat d/s 2>&1 || :; ls -A d; python3 -c "
import os; os.setxattr(\"x\", \"user.k\", b\"v\"); print(os.listxattr(\"x\"), os.getxattr(\"h\", \"user.k\"))
import ctypes; c = ctypes.CDLL(None, use_errno=True)
print(c.renameat2(-100, b\"x\", -100, b\"d\", 1), ctypes.get_errno(), c.renameat2(-100, b\"x\", -100, b\"d\", 2)); print(os.path.isdir(\"x\"))
fd = os.open(\"gone\", os.O_RDWR | os.O_CREAT); os.unlink(\"gone\"); os.write(fd, b\"still\"); print(os.pread(fd, 9, 0), os.fstat(fd).st_nlink)
fd = os.open(\"hole\", os.O_RDWR | os.O_CREAT); os.pwrite(fd, b\"x\", 1 << 20); print(os.lseek(fd, 0, os.SEEK_DATA) <= 1 << 20, os.lseek(fd, 1 << 20, os.SEEK_HOLE)); os.posix_fallocate(fd, 0, 1 << 21); print(os.fstat(fd).st_size, os.copy_file_range(fd, fd, 4, (1 << 20), 0), os.pread(fd, 1, 0))
print(os.statvfs(\".\").f_namemax)
try: os.open(\"n\" * 256, os.O_CREAT)
except OSError as e: print(e.errno)
"; rmdir d 2>&1 | sed "s/.*: //"; rm -f f; ls -A'

# Inode numbers are the server's, and outlive the mount.
inodes() {
    echo x >"$mp_dir/m/lasting" && number=$(stat -c %i "$mp_dir/m/lasting") && [ "$number" = "$(stat -c %i "$mp_dir/kept/lasting")" ] &&
        mount_off "$mp_dir/m" && mount_on "$mp_dir/m" && [ "$(stat -c %i "$mp_dir/m/lasting")" = "$number" ] &&
        [ "$(find "$mp_dir/m" -name lasting -inum "$number" | wc -l)" = 1 ]
}
inodes >"$mp_dir/out" 2>&1
mp_report $? "inode numbers last" "$mp_dir/out"

# fsync of a file and of a directory is one on the server.
synced() {
    servers=$(cat "/proc/$(cat "$mp_dir/servers.pid")/task/"*/children)
    # shellcheck disable=SC2086
    strace -f -e trace=fsync,fdatasync -o "$mp_dir/syncs" $(printf ' -p %s' $servers) 2>"$mp_dir/attached" &
    tracer=$!
    mp_until 10 grep -q attached "$mp_dir/attached" && mp_until 10 sh -c '[ "$(grep -c attached "$1")" -ge "$2" ]' sh "$mp_dir/attached" \
        "$(echo $servers | wc -w)" && python3 -c '
import os, sys
fd = os.open(sys.argv[1] + "/synced", os.O_RDWR | os.O_CREAT)
os.write(fd, b"x")
os.fsync(fd)
os.fdatasync(fd)
os.fsync(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY))' "$mp_dir/m"
    code=$?
    kill "$tracer"
    wait "$tracer"
    cat "$mp_dir/attached" "$mp_dir/syncs"
    [ $code = 0 ] && [ "$(grep -cE 'f(data)?sync\([0-9]+\) *= 0|f(data)?sync resumed.* = 0' "$mp_dir/syncs")" = 3 ]
}
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    synced >"$mp_dir/out" 2>&1
    mp_report $? "fsync of a file and of a directory reaches the disk of the server" "$mp_dir/out"
else
    mp_skip "fsync of a file and of a directory reaches the disk of the server" "strace cannot be used here"
fi
mp_done
