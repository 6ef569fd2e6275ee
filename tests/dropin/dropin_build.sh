#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The make fragments and pkg-config files as they are made: each defines what GASNet's do, with the right values, and agrees with the
# other; objects of different segment modes do not link; false combinations are told.
set -u
builddir=${builddir:-.}
srcdir=${srcdir:-.}
CC=${CC:-cc}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-dropin.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
count=0
inc="-I$srcdir/include"

result() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        sed 's/^/# /' "$dir/out"
    fi
}

names="CC CXX LD CPPFLAGS CFLAGS CXXFLAGS CXXCPPFLAGS LDFLAGS LIBS OPT_CFLAGS OPT_CXXFLAGS DEBUG_CFLAGS DEBUG_CXXFLAGS MISC_CFLAGS
    MISC_CXXFLAGS MISC_CPPFLAGS MISC_CXXCPPFLAGS DEFINES INCLUDES"
# mak FRAGMENT [ASSIGNMENTS...]: NAME=value lines, one blank between words
mak() {
    fragment=$1
    shift
    { echo "include $fragment"; echo 'show:'; for n in $names; do printf '\t@echo "%s=$(GASNET_%s)"\n' $n $n; done; } >"$dir/show.mk"
    MAKEFLAGS= make -s --no-print-directory -f "$dir/show.mk" "$@" show | tr -s ' ' | sed 's/ *$//; s/= /=/'
}
pc() {
    for n in $names; do echo "$n=$(pkg-config --variable=GASNET_$n "$1")"; done | tr -s ' ' | sed 's/ *$//; s/= /=/'
}

cat >"$dir/use.c" <<'EOC'
#include <gasnet.h>
#include <string.h>
#define SAME(a, b) typedef char same_##a[(b) ? 1 : -1]
SAME(mode, MODE == 1);
SAME(conduit, CONDUIT == 1);
SAME(page, GASNET_PAGESIZE == 65536);
SAME(segment, GASNET_SEGMENT_FAST == 1);
const char *names[] = { "name " GASNET_CONDUIT_NAME_STR " core " GASNET_CORE_NAME_STR, GASNET_CONFIG_STRING };
EOC

for conduit in smp tcp udp ofi ibv; do
    upper=$(echo $conduit | tr a-z A-Z)
    for threads in seq par parsync; do
        name=$conduit-$threads
        mode=$(echo $threads | tr a-z A-Z)
        mak "$builddir/dropin/$name.mak" >"$dir/mak.out" 2>"$dir/out"
        cp "$dir/mak.out" "$dir/out"
        [ "$(grep -c '=.' "$dir/mak.out")" -ge 14 ] && grep -q "^DEFINES=.*-DGASNET_$mode=1 -DGASNET_CONDUIT_$upper=1" "$dir/mak.out" &&
            grep -q "^LIBS=-L[^ ]* -lgasnet-$name -lamphora.* -lm" "$dir/mak.out"
        result $? "$name.mak defines GASNet's variables"
        flags=$(mak "$builddir/dropin/$name.mak" AMPHORA_INCLUDEDIR="$srcdir/include" | sed -n 's/^CPPFLAGS=//p')
        $CC $flags -Wall -Werror -DMODE=GASNET_$mode -DCONDUIT=GASNET_CONDUIT_$upper -c "$dir/use.c" -o "$dir/use.o" >"$dir/out" 2>&1 &&
            strings "$dir/use.o" >"$dir/out" && grep -q "name $upper core $upper" "$dir/out" &&
                grep -q "THREADMODEL=$mode,SEGMENT=FAST" "$dir/out"
        result $? "$name: what the headers say"
        if command -v pkg-config >/dev/null 2>&1; then
            PKG_CONFIG_PATH=$builddir/dropin pc "gasnet-$name" >"$dir/pc.out" 2>&1
            diff "$dir/mak.out" "$dir/pc.out" >"$dir/out" 2>&1
            result $? "gasnet-$name.pc says the same"
        else
            count=$((count + 1))
            echo "ok $count - gasnet-$name.pc says the same # SKIP no pkg-config"
        fi
    done
done

mak "$builddir/dropin/smp-par.mak" AMPHORA_PREFIX=/else/where MANUAL_CFLAGS=-Da MANUAL_CXXFLAGS=-Db MANUAL_DEFINES=-Dc MANUAL_LDFLAGS=-Dd \
    MANUAL_LIBS=-De GASNET_LD_OVERRIDE=linker >"$dir/out" 2>&1
grep -q '^CFLAGS=.*-Da' "$dir/out" && grep -q '^CXXFLAGS=.*-Db' "$dir/out" && grep -q '^CPPFLAGS=.*-Dc' "$dir/out" &&
    grep -q '^CXXCPPFLAGS=.*-Dc' "$dir/out" && grep -q '^LDFLAGS=.*-Dd' "$dir/out" && grep -q '^LIBS=.*-De' "$dir/out" &&
        grep -q '^LD=linker$' "$dir/out"
result $? "MANUAL_ and _OVERRIDE variables"

# Segment modes do not mix; conduits do (one library), and so do debugging and other clients.
printf '#include "gasnet.h"\nint f(void);\nint main(void) { return gasnet_init(0, 0) + f(); }\n' >"$dir/main.c"
printf '#include "gasnet.h"\nint f(void);\nint f(void) { return (int)gasnet_nodes(); }\n' >"$dir/f.c"
# link NAME EXPECTED FLAGS-OF-MAIN FLAGS-OF-F
link() {
    $CC $inc -DGASNET_SEQ $3 -c "$dir/main.c" -o "$dir/main.o" >"$dir/out" 2>&1 &&
        $CC $inc -DGASNET_SEQ $4 -c "$dir/f.c" -o "$dir/f.o" >>"$dir/out" 2>&1 &&
        $CC "$dir/main.o" "$dir/f.o" $lib -o "$dir/prog" >>"$dir/out" 2>&1
    l_code=$?
    if [ "$2" = no ]; then
        [ $l_code -ne 0 ] && grep -q 'amphora_client_segment' "$dir/out"
        l_code=$?
    fi
    result $l_code "$1"
}
lib="-L$builddir/.libs -lamphora"
[ -e "$builddir/.libs/libamphora.so" ] || lib="$builddir/.libs/libamphora.a ${NETTLE_LIBS:--lnettle} -ldl -lpthread -lrt"
link "FAST is the default" yes "" -DGASNET_SEGMENT_FAST
link "LARGE and FAST do not link" no -DGASNET_SEGMENT_LARGE ""
link "EVERYTHING and FAST do not link" no "" -DGASNET_SEGMENT_EVERYTHING=1
link "EVERYTHING and EVERYTHING link" yes -DGASNET_SEGMENT_EVERYTHING=1 -DGASNET_SEGMENT_EVERYTHING
link "files built for several conduits link" yes -DGASNET_CONDUIT_UDP -DGASNET_CONDUIT_IBV=1
link "debugging and other files link" yes -DGASNET_DEBUG -DGASNET_NDEBUG
# wrong NAME PATTERN FLAGS
wrong() {
    $CC $inc -DGASNET_SEQ $3 -fsyntax-only "$dir/f.c" >"$dir/out" 2>&1 && echo "it compiles" >>"$dir/out"
    grep -q "error.*$2" "$dir/out"
    result $? "$1"
}
wrong "two conduits are told" 'at most one of GASNET_CONDUIT_SMP' "-DGASNET_CONDUIT_SMP -DGASNET_CONDUIT_TCP"
wrong "two segment modes are told" 'at most one of GASNET_SEGMENT_FAST' "-DGASNET_SEGMENT_LARGE -DGASNET_SEGMENT_EVERYTHING"
echo "1..$count"
