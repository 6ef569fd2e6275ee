#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# IOFWD_SERVER_HOST: a process that belongs to no job starts an I/O server of its own, here by fork and elsewhere by the command that
# IOFWD_SERVER_SSH names (a stand-in here, which notes what it was told), and the server ends with it and its children.
. "${srcdir:-.}/tests/mp/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
kept=$mp_dir/kept
mkdir "$kept"
server=$builddir/iofwd-server
cat >"$mp_dir/ssh" <<END
#!/bin/sh
echo "\$# \$1" >>"$mp_dir/reached"
shift
exec sh -c "\$*"
END
chmod +x "$mp_dir/ssh"

# with HOST COMMAND...: the command, its files kept in \$kept
with() {
    with_host=$1
    shift
    env IOFWD_SERVER_HOST="$with_host" IOFWD_SERVER_PATH="$server" IOFWD_SERVER_SSH="$mp_dir/ssh" IOFWD_PREFIX="/fwd=$kept" \
        LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" timeout 60 "$@"
}

# left: the servers that export our directory and are still there after a while
left() {
    mp_until 10 none || echo "a server is left"
}
none() {
    ! pgrep -f "iofwd-server -own .*$kept" >/dev/null
}

for host in localhost elsewhere.example; do
    {
        with $host sh -c 'echo out >/fwd/a; cat </fwd/a; (cat /fwd/a; ls /fwd) | tr a-z A-Z; env | grep -c -e AMPHORA_JOB
            sort </fwd/a >/fwd/b; cmp /fwd/a /fwd/b && echo equal'
        echo "exit code $?"
        left
    } >"$mp_dir/out" 2>&1
    printf 'out\nOUT\nA\n0\nequal\nexit code 0\n' | cmp -s - "$mp_dir/out" && test "$(cat "$kept/b")" = out
    mp_report $? "$host: a shell's own server serves it and what it starts, and ends with them" "$mp_dir/out"
    rm -f "$kept/"*
done
test "$(cat "$mp_dir/reached")" = "2 elsewhere.example"
mp_report $? "the remote one was reached by IOFWD_SERVER_SSH, once" "$mp_dir/reached"

# A child that outlives the process that started the server keeps it.
{
    mkfifo "$mp_dir/go"
    with localhost sh -c 'echo first >/fwd/log; (read -r x <"$1"; echo later >>/fwd/log; echo done >"$1") >/dev/null 2>&1 &' sh "$mp_dir/go"
    echo go >"$mp_dir/go"
    timeout 20 cat "$mp_dir/go"
    left
    cat "$kept/log"
} >"$mp_dir/out" 2>&1
printf 'done\nfirst\nlater\n' | cmp -s - "$mp_dir/out"
mp_report $? "a child that outlives the process keeps the server" "$mp_dir/out"

timeout 60 "$builddir/tests/mp/fwd_own" own localhost "$server" "$kept" >"$mp_dir/out" 2>&1 </dev/null
grep -q '^error 0 word by name children 0 wait 0 environment same next same late 1$' "$mp_dir/out" && test "$(cat "$kept/api")" = 'by name'
mp_report $? "iofwd_start_server: no SIGCHLD, no child, environment and descriptors as before" "$mp_dir/out"

trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
timeout 60 "$server" -daemon -iofwd "/fwd=$kept" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1 &&
    timeout 60 "$builddir/tests/mp/fwd_own" attach "$mp_dir/addresses" >>"$mp_dir/out" 2>&1 </dev/null
grep -q '^error 0 word by name .* late 1$' "$mp_dir/out"
mp_report $? "iofwd_attach" "$mp_dir/out"

{
    env IOFWD_SERVER_HOST=localhost IOFWD_SERVER_PATH=/nonexistent/server IOFWD_PREFIX="/fwd=$kept" \
        LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" timeout 60 cat /fwd/a
    echo "exit code $?"
} >"$mp_dir/out" 2>&1
grep -q 'the I/O server /nonexistent/server on localhost (IOFWD_SERVER_HOST) did not start' "$mp_dir/out" &&
    grep -q '^exit code 1$' "$mp_dir/out"
mp_report $? "a server that does not start is told in a sentence, and calls give EIO" "$mp_dir/out"
mp_done
