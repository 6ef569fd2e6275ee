#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# iofwd-instrument: the copy as a file, for every kind of link; strip and lint; -undo; -check; bad input.  What the copies do with
# forwarded files is the subject of fwd_instrument.sh.
. "${srcdir:-.}/tests/lib/lib.sh"
unset IOFWD_CC IOFWD_CC_LINK LD_PRELOAD AMPHORA_JOB IOFWD_PREFIX
trap 'chmod -R u+w "$mp_dir"; rm -rf "$mp_dir"' EXIT
srcdir=$(cd "$srcdir" && pwd)
builddir=$(cd "$builddir" && pwd)
tool=$builddir/iofwd-instrument
cd "$mp_dir" || exit 99
printf '#include <stdio.h>\nint helper(void);\nint main(int c, char **v) { FILE *f = fopen("/dev/null", "r"); return f ? printf("%%d words\\n", c) < 0 : helper(); }\n' >main.c
printf '#include <stdio.h>\nint helper(void) { return fflush(NULL) + 3; }\n' >helper.c

first() {
    readelf -d "$1" | sed -n '/NEEDED/s/.*\[\(.*\)\]/\1/p' | grep -v 'lib[a-z]*san\.so' | head -n 1
}

# new_complaints ORIGINAL COPY: what eu-elflint says of the copy and not of the original, section numbers aside
new_complaints() {
    eu-elflint --gnu-ld "$1" 2>&1 | sed 's/section \[ *[0-9]*\]//g' | sort >one.lint
    eu-elflint --gnu-ld "$2" 2>&1 | sed 's/section \[ *[0-9]*\]//g' | sort >two.lint
    comm -13 one.lint two.lint | grep -v '^No errors'
}

# is_good ORIGINAL COPY ARGUMENT...: it needs the library first, runs as the original, lints as it, and leads back to it
is_good() {
    is_first=$1 is_second=$2
    shift 2
    test "$(first "$is_second")" = "$builddir/.libs/libiofwd_preload.so" || { echo "$is_second needs $(first "$is_second") first"; return 1; }
    "$is_first" "$@" >one.out 2>&1
    is_code=$?
    "$is_second" "$@" >two.out 2>&1
    test $? -eq $is_code && sed "s#$is_first#$is_second#g" one.out | diff - two.out || return 1
    "$tool" -undo -o restored "$is_second" && cmp restored "$is_first" || return 1
    command -v eu-elflint >/dev/null || return 0
    ! new_complaints "$is_first" "$is_second" | grep .
}

# check NAME COMMAND...: a shell function or command
check() {
    check_name=$1
    shift
    mp_wanted "$check_name" || return 0
    "$@" >out 2>&1 </dev/null
    mp_report $? "$check_name" out
}

# kind NAME COMMAND...: the command makes ./original
kind() {
    kind_name="kinds: $1"
    shift
    mp_wanted "$kind_name" || return 0
    rm -f original copy
    if ! "$@" >out 2>&1 || ! ./original a >out 2>&1; then
        mp_skip "$kind_name" "no such program can be made here: $(tail -n 1 out)"
        return
    fi
    { "$tool" -o copy original && is_good ./original ./copy a b; } >out 2>&1 </dev/null
    mp_report $? "$kind_name" out
}

# refused NAME PATTERN CODE COMMAND...: one sentence that has the pattern, that exit code, and no output file
refused() {
    refused_name="refused: $1"
    pattern=$2 code=$3
    shift 3
    mp_wanted "$refused_name" || return 0
    rm -f bad.iofwd
    timeout 60 "$@" >out 2>&1 </dev/null
    got=$?
    test $got -eq "$code" && test "$(wc -l <out)" -eq 1 && grep -q "$pattern" out && test ! -e bad.iofwd
    mp_report $? "$refused_name" out
}

# ---- kinds of programs ----
kind "a PIE" gcc -O2 -pie main.c helper.c -o original
kind "no PIE" gcc -O2 -no-pie main.c helper.c -o original
kind "with debug information" gcc -g main.c helper.c -o original
kind "without symbols" gcc -s main.c helper.c -o original
kind "a large bss" sh -c 'echo "char room[1 << 28]; char *place(void); char *place(void) { return room; }" >room.c; gcc main.c helper.c room.c -o original'
kind "linked by gold" gcc -fuse-ld=gold main.c helper.c -o original
kind "linked by lld, without room in the dynamic section" gcc -fuse-ld=lld main.c helper.c -o original
kind "linked by lld, no PIE" gcc -fuse-ld=lld -no-pie main.c helper.c -o original
kind "clang" clang main.c helper.c -o original
kind "now, RELRO, separate code" gcc -Wl,-z,now,-z,relro,-z,separate-code main.c helper.c -o original
kind "no build id, no property" gcc -Wl,--build-id=none -fcf-protection=none main.c helper.c -o original
kind "both kinds of hash tables" gcc -Wl,--hash-style=both main.c helper.c -o original
kind "symbols for libraries" gcc -rdynamic main.c helper.c -o original
kind "AddressSanitizer" gcc -fsanitize=address main.c helper.c -o original
kind "without a table of sections" sh -c 'gcc main.c helper.c -o original && llvm-strip --strip-sections original'
for program in bash perl git gdb node python3 make rg; do
    mp_wanted "kinds: $program as installed" || continue
    file=$(readlink -f /usr/bin/$program)
    if [ ! -x "$file" ]; then
        mp_skip "kinds: $program as installed" "there is no /usr/bin/$program here"
        continue
    fi
    { "$tool" -o copy "$file" && is_good "$file" ./copy --version; } >out 2>&1 </dev/null
    mp_report $? "kinds: $program as installed" out
done

# ---- search paths ----
mkdir -p tree/bin tree/lib elsewhere
check "a program finds its library by \$ORIGIN" sh -c 'gcc -shared -fPIC helper.c -o tree/lib/libhelper.so &&
    gcc main.c -o tree/bin/prog -Ltree/lib -lhelper "-Wl,-rpath,\$ORIGIN/../lib:\${ORIGIN}/nowhere" && tree/bin/prog'
check "so does a copy beside it" sh -c '"$1" -o tree/bin/copy tree/bin/prog && tree/bin/copy &&
    readelf -d tree/bin/copy | grep -F "[\$ORIGIN/../lib:" && mv tree tree2 && tree2/bin/copy && mv tree2 tree' sh "$tool"
check "so does a copy in another folder" sh -c '"$1" -o elsewhere/copy tree/bin/prog && elsewhere/copy &&
    "$1" -undo -o elsewhere/orig elsewhere/copy && cmp elsewhere/orig tree/bin/prog' sh "$tool"
check "a symbolic link leads to the program's folder" sh -c 'ln -s ../tree/bin/prog elsewhere/link && "$1" -o elsewhere/copy elsewhere/link && elsewhere/copy' sh "$tool"
check "an RPATH is kept" sh -c 'gcc main.c -o tree/bin/old -Ltree/lib -lhelper "-Wl,--disable-new-dtags,-rpath,\$ORIGIN/../lib" &&
    "$1" -o elsewhere/copy tree/bin/old && elsewhere/copy && readelf -d elsewhere/copy | grep RPATH' sh "$tool"

# ---- other tools ----
gcc -g main.c helper.c -o original && "$tool" -o copy original
for linker in bfd lld; do
    for stripper in "strip" "strip --strip-debug" "llvm-strip" "llvm-strip --strip-debug" "eu-strip" "objcopy" "llvm-objcopy"; do
        name="after $stripper of a program by $linker"
        mp_wanted "$name" || continue
        if ! command -v "${stripper%% *}" >/dev/null || ! gcc -g -fuse-ld=$linker main.c helper.c -o plain 2>/dev/null; then
            mp_skip "$name" "there is no ${stripper%% *} or linker $linker here"
            continue
        fi
        # shellcheck disable=SC2086
        {
            "$tool" -o stripped plain && $stripper stripped && $stripper plain && ./stripped a | grep "2 words" &&
                test "$(readelf -d stripped | grep -m 1 -c "NEEDED.*libiofwd_preload")" = 1 &&
                { ! command -v eu-elflint >/dev/null || ! new_complaints plain stripped | grep .; }
        } >out 2>&1
        mp_report $? "$name" out
    done
done
check "the debugger finds functions and lines" sh -c 'command -v gdb >/dev/null || { echo no gdb; exit 77; }
    gdb -batch -ex "break helper" -ex "info line main" ./copy 2>&1 | tee gdb.out; grep -q "Breakpoint 1 at.*helper.c" gdb.out && grep -q "main.c" gdb.out'
check "the mode is that of the original" sh -c 'cp original private && chmod 750 private && "$1" -o copy2 private && test "$(stat -c %a copy2)" = 750' sh "$tool"
check "the default name of the copy" sh -c 'mkdir -p in && cp original in/name && "$1" in/name && test -x name.iofwd && "$1" -undo name.iofwd && cmp name original' sh "$tool"
check "an old copy is replaced" sh -c 'echo old >copy3 && "$1" -o copy3 original && ./copy3' sh "$tool"

# ---- settings ----
check "settings are baked in" sh -c '"$1" -server here/servers -prefix /fwd=/scratch:/more -o set original &&
    readelf -p .amphora set | grep "AMPHORA_JOB=$2/here/servers$" && readelf -p .amphora set | grep "IOFWD_PREFIX=/fwd=/scratch:/more$"' sh "$tool" "$(pwd)"
check "a program whose servers are gone says so" sh -c 'printf "#include <stdio.h>\nint main(void) { perror(fopen(\"/fwd/x\", \"r\") ? \"opened\" : \"fopen\"); return 0; }\n" >open.c && gcc open.c -o open &&
    "$1" -server "$2/none" -prefix /fwd -o open.copy open && ./open.copy 2>&1 | tee open.out; grep -q "$2/none" open.out && grep -q "^fopen: Input/output error" open.out' sh "$tool" "$(pwd)"
check "an empty IOFWD_PREFIX switches it off" sh -c 'IOFWD_PREFIX= ./open.copy 2>&1 | tee open.out; test "$(cat open.out)" = "fopen: No such file or directory"'
check "another path of the library" sh -c '"$1" -library /opt/amphora/libiofwd_preload.so -o set original && test "$(readelf -d set |
    grep -m 1 -c "NEEDED.*\[/opt/amphora/libiofwd_preload.so\]")" = 1 && ! ./set' sh "$tool"

# ---- -check ----
check "-check of a dynamic program" sh -c '"$1" -check original | tee check.out && grep -q "1 of the .*are forwarded\|[2-9] of the .* are forwarded" check.out && grep -qw fopen check.out &&
    grep -q "^way: preload" check.out && test "$(grep -c "^[123]\. " check.out)" = 3' sh "$tool"
check "iofwd-run -check says the same" sh -c '"$1" -check ./original >check1.out && "$2" -check ./original >check2.out && diff check1.out check2.out' sh "$tool" "$builddir/iofwd-run"
check "-check of a copy" sh -c '"$1" -check copy | grep "^way: none needed"' sh "$tool"
check "-check of a script names its interpreter" sh -c 'printf "#!/bin/sh\n" >script && "$1" -check script | grep "script; its interpreter /bin/sh"' sh "$tool"
check "-check of a script without its interpreter" sh -c 'printf "#!/nowhere/sh\n" >script2 && "$1" -check script2 2>check.out
    test $? -eq 2 && grep "script2 cannot be started: its interpreter /nowhere/sh does not exist" check.out' sh "$tool"
check "-check of a program without its loader" sh -c 'sed "s,/ld-linux,/ld-none_,g" original >loaderless && "$1" -check loaderless 2>check.out
    test $? -eq 2 && grep "loaderless cannot be started: its loader /.*/ld-none_.* does not exist" check.out' sh "$tool"
if gcc -static main.c helper.c -o static 2>out; then
    check "-check of a static program" sh -c '"$1" -check static >check.out; test $? -eq 1 && grep "^way: mount.*iofwd-cc" check.out' sh "$tool"
    check "-check of a static program of iofwd-cc" sh -c '"$2/iofwd-cc" gcc -static main.c helper.c -o linked-static || exit 77
        "$1" -check linked-static | tee check.out && grep "^way: none needed" check.out && grep "^2.* no, but iofwd-cc" check.out' sh "$tool" "$builddir"
    refused "a static program" "statically linked.*iofwd-cc" 1 "$tool" -o bad.iofwd static
else
    mp_skip "-check of a static program" "there is no static C library here"
    mp_skip "-check of a static program of iofwd-cc" "there is no static C library here"
    mp_skip "refused: a static program" "there is no static C library here"
fi
echo text >text
refused "-check of a text" "not a program" 2 "$tool" -check text
head -c 12000 original >cut
chmod +x cut
refused "-check of a program that is cut off" "cut is damaged or cut off.*whole copy" 2 "$tool" -check cut
refused "iofwd-run -check of a program that is cut off" "cut is damaged or cut off" 2 "$builddir/iofwd-run" --check ./cut
refused "-check of nothing" "cannot be read" 2 "$tool" -check nothing

# ---- bad input ----
refused "no ELF file" "not a dynamic program.*damaged" 1 "$tool" -o bad.iofwd text
: >empty
refused "an empty file" "not a dynamic program" 1 "$tool" -o bad.iofwd empty
refused "no file" "nothing cannot be read: No such file" 1 "$tool" -o bad.iofwd nothing
refused "a folder" "is not a file" 1 "$tool" -o bad.iofwd tree
refused "a script" "is a script; instrument its interpreter /bin/sh" 1 "$tool" -o bad.iofwd script
refused "a shared library" "shared library; instrument the program" 1 "$tool" -o bad.iofwd tree/lib/libhelper.so
refused "the C library, which can be executed" "libc.so.6 is a shared library; instrument the program" 1 "$tool" -o bad.iofwd \
    "$(ldd original | sed -n 's/.*=> \(.*libc\.so\.6\) .*/\1/p')"
refused "a copy" "is instrumented already" 1 "$tool" -o bad.iofwd copy
refused "what iofwd-cc has linked" "needs libiofwd_preload.so already" 1 sh -c '"$1/iofwd-cc" gcc main.c helper.c -o linked && "$1/iofwd-instrument" -o bad.iofwd linked' sh "$builddir"
refused "the output is the input" "is the input" 2 "$tool" -o ./original original
ln -f original hard
refused "the output is a hard link of the input" "is the input" 2 "$tool" -o hard original
refused "the output is a folder" "not a file" 2 "$tool" -o tree original
refused "the output's folder is missing" "missing.*cannot be used" 1 "$tool" -o missing/x original
if [ "$(id -u)" = 0 ]; then
    mp_skip "refused: the output's folder may not be written" "root may write everywhere"
else
    mkdir locked && chmod 555 locked
    refused "the output's folder may not be written" "cannot be written" 1 "$tool" -o locked/x original
fi
refused "a full disk" "cannot be written: No space left\|File too large" 1 sh -c 'trap "" XFSZ; ulimit -f 1; exec "$1" -o bad.iofwd original' sh "$tool"
cp original setuid && chmod u+s setuid
refused "a set-uid program" "set-uid" 1 "$tool" -o bad.iofwd setuid
# edit FILE OFFSET BYTES: a copy of the original with these bytes
edit() {
    cp original "$1"
    # shellcheck disable=SC2059
    printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
edit machine 18 '\267\000'
refused "another machine" "for aarch64" 1 "$tool" -o bad.iofwd machine
edit word 4 '\001'
refused "another word size" "32-bit program" 1 "$tool" -o bad.iofwd word
edit headers 56 '\377\377'
refused "a table of program headers beyond the end" "damaged" 1 "$tool" -o bad.iofwd headers
edit sections 40 '\377\377\377\377'
refused "a table of sections beyond the end" "damaged" 1 "$tool" -o bad.iofwd sections
for n in 20 64 800 5000; do
    head -c $n original >cut
    refused "cut off after $n bytes" "damaged" 1 "$tool" -o bad.iofwd cut
done
cp original payload && echo "the rest" >>payload
refused "data behind the end" "has data behind its end.*unpack it and instrument the program inside" 1 "$tool" -o bad.iofwd payload
cp original payload && printf 'PK\005\006\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >>payload
refused "a zip archive behind the end" "has a zip archive behind its end.*unpack it and instrument the program inside" 1 "$tool" -o bad.iofwd payload
{ cat original; printf 'MEI\014\013\012\013\016'; head -c 80 /dev/zero; } >payload
refused "a PyInstaller archive behind the end" "has a PyInstaller archive.*unpack it and instrument the program inside" 1 "$tool" -o bad.iofwd payload
edit appimage 8 'AI\002'
refused "an AppImage" "AppImage.*unpack it and instrument the program inside" 1 "$tool" -o bad.iofwd appimage
cp original padded && head -c 100 /dev/zero >>padded
check "zeros behind the end are kept" sh -c '"$1" -o copy4 padded && ./copy4 && "$1" -undo -o back copy4 && cmp back padded' sh "$tool"
refused "-undo of an original" "not an output" 1 "$tool" -undo -o bad.iofwd original
cp copy stripped && strip stripped
refused "-undo after strip" "has been changed" 1 "$tool" -undo -o bad.iofwd stripped
refused "-undo without a name" "name the restored file by -o" 2 "$tool" -undo copy
refused "-undo with -server" "takes no other option" 2 "$tool" -undo -server x copy
refused "an unknown option" "not an option" 2 "$tool" -no original
refused "an option without its value" "needs a value" 2 "$tool" original -o
refused "two programs" "one program at a time" 2 "$tool" original copy
refused "servers that are not known" "address file none.*give -prefix" 1 "$tool" -server none -o bad.iofwd original
refused "a relative prefix" "must be absolute" 2 "$tool" -prefix fwd -o bad.iofwd original
check "the output of -help on a full disk" sh -c '"$1" -help >/dev/full; test $? -eq 1' sh "$tool"
mp_done
