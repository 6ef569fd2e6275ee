/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server is killed in the middle (-on-server-death eio): calls in flight and later ones on it
 * give EIO and never hang; the clients of the other server notice nothing.  Rank 0 kills its
 * server when every rank is writing: those of that server write until they get an error, the
 * others until some time after the death.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "iofwd/client/internal.h"
#include "tests/files/fwd_bare.h"

#define AFTER_NS (1000 * AMPH_NS_PER_MS)
#define PROMPT_NS (3 * AMPH_NS_PER_S)
#define LIMIT_NS (30 * AMPH_NS_PER_S) /* where no death comes */

static const size_t sizes[] = { 100, 1 << 20 }; /* of the writes of a rank's two threads */

static struct amph_fwd_client *cl;
static _Atomic uint64_t killed_ns;

/* The process at the other end of the control connection. */
static pid_t server_pid(void)
{
    struct ucred cred = { .pid = -1 };
    socklen_t len = sizeof cred;

    getsockopt(cl->link[cl->servers[0] - cl->first].control_fd, SOL_SOCKET, SO_PEERCRED, &cred,
               &len);
    return cred.pid;
}

struct writer {
    size_t bytes;
    bool victim; /* of the server that dies */
    int err;
    uint64_t end_ns;
};

/* The file that a rank writes.  Both servers keep the same directory, and so do the jobs of the other
 * cases, one after the other. */
static void name_file(uint32_t rank, size_t bytes, char path[64])
{
    snprintf(path, 64, "/fwd/death-%" PRIx64 "-%u-%zu", cl->job->id, rank, bytes);
}

/* The file that exists from shortly before the death. */
static void name_mark(char path[64])
{
    snprintf(path, 64, "/fwd/killing-%" PRIx64, cl->job->id);
}

static bool exists(const char *path)
{
    struct amph_fwd_file f;

    if (amph_fwd_open(cl, NULL, path, O_RDONLY, 0, &f) != 0)
        return false;

    amph_fwd_close(cl, &f);
    return true;
}

static void *write_on(void *arg)
{
    struct writer *wr = arg;
    struct amph_fwd_file f;
    char path[64];
    char mark[64];
    char *buf = calloc(1, wr->bytes);
    uint64_t until = amph_now_ns() + LIMIT_NS;
    bool told = wr->victim;
    size_t n;

    name_file(cl->rank, wr->bytes, path);
    name_mark(mark);
    wr->err = amph_fwd_open(cl, NULL, path, O_RDWR | O_CREAT, 0600, &f);
    while (!wr->err && amph_now_ns() < until) {
        wr->err = amph_fwd_pwrite(cl, &f, 0, buf, wr->bytes, &n);
        if (!told && exists(mark)) {
            told = true;
            until = amph_now_ns() + AFTER_NS;
        }
    }

    wr->end_ns = amph_now_ns();
    free(buf);
    return NULL;
}

/* Waits until all ranks write, and kills the server of this one in the middle of it. */
static bool kill_server(void)
{
    struct timespec soon = { 0, 300 * 1000 * 1000 };
    struct amph_fwd_file f;
    pid_t pid = server_pid();
    char path[64];

    for (uint32_t rank = 0; rank < cl->first; rank++) {
        for (int i = 0; i < 2; i++) {
            name_file(rank, sizes[i], path);
            while (!exists(path))
                nanosleep(&(struct timespec){ 0, 1000 * 1000 }, NULL);
        }
    }

    nanosleep(&soon, NULL);
    name_mark(path);
    if (amph_fwd_open(cl, NULL, path, O_WRONLY | O_CREAT, 0600, &f) != 0)
        return false;

    killed_ns = amph_now_ns();
    return pid > 1 && kill(pid, SIGKILL) == 0;
}

int main(int argc, char **argv)
{
    struct writer wr[2];
    pthread_t t[2];
    int failures = 0;

    without_preload(amph_env_foreign("LD_PRELOAD"), argv);
    if (amph_fwd_process(&cl) != 0)
        return 1;

    bool killer = cl->rank == 0;
    bool victim = cl->servers[0] == cl->first + 0;

    for (int i = 0; i < 2; i++) {
        wr[i] = (struct writer){ .bytes = sizes[i], .victim = victim };
        pthread_create(&t[i], NULL, write_on, &wr[i]);
    }

    if (killer && !kill_server()) {
        printf("cannot find or kill the server's process\n");
        return 1;
    }

    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        if (victim && wr[i].err != EIO) {
            printf("rank %u, %zu bytes: error %d instead of EIO\n", cl->rank, wr[i].bytes,
                   wr[i].err);
            failures++;
        }

        if (!victim && wr[i].err != 0) {
            printf("rank %u, %zu bytes: error %d on a server that lives\n", cl->rank, wr[i].bytes,
                   wr[i].err);
            failures++;
        }

        if (killer && wr[i].end_ns - killed_ns > PROMPT_NS) {
            printf("rank %u, %zu bytes: EIO only after %.1f s\n", cl->rank, wr[i].bytes,
                   (wr[i].end_ns - killed_ns) * 1e-9);
            failures++;
        }
    }

    struct amph_fwd_file f;
    uint64_t start = amph_now_ns();
    int err = amph_fwd_open(cl, NULL, "/fwd/after", O_RDWR | O_CREAT, 0600, &f);

    if (err != (victim ? EIO : 0) || amph_now_ns() - start > PROMPT_NS) {
        printf("rank %u: open afterwards gives %d after %.1f s\n", cl->rank, err,
               (amph_now_ns() - start) * 1e-9);
        failures++;
    }

    return failures != 0;
}
