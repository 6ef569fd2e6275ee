#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tools in jobs: beside both headers, settings that are reported, fatal errors and signals that are told with backtraces.
. "${srcdir:-.}/tests/lib/lib.sh"

TOOLS_TEST=value
export TOOLS_TEST
mp_run tests/tools/gasnet_tools -n "1 4" -c "smp tcp" -- all
mp_run tests/tools/gasnet_tools_par -n "2" -c "smp" -- all

# job NAME CODE N WHAT [VARIABLE=VALUE]...: runs a job that must end with this code; its output goes to $mp_dir/out
job() {
    job_name=$1 job_code=$2 job_n=$3 job_what=$4 job_conduit=${job_conduit:-smp} job_prog=${job_prog:-gasnet_tools}
    shift 4
    timeout -k 5 60 env "$@" "$AMPHORA_RUN" -n "$job_n" -conduit "$job_conduit" -timeout 50 "$builddir/tests/tools/$job_prog" "$job_what" \
        >"$mp_dir/out" 2>&1 </dev/null
    job_rc=$?
    job_ok=1
    [ $job_rc -eq "$job_code" ] || job_ok=0
    echo "exit $job_rc" >>"$mp_dir/out"
}
# says COUNT PATTERN: the job's output has COUNT such lines
says() {
    says_n=$(grep -Ec "$2" "$mp_dir/out")
    [ "$says_n" -eq "$1" ] || { job_ok=0; echo "$says_n lines match $2, not $1" >>"$mp_dir/out"; }
}
done_job() {
    mp_report $((1 - job_ok)) "$job_name" "$mp_dir/out"
}

job "settings are reported once, by process 0" 0 3 env GASNET_VERBOSEENV=1 GASNET_TRACEFILE=t-%
says 1 '^ENV parameter: TOOLS_SIZE = 4 KB +\(default\)'
says 1 '^ENV parameter: TOOLS_TEST = value$'
says 1 '^ENV parameter: GASNET_VERBOSEENV = 1$'
says 1 '^ENV parameter: AMPHORA_RANK = 0$'
says 1 '^ENV parameter: AMPHORA_WAIT = adaptive +\(default\)'
says 1 '^ENV parameter: GASNET_TRACEFILE = t-% \[no effect: there is no tracing'
done_job
job "nothing is reported unasked" 0 2 env GASNET_VERBOSEENV=0
says 0 '^ENV parameter'
done_job

job "a fatal error" 134 3 fatal
says 1 '^\*\*\* FATAL ERROR, process 2 of 3 \(.*, pid [0-9]+\): end_badly\(\) at .*gasnet_tools.c:[0-9]+: the last of 3 gives up$'
says 0 'Backtrace of'
done_job
job "a fatal error with a backtrace" 134 3 fatal GASNET_BACKTRACE=1
says 1 'FATAL ERROR, process 2 of 3'
says 1 '^\*\*\* Backtrace of process 2 of 3 \(.*\), by EXECINFO:$'
says 1 '^\[2\] #[0-9]+ 0x[0-9a-f]+ end_badly\+0x'
says 1 '^\[2\] #[0-9]+ 0x[0-9a-f]+ main\+0x'
done_job
job "no backtrace from a process that is not in the list" 134 3 fatal GASNET_BACKTRACE=1 GASNET_BACKTRACE_NODES=0-1,7
says 1 'FATAL ERROR, process 2 of 3'
says 0 'Backtrace of'
done_job
job "a fatal signal with a backtrace" 139 3 crash GASNET_BACKTRACE=1 GASNET_BACKTRACE_NODES=1-2
says 1 '^\*\*\* Caught a fatal signal: SIGSEGV\(11\), process 2 of 3 \(.*, pid [0-9]+\)$'
says 1 '^\*\*\* Backtrace of process 2 of 3'
says 1 '^\[2\] #[0-9]+ 0x[0-9a-f]+ end_badly\+0x'
done_job
job "a fatal signal that is left alone" 139 2 crash GASNET_BACKTRACE=1 GASNET_NO_CATCH_SIGNAL=SIGABRT,segv
says 0 'Caught a fatal signal'
done_job
job "a fatal signal without a request for backtraces" 139 2 crash
says 0 'Caught a fatal signal|Backtrace'
done_job
# Standard output is a pipe here, so stdio holds what was printed.
job "text before abort() is written out" 134 2 abort
says 1 'last words of 2'
says 0 'Caught a fatal signal'
done_job
job "text before a fatal signal is written out" 139 2 words
says 1 'last words of 2'
done_job
job "text before an error of the library is written out" 1 2 error
says 1 'last words of 2'
done_job
job "text is not written out if nothing is to be caught" 134 2 abort GASNET_NO_CATCH_SIGNAL='*'
says 0 'last words of 2'
done_job
job "a locked stream does not keep a process from aborting" 134 2 lock
done_job
job "an error of the library with a backtrace" 1 2 refuse GASNET_BACKTRACE=1
says 1 'rank 9 is out of range'
says 1 '^\*\*\* Backtrace of process 1 of 2'
says 1 '^\[1\] #[0-9]+ 0x[0-9a-f]+ main\+0x'
done_job
job "a backtrace upon a signal, and on it goes" 0 2 signal GASNET_BACKTRACE_SIGNAL=SIGUSR2
says 1 '^\*\*\* Backtrace of process 0 of 2'
says 1 '^\*\*\* Backtrace of process 1 of 2'
says 2 'goes on'
done_job
job "a bad list and a bad signal are told" 0 1 env GASNET_BACKTRACE=1 GASNET_BACKTRACE_NODES=some GASNET_BACKTRACE_SIGNAL=SIGFUN
says 1 'GASNET_BACKTRACE_NODES is not a list of ranks'
says 1 'GASNET_BACKTRACE_SIGNAL="SIGFUN" names no signal'
done_job

job_conduit=auto job_prog=gasnet_tools_par
job "memory is shared by three at most" 0 7 islands GASNET_SUPERNODE_MAXSIZE=3 GASNET_MAX_THREADS=12
says 3 '^[0-2] of 0/3, threads 12$'
says 3 '^[3-5] of 1/3, threads 12$'
says 1 '^6 of 2/1, threads 12$'
done_job
job "memory is shared by none" 0 2 islands GASNET_SUPERNODE_MAXSIZE=1
says 1 '^0 of 0/1, threads 65536$'
says 1 '^1 of 1/1, threads 65536$'
done_job
job_conduit=smp job_prog=gasnet_tools
job "a variable that nothing reads is told" 0 1 env GASNET_VERBOSEENV=1 GASNET_NO_SUCH_NAME=7
says 1 '^ENV parameter: GASNET_NO_SUCH_NAME = 7 \[no effect: nothing here reads it'
done_job
mkdir "$mp_dir/tmp"
job "temporary files go where they are wanted" 0 1 env GASNET_VERBOSEENV=1 GASNET_TMPDIR="$mp_dir/tmp"
says 1 "^ENV parameter: AMPHORA_JOB = $mp_dir/tmp/"
done_job

frozen_or_gone() {
    [ "$(grep -c 'is frozen' "$mp_dir/out")" -ge 2 ] || ! kill -0 "$thaw_job" 2>/dev/null
}
# A frozen job goes on when a debugger says so.
thaw() {
    : >"$mp_dir/out"
    GASNET_FREEZE=1 timeout -k 5 60 "$AMPHORA_RUN" -n 2 -conduit smp -timeout 50 "$builddir/tests/tools/gasnet_tools" freeze >"$mp_dir/out" \
        2>&1 </dev/null &
    thaw_job=$!
    mp_until 30 frozen_or_gone
    grep -q 'goes on' "$mp_dir/out" && return 1
    for pid in $(sed -n 's/.*is frozen: attach a debugger (gdb -p \([0-9]*\)).*/\1/p' "$mp_dir/out"); do
        timeout 30 gdb -nx -batch -p "$pid" -ex 'set var *(int *)&gasnet_frozen = 0' >"$mp_dir/gdb" 2>&1 </dev/null
        if grep -Eq 'ptrace|not permitted' "$mp_dir/gdb"; then
            kill "$thaw_job"
            wait "$thaw_job"
            echo "processes may not be traced here" >>"$mp_dir/out"
            return 77
        fi
    done
    wait "$thaw_job" || return 1
    [ "$(grep -c 'goes on' "$mp_dir/out")" -eq 2 ]
}
if command -v gdb >/dev/null 2>&1; then
    thaw
    mp_report $? "a job frozen for the debugger goes on" "$mp_dir/out"
else
    echo "gdb is not there" >"$mp_dir/out"
    mp_report 77 "a job frozen for the debugger goes on" "$mp_dir/out"
fi
mp_done
