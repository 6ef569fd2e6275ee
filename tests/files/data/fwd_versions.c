/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_versions PART DIRECTORY FIFOS: two processes, of which one changes a file and the other,
 * which has read around it and asked for its attributes, must see each change as soon as it hears
 * of it by a local FIFO; see fwd_versions.sh.
 *   data         changes of data: pwrite, write, pwritev, O_APPEND, truncate, O_TRUNC, mmap, holes
 *   attributes   changes that stat and fstat show: names, modes, times, sizes
 *   offset       the reader reads at its file's offset, forks, seeks, shares the descriptor
 *   death        changes by pwrite, while two of three servers are killed (failover)
 *   many BYTES   one process reads BYTES in small pieces, then its threads read one file together
 * TEST_ROUNDS: rounds of each change.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_kill.h"

#define FILE_BYTES 65536
#define PLACE 4096 /* what changes, between what the reader has read */

static const char *dir;
static bool writer;
static int hear_fd, tell_fd;
static long rounds = 200;
static long round_now;
static const char *change_now = "";

static void must_at(int line, bool ok, const char *what)
{
    if (ok)
        return;

    printf("not so: %s (line %d, %s, round %ld, %s)\n", what, line, change_now, round_now,
           strerrorname_np(errno));
    fflush(stdout);
    exit(1);
}

#define MUST(what) must_at(__LINE__, what, #what)

static const char *in(const char *name)
{
    static char buf[4][4096];
    static unsigned next;
    char *p = buf[next++ & 3];

    snprintf(p, sizeof buf[0], "%s/%s", dir, name);
    return p;
}

static void tell(void)
{
    MUST(write(tell_fd, "x", 1) == 1);
}

static void hear(void)
{
    char byte;

    MUST(read(hear_fd, &byte, 1) == 1);
}

/* ---- data ---- */

static int data_fd, append_fd;
static char *mapped;

static void value(char out[8], long i)
{
    snprintf(out, 8, "%07u", (unsigned)i % 10000000);
}

static void by_pwrite(const char *v)
{
    MUST(pwrite(data_fd, v, 8, PLACE) == 8);
}

static void by_write(const char *v)
{
    MUST(lseek(data_fd, PLACE, SEEK_SET) == PLACE);
    MUST(write(data_fd, v, 8) == 8);
}

static void by_pwritev(const char *v)
{
    struct iovec iov[2] = { { (void *)v, 3 }, { (void *)(v + 3), 5 } };

    MUST(pwritev(data_fd, iov, 2, PLACE) == 8);
}

static void by_large_write(const char *v)
{
    static char large[4 << 20];

    memset(large, '.', sizeof large);
    memcpy(large + PLACE, v, 8);
    MUST(pwrite(data_fd, large, sizeof large, 0) == sizeof large);
    MUST(ftruncate(data_fd, FILE_BYTES) == 0);
}

static void by_map(const char *v)
{
    memcpy(mapped + PLACE, v, 8);
    MUST(msync(mapped, FILE_BYTES, MS_SYNC) == 0);
}

static void by_new_descriptor(const char *v)
{
    int fd = open(in("data"), O_WRONLY);

    MUST(fd >= 0);
    MUST(pwrite(fd, v, 8, PLACE) == 8);
    MUST(close(fd) == 0);
}

/* The reader holds what lies around the place, and the place. */
static void read_around(int fd)
{
    char buf[1024];

    for (off_t at = 0; at < 2 * PLACE; at += (off_t)sizeof buf)
        MUST(pread(fd, buf, sizeof buf, at) == sizeof buf);
}

/* In the part `death`: first the reader's server dies, later the writer's. */
static bool with_deaths;

static void maybe_kill(void)
{
    long when = writer ? rounds * 2 / 3 : rounds / 3;

    if (with_deaths && round_now == when)
        MUST(kill_and_wait(newest_server()));
}

static void exchange(const char *name, void (*change)(const char *v))
{
    int fd = writer ? -1 : open(in("data"), O_RDONLY);
    char v[8], seen[8];

    change_now = name;
    MUST(writer || fd >= 0);
    for (round_now = 0; round_now < rounds; round_now++) {
        value(v, round_now);
        maybe_kill();
        if (writer) {
            hear();
            change(v);
            tell();
            continue;
        }

        read_around(fd);
        tell();
        hear();
        MUST(pread(fd, seen, 8, PLACE) == 8);
        MUST(memcmp(seen, v, 8) == 0);
    }

    if (fd >= 0)
        MUST(close(fd) == 0);
}

/* The end of the file: the reader has seen it where it was. */
static void exchange_ends(void)
{
    int fd = open(in("grows"), writer ? O_RDWR | O_APPEND : O_RDONLY);
    char buf[1024];
    off_t size = 0;

    change_now = "O_APPEND, truncate, O_TRUNC";
    MUST(fd >= 0);
    memset(buf, 'a', sizeof buf);
    for (round_now = 0; round_now < rounds; round_now++) {
        unsigned kind = round_now % 8;

        if (writer)
            hear();

        if (kind == 7)
            size = 0;
        else if (kind == 5)
            size -= 1500;
        else if (kind == 6)
            size -= 100;
        else
            size += (off_t)sizeof buf;

        if (writer) {
            int other = kind == 7 ? open(in("grows"), O_WRONLY | O_TRUNC) : -1;

            MUST(kind != 7 || (other >= 0 && close(other) == 0));
            MUST(kind != 5 || truncate(in("grows"), size) == 0);
            MUST(kind != 6 || ftruncate(fd, size) == 0);
            MUST(kind > 4 || write(fd, buf, sizeof buf) == sizeof buf);
            tell();
            continue;
        }

        off_t at = 0;
        ssize_t n;

        while ((n = pread(fd, buf, 200, at)) > 0)
            at += n;

        tell();
        hear();
        MUST(pread(fd, buf, 10, size) == 0);
        MUST(size == 0 || pread(fd, buf, 10, size - 1) == 1);
        for (at = 0; (n = pread(fd, buf, 200, at)) > 0; at += n)
            ;

        MUST(n == 0 && at == size);
    }

    MUST(close(fd) == 0);
}

static void exchange_holes(void)
{
    int fd = open(in("data"), O_RDWR);
    char byte = 1;

    change_now = "fallocate";
    MUST(fd >= 0);
    for (round_now = 0; round_now < rounds; round_now++) {
        if (writer) {
            hear();
            if (round_now % 2)
                (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PLACE, PLACE);
            else
                MUST(pwrite(fd, "x", 1, PLACE) == 1);

            MUST(pread(fd, &byte, 1, PLACE) == 1);
            MUST(write(tell_fd, &byte, 1) == 1);
            continue;
        }

        char told;

        read_around(fd);
        tell();
        MUST(read(hear_fd, &told, 1) == 1);
        MUST(pread(fd, &byte, 1, PLACE) == 1);
        MUST(byte == told);
    }

    MUST(close(fd) == 0);
}

static void make_files(void)
{
    if (writer) {
        char *zero = calloc(1, FILE_BYTES);

        data_fd = open(in("data"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(data_fd >= 0);
        MUST(write(data_fd, zero, FILE_BYTES) == FILE_BYTES);
        append_fd = open(in("grows"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        MUST(append_fd >= 0);
        free(zero);
        tell();
    } else
        hear();
}

static void death(void)
{
    make_files();
    with_deaths = true;
    exchange("pwrite while servers die", by_pwrite);
}

static void data(void)
{
    make_files();
    exchange("pwrite", by_pwrite);
    exchange("write", by_write);
    exchange("pwritev", by_pwritev);
    exchange("a descriptor of its own", by_new_descriptor);
    exchange_ends();
    exchange_holes();

    rounds = rounds < 100 ? rounds : 100;
    if (writer) {
        mapped = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, data_fd, 0);
        MUST(mapped != MAP_FAILED);
    }

    exchange("mmap and msync", by_map);
    if (writer)
        MUST(munmap(mapped, FILE_BYTES) == 0);

    exchange("a write in pieces", by_large_write);
}

/* ---- attributes ---- */

static void change_attributes(int fd, unsigned kind, long i)
{
    struct timespec times[2] = { { .tv_sec = 1000 + i }, { .tv_sec = 2000 + i } };

    change_now = (const char *[]){ "pwrite",   "ftruncate", "chmod",   "fchmod", "utimensat",
                                   "futimens", "link",      "unlink",  "rename", "truncate",
                                   "unlink",   "open",      "setxattr" }[kind];
    switch (kind) {
    case 0:
        MUST(pwrite(fd, "x", 1, 100 + i) == 1);
        break;
    case 1:
        MUST(ftruncate(fd, 50 + i) == 0);
        break;
    case 2:
        MUST(chmod(in("file"), 0600 | (i & 0177)) == 0);
        break;
    case 3:
        MUST(fchmod(fd, 0640 | (i & 7)) == 0);
        break;
    case 4:
        MUST(utimensat(AT_FDCWD, in("file"), times, 0) == 0);
        break;
    case 5:
        times[1].tv_sec += 7;
        MUST(futimens(fd, times) == 0);
        break;
    case 6:
        MUST(link(in("file"), in("second")) == 0);
        break;
    case 7:
        MUST(unlink(in("second")) == 0);
        break;
    case 8: {
        int other = open(in("other"), O_RDWR | O_CREAT | O_EXCL, 0611);

        MUST(other >= 0 && close(other) == 0);
        MUST(rename(in("other"), in("file")) == 0);
        break;
    }
    case 9:
        MUST(truncate(in("file"), 300 + i) == 0);
        break;
    case 10:
        MUST(unlink(in("file")) == 0);
        break;
    default: {
        int again = open(in("file"), O_RDWR | O_CREAT, 0600);

        MUST(again >= 0 && close(again) == 0);
    }
    }
}

/* What the writer sees itself, which it sends to the reader. */
struct view {
    int err, opened_err;
    struct stat by_name, opened;
};

static void look(int fd, struct view *view)
{
    memset(view, 0, sizeof *view);
    view->err = stat(in("file"), &view->by_name) == 0 ? 0 : errno;
    view->opened_err = fstat(fd, &view->opened) == 0 ? 0 : errno;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_nlink == b->st_nlink &&
           a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void attributes(void)
{
    struct view mine, theirs;
    int fd;

    if (writer) {
        MUST((fd = open(in("file"), O_RDWR | O_CREAT, 0600)) >= 0);
        tell();
    } else {
        hear();
        MUST((fd = open(in("file"), O_RDWR)) >= 0);
    }

    for (round_now = 0; round_now < rounds; round_now++) {
        if (writer) {
            hear();
            change_attributes(fd, round_now % 12, round_now / 12);
            look(fd, &theirs);
            MUST(write(tell_fd, &theirs, sizeof theirs) == sizeof theirs);
            continue;
        }

        for (int i = 0; i < 4; i++)
            look(fd, &mine);

        tell();
        MUST(read(hear_fd, &theirs, sizeof theirs) == sizeof theirs);
        look(fd, &mine);
        MUST(mine.err == theirs.err && mine.opened_err == theirs.opened_err);
        MUST(is_same(&mine.by_name, &theirs.by_name));
        MUST(is_same(&mine.opened, &theirs.opened));
    }
}

/* ---- the file's offset ---- */

#define RECORD 100

static void record(char out[RECORD], long i)
{
    memset(out, '.', RECORD);
    snprintf(out, RECORD, "record %ld", i);
}

static void expect_records(int fd, long from, long n)
{
    char expected[RECORD], seen[RECORD];

    for (long i = from; i < from + n; i++) {
        record(expected, i);
        MUST(read(fd, seen, RECORD) == RECORD);
        MUST(memcmp(seen, expected, RECORD) == 0);
    }
}

static void in_child(int fd, long from, long n)
{
    int status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        expect_records(fd, from, n);
        _exit(0);
    }

    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

/* Parent and child read in turns at the offset that they share. */
static void in_turns(int fd, long from)
{
    int status, to_child[2], to_parent[2];
    char byte = 0;

    MUST(pipe(to_child) == 0 && pipe(to_parent) == 0);

    pid_t pid = fork();
    int from_other = pid == 0 ? to_child[0] : to_parent[0];
    int to_other = pid == 0 ? to_parent[1] : to_child[1];

    MUST(pid >= 0);
    for (int turn = 0; turn < 10; turn++) {
        if ((turn % 2 == 0) == (pid == 0)) {
            MUST(read(from_other, &byte, 1) == 1);
            continue;
        }

        expect_records(fd, from + turn * 8, 8);
        MUST(write(to_other, &byte, 1) == 1);
    }

    if (pid == 0)
        _exit(0);

    MUST(waitpid(pid, &status, 0) == pid && status == 0);
    for (int i = 0; i < 2; i++)
        MUST(close(to_child[i]) == 0 && close(to_parent[i]) == 0);
}

/* Another program reads the next record at the offset that it inherits. */
static void take_over(int fd)
{
    int status;
    pid_t pid = fork();

    MUST(pid >= 0);
    if (pid == 0) {
        MUST(dup2(fd, 0) == 0);
        execl("/bin/sh", "sh", "-c",
              "dd bs=100 count=1 2>/dev/null | tr -d . | grep -q 'record 30'", (char *)NULL);
        _exit(127);
    }

    MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

static void offset(void)
{
    char buf[RECORD], large[80000];
    int fd;

    if (!writer) {
        hear();
        MUST((fd = open(in("records"), O_RDWR)) >= 0);
        expect_records(fd, 0, 50);
        MUST(lseek(fd, 0, SEEK_CUR) == 50 * RECORD);
        expect_records(fd, 50, 20);
        MUST(lseek(fd, -10 * RECORD, SEEK_CUR) == 60 * RECORD);
        expect_records(fd, 60, 40);

        int second = dup(fd);

        MUST(second >= 0);
        expect_records(second, 100, 10);
        expect_records(fd, 110, 10);
        MUST(close(second) == 0);
        expect_records(fd, 120, 10);
        MUST(read(fd, large, sizeof large) == sizeof large);
        expect_records(fd, 930, 20);

        /* a write at the offset, between reads */
        record(buf, 950);
        MUST(write(fd, buf, RECORD) == RECORD);
        expect_records(fd, 951, 20);

        in_child(fd, 971, 20);
        expect_records(fd, 991, 10);
        MUST(lseek(fd, 0, SEEK_SET) == 0);
        expect_records(fd, 0, 10);
        MUST(close(fd) == 0);

        /* opened again, alone: read ahead until the child goes on */
        MUST((fd = open(in("records"), O_RDONLY)) >= 0);
        expect_records(fd, 0, 30);
        in_child(fd, 30, 30);
        expect_records(fd, 60, 30);
        in_turns(fd, 90);
        expect_records(fd, 170, 30);
        MUST(close(fd) == 0);

        /* a program that replaces this one at this point */
        MUST((fd = open(in("records"), O_RDONLY)) >= 0);
        expect_records(fd, 0, 30);
        take_over(fd);
        MUST(close(fd) == 0);
        tell();

        /* the writer is always one record ahead */
        MUST((fd = open(in("stream"), O_RDONLY)) >= 0);
        change_now = "a stream of records";
        for (round_now = 0; round_now < rounds; round_now++) {
            hear();
            expect_records(fd, round_now, 1);
            MUST(read(fd, buf, 0) == 0);
            if (round_now % 16 == 0)
                MUST(read(fd, buf, RECORD) == 0);

            tell();
        }

        return;
    }

    FILE *records = fopen(in("records"), "w");

    MUST(records != NULL);
    for (long i = 0; i < 2000; i++) {
        record(buf, i);
        MUST(fwrite(buf, RECORD, 1, records) == 1);
    }

    MUST(fclose(records) == 0);
    MUST((fd = open(in("stream"), O_WRONLY | O_CREAT, 0600)) >= 0);
    tell();
    hear();
    for (round_now = 0; round_now < rounds; round_now++) {
        record(buf, round_now);
        MUST(write(fd, buf, RECORD) == RECORD);
        tell();
        hear();
    }
}

/* ---- one process ---- */

static int many_fd;
static _Atomic long seen_records;
static _Atomic bool seen[2000];

static void *read_beside(void *arg)
{
    char buf[RECORD];
    long i;

    while (read(many_fd, buf, RECORD) == RECORD)
        if (sscanf(buf, "record %ld", &i) == 1 && !atomic_exchange(&seen[i], true))
            atomic_fetch_add(&seen_records, 1);

    return arg;
}

static void many(long bytes)
{
    char buf[1024];
    long sum = 0;
    pthread_t thread[4];
    int fd = open(in("many"), O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0);
    for (long i = 0; i < bytes; i += (long)sizeof buf) {
        memset(buf, (int)(i / (long)sizeof buf), sizeof buf);
        MUST(pwrite(fd, buf, sizeof buf, i) == sizeof buf);
    }

    ssize_t n;

    while ((n = read(fd, buf, sizeof buf)) > 0) {
        MUST(buf[0] == (char)(sum / (long)sizeof buf) && buf[n - 1] == buf[0]);
        sum += n;
    }

    MUST(n == 0 && sum == bytes);
    MUST(close(fd) == 0);

    /* each record goes to one thread */
    MUST((fd = open(in("records"), O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
    for (long i = 0; i < 2000; i++) {
        record(buf, i);
        MUST(write(fd, buf, RECORD) == RECORD);
    }

    MUST(close(fd) == 0);
    MUST((many_fd = open(in("records"), O_RDONLY)) >= 0);
    for (int i = 0; i < 4; i++)
        MUST(pthread_create(&thread[i], NULL, read_beside, NULL) == 0);

    for (int i = 0; i < 4; i++)
        MUST(pthread_join(thread[i], NULL) == 0);

    MUST(atomic_load(&seen_records) == 2000);
}

int main(int argc, char **argv)
{
    const char *rank = getenv("AMPHORA_RANK");
    const char *asked = getenv("TEST_ROUNDS");
    char path[2][4096];

    if (argc < 4)
        return 2;

    dir = argv[2];
    writer = rank && strcmp(rank, "1") == 0;
    rounds = asked ? atol(asked) : rounds;

    /* the writer says what is true, so it must not hold anything itself */
    if (writer && strcmp(getenv("IOFWD_CACHE_AGE") ? getenv("IOFWD_CACHE_AGE") : "", "0") != 0) {
        MUST(setenv("IOFWD_CACHE_AGE", "0", 1) == 0);
        execv("/proc/self/exe", argv);
        MUST(!"exec");
    }

    if (strcmp(argv[1], "many") == 0) {
        many(atol(argv[3]));
        puts("done");
        return 0;
    }

    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof path[i], "%s/%d", argv[3], i);

    /* in the same order in both, each with the other's counterpart */
    int a = open(path[0], O_RDWR);
    int b = open(path[1], O_RDWR);

    MUST(a >= 0 && b >= 0);
    hear_fd = writer ? a : b;
    tell_fd = writer ? b : a;

    if (strcmp(argv[1], "data") == 0)
        data();
    else if (strcmp(argv[1], "attributes") == 0)
        attributes();
    else if (strcmp(argv[1], "death") == 0)
        death();
    else
        offset();

    puts("done");
    return 0;
}
