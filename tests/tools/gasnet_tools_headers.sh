#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tools' headers: each name of the specification is there (tests/tools/gasnet_tools.names), clean in C and C++ by GCC and Clang, in
# every thread mode, in any order beside the runtime's headers, in lite mode without a library, from C++, and under ThreadSanitizer.
. "${srcdir:-.}/tests/lib/lib.sh"
CC=${CC:-cc}
CXX=${CXX:-c++}
names=$srcdir/tests/tools/gasnet_tools.names
warnings="-Wall -Wextra -Werror -pedantic"

# compile WHAT COMMAND...: one TAP line
compile() {
    compile_name=$1
    shift
    "$@" >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$compile_name" "$mp_dir/out"
}
have() {
    command -v "${1%% *}" >/dev/null 2>&1
}

# Each name becomes a line that compiles only where it exists.
{
    echo '#include "gasnet_tools.h"'
    sed -n -e 's/^m \(.*\)/#ifndef \1\n#error \1 is not defined\n#endif/p' -e 's/^t \(.*\)/typedef \1 its_\1;/p' \
        -e 's/^f \(.*\)/extern const void *its_\1(void);\nconst void *its_\1(void) { return (const void *)\&\1; }/p' "$names"
} >"$mp_dir/names.c"
[ "$(grep -c '^[mtf-] ' "$names")" = 252 ] && [ "$(sed 's/^. \([^ ]*\).*/\1/' "$names" | sort -u | wc -l)" = 252 ]
mp_report $? "the list has 252 names" "$names"
for mode in SAFE SINGLE; do
    compile "every name is defined, $mode" $CC -std=gnu11 -I"$srcdir/include" -DGASNETT_THREAD_$mode=1 -fsyntax-only "$mp_dir/names.c"
done
echo 'f gasnett_no_such_thing' | sed 's/^f \(.*\)/#include "gasnet_tools.h"\nconst void *p(void) { return \&\1; }/' >"$mp_dir/none.c"
! $CC -I"$srcdir/include" -fsyntax-only "$mp_dir/none.c" >"$mp_dir/out" 2>&1
mp_report $? "a name that is missing would be found" "$mp_dir/out"

cat >"$mp_dir/orders.c" <<'END'
#define ORDER_(a) #a
#define ORDER(a) ORDER_(a)
#include ORDER(FIRST)
#include ORDER(SECOND)
#include ORDER(THIRD)
#include "gasnet_portable_platform.h"
int use(gasnett_atomic_t *a, gasnett_mutex_t *m, gasnett_rwlock_t *r);
int use(gasnett_atomic_t *a, gasnett_mutex_t *m, gasnett_rwlock_t *r)
{
    gex_Rank_t rank = GEX_RANK_INVALID;
    gasnett_mutex_lock(m);
    gasnett_mutex_unlock(m);
    gasnett_rwlock_wrlock(r);
    gasnett_rwlock_assertwrlocked(r);
    gasnett_rwlock_unlock(r);
    gasnett_atomic_set(a, rank, GASNETT_ATOMIC_REL);
    return gasnett_atomic_compare_and_swap(a, 1, 2, GASNETT_ATOMIC_ACQ_IF_TRUE) && GASNETT_SPEC_VERSION_MINOR >= 20;
}
END
cp "$mp_dir/orders.c" "$mp_dir/orders.cc"
orders="gasnet_tools.h,gasnetex.h,gasnet.h gasnet.h,gasnet_tools.h,gasnet_fwd.h gasnetex.h,gasnet_fwd.h,gasnet_tools.h gasnet_fwd.h,gasnet_tools.h,gasnetex.h"
# every_order COMPILER STD FILE: all orders in all modes, with and without checks
every_order() {
    every_rc=0
    : >"$mp_dir/out"
    for order in $orders; do
        first=${order%%,*} third=${order##*,}
        second=${order#*,}
        second=${second%,*}
        for mode in "-DGASNET_SEQ" "-DGASNET_PAR -DGASNET_DEBUG=1" "-DGASNET_PARSYNC"; do
            $1 -std=$2 $warnings $mode -I"$srcdir/include" -DFIRST=$first -DSECOND=$second -DTHIRD=$third -fsyntax-only "$3" \
                >>"$mp_dir/out" 2>&1 || every_rc=1
        done
    done
    mp_report $every_rc "any order of headers: $1 $2" "$mp_dir/out"
}
for std in c99 c11; do
    every_order "$CC" $std "$mp_dir/orders.c"
done
if have "$CXX"; then
    every_order "$CXX" c++11 "$mp_dir/orders.cc"
    every_order "$CXX" c++17 "$mp_dir/orders.cc"
else
    mp_skip "any order of headers: $CXX c++11" "there is no C++ compiler $CXX"
    mp_skip "any order of headers: $CXX c++17" "there is no C++ compiler $CXX"
fi
# Debian's package clang-14 brings no plain name.
clang=clang
have clang || clang=clang-14
if have $clang; then
    every_order $clang c11 "$mp_dir/orders.c"
else
    mp_skip "any order of headers: clang c11" "there is no clang"
fi

# The platform's names for other machines, where a compiler knows them.
while read -r target arch width order; do
    printf '#include "gasnet_portable_platform.h"\n#if !PLATFORM_ARCH_%s || !PLATFORM_ARCH_%s || !PLATFORM_ARCH_%s_ENDIAN || !PLATFORM_OS_LINUX\n#error no\n#endif\n#if PLATFORM_COMPILER_GNU || !PLATFORM_COMPILER_CLANG_C\n#error no\n#endif\nextern int x;\n' \
        "$arch" "$width" "$order" >"$mp_dir/arch.c"
    if ! have $clang; then
        mp_skip "names for $target" "there is no clang"
    elif ! echo 'int x;' | $clang --target="$target" -fsyntax-only -xc - >/dev/null 2>&1; then
        mp_skip "names for $target" "$clang does not know this target"
    else
        compile "names for $target" $clang --target="$target" -std=c99 $warnings -I"$srcdir/include" -fsyntax-only "$mp_dir/arch.c"
    fi
done <<'END'
x86_64-linux-gnu X86_64 64 LITTLE
i686-linux-gnu X86 32 LITTLE
aarch64-linux-gnu AARCH64 64 LITTLE
arm-linux-gnueabihf ARM 32 LITTLE
powerpc64-linux-gnu POWERPC 64 BIG
powerpc64le-linux-gnu POWERPC 64 LITTLE
s390x-linux-gnu S390 64 BIG
riscv64-linux-gnu RISCV 64 LITTLE
mips-linux-gnu MIPS 32 BIG
sparc64-linux-gnu SPARC 64 BIG
END

cat >"$mp_dir/lite.c" <<'END'
#define GASNETT_LITE_MODE 1
#include "gasnet_tools.h"
static gasnett_atomic_t a = gasnett_atomic_init(1);
int main(void)
{
    gasnett_local_mb();
    gasnett_atomic_increment(&a, 0);
    return gasnett_atomic_read(&a, GASNETT_ATOMIC_ACQ) == 2 && PLATFORM_OS_LINUX && GASNETT_PREDICT_TRUE(1) ? 0 : 1;
}
END
compile "lite mode needs no library" $CC -std=c11 $warnings -I"$srcdir/include" "$mp_dir/lite.c" -o "$mp_dir/lite"
mp_check "lite mode works" "$mp_dir/lite"

if have "$CXX"; then
    for mode in seq,SINGLE, par,SAFE, par,SAFE,-DGASNET_DEBUG=1; do
        lib=${mode%%,*} debug=${mode##*,} macro=${mode#*,}
        macro=${macro%,*}
        compile "from C++, $mode" $CXX -std=c++11 $warnings $debug -I"$srcdir/include" -DGASNETT_THREAD_$macro=1 \
            "$srcdir/tests/tools/gasnet_tools_use.cc" "$builddir/libgasnet_tools-$lib.a" -o "$mp_dir/use" \
            -lpthread -ldl -lm ${AMPH_SAN_FLAGS:-}
        mp_check "it works, $mode" "$mp_dir/use"
    done
else
    for mode in seq,SINGLE, par,SAFE, par,SAFE,-DGASNET_DEBUG=1; do
        mp_skip "from C++, $mode" "there is no C++ compiler $CXX"
        mp_skip "it works, $mode" "there is no C++ compiler $CXX"
    done
fi

# A library built with a sanitizer needs its runtime; then this test, which brings another one, has no place.
if nm "$builddir/libgasnet_tools-par.a" 2>/dev/null | grep -Eq '__(asan|tsan|ubsan)_'; then
    mp_skip "compiles for ThreadSanitizer" "the library is built with another sanitizer"
    mp_skip "no data race" "the library is built with another sanitizer"
elif echo 'int main(void) { return 0; }' | $CC -fsanitize=thread -xc - -o "$mp_dir/tsan" >/dev/null 2>&1 &&
    "$mp_dir/tsan" >/dev/null 2>&1; then
    compile "compiles for ThreadSanitizer" $CC -std=gnu11 -O1 -g $warnings -fsanitize=thread -I"$srcdir/include" -DGASNETT_THREAD_SAFE=1 \
        "$srcdir/tests/tools/gasnet_tools_race.c" "$builddir/libgasnet_tools-par.a" -o "$mp_dir/race" -lpthread -ldl -lm
    mp_check "no data race" env TSAN_OPTIONS=exitcode=66 "$mp_dir/race"
else
    mp_skip "compiles for ThreadSanitizer" "ThreadSanitizer does not run here"
    mp_skip "no data race" "ThreadSanitizer does not run here"
fi
mp_done
