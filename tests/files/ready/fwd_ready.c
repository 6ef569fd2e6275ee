/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readiness of FIFOs: poll, select and epoll with all that may come between, beside regular files
 * and local descriptors; and what does not wait.  Says what each call gives, so that a local and a
 * forwarded run can be compared.
 *   fwd_ready SECTION DIR SCRATCH
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/files/fwd_say.h"
#include "tests/files/ready/fwd_ready.h"

#define LATER_MS 60 /* after which what is waited for happens */
#define SECTION_MAX_S 15

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void rest(int ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000L };
    nanosleep(&t, NULL);
}

static void *do_later(void *arg)
{
    const struct later *l = arg;

    rest(LATER_MS);
    if (l->what == WRITE_TO && write(l->fd, "later...", 8) != 8)
        perror("later");
    else if (l->what == CLOSE_IT)
        close(l->fd);
    else if (l->what == KILL)
        pthread_kill(l->thread, SIGUSR1);
    else if (l->what == CANCEL)
        pthread_cancel(l->thread);

    return NULL;
}

pthread_t later(struct later *l)
{
    pthread_t t;

    if (pthread_create(&t, NULL, do_later, l) != 0)
        exit(3);

    return t;
}

static int signals;

static void caught(int sig)
{
    signals++;
}

/* ---- poll ---- */
long polled(int fd, short events, int timeout)
{
    struct pollfd p = { .fd = fd, .events = events, .revents = 0x7f };
    int n = poll(&p, 1, timeout);

    return n < 0 ? -1 : n * 0x10000L + p.revents;
}

#define ALL (POLLIN | POLLOUT | POLLPRI | POLLRDNORM | POLLWRNORM)

static void fill(int fd)
{
    static char block[4096];
    while (write(fd, block, sizeof block) > 0)
        ;
}

void drain(int fd)
{
    static char block[4096];
    while (read(fd, block, sizeof block) > 0)
        ;
}

/* What one call reports about a FIFO in all its states. */
static void states(void)
{
    char c;

    OK(mkfifo(in("f"), 0600));

    int both = open(in("f"), O_RDWR | O_NONBLOCK);

    T(polled(both, ALL, 0));
    T(read(both, &c, 1));
    T(write(both, "ab", 2));
    T(polled(both, ALL, 0));
    T(polled(both, POLLIN, -1));
    T(polled(both, 0, 0));
    T(read(both, &c, 1));
    T(polled(both, POLLIN, 0));
    T(read(both, &c, 1));
    T(polled(both, POLLIN, 0));
    fill(both);
    T(write(both, &c, 1));
    T(polled(both, ALL, 0));
    T(polled(both, POLLOUT, SOON_MS));
    drain(both);
    T(polled(both, ALL, 0));
    close(both);

    int reader = open(in("f"), O_RDONLY | O_NONBLOCK);

    T(polled(reader, ALL, 0));

    int writer = open(in("f"), O_WRONLY | O_NONBLOCK);

    T(polled(reader, ALL, 0));
    T(polled(writer, ALL, 0));
    T(write(writer, "x", 1));
    close(writer);
    T(polled(reader, ALL, 0));
    T(polled(reader, 0, 0));
    T(read(reader, &c, 1));
    T(polled(reader, ALL, -1));
    T(read(reader, &c, 1));
    writer = open(in("f"), O_WRONLY | O_NONBLOCK);
    T(polled(reader, ALL, 0));
    close(reader);
    T(polled(writer, ALL, 0));
    T(polled(writer, 0, -1));
    close(writer);
    T(polled(writer, ALL, 0));

    int path = open(in("f"), O_PATH);

    T(polled(path, ALL, 0));
    close(path);
}

/* Of regular files and directories nobody need be asked. */
static void files(void)
{
    int fd = open(in("file"), O_RDWR | O_CREAT, 0600);
    int d = open(in("."), O_RDONLY | O_DIRECTORY);
    struct pollfd p[3] = { { .fd = fd, .events = ALL },
                           { .fd = d, .events = ALL },
                           { .fd = -1, .events = ALL, .revents = 5 } };

    T(poll(p, 3, -1));
    T(p[0].revents);
    T(p[1].revents);
    T(p[2].revents);

    fd_set r, w;

    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(fd, &r);
    FD_SET(fd, &w);
    T(select(fd + 1, &r, &w, NULL, NULL));

    struct epoll_event ev = { .events = EPOLLIN };
    int ep = epoll_create1(0);

    T(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
    T(write(fd, "written", 7));
    close(ep);
    close(fd);
    close(d);
}

int fifo, empty, pair[2], local;

void open_mixed(void)
{
    OK(mkfifo(in("f"), 0600));
    OK(mkfifo(in("e"), 0600));
    fifo = open(in("f"), O_RDWR | O_NONBLOCK);
    empty = open(in("e"), O_RDWR | O_NONBLOCK);
    OK(pipe(pair));
    local = eventfd(0, EFD_NONBLOCK);
}

static void waited(const char *what, double since)
{
    double ms = (now_s() - since) * 1000;
    const char *when = "in time";

    if (ms < LATER_MS - 5)
        when = "too early";
    else if (ms > 5000)
        when = "very late";

    printf("%s: %s\n", what, when);
}

/* What the call waits for happens meanwhile; without l something is ready already. */
static void wait_mixed(struct later *l, int timeout)
{
    struct pollfd p[] = { { .fd = pair[0], .events = POLLIN },
                          { .fd = empty, .events = POLLIN },
                          { .fd = fifo, .events = POLLIN },
                          { .fd = local, .events = POLLIN },
                          { .fd = dup(fifo), .events = POLLIN | POLLPRI } };

    /* Taken before the other thread starts to wait: this one may lose the processor in between. */
    double since = now_s();
    pthread_t t = l ? later(l) : pthread_self();

    T(poll(p, 5, timeout));
    if (l)
        waited("poll", since);

    for (int i = 0; i < 5; i++)
        T(p[i].revents);

    if (l)
        pthread_join(t, NULL);

    close(p[4].fd);
}

static void mixed(void)
{
    char block[8];
    uint64_t one = 1;

    open_mixed();
    wait_mixed(&(struct later){ .what = WRITE_TO, .fd = fifo }, -1);
    T(read(fifo, block, 8));
    wait_mixed(&(struct later){ .what = WRITE_TO, .fd = pair[1] }, 10000);
    T(read(pair[0], block, 8));
    wait_mixed(&(struct later){ .what = WRITE_TO, .fd = fifo }, -1);
    T(write(local, &one, 8));
    wait_mixed(NULL, -1);
    T(write(empty, "at once.", 8));
    T(read(fifo, block, 8));
    T(read(empty, block, 8));
    T(read(empty, block, 8));

    double since = now_s();
    struct pollfd p[] = { { .fd = fifo, .events = POLLIN }, { .fd = empty, .events = POLLIN } };

    T(poll(p, 2, 2 * LATER_MS));
    waited("nothing", since);
    T(poll(p, 2, 0));

    /* a writer in another process, and its end */
    close(fifo);
    fifo = open(in("f"), O_RDONLY | O_NONBLOCK);

    for (int round = 0; round < 3; round++) {
        fflush(stdout);
        since = now_s();

        pid_t pid = fork();

        if (pid == 0) {
            int to = open(in("f"), O_WRONLY);

            rest(LATER_MS);

            /* a process's end reaches the servers a moment later */
            _exit(write(to, "child...", 8) != 8 || close(to) != 0);
        }

        p[0].fd = fifo;

        int status;
        int ready = 0;

        while (poll(p, 2, -1) > 0 && !(p[0].revents & POLLIN))
            ready++;

        waited("a child's data", since);
        T(waitpid(pid, &status, 0) == pid && status == 0);
        T(polled(fifo, ALL, -1));
        T(read(fifo, block, 8));
        T(polled(fifo, ALL, -1));
    }
}

/* Many in one call. */
static void many(void)
{
    enum {
        N = 100
    };

    struct pollfd p[N];
    char name[16];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "m%d", i);
        OK(mkfifo(in(name), 0600));
        p[i] = (struct pollfd){ .fd = open(in(name), O_RDWR | O_NONBLOCK), .events = POLLIN };
    }

    T(poll(p, N, SOON_MS));

    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = p[77].fd });

    T(poll(p, N, -1));
    T(p[77].revents);
    T(p[76].revents);
    pthread_join(t, NULL);
}

/* ---- signals and cancellation ---- */

static int undone;

static void undo(void *arg)
{
    undone++;
}

static void *polls(void *arg)
{
    pthread_cleanup_push(undo, NULL);
    polled(fifo, POLLIN, -1);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *waits(void *arg)
{
    struct epoll_event ev;

    pthread_cleanup_push(undo, NULL);
    epoll_wait(*(int *)arg, &ev, 1, -1);
    pthread_cleanup_pop(0);

    return NULL;
}

static void interrupted(void)
{
    struct sigaction sa = { .sa_handler = caught, .sa_flags = SA_RESTART };
    sigset_t usr1, none;
    struct epoll_event ev = { .events = EPOLLIN };
    struct later l = { .what = KILL, .thread = pthread_self() };
    fd_set r;

    open_mixed();

    int ep = epoll_create1(EPOLL_CLOEXEC);

    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
    T(sigaction(SIGUSR1, &sa, NULL));

    pthread_t t = later(&l);

    T(polled(fifo, POLLIN, -1));
    pthread_join(t, NULL);
    FD_ZERO(&r);
    FD_SET(fifo, &r);
    t = later(&l);
    T(select(fifo + 1, &r, NULL, NULL, NULL));
    pthread_join(t, NULL);
    t = later(&l);
    T(epoll_wait(ep, &ev, 1, -1));
    pthread_join(t, NULL);
    T(signals);

    /* held back until the wait */
    sigemptyset(&usr1);
    sigemptyset(&none);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    raise(SIGUSR1);

    struct pollfd p = { .fd = fifo, .events = POLLIN };
    struct timespec limit = { .tv_nsec = SOON_MS * 1000000L };

    T(signals);
    T(ppoll(&p, 1, &limit, NULL));
    T(signals);
    T(ppoll(&p, 1, NULL, &none));
    T(signals);
    raise(SIGUSR1);
    FD_SET(fifo, &r);
    T(pselect(fifo + 1, &r, NULL, NULL, NULL, &none));
    raise(SIGUSR1);
    T(epoll_pwait(ep, &ev, 1, -1, &none));
    T(signals);
    raise(SIGUSR1);
    T(epoll_pwait2(ep, &ev, 1, NULL, &none));
    T(signals);
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);

    /* cancelled while they wait, and the next waits are as before */
    void *(*const ways[])(void *) = { polls, waits, polls };
    for (int i = 0; i < 3; i++) {
        void *result = NULL;

        pthread_create(&t, NULL, ways[i], &ep);

        pthread_t killer = later(&(struct later){ .what = CANCEL, .thread = t });

        pthread_join(t, &result);
        pthread_join(killer, NULL);
        T(result == PTHREAD_CANCELED);
        T(undone);
    }

    T(polled(fifo, POLLIN, 0));
    T(write(fifo, "x", 1));
    T(polled(fifo, POLLIN, -1));
}

/* ---- select ---- */

static fd_set r, w, e;
static void *volatile nowhere = (void *)16;

static void in_all(int fd)
{
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    FD_SET(fd, &r);
    FD_SET(fd, &w);
    FD_SET(fd, &e);
}

static void sets(void)
{
    struct timeval tv = { .tv_usec = SOON_MS * 1000 };

    open_mixed();
    in_all(fifo);
    T(select(fifo + 1, &r, &w, &e, NULL));
    T(FD_ISSET(fifo, &r) * 4 + FD_ISSET(fifo, &w) * 2 + FD_ISSET(fifo, &e));
    in_all(fifo);
    T(select(fifo + 1, &r, NULL, &e, &tv));
    T(FD_ISSET(fifo, &r) * 4 + FD_ISSET(fifo, &e));
    T(tv.tv_sec == 0 && tv.tv_usec == 0);
    in_all(fifo);
    FD_SET(pair[0], &r);
    tv = (struct timeval){ .tv_sec = 100 };

    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

    T(select(FD_SETSIZE, &r, NULL, NULL, &tv));
    T(FD_ISSET(fifo, &r) * 2 + FD_ISSET(pair[0], &r));
    T(tv.tv_sec > 90 && tv.tv_sec < 100);
    pthread_join(t, NULL);
    in_all(fifo);
    FD_SET(pair[1], &w);
    T(select(FD_SETSIZE, &r, &w, &e, NULL));
    in_all(fifo);
    T(select(fifo, &r, NULL, NULL, &(struct timeval){ 0 }));
    tv = (struct timeval){ .tv_sec = -1 };
    T(select(fifo + 1, &r, NULL, NULL, &tv));
    in_all(fifo);
    close(empty);
    FD_SET(empty, &r);
    T(select(FD_SETSIZE, &r, NULL, NULL, NULL));
    T(select(-1, &r, NULL, NULL, NULL));
    T(select(fifo + 1, nowhere, &r, NULL, NULL));
    T(poll(nowhere, 1, 0));
}

/* ---- by number ---- */

/* The calls that every machine has; their limit says afterwards what is left of it. */
static void by_number_new(void)
{
    struct pollfd p = { .fd = fifo, .events = POLLIN };
    struct timespec limit = { .tv_nsec = SOON_MS * 1000000L };
    struct timespec far = { .tv_sec = 100 };
    struct timespec wrong = { .tv_nsec = -1 };
    sigset_t usr1;

    struct {
        const sigset_t *mask;
        size_t bytes;
    } signals_given = { &usr1, _NSIG / 8 };
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    T(syscall(SYS_ppoll, &p, 1, &limit, NULL, 0));
    T(limit.tv_sec == 0 && limit.tv_nsec == 0);
    T(syscall(SYS_ppoll, &p, 1, &wrong, NULL, 0));
    T(syscall(SYS_ppoll, &p, 1, nowhere, NULL, 0));
    T(syscall(SYS_ppoll, &p, 1, &far, &usr1, 5));
    in_all(fifo);
    limit.tv_nsec = SOON_MS * 1000000L;
    T(syscall(SYS_pselect6, fifo + 1, &r, NULL, NULL, &limit, NULL));
    T(limit.tv_sec == 0 && limit.tv_nsec == 0);
    T(syscall(SYS_pselect6, fifo + 1, &r, NULL, NULL, NULL, nowhere));

    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

    in_all(fifo);
    T(syscall(SYS_pselect6, fifo + 1, &r, NULL, NULL, &far, &signals_given));
    T(FD_ISSET(fifo, &r));
    T(far.tv_sec > 90 && far.tv_sec < 100);
    pthread_join(t, NULL);
    signals_given.bytes = 5;
    T(syscall(SYS_pselect6, fifo + 1, &r, NULL, NULL, &far, &signals_given));
    T(syscall(SYS_ppoll, &p, 1, &far, &usr1, _NSIG / 8));
    T(p.revents);
}

static void by_number_old(void)
{
#if defined SYS_poll && defined SYS_select && __SIZEOF_POINTER__ == 8
    struct pollfd p = { .fd = fifo, .events = POLLIN };
    struct timeval limit = { .tv_usec = SOON_MS * 1000 };
    T(syscall(SYS_poll, &p, 1, SOON_MS));
    in_all(fifo);
    T(syscall(SYS_select, fifo + 1, &r, NULL, NULL, &limit));
    T(limit.tv_sec == 0 && limit.tv_usec == 0);
    T(write(fifo, "x", 1));
    T(syscall(SYS_poll, &p, 1, -1));
    T(p.revents);
    in_all(fifo);
    T(syscall(SYS_select, fifo + 1, &r, NULL, NULL, NULL));
#endif
}

static void by_number(void)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x1122334455667788 };
    struct epoll_event out = { 0 };
    struct timespec limit = { .tv_nsec = SOON_MS * 1000000L };
    char block[16];

    open_mixed();
    by_number_new();
    T(read(fifo, block, sizeof block));
    by_number_old();
    drain(fifo);

    int ep = (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC);

    T(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fifo, &ev));
    T(syscall(SYS_epoll_pwait, ep, &out, 1, SOON_MS, NULL, 0));

    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

    T(syscall(SYS_epoll_pwait, ep, &out, 1, -1, NULL, 0));
    T(out.data.u64 == ev.data.u64);
    pthread_join(t, NULL);
#ifdef SYS_epoll_wait
    T(syscall(SYS_epoll_wait, ep, &out, 1, -1));
#endif
    drain(fifo);
#if defined SYS_epoll_pwait2 && __SIZEOF_POINTER__ == 8
    T(syscall(SYS_epoll_pwait2, ep, &out, 1, &limit, NULL, 0));
    T(syscall(SYS_epoll_pwait2, ep, &out, 1, nowhere, NULL, 0));
#endif
    T(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_DEL, fifo, NULL));
    T(limit.tv_nsec == SOON_MS * 1000000L);
}

/* ---- what does not wait, and what waits for itself ---- */

static void *reads(void *arg)
{
    char block[100000];
    return (void *)(long)read(fifo, block, sizeof block);
}

static void blocking(void)
{
    char block[8];
    int n = 1;
    void *result;
    pthread_t t;

    open_mixed();
    T(read(fifo, block, 8));
    T(write(fifo, "abc", 3));
    T(ioctl(fifo, FIONREAD, &n));
    T(n);
    n = 0;
    T(ioctl(fifo, FIONBIO, &n));
    T(fcntl(fifo, F_GETFL) & O_NONBLOCK);
    T(read(fifo, block, 8));

    /* one thread waits for what another writes by the same descriptor */
    for (int round = 0; round < 3; round++) {
        T(pthread_create(&t, NULL, reads, NULL));
        rest(SOON_MS);
        T(polled(fifo, POLLIN | POLLOUT, 0));
        T(fcntl(fifo, F_GETFL) & O_ACCMODE);
        T(write(fifo, "later", 5));
        T(pthread_join(t, &result));
        T(result);
    }

    fflush(stdout);

    pid_t pid = fork(); /* or another process */

    if (pid == 0)
        _exit((int)(long)reads(NULL));

    rest(SOON_MS);
    T(write(fifo, "to child", 8));
    T(waitpid(pid, &n, 0) == pid);
    T(WEXITSTATUS(n));
    T(fcntl(fifo, F_SETFL, O_NONBLOCK));
    T(read(fifo, block, 8));
    T(fcntl(fifo, F_SETFL, 0));

    pthread_t w = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

    T(read(fifo, block, 8));
    pthread_join(w, NULL);
    n = 1;
    T(ioctl(fifo, FIONBIO, &n));
    T(fcntl(fifo, F_GETFL) & O_NONBLOCK);
    fill(fifo);
    T(write(fifo, block, 8));
}

/* How much a FIFO takes until somebody reads. */
static void pipe_sizes(void)
{
    int file = open(in("file"), O_RDWR | O_CREAT, 0600);

    open_mixed();

    int path = open(in("f"), O_PATH);

    T(fcntl(fifo, F_GETPIPE_SZ));
    T(fcntl(fifo, F_SETPIPE_SZ, 100000));
    T(fcntl(fifo, F_GETPIPE_SZ));
    T(fcntl(empty, F_GETPIPE_SZ));
    fill(fifo);

    int n = 0;

    T(ioctl(fifo, FIONREAD, &n));
    T(n);
    T(fcntl(fifo, F_SETPIPE_SZ, 4096));
    drain(fifo);
    T(fcntl(fifo, F_SETPIPE_SZ, 4096));
    T(fcntl(fifo, F_SETPIPE_SZ, -1));
    T(fcntl(fifo, F_GETPIPE_SZ));
    T(fcntl(path, F_GETPIPE_SZ));
    T(fcntl(file, F_GETPIPE_SZ));
    T(fcntl(file, F_SETPIPE_SZ, 4096));
    T(write(file, "written", 7));
    close(path);
    close(file);
}

int main(int argc, char **argv)
{
    /* clang-format off */
    static const struct section sections[] = {
        { "states", states }, { "files", files }, { "mixed", mixed }, { "many", many }, { "interrupted", interrupted }, { "sets", sets },
        { "watched", watched }, { "copied", copied }, { "shared", shared }, { "by_number", by_number },
        { "blocking", blocking }, { "pipe_sizes", pipe_sizes },
    };

    /* clang-format on */
    if (argc != 4)
        return 2;

    dir = argv[2];
    end_after(SECTION_MAX_S);
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
