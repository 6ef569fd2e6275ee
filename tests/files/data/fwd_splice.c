/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_splice SECTION DIRECTORY SCRATCH: large writes, whose data a server on the same host takes from
 * a pipe.  Prints what calls gave; fwd_splice.sh runs it in a local directory and in a forwarded one
 * and compares, also the files.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_say.h"

#define MIB ((size_t)1 << 20)
#define SAY(call) say(__LINE__, #call, (long)(call))
enum {
    STEPS = 60,
    WARM = 8,    /* the first large writes use no pipe */
    THREADS = 7, /* more than a client has pipes */
    WRITES = 12,
    LONGEST = 5 << 20
};

static uint8_t *buf; /* LONGEST bytes and a page */

/* Fills memory with bytes that show which write they belong to. */
static void fill(uint8_t *at, size_t len, unsigned mark)
{
    uint64_t x = mark * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (; len >= sizeof x; at += sizeof x, len -= sizeof x) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
        memcpy(at, &x, sizeof x);
    }

    memcpy(at, &x, len);
}

static int make(const char *name, int flags)
{
    int fd = open(in(name), O_RDWR | O_CREAT | flags, 0600);

    if (fd < 0)
        fail("open", fd, 0);

    return fd;
}

/* Makes the client use pipes. */
static void warm_up(void)
{
    int fd = make("warm", O_TRUNC);

    for (int i = 0; i < WARM; i++) {
        fill(buf, MIB, (unsigned)i);
        IS(pwrite(fd, buf, MIB, 0), MIB);
    }

    close(fd);
}

/* ---- data ---- */

/* Sizes and alignments of all kinds; the buffer is used again as soon as the call has returned. */
static void write_random(void)
{
    static const size_t sizes[] = { 256 << 10,    512 << 10, MIB - 1,
                                    MIB,          MIB + 1,   MIB + 4095,
                                    3 * MIB + 17, 4 * MIB,   (256 << 10) - 1 };
    int fd = make("random", O_TRUNC);
    unsigned dice = 1;

    for (step = 0; step < STEPS; step++) {
        size_t len = sizes[rand_r(&dice) % (sizeof sizes / sizeof *sizes)];
        uint8_t *at = buf + (rand_r(&dice) % 2 ? 0 : rand_r(&dice) % 4096);
        long off = rand_r(&dice) % (8 << 20);

        fill(at, len, (unsigned)step);
        if (step % 3) {
            IS(pwrite(fd, at, len, off), len);
        } else {
            IS(lseek(fd, off, SEEK_SET), off);
            IS(write(fd, at, len), len);
            IS(lseek(fd, 0, SEEK_CUR), off + (long)len);
        }

        memset(at, 0xee, len);
    }

    close(fd);
}

/* What a server cannot splice to, or does not. */
static void write_special(const char *scratch)
{
    char name[4096];
    int fd = make("appended", O_TRUNC | O_APPEND);

    fill(buf, 2 * MIB, 100);
    SAY(write(fd, buf, MIB));
    SAY(pwrite(fd, buf + 5, 2 * MIB - 5, 0));
    SAY(fcntl(fd, F_SETFL, 0));
    SAY(pwrite(fd, buf + MIB, MIB, 7));
    SAY(fcntl(fd, F_SETFL, O_APPEND));
    SAY(write(fd, buf, MIB));
    close(fd);

    fd = make("synced", O_TRUNC | O_SYNC);
    SAY(write(fd, buf, MIB));
    SAY(pwrite(fd, buf, MIB, -1));

    struct iovec two[2] = { { buf, 600 << 10 }, { buf + MIB, 700 << 10 } };

    SAY(pwritev(fd, two, 2, 3 * MIB));
    SAY(pwritev2(fd, two, 2, MIB / 2, RWF_DSYNC));
    SAY(pwritev2(fd, two, 2, MIB / 2, RWF_APPEND));
    close(fd);

    fd = open(in("synced"), O_RDONLY);
    SAY(write(fd, buf, MIB));
    close(fd);
    SAY(write(fd, buf, MIB));

    /* memory of other kinds: never touched; of a local file, private and shared */
    fd = make("memory", O_TRUNC);
    snprintf(name, sizeof name, "%s/memory", scratch);

    int local = open(name, O_RDWR | O_CREAT, 0600);

    IS(write(local, buf, 2 * MIB), 2 * MIB);

    void *none = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *own = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, local, 0);
    uint8_t *shared = mmap(NULL, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, local, 0);

    own[MIB + 3] ^= 1;
    SAY(write(fd, none, MIB));
    SAY(write(fd, own, 2 * MIB));
    shared[5] ^= 1;
    SAY(write(fd, shared + 1, 2 * MIB - 1));
    munmap(own, 2 * MIB);
    close(local);
    close(fd);
}

static void *write_thread(void *arg)
{
    int number = *(const int *)arg;
    char name[32];
    uint8_t *mine = malloc(2 * MIB);

    snprintf(name, sizeof name, "thread%d", number);

    int fd = make(name, O_TRUNC);

    for (int i = 0; i < WRITES; i++) {
        size_t len = MIB + (size_t)(i * 1000 + number);

        fill(mine, len, (unsigned)(number * 1000 + i));
        IS(pwrite(fd, mine, len, i * 700000L), len);
    }

    close(fd);
    free(mine);
    return NULL;
}

static void write_threads(void)
{
    pthread_t thread[THREADS];
    int number[THREADS];

    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        IS(pthread_create(&thread[i], NULL, write_thread, &number[i]), 0);
    }

    for (int i = 0; i < THREADS; i++)
        IS(pthread_join(thread[i], NULL), 0);
}

/* Parent and children write at the same time: a child may not use its parent's pipes. */
static void write_forked(void)
{
    int fd = make("forked", O_TRUNC);
    int st;

    for (int c = 0; c < 3; c++)
        if (fork() == 0) {
            for (int i = 0; i < WRITES; i++) {
                fill(buf, MIB, (unsigned)(7000 + 100 * c + i));
                IS(pwrite(fd, buf, MIB, (long)((size_t)c * WRITES + (size_t)i) * (long)MIB), MIB);
            }

            _exit(0);
        }

    for (int i = 0; i < WRITES; i++) {
        fill(buf, MIB, (unsigned)(9000 + i));
        IS(pwrite(fd, buf, MIB, (3L * WRITES + i) * (long)MIB), MIB);
    }

    while (wait(&st) > 0)
        IS(st, 0);

    close(fd);
}

static void nothing(int sig)
{
    (void)sig;
}

static void write_in_signals(void)
{
    struct sigaction sa = { .sa_handler = nothing };
    struct itimerval often = { { 0, 700 }, { 0, 700 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    int fd = make("signals", O_TRUNC);

    sigaction(SIGALRM, &sa, NULL);
    fill(buf, 2 * MIB, 77);
    setitimer(ITIMER_REAL, &often, NULL);

    for (int i = 0; i < 10 * WRITES; i++)
        IS(pwrite(fd, buf + i, MIB, i * 50000L), MIB);

    setitimer(ITIMER_REAL, &never, NULL);
    close(fd);
}

/* A program that closes whatever it has not opened itself. */
static void write_after_closing(void)
{
    int fd = make("closed", O_TRUNC);

    IS(dup2(fd, 9), 9);
    for (int other = 3; other < 2000; other++)
        if (other != 9)
            close(other);

    for (int i = 0; i < WRITES; i++) {
        fill(buf, MIB, (unsigned)(600 + i));
        IS(pwrite(9, buf, MIB, i * 999999L), MIB);
    }

    close(9);
}

static void data(const char *scratch)
{
    write_random();
    write_special(scratch);
    write_threads();
    write_forked();
    write_in_signals();
    write_after_closing();
    puts("written");
}

/* ---- errors ---- */

/* Memory that ends in the midst of a write: what is before it is written. */
static void holes(const char *scratch)
{
    int fd = make("holes", O_TRUNC);
    uint8_t *map = mmap(NULL, 5 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)scratch;
    fill(map, 4 * MIB, 5);
    IS(mprotect(map + 4 * MIB, MIB, PROT_NONE), 0); /* whatever is behind would be mapped */
    IS(munmap(map + 3 * MIB, MIB), 0);
    IS(mprotect(map + MIB, MIB, PROT_NONE), 0);

    SAY(pwrite(fd, map, 2 * MIB, 0));
    SAY(pwrite(fd, map + MIB, MIB, 3 * MIB));
    SAY(pwrite(fd, map + MIB / 2, MIB, 4 * MIB));
    SAY(pwrite(fd, map + 2 * MIB, 2 * MIB, 6 * MIB));
    SAY(pwrite(fd, map + 4 * MIB, MIB, 6 * MIB));
    IS(mprotect(map + MIB, MIB, PROT_READ), 0);
    SAY(pwrite(fd, map, 3 * MIB, 9 * MIB));
    fill(buf, MIB, 6);
    SAY(pwrite(fd, buf, MIB, 20 * MIB));
    close(fd);
}

/* A file system of a few MiB gets full, again and again; what did not fit may not appear later. */
static void full(const char *scratch)
{
    int fd = make("full", O_TRUNC);

    (void)scratch;
    for (int round = 0; round < 4; round++) {
        long n = 1;
        long off = round;

        for (int i = 0; n > 0; i++) {
            size_t len = round % 2 ? 3 * MIB / 2 + 77 : MIB;

            fill(buf, len, (unsigned)(round * 100 + i));
            n = SAY(round == 3 ? write(fd, buf, len) : pwrite(fd, buf, len, off));
            off += n > 0 ? n : 0;
        }

        SAY(ftruncate(fd, 700001));
        fill(buf, MIB, (unsigned)(1000 + round));
        SAY(pwrite(fd, buf, MIB, 0));
        SAY(lseek(fd, 0, SEEK_END));
    }

    close(fd);
}

/* Writes come short or fail in their midst (splice_fault.c), and are repeated until all is written. */
static void retry(const char *scratch)
{
    int fd = make("retry", O_TRUNC);

    (void)scratch;
    for (int i = 0; i < 40; i++) {
        size_t len = i % 2 ? 3 * MIB / 2 : 4 * MIB + 5;
        size_t done = 0;

        fill(buf, len, (unsigned)i);
        while (done < len) {
            long n = pwrite(fd, buf + done, len - done, i * 654321L + (long)done);

            if (n < 0)
                IS(errno, EDQUOT);

            done += n > 0 ? (size_t)n : 0;
        }
    }

    close(fd);
    puts("written");
}

/* ---- ends ---- */

/* Writes whole blocks until it is killed. */
static void forever(const char *scratch)
{
    int fd = make("forever", 0);

    (void)scratch;
    puts("begun");
    fflush(stdout);
    for (unsigned i = 0;; i++) {
        memset(buf, (int)(i % 255 + 1), MIB);
        IS(pwrite(fd, buf, MIB, (long)(i % 8) * (long)MIB), MIB);
    }
}

/* While fwd_splice.sh kills its server, which another one takes the place of: no byte is lost. */
static void failover(const char *scratch)
{
    int fd = make("failover", O_TRUNC);
    char name[4096];

    snprintf(name, sizeof name, "%s/half", scratch);
    for (int i = 0; i < 64; i++) {
        fill(buf, MIB, (unsigned)i);
        IS(i % 2 ? pwrite(fd, buf, MIB, i * (long)MIB) : write(fd, buf, MIB), MIB);
        IS(lseek(fd, (i + 1) * (long)MIB, SEEK_SET), (i + 1) * (long)MIB);
        if (i == 20)
            close(open(name, O_CREAT | O_WRONLY, 0600));
        if (i >= 20)
            usleep(20000);
    }

    close(fd);
    puts("written");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *scratch);
    } sections[] = { { "data", data },   { "holes", holes },     { "full", full },
                     { "retry", retry }, { "forever", forever }, { "failover", failover } };

    if (argc < 4)
        return 2;

    dir = argv[2];
    buf = mmap(NULL, LONGEST + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buf == MAP_FAILED)
        return 2;

    if (strcmp(argv[1], "full") != 0 && strcmp(argv[1], "retry") != 0)
        warm_up();

    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (strcmp(sections[i].name, argv[1]) == 0) {
            sections[i].run(argv[3]);
            return 0;
        }

    return 2;
}
