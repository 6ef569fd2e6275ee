/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_last_thread WHAT FILE: a program whose main ends by pthread_exit while another thread goes on.
 * The end of that thread ends the process: the C library calls exit in the last thread.  The second
 * thread and a function of atexit write to a stream on FILE, which only exit flushes.
 *
 * WHAT: plain; aio: after a request that a thread of Amphora executes; signal: the function of atexit
 * waits for a signal that ends the process.  quick: main ends the process by quick_exit instead, after
 * writes by a descriptor, the last of them by a function of at_quick_exit.
 */
#define _GNU_SOURCE 1
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *what;
static FILE *out;
static pthread_t first;

static void at_exit(void)
{
    fputs("at exit\n", out);
    if (strcmp(what, "signal") != 0)
        return;

    fflush(out);
    kill(getpid(), SIGTERM);
    pause();
}

static void *second(void *arg)
{
    if (pthread_join(first, NULL) != 0)
        exit(3);

    fputs("second thread\n", out);
    return arg;
}

static int write_aio(const char *path)
{
    static const char text[] = "requests\n";
    struct aiocb cb = { .aio_fildes = open(path, O_WRONLY | O_APPEND),
                        .aio_buf = (void *)text,
                        .aio_nbytes = sizeof text - 1 };
    const struct aiocb *list[] = { &cb };

    if (cb.aio_fildes < 0 || aio_write(&cb) != 0)
        return -1;

    while (aio_error(&cb) == EINPROGRESS)
        aio_suspend(list, 1, NULL);

    close(cb.aio_fildes);
    return aio_return(&cb) == sizeof text - 1 ? 0 : -1;
}

static int quick_fd;

static void at_quick(void)
{
    (void)!write(quick_fd, "at quick exit\n", 14);
}

static void end_quickly(const char *path)
{
    quick_fd = open(path, O_WRONLY | O_APPEND);
    at_quick_exit(at_quick);
    (void)!write(quick_fd, "second write\n", 13);
    quick_exit(5);
}

int main(int argc, char **argv)
{
    pthread_t thread;

    if (argc != 3)
        return 2;

    what = argv[1];
    alarm(30);
    out = fopen(argv[2], "a");
    if (!out || fputs("main\n", out) < 0 || fflush(out) != 0)
        return 2;

    if (strcmp(what, "aio") == 0 && write_aio(argv[2]) != 0)
        return 2;

    if (strcmp(what, "quick") == 0)
        end_quickly(argv[2]);

    atexit(at_exit);
    first = pthread_self();
    if (pthread_create(&thread, NULL, second, NULL) != 0)
        return 2;

    pthread_exit(NULL);
}
