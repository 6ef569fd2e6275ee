#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# IOFWD_SERVER_HOST: a process that belongs to no job starts an I/O server of its own, here by fork and elsewhere by the command that
# IOFWD_SERVER_SSH names (a stand-in here, which notes what it was told), and the server ends with it and its children.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
kept=$mp_dir/kept
mkdir "$kept"
server=$builddir/iofwd-server
cat >"$mp_dir/ssh" <<END
#!/bin/sh
echo "\$# \$1" >>"$mp_dir/reached"
shift
echo "\$*" >"$mp_dir/told"
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

for host in localhost "$(uname -n)" elsewhere.example; do
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
grep -q ' -own -conduit tcp -iofwd ' "$mp_dir/told"
mp_report $? "it was told to listen at the network" "$mp_dir/told"

# What the server gets from the program: a session of its own, no descriptors, no blocked signals, nothing that is meant for clients.
cat >"$mp_dir/server" <<END
#!/bin/sh
{
    # before it starts any command: while it waits for one, a shell blocks signals itself
    while read -r key value; do
        case \$key\$value in SigBlk:*[!0]*) echo "\$key \$value" ;; esac
    done </proc/\$\$/status
    env | grep -e ^LD_PRELOAD= -e ^IOFWD_SERVER_HOST= -e ^IOFWD_PRIVATE_ -e ^AMPHORA_RANK=
    test -e /proc/self/fd/9 && echo "descriptor 9"
    test "\$(cut -d ' ' -f 6 /proc/\$\$/stat)" = \$\$ || echo "a session of somebody else"
    echo looked
} >"$mp_dir/given" 2>&1
exec "$(realpath "$server")" "\$@"
END
chmod +x "$mp_dir/server"
ls -l /proc/$$/fd | sed -n 's/.* -> pipe:/pipe:/p' >"$mp_dir/pipes"
{
    env IOFWD_SERVER_HOST=localhost IOFWD_SERVER_PATH="$mp_dir/server" IOFWD_PREFIX="/fwd=$kept" IOFWD_PRIVATE_X=1 AMPHORA_RANK=0 \
        LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" timeout 60 sh -c 'echo 1 >/fwd/a; exec ls -l /proc/self/fd' 9</dev/null |
        sed -n 's/.* \([0-9]*\) -> pipe:/\1 pipe:/p' | grep -v '^[012] ' | grep -vFf "$mp_dir/pipes" # none of the server's went through exec
    cat "$mp_dir/given"
} >"$mp_dir/out" 2>&1
echo looked | cmp -s - "$mp_dir/out"
mp_report $? "the server inherits nothing that is the program's, nor the program's children what is the server's" "$mp_dir/out"

# Found beside the library, where nobody says where it is.
env IOFWD_SERVER_HOST=localhost IOFWD_PREFIX="/fwd=$kept" LD_PRELOAD="$builddir/.libs/libiofwd_preload.so" \
    LD_LIBRARY_PATH="$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" timeout 60 sh -c 'echo found >/fwd/a; cat /fwd/a' >"$mp_dir/out" 2>&1
echo found | cmp -s - "$mp_dir/out"
mp_report $? "the server is found beside the library" "$mp_dir/out"

# By iofwd-run, also where standing servers are named by the environment.
for given in "IOFWD_PREFIX=/fwd=$kept" "-iofwd /fwd=$kept"; do
    case $given in IOFWD*) setting=$given option="" ;; *) setting=AMPHORA_JOB=/nonexistent option=$given ;; esac
    # The server of the build tree finds its libraries by the environment.
    # shellcheck disable=SC2086
    env IOFWD_SERVER_HOST=localhost LD_LIBRARY_PATH="$builddir/.libs" "$setting" timeout 60 "$builddir/iofwd-run" $option \
        sh -c 'echo run >/fwd/r; cat /fwd/r' >"$mp_dir/out" 2>&1
    code=$?
    left >>"$mp_dir/out"
    test $code -eq 0 && echo run | cmp -s - "$mp_dir/out" && echo run | cmp -s - "$kept/r"
    mp_report $? "iofwd-run with a server of its own (${given%% *})" "$mp_dir/out"
done
env IOFWD_SERVER_HOST=localhost timeout 60 "$builddir/iofwd-run" true >"$mp_dir/out" 2>&1
test $? -eq 2 && grep -q 'what is forwarded' "$mp_dir/out"
mp_report $? "iofwd-run with a server of its own needs a prefix" "$mp_dir/out"

# A program that closes all descriptors keeps its server.
if python3 -c 'import os' 2>/dev/null; then
    with localhost python3 -c 'import os
open("/fwd/a", "w").write("first")
os.closerange(3, 65536)
open("/fwd/a", "a").write(" second")
print(open("/fwd/a").read())' >"$mp_dir/out" 2>&1
    echo "first second" | cmp -s - "$mp_dir/out"
    mp_report $? "a program that closes all its descriptors keeps its server" "$mp_dir/out"
fi

# What is no host is no option of ssh either.
rm "$mp_dir/reached"
with -oProxyCommand=false cat /fwd/a >"$mp_dir/out" 2>&1
grep -q 'IOFWD_SERVER_HOST=-oProxyCommand=false: this is no host' "$mp_dir/out" && ! test -e "$mp_dir/reached"
mp_report $? "a host that begins with - is refused" "$mp_dir/out"
timeout 60 "$builddir/tests/files/process/fwd_own" own localhost "$server" "" >"$mp_dir/out" 2>&1 </dev/null
grep -q 'IOFWD_PREFIX must say what is forwarded' "$mp_dir/out" && grep -q '^error 5 ' "$mp_dir/out"
mp_report $? "a server without a prefix is refused" "$mp_dir/out"
timeout 60 "$AMPHORA_RUN" -n 1 "$builddir/tests/files/process/fwd_own" own localhost "$server" "$kept" >"$mp_dir/out" 2>&1 </dev/null
grep -q '^error 0 word by name ' "$mp_dir/out"
mp_report $? "a process of a job without servers starts its own when it asks" "$mp_dir/out"

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

timeout 60 "$builddir/tests/files/process/fwd_own" own localhost "$server" "$kept" >"$mp_dir/out" 2>&1 </dev/null
grep -q '^error 0 word by name children 0 wait 0 environment same next same late 1$' "$mp_dir/out" && test "$(cat "$kept/api")" = 'by name'
mp_report $? "iofwd_start_server: no SIGCHLD, no child, environment and descriptors as before" "$mp_dir/out"

trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
timeout 60 "$server" -daemon -iofwd "/fwd=$kept" -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1 &&
    timeout 60 "$builddir/tests/files/process/fwd_own" attach "$mp_dir/addresses" >>"$mp_dir/out" 2>&1 </dev/null
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
