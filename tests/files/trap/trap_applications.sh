#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Real programs from Debian under iofwd-run -trap: the same output and files as in a local directory.  A part of scripts/check-nightly.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_limit=240
trap_or_skip "iofwd-run -trap"
export RESTIC_PASSWORD=secret HOME="$mp_dir/home" RCLONE_CONFIG="$mp_dir/home/rclone.conf"
mkdir -p "$HOME"
: >"$RCLONE_CONFIG"

# program NAME PROGRAM SHELL-COMMAND: as `same`, if there is the program
program() {
    if command -v "$2" >/dev/null; then
        same "$1" "$3"
    else
        mp_skip "$1" "there is no $2"
    fi
}

make_files='mkdir -p src/a/b; busybox seq 3000 >src/n; busybox seq 50 >src/a/m; echo deep >src/a/b/d; ln -s n src/l; chmod 600 src/a/m'

program "age (Go)" age "$make_files"'
    age-keygen -o key 2>/dev/null; age -r "$(age-keygen -y key)" -o n.age src/n; age -d -i key n.age | cmp - src/n && echo same; rm key n.age'
program "restic (Go)" restic "$make_files"'
    restic -q --no-cache init -r repo >/dev/null && restic -q --no-cache -r repo backup src && restic -q --no-cache -r repo restore latest --target out &&
        restic -q --no-cache -r repo check >/dev/null && diff -r src out/"$PWD"/src && echo restored; rm -rf repo out'
program "rclone (Go)" rclone "$make_files"'
    rclone -q copy --links src dst; rclone -q check --links src dst && echo same; rclone lsf -R src 2>/dev/null | sort; rclone -q sync --links src/a dst; ls dst; rm -rf dst'
program "static zsh" zsh-static 'zsh-static -fc "
    echo data >f; for i in {1..50}; do echo \$i >>f; done; print -l *(.) ; wc -l <f; mkdir -p x/y; cd x/y; pwd; cd ../..; rm -r x"'
program "static bash" bash-static 'bash-static -c "
    for i in {1..40}; do echo \$i >>f; done; while read -r x; do s=\$((s + x)); done <f; echo \$s; cat <<<here; cat < <(echo sub); mkdir d; cd d; pwd; echo *; echo ../*"'
same "busybox: archives and a shell script" "$make_files"'
    busybox tar czf t.tgz src && busybox gzip -d <t.tgz | busybox tar tf - | busybox sort; rm t.tgz; busybox find src -type f | busybox sort | busybox xargs busybox md5sum
    busybox sed -i s/deep/DEEP/ src/a/b/d; busybox awk "{ s += \$1 } END { print s }" src/n; busybox vi -h 2>/dev/null; busybox du -a src >/dev/null && echo du'
program "rsync" rsync "$make_files"'
    rsync -a src/ dst/ && rsync -ain src/ dst/ && diff -r src dst && echo new >>src/n && rsync -ai src/ dst/ | cut -c1-2,12-; rm -rf dst'
program "sqlite3" sqlite3 'sqlite3 d.db "create table t (a integer primary key, b text); with recursive c(x) as (select 1 union all select x + 1 from c where x < 2000)
    insert into t select x, hex(x) from c; create index i on t (b); select count(*), sum(a) from t; delete from t where a % 3 = 0; vacuum; pragma integrity_check"
    sqlite3 d.db "select count(*) from t" & sqlite3 d.db "select max(a) from t" >other; wait; cat other; rm d.db other'
program "python3" python3 'python3 -c "
import os, sqlite3, zipfile, tempfile, subprocess, threading, fcntl, json
z = zipfile.ZipFile(\"z.zip\", \"w\")
[z.writestr(str(i), \"x\" * i * 100) for i in range(50)]; z.close()
print(sum(len(zipfile.ZipFile(\"z.zip\").read(str(i))) for i in range(50)))
def work(i): json.dump(list(range(1000)), open(f\"j{i}\", \"w\"))
ts = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sum(json.load(open(f\"j{i}\"))[-1] for i in range(8)))
with tempfile.TemporaryDirectory(dir=\".\") as d: print(os.path.isdir(d))
print(subprocess.run([\"cat\"], stdin=open(\"j0\"), capture_output=True).stdout[:9])
f = open(\"lock\", \"w\"); fcntl.lockf(f, fcntl.LOCK_EX); print(\"locked\")
"; rm z.zip'
program "git" git 'git init -q r && cd r && git config user.email a@b && git config user.name a && for i in 1 2 3; do echo $i >f$i; git add .;
    GIT_AUTHOR_DATE="@1000000000 +0000" GIT_COMMITTER_DATE="@1000000000 +0000" git commit -q -m $i; done; git log --format=%H; git branch b; git checkout -q b; git gc -q;
    git fsck 2>&1; cd .. && git clone -q r s && cd s && git log --oneline | wc -l; cd .. && rm -rf r s'
program "gcc and make" make 'printf "int f(void) { return 7; }\n" >f.c; printf "int f(void); int main(void) { return f(); }\n" >m.c
    printf "prog: f.o m.o\n\tgcc -o prog f.o m.o\n" >Makefile; make -s -j2 CC=gcc && cp prog "$TMPDIR/trap.p.$$" && "$TMPDIR/trap.p.$$"; echo $?; make -q && echo made; rm -f "$TMPDIR/trap.p.$$" prog *.o'
program "Node.js" node 'node -e "
const fs = require(\"fs\"), p = fs.promises;
(async () => {
  await p.mkdir(\"d/e\", { recursive: true });
  await Promise.all([...Array(30).keys()].map(i => p.writeFile(\"d/e/\" + i, \"x\".repeat(i * 1000))));
  console.log((await p.readdir(\"d/e\")).length, (await p.stat(\"d/e/29\")).size);
  await new Promise(r => fs.createReadStream(\"d/e/29\").pipe(fs.createWriteStream(\"c\")).on(\"close\", r));
  console.log(fs.readFileSync(\"c\").length);
  await p.rm(\"d\", { recursive: true });
})()"'
cat >"$mp_dir/T.java" <<'END'
import java.nio.channels.*; import java.nio.file.*; import java.util.stream.*;
public class T {
    public static void main(String[] a) throws Exception {
        Path d = Files.createDirectories(Path.of("d", "e"));
        for (int i = 0; i < 20; i++) Files.writeString(d.resolve("" + i), "x".repeat(i * 1000));
        try (Stream<Path> s = Files.walk(Path.of("d"))) { System.out.println(s.count()); }
        try (FileChannel c = FileChannel.open(d.resolve("19"), StandardOpenOption.READ)) {
            System.out.println(c.map(FileChannel.MapMode.READ_ONLY, 0, c.size()).get(18999));
            try (FileChannel o = FileChannel.open(Path.of("o"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) { System.out.println(c.transferTo(0, c.size(), o)); }
        }
        try (FileChannel c = FileChannel.open(Path.of("o"), StandardOpenOption.WRITE); FileLock l = c.tryLock()) { System.out.println(l.isValid()); }
        Files.move(d, Path.of("f"));
    }
}
END
program "Java" java "java $mp_dir/T.java"
program "tar and xz" xz "$make_files"'
    tar cJf t.txz src && mkdir o && tar xJf t.txz -C o && diff -r src o/src && tar dJf t.txz && echo same; rm -rf o t.txz'
program "perl" perl 'perl -e "
open F, q(>), q(f) or die; print F qq(\$_\n) for 1..500; close F; open F, q(+<), q(f) or die; seek F, 4, 0; read F, my \$b, 6; print \$b, -s F, qq(\n);
mkdir q(d); rename q(f), q(d/f); opendir D, q(d); print join(q( ), sort readdir D), qq(\n); unlink q(d/f); rmdir q(d) or die"'
mp_done
