/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_signals WHAT DIRECTORY: a call on a forwarded file while its server does not answer.  The
 * program says "ready", waits for a line, by which time the server is stopped, and makes the call;
 * fwd_signals.sh then sends a signal.
 * fwd_signals fill SOCKET: connects to the abstract socket until its backlog is full, and stays.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static char path[4096];

static void ready(void)
{
    char line[10];

    puts("ready");
    fflush(stdout);
    if (read(STDIN_FILENO, line, sizeof line) <= 0)
        exit(2);

    puts("calling");
    fflush(stdout);
}

static atomic_bool cancelled_now;

/* The cancellation is pending when the call begins; stat itself is no cancellation point. */
static void *first_call(void *arg)
{
    struct stat st;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    while (!atomic_load(&cancelled_now))
        ;

    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    stat(path, &st);
    return arg;
}

/* The first forwarded call of the process is made by a thread that is cancelled; later ones work. */
static int cancelled(void)
{
    pthread_t thread;
    struct stat st;

    ready();
    pthread_create(&thread, NULL, first_call, NULL);
    pthread_cancel(thread);
    atomic_store(&cancelled_now, true);
    pthread_join(thread, NULL);

    int fd = open(path, O_RDWR | O_CREAT, 0600);

    return fd < 0 || stat(path, &st) != 0;
}

static int fill(const char *name)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    size_t len = strlen(name);

    if (len >= sizeof sun.sun_path - 1)
        return 2;

    memcpy(sun.sun_path + 1, name, len);

    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
    int fd;

    do {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    } while (fd >= 0 && connect(fd, (struct sockaddr *)&sun, size) == 0);

    puts(fd >= 0 && errno == EAGAIN ? "full" : "failed");
    fflush(stdout);
    pause();
    return 1;
}

/* Writes to a file that is mapped: the write changes the mapped pages as well, under their lock. */
static int write_mapped(int fd)
{
    char *at = ftruncate(fd, 4096) != 0
                   ? MAP_FAILED
                   : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return 2;

    *at = 'x';
    ready();
    return write(fd, "word", 4) == 4 ? 0 : 1;
}

static void on_alarm(int sig)
{
}

/* Opens, reads and writes a file for some seconds, while signals come whose handler does not ask for
 * SA_RESTART.  A call on a regular file is not cut short by them. */
static int alarmed(void)
{
    static char data[1 << 20];
    const struct sigaction sa = { .sa_handler = on_alarm };
    const struct itimerval every = { { 0, 20000 }, { 0, 20000 } };
    const time_t end = time(NULL) + 4;
    char own[4200];

    snprintf(own, sizeof own, "%s.%ld", path, (long)getpid());
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &every, NULL);

    while (time(NULL) < end) {
        int fd = open(own, O_RDWR | O_CREAT, 0600);

        if (fd < 0) {
            perror("open");
            return 1;
        }

        for (unsigned i = 0; i < 8; i++) {
            ssize_t n = pwrite(fd, data, sizeof data, 0);
            ssize_t m = pread(fd, data, sizeof data, 0);

            if (n != (ssize_t)sizeof data || m != (ssize_t)sizeof data) {
                printf("written %zd, read %zd: %s\n", n, m, strerror(errno));
                return 1;
            }
        }

        close(fd);
    }

    return unlink(own) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static char data[8 << 20];
    struct stat st;
    sigset_t set;

    if (argc != 3)
        return 2;

    if (strcmp(argv[1], "fill") == 0)
        return fill(argv[2]);

    snprintf(path, sizeof path, "%s/file", argv[2]);
    if (strcmp(argv[1], "cancelled") == 0)
        return cancelled();
    if (strcmp(argv[1], "alarmed") == 0)
        return alarmed();

    int fd = strcmp(argv[1], "first") == 0 ? -1 : open(path, O_RDWR | O_CREAT, 0600);

    if (strcmp(argv[1], "mapped") == 0)
        return write_mapped(fd);

    if (strcmp(argv[1], "blocked") == 0) { /* by the program itself: it stays so */
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }

    ready();
    if (strcmp(argv[1], "large") == 0)
        return write(fd, data, sizeof data) == (ssize_t)sizeof data ? 0 : 1;

    return stat(path, &st) == 0 ? 0 : 1;
}
