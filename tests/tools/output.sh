#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Output that cannot be written, to a full device or a closed descriptor, is reported with an exit code; no program's is lost in silence.
. "${srcdir:-.}/tests/lib/lib.sh"

# ends WANTED TARGET COMMAND...: its output to TARGET; WANTED is "told" (a sentence, exit code not 0) or "well" (0, no sentence)
ends() {
    wanted=$1 target=$2
    shift 2
    if [ "$target" = closed ]; then
        "$@" >&- 2>"$mp_dir/err" </dev/null
    else
        "$@" >"$target" 2>"$mp_dir/err" </dev/null
    fi
    code=$?

    cat "$mp_dir/err"
    echo "exit code $code"
    case $wanted in
    told) [ $code -ne 0 ] && grep -Eq 'could not be written|cannot write|Error writing' "$mp_dir/err" ;;
    well) [ $code -eq 0 ] && [ ! -s "$mp_dir/err" ] ;;
    esac
}

# check NAME ARGUMENTS-OF-ENDS...
check() {
    name=$1
    shift
    mp_wanted "$name" || return 0
    ends "$@" >"$mp_dir/out" 2>&1
    mp_report $? "$name" "$mp_dir/out"
}

for target in /dev/full closed; do
    for program in amphora-run iofwd-run iofwd-server amphora-perf nbmrw upc-bench amphora-upcc amphora-upcrun iofwd-ctl iofwd-trace \
        iofwd-instrument iofwd-mount; do
        if [ -x "$builddir/$program" ]; then
            check "$program -help, output $target" told $target "$builddir/$program" -help
        else
            mp_skip "$program -help, output $target" "built without libfuse3"
        fi
    done
    check "upcxlate --help, output $target" told $target "$builddir/upcxlate" --help
    check "amphora-info, output $target" told $target "$builddir/amphora-info" -c
    check "a job that prints, output $target" told $target "$AMPHORA_RUN" -n 2 echo word
    check "a job that prints nothing, output $target" well $target "$AMPHORA_RUN" -n 2 true
done
mp_done
