# SPDX-License-Identifier: BSD-3-Clause
"""Sockets whose names lie in a directory: fwd_sockets.py DIRECTORY SCRATCH.  Run by fwd_suites.sh on a local and on a forwarded one."""
import errno, os, socket, stat, subprocess, sys, tempfile
from multiprocessing import connection

top = sys.argv[1]
os.chdir(top)


def tell(what, call, *arguments):
    try:
        result = call(*arguments)
    except OSError as e:
        result = errno.errorcode[e.errno]
    print(what, result, flush=True)


def made(kind=socket.SOCK_STREAM):
    s = socket.socket(socket.AF_UNIX, kind)
    s.settimeout(20)
    return s


server = made()
os.umask(0o027)
tell("bind", server.bind, "name")
tell("again", server.bind, "other")
tell("taken", made().bind, "name")
tell("no folder", made().bind, "none/name")
tell("not listening", made().connect, "name")
server.listen(5)
print("getsockname", server.getsockname(), stat.filemode(os.stat("name").st_mode), sorted(os.listdir(".")))
os.mkdir("sub")
os.link("name", "sub/hard")
os.symlink("../name", "sub/soft")
for name in "name", top + "/name", top + "/sub/../name", "sub/hard", "sub/soft":
    s = made()
    tell("connect " + name, s.connect, name)
    there, _ = server.accept()
    there.sendall(b"greeting")
    print(s.recv(100), s.getpeername(), repr(s.getsockname()), there.getsockname())
    s.close()
    there.close()
child = subprocess.run([sys.executable, "-c", """import socket
s = socket.socket(socket.AF_UNIX)
s.connect("sub/soft")
print("child", s.getpeername())"""], stdout=subprocess.PIPE)
print(child.returncode, child.stdout)
with open("file", "w") as f:
    f.write("no socket")
tell("a file", made().connect, "file")
tell("nothing", made().connect, "nothing")
tell("another kind", made(socket.SOCK_DGRAM).connect, "name")
server.close()
tell("nobody", made().connect, "name")
os.rename("name", "moved")
tell("gone", made().connect, "name")
os.unlink("moved")
tell("free again", made().bind, "name")

one, two = made(socket.SOCK_DGRAM), made(socket.SOCK_DGRAM)
one.bind("one")
two.bind(top + "/two")
one.sendto(b"to two", "two")
print(two.recv(100))
two.sendmsg([b"to ", b"one"], [], 0, "one")
print(one.recv(100))
tell("sendto nobody", one.sendto, b"x", "name")

tempfile.tempdir = top
with connection.Listener(family="AF_UNIX") as listener:
    client = connection.Client(listener.address)
    server = listener.accept()
    client.send({"an": "object"})
    print(server.recv(), os.path.dirname(os.path.dirname(listener.address)))
    client.close()
    server.close()
