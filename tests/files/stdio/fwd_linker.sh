#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the dynamic linker prints by itself, before a program runs or in its place, reaches a forwarded standard error (or output) as it
# reaches a local one, with the same exit code.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
work=$mp_dir/work
kept=$mp_dir/kept
mkdir "$work" "$kept"
cd "$work" || exit 1

# library NAME SOURCE [OPTION...]: libNAME.so
library() {
    library_name=$1
    printf '%s\n' "$2" >"$library_name.c"
    shift 2
    ${CC:-gcc} -shared -fPIC -Wl,-soname,"lib$library_name.so" -o "lib$library_name.so" "$library_name.c" "$@"
}

# program NAME SOURCE OPTION...
program() {
    program_name=$1
    printf '%s\n' "$2" >"$program_name.c"
    shift 2
    ${CC:-gcc} -o "$program_name" "$program_name.c" -Wl,-rpath,"$work" -Wl,-rpath-link,"$work" -L"$work" "$@"
}

library leaf 'int leaf(void) { return 0; }' || exit 1
library branch 'int leaf(void); int branch(void) { return leaf(); }' -L"$work" -lleaf -Wl,-rpath,"$work" || exit 1
program direct 'int leaf(void); int main(void) { return leaf(); }' -lleaf || exit 1
program indirect 'int branch(void); int main(void) { return branch(); }' -lbranch || exit 1
rm libleaf.so

echo 'NEW { global: versioned; };' >versions
library versioned 'int versioned(void) { return 0; }' -Wl,--version-script,versions || exit 1
program version 'int versioned(void); int main(void) { return versioned(); }' -lversioned || exit 1
echo 'OLD { global: versioned; };' >versions
library versioned 'int versioned(void) { return 0; }' -Wl,--version-script,versions || exit 1

library symbol 'int there(void) { return 0; } int gone(void) { return 0; }' || exit 1
program lazy 'int there(void); int gone(void); int main(int argc, char **argv) { return argc > 1 ? gone() : there(); }' \
    -lsymbol -Wl,-z,lazy || exit 1
library symbol 'int there(void) { return 0; }' || exit 1
cp direct "$kept/direct"

# job COMMAND...: under a server; what the command and the job print
job() {
    timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$kept" -timeout 50 "$@" </dev/null
}

# same NAME COMMAND: the command, with its standard output and error in $1/out and $1/err, leaves the same files and exit code
same() {
    mp_wanted "$1" || return 0
    rm -f "$kept/out" "$kept/err" "$mp_dir/local/out" "$mp_dir/local/err"
    mkdir -p "$mp_dir/local"
    cp direct "$mp_dir/local"
    sh -c "$2" sh "$mp_dir/local" >"$mp_dir/code" 2>&1
    echo "exit code $?" >>"$mp_dir/code"
    # shellcheck disable=SC2016 # for the shell inside
    job sh -c 'sh -c "$1" sh /fwd; echo "exit code $?"' sh "$2" >"$mp_dir/out" 2>&1
    for file in out err; do
        sed "s#$mp_dir/local#DIR#g; s#/fwd#DIR#g; s#0x[0-9a-f]*#ADDRESS#g" "$kept/$file" >"$mp_dir/forwarded.$file"
        sed "s#$mp_dir/local#DIR#g; s#0x[0-9a-f]*#ADDRESS#g" "$mp_dir/local/$file" | diff - "$mp_dir/forwarded.$file" >>"$mp_dir/out"
    done 2>&1
    diff "$mp_dir/code" "$mp_dir/out" >"$mp_dir/diff"
    mp_report $? "$1" "$mp_dir/diff"
}

same "a library is missing" './direct >$1/out 2>$1/err'
same "a library of a library is missing" './indirect >$1/out 2>$1/err'
same "one file for both" ': >$1/out; ./direct >>$1/err 2>&1'
same "a version is missing" './version >$1/out 2>$1/err'
same "a forwarded program lacks a library" '$1/direct >$1/out 2>$1/err'
same "a script whose interpreter lacks a library" \
    'printf "#!$PWD/direct\n" >script; chmod +x script; ./script >$1/out 2>$1/err'
same "a damaged library" 'echo text >libleaf.so; ./direct >$1/out 2>$1/err; code=$?; rm libleaf.so; exit $code'
same "a library of LD_PRELOAD is missing" 'LD_PRELOAD="$LD_PRELOAD /none.so" ./lazy >$1/out 2>$1/err'
if python3 -c 'import os' 2>/dev/null; then
    same "posix_spawn with dup2" 'python3 -c "import os, sys
f = os.open(sys.argv[1] + \"/err\", os.O_WRONLY | os.O_CREAT, 0o600)
p = os.posix_spawn(\"./direct\", [\"./direct\"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, f, 2)])
sys.exit(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))" $1 >$1/out'
    same "fexecve" 'python3 -c "import os
os.execve(os.open(\"direct\", os.O_RDONLY), [\"./direct\"], os.environ)" >$1/out 2>$1/err'
else
    mp_skip "posix_spawn with dup2" "no python3"
    mp_skip "fexecve" "no python3"
fi

# listed: LD_TRACE_LOADED_OBJECTS lists what is loaded, the preload library too
if mp_wanted "a list of libraries"; then
    # shellcheck disable=SC2016 # for the shell inside
    job sh -c 'LD_TRACE_LOADED_OBJECTS=1 ./lazy >/fwd/list' >"$mp_dir/out" 2>&1
    code=$?
    cat "$kept/list" >>"$mp_dir/out"
    [ $code = 0 ] && grep -q libsymbol.so "$kept/list" && grep -q libiofwd_preload.so "$kept/list"
    mp_report $? "a list of libraries" "$mp_dir/out"
fi

# symbol NAME CODE COMMAND: an undefined symbol is named
symbol() {
    mp_wanted "$1" || return 0
    rm -f "$kept/err"
    job sh -c "$3" >"$mp_dir/out" 2>&1
    code=$?
    cat "$kept/err" >>"$mp_dir/out"
    echo "exit code $code" >>"$mp_dir/out"
    [ $code = "$2" ] && grep -q '^amphora: warning: .* symbol gone,.*ldd -r' "$kept/err"
    mp_report $? "$1" "$mp_dir/out"
}
symbol "a symbol that is missing and used" 127 './lazy use 2>/fwd/err'
symbol "a symbol that is missing and not used" 0 './lazy 2>/fwd/err'

# A shell that starts programs sees neither the linker's process nor a signal of its end; programs in order are asked about once.
if mp_wanted "programs in order print nothing"; then
    # shellcheck disable=SC2016 # for the shell inside
    job bash -c 'set -m; exec 2>/fwd/err; trap "echo child >>$1" CHLD; (exec true); exec sh -c "wait; echo end; ls /" >/fwd/out' bash "$mp_dir/signals" \
        >"$mp_dir/out" 2>&1
    code=$?
    cat "$kept/err" "$kept/out" >>"$mp_dir/out"
    [ $code = 0 ] && ! [ -s "$kept/err" ] && grep -qx end "$kept/out" && grep -qx tmp "$kept/out" &&
        [ "$(wc -l <"$mp_dir/signals")" = 1 ]
    mp_report $? "programs in order print nothing" "$mp_dir/out"
fi
mp_done
