# SPDX-License-Identifier: BSD-3-Clause
# For tests of forwarded files: runs a command in a local directory and again under the forwarded prefix /fwd, which no host has and
# which the servers keep in another directory, and compares all that can be seen.  Sourced by the tests in tests/files.
. "${srcdir:-.}/tests/lib/lib.sh"
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
case $AMPHORA_RUN in /*) ;; *) AMPHORA_RUN=$(pwd)/$AMPHORA_RUN ;; esac
export srcdir builddir
: "${fwd_time:=${FWD_TIME:-100}}" # seconds that a command may take, local or forwarded

# fwd_skip_all REASON: skips all cases, whose names are the lines of $names, and ends the test
fwd_skip_all() {
    echo "$names" >"$mp_dir/names"
    while read -r name; do mp_skip "$name" "$1"; done <"$mp_dir/names"
    mp_done
    exit 0
}

# fwd_on_host HOST COMMAND...: in the network name space HOST, with that host name
fwd_on_host() {
    fwd_host=$1
    shift
    # shellcheck disable=SC2016 # for the shell inside
    ip netns exec "$fwd_host" unshare --uts sh -c 'hostname "$1" && shift && exec "$@"' sh "$fwd_host" "$@"
}

# fwd_tree DIR: everything in a directory, as text; files of 64 MiB or more are sparse ones here, with their data near both ends
fwd_tree() {
    (cd "$1" && find . -mindepth 1 -printf '%p %y %m %n %l' \( -type f -printf ' %s' -o -true \) -printf '\n' | sort &&
        find . -type f -size -64M -print0 | sort -z | xargs -r -0 cksum &&
        find . -type f -size +63M -print0 | sort -z | xargs -r -0 -I FILE sh -c 'head -c 4M "$1"; tail -c 4M "$1"; echo "$1"' sh FILE |
            cksum)
}

# fwd_servers DIR COMMAND...: runs COMMAND with /fwd kept in DIR at $fwd_nservers servers (2); standard output and error of the command go to standard output,
# the servers' counters to $mp_dir/stats
fwd_servers() {
    fwd_kept=$1
    shift
    if [ -n "${FWD_STANDING-}" ]; then
        fwd_standing "$@"
        return
    fi
    AMPHORA_STATS=1 timeout -k 5 "$((fwd_time + 10))" "$AMPHORA_RUN" -n 1 -servers "${fwd_nservers:-2}" -iofwd "/fwd=$fwd_kept" \
        -timeout "$fwd_time" \
        sh -c 'exec "$@" 2>&1' sh "$@" 2>"$mp_dir/stats" </dev/null
}

# fwd_standing COMMAND...: the same with standing servers, to which iofwd-run attaches the command (FWD_STANDING=1)
fwd_standing() {
    fwd_address=$mp_dir/standing
    rm -f "$mp_dir/stats"
    AMPHORA_STATS=1 "$builddir/iofwd-server" -daemon -servers "${fwd_nservers:-2}" -iofwd "/fwd=$fwd_kept" -address-file "$fwd_address" \
        -log "$mp_dir/stats" >/dev/null || return
    timeout -k 5 "$fwd_time" "$builddir/iofwd-run" -servers "$fwd_address" sh -c 'exec "$@" 2>&1' sh "$@" </dev/null
    fwd_code=$?
    fwd_watch=$(sed -n 's/^watch //p' "$fwd_address")
    "$builddir/iofwd-ctl" stop -servers "$fwd_address" >/dev/null
    timeout 20 tail -s 0.02 -f --pid="$fwd_watch" /dev/null # until it has gone
    return "$fwd_code"
}

# fwd_both_standing NAME UNIT LOCAL COMMAND...: COMMAND DIRECTORY SCRATCH succeeds in a directory of this host, by the function LOCAL, which is
# given the command, and below /fwd at standing servers.  Its last line is "N UNIT" and becomes a part of the report's name.
fwd_both_standing() {
    fwd_name=$1 fwd_unit=$2 fwd_local=$3
    shift 3
    mp_wanted "$fwd_name" || return 0
    mp_remove "$mp_dir/local" "$mp_dir/kept"
    mkdir "$mp_dir/local" "$mp_dir/kept"
    "$fwd_local" "$@" >"$mp_dir/out" 2>&1 &&
        FWD_STANDING=1 && fwd_servers "$mp_dir/kept" "$@" /fwd "$mp_dir" >"$mp_dir/out"
    fwd_result=$?
    cat "$mp_dir/stats" >>"$mp_dir/out"
    [ $fwd_result = 0 ] && grep -q " $fwd_unit\$" "$mp_dir/out"
    mp_report $? "$fwd_name ($(sed -n "s/ $fwd_unit\$//p" "$mp_dir/out") $fwd_unit)" "$mp_dir/out"
}

# fwd_is_near: programs make most calls by themselves, so that servers count few or none (iofwd/interpose/path/near.h)
fwd_is_near() {
    [ "${IOFWD_NEAR:-1}" = 1 ] && [ "${FWD_STANDING:-0}" = 1 ]
}

# fwd_holders PID PATH: the descriptors of a file: the server's (PID), or those of all programs that have opened it by themselves
fwd_holders() {
    if fwd_is_near; then
        find /proc/[0-9]*/fd -lname "$2" 2>/dev/null
    else
        find "/proc/$1/fd" -lname "$2" 2>/dev/null
    fi
}

# fwd_counted WHAT [FILE]: the sum over the servers of what their counters ($mp_dir/stats) call so: "bytes written", "calls by passed descriptors"
fwd_counted() {
    awk -v what="$1" -F '[:,] ' '/^iofwd server/ {
        for (i = 2; i <= NF; i++)
            if (substr($i, index($i, " ") + 1) == what)
                sum += $i
    } END { printf "%.0f\n", sum }' "${2:-$mp_dir/stats}" # mawk's print makes 2.14748e+09 of larger ones
}

# fwd_skip NAME REASON: in the place of fwd_both, as many cases
fwd_skip() {
    mp_skip "$1: same output" "$2"
    mp_skip "$1: same files" "$2"
    mp_skip "$1: passed through the servers" "$2"
}

# fwd_both NAME COMMAND...: COMMAND gets two more arguments, the directory to work in and a local scratch directory
fwd_both() {
    fwd_name=$1
    shift
    mp_wanted "$fwd_name: same output, same files, passed through the servers" || return 0
    mp_remove "$mp_dir/l" "$mp_dir/f"
    mkdir -p "$mp_dir/l/kept" "$mp_dir/l/scratch" "$mp_dir/f/kept" "$mp_dir/f/scratch"
    (
        cd / && timeout -k 5 "$fwd_time" "$@" "$mp_dir/l/kept" "$mp_dir/l/scratch"
        echo "exit code $?"
    ) 2>&1 </dev/null | cat >"$mp_dir/l/out" # a pipe on both sides
    (
        cd / && fwd_servers "$mp_dir/f/kept" "$@" /fwd "$mp_dir/f/scratch"
        echo "exit code $?"
    ) | cat >"$mp_dir/f/out"
    sed -i "s#$mp_dir/[lf]/scratch#@SCRATCH#g; s#$mp_dir/l/kept#@DIR#g; s#/fwd#@DIR#g" "$mp_dir/l/out" "$mp_dir/f/out"
    fwd_tree "$mp_dir/l/kept" | sed "s#$mp_dir/l/kept#@DIR#g" >"$mp_dir/l/tree"
    fwd_tree "$mp_dir/f/kept" | sed "s# /fwd/# @DIR/#" >"$mp_dir/f/tree"
    { diff -a "$mp_dir/l/out" "$mp_dir/f/out" && grep -a '^exit code 0$' "$mp_dir/l/out"; } >"$mp_dir/out" 2>&1
    mp_report $? "$fwd_name: same output ($(wc -l <"$mp_dir/f/out") lines)" "$mp_dir/out"
    { diff "$mp_dir/l/tree" "$mp_dir/f/tree" || tail -n 3 "$mp_dir/stats"; } >"$mp_dir/out" 2>&1
    cmp -s "$mp_dir/l/tree" "$mp_dir/f/tree"
    mp_report $? "$fwd_name: same files ($(wc -l <"$mp_dir/f/tree") lines)" "$mp_dir/out"
    cp "$mp_dir/stats" "$mp_dir/out"
    if fwd_is_near; then
        [ ! /fwd -ef "$mp_dir/f/kept" ] # what the program has written is there, although it has not this name on this host
    else
        test "$(fwd_counted calls)" -gt 0 && test "$(fwd_counted "bytes written")" -gt 0
    fi
    mp_report $? "$fwd_name: passed through the servers ($(fwd_counted calls) calls)" "$mp_dir/out"
}

# fwd_both_counted NAME LEAST WHAT COMMAND...: fwd_both, and a case more: have the servers counted LEAST at least of it (0: nothing)?
fwd_both_counted() {
    fwd_counted_name=$1 fwd_least=$2 fwd_what=$3
    shift 3
    mp_wanted "$fwd_counted_name: $fwd_what" || return 0
    fwd_both "$fwd_counted_name" "$@"
    if fwd_is_near; then
        mp_skip "$fwd_counted_name: $fwd_what" "the program makes calls by itself"
        return
    fi
    fwd_sum=$(fwd_counted "$fwd_what")
    if [ "$fwd_least" = 0 ]; then
        [ "$fwd_sum" = 0 ]
    else
        [ "$fwd_sum" -ge "$fwd_least" ]
    fi
    mp_report $? "$fwd_counted_name: $fwd_what ($fwd_sum)" "$mp_dir/stats"
}

# fwd_passed NAME LEAST SECTION [SETTING...]: a section of $program by fwd_both_counted: were LEAST calls made by descriptors that the
# servers have passed (0: none)?
fwd_passed() {
    fwd_passed_name=$1 fwd_passed_least=$2 fwd_passed_section=$3
    shift 3
    fwd_both_counted "$fwd_passed_name" "$fwd_passed_least" "calls by passed descriptors" env "$@" "$program" "$fwd_passed_section"
}

# fwd_kill_clients PROGRAM: a client is killed in the midst of its writes (PROGRAM's section forever), again and again; others write at
# the same server (data)
fwd_kill_clients() {
    fwd_killed=$1
    # shellcheck disable=SC2016 # for the shell inside
    fwd_both "clients that are killed" sh -c '
        for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
            : >"$2/out.$i"
            "$0" forever "$1" "$2" >"$2/out.$i" &
            until grep -q begun "$2/out.$i"; do sleep 0.01; done
            sleep "0.0$i"
            kill -9 $!
            wait $! 2>/dev/null
            tr -d "\001-\377" <"$1/forever" | wc -c | grep -qx 0 || echo "a hole"
            rm "$1/forever" "$2/out.$i"
        done
        exec "$0" data "$1" "$2"' "$fwd_killed"
}

# fwd_kill_server PROGRAM: a server is killed while its client writes (PROGRAM's section failover); the other one takes over, and every
# byte is written
fwd_kill_server() {
    fwd_killed=$1
    mkdir "$mp_dir/kept" "$mp_dir/scratch" "$mp_dir/local"
    "$fwd_killed" failover "$mp_dir/local" "$mp_dir/scratch" >/dev/null
    rm "$mp_dir/scratch/half"
    # shellcheck disable=SC2016 # for the shells inside
    printf '#!/bin/sh\necho $$ >>"%s/servers"\nexec "%s/iofwd-server" "$@"\n' "$mp_dir" "$builddir" >"$mp_dir/server"
    chmod +x "$mp_dir/server"
    # shellcheck disable=SC2016 # for the shell inside
    timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -on-server-death failover \
        -iofwd "/fwd=$mp_dir/kept" -timeout 50 sh -c '
        "$1" failover /fwd "$2" &
        until [ -e "$2/half" ]; do sleep 0.01; done
        while read -r server; do
            find "/proc/$server/fd" -lname "*/kept/failover" | grep -q . || continue
            kill -9 "$server"
            break # the next one opens the file as soon as it takes over
        done <"$3"
        wait $!' sh "$fwd_killed" "$mp_dir/scratch" "$mp_dir/servers" >"$mp_dir/out" 2>&1
    fwd_code=$?
    [ $fwd_code -eq 0 ] && grep -qx written "$mp_dir/out" && grep -q "the next one takes over" "$mp_dir/out" &&
        cmp "$mp_dir/kept/failover" "$mp_dir/local/failover" >>"$mp_dir/out" 2>&1
    mp_report $? "a server that is killed" "$mp_dir/out"
}
