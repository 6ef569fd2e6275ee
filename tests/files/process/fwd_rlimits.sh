#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Small limits of processes (ulimit; files, addresses, data, stack, locked memory, file sizes, processes), hard ones and soft ones, from
# where nothing can work to where all does: for a forwarded program, iofwd-run, a server, amphora-run, and processes that communicate.
# With each of them a job is right, or a sentence names the cause and there is an exit code: no hang, crash, or silence.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
client=$mp_dir/fault_client
${CC:-gcc} -std=gnu11 -O1 -o "$client" "$srcdir/tests/files/failover/fault_client.c" || exit 1

# The environment is on the stack: a long one alone ends a program with a small stack.
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
    case $name in
    PATH | HOME | TMPDIR | LC_ALL | LD_LIBRARY_PATH | srcdir | builddir | mp_* | fwd_* | AMPHORA_* | GASNET_* | IOFWD_*) ;;
    *) unset "$name" ;;
    esac
done

mkdir "$mp_dir/kept"
chmod 777 "$mp_dir" "$mp_dir/kept"

# The programs themselves: the scripts that libtool puts in their place fork and need more than they do.
programs=$builddir/.libs
peer=$builddir/examples/.libs/put_get
run=$builddir/iofwd-run # linked with the static library
[ ! -x "$programs/iofwd-run" ] || run=$programs/iofwd-run
LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH

if mp_sanitized asan tsan || [ ! -x "$programs/amphora-run" ]; then
    for case in program iofwd-run server launcher peers processes; do
        mp_skip "small limits: $case" "needs programs that libtool has linked to shared libraries, without sanitizers"
    done
    mp_done
    exit
fi

# A job may be refused by a program of ours, or by the dynamic linker.
said='^amphora: |^amphora-run: (cannot|compute [0-9]* could not|the limit)|^iofwd-run: |error while loading shared|cannot allocate TLS'

# check_job WHAT LIMIT: adds what is wrong with the job whose output is in $mp_dir/one and whose exit code is $code
check_job() {
    if [ "$code" = 0 ] && grep -q "$expected" "$mp_dir/one"; then
        return
    fi

    case " $enough " in
    *" $2 "*) must=yes ;;
    *) must=no ;;
    esac

    if [ $must = yes ] || [ "$code" = 0 ] || [ "$code" -ge 128 ] || [ "$code" = 124 ] || ! grep -Eq "$said" "$mp_dir/one"; then
        wrong=$((wrong + 1))
        { echo "$1, ulimit -${2%:*} ${2#*:}: exit code $code"; cat "$mp_dir/one"; } >>"$mp_dir/out"
    fi
}

limits='n:4 n:6 n:8 n:10 n:12 n:14 n:18 n:20 n:22 n:24 n:28 n:34 n:40 n:64 v:9000 v:16000 v:32000 v:300000 d:2000 d:8192 d:16384 d:65536 s:32 s:60
    s:64 s:128 l:0 l:64 f:1 Sn:16 Sn:64 Sv:16000 Sd:8192 Ss:32 Sf:1'

# each CASE LIMITS ENOUGH FUNCTION CONDUIT...: FUNCTION OPTION VALUE with each of them; jobs must be right with those of ENOUGH
each() {
    case=$1 list=$2 enough=$3 function=$4
    shift 4
    wrong=0
    : >"$mp_dir/out"
    for conduit in "$@"; do
        smp=0
        [ "$conduit" != smp ] || smp=1
        export AMPHORA_SMP=$smp
        for limit in $list; do
            # a pipe, because a file may not grow under some of the limits
            {
                "$function" "${limit%:*}" "${limit#*:}" 2>&1 </dev/null
                echo $? >"$mp_dir/code"
            } | cat >"$mp_dir/one"
            code=$(cat "$mp_dir/code")
            check_job "$case, $conduit" "$limit"
        done
    done
    [ $wrong = 0 ]
    mp_report $? "small limits: $case" "$mp_dir/out"
}

job() {
    timeout -k 5 40 "$programs/amphora-run" -timeout 20 -conduit "$conduit" "$@"
}

# shellcheck disable=SC2016 # for the shells inside
of_program() {
    job -n 1 -servers 1 -server-program "$programs/iofwd-server" -iofwd "/fwd=$mp_dir/kept" \
        sh -c 'ulimit -"$1" "$2"; exec "$3" /fwd/x' sh "$1" "$2" "$client"
}

of_server() {
    printf '#!/bin/sh\nulimit -%s %s\nexec "%s/iofwd-server" "$@"\n' "$1" "$2" "$programs" >"$mp_dir/server"
    chmod +x "$mp_dir/server"
    job -n 1 -servers 1 -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" "$client" /fwd/x
}

# shellcheck disable=SC2016 # for the shell inside
of_peers() {
    job -n 2 sh -c 'ulimit -"$1" "$2"; exec "$3"' sh "$1" "$2" "$peer"
}

of_launcher() {
    (ulimit -"$1" "$2" && job -n 2 "$peer")
}

of_iofwd_run() {
    (ulimit -"$1" "$2" && timeout -k 5 40 "$run" -servers "$mp_dir/address" "$client" /fwd/x)
}

expected=through
each "a forwarded program" "$limits" "n:64 v:300000 d:65536 s:128 l:0 l:64 f:1 Sn:64 Sf:1" of_program smp tcp udp
each "a server" "$limits" "n:64 d:65536 s:128 l:0 l:64 Sn:64 Sf:1" of_server smp tcp udp
expected=' 0 errors'
each "processes that communicate" "$limits" "n:64 v:300000 d:65536 s:128 l:0 l:64 Sn:64 Sf:1" of_peers smp tcp udp
each "amphora-run" "n:4 n:6 n:8 n:16 n:32 v:8000 v:32000 d:512 d:4096 s:64 s:256 l:0 f:0 f:1 Sn:8 Ss:64 Sf:0" \
    "n:32 v:32000 d:4096 s:256 l:0" of_launcher smp

"$programs/iofwd-server" -daemon -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/address" -pid-file "$mp_dir/pid" \
    >"$mp_dir/daemon" 2>&1 || cat "$mp_dir/daemon"
expected=through
each "iofwd-run" "n:6 n:8 n:12 n:16 n:32 v:8000 v:16000 v:64000 d:2000 d:8192 d:65536 s:32 s:64 l:0 f:1 Sn:8 Sv:16000" \
    "n:32 v:64000 d:65536 s:64 l:0 f:1" of_iofwd_run smp
kill "$(cat "$mp_dir/pid")"

# Only ordinary users have a limit of processes, for all processes of theirs together.
of_user() {
    setpriv --reuid=12345 --regid=12345 --clear-groups prlimit --nproc="$2" "$programs/amphora-run" -timeout 20 -conduit "$conduit" \
        -n 1 -servers 1 -server-program "$programs/iofwd-server" -iofwd "/fwd=$mp_dir/kept" "$client" /fwd/x
}
if [ "$(id -u)" = 0 ] && setpriv --reuid=12345 --regid=12345 --clear-groups prlimit --nproc=99 "$programs/amphora-run" -version \
    >/dev/null 2>&1; then
    rm -rf "$mp_dir/kept" && mkdir "$mp_dir/kept" && chmod 777 "$mp_dir/kept"
    TMPDIR=$mp_dir
    export TMPDIR
    each "an ordinary user's processes" "u:1 u:2 u:3 u:4 u:5 u:6 u:8 u:12" "u:12" of_user smp tcp udp
else
    mp_skip "small limits: an ordinary user's processes" "needs root, setpriv and prlimit, and a directory that others can read"
fi
mp_done
