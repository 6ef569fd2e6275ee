#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How mounts end, and bad input: each with one sentence after at most 10 seconds, and never a call that hangs.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_or_skip "the end of a mount"
trap 'quiet_end; mount_end "$mp_dir/m" "$mp_dir/n"' EXIT
m=$mp_dir/m
echo data >"$mp_dir/kept/f"

# Servers that are stopped answer nobody: the start ends after its limit, beside the other cases.
quiet_start
mkdir "$mp_dir/q"
(
    begin=$(mp_now_ms)
    timeout 60 "$MOUNT" -servers "$mp_dir/quiet" "$mp_dir/q" >"$mp_dir/silent" 2>&1 </dev/null
    echo "$? $(($(mp_now_ms) - begin))" >"$mp_dir/silent.end"
) &
silent=$!

serving() {
    pgrep -f "iofwd-mount -servers $addresses .*$1\$" >/dev/null
}
gone() {
    ! serving "$1" && ! grep -q " $1 " /proc/self/mountinfo
}
by_fusermount() {
    fusermount3 -u "$m" && mp_until 10 gone "$m" && [ ! -e "$m/f" ]
}
mp_try "fusermount3 -u ends the process" by_fusermount

by_signal() {
    mount_on "$m" && [ "$(cat "$m/f")" = data ] && kill -"$1" "$(pgrep -f "iofwd-mount -servers $addresses .*$m\$")" &&
        mp_until 10 gone "$m"
}
mp_try "SIGTERM ends the mount" by_signal TERM
mp_try "SIGINT ends the mount" by_signal INT

killed() {
    mount_on "$m" || return 1
    exec 7<"$m/f"
    kill -9 "$(pgrep -f "iofwd-mount -servers $addresses .*$m\$")"
    mp_until 10 sh -c '! pgrep -f "iofwd-mount -servers $1 .*$2\$" >/dev/null' sh "$addresses" "$m"
    LC_ALL=C cat "$m/f" 2>&1 | grep -q "Transport endpoint is not connected" && LC_ALL=C cat <&7 2>&1 | grep -qE "not connected|aborted" &&
        [ "$(cat "$mp_dir/kept/f")" = data ] && mount_on "$m" && [ "$(cat "$m/f")" = data ]
    code=$?
    exec 7<&-
    return $code
}
mp_try "a killed process: ENOTCONN, and the next iofwd-mount takes the mount over" killed

# one_sentence CODE PATTERN COMMAND...
one_sentence() {
    code=$1
    pattern=$2
    shift 2
    begin=$(mp_now_ms)
    "$@" >"$mp_dir/said" 2>&1 </dev/null
    got=$?
    cat "$mp_dir/said"
    [ $got = "$code" ] && [ "$(wc -l <"$mp_dir/said")" = 1 ] && grep -q "$pattern" "$mp_dir/said" && [ $(($(mp_now_ms) - begin)) -lt 11000 ]
}
mp_try "a mount point in use" one_sentence 1 "mounted on .* already" "$MOUNT" -servers "$addresses" "$m"
mp_try "no mount point" one_sentence 1 "No such file" "$MOUNT" -servers "$addresses" "$mp_dir/none"
mp_try "a file as mount point" one_sentence 1 "not a directory" "$MOUNT" -servers "$addresses" "$mp_dir/kept/f"
mp_try "no address file" one_sentence 1 "there is no address file" "$MOUNT" -servers "$mp_dir/none" "$mp_dir"
mp_try "another prefix" one_sentence 1 "export no prefix /other" "$MOUNT" -servers "$addresses" -iofwd /other "$mp_dir/kept"
mp_try "a wrong word" one_sentence 2 "not an option" "$MOUNT" -o wrong "$mp_dir/kept"
mp_try "a wrong cache mode" one_sentence 2 "none, open and always" "$MOUNT" -o cache=most "$mp_dir/kept"
if unshare -m true 2>/dev/null; then
    mp_try "no /dev/fuse" one_sentence 1 "no /dev/fuse" \
        unshare -m sh -c 'mount -t tmpfs t /dev && exec "$@"' sh "$MOUNT" -servers "$addresses" "$mp_dir/kept"
else
    mp_skip "no /dev/fuse" "no mount namespace without rights"
fi

# -o ro
read_only() {
    mount_on "$mp_dir/n" -o ro && [ "$(cat "$mp_dir/n/f")" = data ] && LC_ALL=C touch "$mp_dir/n/new" 2>&1 | grep -q "Read-only file system"
    code=$?
    mount_off "$mp_dir/n"
    return $code
}
mp_try "-o ro" read_only

# The server that has the mount's files dies under failover: the next one takes them over.
taken_over() {
    AMPHORA_ON_SERVER_DEATH=failover mount_on "$mp_dir/n" || return 1
    mkdir "$mp_dir/n/d" && echo below >"$mp_dir/n/d/g"
    exec 7<>"$mp_dir/n/d/g"
    victim=
    for pid in $(pgrep -P "$(cat "$mp_dir/servers.pid")"); do
        ! ls -l "/proc/$pid/fd" | grep -q "kept/d/g" || victim=$pid
    done
    [ -n "$victim" ] && kill -9 "$victim" && [ "$(timeout 20 cat <&7)" = below ] && [ "$(timeout 20 cat "$mp_dir/n/d/g")" = below ] &&
        echo more >&7 && mkdir "$mp_dir/n/d/e" && echo new >"$mp_dir/n/d/e/h" && [ "$(cat "$mp_dir/kept/d/g")" = "$(printf 'below\nmore')" ] &&
        [ "$(cat "$mp_dir/kept/d/e/h")" = new ]
    code=$?
    exec 7<&-
    mount_off "$mp_dir/n" "$m" # whose server may have been that one
    mp_until 10 mount_on "$m" && return $code
}
mp_try "a server dies under failover: the next one takes over" taken_over

# The server that serves this mount dies: EIO, no hang; a mount made afterwards works.
server_dies() {
    [ -e "$m/f" ] || return 1
    exec 7<"$m/f"
    # shellcheck disable=SC2046
    kill -9 $(pgrep -P "$(cat "$mp_dir/servers.pid")")
    LC_ALL=C timeout 20 cat "$m/f" 2>&1 | grep -q "Input/output error" && LC_ALL=C timeout 20 cat <&7 2>&1 | grep -qE "Input/output error|data"
    code=$?
    exec 7<&-
    grep -q " $m " /proc/self/mountinfo && serving "$m" && return $code
}
mp_try "the servers die: EIO, and the mount stays" server_dies
after_death() {
    mount_off "$m"
    mp_until 10 mount_on "$mp_dir/n" && [ "$(timeout 20 cat "$mp_dir/n/f")" = data ]
}
mp_try "a mount at the restarted servers" after_death

silent() {
    wait $silent
    quiet_end
    cat "$mp_dir/silent" "$mp_dir/silent.end"
    read -r code ms <"$mp_dir/silent.end"

    # One sentence, of the mount or of its client, whose limits are the same 10 s.
    [ "$code" = 1 ] && [ "$ms" -lt 13000 ] && [ "$(wc -l <"$mp_dir/silent")" = 1 ] &&
        grep -qE "no I/O server has answered|no connection to the I/O servers" "$mp_dir/silent"
}
mp_try "servers that do not answer" silent

ended() {
    kill "$(cat "$mp_dir/servers.pid")" && mp_until 20 gone "$mp_dir/n"
}
mp_try "the end of the set of servers ends the mount" ended
mp_try "no servers any more" one_sentence 1 "there is no address file" "$MOUNT" -servers "$addresses" "$mp_dir/n"
mp_done
