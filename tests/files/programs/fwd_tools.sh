#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified programs under a forwarded prefix that exists on no host: what they print, their exit codes and the files they leave are
# those of a local run, and the bytes have passed through the servers.
. "${srcdir:-.}/tests/files/fwd_lib.sh"

fwd_both "tools" sh "$srcdir/tests/files/programs/fwd_tools_commands.sh"
fwd_both "shell" sh "$srcdir/tests/files/programs/fwd_shell_commands.sh"
if command -v python3 >/dev/null; then
    fwd_both "python" python3 "$srcdir/tests/files/programs/fwd_python.py"
else
    fwd_skip "python" "there is no python3"
fi

# The counters are exact where one program moves one file.
export IOFWD_NEAR=0 # servers make the calls
mkdir -p "$mp_dir/kept"
head -c 5000001 /dev/urandom >"$mp_dir/big.bin"
fwd_servers "$mp_dir/kept" cp "$mp_dir/big.bin" /fwd/ >"$mp_dir/out"
r=$?
cat "$mp_dir/stats" >>"$mp_dir/out"
cmp "$mp_dir/big.bin" "$mp_dir/kept/big.bin" >>"$mp_dir/out" 2>&1 && test $r -eq 0 && test "$(fwd_counted "bytes written")" -eq 5000001 &&
    test ! -e /fwd
mp_report $? "cp into the prefix: each byte is written by a server" "$mp_dir/out"

fwd_servers "$mp_dir/kept" sha256sum /fwd/big.bin >"$mp_dir/sum"
r=$?
cat "$mp_dir/stats" "$mp_dir/sum" >"$mp_dir/out"
test $r -eq 0 && test "$(cut -d' ' -f1 <"$mp_dir/sum")" = "$(sha256sum <"$mp_dir/big.bin" | cut -d' ' -f1)" &&
    test "$(fwd_counted "bytes read")" -eq 5000001
mp_report $? "sha256sum in the prefix: each byte is read by a server" "$mp_dir/out"

# A program that touches no prefix does not load the client.
fwd_servers "$mp_dir/kept" grep -c -e libiofwd.so -e libamphora.so /proc/self/maps >"$mp_dir/out"
test $? -eq 1 && test "$(cat "$mp_dir/out")" = 0 && test "$(fwd_counted calls)" -eq 0
mp_report $? "a program that touches no prefix loads nothing and calls no server" "$mp_dir/out"

# Without a job: one sentence and EIO, or, where that is wanted, the local file.
preload=$builddir/.libs/libiofwd_preload.so
echo word >"$mp_dir/word"
(
    env -u AMPHORA_JOB IOFWD_PREFIX=/fwd LD_PRELOAD="$preload" cat /fwd/x
    echo "exit code $?"
    env -u AMPHORA_JOB IOFWD_PREFIX="$mp_dir" IOFWD_OPTIONAL=1 LD_PRELOAD="$preload" cat "$mp_dir/word"
    IOFWD_PREFIX=fwd LD_PRELOAD="$preload" cat "$mp_dir/word"
) >"$mp_dir/out" 2>&1
test "$(grep -c 'belongs to no job' "$mp_dir/out")" = 1 && grep -q 'exit code 1' "$mp_dir/out" &&
    test "$(grep -c '^word$' "$mp_dir/out")" = 2 && grep -q 'IOFWD_PREFIX="fwd" is not allowed' "$mp_dir/out"
mp_report $? "without a job: a sentence, or the local file where IOFWD_OPTIONAL says so; a bad prefix is named" "$mp_dir/out"

# The settings that the preload library reads by itself have the words, the bounds and the sentences of the registry.
: >"$mp_dir/out"
for yes in 1 y yes on TRUE; do
    env -u AMPHORA_JOB IOFWD_PREFIX="$mp_dir" IOFWD_OPTIONAL=$yes LD_PRELOAD="$preload" cat "$mp_dir/word" 2>&1 | grep -qx word ||
        echo "IOFWD_OPTIONAL=$yes does not stand for yes" >>"$mp_dir/out"
done
for bad in IOFWD_OPTIONAL=typo IOFWD_OPTIONAL=10 AMPHORA_SERVERS=2x AMPHORA_SERVERS=-3 AMPHORA_SERVERS=2000000; do
    env -u AMPHORA_JOB IOFWD_PREFIX=/fwd "$bad" LD_PRELOAD="$preload" cat "$mp_dir/word" >"$mp_dir/said" 2>&1
    echo "exit code $?" >>"$mp_dir/said"
    env -u AMPHORA_JOB "$bad" "$AMPHORA_RUN" true >"$mp_dir/registry" 2>&1
    echo "exit code $?" >>"$mp_dir/registry"
    diff "$mp_dir/registry" "$mp_dir/said" >>"$mp_dir/out" 2>&1 || echo "$bad" >>"$mp_dir/out"
done
[ ! -s "$mp_dir/out" ]
mp_report $? "settings are taken as the registry takes them, and refused with the same sentence" "$mp_dir/out"
mp_done
