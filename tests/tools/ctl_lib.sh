# SPDX-License-Identifier: BSD-3-Clause
# For tests of iofwd-ctl; sourced by them.
. "${srcdir:-.}/tests/lib/lib.sh"

# said CODE TEXT COMMAND...: it ends with the code, and says the text
said() {
    said_code=$1 said_text=$2
    shift 2
    timeout -k 5 60 "$@" >"$mp_dir/said" 2>&1 </dev/null
    said_got=$?
    cat "$mp_dir/said"
    [ $said_got = "$said_code" ] && grep -qF -- "$said_text" "$mp_dir/said" && return
    echo "exit code $said_got and not $said_code, or not said: $said_text"
    return 1
}
