#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A client on a host with two networks, of which the default route's does not lead to the servers: it uses the other one, and if it is told
# to use the wrong one, its calls fail in a bounded time.  The hosts are network name spaces.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX AMPHORA_INTERFACE
PATH=$PATH:/usr/sbin:/sbin
near=amph-near-$$ far=amph-far-$$
names='by the network that leads to the servers: tcp
by the network that leads to the servers: udp
by a network that does not lead to the servers: tcp
by a network that does not lead to the servers: udp'

ip netns add $near 2>/dev/null && ip netns add $far || fwd_skip_all "makes hosts of network name spaces, which takes root and iproute2"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; ip netns del $near; ip netns del $far; rm -rf "$mp_dir"' EXIT
ip link add eth1 netns $near type veth peer name eth0 netns $far && ip link add eth0 netns $near type veth peer name spare netns $near ||
    fwd_skip_all "cannot connect two name spaces"
ip -n $near addr add 10.99.8.1/24 dev eth0
ip -n $near addr add 10.99.9.1/24 dev eth1
ip -n $far addr add 10.99.9.2/24 dev eth0
for link in "$near spare" "$near eth0" "$near eth1" "$near lo" "$far eth0" "$far lo"; do
    # shellcheck disable=SC2086 # two words
    set -- $link
    ip -n "$1" link set "$2" up
done
ip -n $near route add default via 10.99.8.254 dev eth0

export AMPHORA_SMP=0 AMPHORA_TCP_TIMEOUT=2s AMPHORA_UDP_TIMEOUT=2s
mkdir "$mp_dir/kept"
echo "from the server" >"$mp_dir/kept/text"

up() {
    fwd_on_host $far timeout 20 "$builddir/iofwd-server" -daemon -servers 1 -conduit "$1" -interface 10.99.9.2 -iofwd "/fwd=$mp_dir/kept" \
        -address-file "$mp_dir/addresses" -pid-file "$mp_dir/pid" -log "$mp_dir/log"
}

down() {
    kill "$(cat "$mp_dir/pid")"
    mp_until 20 test ! -e "$mp_dir/pid"
}

client() {
    fwd_on_host $near timeout -k 5 40 env "$@" "$builddir/iofwd-run" -servers "$mp_dir/addresses" cat /fwd/text
}

leads() {
    up "$1" && client A=b
    code=$?
    down
    cat "$mp_dir/log"
    return $code
}

# does_not_lead CONDUIT: within a timeout(1) that is not needed
does_not_lead() {
    up "$1" && client AMPHORA_INTERFACE=10.99.8.1
    code=$?
    down
    echo "exit code $code"
    [ $code = 1 ]
}

for conduit in tcp udp; do
    mp_try "by the network that leads to the servers: $conduit" leads $conduit
done
for conduit in tcp udp; do
    mp_try "by a network that does not lead to the servers: $conduit" does_not_lead $conduit
done
mp_done
