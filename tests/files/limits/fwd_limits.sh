#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What file systems and servers limit: names, sizes, many entries, no space, other users' files, read-only exports, and what a server
# keeps for one client.  See fwd_limits.c.  FWD_ENTRIES=N: size of the large directory; scripts/check-nightly asks for 100,000.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/limits/fwd_limits

fwd_both "names of 255 bytes, any bytes" "$program" names
fwd_both "beyond 4 GiB" "$program" sparse
fwd_both "a directory of ${FWD_ENTRIES:-5000} entries" "$program" entries "${FWD_ENTRIES:-5000}"

fwd_both "no descriptor for what an open would change" "$program" late
fwd_both "700 open files over exec" "$program" passed_on 700
fwd_nservers=1
for descriptors in 18 20 24; do
    # shellcheck disable=SC2016 # for the shell inside
    fwd_both "the lowest of $descriptors descriptors" \
        sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n "$0" && exec "$@"' $descriptors "$program" numbers
done
fwd_nservers=2

export IOFWD_NEAR=0 # servers make the calls

# expect NAME TEXT COMMAND...: forwarded, with the settings of the environment; TEXT: what it prints
expect() {
    expect_name=$1 expect_text=$2
    shift 2
    fwd_servers "$mp_dir/kept" "$@" >"$mp_dir/out"
    expect_status=$?
    test $expect_status -eq 0 && grep -qx "$expect_text" "$mp_dir/out"
    mp_report $? "$expect_name" "$mp_dir/out"
    rm -rf "$mp_dir/kept"
}

mkdir "$mp_dir/kept"
IOFWD_CLIENT_FILES=20 expect "no more than IOFWD_CLIENT_FILES" files "$program" files 20 /fwd
mkdir "$mp_dir/kept"
fwd_nservers=1 # each server counts for itself, and standing servers may give a new image another one
# shellcheck disable=SC2016 # for the shell inside
IOFWD_CLIENT_FILES=20 expect "files that come by exec count once" files \
    sh -c 'exec 3>/fwd/a 4>/fwd/b 5>/fwd/c 6>/fwd/d 7>/fwd/e; exec "$@"' sh "$program" files 15 /fwd
fwd_nservers=2
mkdir "$mp_dir/kept"
IOFWD_CLIENT_FILES=20 expect "and so does another process's file" taken "$program" taken 20 /fwd
# The servers may have 200 descriptors, the programs more.
mkdir "$mp_dir/kept"
printf '#!/bin/sh\nulimit -n 200\nexec "%s/iofwd-server" "$@"\n' "$builddir" >"$mp_dir/server"
chmod +x "$mp_dir/server"
AMPHORA_STATS=1 timeout 90 "$AMPHORA_RUN" -n 1 -servers 2 -server-program "$mp_dir/server" -iofwd "/fwd=$mp_dir/kept" -timeout 80 \
    "$program" exhaust /fwd >"$mp_dir/out" 2>&1 </dev/null
grep -qx exhaust "$mp_dir/out"
mp_report $? "one client leaves descriptors for others" "$mp_dir/out"
rm -rf "$mp_dir/kept"
mkdir "$mp_dir/kept"
AMPHORA_SMP=0 IOFWD_CLIENT_MEMORY=1M expect "calls larger than IOFWD_CLIENT_MEMORY lets in" "memory: calls were cut short" "$program" \
    memory /fwd
mkdir -p "$mp_dir/kept/a" "$mp_dir/kept/b"
# shellcheck disable=SC2016 # for the shell inside
AMPHORA_SMP=0 IOFWD_SERVER_MEMORY=1M expect "two clients share IOFWD_SERVER_MEMORY" "both: memory: calls were cut short" sh -c '
    "$1" memory /fwd/a >"$2/first" 2>&1 &
    "$1" memory /fwd/b >"$2/second" 2>&1
    second=$?
    wait $! && test $second = 0 && grep -hx "memory: calls were cut short" "$2/first" "$2/second" | sort | uniq -c | sed -n "s/^ *2 /both: /p"
    cat "$2/first" "$2/second"' sh "$program" "$mp_dir"
# Each request alone is larger than that; what is refused must leave no file open at the servers.
mkdir "$mp_dir/kept"
AMPHORA_SMP=0 IOFWD_CLIENT_MEMORY=1M IOFWD_PIECE=2M expect "pieces larger than IOFWD_CLIENT_MEMORY" "memory: calls were cut short" \
    "$program" memory /fwd
cp "$mp_dir/stats" "$mp_dir/out"
test "$(grep -c ' 0 clients and 0 files open at the end' "$mp_dir/stats")" = 2
mp_report $? "and no file stays open" "$mp_dir/out"
mkdir -p "$mp_dir/kept/dir"
echo read >"$mp_dir/kept/file"
echo x >"$mp_dir/kept/dir/inner"
IOFWD_READONLY=/fwd expect "an export that may only be read" read-only "$program" readonly /fwd
mkdir "$mp_dir/kept"
echo stays >"$mp_dir/kept/file"
# shellcheck disable=SC2016 # for the shell inside
expect "a prefix is renamed as little as a mount point" stays sh -c 'mv /fwd "$1" 2>&1 | grep -q busy && cat /fwd/file' sh "$mp_dir/moved"
mkdir "$mp_dir/kept"
# A server makes the shared memory of such a process; 512 bytes, and nothing at all.  The output is a pipe, which has no such limit.
expect "a hard limit of file sizes below what shared memory takes" "read, signal XFSZ" \
    sh -c '(ulimit -f 1; echo read >/fwd/file; ulimit -f 0; read="$(cat /fwd/file)"
        sh -c "exec echo more >>/fwd/file"; echo "$read, signal $(kill -l $?)") 2>/dev/null | cat'
mkdir "$mp_dir/kept"
expect "a program that may have 40 descriptors" read sh -c '(ulimit -n 40; echo read >/fwd/file; cat /fwd/file)'
if mp_sanitized asan tsan; then
    echo "the sanitizer itself takes more" >"$mp_dir/out"
    mp_report 77 "too few addresses for forwarding give ENOMEM" "$mp_dir/out"
    mp_report 77 "too little data for forwarding gives ENOMEM" "$mp_dir/out"
    mp_report 77 "a program that may have 300 MB of addresses" "$mp_dir/out"
    mp_report 77 "no memory for the table of descriptors" "$mp_dir/out"
    mp_report 77 "each of its calls gives ENOMEM" "$mp_dir/out"
else
    # From where cat barely starts to where the client's memory does not fit: ENOMEM each time.
    too_little() {
        mkdir "$mp_dir/kept"
        # shellcheck disable=SC2016 # for the shell inside
        expect "$1" "some, none with another error" sh -c '
            few=$1 option=$2
            shift 2
            for kib; do
                (ulimit $option $kib; cat /fwd/none)
            done >"$few" 2>&1
            grep -v "^amphora\|^cat: .*annot allocate memory\|^cat: .*shared \(lib\|obj\)" "$few" | grep "^cat: " ||
                { grep -q "^cat: /fwd/none: Cannot allocate memory" "$few" && echo "some, none with another error"; }' sh "$mp_dir/few" "$2" $3
    }
    too_little "too few addresses for forwarding give ENOMEM" -v "8000 9000 10000 12000 14000 16000 18000 20000"
    too_little "too little data for forwarding gives ENOMEM" -d "2000 3000 4000 5000 6000 8000"
    mkdir "$mp_dir/kept"
    expect "a program that may have 300 MB of addresses" read \
        sh -c '(ulimit -v 300000; echo read >/fwd/file; exec </fwd/file; read line; (echo "$line" >/fwd/more); cat /fwd/more)'
    mkdir "$mp_dir/kept"
    IOFWD_CLIENT_FILES=20 expect "no memory for the table of descriptors" "done" "$program" unmapped /fwd
    cat >"$mp_dir/right" <<'EOF'
dup2 = -1 ENOMEM
dup3 = -1 ENOMEM
the descriptor = -1 EBADF
dup2 onto a local file = -1 ENOMEM
the local file = 5
F_DUPFD = -1 ENOMEM
dup = -1 ENOMEM
done
EOF
    diff "$mp_dir/out" "$mp_dir/right" >"$mp_dir/different"
    mp_report $? "each of its calls gives ENOMEM" "$mp_dir/different"
fi

# A file system of 1 MiB, where one may be mounted: the same calls on another such.
mkdir "$mp_dir/a" "$mp_dir/b"
if mount -t tmpfs -o size=1m,mode=700 none "$mp_dir/a" 2>/dev/null && mount -t tmpfs -o size=1m,mode=700 none "$mp_dir/b" 2>/dev/null; then
    for setting in IOFWD_CONSISTENCY=posix IOFWD_CONSISTENCY=session AMPHORA_SMP=0 IOFWD_STRIPE=2; do
        rm -rf "$mp_dir"/a/* "$mp_dir"/b/*
        (
            export "${setting?}"
            "$program" full "$mp_dir/a" >"$mp_dir/local" 2>&1
            fwd_servers "$mp_dir/b" "$program" full /fwd >"$mp_dir/forwarded"
        )
        diff "$mp_dir/local" "$mp_dir/forwarded" >"$mp_dir/out" && grep -q ENOSPC "$mp_dir/local"
        mp_report $? "no space left ($setting)" "$mp_dir/out"
    done
else
    for setting in IOFWD_CONSISTENCY=posix IOFWD_CONSISTENCY=session AMPHORA_SMP=0 IOFWD_STRIPE=2; do
        mp_skip "no space left ($setting)" "no file system can be mounted here"
    done
fi
umount "$mp_dir/a" "$mp_dir/b" 2>/dev/null || true

# Another user's files, by a process that may not do everything.
if [ "$(id -u)" = 0 ] && setpriv --bounding-set=-all --inh-caps=-all true 2>/dev/null; then
    deny() {
        for mode in 000 002 004 006 007 644 755; do
            echo "$mode" >"$1/denied-$mode"
            mkdir "$1/denied-d$mode"
            echo inner >"$1/denied-d$mode/inner"
            chown -R 12345:12345 "$1/denied-$mode" "$1/denied-d$mode"
            chmod "$mode" "$1/denied-$mode" "$1/denied-d$mode"
        done
    }
    mkdir "$mp_dir/mine" "$mp_dir/theirs"
    chmod 1777 "$mp_dir/mine" "$mp_dir/theirs"
    chown 12345:12345 "$mp_dir/mine" "$mp_dir/theirs"
    deny "$mp_dir/mine"
    deny "$mp_dir/theirs"
    bare="setpriv --bounding-set=-all --inh-caps=-all"
    $bare "$program" denied "$mp_dir/mine" >"$mp_dir/local" 2>&1
    AMPHORA_STATS=1 timeout 60 $bare "$AMPHORA_RUN" -n 1 -servers 2 -iofwd "/fwd=$mp_dir/theirs" "$program" denied /fwd \
        >"$mp_dir/forwarded" 2>"$mp_dir/stats" </dev/null
    { diff "$mp_dir/local" "$mp_dir/forwarded" && grep -q "EACCES" "$mp_dir/local" && grep -q "EPERM" "$mp_dir/local" &&
        cat "$mp_dir/stats"; } >"$mp_dir/out" 2>&1
    diff -q "$mp_dir/local" "$mp_dir/forwarded" >/dev/null && grep -q "^14 looked at" "$mp_dir/local"
    mp_report $? "another user's files: $(grep -c . "$mp_dir/local") answers" "$mp_dir/out"

    timeout 60 $bare "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/mine" "$program" untraceable / >"$mp_dir/out" 2>&1 </dev/null
    grep -q '^done$' "$mp_dir/out"
    mp_report $? "a program that lets nobody trace it" "$mp_dir/out"

    timeout 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/mine" "$program" capless / >"$mp_dir/out" 2>&1 </dev/null
    grep -q '^done$' "$mp_dir/out"
    mp_report $? "a program that gives its capabilities up" "$mp_dir/out"

    library=$(realpath "$builddir/.libs/libiofwd.so")
    if setpriv --reuid=12345 --clear-groups ldd "$library" 2>/dev/null | grep -q 'libamphora.*=> /'; then
        mkdir "$mp_dir/kept"
        echo x >"$mp_dir/kept/file"
        expect "a program that changes its user is refused" user "$program" user /
    else
        echo "other users cannot read the libraries in this directory" >"$mp_dir/out"
        mp_report 77 "a program that changes its user is refused" "$mp_dir/out"
    fi
else
    mp_skip "another user's files" "needs root, and setpriv (Debian: util-linux)"
    mp_skip "a program that lets nobody trace it" "needs root, and setpriv (Debian: util-linux)"
    mp_skip "a program that gives its capabilities up" "needs root, and setpriv (Debian: util-linux)"
    mp_skip "a program that changes its user is refused" "needs root, and setpriv (Debian: util-linux)"
fi
mp_done
