/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective (two-phase) reads and writes of iofwd.h, the client's side (server/collective.c is the
 * other): sends this process's parts of the extents in order, several in flight.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * A part is one request.  The server replies when all processes have sent their parts of the
 * extent, so resources that a part holds meanwhile (a pending record, a slot of the transfer area)
 * must not be ones that another part waits for.  Therefore a call holds few of them, waits for a
 * pending record only while it has none, and never waits for a slot.  A part that cannot be sent is
 * sent as absent with an errno value, because the other processes wait for it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/settings/counters.h"
#include "base/wire.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/api/file.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#define FLIGHTS_MAX 16u /* maximum of parts in flight */
#define FLIGHTS_MIN 4u
#define FLIGHTS_EACH \
    2u /* for each server: one is fetched while another is written; more exceed the caches */
#define SLOT_NONE UINT32_MAX
#define SEGMENT_MIN ((size_t)4 << 10)

struct flight {
    struct iofwd_extent *part;
    struct amph_client_link *link;
    struct amph_client_pending *pend;
    union amph_fwd_args args;
    uint32_t slot;
};

struct collective_call {
    struct amph_fwd_client *cl;
    bool writing;
    unsigned head, n; /* ring of flights */
    struct flight ring[FLIGHTS_MAX];
    uint8_t shape[FWD_VIEW_BYTES + IOFWD_ROWS_MAX * FWD_EXTENT_BYTES];
};

/* ---- one part ---- */

/* Returns the bytes of a part; *err_p gets EINVAL if it is malformed. */
static size_t part_bytes(const struct iofwd_extent *s, int *err_p)
{
    uint64_t at = 0;
    uint64_t sum = 0;

    if (s->off < 0 || s->len > FWD_COLLECTIVE_MAX || s->processes == 0 || s->nrows > IOFWD_ROWS_MAX)
        *err_p = EINVAL;

    for (size_t i = 0; i < s->nrows && !*err_p; i++) {
        const struct amph_fwd_extent row = { s->rows[i].at, s->rows[i].len, s->rows[i].stride,
                                             s->rows[i].count };

        if (!amph_fwd_extent_fits(&row, s->len, &at, &sum))
            *err_p = EINVAL;
    }

    if (!*err_p && sum > 0 && !s->buf)
        *err_p = EINVAL;

    return *err_p ? 0 : (size_t)sum;
}

static size_t part_max(const struct amph_fwd_client *cl, const struct amph_client_link *link)
{
    size_t small = link->near ? AMPH_CLIENT_INLINE_NEAR : AMPH_CLIENT_INLINE_FAR;
    return link->part && cl->piece > small ? cl->piece : small;
}

static uint32_t take_slot(struct amph_client_link *link)
{
    uint64_t bits = atomic_load_explicit(&link->slots, memory_order_relaxed);

    while (bits)
        if (atomic_compare_exchange_weak_explicit(&link->slots, &bits, bits & (bits - 1),
                                                  memory_order_acquire, memory_order_relaxed))
            return (uint32_t)__builtin_ctzll(bits);

    return SLOT_NONE;
}

static void give_slot(struct flight *f)
{
    if (f->slot != SLOT_NONE)
        atomic_fetch_or_explicit(&f->link->slots, UINT64_C(1) << f->slot, memory_order_release);

    f->slot = SLOT_NONE;
}

/* Chooses how the data travels.  Returns an errno value if there is no way. */
static int place_data(struct collective_call *c, struct flight *f, size_t len,
                      struct amph_fwd_bulk *b)
{
    struct iofwd_extent *s = f->part;

    b->len = (uint32_t)len;
    if (len <= (f->link->near ? AMPH_CLIENT_INLINE_NEAR : AMPH_CLIENT_INLINE_FAR))
        return 0;
    if (len > part_max(c->cl, f->link))
        return E2BIG;

    if (len >= SEGMENT_MIN && amph_client_segment_holds(c->cl, f->link, s->buf, len, &b->at)) {
        b->where = FWD_SEGMENT;
        return 0;
    }

    if ((f->slot = take_slot(f->link)) == SLOT_NONE)
        return EAGAIN;

    b->where = FWD_AREA;
    b->at = (uint64_t)f->slot * c->cl->piece;
    if (c->writing)
        memcpy(f->link->part + b->at, s->buf, len);

    return 0;
}

static size_t put_view(struct collective_call *c, const struct iofwd_extent *s, int absent)
{
    struct amph_wr w;

    amph_wr_init(&w, c->shape, sizeof c->shape);
    amph_fwd_put_view(&w, &(struct amph_fwd_view){ .number = s->number,
                                                   .processes = s->processes,
                                                   .absent = amph_fwd_errno_to_wire(absent) });

    for (size_t i = 0; i < s->nrows && !absent; i++)
        amph_fwd_put_extent(&w, &(struct amph_fwd_extent){ s->rows[i].at, s->rows[i].len,
                                                           s->rows[i].stride, s->rows[i].count });

    return amph_wr_len(&w);
}

static void fill_args(struct collective_call *c, struct flight *f, int absent)
{
    const struct iofwd_extent *s = f->part;
    size_t len = put_view(c, s, absent);

    if (c->writing)
        f->args.pwritej = (struct amph_fwd_args_pwritej){ .file = &s->file->file,
                                                          .off = s->off,
                                                          .len = s->len,
                                                          .shape = c->shape,
                                                          .shape_len = len,
                                                          .done = &f->pend->got };
    else
        f->args.preadj = (struct amph_fwd_args_preadj){ .file = &s->file->file,
                                                        .off = s->off,
                                                        .len = s->len,
                                                        .shape = c->shape,
                                                        .shape_len = len };
}

/* Sends a part; f->link and f->pend are set.  Returns an errno value if no reply will come. */
static int send_part(struct collective_call *c, struct flight *f)
{
    struct iofwd_extent *s = f->part;
    struct amph_fwd_bulk b = { .where = FWD_INLINE,
                               .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST,
                               .op = (uint32_t)f->pend->seq };
    size_t len = part_bytes(s, &s->error);

    if (!s->error)
        s->error = place_data(c, f, len, &b);

    if (s->error)
        b.len = 0;

    fill_args(c, f, s->error);
    f->pend->desc = &amph_fwd_calls[c->writing ? AMPH_FWD_PWRITEJ : AMPH_FWD_PREADJ];
    f->pend->args = &f->args;
    f->pend->want = b.len;
    if (!c->writing && b.where == FWD_INLINE)
        f->pend->data = s->buf;

    return amph_client_pending_send(c->cl, f->link, f->pend, &b,
                                    c->writing && b.where == FWD_INLINE ? s->buf : NULL);
}

/* ---- all parts ---- */

/* Waits for the reply to the oldest part. */
static void take(struct collective_call *c)
{
    struct flight *f = &c->ring[c->head];
    struct iofwd_extent *s = f->part;
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);

    int err = amph_client_pending_wait(c->cl, f->link, f->pend, &g);
    size_t n = 0;

    if (!err)
        n = f->pend->got < f->pend->want ? f->pend->got : f->pend->want;

    if (f->slot != SLOT_NONE && !c->writing)
        memcpy(s->buf, f->link->part + (size_t)f->slot * c->cl->piece, n);

    give_slot(f);
    amph_client_pending_release(c->cl, f->pend);
    amph_client_sigguard_leave(&g);
    s->error = s->error ? s->error : err;
    s->done = s->error ? 0 : n;
    amph_count_n(c->writing ? AMPH_COUNTER_IOFWD_BYTES_OUT : AMPH_COUNTER_IOFWD_BYTES_IN, s->done);
    c->head = (c->head + 1) % FLIGHTS_MAX;
    c->n--;
}

static void start(struct collective_call *c, struct iofwd_extent *s)
{
    struct flight *f = &c->ring[(c->head + c->n) % FLIGHTS_MAX];
    struct amph_client_sigguard g;

    *f = (struct flight){ .part = s, .slot = SLOT_NONE };
    s->done = 0;
    s->error = 0;

    int err = amph_client_link_to(c->cl, s->file->file.part[0].server, &f->link);

    if (err) {
        s->error = err;
        return;
    }

    amph_count(IOFWD_CALLS);
    amph_client_sigguard_enter(&g);
    while (!(f->pend = amph_client_pending_try(c->cl)) && c->n)
        take(c);

    if (!f->pend)
        f->pend = amph_client_pending_acquire(c->cl);

    err = send_part(c, f);
    if (err) {
        amph_client_pending_release(c->cl, f->pend);
        give_slot(f);
        s->error = err;
    } else
        c->n++;

    amph_client_sigguard_leave(&g);
}

/* Returns how many parts may be in flight.  Parts go to the servers in turn, so the number of files
 * before the first one repeats is the number of servers. */
static unsigned flights_max(const struct iofwd_extent *part, size_t n)
{
    unsigned files = 1;

    while (files < n && files < FLIGHTS_MAX / FLIGHTS_EACH && part[files].file != part[0].file)
        files++;

    return files * FLIGHTS_EACH < FLIGHTS_MIN ? FLIGHTS_MIN : files * FLIGHTS_EACH;
}

static int run(struct iofwd_extent *part, size_t n, bool writing)
{
    struct collective_call c = { .writing = writing };
    int err = n ? amph_fwd_process(&c.cl) : 0;

    if (n == 0 || err)
        return err;

    unsigned max = flights_max(part, n);

    /* earlier writes of this process come first */
    amph_client_coalesce_flush_all();
    for (size_t i = 0; i < n; i++) {
        if (c.n == max)
            take(&c);

        start(&c, &part[i]);
    }

    while (c.n)
        take(&c);

    for (size_t i = 0; i < n && !err; i++)
        err = part[i].error;

    return err;
}

int iofwd_pwrite_collective(struct iofwd_extent *part, size_t n)
{
    return run(part, n, true);
}

int iofwd_pread_collective(struct iofwd_extent *part, size_t n)
{
    return run(part, n, false);
}

/* ---- files by name ---- */

size_t iofwd_collective_max(const iofwd_file_t *file)
{
    struct amph_fwd_client *cl;
    struct amph_client_link *link;

    return amph_fwd_process(&cl) || amph_client_link_to(cl, file->file.part[0].server, &link)
               ? 0
               : part_max(cl, link);
}

uint32_t iofwd_file_server(const iofwd_file_t *file)
{
    return file->file.part[0].server;
}

int iofwd_name(const iofwd_file_t *file, char name[IOFWD_NAME_BYTES])
{
    struct amph_fwd_file f = { .nparts = 1, .part = { file->file.part[0] } };
    return amph_fwd_file_print(&f, name, IOFWD_NAME_BYTES) ? 0 : EINVAL;
}

int iofwd_open_name(const char *name, iofwd_file_t **file_p)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_file f;
    int err = name && amph_fwd_file_parse(name, &f) && f.nparts == 1 ? amph_fwd_process(&cl)
                                                                     : EINVAL;

    if (!err)
        err = amph_fwd_hold(cl, &f);

    if (!err && (err = amph_client_file_make(&f, false, file_p)))
        amph_fwd_close(cl, &f);

    if (!err)
        amph_client_file_double(*file_p);

    return err;
}

/* ---- former names ---- */

/* Programs linked before the names of iofwd.h changed import these; they are exported for one
 * release. */
#undef iofwd_pwrite_joint
#undef iofwd_pread_joint
#undef iofwd_joint_most
#define FORMER(name) __attribute__((alias(name), visibility("default")))

FORMER("iofwd_pwrite_collective") int iofwd_pwrite_joint(struct iofwd_extent *part, size_t n);
FORMER("iofwd_pread_collective") int iofwd_pread_joint(struct iofwd_extent *part, size_t n);
FORMER("iofwd_collective_max") size_t iofwd_joint_most(const iofwd_file_t *file);
