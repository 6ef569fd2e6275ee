#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One process of a job ends badly while all others work with it: amphora-run's one line names it and comes last, the exit code is its own,
# and the others, which fail because of it, print nothing.
. "${srcdir:-.}/tests/lib/lib.sh"
program=$builddir/tests/launcher/launcher_cause
mkdir "$mp_dir/kept"

# cause HOW PROCESSES: 0 if the job is right; uses victim, conduit, smp, options, dir
cause() {
    case $1 in
    kill | early | attach) code=137 says='was killed by signal 9 (Killed)' ;;
    abort | fatal) code=134 says='was killed by signal 6 (Aborted)' ;;
    _exit0) code=1 says='ended with exit code 0 without leaving the job' ;;
    _exit1) code=1 says='ended with exit code 1' ;;
    exit3) code=3 says='called gasnet_exit(3)' ;;
    esac
    # shellcheck disable=SC2086 # several options, a word or none
    AMPHORA_SMP=$smp timeout -k 5 60 "$AMPHORA_RUN" -n "$2" -conduit "$conduit" $options -timeout 50 "$program" "$victim" "$1" $dir \
        >"$mp_dir/one" 2>&1 </dev/null
    rc=$?
    lines=$(wc -l <"$mp_dir/one")
    expected=1
    [ "$1" != fatal ] || expected=2 # its own message
    echo "$1: exit code $rc, expected $code; $lines lines, expected $expected"
    head -n 20 "$mp_dir/one"
    [ $rc -eq $code ] && [ "$lines" -eq $expected ] &&
        tail -n 1 "$mp_dir/one" | grep -q "^amphora-run: compute $victim (process [0-9]*) on [^ ]* $says"
}

# row NAME PROCESSES "HOW...": a line of the matrix
row() {
    mp_wanted "$1" || return 0
    bad=0
    : >"$mp_dir/out"
    for how in $3; do
        cause "$how" "$2" >"$mp_dir/said" || { bad=1 && cat "$mp_dir/said" >>"$mp_dir/out"; }
    done
    mp_report $bad "$1, $2 processes: $3" "$mp_dir/out"
}

all="early attach kill abort fatal _exit0 _exit1 exit3"
victim=3
for conduit in smp tcp udp; do
    smp=0 options='' dir=''
    [ $conduit != smp ] || smp=1
    row "$conduit" 8 "$all"
    options="-servers 2 -iofwd /fwd=$mp_dir/kept" dir=/fwd
    row "$conduit, with servers" 8 "$all"
done
printf 'hostA:4\nhostB:4\n' >"$mp_dir/hosts"
smp=1 options="-hosts $mp_dir/hosts" dir=''
for conduit in tcp udp; do
    row "$conduit, two hosts" 8 "$all"
done
victim=40 options=''
for conduit in ${CAUSE_LARGE:-smp}; do
    smp=0
    [ $conduit != smp ] || smp=1
    row "$conduit, many" 64 "kill exit3"
done

# A process ends while a server waits for another server, which never starts: that server says nothing, either.
cat >"$mp_dir/server" <<EOF
#!/bin/sh
[ "\$AMPHORA_RANK" != 5 ] || exec sleep 60
echo \$\$ >"$mp_dir/server_pid"
exec "$builddir/iofwd-server" "\$@"
EOF
cat >"$mp_dir/early" <<EOF
#!/bin/sh
listens() {
    read -r pid <"$mp_dir/server_pid" && for fd in /proc/\$pid/fd/*; do
        inode=\$(readlink "\$fd" | sed -n 's/^socket:\[\([0-9]*\)\]\$/\1/p')
        [ -z "\$inode" ] || ! grep -q " \$inode @amphora-control-" /proc/net/unix || return 0
    done
    return 1
}
if [ "\$AMPHORA_RANK" = 3 ]; then
    until listens 2>/dev/null; do
        sleep 0.02
    done
    kill -9 \$\$
fi
exec "\$@"
EOF
chmod +x "$mp_dir/server" "$mp_dir/early"

while_a_server_starts() {
    timeout -k 5 60 "$AMPHORA_RUN" -n 4 -conduit smp -servers 2 -iofwd "/fwd=$mp_dir/kept" -server-program "$mp_dir/server" -timeout 50 \
        "$mp_dir/early" "$program" 3 kill /fwd >"$mp_dir/one" 2>&1
    rc=$?
    echo "exit code $rc" && cat "$mp_dir/one"
    [ $rc = 137 ] && [ "$(wc -l <"$mp_dir/one")" = 1 ] && grep -q '^amphora-run: compute 3 .* was killed by signal 9' "$mp_dir/one"
}
mp_try "a process ends while a server starts" while_a_server_starts

# The end of a process is reported late, as on a busy machine: its connection to the launcher has been closed for a while.
late_report() {
    timeout -k 5 60 "$AMPHORA_RUN" -n 4 -conduit smp -timeout 50 "$program" 3 stopped_agent >"$mp_dir/one" 2>&1
    rc=$?
    echo "exit code $rc" && cat "$mp_dir/one"
    [ $rc = 137 ] && [ "$(wc -l <"$mp_dir/one")" = 1 ] && grep -q '^amphora-run: compute 3 .* was killed by signal 9' "$mp_dir/one"
}
mp_try "the end of a process is reported late" late_report
mp_done
