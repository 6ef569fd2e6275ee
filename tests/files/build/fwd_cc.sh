#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that iofwd-cc has built, in C, C++ and Fortran, dynamic and static: as members of a job, attached to servers that the
# environment names, and without servers, where they make the same calls as the program that was never wrapped.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset IOFWD_CC IOFWD_CXX IOFWD_FC IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
static=yes
for lib in libiofwd_wrap.a libiofwd.a libamphora.a; do
    test -r "$builddir/.libs/$lib" || static=no
done

# without PROGRAM DIR...: what a program does where nothing is forwarded: its output, its exit code, its calls on files in DIR
without() {
    rm -rf "$2"
    mkdir -p "$2"
    if [ "$traced" = yes ]; then
        FWD_CC_CODE=3 strace -f -y -e trace=%file,%desc -o "$mp_dir/trace" "$1" "$2" 2>&1 </dev/null
        echo "exit code $?"
        grep -F "$2" "$mp_dir/trace" | grep -v execve | sed 's/^[0-9]* *//; s/0x[0-9a-f]*/ADDRESS/g; s/st_[amc]time[^,}]*//g;
            s/st_ino=[0-9]*//g; s/gfortrantmp[A-Za-z0-9]*/gfortrantmp/g'
    else
        FWD_CC_CODE=3 "$1" "$2" 2>&1 </dev/null
        echo "exit code $?"
    fi
    (cd "$2" && find . | sort)
}

# attached NAME PROGRAM: the program without a launcher, under the environment of standing servers
attached() {
    attached_name="$1 attached by its environment: as the local run"
    mp_wanted "$attached_name" || return 0
    rm -rf "$mp_dir/kept/"* "$mp_dir/near"
    mkdir "$mp_dir/near"
    "$2" "$mp_dir/near" 2>&1 </dev/null | sed "s#$mp_dir/near#DIR#g" >"$mp_dir/near.out"
    env AMPHORA_JOB="$mp_dir/addresses" IOFWD_PREFIX=/fwd timeout -k 5 60 "$2" /fwd 2>&1 </dev/null | sed "s#/fwd#DIR#g" >"$mp_dir/far.out"
    fwd_tree "$mp_dir/near" | sed "s#$mp_dir/near#DIR#" >"$mp_dir/near.tree"
    fwd_tree "$mp_dir/kept" | sed "s#$mp_dir/kept#DIR#" >"$mp_dir/far.tree"
    { diff "$mp_dir/near.out" "$mp_dir/far.out" && diff "$mp_dir/near.tree" "$mp_dir/far.tree" && test -s "$mp_dir/far.tree"; } \
        >"$mp_dir/out" 2>&1
    mp_report $? "$attached_name" "$mp_dir/out"
}

skip_all() {
    mp_skip "$1: linked" "$2"
    fwd_skip "$1" "$2"
    mp_skip "$1 attached by its environment: as the local run" "$2"
    mp_skip "$1 without servers: the same output and calls as if never wrapped" "$2"
}

traced=no
strace -o /dev/null true 2>/dev/null && traced=yes
mkdir "$mp_dir/kept"
timeout -k 5 60 "$builddir/iofwd-server" -daemon -servers 2 -iofwd "/fwd=$mp_dir/kept" -address-file "$mp_dir/addresses" \
    -pid-file "$mp_dir/pid" >"$mp_dir/out" 2>&1
mp_report $? "standing servers start" "$mp_dir/out"

# program LANGUAGE WRAPPER COMPILER SOURCE OPTIONS...
program() {
    language=$1 wrapper=$2 compiler=$3 source=$4
    shift 4
    name="$language $*"
    case $* in
    *-static*)
        if [ $static = no ]; then
            skip_all "$name" "built without static libraries"
            return
        fi
        ;;
    esac

    if ! command -v "$compiler" >/dev/null || ! "$compiler" "$@" -o "$mp_dir/plain" "$srcdir/tests/files/build/$source" \
        >"$mp_dir/out" 2>&1; then
        skip_all "$name" "$compiler makes no such program here"
        return
    fi
    if ! "$builddir/$wrapper" "$compiler" "$@" -o "$mp_dir/wrapped" "$srcdir/tests/files/build/$source" >"$mp_dir/out" 2>&1; then
        mp_report 1 "$name: linked" "$mp_dir/out"
        return
    fi
    case $* in
    *-static*) ! readelf -d "$mp_dir/wrapped" | grep NEEDED && nm "$mp_dir/wrapped" | grep -q __wrap_open ;;
    *) readelf -d "$mp_dir/wrapped" | grep -m 1 NEEDED | grep -q libiofwd_preload.so ;;
    esac >"$mp_dir/out" 2>&1
    mp_report $? "$name: linked" "$mp_dir/out"

    # The place of scratch files is forwarded too.
    # shellcheck disable=SC2016
    fwd_both "$name" sh -c 'TMPDIR=$2 exec "$1" "$2" "$3"' sh "$mp_dir/wrapped"
    attached "$name" "$mp_dir/wrapped"

    without "$mp_dir/plain" "$mp_dir/dir" >"$mp_dir/without.out"
    mv "$mp_dir/without.out" "$mp_dir/plain.out"
    without "$mp_dir/wrapped" "$mp_dir/dir" >"$mp_dir/without.out"
    mv "$mp_dir/without.out" "$mp_dir/wrapped.out"
    { diff -a "$mp_dir/plain.out" "$mp_dir/wrapped.out" && grep -q '^exit code' "$mp_dir/wrapped.out"; } >"$mp_dir/out" 2>&1
    mp_report $? "$name without servers: the same output and calls as if never wrapped" "$mp_dir/out"
}

for options in "-O2" "-O2 -static" "-O2 -static-pie" "-no-pie" "-flto" "-flto -static"; do
    # shellcheck disable=SC2086
    program C iofwd-cc gcc fwd_cc.c $options
done
for options in "-O1" "-O1 -static"; do
    # shellcheck disable=SC2086
    program C++ iofwd-c++ g++ fwd_cc.cc $options
    # shellcheck disable=SC2086
    program Fortran iofwd-fc gfortran fwd_cc.f90 $options
done
program clang iofwd-cc clang fwd_cc.c -O2
program clang iofwd-cc clang fwd_cc.c -O2 -static

# with_servers COMMAND...: under an environment that names the servers
with_servers() {
    env AMPHORA_JOB="$mp_dir/addresses" IOFWD_PREFIX=/fwd timeout -k 5 60 "$@" 2>&1 </dev/null
}

# What a wrapped program starts finds the servers too, though nothing has set LD_PRELOAD.
printf '#include <stdlib.h>\nint main(void) { return system("echo child >/fwd/child && cat /fwd/child"); }\n' >"$mp_dir/parent.c"
rm -rf "$mp_dir/kept/"*
"$builddir/iofwd-cc" gcc -o "$mp_dir/parent" "$mp_dir/parent.c" >"$mp_dir/out" 2>&1 && with_servers "$mp_dir/parent" >"$mp_dir/out"
test $? -eq 0 && test "$(cat "$mp_dir/out")" = child && test "$(cat "$mp_dir/kept/child")" = child
mp_report $? "what a wrapped program starts is forwarded" "$mp_dir/out"

# A library that iofwd-cc has linked brings the preload library behind the C library, where it catches nothing.
printf 'int helper(void) { return 4; }\n' >"$mp_dir/helper.c"
printf '#include <stdio.h>\nint helper(void);\nint main(void) { FILE *f = fopen("/dev/null", "r"); return f ? helper() : 1; }\n' >"$mp_dir/user.c"
{
    "$builddir/iofwd-cc" gcc -shared -fPIC -o "$mp_dir/libhelper.so" "$mp_dir/helper.c" &&
        gcc -o "$mp_dir/user" "$mp_dir/user.c" -L"$mp_dir" -lhelper -Wl,-rpath,"$mp_dir"
} >"$mp_dir/out" 2>&1 && with_servers "$mp_dir/user" >"$mp_dir/out"
test $? -eq 4 && test "$(wc -l <"$mp_dir/out")" -eq 1 && grep -q 'behind the C library' "$mp_dir/out"
mp_report $? "a wrapped library in a program that is not says that nothing is forwarded" "$mp_dir/out"
"$mp_dir/user" >"$mp_dir/out" 2>&1
test $? -eq 4 && test ! -s "$mp_dir/out"
mp_report $? "a wrapped library in a program that is not is silent without servers" "$mp_dir/out"
printf '#include <dlfcn.h>\n#include <stdio.h>\nint main(int c, char **v) { void *h = dlopen(v[1], RTLD_NOW); int (*f)(void) = h ? (int (*)(void))dlsym(h, "helper") : 0; return f ? f() : 1; }\n' \
    >"$mp_dir/loader.c"
gcc -o "$mp_dir/loader" "$mp_dir/loader.c" -ldl >"$mp_dir/out" 2>&1 && with_servers "$mp_dir/loader" "$mp_dir/libhelper.so" >"$mp_dir/out"
test $? -eq 4 && test "$(wc -l <"$mp_dir/out")" -eq 1 && grep -q 'behind the C library' "$mp_dir/out"
mp_report $? "a wrapped library that is loaded by dlopen says so too" "$mp_dir/out"

# Programs for s390x that are not position-independent have such an address for each function that they call.
cat >"$mp_dir/address.c" <<'X'
#include <stdint.h>
#include <stdio.h>
int __libc_start_main(void);
static volatile uintptr_t address;
int main(void)
{
    address = (uintptr_t)__libc_start_main;
    FILE *f = fopen("/fwd/address", "w");
    return f && fputs("forwarded\n", f) >= 0 && fclose(f) == 0 ? 0 : 1;
}
X
gcc -fno-pie -no-pie -o "$mp_dir/address" "$mp_dir/address.c" >"$mp_dir/out" 2>&1 &&
    timeout -k 5 60 "$builddir/iofwd-run" -preload -servers "$mp_dir/addresses" "$mp_dir/address" >"$mp_dir/out" 2>&1
test $? -eq 0 && test "$(cat "$mp_dir/kept/address")" = forwarded
mp_report $? "a program in which a function has an address of the program's own is forwarded" "$mp_dir/out"
mp_done
