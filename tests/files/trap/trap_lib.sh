# SPDX-License-Identifier: BSD-3-Clause
# For tests of iofwd-run -trap: standing servers that keep /fwd in $mp_dir/kept.  Sourced by the tests beside it.

# -trap needs no privilege: what root may do beyond others is taken from it.
if [ "$(id -u)" = 0 ] && [ -z "${trap_unprivileged:-}" ] && setpriv --bounding-set=-all true 2>/dev/null; then
    export trap_unprivileged=1
    exec setpriv --bounding-set=-all sh "$0" "$@"
fi
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"

# run COMMAND...: under the supervisor
run() {
    timeout -k 5 "${trap_limit:-60}" "$builddir/iofwd-run" -servers "$addresses" -trap "$@"
}

# build_static NAME: compiles NAME.c beside this file, without libraries, to $mp_dir/NAME
build_static() {
    ${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -static -o "$mp_dir/$1" "$srcdir/tests/files/trap/$1.c" -lpthread || exit 99
}

# both PROGRAM CASE: it passes in a local directory and below /fwd
both() {
    mp_wanted "$2" || return 0
    mkdir -p "$mp_dir/plain/$2" "$mp_dir/kept/$2"
    timeout -k 5 "${trap_limit:-60}" "$mp_dir/$1" "$2" "$mp_dir/plain/$2" >"$mp_dir/out" 2>&1 </dev/null &&
        run "$mp_dir/$1" "$2" "/fwd/$2" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$2" "$mp_dir/out"
    cp "$mp_dir/out" "$mp_dir/$2.out"
}

# said CASE TEXT: the run of that case printed it
said() {
    mp_wanted "$1" || return 0
    grep -q "$2" "$mp_dir/$1.out"
    mp_report $? "$1: says: $2" "$mp_dir/$1.out"
}

# trap_or_skip WHAT: starts the servers; ends the test with a skip where the kernel does not report calls
trap_or_skip() {
    mount_start
    trap 'mount_end' EXIT
    if ! run busybox true 2>"$mp_dir/why"; then
        case $(cat "$mp_dir/why") in
        *"iofwd-run -mount runs the program"*)
            echo "1..1"
            echo "ok 1 - $1 # SKIP $(head -1 "$mp_dir/why")"
            exit 0
            ;;
        esac
        echo "Bail out! $(cat "$mp_dir/why")"
        exit 99
    fi
}

# same NAME SHELL-COMMAND: the same output, exit code and files in a local directory and below /fwd
same() {
    mp_wanted "$1" || return 0
    rm -rf "$mp_dir/plain" "$mp_dir/kept/w"
    mkdir -p "$mp_dir/plain/w" "$mp_dir/kept/w"
    (cd "$mp_dir/plain/w" && busybox sh -uc "$2") >"$mp_dir/l.out" 2>&1
    echo "exit code $?" >>"$mp_dir/l.out"
    sed -i "s,$mp_dir/plain,/fwd,g" "$mp_dir/l.out"
    run busybox sh -uc "cd /fwd/w && $2" >"$mp_dir/out" 2>&1
    echo "exit code $?" >>"$mp_dir/out"
    cmp "$mp_dir/l.out" "$mp_dir/out" && diff -r "$mp_dir/plain/w" "$mp_dir/kept/w" >>"$mp_dir/out"
    mp_report $? "$1" "$mp_dir/out"
}
