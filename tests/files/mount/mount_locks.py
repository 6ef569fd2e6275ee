# SPDX-License-Identifier: BSD-3-Clause
"""Takes a lock for mount_locks.sh and says what happened.

mount_locks.py FILE hold KIND       takes the lock, prints "held", keeps it until standard input ends, prints "freed"
mount_locks.py FILE try KIND        "got" or "refused"
mount_locks.py FILE wait KIND       waits for it: "waits", then "got"
mount_locks.py FILE waiters KIND PREFIX COUNT
                                    as many processes that wait, each with an open file; what they print goes to PREFIX.NUMBER
mount_locks.py FILE alarm KIND      waits, and is interrupted by a signal: "interrupted"
mount_locks.py FILE holder          the type that F_GETLK reports
KIND: posix (bytes 10 to 19), shared (the same, for reading), beside (bytes 20 to 29), flock, flockshared
"""
import fcntl
import os
import signal
import struct
import sys

path, verb = sys.argv[1:3]
kind = sys.argv[3] if len(sys.argv) > 3 else "posix"
fd = os.open(path, os.O_RDWR)


def lock(waits):
    wait = 0 if waits else fcntl.LOCK_NB
    share = fcntl.LOCK_SH if "shared" in kind else fcntl.LOCK_EX
    if kind.startswith("flock"):
        fcntl.flock(fd, share | wait)
    else:
        fcntl.lockf(fd, share | wait, 10, 20 if kind == "beside" else 10)


def say(word):
    print(word, flush=True)


if verb == "hold":
    lock(True)
    say("held")
    sys.stdin.read()
    os.close(fd)
    say("freed")
elif verb == "try":
    try:
        lock(False)
        say("got")
    except BlockingIOError:
        say("refused")
elif verb == "wait":
    say("waits")
    lock(True)
    say("got")
elif verb == "waiters":
    os.close(fd)
    for number in range(int(sys.argv[5])):
        if os.fork() == 0:
            fd = os.open(path, os.O_RDWR)
            sys.stdout = open(f"{sys.argv[4]}.{number}", "w")
            say("waits")
            lock(True)
            say("got")
            os._exit(0)
elif verb == "alarm":
    def raises(number, frame):
        raise InterruptedError

    signal.signal(signal.SIGALRM, raises)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        lock(True)
        say("got")
    except InterruptedError:
        say("interrupted")
elif verb == "holder":
    ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    found = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, ask))
    say({fcntl.F_UNLCK: "none", fcntl.F_RDLCK: "read", fcntl.F_WRLCK: "write"}[found[0]])
