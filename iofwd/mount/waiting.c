/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: threads for calls that wait (locks, fsync).  A thread of the session passes such a
 * call to one of them and continues, so waiting calls, however many, never keep the session from
 * the calls that end the wait.
 *
 * Layer: iofwd.  Thread rule: any thread of the session.
 */
#include <errno.h>
#include <stdatomic.h>

#include "iofwd/mount/mount.h"

#include "base/os/thread.h"

#define STACK_BYTES ((size_t)256 << 10)

/* Has the waiting call of this thread been interrupted?  The client asks while it waits for the
 * server. */
static bool is_interrupted(void)
{
    struct amph_mount_waiting *w = amph_mount_thread.waiting;

    return w && atomic_load(&w->interrupted);
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
    struct amph_mount_waiting *w = arg;

    amph_fwd_set_caller((struct amph_fwd_caller){ fuse_req_ctx(w->req)->pid, -1 });
    amph_mount_request_of_thread(w->request);
    amph_mount_thread.waiting = w;
    w->run(w);
    amph_mount_request_end(amph_mount_thread.request);
    return NULL;
}

int amph_mount_waiting_start(struct amph_mount_waiting *w, bool interruptible)
{
    pthread_t thread;
    struct amph_mount_request *session = amph_mount_thread.request;

    w->request = amph_mount_request_make();
    if (!w->request)
        return ENOMEM;

    atomic_init(&w->interrupted, false);
    if (session)
        amph_mount_request_hand_over(session, w->request);

    if (interruptible)
        fuse_req_interrupt_func(w->req, on_interrupt, w);

    int err = amph_thread_start(&thread, true, STACK_BYTES, run, w);

    if (err) {
        amph_mount_waiting_end(w);
        if (session)
            amph_mount_request_hand_over(w->request, session);

        amph_mount_request_free(w->request);
    }

    return err;
}

void amph_mount_waiting_end(struct amph_mount_waiting *w)
{
    fuse_req_interrupt_func(w->req, NULL, NULL);
    amph_mount_thread.waiting = NULL;
}
