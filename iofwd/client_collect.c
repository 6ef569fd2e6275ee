/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `cache`: many small consecutive reads or writes of one file travel as few large ones.  Writes gather in blocks, which are slots
 * of the transfer area where there are any to spare; a full block is sent off and the next one filled meanwhile.  Reads are fetched
 * ahead the same way.  Layer: iofwd.
 *
 * It does so for runs that iofwd_write_prep or iofwd_read_prep announced, and, with IOFWD_CONSISTENCY=session, unasked.  Whatever else
 * happens to the file, or by path, first brings everything to rest ("settles"): blocks are written, what was fetched too early is
 * forgotten, and the offset at the server is where the program believes it to be.
 *
 * Thread rule: any thread; a collector is used by one thread at a time.  A signal handler that interrupts its own thread in here, and
 * calls by descriptor from it, go straight to the server.
 */
#include "iofwd/client_collect.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "iofwd/client_stripe.h"

#define SMALL ((size_t)64 << 10)       /* calls beyond this gain nothing by being gathered */
#define BUCKETS 1024u
#define BLOCKS_MOST 16u
#define SLOT_BLOCK ((size_t)128 << 10)
#define HEAP_BLOCK ((size_t)1 << 20)   /* of a file without slots: no server maps us, or it is spread over several */

enum mode { IDLE, WRITING, READING };

/* A piece of a run: being filled, under way, or come back. */
struct block {
    struct fwd_pend *pend;     /* NULL: not sent */
    union amph_fwd_args args;
    unsigned slot;
    off_t off;
    size_t len, got;           /* bytes asked for; that have come or gone */
    bool back;
};

struct collector {
    struct collector *next;    /* in its bucket; never unlinked */
    _Atomic uint64_t handle;   /* of the file's first part; 0: free */
    uint32_t server;
    _Atomic uintptr_t owner;   /* the thread inside */
    struct amph_fwd_file file;
    struct amph_fwd_client *cl;
    struct fwd_link *link;
    _Atomic(enum mode) mode;   /* set by set_mode; without entering, only looked at */
    bool by_offset;            /* a run of read() or write(), not of pread() or pwrite() */
    bool checked, able, append;
    int access;                /* O_RDONLY, O_WRONLY, O_RDWR */
    off_t pos;                 /* the next byte of the run; with append: of the run's own bytes */
    /* what the last calls were like */
    enum mode last;
    bool last_by_offset;
    off_t last_end;
    /* announced */
    enum mode announced;
    uint64_t bytes_left;
    unsigned calls_left;
    int late;                  /* errno of a write that had been reported as done */
    size_t block_bytes;
    uint8_t *heap;             /* instead of slots */
    bool on_heap;
    unsigned head, n, most;    /* ring of blocks */
    size_t taken;              /* of the head block, when reading */
    bool ended;                /* reading: a block came back short */
    struct block ring[BLOCKS_MOST];
};

static struct {
    struct collector *_Atomic bucket[BUCKETS];
    _Atomic uint32_t dirty;    /* collectors that are not idle */
    _Atomic uint32_t slots;    /* of all links that collectors hold */
    _Atomic bool in_use, over; /* anything was ever announced, or session; the process is ending */
    bool session;
    unsigned blocks;
} all;

/* ---- whose turn it is ---- */

static uintptr_t self(void)
{
    return (uintptr_t)pthread_self();
}

/* false: this very thread is inside already, below a signal handler. */
static bool enter(struct collector *c)
{
    for (unsigned spins = 0;; spins++) {
        uintptr_t nobody = 0;
        if (atomic_compare_exchange_weak_explicit(&c->owner, &nobody, self(), memory_order_acquire, memory_order_relaxed))
            return true;
        if (nobody == self())
            return false;
        if (spins > 100)
            sched_yield();
        else
            amph_cpu_relax();
    }
}

static void leave(struct collector *c)
{
    atomic_store_explicit(&c->owner, 0, memory_order_release);
}

static void set_mode(struct collector *c, enum mode mode)
{
    enum mode old = atomic_exchange(&c->mode, mode);
    if ((old == IDLE) != (mode == IDLE))
        atomic_fetch_add(&all.dirty, mode == IDLE ? UINT32_MAX : 1);
}

/* The same for one file: a collector whose file was closed meanwhile may have another's by now. */
static bool enter_for(struct collector *c, const struct amph_fwd_file *file)
{
    if (!enter(c))
        return false;
    if (atomic_load_explicit(&c->handle, memory_order_relaxed) == file->part[0].handle && c->server == file->part[0].server)
        return true;
    leave(c);
    return false;
}

static struct collector *find(const struct amph_fwd_file *file)
{
    uint64_t handle = file->part[0].handle;
    struct collector *c = atomic_load_explicit(&all.bucket[handle % BUCKETS], memory_order_acquire);
    while (c && (atomic_load_explicit(&c->handle, memory_order_relaxed) != handle || c->server != file->part[0].server))
        c = c->next;
    return c;
}

static _Atomic bool making; /* somebody is in find_or_make */

/* A collector for file, new or one whose file was closed.  NULL: no memory. */
static struct collector *find_or_make(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct collector *c = find(file);
    struct collector *_Atomic *bucket = &all.bucket[file->part[0].handle % BUCKETS];
    if (c)
        return c;
    if (atomic_exchange(&making, true))
        return NULL; /* somebody is at it: this call is not collected */
    for (c = atomic_load(bucket); c && atomic_load(&c->handle) != 0; c = c->next)
        ;
    bool fresh = !c;
    if (fresh && (c = calloc(1, sizeof *c)))
        c->next = atomic_load(bucket);
    if (c) {
        c->file = *file;
        c->cl = cl;
        c->server = file->part[0].server;
        c->last = c->announced = IDLE;
        c->checked = c->able = c->append = false;
        c->late = 0;
        c->n = c->head = 0;
        atomic_store_explicit(&c->handle, file->part[0].handle, memory_order_release);
        if (fresh)
            atomic_store_explicit(bucket, c, memory_order_release);
    }
    atomic_store(&making, false);
    return c;
}

/* ---- blocks ---- */

static struct block *block_at(struct collector *c, unsigned i)
{
    return &c->ring[(c->head + i) % BLOCKS_MOST];
}

static uint8_t *block_memory(const struct collector *c, const struct block *b)
{
    return c->on_heap ? c->heap : c->link->part + (size_t)b->slot * c->cl->piece;
}

/* Collectors together leave most slots to other calls, which wait for slots while collectors do not. */
static bool slot_take(struct collector *c, unsigned *slot_p)
{
    uint64_t bits = atomic_load_explicit(&c->link->slots, memory_order_relaxed);
    if (atomic_fetch_add(&all.slots, 1) < c->cl->nslots / 4)
        while (bits)
            if (atomic_compare_exchange_weak_explicit(&c->link->slots, &bits, bits & (bits - 1), memory_order_acquire,
                                                      memory_order_relaxed)) {
                *slot_p = (unsigned)__builtin_ctzll(bits);
                return true;
            }
    atomic_fetch_sub(&all.slots, 1);
    return false;
}

static void slot_give(struct collector *c, unsigned slot)
{
    atomic_fetch_or_explicit(&c->link->slots, UINT64_C(1) << slot, memory_order_release);
    atomic_fetch_sub(&all.slots, 1);
}

static void note_late(struct collector *c, int err)
{
    if (err && !c->late)
        c->late = err;
}

/* Sends a block off.  0 or an errno value, with nothing under way. */
static int block_send(struct collector *c, struct block *b)
{
    struct fwd_bulk bulk = { .where = FWD_AREA, .flags = FWD_PIECE_FIRST | FWD_PIECE_LAST, .len = (uint32_t)b->len,
                             .at = (uint64_t)b->slot * c->cl->piece };
    enum amph_fwd_id id = c->mode == READING ? AMPH_FWD_PREAD : c->append ? AMPH_FWD_WRITE : AMPH_FWD_PWRITE;
    b->pend = fwd_pend_take(c->cl);
    bulk.op = (uint32_t)b->pend->seq;
    if (c->mode == READING)
        b->args.pread = (struct amph_fwd_args_pread){ .file = &c->file, .off = b->off, .buf_len = &b->got };
    else if (c->append)
        b->args.write = (struct amph_fwd_args_write){ .file = &c->file, .done = &b->pend->got };
    else
        b->args.pwrite = (struct amph_fwd_args_pwrite){ .file = &c->file, .off = b->off, .done = &b->pend->got };
    b->pend->desc = &fwd_calls[id];
    b->pend->args = &b->args;
    b->pend->want = b->len;
    int err = fwd_pend_send(c->cl, c->link, b->pend, &bulk, NULL);
    if (err) {
        fwd_pend_give(c->cl, b->pend);
        b->pend = NULL;
    }
    return err;
}

/* Writes the rest of a block by ordinary calls, whatever the file is spread over: the server's reason for stopping comes out. */
static int write_rest(struct collector *c, const struct block *b, size_t at)
{
    const uint8_t *data = block_memory(c, b);
    for (size_t done; at < b->len; at += done) {
        union amph_fwd_args u;
        done = 0;
        if (c->append)
            u.write = (struct amph_fwd_args_write){ .file = &c->file, .data = data + at, .data_len = b->len - at, .done = &done };
        else
            u.pwrite = (struct amph_fwd_args_pwrite){ .file = &c->file, .off = b->off + (off_t)at, .data = data + at,
                                                      .data_len = b->len - at, .done = &done };
        int err = fwd_client_call(c->cl, c->append ? AMPH_FWD_WRITE : AMPH_FWD_PWRITE, &u);
        if (err != EINTR && (err || done == 0)) /* the calls that gave the data have returned: nobody else can make it again */
            return err ? err : EIO;
    }
    return 0;
}

/* Waits for a block that is under way. */
static void block_wait(struct collector *c, struct block *b, struct fwd_guard *g)
{
    if (!b->pend)
        return;
    int err = fwd_pend_wait(c->cl, c->link, b->pend, g);
    b->got = err || b->pend->got > b->len ? 0 : b->pend->got;
    b->back = true;
    fwd_pend_give(c->cl, b->pend);
    b->pend = NULL;
    /* Its server has gone, perhaps: what it has not acknowledged goes to the next. */
    bool again = err == EINTR || (err == EIO && c->cl->failover && !c->append);
    if (c->mode == WRITING && b->got < b->len && (!err || again))
        err = write_rest(c, b, b->got);
    if (c->mode == WRITING)
        note_late(c, err);
    else if (b->got < b->len)
        c->ended = true;
}

/* The head block is done with. */
static void drop_head(struct collector *c)
{
    if (!c->on_heap)
        slot_give(c, block_at(c, 0)->slot);
    c->head = (c->head + 1) % BLOCKS_MOST;
    c->n--;
    c->taken = 0;
}

/* A further block at the tail, or NULL: no slot. */
static struct block *add_block(struct collector *c, off_t off)
{
    unsigned slot = 0;
    if (c->n >= c->most || (!c->on_heap && !slot_take(c, &slot)))
        return NULL;
    struct block *b = block_at(c, c->n++);
    *b = (struct block){ .slot = slot, .off = off };
    return b;
}

/* ---- settling ---- */

/* Sends what has been gathered. */
static void flush(struct collector *c)
{
    struct block *b = c->n ? block_at(c, c->n - 1) : NULL;
    struct fwd_guard g;
    if (c->mode != WRITING || !b || b->pend || b->back || !b->len)
        return;
    if (c->on_heap) {
        note_late(c, write_rest(c, b, 0));
        drop_head(c);
        return;
    }
    if (c->link->near && c->cl->demotes)
        amph_cache_demote(block_memory(c, b), b->len);
    fwd_guard_enter(&g);
    int err = block_send(c, b);
    if (err) {
        note_late(c, c->cl->failover ? write_rest(c, b, 0) : err); /* nothing has been sent */
        b->back = true;
    }
    fwd_guard_leave(&g);
}

static void drain(struct collector *c)
{
    struct fwd_guard g;
    if (!c->n)
        return;
    fwd_guard_enter(&g);
    while (c->n) {
        block_wait(c, block_at(c, 0), &g);
        drop_head(c);
    }
    fwd_guard_leave(&g);
}

static void settle(struct collector *c)
{
    if (c->mode == IDLE)
        return;
    flush(c);
    drain(c);
    if (c->by_offset && !(c->mode == WRITING && c->append)) { /* what appends has moved the offset at the server itself */
        off_t now;
        struct amph_fwd_args_lseek a = { .file = &c->file, .off = c->pos, .whence = SEEK_SET, .pos = &now };
        int err = fwd_client_call(c->cl, AMPH_FWD_LSEEK, &a);
        if (c->mode == WRITING)
            note_late(c, err);
    }
    set_mode(c, IDLE);
    c->ended = false;
}

void fwd_collect_settle_all(void)
{
    for (unsigned i = 0; i < BUCKETS && atomic_load(&all.dirty); i++)
        for (struct collector *c = atomic_load_explicit(&all.bucket[i], memory_order_acquire); c; c = c->next)
            if (atomic_load(&c->handle) && atomic_load(&c->mode) != IDLE && enter(c)) { /* in an idle one a thread may wait for long */
                settle(c);
                leave(c);
            }
}

/* ---- runs ---- */

/* Is this a file whose small calls may be gathered?  Asked once, and again when its flags have been set. */
static bool is_able(struct collector *c, enum mode mode)
{
    struct stat st;
    int flags = 0;
    struct amph_fwd_args_fstat fstat_args = { .file = &c->file, .st = &st };
    struct amph_fwd_args_getflags flags_args = { .file = &c->file, .flags = &flags };
    if (!c->checked) {
        c->checked = true;
        c->able = fwd_client_call(c->cl, AMPH_FWD_FSTAT, &fstat_args) == 0 && S_ISREG(st.st_mode) &&
            fwd_client_call(c->cl, AMPH_FWD_GETFLAGS, &flags_args) == 0 && !(flags & (O_DIRECT | O_SYNC | O_DSYNC | O_PATH));
        c->append = flags & O_APPEND;
        c->access = flags & O_ACCMODE;
    }
    return c->able && (c->access == O_RDWR || c->access == (mode == WRITING ? O_WRONLY : O_RDONLY));
}

static bool go_to_heap(struct collector *c)
{
    c->on_heap = true;
    c->block_bytes = HEAP_BLOCK;
    c->most = 1;
    return c->heap || (c->heap = malloc(HEAP_BLOCK));
}

/* Slots, where this file can have them; else memory of its own. */
static bool find_room(struct collector *c)
{
    if (fwd_link_to(c->cl, c->server, &c->link))
        return false;
    if (c->file.nparts > 1 || !c->link->part || atomic_load(&all.slots) >= c->cl->nslots / 4)
        return go_to_heap(c);
    c->on_heap = false;
    c->block_bytes = c->cl->piece < SLOT_BLOCK ? c->cl->piece : SLOT_BLOCK;
    c->most = all.blocks;
    return true;
}

static bool begin(struct collector *c, enum mode mode, bool by_offset, off_t off)
{
    if (!is_able(c, mode) || !find_room(c))
        return false;
    if (!by_offset && mode == WRITING && c->append)
        return false; /* where pwrite goes then is the file system's business */
    c->pos = off;
    if (by_offset && !(mode == WRITING && c->append)) {
        struct amph_fwd_args_lseek a = { .file = &c->file, .whence = SEEK_CUR, .pos = &c->pos };
        if (fwd_client_call(c->cl, AMPH_FWD_LSEEK, &a))
            return false;
    }
    c->by_offset = by_offset;
    c->head = c->n = 0;
    c->taken = 0;
    c->ended = false;
    set_mode(c, mode);
    return true;
}

/* Does the call go on where the last one ended, so that gathering is worth a try? */
static bool is_run(struct collector *c, enum mode mode, bool by_offset, off_t off, size_t len)
{
    bool run = c->last == mode && c->last_by_offset == by_offset && (by_offset || c->last_end == off);
    c->last = mode;
    c->last_by_offset = by_offset;
    c->last_end = off + (off_t)len;
    return (all.session && run && len <= SMALL) || c->announced == mode;
}

/* Makes the collector ready for the call, if the call is to be collected. */
static bool prepare(struct collector *c, enum mode mode, bool by_offset, off_t off, size_t len)
{
    bool run = is_run(c, mode, by_offset, off, len);
    bool dead = c->mode == WRITING && !c->on_heap && atomic_load_explicit(&c->link->state, memory_order_acquire) != FWD_LINK_READY;
    if (c->mode != IDLE && (dead || c->mode != mode || c->by_offset != by_offset || (!by_offset && off != c->pos) || len > SMALL))
        settle(c);
    if (c->mode == mode)
        return true;
    return run && len && !c->late && begin(c, mode, by_offset, off);
}

/* One announced call has been done. */
static void count_announced(struct collector *c, size_t len)
{
    if (c->announced == IDLE)
        return;
    c->bytes_left -= len < c->bytes_left ? len : c->bytes_left;
    c->calls_left -= c->calls_left > 0;
    if (c->bytes_left && c->calls_left)
        return;
    c->announced = IDLE;
    settle(c); /* all is there: it is executed before the last call returns */
}

/* ---- writing ---- */

/* The block that is being filled; makes room for one where there is none.  NULL: none to be had. */
static struct block *filling(struct collector *c)
{
    struct block *b = c->n ? block_at(c, c->n - 1) : NULL;
    struct fwd_guard g;
    if (b && !b->pend && !b->back && b->len < c->block_bytes)
        return b;
    flush(c);
    if ((b = add_block(c, c->pos)))
        return b;
    if (c->n) {
        fwd_guard_enter(&g);
        block_wait(c, block_at(c, 0), &g);
        drop_head(c);
        fwd_guard_leave(&g);
        if ((b = add_block(c, c->pos)))
            return b;
        drain(c);
    }
    return go_to_heap(c) ? add_block(c, c->pos) : NULL; /* other files have all the slots */
}

static bool gather(struct collector *c, const uint8_t *data, size_t len, size_t *done_p)
{
    size_t done = 0;
    /* Others append, too: what one call appends stays together. */
    struct block *tail = c->append && c->n ? block_at(c, c->n - 1) : NULL;
    if (c->append && len > c->block_bytes)
        return false;
    if (tail && tail->len + len > c->block_bytes)
        flush(c);
    while (done < len) {
        struct block *b = filling(c);
        if (!b)
            break;
        size_t n = c->block_bytes - b->len < len - done ? c->block_bytes - b->len : len - done;
        memcpy(block_memory(c, b) + b->len, data + done, n);
        b->len += n;
        done += n;
        c->pos += (off_t)n;
        if (b->len == c->block_bytes)
            flush(c);
    }
    *done_p = done;
    return done > 0;
}

/* ---- reading ---- */

static void heap_fetch(struct collector *c)
{
    struct block *b = add_block(c, c->pos);
    struct amph_fwd_args_pread a = { .file = &c->file, .off = c->pos, .buf = c->heap, .buf_cap = HEAP_BLOCK, .buf_len = &b->got };
    b->len = HEAP_BLOCK;
    if (fwd_client_call(c->cl, AMPH_FWD_PREAD, &a))
        b->got = 0;
    b->back = true;
    c->ended = b->got < b->len;
}

/* Asks for what comes next, as far as there is room and the run goes. */
static void fetch_ahead(struct collector *c)
{
    struct fwd_guard g;
    if (c->ended)
        return;
    if (c->on_heap) {
        if (!c->n)
            heap_fetch(c);
        return;
    }
    fwd_guard_enter(&g);
    for (;;) {
        const struct block *tail = c->n ? block_at(c, c->n - 1) : NULL;
        off_t off = tail ? tail->off + (off_t)tail->len : c->pos;
        uint64_t most = c->announced == READING ? c->bytes_left : UINT64_MAX;
        if ((uint64_t)(off - c->pos) >= most)
            break;
        struct block *b = add_block(c, off);
        if (!b)
            break;
        b->len = most - (uint64_t)(off - c->pos) < c->block_bytes ? (size_t)(most - (uint64_t)(off - c->pos)) : c->block_bytes;
        if (block_send(c, b)) { /* the plain call that follows says why, or finds another server */
            slot_give(c, b->slot);
            c->n--;
            c->ended = true;
            break;
        }
    }
    fwd_guard_leave(&g);
}

/* The head block, come back; NULL: nothing more can be had this way. */
static struct block *arrived(struct collector *c)
{
    struct fwd_guard g;
    struct block *b = c->n ? block_at(c, 0) : NULL;
    if (b && b->back && c->taken < b->got)
        return b;
    if (b && b->back) {
        if (b->got < b->len)
            return NULL; /* the end of the file, or an error: the server will say which */
        drop_head(c);
    }
    fetch_ahead(c);
    if (!c->n && !c->ended && go_to_heap(c)) /* other files have all the slots */
        fetch_ahead(c);
    b = c->n ? block_at(c, 0) : NULL;
    if (!b)
        return NULL;
    if (b->pend) {
        fwd_guard_enter(&g);
        block_wait(c, b, &g);
        fwd_guard_leave(&g);
    }
    return b->got ? b : NULL;
}

static bool serve(struct collector *c, uint8_t *to, size_t len, size_t *done_p)
{
    size_t done = 0;
    while (done < len) {
        struct block *b = arrived(c);
        if (!b)
            break;
        size_t n = b->got - c->taken < len - done ? b->got - c->taken : len - done;
        memcpy(to + done, block_memory(c, b) + c->taken, n);
        c->taken += n;
        done += n;
        c->pos += (off_t)n;
    }
    *done_p = done;
    return done > 0;
}

/* ---- the layer ---- */

/* A data call as the layer sees it. */
struct data_call {
    const struct amph_fwd_file *file;
    enum mode mode;
    bool by_offset;
    off_t off;
    uint8_t *data;
    size_t len, *done_p;
};

static bool describe(struct amph_fwd_call *call, struct data_call *d)
{
    union amph_fwd_args *u = &call->u;
    switch (call->id) {
    case AMPH_FWD_READ:
        *d = (struct data_call){ u->read.file, READING, true, 0, u->read.buf, u->read.buf_cap, u->read.buf_len };
        return true;
    case AMPH_FWD_WRITE:
        *d = (struct data_call){ u->write.file, WRITING, true, 0, (uint8_t *)u->write.data, u->write.data_len, u->write.done };
        return true;
    case AMPH_FWD_PREAD:
        *d = (struct data_call){ u->pread.file, READING, false, u->pread.off, u->pread.buf, u->pread.buf_cap, u->pread.buf_len };
        return true;
    case AMPH_FWD_PWRITE:
        *d = (struct data_call){ u->pwrite.file, WRITING, false, u->pwrite.off, (uint8_t *)u->pwrite.data, u->pwrite.data_len,
                                 u->pwrite.done };
        return true;
    default:
        return false;
    }
}

static int take_late(struct collector *c)
{
    int err = c->late;
    c->late = 0;
    return err;
}

static int do_data(const struct amph_layer *self, struct amph_fwd_call *call, const struct data_call *d)
{
    struct collector *c = all.session && d->len <= SMALL ? find_or_make(call->client, d->file) : find(d->file);
    if (!c || !enter_for(c, d->file))
        return amph_layer_pass(self->next, call);
    c->cl = call->client;
    bool collected = prepare(c, d->mode, d->by_offset, d->off, d->len);
    int err = take_late(c);
    if (!err && collected)
        collected = d->mode == WRITING ? gather(c, d->data, d->len, d->done_p) : serve(c, d->data, d->len, d->done_p);
    if (!err && collected) {
        bool announced = c->announced != IDLE;
        count_announced(c, *d->done_p);
        if (announced && c->announced == IDLE)
            err = take_late(c); /* else the next call reports what has become known: the data of this one is taken, so it has not failed */
    } else if (!err) {
        settle(c);
        err = amph_layer_pass(self->next, call);
        count_announced(c, err ? 0 : *d->done_p);
    }
    leave(c);
    return err;
}

/* Another call on one file: it comes to rest first; a late error goes to the calls that may report one. */
static int do_file(const struct amph_layer *self, struct amph_fwd_call *call, struct collector *c)
{
    bool reports = call->id == AMPH_FWD_CLOSE || call->id == AMPH_FWD_FSYNC || call->id == AMPH_FWD_FDATASYNC;
    bool waits = call->id == AMPH_FWD_WAITLOCK || call->id == AMPH_FWD_PWAITLOCK || call->id == AMPH_FWD_FLOCK;
    if (!enter_for(c, fwd_call_file(&fwd_calls[call->id], &call->u)))
        return amph_layer_pass(self->next, call);
    settle(c);
    if (call->id == AMPH_FWD_SETFLAGS)
        c->checked = false;
    if (waits) { /* other threads go on with the file, and the process may fork */
        leave(c);
        return amph_layer_pass(self->next, call);
    }
    int late = reports ? take_late(c) : 0, err = amph_layer_pass(self->next, call);
    if (call->id == AMPH_FWD_CLOSE) {
        free(c->heap);
        c->heap = NULL;
        atomic_store(&c->handle, 0);
    }
    leave(c);
    return late ? late : err;
}

static int collect_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct data_call d;
    if (!call->client || !atomic_load_explicit(&all.in_use, memory_order_relaxed) || atomic_load_explicit(&all.over, memory_order_relaxed))
        return amph_layer_pass(self->next, call);
    if (describe(call, &d) && !d.file->rwf)
        return do_data(self, call, &d);
    const struct fwd_call_desc *desc = &fwd_calls[call->id];
    const struct amph_fwd_file *file =
        desc->nargs && desc->arg[0].word == FWD_IN_FILE ? fwd_call_file(desc, &call->u) : NULL;
    struct collector *c = file ? find(file) : NULL;
    /* By path, or about the file as others see it: everything is to be seen. */
    if (atomic_load(&all.dirty) && (!c || call->id == AMPH_FWD_FSTAT))
        fwd_collect_settle_all();
    return c ? do_file(self, call, c) : amph_layer_pass(self->next, call);
}

/* In a forked child: what other threads of the parent were at is the parent's to finish, and to tell. */
static void forget_parent(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct collector *c = atomic_load(&all.bucket[i]); c; c = c->next) {
            if (atomic_load(&c->owner) == self()) /* below a signal handler: goes on where it was */
                continue;
            set_mode(c, IDLE);
            c->announced = IDLE;
            c->n = c->head = 0;
            c->taken = 0;
            c->late = 0;
            leave(c);
        }
    atomic_store(&all.slots, 0); /* the child's client has an area of its own */
    atomic_store(&making, false);
}

static void collect_event(const struct amph_layer *self, enum amph_layer_event event)
{
    if (event == AMPH_LAYER_FORK_BEFORE || event == AMPH_LAYER_EXEC || event == AMPH_LAYER_EXIT)
        fwd_collect_settle_all();
    if (event == AMPH_LAYER_FORK_CHILD)
        forget_parent();
    if (event == AMPH_LAYER_EXIT)
        atomic_store(&all.over, true);
}

static struct amph_layer layer = { .name = "cache", .rank = 30, .call = collect_call, .event = collect_event };

void fwd_collect_open(void)
{
    static bool added;
    all.session = amph_env_enum(AMPH_ENV_IOFWD_CONSISTENCY) == 1;
    all.blocks = (unsigned)amph_env_int(AMPH_ENV_IOFWD_BLOCKS);
    if (all.blocks > BLOCKS_MOST)
        all.blocks = BLOCKS_MOST;
    if (all.session)
        atomic_store(&all.in_use, true);
    if (!added)
        amph_layer_add(&layer);
    added = true;
}

/* When the process ends, before the C library flushes streams: what those write then goes straight to the server. */
__attribute__((destructor)) static void collect_end(void)
{
    if (atomic_load(&all.in_use))
        amph_layer_event(AMPH_LAYER_EXIT);
}

int fwd_collect_announce(struct amph_fwd_client *cl, const struct amph_fwd_file *file, bool write, uint64_t bytes, unsigned calls)
{
    atomic_store(&all.in_use, true);
    struct collector *c = find_or_make(cl, file);
    if (!c || !enter_for(c, file))
        return ENOMEM;
    c->cl = cl;
    settle(c);
    c->announced = bytes && calls ? (write ? WRITING : READING) : IDLE;
    c->bytes_left = bytes;
    c->calls_left = calls;
    int err = take_late(c);
    leave(c);
    return err;
}
