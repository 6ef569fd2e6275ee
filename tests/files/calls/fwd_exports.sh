#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What is exported read-only stays as it is, by whatever way one comes to it, and exports that lie in each other are to programs as mounts
# are: the same commands give the same answers on bind mounts in a mount namespace of the test's own.  See fwd_exports.c for the race.
mounts_for="exports beside mounts"
. "${srcdir:-.}/tests/files/mounts.sh"
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; umount -R "$mp_dir/l" 2>/dev/null; rm -rf "$mp_dir"' EXIT

# trees DIR: two directories, one with the places of the others in it
trees() {
    mkdir -p "$1/all/sub" "$1/all/in" "$1/all/deep/er/place" "$1/fixed/dir" "$1/else"
    echo fixed >"$1/fixed/f"
    echo other >"$1/else/of"
    echo free >"$1/all/free"
    mkfifo "$1/fixed/fifo"
    ln -s in/f "$1/all/rel"
    ln -s in "$1/all/dir"
    ln -s dir "$1/all/dir2"
    ln -s in/none "$1/all/dangling"
    ln -s ../free "$1/fixed/out"
    ln -s ../new "$1/fixed/outnew"
}

cat >"$mp_dir/commands" <<'X'
D=$1
export LC_ALL=C
cd "$D" || exit 1
ln -s "$D/in/f" absolute; ln -s "$D/in" absdir; ln -s "$D/sub/../in/none" absnone; ln -s "$D/free" sub/abs
for p in in/f sub/../in/f ./in/f .//in//f in/../in/f rel dir/f dir2/f absolute absdir/f dir/../in/f deep/er/place/../../../in/f; do
    for q in "$p" "$D/$p"; do
        bash -c ': >"$1"' sh "$q"; bash -c 'echo changed >>"$1"' sh "$q"; bash -c 'exec 3<>"$1"' sh "$q"; cat "$q"
        chmod 700 "$q"; truncate -s 1 "$q"; touch -d 2001-01-01 "$q"; chown 0 "$q"; chattr +d "$q"
    done
done 2>&1 | sed 's/^bash: line [0-9]*: //; s/^sh: line [0-9]*: //'
for p in in/n in/none/n sub/../in/n ./in/n dir/n absdir/n dangling absnone in/dir/../n; do
    bash -c ': >"$1"' sh "$p"; mkdir "$p"; mknod "$p" p; ln -s x "$p"; ln free "$p"; mv free "$p"; cp free "$p"; python3 -c '
import os, sys
for f in os.O_CREAT | os.O_WRONLY, os.O_CREAT | os.O_EXCL | os.O_RDWR, os.O_CREAT | os.O_RDONLY, os.O_WRONLY | os.O_NOFOLLOW:
    try: os.close(os.open(sys.argv[1], f)); print("opened")
    except OSError as e: print(e.strerror)' "$p"
done 2>&1 | sed 's/^bash: line [0-9]*: //; s/^sh: line [0-9]*: //; s/Invalid cross-device link/Read-only file system/'
for p in in deep/er/place dir/../in sub/../deep/er/place; do
    mkdir "$p"; rmdir "$p"; rm -d "$p"; ln -s x "$p"; mknod "$p" p; mv -T "$p" moved; mv -T sub "$p"; unlink "$p"; stat -c %F "$p"
done 2>&1 | sed 's/.*: //'
rm in/f dir/f sub/../in/f; rmdir in/dir; mv in/f in/g; echo through >in/out; cat free; echo through >in/outnew; cat new; echo free >free
cd deep/er/place && ls . .. ../.. ../../.. && cat of ../place/of ../../../in/f && echo mine >../place/made && cat made && pwd && cd ../../../in &&
    ls .. && cat ../free && cd ../sub && cat abs ../in/f && cd ../dir && pwd -P && cat f ../dir/f
ls "$D" "$D/deep" "$D/deep/er"; find "$D" | sort
cat "$D/in/fifo" & echo fifo >"$D/in/fifo"; wait
X

# As mounts: a tree in $mp_dir/l/d.
mkdir "$mp_dir/l" "$mp_dir/f"
trees "$mp_dir/l"
mkdir "$mp_dir/l/d"
mount --bind "$mp_dir/l/all" "$mp_dir/l/d" && mount --bind "$mp_dir/l/fixed" "$mp_dir/l/d/in" && mount -o remount,bind,ro "$mp_dir/l/d/in" &&
    mount --bind "$mp_dir/l/else" "$mp_dir/l/d/deep/er/place"
(cd / && timeout -k 5 60 sh "$mp_dir/commands" "$mp_dir/l/d" 2>&1) >"$mp_dir/local" </dev/null

# up SETTING...: servers with the same as exports
up() {
    env "$@" "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/f/all" -iofwd "/fwd/in=$mp_dir/f/fixed" -read-only /fwd/in \
        -iofwd "/fwd/deep/er/place=$mp_dir/f/else" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >"$mp_dir/log" 2>&1
}
trees "$mp_dir/f"
up
run="timeout -k 5 60 $builddir/iofwd-run -servers $mp_dir/addresses"
(cd / && $run sh "$mp_dir/commands" /fwd 2>&1) >"$mp_dir/forwarded" </dev/null
sed -i "s#$mp_dir/l/d#/fwd#g" "$mp_dir/local"
diff "$mp_dir/local" "$mp_dir/forwarded" >"$mp_dir/out" 2>&1 && grep -q 'Read-only' "$mp_dir/local"
mp_report $? "exports in each other: as mounts ($(wc -l <"$mp_dir/forwarded") lines)" "$mp_dir/out"
umount -R "$mp_dir/l/d"
(cd "$mp_dir/l" && find all fixed else -type f -exec sha256sum {} + | sort) >"$mp_dir/l.tree"
(cd "$mp_dir/f" && find all fixed else -type f -exec sha256sum {} + | sort) >"$mp_dir/f.tree"
diff "$mp_dir/l.tree" "$mp_dir/f.tree" >"$mp_dir/out"
mp_report $? "exports in each other: the same files" "$mp_dir/out"

rm -f "$mp_dir/f/all/absolute"
$run "$builddir/tests/files/calls/fwd_exports" /fwd/free /fwd/in/f /fwd 3000 >"$mp_dir/out" 2>&1 && test "$(cat "$mp_dir/f/fixed/f")" = fixed
mp_report $? "a link that changes its target while it is opened for writing leads into nothing read-only" "$mp_dir/out"
kill "$(cat "$mp_dir/pid")"
mp_until 20 test ! -e "$mp_dir/pid"

# warned NAME WARNINGS IOFWD READ-ONLY: how often the servers warn of what can be changed by another name
warned() {
    rm -f "$mp_dir/addresses"
    timeout 30 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "$3" -read-only "$4" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" \
        >"$mp_dir/out" 2>&1
    code=$?
    test $code = 0 && test "$(grep -c 'the read-only export .* can be changed as' "$mp_dir/out")" = "$2"
    mp_report $? "$1" "$mp_dir/out"
    test ! -e "$mp_dir/pid" || kill "$(cat "$mp_dir/pid")"
    mp_until 20 test ! -e "$mp_dir/pid"
}
f=$mp_dir/f
warned "a read-only export that another one has as a directory of it: a warning" 1 "/x=$f:/sub=$f/all" /sub
warned "or that is the same directory, of another name" 1 "/x=$f/all:/y=$f/all" /y
warned "nothing to warn of: the other one is read-only too" 0 "/x=$f:/sub=$f/all" /x:/sub
warned "nothing to warn of: the place itself is the read-only one" 0 "/x=$f:/x/all=$f/all" /x/all
warned "nothing to warn of: another export is in its place" 0 "/x=$f:/x/all=$f/else:/sub=$f/all" /sub
mp_done
