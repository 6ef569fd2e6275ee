#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# scripts/t, the way to one test: it knows every test of the makefiles, finds the programs of each, narrows a test down, and says what is
# wrong with what it is given.
. "${srcdir:-.}/tests/lib/lib.sh"
BUILD=$(cd "$builddir" && pwd)
export BUILD
t=$srcdir/scripts/t

# t_gives NAME CODE WORDS ARGUMENTS...
t_gives() {
    t_name=$1 t_code=$2 t_words=$3
    shift 3
    timeout 100 "$t" --no-build "$@" >"$mp_dir/out" 2>&1 </dev/null
    t_got=$?
    [ $t_got = "$t_code" ] && grep -q "$t_words" "$mp_dir/out"
    mp_report $? "$t_name" "$mp_dir/out"
}

# make_list VARIABLE: its words, a line each
make_list() {
    (unset MAKEFLAGS MFLAGS MAKELEVEL TESTS && make -C "$BUILD" -s --no-print-directory --eval="t-list: ; @for w in \$($1); do echo \$\$w; done" t-list)
}

"$t" --no-build -l >"$mp_dir/list" 2>&1
make_list TESTS | sed 's#.*/##; s/\.sh$//' | sort -u >"$mp_dir/tests"
awk '{ print $1 }' "$mp_dir/list" | sort -u | comm -23 "$mp_dir/tests" - >"$mp_dir/out"
[ -s "$mp_dir/tests" ] && [ ! -s "$mp_dir/out" ]
mp_report $? "each of the $(wc -l <"$mp_dir/tests") tests of make check is listed" "$mp_dir/out"

"$t" --no-build --needs >"$mp_dir/needs" 2>&1
make_list check_PROGRAMS | grep -vE '/(unit_[a-z0-9_]*|guard)$' | sort >"$mp_dir/programs"
tr ' ' '\n' <"$mp_dir/needs" | sort -u | comm -23 "$mp_dir/programs" - >"$mp_dir/out"
[ -s "$mp_dir/programs" ] && [ ! -s "$mp_dir/out" ]
mp_report $? "each of the $(wc -l <"$mp_dir/programs") test programs is found by a test that runs it" "$mp_dir/out"

t_gives "one case of a shell test" 0 '^1 passed, 0 failed, 0 skipped' am_traffic -k "am_traffic smp n=3"
t_gives "a job on another conduit, with another number of processes" 0 '^ok .*am_traffic udp n=2' am_traffic -c udp -n 2
t_gives "an example" 0 'sum 10, right' ring -n 2
t_gives "a UPC program" 0 'of 2 threads' hello -n 2 -c smp
if "$t" --no-build -l unit_prefix | grep -q unit; then
    t_gives "a case of a unit test" 0 '^ok.*bad' unit_prefix -k bad
    t_gives "a case that is not there" 1 'no case' unit_prefix -k no_such_case
else
    mp_skip "a case of a unit test" "configure found no Criterion"
    mp_skip "a case that is not there" "configure found no Criterion"
fi
t_gives "a test that is not there, with those of similar names" 2 'no test fwd_cal.*fwd_calls' fwd_cal
t_gives "a name that two tests have" 2 'several tests.*shmem/histogram.*upcxx/histogram' histogram
t_gives "a conduit that is not there" 2 'no conduit myrinet' gex_am -c myrinet
t_gives "a number that is none" 2 'not many' gex_am -n many
t_gives "no name" 2 'scripts/t fwd_calls'

# A build directory in which one unit test and one shell test are known and nothing has been built but the launcher.
BUILD=$mp_dir/unbuilt
mkdir "$BUILD"
cat >"$BUILD/Makefile" <<'END'
TESTS = tests/base/unit_prefix tests/am/am_traffic.sh
check_PROGRAMS = tests/base/unit_prefix tests/am/am_traffic
END
t_gives "an empty build directory" 2 'there is no build in' am_traffic
printf '#!/bin/sh\n' >"$BUILD/amphora-run"
chmod +x "$BUILD/amphora-run"
t_gives "a unit test that is not built" 2 'unit_prefix is not built' unit_prefix
t_gives "a shell test whose programs are not built" 2 'am_traffic is not built' am_traffic
mp_done
