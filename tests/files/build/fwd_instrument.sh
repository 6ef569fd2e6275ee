#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Debian's programs as copies of iofwd-instrument, without any environment variable: on forwarded files they do what the originals do on
# local ones.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX AMPHORA_TEST_SWAP # the copies run without any environment variable
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
tool=$builddir/iofwd-instrument
mkdir "$mp_dir/kept" "$mp_dir/bin" "$mp_dir/scratch"
timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
    -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1
mp_report $? "standing servers start" "$mp_dir/out"

# same NAME FILE SCRIPT [FIRST]: the program in FILE is $P in the script, $D the folder to work in.  FIRST prepares both folders by the
# original.
same() {
    same_name="$1: a copy on forwarded files does what the original does on local ones"
    file=$(readlink -f "$2" 2>/dev/null)
    script=$3
    mp_wanted "$same_name" || return 0
    if [ -z "$file" ] || [ ! -x "$file" ]; then
        mp_skip "$same_name" "there is no $1 here"
        return
    fi
    copy=$mp_dir/bin/$(basename "$file")
    if ! "$tool" -server "$mp_dir/addresses" -o "$copy" "$file" >"$mp_dir/out" 2>&1; then
        mp_report 1 "$same_name" "$mp_dir/out"
        return
    fi
    rm -rf "$mp_dir/kept/"* "$mp_dir/near"
    mkdir "$mp_dir/near"
    env -i PATH="$PATH" HOME="$mp_dir/scratch" LC_ALL=C TZ=UTC D="$mp_dir/near" P="$file" S="$srcdir" timeout -k 5 100 sh -c "cd /; $script" \
        >"$mp_dir/near.raw" 2>&1 </dev/null
    echo "exit code $?" >>"$mp_dir/near.raw"
    env -i PATH="$PATH" HOME="$mp_dir/scratch" LC_ALL=C TZ=UTC D=/fwd P="$copy" S="$srcdir" timeout -k 5 100 sh -c "cd /; $script" \
        >"$mp_dir/far.raw" 2>&1 </dev/null
    echo "exit code $?" >>"$mp_dir/far.raw"
    sed "s#$mp_dir/near#@DIR#g; s#$file#@PROGRAM#g" "$mp_dir/near.raw" >"$mp_dir/near.out"
    sed "s#/fwd#@DIR#g; s#$copy#@PROGRAM#g" "$mp_dir/far.raw" >"$mp_dir/far.out"
    fwd_tree "$mp_dir/near" >"$mp_dir/near.tree"
    fwd_tree "$mp_dir/kept" >"$mp_dir/far.tree"
    { diff -a "$mp_dir/near.out" "$mp_dir/far.out" && diff "$mp_dir/near.tree" "$mp_dir/far.tree" && test -s "$mp_dir/far.tree" &&
        grep '^exit code 0' "$mp_dir/far.out"; } >"$mp_dir/out" 2>&1
    mp_report $? "$same_name" "$mp_dir/out"
}

# The scripts are read by another shell.
# shellcheck disable=SC2016
{
    same bash /bin/bash '"$P" -c "cd $D && for i in 1 2 3; do echo line \$i >>a; done && cat <a | tee b >/dev/null && mkdir d && mv b d/ &&
        for f in d/* a; do echo \$f; done && [[ a -ef a && -s d/b ]] && read -r x <a && echo \$x && exec 5<>c && echo five >&5 && pwd"'
    same dash /bin/dash '"$P" -c "cd $D && echo one >a && echo two >>a && while read -r x; do echo got \$x; done <a && ls && (cd / && cat $D/a) && umask 077 && : >m"'
    same sort /usr/bin/sort 'seq 20000 | "$P" -R --random-source=/bin/sh -o "$D/a" && "$P" -n -S 100K -T "$D" "$D/a" -o "$D/b" && "$P" -c -n "$D/b"'
    same cp /bin/cp '"$P" -a /etc/passwd "$D/p" && "$P" "$D/p" "$D/q" && "$P" -r "$D/p" "$D/r"'
    same tar /bin/tar 'cd "$S" && "$P" -cf "$D/t.tar" --sort=name --owner="o:$(id -u)" --group="g:$(id -g)" --mtime=2020-01-01 iofwd/elf iofwd/instrument && cd / &&
        "$P" -tf "$D/t.tar" | sort && "$P" -xf "$D/t.tar" -C "$D" --no-same-owner && "$P" -df "$D/t.tar" -C "$D" && echo same'
    same python3 /usr/bin/python3 '"$P" -c "
import os, sys, json, shutil, tempfile, mmap
d = sys.argv[1]
os.makedirs(d + \"/a/b\")
with open(d + \"/a/f\", \"w\") as f: json.dump(list(range(1000)), f)
shutil.copytree(d + \"/a\", d + \"/c\")
print(sorted(os.listdir(d)), os.stat(d + \"/c/f\").st_size, len(json.load(open(d + \"/c/f\"))))
with open(d + \"/c/f\", \"rb\") as f: print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:20])
with tempfile.TemporaryFile(dir=d) as t: t.write(b\"x\" * 100000); t.seek(0); print(len(t.read()))
os.rename(d + \"/a\", d + \"/z\"); print(sorted(os.walk(d)))
" "$D" | sed "s#$D#DIR#g"'
    same perl /usr/bin/perl '"$P" -e "chdir shift; open(F, q(>), q(a)); print F map { qq(line \$_\n) } 1..1000; close F; open(F, q(<), q(a)); @l = <F>; print scalar @l, qq( \$l[9]);
        mkdir q(d); rename q(a), q(d/a); opendir(D, q(d)); print join(q(,), sort readdir D), qq(\n); symlink q(d/a), q(l); print -s q(l), qq(\n)" "$D"'
    same git "$(command -v git)" 'export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z GIT_CONFIG_NOSYSTEM=1;
        "$P" -c init.defaultBranch=main init -q --template= "$D/r" && "$P" -C "$D/r" config user.name n && "$P" -C "$D/r" config user.email e@example && "$P" -C "$D/r" config core.trustctime false &&
        "$P" -C "$D/r" commit -q --allow-empty -m first && "$P" -C "$D/r" log --format="%H %s" && "$P" -C "$D/r" branch two && "$P" -C "$D/r" fsck --full && "$P" -C "$D/r" gc -q; test "$D" = /fwd && K=${P%/bin/*}/kept || K=$D; "$P" -C "$D/r" status | head -n 1;
        "$P" -C "$D/r" rev-parse HEAD >&2; "$P" -C "$D/r" cat-file -p HEAD; rm -f "$K/r/.git/index"'
    same sqlite3 "$(command -v sqlite3)" '"$P" "$D/db" "create table t(a integer primary key, b text); with recursive c(x) as (select 1 union all select x+1 from c where x<5000) insert into t select x, hex(x*x) from c;" &&
        "$P" "$D/db" "select count(*), sum(a), max(b) from t; update t set b=b||a where a%7=0; delete from t where a%11=0; vacuum; pragma integrity_check; select count(*) from t;"'
    same "cc1 of gcc" "$(gcc -print-prog-name=cc1 2>/dev/null)" 'echo "static int f(int x) { return x * 3; } int g(int y) { return f(y) + 1; }" | tee "$HOME/t.c" >/dev/null; "$P" -quiet -O2 "$HOME/t.c" -o "$D/t.s" && "$P" -quiet -E "$HOME/t.c" -o "$D/t.i"'
    same gdb "$(command -v gdb)" '"$P" -nx -batch -ex "set confirm off" -ex "set logging file $D/log" -ex "set logging enabled on" -ex "print 6*7" -ex "set logging enabled off" -ex "dump value $D/bytes (char)65" 2>&1 | sed "s#$D#DIR#"'
    same ripgrep "$(command -v rg)" 'test "$D" = /fwd && K=${P%/bin/*}/kept || K=$D; mkdir "$K/t" && for i in 1 2 3 4 5 6 7 8 9; do seq $i 500 >"$K/t/$i"; done; "$P" -c "^1.*7$" "$D/t" --sort path | sed "s#$D#DIR#" && "$P" --files "$D/t" | wc -l && "$P" -j4 -l 499 "$D/t" | wc -l'
    same xz "$(command -v xz)" 'seq 50000 | "$P" -c >"$HOME/n.xz"; "$P" -dc "$HOME/n.xz" | tail -n 1; cat "$HOME/n.xz" | dd of="$HOME/m.xz" status=none; test "$D" = /fwd && K=${P%/bin/*}/kept || K=$D; cp "$HOME/m.xz" "$K/m.xz"; "$P" -dk "$D/m.xz" && "$P" -l --robot "$D/m.xz" | tail -n 1 && "$P" -f "$D/m"'
    same make "$(command -v make)" 'test "$D" = /fwd && K=${P%/bin/*}/kept || K=$D; printf "all: b c\nb: a\n\tcat a >b\nc: b\n\tcat a b >c\na:\n\techo text >a\n" >"$K/Makefile"; "$P" -C "$D" --no-print-directory && "$P" -C "$D" --no-print-directory'
    same node "$(command -v node)" '"$P" -e "const fs = require(String.raw\`fs\`); const d = process.argv[1]; fs.mkdirSync(d + \`/a\`); fs.writeFileSync(d + \`/a/f\`, \`x\`.repeat(100000)); fs.copyFileSync(d + \`/a/f\`, d + \`/a/g\`);
        console.log(fs.readdirSync(d + \`/a\`).sort(), fs.statSync(d + \`/a/g\`).size); fs.renameSync(d + \`/a/g\`, d + \`/h\`); fs.readFile(d + \`/h\`, (e, b) => console.log(e, b.length));" "$D"'
}

# A launcher that finds its own library beside itself: its copy must lie in the same folder.
name="java: a copy of its launcher beside it runs a program on forwarded files"
java=$(readlink -f "$(command -v java)" 2>/dev/null)
if ! mp_wanted "$name"; then
    :
elif [ -z "$java" ] || ! cp -rs "${java%/bin/java}" "$mp_dir/jre" 2>"$mp_dir/out" || ! rm "$mp_dir/jre/bin/java" ||
    ! cp "$java" "$mp_dir/jre/bin/java" || ! "$mp_dir/jre/bin/java" -version >"$mp_dir/out" 2>&1; then
    mp_skip "$name" "there is no java here that runs from another folder"
else
    printf 'import java.nio.file.*;\npublic class J { public static void main(String[] a) throws Exception { Path p = Path.of(a[0], "f"); Files.writeString(p, "text"); Files.copy(p, Path.of(a[0], "g"));\n try (var s = Files.list(Path.of(a[0]))) { System.out.println(s.count()); } } }\n' >"$mp_dir/J.java"
    rm -rf "$mp_dir/kept/"*
    { "$tool" -server "$mp_dir/addresses" -o "$mp_dir/jre/bin/java-fwd" "$mp_dir/jre/bin/java" &&
        env -i timeout -k 5 100 "$mp_dir/jre/bin/java-fwd" -Xmx256m "$mp_dir/J.java" /fwd && cat "$mp_dir/kept/g"; } >"$mp_dir/out" 2>&1
    if grep -q 'No compiler\|jdk.compiler' "$mp_dir/out"; then
        mp_skip "$name" "this java has no compiler"
    else
        grep -q '^2$' "$mp_dir/out" && grep -q '^text$' "$mp_dir/out"
        mp_report $? "$name" "$mp_dir/out"
    fi
fi

# check NAME COMMAND...
check() {
    check_name=$1
    shift
    mp_wanted "$check_name" || return 0
    timeout -k 5 100 "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$check_name" "$mp_dir/out"
}

rm -rf "$mp_dir/kept/"*
"$tool" -server "$mp_dir/addresses" -o "$mp_dir/bin/sh" "$(readlink -f /bin/sh)"
# shellcheck disable=SC2016
check "what a copy starts is forwarded, and sees no prefix of its own" sh -c 'env -i "$1" -c "echo child | /usr/bin/tee /fwd/child; cat /fwd/child" && test "$(cat "$2/child")" = child' sh "$mp_dir/bin/sh" "$mp_dir/kept"
# shellcheck disable=SC2016
check "an environment of its own replaces the baked prefix" sh -c 'mkdir -p "$2/sub" && ! IOFWD_PREFIX=/other "$1" -c ": >/fwd/x" && test ! -e "$2/x"' sh "$mp_dir/bin/sh" "$mp_dir/kept"
# shellcheck disable=SC2016
check "a copy under iofwd-run forwards once" sh -c '"$3/iofwd-run" -servers "$4" "$1" -c "echo under >/fwd/under" && test "$(cat "$2/under")" = under' sh "$mp_dir/bin/sh" "$mp_dir/kept" "$builddir" "$mp_dir/addresses"
# shellcheck disable=SC2016
check "a copy without settings uses the environment's" sh -c '"$5" -o "$1.env" "$6" && AMPHORA_JOB=$4 IOFWD_PREFIX=/fwd "$1.env" -c "echo env >/fwd/env" && test "$(cat "$2/env")" = env && ! "$1.env" -c ": >/fwd/none"' \
    sh "$mp_dir/bin/sh" "$mp_dir/kept" "$builddir" "$mp_dir/addresses" "$tool" "$(readlink -f /bin/sh)"
# shellcheck disable=SC2016
check "a copy in a job of amphora-run uses the job's servers" sh -c 'mkdir "$3/job" && "$1" -n 1 -servers 1 -iofwd "/fwd=$3/job" "$2" -c "echo job >/fwd/job" && test "$(cat "$3/job/job")" = job' sh "$AMPHORA_RUN" "$mp_dir/bin/sh" "$mp_dir"
# shellcheck disable=SC2016
check "a stripped copy still forwards" sh -c 'cp "$1" "$1.s" && strip "$1.s" && env -i "$1.s" -c "echo stripped >/fwd/s" && test "$(cat "$2/s")" = stripped' sh "$mp_dir/bin/sh" "$mp_dir/kept"
# LeakSanitizer reports what the library has allocated for itself and lost, and ends the program with exit code 1.
name="a program with AddressSanitizer ends with its own exit code"
printf '#include <stdio.h>\nint main(int c, char **v) { FILE *f = fopen(v[1], "w"); return !f || fputs("leak\\n", f) < 0 || fclose(f); }\n' >"$mp_dir/leak.c"
if gcc -fsanitize=address "$mp_dir/leak.c" -o "$mp_dir/leak" 2>"$mp_dir/out" && "$mp_dir/leak" /dev/null; then
    # shellcheck disable=SC2016
    check "$name" sh -c '"$1" -server "$2/addresses" -prefix /fwd -o "$2/leak.fwd" "$2/leak" || exit 1
        for setting in IOFWD_STRICT=1 AMPHORA_LOG=debug IOFWD_TRACE=1 IOFWD_TRACE_DIR="$2/records" AMPHORA_STATS=1 IOFWD_OPTIONAL=1; do
            rm -f "$2/kept/leak"
            env -u ASAN_OPTIONS "$setting" "$2/leak.fwd" /fwd/leak || { echo "exit code $? with $setting"; exit 1; }
            test "$(cat "$2/kept/leak")" = leak || exit 1
        done' sh "$tool" "$mp_dir"
else
    mp_skip "$name" "gcc has no such library here"
fi
mp_done
