/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collected calls against a model in memory: random small and large reads and writes, seeks,
 * truncations, second descriptors, announced runs that turn out as announced or otherwise, fork,
 * late errors; contents and results must be those of plain calls. Run under amphora-run -iofwd
 * /fwd=DIRECTORY, IOFWD_CONSISTENCY set or not.   fwd_collect SEED
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "include/iofwd.h"
#include "tests/files/fwd_is.h"
#include "tests/files/fwd_kill.h"

enum {
    MODEL_BYTES = 3 << 20,
    RUNS = 120,
    CALL_MAX = 200000
};

static uint8_t model[MODEL_BYTES], buf[CALL_MAX], got[CALL_MAX];
static size_t size, offset;

static size_t below(size_t n)
{
    return n ? (size_t)((unsigned long)random() % n) : 0;
}

static size_t a_length(void)
{
    static const size_t most[] = { 1, 100, 1024, 5000, 70000, CALL_MAX };
    return below(most[below(6)] + 1);
}

static void put(size_t at, size_t len)
{
    if (len && at > size)
        memset(model + size, 0, at - size);

    memcpy(model + at, buf, len);
    if (len && at + len > size)
        size = at + len;
}

static void fill(size_t len)
{
    unsigned char start = (unsigned char)random();
    for (size_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(start + i * 5);
}

static size_t readable(size_t at, size_t len)
{
    if (at >= size)
        return 0;

    return len < size - at ? len : size - at;
}

static void one_write(int fd, size_t len, bool at_place, size_t *place)
{
    fill(len);

    size_t at = at_place ? *place : offset;
    if (len > MODEL_BYTES - at)
        return;

    IS(at_place ? pwrite(fd, buf, len, (off_t)at) : write(fd, buf, len), len);
    put(at, len);
    *(at_place ? place : &offset) += len;
}

/* A read may be short only at the end of the file. */
static void one_read(int fd, size_t len, bool at_place, size_t *place)
{
    size_t at = at_place ? *place : offset;
    size_t n = readable(at, len);

    memset(got, 0xee, len);
    IS(at_place ? pread(fd, got, len, (off_t)at) : read(fd, got, len), n);
    IS(memcmp(got, model + at, n), 0);
    *(at_place ? place : &offset) += n;
}

/* Other open files of the same file see what is gathered, and what is fetched ahead does not
 * outlive what they write. */
static int apart[2];
static size_t apart_offset[2];

static void by_another(size_t len, size_t near)
{
    unsigned which = (unsigned)below(2);
    size_t mine = offset;
    size_t place = near > len ? near - below(len + 1) : near;

    offset = apart_offset[which];
    switch (below(6)) {
    case 0:
        one_write(apart[which], len, true, &place);
        break;
    case 1:
        one_write(apart[which], len, false, &place);
        break;
    case 2:
        one_read(apart[which], len, false, &place);
        break;
    case 3:
        offset = place;
        IS(lseek(apart[which], (off_t)place, SEEK_SET), place);
        break;
    case 4:
        IS(lseek(apart[which], 0, SEEK_END), offset = size);
        break;
    default:
        one_read(apart[which], len, true, &place);
        break;
    }
    apart_offset[which] = offset;
    offset = mine;
}

/* Consecutive calls of one kind; announced rightly, wrongly or not at all. */
static void a_run(int fd)
{
    bool writing = below(2);
    bool at_place = below(3) == 0;
    size_t place = below(MODEL_BYTES);
    size_t len = a_length();
    size_t calls = 1 + below(80);

    if (below(2))
        IS((writing ? iofwd_write_prep
                    : iofwd_read_prep)(fd, len * calls + (below(4) ? 0 : below(5000)),
                                       (unsigned)(calls + (below(4) ? 0 : below(9)))),
           0);

    for (size_t i = 0; i < calls; i++) {
        size_t n = below(9) ? len : a_length();

        (writing ? one_write : one_read)(fd, n, at_place, &place);
        if (below(40) == 0)
            (writing ? one_read : one_write)(fd, n, !at_place, &place);

        if (below(40) == 0)
            (writing ? one_write : one_read)(fd, n, !at_place, &place);

        if (below(6) == 0)
            by_another(a_length(), at_place ? place : offset);
    }
}

static void a_seek(int fd)
{
    offset = below(MODEL_BYTES);
    IS(lseek(fd, (off_t)offset, SEEK_SET), offset);
}

static void a_look(int fd)
{
    struct stat st;

    IS(fstat(fd, &st), 0);
    IS(st.st_size, size);
    IS(lseek(fd, 0, SEEK_CUR), offset);
    if (below(2))
        IS(fsync(fd), 0);
}

static void a_cut(int fd)
{
    size_t at = below(MODEL_BYTES);

    IS(ftruncate(below(3) ? fd : apart[below(2)], (off_t)at), 0);
    if (at > size)
        memset(model + size, 0, at - size);

    size = at;
}

/* What a child writes at the shared offset follows what the parent has written. */
static void a_child(int fd)
{
    int status;
    size_t len = 3000;
    size_t place = 0;

    if (offset + 2 * len > MODEL_BYTES)
        return;

    fill(len);

    pid_t pid = fork();

    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            IS(write(fd, buf + 1000 * i, 1000), 1000);

        _exit(0);
    }

    IS(waitpid(pid, &status, 0), pid);
    IS(status, 0);
    put(offset, len);
    offset += len;
    one_read(fd, 100, true, &place);
}

static void compare(const char *path)
{
    static uint8_t whole[MODEL_BYTES];
    int fd = open(path, O_RDONLY);
    size_t n = 0;

    for (ssize_t k; (k = read(fd, whole + n, 1000)) > 0;)
        n += (size_t)k;

    IS(n, size);
    IS(memcmp(whole, model, size), 0);
    IS(close(fd), 0);
}

/* Goes to 4 KiB before what a file may grow to. */
static void near_the_end(int fd)
{
    off_t most = 0;

    for (off_t step = (off_t)1 << 61; step; step /= 2)
        if (lseek(fd, most + step, SEEK_SET) >= 0)
            most += step;

    IS(lseek(fd, most - 4 * 1024, SEEK_SET), most - 4 * 1024);
}

static int is_too_far(void)
{
    return errno == EFBIG || errno == EINVAL;
}

/* Writes beyond what the file may grow to fail, now or later, once, with the file system's
 * reason. */
static void late_error(const char *path)
{
    int fd = open(path, O_RDWR);
    int failures = 0;
    int wrong = 0;

    near_the_end(fd);
    for (int i = 0; i < 8; i++)
        if (write(fd, buf, 1024) < 0) {
            failures++;
            wrong += !is_too_far();
        }

    if (fsync(fd) < 0)
        failures++;

    IS(failures > 0, 1);
    IS(wrong, 0);
    IS(fsync(fd), 0); /* it was said */
    IS(close(fd), 0);
}

/* An announced run fails at its last call, or, where it is broken off, at the next call that can
 * say so: once, with the reason. */
static void announced_error(const char *path, int calls, int then)
{
    int fd = open(path, O_RDWR);

    size_t bytes = 8 * 1024;

    if (then == 'b')
        bytes -= 100;
    else if (then == 'n')
        bytes = 1 << 20;

    near_the_end(fd);

    /* The last call is that which brings it to the bytes or to the calls that were announced. */
    IS(iofwd_write_prep(fd, bytes, then == 'b' ? 100 : 8), 0);
    for (int i = 0; i < calls; i++) {
        bool last = i == 7;

        IS(write(fd, buf, 1024), last ? -1 : 1024);
        IS(!last || is_too_far(), 1);
    }

    if (then == 'f' || then == 'd') {
        IS(then == 'f' ? fsync(fd) : fdatasync(fd), -1);
        IS(is_too_far(), 1);
    }

    if (then == 'p') {
        errno = iofwd_write_prep(fd, 100, 10);
        IS(is_too_far(), 1);
    }

    if (then == 'k') { /* nor is it a child's */
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(fsync(fd) != 0);
        IS(waitpid(pid, &status, 0), pid);
        IS(status, 0);
        IS(fsync(fd), -1);
        IS(is_too_far(), 1);
    }

    if (then == 'w') {
        IS(pwrite(fd, buf, 10, 0), -1);
        IS(is_too_far(), 1);
    }

    if (then != 'c')
        IS(fsync(fd), 0); /* it was said */

    IS(close(fd), then == 'c' ? -1 : 0);
    IS(then != 'c' || is_too_far(), 1);
}

/* Announcing is about the open file, not the number, and no more than a hint. */
static void announced_descriptors(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int other = dup(fd);
    int reader = open(path, O_RDONLY);
    int writer = open(path, O_WRONLY);
    char back[1000];

    IS(fd >= 0 && other >= 0 && reader >= 0 && writer >= 0, 1);
    IS(iofwd_write_prep(fd, 1000, 10), 0);
    for (int i = 0; i < 10; i++)
        IS(write(i % 2 ? fd : other, buf + 100 * i, 100), 100);

    IS(pread(reader, back, 1000, 0), 1000); /* the last call has brought all of it to the server */
    IS(memcmp(back, buf, 1000), 0);
    IS(lseek(other, 0, SEEK_CUR), 1000);
    IS(iofwd_write_prep(reader, 100, 10), 0);
    IS(write(reader, buf, 10), -1);
    IS(errno, EBADF);
    IS(iofwd_read_prep(writer, 100, 10), 0);
    IS(read(writer, back, 10), -1);
    IS(errno, EBADF);
    IS(iofwd_read_prep(reader, 1000, 10), 0);
    for (int i = 0; i < 10; i++)
        IS(read(reader, back + 100 * i, 100), 100);

    IS(memcmp(back, buf, 1000), 0);
    IS(close(reader), 0);
    IS(iofwd_read_prep(reader, 1000, 10), EBADF);
    IS(iofwd_write_prep(fd, 1000, 10), 0);
    IS(close(fd), 0); /* announced and never made; the other descriptor goes on */
    IS(write(other, buf, 50), 50);
    IS(close(other), 0);
    IS(close(writer), 0);

    struct stat st;

    IS(stat(path, &st), 0);
    IS(st.st_size, 1050);
}

static void appends(const char *path)
{
    int a = open(path, O_WRONLY | O_APPEND);
    int b = open(path, O_WRONLY | O_APPEND);
    size_t at = size;

    if (size + 40000 > MODEL_BYTES)
        return;

    for (int i = 0; i < 20; i++) {
        fill(1000);
        IS(write(a, buf, 1000), 1000);
        put(at, 1000);
        at += 1000;
    }

    IS(close(a), 0);
    for (int i = 0; i < 20; i++) {
        fill(1000);
        IS(write(b, buf, 1000), 1000);
        put(at, 1000);
        at += 1000;
    }

    IS(close(b), 0);

    /* Where pwrite is to write to makes no difference, and it leaves the offset alone. */
    a = open(path, O_WRONLY | O_APPEND);
    for (int i = 0; i < 20 && at + 1000 <= MODEL_BYTES; i++) {
        fill(1000);
        IS(pwrite(a, buf, 1000, 1000 * i), 1000);
        put(at, 1000);
        at += 1000;
    }

    IS(lseek(a, 0, SEEK_CUR), 0);
    IS(close(a), 0);
    compare(path);
}

static void write_some(int fd)
{
    for (int i = 0; i < 3; i++)
        IS(write(fd, buf, 100), 100);
}

/* F_SETFL changes where writes go, and other descriptors see what one has coalesced. */
static void set_flags(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int other = open(path, O_RDWR);
    struct stat st;

    write_some(fd);
    IS(fstat(other, &st), 0);
    IS(st.st_size, 300);
    IS(lseek(fd, 0, SEEK_SET), 0);
    IS(fcntl(fd, F_SETFL, O_APPEND), 0);
    write_some(fd);
    IS(lseek(fd, 0, SEEK_CUR), 600);
    IS(fcntl(fd, F_SETFL, 0), 0);
    IS(lseek(fd, 0, SEEK_SET), 0);
    write_some(fd);
    IS(lseek(fd, 0, SEEK_CUR), 300);
    IS(fstat(fd, &st), 0);
    IS(st.st_size, 600);
    IS(close(fd), 0);
    IS(close(other), 0);
}

/* Reads here and there fetch nothing ahead. */
static void scattered_reads(const char *path)
{
    struct iofwd_counters before, after;
    char c[10];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    IS(ftruncate(fd, 1 << 20), 0);
    iofwd_counters(&before);

    for (int i = 0; i < 100; i++)
        IS(i % 10 ? pread(fd, c, sizeof c, (i * 7919 % 1000) * 1000) : read(fd, c, sizeof c),
           sizeof c);

    iofwd_counters(&after);
    IS(after.bytes_read - before.bytes_read < 10000, 1);
    IS(close(fd), 0);
}

/* Nothing is left of a closed file. */
static void many_files(const char *path)
{
    struct mallinfo2 before = { .uordblks = 0 };
    struct mallinfo2 after;

    for (int i = 0, fd[10]; i < 60; i++) {
        if (i == 1)
            before = mallinfo2();

        for (int k = 0; k < (i ? 10 : 1); k++) {
            fd[k] = open(path, O_RDWR | O_CREAT, 0600);
            IS(iofwd_write_prep(fd[k], 1000, 10), 0);
            write_some(fd[k]);
        }

        for (int k = 0; k < (i ? 10 : 1); k++)
            IS(close(fd[k]), 0);
    }

    after = mallinfo2();
    IS(after.uordblks + after.hblkhd < before.uordblks + before.hblkhd + (1 << 20), 1);
}

/* Reads of what appends when it is written: gathered or not, they leave the offset behind them. */
static void read_appending(const char *path)
{
    char back[100];
    int fd = open(path, O_RDWR | O_APPEND);

    IS(fd >= 0 && size >= 20 * sizeof back, 1);
    IS(iofwd_read_prep(fd, 20 * sizeof back, 20), 0);
    for (size_t i = 0; i < 9; i++)
        IS(read(fd, back, sizeof back), sizeof back);

    IS(lseek(fd, 0, SEEK_CUR), 9 * sizeof back);
    IS(read(fd, back, sizeof back), sizeof back);
    IS(memcmp(back, model + 9 * sizeof back, sizeof back), 0);
    IS(close(fd), 0);
}

/* A shell writes between gathered writes, to the same open file. */
static void shell_between(const char *path, int (*shell)(const char *))
{
    char back[2100], wanted[2100];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    int saved = dup(0); /* a shell takes small numbers only */

    IS(dup2(fd, 0), 0);
    IS(iofwd_write_prep(fd, 2000, 20), 0);
    for (int i = 0; i < 10; i++)
        IS(write(fd, buf + 100 * i, 100), 100);

    IS(shell("printf %0100d 0 >&0"), 0);
    IS(lseek(fd, 0, SEEK_CUR), 1100);
    for (int i = 10; i < 20; i++)
        IS(write(fd, buf + 100 * i, 100), 100);

    memcpy(wanted, buf, 1000);
    memset(wanted + 1000, '0', 100);
    memcpy(wanted + 1100, buf + 1000, 1000);
    IS(fsync(fd), 0);
    IS(pread(fd, back, sizeof back, 0), sizeof back);
    IS(memcmp(back, wanted, sizeof back), 0);
    IS(dup2(saved, 0), 0);
    IS(close(saved), 0);
    IS(close(fd), 0);
    IS(unlink(path), 0);
}

/* What a program wants on the disk at once, or past the page cache, is not gathered. */
static void synchronous(const char *path)
{
    static const int flags[] = { O_SYNC, O_DSYNC, O_DIRECT };

    static _Alignas(4096) uint8_t pages[4096];
    for (int i = 0; i < 3; i++) {
        struct iofwd_stats before, after;
        int fd = open(path, O_WRONLY | O_CREAT | flags[i], 0600);

        if (fd < 0 && flags[i] == O_DIRECT)
            continue; /* not on this file system */

        IS(iofwd_stats(IOFWD_NONE, &before), 0);
        for (int k = 0; k < 20; k++)
            IS(write(fd, pages, sizeof pages), sizeof pages);

        IS(iofwd_stats(IOFWD_NONE, &after), 0);
        IS(after.calls - before.calls >= 20, 1);
        IS(close(fd), 0);
    }

    IS(unlink(path), 0);
}

static _Atomic pid_t reader;

static void *read_byte(void *arg)
{
    char c = 0;

    reader = gettid();
    IS(read(*(int *)arg, &c, 1), 1);
    IS(c, 'x');

    return NULL;
}

/* While a thread waits at a FIFO others use it, announced or not, and what has been gathered for
 * another file is flushed. */
static void beside_a_waiting_reader(const char *path)
{
    char fifo[80];
    struct stat st;
    pthread_t thread;

    snprintf(fifo, sizeof fifo, "%s.fifo", path);
    IS(mkfifo(fifo, 0600), 0);

    int ends = open(fifo, O_RDWR);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    IS(iofwd_read_prep(ends, 10, 10), 0);
    IS(pthread_create(&thread, NULL, read_byte, &ends), 0);
    while (!reader || process_state(reader) != 'S')
        sched_yield();

    IS(iofwd_write_prep(fd, 1000, 100), 0);
    for (int i = 0; i < 10; i++)
        IS(write(fd, buf, 10), 10);

    IS(stat(path, &st), 0);
    IS(st.st_size, 100);
    IS(write(ends, "x", 1), 1);
    IS(pthread_join(thread, NULL), 0);
    IS(close(fd), 0);
    IS(close(ends), 0);
    IS(unlink(fifo), 0);
    IS(unlink(path), 0);
}

static int handler_fd;
static volatile sig_atomic_t handled, handled_wrong;

static void on_alarm(int sig)
{
    char c = 0;
    int saved = errno;

    handled_wrong += pread(handler_fd, &c, 1, 0) != 1 || c != 'x';
    handled++;
    errno = saved;
}

/* A handler reads from the file whose gathered write it has come in between. */
static void below_a_handler(const char *path)
{
    struct sigaction old;
    struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    struct itimerval often = { { 0, 300 }, { 0, 300 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };

    handler_fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    IS(pwrite(handler_fd, "x", 1, 0), 1);
    IS(sigaction(SIGALRM, &sa, &old), 0);
    IS(setitimer(ITIMER_REAL, &often, NULL), 0);

    while (handled < 200) {
        IS(lseek(handler_fd, 1, SEEK_SET), 1);
        IS(iofwd_write_prep(handler_fd, 100000, 10000), 0);
        for (int i = 0; i < 10000; i++)
            IS(write(handler_fd, buf, 10), 10);
    }

    IS(setitimer(ITIMER_REAL, &never, NULL), 0);
    IS(sigaction(SIGALRM, &old, NULL), 0);
    IS(handled_wrong, 0);
    IS(close(handler_fd), 0);
    IS(unlink(path), 0);
}

static int by_popen(const char *command)
{
    FILE *f = popen(command, "r");
    return f ? pclose(f) : -1;
}

/* What was announced does travel as little. */
static void travels_as_little(const char *path)
{
    struct iofwd_stats before, after;
    int fd = open(path, O_WRONLY);

    IS(iofwd_stats(IOFWD_NONE, &before), 0);
    IS(iofwd_write_prep(fd, 50000, 500), 0);
    for (int i = 0; i < 500; i++)
        IS(write(fd, buf, 100), 100);

    IS(iofwd_stats(IOFWD_NONE, &after), 0);
    IS(after.calls - before.calls < 20, 1);
    IS(close(fd), 0);
    IS(iofwd_write_prep(0, 100, 1), 0); /* not forwarded */
    IS(iofwd_write_prep(999, 100, 1), EBADF);
}

static void ends_of_processes(const char *path)
{
    /* _exit must not lose what was gathered: the parent looks. */
    int status;
    struct stat st;
    pid_t pid = fork();

    if (pid == 0) {
        int fd = open(path, O_WRONLY | O_TRUNC);

        for (int i = 0; i < 10; i++)
            if (write(fd, buf, 100) != 100)
                _exit(1);

        _exit(0);
    }

    IS(waitpid(pid, &status, 0), pid);
    IS(stat(path, &st), 0);
    IS(st.st_size, 1000);

    /* Nor exit what a stream writes at the very end. */
    if ((pid = fork()) == 0) {
        char room[100];
        FILE *f = fopen(path, "w");

        setvbuf(f, room, _IOFBF, sizeof room);
        for (int i = 0; i < 50; i++)
            fprintf(f, "%037d", i);

        exit(0);
    }

    IS(waitpid(pid, &status, 0), pid);
    IS(stat(path, &st), 0);
    IS(st.st_size, 50 * 37);
}

int main(int argc, char **argv)
{
    char path[64], other[64];

    static void (*const action[])(int) = { a_run,  a_run,  a_run, a_run,  a_run,
                                           a_seek, a_look, a_cut, a_child };
    seed = strtoul(argv[argc - 1], NULL, 10);
    srandom((unsigned)seed);
    snprintf(path, sizeof path, "/fwd/file.%d", (int)getpid());

    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    int twin = dup(fd);

    if (fd < 0)
        fail("open", fd, 3);

    for (int i = 0; i < 2; i++)
        IS((apart[i] = open(path, O_RDWR)) >= 0, 1);

    for (step = 0; step < RUNS; step++)
        action[below(sizeof action / sizeof action[0])](below(4) ? fd : twin);

    IS(close(fd), 0);
    compare(path);
    IS(close(twin), 0);
    for (int i = 0; i < 2; i++)
        IS(close(apart[i]), 0);

    appends(path);
    read_appending(path);
    snprintf(other, sizeof other, "/fwd/shell.%d", (int)getpid());
    shell_between(other, system);
    shell_between(other, by_popen);
    set_flags(other);
    scattered_reads(other);
    many_files(other);
    below_a_handler(other);
    beside_a_waiting_reader(other);
    synchronous(other);
    late_error(path);
    announced_error(path, 8, 'l');
    announced_error(path, 8, 'b');
    announced_error(path, 8, 'n');
    announced_error(path, 6, 'f');
    announced_error(path, 6, 'd');
    announced_error(path, 6, 'p');
    announced_error(path, 6, 'k');
    announced_error(path, 6, 'w');
    announced_error(path, 6, 'c');
    announced_descriptors(path);
    travels_as_little(path);
    ends_of_processes(path);

    return 0;
}
