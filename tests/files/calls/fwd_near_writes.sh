#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Files that a program writes itself because its standing servers are near (iofwd/interpose/path/near_change.c): clients that hold data
# and attributes see each change at once, a program that is killed leaves nothing under way, and shared maps of two kinds are refused.
# Likewise maps by descriptors that the servers pass (iofwd/interpose/memory/map_itself.c).
. "${srcdir:-.}/tests/files/own_shm.sh"
. "${srcdir:-.}/tests/files/fwd_lib.sh"
unset AMPHORA_JOB AMPHORA_RANK IOFWD_PREFIX FWD_STANDING
export IOFWD_NEAR=1

if ! command -v python3 >/dev/null; then
    mp_skip "files that programs near their servers write" "there is no python3"
    mp_done
    exit
fi

kept=$mp_dir/kept address=$mp_dir/address
mkdir -p "$kept"
trap 'test -f "$mp_dir/pid" && kill "$(cat "$mp_dir/pid")"; rm -rf "$mp_dir"' EXIT
up() {
    timeout 600 "$builddir/iofwd-server" -daemon -servers 1 -iofwd "/fwd=$kept" -address-file "$address" -pid-file "$mp_dir/pid" \
        >/dev/null 2>&1 </dev/null
}
up || exit 1

# Each process evaluates the lines that it gets and prints what they give.
cat >"$mp_dir/agent.py" <<'X'
import fcntl, mmap, os, socket, subprocess, sys
def answer(line):
    try:
        try:
            return eval(line, globals())
        except SyntaxError:
            return exec(line, globals())
    except Exception as e:
        return type(e).__name__ + " " + str(getattr(e, "errno", ""))
def start_child():
    """Forks a child that evaluates lines, too."""
    global child, questions, answers
    questions, answers = os.pipe(), os.pipe()
    child = os.fork()
    while child == 0:
        os.write(answers[1], repr(answer(os.read(questions[0], 9999).decode())).encode())
def ask_child(line):
    os.write(questions[1], line.encode())
    return eval(os.read(answers[0], 9999).decode())
for line in sys.stdin:
    print(repr(answer(line)), flush=True)
X

# The driver: processes that hold what servers tell them for a minute (near=0), and others that make their calls themselves.
cat >"$mp_dir/lib.py" <<'X'
import os, signal, subprocess, sys, time
run, address, agent, kept = sys.argv[1:5]

def calls():
    """What the server has done so far."""
    text = subprocess.run([run.replace("iofwd-run", "iofwd-ctl"), "status", "-all", "-servers", address], capture_output=True, text=True).stdout
    return int(next(l.split()[1] for l in text.splitlines() if l.split()[:1] == ["server_calls"]))

class Process:
    def __init__(self, near, **more):
        settings = dict(os.environ, IOFWD_NEAR=str(near), IOFWD_CACHE_AGE="60000" if not near else "10", **more)
        self.p = subprocess.Popen([run, "-servers", address, "python3", "-B", agent], env=settings, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def __call__(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.p.stdout.readline().strip()

    def warned(self, line):
        """A warning and what the line gives."""
        return self(line), self.p.stdout.readline().strip()

    def end(self):
        self.p.stdin.close()
        self.p.wait()

bad = 0
def check(what, got, wanted):
    global bad
    if got != wanted:
        bad += 1
        print(f"{what}: {got} and not {wanted}")

def hold(process, name):
    """Has it ask until it holds the attributes, and what comes next in g."""
    process("[(os.stat(\"/fwd/" + name + "\"), os.fstat(g)) for i in range(4)], os.lseek(g, 0, 0), [os.read(g, 100) for i in range(4)]")

def done():
    print(bad, "wrong")
    sys.exit(bad > 0)
X

# section NAME CODE: CODE, after lib.py
section() {
    mp_wanted "$1" || return 0
    { cat "$mp_dir/lib.py" && printf '%s\n' "$2" "done()"; } >"$mp_dir/section.py"
    timeout -k 5 120 python3 -B "$mp_dir/section.py" "$builddir/iofwd-run" "$address" "$mp_dir/agent.py" "$kept" >"$mp_dir/out" 2>&1
    mp_report $? "$1" "$mp_dir/out"
}

section "what others hold is current after each change" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
writer = Process(1)
before = calls()
writer("f = os.open(\"/fwd/a\", os.O_RDWR | os.O_CREAT, 0o644)")
writer("os.write(f, b\"0\" * 60000)")
check("the server has made no call", calls(), before)
holder("g = os.open(\"/fwd/a\", os.O_RDONLY)")
changes = [("os.pwrite(f, b\"1\" * 60000, 0)", "1", 60000), ("os.lseek(f, 0, 0), os.write(f, b\"2\" * 60000)", "2", 60000),
           ("os.ftruncate(f, 50000)", "2", 50000), ("os.dup2(999, f)", "2", 50000),
           ("os.pwrite(f, b\"0\" * 50000, 0)", "0", 50000), ("h = os.dup(f)", "0", 50000), ("os.close(f)", "0", 50000),
           ("os.pwrite(h, b\"3\" * 50000, 0)", "3", 50000),
           ("f = os.open(\"/fwd/a\", os.O_WRONLY | os.O_TRUNC)", "", 0), ("os.write(f, b\"4\" * 70000)", "4", 70000),
           ("os.dup2(f, 200)", "4", 70000), ("os.close(f), os.close(h)", "4", 70000), ("os.pwrite(200, b\"5\" * 70000, 0)", "5", 70000),
           ("f = fcntl.fcntl(200, fcntl.F_DUPFD, 100)", "5", 70000), ("os.close(200)", "5", 70000),
           ("os.pwrite(f, b\"6\" * 70000, 0)", "6", 70000),
           ("a, b = socket.socketpair()", "6", 70000), ("socket.send_fds(a, [b\"x\"], [f])", "6", 70000), ("os.close(f)", "6", 70000),
           ("f = socket.recv_fds(b, 1, 1)[1][0]", "6", 70000), ("os.pwrite(f, b\"7\" * 70000, 0)", "7", 70000)]
for change, text, size in changes:
    for times in range(2): # what it holds, and after the change
        if times:
            writer(change)
        else:
            hold(holder, "a")
    check(change, holder("os.stat(\"/fwd/a\").st_size, os.fstat(g).st_size"), repr((size, size)))
    check(change, holder("os.lseek(g, 0, 0), b\"\".join(os.read(g, 1000) for i in range(80))[-1:]"), repr((0, text[-1:].encode())))
for text in ("8", "9"):
    hold(holder, "a")
    writer("os.pwrite(f, b\"" + text + "\" * 70000, 0)")
    check("in the midst of reading", holder("os.read(g, 100)[:1]"), repr(text.encode()))
for change, field, value in [("os.chmod(\"/fwd/a\", 0o612)", "st_mode & 0o777", "394"), ("os.utime(\"/fwd/a\", (7, 9))", "st_mtime", "9.0"),
                             ("os.link(\"/fwd/a\", \"/fwd/a2\")", "st_nlink", "2"), ("os.unlink(\"/fwd/a2\")", "st_nlink", "1")]:
    hold(holder, "a")
    writer(change)
    check(change, holder("os.stat(\"/fwd/a\")." + field), value)
    check(change, holder("os.fstat(g)." + field), value)
writer("os.rename(\"/fwd/a\", \"/fwd/b\")")
check("renamed", holder("os.stat(\"/fwd/a\").st_size"), repr("FileNotFoundError 2"))
holder("os.stat(\"/fwd/b\").st_nlink")
writer("os.unlink(\"/fwd/b\")")
check("removed", holder("os.stat(\"/fwd/b\").st_size"), repr("FileNotFoundError 2"))
check("removed, and open", holder("os.fstat(g).st_nlink"), "0")
check("made", writer("os.mkdir(\"/fwd/d\")"), "None")
check("made", holder("os.path.isdir(\"/fwd/d\")"), "True")
check("removed", writer("os.rmdir(\"/fwd/d\")"), "None")
check("removed", holder("os.path.isdir(\"/fwd/d\")"), "False")
holder.end()
writer.end()'

section "children, other programs and maps write" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
writer = Process(1)
writer("f = open(\"/fwd/c\", \"w+b\", buffering=0)")
writer("f.write(b\"0\" * 5000)")
holder("g = os.open(\"/fwd/c\", os.O_RDONLY)")
def change(code, byte):
    hold(holder, "c")
    writer(code)
    check(code, holder("os.read(g, 100)[:1]"), repr(byte))
# what has the file open is the child alone, then
writer("import threading, time")
writer("r, w = os.pipe()")
writer("pid = os.fork() or (os.close(w), os.read(r, 1), f.seek(0), f.write(b\"1\" * 5000), time.sleep(100))")
writer("f.close()")
change("os.write(w, b\"x\"), time.sleep(0.5)", b"1")
writer("os.kill(pid, 9), os.waitpid(pid, 0)")
# a program that inherits the file, which its parent closes
writer("f = os.open(\"/fwd/c\", os.O_RDWR)")
writer("p = subprocess.Popen([\"sh\", \"-c\", \"read x; printf 2222222222 >&\" + str(f) + \"; echo done; read y\"], pass_fds=[f], stdin=subprocess.PIPE, stdout=subprocess.PIPE)")
writer("os.lseek(f, 400, 0), os.close(f)")
change("p.stdin.write(b\"\\n\"), p.stdin.flush(), p.stdout.readline()", b"2")
writer("p.kill(), p.wait()")
# a map that outlives its descriptor
writer("f = open(\"/fwd/c\", \"r+b\")")
writer("m = mmap.mmap(f.fileno(), 5000)")
writer("f.close()")
change("m[0:5000] = b\"3\" * 5000", b"3")
writer("m.close()")
# more files than there are entries
writer("many = [open(\"/fwd/many\" + str(i), \"w+b\", buffering=0) for i in range(60)]")
writer("many[59].write(b\"0\" * 5000)")
holder("g = os.open(\"/fwd/many59\", os.O_RDONLY)")
change("many[59].seek(0), many[59].write(b\"4\" * 5000)", b"4")
holder.end()
writer.end()'

section "a program that is killed leaves nothing under way" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
for times in range(5):
    writer = Process(1)
    writer("f = os.open(\"/fwd/k\", os.O_RDWR | os.O_CREAT, 0o644)")
    writer("os.write(f, b\"0\" * 60000)")
    holder("os.stat(\"/fwd/k\")")
    before = calls()
    holder("[os.stat(\"/fwd/k\") for i in range(50)]")
    check("each question is asked while it is written, at least 50 calls", calls() - before >= 50, True)
    os.kill(writer.p.pid, signal.SIGKILL)
    if times % 2: # in the other turns its parent does not yet know that it has ended
        writer.p.wait()
    for tries in range(100):
        before = calls()
        holder("[os.stat(\"/fwd/k\") for i in range(50)]")
        if calls() - before < 10:
            break
        time.sleep(0.1)
    check("answers are held again", calls() - before < 10, True)
    writer.p.wait()
holder.end()'

section "descriptors that are closed unseen are found by the next opens" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
writer = Process(1)
writer("import ctypes")
# that of the C library: its first version differs by machine, and dlsym would find ours
writer("libc = ctypes.CDLL(\"libc.so.6\")")
writer("libc.dlvsym.restype = ctypes.c_void_p")
writer("libc.dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]")
writer("first = [b\"GLIBC_\" + v for v in (b\"2.2.5\", b\"2.17\", b\"2.2\", b\"2.0\", b\"2.4\", b\"2.27\")]")
writer("found = [p for p in (libc.dlvsym(libc._handle, b\"close\", v) for v in first) if p]")
writer("bare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(found[0])")
for files in 20, 60:
    writer("many = [os.open(\"/fwd/u\" + str(i), os.O_RDWR | os.O_CREAT, 0o644) for i in range(20)]")
    writer("[bare(f) for f in many]")
    before = calls()
    holder("[os.stat(\"/fwd/u\" + str(i)) for i in range(20) for times in range(5)]")
    check("each counts as written, at least 50 calls", calls() - before >= 50, True)
    writer("[os.close(os.open(\"/fwd/other\" + str(i), os.O_WRONLY | os.O_CREAT, 0o644)) for i in range(" + str(files) + ")]")
    holder("[os.stat(\"/fwd/u\" + str(i)) for i in range(20)]")
    before = calls()
    holder("[os.stat(\"/fwd/u\" + str(i)) for i in range(20) for times in range(5)]")
    check("answers are held again", calls() - before < 10, True)
# while many are open, a new one finds an entry that was closed unseen
writer("many = [os.open(\"/fwd/u\" + str(i), os.O_RDWR | os.O_CREAT, 0o644) for i in range(28)]")
writer("bare(many[27])")
writer("f = os.open(\"/fwd/last\", os.O_RDWR | os.O_CREAT, 0o644)")
holder("os.stat(\"/fwd/other0\")")
before = calls()
holder("[os.stat(\"/fwd/other0\") for i in range(50)]")
check("not all files count as written", calls() - before < 10, True)
holder.end()
writer.end()'

section "many short programs, each of which writes" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
holder("open(\"/fwd/s\", \"w\").write(\"0\")")
before = calls()
for i in range(200):
    subprocess.run([run, "-servers", address, "sh", "-c", "echo $1 >>/fwd/s", "sh", str(i)])
check("no server helps", calls() - before, 0)
check("their lines", holder("len(open(\"/fwd/s\").read().split())"), "200")
holder.end()'

section "two kinds of shared maps are refused" '
near = Process(1)
other = Process(0, IOFWD_PASSTHROUGH="0")
near("f = open(\"/fwd/m\", \"w+b\", buffering=0)")
near("f.write(b\"0\" * 5000)")
near("m = mmap.mmap(f.fileno(), 5000)")
other("g = open(\"/fwd/m\", \"r+b\")")
def refused(process, code):
    text, error = process.warned(code)
    check(code, ("mapped (MAP_SHARED) by programs that open it by themselves" in text, error), (True, repr("OSError 19")))
refused(other, "mmap.mmap(g.fileno(), 5000)")
near("m.close()")
check("after its unmap", other("m = mmap.mmap(g.fileno(), 5000)"), "None")
refused(near, "mmap.mmap(f.fileno(), 5000)")
near("r = open(\"/fwd/m\", \"rb\")")
near("m = mmap.mmap(r.fileno(), 5000, access=mmap.ACCESS_READ)")
other("m[0:4] = b\"text\"")
check("a map that is only read shares the pages", near("m[0:4]"), repr(b"text"))
near("m.close()")
other("m.close(), g.close()")
check("after that", near("m = mmap.mmap(f.fileno(), 5000)"), "None")
os.symlink("m", kept + "/link")
near("n = open(\"/fwd/link\", \"r+b\")")
check("by a link, which a server follows", near("k = mmap.mmap(n.fileno(), 5000)"), "None")
near("k[0:4] = b\"link\"")
check("one memory", near("m[0:4]"), repr(b"link"))
near("k.close(), m.close()")
near("m = mmap.mmap(r.fileno(), 5000, access=mmap.ACCESS_READ)")
check("both kinds are only read", other("g = open(\"/fwd/m\", \"rb\"); m = mmap.mmap(g.fileno(), 5000, access=mmap.ACCESS_READ)"), "None")
for times in range(2):
    refused(near, "mmap.mmap(f.fileno(), 5000)")
other("m.close(), g.close()")
other("g = open(\"/fwd/m\", \"r+b\")")
refused(other, "mmap.mmap(g.fileno(), 5000)")
near.end()
other.end()'

section "maps by passed descriptors: one memory, and no other kind beside it" '
one, two, near, copies = Process(0), Process(0), Process(1), Process(0, IOFWD_PASSTHROUGH="0")
one("f = open(\"/fwd/p\", \"w+b\", buffering=0)")
one("f.write(b\"0\" * 5000)")
one("m = mmap.mmap(f.fileno(), 5000)")
check("it is the file", one("sum(l.endswith(\"kept/p\\n\") for l in open(\"/proc/self/maps\"))"), "1")
for process in two, near:
    process("g = open(\"/fwd/p\", \"r+b\", buffering=0)")
    process("m = mmap.mmap(g.fileno(), 5000)")
    one("m[0:4] = b\"here\"")
    check("what one has stored", process("m[0:4]"), repr(b"here"))
    process("m[4999] = 65")
    check("what it has stored", one("m[4990:]"), repr(b"000000000A"))
    check("where it reads", copies("open(\"/fwd/p\", \"rb\").read()[4998:]"), repr(b"0A"))
copies("g = open(\"/fwd/p\", \"r+b\", buffering=0)")
copies("os.pwrite(g.fileno(), b\"text\", 100)")
check("what a server writes", two("m[99:105]"), repr(b"0text0"))
text, error = copies.warned("mmap.mmap(g.fileno(), 5000)")
check("another kind", ("to which the servers pass its descriptor" in text, "/fwd/p" in text, error), (True, True, repr("OSError 19")))
near("m.close()")
one("m.close()")
check("while one is left", copies.warned("mmap.mmap(g.fileno(), 5000)")[1], repr("OSError 19"))
two("m.close()")
check("when all have gone", copies("m = mmap.mmap(g.fileno(), 5000)"), "None")
check("then others take that kind", one("m = mmap.mmap(f.fileno(), 5000)"), "None")
one("m[200:204] = b\"page\"")
check("and share it", copies("m[199:205]"), repr(b"0page0"))
check("it is not the file", one("sum(l.endswith(\"kept/p\\n\") for l in open(\"/proc/self/maps\"))"), "0")
one("m.close()")
copies("m.close(), g.close()")
for process in one, copies:
    process("g = open(\"/fwd/p\", \"rb\"); m = mmap.mmap(g.fileno(), 5000, access=mmap.ACCESS_READ)")
    check("both kinds are only read", process("m[199:205]"), repr(b"0page0"))
for process in one, two, near, copies:
    process.end()'

section "what others hold while a file is mapped" '
holder = Process(0, IOFWD_PASSTHROUGH="0")
writer = Process(0)
def holds():
    """Whether it answers by itself."""
    hold(holder, "h")
    before = calls()
    holder("[os.fstat(g) for i in range(20)]")
    return calls() - before < 10
def await_holds(what):
    deadline = time.time() + 20
    while not holds() and time.time() < deadline:
        pass
    check(what, holds(), True)
def stored(process, text):
    hold(holder, "h")
    process("m[0:5000] = b\"" + text + "\" * 5000")
    check("stored " + text, holder("os.lseek(g, 0, 0), os.read(g, 100)[:1]"), repr((0, text.encode())))
writer("f = open(\"/fwd/h\", \"w+b\", buffering=0)")
writer("f.write(b\"0\" * 60000)")
holder("g = os.open(\"/fwd/h\", os.O_RDONLY)")
await_holds("nobody maps it")
before = int(holder("os.fstat(g).st_mtime_ns"))
writer("m = mmap.mmap(f.fileno(), 60000)")
for text in "123":
    stored(writer, text)
check("the time of the change", int(holder("os.fstat(g).st_mtime_ns")) > before, True)
check("mapped", holds(), False)
writer("f.close()")
stored(writer, "4")
writer("m.resize(50000)")
stored(writer, "5")
writer("import ctypes; libc = ctypes.CDLL(None); at = ctypes.addressof(ctypes.c_char.from_buffer(m)); void = ctypes.c_void_p")
for call in "munmap(void(at), 0)", "munmap(void(at + 1), 4096)", "mmap(void(at), ctypes.c_size_t(65536), 3, 17, 999, ctypes.c_long(0))":
    check(call, writer("libc." + call), "-1") # MAP_SHARED and MAP_FIXED
    stored(writer, "6")
check("a part of it", writer("libc.munmap(void(at + 8192), 8192)"), "0")
stored(writer, "7")
writer("m.close()")
await_holds("mapped no more")
writer("f = open(\"/fwd/h\", \"r+b\")")
writer("m = mmap.mmap(f.fileno(), 50000)")
writer("start_child()")
writer("m.close(), f.close()")
for text in "89":
    hold(holder, "h")
    writer("ask_child(\"m[0:5000] = b\\\"" + text + "\\\" * 5000\")")
    check("stored by a child alone", holder("os.lseek(g, 0, 0), os.read(g, 100)[:1]"), repr((0, text.encode())))
check("mapped by a child", holds(), False)
writer("os.kill(child, 9), os.waitpid(child, 0)")
await_holds("the child has gone")
writer("f = open(\"/fwd/h\", \"r+b\"); m = mmap.mmap(f.fileno(), 50000)")
stored(writer, "a")
os.kill(int(writer("os.getpid()")), 9)
writer.p.wait()
check("what a killed program has stored", holder("os.lseek(g, 0, 0), os.read(g, 100)[:1]"), repr((0, b"a")))
await_holds("the program has gone")
holder.end()'

section "servers that are killed or stopped, and start again" '
def kill():
    lines = [l.split() for l in open(address)]
    # whichever is left would remove the address file of the next
    watch = [int(l[1]) for l in lines if l[0] == "watch"]
    pids = [int(l[2]) for l in lines if l[0] == "server"] + watch
    os.kill(watch[0], signal.SIGSTOP)
    subprocess.run(["kill", "-9"] + [str(pid) for pid in pids])
    return pids

def stop():
    pids = [int(l.split()[1]) for l in open(address) if l.startswith("watch ")]
    subprocess.run([run.replace("iofwd-run", "iofwd-ctl"), "stop", "-servers", address], stdout=subprocess.DEVNULL)
    return pids

writer = Process(1)
mapper = Process(0)
mapper("f = open(\"/fwd/mapped\", \"w+b\", buffering=0)")
mapper("f.write(b\"0\" * 5000)")
mapper("m = mmap.mmap(f.fileno(), 5000)")
writer("f = os.open(\"/fwd/r\", os.O_RDWR | os.O_CREAT, 0o644)")
for byte, end in ("1", kill), ("2", stop):
    writer("os.pwrite(f, b\"0\" * 5000, 0), os.ftruncate(f, 5000)")
    for pid in end():
        subprocess.run(["timeout", "20", "tail", "-f", "--pid=" + str(pid), "/dev/null"], check=True) # until it has gone
    subprocess.run([run.replace("iofwd-run", "iofwd-server"), "-daemon", "-servers", "1", "-iofwd", "/fwd=" + kept, "-address-file", address,
                    "-pid-file", kept + "/../pid"], check=True, stdout=subprocess.DEVNULL)
    holder = Process(0, IOFWD_PASSTHROUGH="0")
    holder("g = os.open(\"/fwd/r\", os.O_RDONLY)")
    hold(holder, "r")
    writer("os.pwrite(f, b\"" + byte + "\" * 6000, 0)")
    holder("h = os.open(\"/fwd/mapped\", os.O_RDONLY)")
    for text in (b"a" + byte.encode(), b"b" + byte.encode()):
        holder("[(os.lseek(h, 0, 0), os.read(h, 100)) for i in range(4)]")
        mapper("m[0:2] = " + repr(text))
        check("stored by who was there before", holder("os.pread(h, 2, 0)"), repr(text))
    check("written by who was there before", holder("os.read(g, 100)[:1], os.fstat(g).st_size"), repr((byte.encode(), 6000)))
    holder.end()
mapper.end()
writer.end()'

mp_done
