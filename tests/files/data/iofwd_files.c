/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd.h's files by name, collected and non-blocking calls: contents are compared with a model; a
 * hundred operations are under way at a time and are waited for in another order; a forked child
 * goes on by itself.   iofwd_files SEED   (odd: nothing is preloaded)
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_bare.h"
#include "tests/files/fwd_is.h"

enum {
    PARTS = 100,
    PART_BYTES = 30000
};

static uint8_t model[PARTS][PART_BYTES], back[PARTS][PART_BYTES];

static const char *in(const char *name)
{
    static char buf[4][96];
    static unsigned next;
    char *p = buf[next++ % 4];

    snprintf(p, sizeof buf[0], "/fwd/%d.%s", (int)getpid(), name);
    return p;
}

static void plain(void)
{
    iofwd_file_t *f;
    struct stat st;
    off_t pos;
    size_t n;
    char text[20];

    IS(iofwd_open("relative", O_RDWR, 0, &f), EINVAL);
    IS(iofwd_open(in("none"), O_RDWR, 0, &f), ENOENT);
    IS(iofwd_mkdir(in("dir"), 0700), 0);
    IS(iofwd_mkdir(in("dir"), 0700), EEXIST);
    IS(iofwd_open(in("a"), O_RDWR | O_CREAT | O_EXCL, 0640, &f), 0);
    IS(iofwd_write(f, "hello", 5, &n), 0);
    IS(n, 5);
    IS(iofwd_pwrite(f, "J", 1, 0, &n), 0);
    IS(iofwd_lseek(f, 0, SEEK_SET, &pos), 0);
    IS(iofwd_read(f, text, sizeof text, &n), 0);
    IS(n == 5 && memcmp(text, "Jello", 5) == 0, 1);
    IS(iofwd_pread(f, text, 2, 3, &n), 0);
    IS(n == 2 && memcmp(text, "lo", 2) == 0, 1);
    IS(iofwd_pread(f, text, 2, -1, &n), EINVAL);
    IS(iofwd_ftruncate(f, 100), 0);
    IS(iofwd_fsync(f), 0);
    IS(iofwd_fstat(f, &st), 0);
    IS(st.st_size, 100);
    IS(iofwd_close(f), 0);
    IS(iofwd_rename(in("a"), in("b")), 0);
    IS(iofwd_stat(in("a"), &st), ENOENT);
    IS(iofwd_stat(in("b"), &st), 0);
    IS(st.st_mode & 07777, 0640);
    IS(iofwd_unlink(in("b")), 0);
}

static void collected(void)
{
    iofwd_file_t *f;
    struct stat st;
    size_t n;
    char c;

    IS(iofwd_open(in("c"), O_RDWR | O_CREAT, 0600, &f), 0);
    IS(iofwd_file_write_prep(f, 1000, 1000), 0);

    for (int i = 0; i < 1000; i++) {
        c = (char)i;
        IS(iofwd_write(f, &c, 1, &n), 0);
        IS(n, 1);
    }

    IS(iofwd_stat(in("c"), &st), 0);
    IS(st.st_size, 1000);
    IS(iofwd_file_read_prep(f, 1000, 1000), 0);

    for (int i = 0; i < 1000; i++) {
        IS(iofwd_pread(f, &c, 1, i, &n), 0);
        IS(n == 1 && c == (char)i, 1);
    }

    struct iofwd_stats s;

    IS(iofwd_stats(IOFWD_NONE, &s), 0);
    if (s.calls > 200)
        fail("calls at the server for 2000 collected ones", (long)s.calls, 200);

    IS(iofwd_close(f), 0);
}

static void start_all(iofwd_file_t *f, bool write, iofwd_op_t op[PARTS])
{
    for (int i = 0; i < PARTS; i++) {
        int p = i * 37 % PARTS;

        IS(write ? iofwd_pwrite_nb(f, model[p], PART_BYTES, (off_t)p * PART_BYTES, &op[i])
                 : iofwd_pread_nb(f, back[p], PART_BYTES, (off_t)p * PART_BYTES, &op[i]),
           0);
    }
}

static void wait_all(iofwd_op_t op[PARTS])
{
    struct iofwd_result r;

    for (int i = PARTS; i-- > 0;) {
        IS(iofwd_wait(&op[i], i % 2 ? -1 : 50, &r), 0);
        IS(r.error, 0);
        IS(r.bytes, PART_BYTES);
        IS(r.seconds > 0 && r.bytes_per_second > 0, 1);
        IS(op[i] == IOFWD_OP_NONE, 1);
        IS(iofwd_wait(&op[i], 0, &r), EINVAL);
    }
}

static void non_blocking(void)
{
    iofwd_file_t *f;
    iofwd_op_t op[PARTS];
    struct iofwd_result r;

    IS(iofwd_open(in("n"), O_RDWR | O_CREAT, 0600, &f), 0);
    start_all(f, true, op);
    wait_all(op);
    start_all(f, false, op);
    wait_all(op);
    IS(memcmp(model, back, sizeof model), 0);

    /* The end of the file ends a read early; beyond it there is nothing. */
    IS(iofwd_pread_nb(f, back, PART_BYTES, (off_t)sizeof model - 100, &op[0]), 0);
    IS(iofwd_wait(&op[0], -1, &r), 0);
    IS(r.error == 0 && r.bytes == 100, 1);
    IS(iofwd_pread_nb(f, back, PART_BYTES, -1, &op[0]), EINVAL);
    IS(iofwd_close(f), 0);
    IS(iofwd_open(in("n"), O_RDONLY, 0, &f), 0);
    IS(iofwd_pwrite_nb(f, model, 10, 0, &op[0]), 0);
    while (iofwd_test(&op[0], &r) == ETIMEDOUT)
        usleep(100);

    IS(r.error, EBADF);
    IS(iofwd_close(f), 0);
}

/* What has not begun can be called off. */
static void cancelling(void)
{
    enum {
        MANY = 6
    };

    iofwd_file_t *f;
    iofwd_op_t op[MANY];
    struct iofwd_result r;
    int called_off = 0;

    IS(iofwd_open(in("x"), O_RDWR | O_CREAT, 0600, &f), 0);
    for (int i = 0; i < MANY; i++)
        IS(iofwd_pwrite_nb(f, model, sizeof model, 0, &op[i]), 0);

    for (int i = MANY; i-- > 0;)
        called_off += iofwd_cancel(op[i]) == 0;

    for (int i = 0; i < MANY; i++) {
        IS(iofwd_wait(&op[i], -1, &r), 0);
        called_off -= r.error == ECANCELED;
        IS(r.error == ECANCELED || (r.error == 0 && r.bytes == sizeof model), 1);
    }

    IS(called_off, 0);
    IS(iofwd_close(f), 0);
}

/* One open file that this process opens by its name, too, and again: the last that is closed ends
 * it, in whatever order. */
static void by_own_name(void)
{
    enum {
        TIMES = 3
    };

    static const int orders[][TIMES] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 2, 0, 1 } };
    struct iofwd_stats before[2], now;
    uint32_t first;
    char name[IOFWD_NAME_BYTES];
    size_t n;

    IS(iofwd_servers(&first, 1) > 0, 1);
    first -= iofwd_stats(first - 1, before) == 0; /* of two */

    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++) {
        iofwd_file_t *f[TIMES], *gone;

        for (uint32_t s = first; s < first + 2; s++)
            IS(iofwd_stats(s, &before[s - first]), 0);

        IS(iofwd_open(in("own"), O_RDWR | O_CREAT, 0600, &f[0]), 0);
        IS(iofwd_name(f[0], name), 0);
        for (int i = 1; i < TIMES; i++)
            IS(iofwd_open_name(name, &f[i]), 0);

        for (int i = 0; i < TIMES; i++) {
            IS(iofwd_pwrite(f[orders[o][TIMES - 1]], "x", 1, i, &n), 0);
            IS(iofwd_close(f[orders[o][i]]), 0);
        }

        for (uint32_t s = first; s < first + 2; s++)
            if (iofwd_stats(s, &now) == 0 && before[s - first].clients == 1 && now.clients == 1)
                IS(now.open_files, before[s - first].open_files);

        IS(iofwd_open_name(name, &gone), EBADF);
    }
}

static void arguments(void)
{
    iofwd_file_t *f;
    iofwd_op_t op;
    struct iofwd_stats s;
    struct iofwd_result r;
    off_t pos;

    IS(iofwd_open(in("arguments"), O_RDWR | O_CREAT, 0600, &f), 0);
    IS(iofwd_lseek(f, 5, SEEK_SET, NULL), 0);
    IS(iofwd_lseek(f, 0, SEEK_CUR, &pos), 0);
    IS(pos, 5);
    IS(iofwd_stats(12345678, &s), EINVAL);
    IS(iofwd_pwrite_nb(f, model, 10, 0, &op), 0);
    IS(iofwd_wait(&op, __builtin_nan(""), &r), EINVAL);
    IS(iofwd_wait(&op, -1, &r), 0);
    IS(r.error == 0 && r.bytes == 10, 1);
    IS(iofwd_close(f), 0);
}

/* A forked child has none of its parent's operations: nobody would finish them there. */
static void forked_meanwhile(void)
{
    iofwd_file_t *f;
    iofwd_op_t op[PARTS];
    int status;

    IS(iofwd_open(in("meanwhile"), O_RDWR | O_CREAT, 0600, &f), 0);
    start_all(f, true, op);

    pid_t pid = fork();

    if (pid == 0) {
        struct iofwd_result r;

        for (int i = 0; i < PARTS; i++) {
            IS(iofwd_cancel(op[i]), EBUSY);
            IS(iofwd_wait(&op[i], 5, &r), EINVAL);
        }

        _exit(0);
    }

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    wait_all(op);
    IS(iofwd_close(f), 0);
}

int main(int argc, char **argv)
{
    if (atoi(argv[argc - 1]) % 2)
        without_preload(getenv("LD_PRELOAD"), argv);

    srandom((unsigned)atoi(argv[argc - 1]));
    for (size_t i = 0; i < sizeof model; i++)
        ((uint8_t *)model)[i] = (uint8_t)random();

    plain();
    collected();
    non_blocking();
    cancelling();
    by_own_name();
    arguments();
    forked_meanwhile();

    pid_t pid = fork();

    if (pid == 0) {
        non_blocking();
        _exit(0);
    }

    int status;

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    return 0;
}
