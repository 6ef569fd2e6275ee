#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# UPC programs as textbooks have them, compiled by amphora-upcc and run on 1 to 7 threads; each compares with what it computes alone.
. "${srcdir:-.}/tests/lib/lib.sh"
upcc="$builddir/amphora-upcc" upcrun="$builddir/amphora-upcrun" from=$srcdir/tests/upc/programs
names="vector_add matmul life heat nqueens pi sort histogram list transpose dot library types features literals forall bits wait spin sized words"
# What goes over which network: the rest would only take the same ways again.
over_network="vector_add sort histogram list features bits"

mp_timeout=120
for p in hello files $names; do
    mp_check "amphora-upcc $p.upc" "$upcc" -O1 -Wall -Werror "$from/$p.upc" -o "$mp_dir/$p" -lm
done
for cc in gcc clang-14; do # an optimiser that may copy structures member by member
    if command -v $cc >/dev/null; then
        mp_check "amphora-upcc padding.upc, $cc -O2" "$upcc" -cc $cc -O2 -Wall -Wextra -Werror "$from/padding.upc" -o "$mp_dir/padding-$cc"
    else
        mp_skip "amphora-upcc padding.upc, $cc -O2" "there is no $cc"
    fi
done
mp_check "amphora-upcc gnu.upc" "$upcc" -std=gnu2x -fms-extensions -Wno-implicit-int "$from/gnu.upc" -o "$mp_dir/gnu"
mp_check "gnu smp n=3" "$upcrun" -n 3 "$mp_dir/gnu"
for std in c89 gnu89 c99 c17; do
    mp_check "amphora-upcc -std=$std -pedantic-errors histogram.upc" "$upcc" -std=$std -pedantic-errors "$from/histogram.upc" -o "$mp_dir/m"
done

# The headers of the C library that a program can include together.
for h in aio alloca argz arpa/inet assert complex ctype dirent dlfcn elf endian err errno error execinfo fcntl fenv float fnmatch ftw \
    getopt glob grp iconv ifaddrs inttypes iso646 langinfo libgen limits link locale malloc math mqueue net/if netdb netinet/in netinet/tcp obstack \
    poll pthread pwd regex sched search semaphore setjmp signal spawn stdarg stdatomic stdbool stddef stdint stdio stdlib string strings \
    sys/epoll sys/eventfd sys/file sys/ioctl sys/ipc sys/mman sys/mount sys/param sys/prctl sys/ptrace sys/queue sys/resource sys/select \
    sys/sendfile sys/shm sys/signalfd sys/socket sys/stat sys/statvfs sys/syscall sys/sysinfo sys/time sys/timerfd sys/times sys/types sys/uio \
    sys/un sys/user sys/utsname sys/wait sys/xattr syslog termios tgmath threads time ucontext unistd utime utmpx uchar wchar wctype x86intrin; do
    echo "#if __has_include(<$h.h>)"
    echo "#include <$h.h>"
    echo "#endif"
done >"$mp_dir/headers.upc"
echo 'shared int a[THREADS]; int main(void) { return a[MYTHREAD]; }' >>"$mp_dir/headers.upc"
mp_check "the headers of the C library" "$upcc" -D_GNU_SOURCE -Wall -Werror "$mp_dir/headers.upc" -o "$mp_dir/headers"
mp_check "the headers of the C library, fortified" "$upcc" -D_GNU_SOURCE -D_FORTIFY_SOURCE=2 -O2 "$mp_dir/headers.upc" -o "$mp_dir/headers"
mp_check "the headers of the C library, POSIX only" "$upcc" -D_POSIX_C_SOURCE=200809L -std=c99 -fopenmp "$mp_dir/headers.upc" -o "$mp_dir/headers"
mp_check "amphora-upcc -T 3: THREADS is a constant" "$upcc" -T 3 "$from/static.upc" -o "$mp_dir/static"
mp_check "several files, compiled one by one: first" "$upcc" -c -I "$from" "$from/several_a.upc" -o "$mp_dir/a.o"
mp_check "several files, compiled one by one: second" "$upcc" -c "$from/several_b.upc" -o "$mp_dir/b.o"
mp_check "several files, compiled one by one: C and linking" "$upcc" "$mp_dir/a.o" "$mp_dir/b.o" "$from/several_c.c" -o "$mp_dir/several"

hello() { [ "$("$upcrun" -n 5 "$mp_dir/hello" | grep -c 'of 5 threads')" = 5 ]; }
mp_timeout=60
hello >"$mp_dir/out" 2>&1
mp_report $? "hello: five threads say so" "$mp_dir/out"
for p in $names several; do
    for n in 1 2 3 7; do
        mp_check "$p smp n=$n" "$upcrun" -n $n -network smp -timeout 50 "$mp_dir/$p"
    done
done
for cc in gcc clang-14; do
    if [ -x "$mp_dir/padding-$cc" ]; then
        mp_check "padding $cc smp n=2" "$upcrun" -n 2 -network smp -timeout 50 "$mp_dir/padding-$cc"
        mp_check "padding $cc udp n=2" env AMPHORA_SMP=0 "$upcrun" -n 2 -network udp -timeout 50 "$mp_dir/padding-$cc"
    else
        mp_skip "padding $cc smp n=2" "there is no $cc"
        mp_skip "padding $cc udp n=2" "there is no $cc"
    fi
done
for net in tcp udp; do
    for p in wait spin; do
        mp_check "$p $net n=3" env AMPHORA_SMP=0 "$upcrun" -n 3 -network $net -timeout 50 "$mp_dir/$p"
    done
    for p in $over_network; do
        mp_check "$p $net n=2" env AMPHORA_SMP=0 "$upcrun" -n 2 -network $net -timeout 50 "$mp_dir/$p"
    done
done
mp_check "files: on this host" "$upcrun" -n 3 "$mp_dir/files" "$mp_dir/data"
mp_check "files: by two servers, over udp" env AMPHORA_SMP=0 "$upcrun" -n 3 -servers 2 -network udp -iofwd "/fwd=$mp_dir" \
    "$mp_dir/files" /fwd/data2
mp_check "files: they are where the servers keep them" cmp "$mp_dir/data" "$mp_dir/data2"
mp_check "static: started without -n" "$upcrun" "$mp_dir/static"
# Programs in the manner of well-known ones, by a Makefile for another compiler.
cat >"$mp_dir/Makefile" <<'X'
UPCFLAGS = -network=udp -pthreads -O3 -std=gnu99 -Wc,-O2 -shared-heap=64M -nolines
all: conjugate stencil steal kmers conjugate-4
%: $(from)/%.upc
	$(UPCC) $(UPCFLAGS) -Wall -o $@ $< -lm
%: $(from)/%.c
	$(UPCC) $(UPCFLAGS) -opt -Wl,--as-needed -o $@ $< -lm
conjugate-4: $(from)/conjugate.upc
	$(UPCC) -T=4 $(UPCFLAGS) -o $@ $< -lm
X
case $from in /*) absolute=$from ;; *) absolute=$PWD/$from ;; esac
case $upcc in /*) compiler=$upcc ;; *) compiler=$PWD/$upcc ;; esac
mp_check "a Makefile for upcc" env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKEOVERRIDES -u TESTS make -C "$mp_dir" UPCC="$compiler" from="$absolute"
for p in conjugate stencil steal kmers; do
    for n in 1 2 3 7; do
        mp_check "$p smp n=$n" "$upcrun" -n $n -network smp -timeout 50 "$mp_dir/$p"
    done
    mp_check "$p udp n=3" env AMPHORA_SMP=0 "$upcrun" -n 3 -network udp -timeout 50 "$mp_dir/$p"
done
mp_check "conjugate for 4 threads" "$upcrun" -network smp -timeout 50 "$mp_dir/conjugate-4"
says() { # NAME CODE WORDS COMMAND...
    what=$1 code=$2 words=$3
    shift 3
    timeout 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    [ $? = "$code" ] && grep -q "$words" "$mp_dir/out"
    mp_report $? "$what" "$mp_dir/out"
}
says "static: another number of threads is refused" 2 "was compiled for 3 threads" "$upcrun" -n 2 "$mp_dir/static"
says "static: also without amphora-upcrun" 1 "3 threads" "$AMPHORA_RUN" -n 2 "$mp_dir/static"
says "no number of threads" 2 "how many threads" "$upcrun" "$mp_dir/hello"
if "$builddir/amphora-info" -n | grep -q '^verbs *no .*not here'; then
    says "a network that is not here: one sentence" 2 "^amphora-upcrun: -network verbs cannot be used here: this machine " \
        "$upcrun" -n 3 -network verbs "$mp_dir/hello"
fi
says "no program" 127 "No such file" "$upcrun" -n 2 "$mp_dir/none"
says "files that disagree on a layout" 1 "the block size differs between the files that declare table" \
    sh -c '"$1" -DWRONG_BLOCK "$2/several_a.upc" "$3/b.o" "$2/several_c.c" -o "$3/wrong" && "$4" -n 2 "$3/wrong"' sh "$upcc" "$from" \
    "$mp_dir" "$upcrun"
says "files for different numbers of threads, by their names" 1 "several_a.upc and .*several_b.upc were compiled for different numbers" \
    sh -c '"$1" -fupc-threads=2 "$2/several_a.upc" "$3/b.o" "$2/several_c.c" -o "$3/wrong" && "$4" "$3/wrong"' \
    sh "$upcc" "$from" "$mp_dir" "$upcrun"
says "a null pointer-to-shared" 134 "null pointer-to-shared" sh -c '"$1" "$2/null.upc" -o "$3/null" && "$4" -n 1 "$3/null"' sh "$upcc" \
    "$from" "$mp_dir" "$upcrun"
says "the compiler's errors name the line of the source" 1 "wrong_c.upc:9:.*incompatible" \
    "$upcc" -Werror -c "$from/wrong_c.upc" -o "$mp_dir/w.o"
says "an unknown pragma of UPC is a warning" 0 "words.upc:16: upcxlate: warning: '#pragma upc lazy' is unknown" \
    "$upcc" -c "$from/words.upc" -o "$mp_dir/words.o"
"$upcc" -Wall -T 2 "$from/pragmas.upc" -o "$mp_dir/pragmas" >"$mp_dir/out" 2>&1
sed -n 's/.*pragmas.upc:\([0-9]*\): warning: ignoring .#pragma unknown .*/\1/p' "$mp_dir/out" | tr '\n' ' ' >"$mp_dir/lines"
test "$(cat "$mp_dir/lines")" = "4 6 10 13 14 17 "
mp_report $? "unknown pragmas are named with their lines" "$mp_dir/out"
says "assert in main names main" 134 "main: Assertion" sh -c '"$1" -DFALSE "$2/words.upc" -o "$3/false" && "$4" -n 1 "$3/false"' \
    sh "$upcc" "$from" "$mp_dir" "$upcrun"
mp_done
