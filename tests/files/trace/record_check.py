# SPDX-License-Identifier: BSD-3-Clause
# record_check.py STRACE RECORDS FOLDER: each line of strace -f -y -ttt -T has a record (lines of JSON, of iofwd-trace sql) or belongs to a
# listed class: the loader, locales, name services, memory, asynchronous I/O's threads, isatty, the number of processors, what a recorded function of the C library causes, the C library's streams,
# and the recorder itself.  Prints the number of lines of each class, and each line that has none.
import collections, json, os, re, sys

strace, records, folder = sys.argv[1:]
SLACK = 0.0003  # strace's clock and ours are read at different moments
NESTED = 0.00003  # within another call: both times are rounded

# calls of the kernel that the C library makes for a function of another name
AS = {
    'openat': 'open', 'open': 'open', 'creat': 'open', 'newfstatat': 'stat', 'fstat': 'stat', 'stat': 'stat', 'lstat': 'stat', 'statx': 'statx',
    'pread64': 'pread', 'pwrite64': 'pwrite', 'faccessat2': 'access', 'faccessat': 'access', 'access': 'access', 'unlinkat': 'unlink',
    'renameat': 'rename', 'renameat2': 'rename', 'mkdirat': 'mkdir', 'rmdir': 'unlink', 'unlink': 'unlink', 'fchmodat': 'chmod', 'readlinkat': 'readlink',
    'dup': 'dup2', 'dup3': 'dup2', 'pipe2': 'pipe', 'fadvise64': 'posix_fadvise', 'linkat': 'link', 'symlinkat': 'symlink', 'utimensat': 'utime', 'clone': 'fork',
    'clone3': 'fork', 'vfork': 'fork', 'getdents64': 'readdir', 'exit_group': 'exit', 'exit': 'exit', 'execve': 'exec', 'statfs': 'statfs', 'poll': 'poll', 'ppoll': 'poll',
    'pselect6': 'select', '_newselect': 'select', 'mmap': 'mmap',
}

def function(name):
    name = name.lstrip('_')
    name = re.sub(r'(_2|_chk|_nocancel)$', '', name)
    name = re.sub(r'64', '', name)
    for start, to in (('open', 'open'), ('creat', 'open'), ('mkstemp', 'open'), ('mkostemp', 'open'), ('fxstat', 'stat'), ('lxstat', 'stat'), ('xstat', 'stat'),
                      ('fstatat', 'stat'), ('fstat', 'stat'), ('lstat', 'stat'), ('faccess', 'access'), ('eaccess', 'access'), ('euidaccess', 'access'),
                      ('unlink', 'unlink'), ('remove', 'unlink'), ('rmdir', 'unlink'), ('rename', 'rename'), ('mkdir', 'mkdir'), ('fchmodat', 'chmod'),
                      ('readlink', 'readlink'), ('dup', 'dup2'), ('pselect', 'select'), ('ppoll', 'poll'), ('pipe', 'pipe'), ('link', 'link'), ('symlink', 'symlink'), ('utim', 'utime'),
                      ('futim', 'utime'), ('exec', 'exec'), ('fexec', 'exec'), ('fork', 'fork'), ('vfork', 'fork'), ('statvfs', 'statfs'), ('exit', 'exit'), ('Exit', 'exit')):
        if name.startswith(start) and not name.startswith('opendir') and name != 'fstatfs':
            return to
    return name

# functions of the C library that make several calls
COMPOUND = re.compile(r'^_*(opendir|fdopendir|readdir|closedir|scandir|fts|ftw|nftw|glob|fopen|freopen|fdopen|popen|system|posix_spawn|realpath|getcwd|'
                      r'canonicalize|tmpfile|dlopen|dlmopen|mkstemp|mkostemp|mkdtemp|exec|pthread_create|statvfs|fstatvfs|pathconf|fpathconf|daemon|shm_open|syscall|'
                      r'getdirentries|setmntent|(_*IO_)?fclose|ftok|fork|vfork|isatty|tempnam)')
# what the recorder asks about the host's clock (entry/record_clock.c)
CLOCK = re.compile(r'^/proc/sys/kernel/random/boot_id$|^/proc/self/ns/time$|/clocksource0/current_clocksource$')
LOADER = re.compile(r'\.so(\.[0-9.]+)?$|/ld\.so\.|/glibc-hwcaps|/x86_64-linux-gnu|/tls/|/etc/ld\.so')
LOCALE = re.compile(r'/locale|/gconv|/charset|/zoneinfo|/etc/localtime|LC_|/i18n')
NSS = re.compile(r'/etc/(nsswitch\.conf|passwd|group|hosts|resolv\.conf|host\.conf|gai\.conf|services|protocols)|/run/nscd|/nscd')
OWN = {'read', 'write', 'newfstatat', 'fstat', 'lseek', 'close', 'ioctl', 'readv', 'writev', 'pread64', 'mmap', 'fcntl', '_llseek'}
IGNORED = {'brk', 'munmap', 'mprotect', 'mremap', 'madvise', 'arch_prctl', 'set_tid_address', 'set_robust_list', 'rseq', 'prlimit64', 'getrandom', 'futex',
           'rt_sigaction', 'rt_sigprocmask', 'rt_sigreturn', 'sigaltstack', 'gettid', 'getpid', 'getppid', 'getuid', 'geteuid', 'getgid', 'getegid', 'uname', 'sysinfo',
           'sched_getaffinity', 'sched_setaffinity', 'wait4', 'waitid', 'kill', 'tgkill', 'clock_nanosleep', 'nanosleep', 'prctl', 'getpgrp', 'getpgid', 'setpgid', 'setsid',
           'getsid', 'restart_syscall', 'alarm', 'setitimer', 'times', 'getrusage', 'umask', 'sched_yield', 'clock_gettime', 'getgroups', 'getresuid', 'getresgid',
           'getcpu', 'membarrier', 'capget', 'setpriority', 'getpriority', 'pause', 'personality', 'getcwd', 'clock_getres', 'sched_getparam', 'sched_getscheduler', 'gettimeofday', 'time'}

made = collections.defaultdict(list)
for line in open(records, errors='replace'):
    r = json.loads(line)
    end = r['end'] if r['end'] is not None else float('inf')
    made[r['tid']].append([r['start'], end, r['name'], function(r['name']), None, r['fd'], r['result'], r['path'] or ''])
for rows in made.values():
    rows.sort(key=lambda row: row[0])

classes, program_lines = collections.Counter(), []
libc_fds = collections.defaultdict(dict)  # of each process, by descriptor: which class opened it
threads = {}
pending, started = {}, set()

def lines():
    for line in open(strace, errors='replace'):
        m = re.match(r'(\d+) +([0-9.]+) (.*)$', line.rstrip('\n'))
        if not m:
            continue
        pid, at, rest = int(m[1]), float(m[2]), m[3]
        if rest.endswith('<unfinished ...>'):
            pending[pid] = (at, rest[:-len('<unfinished ...>')])
            continue
        resumed = re.match(r'<\.\.\. \w+ resumed>(.*)$', rest)
        if resumed and pid in pending:
            at, begun = pending.pop(pid)
            rest = begun + resumed[1]
        m = re.match(r'(\w+)\((.*)\) += (-?(?:0x[0-9a-f]+|\d+)|\?)(.*)$', rest)
        if m:
            yield pid, at, m[1], m[2], m[3], m[4], rest
    for pid, (at, begun) in list(pending.items()):
        m = re.match(r'(\w+)\((.*)', begun)
        if m:
            yield pid, at, m[1], m[2], '?', '', begun

def last(path):
    """The last name of a path, which is the same for a relative and an absolute one; of the root it is empty."""
    return os.path.basename(os.path.normpath(path))

def object_of(call, args):
    """The descriptor, as a match with its number and file, and the path that a line names; either may be None."""
    # of mmap it is the last but one
    fd = re.search(r'(\d+)<([^>]*)>, \S+ *$', args) if call == 'mmap' else re.match(r'(\d+)(?![x\d])(?:<([^>]*)>)?', args)
    if call in ('copy_file_range', 'splice'):  # the record names what is written first
        fd = re.match(r'\d+(?:<[^>]*>)?, [^,]+, (\d+)(?:<([^>]*)>)?', args) or fd
    path = re.search(r'"([^"]*)"', args)
    return fd, path[1] if path else None

def candidates(pid, at, call, args, result):
    """The records that may be of this line, in their order."""
    fd, path = object_of(call, args)
    wanted = AS.get(call, call)
    by_path = path and (not fd or re.search(r'at2?$|^statx$', call))
    if by_path:
        start = re.match(r'\w+<([^>]*)>, ', args)
        named = last(os.path.join(start[1] if start else '', path))

    def agrees(row):
        if wanted in ('fork', 'exec', 'exit', 'pipe', 'select', 'poll') or result == '?':
            return True
        if row[6] is not None and wanted not in ('posix_fadvise', 'mmap') and row[6] != int(result, 0):
            return False
        if by_path:
            return named in ('.', '..') or named == last(row[7])
        if not fd or wanted == 'open':
            return True
        return row[5] == int(fd[1]) and (not fd[2] or '/#' in fd[2] or os.path.basename(fd[2]) in row[7])

    rows = []
    for row in made.get(pid, ()):
        if row[0] > at + SLACK:
            break
        if row[1] >= at - SLACK and row[3] == wanted and agrees(row):
            rows.append(row)
    return rows

class Line:
    """A line, with the records that may be its own, and its class if it may have none."""
    def __init__(self, text, rows, other):
        self.text, self.rows, self.other, self.row = text, rows, other, None

    def take(self, tried):
        """Takes a record.  If others have all of them, one that may have none gives its record back, or one takes another record: the C
        library's look at the root, which has no record, may have taken that of a stat just behind it."""
        row = next((row for row in self.rows if row[4] is None), None)
        if row is None and self.other is None:
            row = next((row for row in self.rows if row[4].gives_back(tried)), None)
        if row is None:
            return False
        row[4], self.row = self, row
        return True

    def gives_back(self, tried):
        if self in tried:
            return False
        tried.add(self)
        if self.other is None:
            return self.take(tried)
        self.row = None
        return True

# programs that a process executes: the recorder looks for them before
programs = collections.defaultdict(set)
for pid, at, call, args, result, rest, line in lines():
    program = re.match(r'"([^"]*)"', args)
    if call == 'execve' and program:
        programs[pid].add(os.path.basename(program[1]))
pending.clear()

for pid, at, call, args, result, rest, line in lines():
    if call == 'execve':
        if result == '0':
            started.discard(pid)
            libc_fds[threads.get(pid, pid)] = {}
    if call in ('clone', 'clone3', 'vfork', 'fork') and result.isdigit() and int(result) > 0:
        child = int(result)
        threads[child] = threads.get(pid, pid) if 'CLONE_THREAD' in args else child
        if threads[child] == child:
            libc_fds[child] = dict(libc_fds[threads.get(pid, pid)])
        if pid in started:
            started.add(child)
    process = threads.get(pid, pid)
    fd, path = object_of(call, args)
    number = int(fd[1]) if fd else None
    name = path or (fd[2] if fd and fd[2] else '')

    def note(cls):
        if call in ('openat', 'open', 'socket') and result.isdigit() and cls != 'recorded':
            libc_fds[process][int(result)] = cls
        elif call in ('openat', 'open', 'dup', 'dup2', 'dup3') and result.isdigit():
            libc_fds[process].pop(int(result), None)
        if call == 'close' and number is not None:
            libc_fds[process].pop(number, None)

    def count(cls):
        note(cls)
        classes[cls] += 1

    if call in IGNORED:
        continue
    if folder in line or call == 'readlinkat' and re.search(r'"/proc/self/(fd/|exe")', args):
        started.add(pid)  # the recorder has begun, so the program has
        count('recorder')
        continue
    if CLOCK.search(name) and call in ('openat', 'readlinkat'):
        count('recorder')
        continue
    # before an exec it looks at the program's file
    if call == 'openat' and 'O_RDONLY|O_NOCTTY|O_NONBLOCK|O_CLOEXEC' in args or number is not None and libc_fds[process].get(number) == 'recorder':
        count('recorder')
        continue
    if pid not in started:
        count('loader')
        continue
    if call == 'mmap' and ('MAP_ANONYMOUS' in args or 'MAP_DENYWRITE' in args):
        count('memory')
        continue

    def class_without_record():
        over = next((row for row in made.get(pid, ()) if row[0] <= at + NESTED and row[1] >= at - NESTED and COMPOUND.match(row[2])), None)
        if over:
            return 'caused by ' + over[2].lstrip('_')
        if call in ('pread64', 'pwrite64') and any(row[0] <= at + SLACK and row[2].startswith(('aio_', 'lio_'))
                                                     for tid in made if threads.get(tid, tid) == process for row in made[tid]):
            return 'caused by aio'
        if call in ('newfstatat', 'faccessat2') and path and os.path.basename(path) in programs[pid]:
            return 'recorder'
        if call == 'newfstatat' and name == '/':
            return 'name service'  # whether the root has changed
        if call == 'ioctl' and 'TCGETS' in args:
            return 'isatty'
        if LOCALE.search(name):
            return 'locale'
        if NSS.search(name):
            return 'name service'
        if LOADER.search(name):
            return 'loader'
        if name == '/proc/sys/vm/overcommit_memory':
            return 'C library'  # malloc, before it gives memory back
        if name.startswith('/sys/devices/system/cpu/'):
            return 'number of processors'
        if call in OWN and number is not None and (number <= 2 or number in libc_fds[process]):
            return 'stream or file of the C library'
        if call in ('exit_group', 'exit', 'clone3', 'socket', 'connect') or (call == 'readlink' and '/proc/self/exe' in name):
            return 'C library'
        return None

    one = Line(line, candidates(pid, at, call, args, result), class_without_record())
    note('recorded' if one.take(set()) else one.other)
    program_lines.append(one)

classes.update('recorded' if one.row else one.other for one in program_lines if one.row or one.other)
missing = [one.text for one in program_lines if not one.row and not one.other]
for cls, n in sorted(classes.items(), key=lambda item: -item[1]):
    print(f'{n:6} {cls}')
for line in missing[:40]:
    print('no record:', line[:300])
sys.exit(1 if missing or not classes['recorded'] else 0)
