# SPDX-License-Identifier: BSD-3-Clause
# The results of a run of the tests, as scripts/check adds them up and evaluates them; sourced.  tests/tree/results.sh tests it.

passed=0 failed=0 skipped=0
repeated=0 # tests that failed at first and passed at the second run
fewer=0    # cases of tests/tree/cases.txt that were not run, and not skipped either
unlisted=0 # tests without a row in it

# count LOG: adds the numbers of an automake summary; a run that counted nothing is a failure.
count() {
    number() { sed -n "s/^# $1: *//p" "$2" | tail -n 1; }
    pass=$(number PASS "$1") fail=$(number FAIL "$1") skip=$(number SKIP "$1") error=$(number ERROR "$1")
    if [ -z "$pass" ] || [ "$pass" = 0 ]; then
        echo "No test was run ($1)."
        failed=$((failed + 1))
        return
    fi
    passed=$((passed + pass)) skipped=$((skipped + skip)) failed=$((failed + fail + error))
}

# records DIRECTORY: the files in which a run there has left the results of its tests (.trs), one a line.  Each is written by one process,
# while the tests of make -j2 share its output and may cut each other's lines.
records() {
    make -C "$1" -s --no-print-directory --eval='records: ; @for log in $(TEST_LOGS); do echo "$$log"; done' records | sed "s#^#$1/#; s/log\$/trs/"
}

# cases RECORDS: a line "TEST NUMBER" for each test of the list, by the base name, so that tests may move; "TEST -" where it was skipped whole
cases() {
    while read -r record; do
        [ ! -f "$record" ] || echo "$record"
    done <"$1" | xargs awk '
        function skipped_whole(file,    line, whole) {
            sub(/trs$/, "log", file)
            while (!whole && (getline line <file) > 0)
                whole = line ~ /^1\.\.0/
            close(file)
            return whole
        }
        FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.trs$/, "", name) }
        /^:global-test-result: SKIP/ && skipped_whole(FILENAME) { n[name] = "-"; nextfile }
        /^:test-result: (PASS|FAIL|SKIP|XFAIL|XPASS)/ { n[name]++ }
        END { for (name in n) print name, n[name] }' /dev/null | sort
}

# compare RECORDS CASES: the tests that had fewer cases in RECORDS than in the file CASES, which cases has written, and those that it lacks
compare() {
    cases "$1" >"$1.cases"
    awk 'FILENAME == ARGV[1] { here[$1] = $2; next }
        here[$1] != "-" && $2 != "-" && $2 + 0 > here[$1] + 0 { printf "FEWER: %s has %d of %d cases here, without a skip for the others\n", $1, here[$1], $2 }' \
        "$1.cases" "$2" >"$1.fewer"
    cat "$1.fewer"
    fewer=$(awk '{ n += $6 - $4 } END { print n + 0 }' "$1.fewer")

    awk 'FILENAME == ARGV[1] { listed[$1] = 1; next }
        $2 != "-" && !listed[$1] { printf "UNLISTED: %s has no row in %s; scripts/check --record writes it\n", $1, ARGV[1] }' \
        "$2" "$1.cases" >"$1.unlisted"
    cat "$1.unlisted"
    unlisted=$(wc -l <"$1.unlisted")
}

# summary MINUTES: the end of a run; fails if a test has failed, has no row in cases.txt or
# fewer cases than there without a skip, or if more than three had to be repeated
summary() {
    [ "$fewer" = 0 ] || echo "$fewer cases fewer than recorded, without a skip; see the lines FEWER"
    echo "$repeated of the passed only at the second run (at most 3 are allowed); $1 minutes"
    [ "$repeated" -le 3 ] || failed=$((failed + 1))
    [ "$unlisted" = 0 ] || failed=$((failed + 1))
    [ "$fewer" = 0 ] || failed=$((failed + 1))
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
