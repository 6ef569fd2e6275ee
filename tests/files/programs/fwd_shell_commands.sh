# SPDX-License-Identifier: BSD-3-Clause
# Larger programs at home in a directory: fwd_shell_commands.sh DIRECTORY SCRATCH.  Run by fwd_tools.sh on a local and on a forwarded
# one; a program that is not installed is left out on both sides.
D=$1
TZ=UTC LC_ALL=C HOME=/nonexistent CCACHE_DISABLE=1
export TZ LC_ALL HOME CCACHE_DISABLE
have() { command -v "$1" >/dev/null; }
cd "$D" || exit 1

printf 'l1\nl2\n' >in
cat in - <in
tac in; paste in in; nl in; fold -w1 in; md5sum in; base64 in; cksum in
exec 5<>rw; echo abc >&5; exec 5<&-; cat rw
(cd / && pwd); pwd
mkdir sub; (cd sub && pwd && cd .. && pwd && cat sub/../in)
cd "$D/sub/.." && pwd && cd -P . && pwd
echo 'echo sourced $1' >s
. ./s arg
sh ./s
touch -r in in2; test in2 -ot in; echo $?
ln -sf in lnk; cat lnk; readlink lnk; cp -P lnk lnk2; ls -F
awk 'BEGIN { while ((getline l < "in") > 0) print l; print "x" > "aw"; close("aw"); system("cat aw") }'
find . -name 'l*' -exec cat {} \;
tail -n 1 in >>in; cat in
(echo 1; echo 2 >&2) >o1 2>o2; cat o1 o2
{ echo a; echo b; } | { read x; cat >rest; echo "$x" >>rest; }; cat rest

# subshells that fork before they have touched a file
for i in 1 2 3 4 5 6 7 8; do
    x=$( (read -r l <in; echo "$l") | (read -r a; read -r b <in; echo "$a $b")); echo "$x"
done

if have make; then
    printf 'all: a b\na:\n\techo hi > a\nb: a\n\tcat a a > b\n' >Makefile
    make -s; cat b; make -q; echo $?
fi
if have gcc; then
    printf 'int main(void) { return 3; }\n' >m.c
    gcc -c m.c -o m.o && gcc m.o -o m; echo $?
    ./m; echo $?
    "$D/m"; echo $?
    rm m m.o
fi
if have git; then
    export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
        GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
    mkdir g && cd g && git init -q -b main . && echo x >f && git add f && git commit -qm first
    git log --oneline; git status --short; git fsck --no-progress; cd ..
    rm -rf g
fi
if have perl; then
    perl -e 'open(F, ">>", "p"); print F "hi"; close F; open(F, "<", "p"); print <F>; opendir(D, "."); print join(",", sort readdir D);
        print -s "p"; rename "p", "p2" or print $!; unlink "p2"; print -e "p2" ? 1 : 0; mkdir "pp"; chdir "pp"; use Cwd; print getcwd'
    echo
fi
if have bash; then
    bash -c 'echo b{1,2} >bb; cat bb; ls -d l*; pwd; cat <(cat bb); mapfile x <in; echo ${#x[@]}; echo $(<in); pushd sub; popd'
fi
rm -rf sub
echo end
