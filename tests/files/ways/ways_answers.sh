#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Answers of the kernel that programs seldom ask for (ways_answers.c) by each way, compared with a run on a local directory.  What differs
# is what doc/limits.md and the manual of iofwd-mount say.
. "${srcdir:-.}/tests/files/mount/mount_lib.sh"
mount_start
trap 'mount_end "$mp_dir/m"' EXIT
unset IOFWD_STRICT IOFWD_OPTIONAL
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR
mkdir -m 700 "$XDG_RUNTIME_DIR"
mkdir "$mp_dir/plain"
answers=$mp_dir/ways_answers
${CC:-cc} -std=gnu11 -D_GNU_SOURCE -O1 -o "$answers" "$srcdir/tests/files/ways/ways_answers.c" || exit 99
echo local >"$mp_dir/in"

can() {
    "$@" >"$mp_dir/can" 2>&1 || tail -n 1 "$mp_dir/can"
}
no_trap=$(can "$builddir/iofwd-run" -servers "$addresses" -trap true)
no_mount=$(can "$builddir/iofwd-run" -servers "$addresses" -mount true)
no_iofwd_mount=
[ -x "$MOUNT" ] && mount_on "$mp_dir/m" 2>"$mp_dir/can" || no_iofwd_mount=$(tail -n 1 "$mp_dir/can")

# work SECTION DIRECTORY COMMAND...: the program's answers to $mp_dir/answers, sentences to $mp_dir/said
work() {
    section=$1 dir=$2
    shift 2
    if [ "$section" = send ]; then
        "$answers" receive "$mp_dir/socket" >"$mp_dir/received" 2>&1 &
        receiver=$!
        mp_until 10 test -S "$mp_dir/socket"
    fi
    timeout -k 5 60 "$@" "$answers" "$dir" "$section" "$mp_dir/socket" >"$mp_dir/answers" 2>"$mp_dir/said" <"$mp_dir/in"
    code=$?
    if [ "$section" = send ]; then
        wait $receiver
        rm -f "$mp_dir/socket"
        cat "$mp_dir/received" >>"$mp_dir/answers"
    fi
    echo "exit code $code" >>"$mp_dir/answers"
}

# same WAY SECTION [SED-SCRIPT]: the way's answers are the direct ones, changed by the script
same() {
    work "$2" "$mp_dir/plain" env
    sed "${3:-}" "$mp_dir/answers" >"$mp_dir/expected"
    case $1 in
    iofwd-mount) work "$2" "$mp_dir/m" env ;;
    *) work "$2" /fwd "$builddir/iofwd-run" -servers "$addresses" "-$1" ;;
    esac
    cat "$mp_dir/said"
    # of a placeholder that nobody can read, the offset means nothing
    sed -i 's/^received: EBADF.*/received: EBADF/' "$mp_dir/answers"
    diff -a "$mp_dir/expected" "$mp_dir/answers"
}

for section in flags special nameless rights; do
    mp_try "preload: $section" same preload $section
done
mp_try "preload: a process that is not forwarded cannot use a descriptor" same preload send 's/^received: read at [47].*/received: EBADF/'

try_trap() {
    if [ -z "$no_trap" ]; then
        mp_try "$@"
    else
        mp_skip "$1" "$no_trap"
    fi
}
try_mount() {
    case $1 in mount:*) why=$no_mount ;; *) why=$no_iofwd_mount ;; esac
    if [ -z "$why" ]; then
        mp_try "$@"
    else
        mp_skip "$1" "$why"
    fi
}
for section in flags nameless rights; do
    try_trap "trap: $section" same trap $section
done
# the first line of standard error is about a socket that is there, the others about those that are not made
try_trap "trap: special" same trap special 's/^\(bind by .*\): 0/\1: EOPNOTSUPP/; /^connect by/d; /^unlink by/d'
sockets_said() {
    cat "$mp_dir/said.special" && [ "$(wc -l <"$mp_dir/said.special")" = 3 ] && [ "$(grep -c "/fwd/bound cannot be made under -trap" "$mp_dir/said.special")" = 2 ] &&
        grep -q "/fwd/socket cannot be reached under -trap" "$mp_dir/said.special"
}
cp "$mp_dir/said" "$mp_dir/said.special"
try_trap "trap: a sentence for each socket" sockets_said
try_trap "trap: a process that receives a descriptor cannot use it" same trap send 's/^received: read at [47].*/received: EBADF/'

for way in mount iofwd-mount; do
    for section in flags special send; do
        try_mount "$way: $section" same $way $section
    done
    try_mount "$way: nameless" same $way nameless 's/^O_TMPFILE: 0/O_TMPFILE: EOPNOTSUPP/; /^fstat of it/,/1 links/d'
done
try_mount "iofwd-mount: rights" same iofwd-mount rights
# In a user name space, which those who may mount do not need, the kernel keeps access lists from file systems of this kind.
one_user=
[ "$(id -u)" != 0 ] || ! setpriv --bounding-set=-sys_admin true 2>/dev/null || one_user="setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin"
if [ -n "$no_mount" ]; then
    mp_skip "mount: rights" "$no_mount"
elif [ "$("$builddir/iofwd-run" -servers "$addresses" -mount readlink /proc/self/ns/user)" = "$(readlink /proc/self/ns/user)" ]; then
    mp_try "mount: rights" same mount rights
else
    mp_skip "mount: rights" "the mount has one user"
fi
no_lists() {
    # shellcheck disable=SC2086 # a prefix of several words, or none
    work rights /fwd $one_user "$builddir/iofwd-run" -servers "$addresses" -mount
    cat "$mp_dir/answers"
    [ "$(grep -Ec '^(system.*|set a list|set a default list|remove a list): EOPNOTSUPP' "$mp_dir/answers")" = 10 ] &&
        grep -qx 'exit code 0' "$mp_dir/answers"
}
try_mount "mount: no access lists" no_lists
mp_done
