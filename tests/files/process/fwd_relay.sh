#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Static programs whose standard input and output a shell has led to forwarded files: data, order, exit codes and signals are as on a
# local file.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
AMPHORA_LOG=error # no warning of static programs (fwd_bypass.sh)
export AMPHORA_LOG

if ! ${CC:-cc} -static -O1 -o "$mp_dir/static" "$srcdir/tests/files/process/fwd_relay.c" >"$mp_dir/out" 2>&1; then
    echo "1..0 # SKIP no static programs can be linked here"
    exit 0
fi
cat >"$mp_dir/commands" <<'X'
cd "$1"
S=$3 T=$2
mkfifo "$T/fifo"
"$S" out 40000 >big; wc -c <big; md5sum <big
"$S" exit 3 >empty; echo "$?"; wc -c <empty
"$S" cat <big | md5sum; "$S" cat <big >copy; cmp big copy && echo same
(read -r line; "$S" head 7; echo; "$S" head 3; echo; head -c 5; echo) <big
("$S" head 20 >/dev/null; cat | wc -c) <big
"$S" both >two 2>&1; cat two
"$S" both >out 2>err; cat out err
"$S" out 3 >>log; "$S" out 3 >>log; echo more >>log; cat log
(echo before; "$S" out 3; echo after) >group; cat group
"$S" die 15 >killed; echo $?
"$S" die 6 >killed; echo $?
"$S" signal "$T/fifo" >caught & read -r x <"$T/fifo"; kill -USR1 $!; wait $!; echo "$?"; cat caught
"$S" late "$T/fifo" >late; wc -c <late; echo go >"$T/fifo"; timeout 20 sh -c 'until grep late late; do sleep 0.02; done'
exec 3>big3; "$S" out 5 >&3; echo tail >&3; exec 3>&-; cat big3
cp "$S" here; ./here out 2 >from; cat from; timeout 20 ./here cat <from | cat; echo piped | "$S" cat >piped; cat piped
"$S" out 100000 | "$S" head 5 >head; echo; cat head; "$S" nothing </dev/null; "$S" cat </nowhere 2>/dev/null || echo none
if command -v python3 >/dev/null; then
    python3 -c '
import os, subprocess, sys
with open("sub", "w") as f:
    print(subprocess.run([sys.argv[1], "out", "3"], stdout=f).returncode, subprocess.run([sys.argv[1], "exit", "4"], stdout=f).returncode)
print(open("sub").read(), subprocess.run([sys.argv[1], "cat"], stdin=open("sub"), capture_output=True).stdout)
pid = os.posix_spawn(sys.argv[1], [sys.argv[1], "out", "2"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "spawned", os.O_WRONLY | os.O_CREAT, 0o600)])
print(os.waitpid(pid, 0)[1], open("spawned").read())
f = os.open("given", os.O_WRONLY | os.O_CREAT, 0o600)
pid = os.posix_spawn(sys.argv[1], [sys.argv[1], "out", "2"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, f, 1)])
print(os.waitpid(pid, 0)[1], open("given").read())' "$S"
fi
rm here
X
printf '#!/bin/sh\nexec sh %s/commands "$1" "$2" %s/static\n' "$mp_dir" "$mp_dir" >"$mp_dir/run"
chmod +x "$mp_dir/run"
fwd_both "static programs" "$mp_dir/run"
mp_done
