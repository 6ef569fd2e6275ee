#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Record locks and flock between two mounts, preload clients and the servers' own host; interrupted waits; many waiters.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "locks on a mount"
trap 'mount_end "$mp_dir/m" "$mp_dir/n"' EXIT
mount_on "$mp_dir/n" || exit 99
echo some bytes that are locked, and others >"$mp_dir/kept/f"

# at WHERE ARGUMENTS...: mount_locks.py by mount m, mount n, preload, or in the directory itself
at() {
    where=$1
    shift
    case $where in
    preload) mount_forwarded python3 "$srcdir/tests/files/mount/mount_locks.py" /fwd/f "$@" ;;
    *) python3 "$srcdir/tests/files/mount/mount_locks.py" "$mp_dir/$where/f" "$@" ;;
    esac
}

# says FILE WORD
says() {
    grep -q "^$2" "$1"
}

# hold WHERE KIND: in the background, until release
hold() {
    rm -f "$mp_dir/in"
    mkfifo "$mp_dir/in"
    at "$1" hold "$2" <"$mp_dir/in" >"$mp_dir/held" 2>&1 &
    exec 9>"$mp_dir/in"
    mp_until 8 says "$mp_dir/held" held
}

release() {
    exec 9>&-
    mp_until 8 says "$mp_dir/held" freed
}

# excludes HOLDER OTHER KIND: refused while it is held, then given; a waiter gets it when it is released
excludes() {
    hold "$1" "$3" && [ "$(at "$2" try "$3")" = refused ] && {
        (exec 9>&- && at "$2" wait "$3") >"$mp_dir/waiter" 2>&1 &
        waiter=$!
        mp_until 8 says "$mp_dir/waiter" waits && ! says "$mp_dir/waiter" got && release && wait "$waiter" &&
            says "$mp_dir/waiter" got && [ "$(at "$2" try "$3")" = got ]
    }
}

shares() {
    hold "$1" "$3" && [ "$(at "$2" try "$3")" = got ] && [ "$(at "$2" try "$4")" = "$5" ] && release
}

case_of() {
    mp_wanted "$1" || return 0
    name=$1
    shift
    "$@" >"$mp_dir/out" 2>&1
    code=$?
    cat "$mp_dir/held" "$mp_dir/waiter" >>"$mp_dir/out" 2>/dev/null
    mp_report $code "$name" "$mp_dir/out"
    exec 9>&-
}

for kind in posix flock; do
    for pair in "m m" "m n" "m preload" "preload m" "m kept" "kept n"; do
        # shellcheck disable=SC2086
        case_of "$kind, held by ${pair% *}, wanted by ${pair#* }" excludes $pair $kind
    done
done
case_of "posix: two readers, no writer" shares m n shared posix refused
beside() {
    hold m posix && [ "$(at preload try beside)" = got ] && [ "$(at n try beside)" = got ] && release
}
case_of "posix: other bytes are free" beside
case_of "flock: two readers, no writer" shares m n flockshared flock refused

interrupted() {
    hold "$1" "$2" && [ "$(at "$3" alarm "$2")" = interrupted ] && release && [ "$(at "$3" try "$2")" = got ]
}
case_of "posix: a signal ends the wait" interrupted m posix n
case_of "flock: a signal ends the wait" interrupted n flock m

reported() {
    hold m posix && [ "$(at n holder)" = write ] && [ "$(at m holder)" = write ] && release && [ "$(at n holder)" = none ]
}
case_of "posix: F_GETLK reports it" reported

killed() {
    hold m posix && kill -9 "$(pgrep -f "mount_locks.py $mp_dir/m/f hold")" && mp_until 8 gets n posix
    exec 9>&-
}
gets() {
    [ "$(at "$1" try "$2")" = got ]
}
case_of "posix: the end of a killed process frees it" killed

# 70 waiters are more than the session has threads and the client has requests
many_waiters() {
    hold m "$1" || return 1
    rm -f "$mp_dir"/waiter.*
    # by fork: 70 interpreters would take longer to start than everything else here
    (exec 9>&- && at m waiters "$1" "$mp_dir/waiter" 70)
    mp_until 25 all_say waits && [ "$(timeout 20 cat "$mp_dir/m/f" | wc -c)" = 39 ] && release && mp_until 25 all_say got
}
all_say() {
    [ "$(grep -l "^$1" "$mp_dir"/waiter.* | wc -l)" = 70 ]
}
case_of "posix: 70 waiters keep neither the unlock nor a read out" many_waiters posix
case_of "flock: 70 waiters keep neither the unlock nor a read out" many_waiters flock
# A lock of an open file description ends with the description, not with the process that took it; flock does, too.
cat >"$mp_dir/description.py" <<'P'
import errno, fcntl, os, struct, subprocess, sys
path, ofd = sys.argv[1], 37
def lock(fd, kind):
    if kind == "flock":
        return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.fcntl(fd, ofd, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
def is_free(kind):
    fd = os.open(path, os.O_RDWR)
    try:
        lock(fd, kind)
        return True
    except OSError as e:
        assert e.errno in (errno.EAGAIN, errno.EACCES)
        return False
    finally:
        os.close(fd)
for kind in "ofd", "flock":
    for i in range(10):
        fd = os.open(path, os.O_RDWR)
        lock(fd, kind)
        assert not is_free(kind), (kind, i, "not held")
        other = os.open(path, os.O_RDWR)
        os.close(other)
        assert not is_free(kind), (kind, i, "lost at another close")
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[fd])
        os.close(fd)
        assert not is_free(kind), (kind, i, "lost while a child has it")
        if i % 2:
            child.kill()
        else:
            child.stdin.close()
        child.wait()
        assert is_free(kind), (kind, i, "held after the end")
print("ended")
P
: >"$mp_dir/kept/d"
description() {
    timeout 60 python3 "$mp_dir/description.py" "$1/d" >"$mp_dir/ended" 2>&1
    cat "$mp_dir/ended"
    grep -qx ended "$mp_dir/ended"
}
mp_try "locks of open file descriptions, locally" description "$mp_dir/kept"
mp_try "locks of open file descriptions end with them" description "$mp_dir/m"

# The next lock after a close is given.  A thread of the mount that has read the end of a file, and got no core since, is not seen: some
# refusals are allowed, far fewer than there are if an end that is on its way is not waited for.
cat >"$mp_dir/next.py" <<'P'
import fcntl, os, struct, sys
def take(fd, kind):
    try:
        if kind == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        return 0
    except BlockingIOError:
        return 1
for kind in "ofd", "flock":
    refused = 0
    fds = [os.open(sys.argv[1], os.O_RDWR) for _ in range(2)]
    for i in range(800):
        refused += take(fds[i % 2], kind)
        os.close(fds[i % 2])
        fds[i % 2] = os.open(sys.argv[1], os.O_RDWR)
    for fd in fds:
        os.close(fd)
    print(kind, refused, "refused")
    if refused > 8:
        sys.exit(1)
P
mp_try "a lock is given once its holder has closed the file" timeout 60 python3 "$mp_dir/next.py" "$mp_dir/m/d"
mp_done
