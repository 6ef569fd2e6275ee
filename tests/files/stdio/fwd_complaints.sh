#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the interposer itself has to say reaches a standard error that is a forwarded file.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
work=$mp_dir/work
kept=$mp_dir/kept
mkdir "$work" "$kept"
cd "$work" || exit 1

# says NAME TEXT CODE COMMAND: the command, with its standard error in /fwd/err, ends with CODE and leaves TEXT there
says() {
    mp_wanted "$1" || return 0
    rm -f "$kept/err"
    timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$kept" -timeout 50 \
        sh -c "exec 2>/fwd/err; $4; echo \"exit code \$?\"" </dev/null >"$mp_dir/out" 2>&1
    cat "$kept/err" >>"$mp_dir/out"
    grep -q "^exit code $3\$" "$mp_dir/out" && grep -q "$2" "$kept/err"
    mp_report $? "$1" "$mp_dir/out"
}

echo 'int main(void) { return 0; }' >plain.c
${CC:-gcc} -static -o plain plain.c || exit 1
cat >overflow.c <<'X'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    volatile size_t len = 64;
    static char to[16];

    return (int)read(open("/fwd/err", O_RDONLY), to, len);
}
X
${CC:-gcc} -O2 -D_FORTIFY_SOURCE=2 -o overflow overflow.c || exit 1
mkdir traces

says "a static program is not forwarded" 'amphora: warning: .*plain' 0 ./plain
says "a static program is refused" 'amphora: .*plain.*refused by' 126 "IOFWD_STRICT=1 sh -c './plain; exit'"
says "a static program is not recorded" 'amphora: warning: .*plain.*not recorded' 0 "IOFWD_TRACE_DIR=$work/traces sh -c './plain; exit'"
says "a buffer of a fortified call is too small" 'amphora: .*buffer' 134 'set +m; sh -c "./overflow; exit \$?" 2>/fwd/err'
says "lines of the client's log" '^amphora: compute 0 .*read' 0 "AMPHORA_LOG=debug sh -c 'read -r x </fwd/err; :'"
says "decisions of the interposer" '^amphora: process .*/fwd/err is forwarded' 0 "AMPHORA_LOG=debug sh -c 'read -r x </fwd/err; :'"
mp_done
