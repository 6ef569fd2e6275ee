/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_budget PART DIRECTORY: how a server with few descriptors divides them among its clients; see
 * fwd_budget.sh.
 *   lone N       one client opens at least N files before it is refused
 *   busy N       three clients open all they can at the same time, N in all; then each is served,
 *   and so are new programs
 *   inherited    a child of a client that holds all it may opens files of its own
 *   many         clients that each open a few files, until the server keeps the rest
 *   clients      as many processes as it takes until one is refused
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUSY 3
#define MANY 24
#define CLIENTS 120

static long number;

static void must(bool ok, const char *what)
{
    if (ok)
        return;

    printf("not so: %s (%s)\n", what, strerrorname_np(errno));
    exit(1);
}

/* Opens files until there are no more.  How many; *err_p: why no more. */
static int open_all(int *last_p, int *err_p)
{
    int n = 0;
    int fd;

    while ((fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600)) >= 0) {
        *last_p = fd;
        n++;
    }

    *err_p = errno;
    return n;
}

static void new_programs(void)
{
    must(system("for i in 1 2 3 4 5; do echo x >h$i && cat h$i; done | wc -l | grep -qx 5") == 0,
         "new programs are served");
}

static void lone(void)
{
    int last = -1;
    int err;
    int n = open_all(&last, &err);

    printf("# %d files, then %s\n", n, strerrorname_np(err));
    must(n >= number, "a lone client gets all but the reserve");
    must(err == EMFILE, "then EMFILE");
    new_programs();
    must(close(last) == 0 && (last = open("f", O_RDWR)) >= 0, "one closed, one more");
}

/* A process of busy(): a byte when it has all it gets, and from then on a byte tells it to go
 * on. */
static void busy_client(int i, int out, int in)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1 };
    int last = -1;
    int err;
    int n = open_all(&last, &err);
    char byte = 0;

    must(write(out, &n, sizeof n) == sizeof n && read(in, &byte, 1) == 1, "the others");
    must(n >= 4 && (err == EMFILE || err == ENFILE), "each gets some files, then EMFILE or ENFILE");
    must(pwrite(last, "x", 1, i) == 1 && pread(last, &byte, 1, i) == 1 && byte == 'x',
         "what is open works");
    must(fcntl(last, F_SETLK, &lock) == 0, "a record lock");
    must(close(last) == 0, "close");
    exit(0);
}

static void busy(void)
{
    int out[2], in[2];
    int sum = 0;
    int status, n;

    must(pipe2(out, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0, "pipes");
    for (int i = 0; i < BUSY; i++)
        if (fork() == 0)
            busy_client(i, out[1], in[0]);

    close(out[1]);
    for (int i = 0; i < BUSY; i++, sum += n)
        must(read(out[0], &n, sizeof n) == sizeof n, "a client has all that it gets");

    printf("# %d files in all\n", sum);
    must(sum >= number, "together they get all but the reserve");
    new_programs();
    must(write(in[1], "...", BUSY) == BUSY, "on");
    for (int i = 0; i < BUSY; i++)
        must(wait(&status) > 0 && status == 0, "a busy client");
}

static void inherited(void)
{
    int last = -1;
    int err, status;
    int n = open_all(&last, &err);

    must(n > 20 && err == EMFILE, "many files, then EMFILE");
    if (fork() == 0) {
        for (int i = 0; i < 3; i++)
            must(open("g", O_CREAT | O_RDWR, 0600) >= 0,
                 "a child's own files, beside those of its parent");

        exit(0);
    }

    must(wait(&status) > 0 && status == 0, "the child");
    must(open("f", O_RDWR) < 0 && errno == EMFILE, "the parent still has its share");
}

/* A process of many() and clients(): opens at most `most` files, sends the error of the first that
 * it does not get, or 0, and stays. */
static void one_of_many(int most, int out)
{
    int err = 0;

    if (access(".", F_OK) != 0)
        err = errno;

    for (int i = 0; i < most && !err; i++)
        if (open("f", O_CREAT | O_RDWR, 0600) < 0)
            err = errno;

    must(write(out, &err, sizeof err) == sizeof err, "the answer");
    pause();
}

/* Starts such processes until one has a certain error.  How many there were; -1: none had it. */
static int start_until(int processes, int most, int wanted)
{
    pid_t pid[CLIENTS];
    int out[2];
    int err = 0;
    int n = 0;

    must(processes <= CLIENTS && pipe2(out, O_CLOEXEC) == 0, "a pipe");
    while (n < processes && err != wanted) {
        pid[n] = fork();
        must(pid[n] >= 0, "fork");
        if (pid[n++] == 0)
            one_of_many(most, out[1]);

        must(read(out[0], &err, sizeof err) == sizeof err, "an answer");
    }

    for (int i = 0; i < n; i++)
        must(kill(pid[i], SIGKILL) == 0 && waitpid(pid[i], NULL, 0) == pid[i],
             "the end of a process");

    return err == wanted ? n : -1;
}

static void many(void)
{
    int n = start_until(MANY, 1000, ENFILE);

    printf("# %d clients\n", n);
    must(n > 2, "ENFILE after some clients that had their share");
    new_programs();
}

static void clients(void)
{
    int n = start_until(CLIENTS, 0, ENFILE);

    printf("# %d clients\n", n);
    must(n > 20, "a process is refused after many others");
    new_programs();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
        bool has_number;
    } parts[] = { { "lone", lone, true },
                  { "busy", busy, true },
                  { "inherited", inherited, false },
                  { "many", many, false },
                  { "clients", clients, false } };

    setvbuf(stdout, NULL, _IOLBF, 0);

    for (size_t i = 0; argc > 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0)
            continue;

        if (parts[i].has_number)
            number = atol(argv[2]);

        must(argc > 2 + parts[i].has_number && chdir(argv[2 + parts[i].has_number]) == 0, "chdir");
        parts[i].fn();
        puts("done");
        return 0;
    }

    return 2;
}
