#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# upcxlate under the sanitizers, with damaged programs for some seconds; and with inputs that are deep, long or no text at all.
srcdir=${srcdir:-.} builddir=${builddir:-.} seconds=${1:-5} seed=${2:-1}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-fuzz.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
n=0
result() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" = 0 ]; then echo "ok $n - $2"; else
        echo "not ok $n - $2"
        tail -n 30 "$dir/out" | cut -c 1-300 | sed 's/^/# /'
    fi
}
flags="-std=gnu11 -D_GNU_SOURCE -g -w -fsanitize=address,undefined -fno-sanitize-recover=undefined"
if ! echo 'int main(void) { return 0; }' >"$dir/t.c" || ! gcc $flags "$dir/t.c" -o "$dir/t" 2>/dev/null; then
    echo "1..1"
    echo "ok 1 - upcxlate under the sanitizers # SKIP no gcc with the sanitizers here"
    exit 0
fi
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0
gcc $flags -DPACKAGE_NAME='""' -DPACKAGE_VERSION='""' -Dmain=upcxlate_main -c "$srcdir/upc-bridge/xlate/main.c" -o "$dir/main.o" >"$dir/out" 2>&1 &&
    gcc $flags "$srcdir/tests/fuzz/fuzz_upcxlate.c" "$dir/main.o" $(ls "$srcdir"/upc-bridge/xlate/*.c |
        grep -v /main.c) -o "$dir/fuzz" >>"$dir/out" 2>&1
result $? "upcxlate is built with the sanitizers"
for p in list matmul histogram; do
    "$builddir/amphora-upcc" -E "$srcdir/tests/upc/programs/$p.upc" -o "$dir/$p.i" 2>>"$dir/out"
done
(cd "$dir" && timeout 120 ./fuzz "$seconds" "$seed" list.i matmul.i histogram.i) >"$dir/out" 2>&1
result $? "damaged programs: $(tail -n 1 "$dir/out")"

# One input each: fuzz with no damage would not do, so upcxlate itself.
ends() { # NAME CODE WORDS, the program in one.i
    timeout 20 "$builddir/upcxlate" "$dir/one.i" -o "$dir/one.c" >"$dir/out" 2>&1
    code=$?
    [ $code = "$2" ] && { [ -z "$3" ] || grep -q "$3" "$dir/out"; }
    result $? "$1"
}
many() { awk -v s="$1" -v n="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s", s }'; }
{ echo 'int x ='; many '(' 100000; } >"$dir/one.i"
ends "100,000 parentheses" 1 "nested more than"
{ echo 'void f() {'; many '{' 100000; } >"$dir/one.i"
ends "100,000 braces" 1 "nested more than"
{ many 'int *(' 100000; } >"$dir/one.i"
ends "100,000 declarators" 1 ":1: upcxlate:"
{ echo 'int x ='; many '-~!' 50000; echo '1;'; } >"$dir/one.i"
ends "150,000 signs" 1 "nested more than"
{ echo 'int x ='; many '1 ? 2 : ' 50000; echo '1;'; } >"$dir/one.i"
ends "50,000 conditionals" 1 "nested more than"
{ echo 'int x[] ='; many '{' 50000; } >"$dir/one.i"
ends "50,000 initialisers" 1 "nested more than"
{ many 'struct {' 50000; } >"$dir/one.i"
ends "50,000 structures" 1 "nested more than"
{ echo 'int f(int x) {'; many 'if (x) x++; else ' 20000; echo 'return x; }'; } >"$dir/one.i"
ends "20,000 times else" 0 ""
{ echo 'int x ='; many '1 + ' 50000; echo '1;'; } >"$dir/one.i"
ends "a sum of 50,000" 0 ""
{ printf 'int '; many abcdefghij 100000; echo ';'; } >"$dir/one.i"
ends "a name of a million letters" 0 ""
{ printf 'double x = 1'; many 0 1000000; echo '.5;'; } >"$dir/one.i"
ends "a number of a million digits" 0 ""
{ printf 'char *s = "'; many '\\n' 500000; echo '";'; } >"$dir/one.i"
ends "a string of a million letters" 0 ""
printf '\000\001\002\003' >"$dir/one.i"
ends "no text at all" 2 "not a text"
printf '\001 int x;' >"$dir/one.i"
ends "a control character" 1 "a character that C does not know"
printf '' >"$dir/one.i"
ends "nothing at all" 0 ""
echo "1..$n"
