/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Greedy clients beside a normal one, at one server (fwd_greedy.sh).
 *
 *   fwd_greedy threads KEPT   all but the last process keep as many calls as they can blocked at
 *                             FIFOs, more than the server has workers; the last one's calls, which
 *                             need workers too, are executed all the same
 *   fwd_greedy memory KEPT    the first process has calls under way that need more memory than
 *                             IOFWD_CLIENT_MEMORY: some give ENOMEM; the last one's calls succeed
 *   fwd_greedy collective KEPT  beside a collective call of the first process that waits for the last
 *                             one's part, another one is ENOMEM: what the server keeps for both is
 *                             more than IOFWD_CLIENT_MEMORY; the last one's calls succeed
 *
 *   fwd_greedy segment KEPT MAPPED  calls on buffers in a segment of SEGMENT bytes are right, and the
 *                             server has mapped the segment (MAPPED is 1), or has not because its
 *                             addresses are too few for that (0)
 *
 * KEPT is the directory that the server exports as /fwd.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gasnetex.h>

#include "iofwd.h"
#include "tests/files/fwd_kill.h"

enum {
    THREADS = 64,     /* as many calls as a client can have under way */
    BUSY_TASKS = 200, /* threads of a server whose workers are in use */
    CALLS = 200,
    LARGE = 1 << 20,
    LARGE_READS = 16,
    SEGMENT = 192 << 20
};

static unsigned rank;
static const char *kept;
static size_t read_bytes = 1;
static atomic_uint nomem;

static void need(int ok, const char *what, long value)
{
    if (ok)
        return;

    fprintf(stderr, "process %u: %s: %ld\n", rank, what, value);
    gasnet_exit(1);
}

static iofwd_file_t *open_fifo(unsigned number)
{
    char name[64];
    char path[4096];
    iofwd_file_t *file;

    snprintf(name, sizeof name, "greedy.%u.%u", rank, number);
    snprintf(path, sizeof path, "%s/%s", kept, name);
    (void)unlink(path); /* of a job before */
    need(mkfifo(path, 0600) == 0, "mkfifo", (long)number);
    snprintf(path, sizeof path, "/fwd/%s", name);

    int err = iofwd_open(path, O_RDWR, 0, &file);

    need(err == 0, "open", err);
    return file;
}

/* A read that waits until the process ends, or is refused. */
static void *read_blocked(void *file)
{
    char *buf = malloc(read_bytes);
    size_t done;
    int err = iofwd_read(file, buf, read_bytes, &done);

    if (err == ENOMEM)
        atomic_fetch_add(&nomem, 1);
    else
        need(err == EIO, "a read that has to wait", err); /* at the end of the job */

    free(buf);
    return NULL;
}

static void start_reads(unsigned n)
{
    pthread_t thread;

    for (unsigned i = 0; i < n; i++)
        need(pthread_create(&thread, NULL, read_blocked, open_fifo(i)) == 0, "thread", (long)i);
}

static unsigned tasks_of(pid_t pid)
{
    char name[64];
    unsigned n = 0;

    snprintf(name, sizeof name, "/proc/%ld/task", (long)pid);

    DIR *d = opendir(name);

    while (d && readdir(d))
        n++;

    if (d)
        closedir(d);

    return n;
}

static void wait_until_busy(void)
{
    iofwd_file_t *file = open_fifo(1);
    pid_t server = newest_server();

    need(server > 0, "the server's process", server);
    while (tasks_of(server) < BUSY_TASKS)
        usleep(1000);

    need(iofwd_close(file) == 0, "close", 0);
}

/* Calls on a FIFO are executed by workers. */
static void work_as_usual(void)
{
    iofwd_file_t *file = open_fifo(0);
    char byte = 'x';
    size_t done;

    for (unsigned i = 0; i < CALLS; i++) {
        need(iofwd_write(file, &byte, 1, &done) == 0 && done == 1, "a normal write", (long)i);
        need(iofwd_read(file, &byte, 1, &done) == 0 && done == 1, "a normal read", (long)i);
    }
}

/* A part of half of IOFWD_CLIENT_MEMORY, for which the server counts several times its length. */
static char part[LARGE / 2];

static int write_collective(iofwd_file_t *file, uint64_t number, uint32_t processes, bool rows)
{
    const struct iofwd_row row = { .at = 0, .len = sizeof part, .stride = 0, .count = 1 };
    struct iofwd_extent s = { .file = file,
                              .number = number,
                              .processes = processes,
                              .len = sizeof part,
                              .rows = &row,
                              .nrows = rows,
                              .buf = part };

    return iofwd_pwrite_collective(&s, 1);
}

/* The call that waits for the last process; again if one of be_refused was at the server first. */
static void *write_waiting(void *file)
{
    int err;

    do
        err = write_collective(file, 0, 2, true);
    while (err == ENOMEM);

    need(err == 0, "a collective call", err);
    return NULL;
}

/* One process is refused a second collective call, which it would execute alone, once the first one is at
 * the server. */
static void be_refused(iofwd_file_t *file, pthread_t *waiting_p)
{
    uint64_t number = 1;
    int err;

    need(pthread_create(waiting_p, NULL, write_waiting, file) == 0, "thread", 0);

    do
        err = write_collective(file, number++, 1, true);
    while (err == 0);

    need(err == ENOMEM, "a collective call that needs too much", err);
}

static void meet(gex_TM_t tm)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static int collective(gex_TM_t tm)
{
    char name[IOFWD_NAME_BYTES] = "";
    iofwd_file_t *file;
    pthread_t waiting;

    need(gex_TM_QuerySize(tm) == 2, "two processes", gex_TM_QuerySize(tm));

    if (rank == 0)
        need(iofwd_open("/fwd/together", O_RDWR | O_CREAT, 0600, &file) == 0 &&
                 iofwd_name(file, name) == 0,
             "open", 0);

    gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, name, name, sizeof name, 0));
    if (rank != 0)
        need(iofwd_open_name(name, &file) == 0, "open by name", 0);

    meet(tm);
    if (rank == 0)
        be_refused(file, &waiting);

    meet(tm);
    if (rank != 0) {
        work_as_usual();
        need(write_collective(file, 0, 2, false) == 0, "the last part", 0);
    } else {
        need(pthread_join(waiting, NULL) == 0, "join", 0);
    }

    need(iofwd_close(file) == 0, "close", 0);
    meet(tm);
    return 0;
}

/* Returns how much of this job's segments a process has mapped. */
static uint64_t mapped_by(pid_t pid)
{
    char name[64];
    char line[512];
    uint64_t from, to;
    uint64_t sum = 0;

    snprintf(name, sizeof name, "/proc/%ld/maps", (long)pid);

    FILE *maps = fopen(name, "re");

    need(maps != NULL, "the server's maps", pid);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "amphora-segment") &&
            sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2)
            sum += to - from;

    fclose(maps);
    return sum;
}

static int segment(gex_TM_t tm, bool mapped)
{
    gex_Segment_t seg;
    iofwd_file_t *file;
    size_t done;

    need(gex_Segment_Attach(&seg, tm, SEGMENT) == GASNET_OK, "attach", SEGMENT);

    char *data = gex_Segment_QueryAddr(seg);

    memset(data, 's', 2 * LARGE);
    need(iofwd_open("/fwd/segment", O_RDWR | O_CREAT, 0600, &file) == 0, "open", 0);
    need(iofwd_pwrite(file, data, LARGE, 0, &done) == 0 && done == LARGE, "write", (long)done);
    need(iofwd_pread(file, data + LARGE, LARGE, 0, &done) == 0 && done == LARGE, "read",
         (long)done);
    need(memcmp(data, data + LARGE, LARGE) == 0, "the data", 0);
    need((mapped_by(newest_server()) >= SEGMENT) == mapped, "mapped by the server", !mapped);
    need(iofwd_close(file) == 0, "close", 0);
    return 0;
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;

    if (gex_Client_Init(&client, &ep, &tm, "GREEDY", &argc, &argv, 0) != GASNET_OK || argc < 3)
        return 1;

    bool memory = strcmp(argv[1], "memory") == 0;
    bool normal = gex_TM_QueryRank(tm) == gex_TM_QuerySize(tm) - 1;

    rank = gex_TM_QueryRank(tm);
    kept = argv[2];
    if (strcmp(argv[1], "collective") == 0)
        gasnet_exit(collective(tm));

    if (strcmp(argv[1], "segment") == 0)
        gasnet_exit(segment(tm, argc > 3 && strcmp(argv[3], "1") == 0));

    if (memory)
        read_bytes = LARGE;

    if (!normal)
        start_reads(memory ? LARGE_READS : THREADS);

    while (memory && !normal && atomic_load(&nomem) < LARGE_READS / 2)
        usleep(1000);

    if (memory)
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));

    if (normal) {
        if (!memory)
            wait_until_busy();

        work_as_usual();
        printf("done\n");
        fflush(stdout);
        gasnet_exit(0);
    }

    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); /* until the normal process ends the job */
    return 1;
}
