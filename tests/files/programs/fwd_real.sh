#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Real programs that work inside a forwarded prefix: each does there what it does in a local directory, with the same output and files.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# one NAME PROGRAMS COMMANDS: the commands get the directory as $D and a local one as $T
one() {
    one_name=$1
    for one_program in $2; do
        if ! command -v "$one_program" >/dev/null || ! "$one_program" --version >/dev/null 2>&1; then
            fwd_skip "$one_name" "there is no $one_program here"
            return
        fi
    done
    printf 'D=$1 T=$2\nset -e\nexport LC_ALL=C TZ=UTC HOME="$T" GIT_CONFIG_NOSYSTEM=1\nunset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES TESTS\n%s\n' "$3" >"$mp_dir/commands"
    fwd_both "$one_name" sh "$mp_dir/commands"
}

one "sort and uniq by redirection" "sort uniq" 'seq 500 | awk "{ print \$1 % 37 }" >"$D/a"
sh -c "sort < $D/a | uniq > $D/b"
wc -l <"$D/b"'

one "make and gcc -c" "make gcc" 'cd "$D"
printf "int twice(int x);\nint main(void) { return twice(21) != 42; }\n" >main.c
printf "int twice(int x) { return 2 * x; }\n" >twice.c
printf "all: prog\n\t./prog && echo right\nprog: main.o twice.o\n\tgcc -o prog main.o twice.o\n%%.o: %%.c\n\tgcc -c \$<\n" >Makefile
make -s
touch -d "2001-01-01" twice.o prog
make -n | head -n 3
gcc -c -o "$D/again.o" "$D/main.c" && cmp "$D/again.o" main.o
rm -f prog *.o'

one "git" "git" 'cd "$D"
export GIT_AUTHOR_DATE="2026-01-02T03:04:05Z" GIT_COMMITTER_DATE="2026-01-02T03:04:05Z" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q -b main r && cd r
seq 100 >numbers; mkdir sub; echo text >sub/file; ln -s sub/file link
git add . && git commit -q -m "first" && git log --oneline
sed -i s/50/fifty/ numbers && git diff --stat && git commit -q -a -m second
git checkout -q -b side HEAD~1 && echo more >>sub/file && git commit -q -a -m third && git checkout -q main && git merge -q -m merged side
git log --oneline --graph && git status --short && git fsck --strict 2>&1 && git gc -q && git log --oneline | wc -l
cd "$D" && rm -rf r/.git && ls -A r'

one "tar" "tar" 'mkdir -p "$D/t/x/y" && seq 3000 >"$D/t/x/y/z" && ln -s y/z "$D/t/x/l" && ln "$D/t/x/y/z" "$D/t/h" && chmod 640 "$D/t/h"
cd "$D" && tar --sort=name --mtime=@0 -cf a.tar t && tar tvf a.tar | awk "{ print \$1, \$3, \$6, \$7, \$8, \$9 }" && mkdir out && tar xf a.tar -C out && diff -r t out/t
tar --sort=name --mtime=@0 -czf - t | tar tzf - | sort'

one "rsync" "rsync" 'mkdir -p "$T/src/d" && seq 20000 >"$T/src/d/n" && echo x >"$T/src/x" && ln -s x "$T/src/l"
rsync -a "$T/src/" "$D/dst/" && diff -r "$T/src" "$D/dst" && echo same
echo changed >>"$T/src/d/n" && rm "$T/src/x" && rsync -a --delete --no-whole-file "$T/src/" "$D/dst/" && ls -R "$D/dst" | sed "s,.*/,,"
rsync -a "$D/dst/" "$D/copy/" && cmp "$D/copy/d/n" "$T/src/d/n" && echo copied'

one "sqlite3" "sqlite3" 'cd "$D"
sqlite3 db "create table t (a integer primary key, b text); begin;" "insert into t select value, hex(value * 7) from generate_series(1, 2000);" "commit;" 2>&1 || true
sqlite3 db "create table if not exists u (a, b); with recursive c(x) as (values(1) union all select x + 1 from c where x < 3000) insert into u select x, x * x from c;"
sqlite3 db "select count(*), sum(b) from u; create index i on u (b); select a from u where b = 250000; delete from u where a % 2; vacuum; select count(*) from u; pragma integrity_check;"
for i in 1 2 3; do sqlite3 -cmd ".timeout 20000" db "insert into u select max(a) + 1, $i from u;" & done; wait
sqlite3 db "select count(*) from u; pragma journal_mode;"; rm db'

one "a python test run" "python3" 'cd "$D"
printf "def twice(x):\n    return 2 * x\n" >code.py.txt && mkdir pkg && mv code.py.txt pkg/code1.py && : >pkg/__init__.py
printf "import os, tempfile, unittest\nfrom pkg.code1 import twice\nclass T(unittest.TestCase):\n    def test_twice(self):\n        self.assertEqual(twice(4), 8)\n    def test_file(self):\n        with tempfile.TemporaryDirectory(dir=\".\") as d:\n            p = os.path.join(d, \"f\")\n            with open(p, \"w\") as f:\n                f.write(\"x\" * 100000)\n            self.assertEqual(os.path.getsize(p), 100000)\n" >test_it.py
python3 -B -m unittest -q test_it 2>&1 | grep -v "^Ran\|^-*$"'
mp_done
