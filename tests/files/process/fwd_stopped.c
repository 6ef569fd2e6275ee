/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_stopped WHAT DIRECTORY KEPT: two processes write at one offset (-on-server-death failover).
 * One has been stopped with its call done by the server, and its answer not taken, when the server
 * dies.  What either is told as written is in the file, once and whole.
 *   alone    the other does nothing: the answer is not lost with the server that sent it
 *            (-on-server-death eio)
 *   after    the other's call was done and answered after it: nobody knows where the next one is to
 *            go, the file is lost
 *   soon     the other finds the server dead, and waits for what the first has been told; it goes
 *            on soon
 *   late     it goes on when the other has long written at another server
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_kill.h"

enum {
    WRITERS = 2,
    CALLS = 2,
    LEN = 1000
};

/* What a writer is told to do and what it has come to, for all to see. */
struct writer {
    pid_t pid;
    _Atomic int asked, begun, told; /* calls */
    ssize_t result[CALLS];
    int error[CALLS];
};

static struct writer *writer;
static char path[4096], kept[4096];
static int fd;

static void must(bool ok, const char *what, long n)
{
    if (ok)
        return;

    fprintf(stderr, "%s: %ld (%s)\n", what, n, strerrorname_np(errno));
    exit(1);
}

static void fill(char *record, int who, int call)
{
    memset(record, '0' + who * CALLS + call, LEN);
    record[LEN - 1] = '\n';
}

static void start_writer(int who)
{
    struct writer *w = &writer[who];
    char record[LEN];
    pid_t pid = fork();

    if (pid != 0) {
        w->pid = pid;
        return;
    }

    must(fsync(fd) == 0, "fsync", who); /* it has come to the server */
    for (atomic_store(&w->told, 0);; atomic_fetch_add(&w->told, 1)) {
        int call = w->told;

        while (atomic_load(&w->asked) == call)
            usleep(200);

        if (call == CALLS)
            _exit(0);

        fill(record, who, call);
        atomic_fetch_add(&w->begun, 1);
        w->result[call] = write(fd, record, LEN);
        w->error[call] = errno;
    }
}

/* Lets it make its next call and comes back when it has begun. */
static void ask(struct writer *w)
{
    int call = atomic_fetch_add(&w->asked, 1);
    while (atomic_load(&w->begun) == call)
        usleep(200);
}

static void wait_told(struct writer *w)
{
    while (atomic_load(&w->told) < w->asked)
        usleep(200);
}

/* It sleeps inside its call, or has done it. */
static void wait_asleep(struct writer *w)
{
    while (process_state(w->pid) != 'S' && atomic_load(&w->told) < w->asked)
        usleep(200);
}

static void stop(pid_t pid)
{
    must(kill(pid, SIGSTOP) == 0, "stop", pid);
    while (process_state(pid) != 'T')
        usleep(200);
}

/* The first one's call is done, and it does not know; the server's process. */
static pid_t strand_first(void)
{
    struct stat st;
    pid_t server = newest_server();

    must(server > 0, "no server found", 0);
    stop(server);
    ask(&writer[0]);
    wait_asleep(&writer[0]); /* its request is under way */
    stop(writer[0].pid);
    must(kill(server, SIGCONT) == 0, "continue", server);
    do
        must(stat(kept, &st) == 0, "the servers' file", 0);
    while (st.st_size < LEN);

    /* a file's calls are answered one after the other: the first one's has been */
    must(fsync(fd) == 0, "fsync", 0);
    must(writer[0].told == 0, "it knows nothing of it", 0);
    return server;
}

static void go_on(void)
{
    must(kill(writer[0].pid, SIGCONT) == 0, "continue", writer[0].pid);
    wait_told(&writer[0]);
}

static void alone(void)
{
    must(kill_and_wait(strand_first()), "kill", 0);
    go_on();
    must(writer[0].result[0] == LEN, "a write that the server has answered", writer[0].result[0]);
}

static void after(void)
{
    pid_t server = strand_first();

    ask(&writer[1]);
    wait_told(&writer[1]);
    must(writer[1].result[0] == LEN, "a write after it", writer[1].result[0]);
    must(kill_and_wait(server), "kill", server);
    ask(&writer[1]);
    wait_told(&writer[1]);
    must(writer[1].result[1] == -1 && writer[1].error[1] == EIO, "a write when nobody knows where",
         writer[1].result[1]);
    go_on();
}

/* It sleeps, which in this call only a process does that waits for another's recovery records, or it has returned. */
static void wait_napping(struct writer *w)
{
    char name[64];
    long number = -1;

    snprintf(name, sizeof name, "/proc/%ld/syscall", (long)w->pid);
    while (number != SYS_clock_nanosleep && atomic_load(&w->told) < w->asked) {
        FILE *f = fopen(name, "r");

        if (!f || (fscanf(f, "%ld", &number) != 1 && ferror(f))) {
            printf("%s cannot be read: %s\n", name, strerror(errno));
            exit(77);
        }

        fclose(f);
    }
}

static void soon(void)
{
    must(kill_and_wait(strand_first()), "kill", 0);
    ask(&writer[1]);
    wait_napping(&writer[1]);
    go_on();
    wait_told(&writer[1]);
    must(writer[1].result[0] == LEN, "a write at another server", writer[1].result[0]);
}

static void late(void)
{
    must(kill_and_wait(strand_first()), "kill", 0);
    ask(&writer[1]);
    wait_told(&writer[1]);
    must(writer[1].result[0] == LEN, "a write at another server", writer[1].result[0]);
    go_on();
    ask(&writer[1]);
    wait_told(&writer[1]);
    must(writer[1].result[1] == LEN, "the next one", writer[1].result[1]);
}

/* Every record that was told as written is in the file once. */
static void check_file(void)
{
    char all[WRITERS * CALLS * LEN + 1], record[LEN];
    int keeper = open(kept, O_RDONLY);
    ssize_t size = keeper < 0 ? -1 : read(keeper, all, sizeof all);

    must(size >= 0 && size % LEN == 0, "length of the servers' file", size);
    for (int who = 0; who < WRITERS; who++)
        for (int call = 0; call < writer[who].told; call++) {
            int times = 0;

            fill(record, who, call);
            for (ssize_t at = 0; at < size; at += LEN)
                times += memcmp(all + at, record, LEN) == 0;

            printf("writer %d call %d: %zd, %d times there\n", who, call, writer[who].result[call],
                   times);
            fflush(stdout);
            must(times == 1 || (times == 0 && writer[who].result[call] < 0),
                 "times that the record is there", times);
        }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } all[] = { { "alone", alone }, { "after", after }, { "soon", soon }, { "late", late } };
    if (argc != 4)
        return 2;

    snprintf(path, sizeof path, "%s/shared", argv[2]);
    snprintf(kept, sizeof kept, "%s/shared", argv[3]);
    writer = mmap(NULL, WRITERS * sizeof *writer, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    must(writer != MAP_FAILED && fd >= 0, "open", fd);

    for (int who = 0; who < WRITERS; who++) {
        writer[who].told = -1;
        start_writer(who);
        while (atomic_load(&writer[who].told) < 0)
            usleep(200);
    }

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(argv[1], all[i].name) == 0)
            all[i].fn();

    check_file();
    for (int who = 0; who < WRITERS; who++)
        must(kill(writer[who].pid, SIGKILL) == 0 && waitpid(writer[who].pid, NULL, 0) > 0, "end",
             who);

    return 0;
}
