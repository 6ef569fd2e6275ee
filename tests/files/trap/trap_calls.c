/* SPDX-License-Identifier: BSD-3-Clause */
/* A static program for trap_calls.sh: PROGRAM CASE DIRECTORY.  Each case checks the answers of the calls
 * that iofwd-run -trap carries out, and passes in a local directory, too. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trap_check.h"

/* No memory. */
static void *volatile nowhere = (void *)8;

static int make(const char *name, const char *text)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

static void expect(int fd, off_t at, const char *text)
{
    char buf[256] = "";

    CHECK(pread(fd, buf, sizeof buf - 1, at) == (ssize_t)strlen(text) && strcmp(buf, text) == 0);
}

/* ---- descriptors ---- */

static void descriptors(void)
{
    int fd = make("d", "0123456789");
    int first = forwarded ? 512 : 3;

    CHECK(fd >= first && fd < 1024);

    int copy = dup(fd);

    CHECK(copy > fd && lseek(copy, 4, SEEK_SET) == 4 && lseek(fd, 0, SEEK_CUR) == 4);
    CHECK(fcntl(fd, F_DUPFD_CLOEXEC, 700) == 700 && fcntl(700, F_GETFD) == FD_CLOEXEC);
    CHECK(dup3(fd, 800, O_CLOEXEC) == 800 && fcntl(800, F_GETFD) == FD_CLOEXEC);
    CHECK(fcntl(800, F_SETFD, 0) == 0 && fcntl(800, F_GETFD) == 0);
    CHECK(dup2(fd, fd) == fd && dup3(fd, fd, 0) == -1 && errno == EINVAL);
    CHECK(dup2(fd, -1) == -1 && errno == EBADF);
    CHECK(dup2(990, 800) == -1 && errno == EBADF);
    expect(800, 2, "23456789");

    CHECK(close_range(700, 900, 0) == 0);
    CHECK(read(700, &first, 1) == -1 && errno == EBADF && read(800, &first, 1) == -1);
    CHECK(close(copy) == 0 && close(copy) == -1 && errno == EBADF);
    expect(fd, 9, "9");
    CHECK(dup2(fd, 0) == 0);
    expect(0, 8, "89");
    CHECK(close(fd) == 0);
    expect(0, 8, "89");

    /* a forwarded file cannot have a number that the filter does not know */
    fd = open("d", O_RDONLY);

    int low = dup2(fd, 100);

    CHECK(forwarded ? low == -1 && errno == EBADF : low == 100);

    int last = dup2(fd, 1023); /* carries directories under -trap */

    CHECK(forwarded ? last == -1 && errno == EBADF : last == 1023);
}

/* Closes a standard descriptor, as daemons and old shells do before they open what takes its place. */
static void standard(void)
{
    char text[8] = "";

    for (int number = 0; number < 3; number++) {
        int kept = fcntl(number, F_DUPFD, 50);

        close(number);
        CHECK(open("standard", O_RDWR | O_CREAT | O_TRUNC, 0644) == number);

        int copy = dup(number);

        CHECK(copy > 2 && write(number, "123", 3) == 3 && pread(copy, text, sizeof text, 0) == 3);
        CHECK(memcmp(text, "123", 3) == 0);
        close(number);
        CHECK(fcntl(copy, F_DUPFD, 0) == number);
        CHECK(write(number, "4", 1) == 1 && pread(copy, text, sizeof text, 0) == 4);
        close(copy);
        CHECK(dup2(kept, number) == number);
        close(kept);
    }
}

/* The kernel looks at the low half of a descriptor only, and so must the filter. */
static void low_half(void)
{
    long fd = make("l", "abc");
    char c = 0;

    CHECK(syscall(SYS_pread64, fd | 0x700000000, &c, 1L, 1L) == 1 && c == 'b');
    CHECK(syscall(SYS_mmap, 0L, 4096L, (long)PROT_READ, (long)MAP_PRIVATE, fd | 0x700000000, 0L) !=
          -1);
    CHECK(syscall(SYS_openat, 0x700000000 | (uint32_t)AT_FDCWD, "l", 0L, 0L) >= 0);
}

static int by_how(uint64_t flags, uint64_t mode, uint64_t resolve, size_t size)
{
    struct {
        struct open_how how;
        uint64_t later;
    } h = { { flags, mode, resolve }, size > sizeof h.how ? 1 : 0 };

    return (int)syscall(SYS_openat2, AT_FDCWD, "h", &h, size);
}

/* What the kernel does not accept for a local file is an error for a forwarded one, too. */
static void openat2_errors(void)
{
    const size_t all = sizeof(struct open_how);

    CHECK(make("h", "how") >= 0);
    CHECK(by_how(O_RDONLY, 0, 0, all) >= 0);
    CHECK(by_how(O_RDWR, 0644, 0, all) == -1 && errno == EINVAL);
    CHECK(by_how((uint64_t)1 << 43, 0, 0, all) == -1 && errno == EINVAL);
    CHECK(by_how(O_PATH | O_RDWR, 0, 0, all) == -1 && errno == EINVAL);
    CHECK(by_how(O_RDWR | O_CREAT, 010644, 0, all) == -1 && errno == EINVAL);
    CHECK(by_how(O_RDONLY, 0, 0x10000, all) == -1 && errno == EINVAL);
    CHECK(by_how(O_RDONLY, 0, 0, all - 8) == -1 && errno == EINVAL);
    CHECK(by_how(O_RDONLY, 0, 0, all + 8) == -1 && errno == E2BIG);
    CHECK(by_how(O_RDONLY, 0, 0, 5000) == -1 && errno == E2BIG);
}

/* Descriptors of local files in the range belong to the kernel. */
static void local_in_range(void)
{
    int local = memfd_create("local", 0);
    char c = 0;

    CHECK(local >= 0 && write(local, "xyz", 3) == 3);
    CHECK(dup2(local, 600) == 600 && pread(600, &c, 1, 1) == 1 && c == 'y');
    CHECK(dup2(local, 1023) == 1023 && pread(1023, &c, 1, 2) == 1 && c == 'z');

    int fd = make("r", "fwd");

    CHECK(dup2(fd, 600) == 600);
    expect(600, 0, "fwd");
    CHECK(dup2(local, 600) == 600 && pread(600, &c, 1, 0) == 1 && c == 'x');
    expect(fd, 0, "fwd");
}

static void select_and_poll(void)
{
    int fd = make("s", "x");
    fd_set in;

    FD_ZERO(&in);
    FD_SET(fd, &in);
    CHECK(select(fd + 1, &in, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &in));

    int set = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN };

    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == -1 && errno == EPERM);
}

/* A descriptor after its way through a message. */
static int pass_on(int fd)
{
    int pair[2];
    char space[CMSG_SPACE(sizeof(int))] = "";
    char byte = 0;
    struct iovec iov = { &byte, 1 };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);

    *head = (struct cmsghdr){ CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS };
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(sendmsg(pair[0], &m, 0) == 1 && recvmsg(pair[1], &m, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    close(pair[0]);
    close(pair[1]);
    return fd;
}

/* What a receiver does with a forwarded file fails, and does not find an empty file. */
static void cannot_be_used(int fd)
{
    char c = 0;
    struct stat st;

    CHECK(fd < 512 && read(fd, &c, 1) == -1 && errno == EBADF);
    CHECK(pread(fd, &c, 1, 0) == -1 && errno == EBADF);
    CHECK(write(fd, "x", 1) == -1 && errno == EPERM);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EACCES);
    CHECK(ftruncate(fd, 0) == -1);
    CHECK(fstatat(fd, "", &st, AT_EMPTY_PATH) == -1 && errno == EBADF);
#ifdef SYS_fstat
    CHECK(syscall(SYS_fstat, fd, &st) == -1 || st.st_size != 0);
#endif
}

/* A message brings a descriptor to a number below the range. */
static void messages(void)
{
    char space[CMSG_SPACE(sizeof(int))] = "";
    char c;
    struct msghdr m = { .msg_control = space, .msg_controllen = sizeof space };
    int fd = make("m", "by message");
    int got = pass_on(fd);

    if (forwarded) {
        char name[32];
        struct stat st;

        cannot_be_used(got);
        snprintf(name, sizeof name, "/proc/self/fd/%d", got);
        CHECK(open(name, O_RDONLY) == -1 && errno == EBADF);
        CHECK(dup2(fd, 0) == 0);
        cannot_be_used(pass_on(0));

        /* just mapped; the second time after a call that is reported */
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) != MAP_FAILED);
        got = pass_on(fd);
        CHECK(read(got, &c, 1) == -1 && errno == EINVAL);
        CHECK(stat("m", &st) == 0);
        cannot_be_used(pass_on(fd));

        /* local ones are passed on */
        got = memfd_create("local", 0);
        CHECK(got >= 0 && write(got, "by message", 10) == 10);
        got = pass_on(got);
    }

    expect(fd, 0, "by message");
    expect(got, 0, "by message");

    /* what the kernel finds wrong is its to refuse */
    CMSG_FIRSTHDR(&m)->cmsg_len = 1;
    CHECK(sendmsg(got, &m, 0) == -1 && errno == ENOTSOCK);
}

/* ---- data ---- */

static void vectors(void)
{
    int fd = make("v", "");
    char a[4] = "";
    char b[6] = "";
    struct iovec out[3] = { { "one", 3 }, { "", 0 }, { " two", 4 } };
    struct iovec in[2] = { { a, 3 }, { b, 4 } };

    CHECK(writev(fd, out, 3) == 7 && pwritev(fd, out, 1, 7) == 3);
    CHECK(preadv(fd, in, 2, 0) == 7 && strcmp(a, "one") == 0 && strcmp(b, " two") == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, in, 2) == 7);
    CHECK(preadv2(fd, in, 1, -1, 0) == 3 && preadv2(fd, in, 1, -1, 0) == 0);
    CHECK(preadv2(fd, in, 1, 0, 1 << 20) == -1 && errno == EOPNOTSUPP);
    CHECK(pwritev2(fd, out, 1, 0, 1 << 20) == -1 && errno == EOPNOTSUPP);
    CHECK(preadv2(fd, out + 1, 1, 0, 1 << 20) == 0);
    CHECK(pwritev2(fd, out, 1, 0, RWF_APPEND) == 3);
    expect(fd, 0, "one twooneone");
}

/* Memory that is not there ends a call as in the kernel: with what came before it. */
static void bad_memory(void)
{
    char *two = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = make("b", "");

    CHECK(two != MAP_FAILED && munmap(two + 4096, 4096) == 0);
    memset(two, 'x', 4096);
    CHECK(write(fd, two + 4096, 1) == -1 && errno == EFAULT);
    CHECK(write(fd, nowhere, 1) == -1 && errno == EFAULT);
    CHECK(write(fd, two + 4000, 96) == 96 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK(read(fd, nowhere, 1) == -1 && errno == EFAULT && lseek(fd, 0, SEEK_CUR) == 0);
    CHECK(open(nowhere, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(stat("b", nowhere) == -1 && errno == EFAULT);
}

static void large(void)
{
    size_t len = (3 << 20) + 12345;
    char *data = malloc(len);
    char *back = calloc(1, len);
    int fd = make("big", "");

    for (size_t i = 0; i < len; i++)
        data[i] = (char)(i * 31 >> 7);

    CHECK(write(fd, data, len) == (ssize_t)len && pread(fd, back, len, 0) == (ssize_t)len);
    CHECK(memcmp(data, back, len) == 0 && ftruncate(fd, 10) == 0);
    CHECK(pread(fd, back, len, 0) == 10 && unlink("big") == 0);
}

static void mappings(void)
{
    int fd = make("map", "mapped text");
    char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

    CHECK(own != MAP_FAILED && seen != MAP_FAILED && strcmp(own, "mapped text") == 0);
    memcpy(own, "MINE", 4);
    CHECK(memcmp(seen, "mapped", 6) == 0);
    expect(fd, 0, "mapped text");

    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    CHECK(forwarded ? shared == MAP_FAILED && errno == ENODEV : shared != MAP_FAILED);

    /* what may only be read cannot become writable later */
    if (forwarded)
        CHECK(mprotect(seen, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);

    close(fd);
    CHECK(memcmp(seen, "mapped", 6) == 0);
    fd = open("map", O_WRONLY);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EACCES);
    fd = open("map", O_RDONLY);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED &&
          errno == EACCES);
    fd = open("map", O_PATH);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EBADF);
}

enum {
    MAPPERS = 4,
    PAGES = 64
};

static int mapped_fd;

/* Maps pages in turn; other reported calls come between. */
static void *map_pages(void *nth)
{
    for (int i = 0; i < 4 * PAGES; i++) {
        int page = (i * 7 + *(int *)nth * 13) % PAGES;
        const char *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, mapped_fd, (off_t)page * 4096);

        CHECK(at != MAP_FAILED && at[0] == '0' + page && at[4095] == '0' + page);
        CHECK(munmap((void *)(uintptr_t)at, 4096) == 0);
        if (i % 3 == *(int *)nth % 3)
            CHECK(access("pages", F_OK) == 0);
    }

    return NULL;
}

/* Threads map one descriptor at the same time, and close-on-exec survives it. */
static void mapping_threads(void)
{
    char page[4096];
    pthread_t thread[MAPPERS];
    int nth[MAPPERS];

    mapped_fd = open("pages", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; i < PAGES; i++) {
        memset(page, '0' + i, sizeof page);
        CHECK(pwrite(mapped_fd, page, sizeof page, (off_t)i * 4096) == 4096);
    }

    for (int i = 0; i < MAPPERS; i++) {
        nth[i] = i;
        CHECK(pthread_create(&thread[i], NULL, map_pages, &nth[i]) == 0);
    }

    for (int i = 0; i < MAPPERS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);

    CHECK(fcntl(mapped_fd, F_GETFD) == FD_CLOEXEC && pread(mapped_fd, page, 1, 4096) == 1);
    CHECK(page[0] == '1');

    /* each mapping shows the file as it was when it was mapped */
    char *before = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, mapped_fd, 0);

    if (forwarded) {
        CHECK(before != MAP_FAILED && pwrite(mapped_fd, "new", 3, 0) == 3);

        char *after = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, mapped_fd, 0);

        CHECK(after != MAP_FAILED && memcmp(before, "000", 3) == 0 && memcmp(after, "new", 3) == 0);
        CHECK(ftruncate(mapped_fd, 0) == 0 && before[4095] == '0');
    }
}

static void copies(void)
{
    int in = make("in", "0123456789");
    int out = make("out", "");
    int local = memfd_create("local", 0);
    int pipe_of[2];
    off_t from = 2;
    off_t to = 1;

    CHECK(sendfile(local, in, &from, 3) == 3 && from == 5);
    expect(local, 0, "234");
    CHECK(lseek(in, 0, SEEK_SET) == 0 && sendfile(out, in, NULL, 100) == 10);
    CHECK(lseek(in, 0, SEEK_CUR) == 10 && lseek(out, 0, SEEK_CUR) == 10);
    from = 0;
    CHECK(copy_file_range(in, &from, out, &to, 2, 0) == 2 && from == 2 && to == 3);
    expect(out, 0, "0013456789");
    from = 0;
    to = 4;
    CHECK(copy_file_range(in, &from, in, &to, 5, 0) == -1 && errno == EINVAL && from == 0);
    CHECK(copy_file_range(in, &from, in, &to, 4, 0) == 4 && from == 4);
    expect(in, 0, "0123012389");
    CHECK(pwrite(in, "4567", 4, 4) == 4);
    CHECK(lseek(local, 0, SEEK_SET) == 0 && sendfile(out, local, NULL, 3) == 3);
    expect(out, 0, "0013456789234");
    CHECK(pipe(pipe_of) == 0 && lseek(in, 0, SEEK_SET) == 0);
    CHECK(sendfile(pipe_of[1], in, NULL, 10) == 10);

    char buf[16] = "";

    CHECK(read(pipe_of[0], buf, 16) == 10 && strcmp(buf, "0123456789") == 0);
}

#define FAILS(call, err) CHECK((call) == -1 && errno == (err))

/* Between two file systems the kernel copies nothing. */
static void range_errors_of(int in, int wronly)
{
    off_t end = 10;
    off_t negative = -5;

    FAILS(copy_file_range(in, &negative, wronly, NULL, 4, 0), EINVAL);
    FAILS(copy_file_range(in, &negative, wronly, NULL, 5, 0), EOVERFLOW);
    CHECK(copy_file_range(in, &end, wronly, NULL, 5, 0) == 0 && end == 10);
}

/* The kernel looks at the descriptors before it looks whether there is anything to copy. */
static void copy_errors_of(int in, int wronly, int rdonly, int append, int dir)
{
    off_t end = 10;
    off_t last = INT64_MAX;
    off_t negative = -5;
    int end_of_pipe[2];

    FAILS(copy_file_range(in, &end, rdonly, NULL, 5, 0), EBADF);
    FAILS(copy_file_range(in, &end, append, NULL, 5, 0), EBADF);
    FAILS(copy_file_range(wronly, &end, wronly, NULL, 5, 0), EBADF);
    FAILS(copy_file_range(dir, NULL, wronly, NULL, 5, 0), EISDIR);
    FAILS(copy_file_range(in, &end, wronly, NULL, 5, 1 << 30), EINVAL);

    FAILS(sendfile(rdonly, in, &end, 5), EBADF);
    FAILS(sendfile(append, in, &end, 5), EINVAL);
    FAILS(sendfile(wronly, wronly, &end, 5), EBADF);
    FAILS(sendfile(rdonly, in, &negative, 5), EINVAL);
    FAILS(sendfile(rdonly, in, &last, 5), EINVAL);
    FAILS(sendfile(wronly, dir, NULL, 5), EINVAL);
    CHECK(sendfile(wronly, in, &end, 5) == 0 && end == 10);

    CHECK(pipe(end_of_pipe) == 0);
    FAILS(splice(end_of_pipe[0], NULL, rdonly, NULL, 5, 0), EBADF);
    FAILS(splice(wronly, NULL, end_of_pipe[1], NULL, 5, 0), EBADF);
    CHECK(splice(wronly, NULL, rdonly, NULL, 0, 0) == 0);
    FAILS(sendfile(wronly, end_of_pipe[0], &end, 5), ESPIPE);
    FAILS(copy_file_range(in, NULL, end_of_pipe[1], NULL, 5, 0), EINVAL);
    close(end_of_pipe[0]);
    close(end_of_pipe[1]);
}

static void copy_errors(void)
{
    char local[64];
    const char *const name[] = { "f", local };

    snprintf(local, sizeof local, "/proc/self/fd/%d", memfd_create("local", 0));

    for (int from = 0; from < 2; from++)
        for (int to = 0; to < 2; to++) {
            int in = make(name[from], "0123456789");
            int out = make(name[to], "0123456789");

            CHECK(close(out) == 0);
            out = open(name[to], O_WRONLY);
            if (from == to)
                range_errors_of(in, out);

            copy_errors_of(in, out, open(name[to], O_RDONLY), open(name[to], O_RDWR | O_APPEND),
                           open(from ? "/" : ".", O_RDONLY));
        }
}

/* A program learns when it begins that there are no asynchronous calls. */
static void asynchronous(void)
{
    unsigned long context = 0;
    long result = syscall(SYS_io_setup, 8, &context);

    CHECK(forwarded ? result == -1 && errno == ENOSYS && !context : result == 0);
}

/* ---- names ---- */

static void directories(void)
{
    char target[64] = "";
    char path[64];
    struct stat st;

    CHECK(mkdir("dir", 0755) == 0);

    int dir = open("dir", O_RDONLY | O_DIRECTORY);

    CHECK(dir >= 0 && mkdirat(dir, "sub", 0700) == 0);
    CHECK(symlinkat("target", dir, "link") == 0 && readlinkat(dir, "link", target, 63) == 6);
    CHECK(fstatat(dir, "sub", &st, 0) == 0 && (st.st_mode & 0777) == 0700);
    CHECK(fstatat(dir, "", &st, AT_EMPTY_PATH) == 0 && S_ISDIR(st.st_mode));
    close(openat(dir, "sub/file", O_CREAT | O_WRONLY, 0600));
    CHECK(faccessat(dir, "sub/file", R_OK, 0) == 0 && linkat(dir, "sub/file", dir, "two", 0) == 0);
    CHECK(fstatat(dir, "two", &st, 0) == 0 && st.st_nlink == 2);
    CHECK(linkat(dir, "sub/file", AT_FDCWD, "/tmp/none", 0x10000) < 0 && errno == EINVAL);
    CHECK(linkat(dir, "", AT_FDCWD, "/tmp/none", 0) < 0 && errno == ENOENT);
    CHECK(linkat(dir, "none", AT_FDCWD, "/dev/null", 0) < 0 && errno == ENOENT);
    CHECK(linkat(dir, "two", AT_FDCWD, "/dev/null", 0) < 0 && errno == EEXIST);
    CHECK(linkat(AT_FDCWD, "/dev/null", dir, "two", 0) < 0 && errno == EEXIST);
    CHECK(linkat(AT_FDCWD, "/dev/null", dir, "none/x", 0) < 0 && errno == ENOENT);
    CHECK(linkat(AT_FDCWD, "/dev/null", dir, "none", 0) < 0 && errno == EXDEV);
    CHECK(renameat(dir, "none/x", AT_FDCWD, "/dev/none") < 0 && errno == ENOENT);
    CHECK(renameat(dir, "two", AT_FDCWD, "/dev/none/x") < 0 && errno == ENOENT);
    CHECK(renameat(dir, "two", dir, "three") == 0 && fchmodat(dir, "three", 0640, 0) == 0);
    CHECK(fchmodat(dir, "three", 0170644, 0) == 0 && fstatat(dir, "three", &st, 0) == 0);
    CHECK(st.st_mode == (S_IFREG | 0644)); /* what is no permission means nothing */
    CHECK(mkdirat(dir, "four", 0170700) == 0 && unlinkat(dir, "four", AT_REMOVEDIR) == 0);
    CHECK(openat(dir, "../dir/three", O_RDONLY) >= 0);
    CHECK(rename("dir/three", "/tmp/trap-other-file-system") == (forwarded ? -1 : 0) ||
          errno == EXDEV);
    unlink("/tmp/trap-other-file-system");
    unlinkat(dir, "three", 0);

    /* by the names of descriptors */
    snprintf(path, sizeof path, "/proc/self/fd/%d", dir);
    CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode) && open(path, O_RDONLY) >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d/sub//file", dir);
    CHECK(stat(path, &st) == 0 && S_ISREG(st.st_mode) && link(path, "dir/four") == 0);
    CHECK(unlinkat(dir, "four", 0) == 0);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), dir);

    ssize_t n = readlink(path, target, 63);

    CHECK(n > 4 && memcmp(target + n - 4, "/dir", 4) == 0);
    if (fork() == 0) /* also by those of another process */
        _exit(stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? 0 : 1);

    int status;

    CHECK(wait(&status) > 0 && status == 0);
    CHECK(unlinkat(dir, "sub/file", 0) == 0 && unlinkat(dir, "sub", AT_REMOVEDIR) == 0);
}

/* A link of the local file system that leads to the directory. */
static void local_links(void)
{
    char there[] = "/tmp/trap-link.XXXXXX";
    char here[4096], path[64];

    close(make("f", "by a link"));
    CHECK(getcwd(here, sizeof here) && mkdtemp(there));
    snprintf(path, sizeof path, "%s/link", there);
    CHECK(symlink(here, path) == 0);
    strcat(path, "/f");

    int fd = open(path, O_RDONLY);

    CHECK(fd >= 0);
    expect(fd, 0, "by a link");
    CHECK(chdir(there) == 0);
    fd = open("link/f", O_RDONLY);
    CHECK(fd >= 0);
    expect(fd, 0, "by a link");

    int dir = open(there, O_RDONLY);

    fd = openat(dir, "link/f", O_RDONLY);
    CHECK(fd >= 0);
    expect(fd, 0, "by a link");

    /* what concerns the link itself leaves its target alone */
    char target[4096] = "";
    char own[80];
    struct stat st;

    strcat(here, "/f");
    snprintf(own, sizeof own, "%s/own", there);
    CHECK(symlink(here, own) == 0 && stat(own, &st) == 0 && S_ISREG(st.st_mode));
    CHECK(lstat(own, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(open(own, O_RDONLY | O_NOFOLLOW) == -1 && errno == ELOOP);
    CHECK(readlink(own, target, sizeof target) > 0 && strcmp(target, here) == 0);
    CHECK(mkdir(own, 0700) == -1 && errno == EEXIST);
    CHECK(unlink(own) == 0 && access(here, F_OK) == 0);
    CHECK(unlink("link") == 0 && rmdir(there) == 0);
}

/* ---- flags and advice ---- */

static void advice(void)
{
    int fd = make("advice", "text");
    int named = open("advice", O_PATH);
    int writable = open("advice", O_WRONLY);
    int dir = open(".", O_RDONLY | O_DIRECTORY);

    CHECK(mkfifo("advised", 0600) == 0);

    int fifo = open("advised", O_RDWR);

    CHECK(readahead(fd, 0, 4) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED) == 0);
    CHECK(readahead(named, 0, 4) == -1 && errno == EBADF);
    CHECK(posix_fadvise(named, 0, 0, POSIX_FADV_WILLNEED) == EBADF);
    CHECK(readahead(writable, 0, 4) == -1 && errno == EBADF);
    CHECK(posix_fadvise(writable, 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK(readahead(dir, 0, 4) == -1 && errno == EINVAL);
    CHECK(readahead(fifo, 0, 4) == -1 && errno == EINVAL);
    CHECK(posix_fadvise(fifo, 0, 0, POSIX_FADV_NORMAL) == ESPIPE);
    CHECK(posix_fadvise(fd, 0, 0, 77) == EINVAL && posix_fadvise(fd, 0, -1, 0) == EINVAL);
}

/* Direct transfers can be switched on, if the file system has them. */
static void direct_flag(void)
{
    int fd = make("direct", "text");
    int before = fcntl(fd, F_GETFL);

    CHECK(before >= 0 && !(before & O_DIRECT));
    if (fcntl(fd, F_SETFL, before | O_DIRECT) != 0) {
        CHECK(errno == EINVAL && fcntl(fd, F_GETFL) == before);
        return;
    }

    CHECK(fcntl(fd, F_GETFL) == (before | O_DIRECT));
    CHECK(fcntl(dup(fd), F_GETFL) == (before | O_DIRECT));
    CHECK(fcntl(fd, F_SETFL, before) == 0 && fcntl(fd, F_GETFL) == before);
    expect(fd, 0, "text");

    int opened = open("direct", O_RDWR | O_DIRECT);

    CHECK(opened >= 0 && (fcntl(opened, F_GETFL) & O_DIRECT));
    CHECK(fcntl(opened, F_SETFL, before) == 0);
    expect(opened, 0, "text");
}

/* ---- processes ---- */

static int leader_fd;

static void *goes_on(void *unused)
{
    char c = 0;

    /* until the first thread is a zombie */
    for (int i = 0; i < 1000 && c != 'Z'; i++) {
        char line[256] = "";
        char path[64];

        snprintf(path, sizeof path, "/proc/%d/stat", (int)getpid());
        int fd = open(path, O_RDONLY);

        CHECK(fd >= 0 && read(fd, line, 255) > 0);
        close(fd);
        c = strrchr(line, ')')[2];
        sched_yield();
    }

    CHECK(write(leader_fd, "more", 4) == 4);
    expect(leader_fd, 0, "textmore");
    CHECK(open("leader", O_RDONLY) >= 0);
    exit(0);
}

/* The first thread ends, and the others go on. */
static void leader_ends(void)
{
    pthread_t thread;

    leader_fd = make("leader", "text");
    CHECK(pthread_create(&thread, NULL, goes_on, NULL) == 0);
    pthread_exit(NULL);
}

static void cannot_be_seen(void)
{
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);

    int fd = open("hidden", O_CREAT | O_WRONLY, 0600);

    CHECK(forwarded ? fd == -1 && errno == EPERM : fd >= 0);
}

static void execute(void)
{
    char *const argv[] = { "prog", NULL };

    close(make("prog", "#!/bin/true\n"));
    CHECK(chmod("prog", 0755) == 0);
    execv("./prog", argv);
    CHECK(forwarded && errno == EACCES);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "descriptors", descriptors },
        { "standard", standard },
        { "low_half", low_half },
        { "openat2_errors", openat2_errors },
        { "local_in_range", local_in_range },
        { "select_and_poll", select_and_poll },
        { "messages", messages },
        { "vectors", vectors },
        { "bad_memory", bad_memory },
        { "large", large },
        { "mappings", mappings },
        { "mapping_threads", mapping_threads },
        { "copies", copies },
        { "copy_errors", copy_errors },
        { "asynchronous", asynchronous },
        { "directories", directories },
        { "local_links", local_links },
        { "advice", advice },
        { "direct_flag", direct_flag },
        { "leader_ends", leader_ends },
        { "cannot_be_seen", cannot_be_seen },
        { "execute", execute },
        { NULL, NULL },
    };

    return run_case(cases, argc, argv, chdir);
}
