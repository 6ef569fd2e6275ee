#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that forward by preload, under valgrind: it reports nothing of our library, and memory that is not there gives EFAULT.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
names="cat: no report and no leak
cp: no report and no leak
memory that is not there
a call that valgrind does not know is tried once
what valgrind looks for by itself is named in a sentence"
if ! command -v valgrind >/dev/null; then
    fwd_skip_all "there is no valgrind"
elif mp_sanitized asan; then
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

# near its servers, and with look-ups by the client, a program makes one call of openat2 for each name
tried_once() {
    mkdir -p "$mp_dir/kept/a/b" && touch "$mp_dir/kept/a/b/1" "$mp_dir/kept/a/b/2" "$mp_dir/kept/a/b/3"
    for near in 0 1; do
        "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/address" >/dev/null || return
        IOFWD_NEAR=$near timeout -k 5 110 "$builddir/iofwd-run" -servers "$mp_dir/address" valgrind --error-exitcode=99 \
            find /fwd -type f >"$mp_dir/got" 2>"$mp_dir/report"
        code=$?
        "$builddir/iofwd-ctl" stop -servers "$mp_dir/address" >/dev/null
        cat "$mp_dir/report"
        [ $code = 0 ] && [ "$(grep -c /fwd/a/b/ "$mp_dir/got")" = 3 ] && [ "$(grep -c "unhandled.* syscall: 437" "$mp_dir/report")" -le 1 ] ||
            return
    done
}

# unseen NAME ARGUMENT...: valgrind does not find the forwarded file NAME, which a sentence says once
unseen() {
    name=$1
    shift
    timeout -k 5 110 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 100 \
        sh -c 'cd /fwd && for i in 1 2; do valgrind "$@"; done' sh "$@" >"$mp_dir/report" 2>&1
    cat "$mp_dir/report"
    [ "$(grep -c "^amphora: warning: .*does not find $name; start it by \"iofwd-run -mount\"" "$mp_dir/report")" = 1 ]
}

named() {
    cp "$(command -v true)" "$mp_dir/kept/program"
    unseen ./program ./program && unseen /fwd/program -q /fwd/program && unseen /fwd/log -q --log-file=/fwd/log true
}

mp_try "cat: no report and no leak" cat_text
mp_try "cp: no report and no leak" cp_text
mp_try "memory that is not there" checked "$builddir/tests/files/calls/fwd_valgrind" /fwd/text
mp_try "a call that valgrind does not know is tried once" tried_once
mp_try "what valgrind looks for by itself is named in a sentence" named
mp_done
