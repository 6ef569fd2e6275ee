/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_random DIRECTORY SCRATCH SEED CALLS PROCESSES: that many random file calls, one line for each
 * and what it gave, errno and data included.  The processes work on one tree and take turns, so
 * that every run with one seed makes the same calls in the same order: fwd_random.sh makes them in
 * a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>
#include "tests/files/calls/fwd_random.h"

#define SLOTS 8

static const char *dir;
static char base[1024];
static uint64_t state;
static int slot[SLOTS];
static char line[1 << 16];
size_t at;
unsigned char data[2 * DATA_MAX];

/* ---- chance ---- */
uint32_t any(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % below);
}

bool once_in(uint32_t n)
{
    return any(n) == 0;
}

void say(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);

    int n = vsnprintf(line + at, sizeof line - at, format, ap);

    va_end(ap);
    if (n > 0 && at + (size_t)n < sizeof line)
        at += (size_t)n;
}

long gives(long result)
{
    int err = errno;

    say(" = %ld%s%s", result, result == -1 ? " " : "", result == -1 ? strerrorname_np(err) : "");
    return result;
}

/* descriptors are compared as valid or not */
static int gives_fd(int fd)
{
    gives(fd < 0 ? -1 : 0);
    return fd;
}

void say_data(const void *p, ssize_t n)
{
    uint32_t hash = 2166136261U;

    for (ssize_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 16777619U;

    say(" #%08x", hash);
}

static void say_stat(const struct stat *st)
{
    say(" %o nlink %lu", st->st_mode, S_ISDIR(st->st_mode) ? 0UL : (unsigned long)st->st_nlink);
    if (S_ISREG(st->st_mode))
        say(" size %ld", (long)st->st_size);
}

/* ---- paths ---- */

static const char *name(void)
{
    static const char *const names[] = { "a",      "b",   "c",    "d",    "e",
                                         "f",      "sub", "link", "x\ny", "\xff\xfe\x01 *?",
                                         ".hidden" };
    static char longest[2][257];
    uint32_t n = any(sizeof names / sizeof names[0] * 3);

    if (n < sizeof names / sizeof names[0] * 2)
        return names[n % 8];
    if (n < sizeof names / sizeof names[0] * 3 - 3)
        return names[n % (sizeof names / sizeof names[0])];

    if (!longest[0][0]) {
        memset(longest[0], 'n', 255);
        memset(longest[1], 'm', 256);
        longest[0][100] = (char)0xe4;
    }

    if (n % 3)
        return longest[n % 2];

    return once_in(4) ? ".." : ".";
}

const char *path(void)
{
    static char buf[6][PATH_MAX];
    static int next;
    char *p = buf[next++ % 6];
    size_t n = 0;
    unsigned parts = 1 + any(once_in(3) ? 3 : 2);

    if (once_in(60))
        return strcpy(p, "");

    if (once_in(3))
        n = (size_t)snprintf(p, PATH_MAX, "%s/", base);

    for (unsigned i = 0; i < parts; i++) {
        const char *between = "";

        if (i)
            between = once_in(20) ? "//" : "/";

        n += (size_t)snprintf(p + n, PATH_MAX - n, "%s%s", between, name());
    }

    if (once_in(15))
        strcat(p, "/");

    say(" ");
    for (const char *c = p; *c; c++)
        say(*c > 32 && *c < 127 ? "%c" : "\\%02x", (unsigned char)*c);

    return p;
}

int *place(void)
{
    int n = (int)any(SLOTS);

    say(" [%d]", n);
    return &slot[n];
}

size_t size(void)
{
    size_t n = once_in(4) ? any(DATA_MAX) : any(300);

    say(" %zu", n);
    return n;
}

static off_t any_offset(void)
{
    if (once_in(40))
        return -1 - (off_t)any(9);

    if (once_in(30))
        return ((off_t)5 << 30) + any(1000);

    return once_in(3) ? any(DATA_MAX) : any(500);
}

off_t offset(void)
{
    off_t n = any_offset();

    say(" @%ld", (long)n);
    return n;
}

const void *fill(size_t n)
{
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(any(256));

    return data;
}

/* ---- calls: each says what it does and what that gave ---- */

static void do_open(void)
{
    static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR };
    static const int more[] = { O_CREAT,
                                O_CREAT,
                                O_CREAT | O_EXCL,
                                O_TRUNC,
                                O_APPEND,
                                O_CREAT | O_APPEND,
                                O_CREAT | O_TRUNC,
                                O_NOFOLLOW,
                                O_DIRECTORY,
                                O_CLOEXEC,
                                O_CREAT | O_NOFOLLOW,
                                O_SYNC,
                                0,
                                0 };
    int flags = modes[any(5)] | more[any(14)] | O_NONBLOCK;
    int *s = place();
    mode_t mode = once_in(3) ? (mode_t)any(512) | 0600 : 0644;
    const char *p = path();

    say(" %x %o", flags & ~O_NONBLOCK, mode);
    if (*s >= 0)
        close(*s);

    *s = gives_fd(once_in(8) ? openat(slot[any(SLOTS)], p, flags, mode) : open(p, flags, mode));
}

static void do_opendir_slot(void)
{
    int *s = place();

    if (*s >= 0)
        close(*s);

    *s = gives_fd(open(path(), once_in(3) ? O_PATH : O_RDONLY | O_DIRECTORY));
}

static void do_close(void)
{
    int *s = place();

    gives(close(*s));
    *s = -1;
}

static void do_stat(void)
{
    struct stat st;
    struct statx x;
    long r;

    switch (any(6)) {
    case 0:
        r = gives(fstat(*place(), &st));
        break;
    case 1:
        r = gives(lstat(path(), &st));
        break;
    case 2:
        r = gives(fstatat(*place(), path(), &st, once_in(2) ? AT_SYMLINK_NOFOLLOW : 0));
        break;
    case 3:
        r = gives(fstatat(*place(), "", &st, AT_EMPTY_PATH));
        break;
    case 4:
        r = gives(statx(AT_FDCWD, path(), 0, STATX_BASIC_STATS, &x));
        st = (struct stat){ .st_mode = x.stx_mode,
                            .st_nlink = x.stx_nlink,
                            .st_size = (off_t)x.stx_size };
        break;
    default:
        r = gives(stat(path(), &st));
        break;
    }
    if (r == 0)
        say_stat(&st);
}

static void do_access(void)
{
    int mode = (int)any(8);

    say(" %d", mode);
    if (once_in(2))
        gives(access(path(), mode));
    else
        gives(faccessat(*place(), path(), mode, once_in(2) ? AT_EACCESS : AT_SYMLINK_NOFOLLOW));
}

static void do_mkdir(void)
{
    gives(once_in(3) ? mkdirat(*place(), path(), 0755) : mkdir(path(), (mode_t)any(512) | 0700));
}

static void do_remove(void)
{
    switch (any(5)) {
    case 0:
        gives(rmdir(path()));
        break;
    case 1:
        gives(unlinkat(*place(), path(), once_in(2) ? AT_REMOVEDIR : 0));
        break;
    case 2:
        gives(remove(path()));
        break;
    default:
        gives(unlink(path()));
        break;
    }
}

static void do_rename(void)
{
    const char *from = path();
    const char *to = path();

    if (once_in(3))
        gives(renameat2(AT_FDCWD, from, AT_FDCWD, to, any(4)));
    else
        gives(rename(from, to));
}

static void do_link(void)
{
    const char *from = path();
    const char *to = path();

    if (once_in(2))
        gives(link(from, to));
    else
        gives(linkat(AT_FDCWD, from, AT_FDCWD, to, once_in(2) ? AT_SYMLINK_FOLLOW : 0));
}

static void do_symlink(void)
{
    char target[PATH_MAX];
    const char *to = path();

    if (once_in(4))
        snprintf(target, sizeof target, "%s/%s", base, name());
    else
        snprintf(target, sizeof target, "%s%s", once_in(6) ? "sub/" : "", name());

    gives(symlink(target, to));
}

static void do_readlink(void)
{
    char buf[PATH_MAX];
    ssize_t n = readlink(path(), buf, sizeof buf - 1);

    gives(n < 0 ? -1 : 0);
    buf[n > 0 ? n : 0] = 0;

    const char *shown = strncmp(buf, base, strlen(base)) == 0 ? buf + strlen(base) : buf;

    say_data(shown, (ssize_t)strlen(shown));
}

static void do_mode(void)
{
    mode_t mode = (mode_t)any(4096) | 0600;

    say(" %o", mode);
    switch (any(3)) {
    case 0:
        gives(fchmod(*place(), mode));
        break;
    case 1:
        gives(fchmodat(*place(), path(), mode, 0));
        break;
    default:
        gives(chmod(path(), mode));
        break;
    }
}

static void do_owner(void)
{
    switch (any(3)) {
    case 0:
        gives(fchown(*place(), (uid_t)-1, getgid()));
        break;
    case 1:
        gives(lchown(path(), getuid(), (gid_t)-1));
        break;
    default:
        gives(chown(path(), getuid(), getgid()));
        break;
    }
}

static void do_times(void)
{
    struct timespec ts[2] = { { any(2000000000), any(1000000000) },
                              { any(2000000000), once_in(9) ? 1000000000 : any(1000000000) } };
    struct timeval tv[2] = { { any(2000000000), any(1000000) }, { any(2000000000), any(1000000) } };
    struct stat st;
    const char *p = path();
    long r;

    switch (any(5)) {
    case 0:
        r = gives(utimes(p, tv));
        break;
    case 1:
        r = gives(lutimes(p, tv));
        break;
    case 2:
        r = gives(utime(p, &(struct utimbuf){ any(99999), any(99999) }));
        break;
    default:
        r = gives(utimensat(AT_FDCWD, p, ts, once_in(2) ? AT_SYMLINK_NOFOLLOW : 0));
        break;
    }
    if (r == 0 && lstat(p, &st) == 0 && !S_ISLNK(st.st_mode))
        say(" %ld.%09ld", (long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);

    if (once_in(3) && gives(futimens(*place(), ts)) == 0)
        say(" set");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void do_list(void)
{
    struct dirent **list;
    int n = scandir(path(), &list, NULL, by_name);

    gives(n);
    for (int i = 0; i < n; i++) {
        say_data(list[i]->d_name, (ssize_t)strlen(list[i]->d_name));
        say(".%d", list[i]->d_type);
        free(list[i]);
    }

    if (n >= 0)
        free(list);
}

static void do_dup(void)
{
    int *a = place();
    int *b = place();

    if (a == b)
        return;

    if (*b >= 0 && once_in(2)) {
        gives(dup2(*a, *b) < 0 ? -1 : 0);
        return;
    }

    if (*b >= 0)
        close(*b);

    *b = gives_fd(once_in(2) ? dup(*a) : fcntl(*a, F_DUPFD_CLOEXEC, 50));
}

static void do_flags(void)
{
    int *s = place();

    switch (any(4)) {
    case 0:
        gives(fcntl(*s, F_SETFL, (once_in(2) ? O_APPEND : 0) | O_NONBLOCK));
        break;
    case 1:
        gives(fcntl(*s, F_SETFD, (int)any(2)));
        break;
    case 2:
        gives(fcntl(*s, F_GETFD));
        break;
    default: {
        int f = fcntl(*s, F_GETFL);
        gives(f < 0 ? -1 : f & (O_ACCMODE | O_APPEND | O_NONBLOCK));
    }
    }
}

static void do_lock(void)
{
    static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
    static const int commands[] = { F_SETLK, F_SETLK, F_SETLK, F_GETLK, F_OFD_SETLK, F_OFD_GETLK };
    int *s = place();
    int command = commands[any(6)];
    struct flock lock = {
        .l_type = types[any(3)], .l_whence = (short)any(3), .l_start = any(200), .l_len = any(100)
    };

    say(" %d type %d whence %d %ld+%ld", command, lock.l_type, lock.l_whence, (long)lock.l_start,
        (long)lock.l_len);
    if (once_in(6)) {
        gives(flock(*s, (int[]){ LOCK_SH, LOCK_EX, LOCK_UN }[any(3)] | LOCK_NB));
        return;
    }

    long r = gives(fcntl(*s, command, &lock));

    if (r == 0 && (command == F_GETLK || command == F_OFD_GETLK)) {
        say(" type %d", lock.l_type);
        if (lock.l_type != F_UNLCK)
            say(" whence %d %ld+%ld pid %d", lock.l_whence, (long)lock.l_start, (long)lock.l_len,
                lock.l_pid > 0 ? 1 : (int)lock.l_pid);
    }
}

static void do_xattr(void)
{
    static const char *const names[] = { "user.a", "user.b", "user.long.name", "bad", "user." };
    const char *n = names[any(5)];
    char buf[600];
    ssize_t r;

    say(" %s", n);
    switch (any(8)) {
    case 0:
        gives(setxattr(path(), n, fill(300), any(300), (int)any(3)));
        break;
    case 1:
        gives(fsetxattr(*place(), n, fill(20), any(20), (int)any(3)));
        break;
    case 2:
        gives(removexattr(path(), n));
        break;
    case 3:
        gives(fremovexattr(*place(), n));
        break;
    case 4:
        gives(fgetxattr(*place(), n, buf, any(2) ? sizeof buf : any(10)));
        break;
    case 5:
        gives(lgetxattr(path(), n, buf, sizeof buf));
        break;
    case 6:
        gives(listxattr(path(), buf, once_in(2) ? sizeof buf : 0));
        break;
    default:
        r = gives(getxattr(path(), n, buf, sizeof buf));
        say_data(buf, r);
    }
}

static void do_node(void)
{
    switch (any(3)) {
    case 0:
        gives(mkfifo(path(), 0644));
        break;
    case 1:
        gives(mknod(path(), S_IFREG | 0640, 0));
        break;
    default:
        gives(mknodat(*place(), path(), S_IFSOCK | 0600, 0));
        break;
    }
}

static void do_fs(void)
{
    struct statfs fs;
    struct statvfs v;

    switch (any(4)) {
    case 0:
        if (gives(statfs(path(), &fs)) == 0)
            say(" %lx %ld %ld", (long)fs.f_type, (long)fs.f_bsize, (long)fs.f_namelen);
        break;
    case 1:
        if (gives(fstatvfs(*place(), &v)) == 0)
            say(" %lu %lu %lx", v.f_frsize, v.f_namemax, v.f_flag);
        break;
    case 2: {
        int n = (int)any(21);

        say(" %d", n);
        gives(pathconf(path(), n));
        break;
    }
    default: {
        int n = (int)any(21);

        say(" %d", n);
        gives(fpathconf(*place(), n));
    }
    }
}

static void do_cwd(void)
{
    char buf[PATH_MAX];

    gives(once_in(4) ? fchdir(*place()) : chdir(path()));

    const char *now = getcwd(buf, sizeof buf);

    if (!now || strncmp(now, base, strlen(base)) != 0)
        gives(chdir(base));
    else
        say_data(now + strlen(base), (ssize_t)strlen(now + strlen(base)));
}

static void do_real(void)
{
    char buf[PATH_MAX];
    const char *r = realpath(path(), buf);

    gives(r ? 0 : -1);
    if (r && strncmp(r, base, strlen(base)) == 0)
        say_data(r + strlen(base), (ssize_t)strlen(r + strlen(base)));
}

static void do_umask(void)
{
    gives(umask((mode_t)any(64)));
}

static void do_unnamed(void)
{
    int fd = gives_fd(open(path(), O_TMPFILE | O_RDWR, 0600));
    char by[40];

    if (fd < 0)
        return;

    gives(write(fd, "unnamed", 7));
    snprintf(by, sizeof by, "/proc/self/fd/%d", fd);
    gives(linkat(AT_FDCWD, by, AT_FDCWD, path(), AT_SYMLINK_FOLLOW));
    close(fd);
}

static void do_statx(void)
{
    struct statx x;
    int flags = once_in(3) ? AT_SYMLINK_NOFOLLOW : 0;

    if (gives(statx(AT_FDCWD, path(), flags, STATX_BASIC_STATS | STATX_BTIME, &x)) != 0)
        return;

    say(" %x %o %x", x.stx_mask & (STATX_BASIC_STATS | STATX_BTIME), x.stx_mode,
        (unsigned)(x.stx_attributes_mask & STATX_ATTR_APPEND));
    if (S_ISREG(x.stx_mode))
        say(" %llu", (unsigned long long)x.stx_size);
}

static void do_flagged(void)
{
    static const int flags[] = { RWF_APPEND, RWF_APPEND, RWF_DSYNC,
                                 RWF_SYNC,   RWF_HIPRI,  RWF_APPEND | RWF_DSYNC,
                                 1 << 14 };
    int *s = place();
    int how = flags[any(7)];
    struct iovec iov[2] = { { data, any(3000) }, { data + 5000, any(3000) } };

    fill(8000);

    off_t from = once_in(3) ? -1 : offset();

    say(" %x @%ld", (unsigned)how, (long)from);
    gives(once_in(4) && !(how & RWF_APPEND) ? preadv2(*s, iov, 2, from, how)
                                            : pwritev2(*s, iov, 2, from, how));
}

static const struct {
    const char *name;
    void (*run)(void);
    unsigned weight;
} calls[] = {
    { "open", do_open, 14 },
    { "opendir", do_opendir_slot, 3 },
    { "close", do_close, 3 },
    { "read", do_read, 6 },
    { "write", do_write, 8 },
    { "pread", do_pread, 4 },
    { "pwrite", do_pwrite, 5 },
    { "vectors", do_vectors, 4 },
    { "lseek", do_seek, 5 },
    { "truncate", do_truncate, 3 },
    { "stat", do_stat, 6 },
    { "access", do_access, 3 },
    { "mkdir", do_mkdir, 6 },
    { "remove", do_remove, 4 },
    { "rename", do_rename, 4 },
    { "link", do_link, 4 },
    { "symlink", do_symlink, 4 },
    { "readlink", do_readlink, 3 },
    { "mode", do_mode, 3 },
    { "owner", do_owner, 2 },
    { "times", do_times, 3 },
    { "list", do_list, 4 },
    { "dup", do_dup, 3 },
    { "flags", do_flags, 3 },
    { "lock", do_lock, 6 },
    { "xattr", do_xattr, 4 },
    { "allocate", do_allocate, 2 },
    { "node", do_node, 2 },
    { "fs", do_fs, 3 },
    { "cwd", do_cwd, 3 },
    { "realpath", do_real, 3 },
    { "umask", do_umask, 1 },
    { "copy", do_copy, 3 },
    { "sync", do_sync, 2 },
    { "map", do_map, 3 },
    { "stream", do_stream, 5 },
    { "unnamed", do_unnamed, 1 },
    { "nowhere", do_nowhere, 3 },
    { "limit", do_limit, 2 },
    { "statx", do_statx, 3 },
    { "flagged", do_flagged, 3 },
};

static void one_call(uint64_t seed, long number, int who)
{
    unsigned all = 0;
    unsigned n;
    size_t i = 0;

    state = seed;
    any(2);
    for (size_t k = 0; k < sizeof calls / sizeof calls[0]; k++)
        all += calls[k].weight;

    for (n = any(all); n >= calls[i].weight; i++)
        n -= calls[i].weight;

    at = 0;
    say("%ld/%d %s", number, who, calls[i].name);
    errno = 0;
    over = 0;
    calls[i].run();
    say("%s\n", over ? " over the limit" : "");
    if (write(1, line, at) != (ssize_t)at)
        _exit(3);
}

/* A process waits for its turn on a pipe and hands it back on another. */
static void member(int who, int in, int out)
{
    struct {
        uint64_t seed;
        long number;
    } turn;
    while (read(in, &turn, sizeof turn) == sizeof turn) {
        one_call(turn.seed, turn.number, who);
        if (write(out, "", 1) != 1)
            break;
    }

    _exit(0);
}

static void deep_base(void)
{
    int n = snprintf(base, sizeof base, "%s", dir);

    for (int i = 0; i < 10; i++) {
        n += snprintf(base + n, sizeof base - (size_t)n, "/%d", i);
        if (mkdir(base, 0755) != 0)
            exit(2);
    }

    if (chdir(base) != 0)
        exit(2);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;

    /* fwd_both puts directory and scratch last */
    uint64_t seed = strtoull(argv[1], NULL, 10);
    long ncalls = atol(argv[2]);
    int nprocs = atoi(argv[3]);
    int to[16][2], back[16][2];

    dir = argv[4];
    printf("seed %s, %ld calls, %d processes\n", argv[1], ncalls, nprocs);
    fflush(stdout);
    reserved = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED)
        return 2;

    deep_base();
    umask(022);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, on_limit);
    for (int i = 0; i < SLOTS; i++) /* shared offsets: what is opened before the fork */
        slot[i] = i < 3 ? open((char[]){ (char)('a' + i), 0 }, O_RDWR | O_CREAT, 0644) : -1;

    for (int i = 0; i < nprocs && i < 16; i++) {
        if (pipe2(to[i], O_CLOEXEC) != 0 || pipe2(back[i], O_CLOEXEC) != 0)
            return 2;

        if (fork() == 0) {
            for (int k = 0; k <= i; k++)
                close(to[k][1]); /* so that the end of the parent is the end of its turns */

            member(i, to[i][0], back[i][1]);
        }

        close(to[i][0]); /* so that the end of a process is the end of its pipes */
        close(back[i][1]);
    }

    for (long n = 0; n < ncalls; n++) {
        struct {
            uint64_t seed;
            long number;
        } turn = { seed * 1000003 + (uint64_t)n * 7919, n };

        char byte;

        state = turn.seed + 17;

        int who = (int)any((uint32_t)nprocs);

        if (write(to[who][1], &turn, sizeof turn) != sizeof turn ||
            read(back[who][0], &byte, 1) != 1) {
            printf("process %d is gone\n", who);
            return 1;
        }
    }

    for (int i = 0; i < nprocs && i < 16; i++)
        close(to[i][1]);

    while (wait(NULL) > 0)
        ;

    return 0;
}
