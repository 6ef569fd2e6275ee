/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_pointers SECTION DIRECTORY SCRATCH: pointers that lead nowhere, in every argument of every
 * call that takes one.  The kernel answers EFAULT, or ENAMETOOLONG for a name that does not end
 * within PATH_MAX bytes; code between the program and the kernel may not follow them.  Prints what
 * each call gave; fwd_pointers.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <utime.h>

#include "tests/files/fwd_say.h"

#define PAGE ((size_t)65536) /* as large as any */

/* What the calls are made with: descriptors and names that are good, in this directory. */
static int file, here, fifo, set, sock;
static const char *good, *other, *missing, *link_name, *below_missing;

/* ---- the rows: names ---- */

#define NAMES(X) \
    X(open(p, O_RDONLY)) \
    X(open(p, O_WRONLY | O_CREAT, 0600)) \
    X(openat(AT_FDCWD, p, O_RDONLY)) \
    X(openat(here, p, O_RDONLY)) \
    X(openat(file, p, O_RDONLY)) \
    X(openat(-1, p, O_RDONLY)) \
    X(creat(p, 0600)) \
    X(truncate(p, 0)) \
    X(stat(p, &room.st)) \
    X(lstat(p, &room.st)) \
    X(fstatat(here, p, &room.st, 0)) \
    X(statx(here, p, 0, STATX_BASIC_STATS, &room.stx)) \
    X(access(p, F_OK)) \
    X(faccessat(here, p, F_OK, AT_EACCESS)) \
    X(statfs(p, &room.fs)) \
    X(mkdir(p, 0700)) \
    X(mkdirat(here, p, 0700)) \
    X(mknod(p, S_IFREG | 0600, 0)) \
    X(mkfifo(p, 0600)) \
    X(mkfifoat(here, p, 0600)) \
    X(unlink(p)) \
    X(rmdir(p)) \
    X(unlinkat(here, p, 0)) \
    X(remove(p)) \
    X(rename(p, other)) \
    X(rename(good, p)) \
    X(rename(missing, p)) \
    X(rename(below_missing, p)) \
    X(rename(p, p)) \
    X(renameat(here, p, here, "other")) \
    X(renameat(here, "good", here, p)) \
    X(renameat2(here, p, here, "other", RENAME_EXCHANGE)) \
    X(renameat2(AT_FDCWD, good, AT_FDCWD, p, RENAME_NOREPLACE)) \
    X(link(p, other)) \
    X(link(good, p)) \
    X(link(missing, p)) \
    X(link(p, p)) \
    X(linkat(here, p, here, "other", 0)) \
    X(linkat(here, "good", here, p, 0)) \
    X(linkat(AT_FDCWD, good, AT_FDCWD, p, AT_SYMLINK_FOLLOW)) \
    X(symlink(p, other)) \
    X(symlink("target", p)) \
    X(symlinkat(p, here, "other")) \
    X(symlinkat("target", here, p)) \
    X(readlink(p, room.text, sizeof room.text)) \
    X(readlinkat(here, p, room.text, sizeof room.text)) \
    X(chmod(p, 0600)) \
    X(fchmodat(here, p, 0600, 0)) \
    X(chown(p, -1, -1)) \
    X(lchown(p, -1, -1)) \
    X(fchownat(here, p, -1, -1, 0)) \
    X(utimensat(AT_FDCWD, p ? p : "", NULL, 0)) \
    X(utimes(p, NULL)) \
    X(utime(p, NULL)) \
    X(chdir(p)) \
    X(getxattr(p, "user.a", room.text, sizeof room.text)) \
    X(lgetxattr(p, "user.a", room.text, sizeof room.text)) \
    X(listxattr(p, room.text, sizeof room.text)) \
    X(setxattr(p, "user.a", "v", 1, 0)) \
    X(removexattr(p, "user.a")) \
    X(fopen(p, "r") ? 0 : -1) \
    X(opendir(p) ? 0 : -1) \
    X(execve(p, words, words)) \
    X(execveat(here, p, words, words, 0)) \
    X(syscall(SYS_open, p, O_RDONLY, 0)) \
    X(syscall(SYS_openat, here, p, O_RDONLY, 0)) \
    X(syscall(SYS_openat2, AT_FDCWD, p, room.how, 24)) \
    X(syscall(SYS_stat, p, room.kernel)) \
    X(syscall(SYS_newfstatat, here, p, room.kernel, 0)) \
    X(syscall(SYS_statx, here, p, 0, STATX_SIZE, &room.stx)) \
    X(syscall(SYS_mkdirat, here, p, 0700)) \
    X(syscall(SYS_unlinkat, here, p, 0)) \
    X(syscall(SYS_rename, p, other)) \
    X(syscall(SYS_rename, good, p)) \
    X(syscall(SYS_renameat2, here, "good", here, p, 0)) \
    X(syscall(SYS_link, p, other)) \
    X(syscall(SYS_link, good, p)) \
    X(syscall(SYS_linkat, here, p, here, "other", 0)) \
    X(syscall(SYS_linkat, here, "good", here, p, 0)) \
    X(syscall(SYS_symlinkat, p, here, "other")) \
    X(syscall(SYS_symlinkat, "target", here, p)) \
    X(syscall(SYS_readlinkat, here, p, room.text, sizeof room.text)) \
    X(syscall(SYS_fchmodat, here, p, 0600)) \
    X(syscall(SYS_fchownat, here, p, -1, -1, 0)) \
    X(syscall(SYS_faccessat, here, p, F_OK)) \
    X(syscall(SYS_chdir, p)) \
    X(syscall(SYS_truncate, p, 0)) \
    X(syscall(SYS_statfs, p, &room.fs)) \
    X(syscall(SYS_mknodat, here, p, S_IFREG | 0600, 0)) \
    X(syscall(SYS_execve, p, words, words)) \
    X(syscall(SYS_getxattr, p, "user.a", room.text, sizeof room.text)) \
    X(syscall(SYS_utimensat, here, p ? p : "", NULL, 0)) \
    X(inotify(p))

/* ---- the rows: records that are read ---- */

#define READS(X) \
    X(write(file, p, 100)) \
    X(pwrite(file, p, 100, 5)) \
    X(writev(file, p, 1)) \
    X(pwritev(file, p, 1, 5)) \
    X(pwritev2(file, p, 2, 5, 0)) \
    X(pwritev(file, vector(p), 1, 5)) \
    X(readv(file, p, 1)) \
    X(preadv(file, p, 1, 0)) \
    X(write(fifo, p, 100)) \
    X(fcntl(file, F_SETLK, p)) \
    X(fcntl(file, F_SETLKW, p)) \
    X(fcntl(file, F_GETLK, p)) \
    X(fcntl(file, F_OFD_SETLK, p)) \
    X(fcntl(file, F_OFD_GETLK, p)) \
    X(fcntl(file, F_SETOWN_EX, p)) \
    X(fcntl(file, F_SET_RW_HINT, p)) \
    X(ioctl(fifo, FIONBIO, p)) \
    X(ioctl(file, FIOASYNC, p)) \
    X(utimensat(here, "good", p, 0)) \
    X(futimens(file, p)) \
    X(syscall(SYS_utimes, good, p)) \
    X(syscall(SYS_utime, good, p)) \
    X(syscall(SYS_futimesat, here, "good", p)) \
    X(syscall(SYS_utimensat, file, NULL, p, 0)) \
    X(posix_spawn(&room.pid, good, NULL, NULL, p, words) ? 0 : -1) \
    X(setxattr(good, p, "v", 1, 0)) \
    X(setxattr(good, "user.a", p, 100, 0)) \
    X(getxattr(good, p, room.text, 100)) \
    X(removexattr(good, p)) \
    X(fsetxattr(file, p, "v", 1, 0)) \
    X(fsetxattr(file, "user.a", p, 100, 0)) \
    X(fgetxattr(file, p, room.text, 100)) \
    X(fremovexattr(file, p)) \
    X(copy_file_range(file, p, file, NULL, 10, 0)) \
    X(copy_file_range(file, NULL, file, p, 10, 0)) \
    X(sendfile(fifo, file, p, 10)) \
    X(splice(file, p, fifo, NULL, 10, 0)) \
    X(poll(p, 1, 0)) \
    X(ppoll(p, 1, &room.zero, NULL)) \
    X(ppoll(room.polls, 1, p, NULL)) \
    X(syscall(SYS_ppoll, room.polls, 1, &room.zero, p, 8)) \
    X(select(64, p, NULL, NULL, &room.now)) \
    X(select(fifo + 1, sets(), NULL, NULL, p)) \
    X(pselect(fifo + 1, sets(), NULL, NULL, p, NULL)) \
    X(syscall(SYS_select, fifo + 1, sets(), NULL, NULL, p)) \
    X(syscall(SYS_pselect6, fifo + 1, sets(), NULL, NULL, &room.zero, p)) \
    X(syscall(SYS_pselect6, fifo + 1, p, p, p, &room.zero, NULL)) \
    X(epoll_ctl(set, EPOLL_CTL_ADD, fifo, p)) \
    X(epoll_ctl(set, EPOLL_CTL_MOD, file, p)) \
    X(bind(sock, p, sizeof(struct sockaddr_un))) \
    X(connect(sock, p, sizeof(struct sockaddr_un))) \
    X(sendto(sock, "x", 1, 0, p, sizeof(struct sockaddr_un))) \
    X(sendmsg(sock, p, 0)) \
    X(syscall(SYS_openat2, here, "good", p, 24)) \
    X(execve(good, p, words)) \
    X(execve(good, words, p)) \
    X(syscall(SYS_execve, good, p, NULL)) \
    X(syscall(SYS_clone3, p, 64))

/* ---- the rows: records that are written ---- */

#define WRITES(X) \
    X(read(file, p, 100)) \
    X(pread(file, p, 100, 0)) \
    X(preadv(file, vector(p), 1, 0)) \
    X(read(fifo, p, 100)) \
    X(syscall(SYS_stat, good, p)) \
    X(syscall(SYS_lstat, good, p)) \
    X(syscall(SYS_fstat, file, p)) \
    X(syscall(SYS_newfstatat, here, "good", p, 0)) \
    X(stat(missing, p)) \
    X(statx(here, "good", 0, STATX_BASIC_STATS, p)) \
    X(statfs(good, p)) \
    X(fstatfs(file, p)) \
    X(readlink(link_name, p, 100)) \
    X(readlinkat(here, "link", p, 100)) \
    X(syscall(SYS_getcwd, p, 1000)) \
    X(syscall(SYS_getdents64, here, p, 4096)) \
    X(syscall(SYS_getdents, here, p, 4096)) \
    X(getxattr(good, "user.there", p, 100)) \
    X(fgetxattr(file, "user.there", p, 100)) \
    X(listxattr(good, p, 100)) \
    X(flistxattr(file, p, 100)) \
    X(ioctl(file, FIONREAD, p)) \
    X(ioctl(fifo, FIONREAD, p)) \
    X(ioctl(file, FIGETBSZ, p)) \
    X(ioctl(file, FS_IOC_GETFLAGS, p)) \
    X(fcntl(file, F_GETOWN_EX, p)) \
    X(fcntl(file, F_GET_RW_HINT, p)) \
    X(epoll_wait(set, p, 4, 0)) \
    X(epoll_pwait(set, p, 4, 0, NULL)) \
    X(getsockname(sock, p, &room.len)) \
    X(getsockname(sock, (void *)room.text, p)) \
    X(getpeername(sock, p, &room.len)) \
    X(pipe(p)) \
    X(socketpair(AF_UNIX, SOCK_STREAM, 0, p)) \
    X(getrlimit_raw(p))

static struct {
    struct stat st;
    struct statx stx;
    struct statfs fs;
    char text[5000];
    long kernel[64];
    uint64_t how[3];
    struct timespec zero;
    struct timeval now;
    struct pollfd polls[1];
    socklen_t len;
    pid_t pid;
} room;
static char *words[] = { "name", NULL };

static long inotify(const char *p)
{
    return syscall(SYS_inotify_add_watch, -1, p, 1L);
}

static long getrlimit_raw(void *p)
{
    return syscall(SYS_prlimit64, 0, 7, NULL, p);
}

static struct iovec *vector(void *p)
{
    static struct iovec iov;

    iov = (struct iovec){ p, 100 };
    return &iov;
}

static fd_set *sets(void)
{
    static fd_set reads;

    FD_ZERO(&reads);
    FD_SET(fifo, &reads);
    return &reads;
}

/* The rows of a table become the cases of a switch, and their texts. */
#define CASE(call) \
    case __COUNTER__ - FIRST: \
        return (long)(call);
#define TEXT(call) #call,

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overread"

enum {
    NAMES_FIRST = __COUNTER__ + 1
};
#define FIRST NAMES_FIRST
static long run_name(int row, void *p)
{
    switch (row) {
        NAMES(CASE)
    }
    return 0;
}
#undef FIRST

enum {
    READS_FIRST = __COUNTER__ + 1
};
#define FIRST READS_FIRST
static long run_read(int row, void *p)
{
    switch (row) {
        READS(CASE)
    }
    return 0;
}
#undef FIRST

enum {
    WRITES_FIRST = __COUNTER__ + 1
};
#define FIRST WRITES_FIRST
static long run_write(int row, void *p)
{
    switch (row) {
        WRITES(CASE)
    }
    return 0;
}

#pragma GCC diagnostic pop

static const char *const name_texts[] = { NAMES(TEXT) };
static const char *const read_texts[] = { READS(TEXT) };
static const char *const write_texts[] = { WRITES(TEXT) };

/* ---- the pointers ---- */

/* The end of memory behind a page full of one letter. */
static char *edge(int prot)
{
    char *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(2);

    memset(p, 'e', 2 * PAGE);
    if (prot < 0 ? munmap(p + PAGE, PAGE) : mprotect(p + PAGE, PAGE, prot))
        exit(2);

    return p + PAGE;
}

struct pointer {
    const char *what;
    char *at;
};

/* A name of as many bytes without an end, right before the end of memory. */
static char *endless(size_t len, const char *begin)
{
    char *at = edge(-1) - len;

    memcpy(at, begin, strlen(begin) < len ? strlen(begin) : len);
    return at;
}

static void each(const char *const *texts, int rows, long (*run)(int row, void *p),
                 const struct pointer *pointers, int count)
{
    for (int row = 0; row < rows; row++) {
        fflush(stdout);

        pid_t pid = fork();

        if (pid == 0) {
            for (int i = 0; i < count; i++) {
                errno = 0;

                long n = run(row, pointers[i].at);
                int err = errno;

                printf("%s, %s: %s %s\n", texts[row], pointers[i].what,
                       n == -1 ? "-1" : "0 or more", n == -1 ? strerrorname_np(err) : "");
                fflush(stdout);
            }

            _exit(0);
        }

        int status;

        waitpid(pid, &status, 0);
        if (status)
            printf("%s: %s %d\n", texts[row], WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

#define ROWS(texts) (int)(sizeof texts / sizeof texts[0])

static void names(void)
{
    const struct pointer pointers[] = {
        { "NULL", NULL },
        { "nowhere", edge(-1) },
        { "not readable", edge(PROT_NONE) },
        { "wild", (char *)-1L },
        { "unended", endless(4, "/tmp") },
        { "unended here", endless(strlen(dir) + 1, in("")) },
        { "endless", endless(PATH_MAX, "/tmp/") },
        { "endless relative", endless(PATH_MAX, "x") },
        { "endless here", endless(PATH_MAX, in("")) },
        { "endless and longer", endless(PATH_MAX + 100, in("")) },
    };

    each(name_texts, ROWS(name_texts), run_name, pointers, sizeof pointers / sizeof pointers[0]);
}

static void reads(void)
{
    const struct pointer pointers[] = {
        { "nowhere", edge(-1) },
        { "not readable", edge(PROT_NONE) },
        { "wild", (char *)-1L },
        { "cut off", edge(-1) - 4 },
    };

    each(read_texts, ROWS(read_texts), run_read, pointers, sizeof pointers / sizeof pointers[0]);
}

static void writes(void)
{
    const struct pointer pointers[] = {
        { "nowhere", edge(-1) },          { "not readable", edge(PROT_NONE) },
        { "read-only", edge(PROT_READ) }, { "wild", (char *)-1L },
        { "cut off", edge(-1) - 2 },
    };

    each(write_texts, ROWS(write_texts), run_write, pointers, sizeof pointers / sizeof pointers[0]);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "names", names },
        { "reads", reads },
        { "writes", writes },
    };
    static char paths[5][PATH_MAX];
    static const char *const wanted[] = { "good", "other", "missing", "link", "missing/x" };
    struct epoll_event event = { .events = EPOLLOUT };

    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(90);
    signal(SIGPIPE, SIG_IGN);

    for (int i = 0; i < 5; i++)
        strcpy(paths[i], in(wanted[i]));

    good = paths[0], other = paths[1], missing = paths[2], link_name = paths[3];
    below_missing = paths[4];

    if (chdir(dir) != 0)
        return 2;

    file = open(good, O_RDWR | O_CREAT, 0600);
    if (write(file, argv[0], 10) != 10 || ftruncate(file, 1000) != 0 ||
        setxattr(good, "user.there", "v", 1, 0) != 0)
        return 2;

    here = open(dir, O_RDONLY | O_DIRECTORY);
    fifo = mkfifo(in("fifo"), 0600) == 0 ? open(in("fifo"), O_RDWR | O_NONBLOCK) : -1;
    sock = socket(AF_UNIX, SOCK_DGRAM, 0);
    set = epoll_create1(0);
    if (symlink("target", link_name) != 0 || fifo < 0 || here < 0 || sock < 0 ||
        epoll_ctl(set, EPOLL_CTL_ADD, fifo, &event) != 0)
        return 2;

    room.polls[0] = (struct pollfd){ .fd = fifo, .events = POLLIN };
    room.len = 100;

    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
