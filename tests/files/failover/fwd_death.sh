#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The server dies in the middle of large, gathered, announced, spread and non-blocking calls (-on-server-death eio), or while somebody waits
# (failover, too: what was in a FIFO is lost with its server); see fwd_death.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

# died WHAT SETTING...: for mp_queue: one job whose server dies
died() {
    what=$1 kept=$mp_dir/kept.$mp_queued
    shift
    mkdir "$kept"
    env "$@" timeout -k 5 40 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death "$death_how" -iofwd "/fwd=$kept" -timeout 30 \
        "$builddir/tests/files/failover/fwd_death" "$what" /fwd "$kept" >"$kept.out" 2>&1
    code=$?
    cat "$kept.out"
    rm -rf "$kept"
    [ $code -eq 0 ] && grep -q '^as it should be' "$kept.out" && [ "$(grep -c "$death_message" "$kept.out")" = 1 ]
}

# death WHAT SETTING...
death() {
    mp_queue "$1 ($death_how $(shift && echo "$*"))" died "$@"
}

death_how=eio
death_message='calls on its files give EIO'
for net in AMPHORA_SMP=1 AMPHORA_SMP=0; do
    for what in large running announced announced-read nonblocking; do
        death $what $net
    done
    death gathered $net IOFWD_CONSISTENCY=session
    death ahead $net IOFWD_CONSISTENCY=session
    death spread $net IOFWD_STRIPE=2
    death spread $net IOFWD_STRIPE=2:256K
done
death running AMPHORA_SMP=0 AMPHORA_CONDUIT=udp
for what in polled polled-long selected watched reads opens collective; do
    death $what AMPHORA_SMP=1
done
death polled AMPHORA_SMP=0
death reads AMPHORA_SMP=0 AMPHORA_CONDUIT=udp
death_how=failover
death_message='the next one takes over'
for what in polled polled-long selected watched reads collective; do
    death $what AMPHORA_SMP=1
done
death polled AMPHORA_SMP=0

# A killed server that takes long to end: the program goes on with the other one and ends before that, and the job succeeds.
cat >"$mp_dir/late_server" <<'S'
#!/bin/sh
"$LATE_SERVER" "$@" &
server=$!
echo $server >"$LATE_DIR/server.$AMPHORA_RANK"
wait $server
code=$?
while [ -e "/proc/$(cat "$LATE_DIR/program")" ]; do sleep 0.05; done
exit $code
S
chmod +x "$mp_dir/late_server"
late() {
    mkdir "$mp_dir/late" "$mp_dir/late/kept"
    # shellcheck disable=SC2016 # for the shell inside
    LATE_DIR=$mp_dir/late LATE_SERVER=$builddir/iofwd-server timeout -k 5 50 "$AMPHORA_RUN" -n 1 -servers 2 -on-server-death failover \
        -server-program "$mp_dir/late_server" -iofwd "/fwd=$mp_dir/late/kept" -timeout 40 sh -c 'echo $$ >"$LATE_DIR/program"
            exec 5>/fwd/f && echo one >&5 && kill -9 "$(cat "$LATE_DIR/server.1")" && echo two >&5 && cat /fwd/f' >"$mp_dir/late.out" 2>&1
    code=$?
    cat "$mp_dir/late.out"
    echo "exit code $code"
    [ $code = 0 ] && grep -qx two "$mp_dir/late.out" && [ "$(grep -c 'the next server takes over' "$mp_dir/late.out")" = 1 ]
}
mp_try "a server that dies slowly" late
mp_done
