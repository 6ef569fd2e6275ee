/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of a replay: operations that the program has started by one call and awaited by a later one,
 * whichever way.  They are made again by POSIX AIO.
 *
 * Layer: tools.  Thread rule: as a task, a request belongs to one thread.
 *
 * The C library carries out the requests on one descriptor one after another, as the kernel does not.  So each
 * gets a descriptor of its own.
 */
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/replay.h"

struct replay_flight {
    struct replay_flight *next;
    const struct amph_trace_event *event;
    struct aiocb cb;
    int fd; /* its own */
};

static int submit(struct replay_task *task, struct aiocb *cb, const struct amph_trace_event *e)
{
    const char *name = task->r->trace->names[e->name];

    cb->aio_buf = task->data;
    cb->aio_nbytes = e->length < REPLAY_BYTES_MAX ? e->length : REPLAY_BYTES_MAX;
    cb->aio_offset = e->has & AMPH_TRACE_HAS_OFFSET && e->offset >= 0 ? e->offset : 0;
    if (strstr(name, "read"))
        return aio_read(cb);
    if (strstr(name, "write"))
        return aio_write(cb);

    return aio_fsync(O_SYNC, cb);
}

int64_t replay_start(struct replay_task *task, const struct amph_trace_event *e, int fd)
{
    struct replay_flight *f = calloc(1, sizeof *f);

    if (!f)
        return -1;

    f->event = e;
    f->fd = dup(fd);
    f->cb.aio_fildes = f->fd;
    f->cb.aio_sigevent.sigev_notify = SIGEV_NONE;
    if (f->fd < 0 || submit(task, &f->cb, e) != 0) {
        int err = errno;

        if (f->fd >= 0)
            close(f->fd);

        free(f);
        errno = err;
        return -1;
    }

    f->next = task->flights;
    task->flights = f;
    return 0;
}

/* Takes the request out of the list. */
static int64_t finish(struct replay_flight **at)
{
    struct replay_flight *f = *at;
    const struct aiocb *list[] = { &f->cb };
    int err;

    while ((err = aio_error(&f->cb)) == EINPROGRESS)
        aio_suspend(list, 1, NULL);

    int64_t result = aio_return(&f->cb);

    *at = f->next;
    close(f->fd);
    free(f);
    errno = err;
    return err ? -1 : result;
}

int64_t replay_await(struct replay_task *task, const struct amph_trace_event *e)
{
    for (struct replay_flight **at = &task->flights; *at; at = &(*at)->next)
        if ((*at)->event == e)
            return finish(at);

    errno = EINVAL; /* it could not be started */
    return -1;
}

void replay_await_all(struct replay_task *task)
{
    while (task->flights)
        finish(&task->flights);
}
