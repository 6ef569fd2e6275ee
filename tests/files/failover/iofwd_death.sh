#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A server is killed while its clients write: EIO at once, no hang, the other server's clients go on.
srcdir=${srcdir:-.}
. "$srcdir/tests/lib/lib.sh"
mkdir "$mp_dir/srv"
IOFWD_PASSTHROUGH=0 # otherwise the first calls after the death succeed, by the descriptors that the server has passed
export IOFWD_PASSTHROUGH
mp_run tests/files/failover/iofwd_death -n "2 3" -c "smp tcp" -t 60 -o "-servers 2 -on-server-death eio -iofwd /fwd=$mp_dir/srv"

# A process that begins after the death is told so, and not that there are no servers at all.
cat >"$mp_dir/late.sh" <<'END'
echo a line >/fwd/late
kill -9 "$(sed -n "s/^pid //p" "$1")"
while kill -0 "$(sed -n "s/^pid //p" "$1")" 2>/dev/null; do :; done
cat /fwd/late
test $? = 1
END
cat >"$mp_dir/server" <<END
#!/bin/sh
echo "pid \$\$" >$mp_dir/pid
exec $(cd "$builddir" && pwd)/iofwd-server
END
chmod +x "$mp_dir/server"
timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -on-server-death eio -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/srv" \
    sh "$mp_dir/late.sh" "$mp_dir/pid" >"$mp_dir/out" 2>&1 </dev/null &&
    grep -q 'I/O server 0, to which this process belongs, has ended; its calls give EIO' "$mp_dir/out"
mp_report $? "a process that begins after its server's death is told why it gets EIO" "$mp_dir/out"
mp_done
