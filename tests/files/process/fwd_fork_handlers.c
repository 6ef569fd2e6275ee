/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_fork_handlers SECTION DIRECTORY SCRATCH: a signal handler forks in the midst of calls that hold the preload
 * library's locks, or that have begun a change; and children of threads use what other threads had locked.  The
 * process has one thread where a handler forks: in others the C library's fork may wait for its own locks.
 */
#define _GNU_SOURCE 1
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/wire/versions.h"
#include "tests/files/fwd_say.h"

enum {
    FORKS = 300,
    AIO_FORKS = 100,
    LIMIT_S = 100 /* of asynchronous I/O: it takes milliseconds, but the host may be busy */
};

static volatile sig_atomic_t is_child; /* ends after the call that a handler has interrupted */

/* A call that must succeed, but for the rest of one that the handler of a child has returned to. */
#define MUST(condition) \
    do { \
        errno = 0; \
        if (!(condition) && !is_child) \
            fail(__LINE__, #condition); \
    } while (0)

static void fail(int line, const char *what)
{
    char text[256];
    int n = snprintf(text, sizeof text, "line %d: %s: %s\n", line, what, strerror(errno));

    (void)!write(STDOUT_FILENO, text, (size_t)n);
    _exit(1);
}

static void expect(pid_t pid)
{
    int status = -1;

    MUST(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status != 0)
        fail(status, "the status of a child");
}

/* ---- a handler that forks ---- */

static timer_t timer;
static volatile sig_atomic_t forks;
static volatile sig_atomic_t goes_on; /* every second child returns from the handler */

/* The next signal comes after 20 us to 400 us, which no call's length is a multiple of. */
static void arm(void)
{
    const struct itimerspec soon = { .it_value = { 0, 20000 + forks * 7919L % 380000 } };

    timer_settime(timer, 0, &soon, NULL);
}

static void handle(int sig)
{
    int saved = errno;
    pid_t pid = fork();

    if (pid == 0 && (!goes_on || forks % 2))
        _exit(sig != SIGUSR1);

    if (pid == 0) {
        is_child = 1;
    } else {
        expect(pid);
        forks++;
        arm();
    }

    errno = saved;
}

/* Makes the calls until handlers have forked so often.  A child makes the rest of the calls that were interrupted. */
static void interrupt(void (*calls)(unsigned round))
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct sigaction sa = { .sa_handler = handle, .sa_flags = SA_RESTART };

    MUST(sigaction(SIGUSR1, &sa, NULL) == 0);
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    arm();
    for (unsigned round = 0; forks < FORKS; round++) {
        calls(round);
        if (is_child)
            _exit(0);
    }

    MUST(timer_delete(timer) == 0);
}

/* ---- streams ---- */

static FILE *stream;

static void use_streams(unsigned round)
{
    for (int i = 0; i < 1000 && !is_child; i++)
        MUST(fileno(stream) >= 0);

    if (round % 8 == 0 && !is_child) {
        FILE *other = fopen(in("other"), "w");

        MUST(other && (fclose(other) == 0));
    }
}

static void streams(void)
{
    stream = fopen(in("stream"), "w+");
    MUST(stream);
    interrupt(use_streams);
    MUST(fputs("the end\n", stream) >= 0 && fclose(stream) == 0);
}

/* ---- descriptors ---- */

static int used;

/* What a child has gone on with may fail; it can use the descriptors afterwards, and ends.  An open has given it no
 * number if it was interrupted, so it looks at all. */
static void use_descriptors_in_child(void)
{
    struct stat st;

    for (int fd = 3; fd < 64; fd++)
        if (fstat(fd, &st) == 0)
            (void)!pread(fd, &st, 1, 0);

    for (int fd = 3; fd < 64; fd++)
        close(fd);
}

static void use_descriptors(unsigned round)
{
    struct stat st;
    char byte;

    goes_on = true;
    for (int i = 0; i < 100 && !is_child; i++) {
        MUST(pread(used, &byte, 1, 0) == 1 && fstat(used, &st) == 0);
        MUST(lseek(used, i, SEEK_SET) == i);

        int fd = open(in("used"), round % 2 ? O_RDONLY : O_RDWR);

        MUST(fd >= 0 && fstat(fd, &st) == 0 && close(fd) == 0);
    }

    if (is_child)
        use_descriptors_in_child();
}

static void descriptors(void)
{
    used = open(in("used"), O_RDWR | O_CREAT, 0600);
    MUST(used >= 0 && write(used, "text", 4) == 4);
    interrupt(use_descriptors);
    MUST(close(used) == 0 && close(used) == -1 && errno == EBADF);
}

/* ---- sets of epoll ---- */

static int set, fifo;

static void use_sets(unsigned round)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = (int)round };

    for (int i = 0; i < 100 && !is_child; i++) {
        int copy = dup(set);

        MUST(copy >= 0 && close(copy) == 0);
    }

    MUST(epoll_ctl(set, EPOLL_CTL_MOD, fifo, &event) == 0);
    MUST(epoll_wait(set, &event, 1, 0) == 0);
}

static void sets(void)
{
    struct epoll_event event = { .events = EPOLLIN };

    MUST(mkfifo(in("fifo"), 0600) == 0);
    fifo = open(in("fifo"), O_RDWR | O_NONBLOCK);
    set = epoll_create1(0);
    MUST(fifo >= 0 && set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fifo, &event) == 0);
    interrupt(use_sets);
    MUST(write(fifo, "x", 1) == 1);
    MUST(epoll_wait(set, &event, 1, 10000) == 1);
}

/* ---- changes ---- */

/* A child that makes the interrupted call as well may have been first. */
static bool is_done(int result)
{
    return result == 0 || errno == ENOENT || errno == EEXIST;
}

static void change_names(unsigned round)
{
    /* a child cannot go on with an open, which its parent may have begun at a server */
    goes_on = false;

    int fd = open(in("a"), O_RDWR | O_CREAT | O_TRUNC, 0600);

    MUST(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
    goes_on = true;
    MUST(is_done(rename(in("a"), in("b"))));
    MUST(is_done(unlink(in("b"))));
    if (round % 4 == 0)
        MUST(is_done(mkdir(in("d"), 0700)));
    if (round % 4 == 0)
        MUST(is_done(rmdir(in("d"))));
}

/* Has no change been ended twice?  Others would take a later change for none.  Processes of other tests that are killed
 * may leave changes under way. */
static bool is_whole(const struct amph_fwd_version *version)
{
    uint32_t ended = version->ended;

    return (int32_t)(version->begun - ended) >= 0;
}

static const struct amph_fwd_versions *map_versions(void)
{
    char name[64];

    snprintf(name, sizeof name, FWD_VERSIONS_DIRECTORY "/" FWD_VERSIONS_NAME,
             (unsigned long)getuid());

    int fd = open(name, O_RDONLY);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(NULL, sizeof(struct amph_fwd_versions), PROT_READ, MAP_SHARED, fd, 0);

    MUST(at != MAP_FAILED);
    return at;
}

static void changes(void)
{
    interrupt(change_names);
    if (strcmp(dir, "/fwd") != 0)
        return;

    const struct amph_fwd_versions *v = map_versions();

    MUST(is_whole(&v->names) && is_whole(&v->cuts));
    for (unsigned i = 0; i < FWD_VERSIONS_LINES; i++)
        MUST(is_whole(&v->line[i].data) && is_whole(&v->line[i].attributes));
}

/* ---- asynchronous I/O ---- */

static atomic_bool over;

static void write_asynchronously(int fd, int n)
{
    const struct timespec limit = { LIMIT_S, 0 };
    char text[] = "asynchronous";
    struct aiocb cb = {
        .aio_fildes = fd, .aio_buf = text, .aio_nbytes = sizeof text, .aio_offset = n
    };
    const struct aiocb *list[] = { &cb };

    MUST(aio_write(&cb) == 0);
    while (aio_error(&cb) == EINPROGRESS)
        MUST(aio_suspend(list, 1, &limit) == 0);

    MUST(aio_return(&cb) == sizeof text);
}

static void *write_until_over(void *arg)
{
    int fd = open(in(arg), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0);
    for (int i = 0; !over; i++)
        write_asynchronously(fd, i % 100);

    MUST(close(fd) == 0);
    return NULL;
}

/* A child does not inherit requests, and makes its own.  It may wait for ever in the C library's own functions, which a
 * local run uses. */
static void asynchronous(void)
{
    static char names[][8] = { "one", "two", "three" };
    pthread_t threads[3];
    int fd = open(in("children"), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, write_until_over, names[i]) == 0);

    for (forks = 0; forks < AIO_FORKS; forks++) {
        pid_t pid = fork();

        if (pid == 0) {
            alarm(LIMIT_S);
            write_asynchronously(fd, forks);
            _exit(0);
        }

        expect(pid);
    }

    over = true;
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "streams", streams }, { "descriptors", descriptors },   { "sets", sets },
        { "changes", changes }, { "asynchronous", asynchronous },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    if (!run_section(sections, sizeof sections / sizeof sections[0], argv[1]))
        return 2;

    printf("%d forks\n", (int)forks);
    return 0;
}
