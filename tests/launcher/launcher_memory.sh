#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each allocation of amphora-run (and of its agent), iofwd-run and iofwd-ctl fails in turn: the program does its work all the
# same, or ends with an exit code and says that memory is short.
. "${srcdir:-.}/tests/lib/lib.sh"
if mp_sanitized asan tsan; then
    mp_skip "each allocation fails in turn" "the allocations are the sanitizer's"
    mp_done
    exit
fi
shim=$mp_dir/no_memory.so
${CC:-gcc} -std=gnu11 -shared -fPIC -O1 -o "$shim" "$srcdir/tests/launcher/no_memory.c" || exit 1
printf 'localhost:2\nlocalhost\n' >"$mp_dir/hosts"
mkdir "$mp_dir/files" "$mp_dir/tmp"
addresses=$mp_dir/addresses
: >"$mp_dir/status"

# The result must be two lines, whose order is not known.
job() {
    # shellcheck disable=SC2016 # for the shell inside
    TMPDIR=$mp_dir/tmp "$AMPHORA_RUN" -n 2 -servers 1 -iofwd "/fwd=$mp_dir/files" -hosts "$mp_dir/hosts" -timeout 20 \
        sh -c 'echo "line $PMI_SIZE" >"/fwd/$PMI_RANK" && cat "/fwd/$PMI_RANK"'
}

attached() {
    "$builddir/iofwd-run" -servers "$addresses" sh -c 'echo "line 2" >/fwd/x && cat /fwd/x && cat /fwd/x'
}

asked() {
    "$builddir/iofwd-ctl" status -servers "$addresses" >"$mp_dir/status" && sed 's/.*/line 2/' "$mp_dir/status"
}

# steps FUNCTION PROGRAM MINIMUM: until no allocation is left
steps() {
    export NO_MEMORY_PROGRAM="$2" NO_MEMORY_NOTE="$mp_dir/$1.note" NO_MEMORY_AT=0
    out=$mp_dir/$1.out bad=0
    while [ $NO_MEMORY_AT -lt 400 ]; do
        NO_MEMORY_AT=$((NO_MEMORY_AT + 1))
        rm -f "$NO_MEMORY_NOTE"
        (export LD_PRELOAD="$shim" && "$1") >"$out" 2>"$out.error"
        code=$?
        [ -e "$NO_MEMORY_NOTE" ] || break
        if [ $code = 0 ]; then
            [ "$(cat "$out")" = "$(printf 'line 2\nline 2')" ] && continue
        elif grep -q memory "$out.error" || grep -q memory "$mp_dir/status"; then
            continue
        fi
        bad=1 && echo "allocation $NO_MEMORY_AT: exit code $code" && cat "$out" "$out.error"
    done
    if [ $NO_MEMORY_AT -le "$3" ] || [ $NO_MEMORY_AT -ge 400 ]; then bad=1 && echo "$NO_MEMORY_AT allocations"; fi
    return $bad
}

"$builddir/iofwd-server" -daemon -iofwd "/fwd=$mp_dir/files" -address-file "$addresses" -pid-file "$mp_dir/pid" >/dev/null || exit 1
for each in "job amphora-run 50" "attached iofwd-run 10" "asked iofwd-ctl 10"; do
    right=0
    # shellcheck disable=SC2086 # three words
    steps $each >"$mp_dir/steps" 2>&1 || right=1
    mp_report $right "each allocation fails in turn: ${each#* }" "$mp_dir/steps"
done
# agents end shortly after a launcher that has ended itself
none_left() {
    [ -z "$(ls -A "$mp_dir/tmp")" ]
}

right=0
mp_until 10 none_left || right=1
ls -A "$mp_dir/tmp" >"$mp_dir/left"
mp_report $right "no directory of a job is left" "$mp_dir/left"
kill "$(cat "$mp_dir/pid")"
mp_until 10 test ! -e "$mp_dir/pid"
mp_done
