/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: threads for calls that wait (locks, fsync).  A thread of the session hands such a
 * call over and goes on, so that any number of waiting calls leaves the session's threads to the
 * calls that end the waiting.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include "iofwd/mount/mount.h"

#include "base/os/thread.h"

#define STACK_BYTES ((size_t)256 << 10)

static _Thread_local struct amph_mount_waiting *mine;

/* The client's question while a call waits for its server. */
static bool is_interrupted(void)
{
    return mine && atomic_load(&mine->interrupted);
}

void amph_mount_waiting_begin(void)
{
    amph_fwd_set_cancelled(is_interrupted);
}

static void on_interrupt(fuse_req_t req, void *data)
{
    struct amph_mount_waiting *w = data;

    atomic_store(&w->interrupted, true);
}

static void *run(void *arg)
{
    mine = arg;
    mine->run(arg);
    return NULL;
}

int amph_mount_waiting_start(struct amph_mount_waiting *w, bool interruptible)
{
    pthread_t thread;

    atomic_init(&w->interrupted, false);
    if (interruptible)
        fuse_req_interrupt_func(w->req, on_interrupt, w);

    int err = amph_thread_start(&thread, true, STACK_BYTES, run, w);

    if (err)
        amph_mount_waiting_end(w);

    return err;
}

void amph_mount_waiting_end(struct amph_mount_waiting *w)
{
    fuse_req_interrupt_func(w->req, NULL, NULL);
    mine = NULL;
}
