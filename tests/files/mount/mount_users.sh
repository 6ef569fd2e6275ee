#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-run -mount as root: programs that change their user, which a local directory allows and refuses as well; nothing of it on the host.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_run_or_skip "iofwd-run -mount with several users"
why=
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>"$mp_dir/why"; then
    why="not root, or no right to mount: $(tail -n 1 "$mp_dir/why")"
elif ! setpriv --reuid=65534 --regid=65534 --clear-groups true 2>"$mp_dir/why"; then
    why="no other user can be: $(tail -n 1 "$mp_dir/why")"
fi
if [ -n "$why" ]; then
    echo "1..1"
    echo "ok 1 - iofwd-run -mount with several users # SKIP $why"
    exit 0
fi
chmod 711 "$mp_dir"
umask 022
run() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -mount "$@"
}

cat >"$mp_dir/as" <<'S'
#!/bin/sh
# as UID GID COMMAND...: with this group only
uid=$1 gid=$2
shift 2
exec setpriv --reuid="$uid" --regid="$gid" --clear-groups "$@"
S
chmod 755 "$mp_dir/as"

# same NAME COMMAND: the same output, owners and modes in a local directory and below /fwd; as UID GID COMMAND there
same() {
    mp_wanted "$1" || return 0
    rm -rf "$mp_dir/plain" "$mp_dir/kept/w"
    mkdir -p "$mp_dir/plain/w" "$mp_dir/kept/w"
    (cd "$mp_dir/plain/w" && LC_ALL=C PATH=$mp_dir:$PATH sh -uc "$2") >"$mp_dir/l.out" 2>&1
    LC_ALL=C PATH=$mp_dir:$PATH run sh -uc "cd /fwd/w && $2" >"$mp_dir/out" 2>&1
    (cd "$mp_dir/plain/w" && find . -printf '%p %y %m %U:%G %s %l\n' | sort) >>"$mp_dir/l.out"
    (cd "$mp_dir/kept/w" && find . -printf '%p %y %m %U:%G %s %l\n' | sort) >>"$mp_dir/out"
    sed -i -E '/ d /s/^([^ ]+ d [0-7]+ [0-9:]+).*/\1/' "$mp_dir/l.out" "$mp_dir/out" # sizes of directories differ
    cmp "$mp_dir/l.out" "$mp_dir/out" || diff "$mp_dir/l.out" "$mp_dir/out" >>"$mp_dir/out"
    cmp -s "$mp_dir/l.out" "$mp_dir/out"
    mp_report $? "$1" "$mp_dir/out"
}

mp_try "the users are those of the host" run sh -euc '[ "$(readlink /proc/self/ns/user)" = "$1" ] && [ "$(readlink /proc/self/ns/mnt)" != "$2" ]' sh \
    "$(readlink /proc/self/ns/user)" "$(readlink /proc/self/ns/mnt)"
same "new files belong to who makes them" 'chmod 1777 . && umask 027 && as 65534 65534 sh -c "echo text >f; mkdir d; ln -s f l; mkfifo p; echo more >>f; ls -ln f"
    as 65534 4 sh -c "echo group >g; cat g"; as 1 1 sh -c "echo one >one; ls -n one"'
same "in a set-group-id directory" 'chgrp 4 . && chmod 3777 . && as 65534 65534 sh -c "echo text >f; mkdir d; ls -ldn f; mkdir d/e; echo text >d/e/f"'
same "what modes refuse" 'echo secret >s && chmod 600 s && mkdir o && echo text >o/f && chmod 711 o && echo read >r
    as 65534 65534 sh -c "cat s; echo text >new; mkdir new; rm r; mv r q; ls o; cat o/f r; echo text >r; chmod 777 r; chown 65534 r; touch -d 2001-01-01 r; : >r; ln r hard"'
same "what owners may" 'chmod 1777 . && echo root >r && echo text >f && chown 65534:65534 f && chmod 600 f
    as 65534 65534 sh -c "cat f; chmod 640 f; touch -d 2001-01-01 f; chgrp 4 f; mv f g; ln g h; rm r"; as 1 1 sh -c "cat g; rm g; ls -ln --time-style=+%Y g"'
same "set-user-id ends when another user writes" 'echo text >f && chmod 6777 f && echo more >>f && stat -c %a f && as 65534 65534 sh -c "echo more >>f" && stat -c %a f &&
    chmod 6777 f && as 65534 65534 truncate -s 3 f && stat -c %a f && chmod 6777 f && chown 65534 f && stat -c %a f
    chmod 6777 f && as 65534 65534 dd if=/dev/zero of=f bs=4096 count=1 oflag=direct conv=notrunc status=none; stat -c %a f
    chmod 6777 f && as 65534 65534 dd if=/dev/zero of=f bs=4096 count=1 conv=notrunc status=none; stat -c %a f'
cat >"$mp_dir/copy" <<'P'
#!/usr/bin/env python3
# copies five bytes of g to f as another user, within the kernel
import os
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
os.copy_file_range(os.open("g", os.O_RDONLY), os.open("f", os.O_WRONLY), 5)
P
chmod 755 "$mp_dir/copy"
same "set-user-id ends at other changes of the data, too" 'echo text >f && chmod 6777 f && as 65534 65534 sh -c ": >f" && stat -c %a f && chmod 6777 f && as 65534 65534 fallocate -l 9 f; stat -c %a f
    chmod 6777 f && fallocate -l 19 f; stat -c %a f; echo text >g; chmod 4777 f && copy; stat -c %a f; cat f | tr -d "\\0"'
same "root gives files away" 'echo text >f && chown 65534:4 f && mkdir d && chown -R 1:1 d && ls -ln f && tar cf t f d && mkdir x && tar xpf t -C x && cp -a x y'
same "a file that only its group may write" 'echo text >f && chgrp 4 f && chmod 664 f && as 65534 4 sh -c "echo more >>f" && as 65534 65534 sh -c "echo no >>f"; cat f'
if command -v setfacl >/dev/null; then
    same "access lists" 'chmod 755 . && echo secret >s && chmod 600 s && as 65534 65534 cat s; setfacl -m u:65534:rw s && as 65534 65534 sh -c "cat s; echo more >>s"; as 1 1 cat s
        chmod 600 s && as 65534 65534 cat s; mkdir d && setfacl -d -m u:65534:rwx,o::- d && setfacl -m u:65534:rwx d && echo below >d/f && mkdir d/e && getfacl -pn d/f d/e s
        as 65534 65534 sh -c "cat d/f; echo new >d/e/g; getfacl -pn d/e/g; rm d/f"; setfacl -x u:65534 s; as 65534 65534 cat s; cp -a d c && getfacl -pnR c'
else
    mp_skip "access lists" "there is no setfacl"
fi
if command -v su >/dev/null; then
    same "su, a set-user-id program" 'chmod 777 . && su -s /bin/sh nobody -c "id -u; echo text >f; ls -n f | cut -d \" \" -f 3,5"'
else
    mp_skip "su, a set-user-id program" "there is no su"
fi

# Where a name exists that the kernel has not looked up, its permissions count, too.
exists_meanwhile() {
    mkdir -m 1777 "$mp_dir/kept/race" && cat >"$mp_dir/race.py" <<'P'
import os, subprocess, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
stolen = 0
for i in range(200):
    try:
        os.close(os.open("/fwd/race/%d" % i, os.O_CREAT | os.O_RDWR, 0o666))
    except PermissionError:
        stolen += 1
print("refused", stolen)
P
    run python3 "$mp_dir/race.py" >"$mp_dir/race.out" 2>&1 &
    racer=$!
    for i in $(seq 199 -1 0); do
        (umask 077 && set -C && echo root >"$mp_dir/kept/race/$i") 2>/dev/null
    done
    wait $racer
    cat "$mp_dir/race.out"
    grep -q '^refused' "$mp_dir/race.out" || return
    ! find "$mp_dir/kept/race" -user 65534 -size +0 | grep .
}
mp_try "a file that another client makes meanwhile stays its maker's" exists_meanwhile

# Mounts.
cat >"$mp_dir/hold" <<'S'
mkdir -p /tmp/here.$$ && mount -t tmpfs t /tmp/here.$$ && : >"$1/inside" && cat "$1/end" && umount /tmp/here.$$ && rmdir /tmp/here.$$
S
stays_inside() {
    mkfifo "$mp_dir/end" || return
    run sh "$mp_dir/hold" "$mp_dir" &
    holder=$!
    mp_until 20 test -e "$mp_dir/inside"
    cat /proc/self/mountinfo >"$mp_dir/during"
    echo >"$mp_dir/end"
    # the fifth word is where it is mounted; other tests have mounts of their own
    wait $holder && ! awk '$5 == "/fwd" || $5 ~ "^/tmp/here[.]"' "$mp_dir/during" | grep .
}
mp_try "the host has none of the mounts" stays_inside
shared() {
    rm -f "$mp_dir/inside" "$mp_dir/end"
    # shellcheck disable=SC2016
    unshare -m --propagation shared sh -c '"$@"; code=$?; ! grep -e " /fwd " -e /tmp/here /proc/self/mountinfo && exit $code' sh \
        timeout 60 "$builddir/iofwd-run" -servers "$addresses" -mount sh -c 'mkdir "$1/x" && mount -t tmpfs t "$1/x" && grep -q " /fwd " /proc/self/mountinfo' sh "$mp_dir"
}
mp_try "nor if its mounts are shared" shared

# A daemon keeps the mounts after the program's end, and has no terminal or parent.
daemon() {
    mkfifo "$mp_dir/to" && echo kept >"$mp_dir/kept/for_daemon" || return
    # shellcheck disable=SC2016
    run sh -c 'setsid setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "read -r x; cat /fwd/for_daemon" <"$1/to" >"$1/daemon" 2>&1 &' sh "$mp_dir" || return
    exec 8>"$mp_dir/to"
    pgrep -f "iofwd-mount -servers $addresses .*/dev/fd/" >/dev/null && [ ! -s "$mp_dir/daemon" ] && echo go >&8 && exec 8>&- &&
        mp_until 20 grep -qx kept "$mp_dir/daemon" && mp_until 20 sh -c '! pgrep -f "iofwd-mount -servers $1 .*/dev/fd/" >/dev/null' sh "$addresses"
}
mp_try "a daemon of another user keeps the mounts, which end with it" daemon

killed() {
    : >"$mp_dir/kept/killed"
    run sh -c 'echo $$ >/fwd/killed; exec sleep 60' &
    killer=$!
    mp_until 20 test -s "$mp_dir/kept/killed" && kill -KILL "$(cat "$mp_dir/kept/killed")"
    wait $killer
    [ $? = 137 ] && mp_until 20 sh -c '! pgrep -f "iofwd-mount -servers $1 .*/dev/fd/" >/dev/null' sh "$addresses"
}
mp_try "the mounts end when the program is killed" killed

# Without the right to mount: a user namespace, as for other users.
without_right() {
    # shellcheck disable=SC2016
    timeout -k 5 60 setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin "$builddir/iofwd-run" -servers "$addresses" -mount \
        sh -euc '[ "$(readlink /proc/self/ns/user)" != "$1" ] && echo one >/fwd/one && ! chown 1 /fwd/one 2>/dev/null && id -u' sh "$(readlink /proc/self/ns/user)"
}
mp_try "root without the right to mount has one user there" without_right

# In another root directory, which is a mount.
in_root() {
    # shellcheck disable=SC2016
    unshare -m sh -euc 'mkdir "$2/root" && mount --rbind / "$2/root" && shift && exec chroot "$1/root" "$2" -servers "$3" -mount \
        sh -euc "$4" sh "$2" "$3"' sh x "$mp_dir" "$builddir/iofwd-run" "$addresses" \
        'echo rooted >/fwd/rooted; [ "$("$1" -servers "$2" -mount cat /fwd/rooted)" = rooted ]; [ ! -e "/root/none" ]'
}
mp_try "after chroot" in_root
mp_done
