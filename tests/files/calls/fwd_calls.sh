#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every kind of file call by programs of our own: results, errno and files are those of a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

fwd_both "calls" "$builddir/tests/files/calls/fwd_calls"
fwd_both "streams" "$builddir/tests/files/stdio/fwd_stdio"
fwd_both "processes" "$builddir/tests/files/process/fwd_proc"
fwd_both "children by clone" "$builddir/tests/files/process/fwd_proc" cloned

# What the servers have open when programs have ended is what they had before.  The first round opens what stays: directories of exports,
# agents.
cat >"$mp_dir/rounds" <<'END'
fds_of_servers() {
    for pid in $(pgrep -P "$PPID" iofwd-server); do
        find "/proc/$pid/fd" -mindepth 1
    done | wc -l
}
for round in first second; do
    before=$(fds_of_servers) # of the second one at last
    for program in "$builddir/tests/files/calls/fwd_calls" "$builddir/tests/files/process/fwd_proc"; do
        find /fwd "$1" -mindepth 1 -delete
        "$program" /fwd "$1" >/dev/null 2>&1
    done
done
tries=0
while after=$(fds_of_servers) && [ "$after" -gt "$before" ] && [ $tries -lt 100 ]; do
    sleep 0.05 # the end of a process reaches them a moment later
    tries=$((tries + 1))
done
echo "$before before, $after after"
[ "$before" -gt 10 ] && [ "$after" -le "$before" ]
END
mkdir "$mp_dir/kept" "$mp_dir/scratch"
(cd / && timeout -k 5 100 "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/kept" -timeout 90 sh "$mp_dir/rounds" "$mp_dir/scratch") \
    >"$mp_dir/out" 2>&1 </dev/null
mp_report $? "servers keep no descriptors of programs that have ended" "$mp_dir/out"

# What programs read by the file's best size of calls, or by the C library's streams, does not travel in pages.
export IOFWD_NEAR=0 # where servers make the calls
mkdir -p "$mp_dir/sizes"
head -c 1048576 /dev/urandom >"$mp_dir/sizes/a"
cp "$mp_dir/sizes/a" "$mp_dir/sizes/b"
# sizes_say NAME MAX COMMAND...: COMMAND gives what sizes_want is in at most MAX calls
sizes_say() {
    sizes_name=$1 sizes_most=$2
    shift 2
    fwd_servers "$mp_dir/sizes" "$@" >"$mp_dir/said" && test "$(cat "$mp_dir/said")" = "$sizes_want"
    sizes_as=$?
    cat "$mp_dir/stats" >>"$mp_dir/said"
    test "$sizes_as" = 0 && test "$(fwd_counted calls)" -gt 0 && test "$(fwd_counted calls)" -le "$sizes_most"
    mp_report $? "$sizes_name ($(fwd_counted calls) calls)" "$mp_dir/said"
}
sizes_want="32768 $(stat -c %o "$mp_dir/sizes")"
sizes_say "stat tells the size of calls that suits forwarding of a file, not of a directory" 20 sh -c 'echo $(stat -c %o /fwd/a /fwd/)'
sizes_want=$(stat -c %o "$mp_dir/sizes/a")
IOFWD_BLKSIZE=0 sizes_say "IOFWD_BLKSIZE=0: as the server's file system has it" 20 stat -c %o /fwd/a
sizes_want=
sizes_say "cmp of two files of 1 MiB" 100 cmp /fwd/a /fwd/b
sizes_want=$(paste "$mp_dir/sizes/a" | cksum)
sizes_say "a stream that is read to its end" 40 sh -c 'paste /fwd/a | cksum'
sizes_want=
sizes_say "a stream that is read here and there" 700 "$builddir/tests/files/stdio/fwd_stdio" jump /fwd/a
test "$(fwd_counted "bytes read")" -le $((200 * 2 * 8192))
mp_report $? "a stream that is read here and there fetches little ($(fwd_counted "bytes read") bytes)" "$mp_dir/stats"
mp_done
