#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A host vanishes without a word: the network drops every packet, and no connection is closed.  Both sides of file forwarding notice, and so
# do compute processes; each says so in a sentence, in a bounded time.  The hosts are network name spaces.
AMPHORA_LOG=warn
export AMPHORA_LOG
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX
PATH=$PATH:/usr/sbin:/sbin
near=amph-near-$$ far=amph-far-$$
limit=60 # seconds; the kernel finds a silent host after 15 to 20
names='a server vanishes: tcp
the server drops the files of the client that vanished: tcp
a server vanishes: tcp, blocks
the server drops the files of the client that vanished: tcp, blocks
a server vanishes: udp
the server drops the files of the client that vanished: udp
a compute process vanishes: udp
a compute process vanishes: tcp, vanish
a compute process vanishes: tcp, messages
a compute process vanishes: tcp, puts
a compute process vanishes: tcp, late
a process of a GASNet program vanishes: messages
a process of a GASNet program vanishes: puts
a process of a GASNet program vanishes: gets
a process of a GASNet program vanishes: barriers
a compute process is stopped: tcp, messages
a compute process is stopped: tcp, puts
a compute process vanishes while it is stopped: tcp'

ip netns add $near 2>/dev/null && ip netns add $far || fwd_skip_all "makes hosts of network name spaces, which takes root and iproute2"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; ip netns del $near; ip netns del $far; rm -rf "$mp_dir"' EXIT
ip link add eth0 netns $near type veth peer name eth0 netns $far || fwd_skip_all "cannot connect two name spaces"
for host in $near $far; do
    [ $host = $near ] && number=1 || number=2
    ip -n $host addr add 10.99.9.$number/24 dev eth0
    ip -n $host link set eth0 up
    ip -n $host link set lo up
done

# The network drops everything in both directions (nobody has the address that the packets bear), and carries it again.
cut() {
    ip -n $near neigh replace 10.99.9.2 dev eth0 lladdr 02:00:00:00:00:99 nud permanent
    ip -n $far neigh replace 10.99.9.1 dev eth0 lladdr 02:00:00:00:00:99 nud permanent
}
mend() {
    ip -n $near neigh del 10.99.9.2 dev eth0
    ip -n $far neigh del 10.99.9.1 dev eth0
}

AMPHORA_INTERFACE=eth0 AMPHORA_SMP=0 AMPHORA_UDP_TIMEOUT=8s
export AMPHORA_INTERFACE AMPHORA_SMP AMPHORA_UDP_TIMEOUT
mkdir "$mp_dir/kept"

held() {
    find "/proc/$server/fd" -lname "$mp_dir/kept/x" 2>/dev/null | grep -q .
}
not_held() {
    ! held
}
over() {
    ! kill -0 "$client" 2>/dev/null
}

# Clients write lines to /fwd/x, or blocks of which a part is in flight at any time, until a call fails.  sleep has no forwarded descriptor,
# so that it has nothing to say of the server.
cat >"$mp_dir/lines" <<'END'
exec 4>&1 3>>/fwd/x && echo >"$1"
exec 1>&3
while echo line; do sleep 0.1 >&4 3>&-; done
echo "the write failed" >&4
END
cat >"$mp_dir/blocks" <<'END'
exec python3 -c '
import os, sys
fd = os.open("/fwd/x", os.O_WRONLY | os.O_CREAT)
block = bytes(16 << 20)
for n in range(1 << 40):
    if n == 5:
        open(sys.argv[1], "w").write("ready")
    try:
        os.pwrite(fd, block, 0)
    except OSError as e:
        print("the write failed:", e, flush=True)
        sys.exit(1)
' "$1"
END

end_server() {
    kill "$(cat "$mp_dir/pid")"
    mp_until 20 test ! -e "/proc/$server"
    rm -f "$mp_dir/pid"
}

# forwarding CONDUIT WHAT: a client that writes, and a server on the other host
forwarding() {
    forwarding_name="$1${2:+, $2}"
    mp_wanted "a server vanishes: $forwarding_name" || mp_wanted "the server drops the files of the client that vanished: $forwarding_name" ||
        return 0
    rm -f "$mp_dir/pid" "$mp_dir/addresses" "$mp_dir/ready" "$mp_dir/kept/x"
    fwd_on_host $far "$builddir/iofwd-server" -daemon -conduit "$1" -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
        -pid-file "$mp_dir/pid" >"$mp_dir/server" 2>&1 || cat "$mp_dir/server"
    server=$(awk '/^server/ { print $3 }' "$mp_dir/addresses")
    fwd_on_host $near timeout 100 "$builddir/iofwd-run" -servers "$mp_dir/addresses" sh "$mp_dir/${2:-lines}" "$mp_dir/ready" \
        >"$mp_dir/out" 2>&1 </dev/null &
    client=$!
    if ! mp_until 60 test -s "$mp_dir/ready" || ! mp_until 60 held; then
        echo "the client did not begin" >>"$mp_dir/out"
        mp_report 1 "a server vanishes: $forwarding_name" "$mp_dir/out"
        end_server
        return
    fi
    cut
    begin=$(mp_now_ms)
    mp_until $limit over
    bad=$?
    echo "the client ended after $(($(mp_now_ms) - begin)) ms" >>"$mp_dir/out"
    grep -q 'the write failed' "$mp_dir/out" && [ "$(grep -c '^amphora: .*cannot be reached (.*): .*EIO' "$mp_dir/out")" = 1 ] || bad=1
    mp_report $bad "a server vanishes: $forwarding_name" "$mp_dir/out"

    mp_until $limit not_held
    bad=$?
    echo "after $(($(mp_now_ms) - begin)) ms" >"$mp_dir/out"
    mp_report $bad "the server drops the files of the client that vanished: $forwarding_name" "$mp_dir/out"
    mend
    end_server
}
forwarding tcp
forwarding tcp blocks
forwarding udp

# A stand-in for ssh, which runs the line for the shell on the far host.
cat >"$mp_dir/ssh" <<END
#!/bin/sh
while [ \$# -gt 2 ]; do
    case \$1 in -o | -F) shift 2 ;; *) shift ;; esac
done
exec ip netns exec $far unshare --uts sh -c "hostname $far; \$2"
END
chmod +x "$mp_dir/ssh"
printf '%s\n%s\n' $near $far >"$mp_dir/hosts"

# computing CONDUIT WHAT [PROGRAM]: starts two compute processes, one on each host; the launcher's connection to the far host lives on, so
# only the processes can notice
computing() {
    rm -f "$mp_dir/ready" "$mp_dir/receiver" "$mp_dir/enough"
    fwd_on_host $near timeout 150 "$AMPHORA_RUN" -n 2 -conduit "$1" -hosts "$mp_dir/hosts" -ssh "$mp_dir/ssh" -timeout 140 \
        "$builddir/tests/${3:-am/am_reset}" "$2" "$mp_dir" >"$mp_dir/out" 2>&1 </dev/null &
    client=$!
    mp_until 60 test -e "$mp_dir/ready" || echo "the job did not begin" >>"$mp_dir/out"
}

# ends_after_cut NAME TEXT: the job ends with a sentence, at most one of each process
ends_after_cut() {
    cut
    : >"$mp_dir/enough"
    begin=$(mp_now_ms)
    mp_until $limit over
    bad=$?
    wait $client
    code=$?
    echo "exit code $code after $(($(mp_now_ms) - begin)) ms" >>"$mp_dir/out"
    [ $code = 1 ] && grep -Eq "cannot be reached: $2; check the network" "$mp_dir/out" || bad=1
    ! grep '^amphora: ' "$mp_dir/out" | cut -d: -f2 | sort | uniq -d | grep -q . || bad=1
    mp_report $bad "$1" "$mp_dir/out"
    mend
}

if mp_wanted "a compute process vanishes: udp"; then
    computing udp vanish
    ends_after_cut "a compute process vanishes: udp" "nothing has been heard of it for longer than AMPHORA_UDP_TIMEOUT"
fi

AMPHORA_TCP_TIMEOUT=8s
export AMPHORA_TCP_TIMEOUT
host="nothing has been heard of its host for longer than AMPHORA_TCP_TIMEOUT"
for what in vanish messages puts late; do
    name="a compute process vanishes: tcp, $what"
    if mp_wanted "$name"; then
        computing tcp $what
        ends_after_cut "$name" "$host"
    fi
done

for what in messages puts gets barriers; do
    name="a process of a GASNet program vanishes: $what"
    if mp_wanted "$name"; then
        computing tcp $what gex/gex_flood
        ends_after_cut "$name" "$host"
    fi
done

# The receiver's kernel answers for it: first all acknowledgements, later the probes of the full window.
for what in messages puts; do
    name="a compute process is stopped: tcp, $what"
    mp_wanted "$name" || continue
    computing tcp $what
    if kill -STOP "$(cat "$mp_dir/receiver")" 2>>"$mp_dir/out"; then
        sleep 25 # this long nothing must happen
        kill -CONT "$(cat "$mp_dir/receiver")"
        stopped=0
    else
        stopped=1
    fi
    : >"$mp_dir/enough"
    wait $client && [ $stopped = 0 ]
    mp_report $? "$name" "$mp_dir/out"
done

name="a compute process vanishes while it is stopped: tcp"
if mp_wanted "$name"; then
    computing tcp puts
    if kill -STOP "$(cat "$mp_dir/receiver")" 2>>"$mp_dir/out"; then
        sleep 3 # the window fills up, and probes begin
        ends_after_cut "$name" "$host"
    else
        kill $client
        mp_report 1 "$name" "$mp_dir/out"
    fi
fi
mp_done
