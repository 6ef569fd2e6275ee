/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server is killed in the middle (-on-server-death eio): calls in flight and later ones on it
 * give EIO and never hang; the clients of the other server notice nothing.  Rank 0 kills its
 * server; every rank writes all the time.
 */
#include <errno.h>
#include <fcntl.h>
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

#define RUN_NS (1500 * AMPH_NS_PER_MS)
#define PROMPT_NS (3 * AMPH_NS_PER_S)

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
    int err;
    uint64_t end_ns;
};

static void *write_on(void *arg)
{
    struct writer *wr = arg;
    struct amph_fwd_file f;
    char path[64];
    char *buf = calloc(1, wr->bytes);
    uint64_t until = amph_now_ns() + RUN_NS;
    size_t n;

    snprintf(path, sizeof path, "/fwd/death-%u-%zu", amph_fwd_client_number(cl), wr->bytes);
    wr->err = amph_fwd_open(cl, NULL, path, O_RDWR | O_CREAT, 0600, &f);
    while (!wr->err && amph_now_ns() < until)
        wr->err = amph_fwd_pwrite(cl, &f, 0, buf, wr->bytes, &n);

    wr->end_ns = amph_now_ns();
    free(buf);
    return NULL;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = { 100, 1 << 20 };
    struct writer wr[2];
    pthread_t t[2];
    int failures = 0;

    without_preload(amph_env_foreign("LD_PRELOAD"), argv);
    if (amph_fwd_process(&cl) != 0)
        return 1;

    bool killer = cl->rank == 0;
    bool victim = cl->servers[0] == cl->first + 0;

    for (int i = 0; i < 2; i++) {
        wr[i] = (struct writer){ .bytes = sizes[i] };
        pthread_create(&t[i], NULL, write_on, &wr[i]);
    }

    if (killer) {
        /* in the middle of both threads' writing */
        struct timespec soon = { 0, 300 * 1000 * 1000 };
        pid_t pid = server_pid();

        nanosleep(&soon, NULL);
        killed_ns = amph_now_ns();

        if (pid <= 1 || kill(pid, SIGKILL) != 0) {
            printf("cannot find the server's process\n");
            return 1;
        }
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
