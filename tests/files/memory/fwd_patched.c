/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that overwrites the C library's functions as UCX, Open MPI's memory patcher and
 * libfabric do: a jump at the entry leads to a hook, and the hook makes the call by syscall().  The
 * hooks count, and the counts have to be those of a run without forwarding.
 *
 * fwd_patched WHERE DIRECTORY SCRATCH
 *   WHERE   libc: the functions of libc.so.6; entry: what dlsym(RTLD_DEFAULT) finds; both
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/files/fwd_say.h"

#define PAGE 65536L /* no machine's pages are larger */
#define LEN (3 * PAGE + 7)
#define CALLS_MAX 50 /* calls of one hook on behalf of one call: beyond it is a recursion */

#if defined __x86_64__ || defined __aarch64__

/* Calls of each hook while `counting`; a hook of maps counts those of the watched range only,
 * since the client has maps of its own. */
enum {
    MMAP,
    MUNMAP,
    MREMAP,
    MPROTECT,
    MSYNC,
    MADVISE,
    BRK,
    SHMAT,
    SHMDT,
    OPEN,
    OPENAT,
    CLOSE,
    CLOSE_RANGE,
    READ,
    WRITE,
    PREAD,
    PWRITE,
    LSEEK,
    FTRUNCATE,
    FSYNC,
    FSTAT,
    FSTATAT,
    DUP,
    DUP2,
    DUP3,
    FCNTL,
    READLINK,
    READLINKAT,
    UNLINK,
    RENAME,
    MKDIR,
    RMDIR,
    CHDIR,
    FCHDIR,
    GETCWD,
    UMASK,
    POLL,
    SELECT,
    EPOLL_CTL,
    EPOLL_WAIT,
    EPOLL_PWAIT,
    MEMFD,
    PRLIMIT,
    EXECVE,
    FORK,
    EXIT,
    HOOKS
};

/* volatile: the C library's headers say of most of these functions that they call nothing in
 * this file. */
static volatile int counts[HOOKS];
static __thread volatile bool counting;
/* the hooks of mmap and munmap use memory of their own, as a registration cache does */
static volatile bool reenters;

static void count(int hook)
{
    if (counting && (counts[hook] = counts[hook] + 1) > CALLS_MAX) {
        char text[60];

        counting = false;

        int n = snprintf(text, sizeof text, "hook %d is called without end\n", hook);

        (void)!syscall(SYS_write, STDOUT_FILENO, text, (long)n);
        syscall(SYS_exit_group, 4);
    }
}

static void own_memory(void)
{
    static __thread volatile bool within;

    if (!reenters || within)
        return;

    bool before = counting;

    within = true;
    counting = false;

    void *memory = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(memory, 1, 5 * PAGE);
    munmap(memory, 5 * PAGE);
    counting = before;
    within = false;
}

static void *hook_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    if (len == LEN || len == LEN - PAGE)
        count(MMAP);

    own_memory();
    return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

static int hook_munmap(void *at, size_t len)
{
    if (len == LEN || len == LEN - PAGE || len == LEN + PAGE)
        count(MUNMAP);

    own_memory();
    return (int)syscall(SYS_munmap, at, len);
}

static void *hook_mremap(void *old, size_t old_len, size_t len, int flags, void *at)
{
    count(MREMAP);
    own_memory();
    return (void *)syscall(SYS_mremap, old, old_len, len, flags, at);
}

static int hook_mprotect(void *at, size_t len, int prot)
{
    if (len == LEN)
        count(MPROTECT);

    return (int)syscall(SYS_mprotect, at, len, prot);
}

static int hook_msync(void *at, size_t len, int flags)
{
    if (len == LEN)
        count(MSYNC);

    return (int)syscall(SYS_msync, at, len, flags);
}

static int hook_madvise(void *at, size_t len, int advice)
{
    if (len == LEN)
        count(MADVISE);

    return (int)syscall(SYS_madvise, at, len, advice);
}

extern void *__curbrk;

static int hook_brk(void *at)
{
    count(BRK);
    __curbrk = (void *)syscall(SYS_brk, at);
    return __curbrk < at ? -1 : 0;
}

static void *hook_shmat(int id, const void *at, int flags)
{
    count(SHMAT);
    return (void *)syscall(SYS_shmat, id, at, flags);
}

static int hook_shmdt(const void *at)
{
    count(SHMDT);
    return (int)syscall(SYS_shmdt, at);
}

static int hook_open(const char *path, int flags, mode_t mode)
{
    count(OPEN);
#ifdef SYS_open
    return (int)syscall(SYS_open, path, flags, mode);
#else
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
#endif
}

static int hook_poll(struct pollfd *p, nfds_t n, int timeout)
{
    count(POLL);
#ifdef SYS_poll
    return (int)syscall(SYS_poll, p, n, timeout);
#else
    return (int)syscall(SYS_ppoll, p, n,
                        &(struct timespec){ timeout / 1000, timeout % 1000 * 1000000L }, NULL, 0);
#endif
}

static int hook_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *limit)
{
    struct timespec span = { limit ? limit->tv_sec : 0, limit ? limit->tv_usec * 1000 : 0 };

    count(SELECT);
    return (int)syscall(SYS_pselect6, n, r, w, e, limit ? &span : NULL, NULL);
}

static char *hook_getcwd(char *buf, size_t len)
{
    count(GETCWD);
    return syscall(SYS_getcwd, buf, len) > 0 ? buf : NULL;
}

/* Those whose arguments are the kernel's: a hook by its number. */
/* clang-format off */
#define PLAIN(X) \
    X(OPENAT, openat) X(CLOSE, close) X(CLOSE_RANGE, close_range) X(READ, read) X(WRITE, write) X(PREAD, pread64) X(PWRITE, pwrite64) \
    X(LSEEK, lseek) X(FTRUNCATE, ftruncate) X(FSYNC, fsync) X(FSTAT, fstat) X(FSTATAT, newfstatat) X(DUP, dup) X(DUP3, dup3) \
    X(FCNTL, fcntl) X(READLINKAT, readlinkat) X(CHDIR, chdir) X(FCHDIR, fchdir) X(UMASK, umask) X(EPOLL_CTL, epoll_ctl) \
    X(MEMFD, memfd_create) X(PRLIMIT, prlimit64) X(EXECVE, execve) X(EXIT, exit_group)
/* clang-format on */
#ifdef SYS_open
/* clang-format off */
#define OLDER(X) \
    X(DUP2, dup2) X(READLINK, readlink) X(UNLINK, unlink) X(RENAME, rename) X(MKDIR, mkdir) X(RMDIR, rmdir) X(EPOLL_WAIT, epoll_wait) \
    X(FORK, fork)
/* clang-format on */
#else
#define OLDER(X)
#endif

#define HOOK(number, name) \
    static long hook_##name(long a, long b, long c, long d, long e, long f) \
    { \
        count(number); \
        return syscall(SYS_##name, a, b, c, d, e, f); \
    }
PLAIN(HOOK)
OLDER(HOOK)
#undef HOOK

static int hook_epoll_pwait(int ep, struct epoll_event *out, int most, int timeout,
                            const sigset_t *mask)
{
    count(EPOLL_PWAIT);
    return (int)syscall(SYS_epoll_pwait, ep, out, most, timeout, mask, (long)(_NSIG / 8));
}

static const struct patch {
    const char *name;
    void *hook;
} patches[] = {
    { "mmap", (void *)hook_mmap },
    { "munmap", (void *)hook_munmap },
    { "mremap", (void *)hook_mremap },
    { "mprotect", (void *)hook_mprotect },
    { "msync", (void *)hook_msync },
    { "madvise", (void *)hook_madvise },
    { "brk", (void *)hook_brk },
    { "shmat", (void *)hook_shmat },
    { "shmdt", (void *)hook_shmdt },
    { "open", (void *)hook_open },
    { "poll", (void *)hook_poll },
    { "select", (void *)hook_select },
    { "getcwd", (void *)hook_getcwd },
    { "epoll_pwait", (void *)hook_epoll_pwait },
    { "mmap64", (void *)
      /* one function with the name above in the C library, and two in the preload library */
      hook_mmap },
    { "open64", (void *)hook_open },
    { "openat64", (void *)hook_openat },
    { "pread", (void *)hook_pread64 },
    { "pwrite", (void *)hook_pwrite64 },
    { "lseek64", (void *)hook_lseek },
    { "ftruncate64", (void *)hook_ftruncate },
    { "fcntl64", (void *)hook_fcntl },
    { "fstat64", (void *)hook_fstat },
    { "fstatat64", (void *)hook_newfstatat },
    { "prlimit", (void *)hook_prlimit64 },
    { "fstatat", (void *)hook_newfstatat },
    { "_exit", (void *)hook_exit_group },
#define PATCH(number, name) { #name, (void *)hook_##name },
    PLAIN(PATCH) OLDER(PATCH)
#undef PATCH
};

/* Writes a jump to hook over a function. */
static void overwrite(void *function, void *hook)
{
#ifdef __x86_64__
    unsigned char code[13] = { 0x49, 0xbb, [10] = 0x41, 0xff,
                               0xe3 }; /* movabs $hook, %r11; jmp *%r11 */
    memcpy(code + 2, &hook, sizeof hook);
#else
    uint32_t code[4] = { 0x58000051, 0xd61f0220 }; /* ldr x17, .+8; br x17 */
    memcpy(code + 2, &hook, sizeof hook);
#endif
    uintptr_t system_page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)function & ~(system_page - 1);

    if (memcmp(function, code, sizeof code) == 0)
        return;

    syscall(SYS_mprotect, from, 2 * system_page, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(function, code, sizeof code);
    syscall(SYS_mprotect, from, 2 * system_page, PROT_READ | PROT_EXEC);
    __builtin___clear_cache((char *)function, (char *)function + sizeof code);
}

static void patch_all(const char *where)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        void *entry = dlsym(RTLD_DEFAULT, patches[i].name);
        void *own = dlsym(libc, patches[i].name);

        if (entry && strcmp(where, "libc") != 0)
            overwrite(entry, patches[i].hook);

        if (own && strcmp(where, "entry") != 0)
            overwrite(own, patches[i].hook);
    }
}

/* Makes a call and says its result and how often the hook saw it. */
#define C(hook, call) \
    do { \
        memset((void *)counts, 0, sizeof counts); \
        errno = 0; \
        counting = true; \
        long result_ = (long)(call); \
        counting = false; \
        say(__LINE__, #call, result_); \
        printf("    %d times\n", counts[hook]); \
    } while (0)
/* The same where the result is an address or a descriptor. */
#define COK(hook, call) C(hook, (long)(call) == -1 ? -1 : 0)

static void memory_of(const char *name, int fd, int flags)
{
    char *p = MAP_FAILED;
    char *q = MAP_FAILED;

    printf("%s, flags %d\n", name, flags);
    COK(MMAP, p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0));
    if (p == MAP_FAILED)
        return;

    p[1] = 'a';
    p[2 * PAGE] = 'b';
    C(MSYNC, msync(p, LEN, MS_SYNC));
    C(MPROTECT, mprotect(p, LEN, PROT_READ));
    C(MPROTECT, mprotect(p, LEN, PROT_READ | PROT_WRITE));
    C(MADVISE, madvise(p, LEN, MADV_WILLNEED));
    COK(MREMAP, q = mremap(p, LEN, LEN + PAGE, MREMAP_MAYMOVE, NULL));
    T(q[1] == 'a' && q[2 * PAGE] == 'b');
    q[5] = 'c';
    C(MUNMAP, munmap(q, LEN + PAGE));

    puts("by number");
    COK(MMAP, p = (void *)syscall(SYS_mmap, NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0L));
    p[1] = 'd';
    p[PAGE] = 'e';
    C(MSYNC, syscall(SYS_msync, p, LEN, MS_SYNC));
    C(MPROTECT, syscall(SYS_mprotect, p, LEN, PROT_READ));
    C(MPROTECT, syscall(SYS_mprotect, p, LEN, PROT_READ | PROT_WRITE));
    COK(MREMAP, q = (void *)syscall(SYS_mremap, p, LEN, LEN + PAGE, MREMAP_MAYMOVE, NULL));
    T(q[1] == 'd' && q[PAGE] == 'e');
    q[6] = 'f';
    C(MUNMAP, syscall(SYS_munmap, q, LEN + PAGE));
    COK(MMAP, p = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    COK(MMAP, mmap(p, LEN, PROT_READ, flags | MAP_FIXED, fd, 0));
    COK(MMAP, mmap(p, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    C(MUNMAP, munmap(p, LEN));
}

static void contents(int fd)
{
    char some[8] = "";

    T(pread(fd, some, 8, 0));
    for (int i = 0; i < 8; i++)
        printf("%02x ", (unsigned)some[i]);

    puts("");
}

static void make_file(int fd)
{
    char *block = calloc(1, 5 * PAGE);

    memset(block, 'x', 5 * PAGE);
    T(write(fd, block, 5 * PAGE));
    free(block);
}

static void memory(const char *scratch)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/local", scratch);

    int there = open(in("mapped"), O_RDWR | O_CREAT, 0644);
    int here = open(path, O_RDWR | O_CREAT, 0644);
    void *p = NULL;
    int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);

    make_file(there);
    make_file(here);

    for (int round = 0; round < 2; round++, reenters = true) {
        memory_of("anonymous", -1, MAP_PRIVATE | MAP_ANONYMOUS);
        memory_of("local file", here, MAP_SHARED);
        memory_of("local file", here, MAP_PRIVATE);
        memory_of("file", there, MAP_SHARED);
        contents(there);
        memory_of("file", there, MAP_PRIVATE);
        contents(there);
    }

    reenters = false;
    T(mmap(NULL, LEN, PROT_READ, MAP_SHARED, 999, 0) == MAP_FAILED);
    T(syscall(SYS_mmap, NULL, LEN, PROT_READ, MAP_SHARED, 999, 0L));
    T(syscall(SYS_munmap, 1L, LEN));

    void *top = sbrk(0);

    C(BRK, brk((char *)top + PAGE));
    C(BRK, brk(top));
    C(BRK, syscall(SYS_brk, top) == (long)top);
    COK(SHMAT, p = shmat(id, NULL, 0));
    C(SHMDT, shmdt(p));
    COK(SHMAT, p = (void *)syscall(SYS_shmat, id, NULL, 0));
    C(SHMDT, syscall(SYS_shmdt, p));
    T(shmctl(id, IPC_RMID, NULL));
    T(close(there) + close(here));
}

/* Calls on this host's files, which are counted. */
static void local_calls(const char *scratch)
{
    char buf[100], path[PATH_MAX];
    struct stat st;
    int fd;

    T(chdir(scratch));
    COK(OPEN, fd = open("file", O_RDWR | O_CREAT, 0640));
    C(WRITE, write(fd, "0123456789", 10));
    C(PREAD, pread(fd, buf, 10, 3));
    C(LSEEK, lseek(fd, 2, SEEK_SET));
    C(READ, read(fd, buf, 3));
    C(FSTAT, fstat(fd, &st));
    COK(DUP, dup(fd));
    COK(DUP3, dup3(fd, 70, O_CLOEXEC));
    C(CLOSE, close(70));
    C(FCNTL, fcntl(fd, F_GETFD));
    C(CLOSE, close(fd));
    C(CLOSE, close(fd));
    C(OPENAT, openat(AT_FDCWD, "none", O_RDONLY));
    COK(GETCWD, getcwd(path, sizeof path));
    C(UMASK, umask(022));
}

static void local_files_by_number(void)
{
    char buf[100], path[PATH_MAX];
    struct stat st;
    int fd;

    puts("by number");
    COK(OPENAT, fd = (int)syscall(SYS_openat, AT_FDCWD, "file", O_RDWR | O_CREAT, 0640));
    C(WRITE, syscall(SYS_write, fd, "0123456789", 10L));
    C(PREAD, syscall(SYS_pread64, fd, buf, 10L, 3L));
    C(LSEEK, syscall(SYS_lseek, fd, 2L, SEEK_SET));
    C(READ, syscall(SYS_read, fd, buf, 3L));
    C(FSTAT, syscall(SYS_fstat, fd, &st));
    C(FSTATAT, syscall(SYS_newfstatat, AT_FDCWD, "file", &st, 0));
    COK(DUP, syscall(SYS_dup, fd));
    COK(DUP3, syscall(SYS_dup3, fd, 70, O_CLOEXEC));
    C(CLOSE_RANGE, syscall(SYS_close_range, 70, 71, 0));
    C(FCNTL, syscall(SYS_fcntl, fd, F_GETFD, 0L));
    C(FTRUNCATE, syscall(SYS_ftruncate, fd, 5L));
    C(FSYNC, syscall(SYS_fsync, fd));
    C(CLOSE, syscall(SYS_close, fd));
    C(CLOSE, syscall(SYS_close, fd));
    C(GETCWD, syscall(SYS_getcwd, path, sizeof path) > 0);
    C(UMASK, syscall(SYS_umask, 022));
    C(CHDIR, syscall(SYS_chdir, "."));
    C(PRLIMIT, syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, NULL));
#ifdef SYS_open
    COK(OPEN, fd = (int)syscall(SYS_open, "file", O_RDONLY, 0));
    T(close(fd));
    C(OPENAT, syscall(SYS_open, "none", O_RDONLY, 0));
    C(OPEN, syscall(SYS_open,
                    "../"
                    "none",
                    O_RDONLY, 0));
    C(UNLINK, syscall(SYS_unlink, "none"));
    C(RENAME, syscall(SYS_rename, "file", "file2"));
    C(MKDIR, syscall(SYS_mkdir, "d", 0755));
    C(RMDIR, syscall(SYS_rmdir, "d"));
    C(READLINK, syscall(SYS_readlink, "file2", buf, 9L));
#endif
}

static void local_waits_by_number(void)
{
    char path[PATH_MAX];
    struct pollfd p = { .events = POLLIN };
    struct timeval now = { 0, 0 };
    struct epoll_event event = { .events = EPOLLIN };
    int ends[2];

    T(pipe(ends));
    p.fd = ends[0];
    C(POLL, syscall(SYS_ppoll, &p, 1L, &(struct timespec){ 0, 0 }, NULL, 0L));
#ifdef SYS_open
    COK(DUP2, syscall(SYS_dup2, ends[0], 70));
    C(POLL, syscall(SYS_poll, &p, 1L, 0));
    C(SELECT, syscall(SYS_select, 0, NULL, NULL, NULL, &now));
#endif
    int ep = epoll_create1(0);

    C(EPOLL_CTL, syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, ends[0], &event));
    C(EPOLL_PWAIT, syscall(SYS_epoll_pwait, ep, &event, 1, 0, NULL, 8L));
    C(EPOLL_PWAIT, epoll_pwait(ep, &event, 1, 0, NULL));

    puts("bad pointers");
    T(syscall(SYS_getcwd, NULL, 100L));
    T(syscall(SYS_getcwd, 1L, 1000L));
    T(syscall(SYS_getcwd, NULL, 1L));
    T(syscall(SYS_getcwd, path, 1L));
#ifdef SYS_select
    T(syscall(SYS_select, 0, NULL, NULL, NULL, 1L));
#endif
    T(syscall(SYS_pselect6, 0, NULL, NULL, NULL, 1L, NULL));
    T(syscall(SYS_epoll_pwait2, ep, &event, 1, 1L, NULL, 0L));
    T(close(ep) + close(ends[0]) + close(ends[1]));
}

/* A map that is made writable, and longer, by number keeps what is written to it. */
static void changed_by_number(void)
{
    int fd = open(in("grown"), O_RDWR | O_CREAT, 0644);
    char some[2] = "";

    make_file(fd);

    char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

    T(syscall(SYS_mprotect, p, PAGE, PROT_READ | PROT_WRITE));
    p[7] = 'w';
    p = (char *)syscall(SYS_mremap, p, PAGE, 4 * PAGE, MREMAP_MAYMOVE, NULL);
    p[3 * PAGE] = 'm';
    T(syscall(SYS_munmap, p, 4 * PAGE));
    T(pread(fd, some, 1, 7) + pread(fd, some + 1, 1, 3 * PAGE));
    T(some[0] == 'w' && some[1] == 'm');
    T(close(fd));
}

/* The same calls of forwarded files: they work; hooks need not see them. */
static void forwarded_calls(void)
{
    char buf[100], path[PATH_MAX];
    struct stat st;
    int fd, copy;

    T(chdir(dir));
    T(getcwd(path, sizeof path) != NULL && strcmp(path, dir) == 0);
    T(syscall(SYS_getcwd, path, sizeof path) == (long)strlen(dir) + 1);
    T(syscall(SYS_getcwd, NULL, 100L));
    T(syscall(SYS_getcwd, 1L, 1000L));
    T(syscall(SYS_getcwd, path, 1L));
    fd = open("file", O_RDWR | O_CREAT, 0640);
    T(write(fd, "0123456789", 10));
    copy = dup(fd);
    T(lseek(copy, 2, SEEK_SET));
    T(read(fd, buf, 3));
    T(dup2(fd, 70));
    T(fcntl(70, F_SETFD, FD_CLOEXEC));
    T(fcntl(70, F_GETFD));
    T(pread(70, buf, 20, 1));
    T(dup3(fd, 70, 0));
    T(fcntl(fd, F_DUPFD, 90));
    T(close(70) + close(copy) + close(90));
    OK(syscall(SYS_dup, fd));
    T(syscall(SYS_dup3, fd, 70, 0));
    T(syscall(SYS_pread64, 70, buf, 20L, 1L));
    T(syscall(SYS_close_range, 70, 71, 0));
    T(syscall(SYS_pread64, 70, buf, 20L, 1L));
    T(syscall(SYS_fstat, fd, &st));
    T(st.st_size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    T(readlink(path, buf, sizeof buf) > 0);
    OK(open(path, O_RDONLY));
    T(syscall(SYS_newfstatat, fd, "", &st, AT_EMPTY_PATH));
    OK(open("..", O_PATH));
    OK(syscall(SYS_openat, AT_FDCWD, "../../../../../../../../../etc/passwd", O_RDONLY, 0));
    OK(open("../../../../../../../../../etc/passwd", O_RDONLY));
    T(mkdir("d", 0755));
    T(syscall(SYS_chdir, "d"));
    T(fchdir(open(dir, O_RDONLY)));
    T(rmdir("d"));
    T(rename("file", "file2"));

    fflush(stdout);

    pid_t pid = fork();

    if (pid == 0) {
        T(pread(fd, buf, 20, 4));
        _exit(7);
    }

    int status = 0;

    T(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
    T(close(fd));
}

static void forwarded_waits(void)
{
    fd_set set;
    struct timeval now = { 0, 0 };
    struct timespec none = { 0, 0 };
    struct epoll_event event = { .events = EPOLLIN };

    T(mkfifo("fifo", 0600));

    int fifo = open("fifo", O_RDWR);
    int ep = epoll_create1(0);
    struct pollfd p = { .fd = fifo, .events = POLLIN };

    FD_ZERO(&set);
    FD_SET(fifo, &set);
    T(poll(&p, 1, 0));
    T(select(fifo + 1, &set, NULL, NULL, &now));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &event));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &event));
    T(epoll_pwait(ep, &event, 1, 0, NULL));
    T(syscall(SYS_write, fifo, "x", 1L));
    T(syscall(SYS_ppoll, &p, 1L, &none, NULL, 0L));
    T(epoll_pwait(ep, &event, 1, -1, NULL));
    FD_SET(fifo, &set);
    T(syscall(SYS_pselect6, fifo + 1, &set, NULL, NULL, &none, NULL));
#ifdef SYS_select
    T(syscall(SYS_select, fifo + 1, &set, NULL, NULL, 1L));
#endif
    int other = dup(ep);

    T(epoll_pwait(other, &event, 1, 0, NULL));
    T(close(ep) + close(other) + close(fifo));
    T(unlink("fifo"));
    T(chdir("/"));
}

int main(int argc, char **argv)
{
    dir = argv[2];
    end_after(60);
    setvbuf(stdout, NULL, _IOLBF, 0);
    patch_all(argv[1]);
    memory(argv[3]);
    changed_by_number();
    local_calls(argv[3]);
    local_files_by_number();
    local_waits_by_number();
    forwarded_calls();
    forwarded_waits();
    fflush(stdout);
    execve("/bin/echo", (char *[]){ "echo", "the end", NULL }, environ);

    return 1;
}

#else

int main(int argc, char **argv)
{
    puts("functions are overwritten on x86-64 and AArch64 only");

    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/file", argv[2]);

    FILE *f = fopen(path, "w");

    return f && fputs("x", f) >= 0 && fclose(f) == 0 ? 0 : 1;
}

#endif
