/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large reads, which several threads of a server do together, give what the file has: anywhere in
 * it, at its end, at the descriptor's offset, and while it is cut off and filled again behind the
 * server's back.   fwd_readers FORWARDED LOCAL: two paths of one file
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "tests/files/fwd_is.h"

enum {
    STEPS = 300,
    CUT_STEPS = 300,
    BYTES = (20 << 20) + 12344,
    LONGEST = 8 << 20,
    QUICK_CUTS = 2000
};

static uint64_t filling[BYTES / 8], buf[LONGEST / 8 + 1];
static unsigned dice;
static atomic_bool stop;
static atomic_long aim; /* within what is being read */

static uint64_t word(size_t i)
{
    return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1; /* never 0 */
}

static long least(long a, long b)
{
    return a < b ? a : b;
}

/* A read of n bytes from off on; cut: the file may have been shorter, and have holes where it
 * was. */
static void check(long n, long off, long len, bool cut)
{
    long most = off < BYTES ? least(len, BYTES - off) : 0;

    IS(cut ? n >= 0 && n <= most : n == most, 1);
    for (long i = 0; i < n / 8; i++)
        if (buf[i] != word((size_t)(off / 8 + i)) && !(cut && !buf[i]))
            fail("a word of the file", off + 8 * i, n);
}

static void read_somewhere(int fd, bool cut)
{
    long off = rand_r(&dice) % (BYTES / 8 + 1000) * 8L;
    long len = (200 << 10) + rand_r(&dice) % (LONGEST - (200 << 10));

    memset(buf, 0x5a, sizeof buf);
    atomic_store(&aim, least(off + rand_r(&dice) % len, BYTES) / 8 * 8);
    step++;

    if (step % 2) {
        check(pread(fd, buf, (size_t)len, off), off, len, cut);
        return;
    }

    IS(lseek(fd, off, SEEK_SET), off);

    long n = read(fd, buf, (size_t)len);

    check(n, off, len, cut);
    IS(lseek(fd, 0, SEEK_CUR), off + n);
}

static void *cut_off_and_fill(void *arg)
{
    int fd = *(int *)arg;

    while (!atomic_load(&stop)) {
        /* where there are no pages any more this is a matter of microseconds: within one slice */
        for (int i = 0; i < QUICK_CUTS; i++)
            IS(ftruncate(fd, atomic_load(&aim)) == 0 ? ftruncate(fd, BYTES) : -1, 0);

        IS(pwrite(fd, filling, sizeof filling, 0), sizeof filling);
    }

    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t cutter;

    seed = dice = 7;

    int local = argc == 3 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;

    for (size_t i = 0; i < BYTES / 8; i++)
        filling[i] = word(i);

    IS(pwrite(local, filling, sizeof filling, 0), sizeof filling);

    int fd = open(argv[1], O_RDONLY);

    IS(fd >= 0, 1);
    for (int i = 0; i < STEPS; i++)
        read_somewhere(fd, false);

    IS(pthread_create(&cutter, NULL, cut_off_and_fill, &local), 0);
    for (int i = 0; i < CUT_STEPS; i++)
        read_somewhere(fd, true);

    atomic_store(&stop, true);
    pthread_join(cutter, NULL);
    return 0;
}
