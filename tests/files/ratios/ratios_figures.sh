#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Patterns of calls below a prefix, with the servers on the same host, beside the same calls on the directory:
#
#   srcdir=. builddir=build [chrt -f 10] sh tests/files/ratios/ratios_figures.sh [-n RUNS] [PATTERN...]
#
# Prints nanoseconds a call, in brackets the ratio to direct calls.  "near": attached to standing servers, so that the program makes most calls
# by itself; "job": a process of amphora-run, whose server passes descriptors; "server": IOFWD_PASSTHROUGH=0, so that the server makes
# the calls.  Runs take turns, RUNS (3) of each; a figure is the median of theirs.  Files are in memory.  -short: one run of a few calls.
# OLD=BUILD: runs of another build besides, in turn ("old near" and so on).
set -u
: "${srcdir:=.}" "${builddir:=build}"
runs=3 short=''
while :; do
    case ${1-} in
    -n) runs=$2 && shift 2 ;;
    -short) runs=1 short=-short && shift ;;
    *) break ;;
    esac
done

dir=$(mktemp -d /dev/shm/amphora-ratios.XXXXXX) || exit 99
pid=''
trap '[ -z "$pid" ] || kill "$pid"; rm -rf "$dir"' EXIT
mkdir "$dir/files"
: >"$dir/log"
program=$dir/fwd_ratios
${CC:-cc} -O2 -std=gnu11 -D_GNU_SOURCE -I"$srcdir" -o "$program" "$srcdir"/tests/files/ratios/*.c -lpthread || exit 99

# time_calls WAY BUILD PATTERN...: lines "WAY PATTERN NANOSECONDS"
time_calls() {
    way=$1 build=$2
    shift 2
    case ${way#old } in
    direct) "$program" "$dir/files" $short "$@" ;;
    near)
        "$build/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$dir/files" -address-file "$dir/address" -pid-file "$dir/pid" >"$dir/log" 2>&1 &&
            pid=$(cat "$dir/pid") &&
            "$build/iofwd-run" -servers "$dir/address" "$program" /fwd $short "$@"
        code=$?
        "$build/iofwd-ctl" stop -servers "$dir/address" >"$dir/log" 2>&1
        pid=''
        (exit $code)
        ;;
    job) "$build/amphora-run" -n 1 -servers 1 -conduit smp -iofwd "/fwd=$dir/files" "$program" /fwd $short "$@" ;;
    server) IOFWD_PASSTHROUGH=0 "$build/amphora-run" -n 1 -servers 1 -conduit smp -iofwd "/fwd=$dir/files" "$program" /fwd $short "$@" ;;
    esac >"$dir/times" || {
        echo "ratios_figures.sh: the way \"$way\" failed" >&2
        cat "$dir/log" "$dir/times" >&2
        exit 1
    }
    sed "s/^/$(echo "$way" | tr ' ' _) /" "$dir/times"
}

i=0
while [ "$i" -lt "$runs" ]; do
    time_calls direct "$builddir" "$@"
    for next in near job server; do
        [ -z "${OLD-}" ] || time_calls "old $next" "$OLD" "$@"
        time_calls "$next" "$builddir" "$@"
    done
    i=$((i + 1))
done >"$dir/figures" || exit 1

awk -v ways="direct ${OLD:+old_near} near ${OLD:+old_job} job ${OLD:+old_server} server" '
    function median(key, a, k, j, t) {
        k = split(value[key], a, " ")
        for (i = 2; i <= k; i++)
            for (j = i; j > 1 && a[j] + 0 < a[j - 1] + 0; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
        return a[int((k + 1) / 2)]
    }
    { if (!($2 in seen)) { seen[$2] = 1; name[++n] = $2 } value[$2 " " $1] = value[$2 " " $1] " " $3 }
    END {
        m = split(ways, way, " ")
        printf "%-26s", "ns a call"
        for (w = 1; w <= m; w++) printf w == 1 ? "%10s" : "%20s", way[w]
        print ""
        for (p = 1; p <= n; p++) {
            direct = median(name[p] " direct")
            printf "%-26s%10d", name[p], direct
            for (w = 2; w <= m; w++) {
                ns = median(name[p] " " way[w])
                printf "%20s", sprintf("%d (%.1f)", ns, direct > 0 ? ns / direct : 0)
            }
            print ""
        }
    }' "$dir/figures"
