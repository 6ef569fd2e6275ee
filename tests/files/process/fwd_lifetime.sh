#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A file is open at the server exactly until no process holds it: whoever closes first, whatever becomes of the others.  The server's own
# list of descriptors is looked at.
AMPHORA_LOG=error # no warning of static programs (fwd_bypass.sh)
export AMPHORA_LOG
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
kept=$mp_dir/kept
mkdir "$kept"
mkfifo "$mp_dir/go"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
timeout 60 "$builddir/iofwd-server" -daemon -iofwd "/fwd=$kept" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >/dev/null ||
    exit 1
pid=$(awk '/^server/ { print $3 }' "$mp_dir/addresses")

# soon COUNT FILE: that many descriptors of the server lead to the file now, or within some seconds
soon() {
    mp_until 10 now "$@" || echo "$2: $soon_n descriptors, not $1"
}
now() {
    soon_n=$(fwd_holders "$pid" "$kept/$2" | wc -l)
    if fwd_is_near && [ "$1" = 1 ]; then
        [ "$soon_n" -ge 1 ] # several processes hold it
    else
        [ "$soon_n" = "$1" ]
    fi
}

# lives NAME FILE COMMAND...: the command starts what holds FILE and reads the pipe "go", and ends; TEXT goes into the pipe
lives() {
    lives_name=$1 lives_file=$2
    shift 2
    {
        timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" "$@" &
        exec 5>"$mp_dir/go"
        [ "$lives_name" = "${lives_name#static}" ] && wait $!
        soon 1 "$lives_file"
        echo word >&5
        exec 5>&-
        wait
        soon 0 "$lives_file"
        [ "$lives_file" = static ] || cat "$kept/$lives_file"
    } >"$mp_dir/out" 2>&1
    if [ "$lives_file" = static ]; then printf ''; else echo word; fi | cmp -s - "$mp_dir/out"
    mp_report $? "$lives_name" "$mp_dir/out"
}

lives "the parent ends first, its child has the file as standard output" child \
    sh -c '(exec 3>/fwd/child; cat <"$1" >&3) & :' sh "$mp_dir/go"
lives "the file goes through programs that do not touch it" through \
    sh -c 'exec 3>/fwd/through; env env sh -c "cat <\"\$1\" >&3" sh "$1" 3>&3 & :' sh "$mp_dir/go"
if python3 -c 'import subprocess' 2>/dev/null; then
    lives "a child of vfork and exec" vfork \
        python3 -c 'import os, subprocess, sys
f = open("/fwd/vfork", "w")
subprocess.Popen(["cat"], stdin=open(sys.argv[1]), stdout=f)
f.close()
os._exit(0)' "$mp_dir/go"
    lives "posix_spawn with adddup2" spawn \
        python3 -c 'import os, sys
f = os.open("/fwd/spawn", os.O_WRONLY | os.O_CREAT, 0o600)
os.posix_spawn("/bin/sh", ["sh", "-c", "cat <" + sys.argv[1]], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, f, 1)])
os._exit(0)' "$mp_dir/go"
    lives "posix_spawn with addopen" addopen \
        python3 -c 'import os, sys
os.posix_spawn("/bin/sh", ["sh", "-c", "cat <" + sys.argv[1]], os.environ,
               file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/fwd/addopen", os.O_WRONLY | os.O_CREAT, 0o600)])
os._exit(0)' "$mp_dir/go"
fi

# A program that nothing can be preloaded into.
echo 'int read(int, void *, unsigned long); int main(void) { char c; while (read(0, &c, 1) > 0); return 0; }' >"$mp_dir/s.c"
if gcc -static -o "$mp_dir/static" "$mp_dir/s.c" 2>/dev/null; then
    lives "static program: it holds what it was given, and lets go of it at its end" static \
        sh -c 'exec 3>/fwd/static; exec "$2" <"$1"' sh "$mp_dir/go" "$mp_dir/static"
fi

# Killed in the middle, with a lock.
{
    timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" sh -c 'exec 3>/fwd/killed; flock 3; echo $$; exec cat <"$1" >&3' \
        sh "$mp_dir/go" >"$mp_dir/who" &
    exec 5>"$mp_dir/go"
    soon 1 killed
    flock -n "$kept/killed" true && echo "the lock is not there"
    kill -9 "$(cat "$mp_dir/who")"
    soon 0 killed
    flock -w 5 "$kept/killed" echo free
} >"$mp_dir/out" 2>/dev/null
exec 5>&-
grep -qx free "$mp_dir/out" && test "$(wc -l <"$mp_dir/out")" -eq 1
mp_report $? "a killed client's files are closed and its locks dropped" "$mp_dir/out"

# Record locks have an agent for each client, which goes with it.
if python3 -c 'import fcntl' 2>/dev/null; then
    timeout 60 "$builddir/iofwd-run" -servers "$mp_dir/addresses" python3 -c 'import fcntl, os, sys
def sockets():
    links = []
    for name in os.listdir(sys.argv[1]):
        try:
            links.append(os.readlink(sys.argv[1] + "/" + name))
        except OSError:
            pass
    return sum(link.startswith("socket:") for link in links)
def lock_and_end():
    if os.fork() == 0:
        fcntl.lockf(open("/fwd/record", "w"), fcntl.LOCK_EX)
        os._exit(0)
    os.wait()
before = sockets()
for i in range(30):
    lock_and_end()
while sockets() > before + 1: # what the newest has left goes while further ones come
    if i > 100:
        sys.exit("%d sockets, before %d" % (sockets(), before))
    lock_and_end()
    i += 1' "/proc/$pid/fd" >"$mp_dir/out" 2>&1
    mp_report $? "clients that took record locks leave nothing in the server's table of descriptors" "$mp_dir/out"
fi
mp_done
