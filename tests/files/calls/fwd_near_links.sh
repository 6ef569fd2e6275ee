#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Symbolic links that stay below an export: a program near its servers follows them by itself, and gets what it gets locally; those that
# leave it are the servers'.  See fwd_near_links.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
program=$builddir/tests/files/calls/fwd_near_links
export FWD_STANDING=1 IOFWD_NEAR=1

for section in look_ups below changes attributes new_links open_files renames modes replaced; do
    fwd_both "$section" "$program" "$section"
    fwd_both "$section, by the server" env IOFWD_NEAR=0 "$program" "$section"
done

AMPHORA_SMP=0 AMPHORA_CONDUIT=tcp
export AMPHORA_SMP AMPHORA_CONDUIT
for section in open_files renames modes; do
    fwd_both "$section, over tcp" env IOFWD_NEAR=0 "$program" "$section"
done
unset AMPHORA_SMP AMPHORA_CONDUIT

# ---- without a server's help ----

mkdir -p "$mp_dir/kept/lib/v2" "$mp_dir/kept/bin"
echo text >"$mp_dir/kept/lib/v2/file"
ln -s v2 "$mp_dir/kept/lib/current"
ln -s ../lib/current/file "$mp_dir/kept/bin/tool"
address=$mp_dir/address
"$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$address" >/dev/null 2>&1 </dev/null

calls() {
    "$builddir/iofwd-ctl" status -all -servers "$address" | awk '$1 == "server_calls" { print $2 }'
}

# alone COMMAND: prints "text", and makes no server work
alone() {
    before=$(calls)
    timeout -k 5 60 "$builddir/iofwd-run" -servers "$address" sh -c "$1" </dev/null
    echo "calls: $(($(calls) - before))"
}

# by_itself NAME COMMAND.  Servers of one user share the versions of files, so that a change by another test may make a call ask the server; a
# true fault occurs each time.
by_itself() {
    mp_wanted "$1" || return 0
    for attempt in 1 2 3; do
        alone "$2" >"$mp_dir/out" 2>&1
        printf 'text\ncalls: 0\n' | cmp - "$mp_dir/out" >>"$mp_dir/out" 2>&1 && break
    done
    printf 'text\ncalls: 0\n' | cmp -s - "$mp_dir/out"
    mp_report $? "$1" "$mp_dir/out"
}

by_itself "cat of a link" "cat /fwd/bin/tool"
by_itself "cat below a link" "cat /fwd/lib/current/file"
by_itself "the working directory below a link" "cd /fwd/lib/current && cat file"
by_itself "a working directory and a path that begins above it" "cd /fwd/bin && cat ../lib/current/file"
by_itself "a file that is written by a link" "echo text >/fwd/bin/tool && cat /fwd/bin/tool"
by_itself "a file that is made and moved below a link" "cd /fwd/lib/current && echo text >new && mv new newer && cat newer && rm newer"
by_itself "attributes by a link" "chmod 600 /fwd/bin/tool && touch -d 2001-01-01 /fwd/bin/tool && chown -h \$(id -u) /fwd/bin/tool && cat /fwd/bin/tool"
by_itself "new links" "cd /fwd/lib && ln -s v2/file a && ln v2/file b && cat a && rm a b"
by_itself "a file that is opened as a directory" "cat /fwd/bin/tool/x /fwd/lib/current/file/ 2>/dev/null || cat /fwd/bin/tool"
by_itself "ls and test" "ls -lL /fwd/lib/current /fwd/bin >/dev/null && test -f /fwd/bin/tool && test ! -e /fwd/lib/current/none && echo text"
"$builddir/iofwd-ctl" stop -servers "$address" >"$mp_dir/out" 2>&1
mp_report $? "the server ends" "$mp_dir/out"
mp_done
