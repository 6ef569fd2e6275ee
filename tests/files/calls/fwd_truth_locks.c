/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of fwd_truth that checks record locks: they belong to the process, whatever program it runs. */
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"
#include "tests/files/calls/fwd_truth.h"

static int lock(int fd, int command, short type, off_t from, off_t len)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = len };
    int r = fcntl(fd, command, &l);

    if (r != 0 || command != F_GETLK)
        return r;

    if (l.l_type == F_UNLCK)
        return 0;

    return l.l_pid == getppid() ? 1 : 2;
}

/* What another process sees: 1: locked by its parent. */
static void look(const char *when)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        int fd = open(in("held"), O_RDWR);

        printf("%s: %d %d %d\n", when, lock(fd, F_GETLK, F_WRLCK, 0, 10),
               lock(fd, F_GETLK, F_WRLCK, 20, 10), lock(fd, F_SETLK, F_WRLCK, 5, 1));
        fflush(stdout);
        lock(fd, F_SETLK, F_UNLCK, 0, 0); /* a process's end reaches the servers a moment later */
        _exit(0);
    }

    waitpid(pid, &status, 0);
}

void went_on(void)
{
    int fd = atoi(getenv("HELD_FD"));

    look("after exec");
    T(lock(fd, F_SETLK, F_UNLCK, 0, 5));
    T(lock(fd, F_SETLK, F_RDLCK, 20, 10));
    look("changed");
    close(open(in("held"), O_RDONLY));
    look("another descriptor was closed");
    T(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    execl(self, self, "gone-on", dir, scratch, NULL);
}

enum {
    COPY = 70
}; /* above what a test is started with */

void gone_on(void)
{
    int fd = open(in("held"), O_RDWR);
    int copy;
    char number[16];

    look("closed by exec");
    snprintf(number, sizeof number, "%d", fd);
    setenv("HELD_FD", number, 1);
    T(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    copy = fcntl(fd, F_DUPFD_CLOEXEC, COPY);
    T(copy);
    look("held");
    execl(self, self, "copy-gone", dir, scratch, NULL);
}

void copy_gone(void)
{
    int fd = atoi(getenv("HELD_FD"));

    look("copy closed by exec");
    T(fcntl(COPY, F_GETFD));
    T(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    T(open(in("held"), O_RDONLY | O_CLOEXEC) >= 0);
    look("held");
    execl(self, self, "other-gone", dir, scratch, NULL);
}

void other_gone(void)
{
    int fd = atoi(getenv("HELD_FD"));

    look("other descriptor closed by exec");
    T(lock(fd, F_SETLK, F_WRLCK, 0, 10));
    execl(self, self, "still-held", dir, scratch, NULL);
}

void still_held(void)
{
    look("nothing closed by exec");
}

void locked(void)
{
    int status;
    int fd = open(in("held"), O_RDWR | O_CREAT, 0600);
    char number[16];

    T(write(fd, "held", 4));

    pid_t pid = fork();

    if (pid == 0) {
        T(lock(fd, F_SETLK, F_WRLCK, 0, 10));
        snprintf(number, sizeof number, "%d", fd);
        setenv("HELD_FD", number, 1);
        look("before");
        execl(self, self, "went-on", dir, scratch, NULL);
        _exit(3);
    }

    T(waitpid(pid, &status, 0) == pid && status == 0);
    T(lock(fd, F_SETLK, F_WRLCK, 0, 10)); /* it has ended */
    close(fd);

    int denied = 0;

    /* what a process had locked is free when its parent has waited for it */
    for (int i = 0; i < 100; i++) {
        if ((pid = fork()) == 0) {
            fd = open(in("held"), O_RDWR);
            _exit(lock(fd, F_SETLK, F_WRLCK, 0, 10) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0);
        }

        denied += waitpid(pid, &status, 0) != pid || status != 0;
        fd = open(in("held"), O_RDWR);
        denied += lock(fd, F_SETLK, F_WRLCK, 0, 10) != 0;
        denied += flock(fd, LOCK_EX | LOCK_NB) != 0;
        close(fd);
    }

    T(denied);
}

void held_by(void)
{
    char go[PATH_MAX], done[PATH_MAX];
    pid_t pid = getpid();
    int fd = open(in("held"), O_RDWR | O_CREAT, 0600);

    snprintf(go, sizeof go, "%s/go", scratch);
    snprintf(done, sizeof done, "%s/done", scratch);

    if (strcmp(getenv("AMPHORA_RANK"), "0") == 0) {
        if (lock(fd, F_SETLK, F_WRLCK, 10, 20) != 0 ||
            write(open(go, O_WRONLY), &pid, sizeof pid) != sizeof pid)
            exit(3);

        close(open(done, O_RDONLY)); /* until the other has looked */
        return;
    }

    if (read(open(go, O_RDONLY), &pid, sizeof pid) != sizeof pid)
        exit(4);

    for (int i = 0; i < 2; i++) {
        struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
        int r = fcntl(fd, i ? F_OFD_GETLK : F_GETLK, &l);

        printf("held by the other: %d %d %d from %ld, %ld bytes\n", r, l.l_type == F_WRLCK,
               l.l_pid == pid, (long)l.l_start, (long)l.l_len);
    }

    close(open(done, O_WRONLY));
}

/* ---- many ranges of a file, by two processes ---- */

#define RANGES 120

static int from_to[2], to_from[2];

static void pass(int *pipe)
{
    (void)!write(pipe[1], "x", 1);
}

static void await(int *pipe)
{
    char byte;

    (void)!read(pipe[0], &byte, 1);
}

/* A lock of each form: type, whence, and a length that is positive, to the end or negative. */
static struct flock form(int k)
{
    static const off_t lengths[] = { 5, 0, -5 };
    static const short whences[] = { SEEK_SET, SEEK_CUR, SEEK_END };
    struct flock l = { .l_type = k & 1 ? F_WRLCK : F_RDLCK,
                       .l_whence = whences[k / 2 % 3],
                       .l_len = lengths[k / 6 % 3] };
    off_t at = 20 + k % 7 * 10;

    l.l_start = l.l_whence == SEEK_SET ? at : at - 50; /* offset 50, size 100 */
    if (l.l_whence == SEEK_END)
        l.l_start -= 50;

    return l;
}

/* Tries every byte around the parent's lock, for reading and for writing. */
static void try_all(int fd)
{
    char seen[2][101] = { "", "" };

    for (int k = 0; k < 2; k++)
        for (int at = 0; at < 100; at += 5) {
            int r = lock(fd, F_SETLK, k ? F_WRLCK : F_RDLCK, at, 1);

            strcat(seen[k], r == 0 ? "." : "x");
            if (r == 0)
                lock(fd, F_SETLK, F_UNLCK, at, 1);
        }

    printf("%s %s\n", seen[0], seen[1]);
    fflush(stdout);
}

static void child_of_ranges(int fd)
{
    for (int k = 0; k < RANGES; k++) {
        await(from_to);
        try_all(fd);
        pass(to_from);

        /* waits until the parent has unlocked */
        printf("%d waited: %d\n", k, lock(fd, F_SETLKW, F_WRLCK, 0, 0));
        fflush(stdout);
        lock(fd, F_SETLK, F_UNLCK, 0, 0);
        pass(to_from);
    }

    _exit(0);
}

void ranges(void)
{
    int fd = open(in("held"), O_RDWR | O_CREAT, 0600);

    T(write(fd, "x", 1));
    T(ftruncate(fd, 100));
    if (pipe(from_to) != 0 || pipe(to_from) != 0)
        return;

    pid_t pid = fork();

    if (pid == 0)
        child_of_ranges(open(in("held"), O_RDWR));

    for (int k = 0; k < RANGES; k++) {
        struct flock l = form(k);

        lseek(fd, 50, SEEK_SET);
        T(fcntl(fd, F_SETLK, &l));
        pass(from_to);
        await(to_from);
        l.l_type = F_UNLCK;

        int r = fcntl(fd, F_SETLK, &l);

        await(to_from);
        printf("unlocked: %d\n", r);
        fflush(stdout);
    }

    waitpid(pid, NULL, 0);

    /* a thousand ranges held at once, then every second one given back */
    int held = 0;

    for (int k = 0; k < 1000; k++)
        held += lock(fd, F_SETLK, F_WRLCK, 10 * k, 5) == 0;

    for (int k = 0; k < 1000; k += 2)
        held -= lock(fd, F_SETLK, F_UNLCK, 10 * k, 5) == 0;

    printf("%d held\n", held);
    fflush(stdout);
    if (fork() == 0) {
        int taken = 0;

        for (int k = 0; k < 1000; k++)
            taken += lock(fd, F_SETLK, F_WRLCK, 10 * k + 2, 1) == 0;

        printf("%d free\n", taken);
        fflush(stdout);
        _exit(0);
    }

    wait(NULL);
    T(close(fd));
}

/* ---- many locked files of one process ---- */

enum {
    FILES = 24,
    TURNS = 4,
    BYTES = 100,
    LATE_US = 8000 /* servers look for what has changed every 10 ms, also if nothing wakes them */
};

static long microseconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The server's threads that hold a client's locks have its files in descriptor tables of their own: what
 * wakes the server must not be written to one of these.  Each pause lets the server go to sleep. */
void many_files(void)
{
    int fd[FILES], late = 0, changed = 0;
    char name[16], bytes[BYTES + 1], got[BYTES + 1];

    memset(bytes, 'x', BYTES);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "locked-%d", i);
        fd[i] = open(in(name), O_RDWR | O_CREAT, 0600);
        T(fd[i] >= 0 && write(fd[i], bytes, BYTES) == BYTES && lseek(fd[i], 0, SEEK_SET) == 0);
    }

    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < FILES; i++) {
            usleep(3000);

            long begin = microseconds();

            T(lock(fd[i], F_SETLKW, turn % 2 ? F_UNLCK : F_WRLCK, 0, 0));
            late += microseconds() - begin > LATE_US;
        }

    for (int i = 0; i < FILES; i++)
        changed += pread(fd[i], got, sizeof got, 0) != BYTES || memcmp(got, bytes, BYTES) != 0;

    printf("changed files: %d\n", changed);
    printf("most calls are answered at once: %s\n", late < FILES * TURNS / 2 ? "yes" : "no");
}
