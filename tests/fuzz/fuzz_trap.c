/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of the supervisor of iofwd-run -trap: notifications of system calls with any arguments,
 * from a program whose memory holds any bytes.  Run by tests/fuzz/fuzz.sh.
 *
 * An input is a sequence of calls, each a row of the table and a byte or more for each argument: a number,
 * a descriptor, an address.  The same bytes are the program's memory, behind some paths that lead
 * everywhere.  The kernel's side is played here: the descriptors of the program, the copies
 * between the memories, and the end of the caller at any look.  The servers answer at once, with
 * errors or data of any length that they may send.  What a handler does to this machine's files
 * itself gets another name and fails.  At the end of an input the program ends, which closes everything,
 * and so must the supervisor have at the servers.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "iofwd/trap/receive.c"
#include "tests/fuzz/fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#ifdef __x86_64__
#define ARCH_HERE 0xc000003eu
#else
#define ARCH_HERE 0xc00000b7u
#endif

enum {
    FDS = 1024,
    CALLS = 60,
    MEMORY_AT = 0x10000,
    MEMORY_BYTES = 1 << 16,
    PATHS_BYTES = 512,
    LISTENER = 77,
    ROW_MAX = 512
};

struct amph_trap amph_trap = { .listener = LISTENER };

static uint8_t memory[MEMORY_BYTES];
static int program_fd[FDS]; /* a copy of the program's descriptor; -1: it is not open */
static _Atomic int opened;  /* files at the servers */
static bool gives;          /* a reply with a descriptor has been given */

/* ---- the input ---- */

static uint64_t next_n(unsigned n)
{
    uint64_t value = 0;

    while (n--)
        value = value << 8 | next();

    return value;
}

static void expect(bool ok, const char *what)
{
    if (ok)
        return;

    fprintf(stderr, "not so: %s\n", what);
    abort();
}

/* ---- the kernel ---- */

void amph_trap_say(const char *fmt, ...)
{
    char line[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
}

static int fail(int err)
{
    errno = err;
    return -1;
}

static void close_of_program(int fd)
{
    if (fd < 0 || fd >= FDS || program_fd[fd] < 0)
        return;

    close(program_fd[fd]);
    program_fd[fd] = -1;
}

static int add_of_program(const struct seccomp_notif_addfd *add)
{
    int fd = (int)add->newfd;

    if (!(add->flags & SECCOMP_ADDFD_FLAG_SETFD))
        for (fd = 3; fd < FDS - 1 && program_fd[fd] >= 0;)
            fd++;

    if (fd < 0 || fd >= FDS)
        return fail(EBADF);

    int copy = fcntl((int)add->srcfd, F_DUPFD_CLOEXEC, 3);

    expect(copy >= 0, "the supervisor gives a descriptor that it has");
    close_of_program(fd);
    program_fd[fd] = copy;
    gives = gives || (add->flags & SECCOMP_ADDFD_FLAG_SEND);
    return fd;
}

/* The caller may end at each look; seldom, or an input would not get far. */
int fuzz_ioctl(int fd, unsigned long what, ...)
{
    va_list ap;

    va_start(ap, what);

    void *arg = va_arg(ap, void *);

    va_end(ap);
    expect(fd == LISTENER, "the listener is the only descriptor of ioctl");
    if (what == SECCOMP_IOCTL_NOTIF_ID_VALID)
        return input_left % 61 == 60 ? fail(ENOENT) : 0;
    if (what == SECCOMP_IOCTL_NOTIF_ADDFD)
        return add_of_program(arg);

    return 0;
}

/* The program's limits stay as they are. */
int fuzz_prlimit(pid_t pid, enum __rlimit_resource resource, const struct rlimit *set,
                 struct rlimit *old)
{
    return fail(EPERM);
}

/* One side is a buffer of the supervisor, the other one the program's memory. */
static ssize_t copy(const struct iovec *mine, const struct iovec *its, unsigned long n, bool in)
{
    char *own = mine->iov_base;
    size_t left = mine->iov_len;
    size_t done = 0;

    for (unsigned long i = 0; i < n && left; i++) {
        uint64_t at = (uintptr_t)its[i].iov_base - MEMORY_AT;
        size_t part = its[i].iov_len < left ? its[i].iov_len : left;

        if (at > MEMORY_BYTES || part > MEMORY_BYTES - at)
            return done ? (ssize_t)done : fail(EFAULT);

        if (in)
            memcpy(own + done, memory + at, part);
        else
            memcpy(memory + at, own + done, part);

        done += part;
        left -= part;
    }

    return (ssize_t)done;
}

ssize_t fuzz_readv(pid_t pid, const struct iovec *mine, unsigned long nmine,
                   const struct iovec *its, unsigned long n, unsigned long flags)
{
    expect(nmine == 1, "one buffer of ours");
    return copy(mine, its, n, true);
}

ssize_t fuzz_writev(pid_t pid, const struct iovec *mine, unsigned long nmine,
                    const struct iovec *its, unsigned long n, unsigned long flags)
{
    return copy(mine, its, n, false);
}

long fuzz_syscall(long number, ...)
{
    long a[4];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);

    if (number == SYS_pidfd_open)
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

    if (number == SYS_pidfd_getfd) {
        int fd = (int)a[1];

        return fd < 0 || fd >= FDS || program_fd[fd] < 0
                   ? fail(EBADF)
                   : fcntl(program_fd[fd], F_DUPFD_CLOEXEC, 3);
    }

    return number == SYS_tgkill || number == SYS_pidfd_send_signal ? 0 : fail(ENOSYS);
}

int fuzz_open(const char *path, int flags, ...)
{
    return strncmp(path, "/proc/self/fd/", 14) == 0 ? openat(AT_FDCWD, path, flags) : fail(EACCES);
}

int fuzz_unshare(int flags)
{
    return 0;
}

int fuzz_kill(pid_t pid, int sig)
{
    return 0;
}

int fuzz_utimensat(int dir, const char *path, const struct timespec *times, int flags)
{
    return fail(EACCES);
}

/* ---- the servers ---- */

/* 0 in most cases. */
static int answer(void)
{
    static const uint8_t errors[] = { ENOENT, EACCES, EIO, ENOSPC, EISDIR, ENOTDIR, ELOOP, EAGAIN };
    uint8_t word = next();

    return word < 192 ? 0 : errors[word % sizeof errors];
}

int plain_answer(void)
{
    return answer();
}

/* clang-format off */
#define PLAIN(name) __asm__(".globl amph_fwd_" #name "\n.set amph_fwd_" #name ", plain_answer")
PLAIN(access); PLAIN(chmod); PLAIN(chown); PLAIN(fallocate); PLAIN(fchmod); PLAIN(fchown); PLAIN(fdatasync); PLAIN(flock);
PLAIN(fsync); PLAIN(ftruncate); PLAIN(futimens); PLAIN(link); PLAIN(mkdir); PLAIN(mknod); PLAIN(removexattr); PLAIN(rename);
PLAIN(setflags); PLAIN(setlock); PLAIN(setmarks); PLAIN(setxattr); PLAIN(symlink); PLAIN(syncfs); PLAIN(truncate); PLAIN(unlink);
PLAIN(utimens); PLAIN(waitlock);
/* clang-format on */

void amph_fwd_set_cancelled(bool (*cancelled)(void))
{
}

bool amph_fwd_traces(void)
{
    return true;
}

uint64_t amph_fwd_traced_calls(void)
{
    return 0;
}

void amph_fwd_trace_refused(const struct amph_fwd_refused *refused)
{
    expect(refused->number <= AMPH_FWD_REFUSED_MAX && refused->name && refused->path &&
               refused->path2 && refused->err > 0,
           "a refused call has a number, a name, paths and an errno");
}

struct amph_fwd_caller amph_fwd_set_caller(struct amph_fwd_caller caller)
{
    static _Thread_local struct amph_fwd_caller is;
    struct amph_fwd_caller was = is;

    is = caller;
    return was;
}

void amph_fwd_record_descriptor(int fd)
{
    expect(fd >= -1, "a descriptor is a number or -1");
}

int amph_fwd_open(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                  int flags, mode_t mode, struct amph_fwd_file *file)
{
    int err = answer();

    expect(strlen(path) < PATH_MAX, "a path of the kernel's length");
    if (err)
        return err;

    memset(file, 0, sizeof *file);
    file->nparts = 1;
    file->part[0].handle = AMPH_FWD_HANDLE_TOP | (next() & 1 ? AMPH_FWD_HANDLE_WAITS : 0) | next();
    atomic_fetch_add(&opened, 1);
    return 0;
}

int amph_fwd_close(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    expect(atomic_fetch_sub(&opened, 1) > 0, "no file is closed twice at its server");
    return 0;
}

/* Fills at most cap bytes. */
static int fill(void *buf, size_t cap, size_t *len_p)
{
    int err = answer();
    size_t n = next_n(2) % 5000;

    *len_p = 0;
    if (err)
        return err;

    n = n < cap ? n : cap;
    memset(buf, next(), n);
    *len_p = n;
    return 0;
}

int amph_fwd_read(struct amph_fwd_client *cl, const struct amph_fwd_file *file, void *buf,
                  size_t cap, size_t *len_p)
{
    return fill(buf, cap, len_p);
}

int amph_fwd_pread(struct amph_fwd_client *cl, const struct amph_fwd_file *file, off_t off,
                   void *buf, size_t cap, size_t *len_p)
{
    return fill(buf, cap, len_p);
}

int amph_fwd_getxattr(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                      const char *name, int flags, char *value, size_t cap, size_t *len_p)
{
    return fill(value, cap, len_p);
}

int amph_fwd_listxattr(struct amph_fwd_client *cl, const struct amph_fwd_file *dir,
                       const char *path, int flags, char *names, size_t cap, size_t *len_p)
{
    return fill(names, cap, len_p);
}

int amph_fwd_readlink(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                      char *target, size_t cap, size_t *len_p)
{
    return fill(target, cap, len_p);
}

int amph_fwd_nameof(struct amph_fwd_client *cl, const struct amph_fwd_file *file, char *name,
                    size_t cap, size_t *len_p)
{
    return fill(name, cap, len_p);
}

/* Whole entries, as the client gives them. */
int amph_fwd_getdents(struct amph_fwd_client *cl, const struct amph_fwd_file *file, size_t *end_p,
                      void *entries, size_t cap, size_t *len_p)
{
    static const uint8_t entry[24] = { 1, [16] = 24, [18] = DT_REG, [19] = 'n' };
    int err = answer();
    size_t n = next() % 8;

    *len_p = 0;
    *end_p = next() & 1;
    for (size_t i = 0; !err && i < n && *len_p + sizeof entry <= cap; i++) {
        memcpy((char *)entries + *len_p, entry, sizeof entry);
        *len_p += sizeof entry;
    }

    return err;
}

static int take(size_t len, size_t *done_p)
{
    int err = answer();

    size_t short_of = len ? next() % len : 0;

    *done_p = err ? 0 : len - short_of;
    return err;
}

int amph_fwd_write(struct amph_fwd_client *cl, const struct amph_fwd_file *file, const void *data,
                   size_t len, size_t *done_p)
{
    return take(len, done_p);
}

int amph_fwd_pwrite(struct amph_fwd_client *cl, const struct amph_fwd_file *file, off_t off,
                    const void *data, size_t len, size_t *done_p)
{
    return take(len, done_p);
}

int amph_fwd_lseek(struct amph_fwd_client *cl, const struct amph_fwd_file *file, off_t off,
                   int whence, off_t *pos_p)
{
    *pos_p = (off_t)(next_n(2) << (next() % 40));
    return answer();
}

int amph_fwd_fstat(struct amph_fwd_client *cl, const struct amph_fwd_file *file, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_mode = (next() & 1 ? S_IFDIR : S_IFREG) | 0700;
    st->st_size = (off_t)next_n(2);
    st->st_ino = next();
    return answer();
}

int amph_fwd_stat(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                  int flags, struct stat *st)
{
    return amph_fwd_fstat(cl, NULL, st);
}

int amph_fwd_fstatfs(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                     struct statfs *fs)
{
    memset(fs, 0, sizeof *fs);
    return answer();
}

int amph_fwd_statfs(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                    struct statfs *fs)
{
    return amph_fwd_fstatfs(cl, NULL, fs);
}

int amph_fwd_fstatx(struct amph_fwd_client *cl, const struct amph_fwd_file *file, size_t mask,
                    struct statx *stx)
{
    memset(stx, 0, sizeof *stx);
    stx->stx_mode = (next() & 1 ? S_IFDIR : S_IFREG) | 0700;
    return answer();
}

int amph_fwd_statx(struct amph_fwd_client *cl, const struct amph_fwd_file *dir, const char *path,
                   int flags, size_t mask, struct statx *stx)
{
    return amph_fwd_fstatx(cl, NULL, mask, stx);
}

int amph_fwd_getflags(struct amph_fwd_client *cl, const struct amph_fwd_file *file, int *flags_p)
{
    *flags_p = (int)next_n(2);
    return answer();
}

int amph_fwd_getmarks(struct amph_fwd_client *cl, const struct amph_fwd_file *file, size_t which,
                      char *marks, size_t cap, size_t *len_p)
{
    return fill(marks, cap, len_p);
}

int amph_fwd_getlock(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                     const struct flock *lock, struct flock *got)
{
    *got = *lock;
    return answer();
}

int amph_fwd_poll(struct amph_fwd_client *cl, const struct amph_fwd_file *file, size_t events,
                  size_t notifier, size_t first, size_t *ready_p)
{
    *ready_p = events;
    return answer();
}

/* ---- the program ---- */

static uint64_t argument(void)
{
    static const int fds[] = { 512, 513, 514, 0, 1, 2, 515, 1023, 3, AT_FDCWD };
    uint8_t kind = next();

    switch (kind % 8) {
    case 0:
        return next_n(1);
    case 1:
        return (uint64_t)(int64_t)fds[next() % AMPH_COUNTOF(fds)];
    case 2:
    case 3: /* a path */
        return MEMORY_AT + 32 * (uint64_t)(next() % (PATHS_BYTES / 32));
    case 4: /* anything in the memory, near its end too */
        return MEMORY_AT + next_n(2);
    case 5:
        return next_n(2) << (next() % 48);
    case 6:
        return UINT64_MAX - next_n(1);
    default:
        return 0;
    }
}

static void prepare_memory(const uint8_t *bytes, size_t len)
{
    static const char *const paths[] = { "/fwd",
                                         "/fwd/a",
                                         "a",
                                         "..",
                                         "/fwd/../etc",
                                         "../../x",
                                         "",
                                         "/proc/self/fd/512",
                                         "/dev/stdin",
                                         "/none/b",
                                         "/fwd/d/../e",
                                         "/tmp",
                                         ".",
                                         "/fwd/d/",
                                         "//fwd//a",
                                         "/dev/fd/1023" };

    memset(memory, 0, PATHS_BYTES);
    for (size_t i = 0; i < AMPH_COUNTOF(paths) && i < PATHS_BYTES / 32; i++)
        strcpy((char *)memory + 32 * i, paths[i]);

    memset(memory + PATHS_BYTES, len ? bytes[len - 1] : 0, sizeof memory - PATHS_BYTES);
    memcpy(memory + PATHS_BYTES, bytes, len < 4096 ? len : 4096);
}

static void one_call(void)
{
    struct amph_trap_call c;

    memset(&c, 0, sizeof c);
    c.n.id = 1;
    c.n.pid = (uint32_t)getpid();
    c.n.data.arch = next() == 255 ? 0 : ARCH_HERE;
    c.n.data.nr = (int)(next_n(2) % ROW_MAX);
    while (c.n.data.nr < ROW_MAX && !amph_trap_rows[c.n.data.nr].handle && next() != 255)
        c.n.data.nr++;

    for (int i = 0; i < 6; i++)
        c.n.data.args[i] = argument();

    gives = false;

    int ret = carry_out(&c);

    amph_trap_process_end(&c);
    expect(ret >= AMPH_TRAP_GONE && ret < 4096, "a handler's result");
    expect(ret != AMPH_TRAP_SENT || gives, "what is sent is a descriptor");
    if (ret == AMPH_TRAP_CONTINUE && c.n.data.nr == SYS_close)
        close_of_program((int)c.n.data.args[0]);
}

/* The program ends: its mappings and its descriptors go without a call. */
static void end_program(void)
{
    struct amph_trap_call c = { .n = { .id = 1, .pid = (uint32_t)getpid() } };
    struct amph_trap_process *p;

    input_left = 0;
    amph_trap_cwd_set(&c, NULL);
    if (amph_trap_process_of(&c, &p) == 0)
        amph_trap_map_closed(p, -1);

    amph_trap_process_end(&c);
    for (int i = 0; i < FDS; i++)
        close_of_program(i);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static bool begun;
    const char *why;

    if (!begun) {
        begun = true;
        amph_trap.low_fds = AMPH_TRAP_STD;
        amph_trap.first_fd = 512;
        amph_trap.last_fd = 1023;
        amph_trap.program = getpid();
        expect(amph_fwd_prefix_parse(&amph_trap.prefixes, "/fwd", &why), "the prefix");
        expect(amph_trap_file_begin() == 0 && amph_trap_process_begin() == 0, "the start");
        for (int i = 0; i < FDS; i++)
            program_fd[i] = -1;
    }

    input = bytes;
    input_left = len;
    prepare_memory(bytes, len);
    for (int i = 0; i < 3; i++)
        program_fd[i] = openat(AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < CALLS && input_left; i++)
        one_call();

    end_program();
    amph_trap_number_flush();
    amph_trap_file_reap();
    expect(atomic_load(&opened) == 0, "what the program has closed is closed at its server");
    return 0;
}
