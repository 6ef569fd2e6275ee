#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-run -mount: the prefix as a mount in a namespace, without privilege.  Where /dev/fuse is for root alone, root tries it; as another
# user it runs with a /dev/fuse of the test's own.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_run_or_skip "iofwd-run -mount"
run() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -mount "$@"
}
# same NAME COMMAND: the same output in the kept directory and below /fwd
same() {
    mp_wanted "$1" || return 0
    (cd "$mp_dir/kept" && sh -euc "$2") >"$mp_dir/l.out" 2>&1
    run sh -euc "cd /fwd && $2" >"$mp_dir/out" 2>&1
    cmp "$mp_dir/l.out" "$mp_dir/out"
    mp_report $? "$1" "$mp_dir/out"
}

mp_try "a program writes below a prefix that the host does not have" run sh -euc 'echo data >/fwd/f && cat /fwd/f && [ ! -e /fwd/none ]'
mp_try "it is in the servers' directory" grep -q data "$mp_dir/kept/f"
mp_try "the host has no such directory" test ! -e /fwd
mp_try "exit code" sh -c '"$@"; [ $? = 7 ]' sh timeout 60 "$builddir/iofwd-run" -servers "$addresses" -mount sh -c 'exit 7'
mp_try "a file beside the prefix is refused" run sh -c 'LC_ALL=C touch /beside 2>&1 | grep -q "Read-only file system" && [ ! -e /beside ]'
mp_try "with closed standard descriptors" sh -c '"$@" <&- >&- 2>&-' sh timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" -mount \
    sh -c 'echo closed >/fwd/closed'
mp_try "it wrote" grep -qx closed "$mp_dir/kept/closed"
mp_try "other directories are as they were" run sh -c 'echo through >"$1/through" && [ -d /usr/bin ] && [ -r /etc/passwd ] && [ -e /proc/self/exe ]' sh "$mp_dir"
mp_try "what was written there is there" grep -q through "$mp_dir/through"
mp_try "the working directory and the user stay" sh -c 'cd "$1" && shift && [ "$("$@" sh -c "pwd; id -u")" = "$(pwd; id -u)" ]' sh "$mp_dir" timeout 60 "$builddir/iofwd-run" -servers "$addresses" -mount
mp_try "the preload library is left out" run sh -c '! grep -q iofwd_preload /proc/self/maps && [ -z "${LD_PRELOAD:-}" ]'
# In a shell under iofwd-run the launcher leaves the preload library, and what it prints reaches forwarded files.
forwarded() {
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$addresses" "$@"
}
echo forwarded >"$mp_dir/kept/in"
mp_try "in a shell under iofwd-run" forwarded sh -euc '[ "$("$1" -mount busybox cat /fwd/in)" = forwarded ]' sh "$builddir/iofwd-run"
mp_try "in a shell under iofwd-run, output to a forwarded file" forwarded sh -euc '"$1" -mount busybox cat </fwd/in >/fwd/copy 2>&1' \
    sh "$builddir/iofwd-run"
mp_try "that file has it" cmp "$mp_dir/kept/in" "$mp_dir/kept/copy"
mp_try "iofwd-mount in a shell under iofwd-run" forwarded "$builddir/iofwd-mount" -help
mp_try "in a job of amphora-run" timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" sh -euc \
    '[ "$("$1" -mount busybox cat /fwd/in)" = forwarded ]' sh "$builddir/iofwd-run"
same "static busybox" 'busybox sh -c "seq 9 >n; busybox sort -rn n; busybox ls; busybox rm n"'
same "python3" 'python3 -c "import os; open(\"p\", \"w\").write(\"x\"); print(sorted(os.listdir(\".\"))); os.remove(\"p\")"'
if command -v java >/dev/null && command -v javac >/dev/null; then
    mkdir -p "$mp_dir/j"
    echo 'public class T { public static void main(String[] a) throws Exception { var p = java.nio.file.Path.of("j"); java.nio.file.Files.writeString(p, "java"); try (var c = java.nio.channels.FileChannel.open(p)) { System.out.println(c.map(java.nio.channels.FileChannel.MapMode.READ_ONLY, 0, 4).get(1)); } java.nio.file.Files.delete(p); } }' >"$mp_dir/j/T.java"
    (cd "$mp_dir/j" && javac T.java) >/dev/null 2>&1
    same "java, with a mapped file" "java -cp '$mp_dir/j' T"
else
    mp_skip "java, with a mapped file" "there is no java or javac"
fi
if command -v go >/dev/null; then
    mkdir -p "$mp_dir/g"
    printf 'package main\nimport ("fmt"; "os")\nfunc main() { os.WriteFile("g", []byte("go"), 0600); b, e := os.ReadFile("g"); fmt.Println(string(b), e); os.Remove("g") }\n' >"$mp_dir/g/t.go"
    (cd "$mp_dir/g" && GOCACHE=$mp_dir/g/cache GOFLAGS=-mod=mod go build -o t t.go) >"$mp_dir/g/out" 2>&1
    same "a Go program" "'$mp_dir/g/t'"
else
    mp_skip "a Go program" "there is no go"
fi

joined() {
    rm -f "$mp_dir/in"
    mkfifo "$mp_dir/in"
    run sh -c 'readlink /proc/self/ns/mnt /proc/self/ns/user; read -r x' <"$mp_dir/in" >"$mp_dir/first" &
    exec 8>"$mp_dir/in"
    mp_until 10 grep -q user "$mp_dir/first"
    run readlink /proc/self/ns/mnt /proc/self/ns/user >"$mp_dir/second"
    servers=$(pgrep -fc "iofwd-mount -servers $addresses .*/dev/fd/")
    exec 8>&-
    wait
    cat "$mp_dir/first" "$mp_dir/second"
    cmp "$mp_dir/first" "$mp_dir/second" && [ "$servers" = 1 ] && mp_until 10 sh -c '! pgrep -f "iofwd-mount -servers $1 .*/dev/fd/" >/dev/null' sh "$addresses"
}
mp_try "a second program joins the namespace, and its end ends the mount" joined
mp_try "a program of the namespace starts another with -mount" run "$builddir/iofwd-run" -servers "$addresses" -mount cat /fwd/f

if command -v mpicc >/dev/null && mpirun --version 2>/dev/null | grep -q "Open MPI"; then
    cat >"$mp_dir/ring.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static char out[1 << 20], in[1 << 20];
int main(int argc, char **argv)
{
    int rank, n, good = 1, all = 0;
    char path[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    memset(out, rank + 1, sizeof out);
    MPI_Sendrecv(out, sizeof out, MPI_CHAR, (rank + 1) % n, 0, in, sizeof in, MPI_CHAR, (rank + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < sizeof in; i++)
        good &= in[i] == (rank + n - 1) % n + 1;
    snprintf(path, sizeof path, "/fwd/rank.%d", rank);
    FILE *f = fopen(path, "w");
    good &= f && fprintf(f, "%d of %d\n", rank, n) > 0 && fclose(f) == 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Finalize();
    return !all;
}
C
    ranks() {
        mpicc "$mp_dir/ring.c" -o "$mp_dir/ring" && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 60 mpirun --oversubscribe \
            --mca btl self,vader --mca btl_vader_single_copy_mechanism cma -n 4 "$builddir/iofwd-run" -servers "$addresses" -mount "$mp_dir/ring" &&
            [ "$(cat "$mp_dir"/kept/rank.* | wc -l)" = 4 ]
    }
    mp_try "4 ranks of Open MPI exchange 1 MiB through shared memory (CMA)" ranks
else
    mp_skip "4 ranks of Open MPI exchange 1 MiB through shared memory (CMA)" "there is no Open MPI with mpicc"
fi
mp_try "processes of a job exchange messages by smp" run "$builddir/amphora-run" -n 3 -conduit smp "$builddir/examples/heat3d/heat3d" -side 20 /fwd

optional() {
    unshare -rm sh -c 'mount -t tmpfs t /dev && mknod /dev/null p; shift; exec "$@"' sh x true >/dev/null 2>&1
    unshare -rm sh -c 'mount -t tmpfs t /dev && exec "$@"' sh env "IOFWD_OPTIONAL=$1" "$builddir/iofwd-run" -servers "$addresses" -mount echo ran >"$mp_dir/o" 2>&1
}
optional_goes_on() {
    optional 1
    code=$?
    cat "$mp_dir/o"
    [ $code = 0 ] && grep -q '^ran$' "$mp_dir/o"
}
optional_ends() {
    optional 0
    code=$?
    cat "$mp_dir/o"
    [ $code = 1 ] && [ "$(wc -l <"$mp_dir/o")" = 1 ] && grep -q '/dev/fuse cannot be opened' "$mp_dir/o"
}
mp_try "no /dev/fuse: one sentence" optional_ends
mp_try "IOFWD_OPTIONAL=1 goes on without it" optional_goes_on

# Each place for lines makes a namespace of its own, whose files in the user's directory the next program removes when all have ended.
leaves_one_set() {
    mkdir -m 700 "$mp_dir/runtime"
    for k in 1 2 3; do
        XDG_RUNTIME_DIR=$mp_dir/runtime IOFWD_TRACE=$mp_dir/lines$k run true || return 1
    done
    # an entry of a process that has ended, and whose number this one has
    for registry in "$mp_dir"/runtime/iofwd-mount-*; do
        echo 1 >"$registry/0123456789abcdef.$$"
        : >"$registry/0123456789abcdef.lock"
    done
    XDG_RUNTIME_DIR=$mp_dir/runtime IOFWD_TRACE=$mp_dir/lines4 run true || return 1
    ls "$mp_dir/runtime"/*
    [ ! -e "$registry/0123456789abcdef.$$" ] && [ "$(ls "$mp_dir"/runtime/iofwd-mount-*/*.lock | wc -l)" = 1 ] && [ "$(ls "$mp_dir"/runtime/iofwd-mount-* | wc -l)" -le 2 ]
}
mp_try "files of ended namespaces are removed" leaves_one_set

# The process that serves a mount has the standard error of the program for which it was made, as long as that lives.
releases_output() {
    mkfifo "$mp_dir/first_end" "$mp_dir/joined_end" || return
    (
        run sh -c 'echo said >&2; cat "$1"' sh "$mp_dir/first_end" 2>&1 | cat >"$mp_dir/piped"
        echo ended >"$mp_dir/piped_ended"
    ) &
    mp_until 20 test -s "$mp_dir/piped" || return
    run sh -c 'echo joined >"$1/in_it" && cat "$1/joined_end"' sh "$mp_dir" &
    joined=$!
    mp_until 20 test -s "$mp_dir/in_it" && echo end >"$mp_dir/first_end" && mp_until 20 test -s "$mp_dir/piped_ended" && kill -0 $joined
    code=$?
    echo end >"$mp_dir/joined_end"
    wait $joined && return $code
}
mp_try "a pipe that a program wrote to ends with it, not with its namespace" releases_output

server_dies() {
    mkfifo "$mp_dir/begin" || return
    # with a trace of its own, the program gets a namespace of its own
    IOFWD_TRACE_DIR=$mp_dir LC_ALL=C run sh -c 'cat /fwd/in && echo ready >"$1/ready" && cat "$1/begin" && ! cat /fwd/in && ! cat /fwd/in; cat "$1/begin"' \
        sh "$mp_dir" >"$mp_dir/dying" 2>&1 &
    dying=$!
    mp_until 20 test -s "$mp_dir/ready" || return
    before=$(pgrep -P "$(cat "$mp_dir/servers.pid")")
    # shellcheck disable=SC2086
    kill -9 $before
    echo >"$mp_dir/begin"
    mp_until 20 sh -c '[ "$(grep -c "Input/output error" "$1")" = 2 ]' sh "$mp_dir/dying"
    mp_until 20 sh -c 'timeout 20 "$2/iofwd-run" -servers "$3" -mount cat /fwd/in >"$1/next" 2>&1' sh "$mp_dir" "$builddir" "$addresses"
    echo >"$mp_dir/begin"
    wait $dying
    cat "$mp_dir/dying" "$mp_dir/next"
    # both servers have died; the program is told of the one that it used
    [ "$(grep -c 'I/O server . cannot be reached.*give EIO.*AMPHORA_ON_SERVER_DEATH=failover' "$mp_dir/dying")" -ge 1 ] &&
        [ "$(cat "$mp_dir/next")" = forwarded ]
}
mp_try "a server dies: a sentence, EIO, and a program that is started then finds the next server" server_dies

# As another user, with a /dev/fuse that he may open, and with a prefix that exists, or whose parent does.
as_nobody() {
    dir=$mp_dir/nobody
    mkdir -m 700 "$dir" && mkdir "$dir/kept" "$dir/above" "$dir/above/other" && echo beside >"$dir/above/file" && chown -R 65534:65534 "$dir" && chmod 711 "$mp_dir"
    cat >"$dir/script" <<'S'
set -eux
cd /
export XDG_RUNTIME_DIR=$1
"$2/iofwd-server" -daemon -iofwd "$1/above/new=$1/kept" -iofwd "$1/above/other=$1/kept" -address-file "$1/addresses" -pid-file "$1/pid"
"$2/iofwd-run" -servers "$1/addresses" -mount sh -euxc '
    [ "$(id -u)" = 65534 ] && echo data >"$1/above/new/f" && cat "$1/above/other/f" "$1/above/file" && ls "$1/above"
    ! touch "$1/above/stray" && ! [ -e "$1/above/stray" ] && echo more >>"$1/above/file"' sh "$1"
cat "$1/kept/f" "$1/above/file"
[ ! -e "$1/above/new" ]
kill "$(cat "$1/pid")"
S
    unshare -m sh -euc 'mount -t tmpfs t /mnt && mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse && exec setpriv --reuid=65534 --regid=65534 --clear-groups sh "$1" "$2" "$3"' \
        sh "$dir/script" "$dir" "$builddir"
}
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null && setpriv --reuid=65534 --clear-groups test -x "$builddir/iofwd-run"; then
    mp_try "as a user without rights; prefixes whose parent exists" as_nobody
else
    mp_skip "as a user without rights; prefixes whose parent exists" "not root, or another user cannot reach the build"
fi
mp_done
