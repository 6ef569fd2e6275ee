#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What the test suites of other projects have found to differ below a forwarded prefix.
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_TEST_SWAP # some commands clear their environment

fwd_both "from other projects' suites" sh "$srcdir/tests/files/programs/fwd_suites_commands.sh"
if command -v python3 >/dev/null; then
    fwd_both "sockets" python3 "$srcdir/tests/files/programs/fwd_sockets.py"
    # The names on this host of sockets below a prefix: the dead ones go with the next bind, and their links a minute later, unless a connection
    # has the name still.
    mkdir -p "$mp_dir/f/kept"
    fwd_servers "$mp_dir/f/kept" python3 -c '
import os, socket, subprocess, sys
folder = "/tmp/iofwd-sockets-%d" % os.geteuid()
def bound(name, kind=socket.SOCK_STREAM):
    before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    s = socket.socket(socket.AF_UNIX, kind)
    s.bind("/fwd/" + name)
    new = [folder + "/" + n for n in set(os.listdir(folder)) - before]
    mine = [n for n in new if n.endswith(".name") and os.readlink(n) == "/fwd/" + name]
    return s, [mine[0], mine[0][:-5]]
def age(names):
    for n in names:
        os.utime(n, (1, 1), follow_symlinks=False)
dead, dead_names = bound("dead")
young, young_names = bound("young")
dgram, dgram_names = bound("dgram", socket.SOCK_DGRAM)
only, only_names = bound("only bound")
live, live_names = bound("listens")
live.listen()
served, served_names = bound("served")
served.listen()
outliving = socket.socket(socket.AF_UNIX)
outliving.connect("/fwd/served")
accepted, _ = served.accept()
served.close()
dead.close()
young.close()
for names in dead_names, dgram_names, only_names, live_names, served_names:
    age(names)
bound("next")
print("left of the dead:", [os.path.lexists(n) for n in dead_names])
print("left of the young:", [os.path.lexists(n) for n in young_names])
print("left of the served:", [os.path.lexists(n) for n in served_names], outliving.getpeername())
print("left of the others:", all(os.path.lexists(n) for n in dgram_names + only_names + live_names))
c = socket.socket(socket.AF_UNIX)
c.connect("/fwd/listens")
try:
    socket.socket(socket.AF_UNIX).connect("/fwd/dead")
except ConnectionRefusedError:
    print("refused", c.getpeername())' >"$mp_dir/out"
    cat >"$mp_dir/expected" <<'END'
left of the dead: [False, False]
left of the young: [True, False]
left of the served: [True, False] /fwd/served
left of the others: True
refused /fwd/listens
END
    diff "$mp_dir/expected" "$mp_dir/out" >"$mp_dir/diff"
    mp_report $? "names of dead sockets go" "$mp_dir/diff"
else
    fwd_skip "sockets" "there is no python3"
    mp_skip "names of dead sockets go" "there is no python3"
fi
mp_done
