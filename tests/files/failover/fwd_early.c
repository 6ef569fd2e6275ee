/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server is killed while its job starts (fwd_early.sh).
 *
 *   fwd_early server ...                the job's server program; EARLY_VICTIM names the server that
 *                                       dies EARLY_US microseconds after its start;
 *                                       with EARLY_AGENT=1, its host's agent does
 *   fwd_early plain|joined DIR MS|FILE [eio]
 *                                       works with files in DIR until MS milliseconds after its
 *                                       start, or until FILE exists; joined: as a GASNet client
 *
 * Each call gives what a local file would give; with the word eio it may give EIO instead.  Only
 * calls that may be made again at the next server are used.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <gasnetex.h>

enum {
    PIECE = 3000,
    PIECES = 12,
    FILES = 4
};

static bool may_fail;
static unsigned long rounds, failed;

/* ---- the server ---- */

/* In a child, which must not outlive the server. */
static void kill_later(pid_t server, pid_t target, long delay_us)
{
    struct timespec delay = { .tv_sec = delay_us / 1000000, .tv_nsec = delay_us % 1000000 * 1000 };

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == server && nanosleep(&delay, NULL) == 0 && getppid() == server)
        kill(target, SIGKILL);

    _exit(0);
}

static int be_server(char **argv)
{
    const char *rank = getenv("AMPHORA_RANK");
    const char *victim = getenv("EARLY_VICTIM");
    const char *delay = getenv("EARLY_US");
    char *program = getenv("EARLY_PROGRAM");

    if (!rank || !victim || !delay || !program) {
        fprintf(stderr, "fwd_early: the settings of the test are missing\n");
        return 1;
    }

    if (strcmp(rank, victim) == 0) {
        pid_t server = getpid();
        pid_t target = getenv("EARLY_AGENT") ? getppid() : server;

        if (atol(delay) == 0)
            kill(target, SIGKILL);

        if (fork() == 0)
            kill_later(server, target, atol(delay));
    }

    argv[0] = program;
    execv(program, argv);
    fprintf(stderr, "fwd_early: %s cannot be started: %m\n", program);
    return 1;
}

/* ---- the client ---- */

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* false: the call gave EIO, which is allowed. */
static bool right(bool ok, const char *what)
{
    int err = errno;

    if (ok)
        return true;

    if (may_fail && err == EIO) {
        failed++;
        return false;
    }

    fprintf(stderr, "fwd_early: round %lu: %s: %s\n", rounds, what, strerrorname_np(err));
    exit(3);
}

static void fill(uint8_t *piece, unsigned long round, unsigned number)
{
    for (unsigned i = 0; i < PIECE; i++)
        piece[i] = (uint8_t)(round * 31 + number * 7 + i);
}

static bool write_file(int fd)
{
    static uint8_t piece[PIECE];

    for (unsigned k = 0; k < PIECES; k++) {
        fill(piece, rounds, k);

        ssize_t n = k % 2 ? write(fd, piece, PIECE) : pwrite(fd, piece, PIECE, (off_t)k * PIECE);

        if (!right(n == PIECE, k % 2 ? "write" : "pwrite"))
            return false;

        off_t next = (off_t)(k + 1) * PIECE;

        if (!right(lseek(fd, next, SEEK_SET) == next, "lseek"))
            return false;
    }

    return true;
}

static bool read_file(int fd)
{
    static uint8_t piece[PIECE], wanted[PIECE];
    struct stat st;

    if (!right(fstat(fd, &st) == 0, "fstat"))
        return false;

    errno = EBADMSG;
    if (!right(st.st_size == (off_t)PIECE * PIECES, "the size"))
        return false;

    for (unsigned k = 0; k < PIECES; k++) {
        fill(wanted, rounds, k);
        if (!right(read(fd, piece, PIECE) == PIECE, "read"))
            return false;

        errno = EBADMSG;
        (void)right(memcmp(piece, wanted, PIECE) == 0, "the contents");
    }

    return true;
}

static void one_round(const char *directory, const char *rank)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/early-%s-%lu", directory, rank, rounds % FILES);

    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (!right(fd >= 0, "open"))
        return;

    bool written = write_file(fd);

    (void)right(close(fd) == 0, "close");
    fd = written ? open(path, O_RDONLY) : -1;
    if (!written || !right(fd >= 0, "open again"))
        return;

    (void)read_file(fd);
    (void)right(close(fd) == 0, "close again");
}

static bool is_over(const char *file, double until)
{
    return file[0] == '/' ? access(file, F_OK) == 0 : now_s() >= until;
}

/* end: milliseconds, or the path of a file. */
static int work(const char *directory, const char *end)
{
    const char *rank = getenv("AMPHORA_RANK");
    double until = now_s() + atof(end) / 1000;

    do {
        one_round(directory, rank ? rank : "none");
        rounds++;
        if (failed)
            usleep(5000); /* a server that is gone gives its errors at once */
    } while (!is_over(end, until));

    printf("%lu rounds, %lu calls gave EIO\n", rounds, failed);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "server") == 0)
        return be_server(argv + 1);

    if (argc < 4) {
        fprintf(stderr, "usage: fwd_early server | plain|joined DIR MS|FILE [eio]\n");
        return 2;
    }

    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;

    may_fail = argc > 4 && strcmp(argv[4], "eio") == 0;
    if (strcmp(argv[1], "joined") == 0 &&
        gex_Client_Init(&client, &ep, &tm, "EARLY", NULL, NULL, 0) != GASNET_OK)
        return 4;

    int code = work(argv[2], argv[3]);

    if (strcmp(argv[1], "joined") == 0)
        gasnet_exit(code);

    return code;
}
