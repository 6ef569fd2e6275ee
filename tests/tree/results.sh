#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How scripts/check adds up and evaluates a run of the tests (scripts/results.sh).
. "${srcdir:-.}/tests/lib/lib.sh"
unset MAKEFLAGS MAKELEVEL # a make that has started the test would say things in those that it starts

cat >"$mp_dir/run" <<'END'
PASS: tests/mp/alpha.sh 1 - first
PASS: tests/mp/alpha.sh 2 - second
SKIP: tests/mp/alpha.sh 3 - third # SKIP there is no gdb
PASS: tests/unit_beta 1 - beta::one
SKIP: tests/mp/epsilon.sh - there is no python3 with its own tests here
FAIL: tests/gamma.sh 1 - only
# TOTAL: 5
# PASS:  3
# SKIP:  1
# XFAIL: 0
# FAIL:  1
# XPASS: 0
# ERROR: 0
END

# record NAME LOG RESULT...: what the run has left of a test, and the list of all
record() {
    record_file=$mp_dir/tests/mp/$1
    mkdir -p "$mp_dir/tests/mp"
    printf '%s\n' "$2" >"$record_file.log"
    echo "$record_file.trs" >>"$mp_dir/records"
    shift 2
    {
        printf ':global-test-result: %s\n:recheck: no\n:copy-in-global-log: no\n' "$1"
        printf ':test-result: %s\n' "$@"
    } >"$record_file.trs"
}

record alpha "ok 1 - first" PASS PASS SKIP
record unit_beta "ok 1 - beta::one" PASS
record epsilon "1..0 # SKIP there is no python3 with its own tests here" SKIP
record zeta "ok 1 - only # SKIP there is no gdb" SKIP
record gamma "not ok 1 - only" FAIL
echo "$mp_dir/tests/mp/never_run.trs" >>"$mp_dir/records"

# expect_end EXPECTED [SETTING]: the end of a run of these numbers
expect_end() {
    (
        . "$srcdir/scripts/results.sh"
        count "$mp_dir/run"
        failed=0 passed=4
        eval "${2:-}"
        summary 7
        echo "exit code $?"
    ) >"$mp_dir/out" 2>&1
    grep -q "$1" "$mp_dir/out"
}

(. "$srcdir/scripts/results.sh" && count "$mp_dir/run" && echo "$passed $failed $skipped") >"$mp_dir/out" 2>&1
grep -qx "3 1 1" "$mp_dir/out"
mp_report $? "an automake summary is added up" "$mp_dir/out"

: >"$mp_dir/empty"
(. "$srcdir/scripts/results.sh" && count "$mp_dir/empty"; echo "$failed") >"$mp_dir/out" 2>&1
grep -qx 1 "$mp_dir/out"
mp_report $? "a run of nothing has failed" "$mp_dir/out"

(. "$srcdir/scripts/results.sh" && cases "$mp_dir/records") >"$mp_dir/out" 2>&1
printf 'alpha 3\nepsilon -\ngamma 1\nunit_beta 1\nzeta 1\n' | cmp - "$mp_dir/out"
mp_report $? "cases are counted by the base name, skipped ones too" "$mp_dir/out"

printf 'alpha 5\ndelta 4\nepsilon 9\ngamma 1\nunit_beta 1\nzeta 1\n' >"$mp_dir/cases"
(. "$srcdir/scripts/results.sh" && compare "$mp_dir/records" "$mp_dir/cases" && echo "$fewer fewer") >"$mp_dir/out" 2>&1
grep -q '^FEWER: alpha has 3 of 5' "$mp_dir/out" && grep -q '^FEWER: delta has 0 of 4' "$mp_dir/out" && grep -qx '6 fewer' "$mp_dir/out"
mp_report $? "cases that vanish without a skip are told" "$mp_dir/out"

sed -i '/^gamma/d' "$mp_dir/cases"
(. "$srcdir/scripts/results.sh" && compare "$mp_dir/records" "$mp_dir/cases" && echo "$unlisted unlisted") >"$mp_dir/out" 2>&1
grep -q '^UNLISTED: gamma has no row' "$mp_dir/out" && grep -qx '1 unlisted' "$mp_dir/out"
mp_report $? "a test without a row is reported" "$mp_dir/out"

tree=$mp_dir/tree
mkdir -p "$tree/tests"
cat >"$tree/Makefile" <<'END'
TEST_LOGS = tests/one.log tests/two.log
END
printf ':global-test-result: PASS\n:test-result: PASS\n' | tee "$tree/tests/one.trs" >"$tree/tests/two.trs"
(. "$srcdir/scripts/results.sh" && records "$tree" >"$mp_dir/list" && cases "$mp_dir/list") >"$mp_dir/out" 2>&1
printf 'one 1\ntwo 1\n' | cmp - "$mp_dir/out"
mp_report $? "the list of records comes from the build" "$mp_dir/out"

expect_end 'exit code 0' repeated=3
mp_report $? "three tests may need a second run" "$mp_dir/out"
expect_end 'exit code 1' repeated=4
mp_report $? "four may not" "$mp_dir/out"
expect_end '^2 of the passed only at the second run' repeated=2
mp_report $? "their number is told by itself" "$mp_dir/out"
expect_end 'exit code 1' unlisted=1
mp_report $? "a test without a row fails the run" "$mp_dir/out"
expect_end 'exit code 1' fewer=1
mp_report $? "a test with fewer cases than recorded fails the run"
expect_end 'exit code 1' failed=1
mp_report $? "a test that failed" "$mp_dir/out"
mp_done
