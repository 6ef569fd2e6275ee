#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs under iofwd-run -trap, static ones above all: the same output and files as in a local directory.
. "${srcdir:-.}/tests/files/trap/trap_lib.sh"
trap_or_skip "iofwd-run -trap"

same "busybox: writes, lists, renames, links, removes" 'busybox seq 9 >n; busybox sort -rn n; echo more >>n; busybox wc -l n; mv n m; ln -s m l; busybox readlink l; busybox cat l; busybox ls -1; rm l; chmod 600 m; busybox stat -c %a m'
same "busybox: directories, tar, cp -r, find" 'mkdir -p a/b/c; echo x >a/b/c/y; busybox cp -r a z; busybox tar cf t.tar a; busybox tar tf t.tar; rm t.tar; busybox find . | busybox sort; rm -r z'
same "busybox: working directory of a subshell" 'mkdir -p a/b; (cd a/b && pwd && echo x >f && cd .. && pwd); pwd; cat a/b/f; cd a; cd b; cat f ../b/f'
same "redirected input, output and errors" 'echo one >o; { echo two; echo three >&2; } >>o 2>&1; busybox cat <o; busybox sh -c "busybox cat; echo child" <o >p; busybox cat p'
same "pipes between programs" 'busybox seq 1000 | busybox tee t | busybox tail -n 1; busybox md5sum <t; busybox cmp t t && echo equal'
same "missing files" 'busybox cat none; rm none; rmdir none; cd none; ls none; mv none other; exit 3'
# In a shell under iofwd-run the launcher leaves the preload library, which would forward the supervisor's own calls.
forwarded() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" "$@"
}
echo forwarded >"$mp_dir/kept/in"
mp_try "in a shell under iofwd-run" forwarded sh -euc '[ "$("$1" -trap busybox cat /fwd/in)" = forwarded ]' sh "$builddir/iofwd-run"
mp_try "in a shell under iofwd-run, output to a forwarded file" forwarded sh -euc '"$1" -trap busybox cat </fwd/in >/fwd/copy 2>&1' \
    sh "$builddir/iofwd-run"
mp_try "that file has it" cmp "$mp_dir/kept/in" "$mp_dir/kept/copy"
# The supervisor's descriptors keep off the numbers 0 to 2, which the program finds closed.
mp_try "with closed standard descriptors" sh -c '"$@" <&- >&- 2>&-' sh timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -trap \
    busybox sh -c 'busybox sh -c "[ ! -e /proc/self/fd/2 ]" && echo closed >/fwd/closed'
mp_try "it wrote" grep -qx closed "$mp_dir/kept/closed"
for shell in dash bash zsh; do
    if command -v "$shell" >/dev/null; then
        same "$shell" "$shell -c 'echo data >f; read -r x <f; echo \$x; for i in 1 2 3; do echo \$i >>f; done; mkdir d; cd d; pwd; cp ../f .; ls; cd ..; rm -r d'"
    else
        mp_skip "$shell" "there is no $shell"
    fi
done
# Redirections of static shells: 0 to 2 always, other numbers by IOFWD_TRAP_FDS.
cat >"$mp_dir/redirect" <<'X'
echo first >f
echo error 2>e >&2
{ echo block; echo err >&2; } >b 2>&1
echo more >>f
echo both >o 2>&1
(
    exec >out
    echo one
    exec 2>&1
    echo two >&2
    (echo subshell; echo its error >&2)
    busybox sh -c 'echo child; echo error of a child >&2'
    { echo inner; } >inner
    echo back
    while read -r line; do echo "L $line"; done <f
    exec >again
    echo again
)
read -r x <f
echo "$x" | busybox cat >p
busybox cat <<Y >h
here $x
Y
exec <f
read -r y
echo "$y"
X
cat >"$mp_dir/redirect-low" <<'X'
exec 3>three 4>&3
echo three >&3
echo four >&4
(echo subshell >&3)
busybox sh -c 'echo child >&3'
exec 3>&- 4>&-
exec 5<three 6>>three
read -r a <&5
read -r b <&5
echo "$a $b"
echo appended >&6
exec 7<>three
read -r c <&7
echo "$c"
echo saved 8>&1 >&8 9>nine
busybox cat three nine
X
for shell in "bash-static" "zsh-static" "busybox sh"; do
    if ! command -v ${shell%% *} >/dev/null; then
        mp_skip "redirections of $shell" "there is no $shell"
        mp_skip "redirections of $shell to 3 to 9" "there is no $shell"
        continue
    fi
    same "redirections of $shell" "$shell $mp_dir/redirect"
    IOFWD_TRAP_FDS=0-9,512-1023
    export IOFWD_TRAP_FDS
    same "redirections of $shell to 3 to 9" "$shell $mp_dir/redirect-low"
    unset IOFWD_TRAP_FDS
done
if command -v bash-static >/dev/null; then
    same "a soft limit below the numbers of forwarded files" 'echo data >f; ulimit -S -n 100; busybox cat f; ulimit -S -n; ulimit -H -n'
hard_limit() {
    run busybox sh -c 'ulimit -n 100; busybox cat /fwd/in' 2>&1 | tee "$mp_dir/limit"
    grep -q 'lowered its limit of open files' "$mp_dir/limit"
}
mp_try "a hard limit below them is named" hard_limit
same "static bash" 'bash-static -c "echo data >f; read -r x <f; echo \$x; echo more >>f; [ -s f ] && echo full"'
else
    for name in "a soft limit below the numbers of forwarded files" "a hard limit below them is named" "static bash"; do
        mp_skip "$name" "there is no bash-static"
    done
fi
same "python3" 'python3 -c "
import os, shutil, mmap
open(\"p\", \"w\").write(\"x\" * 100000)
print(os.path.getsize(\"p\"), sorted(os.listdir(\".\")))
shutil.copy(\"p\", \"q\")
with open(\"q\", \"rb\") as f: print(len(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[:]))
os.makedirs(\"d/e\"); os.chdir(\"d/e\"); print(os.getcwd()); os.chdir(\"../..\"); shutil.rmtree(\"d\")
with open(\"q\", \"r+b\") as f: f.seek(7); f.write(b\"yy\"); f.truncate(50)
print(os.stat(\"q\").st_size, open(\"q\").read(10))"'
same "tar, gzip, sed -i, grep -r" 'mkdir s; busybox seq 100 >s/a; busybox seq 5 >s/b; tar czf s.tgz s; tar xzOf s.tgz s/b; rm s.tgz; sed -i s/1/one/ s/b; grep -r one s'
if command -v git >/dev/null; then
    same "git" 'git init -q r && cd r && git config user.email a@b && git config user.name a && echo x >f && git add f && GIT_AUTHOR_DATE="@1000000000 +0000" GIT_COMMITTER_DATE="@1000000000 +0000" git commit -q -m one && git log --format=%H && git status --short && git fsck 2>&1 && cd .. && rm -rf r'
else
    mp_skip "git" "there is no git"
fi
same "gcc" 'echo "int main(void) { return 5; }" >t.c; gcc -c t.c -o t.o && gcc t.o -o t && cp t "$TMPDIR/trap.t.$$" && "$TMPDIR/trap.t.$$"; echo $?; rm -f "$TMPDIR/trap.t.$$" t t.o'
if command -v sqlite3 >/dev/null; then
    same "sqlite3" 'sqlite3 d.db "create table t (a); insert into t values (1), (2); begin; update t set a = a + 1; commit; select sum(a) from t; pragma integrity_check" && rm d.db'
else
    mp_skip "sqlite3" "there is no sqlite3"
fi
mp_done
