# SPDX-License-Identifier: BSD-3-Clause
# A python program on a directory: fwd_python.py DIRECTORY SCRATCH.  Run by fwd_tools.sh on a local and on a forwarded one.
import json, mmap, os, pathlib, pickle, shutil, subprocess, sys, tempfile, zipfile

d, scratch = sys.argv[1], sys.argv[2]
p = pathlib.Path(d) / 'sub'
p.mkdir(parents=True, exist_ok=True)
f = p / 'x.txt'
f.write_text('hello\nworld\n')
print(repr(f.read_text()), f.stat().st_size, os.listdir(p))
with open(f, 'a') as g:
    g.write('more\n')
with open(f) as g:
    print(g.readlines(), g.fileno() > 2, g.tell())
shutil.copy(f, p / 'y.txt')
shutil.copy2(f, p / 'z.txt')
shutil.copyfile(f, scratch + '/out')
shutil.copy(scratch + '/out', p / 'w')
print(sorted(x.name for x in p.iterdir()), [sorted(q) for *_, q in os.walk(d)])
print(sorted((e.name, e.is_file(), e.stat().st_size) for e in os.scandir(p)))
os.rename(p / 'y.txt', p / 'q')
shutil.move(p / 'q', scratch + '/q')
shutil.move(scratch + '/q', p / 'q')
os.utime(p / 'q', ns=(10**18 + 1, 10**18 + 2))
print(os.stat(p / 'q').st_atime_ns, os.stat(p / 'q').st_mtime_ns)
os.chdir(p)
print(os.getcwd() == str(p), sorted(os.listdir('.')), os.path.exists('q'), os.path.realpath('q'))
print(subprocess.run('cat q; ls; pwd', shell=True, capture_output=True, text=True).stdout)
with open('out', 'w') as o:
    subprocess.run(['echo', 'to file'], stdout=o)
with open('out') as i:
    print(subprocess.run(['tr', 'a-z', 'A-Z'], stdin=i, capture_output=True).stdout)
pid = os.fork()
if pid == 0:
    with open('child', 'w') as o:
        o.write('from the child')
    os._exit(0)
print(os.waitpid(pid, 0)[1], open('child').read())
fd = os.open('rw', os.O_RDWR | os.O_CREAT, 0o640)
os.pwrite(fd, b'abcdef', 3)
print(os.pread(fd, 10, 0), os.lseek(fd, 0, 2), os.fstat(fd).st_size, os.get_inheritable(fd))
os.writev(fd, [b'x' * 5, b'', b'y' * 7])
os.ftruncate(fd, 17)
e = os.dup(fd)
os.close(fd)
print(os.lseek(e, 0, 1), os.lseek(e, 0, 0), os.readv(e, [bytearray(4), bytearray(9)]), os.path.samestat(os.fstat(e), os.stat('rw')))
os.close(e)
with open('rw', 'rb') as g, mmap.mmap(g.fileno(), 0, prot=mmap.PROT_READ) as m:
    print(m[:])
with tempfile.NamedTemporaryFile(dir='.') as t:
    t.write(b'abc')
    t.flush()
    print(os.path.getsize(t.name))
with tempfile.TemporaryDirectory(dir=d) as t:
    json.dump({'a': 1}, open(t + '/j', 'w'))
    print(json.load(open(t + '/j')))
    pickle.dump([1, 2], open(t + '/p', 'wb'))
    print(pickle.load(open(t + '/p', 'rb')))
    with zipfile.ZipFile(t + '/z', 'w') as z:
        z.writestr('a', 'b' * 1000)
    print(zipfile.ZipFile(t + '/z').read('a')[:3])
os.mkdir('pk')
open('pk/mod.py', 'w').write('v = 7\n')
sys.path.insert(0, str(p))
sys.dont_write_bytecode = True
import pk.mod
print(pk.mod.v)
os.symlink('q', 'l')
os.link('q', 'h')
print(os.readlink('l'), os.path.islink('l'), os.stat('h').st_nlink, os.access('h', os.W_OK), os.statvfs('.').f_namemax)
dirfd = os.open('.', os.O_RDONLY)
print(sorted(os.listdir(dirfd)), os.stat('q', dir_fd=dirfd).st_size)
os.mkdir('viafd', dir_fd=dirfd)
os.rename('viafd', 'viafd2', src_dir_fd=dirfd, dst_dir_fd=dirfd)
os.fchdir(dirfd)
print(os.getcwd())
os.close(dirfd)
for bad in (lambda: open(d + '/none'), lambda: os.mkdir(d + '/a/b'), lambda: os.rmdir(d + '/none'), lambda: os.open(d, os.O_WRONLY),
            lambda: open(d + '/'), lambda: os.rmdir(p), lambda: os.mkdir(p), lambda: open('q/x'), lambda: os.readlink('q'),
            lambda: os.open('q', os.O_CREAT | os.O_EXCL), lambda: os.rename('none', 'x'), lambda: os.listdir('q'),
            lambda: open('n' * 300), lambda: os.link('none', 'x'), lambda: os.rename('q', scratch + '/none/x'), lambda: os.truncate('pk', 1)):
    try:
        bad()
        print('no error')
    except OSError as error:
        print(error.errno)
os.chdir('/')
shutil.copytree(p, d + '/copy', symlinks=True)
shutil.rmtree(p)
print(os.listdir(d))
