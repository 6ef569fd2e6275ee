#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Names that clients look up themselves, below directories that a server has passed to them: the same answers as locally, whatever is on
# the way and whoever changes it.  See fwd_lookups.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/calls/fwd_lookups

fwd_passed "names of all kinds" 1000 names
fwd_passed "names of all kinds, nothing held" 1000 names IOFWD_CACHE_AGE=0
fwd_passed "names of all kinds, switched off" 0 names IOFWD_PASSTHROUGH=0
fwd_passed "changes by others" 500 changes
fwd_passed "sizes" 400 sizes
fwd_passed "who gives the attributes" 30 attributes
fwd_passed "directories that are closed" 500 directories
fwd_passed "descriptors that are closed by the kernel's own call" 100 taken
fwd_passed "threads" 3000 threads
fwd_passed "descriptors of files and of directories at a time" 500 both
fwd_passed "child processes" 150 processes

# ---- what leads out of the export ----

# Links that lead up and out mean this host's tree, as on a mount, and never that of the server.  When a program that moves no versions
# exchanges a directory for such a link, that is noticed.
mkdir -p "$mp_dir/kept/dir/sub" "$mp_dir/kept/way" "$mp_dir/out.of"
echo text | tee "$mp_dir/kept/dir/sub/file" "$mp_dir/kept/way/file" >"$mp_dir/out.of/file"
ln -s ../../out.of "$mp_dir/kept/dir/up"
ln -s ../out.of "$mp_dir/kept/link"
# shellcheck disable=SC2016 # for the shell inside
AMPHORA_STATS=1 timeout -k 5 60 "$AMPHORA_RUN" -n 1 -servers 1 -iofwd "/fwd=$mp_dir/kept" -timeout 50 bash -c '
    for i in {1..20}; do
        test -e /fwd/dir/sub/file && test -e /fwd/way/file || echo "not there"
        test -e /fwd/dir/up/file && echo "led out"
    done
    "$1" foreign /fwd - &
    (unset LD_PRELOAD && mv "$2/kept/way" "$2/kept/away" && mv -T "$2/kept/link" "$2/kept/way")
    wait $!' bash "$program" "$mp_dir" >"$mp_dir/out" 2>&1 </dev/null
grep -qx "then ENOENT" "$mp_dir/out" && ! grep -q "led out\|not there" "$mp_dir/out"
mp_report $? "links that lead out mean this host's tree" "$mp_dir/out"

# ---- what servers know of look-ups ----

# They are in a server's counters while the client still runs, also if it has the descriptor of no file.
mkfifo "$mp_dir/go" "$mp_dir/said"
address=$mp_dir/address
"$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$address" >"$mp_dir/standing" 2>&1 </dev/null
# shellcheck disable=SC2016 # for the shell inside
IOFWD_NEAR=0 timeout -k 5 60 "$builddir/iofwd-run" -servers "$address" bash -c '
    for i in {1..40}; do test -e "/fwd/none$i"; done
    echo looked >"$1/said"
    read -r line <"$1/go"' bash "$mp_dir" >"$mp_dir/looker" 2>&1 </dev/null &
read -r said <"$mp_dir/said"
"$builddir/iofwd-ctl" status -all -servers "$address" >"$mp_dir/out" 2>&1
echo on >"$mp_dir/go"
wait
[ "$said" = looked ] && [ "$(awk '$1 == "server_calls_passed" { print $2 }' "$mp_dir/out")" -ge 20 ]
mp_report $? "look-ups are in the server's counters" "$mp_dir/out" "$mp_dir/looker"
"$builddir/iofwd-ctl" stop -servers "$address" >"$mp_dir/out" 2>&1
mp_report $? "the server ends" "$mp_dir/out"
mp_done
