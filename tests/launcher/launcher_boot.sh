#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Joining, exchanging and looking up, by the launcher's control socket and by PMI-1.
. "${srcdir:-.}/tests/lib/lib.sh"
mp_timeout=40
job=$builddir/tests/launcher/launcher_job
run() {
    name=$1
    shift
    mp_check "$name" "$@"
}
export JOB_MODE=check
for n in 1 2 3 4 7; do
    run "launcher n=$n" "$AMPHORA_RUN" -n $n "$job"
    run "launcher n=$n servers=2" "$AMPHORA_RUN" -n $n -servers 2 -server-program "$job" "$job"
    run "pmi1 n=$n" env AMPHORA_BOOT=pmi1 "$AMPHORA_RUN" -n $n "$job"
done
run "file clients attach without joining" env JOB_MODE=attach "$AMPHORA_RUN" -n 3 -servers 2 -server-program "$job" "$job"
# Under a PMI launcher the last S processes are the servers.
run "pmi1 split 5 = 3 + 2" env AMPHORA_BOOT=pmi1 "$AMPHORA_RUN" -n 5 env AMPHORA_SERVERS=2 "$job"
run "pmi1 two hosts" sh -c "printf 'hostA:2\nhostB:2\n' >$mp_dir/hosts; AMPHORA_BOOT=pmi1 exec $AMPHORA_RUN -n 4 -hosts $mp_dir/hosts $job"
run "single" env AMPHORA_BOOT=single "$AMPHORA_RUN" -n 2 "$job"
run "swapped wire order" env AMPHORA_TEST_SWAP=1 "$AMPHORA_RUN" -n 3 -servers 1 -server-program "$job" "$job"

# refused NAME WORDS COMMAND...: fails, and says so in these words
refused() {
    name=$1 words=$2
    shift 2
    timeout 20 "$@" >"$mp_dir/out" 2>&1 </dev/null
    rc=$?
    ok=0
    [ $rc -ne 0 ] && [ $rc -ne 124 ] || ok=1
    grep -q "$words" "$mp_dir/out" || ok=1
    mp_report $ok "$name" "$mp_dir/out"
}
refused "another byte order on the control socket" "AMPHORA_TEST_SWAP" env -u AMPHORA_TEST_SWAP "$AMPHORA_RUN" -n 1 env AMPHORA_TEST_SWAP=1 "$job"
refused "no servers left no compute process" "leaves no compute process" \
    env AMPHORA_BOOT=pmi1 "$AMPHORA_RUN" -n 2 env AMPHORA_SERVERS=2 "$job"
refused "address file is gone" "cannot read the address file" env AMPHORA_JOB="$mp_dir/gone" AMPHORA_RANK=0 "$job"
echo "amphora-job 2" >"$mp_dir/new"
refused "address file of another version" "another version" env AMPHORA_JOB="$mp_dir/new" AMPHORA_RANK=0 "$job"
refused "address file is damaged" "damaged" sh -c "echo 'amphora-job 1' >$mp_dir/bad; AMPHORA_JOB=$mp_dir/bad AMPHORA_RANK=0 exec $job"
# A process with the address but another key is turned away.
refused "wrong key" "does not know the key" "$AMPHORA_RUN" -n 1 sh -c "
    sed 's/^key .*/key $(printf '%064d' 0)/' \"\$AMPHORA_JOB\" >$mp_dir/key; AMPHORA_JOB=$mp_dir/key exec $job"
refused "rank out of range" "not a number of this job" "$AMPHORA_RUN" -n 2 env AMPHORA_RANK=9 "$job"
refused "a place is taken once" "has already joined the job" "$AMPHORA_RUN" -n 1 sh -c "$job && $job"
mp_check "mode of directory and address file" "$AMPHORA_RUN" -n 1 sh -c '
    [ "$(stat -c %a "$AMPHORA_JOB")" = 600 ] && [ "$(stat -c %a "$(dirname "$AMPHORA_JOB")")" = 700 ]'
# Unauthenticated connections are counted and do no harm.
mp_check "unauthenticated connections" sh -c "AMPHORA_STATS=1 $AMPHORA_RUN -n 1 $builddir/tests/launcher/launcher_unauthenticated 2>&1 | tee $mp_dir/stats
    grep -q 'still answers' $mp_dir/stats && grep -Eq 'drop_stranger +[1-9][0-9][0-9] ' $mp_dir/stats"
mp_done
