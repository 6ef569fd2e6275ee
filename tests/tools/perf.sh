#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# amphora-perf: options, the list, JSON with the agreed keys, a figure for each test asked for.  Figures are not checked here.
. "${srcdir:-.}/tests/lib/lib.sh"
perf=$builddir/amphora-perf
mp_timeout=120
mkdir "$mp_dir/work"

# says NAME EXIT-CODE PATTERN ARGUMENTS...
says() {
    says_name=$1 says_code=$2 says_pattern=$3
    shift 3
    "$perf" "$@" >"$mp_dir/said" 2>&1 </dev/null
    says_got=$?
    mp_check "$says_name" sh -c "cat '$mp_dir/said'; [ $says_got -eq $says_code ] && grep -q -- '$says_pattern' '$mp_dir/said'"
}

# figures NAME LINES ARGUMENTS...: LINES lines of JSON, each with all keys and a positive value
figures() {
    figures_name=$1 figures_lines=$2
    shift 2
    "$perf" --json -repeat 3 -sample 4 -dir "$mp_dir/work" "$@" >"$mp_dir/json" 2>"$mp_dir/err" </dev/null
    figures_code=$?
    mp_check "$figures_name" awk -v lines="$figures_lines" -v code="$figures_code" '
        { print }
        FILENAME ~ /err$/ { next }
        !/^{"test":"[a-z0-9_]+","conduit":"[a-z]+","procs":[0-9]+,"bytes":[0-9]+,"value":[0-9.e+-]+,/ { bad = 1 }
        !/,"unit":"[A-Za-z1\/]+",/ { bad = 1 }
        !/,"limit":("[a-z0-9_]+"|null),"limit_value":([0-9.e+-]+|null),"ratio":([0-9.e+-]+|null),.*}$/ { bad = 1 }
        /"value":-/ && !/start_preload/ { bad = 1 }
        { n++ }
        END { if (bad || n != lines || code != 0) { print n + 0 " lines, wanted " lines ", exit code " code; exit 1 } }' \
        "$mp_dir/json" "$mp_dir/err"
}

says "every test is described" 0 "am_short_rtt  *round trip" --list
says "an unknown option" 2 "there is no option -wrong" -wrong
says "an unknown test" 2 'no test called "nonsense"' -test am_short_rtt,nonsense
says "an unknown conduit" 2 '"ib" is none of' -conduit ib
says "a size that is too large" 2 '"5M" is no size' -bytes 8,5M
says "a number of processes that is none" 2 "wanted is a number" -n many
says "samples of no time" 2 "-sample 0: wanted is a number" -sample 0
says "more samples than are kept" 2 "-repeat 102: wanted is a number from 1 to 101" -repeat 102
says "no sample" 2 "-repeat 0: wanted is a number from 1 to 101" -repeat 0
for option in conduit test bytes loaded dir; do
    says "-$option without a word" 2 "-$option is given nothing" -$option ''
done
says "a pair of one process" 2 "am_short_rtt needs two processes" -n 1 -test barrier,am_short_rtt
figures "barrier of 1" 1 -conduit smp -n 1 -test barrier
figures "limits" 4 -conduit smp -bytes 8,4K -test line1_rtt,line2_rtt,tcp_rtt
for net in smp tcp; do
    figures "$net: messages" 8 -conduit $net -bytes 64,64K -test am_barrier_rtt,am_event_rtt,am_short_rtt,am_medium_rtt,am_long_rtt,am_short_flood
    figures "$net: rates and negotiated payload" 10 -conduit $net -bytes 8 -test am_medium_rate,am_inject,am_depth,np_medium_rtt,np_medium_rate,np_client_flood,np_long_flood,put_nbi_rate,get_nbi_rate,put_nb_rate
    figures "$net: put and get" 6 -conduit $net -bytes 8,64K -test put_lat,put_bw,get_bw
    figures "$net: transfers of pieces of any size" 9 -conduit $net -bytes 3,48,4M -test strided_put,indexed_get,vector_put
    figures "$net: barrier of 3" 1 -conduit $net -n 3 -test barrier
    figures "$net: collectives of 3" 15 -conduit $net -n 3 -bytes 8 \
        -test coll_barrier,coll_broadcast,coll_reduce,coll_reduce_all,coll_scan,coll_scatter,coll_gather,coll_gather_all,coll_exchange,root_broadcast,root_reduce,root_scatter,root_gather,team_barrier,team_reduce_all
    figures "$net: memory of 5" 2 -conduit $net -n 5 -test memory_start,memory_all
    figures "$net: files" 5 -conduit $net -test fwd_fresh,fwd_write,fwd_read,start_preload,first_call
done
export AMPHORA_WAIT=spin
figures "smp: files, while processes spin" 3 -conduit smp -bytes 8 -test fwd_write,fwd_read,first_call
unset AMPHORA_WAIT
says "a load that is none" 2 "wanted are numbers from 0" -loaded 2,some
# loaded NET: a row for each call and number of competing processes, and nothing competes afterwards
loaded() {
    LOADED_MARK=l$$ "$perf" --json -conduit $1 -repeat 1 -loaded 0,2 -dir "$mp_dir/work" >"$mp_dir/loaded" 2>&1 </dev/null || { cat "$mp_dir/loaded"; return 1; }
    cat "$mp_dir/loaded"
    [ "$(grep -cE '^\{"conduit":"'$1'","load":[02],"test":"(am_rtt|barrier|fwd_read)","statistic":"(median|p99|mean)","spin_us":[0-9.]+,"block_us":[0-9.]+,"default_us":[0-9.]+,"ratio":[0-9.]+\}$' "$mp_dir/loaded")" = 18 ] &&
        mp_until 10 mp_none_marked LOADED_MARK=l$$
}
for net in smp udp; do
    loaded $net >"$mp_dir/out" 2>&1
    mp_report $? "$net: waits beside competing processes" "$mp_dir/out"
done

# whole NET: every test runs to its end and gives a figure
whole() {
    "$perf" --json -conduit $1 -repeat 1 -sample 4 -bytes 8,64K -dir "$mp_dir/work" >"$mp_dir/whole" 2>"$mp_dir/err" </dev/null || { cat "$mp_dir/whole" "$mp_dir/err"; return 1; }
    "$perf" --list | awk '/^[a-z]/ { print $1 }' | sort >"$mp_dir/wanted"
    sed -n 's/^{"test":"\([a-z0-9_]*\)".*/\1/p' "$mp_dir/whole" | sort -u >"$mp_dir/seen"
    echo "without a figure: $(comm -23 "$mp_dir/wanted" "$mp_dir/seen" | tr '\n' ' ')"
    test -s "$mp_dir/wanted" && cmp "$mp_dir/wanted" "$mp_dir/seen"
}
for net in smp tcp udp; do
    whole $net >"$mp_dir/out" 2>&1
    mp_report $? "$net: every test ends, with few samples" "$mp_dir/out"
done

mp_check "nothing is left in the directory" rmdir "$mp_dir/work"

# ends_at SIGNAL: nothing is left of a tool that gets SIGNAL during its first job, but for its directory after SIGKILL
has_job() {
    for job_pid in $(mp_marked "PERF_MARK=$ends_mark"); do
        tr '\0' ' ' 2>/dev/null <"/proc/$job_pid/cmdline" | grep -q '^[^ ]*amphora-perf -inside' && return 0
    done
    return 1
}

ends_at() {
    ends_mark=perf$1$$
    PERF_MARK=$ends_mark "$perf" -conduit tcp -test am_short_rtt -repeat 100 -sample 1000 -dir "$mp_dir/work" >"$mp_dir/ends" 2>&1 </dev/null &
    ends_tool=$!
    mp_until 20 has_job || echo "no process of the job was found"
    kill -"$1" "$ends_tool"
    wait "$ends_tool"
    ends_code=$?
    cat "$mp_dir/ends"
    echo "exit code $ends_code"
    mp_until 20 mp_none_marked "PERF_MARK=$ends_mark" || return 1
    [ "$1" = KILL ] && rm -rf "$mp_dir/work"/*
    [ $ends_code -gt 128 ] && [ -z "$(ls "$mp_dir/work")" ]
}
mkdir "$mp_dir/work"
for sig in TERM HUP KILL; do
    ends_at $sig >"$mp_dir/out" 2>&1
    mp_report $? "SIG$sig ends the tool and its job" "$mp_dir/out"
done

# One of the two processes of a test is stopped: the job ends by itself and says where it stood.
stop_one() {
    for still_pid in $(mp_marked "PERF_MARK=$still_mark"); do
        tr '\0' ' ' 2>/dev/null <"/proc/$still_pid/cmdline" | grep -q '^[^ ]*amphora-perf -inside' || continue
        kill -STOP "$still_pid" && return 0
    done
    return 1
}

has_stopped_or_ended() {
    stop_one || grep -q 'tests without a figure' "$mp_dir/still"
}

stands_still() {
    still_mark=perf$$
    # beside other work, the job may have ended before a process is found
    for _ in 1 2 3 4 5; do
        PERF_MARK=$still_mark "$perf" -conduit smp -test am_short_rtt -repeat 100 -sample 100 -deadline 2 >"$mp_dir/still" 2>&1 </dev/null &
        still_tool=$!
        mp_until 20 has_stopped_or_ended || echo "no process of the job was found"
        wait "$still_tool"
        still_code=$?
        cat "$mp_dir/still"
        echo "exit code $still_code"
        [ $still_code = 0 ] || break
    done
    [ $still_code != 0 ] &&
        grep -Eq '(am_short_rtt on smp with .* bytes, sample .* of 100,|the start of a job on smp) stands still: (a )?process' "$mp_dir/still"
}
stands_still >"$mp_dir/still.out" 2>&1
mp_report $? "a test that stands still ends by itself and says so" "$mp_dir/still.out"
mp_done
