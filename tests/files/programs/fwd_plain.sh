#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Under another launcher: programs that are no GASNet clients beside iofwd-server (mpiexec -n C PROGRAM : -n S iofwd-server), what goes
# wrong there, and MPI_Init before gasnet_init.  With MPICH's mpiexec.hydra, where it is; all launchers: scripts/check-launchers.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK AMPHORA_TEST_SWAP # some ranks clear their environment
server=$builddir/iofwd-server
run=$builddir/iofwd-run
preload=$builddir/.libs/libiofwd_preload.so
# lacks NAME: skips the case where the launcher is not there
lacks() {
    command -v mpiexec.hydra >/dev/null && return 1
    mp_skip "$1" "there is no mpiexec.hydra (Debian: hydra)"
}
mkdir "$mp_dir/kept"
export IOFWD_PREFIX="/fwd=$mp_dir/kept" AMPHORA_STATS=1
head -c 500000 /dev/urandom >"$mp_dir/big"
# Files before and after a pause, by several processes of a rank, one of which outlives the first.  hydra's proxy reaps a rank when its
# connection is closed, which this one still holds; so the first has ended when it is a zombie.
cat >"$mp_dir/job" <<'END'
rank=$PMI_RANK
cp "$1" "/fwd/big.$rank" && cmp "$1" "/fwd/big.$rank" && test ! -e "$2/none" || exit 3
sleep 0.1
echo "rank $rank" | cat >"/fwd/line.$rank"
(while kill -0 $$ && ! grep -q '^State:.Z' /proc/$$/status; do sleep 0.02; done; cat "/fwd/line.$rank" >"/fwd/late.$rank") >/dev/null 2>&1 &
env -i PATH="$PATH" sort "/fwd/line.$rank"
END

# plain NAME COMMAND...: 3 ranks and 2 servers
plain() {
    plain_name=$1
    shift
    lacks "$plain_name" && return
    rm -f "$mp_dir/kept/"*
    timeout -k 5 60 env AMPHORA_SERVERS=2 "$@" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    ok=0
    for rank in 0 1 2; do
        grep -q "^rank $rank$" "$mp_dir/out" && cmp -s "$mp_dir/big" "$mp_dir/kept/big.$rank" &&
            [ "$(cat "$mp_dir/kept/late.$rank" 2>&1)" = "rank $rank" ] || ok=1
    done
    [ $code = 0 ] && [ "$(grep -c '^iofwd server [01]: [1-9].* 0 clients and 0 files open' "$mp_dir/out")" = 2 ] || ok=1
    echo "exit code $code; $(ls "$mp_dir/kept")" >>"$mp_dir/out"
    mp_report $ok "$plain_name" "$mp_dir/out"
}
plain "a shell under the preload library" mpiexec.hydra -n 3 env LD_PRELOAD="$preload" sh "$mp_dir/job" "$mp_dir/big" "$mp_dir" : \
    -n 2 "$server"
plain "all under the preload library" env LD_PRELOAD="$preload" mpiexec.hydra -n 3 sh "$mp_dir/job" "$mp_dir/big" "$mp_dir" : -n 2 "$server"
plain "by iofwd-run" mpiexec.hydra -n 3 "$run" sh "$mp_dir/job" "$mp_dir/big" "$mp_dir" : -n 2 "$server"

# went NAME WORDS COMMAND...: one server
went() {
    went_name=$1 words=$2
    shift 2
    lacks "$went_name" && return
    timeout -k 5 30 env AMPHORA_SERVERS=1 "$@" >"$mp_dir/out" 2>&1 </dev/null && grep -Eq "$words" "$mp_dir/out"
    mp_report $? "$went_name" "$mp_dir/out"
}

# Each step of joining fails in turn: the process ends with a sentence, never in silence.
for step in 1 2 3 4 5 6 7 8; do
    name="step $step of joining fails: a sentence and an exit code"
    lacks "$name" && continue
    # The eighth is that of a second process of the rank.  Errors go to a file, because mpiexec.hydra's proxy ends when a process that it
    # answers has ended, without passing on what that process said.
    : >"$mp_dir/said"
    timeout -k 5 30 env AMPHORA_SERVERS=1 AMPHORA_TEST_JOIN_FAILURE=$step mpiexec.hydra -n 1 \
        sh -c 'exec "$@" 2>>"$0"' "$mp_dir/said" \
        "$run" sh -c 'cat </fwd/none; cat </dev/null >/fwd/there; cat /fwd/there; exit 3' : -n 1 \
        sh -c 'exec "$@" 2>>"$0"' "$mp_dir/said" "$server" >"$mp_dir/out" 2>&1 </dev/null
    code=$?
    cat "$mp_dir/said" >>"$mp_dir/out"
    test $code -ne 0 && test $code -ne 124 && grep -q 'this process cannot' "$mp_dir/out"
    mp_report $? "$name" "$mp_dir/out"
done

ring=$builddir/examples/ring
went "a GASNet client that a script becomes" "over 2 processes: sum .*right" env LD_PRELOAD="$preload" \
    mpiexec.hydra -n 2 sh -c "true; exec '$ring'" : -n 1 "$server"
went "a GASNet client that a script starts, and servers of the same program" "over 2 processes: sum .*right" env LD_PRELOAD="$preload" \
    mpiexec.hydra -n 3 sh -c "'$ring'; true"
went "ranks that use no forwarded file, and one that closes all it can" "^closed" mpiexec.hydra -n 2 "$run" true : -n 1 "$run" python3 -c '
import os, subprocess
os.closerange(3, 300)
subprocess.run(["sh", "-c", "echo x >/fwd/closed"], check=True)
print("closed", open("/fwd/closed").read())' : -n 1 "$server"

went "ranks that clear their environment before they use a forwarded file" "^cleared" mpiexec.hydra -n 2 "$run" python3 -c '
import os
rank = os.environ["PMI_RANK"]
os.environ.clear()
open("/fwd/cleared." + rank, "w").write("x")
print("cleared", open("/fwd/cleared." + rank).read())' : -n 1 "$server"

# mpiexec.hydra may end before it has passed on what its processes said, so they write to a file.
said=$mp_dir/said
cat >"$mp_dir/say" <<EOS
#!/bin/sh
exec "\$@" 2>>"$said"
EOS
chmod +x "$mp_dir/say"

# refused NAME WORDS COMMAND...: one server
refused() {
    refused_name=$1 words=$2
    shift 2
    lacks "$refused_name" && return
    : >"$said"
    (
        trap '' PIPE
        exec timeout -k 5 30 env AMPHORA_SERVERS=1 "$@" >"$mp_dir/out" 2>&1 </dev/null
    )
    code=$?
    cat "$said" >>"$mp_dir/out"
    [ $code != 0 ] && [ $code != 124 ] && grep -Eq "$words" "$mp_dir/out"
    ok=$?
    echo "exit code $code" >>"$mp_dir/out"
    mp_report $ok "$refused_name" "$mp_dir/out"
}
refused "a program in a server's place" "compute process 2|makes this process \(2\) an I/O server, but its program is neither" \
    mpiexec.hydra -n 3 "$mp_dir/say" "$run" cp "$mp_dir/big" /fwd/x
refused "a GASNet client below a shell that has joined" "let the script leave such files alone" env LD_PRELOAD="$preload" \
    mpiexec.hydra -n 2 sh -c "ls /fwd; '$builddir/examples/ring'; exit 1" : -n 1 "$server"
refused "GASNet clients among others" "some are GASNet clients and some are not" \
    mpiexec.hydra -n 1 "$mp_dir/say" "$builddir/examples/ring" : -n 1 "$mp_dir/say" "$run" cp "$mp_dir/big" /fwd/x : \
    -n 1 "$mp_dir/say" "$server"
refused "MPI_Init before gasnet_init" "MPI_Init was called before this program joined its job, and AMPHORA_SERVERS=1" \
    mpiexec.hydra -n 2 "$builddir/tests/files/programs/fwd_plain_mpi"
mp_done
