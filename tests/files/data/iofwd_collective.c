/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective reads and writes: extents dealt out at random to all processes, with holes, from the
 * segment and from other memory, against a model; what one process cannot do is everyone's error; a
 * process that leaves ends the waiting of the others.   iofwd_collective SEED ROUNDS
 */
#define _GNU_SOURCE 1
#include <gasnetex.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "iofwd.h"
#include "tests/files/fwd_kill.h"

enum {
    FILE_BYTES = 3 << 20,
    EXTENTS = 20,
    SEGMENT = 8 << 20,
    NOBODY = 255
};

static gex_TM_t tm;
static uint32_t me, procs;
static uint64_t state; /* the same in all processes */
static uint8_t *model, *dealt, *seg, *heap;
static size_t size;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static void need(int ok, const char *what, uint64_t value)
{
    if (ok)
        return;

    fprintf(stderr, "process %u: %s (%llu)\n", (unsigned)me, what, (unsigned long long)value);
    gasnet_exit(1);
}

static void meet(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static iofwd_file_t *open_by_name(iofwd_file_t *mine, uint32_t whose)
{
    char name[IOFWD_NAME_BYTES] = "";
    iofwd_file_t *f = mine;

    need(me != whose || iofwd_name(mine, name) == 0, "iofwd_name", 0);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, whose, name, name, sizeof name, 0));

    int err = me == whose ? 0 : iofwd_open_name(name, &f);

    need(err == 0, "iofwd_open_name", (uint64_t)err);
    meet();
    return f;
}

/* Deals the bytes of an extent out: runs of one process each, by a pattern or at random; who: of
 * each byte. */
static void deal(uint8_t *who, size_t len)
{
    size_t run = 1 + draw(draw(2) ? 5000 : 100);
    size_t holes = draw(3);
    int pattern = draw(2) == 0;

    for (size_t at = 0, i = 0, n; at < len; at += n, i++) {
        n = pattern ? run : 1 + draw(run * 2);
        n = n < len - at ? n : len - at;

        /* a few, or nearly all of it */
        bool hole = holes == 0 ? draw(8) == 0 : holes == 1 && draw(16) > 0;

        int process = (int)(i % procs);

        if (!pattern)
            process = hole ? NOBODY : (int)draw(procs);

        memset(who + at, process, n);
    }
}

/* This process's rows, short of the maximum count and of `max` bytes; what is left out
 * becomes a hole for everybody: it is done for all processes, so that they agree. */
static size_t rows_of(uint8_t *who, size_t len, uint32_t p, size_t max, struct iofwd_row *row,
                      size_t *bytes_p)
{
    size_t n = 0;
    size_t bytes = 0;

    for (size_t at = 0, end; at < len; at = end) {
        for (end = at; end < len && who[end] == who[at]; end++)
            ;

        if (who[at] != p)
            continue;

        struct iofwd_row *last = n ? &row[n - 1] : NULL;
        uint32_t run = (uint32_t)(end - at);
        bool same = last && last->len == run &&
                    (last->count == 1 || at == last->at + (size_t)last->count * last->stride);

        if (bytes + run > max || (!same && n == IOFWD_ROWS_MAX)) {
            memset(who + at, NOBODY, end - at);
            continue;
        }

        bytes += run;
        if (same) {
            last->stride = (uint32_t)(at - last->at) / last->count;
            last->count++;
        } else
            row[n++] = (struct iofwd_row){ .at = (uint32_t)at, .len = run, .count = 1 };
    }

    *bytes_p = bytes;
    return n;
}

static uint8_t value(uint64_t round, size_t at)
{
    return (uint8_t)((at * 2654435761u + round * 977) >> 11);
}

/* One call with many extents of several files, which together are the file from some place on. */
static void round_of(iofwd_file_t **file, size_t nfiles, uint64_t round, int writing)
{
    static struct iofwd_row row[EXTENTS][IOFWD_ROWS_MAX], other[IOFWD_ROWS_MAX];
    struct iofwd_extent s[EXTENTS];
    size_t n = 1 + draw(EXTENTS);
    size_t at = draw(FILE_BYTES / 2);
    size_t used = 0;
    size_t max = iofwd_collective_max(file[0]);
    uint8_t *buf = draw(3) ? seg : heap;

    memset(dealt, NOBODY, FILE_BYTES);
    for (size_t i = 0; i < n; i++) {
        size_t len = draw((FILE_BYTES / 2 - 1) / EXTENTS);

        deal(dealt + at, len);
        s[i] = (struct iofwd_extent){ .file = file[draw(nfiles)],
                                      .number = i,
                                      .processes = procs,
                                      .off = (off_t)at,
                                      .len = len };

        for (uint32_t p = 0; p < procs; p++) {
            size_t bytes;
            size_t rows = rows_of(dealt + at, len, p, max, p == me ? row[i] : other, &bytes);

            if (p != me)
                continue;

            s[i].rows = row[i];
            s[i].nrows = rows;
            s[i].buf = buf + used;
            used += bytes;
        }

        at += len + draw(2) * draw(100);
    }

    need(used <= SEGMENT, "room", used);

    size_t end = at < FILE_BYTES ? at : FILE_BYTES;
    size_t k = 0;
    size_t first = (size_t)s[0].off;

    for (size_t b = first; b < end; b++) { /* what lies between two extents is nobody's */
        if (dealt[b] == me)
            buf[k++] = writing ? value(round, b) : 0xee;
        if (writing && dealt[b] != NOBODY) {
            model[b] = value(round, b);
            size = size > b + 1 ? size : b + 1;
        }
    }

    need(k == used, "dealing", k);

    int err = writing ? iofwd_pwrite_collective(s, n) : iofwd_pread_collective(s, n);

    need(err == 0, writing ? "iofwd_pwrite_collective" : "iofwd_pread_collective", (uint64_t)err);
    for (size_t i = 0; i < n; i++) {
        size_t mine = 0;
        size_t whole = 0;

        for (size_t b = 0; b < s[i].len; b++) {
            if (dealt[(size_t)s[i].off + b] != me)
                continue;

            whole++;
            if (writing || (size_t)s[i].off + b < size)
                need(writing || ((uint8_t *)s[i].buf)[mine] == model[(size_t)s[i].off + b],
                     "contents", (uint64_t)s[i].off + b),
                    mine++;
        }

        need(s[i].done == mine && s[i].error == 0, "done", s[i].done);
        for (; mine < whole && !writing; mine++)
            need(((uint8_t *)s[i].buf)[mine] == 0xee, "beyond the end", mine);
    }
}

static void compare(iofwd_file_t *f)
{
    size_t n = 0;
    struct stat st;

    meet();
    need(iofwd_fstat(f, &st) == 0 && (size_t)st.st_size == size, "size", (uint64_t)st.st_size);
    need(iofwd_pread(f, heap, FILE_BYTES, 0, &n) == 0 && n == size && memcmp(heap, model, n) == 0,
         "the file", n);
    meet();
}

/* ---- what goes wrong for one goes wrong for all ---- */

static int one(iofwd_file_t *f, uint64_t number, off_t off, struct iofwd_row *row, size_t nrows,
               int writing)
{
    struct iofwd_extent s = { .file = f,
                              .number = number,
                              .processes = procs,
                              .off = off,
                              .len = 1 << 20,
                              .rows = row,
                              .nrows = nrows,
                              .buf = heap };
    int err = writing ? iofwd_pwrite_collective(&s, 1) : iofwd_pread_collective(&s, 1);

    need(err == s.error && (err == 0 || s.done == 0), "one answer", (uint64_t)err);
    return err;
}

static void errors(iofwd_file_t *f, const char *path)
{
    struct iofwd_row mine = { me * 10, 10, 0, 1 };
    struct iofwd_row wrong[] = { { 5, 10, 0, 1 }, { 14, 1, 0, 1 } };
    size_t max = iofwd_collective_max(f);
    int last = me == procs - 1;

    need(one(f, 1, 0, last ? wrong : &mine, last ? 2 : 1, 1) == EINVAL, "rows that overlap", 0);
    wrong[0] = (struct iofwd_row){ (1 << 20) - 5, 6, 0, 1 };
    need(one(f, 1, 0, last ? wrong : &mine, 1, 1) == EINVAL, "a row outside", 0);
    wrong[0] = (struct iofwd_row){ 0, 8, 7, 2 };
    need(one(f, 1, 0, last ? wrong : &mine, 1, 1) == EINVAL, "a stride that is too short", 0);
    wrong[0] = (struct iofwd_row){ 1 << 19, (uint32_t)max + 1, 0, 1 };
    need(max >= 1 << 19 || one(f, 1, 0, last ? wrong : &mine, 1, 1) == E2BIG, "too long a part",
         max);
    if (procs > 1)
        need(one(f, 1, last ? 4096 : 0, &mine, 1, 1) == EINVAL, "different extents", 0);

    need(one(f, 1, (off_t)1 << 62, &mine, 1, 1) == EFBIG, "what the file system refuses", 0);
    need(one(f, 1, (off_t)1 << 40, &mine, 1, 0) == 0, "reading far behind the end", 0);

    iofwd_file_t *reader, *shared;

    need(iofwd_open(path, O_RDONLY, 0, &reader) == 0, "open", 0);
    shared = open_by_name(reader, procs - 1);
    need(one(shared, 9, 0, &mine, 1, 1) == EBADF, "a file that is open for reading", 0);
    need(one(shared, 9, 0, &mine, 1, 0) == 0, "the same is read", 0);
    meet();

    if (me == 0 && procs > 1) /* the others wait, or come and find that one is missing */
        need(iofwd_close(shared) == 0, "close", 0);
    else if (procs > 1)
        need(one(shared, 10, 0, &mine, 1, 0) == EIO, "one has left", 0);

    meet();
    if (shared != reader && me != 0)
        iofwd_close(shared);

    need(iofwd_close(reader) == 0, "close", 0);
    need(iofwd_open_name("0.1", &reader) == EBADF || iofwd_open_name("1000000.1", &reader) == EBADF,
         "a name that is none", 0);
    need(iofwd_open_name("nonsense", &reader) == EINVAL, "a text that is no name", 0);
}

/* ---- what the servers spend ---- */

/* The most memory that this process's servers have had, in KiB. */
static long peak_of_servers(void)
{
    long sum = 0;
    long kib;

    for (int fd = 3; fd < 1024; fd++) {
        pid_t pid = server_behind(fd);
        char name[64], line[128];

        snprintf(name, sizeof name, "/proc/%ld/status", (long)pid);

        FILE *status = pid ? fopen(name, "r") : NULL;

        while (status && fgets(line, sizeof line, status))
            sum += sscanf(line, "VmHWM: %ld kB", &kib) == 1 ? kib : 0;

        if (status)
            fclose(status);
    }

    return sum;
}

/* A few bytes of a long extent do not make a server keep all of it. */
static void memory(const char *path)
{
    enum {
        LONG = 256 << 20,
        MIN_KIB = 1 << 10,
        GROWTH_MAX_KIB = 64 << 10
    };

    struct iofwd_row row[] = { { me, 1, 0, 1 }, { LONG - 100 + me, 1, 0, 1 } };
    iofwd_file_t *mine, *file;

    need(iofwd_open(path, O_RDWR | O_CREAT, 0600, &mine) == 0, "open", 0);
    file = open_by_name(mine, 0);
    need(iofwd_ftruncate(file, LONG) == 0, "truncate", 0);

    long before = peak_of_servers();

    need(before > MIN_KIB, "the servers' memory is known", (uint64_t)before);
    meet();

    struct iofwd_extent s = {
        .file = file, .processes = procs, .len = LONG, .rows = row, .nrows = 2, .buf = heap
    };
    int err = iofwd_pread_collective(&s, 1);

    need(err == 0 && s.done == 2, "a few bytes are read", s.done);

    long grown = peak_of_servers() - before;

    need(grown < GROWTH_MAX_KIB, "KiB that a server takes for a few bytes", (uint64_t)grown);
    need(iofwd_close(file) == 0 && (file == mine || iofwd_close(mine) == 0), "close", 0);
    meet();
}

/* A child of each process has its open files, too; it ends without taking part. */
static void missing_child(const char *path)
{
    iofwd_file_t *f;
    struct iofwd_row row = { 0, 100, 0, 1 };
    struct iofwd_extent s = { .processes = 2, .len = 100, .rows = &row, .nrows = 1, .buf = heap };

    need(iofwd_open(path, O_RDWR, 0, &f) == 0, "open", 0);
    s.file = f;

    pid_t child = fork();

    if (child == 0)
        _exit(0);

    int err = iofwd_pwrite_collective(&s, 1);

    need(err == EIO, "the other has died", (uint64_t)err);
    waitpid(child, NULL, 0);
    need(iofwd_close(f) == 0, "close", 0);
    meet();
}

struct told {
    pid_t pid;
    int how;
    sem_t sent;
};

/* The signals are to arrive while the others wait; the pauses make that likely, and no result depends
 * on it. */
static void *tell(void *arg)
{
    struct told *t = arg;

    usleep(100000);
    kill(t->pid, t->how);
    sem_post(&t->sent);
    usleep(100000);
    kill(t->pid, SIGCONT);

    return NULL;
}

/* Another one, which has the file too, is stopped or killed, before it has come (a long nap) or
 * when it waits for us. */
static void signalled_child(const char *path, int how, unsigned nap_s)
{
    iofwd_file_t *f;
    struct iofwd_row row = { 0, 100, 0, 1 };
    struct iofwd_row other = { 100, 100, 0, 1 };
    struct iofwd_extent s = { .processes = 2, .len = 200, .rows = &row, .nrows = 1, .buf = heap };
    int status;

    need(iofwd_open(path, O_RDWR, 0, &f) == 0, "open", 0);
    s.file = f;

    pid_t child = fork();

    if (child == 0) {
        s.rows = &other;
        sleep(nap_s);
        _exit(iofwd_pwrite_collective(&s, 1) != 0);
    }

    struct told told = { .pid = child, .how = how };
    pthread_t thread;

    need(sem_init(&told.sent, 0, 0) == 0, "a semaphore", 0);
    need(pthread_create(&thread, NULL, tell, &told) == 0, "a thread", 0);
    if (nap_s == 0)
        need(sem_wait(&told.sent) == 0 && usleep(100000) == 0, "the signal is sent", 0);

    int err = iofwd_pwrite_collective(&s, 1);

    /* The part of one that was killed counts if the server did not learn of its death in time. */
    bool may_fail = how == SIGKILL;
    bool may_succeed = how != SIGKILL || nap_s == 0;

    need((err == EIO && may_fail) || (err == 0 && may_succeed), "result of a collective write",
         (uint64_t)err);
    need(waitpid(child, &status, 0) == child &&
             (how == SIGKILL ? WIFSIGNALED(status) : status == 0),
         "the other one", (uint64_t)status);
    pthread_join(thread, NULL);
    need(iofwd_close(f) == 0, "close", 0);
    meet();
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    char path[] = "/fwd/collective";

    if (argc != 3 || gex_Client_Init(&client, &ep, &tm, "COLLECTIVE", &argc, &argv, 0) != GASNET_OK)
        return 1;

    me = gex_TM_QueryRank(tm);
    procs = gex_TM_QuerySize(tm);
    state = strtoull(argv[1], NULL, 0);
    if (gex_Segment_Attach(&segment, tm, SEGMENT) != GASNET_OK)
        gasnet_exit(1);

    seg = gex_Segment_QueryAddr(segment);
    heap = malloc(SEGMENT);
    model = calloc(1, FILE_BYTES);
    dealt = malloc(FILE_BYTES);

    iofwd_file_t *mine, *file[2];

    need(heap && model && dealt &&
             iofwd_open(path, O_RDWR | O_CREAT | (me == 0 ? O_TRUNC : 0), 0600, &mine) == 0,
         "open", 0);
    meet();
    file[0] = open_by_name(mine, 0);
    file[1] = open_by_name(mine, procs - 1);

    size_t nfiles = iofwd_file_server(file[0]) != iofwd_file_server(file[1]) ? 2 : 1;

    for (uint64_t round = 0, rounds = strtoull(argv[2], NULL, 0); round < rounds; round++) {
        round_of(file, nfiles, round, draw(2) == 0);
        compare(mine);
    }

    errors(file[0], path);
    memory("/fwd/long");
    missing_child(path);
    signalled_child(path, SIGKILL, 100);
    signalled_child(path, SIGKILL, 0);
    signalled_child(path, SIGSTOP, 0);
    signalled_child(path, SIGSTOP, 1);
    gasnet_exit(0);

    return 0;
}
