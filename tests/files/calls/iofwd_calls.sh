#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every forwarded call against real servers; the prefix does not exist here, its directory is another one.
srcdir=${srcdir:-.}
. "$srcdir/tests/lib/lib.sh"
fresh() {
    rm -rf "$mp_dir/srv"
    mkdir "$mp_dir/srv"
}
# An unauthenticated peer that sends nothing has some seconds: meanwhile the others run.
mkdir "$mp_dir/silent"
AMPHORA_STATS=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/silent" "$builddir/tests/files/calls/iofwd_calls" --silent \
    >"$mp_dir/silent.out" 2>&1 </dev/null &
silent=$!

for c in smp tcp tcp-smp; do
    for n in 1 3; do
        fresh
        mp_run tests/files/calls/iofwd_calls -n $n -c $c -t 60 -o "-servers 2 -iofwd /fwd=$mp_dir/srv" -- "$mp_dir/srv"
    done
done

# Data by messages: a client that is killed meanwhile answers no more, which no network tells.
for n in 1 3; do
    fresh
    AMPHORA_RMA=emulate mp_run tests/files/calls/iofwd_calls -n $n -c tcp -t 60 -o "-servers 2 -iofwd /fwd=$mp_dir/srv" -- "$mp_dir/srv"
done

# Unauthenticated peers at the listeners, also at those of IPv6: each was counted (three at the host's own listener, three at the port).
v6=""
grep -q ' lo$' /proc/net/if_inet6 2>/dev/null && v6=::1
for address in 127.0.0.1 $v6; do
    fresh
    AMPHORA_STATS=1 AMPHORA_SMP=0 AMPHORA_INTERFACE=$address timeout -k 5 60 "$AMPHORA_RUN" -n 1 -conduit tcp \
        -servers 1 -iofwd "/fwd=$mp_dir/srv" "$builddir/tests/files/calls/iofwd_calls" "$mp_dir/srv" >"$mp_dir/out" 2>&1 </dev/null &&
        grep -q '^iofwd server 0: .* 6 unauthenticated connections refused' "$mp_dir/out"
    mp_report $? "unauthenticated connections on $address are refused and counted" "$mp_dir/out"
done
fresh
AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -conduit tcp -servers 1 -iofwd "/fwd=$mp_dir/srv" "$builddir/tests/files/calls/iofwd_calls" --many-clients \
    >"$mp_dir/out" 2>&1 </dev/null
mp_report $? "silent unauthenticated connections are bounded" "$mp_dir/out"
# So they are at a server of few descriptors, and the log says it; also while the thread that serves clients is slow.
${CC:-gcc} -std=gnu11 -shared -fPIC -O1 -o "$mp_dir/slow_close.so" "$srcdir/tests/files/calls/slow_close.c" || exit 1
cat >"$mp_dir/few" <<EOF
#!/bin/sh
ulimit -n 200
LD_PRELOAD=$mp_dir/slow_close.so
export LD_PRELOAD
exec "$builddir/iofwd-server" "\$@"
EOF
chmod +x "$mp_dir/few"
fresh
AMPHORA_SMP=0 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -conduit tcp -servers 1 -server-program "$mp_dir/few" -iofwd "/fwd=$mp_dir/srv" \
    "$builddir/tests/files/calls/iofwd_calls" --many-clients >"$mp_dir/out" 2>&1 </dev/null &&
    grep -q 'connections that made no client: .* did not say that it knows the key' "$mp_dir/out"
mp_report $? "silent unauthenticated connections are bounded by few descriptors" "$mp_dir/out"
wait $silent && grep -q '^iofwd server 0: .* 1 unauthenticated connections refused' "$mp_dir/silent.out"
mp_report $? "one that says nothing is sent away and counted" "$mp_dir/silent.out"
mp_done
