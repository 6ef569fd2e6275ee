/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block-cyclic array to or from a forwarded file, by the common file pointer: each thread sends
 * the servers its own blocks, which lie one after the other in its memory, and they put them
 * between those of the others.  So every byte crosses the network once, and the file sees long
 * calls.  iofwd.h, joint reads and writes.  UPC OL 7.4.4.  Layer: upc-bridge.
 *
 * The array is cut into stretches of whole rows of blocks; all threads go through them in the same
 * order, those of the servers in turn, each server a range of the file.  Blocks that are long by
 * themselves are stretches of one thread each.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/files.h"

#define STRETCH_MOST ((uint64_t)8 << 20) /* unless one row of blocks is longer */
#define AT_ONCE 512                      /* stretches in one call of iofwd */
#define NOBODY UINT64_MAX

/* ---- the open files: one at each server, of the least thread that has it there ---- */

static bool is_known(const struct upc_joint *j, uint32_t server)
{
    for (size_t i = 0; i < j->nfiles; i++)
        if (iofwd_file_server(j->file[i]) == server)
            return true;

    return false;
}

/* Opens thread t's file here, too.  0 or an errno value. */
static int join_file(struct upc_file *f, uint32_t t)
{
    struct upc_joint *j = &f->joint;
    char name[IOFWD_NAME_BYTES] = "";
    int err = t == (uint32_t)upc_self.mythread ? iofwd_name(f->forwarded, name) : 0;

    amph_upc_report(t, name, sizeof name);
    if (t == (uint32_t)upc_self.mythread) {
        j->own = j->nfiles;
        j->file[j->nfiles++] = f->forwarded;
    } else if ((err = iofwd_open_name(name, &j->file[j->nfiles])) == 0)
        j->nfiles++;

    return err;
}

static int open_files(struct upc_file *f)
{
    struct upc_joint *j = &f->joint;
    uint32_t mine = iofwd_file_server(f->forwarded);

    j->own = UPC_JOINT_SERVERS;
    for (;;) {
        uint64_t next = ~amph_upc_max(~(is_known(j, mine) ? NOBODY : (uint64_t)upc_self.mythread));

        if (next == NOBODY)
            return 0;

        int err = j->nfiles == UPC_JOINT_SERVERS ? E2BIG : join_file(f, (uint32_t)next);
        if (amph_upc_max((uint64_t)err)) /* at the same step everywhere */
            return EIO;
    }
}

/* Collective, and the same answer in all threads.  What the client gathers must not come to a
 * server behind what goes there directly. */
bool upc_joint_open(struct upc_file *f)
{
    struct upc_joint *j = &f->joint;
    const char *consistency = gasnet_getenv("IOFWD_CONSISTENCY");

    if (j->state == UPC_JOINT_UNKNOWN) {
        bool possible = f->forwarded && upc_self.threads > 1 &&
                        !(consistency && strcmp(consistency, "session") == 0);
        bool opened = !amph_upc_max(!possible) && open_files(f) == 0;

        for (size_t i = 0; opened && i < j->nfiles; i++) {
            size_t most = iofwd_joint_most(j->file[i]);
            j->most = i == 0 || most < j->most ? most : j->most;
        }

        j->most = opened ? ~amph_upc_max(~(uint64_t)j->most) : 0;
        if (!j->most)
            upc_joint_close(f);

        j->state = j->most ? UPC_JOINT_READY : UPC_JOINT_NONE;
    }

    return j->state == UPC_JOINT_READY;
}

void upc_joint_close(struct upc_file *f)
{
    struct upc_joint *j = &f->joint;

    for (size_t i = 0; i < j->nfiles; i++)
        if (i != j->own)
            iofwd_close(j->file[i]);

    j->nfiles = 0;
    j->state = UPC_JOINT_NONE;
}

/* ---- stretches ---- */

/* How a movement is cut.  Positions are bytes of the array from the beginning of the first thread's
 * row 0 on. */
struct plan {
    const struct upc_async *a;
    uint64_t addr;                     /* of row 0 */
    uint64_t block, width, first, end; /* width: of a stretch */
    uint64_t n, each;                  /* stretches; those of one server, which follow each other */
    int64_t at;                        /* of `first` in the file */
    bool alone;                        /* each is one thread's */
};

static uint64_t block_of(const struct upc_async *a)
{
    return a->move.piece[a->move.npieces - 1].block;
}

static struct plan make_plan(const struct upc_async *a)
{
    const struct upc_piece *piece = a->move.piece;
    const struct upc_joint *j = &a->move.file->joint;
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t block = block_of(a) ? block_of(a) : a->whole;

    /* the first piece is the rest of a block */
    uint64_t before = a->move.npieces > 1 ? block - piece->len : 0;
    struct plan p = { .a = a,
                      .addr = piece->at.addr - before,
                      .block = block,
                      .first = piece->at.thread * block + before,
                      .at = a->move.run[0].offset - (int64_t)a->move.skip };

    p.end = p.first + a->whole;
    p.alone = block >= UPC_IO_DIRECT || block > j->most;

    if (p.alone)
        p.width = block < j->most ? block : j->most; /* of a block, from its beginning on */
    else {
        uint64_t rows = j->most / block;
        uint64_t fit = STRETCH_MOST / (block * threads);

        rows = rows < fit ? rows : fit;
        p.width = (rows ? rows : 1) * block * threads;
    }

    p.n = p.alone ? (p.end + block - 1) / block * ((block + p.width - 1) / p.width)
                  : (p.end + p.width - 1) / p.width;
    p.each = (p.n + j->nfiles - 1) / j->nfiles;
    return p;
}

/* Stretch k: [*from_p, result). */
static uint64_t bounds(const struct plan *p, uint64_t k, uint64_t *from_p)
{
    uint64_t parts = (p->block + p->width - 1) / p->width;
    uint64_t begin = p->alone ? k / parts * p->block + k % parts * p->width : k * p->width;
    uint64_t end = begin + p->width;
    uint64_t last = p->alone ? (k / parts + 1) * p->block : end;

    end = end < last ? end : last;
    *from_p = begin > p->first ? begin : p->first;
    return end < p->end ? end : p->end;
}

static void add_run(struct iofwd_row *row, size_t *n, uint32_t at, uint32_t len)
{
    struct iofwd_row *last = *n ? &row[*n - 1] : NULL;

    if (last && last->len == len &&
        (last->count == 1 || at == last->at + last->count * last->stride)) {
        last->stride = (at - last->at) / last->count;
        last->count++;
    } else
        row[(*n)++] = (struct iofwd_row){ .at = at, .len = len, .stride = len, .count = 1 };
}

#define ROWS 3 /* the rest of a block, whole blocks, the beginning of one */

/* This thread's part of [from, to). */
static void fill_part(const struct plan *p, uint64_t from, uint64_t to, struct iofwd_joint *s,
                      struct iofwd_row *row)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t me = (uint64_t)upc_self.mythread;
    uint64_t g = from / p->block;

    g += (me + threads - g % threads) % threads;
    s->rows = row;
    s->nrows = 0;

    for (; g * p->block < to; g += threads) {
        uint64_t begin = g * p->block > from ? g * p->block : from;
        uint64_t end = (g + 1) * p->block < to ? (g + 1) * p->block : to;

        if (s->nrows == 0)
            s->buf = amph_upc_mine(p->addr + g / threads * p->block + begin % p->block);

        add_run(row, &s->nrows, (uint32_t)(begin - from), (uint32_t)(end - begin));
    }
}

/* The k-th stretch in the order of work; false: it is none of this thread's. */
static bool fill_stretch(const struct plan *p, uint64_t k, struct iofwd_joint *s,
                         struct iofwd_row *row)
{
    const struct upc_file *f = p->a->move.file;
    uint64_t which = k % f->joint.nfiles;
    uint64_t i = which * p->each + k / f->joint.nfiles;
    uint64_t from, to;

    if (k / f->joint.nfiles >= p->each || i >= p->n || (to = bounds(p, i, &from)) <= from)
        return false;

    *s = (struct iofwd_joint){ .file = f->joint.file[which],
                               .number = p->a->number + i,
                               .processes = p->alone ? 1 : (uint32_t)upc_self.threads,
                               .off = p->at + (int64_t)(from - p->first),
                               .len = to - from };
    fill_part(p, from, to, s, row);
    return s->nrows || !p->alone;
}

void upc_joint_run(struct upc_async *a)
{
    struct upc_move *m = &a->move;
    struct plan p = make_plan(a);
    struct iofwd_joint *s = calloc(AT_ONCE, sizeof *s);

    struct iofwd_row(*row)[ROWS] = calloc(AT_ONCE, sizeof *row);

    uint64_t all = p.each * m->file->joint.nfiles;

    m->done = 0;
    m->error = s && row ? 0 : ENOMEM;

    for (uint64_t k = 0; k < all && s && row;) {
        size_t n = 0;

        for (; n < AT_ONCE && k < all; k++)
            n += fill_stretch(&p, k, &s[n], row[n]);

        int err = (m->writing ? iofwd_pwrite_joint : iofwd_pread_joint)(s, n);

        m->error = m->error ? m->error : err;
        for (size_t i = 0; i < n; i++)
            m->done += s[i].done;
    }

    free(row);
    free(s);
}

bool upc_joint_begin(struct upc_async *a)
{
    struct upc_file *f = a->move.file;

    if (a->whole == 0 || f->writers != upc_self.threads || !upc_joint_open(f))
        return false;

    a->joint = block_of(a) <= (uint64_t)INT64_MAX / (uint64_t)upc_self.threads / 4 &&
               a->whole <= (uint64_t)INT64_MAX / 4;
    if (a->joint) {
        struct plan p;

        a->number = f->joint.number;
        p = make_plan(a);
        f->joint.number += p.n;
    }

    return a->joint;
}
