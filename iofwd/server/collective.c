/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective calls (two-phase I/O): several clients read or write one extent of a file together,
 * each its own rows of it.  The parts wait here until all have arrived.  They are then merged in
 * file order, so that the file sees long calls and every byte crosses the network once.
 *
 * No participant waits forever.  A part that cannot be executed counts as arrived, with an error
 * for all.  If a client closes the file or dies, the calls waiting on the file fail, because it is
 * unknown which of them lack its part.
 *
 * Layer: iofwd.
 * Thread rule: progress thread, except amph_server_collective_run.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/status.h"
#include "iofwd/calls/calls.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/flow.h"
#include "iofwd/server/internal.h"

/* Average length from which runs are passed to the kernel in place; shorter ones are copied
 * together first. */
#define RUN_IN_PLACE_MIN 1024u

#define RUNS_MAX 512

/* The buffer of an extent is at most this many times its data, which counts as memory of the
 * clients. */
#define BUFFER_FACTOR_MAX 4u

/* The common beginning of the two calls' records. */
struct collective_args {
    struct amph_server_handle *file;
    off_t off;
    size_t len;
    const void *shape;
    size_t shape_len;
    void *data;
};

_Static_assert(offsetof(struct amph_server_args_pwritej, data) ==
                       offsetof(struct collective_args, data) &&
                   offsetof(struct amph_server_args_preadj, buf) ==
                       offsetof(struct collective_args, data),
               "the records must begin alike");

bool amph_server_collective_is(enum amph_fwd_id id)
{
    return id != AMPH_FWD_NCALLS && amph_fwd_calls[id].run == FWD_RUN_COLLECTIVE;
}

static bool writes(const struct amph_server_collective *j)
{
    return amph_fwd_calls[j->id].flags & FWD_CALL_WRITES;
}

static const struct collective_args *args_of(const struct amph_server_request *rq)
{
    return (const struct collective_args *)&rq->u;
}

size_t amph_server_collective_room(const struct amph_server_request *rq)
{
    return sizeof(struct amph_server_collective) + BUFFER_FACTOR_MAX * (size_t)rq->bulk.len;
}

int amph_server_collective_check(const struct amph_server_request *rq)
{
    const struct collective_args *a = args_of(rq);
    struct amph_fwd_view s;
    uint64_t at = 0;
    uint64_t sum = 0;

    if (!amph_fwd_get_view(a->shape, a->shape_len, &s))
        return EPROTO;
    if (a->off < 0 || a->len > FWD_COLLECTIVE_MAX || a->off > INT64_MAX - (off_t)a->len)
        return EINVAL;

    for (uint32_t i = 0; i < s.nrows; i++) {
        struct amph_fwd_extent row = amph_fwd_view_extent(&s, i);
        if (!amph_fwd_extent_fits(&row, a->len, &at, &sum))
            return EINVAL;
    }

    return sum == rq->bulk.len ? 0 : EINVAL;
}

/* ---- joining ---- */

/* Returns the waiting call that a part belongs to, or a new one if the part is the first.  NULL: no
 * memory. */
static struct amph_server_collective *find_or_make(const struct amph_server_request *rq,
                                                   const struct amph_fwd_view *s)
{
    const struct collective_args *a = args_of(rq);

    for (struct amph_server_collective *j = rq->handle->progress.collectives; j; j = j->next)
        if (j->number == s->number) {
            if (j->id != rq->id || j->off != a->off || j->len != a->len ||
                j->processes != s->processes)
                j->error = EINVAL;

            return j;
        }

    struct amph_server_collective *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;

    *j = (struct amph_server_collective){ .next = rq->handle->progress.collectives,
                                          .file = rq->handle,
                                          .id = rq->id,
                                          .number = s->number,
                                          .off = a->off,
                                          .len = a->len,
                                          .processes = s->processes,
                                          .last = &j->part };
    rq->handle->progress.collectives = j;
    return j;
}

static void unlist(struct amph_server_collective *j)
{
    struct amph_server_collective **at = &j->file->progress.collectives;

    while (*at != j)
        at = &(*at)->next;

    *at = j->next;
}

static uint64_t count_runs(const struct amph_fwd_view *s)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < s->nrows; i++)
        n += amph_fwd_view_extent(s, i).count;

    return n;
}

int amph_server_collective_join(struct amph_server_request *rq)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    struct amph_server_handle *h = rq->handle;
    struct amph_fwd_view s;

    amph_fwd_get_view(args_of(rq)->shape, args_of(rq)->shape_len, &s);
    if (rq->peer->gone)
        return EIO; /* nobody reads this answer */
    if (!amph_server_handle_held_by(rq->peer, h))
        return EBADF;
    if (h->progress.holder_died || s.processes > h->progress.nholders) {
        rq->exec.reason = AMPH_SERVER_WHY_COLLECTIVE;
        return EIO;
    }

    struct amph_server_collective *j = find_or_make(rq, &s);
    if (!j)
        return ENOMEM;

    if (rq->progress.transfer_st != AMPH_OK) {
        rq->exec.reason = AMPH_SERVER_WHY_TRANSFER;
        j->error = EIO;
    }

    if (s.absent)
        j->error = amph_fwd_errno_from_wire(s.absent);

    rq->collective = j;
    rq->next = NULL;
    *j->last = rq;
    j->last = &rq->next;
    j->nparts++;
    j->bytes += rq->bulk.len;
    j->nruns += count_runs(&s);
    if (++j->arrived < j->processes)
        return EINPROGRESS;

    unlist(j);
    return 0;
}

/* Fails a call that is no longer listed: its parts return to the progress thread with the error. */
static void fail(struct amph_server *s, struct amph_server_collective *j, int err)
{
    struct amph_server_request *rq = j->part;
    struct amph_server_request *next;

    for (; rq; rq = next) {
        next = rq->next;
        rq->collective = NULL;
        rq->exec.error = err;
        if (err == EIO)
            rq->exec.reason = AMPH_SERVER_WHY_COLLECTIVE;

        amph_server_work_done(s, rq);
    }

    free(j);
}

void amph_server_collective_refused(const struct amph_server_request *rq, int err)
{
    amph_server_assert_owner(&rq->server->progress.owner);

    struct amph_fwd_view s;

    amph_fwd_get_view(args_of(rq)->shape, args_of(rq)->shape_len, &s);
    if (rq->handle->progress.holder_died || s.processes > rq->handle->progress.nholders ||
        !amph_server_handle_held_by(rq->peer, rq->handle))
        return;

    struct amph_server_collective *j = find_or_make(rq, &s);
    if (!j)
        return;

    j->error = err;
    if (++j->arrived == j->processes) {
        unlist(j);
        fail(rq->server, j, err);
    }
}

static bool has_part(const struct amph_server_collective *j, const struct amph_server_peer *peer)
{
    const struct amph_server_request *rq = j->part;

    while (rq && rq->peer != peer)
        rq = rq->next;

    return rq;
}

void amph_server_collective_fail(struct amph_server *s, struct amph_server_handle *h,
                                 const struct amph_server_peer *peer, int err)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_collective **at = &h->progress.collectives;

    while (*at) {
        struct amph_server_collective *j = *at;

        if (peer && !has_part(j, peer)) {
            at = &j->next;
            continue;
        }

        *at = j->next;
        fail(s, j, err);
    }
}

/* ---- merging ---- */

/* A position in a part: its next run. */
struct cursor {
    struct amph_server_request *rq;
    struct amph_fwd_view shape;
    struct amph_fwd_extent row; /* remainder of the current row; count 0: the part is finished */
    uint32_t next;
    uint8_t *data;
};

static void cursor_open(struct cursor *c, struct amph_server_request *rq)
{
    c->rq = rq;
    c->next = 0;
    c->row.count = 0;
    c->data = args_of(rq)->data;
    amph_fwd_get_view(args_of(rq)->shape, args_of(rq)->shape_len, &c->shape);
    if (c->shape.nrows)
        c->row = amph_fwd_view_extent(&c->shape, c->next++);
}

static void cursor_step(struct cursor *c)
{
    c->data += c->row.len;
    c->row.at += c->row.stride;
    if (--c->row.count == 0 && c->next < c->shape.nrows)
        c->row = amph_fwd_view_extent(&c->shape, c->next++);
}

/* Moves heap[i] down to its position; only this entry may be out of order.  heap[0] is the cursor
 * that is first in the file. */
static void sift(struct cursor **heap, size_t n, size_t i)
{
    struct cursor *c = heap[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1]->row.at < heap[child]->row.at;
        if (heap[child]->row.at >= c->row.at)
            break;

        heap[i] = heap[child];
    }

    heap[i] = c;
}

/* ---- the file ---- */

/* Contiguous bytes of the extent, collected for one system call. */
struct batch {
    struct amph_server_collective *j;
    bool writing;
    uint8_t *buffer; /* buffer of the whole extent; NULL: the runs stay in place */
    size_t begin, end;
    size_t stop; /* end of the file, when a read has found it */
    size_t n;
    struct iovec run[RUNS_MAX];
};

/* Removes the first bytes from the runs. */
static void skip(struct iovec **run, size_t *n, size_t bytes)
{
    while (*n && bytes >= (*run)->iov_len) {
        bytes -= (*run)->iov_len;
        ++*run;
        --*n;
    }

    if (*n) {
        (*run)->iov_base = (char *)(*run)->iov_base + bytes;
        (*run)->iov_len -= bytes;
    }
}

static ssize_t move_once(const struct batch *b, const struct iovec *run, size_t n, off_t at)
{
    struct amph_server_handle *h = b->j->file;
    ssize_t done;

    do {
        amph_server_direct_fit(h, run->iov_base, n == 1 ? run->iov_len : 1, at);
        done = b->writing ? pwritev(h->fd, run, (int)n, at) : preadv(h->fd, run, (int)n, at);
    } while (done < 0 && (errno == EINTR || (errno == EINVAL && amph_server_direct_disable(h))));

    return done;
}

static int flush(struct batch *b)
{
    struct iovec whole = { b->buffer ? b->buffer + b->begin : NULL, b->end - b->begin };
    struct iovec *run = b->buffer ? &whole : b->run;
    size_t n = b->buffer ? b->begin < b->end : b->n;

    b->n = 0;
    while (n && b->begin < b->stop) {
        ssize_t done = move_once(b, run, n, b->j->off + (off_t)b->begin);

        if (done < 0)
            return errno;
        if (done == 0 && b->writing)
            return ENOSPC;

        if (done == 0)
            b->stop = b->begin;

        b->begin += (size_t)done;
        skip(&run, &n, (size_t)done);
    }

    return 0;
}

static int add_run(struct batch *b, const struct cursor *c)
{
    int err = 0;

    if (c->row.at != b->end || b->n == RUNS_MAX) {
        err = flush(b);
        b->begin = c->row.at;
    }

    if (b->buffer)
        memcpy(b->buffer + c->row.at, c->data, c->row.len);
    else
        b->run[b->n++] = (struct iovec){ c->data, c->row.len };

    b->end = c->row.at + c->row.len;
    return err;
}

/* Moves all parts' runs in file order. */
static int move_merged(struct batch *b, struct cursor *cursor)
{
    struct amph_server_collective *j = b->j;
    struct cursor **heap = malloc(j->nparts * sizeof(struct cursor *));
    size_t n = 0;
    int err = heap ? 0 : ENOMEM;

    for (uint32_t i = 0; i < j->nparts && heap; i++)
        if (cursor[i].row.count)
            heap[n++] = &cursor[i];

    for (size_t i = n; i-- > 0;)
        sift(heap, n, i);

    while (n && !err) {
        err = add_run(b, heap[0]);
        cursor_step(heap[0]);
        if (heap[0]->row.count == 0)
            heap[0] = heap[--n];

        if (n)
            sift(heap, n, 0);
    }

    free(heap);
    return err ? err : flush(b);
}

/* Reads the whole extent and copies each part's data from it. */
static int read_whole(struct batch *b, struct cursor *cursor)
{
    b->begin = 0;
    b->end = b->j->len;

    int err = flush(b);

    for (uint32_t i = 0; i < b->j->nparts && !err; i++)
        for (struct cursor *c = &cursor[i]; c->row.count && c->row.at < b->stop; cursor_step(c))
            memcpy(c->data, b->buffer + c->row.at,
                   c->row.len < b->stop - c->row.at ? c->row.len : b->stop - c->row.at);

    return err;
}

/* Returns how many bytes of a part lie before `stop`. */
static size_t bytes_before(const struct amph_fwd_view *s, size_t stop)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < s->nrows; i++) {
        struct amph_fwd_extent row = amph_fwd_view_extent(s, i);
        size_t whole = row.count;
        size_t stride = row.count > 1 ? row.stride : 1;

        if (row.at >= stop)
            break;

        if (row.at + (row.count - 1) * stride + row.len > stop) {
            whole = stop - row.at < row.len ? 0 : (stop - row.at - row.len) / stride + 1;
            whole = whole < row.count ? whole : row.count;
            size_t next = row.at + whole * stride;

            sum += whole < row.count && next < stop ? stop - next : 0;
        }

        sum += whole * row.len;
    }

    return sum;
}

static void set_done(struct cursor *c, bool writing, size_t stop)
{
    if (writing)
        c->rq->u.pwritej.done = c->rq->bulk.len;
    else
        c->rq->u.preadj.buf_len = bytes_before(&c->shape, stop);
}

static int move(struct amph_server_collective *j, struct batch *b, struct cursor *cursor)
{
    struct amph_server_request *rq = j->part;

    *b = (struct batch){ .j = j, .writing = writes(j), .stop = SIZE_MAX };

    bool in_place = (!j->file->exec.direct && j->bytes / RUN_IN_PLACE_MIN >= j->nruns) ||
                    j->len / BUFFER_FACTOR_MAX > j->bytes;

    if (!in_place && !(b->buffer = aligned_alloc(4096, (j->len + 4095) / 4096 * 4096)))
        return ENOMEM;

    for (uint32_t i = 0; i < j->nparts; i++, rq = rq->next)
        cursor_open(&cursor[i], rq);

    int err = b->writing || in_place ? move_merged(b, cursor) : read_whole(b, cursor);

    for (uint32_t i = 0; i < j->nparts && !err; i++)
        set_done(&cursor[i], b->writing, b->stop);

    free(b->buffer);
    return err;
}

int amph_server_collective_run(struct amph_server_request *rq)
{
    struct amph_server_collective *j = rq->collective;

    if (j->error)
        return j->error;

    /* the kernel decides where appended data goes */
    if (!j->file->regular || (writes(j) && j->file->exec.append))
        return EOPNOTSUPP;
    if (j->bytes == 0)
        return 0;

    struct batch *b = malloc(sizeof *b);
    struct cursor *cursor = calloc(j->nparts, sizeof *cursor);
    int err = b && cursor ? move(j, b, cursor) : ENOMEM;

    free(cursor);
    free(b);
    return err;
}
