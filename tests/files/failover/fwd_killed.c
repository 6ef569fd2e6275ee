/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process that is killed in the middle of a call leaves behind for others: nothing.  Says
 * what each call gives, so that a local and a forwarded run can be compared.   fwd_killed SECTION
 * DIR SCRATCH
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/files/fwd_kill.h"
#include "tests/files/fwd_say.h"

enum {
    ROUNDS = 40,
    MANY = 300,
    PIPE_ROOM = 1 << 20
};

static void rest(int ms)
{
    struct timespec t = { .tv_nsec = ms * 1000000L };
    nanosleep(&t, NULL);
}

/* A child does something that keeps it waiting, and is killed there. */
static void kill_in(void (*what)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        what();
        _exit(1);
    }

    rest(5);
    while (process_state(pid) != 'S')
        rest(1);

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int fifo;

static void read_it(void)
{
    char c;
    read(fifo, &c, 1);
}

static void write_it(void)
{
    static char block[8192];

    memset(block, 'k', sizeof block);
    write(fifo, block, sizeof block);
}

static void open_to_read(void)
{
    open(in("f"), O_RDONLY);
}

static void open_to_write(void)
{
    open(in("f"), O_WRONLY);
}

/* Another open file of the same FIFO, so that it may wait or not by itself. */
static int other(void)
{
    return open(in("f"), O_RDWR | O_NONBLOCK);
}

/* What is written when the reader is dead is for the next one. */
static void reader(void)
{
    char got[4] = "";
    int mine;

    OK(mkfifo(in("f"), 0600));
    fifo = open(in("f"), O_RDWR);
    mine = other();

    int wrong = 0;

    for (int i = 0; i < ROUNDS; i++) {
        kill_in(read_it);
        if (write(mine, "abc", 3) != 3 || read(mine, got, 3) != 3 || memcmp(got, "abc", 3) != 0)
            wrong++;
    }

    T(wrong);
    T(poll(&(struct pollfd){ .fd = mine, .events = POLLIN }, 1, 0));
}

/* And what a dead writer had not written does not come. */
static void writer(void)
{
    static char all[PIPE_ROOM];
    int mine;
    int wrong = 0;

    OK(mkfifo(in("f"), 0600));
    fifo = open(in("f"), O_RDWR);
    mine = other();

    for (int i = 0; i < ROUNDS / 4; i++) {
        memset(all, 'm', sizeof all);

        size_t full = 0;

        for (ssize_t n; (n = write(mine, all, sizeof all)) > 0; full += (size_t)n)
            ;

        kill_in(write_it);
        memset(all, 0, sizeof all);

        size_t got = 0;

        for (ssize_t n; got < sizeof all && (n = read(mine, all + got, sizeof all - got)) > 0;
             got += (size_t)n)
            ;

        wrong += got != full || memchr(all, 'k', sizeof all) != NULL;
    }

    T(wrong);
}

/* More of them than a server has threads: calls that need one are done all the same. */
static void many(void (*what)(void))
{
    static pid_t pid[MANY];

    for (int i = 0; i < MANY; i++)
        if ((pid[i] = fork()) == 0) {
            what();
            _exit(1);
        }

    for (int i = 0; i < MANY; i++)
        while (process_state(pid[i]) != 'S')
            rest(1);

    for (int i = 0; i < MANY; i++)
        kill(pid[i], SIGKILL);

    for (int i = 0; i < MANY; i++)
        waitpid(pid[i], NULL, 0);

    char c = 0;
    int status;
    int to = open(in("g"), O_RDWR);
    pid_t last = fork();

    if (last == 0)
        _exit(read(to, &c, 1) != 1 || c != 'x');

    T(write(to, "x", 1));
    T(waitpid(last, &status, 0) == last);
    T(status);
}

static void readers(void)
{
    OK(mkfifo(in("f"), 0600));
    OK(mkfifo(in("g"), 0600));
    fifo = open(in("f"), O_RDWR);
    many(read_it);
}

static void openers(void)
{
    OK(mkfifo(in("f"), 0600));
    OK(mkfifo(in("g"), 0600));
    many(open_to_read);
}

/* Who waited for the other end does not count as one. */
static void opener(void)
{
    int fd;
    int wrong = 0;

    OK(mkfifo(in("f"), 0600));
    for (int i = 0; i < ROUNDS / 4; i++) {
        kill_in(open_to_read);
        for (int tries = 0; (fd = open(in("f"), O_WRONLY | O_NONBLOCK)) >= 0 && tries < 1000;
             tries++) {
            close(fd); /* it is told of the death a moment later */
            rest(1);
        }

        wrong += fd >= 0 || errno != ENXIO;
        kill_in(open_to_write);
        fd = open(in("f"), O_RDONLY | O_NONBLOCK);

        char c;

        for (int tries = 0; read(fd, &c, 1) != 0 && tries < 1000; tries++)
            rest(1);

        wrong += read(fd, &c, 1) != 0;
        close(fd);
    }

    T(wrong);
    fd = other();
    T(write(fd, "x", 1));
}

/* What waits and what does not, and what is written in one go. */
static void sizes(void)
{
    static char all[PIPE_ROOM];
    size_t got = 0;

    OK(mkfifo(in("f"), 0600));

    int to;
    int from = open(in("f"), O_RDONLY | O_NONBLOCK);

    T(fcntl(from, F_SETFL, 0));
    T(read(from, all, 1)); /* nobody writes */
    fifo = to = open(in("f"), O_WRONLY);

    pid_t pid = fork();

    if (pid == 0) {
        memset(all, 'a', sizeof all);
        T(write(to, all, sizeof all));
        T(write(to, all, 0));
        _exit(0);
    }

    close(to);
    for (ssize_t n; (n = read(from, all, 5000)) > 0; got += (size_t)n)
        ;

    waitpid(pid, NULL, 0);
    T(got);
    signal(SIGPIPE, SIG_IGN);
    to = open(in("f"), O_WRONLY | O_NONBLOCK);
    T(write(to, all, sizeof all) < (ssize_t)sizeof all);
    T(write(to, all, 1));
    close(from);
    T(write(to, all, 1));
    T(fcntl(to, F_GETFL) & O_NONBLOCK);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "reader", reader }, { "writer", writer },   { "readers", readers },
        { "opener", opener }, { "openers", openers }, { "sizes", sizes },
    };

    if (argc != 4)
        return 2;

    dir = argv[2];
    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
