/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-phase I/O: transfers a block-cyclic shared array at the common file pointer of a forwarded
 * file.
 *
 * Each thread sends its own blocks, which are contiguous in its memory, to the servers.  A server
 * merges the blocks of all threads in file order.  So every byte crosses the network once, and the
 * file system sees long calls.  iofwd.h, collective reads and writes.  UPC OL 7.4.4.
 *
 * The array is divided into extents of whole rows of blocks (a row is one block of each thread).
 * Each server has a file domain of consecutive extents.  All threads process the extents in the
 * same order, one of each server in turn.  A block that is long enough by itself is an extent of a
 * single thread.
 *
 * Layer: upc-bridge.  Thread rule: amph_upc_collective_run may be called by a second thread,
 * because it makes no gex call; everything else by the program's thread.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/io/files.h"

#define MAX_EXTENT_BYTES ((uint64_t)8 << 20) /* unless one row of blocks is longer */
#define EXTENTS_PER_CALL 512                 /* of iofwd */
#define NO_THREAD UINT64_MAX

/* ---- the open files: one at each server, opened by the lowest thread that uses this server
 * ---- */

static bool is_known(const struct upc_collective *j, uint32_t server)
{
    for (size_t i = 0; i < j->nfiles; i++)
        if (iofwd_file_server(j->file[i]) == server)
            return true;

    return false;
}

/* Opens the open file of thread t in this thread too.  Returns 0 or an errno value. */
static int join_file(struct upc_file *f, uint32_t t)
{
    struct upc_collective *j = &f->collective;
    char name[IOFWD_NAME_BYTES] = "";
    int err = t == (uint32_t)upc_self.mythread ? iofwd_name(f->forwarded, name) : 0;

    amph_upc_broadcast(t, name, sizeof name);
    if (t == (uint32_t)upc_self.mythread) {
        j->own = j->nfiles;
        j->file[j->nfiles++] = f->forwarded;
    } else if ((err = iofwd_open_name(name, &j->file[j->nfiles])) == 0)
        j->nfiles++;

    return err;
}

/* Opens, in all threads, one open file of each server in use.  Collective.  Returns 0 or an
 * errno value, the same in all threads. */
static int open_files(struct upc_file *f)
{
    struct upc_collective *j = &f->collective;
    uint32_t mine = iofwd_file_server(f->forwarded);

    j->own = UPC_COLLECTIVE_SERVERS;
    for (;;) {
        uint64_t next = ~amph_upc_max(
            ~(is_known(j, mine) ? NO_THREAD : (uint64_t)upc_self.mythread));

        if (next == NO_THREAD)
            return 0;

        int err = j->nfiles == UPC_COLLECTIVE_SERVERS ? E2BIG : join_file(f, (uint32_t)next);
        if (amph_upc_max((uint64_t)err)) /* so that all threads stop at the same step */
            return EIO;
    }
}

/* Collective; returns the same in all threads.  Session consistency excludes two-phase I/O: the
 * client's coalesced writes could reach a server after the collective writes that follow them. */
bool amph_upc_collective_open(struct upc_file *f)
{
    struct upc_collective *j = &f->collective;
    const char *consistency = gasnet_getenv("IOFWD_CONSISTENCY");

    if (j->state == UPC_COLLECTIVE_UNKNOWN) {
        bool possible = f->forwarded && upc_self.threads > 1 &&
                        !(consistency && strcmp(consistency, "session") == 0);
        bool opened = !amph_upc_max(!possible) && open_files(f) == 0;

        for (size_t i = 0; opened && i < j->nfiles; i++) {
            size_t limit = iofwd_collective_max(j->file[i]);

            if (i == 0 || limit < j->max_bytes)
                j->max_bytes = limit;
        }

        j->max_bytes = opened ? ~amph_upc_max(~(uint64_t)j->max_bytes) : 0;
        if (!j->max_bytes)
            amph_upc_collective_close(f);

        j->state = j->max_bytes ? UPC_COLLECTIVE_READY : UPC_COLLECTIVE_NONE;
    }

    return j->state == UPC_COLLECTIVE_READY;
}

void amph_upc_collective_close(struct upc_file *f)
{
    struct upc_collective *j = &f->collective;

    for (size_t i = 0; i < j->nfiles; i++)
        if (i != j->own)
            iofwd_close(j->file[i]);

    j->nfiles = 0;
    j->state = UPC_COLLECTIVE_NONE;
}

/* ---- extents ---- */

/* How a transfer is divided into extents.  Positions are bytes of the array, counted from the
 * beginning of row 0 of thread 0. */
struct plan {
    const struct upc_async *a;
    uint64_t addr;       /* offset of row 0 in shared memory */
    uint64_t block;      /* bytes of a block */
    uint64_t width;      /* bytes of an extent */
    uint64_t first, end; /* the positions to transfer */
    uint64_t n;          /* number of extents */
    uint64_t per_server; /* extents in the file domain of one server */
    int64_t file_offset; /* of position `first` */
    bool single;         /* each extent belongs to a single thread */
};

static uint64_t block_of(const struct upc_async *a)
{
    return a->move.piece[a->move.npieces - 1].block;
}

static struct plan make_plan(const struct upc_async *a)
{
    const struct upc_piece *piece = a->move.piece;
    const struct upc_collective *j = &a->move.file->collective;
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t block = block_of(a) ? block_of(a) : a->whole;

    /* if there are several pieces, the first one is the rest of a block */
    uint64_t before = a->move.npieces > 1 ? block - piece->len : 0;
    struct plan p = { .a = a,
                      .addr = piece->at.addr - before,
                      .block = block,
                      .first = piece->at.thread * block + before,
                      .file_offset = a->move.run[0].offset - (int64_t)a->move.skip };

    p.end = p.first + a->whole;
    p.single = block >= UPC_IO_DIRECT || block > j->max_bytes;

    if (p.single)
        p.width = block < j->max_bytes ? block : j->max_bytes;
    else {
        uint64_t rows = j->max_bytes / block;
        uint64_t fit = MAX_EXTENT_BYTES / (block * threads);

        rows = rows < fit ? rows : fit;
        p.width = (rows ? rows : 1) * block * threads;
    }

    p.n = p.single ? (p.end + block - 1) / block * ((block + p.width - 1) / p.width)
                   : (p.end + p.width - 1) / p.width;
    p.per_server = (p.n + j->nfiles - 1) / j->nfiles;
    return p;
}

/* Returns the end of extent k and stores its beginning in *from_p. */
static uint64_t bounds(const struct plan *p, uint64_t k, uint64_t *from_p)
{
    uint64_t parts = (p->block + p->width - 1) / p->width;
    uint64_t begin = p->single ? k / parts * p->block + k % parts * p->width : k * p->width;
    uint64_t end = begin + p->width;
    uint64_t last = p->single ? (k / parts + 1) * p->block : end;

    end = end < last ? end : last;
    *from_p = begin > p->first ? begin : p->first;
    return end < p->end ? end : p->end;
}

/* Appends len bytes at `at` to the rows; extends the last row if the bytes continue its pattern. */
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

#define ROWS 3 /* the rest of a block, whole blocks, the beginning of a block */

/* Fills in this thread's part of the extent [from, to). */
static void fill_part(const struct plan *p, uint64_t from, uint64_t to, struct iofwd_extent *s,
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

/* Fills in the k-th extent in the order of processing.  Returns false if this thread does not take
 * part in it. */
static bool fill_extent(const struct plan *p, uint64_t k, struct iofwd_extent *s,
                        struct iofwd_row *row)
{
    const struct upc_file *f = p->a->move.file;
    uint64_t which = k % f->collective.nfiles;
    uint64_t i = which * p->per_server + k / f->collective.nfiles;
    uint64_t from, to;

    if (k / f->collective.nfiles >= p->per_server || i >= p->n ||
        (to = bounds(p, i, &from)) <= from)
        return false;

    *s = (struct iofwd_extent){ .file = f->collective.file[which],
                                .number = p->a->number + i,
                                .processes = p->single ? 1 : (uint32_t)upc_self.threads,
                                .off = p->file_offset + (int64_t)(from - p->first),
                                .len = to - from };
    fill_part(p, from, to, s, row);
    return s->nrows || !p->single;
}

void amph_upc_collective_run(struct upc_async *a)
{
    struct upc_move *m = &a->move;
    struct plan p = make_plan(a);
    struct iofwd_extent *s = calloc(EXTENTS_PER_CALL, sizeof *s);

    struct iofwd_row(*row)[ROWS] = calloc(EXTENTS_PER_CALL, sizeof *row);

    uint64_t all = p.per_server * m->file->collective.nfiles;

    m->done = 0;
    m->error = s && row ? 0 : ENOMEM;

    for (uint64_t k = 0; k < all && s && row;) {
        size_t n = 0;

        for (; n < EXTENTS_PER_CALL && k < all; k++)
            n += fill_extent(&p, k, &s[n], row[n]);

        int err = (m->writing ? iofwd_pwrite_collective : iofwd_pread_collective)(s, n);

        m->error = m->error ? m->error : err;
        for (size_t i = 0; i < n; i++)
            m->done += s[i].done;
    }

    free(row);
    free(s);
}

bool amph_upc_collective_begin(struct upc_async *a)
{
    struct upc_file *f = a->move.file;

    if (a->whole == 0 || f->writers != upc_self.threads || !amph_upc_collective_open(f))
        return false;

    a->collective = block_of(a) <= (uint64_t)INT64_MAX / (uint64_t)upc_self.threads / 4 &&
                    a->whole <= (uint64_t)INT64_MAX / 4;
    if (a->collective) {
        struct plan p;

        a->number = f->collective.number;
        p = make_plan(a);
        f->collective.number += p.n;
    }

    return a->collective;
}
