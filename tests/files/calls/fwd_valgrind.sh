#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that forward by preload, under valgrind: it reports nothing of our library, and memory that is not there gives EFAULT.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
names="cat: no report and no leak
cp: no report and no leak
memory that is not there"
if ! command -v valgrind >/dev/null; then
    fwd_skip_all "there is no valgrind"
elif nm -D "$builddir/.libs/libiofwd_preload.so" | grep -q __asan; then
    fwd_skip_all "valgrind does not run programs with sanitizers"
fi
mkdir "$mp_dir/kept"
seq 5000 >"$mp_dir/kept/text"

# checked COMMAND...: under valgrind; nothing else than valgrind's report is printed, and that has no error
checked() {
    AMPHORA_STATS=0 timeout -k 5 110 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 100 \
        valgrind --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$@" 2>"$mp_dir/report" >"$mp_dir/got"
    code=$?
    cat "$mp_dir/report"
    [ $code = 0 ] && ! grep -v '^==' "$mp_dir/report" && grep -q 'ERROR SUMMARY: 0 errors' "$mp_dir/report"
}

cat_text() {
    checked cat /fwd/text && cmp "$mp_dir/got" "$mp_dir/kept/text"
}

cp_text() {
    checked cp /fwd/text /fwd/copy && cmp "$mp_dir/kept/copy" "$mp_dir/kept/text"
}

mp_try "cat: no report and no leak" cat_text
mp_try "cp: no report and no leak" cp_text
mp_try "memory that is not there" checked "$builddir/tests/files/calls/fwd_valgrind" /fwd/text
mp_done
