/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of fwd_passthrough: threads, signal handlers, child processes, descriptors that are closed, and maps.
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

#include "iofwd/wire/versions.h"
#include "tests/files/data/fwd_passthrough.h"
#include "tests/files/fwd_is.h"
#include "tests/files/fwd_say.h"

extern char **environ;

/* ---- threads ---- */

static _Atomic bool stop;
static int common;

static void *open_and_close(void *arg)
{
    char name[32];
    unsigned n = 0;

    while (!atomic_load(&stop)) {
        snprintf(name, sizeof name, "other%ld.%u", (long)(intptr_t)arg, n++ % 20);

        int fd = make(name, O_RDWR | O_TRUNC);

        for (int i = 0; i < 7; i++)
            IS(write(fd, "0123456789", 10), 10);

        IS(pread(fd, name, 10, 60), 10);
        IS(memcmp(name, "0123456789", 10), 0);
        close(fd);
    }

    return NULL;
}

static void *read_and_write(void *arg)
{
    char mine[4096], back[4096];
    long at = (long)(intptr_t)arg * 4096;

    for (int i = 0; i < 3000; i++) {
        size_t len = (size_t)(i * 37 % 4096 + 1);

        memset(mine, i, len);
        IS(pwrite(common, mine, len, at), len);
        IS(pread(common, back, len, at), len);
        IS(memcmp(mine, back, len), 0);
    }

    return NULL;
}

/* Each byte is written once at the common offset. */
static void *write_at_offset(void *arg)
{
    write_records(common, (char)('a' + (intptr_t)arg), 1500);
    return NULL;
}

/* The number is now the one, now the other file; each write is in one of them. */
static void *write_to_number(void *arg)
{
    long n = 0;

    while (!atomic_load(&stop)) {
        IS(write(common, "0123456789abcde\n", 16), 16);
        n++;
    }

    return (void *)n;
}

static void exchange_number(void)
{
    pthread_t writer, other[2];
    void *n;
    int one = make("exchanged1", O_RDWR | O_TRUNC | O_APPEND);
    int two = make("exchanged2", O_RDWR | O_TRUNC | O_APPEND);
    struct stat a, b;

    warm(one);
    warm(two);
    common = dup(one);
    atomic_store(&stop, false);
    IS(pthread_create(&writer, NULL, write_to_number, NULL), 0);
    for (long i = 0; i < 2; i++)
        IS(pthread_create(&other[i], NULL, open_and_close, (void *)i), 0);

    for (int i = 0; i < 1500; i++) {
        /* files that are opened and closed, so that descriptors are passed and closed */
        int new = make(i % 2 ? "exchanged1" : "exchanged2", O_RDWR | O_APPEND);

        warm(new);
        IS(dup2(new, common), common);
        close(new);
    }

    atomic_store(&stop, true);
    IS(pthread_join(writer, &n), 0);
    for (int i = 0; i < 2; i++)
        IS(pthread_join(other[i], NULL), 0);

    IS(fstat(one, &a), 0);
    IS(fstat(two, &b), 0);
    IS(a.st_size + b.st_size, 16 * (long)(intptr_t)n);
    close(common);
    close(one);
    close(two);
    remove_file("exchanged1");
    remove_file("exchanged2");
}

void section_threads(void)
{
    pthread_t thread[8];

    common = make("common", O_RDWR | O_TRUNC);
    for (long i = 0; i < 8; i++)
        IS(pthread_create(&thread[i], NULL, i < 4 ? read_and_write : open_and_close, (void *)i), 0);

    for (int i = 0; i < 4; i++)
        IS(pthread_join(thread[i], NULL), 0);

    atomic_store(&stop, true);
    for (int i = 4; i < 8; i++)
        IS(pthread_join(thread[i], NULL), 0);

    close(common);

    common = make("offset", O_RDWR | O_TRUNC);
    for (long i = 0; i < 6; i++)
        IS(pthread_create(&thread[i], NULL, write_at_offset, (void *)i), 0);

    for (int i = 0; i < 6; i++)
        IS(pthread_join(thread[i], NULL), 0);

    SAY(lseek(common, 0, SEEK_CUR));
    close(common);
    check_records("offset", "abcdef", 1500);
    remove_file("offset");
    exchange_number();

    for (long i = 0; i < 8; i++)
        for (unsigned n = 0; n < 20; n++) {
            char name[32];

            snprintf(name, sizeof name, "other%ld.%u", i, n);
            unlink(in(name));
        }
}

/* ---- scattered buffers, of more threads than the process keeps buffers for (fd/io.c), and of lengths that are kept
 * and that are not ---- */

enum {
    VECTOR_THREADS = 6,
    VECTOR_LONGEST = 700000,
    VECTOR_REST = 100 /* bytes that a read asks for behind the file's end */
};

/* The second piece is longer than what the file has for it. */
static void write_and_read_scattered(int fd, uint8_t *memory, size_t len, unsigned mark)
{
    uint8_t *got = memory + 2 * VECTOR_LONGEST;
    struct iovec out[2] = { { memory + len, len }, { memory, len } };
    struct iovec into[2] = { { got, len }, { got + len, len + VECTOR_REST } };
    uint8_t rest[VECTOR_REST];

    fill(memory, 2 * len, mark);
    memset(got, 'z', 2 * len + VECTOR_REST);
    memset(rest, 'z', sizeof rest);

    IS(ftruncate(fd, 0), 0);
    IS(pwritev(fd, out, 2, 0), (ssize_t)(2 * len));
    IS(preadv(fd, into, 2, 0), (ssize_t)(2 * len));
    IS(memcmp(got, memory + len, len), 0);
    IS(memcmp(got + len, memory, len), 0);
    IS(memcmp(got + 2 * len, rest, sizeof rest), 0);
}

static void *scattered(void *arg)
{
    static const size_t lens[] = { 16, 4096, 300000, 9, VECTOR_LONGEST, 100 };
    unsigned self = (unsigned)(intptr_t)arg;
    uint8_t *memory = malloc(4 * VECTOR_LONGEST + VECTOR_REST);
    char name[32];

    snprintf(name, sizeof name, "vectors.%u", self);

    int fd = make(name, O_RDWR);

    for (unsigned i = 0; memory && i < 60; i++)
        write_and_read_scattered(fd, memory, lens[(i + self) % (sizeof lens / sizeof *lens)],
                                 i * 7 + self);

    IS(memory != NULL, 1);
    free(memory);
    close(fd);
    return NULL;
}

void section_vectors(void)
{
    pthread_t thread[VECTOR_THREADS];

    for (intptr_t i = 0; i < VECTOR_THREADS; i++)
        IS(pthread_create(&thread[i], NULL, scattered, (void *)i), 0);
    for (int i = 0; i < VECTOR_THREADS; i++)
        IS(pthread_join(thread[i], NULL), 0);
}

/* ---- signals, cancelling ---- */

static int handler_fd, handler_calls;
static sigjmp_buf back;

static void write_in_handler(int sig)
{
    handler_calls++;
    IS(write(handler_fd, "handler\n", 8), 8);
    IS(pwrite(common, "H", 1, 0), 1);
}

static void jump_out(int sig)
{
    siglongjmp(back, 1);
}

static void every(long us)
{
    struct itimerval it = { { 0, us }, { 0, us } };

    IS(setitimer(ITIMER_REAL, &it, NULL), 0);
}

static void handlers(void)
{
    struct stat st;

    handler_fd = make("handler", O_RDWR | O_TRUNC | O_APPEND);
    common = make("interrupted", O_RDWR | O_TRUNC);
    IS(write(common, "0", 1), 1);
    signal(SIGALRM, write_in_handler);
    every(700);

    for (int i = 0; i < 20000; i++)
        IS(write(common, "0123456789abcdef", 16), 16);

    every(0);
    IS(lseek(common, 0, SEEK_CUR), 20000 * 16 + 1);
    IS(fstat(handler_fd, &st), 0);
    IS(st.st_size, 8L * handler_calls);
    SAY(handler_calls > 3);
    close(handler_fd);
    remove_file("handler");
    IS(pwrite(common, "0", 1, 0), 1);
    close(common);
}

/* Changes of the file that its server takes for under way; none in a local directory. */
static unsigned changes_of(const struct stat *st)
{
    char name[64];

    if (strcmp(dir, "/fwd") != 0)
        return 0;

    snprintf(name, sizeof name, "/dev/shm/iofwd-%u/versions", (unsigned)geteuid());

    int fd = open(name, O_RDONLY);
    struct amph_fwd_versions *v = mmap(NULL, sizeof *v, PROT_READ, MAP_SHARED, fd, 0);

    IS(v != MAP_FAILED, 1);

    struct amph_fwd_versions_line *line =
        &v->line[amph_fwd_versions_line_of(st->st_dev, st->st_ino)];
    unsigned n = atomic_load(&line->data.begun) - atomic_load(&line->data.ended);

    munmap(v, sizeof *v);
    close(fd);
    return n;
}

/* A handler that does not return.  Afterwards all calls work, each has ended the change of the one before but for a
 * few that were left where they began or ended, and the file's lock is released at its close. */
static void jumps(void)
{
    volatile long done = 0;
    volatile int i = 0;
    int fd = make("jumps", O_RDWR | O_TRUNC);
    struct stat st;

    fill(buf, LONGEST, 3);
    warm(fd);
    signal(SIGALRM, jump_out);

    while (i++ < 300) {
        if (sigsetjmp(back, 1) == 0) {
            every(300);
            for (;;) {
                IS(pwrite(fd, buf, 100000, 0), 100000);
                done++;
            }
        }

        every(0);
    }

    signal(SIGALRM, SIG_DFL);
    IS(pread(fd, buf, 10, 99990), 10);
    IS(pwrite(fd, "x", 1, 100000), 1);
    IS(fstat(fd, &st), 0);
    SAY(st.st_size);
    SAY(done > 0);
    SAY(changes_of(&st) < 20);
    close(fd);
}

static void *write_until_cancelled(void *arg)
{
    int fd = (int)(intptr_t)arg;

    for (;;)
        pwrite(fd, buf, 200000, 0);

    return NULL;
}

/* The file that a cancelled thread has written is closed like any other: its lock is free then. */
static void cancelled(void)
{
    pthread_t thread;
    void *result;
    int got = 0;

    for (int i = 0; i < 150; i++) {
        int fd = make("cancelled", O_RDWR);

        IS(flock(fd, LOCK_EX | LOCK_NB), 0);
        warm(fd);
        IS(pthread_create(&thread, NULL, write_until_cancelled, (void *)(intptr_t)fd), 0);
        usleep((useconds_t)(i * 13 % 1000) + 200);
        IS(pthread_cancel(thread), 0);
        IS(pthread_join(thread, &result), 0);
        got += result == PTHREAD_CANCELED;
        IS(pread(fd, buf, 10, 0) >= 0, 1);
        close(fd);
    }

    SAY(got);
    fill(buf, LONGEST, 1);
    IS(truncate(in("cancelled"), 0), 0);
}

void section_signals(void)
{
    handlers();
    jumps();
    cancelled();
}

/* ---- processes of other kinds ---- */

static int child_fd;

static int in_child(void *arg)
{
    return write(child_fd, "child", 5) != 5 || (arg && close(child_fd) != 0);
}

static void clones(void)
{
    static char stack[4][1 << 17];
    static const int flags[] = { SIGCHLD, CLONE_FILES | SIGCHLD, CLONE_VM | CLONE_VFORK | SIGCHLD,
                                 CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD };
    int st;

    for (int i = 0; i < 4; i++) {
        child_fd = make("cloned", O_RDWR | O_APPEND);
        warm(child_fd);
        write_records(child_fd, (char)('0' + i), 10);

        /* who shares the table sees the file closed */
        bool closes = !(flags[i] & CLONE_FILES);
        pid_t child = clone(in_child, stack[i] + sizeof stack[i], flags[i],
                            closes ? stack[i] : NULL);

        IS(waitpid(child, &st, 0), child);
        SAY(st);
        SAY(write(child_fd, "parent", 6));
        SAY(fcntl(child_fd, F_GETFD) < 0 ? -1 : 0);
        close(child_fd);
    }
}

static void vforks(void)
{
    int fd = make("vforked", O_RDWR | O_TRUNC | O_APPEND);
    int st;

    warm(fd);
    for (int i = 0; i < 20; i++) {
        write_records(fd, 'p', 10);

        pid_t child = vfork();

        if (child == 0) {
            if (i % 2)
                write(fd, "vfork\n", 6);

            close(fd);
            _exit(0);
        }

        IS(waitpid(child, &st, 0), child);
        SAY(write(fd, "parent\n", 7));
    }

    for (int i = 0; i < 20; i++) {
        char *argv[] = { "sh", "-c", "echo spawned; echo again", NULL };
        posix_spawn_file_actions_t actions;
        pid_t child;

        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, fd, 1);
        posix_spawn_file_actions_addclose(&actions, fd);
        IS(posix_spawnp(&child, "sh", &actions, NULL, argv, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        IS(waitpid(child, &st, 0), child);
        SAY(write(fd, "after\n", 6));
    }

    close(fd);
    print_contents("vforked");
}

void section_processes(void)
{
    clones();
    vforks();
}

/* ---- programs that close all descriptors ---- */

enum closing {
    LOOP,
    RANGE,
    FROM,
    RAW,
    CLOSINGS
};

/* Not seen by any library. */
static void close_by_number(int fd)
{
#ifdef __x86_64__
    long ret;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"((long)SYS_close), "D"((long)fd)
                     : "rcx", "r11", "memory");
#else
    syscall(SYS_close, fd);
#endif
}

/* Is it the descriptor of a file of this test, and not the program's own? */
static bool is_passed(int fd)
{
    char link[64], target[PATH_MAX];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);

    long n = syscall(SYS_readlink, link, target, sizeof target - 1);

    if (n <= 0)
        return false;

    target[n] = '\0';
    return strstr(target, "/closed") != NULL;
}

static void close_all(enum closing how, int from)
{
    if (how == LOOP)
        for (int fd = from; fd < 1024; fd++)
            close(fd);
    else if (how == RANGE)
        IS(close_range((unsigned)from, ~0U, 0), 0);
    else if (how == FROM)
        closefrom(from);
    else
        for (int fd = from; fd < 1024; fd++)
            if (is_passed(fd))
                close_by_number(fd);
}

/* Keeps one forwarded file, closes all others, and opens many that may get the same numbers. */
static void close_and_open(enum closing how)
{
    char name[PATH_MAX];
    int fd[80], local[200];

    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "closed%d.%d", (int)how, i);
        fd[i] = make(name, O_RDWR | O_TRUNC);
        for (int k = 0; k < 10; k++)
            IS(write(fd[i], "a", 1), 1);
    }

    IS(dup2(fd[0], 3), 3);
    IS(dup2(fd[1], 4), 4);
    close_all(how, 5);

    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "%s/local%d", scratch, i);
        local[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        IS(local[i] >= 0, 1);
    }

    for (int k = 0; k < 10; k++) {
        IS(write(3, "b", 1), 1);
        IS(write(4, "c", 1), 1);
    }

    snprintf(name, sizeof name, "closed%d.%d", (int)how, 0);
    for (int i = 0; i < 40; i++) {
        fd[i] = make(name, O_RDONLY);
        IS(fd[i] >= 0, 1);
        for (int k = 0; k < 10; k++)
            IS(pread(fd[i], name + 200, 5, 0), 5);

        IS(write(3, "d", 1), 1);
        IS(pread(4, name + 200, 5, 0), 5);
    }

    for (int i = 0; i < 200; i++) {
        struct stat st;

        if (fstat(local[i], &st) == 0)
            IS(st.st_size, 0);

        snprintf(name, sizeof name, "%s/local%d", scratch, i);
        IS(stat(name, &st), 0);
        IS(st.st_size, 0);
    }

    SAY(lseek(3, 0, SEEK_CUR));
    SAY(lseek(4, 0, SEEK_CUR));
    puts("closed");
}

/* Has a child close all, since that may take from the process what it needs. */
void section_closes(void)
{
    int st;

    for (int how = 0; how < CLOSINGS; how++) {
        fflush(stdout);

        pid_t child = fork();

        if (child == 0) {
            close_and_open((enum closing)how);
            fflush(stdout);
            _exit(0);
        }

        IS(waitpid(child, &st, 0), child);
        SAY(st);
    }
}

/* ---- shared maps ---- */

void section_maps(void)
{
    int fd = make("mapped", O_RDWR | O_TRUNC);
    int other = make("mapped", O_RDWR);

    IS(ftruncate(fd, 65536), 0);
    warm(fd);
    warm(other);

    uint8_t *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    uint8_t *own = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

    IS(map != MAP_FAILED && own != MAP_FAILED, 1);
    for (int i = 0; i < 500; i++) {
        long at = i * 131 % 65000;
        uint8_t got = 0;

        IS(pwrite(i % 2 ? fd : other, &(uint8_t){ (uint8_t)(i + 1) }, 1, at), 1);
        IS(map[at], (uint8_t)(i + 1));
        map[at + 1] = (uint8_t)(i + 2);
        IS(pread(i % 3 ? fd : other, &got, 1, at + 1), 1);
        IS(got, (uint8_t)(i + 2));
    }

    SAY(msync(map, 65536, MS_SYNC));
    IS(lseek(fd, 100, SEEK_SET), 100);
    IS(write(fd, "hello", 5), 5);
    IS(memcmp(map + 100, "hello", 5), 0);
    SAY(munmap(map, 65536));
    SAY(munmap(own, 65536));
    SAY(write(fd, "after", 5));
    SAY(ftruncate(fd, 50000));
    close(fd);
    close(other);
    print_contents("mapped");
}
