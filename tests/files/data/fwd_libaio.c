/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's asynchronous input and output (io_submit, libaio) with requests of forwarded files: the data, and the
 * events, which the program gets by io_getevents, from the ring in its memory, or learns of by an eventfd.
 *
 *   fwd_libaio PART FORWARDED LOCAL    two directories; prints "PART done", or what was wrong
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_is.h"

static const char *forwarded, *local; /* directories */
static aio_context_t context;

static int make(const char *dir, int flags)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/aio", dir);

    int fd = open(path, O_RDWR | O_CREAT | flags, 0600);

    IS(fd >= 0, 1);
    return fd;
}

static struct iocb request(int fd, int what, const void *buf, size_t len, off_t off)
{
    return (struct iocb){ .aio_data = (uintptr_t)buf + 1,
                          .aio_fildes = (uint32_t)fd,
                          .aio_lio_opcode = (uint16_t)what,
                          .aio_buf = (uintptr_t)buf,
                          .aio_nbytes = len,
                          .aio_offset = off };
}

/* ---- the two ways to make the calls ---- */

static int (*library_submit)(aio_context_t, long, struct iocb **);
static int (*library_events)(aio_context_t, long, long, struct io_event *, struct timespec *);

static long submit(long n, struct iocb **list)
{
    if (library_submit)
        return library_submit(context, n, list);

    long result = syscall(SYS_io_submit, context, n, list);

    return result < 0 ? -errno : result;
}

static long events(long min, long n, struct io_event *e)
{
    return library_events ? library_events(context, min, n, e, NULL)
                          : syscall(SYS_io_getevents, context, min, n, e, NULL);
}

/* Executes a request; returns the result in its event, whose other fields it checks, or io_submit's error. */
static long run(struct iocb *rq)
{
    struct iocb before = *rq;
    struct io_event event = { 0 };
    long n = submit(1, &rq);

    before.aio_key = rq->aio_key;
    IS(memcmp(&before, rq, sizeof before), 0);
    if (n < 0)
        return n;

    IS(n, 1);
    IS(events(1, 1, &event), 1);
    IS(event.obj, (uintptr_t)rq);
    IS(event.data, rq->aio_data);
    IS(event.res2, 0);
    return (long)event.res;
}

/* ---- parts ---- */

#define RUN(...) run(&(struct iocb[]){ request(__VA_ARGS__) }[0])

static void moves(void)
{
    char text[] = "0123456789abcdef";
    char got[32] = { 0 };
    char second[4] = { 0 };
    struct iovec out[] = { { text + 10, 6 }, { text, 4 } };
    struct iovec in[] = { { got, 5 }, { second, 3 } };
    int fd = make(forwarded, O_TRUNC);

    IS(RUN(fd, IOCB_CMD_PWRITE, text, 16, 0), 16);
    IS(RUN(fd, IOCB_CMD_PWRITEV, out, 2, 16), 10);
    IS(RUN(fd, IOCB_CMD_FSYNC, NULL, 0, 0), 0);
    IS(RUN(fd, IOCB_CMD_FDSYNC, NULL, 0, 0), 0);
    IS(RUN(fd, IOCB_CMD_PREAD, got, 32, 0), 26); /* up to its end */
    IS(strcmp(got, "0123456789abcdefabcdef0123"), 0);
    IS(RUN(fd, IOCB_CMD_PREADV, in, 2, 14), 8);
    IS(memcmp(got, "efabc", 5) | memcmp(second, "def", 3), 0);
    IS(RUN(fd, IOCB_CMD_PREAD, got, 32, 26), 0);
    IS(RUN(fd, IOCB_CMD_PWRITE, text, 0, 0), 0);
    IS(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
}

static void fails(void)
{
    char text[] = "text";
    int fd = make(forwarded, O_TRUNC);
    char path[4096];

    snprintf(path, sizeof path, "%s/aio", forwarded);

    int reads = open(path, O_RDONLY);

    IS(write(fd, "kept", 4), 4);
    IS(RUN(reads, IOCB_CMD_PWRITE, text, 4, 0), -EBADF);
    IS(RUN(fd, IOCB_CMD_PWRITE, text, 4, -1), -EINVAL);
    IS(RUN(fd, IOCB_CMD_PREAD, (void *)8, 4, 0), -EFAULT);
    IS(RUN(fd, IOCB_CMD_POLL, (void *)POLLIN, 1, 0), -EINVAL);
    IS(RUN(fd, IOCB_CMD_POLL, (void *)(1 << 20), 0, 0), -EINVAL);
    IS(RUN(fd, 77, text, 4, 0), -EINVAL);

    struct stat st;

    IS(fstat(fd, &st), 0);
    IS(st.st_size, 4);
    IS(submit(1, (struct iocb **)8), -EFAULT);
    IS(submit(1, (struct iocb *[]){ (void *)8 }), -EFAULT);
    IS(submit(-1, NULL), -EINVAL);
    IS(submit(0, NULL), 0);
    close(fd);
    close(reads);
}

/* Regular files are always ready; forwarded ones as those of the kernel. */
static void polls(const char *where)
{
    int fd = make(where, O_TRUNC);

    IS(RUN(fd, IOCB_CMD_POLL, (void *)POLLIN, 0, 0), POLLIN);
    IS(RUN(fd, IOCB_CMD_POLL, (void *)(POLLOUT | POLLPRI), 0, 0), POLLOUT);
    IS(RUN(fd, IOCB_CMD_POLL, (void *)(POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM), 0, 0),
       POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
    close(fd);
}

/* What is submitted again, because there was no room for its event, is appended once. */
static void appends(const char *where)
{
    enum {
        REQUESTS = 4000 /* more than there is room for */
    };

    static struct iocb rq[REQUESTS];
    static struct io_event event[REQUESTS];
    static char text[REQUESTS][4];
    int fd = make(where, O_TRUNC | O_APPEND);
    long got = 0;
    long full = 0;
    char last[5] = "";

    IS(RUN(fd, IOCB_CMD_PWRITE, "abcd", 4, 1000), 4);
    IS(RUN(fd, IOCB_CMD_PWRITEV, ((struct iovec[]){ { "ef", 2 }, { "gh", 2 } }), 2, 0), 4);
    IS(RUN(fd, IOCB_CMD_PWRITE, "abcd", 4, -1), -EINVAL);
    for (long i = 0; i < REQUESTS;) {
        struct iocb *at = &rq[i];

        snprintf(text[i], sizeof text[i], "%03ld", i % 1000);
        *at = request(fd, IOCB_CMD_PWRITE, text[i], 4, 0);

        long n = submit(1, &at);

        if (n == -EAGAIN) {
            full++;
            got += events(1, REQUESTS, event);
        } else {
            IS(n, 1);
            i++;
        }
    }

    while (got < REQUESTS)
        got += events(1, REQUESTS, event);

    IS(full > 0, 1);
    IS(lseek(fd, 0, SEEK_END), 8 + 4 * REQUESTS);
    IS(pread(fd, last, 4, 4 + 4 * REQUESTS), 4);
    IS(strcmp(last, text[REQUESTS - 1]), 0);
    close(fd);
}

static void appends_and_polls(void)
{
    polls(local);
    polls(forwarded);
    appends(local);
    appends(forwarded);
}

/* Requests of local and forwarded files in one call; the first one that fails is the last. */
static void mixes(void)
{
    char text[] = "abcdefgh";
    char got[9] = { 0 };
    int far = make(forwarded, O_TRUNC);
    int near = make(local, O_TRUNC);
    struct iocb rq[] = { request(near, IOCB_CMD_PWRITE, text, 2, 0),
                         request(far, IOCB_CMD_PWRITE, text + 2, 2, 0),
                         request(far, IOCB_CMD_PWRITE, text + 4, 2, 2),
                         request(near, IOCB_CMD_PWRITE, text + 6, 2, 2),
                         request(far, 77, text, 2, 4),
                         request(near, IOCB_CMD_PWRITE, text, 2, 4) };
    struct iocb *list[] = { &rq[0], &rq[1], &rq[2], &rq[3], &rq[4], &rq[5] };
    struct io_event event[6];

    IS(submit(6, list), 4);
    IS(events(4, 6, event), 4);
    for (int i = 0; i < 4; i++)
        IS(event[i].res, 2);

    IS(submit(2, list + 4), -EINVAL);
    IS(pread(far, got, 8, 0), 4);
    IS(strcmp(got, "cdef"), 0);
    IS(pread(near, got, 8, 0), 4);
    IS(strcmp(got, "abgh"), 0);
    close(far);
    close(near);
}

/* A program that looks into the ring itself, after its eventfd has said that there is something (QEMU). */
struct ring {
    unsigned id, slots, head, tail, magic, compatible, incompatible, header_bytes;
    struct io_event event[];
};

static void notifies(void)
{
    struct ring *ring = (struct ring *)context;
    uint64_t count = 0;
    int fd = make(forwarded, O_TRUNC);
    int notice = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct iocb rq = request(fd, IOCB_CMD_PWRITE, "data", 4, 0);

    rq.aio_flags = IOCB_FLAG_RESFD;
    rq.aio_resfd = (uint32_t)notice;
    IS(submit(1, (struct iocb *[]){ &rq }), 1);
    IS(read(notice, &count, sizeof count), 8);
    IS(count, 1);
    IS(ring->magic, 0xa10a10a1);

    const struct io_event *event = &ring->event[ring->head];

    IS(ring->head != ring->tail, 1);
    IS(event->obj, (uintptr_t)&rq);
    IS(event->res, 4);
    ring->head = (ring->head + 1) % ring->slots;
    close(notice);
    close(fd);
}

/* One thread submits, another gets the events and finds each request as it was made. */
#define ROUNDS 3000

static struct iocb flying[4];
static int file;

static void *get_events(void *arg)
{
    for (int got = 0; got < ROUNDS;) {
        struct io_event event[4];
        long n = events(1, 4, event);

        IS(n >= 1, 1);
        for (long i = 0; i < n; i++) {
            struct iocb *rq = (struct iocb *)(uintptr_t)event[i].obj;

            IS(rq >= flying && rq < flying + 4, 1);
            IS(event[i].res, 8);
            IS(rq->aio_fildes, file);
            IS(rq->aio_nbytes, 16);
            IS(rq->aio_lio_opcode, IOCB_CMD_PREAD);
            __atomic_store_n(&rq->aio_data, 0, __ATOMIC_RELEASE); /* free again */
        }

        got += (int)n;
    }

    return arg;
}

static void reaps(void)
{
    static char room[4][16];
    pthread_t thread;

    file = make(forwarded, O_TRUNC);
    IS(write(file, "12345678", 8), 8);
    IS(pthread_create(&thread, NULL, get_events, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct iocb *rq = &flying[i % 4];

        while (__atomic_load_n(&rq->aio_data, __ATOMIC_ACQUIRE))
            sched_yield();

        *rq = request(file, IOCB_CMD_PREAD, room[i % 4], 16, 0);
        IS(submit(1, &rq), 1);
    }

    IS(pthread_join(thread, NULL), 0);
    IS(memcmp(room[3], "12345678", 8), 0);
    close(file);
}

/* A forked child makes a context of its own; the descriptor that its parent's requests use is there, too. */
static void forks(void)
{
    char got[8] = { 0 };
    int fd = make(forwarded, O_TRUNC);

    IS(RUN(fd, IOCB_CMD_PWRITE, "parent", 6, 0), 6);

    pid_t child = fork();

    if (child == 0) {
        context = 0;
        IS(syscall(SYS_io_setup, 4, &context), 0);
        IS(RUN(fd, IOCB_CMD_PWRITE, "CHILD", 5, 0), 5);
        IS(RUN(fd, IOCB_CMD_PREAD, got, 6, 0), 6);
        IS(strcmp(got, "CHILDt"), 0);
        _exit(0);
    }

    int status;

    IS(waitpid(child, &status, 0), child);
    IS(status, 0);
    IS(RUN(fd, IOCB_CMD_PREAD, got, 6, 0), 6);
    IS(strcmp(got, "CHILDt"), 0);
    close(fd);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = { { "moves", moves }, { "fails", fails },       { "appends", appends_and_polls },
                  { "mixes", mixes }, { "notifies", notifies }, { "reaps", reaps },
                  { "forks", forks } };

    if (argc != 4)
        return 2;

    forwarded = argv[2];
    local = argv[3];
    if (syscall(SYS_io_setup, 8, &context) != 0)
        return 77;

    for (int by_library = 0; by_library < 2; by_library++) {
        if (by_library && !dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL) &&
            !dlopen("libaio.so.1t64", RTLD_NOW | RTLD_GLOBAL)) {
            puts("no libaio");
            break;
        }

        if (by_library) {
            *(void **)&library_submit = dlsym(RTLD_DEFAULT, "io_submit");
            *(void **)&library_events = dlsym(RTLD_DEFAULT, "io_getevents");
            IS(library_submit && library_events, 1);
        }

        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            if (strcmp(parts[i].name, argv[1]) == 0)
                parts[i].run();
    }

    printf("%s done\n", argv[1]);
    return 0;
}
