/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of fwd_ready that checks epoll: sets, duplicated descriptors, and sets that several processes share. */
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "tests/files/fwd_say.h"
#include "tests/files/ready/fwd_ready.h"

/* ---- epoll ---- */

static void told(int ep, int most, int timeout)
{
    struct epoll_event ev[8];
    uint64_t sum = 0;
    uint64_t events = 0;
    int n = epoll_wait(ep, ev, most, timeout);

    for (int i = 0; i < n; i++) {
        sum += ev[i].data.u64;
        events = events * 1000 + ev[i].events;
    }

    printf("epoll_wait = %d, data %lx, events %lu\n", n, (unsigned long)sum,
           n > 1 ? 0 : (unsigned long)events);
    fflush(stdout);
}

/* Two are ready, and neither keeps the other from being told. */
static long one_by_one(int ep)
{
    struct epoll_event ev;
    uint64_t seen = 0;

    for (int i = 0; i < 8; i++)
        seen |= epoll_wait(ep, &ev, 1, -1) == 1 ? ev.data.u64 : 0;

    return (long)seen;
}

static void beside_local(int ep)
{
    struct epoll_event ev;
    uint64_t one = 1;
    char block[8];

    ev = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 0x1000 };
    T(epoll_ctl(ep, EPOLL_CTL_ADD, local, &ev));
    ev = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 0x20000 };
    T(epoll_ctl(ep, EPOLL_CTL_ADD, empty, &ev));
    told(ep, 8, SOON_MS);
    T(write(local, &one, 8));
    T(write(empty, "d", 1));
    told(ep, 8, -1);
    T(one_by_one(ep));
    T(read(local, block, 8));
    told(ep, 8, -1);
    T(epoll_ctl(ep, EPOLL_CTL_DEL, empty, NULL));
    T(epoll_ctl(ep, EPOLL_CTL_DEL, empty, NULL));
    told(ep, 8, SOON_MS);
    T(epoll_ctl(ep, EPOLL_CTL_ADD, empty, &ev));
    close(empty); /* and with it its watch */
    told(ep, 8, SOON_MS);
    empty = open(in("e"), O_RDONLY | O_NONBLOCK);
    T(epoll_ctl(ep, EPOLL_CTL_ADD, empty, &ev));
    told(ep, 8, SOON_MS);
}

static void refused(int ep)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x20000 };

    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, NULL));
    T(epoll_ctl(local, EPOLL_CTL_ADD, empty, &ev));
    T(epoll_ctl(-1, EPOLL_CTL_ADD, empty, &ev));
    T(epoll_wait(ep, &ev, 0, 0));

    /* a set inside of a poll */
    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = open(in("e"), O_WRONLY) });

    T(polled(ep, POLLIN, -1));
    told(ep, 8, -1);
    pthread_join(t, NULL);
    close(ep);

    int again = epoll_create1(0);

    T(again == ep);
    told(again, 8, 0);
    T(epoll_ctl(again, EPOLL_CTL_ADD, empty, &ev));
    told(again, 8, -1);
}

void watched(void)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x1122334455667788 };
    char block[8];

    open_mixed();

    int ep = epoll_create1(EPOLL_CLOEXEC);

    T(epoll_ctl(ep, EPOLL_CTL_MOD, fifo, &ev));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
    told(ep, 8, 0);
    told(ep, 8, SOON_MS);
    T(write(fifo, "ab", 2));
    told(ep, 8, -1);
    told(ep, 8, -1); /* as long as there is some */
    T(read(fifo, block, 8));
    told(ep, 8, SOON_MS);

    pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

    told(ep, 8, -1);
    pthread_join(t, NULL);
    ev = (struct epoll_event){ .events = EPOLLIN | EPOLLET, .data.u64 = 0x100 };
    T(epoll_ctl(ep, EPOLL_CTL_MOD, fifo, &ev));
    told(ep, 8, -1);
    told(ep, 8, SOON_MS); /* no more has come */
    T(write(fifo, "c", 1));
    told(ep, 8, -1);
    told(ep, 8, 0);
    ev = (struct epoll_event){ .events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.u64 = 0x200 };
    T(epoll_ctl(ep, EPOLL_CTL_MOD, fifo, &ev));
    told(ep, 8, -1);
    told(ep, 8, SOON_MS);
    T(epoll_ctl(ep, EPOLL_CTL_MOD, fifo, &ev));
    told(ep, 8, -1);
    beside_local(ep);
    refused(ep);
}

/* ---- sets with several names, and in several processes ---- */
void copied(void)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x10 };

    open_mixed();

    int ep = epoll_create1(0);
    int again = dup(fifo);
    int other = open(in("e"), O_RDWR | O_NONBLOCK);

    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));

    int names[] = { dup(ep), fcntl(ep, F_DUPFD, 0), fcntl(ep, F_DUPFD_CLOEXEC, 0), dup2(ep, other),
                    -1 };

    names[4] = dup(names[0]);
    T(write(fifo, "x", 1));
    for (int i = 0; i < 5; i++)
        told(names[i], 8, -1);

    close(ep);
    ep = names[0];
    told(ep, 8, -1);
    drain(fifo);
    told(ep, 8, SOON_MS);
    T(dup2(local, names[1]) == names[1]);
    T(epoll_wait(names[1], &ev, 1, 0));

    /* one file by two descriptors */
    ev = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 0x200 };
    T(epoll_ctl(names[2], EPOLL_CTL_MOD, again, &ev));
    T(epoll_ctl(names[2], EPOLL_CTL_ADD, again, &ev));
    T(epoll_ctl(ep, EPOLL_CTL_ADD, again, &ev));
    T(write(fifo, "y", 1));
    told(ep, 8, -1);
    T(epoll_ctl(ep, EPOLL_CTL_DEL, fifo, NULL));
    T(epoll_ctl(ep, EPOLL_CTL_DEL, fifo, NULL));
    told(ep, 8, -1);
    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
    ev.data.u64 = 0x3000;
    T(epoll_ctl(ep, EPOLL_CTL_MOD, again, &ev));
    told(ep, 8, -1);
    close(again); /* it is open by another descriptor */
    told(ep, 8, -1);
    close(fifo);
    told(ep, 8, SOON_MS);
    close(other);
}

static pid_t forked(void)
{
    fflush(stdout);
    return fork();
}

static void ended(pid_t pid)
{
    int status;
    T(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Two wait, and both are told. */
static void both_told(int ep)
{
    pid_t pid[2];

    for (int i = 0; i < 2; i++)
        if ((pid[i] = forked()) == 0) {
            told(ep, 8, -1);
            _exit(0);
        }

    rest(SOON_MS); /* that they sleep is the harder case */

    ssize_t wrote = write(fifo, "two", 3);

    waitpid(pid[0], NULL, 0);
    waitpid(pid[1], NULL, 0);
    T(wrote);
    drain(fifo);
}

/* The set's maker ends; its child goes on with it. */
static void orphan(void)
{
    char c;
    int done[2];

    OK(pipe(done));

    pid_t pid = forked();

    if (pid == 0) {
        struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x70 };
        int ep = epoll_create1(0);

        T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));

        pid_t maker = getpid();

        if (forked() != 0)
            _exit(0);

        while (getppid() == maker)
            rest(1);

        told(ep, 8, SOON_MS);
        T(write(fifo, "x", 1));
        told(ep, 8, -1);
        drain(fifo);

        pthread_t t = later(&(struct later){ .what = WRITE_TO, .fd = fifo });

        told(ep, 8, -1);
        pthread_join(t, NULL);
        _exit(0);
    }

    close(done[1]);
    ended(pid);
    T(read(done[0], &c, 1)); /* when the grandchild has ended, too */
    close(done[0]);
    drain(fifo);
}

void shared(void)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x10 };

    open_mixed();

    int ep = epoll_create1(0);

    T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
    T(write(fifo, "x", 1));

    pid_t pid = forked();

    if (pid == 0) { /* it is told, and what it changes the parent sees */
        told(ep, 8, -1);
        told(ep, 8, -1);
        ev.data.u64 = 0x200;
        T(epoll_ctl(ep, EPOLL_CTL_ADD, fifo, &ev));
        T(epoll_ctl(ep, EPOLL_CTL_MOD, fifo, &ev));
        ev.data.u64 = 0x3000;
        T(epoll_ctl(ep, EPOLL_CTL_ADD, empty, &ev));
        _exit(0);
    }

    ended(pid);
    told(ep, 8, -1);
    T(write(empty, "y", 1));
    drain(fifo);
    told(ep, 8, -1);
    drain(empty);

    if ((pid = forked()) == 0) { /* what it takes out is out for both */
        T(epoll_ctl(ep, EPOLL_CTL_DEL, empty, NULL));
        _exit(0);
    }

    ended(pid);
    T(write(empty, "y", 1));
    told(ep, 8, SOON_MS);
    ev = (struct epoll_event){ .events = EPOLLIN | EPOLLET, .data.u64 = 0x40000 };
    T(epoll_ctl(ep, EPOLL_CTL_ADD, empty, &ev));

    if ((pid = forked()) == 0) { /* an edge is told to one of them */
        told(ep, 8, -1);
        told(ep, 8, SOON_MS);
        _exit(0);
    }

    ended(pid);
    told(ep, 8, SOON_MS);
    both_told(ep);
    orphan();
    told(ep, 8, SOON_MS);
}
