/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_passthrough SECTION DIRECTORY SCRATCH: files whose descriptors a server has passed to this
 * process.  Prints what calls gave; fwd_passthrough.sh runs it in a local directory and in a
 * forwarded one and compares, also the files.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/files/data/fwd_passthrough.h"
#include "tests/files/fwd_is.h"
#include "tests/files/fwd_send.h"
#include "tests/files/fwd_say.h"

enum {
    STEPS = 2500
};

uint8_t *buf;
const char *scratch;
static uint8_t *volatile nowhere; /* NULL, which the compiler does not know */

int make(const char *name, int flags)
{
    int fd = open(in(name), flags | O_CREAT, 0600);

    if (fd < 0)
        fail(name, fd, 0);

    return fd;
}

/* Makes calls on the file until they are made by its passed descriptor. */
void warm(int fd)
{
    char byte;

    for (int i = 0; i < ENOUGH; i++)
        IS(lseek(fd, 0, SEEK_CUR) < 0 && pread(fd, &byte, 1, 0) < 0, 0);
}

void fill(uint8_t *at, size_t len, unsigned mark)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (uint8_t)(mark * 31 + i * 7 + (i >> 8));
}

static unsigned sum(const uint8_t *at, size_t len)
{
    unsigned s = 1;

    for (size_t i = 0; i < len; i++)
        s = s * 33 + at[i];

    return s;
}

/* The same for all descriptors of the file. */
void print_contents(const char *name)
{
    struct stat st;
    int fd = open(in(name), O_RDONLY);
    unsigned s = 1;
    ssize_t n;

    IS(fstat(fd, &st), 0);
    while ((n = read(fd, buf, LONGEST)) > 0)
        s = s * 17 + sum(buf, (size_t)n);

    printf("%s: %ld bytes, %x\n", name, (long)st.st_size, s);
    close(fd);
}

/* ---- one process: random calls ---- */

static unsigned dice;

static unsigned below(unsigned n)
{
    return (unsigned)rand_r(&dice) % n;
}

static size_t some_length(void)
{
    static const size_t lengths[] = { 0, 1, 17, 511, 512, 4095, 4096, 4097, 32768, 65536 };

    return below(8) ? lengths[below(sizeof lengths / sizeof *lengths)] : below(LONGEST);
}

static uint8_t *some_memory(size_t len)
{
    return buf + below(2) * below(4096) * (len <= LONGEST - 4096);
}

/* Reads only: file systems differ in what a write that finds no memory leaves of the file. */
static uint8_t *some_bad_memory(size_t len, uint8_t *good)
{
    switch (HAS_BAD_MEMORY ? below(12) : 2) {
    case 0:
        return NULL;
    case 1:
        return buf + LONGEST + 4096 - (len > 100 ? 100 : len);
    default:
        return good;
    }
}

static long some_offset(void)
{
    switch (below(16)) {
    case 0:
        return -(long)below(5000);
    case 1:
        return (long)below(1u << 26); /* the contents are read as a whole at the end */
    default:
        return (long)below(600000);
    }
}

static void say_result(const char *what, long arg, long arg2, long result)
{
    int err = errno;

    printf("%d %s %ld %ld = %ld %s\n", step, what, arg, arg2, result,
           result < 0 ? strerrorname_np(err) : "");
}

static void one_read(int fd, bool placed, size_t len, uint8_t *at, long off)
{
    memset(buf, 0x55, LONGEST + 4096);

    long n = placed ? pread(fd, at, len, off) : read(fd, at, len);

    say_result(placed ? "pread" : "read", (long)len, off, n);
    if (n > 0)
        printf("  %x\n", sum(at, (size_t)n));
}

static void one_write(int fd, bool placed, size_t len, uint8_t *at, long off)
{
    fill(buf, LONGEST + 4096, (unsigned)step);
    say_result(placed ? "pwrite" : "write", (long)len, off,
               placed ? pwrite(fd, at, len, off) : write(fd, at, len));
}

static void one_vector(int fd, bool write)
{
    size_t a = some_length() / 2;
    size_t b = some_length() / 2;
    struct iovec two[2] = { { buf, a }, { buf + LONGEST / 2, b } };

    if (write) {
        fill(buf, LONGEST, (unsigned)step);
        say_result("writev", (long)a, (long)b, writev(fd, two, 2));
    } else {
        say_result("readv", (long)a, (long)b, readv(fd, two, 2));
    }
}

static void one_status(int fd)
{
    struct stat st;
    int ret = fstat(fd, &st);

    say_result("fstat", 0, 0, ret);
    printf("  %ld\n", (long)st.st_size);
}

static void one_call(int fd)
{
    static const int whences[] = { SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, 9 };
    size_t len = some_length();
    uint8_t *at = some_memory(len);
    long off = some_offset();
    int whence = whences[below(10) ? below(5) : 5];

    errno = 0;
    switch (below(16)) {
    case 0:
    case 1:
        one_read(fd, false, len, some_bad_memory(len, at), off);
        break;
    case 2:
    case 3:
        one_read(fd, true, len, some_bad_memory(len, at), off);
        break;
    case 4:
    case 5:
    case 6:
        one_write(fd, false, len, at, off);
        break;
    case 7:
    case 8:
        one_write(fd, true, len, at, off);
        break;
    case 9:
    case 10:
        say_result("lseek", off, whence, lseek(fd, off, whence));
        break;
    case 11:
        say_result("ftruncate", off, 0, ftruncate(fd, off));
        break;
    case 12:
        say_result(below(2) ? "fsync" : "fdatasync", 0, 0, below(2) ? fsync(fd) : fdatasync(fd));
        break;
    case 13:
        one_vector(fd, below(2));
        break;
    case 14:
        one_status(fd);
        break;
    default:
        say_result("where", 0, 0, lseek(fd, 0, SEEK_CUR));
    }
}

/* Other descriptors of the same file, and other flags of the same open file. */
static void change_flags(int fd)
{
    static const int flags[] = { 0, O_APPEND, O_NONBLOCK, 0 };
    int want = flags[below(4)];

    say_result("F_SETFL", want, 0, fcntl(fd, F_SETFL, want));
}

static void many_calls(void)
{
    static const int flags[] = { O_RDWR,         O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_APPEND,
                                 O_RDWR | O_SYNC };
    int fd[6];

    signal(SIGXFSZ, SIG_IGN);
    dice = (unsigned)seed;
    make("random", O_RDWR | O_TRUNC);

    for (int i = 0; i < 6; i++)
        fd[i] = make("random", flags[i]);

    for (step = 0; step < STEPS; step++) {
        int which = (int)below(6);

        if (below(60) == 0)
            change_flags(fd[which]);
        else
            one_call(fd[which]);
    }

    for (int i = 0; i < 6; i++)
        close(fd[i]);

    print_contents("random");
}

/* ---- one process: special cases ---- */

static volatile sig_atomic_t nlarge;

static void on_large(int sig)
{
    nlarge++;
}

static void file_size_limit(void)
{
    struct rlimit before, low = { 100000, RLIM_INFINITY };
    int fd = make("limited", O_RDWR | O_TRUNC);

    fill(buf, LONGEST, 5);
    warm(fd);
    IS(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, on_large);
    SAY(setrlimit(RLIMIT_FSIZE, &low));
    SAY(write(fd, buf, 90000));
    SAY(write(fd, buf, 20000));
    SAY(write(fd, buf, 20000));
    SAY(nlarge);
    SAY(pwrite(fd, buf, 10, 100000));
    SAY(nlarge);
    SAY(ftruncate(fd, 100001));
    SAY(nlarge);
    SAY(ftruncate(fd, 99999));
    signal(SIGXFSZ, SIG_IGN);
    SAY(pwrite(fd, buf, 10, 99999));
    SAY(pwrite(fd, buf, 10, 100000));
    SAY(lseek(fd, 0, SEEK_CUR));
    SAY(setrlimit(RLIMIT_FSIZE, &before));
    SAY(pwrite(fd, buf, 10, 100000));
    signal(SIGXFSZ, SIG_DFL);
    close(fd);
}

/* Memory that is not there, or ends. */
static void bad_memory(void)
{
    int fd = make("memory", O_RDWR | O_TRUNC);
    uint8_t *ends = buf + LONGEST + 4096 - 100;

    fill(buf, LONGEST + 4096, 2);
    IS(write(fd, buf, 100000), 100000);
    warm(fd);
    SAY(pwrite(fd, nowhere, 100, 1000));
    SAY(pwrite(fd, (void *)-4096L, 100, 1000));
    SAY(pwrite(fd, ends, 100, 500));
    SAY(pwrite(fd, ends, 500, 5000));
    SAY(pread(fd, nowhere, 100, 1000));
    SAY(pread(fd, nowhere, 100, 100000));
    SAY(pread(fd, ends, 500, 1000));
    SAY(lseek(fd, 10, SEEK_SET));
    SAY(write(fd, nowhere, 100));
    SAY(write(fd, nowhere, 0));
    SAY(write(fd, ends, 101));
    SAY(read(fd, nowhere, 100));
    SAY(read(fd, nowhere, 0));
    SAY(lseek(fd, 0, SEEK_CUR));
    close(fd);
    print_contents("memory");
}

/* O_DIRECT: set by open, set later by this process, set by another one that shares the open file. */
static void unbuffered(void)
{
    int fd = make("direct", O_RDWR | O_TRUNC);
    uint8_t *page = aligned_alloc(4096, 65536);

    fill(page, 65536, 9);
    IS(write(fd, page, 65536), 65536);
    warm(fd);
    if (fcntl(fd, F_SETFL, O_DIRECT) != 0) {
        puts("no O_DIRECT here");
        close(fd);
        return;
    }

    SAY(pread(fd, page, 4096, 4096));
    (void)!pread(fd, page + 1, 4096, 4096); /* EINVAL, but not of a server */
    fill(page, 65536, 9);
    SAY(pwrite(fd, page, 8192, 0));
    SAY(fcntl(fd, F_SETFL, 0));

    pid_t child = fork();

    if (child == 0)
        _exit(fcntl(fd, F_SETFL, O_DIRECT) != 0);

    IS(waitpid(child, NULL, 0), child);
    SAY(fcntl(fd, F_GETFL) & O_DIRECT);
    SAY(pwrite(fd, page, 4096, 12288));
    SAY(pread(fd, page, 4096, 12288));
    close(fd);

    fd = make("direct", O_RDWR | O_DIRECT);
    for (int i = 0; i < 10; i++) {
        SAY(pwrite(fd, page, 4096, i * 4096));
        SAY(pread(fd, page, 4096, i * 4096));
    }

    close(fd);
    free(page);
}

/* What happens to a file while it is open. */
static void names(void)
{
    struct stat st;
    int fd = make("name", O_RDWR | O_TRUNC);

    warm(fd);
    SAY(write(fd, "one", 3));
    SAY(rename(in("name"), in("other")));
    SAY(write(fd, "two", 3));
    SAY(truncate(in("other"), 2));
    SAY(write(fd, "three", 5));
    print_contents("other");
    SAY(unlink(in("other")));
    SAY(write(fd, "four", 4));
    SAY(pread(fd, buf, 100, 0));
    SAY(fstat(fd, &st));
    SAY(st.st_nlink);
    SAY(st.st_size);

    int other = make("other", O_RDWR | O_TRUNC);

    warm(other);
    SAY(write(other, "new", 3));

    int copy = dup(fd);

    close(fd);
    SAY(lseek(copy, 0, SEEK_CUR));
    SAY(write(copy, "x", 1));
    SAY(dup2(other, copy));
    SAY(write(copy, "y", 1));
    SAY(lseek(other, 0, SEEK_CUR));
    SAY(close(other));
    SAY(write(copy, "z", 1));
    SAY(close(copy));
    SAY(write(copy, "w", 1));
    print_contents("other");
}

static void attributes(void)
{
    struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    struct stat st;
    int fd = make("times", O_RDWR | O_TRUNC);

    warm(fd);
    for (int i = 0; i < 200; i++) {
        IS(futimens(fd, old), 0);
        IS(fstat(fd, &st), 0);
        IS(st.st_mtim.tv_sec, 1000);
        IS(pwrite(fd, "x", 1, i), 1);
        IS(fstat(fd, &st), 0);
        IS(st.st_size, i + 1);
        IS(st.st_mtim.tv_sec > 1000, 1);
        IS(ftruncate(fd, i + 1), 0);
        IS(stat(in("times"), &st), 0);
        IS(st.st_size, i + 1);
    }

    SAY(fchmod(fd, 04755));
    SAY(write(fd, "x", 1));
    IS(fstat(fd, &st), 0);
    printf("mode %o\n", st.st_mode & 07777);
    close(fd);
}

static void many_files(void)
{
    enum {
        FILES = 150
    };
    int fd[FILES];
    char name[32];

    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many%d", i);
        fd[i] = make(name, O_RDWR | O_TRUNC);
    }

    for (step = 0; step < 40; step++)
        for (int i = 0; i < FILES; i++) {
            snprintf(name, sizeof name, "<%d.%d>", i, step);
            IS(write(fd[i], name, strlen(name)), strlen(name));
        }

    for (int i = 0; i < FILES; i++)
        close(fd[i]);

    /* again and again other files with the same numbers */
    for (step = 0; step < 400; step++) {
        snprintf(name, sizeof name, "again%d", step % 50);

        int one = make(name, O_RDWR | O_APPEND);

        for (int i = 0; i < 10; i++)
            IS(write(one, name, strlen(name)), strlen(name));

        close(one);
    }
}

static void section_calls(void)
{
    many_calls();
    file_size_limit();
    if (HAS_BAD_MEMORY)
        bad_memory();
    unbuffered();
    names();
    attributes();
    many_files();
}

/* ---- open files that processes share ---- */

void write_records(int fd, char mark, int n)
{
    char record[RECORD];

    memset(record, mark, sizeof record);
    record[RECORD - 1] = '\n';
    for (int i = 0; i < n; i++)
        IS(write(fd, record, sizeof record), RECORD);
}

/* Every byte is there, and no record is torn. */
void check_records(const char *name, const char *marks, int n)
{
    FILE *f = fopen(in(name), "r");
    char line[RECORD + 1];
    int count[256] = { 0 };

    while (fgets(line, sizeof line, f)) {
        IS(strlen(line), RECORD);
        for (int i = 1; i < RECORD - 1; i++)
            IS(line[i], line[0]);

        count[(uint8_t)line[0]]++;
    }

    fclose(f);
    for (const char *m = marks; *m; m++)
        printf("%s: %c %d of %d\n", name, *m, count[(uint8_t)*m], n);
}

/* The order of the records is not the same in each run. */
void remove_file(const char *name)
{
    IS(unlink(in(name)), 0);
}

static void by_fork(void)
{
    for (int many = 0; many < 2; many++) {
        int fd = make("forked", O_RDWR | O_TRUNC);

        if (many)
            warm(fd); /* passed before the fork; else afterwards */

        pid_t child[3];

        for (int c = 0; c < 3; c++) {
            child[c] = fork();
            if (child[c] == 0) {
                write_records(fd, (char)('a' + c), 2 + c * 200);
                _exit(0);
            }
        }

        write_records(fd, 'p', 500);
        for (int c = 0; c < 3; c++)
            IS(waitpid(child[c], NULL, 0), child[c]);

        SAY(lseek(fd, 0, SEEK_CUR));
        write_records(fd, 'p', 1);
        SAY(lseek(fd, 0, SEEK_CUR));
        close(fd);
        check_records("forked", "p", 501);
        check_records("forked", "a", 2);
        check_records("forked", "b", 202);
        check_records("forked", "c", 402);
        remove_file("forked");
    }
}

static void by_message(void)
{
    int two[2];
    char byte;

    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);

    pid_t child = fork();

    if (child == 0) {
        int got = receive_fd(two[1]);

        write_records(got, 'c', 400);
        IS(write(two[1], "x", 1), 1);
        IS(read(two[1], &byte, 1), 1);
        write_records(got, 'd', 3);
        _exit(0);
    }

    int fd = make("sent", O_RDWR | O_TRUNC);

    warm(fd);
    write_records(fd, 'b', 100);
    send_fd(two[0], fd);
    write_records(fd, 'p', 400);
    IS(read(two[0], &byte, 1), 1);
    SAY(lseek(fd, 0, SEEK_CUR));
    IS(write(two[0], "x", 1), 1);
    IS(waitpid(child, NULL, 0), child);
    SAY(lseek(fd, 0, SEEK_CUR));
    write_records(fd, 'q', 10);
    SAY(lseek(fd, 0, SEEK_CUR));
    close(fd);
    close(two[0]);
    close(two[1]);
    check_records("sent", "bc", 100);
    check_records("sent", "pd", 400);
    check_records("sent", "q", 10);
    remove_file("sent");
}

/* The file is sent before its first call; the receiver's large writes are made in pieces. */
static void by_message_unused(void)
{
    enum {
        LARGE = 1 << 20
    };
    int two[2];
    uint8_t *data = malloc(LARGE);

    memset(data, 'L', LARGE);
    for (size_t i = RECORD - 1; i < LARGE; i += RECORD)
        data[i] = '\n';

    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, two), 0);
    for (step = 0; step < 20; step++) {
        pid_t child = fork();

        if (child == 0) {
            int got = receive_fd(two[1]);

            for (int i = 0; i < 4; i++)
                IS(write(got, data, LARGE), LARGE);

            _exit(0);
        }

        int fd = make("sent", O_RDWR | O_TRUNC);

        send_fd(two[0], fd);
        write_records(fd, 's', 300);
        IS(waitpid(child, NULL, 0), child);
        IS(lseek(fd, 0, SEEK_CUR), 300 * RECORD + 4 * LARGE);
        close(fd);
    }

    free(data);
    close(two[0]);
    close(two[1]);
    check_records("sent", "s", 300);
    check_records("sent", "L", 4 * LARGE / RECORD);
    remove_file("sent");
}

/* Large writes, which a server makes in pieces, by one process and small ones by the other. */
static void large_and_small(void)
{
    int fd = make("large", O_RDWR | O_TRUNC);
    size_t large = (size_t)3 << 20;
    uint8_t *data = malloc(large);

    memset(data, 'L', large);
    for (size_t i = RECORD - 1; i < large; i += RECORD)
        data[i] = '\n';

    warm(fd);

    pid_t child = fork();

    if (child == 0) {
        for (int i = 0; i < 8; i++)
            IS(write(fd, data, large), large);

        _exit(0);
    }

    write_records(fd, 's', 3000);
    IS(waitpid(child, NULL, 0), child);
    SAY(lseek(fd, 0, SEEK_CUR));
    close(fd);
    free(data);
    check_records("large", "s", 3000);
    check_records("large", "L", 8 * (int)(large / RECORD));
    remove_file("large");
}

/* Processes that have opened the file each for itself. */
static void by_append(void)
{
    pid_t child[4];

    make("appended", O_RDWR | O_TRUNC);
    for (int c = 0; c < 4; c++) {
        child[c] = fork();
        if (child[c] == 0) {
            int fd = make("appended", O_WRONLY | O_APPEND);

            write_records(fd, (char)('a' + c), 700);
            _exit(0);
        }
    }

    for (int c = 0; c < 4; c++)
        IS(waitpid(child[c], NULL, 0), child[c]);

    check_records("appended", "abcd", 700);
    remove_file("appended");
}

/* A shell's redirection: all commands share its open file. */
static void by_shell(void)
{
    char command[PATH_MAX * 2];

    snprintf(command, sizeof command,
             "{ seq 1 5000; dd if=/dev/zero bs=100 count=50 2>/dev/null | tr '\\0' x; seq 3; } "
             "> %s; { cat %s; echo more; } >> %s",
             in("shell"), in("shell"), in("shell2"));
    SAY(system(command));
    snprintf(command, sizeof command,
             "exec 3<>%s; seq 2000 >&3; (seq 3; printf 'xyz') >&3; head -c 5 <&3; echo end >&3",
             in("shell3"));
    SAY(system(command));
    print_contents("shell");
    print_contents("shell2");
    print_contents("shell3");
}

static void section_shared(void)
{
    by_fork();
    by_message();
    by_message_unused();
    large_and_small();
    by_append();
    by_shell();
}

/* Many files at a time, each of which is used enough to get its descriptor. */
static void section_many(void)
{
    enum {
        FILES = 24,
        CALLS = 1000
    };
    char name[32];
    int fd[FILES];

    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many.%d", i);
        fd[i] = make(name, O_RDWR | O_TRUNC);
    }

    for (int at = 0; at < CALLS; at++)
        for (int i = 0; i < FILES; i++)
            IS(pwrite(fd[i], &name[0], 1, at), 1);

    for (int i = 0; i < FILES; i++)
        IS(close(fd[i]), 0);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "calls", section_calls },         { "shared", section_shared },
        { "threads", section_threads },     { "vectors", section_vectors },
        { "signals", section_signals },     { "processes", section_processes },
        { "closes", section_closes },       { "maps", section_maps },
        { "many", section_many },           { "few", section_few },
        { "few-local", section_few_local }, { "only", section_only },
        { "until", section_until },         { "failover", section_failover },
        { "forever", section_forever },     { "small", section_small },
        { "leaves", section_leaves },       { "child-leaves", section_child_leaves },
    };

    if (argc < 4)
        return 2;

    dir = argv[2];
    scratch = argv[3];
    seed = getenv("TEST_SEED") ? strtoul(getenv("TEST_SEED"), NULL, 0) : 1;
    buf = mmap(NULL, LONGEST + 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0);
    buf = (uint8_t *)(((uintptr_t)buf + LONGEST + 4096 + 4095) / 4096 * 4096) - LONGEST - 4096;
    munmap(buf + LONGEST + 4096, 4096);
    return run_section(sections, sizeof sections / sizeof *sections, argv[1]) ? 0 : 2;
}
