# SPDX-License-Identifier: BSD-3-Clause
# What the test suites of other projects have found, each in a few lines: fwd_suites_commands.sh DIRECTORY SCRATCH.  Run by fwd_suites.sh
# on a local and on a forwarded directory; a program that is not installed is left out on both sides.
D=$1
LC_ALL=C
export LC_ALL D
have() { command -v "$1" >/dev/null; }
cd "$D" || exit 1
echo line >in

# bash's alias.tests: to run a script that has no #! line it empties itself in a child, and gives free what its getenv has handed out
printf '(cat "$1"; echo >>"$1")\nread -r x <"$1"; echo "$x"\n' >script && chmod +x script
if have bash; then
    (cd / && bash -c '. "$D/script" "$D/in"; "$D/script" "$D/in"; . "$D/script" "$D/in"; "$D/script" "$D/in"; echo over')
fi

# bash's procsub.tests: the numbers that a shell asks for are free where a process may have few descriptors
if have bash; then
    cat >few <<'EOF'
exec 4< <(echo subshell)
read -r x <&4
echo "$x"
exec 3<in
cat <&3
EOF
    bash -c 'ulimit -n 256; sh -c "bash ./few"'
    bash -c 'ulimit -n 64; sh -c "bash ./few"'
fi

# python's test.support and others: programs that clear their environment before they open the first file
cd / || exit 1
if have perl; then
    perl -e '%ENV = (); $0 = "x" x 300; open F, "<", $ARGV[0] or die $!; print "perl: ", <F>; close F; print `/bin/cat $ARGV[0]`' "$D/in"
fi
if have python3; then
    python3 -c 'import os, sys
for name in list(os.environ): del os.environ[name]
print("python:", open(sys.argv[1]).read(), os.stat(sys.argv[1]).st_size)' "$D/in"
fi
if have bash; then
    bash -c 'd=$D; for name in $(compgen -e); do unset "$name"; done; read -r x <"$d/in"; echo "bash: $x"; cd "$d" && /bin/ls'
fi
env -i /bin/cat "$D/in"
