# SPDX-License-Identifier: BSD-3-Clause
# Driver of multi-process tests; sourced by shell tests.  One TAP line for each combination of conduit and number of processes.
#
#   mp_run PROGRAM [-n "1 2 3 4 7"] [-c "smp tcp tcp-smp"] [-o "amphora-run options"] [-t seconds] [-- program arguments]
#
# Conduit words: smp (one host, shared memory), tcp (AMPHORA_SMP=0: everything over tcp), tcp-smp (two pretended hosts: shared
# memory inside each, tcp between them).  A program exits 0 (ok), 77 (skip, with the reason as its last line) or anything else.
#
# scripts/t narrows a test down by the environment: MP_CONDUITS and MP_PROCESSES take the place of the words and numbers of mp_run,
# MP_CASE is a part of the names of the cases that are run.
set -u
# Random tests do the same in every run unless they are told otherwise; scripts/check-nightly gives them other seeds.
mp_seed=${TEST_SEED:-1}
builddir=${builddir:-.}
srcdir=${srcdir:-.}
AMPHORA_RUN=${AMPHORA_RUN:-$builddir/amphora-run}
mp_dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-mp.XXXXXX") || exit 1
# mp_remove PATH...: removes also what a test has left in directories that its user may not search
mp_remove() {
    rm -rf "$@" 2>/dev/null || {
        chmod -R u+rwx "$@" 2>/dev/null
        rm -rf "$@"
    }
}
trap 'mp_remove "$mp_dir"' EXIT
mp_count=0 mp_queued=0 mp_queue_done=0 mp_queue_pids=''

# mp_wanted NAME: is the case one of those that are run?
mp_wanted() {
    case $1 in *"${MP_CASE:-}"*) ;; *) return 1 ;; esac
}

# mp_report STATUS NAME OUTPUT-FILE
mp_report() {
    mp_count=$((mp_count + 1))
    case $1 in
    0) echo "ok $mp_count - $2" ;;
    77) echo "ok $mp_count - $2 # SKIP $(grep -v '^amphora-run: ' "$3" | tail -n 1)" ;; # the launcher says how the job ended
    *)
        echo "not ok $mp_count - $2 (exit $1)"
        sed 's/^/# /' "$3"
        ;;
    esac
}

# mp_skip NAME REASON
mp_skip() {
    mp_wanted "$1" || return 0
    mp_count=$((mp_count + 1))
    echo "ok $mp_count - $1 # SKIP $2"
}

# mp_sanitized KIND...: is the build one with AddressSanitizer (asan) or ThreadSanitizer (tsan)?  Shared libraries say so: such builds have
# no static ones, and no sanitizer is in the preload library.
mp_sanitized() {
    for mp_kind; do
        if nm -D "$builddir/.libs/libamphora.so" 2>/dev/null | grep -q "__${mp_kind}_"; then
            return 0
        fi
    done
    return 1
}

mp_now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

# mp_until SECONDS COMMAND...: the command again and again until it gives 0; not within that time: 1
mp_until() {
    mp_limit_ms=$(($(mp_now_ms) + $1 * 1000))
    shift
    until "$@"; do
        [ "$(mp_now_ms)" -lt "$mp_limit_ms" ] || return 1
        sleep 0.02
    done
}

# mp_marked NAME=VALUE: the processes that have it in their environment
mp_marked() {
    grep -lzx "$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
}

# mp_none_marked NAME=VALUE
mp_none_marked() {
    [ -z "$(mp_marked "$1")" ]
}

# mp_check NAME COMMAND...: one TAP line for a command
mp_check() {
    mp_name=$1
    shift
    mp_wanted "$mp_name" || return 0
    timeout -k 5 "${mp_timeout:-60}" "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$mp_name" "$mp_dir/out"
}

# mp_try NAME COMMAND...: the same for a function of the script, which bounds its time by itself
mp_try() {
    mp_name=$1
    shift
    mp_wanted "$mp_name" || return 0
    "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$mp_name" "$mp_dir/out"
}

# mp_queue NAME COMMAND...: one TAP line for a command that runs beside others of the queue, mp_queue_width (3) at a time.  For commands
# that mostly wait, such as jobs that fail.  The lines come in the order of the calls; the last of them when mp_queue_end is called.  The
# command, which may be a function, has a name of its own for files, $mp_dir/job.$mp_queued, and prints what its line shows if it fails.
mp_queue() {
    mp_wanted "$1" || return 0
    mp_queued=$((mp_queued + 1))
    echo "$1" >"$mp_dir/queue.$mp_queued.name"
    shift
    "$@" >"$mp_dir/queue.$mp_queued" 2>&1 </dev/null &
    mp_queue_pids="$mp_queue_pids $!"
    [ $((mp_queued - mp_queue_done)) -lt "${mp_queue_width:-3}" ] || mp_queue_next
}

# mp_queue_next: waits for the oldest command of the queue, and reports it
mp_queue_next() {
    mp_queue_done=$((mp_queue_done + 1))
    mp_oldest=${mp_queue_pids# }
    mp_oldest=${mp_oldest%% *}
    mp_queue_pids=${mp_queue_pids#" $mp_oldest"}
    wait "$mp_oldest"
    mp_report $? "$(cat "$mp_dir/queue.$mp_queue_done.name")" "$mp_dir/queue.$mp_queue_done"
}

mp_queue_end() {
    while [ "$mp_queue_done" -lt "$mp_queued" ]; do
        mp_queue_next
    done
}

# mp_misuse CODE PATTERN COMMAND...: for mp_queue: does the job end with this code ("": any of a program that fails by itself), and does
# its output match?
mp_misuse() {
    mp_misuse_code=$1 mp_misuse_pattern=$2
    shift 2
    timeout -k 5 30 "$@" >"$mp_dir/job.$mp_queued" 2>&1
    mp_misuse_rc=$?
    cat "$mp_dir/job.$mp_queued"
    echo "exit code $mp_misuse_rc, expected ${mp_misuse_code:-another one than 0}"
    case $mp_misuse_code in
    '') [ $mp_misuse_rc -ne 0 ] && [ $mp_misuse_rc -lt 124 ] ;;
    *) [ $mp_misuse_rc -eq "$mp_misuse_code" ] ;;
    esac && grep -Eq "$mp_misuse_pattern" "$mp_dir/job.$mp_queued"
}

mp_run() {
    mp_prog=$1
    shift
    mp_ns="1 2 3 4 7" mp_cs="smp tcp tcp-smp" mp_opts="" mp_time=60
    while [ $# -gt 0 ]; do
        case $1 in
        -n) mp_ns=$2; shift 2 ;;
        -c) mp_cs=$2; shift 2 ;;
        -o) mp_opts=$2; shift 2 ;;
        -t) mp_time=$2; shift 2 ;;
        --) shift; break ;;
        *) echo "Bail out! mp_run: what is $1?"; exit 99 ;;
        esac
    done
    for mp_c in ${MP_CONDUITS:-$mp_cs}; do
        for mp_n in ${MP_PROCESSES:-$mp_ns}; do
            mp_wanted "${mp_prog##*/} $mp_c n=$mp_n $*" || continue
            mp_smp=1 mp_hosts="" mp_net=$mp_c
            case $mp_c in
            tcp | udp) mp_smp=0 ;;
            *-smp)
                mp_net=${mp_c%-smp}
                i=0
                : >"$mp_dir/hosts"
                while [ $i -lt 32 ]; do
                    [ $((i * 2)) -lt "$mp_n" ] && echo hostA || echo hostB
                    i=$((i + 1))
                done >"$mp_dir/hosts"
                mp_hosts="-hosts $mp_dir/hosts"
                ;;
            esac
            timeout -k 5 $((mp_time + 10)) env AMPHORA_SMP=$mp_smp "$AMPHORA_RUN" -n "$mp_n" -conduit "$mp_net" $mp_hosts \
                -timeout "$mp_time" $mp_opts "$builddir/$mp_prog" "$@" >"$mp_dir/out" 2>&1 </dev/null
            mp_report $? "${mp_prog##*/} $mp_c n=$mp_n $*" "$mp_dir/out"
        done
    done
}

mp_done() {
    mp_queue_end
    echo "1..$mp_count"
    [ "$mp_count" -gt 0 ]
}
