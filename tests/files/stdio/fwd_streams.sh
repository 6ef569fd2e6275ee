#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# FILE objects and C++ streams on forwarded descriptors, whoever has bound them before: the program's libraries, whose statics run before
# forwarding begins, or the program itself, which moves descriptors below them.  As on a local run.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
streams=$builddir/tests/files/stdio/fwd_streams

for mode in out buffered lines in foreign reopened wide mixed messages aborted processes ends; do
    fwd_both "streams and dup2: $mode" "$streams" $mode
done

# Over a network a child has a connection of its own, which it cannot make after the destructors of libfabric.
for conduit in tcp udp; do
    AMPHORA_SMP=0 AMPHORA_CONDUIT=$conduit fwd_both "a child's first call at its end, $conduit" "$streams" ends
done

# Threads write to stdout while another moves its descriptor: each line arrives once.
mkdir -p "$mp_dir/kept"
fwd_servers "$mp_dir/kept" sh -c '"$0" threads /fwd >"$1"' "$streams" "$mp_dir/lines" >"$mp_dir/out"
r=$?
cat "$mp_dir/lines" "$mp_dir/kept/threads" | sort | uniq -c |
    awk '$1 != 3 { bad++ } END { print NR " lines, " bad + 0 " of them wrong" }' >>"$mp_dir/out"
test $r -eq 0 && grep -q '^2000 lines, 0 of them wrong$' "$mp_dir/out"
mp_report $? "threads write while stdout's descriptor moves" "$mp_dir/out"

# A stream that cannot become a forwarded one loses what is written: that is said, and the exit code is not 0.
for mode in lost lost-at-exec lost-at-abort lost-in-parent; do
    if fwd_is_near; then
        mp_skip "data that cannot be written is not lost in silence: $mode" "near its servers the program has the file itself, so nothing is lost"
        continue
    fi
    fwd_servers "$mp_dir/kept" sh -c '"$0" "$1" /fwd; echo "code $?"' "$streams" "$mode" >"$mp_dir/out"
    grep -q 'amphora: .*stream.* was not written' "$mp_dir/out" && ! grep -q '^code 0$' "$mp_dir/out"
    mp_report $? "data that cannot be written is not lost in silence: $mode" "$mp_dir/out"
done
if fwd_is_near; then
    mp_skip "a child does not answer for its parent" "nothing is lost"
else
    grep -q "child's code is 0" "$mp_dir/out"
    mp_report $? "a child does not answer for its parent" "$mp_dir/out"
fi

if ! command -v g++ >/dev/null; then
    mp_skip "C++ streams" "no g++"
    mp_done
    exit
fi

# Twenty libraries with statics that use iostreams, as a large C++ application has; some write when they are loaded.
cat >"$mp_dir/build" <<'Y'
T=$1
set -e
export LC_ALL=C
cd "$T"
i=0
libs=
while [ $i -lt 20 ]; do
    cat >lib.cc <<Z
#include <iostream>
#include <string>
struct registered {
    std::string name;
    registered(const char *n) : name(n)
    {
        if ($i % 5 == 0)
            std::cout << "load " << name << '\n';
        if ($i % 10 == 0)
            std::cout << "flush " << name << std::endl;
        if ($i == 9)
            std::cout << std::string(100000, '.') << '\n';
    }
    ~registered()
    {
        if ($i % 7 == 0)
            std::cout << "unload " << name << '\n';
    }
};
static registered here("lib$i");
void say$i(int n) { std::cout << "say " << here.name << ' ' << n << (n % 2 ? "\n" : "") << std::flush; }
Z
    g++ -O1 -fPIC -shared -o libsay$i.so lib.cc
    libs="$libs -lsay$i"
    echo "void say$i(int);" >>says.h
    echo "say$i(2); say$i(3);" >>calls.h
    i=$((i + 1))
done
cat >main.cc <<'Z'
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <unistd.h>
#ifdef SAYS
#include "says.h"
#endif
int main(int argc, char **argv)
{
    if (argc > 1)
        std::ios::sync_with_stdio(false);
    std::string line;
    int lines = 0, number = 0;
    std::cout << "begin\n";
    if (argc <= 1)
        std::printf("printf %s\n", "too");
#ifdef SAYS
#include "calls.h"
#endif
    std::cin >> number;
    std::getline(std::cin, line);
    while (std::getline(std::cin, line))
        lines++;
    std::cout << lines << " lines, number " << number << ", last \"" << line << "\", eof " << std::cin.eof() << '\n';
    std::cerr << "to cerr " << 1 << '\n';
    std::clog << "to clog" << std::endl;
    std::cout.flush();
    std::system("echo from system");
    std::cout << "end";
    std::cout.put('\n');
    if (argc <= 1)
        std::wcout << L"wide after narrow" << std::endl;
    return 0;
}
Z
g++ -O1 -DSAYS -o dynamic main.cc -L. -Wl,--no-as-needed $libs -Wl,-rpath,"$T"
g++ -O1 -static-libstdc++ -static-libgcc -o partly main.cc
g++ -O1 -static-libstdc++ -static-libgcc -DSAYS -o both main.cc -L. -Wl,--no-as-needed $libs -Wl,-rpath,"$T"
Y
# Once, and not in the time of a run: on a busy machine it takes minutes.
mkdir "$mp_dir/built"
sh "$mp_dir/build" "$mp_dir/built" >"$mp_dir/out" 2>&1 || cat "$mp_dir/out"
cat >"$mp_dir/commands" <<'Y'
D=$2 T=$1
set -e
export LC_ALL=C
cd "$T"
printf '12\nsecond\nthird' >"$D/in"
for prog in dynamic partly both; do
    "./$prog" <"$D/in" >"$D/$prog.out" 2>"$D/$prog.err"
    "./$prog" unsynced <"$D/in" >"$D/$prog.unsynced" 2>&1
    "./$prog" <"$D/in" >>"$D/$prog.out" 2>>"$D/$prog.out"
    cat "$D/in" | "./$prog" 2>/dev/null | tail -n 3
    "./$prog" <"$D/in" 2>>"$D/$prog.err" | wc
done
Y
fwd_both "C++ streams of twenty libraries" sh "$mp_dir/commands" "$mp_dir/built"

# A sanitizer has a fopencookie of its own.
cat >"$mp_dir/commands" <<'Y'
D=$1 T=$2
set -e
cat >"$T/main.cc" <<'Z'
#include <cstdio>
#include <iostream>
static struct early { early() { std::cout << "early" << std::endl; } } here;
int main()
{
    std::string line;
    std::getline(std::cin, line);
    std::cout << line << std::endl;
    std::printf("end\n");
    return 0;
}
Z
g++ -fsanitize=address -static-libasan -o "$T/checked" "$T/main.cc"
echo "a line" >"$D/in"
ASAN_OPTIONS=detect_leaks=0 "$T/checked" <"$D/in" >"$D/out"
Y
if echo 'int main() { return 0; }' >"$mp_dir/empty.cc" &&
    g++ -fsanitize=address -static-libasan -o "$mp_dir/empty" "$mp_dir/empty.cc" 2>/dev/null; then
    fwd_both "C++ streams with a sanitizer" sh "$mp_dir/commands"
else
    fwd_skip "C++ streams with a sanitizer" "no static libasan"
fi

if command -v gfortran >/dev/null; then
    cat >"$mp_dir/commands" <<'Y'
D=$1 T=$2
set -e
cat >"$T/units.f90" <<'Z'
program units
  integer :: n, i, status
  character(len=40) :: line
  read (*, *) n
  do i = 1, n
    write (*, '(a,i0)') 'line ', i
  end do
  write (0, '(a)') 'to unit 0'
  flush (6)
  call execute_command_line('echo from a command')
  read (*, '(a)', iostat=status) line
  print '(a,a,i0)', trim(line), ' status ', status
  read (5, '(a)', iostat=status) line
  write (6, '(i0)') merge(1, 0, status < 0)
end program
Z
gfortran -o "$T/units" "$T/units.f90"
printf '3\nrest of the input\n' >"$D/in"
"$T/units" <"$D/in" >"$D/out" 2>"$D/err"
"$T/units" <"$D/in" >>"$D/out" 2>>"$D/out"
Y
    fwd_both "Fortran units" sh "$mp_dir/commands"
else
    fwd_skip "Fortran units" "no gfortran"
fi

if command -v python3 >/dev/null; then
    cat >"$mp_dir/commands" <<'Y'
D=$1 T=$2
set -e
cat >"$T/moves.py" <<'Z'
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.puts(b"by the C library")
print("by python", flush=True)
libc.fflush(None)
saved = os.dup(1)
fd = os.open(sys.argv[1] + "/moved", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
os.dup2(fd, 1)
libc.puts(b"moved, by the C library")
libc.fflush(None)
print("moved, by python", flush=True)
subprocess.run(["echo", "moved, by a child"], check=True)
os.dup2(saved, 1)
libc.puts(b"back, by the C library")
print(input(), sys.stdin.readline())
Z
printf 'a\nb\n' >"$D/in"
python3 "$T/moves.py" "$D" <"$D/in" >"$D/out"
Y
    fwd_both "python and the C library" sh "$mp_dir/commands"
else
    fwd_skip "python and the C library" "no python3"
fi

if command -v octave-cli >/dev/null; then
    cat >"$mp_dir/commands" <<'Y'
D=$1
set -e
octave-cli --no-init-file --eval 'disp(1)' >"$D/o"
printf 'a line\nanother\n' | octave-cli --no-init-file --eval 'x = input("", "s"); printf("[%s]\n", x)' >"$D/p"
printf 'a line\nanother\n' >"$D/in"
octave-cli --no-init-file --eval 'x = fgetl(stdin); printf("[%s]\n", x); fflush(stdout); system("echo shell");' <"$D/in" >"$D/q"
Y
    fwd_both "octave" sh "$mp_dir/commands"
else
    fwd_skip "octave" "no octave-cli"
fi
mp_done
