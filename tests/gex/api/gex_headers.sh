#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The public headers: clean as C99, C11 and C++11 with all warnings, in all three thread modes; and files of different modes do not
# link, be they C or C++, against the shared library or the static one.
set -u
builddir=${builddir:-.}
srcdir=${srcdir:-.}
CC=${CC:-cc}
CXX=${CXX:-c++}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-headers.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
count=0
inc="-I$srcdir/include"

# result STATUS NAME: a TAP line with the output if it failed
result() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        echo "not ok $count - $2"
        sed 's/^/# /' "$dir/out"
    fi
}

# skip NAME REASON
skip() {
    count=$((count + 1))
    echo "ok $count - $1 # SKIP $2"
}

cat >"$dir/use.c" <<'EOF'
#include "gasnet.h"
#include "gasnet_coll.h"
#include "gasnetex.h"
#include "amphora.h"
#include "gasnet_mk.h"
static gex_HSL_t lock = GEX_HSL_INITIALIZER;
static void handler(gex_Token_t token, void *buf, size_t nbytes, gex_AM_Arg_t arg)
{
    (void)gex_AM_ReplyMedium1(token, 200, buf, nbytes, GEX_EVENT_NOW, 0, arg);
    (void)gex_AM_ReplyShort(token, 201, 0);
}
int USE(void);
int USE(void)
{
    gex_AM_Entry_t entry = { 0, (gex_AM_Fn_t)handler, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQREP, 1, NULL, "handler" };
    gasnet_handlerentry_t old = { 0, (void (*)())handler };
    gex_TM_t tm = amphora_team0;
    gex_Event_t lc;
    char c[8] = { 0 };
    gex_EP_Location_t places[1] = { { 0, 0 } };
    gex_MK_Create_args_t kind = { 0, GEX_MK_CLASS_HOST, { { 0 } } };
    gex_MK_t mk = GEX_MK_HOST;
    gex_Segment_t seg;
    gex_TM_t part;
    gex_EP_t ep;
    gex_Memvec_t scratch;
    const gex_ProgressThreadInfo_t *threads;
    unsigned int count;
    GASNET_BEGIN_FUNCTION();
    if (gex_EP_Create(&ep, gex_TM_QueryClient(tm), GEX_EP_CAPABILITY_RMA | GEX_EP_CAPABILITY_AM, 0) ||
        gex_MK_Create(&mk, gex_EP_QueryClient(ep), &kind, 0) || gex_Segment_Create(&seg, gex_EP_QueryClient(ep), NULL, 4096, mk, 0))
        return 1;
    gex_EP_BindSegment(ep, seg, 0);
    if (gex_EP_PublishBoundSegment(tm, &ep, 1, 0) || gex_System_QueryProgressThreads(gex_EP_QueryClient(ep), &count, &threads, 0))
        return 1;
    (void)gex_TM_Split(&part, tm, 0, 0, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    (void)gex_TM_Create(&part, 1, tm, places, 1, NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
    if (gex_TM_Destroy(part, &scratch, GEX_FLAG_GLOBALLY_QUIESCED) || gex_Segment_Destroy(seg, 0))
        return 1;
    gex_MK_Destroy(mk, 0);
    if (gasnet_init(NULL, NULL) || gasnet_attach(&old, 1, GASNET_PAGESIZE, 0) || gex_EP_RegisterHandlers(gex_TM_QueryEP(tm), &entry, 1))
        return 1;
    gex_HSL_Lock(&lock);
    gex_HSL_Unlock(&lock);
    (void)gex_AM_RequestLong(tm, 0, 200, c, sizeof c, c, &lc, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    gex_Event_Wait(gex_RMA_PutNB(tm, 0, c, c, sizeof c, GEX_EVENT_DEFER, 0));
    GASNET_BLOCKUNTIL(c[0] == 0);
    return gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS) + (int)amphora_relative();
}
EOF
cp "$dir/use.c" "$dir/use.cc"

# What gasnetex.h alone brings, and gasnet_fwd.h without a thread mode.
cat >"$dir/alone.c" <<'EOF'
#include "gasnetex.h"
int alone(gasnett_tick_t since);
int alone(gasnett_tick_t since)
{
    char *text = (char *)malloc(20);
    printf("%s: %d\n", _STRINGIFY(GASNET_CONDUIT_NAME), (int)(gasnett_ticks_now() - since));
    free(text);
    sleep(0);
    gasnet_barrier_notify(1, 0);
    while (gasnet_barrier_try(1, 0) == GASNET_ERR_NOT_READY)
        gasnett_spinloop_hint();
    gasnet_barrier_notify(1, 0);
    return gasnet_barrier_wait(1, 0) + gasnet_barrier(1, 0) + gasnet_barrier_result(NULL);
}
EOF
cat >"$dir/fwd.c" <<'EOF'
#include "gasnet_fwd.h"
struct passed { gex_OP_t op; gex_DT_t dt; gex_TM_t tm; gex_Flags_t flags; };
struct passed pass(gex_TM_t tm);
struct passed pass(gex_TM_t tm)
{
    struct passed p;
    p.op = GEX_OP_TO_FETCHING(GEX_OP_ADD), p.dt = GEX_DT_DBL, p.tm = tm, p.flags = GEX_FLAG_IMMEDIATE;
    return p;
}
EOF
cp "$dir/alone.c" "$dir/alone.cc"
cp "$dir/fwd.c" "$dir/fwd.cc"

warnings="-Wall -Wextra -Werror -pedantic -Wundef -Wconversion -Wsign-conversion -Wcast-qual"
c_warnings="-Wdeclaration-after-statement -Wshadow"
for std in c99 c11; do
    $CC -std=$std $warnings $c_warnings -DGASNET_SEQ $inc -fsyntax-only "$dir/alone.c" >"$dir/out" 2>&1 &&
        $CC -std=$std $warnings $c_warnings $inc -fsyntax-only "$dir/fwd.c" >"$dir/out" 2>&1
    result $? "$std, gasnetex.h and gasnet_fwd.h alone"
done
if command -v ${CXX%% *} >/dev/null 2>&1; then
    $CXX -std=c++11 $warnings -DGASNET_PAR $inc -fsyntax-only "$dir/alone.cc" >"$dir/out" 2>&1 &&
        $CXX -std=c++11 $warnings $inc -fsyntax-only "$dir/fwd.cc" >"$dir/out" 2>&1
    result $? "c++11, gasnetex.h and gasnet_fwd.h alone"
else
    skip "c++11, gasnetex.h and gasnet_fwd.h alone" "no compiler $CXX"
fi
for mode in SEQ PARSYNC PAR; do
    for std in c99 c11; do
        $CC -std=$std $warnings $c_warnings -DGASNET_$mode -DUSE=use_c $inc -fsyntax-only "$dir/use.c" >"$dir/out" 2>&1
        result $? "$std, $mode"
    done
    if command -v ${CXX%% *} >/dev/null 2>&1; then
        $CXX -std=c++11 $warnings -DGASNET_$mode -DUSE=use_cc $inc -fsyntax-only "$dir/use.cc" >"$dir/out" 2>&1
        result $? "c++11, $mode"
    else
        skip "c++11, $mode" "no compiler $CXX"
    fi
done
# Optimized: the warnings that need the flow of the code. The OpenSHMEM reference implementation goes on after an error like this.
cat >"$dir/flow.c" <<'EOF'
#include "gasnet.h"
extern void complain(const char *name);
extern int heard[];
void flow(gasnet_token_t token);
void flow(gasnet_token_t token)
{
    gasnet_node_t source;
    int err = gasnet_AMGetMsgSource(token, &source);
    if (err != GASNET_OK)
        complain(gasnet_ErrorName(err));
    heard[source]++;
}
EOF
for level in 1 2 3; do
    $CC -std=c11 -O$level $warnings -DGASNET_PAR $inc -c -o "$dir/flow.o" "$dir/flow.c" || echo "not with -O$level"
done >"$dir/out" 2>&1
[ ! -s "$dir/out" ]
result $? "what inlined calls write, after errors too"

# Names that configure scripts of clients (UPC++'s, for one) want to find defined, with the tools beside gasnetex.h or alone.
cat >"$dir/probe.c" <<'EOF'
#ifndef LITE
#include <gasnetex.h>
#include <gasnet_mk.h>
#endif
#include <gasnet_tools.h>
#include <gasnet_portable_platform.h>
#include <sys/param.h>
EOF
names="GASNETT_NEVER_INLINE GASNETT_NORETURN GASNETT_PURE GASNETT_CONST GASNETT_IDENT gasnett_spinloop_hint gasneti_builtin_unreachable
    GASNETT_PREDICT_TRUE GASNETT_PREDICT_FALSE gasnett_assume PLATFORM_COMPILER_IDSTR _STRINGIFY _INCLUDED_GASNET_TOOLS_H PRIuSZ MIN MAX
    GASNET_RELEASE_VERSION_MAJOR"
for name in $names; do
    printf '#ifndef %s\n#error "%s is not defined"\n#endif\n' $name $name
done >>"$dir/probe.c"
cp "$dir/probe.c" "$dir/probe.cc"
printf '#ifndef GASNET_MAXEPS\n#error "GASNET_MAXEPS is not defined"\n#endif\n' | cat "$dir/probe.c" - >"$dir/probe_all.c"
$CC -std=c11 $warnings $c_warnings -DGASNET_PAR $inc -fsyntax-only "$dir/probe_all.c" >"$dir/out" 2>&1
result $? "what configure scripts look for, beside gasnetex.h"
$CC -std=c11 $warnings $c_warnings -DLITE -DGASNETT_LITE_MODE $inc -fsyntax-only "$dir/probe.c" >"$dir/out" 2>&1
result $? "the same, tools alone in lite mode"
if command -v ${CXX%% *} >/dev/null 2>&1; then
    $CXX -std=c++11 $warnings -DGASNET_SEQ $inc -fsyntax-only "$dir/probe.cc" >"$dir/out" 2>&1
    result $? "the same in C++"
else
    skip "the same in C++" "no compiler $CXX"
fi

# Open MPI's mpi.h has names of gasnet_portable_platform.h with other values.
cat >"$dir/other.h" <<'EOF'
#define PLATFORM_COMPILER_FAMILYNAME OTHER
#define PLATFORM_COMPILER_FAMILYID 77
#define PLATFORM_COMPILER_VERSION_INT(maj, min, pat) ((maj) << 20 | (min) << 10 | (pat))
#define PLATFORM_COMPILER_VERSION PLATFORM_COMPILER_VERSION_INT(3, 2, 1)
#define PLATFORM_COMPILER_VERSION_STR "3.2.1"
EOF
cat "$dir/other.h" "$dir/alone.c" >"$dir/after.c"
$CC -std=c11 $warnings -DGASNET_SEQ $inc -fsyntax-only "$dir/after.c" >"$dir/out" 2>&1
result $? "after a header with the same names of platforms"

$CC $inc -DUSE=use_c -fsyntax-only "$dir/use.c" >"$dir/out" 2>&1 && echo "compiled without a mode" >>"$dir/out"
grep -q 'define exactly one of GASNET_SEQ' "$dir/out"
result $? "a client without a thread mode is told so"
printf '#include "gasnetex.h"\nint f(gex_TM_t tm) { return gex_AM_RequestShort(tm, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17); }\n' >"$dir/many.c"
$CC $inc -DGASNET_SEQ -Werror -fsyntax-only "$dir/many.c" >"$dir/out" 2>&1
many=$?
[ $many -ne 0 ] && grep -q 'gex_AM_RequestShortTooManyArguments' "$dir/out"
result $? "17 arguments do not compile, and the error says why"

# Linking: main in C, another file in C or C++, of the same mode or another.
printf 'int USE(void);\nint main(void) { return USE() == 12345; }\n' >"$dir/main.c"
printf '#include "gasnetex.h"\n' | cat - "$dir/main.c" >"$dir/main2.c"
for lang in c cc; do
    compiler=$CC
    [ $lang = cc ] && compiler=$CXX
    if ! command -v ${compiler%% *} >/dev/null 2>&1; then
        for kind in shared static; do
            skip "$lang: SEQ and SEQ link with the $kind library" "no compiler $compiler"
            skip "$lang: SEQ and PAR do not link with the $kind library" "no compiler $compiler"
        done
        continue
    fi
    linkage=
    [ $lang = cc ] && printf '#ifdef __cplusplus\nextern "C"\n#endif\nint USE(void);\n' | cat - "$dir/use.cc" >"$dir/use2.cc"
    [ $lang = c ] && cp "$dir/use.c" "$dir/use2.c"
    $CC $inc -O1 -DGASNET_SEQ -DUSE=use_it -c "$dir/main2.c" -o "$dir/main.o" >"$dir/out" 2>&1
    for mode in SEQ PAR; do
        $compiler $inc -O1 -DGASNET_$mode -DUSE=use_it -c "$dir/use2.$lang" -o "$dir/use_$mode.o" >>"$dir/out" 2>&1
    done
    for kind in shared static; do
        if [ $kind = shared ]; then
            lib="-L$builddir/.libs -lamphora"
            built=$builddir/.libs/libamphora.so
        else
            lib="$builddir/.libs/libamphora.a ${NETTLE_LIBS:--lnettle} -ldl -lpthread -lrt"
            built=$builddir/.libs/libamphora.a
        fi
        if [ ! -e "$built" ]; then
            skip "$lang: SEQ and SEQ link with the $kind library" "built without ${built##*/}"
            skip "$lang: SEQ and PAR do not link with the $kind library" "built without ${built##*/}"
            continue
        fi
        $compiler "$dir/main.o" "$dir/use_SEQ.o" $lib -o "$dir/prog" >"$dir/out" 2>&1
        result $? "$lang: SEQ and SEQ link with the $kind library"
        $compiler "$dir/main.o" "$dir/use_PAR.o" $lib -o "$dir/prog" >"$dir/out" 2>&1
        mixed=$?
        [ $mixed -ne 0 ] && grep -q 'amphora_client_threadmode' "$dir/out"
        result $? "$lang: SEQ and PAR do not link with the $kind library"
    done
done
echo "1..$count"
