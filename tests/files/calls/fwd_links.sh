#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Local links that lead below a prefix, and a working directory in a prefix's place: the forwarded files are meant.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

cat >"$mp_dir/commands" <<'X'
D=$1 T=$2
export LC_ALL=C
cd "$T"
mkdir near; ln -s "$D" data; ln -s data again; ln -s ../again/sub near/deep; ln -s "$D/file" one; ln -s nothing dangling; ln -s loop loop
mkdir data/sub; echo text >data/file; cat again/file one; echo more >>one; cat "$D/file"; echo new >near/deep/new; cat "$T/near/deep/new"
ls -l data/ | awk '{ print $1, $5, $9 }'; ls near/deep; readlink data near/deep; test -L data && test -d data && echo directory
stat -c '%F' one data near/deep data/nothing dangling loop dangling/x 2>&1; stat -L -c '%F %s' one data near/deep dangling
readlink -f near/deep/new; realpath data/sub/../file; cp data/file data/copy; mv data/copy again/moved; ln data/moved data/hard; ln -s moved data/soft
mv near/deep/new local; cat local; cp local near/deep/; chmod 600 data/moved; touch -d 2001-01-01 data/moved; stat -c '%a %y %h' data/moved
cd data/sub; pwd; pwd -P; ls; cd ..; pwd; cat file; cd "$T/near/deep"; cat new; cd "$T"
printf '#!/bin/sh\necho script $0\n' >data/script; chmod +x data/script; data/script; cp /bin/echo data/echo; again/echo program
find data/ again/sub -type f | sort; find -L near -type f | sort; du --apparent-size -b data/moved; rm data/hard; rmdir data/sub; rm -r data/sub
cat dangling; cat loop; cat near/nothing; mkdir data; mkdir data/sub; rm data/echo again near/deep; cat data/file
ln -s "$D/made" made; echo made >made; cat "$D/made"; mkfifo data/pipe; test -p data/pipe && echo pipe; truncate -s 3 data/made; wc -c <made
bash -c 'exec 3<>data/file; read x <&3; echo $x; echo data/*; cd data && . ./file' 2>&1 | sed 's/^bash: line [0-9]*: //; s/^file: line/line/'
X
# Where this host has a /fwd, too, the links lead to that (doc/limits.md), and the commands would write there.
if [ ! -e /fwd ]; then
    fwd_both "links into a prefix" sh "$mp_dir/commands"
else
    for part in "same output" "same files" "passed through the servers"; do
        mp_skip "links into a prefix: $part" "this host has a directory /fwd"
    done
fi

# The prefix exists on this host too, where it holds something else.
mkdir -p "$mp_dir/here/sub" "$mp_dir/there/sub" "$mp_dir/scratch"
echo here | tee "$mp_dir/here/f" >"$mp_dir/here/sub/f"
echo there | tee "$mp_dir/there/f" >"$mp_dir/there/sub/f"
ln -s "$mp_dir/here/sub" "$mp_dir/link"
(
    cd "$mp_dir/here/sub" && "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "$mp_dir/here=$mp_dir/there" -timeout 100 sh -c '
        exec 2>&1; cat f ../f; pwd; sh -c "cat f; echo \$0" ; echo new >new; cd /; cd "$0/link" && cat f && pwd -P && cd ../nothing; cat f' "$mp_dir"
    ls "$mp_dir/here/sub" "$mp_dir/there/sub"
) >"$mp_dir/out" 2>&1
sed "s#$mp_dir#@#g; s/.*: \([0-9]*: \)*cd: can't cd/cd: can't cd/" "$mp_dir/out" >"$mp_dir/seen"
cat >"$mp_dir/right" <<'X'
there
there
@/here/sub
there
sh
there
@/here/sub
cd: can't cd to ../nothing
there
@/here/sub:
f

@/there/sub:
f
new
X
diff "$mp_dir/right" "$mp_dir/seen" >"$mp_dir/out" 2>&1
mp_report $? "a working directory in a prefix's place is the forwarded one" "$mp_dir/out"
mp_done
