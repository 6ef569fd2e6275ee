#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-cc, iofwd-c++ and iofwd-fc: which compiler they run, what they add to which link, what they leave as it is, crashes, bad input.
# What the programs do is the subject of fwd_cc.sh.
. "${srcdir:-.}/tests/lib/lib.sh"
unset IOFWD_CC IOFWD_CXX IOFWD_FC IOFWD_CC_LINK IOFWD_CC_RETRY LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
cc=$builddir/iofwd-cc
cd "$mp_dir" || exit 99
static=no
test -r "$builddir/.libs/libiofwd_wrap.a" && static=yes
printf 'int helper(void);\nint main(void) { return helper(); }\n' >main.c
printf 'int helper(void) { return 0; }\n' >helper.c
printf 'int main() { return 0; }\n' >main.cc
printf 'program p\nend program\n' >main.f90

# first FILE: the first library that a program needs, sanitizers' aside
first() {
    readelf -d "$1" | sed -n '/NEEDED/s/.*\[\(.*\)\]/\1/p' | grep -v 'lib[a-z]*san\.so' | head -n 1
}

is_forwarding() {
    test "$(first "$1")" = libiofwd_preload.so || nm "$1" 2>/dev/null | grep -q ' __wrap_open$'
}

# check NAME COMMAND...: a shell function or command
check() {
    check_name=$1
    shift
    mp_wanted "$check_name" || return 0
    "$@" >out 2>&1 </dev/null
    mp_report $? "$check_name" out
}

# links NAME OPTION...: the options make a program that forwards, and runs
links() {
    links_name="links: $1"
    shift
    mp_wanted "$links_name" || return 0
    rm -f a.out
    { timeout 60 "$cc" "$@" && timeout 10 ./a.out && is_forwarding a.out; } >out 2>&1 </dev/null
    mp_report $? "$links_name" out
}

# same NAME COMMAND...: the words after a compiler's name give the same output and exit code with and without iofwd-cc
same() {
    same_name="as it is: $1"
    shift
    mp_wanted "$same_name" || return 0
    rm -rf one two
    mkdir one two
    (cd one && timeout 60 "$@" >../one.out 2>&1 <../main.c; echo "exit code $?" >>../one.out)
    (cd two && timeout 60 "$cc" "$@" >../two.out 2>&1 <../main.c; echo "exit code $?" >>../two.out)
    { diff one.out two.out && diff -r one two; } >out 2>&1
    mp_report $? "$same_name" out
}

# refused NAME PATTERN CODE COMMAND...: one sentence that has the pattern, and that exit code
refused() {
    refused_name="refused: $1"
    pattern=$2 code=$3
    shift 3
    mp_wanted "$refused_name" || return 0
    timeout 60 "$@" >out 2>&1 </dev/null
    got=$?
    test $got -eq "$code" && test "$(wc -l <out)" -eq 1 && grep -q "$pattern" out
    mp_report $? "$refused_name" out
}

# ---- what is linked ----
links "a dynamic program" main.c helper.c
links "with --as-needed" -Wl,--as-needed main.c helper.c
links "with link-time optimisation" -O2 -flto main.c helper.c
links "without PIE" -no-pie main.c helper.c
links "from standard input's language (-x)" -x c main.c helper.c
check "objects are compiled alone" "$cc" gcc -c main.c helper.c
links "objects" main.o helper.o
ar rc libhelper.a helper.o
links "an archive" main.o -L. -lhelper
printf '%s\n' "main.c -o 'a.out' helper.c -Wl,-Bstatic -L. -lhelper -Wl,-Bdynamic" >words
links "a response file" @words
check "a shared library" sh -c '"$1" -shared -fPIC -o libshared.so helper.c && test "$(readelf -d libshared.so |
    grep -m 1 -c "NEEDED.*libiofwd_preload.so")" = 1' sh "$cc"
links "against a shared library" main.c -L. -lshared -Wl,-rpath,"$mp_dir"
links "by gcc's name" gcc main.c helper.c
mkdir -p "a, b/.libs"
cp "$builddir/.libs/iofwd-cc" "$builddir/.libs/libiofwd_preload.so" "a, b/.libs/"
: >"a, b/libiofwd.la"
check "from an installation with a comma and a blank in its path" sh -c 'LD_LIBRARY_PATH=$1/.libs "a, b/.libs/iofwd-cc" main.c helper.c -o comma &&
    ./comma && readelf -d comma | grep "runpath: .*a, b/.libs"' sh "$builddir"
check "a program from a pipe" sh -c 'echo "int main(void) { return 0; }" | "$1" -x c - -o piped && ./piped' sh "$cc"
if [ $static = yes ]; then
    links "a static program" -static main.c helper.c
    links "a static PIE" -static-pie main.c helper.c
    links "a static program with link-time optimisation" -O2 -static -flto main.c helper.c
    check "a static link prints no warning that the program has not caused" sh -c '"$1" -static main.c helper.c 2>&1 | grep . && exit 1
        echo "char *mktemp(char *); int helper(void) { char a[] = \"XXXXXX\"; return !mktemp(a); }" >warned.c
        "$1" -static main.c warned.c 2>&1 | grep -c warning | grep -x 1' sh "$cc"
    if command -v ld.gold >/dev/null; then
        check "gold prints no warning of a static link that the program has not caused" sh -c '
            "$1" -fuse-ld=gold -static main.c helper.c 2>&1 | grep . && exit 1
            echo "#include <dlfcn.h>
                int helper(void) { return !dlopen(\"x\", 1); }" >warned.c
            "$1" -fuse-ld=gold -static main.c warned.c 2>&1 | grep -c "warned.c.*warning" | grep -x 1' sh "$cc"
    else
        mp_skip "gold prints no warning of a static link that the program has not caused" "there is no ld.gold here"
    fi
    check "errors of a static link stay" sh -c '"$1" -static main.c 2>&1 | grep "undefined reference.*helper"' sh "$cc"
    printf '%s\n' "-static main.c" "helper.c" >words
    links "a static program by a response file" @words
else
    mp_skip "a static link prints no warning that the program has not caused" "built without static libraries"
    mp_skip "gold prints no warning of a static link that the program has not caused" "built without static libraries"
    mp_skip "errors of a static link stay" "built without static libraries"
    for name in "a static program" "a static PIE" "a static program with link-time optimisation" "a static program by a response file"; do
        mp_skip "links: $name" "built without static libraries"
    done
fi
if printf 'int main(void) { return 0; }\n' | gcc -fsanitize=address -x c - -o sanitized 2>out && ./sanitized; then
    links "a program with AddressSanitizer" gcc -fsanitize=address main.c helper.c
else
    mp_skip "links: a program with AddressSanitizer" "gcc has no such library here"
fi
for linker in gold lld; do
    if command -v ld.$linker >/dev/null; then
        links "by $linker" gcc -fuse-ld=$linker main.c helper.c
    else
        mp_skip "links: by $linker" "there is no ld.$linker here"
    fi
done
for compiler in clang mpicc g++; do
    if command -v $compiler >/dev/null; then
        printf 'int main(void) { return 0; }\n' >alone.c
        links "by $compiler" $compiler alone.c
    else
        mp_skip "links: by $compiler" "there is no $compiler here"
    fi
done
check "iofwd-c++ runs c++" sh -c '"$1" main.cc -o cxx && readelf -d cxx | grep -q libiofwd_preload' sh "$builddir/iofwd-c++"
if command -v gfortran >/dev/null; then
    check "iofwd-fc runs gfortran" sh -c '"$1" main.f90 -o fc && readelf -d fc | grep -m 1 NEEDED | grep -q libiofwd_preload' sh \
        "$builddir/iofwd-fc"
else
    mp_skip "iofwd-fc runs gfortran" "there is no gfortran here"
fi
check "IOFWD_CC names the compiler and its options" sh -c 'IOFWD_CC="gcc -DNAMED=3" "$1" -E -P -x c - <<END | grep -q "^3$"
NAMED
END' sh "$cc"

# ---- what is left as it is ----
same "-c" gcc -c ../helper.c
same "-S -o -" gcc -S -o - ../helper.c
same "-E" gcc -E ../main.c
same "-M" gcc -M ../main.c
same "-MD -MF" gcc -c -MD -MF dep ../helper.c
same "-fsyntax-only" gcc -fsyntax-only ../main.c
same "-r" gcc -r -nostdlib ../main.o ../helper.o -o both.o
same "--version" gcc --version
same "-v" gcc -v
same "-dumpmachine" gcc -dumpmachine
same "-print-search-dirs" gcc -print-search-dirs
same "-print-file-name=libc.a" gcc -print-file-name=libc.a
same "--help" gcc --help
same "no input" gcc
same "an input that does not exist" gcc nosuch.c
same "an option that does not exist" gcc -nosuch-option ../main.c
same "an error in the source" gcc -c -x c - -Dint=
same "-nostdlib" gcc -nostdlib -ffreestanding -Wl,-emain ../main.c ../helper.c -o bare

# ---- -show ----
check "-show prints the command, and runs nothing" sh -c '"$1" -show gcc "a b.c" -o shown >line && test ! -e shown &&
    grep -q "^gcc -Wl.*libiofwd_preload.so.*a b.c.* -o shown" line' sh "$cc"
cp main.c "a b.c" && cat helper.c >>"a b.c"
check "what -show prints is a shell's command" sh -c 'eval "$("$1" gcc -show "a b.c" -o shown)" && ./shown' sh "$cc"
if command -v mpicc >/dev/null; then
    check "a wrapper with a -show of its own adds what it adds" sh -c '"$1" mpicc -show alone.c | grep "libiofwd_preload.so.*-lmpi"' sh "$cc"
else
    mp_skip "a wrapper with a -show of its own adds what it adds" "there is no mpicc here"
fi

# ---- crashes ----
# flaky N HOW: a compiler that crashes at its first N runs
flaky() {
    echo "$1" >left
    cat >flaky <<END
#!/bin/sh
left=\$(cat $mp_dir/left)
if [ "\$left" -gt 0 ]; then
    echo \$((left - 1)) >$mp_dir/left
    echo half a line
    $2
fi
exec gcc "\$@"
END
    chmod +x flaky
}
flaky_run() {
    flaky "$1" "$2"
    IOFWD_CC_RETRY=$3 "$cc" ./flaky -E -P -x c main.c >text 2>messages
    flaky_code=$?
    cat text messages
}
flaky_repeats() {
    flaky_run 2 "$1" 2
    test $flaky_code -eq 0 && ! grep -q half text && test "$(grep -c '^iofwd-cc: .*crashed' messages)" -eq 2
}
check "a compiler that a signal ends is run again" flaky_repeats 'kill -SEGV $$'
check "a compiler with an internal error is run again" flaky_repeats 'echo "x.c:1:1: internal compiler error: in foo" >&2; exit 1'
check "gcc's exit code of an internal error counts" flaky_repeats 'exit 4'
flaky_gives_up() {
    flaky_run 5 'kill -SEGV $$' 2
    test $flaky_code -eq 139 && test "$(cat left)" -eq 2
}
check "after the last attempt the exit code is the compiler's" flaky_gives_up
flaky_honest() {
    flaky_run 5 'echo "error: expected ;" >&2; exit 1' 3
    test $flaky_code -eq 1 && test "$(cat left)" -eq 4 && grep -q 'expected ;' messages
}
check "an error in the source is not tried again" flaky_honest
flaky_link() {
    flaky 3 'kill -SEGV $$'
    IOFWD_CC_RETRY=3 "$cc" ./flaky main.c helper.c -o linked && ./linked && is_forwarding linked
}
check "a link with a crashing compiler is repeated, and forwards" flaky_link

# ---- bad input ----
refused "a compiler that does not exist" "nosuchcc is neither a compiler" 127 "$cc" nosuchcc main.c
refused "a default compiler that does not exist" "no compiler nosuchcc on PATH.*IOFWD_CC" 127 env IOFWD_CC=nosuchcc "$cc" main.c
refused "itself as the compiler" "would run itself" 2 env IOFWD_CC=iofwd-cc PATH="$builddir:$PATH" "$cc" main.c
refused "a number of attempts that is none" "IOFWD_CC_RETRY" 1 env IOFWD_CC_RETRY=often "$cc" main.c
refused "a format that is not ELF" "format binary" 1 "$cc" main.c helper.c -Wl,--oformat=binary
# The third word of an object's header: another machine (EM_S390), the other word size.
"${CC:-gcc}" -c main.c -o other.o && printf '\026\000' | dd of=other.o bs=1 seek=18 conv=notrunc 2>/dev/null
refused "objects of another machine" "other.o is for s390x" 1 "$cc" other.o helper.c
if gcc -m32 -### main.c 2>&1 | grep -q elf_i386; then
    refused "another word size" "elf_i386.*32 bits" 1 "$cc" gcc -m32 main.c helper.c
else
    mp_skip "refused: another word size" "gcc has no -m32 here"
fi
# A copy of the program elsewhere finds no library.
mkdir -p moved/bin
cp "$builddir/.libs/iofwd-cc" moved/bin/ 2>/dev/null || cp "$cc" moved/bin/
refused "our library is missing" "libiofwd_preload.so is missing; install" 1 env LD_LIBRARY_PATH="$builddir/.libs" moved/bin/iofwd-cc main.c helper.c
refused "our archives are missing" "libiofwd_wrap.a is missing" 1 env LD_LIBRARY_PATH="$builddir/.libs" moved/bin/iofwd-cc -static main.c helper.c
if command -v ld.lld >/dev/null; then
    refused "a static program by lld" "another linker" 1 "$cc" gcc -static -fuse-ld=lld main.c helper.c
else
    mp_skip "refused: a static program by lld" "there is no ld.lld here"
fi
cat >mute <<'END'
#!/bin/sh
for word in "$@"; do
    [ "$word" = "-###" ] && exit 1
done
exec gcc "$@"
END
chmod +x mute
refused "a compiler that does not say what it links" "does not answer the option -###" 1 "$cc" ./mute main.c helper.c
check "IOFWD_CC_LINK=dynamic says it in its place" sh -c 'IOFWD_CC_LINK=dynamic "$1" ./mute main.c helper.c -o told && ./told &&
    readelf -d told | grep -q libiofwd_preload' sh "$cc"
check "IOFWD_CC_LINK=none links without forwarding" sh -c 'IOFWD_CC_LINK=none "$1" gcc main.c helper.c -o told && ./told &&
    ! readelf -d told | grep libiofwd_preload' sh "$cc"
mp_done
