#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every function that the C library exports is looked after: it is caught (names.def), or libc.def says what becomes of it; so is every
# system call of the kernel's headers (numbers.def, kernel.def).  And the preload library exports what names.def promises, and
# doc/iofwd-calls.md names each.
set -u
srcdir=${srcdir:-.} builddir=${builddir:-.}
dir=$(mktemp -d "${TMPDIR:-/tmp}/amphora-names.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
libc=$(ldd "$builddir/.libs/libiofwd_preload.so" 2>/dev/null | awk '/libc\.so\.6/ { print $3 }')
if [ ! -r "${libc:-}" ] || ! command -v nm >/dev/null; then
    echo "1..0 # SKIP no libc.so.6 or no nm to look at"
    exit 0
fi
count=0 failed=0
# report STATUS NAME FILE
report() {
    count=$((count + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $count - $2"
    else
        failed=1
        echo "not ok $count - $2"
        sed 's/^/# /' "$3" | head -n 40
    fi
}

nm -D --defined-only --with-symbol-versions "$libc" | awk '$2 ~ /^[TWi]$/ && $3 !~ /@.*GLIBC_PRIVATE/ { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$dir/libc"
awk -f "$srcdir/iofwd/calls/names.awk" -v out=names "$srcdir/iofwd/calls/calls.def" "$srcdir/iofwd/calls/names.def" | sort >"$dir/caught"
awk -F'|' '!/^#/ && NF == 3 { n = split($3, w, " "); for (i = 1; i <= n; i++) print w[i] }' "$srcdir/iofwd/calls/libc.def" |
    sort >"$dir/other"

sort -u "$dir/caught" "$dir/other" >"$dir/known"
comm -23 "$dir/libc" "$dir/known" >"$dir/unknown"
version=$("$libc" | sed -n '1s/.* \([0-9.]*[0-9]\)\.$/\1/p')
if [ "$version" = 2.36 ] || [ ! -s "$dir/unknown" ]; then
    test ! -s "$dir/unknown"
    report $? "each of $(wc -l <"$dir/libc") functions of the C library is caught or classed" "$dir/unknown"
else
    count=$((count + 1))
    echo "ok $count - # SKIP glibc ${version:-?} has $(wc -l <"$dir/unknown") functions that 2.36 has not"
fi

{ comm -12 "$dir/caught" "$dir/other"; uniq -d "$dir/other"; } >"$dir/twice"
test ! -s "$dir/twice"
report $? "none is in two places" "$dir/twice"

# Besides, by each line of mpi_io.def a function of MPI-IO, and its name for profilers.
awk '/^[a-z]/ { print "MPI_File_" $1; print "PMPI_File_" $1 }' "$srcdir/iofwd/calls/mpi_io.def" >"$dir/mpi"
# entry/mpi_request.c: what sees the ends of its requests
for name in Wait Waitall Waitany Waitsome Test Testall Testany Testsome; do printf 'MPI_%s\nPMPI_%s\n' $name $name; done >>"$dir/mpi"
# dlsym, where it can be caught (loader/symbol.c), and data: the standard streams, and what libiofwd_messages.so reads.
case $(uname -m) in ppc64*) : >"$dir/data" ;; *) echo dlsym >"$dir/data" ;; esac
printf '%s\n' _IO_2_1_stderr_ _IO_2_1_stdin_ _IO_2_1_stdout_ amph_ip_event_calls >>"$dir/data"
nm -D --defined-only "$builddir/.libs/libiofwd_preload.so" | awk '$3 !~ /^PMIx_/ { sub(/@.*/, "", $3); print $3 }' | sort >"$dir/exported"
sort "$dir/caught" "$dir/mpi" "$dir/data" | comm -3 - "$dir/exported" >"$dir/differ"
test ! -s "$dir/differ"
report $? "the preload library exports the $(wc -l <"$dir/caught") names of names.def, those of mpi_io.def and no others" "$dir/differ"

nm -D --undefined-only "$builddir/.libs/libiofwd_preload.so" | awk '$1 == "U" && !/@GLIBC/' >"$dir/wants"
test ! -s "$dir/wants"
report $? "the preload library needs nothing but the C library" "$dir/wants"

# Of the kernel's numbers those up to file_setattr's, the last that kernel.def knows.
printf '#include <sys/syscall.h>\n' | ${CC:-cc} -E -dM - 2>/dev/null | awk '$2 ~ /^__NR_/ && $3 ~ /^[0-9]+$/ && $3 <= 469 {
    print substr($2, 6) }' | sort -u >"$dir/kernel"
sed -n 's/^\(+ \)\{0,1\}ROW(\([a-z0-9_]*\),.*/\2/p' "$srcdir/iofwd/calls/numbers.def" "$srcdir/iofwd/calls/calls.def" |
    sort -u >"$dir/numbers"
awk -F'|' '!/^#/ && NF == 3 { n = split($3, w, " "); for (i = 1; i <= n; i++) print w[i] }' "$srcdir/iofwd/calls/kernel.def" |
    sort >"$dir/classed"
sort -u "$dir/numbers" "$dir/classed" | comm -23 "$dir/kernel" - >"$dir/unknown"
if [ "$(uname -m)" = x86_64 ] && [ -s "$dir/kernel" ]; then
    test ! -s "$dir/unknown"
    report $? "each of $(wc -l <"$dir/kernel") system calls is caught or classed" "$dir/unknown"
else
    count=$((count + 1))
    echo "ok $count - # SKIP kernel.def is of x86-64, and takes a C compiler"
fi
{ comm -12 "$dir/numbers" "$dir/classed"; uniq -d "$dir/classed"; } >"$dir/twice"
test ! -s "$dir/twice"
report $? "no system call is in two places" "$dir/twice"

doc=$builddir/doc/iofwd-calls.md
[ -r "$doc" ] || doc=$srcdir/doc/iofwd-calls.md
sed -n 's/^| `\([^`]*\)`.*/\1/p' "$doc" | sort >"$dir/documented"
awk -F'|' '!/^#/ && NF == 3 && $1 !~ /^none/ { n = split($3, w, " "); for (i = 1; i <= n; i++) print w[i] }' \
    "$srcdir/iofwd/calls/libc.def" |
    sort - "$dir/caught" >"$dir/files"
comm -3 "$dir/documented" "$dir/files" >"$dir/differ"
test ! -s "$dir/differ"
report $? "doc/iofwd-calls.md says of each of $(wc -l <"$dir/files") file functions what becomes of it" "$dir/differ"

# A row that is there already: the generator names its file and line.
cp "$srcdir/iofwd/calls/names.def" "$dir/names.def"
echo 'int close(int fd) | always | amph_do_close(fd) | -' >>"$dir/names.def"
awk -f "$srcdir/iofwd/calls/names.awk" -v out=names "$srcdir/iofwd/calls/calls.def" "$dir/names.def" >"$dir/out" 2>&1
status=$?
[ $status -ne 0 ] && grep -q "names.def:$(wc -l <"$dir/names.def"): close is there twice" "$dir/out"
report $? "a function that has two rows ends the build with the place of the second" "$dir/out"
echo "1..$count"
exit $failed
