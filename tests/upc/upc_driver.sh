#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# amphora-upcc as a compiler driver: the command lines of make, CMake, libtool and of other UPC compilers' Makefiles.
. "${srcdir:-.}/tests/lib/lib.sh"
builddir=$(cd "$builddir" && pwd)
upcc="$builddir/amphora-upcc" upcrun="$builddir/amphora-upcrun"
d=$mp_dir/d
mkdir "$d" && cd "$d" || exit 99

cat >head.h <<'X'
#include <upc.h>
#define HEAD 7
X
cat >prog.upc <<'X'
#include "part.h"
#include <stdio.h>
shared int a[4 * THREADS];
int part(shared int *p);
int main(void)
{
    a[MYTHREAD] = MYTHREAD + 1;
    upc_barrier;
    printf("%d\n", part(a));
    return 0;
}
X
cat >part.h <<'X'
#include <upc_relaxed.h>
X
cat >part.c <<'X'
#include "part.h"
int part(shared int *p) { return p[THREADS - 1]; }
X
cat >plain.c <<'X'
#ifdef __UPC__
#error this is C
#endif
#include <stdio.h>
typedef struct { int shared[4]; } box;
static int shared[4], strict;
int plain(box *b);
int plain(box *b)
{
    shared [2] = 1;
    return b->shared[0] + shared[2] + strict;
}
X
cat >only.c <<'X'
#ifdef __UPC__
shared int table[4*THREADS];
int upc = 1;
#else
int upc = 0;
#endif
X
cat >main.c <<'X'
int main(void) { return 0; }
X
cat >asm.S <<'X'
#include "value.h"
        .globl from_assembly
        .data
from_assembly: .long VALUE
        .section .note.GNU-stack,"",%progbits
X
echo '#define VALUE 3' >value.h
"$upcc" -c part.c -o ready.o && ar rc libpart.a ready.o

# ok NAME SHELL-TEXT: the text, with $upcc and $upcrun, ends with 0; its products are removed afterwards
ok() {
    mp_wanted "$1" || return 0
    rm -rf out
    mkdir out
    (
        set -e
        cp -r ./*.[chS] ./*.upc ./*.a out
        cd out
        eval "$2"
    ) >"$mp_dir/out" 2>&1 </dev/null
    mp_report $? "$1" "$mp_dir/out"
}
# no COMMAND...: it must fail ("! COMMAND" ends no script under set -e)
no() {
    if "$@"; then
        return 1
    fi
}
answer='[ "$($upcrun -n 2 ./prog | sort -u)" = 2 ]'

ok "UPC in a .c file" '$upcc prog.upc part.c -o prog; '"$answer"
ok "UPC in all files, as .c" 'cp prog.upc prog.c; $upcc -O2 prog.c part.c -o prog; '"$answer"
ok "-x upc" 'cp prog.upc prog.txt; $upcc -x upc prog.txt -x none part.c -o prog; '"$answer"
ok "-xupc, then C by -x c" 'cp prog.upc prog.txt; $upcc -xupc prog.txt part.c -x c plain.c -o prog; '"$answer"
ok "a .c file without UPC is C, whatever its names" '$upcc -Wall -Werror -c plain.c; nm plain.o | grep -q plain; nm plain.o | no grep -q upcx'
ok "a .c file that is UPC where __UPC__ is defined" '$upcc -c only.c; nm only.o | grep -q upcx'
ok "-x c makes C of it" '$upcc -x c -c only.c; nm only.o | no grep -q upcx'
ok "a C file's message comes once" 'printf "#warning once\nint x;\n" >w.c; $upcc -c w.c 2>e; [ $(grep -c "warning: #warning once" e) = 1 ]'
ok "configure: -dumpmachine, -print-prog-name" '[ "$($upcc -dumpmachine)" = "$(gcc -dumpmachine)" ]; $upcc -print-prog-name=ld'
ok "the standard input: -E -, -x c -" 'echo "#define A 5" | $upcc -E -dM - >e; echo "int x;" | $upcc -x c -c - -o x.o; nm x.o | grep -q x'

ok "-Wl, and -rdynamic leave the next argument alone" '$upcc -Wl,--no-undefined prog.upc -rdynamic part.c -o prog; '"$answer"'
    readelf --dyn-syms prog | grep -q " main$"'
ok "-Xlinker, -z, -u and -L take theirs" '$upcc prog.upc -Xlinker --no-undefined -z now -u part -L . -l part -lm -o prog; '"$answer"
ok "options of the linker keep their places among files" '$upcc prog.upc -Wl,--whole-archive libpart.a -Wl,--no-whole-archive -o prog; '"$answer"'
    $upcc prog.upc -Wl,--start-group libpart.a -Wl,--end-group -Wl,-Bstatic -lpart -Wl,-Bdynamic -L. -o prog; '"$answer"
ok "-s strips" '$upcc -s prog.upc part.c -o prog; '"$answer"'; nm prog | no grep -q main'
ok "-shared" '$upcc -fPIC -shared part.c -o libother.so; $upcc prog.upc -L. -lother -Wl,-rpath,"$PWD" -o prog; '"$answer"
ok "-static-libgcc, -pie, -Wl,-O1, --param" '$upcc -fPIE -pie -static-libgcc -Wl,-O1 --param max-inline-insns-auto=10 prog.upc part.c -o prog; '"$answer"
ok "-link-with" '$upcc -link-with "gcc -Wl,--no-undefined" prog.upc part.c -o prog; '"$answer"
ok "-pg" '$upcc -pg prog.upc part.c -o prog; $upcrun -n 1 ./prog; nm prog | grep -q mcount'
ok "-fopenmp reaches the preprocessor, the compiler and the linker" 'echo "#ifndef _OPENMP
    #error no
    #endif
    #include <upc.h>
    extern int omp_get_max_threads(void); int main(void) { return !omp_get_max_threads(); }" >m.upc; $upcc -fopenmp m.upc -o m; $upcrun -n 1 ./m'
ok "an option that nobody knows is the C compiler's to refuse" 'no $upcc -frobnicate -c prog.upc 2>e; grep -q "frobnicate" e; no $upcc -qzork -c prog.upc'

ok "-M" '$upcc -M prog.upc >e; grep -q "^prog.o: prog.upc" e; grep -q part.h e; grep -q stdio.h e'
ok "-MM, -MF, -MT" '$upcc -MM -MF e -MT zork prog.upc; grep -q "^zork: prog.upc" e; grep -q part.h e'
ok "-MD names the rule as gcc does" '$upcc -MD -c prog.upc; grep -q "^prog.o: prog.upc" prog.d; mkdir sub; $upcc -MMD -c part.c -o sub/x.o
    grep -q "^sub/x.o: part.c" sub/x.d'
ok "-MD -MT -MF -MP, as CMake and automake" '$upcc -MD -MT f/prog.o -MF e.d -MP -c -o prog.o prog.upc; grep -q "^f/prog.o:" e.d; grep -q "^part.h:" e.d
    $upcc -MD -MT f/plain.o -MF e.d -c -o plain.o plain.c; grep -q "^f/plain.o: plain.c" e.d; no grep -q upcx e.d'
ok "-MD while linking" '$upcc -MD prog.upc part.c -o prog; grep -q part.h prog-prog.d; grep -q part.h prog-part.d'
ok "-Wp,-MMD,FILE" '$upcc -Wp,-MMD,e.d -c prog.upc; grep -q part.h e.d'
ok "-S" '$upcc -S prog.upc; grep -q upcx_user_main prog.s; $upcc -S -o p.s part.c; grep -q part: p.s'
ok "-save-temps" '$upcc -save-temps prog.upc part.c -o prog; '"$answer"'; for f in prog part; do [ -s $f.i ] && [ -s $f.trans.c ] && [ -s $f.s ]; done'
ok "-fsyntax-only" '$upcc -fsyntax-only prog.upc plain.c; [ ! -e a.out ] && [ ! -e prog.o ]'
ok "-E, -E -P, -dM" '$upcc -E prog.upc | grep -q "shared int a"; $upcc -E -P part.c | grep -q shared; $upcc -E -dM prog.upc | grep -q "__UPC__ 1"
    $upcc -E plain.c | no grep -q upcx'
ok "-Wc,: options for the C compiler" '$upcc -Wc,-O2,-fno-inline -v -c prog.upc 2>e; grep "cpp-output" e | grep -q -e "-O2 -fno-inline"'
ok "-Wundef and -Werror reach the preprocessor" 'printf "#if ZORK\n#endif\n#include <upc.h>\nint x;\n" >u.upc; no $upcc -Wundef -Werror -c u.upc 2>e
    grep -q ZORK e'
ok "-oFILE, -DX, -D X" 'printf "#include <upc.h>\nint x = A + B;\n" >u.upc; $upcc -DA=1 -D B=2 -c u.upc -ou.o; nm u.o | grep -q x'
ok "-C does not harm a compilation" '$upcc -C -c prog.upc'
ok "assembly and preprocessed C" '$upcc -c asm.S; nm asm.o | grep -q from_assembly; gcc -E main.c -o m.i; $upcc -c m.i; nm m.o | grep -q main'
ok "preprocessed UPC: .upci" '$upcc -E prog.upc -o prog.upci; $upcc prog.upci part.c -o prog; '"$answer"
ok "-include of a file that includes upc.h" 'printf "shared int b[4 * THREADS]; int x = HEAD;\n" >h.upc; $upcc -include head.h -c h.upc
    $upcc -include head.h -c part.c; $upcc -c -include upc_strict.h h.upc -DHEAD=1'
ok "an object among the files of -c is named" '$upcc -c prog.upc ready.o 2>e || { cp ../ready.o .; $upcc -c prog.upc ready.o 2>e; }; grep -q "ready.o is not used" e'

ok "upcc: -T=2 and its other options, with one sentence" '$upcc -T=2 -network=udp -pthreads=2 -shared-heap=64MB -opt -nolines -uses-mpi -O -g \
    prog.upc part.c -o prog 2>e; [ "$($upcrun ./prog | sort -u)" = 2 ]; [ $(wc -l <e) = 1 ]
    grep -q "without effect here: -pthreads=2 -shared-heap=64MB -opt -nolines -uses-mpi" e'
ok "upcc: more threads than pointers-to-shared count are refused with the limit" 'no $upcc -T 1025 -c prog.upc 2>e; grep -q "can be 1024 threads; with -DUPC_PTS_STRUCT" e
    no $upcc -fupc-threads-2000 -c prog.upc; no $upcc -T0 -c prog.upc 2>e; grep -q "from 1 to 1048576" e; $upcc -T 1024 -c prog.upc
    $upcc -T 1025 -DUPC_PTS_STRUCT -c prog.upc; $upcc -D UPC_PTS_STRUCT=1 -T 1025 -c prog.upc; no $upcc -DUPC_PTS_STRUCTURE -T 1025 -c prog.upc'
ok "upcc: -shared-heap 64MB, -network mpi, -translator X" '$upcc -shared-heap 64MB -network mpi -translator=/x/y prog.upc part.c -o prog; '"$answer"
ok "upcc: -network=ibv is verbs" '$upcc -network=ibv prog.upc part.c -o prog; grep -q -a "network=verbs" prog'
ok "upcc: -extern-main is refused with the remedy" 'no $upcc -extern-main -c prog.upc 2>e; grep -q "main must be UPC" e'
ok "gupc: -fupc-threads-2 and its other options" '$upcc -x upc -fupc-threads-2 -fupc-inline-lib -fupc-pthreads-model-tls -dwarf-2-upc -O2 prog.upc part.c \
    -o prog 2>e; [ "$($upcrun ./prog | sort -u)" = 2 ]; [ $(wc -l <e) = 1 ]'
ok "upcrun: -shared-heap is without effect, too" '$upcc prog.upc part.c -o prog; [ "$($upcrun -n 2 -shared-heap 64MB ./prog 2>e | sort -u)" = 2 ]
    [ "$($upcrun -shared-heap=64MB -q -n 2 ./prog | sort -u)" = 2 ]; grep -q "without effect here: -shared-heap" e'
ok "make: suffix rules, dependencies, an archive" 'cat >Makefile <<X
CC = $upcc
CFLAGS = -O2 -MMD -MP -Wall
LDFLAGS = -Wl,--as-needed
.SUFFIXES: .upc
.upc.o: ; \$(CC) \$(CFLAGS) -c \$< -o \$@
prog: prog.o libp.a; \$(CC) \$(LDFLAGS) \$^ -lm -o \$@
libp.a: part.o plain.o; ar rc \$@ \$^
-include *.d
X
    unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES TESTS; make; make -q; touch part.h; no make -q; make; '"$answer"
cd / || exit 99
mp_done
