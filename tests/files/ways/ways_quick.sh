#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The quick start of iofwd-run (launcher/attach/quick/quick.h): it executes usual programs as iofwd-attach would, and leaves all else to
# that.  A script in the place of iofwd-attach tells which of the two it was.  No servers run: the address file is written here.
. "${srcdir:-.}/tests/lib/lib.sh"
builddir=$(cd "${builddir:-.}" && pwd)
unset IOFWD_STRICT IOFWD_PREFIX IOFWD_RECORD AMPHORA_JOB AMPHORA_LOG AMPHORA_RANK LD_PRELOAD
# with a setting, as those of the test variants, the quick start leaves all to iofwd-attach
unset AMPHORA_TEST_SWAP AMPHORA_TEST_PAGE AMPHORA_RMA AMPHORA_WAIT
XDG_RUNTIME_DIR=$mp_dir/runtime
export XDG_RUNTIME_DIR
cc=${CC:-cc}

if [ ! -e "$builddir/iofwd-attach" ]; then
    echo "1..0 # SKIP built without the quick start"
    exit 0
fi

# An installation whose iofwd-attach is a script, and another with the real one.
mkdir -p "$mp_dir/told/bin" "$mp_dir/told/lib/amphora" "$mp_dir/bin" "$XDG_RUNTIME_DIR"
cp "$builddir/iofwd-run" "$mp_dir/told/bin/"
ln -s "$builddir/.libs/libiofwd_preload.so" "$mp_dir/told/lib/amphora/"
cp -R "$mp_dir/told" "$mp_dir/real"
cp "$builddir/iofwd-attach" "$mp_dir/real/bin/"
printf '#!/bin/sh\necho "attach: $*"\n' >"$mp_dir/told/bin/iofwd-attach"
chmod +x "$mp_dir/told/bin/iofwd-attach"

addresses=$XDG_RUNTIME_DIR/iofwd-servers
cat >"$addresses" <<'X'
amphora-servers 1
id 17495fea7c1c3efc
key f8f965a9967ff7c051e2b0f57d444c3c4002523406290eb49e1e2dfc488f2f85
prefix /fwd:/data
watch 1
later line of a later version
count 2
server one 11 0222
server two 12 0223
X
chmod 600 "$addresses"

cat >"$mp_dir/plain.c" <<'X'
#ifdef GO
__attribute__((section(".note.go.buildid"), used, aligned(4))) static const struct { unsigned n[3]; char name[4], id[4]; } note = {
    { 3, 4, 4 }, "Go", "id" };
#endif
#ifdef SECTION
__attribute__((section(".go.buildinfo"), used)) static int info = 1;
#endif
int main(void) { return 7; }
X
bin=$mp_dir/bin
$cc -o "$bin/dynamic" "$mp_dir/plain.c" && $cc -DGO -o "$bin/go" "$mp_dir/plain.c" && $cc -DSECTION -o "$bin/section" "$mp_dir/plain.c" || exit 99
printf '#! %s/dynamic word\n' "$bin" >"$bin/script"
printf '#!%s/script\n' "$bin" >"$bin/script-of-script"
head -c 6000 "$bin/dynamic" >"$bin/cut"
cp "$bin/dynamic" "$bin/set-uid"
chmod +x "$bin"/*
chmod u+s "$bin/set-uid"

# ---- which of the two ----

# quick NAME WORDS...: the quick start suffices
quick() {
    mp_name=$1
    shift
    timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    test $? -eq 7 && test ! -s "$mp_dir/out"
    mp_report $? "quick: $mp_name" "$mp_dir/out"
}

# attach NAME WORDS...: iofwd-attach gets the words
attach() {
    mp_name=$1
    shift
    timeout -k 5 60 "$@" >"$mp_dir/out" 2>&1 </dev/null
    test $? -eq 0 && grep -q "^attach: " "$mp_dir/out"
    mp_report $? "iofwd-attach: $mp_name" "$mp_dir/out"
}

run=$mp_dir/told/bin/iofwd-run
quick "a program" "$run" "$bin/dynamic"
quick "a program along PATH" env PATH="$mp_dir:$bin:$PATH" "$run" dynamic
quick "a script of a script" "$run" "$bin/script-of-script"
quick "options" "$run" --servers "$addresses" -iofwd /fwd -preload -- "$bin/dynamic"
quick "the address file by AMPHORA_JOB" env -u XDG_RUNTIME_DIR AMPHORA_JOB="$addresses" "$run" "$bin/dynamic"

attach "no program" "$run"
attach "an option" "$run" -v "$bin/dynamic"
attach "a missing value" "$run" -servers
attach "an empty value" "$run" -servers '' "$bin/dynamic"
attach "no such program" "$run" "$bin/missing"
attach "no such program along PATH" "$run" missing-program
attach "a folder" "$run" "$bin"
attach "a file that is not executable" "$run" "$mp_dir/plain.c"
attach "Go code" "$run" "$bin/go"
attach "Go code without a build id" "$run" "$bin/section"
attach "a program that is cut off" "$run" "$bin/cut"
attach "a program with rights of its own" "$run" "$bin/set-uid"
attach "another iofwd-run" "$run" "$run" "$bin/dynamic"
attach "a setting" env IOFWD_CONSISTENCY=session "$run" "$bin/dynamic"
attach "an unknown setting" env AMPHORA_UNKNOWN=1 "$run" "$bin/dynamic"
attach "a preload library" env LD_PRELOAD=libm.so.6 "$run" "$bin/dynamic"
attach "a small stack" sh -c 'ulimit -s 32 && exec "$@"' sh "$run" "$bin/dynamic"
attach "no address file" "$run" -servers "$mp_dir/none" "$bin/dynamic"
if $cc -static -o "$bin/static" "$mp_dir/plain.c" 2>/dev/null; then
    attach "a static program" "$run" "$bin/static"
else
    mp_skip "iofwd-attach: a static program" "no static programs can be linked here"
fi

# changed NAME SED-SCRIPT: an address file with that change
changed() {
    sed "$2" "$addresses" >"$mp_dir/changed"
    attach "an address file $1" "$run" -servers "$mp_dir/changed" "$bin/dynamic"
}
changed "of a job" '1s/.*/amphora-job 1/'
changed "without a key" '/^key/d'
changed "with a short key" '/^key/s/..$//'
changed "whose key is zero" '/^key/s/[1-9a-f]/0/g; s/^0*ey/key/; s/^0*k*0*y /key /; 3s/.* /key /'
changed "without prefixes" '/^prefix/d'
changed "with a server less than it counts" '$d'
changed "with a damaged server" '$s/0223/022x/'
ln -s "$addresses" "$mp_dir/link"
attach "an address file that is a link" "$run" -servers "$mp_dir/link" "$bin/dynamic"

# ---- the same environment ----

# same NAME WORDS...: env prints the same, by iofwd-run and by iofwd-attach, of the installation $from
from=$mp_dir/real
same() {
    mp_name=$1
    shift
    (cd "$mp_dir/runtime" && env -u _ "$from/bin/iofwd-run" "$@" env 2>&1 | grep -v '^IOFWD_PRIVATE_' | sort >"$mp_dir/quick") </dev/null
    (cd "$mp_dir/runtime" && env -u _ "$from/bin/iofwd-attach" "$@" env 2>&1 | grep -v '^IOFWD_PRIVATE_' | sort >"$mp_dir/attached") </dev/null
    diff "$mp_dir/attached" "$mp_dir/quick" >"$mp_dir/out" 2>&1 && grep -q '^IOFWD_PREFIX=/' "$mp_dir/quick"
    mp_report $? "the same environment: $mp_name" "$mp_dir/out"
}
same "the default address file"
same "a relative address file" -servers iofwd-servers
same "in a folder behind a link" -servers "../runtime/../runtime/iofwd-servers"
ln -s runtime "$mp_dir/runtime-link"
ln -s real "$mp_dir/real-link"
same "in a folder that is a link" -servers "$mp_dir/runtime-link/iofwd-servers"
same "a path with dots and slashes" -servers "$mp_dir/./runtime/..//runtime/iofwd-servers"
from=$mp_dir/real-link same "started by a link"
from=../real same "started by a relative path"
from=$mp_dir/.//runtime/../real same "started by a path with dots and slashes"
same "other prefixes" -servers "$addresses" -iofwd /fwd
IOFWD_PREFIX=/before LD_PRELOAD='' same "settings from before" -servers "$addresses"

# A shell under iofwd-run starts iofwd-run: the library does not warn of a static program.
timeout -k 5 60 "$mp_dir/real/bin/iofwd-run" sh -c '"$1" "$2"; test $? -eq 7' sh "$mp_dir/real/bin/iofwd-run" "$bin/dynamic" >"$mp_dir/out" 2>&1 &&
    test ! -s "$mp_dir/out"
mp_report $? "iofwd-run in a shell under iofwd-run" "$mp_dir/out"

rm "$mp_dir/told/bin/iofwd-attach"
timeout -k 5 60 "$run" -v "$bin/dynamic" >"$mp_dir/out" 2>&1
test $? -eq 1 && grep -q 'iofwd-attach, which is part of it, is found neither' "$mp_dir/out"
mp_report $? "iofwd-attach is missing" "$mp_dir/out"
mp_done
