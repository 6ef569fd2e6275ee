#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Programs that bypass the preload library and are started that way nevertheless: iofwd-run -preload, amphora-run and each exec and
# posix_spawn warn once a program, or refuse it (IOFWD_STRICT).  Their kinds and damaged files: tests/unit/unit_program_image.c.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
server=$builddir/iofwd-server
run=$builddir/iofwd-run
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX AMPHORA_LOG IOFWD_STRICT
file=$mp_dir/addresses
mkdir "$mp_dir/kept" "$mp_dir/bin"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
bin=$mp_dir/bin

cat >"$mp_dir/plain.c" <<'X'
int main(void) { return 7; }
X
cat >"$mp_dir/go.c" <<'X'
__attribute__((section(".note.go.buildid"), used, aligned(4))) static const struct { unsigned n[3]; char name[4], id[4]; } note = {
    { 3, 4, 4 }, "Go", "id" };
int main(void) { return 7; }
X
cat >"$mp_dir/spawn.c" <<'X'
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
/* spawn HOW PROGRAM: posix_spawn, posix_spawnp, execveat and execvp, three times each, then the exit code or why not */
int main(int argc, char **argv)
{
    char *args[] = { argv[2], 0 };
    for (int i = 0; i < 3; i++) {
        pid_t pid = 0;
        int status = 0, err = 0;
        if (argv[1][0] == 's')
            err = posix_spawn(&pid, argv[2], 0, 0, args, environ);
        else if (argv[1][0] == 'p')
            err = posix_spawnp(&pid, argv[2], 0, 0, args, environ);
        else if ((pid = vfork()) == 0) {
            argv[1][0] == 'a' ? execveat(-1, argv[2], args, environ, 0) : execvp(argv[2], args);
            _exit(errno == EPERM ? 126 : 127);
        }
        if (err) {
            printf("%s\n", strerror(err));
            continue;
        }
        waitpid(pid, &status, 0);
        printf("exit %d\n", WEXITSTATUS(status));
    }
    return 0;
}
X
cc=${CC:-cc}
if ! $cc -o "$bin/dynamic" "$mp_dir/plain.c" || ! $cc -static -o "$bin/static" "$mp_dir/plain.c" || ! $cc -o "$bin/go" "$mp_dir/go.c" ||
    ! $cc -D_GNU_SOURCE -o "$mp_dir/spawn" "$mp_dir/spawn.c"; then
    echo "1..0 # SKIP no static programs can be linked here"
    exit 0
fi
$cc -static-pie -o "$bin/static-pie" "$mp_dir/plain.c" 2>/dev/null
printf '#! %s/static argument\n' "$bin" >"$bin/script"
printf '#!%s/script\n' "$bin" >"$bin/script-of-script"
printf '#!%s/own\n' "$bin" >"$bin/own"
head -c 40 "$bin/dynamic" >"$bin/corrupt"
mkfifo "$bin/fifo"
chmod +x "$bin"/*

timeout -k 5 60 "$server" -daemon -servers 1 -iofwd "/fwd=$mp_dir/kept" -address-file "$file" -pid-file "$mp_dir/pid" || exit 99
attach() {
    timeout -k 5 60 "$run" -servers "$file" -preload "$@" </dev/null
}
# warnings: how many lines of the output name a program whose calls are not forwarded
warnings() {
    grep -c 'not forwarded' "$mp_dir/out"
}

# says NAME PROGRAM CODE WORD: iofwd-run says WORD in one sentence, and the program runs
says() {
    attach "$bin/$2" >"$mp_dir/out" 2>&1
    says_code=$?
    test $says_code -eq "$3" &&
        grep "^iofwd-run: warning: .*$2.*not forwarded" "$mp_dir/out" | grep -q "$4" &&
        test "$(wc -l <"$mp_dir/out")" -eq 1
    mp_report $? "$1" "$mp_dir/out"
}

# silent NAME PROGRAM CODE
silent() {
    attach "$bin/$2" >"$mp_dir/out" 2>&1
    test $? -eq "$3" && test "$(warnings)" -eq 0
    mp_report $? "$1" "$mp_dir/out"
}

says "iofwd-run warns of a static program" static 7 "statically linked.*iofwd-run -mount"
if [ -x "$bin/static-pie" ]; then
    says "iofwd-run warns of a static program at any address" static-pie 7 "statically linked"
else
    mp_skip "iofwd-run warns of a static program at any address" "the compiler links none"
fi
says "iofwd-run warns of Go, also in a dynamic program" go 7 "Go code.*iofwd-run -mount"
silent "iofwd-run says nothing of a dynamic program" dynamic 7
for name in script script-of-script; do
    attach "$bin/$name" >"$mp_dir/out" 2>&1
    test $? -eq 7 && test "$(warnings)" -eq 1 && grep -q "bin/static is" "$mp_dir/out"
    mp_report $? "iofwd-run names the interpreter of a $name" "$mp_dir/out"
done
silent "a script that is its own interpreter is the kernel's" own 126
silent "a damaged program gets no warning" corrupt 126
grep -q damaged "$mp_dir/out"
mp_report $? "a damaged program is called so" "$mp_dir/out"
silent "a FIFO in a program's place is not waited for" fifo 126

# A program of 32 bits for i386 that ends with 7: header, one segment, code.
machine=$(uname -m)
name="iofwd-run warns of a 32-bit program"
if [ "$machine" = x86_64 ]; then
    {
        printf '\177ELF\1\1\1\0\0\0\0\0\0\0\0\0\2\0\3\0\1\0\0\0\124\200\4\10\64\0\0\0\0\0\0\0\0\0\0\0\64\0\40\0\1\0\0\0\0\0\0\0'
        printf '\1\0\0\0\0\0\0\0\0\200\4\10\0\200\4\10\140\0\0\0\140\0\0\0\5\0\0\0\0\20\0\0'
        printf '\270\1\0\0\0\273\7\0\0\0\315\200'
    } >"$bin/small"
    chmod +x "$bin/small"
    "$bin/small"
    if [ $? -eq 7 ]; then
        says "$name" small 7 "32-bit program for i386"
    else
        mp_skip "$name" "the kernel runs none"
    fi
else
    mp_skip "$name" "only on x86-64"
fi

name="iofwd-run warns of a program with rights of its own"
if [ "$(id -u)" = 0 ] && ! findmnt -no OPTIONS -T "$bin" 2>/dev/null | grep -q nosuid; then
    cp "$bin/dynamic" "$bin/owned" && chown 65534 "$bin/owned" && chmod 4755 "$bin/owned" && chmod 755 "$mp_dir"
    says "$name" owned 7 "other rights"
else
    mp_skip "$name" "only root can make one here"
fi

if command -v busybox >/dev/null && ! ldd "$(command -v busybox)" >/dev/null 2>&1; then
    attach busybox true >"$mp_dir/out" 2>&1
    test $? -eq 0 && test "$(warnings)" -eq 1
    mp_report $? "iofwd-run warns of busybox" "$mp_dir/out"
else
    mp_skip "iofwd-run warns of busybox" "there is no static busybox here"
fi

name="iofwd-run warns of a Go program of the distribution"
if command -v age-keygen >/dev/null; then
    attach age-keygen -o /fwd/key >"$mp_dir/out" 2>&1
    grep -q 'age-keygen contains Go code' "$mp_dir/out" && test ! -e "$mp_dir/kept/key"
    mp_report $? "$name" "$mp_dir/out"
else
    mp_skip "$name" "there is no age-keygen (Debian's package age) here"
fi

# Each way in which a program starts another one; a program is named once, whatever starts it.
for how in s p a v; do
    attach "$mp_dir/spawn" $how "$bin/static" >"$mp_dir/out" 2>&1
    test "$(warnings)" -eq 1 && test "$(grep -c '^exit 7$' "$mp_dir/out")" -eq 3 && grep -q '^amphora: warning: ' "$mp_dir/out"
    mp_report $? "a program that is started three times is named once ($how)" "$mp_dir/out"
done
attach env PATH="$bin" "$mp_dir/spawn" p static >"$mp_dir/out" 2>&1
test "$(warnings)" -eq 1 && test "$(grep -c '^exit 7$' "$mp_dir/out")" -eq 3
mp_report $? "a program is found along PATH" "$mp_dir/out"
# shellcheck disable=SC2016
attach sh -c 'for i in 1 2 3; do sh -c "\"$1/static\"; \"$1/go\"; exit 0" sh "$1"; done & for i in 1 2 3; do sh -c "\"$1/static\"; :" sh "$1"; done
    wait; "$1/script"' sh "$bin" >"$mp_dir/out" 2>&1
test "$(warnings)" -eq 2 && grep -q 'static is' "$mp_dir/out" && grep -q 'go contains' "$mp_dir/out"
mp_report $? "a program is named once among all processes" "$mp_dir/out"
attach sh -c 'exec 2>/fwd/said; "$1/static"; :' sh "$bin" >"$mp_dir/out" 2>&1
cat "$mp_dir/kept/said" >>"$mp_dir/out"
test "$(warnings)" -eq 1 && grep -q 'not forwarded' "$mp_dir/kept/said"
mp_report $? "the sentence goes to a forwarded standard error" "$mp_dir/out"
cp "$bin/static" "$mp_dir/kept/static"
attach sh -c '/fwd/static; /fwd/static; echo "exit $?"' >"$mp_dir/out" 2>&1
test "$(warnings)" -eq 1 && grep -q '^exit 7$' "$mp_dir/out" && grep -q '/fwd/static is' "$mp_dir/out"
mp_report $? "a forwarded static program is named, too" "$mp_dir/out"
AMPHORA_LOG=error attach sh -c '"$1/static"; :' sh "$bin" >"$mp_dir/out" 2>&1
test "$(warnings)" -eq 0
mp_report $? "AMPHORA_LOG=error leaves the warning out" "$mp_dir/out"
timeout 20 "$run" -servers "$file" sh -c '"$1/fifo"; echo "exit $?"' sh "$bin" >"$mp_dir/out" 2>&1
grep -q '^exit 126$' "$mp_dir/out"
mp_report $? "exec of a FIFO does not wait" "$mp_dir/out"

# What is found along PATH by execvp, with a forwarded file as its standard output, gets a pipe (process/relay.c).
printf '#include <unistd.h>\nint main(void) { return write(1, "written\\n", 8) != 8; }\n' >"$mp_dir/say.c"
$cc -static -o "$bin/say" "$mp_dir/say.c"
PATH="$bin:$PATH" AMPHORA_LOG=error attach sh -c 'env say >/fwd/output; echo "exit $?"' >"$mp_dir/out" 2>&1
cat "$mp_dir/kept/output" >>"$mp_dir/out"
grep -q '^exit 0$' "$mp_dir/out" && grep -q '^written$' "$mp_dir/kept/output"
mp_report $? "a static program that execvp finds writes to a forwarded standard output" "$mp_dir/out"
cat >"$mp_dir/raw.c" <<'X'
__attribute__((section(".note.go.buildid"), used, aligned(4))) static const struct { unsigned n[3]; char name[4], id[4]; } note = {
    { 3, 4, 4 }, "Go", "id" };
int main(void)
{
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "0"(1L), "D"(1L), "S"("raw\n"), "d"(4L) : "rcx", "r11", "memory");
    return r != 4;
}
X
name="a dynamic Go program writes to a forwarded standard output"
if [ "$machine" = x86_64 ]; then
    $cc -o "$bin/raw" "$mp_dir/raw.c"
    AMPHORA_LOG=error attach sh -c '"$1/raw" >/fwd/raw; echo "exit $?"' sh "$bin" >"$mp_dir/out" 2>&1
    cat "$mp_dir/kept/raw" >>"$mp_dir/out"
    grep -q '^exit 0$' "$mp_dir/out" && grep -q '^raw$' "$mp_dir/kept/raw"
    mp_report $? "$name" "$mp_dir/out"
else
    mp_skip "$name" "only on x86-64"
fi

# IOFWD_STRICT=1 refuses.
IOFWD_STRICT=1 attach "$bin/static" >"$mp_dir/out" 2>&1
test $? -eq 126 && grep -q 'refused by IOFWD_STRICT' "$mp_dir/out"
mp_report $? "IOFWD_STRICT=1: iofwd-run refuses" "$mp_dir/out"
for how in s p; do
    IOFWD_STRICT=1 attach "$mp_dir/spawn" $how "$bin/static" >"$mp_dir/out" 2>&1
    test "$(grep -c 'refused by IOFWD_STRICT' "$mp_dir/out")" -eq 3 && test "$(grep -c '^Operation not permitted$' "$mp_dir/out")" -eq 3
    mp_report $? "IOFWD_STRICT=1: a spawn is refused each time ($how)" "$mp_dir/out"
done
for how in a v; do
    IOFWD_STRICT=1 attach "$mp_dir/spawn" $how "$bin/static" >"$mp_dir/out" 2>&1
    test "$(grep -c 'refused by IOFWD_STRICT' "$mp_dir/out")" -eq 3 && test "$(grep -c '^exit 126$' "$mp_dir/out")" -eq 3
    mp_report $? "IOFWD_STRICT=1: an exec is refused each time ($how)" "$mp_dir/out"
done
IOFWD_STRICT=1 attach "$bin/dynamic" >"$mp_dir/out" 2>&1
test $? -eq 7
mp_report $? "IOFWD_STRICT=1: other programs run" "$mp_dir/out"

# The library itself: the dynamic linker would print a line and start the program without it.
elsewhere() {
    mkdir -p "$1/bin" "$1/lib/amphora"
    cp "$run" "$1/bin/iofwd-run" && { [ ! -e "$builddir/iofwd-attach" ] || cp "$builddir/iofwd-attach" "$1/bin/"; } && cp "$builddir/.libs/libiofwd_preload.so" "$1/lib/amphora/"
}
for where in "a blank" a:colon; do
    elsewhere "$mp_dir/$where"
    timeout -k 5 60 "$mp_dir/$where/bin/iofwd-run" -servers "$file" -preload "$bin/dynamic" >"$mp_dir/out" 2>&1
    test $? -eq 1 && grep -q 'LD_PRELOAD takes no path with a blank or a colon' "$mp_dir/out" && ! grep -q '^ERROR' "$mp_dir/out"
    mp_report $? "an installation that LD_PRELOAD cannot name ($where)" "$mp_dir/out"
done
elsewhere "$mp_dir/damaged"
head -c 3000 "$builddir/.libs/libiofwd_preload.so" >"$mp_dir/damaged/lib/amphora/libiofwd_preload.so"
timeout -k 5 60 "$mp_dir/damaged/bin/iofwd-run" -servers "$file" -preload "$bin/dynamic" >"$mp_dir/out" 2>&1
test $? -eq 1 && grep -q 'libiofwd_preload.so, which forwards file calls, is damaged' "$mp_dir/out"
mp_report $? "a damaged preload library" "$mp_dir/out"

# Under amphora-run.
job() {
    timeout -k 5 60 "$AMPHORA_RUN" -n 3 -servers 1 -iofwd "/fwd=$mp_dir/kept" "$@" </dev/null
}
job "$bin/static" >"$mp_dir/out" 2>&1
grep -q '^amphora-run: warning: .*static is' "$mp_dir/out" && test "$(warnings)" -eq 1
mp_report $? "amphora-run warns once" "$mp_dir/out"
IOFWD_STRICT=1 job "$bin/static" >"$mp_dir/out" 2>&1
test $? -eq 126 && grep -q 'refused by IOFWD_STRICT' "$mp_dir/out"
mp_report $? "IOFWD_STRICT=1: amphora-run refuses" "$mp_dir/out"
timeout -k 5 60 "$AMPHORA_RUN" -n 2 "$bin/static" >"$mp_dir/out" 2>&1
test "$(warnings)" -eq 0
mp_report $? "amphora-run says nothing where nothing is forwarded" "$mp_dir/out"

# A program that is linked with iofwd-static forwards.
libs="$builddir/.libs/libiofwd_wrap.a $builddir/.libs/libiofwd.a $builddir/.libs/libamphora.a"
name="a program linked with iofwd-static gets no warning"
# shellcheck disable=SC2086
if $cc -static -o "$bin/wrapped" "$mp_dir/plain.c" "@$builddir/iofwd/calls/iofwd-wrap.args" $libs -lnettle -ldl -lpthread \
    >"$mp_dir/out" 2>&1; then
    attach "$bin/wrapped" >"$mp_dir/out" 2>&1
    test $? -eq 7 && test "$(warnings)" -eq 0
    mp_report $? "$name" "$mp_dir/out"
else
    mp_skip "$name" "built without static libraries"
fi
mp_done
