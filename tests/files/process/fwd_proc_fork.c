/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of fwd_proc that checks what the C library does at a fork, terminals and children that share memory. */
#define _GNU_SOURCE 1
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/files/fwd_kill.h"
#include "tests/files/fwd_say.h"
#include "tests/files/process/fwd_proc.h"

/* ---- what the C library does at a fork ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *fork_log; /* NULL: no fork is watched now */
static volatile bool over;

static void note(const char *what)
{
    if (fork_log) {
        fprintf(fork_log, "%s\n", what);
        fflush(fork_log);
    }
}

static void before_fork(void)
{
    if (fork_log)
        pthread_mutex_lock(&log_lock);

    note("before");
}

static void in_parent(void)
{
    note("parent");
    if (fork_log)
        pthread_mutex_unlock(&log_lock);
}

static void in_child(void)
{
    note("child");
    if (fork_log)
        pthread_mutex_unlock(&log_lock);
}

static void *write_with_lock(void *unused)
{
    long bad = 0;

    while (!over) {
        pthread_mutex_lock(&log_lock);
        FILE *f = fopen(in("of-thread"), "w");

        bad += !f || fputs("of a thread\n", f) < 0 || fclose(f) != 0;
        pthread_mutex_unlock(&log_lock);
    }

    return (void *)bad;
}

void handled(void)
{
    enum {
        FORKS = 40
    };

    char line[100];
    pthread_t thread;
    void *bad;
    int ok = 0;
    int lines = 0;

    T(pthread_atfork(before_fork, in_parent, in_child));
    fork_log = fopen(in("fork-log"), "a");
    T(pthread_create(&thread, NULL, write_with_lock, NULL));

    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(fputs("in the child\n", fork_log) < 0 || fflush(fork_log) != 0);

        ok += wait_for(pid) == 0;
    }

    over = true;
    T(pthread_join(thread, &bad));
    T(bad);
    T(ok);
    fclose(fork_log);
    fork_log = NULL;

    FILE *f = fopen(in("fork-log"), "r");

    while (f && fgets(line, sizeof line, f))
        lines++;

    T(lines);
    T(fclose(f));
    unlink(in("fork-log")); /* the order of its lines is chance */
}

void on_terminal(void)
{
    int terminal;
    int fd = open(in("terminal"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    char byte;

    for (int i = 0; i < 5; i++) {
        pid_t pid = forkpty(&terminal, NULL, NULL, NULL);

        if (pid == 0) {
            bool ok = write(fd, "child ", 6) == 6 && access(in("terminal"), F_OK) == 0;

            _exit(ok && close(open(in("of-child-of-terminal"), O_WRONLY | O_CREAT, 0600)) == 0
                      ? 0
                      : 99);
        }

        T(write(fd, "parent ", 7));
        while (read(terminal, &byte, 1) > 0)
            ;

        T(wait_for(pid));
        T(close(terminal));
    }

    T(lseek(fd, 0, SEEK_CUR));
    T(close(fd));
    unlink(in("terminal")); /* who was first is chance */
}

void led_input(bool by_freopen)
{
    int from[2], go[2], done[2];
    int fd = open(in("input"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    char byte;

    T(write(fd, "0123456789\n", 11));
    T(lseek(fd, 0, SEEK_SET));
    T(pipe(from) || pipe(go) || pipe(done));

    pid_t pid = fork();

    if (pid == 0) {
        T(write(from[1], "abcdef", 6));
        T(dup2(from[0], 0));
        T(getchar());

        if (by_freopen)
            T(freopen(in("input"), "r", stdin) ? 0 : -1);
        else
            T(dup2(fd, 0));

        if (fork() == 0) {
            close(go[1]);
            T(read(go[0], &byte, 1));
            execlp("cat", "cat", (char *)NULL);
            _exit(99);
        }

        for (int i = 0; i < 8; i++)
            T(getchar());

        exit(0);
    }

    close(done[1]);
    T(wait_for(pid));
    close(go[1]);
    T(read(done[0], &byte, 1)); /* nothing: cat has ended */
    close(done[0]);
    close(go[0]);
    close(from[0]);
    close(from[1]);
    close(fd);
}

static int wait_a_moment(void *fifo)
{
    return poll(&(struct pollfd){ .fd = *(int *)fifo, .events = POLLIN }, 1, 20);
}

void waited_in_our_memory(void)
{
    T(mkfifo(in("fifo"), 0600));

    int fifo = open(in("fifo"), O_RDWR);
    char byte;
    char *stack = aligned_alloc(16, 256 << 10);

    T(wait_for(clone(wait_a_moment, stack + (256 << 10), CLONE_VM | CLONE_VFORK | SIGCHLD, &fifo)));
    free(stack);

    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            while (process_state(getppid()) != 'S')
                ;

            _exit(write(fifo, "x", 1) != 1);
        }

        T(poll(&(struct pollfd){ .fd = fifo, .events = POLLIN }, 1, 20000));
        T(read(fifo, &byte, 1));
        T(wait_for(pid));
    }

    T(close(fifo));
}

volatile bool counting; /* volatile: execv is said not to come back into this file */
volatile int counted;
