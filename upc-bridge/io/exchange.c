/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-phase I/O for lists of many short runs.  UPC OL 7.4.5.
 *
 * The range of the file that the lists of all threads cover together is divided into file domains,
 * one for each thread that accesses the file (its owner).  A domain is divided into windows, one
 * for each round.  A write round: every thread puts its data of each window into the owner's
 * buffer, and the owner writes the covered parts in long calls.  A read round: the owner reads
 * its window in one call, and every thread gets its parts.  Each owner uses two buffers
 * alternately, so one barrier for each round is enough.
 *
 * Layer: upc-bridge.  Thread rule: the program's thread; all functions are collective.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/io/files.h"

#define BATCH 512 /* runs in one transfer */
#define HEAD_BYTES 64

/* The head of a thread's area.  Two windows, the table and the runs follow it. */
struct head {
    int64_t end[2]; /* bytes read into each window */
    uint64_t error[2];
};

/* The runs of a thread that touch an owner's file domain. */
struct table_row {
    uint64_t first, count;
};

/* The progress of this thread in an owner's file domain. */
struct lane {
    size_t run;
    uint64_t done; /* bytes of that run */
    struct upc_cursor memory;
};

struct exchange {
    struct upc_move *m;
    int64_t low, base, end; /* the range; base: low, rounded down to the unit of file domains */
    uint64_t share, window, most_runs;
    uint32_t owners;
    uint64_t addr;         /* offset of the area, the same in every thread */
    struct lane *lane;     /* [owners] */
    struct upc_run *cover; /* of this thread's file domain, in order, without overlaps */
    size_t ncover, at;
    int error;
    /* a transfer that is being filled */
    size_t n;
    gex_Memvec_t here[BATCH], there[BATCH];
    struct upc_cursor after[BATCH]; /* data in the file's buffer: its destinations */
    bool passes[BATCH];
    uint64_t used; /* number of bytes in the file's buffer */
};

static uint64_t window_addr(const struct exchange *x, unsigned round)
{
    return x->addr + HEAD_BYTES + round % 2 * x->window;
}

static uint64_t table_addr(const struct exchange *x)
{
    return x->addr + HEAD_BYTES + 2 * x->window;
}

static uint64_t runs_addr(const struct exchange *x)
{
    return table_addr(x) + x->owners * sizeof(struct table_row);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- is it worth it? ---- */

static void reduce(uint64_t *value, size_t n, gex_OP_t op)
{
    uint64_t result[4];

    gex_Event_Wait(gex_Coll_ReduceToAllNB(upc_self.tm, result, value, GEX_DT_U64, sizeof *value, n,
                                          op, NULL, NULL, 0));
    memcpy(value, result, n * sizeof *value);
}

/* Computes the range.  Returns false if the exchange does not pay: the runs are long, or the range
 * is mostly holes. */
static bool is_worth_it(struct exchange *x)
{
    const struct upc_move *m = x->m;
    uint64_t max[4] = { 0, 0, m->nruns, 0 };
    uint64_t sum[2] = { m->nruns, 0 };
    uint64_t range;

    for (size_t i = 0; i < m->nruns; i++) {
        sum[1] += m->run[i].len;

        /* runs of one list overlap */
        max[3] |= i && m->run[i].offset < m->run[i - 1].offset + (int64_t)m->run[i - 1].len;
    }

    if (m->nruns) {
        max[0] = (uint64_t)m->run[m->nruns - 1].offset + m->run[m->nruns - 1].len;
        max[1] = ~(uint64_t)m->run[0].offset;
    }

    reduce(max, 4, GEX_OP_MAX);
    reduce(sum, 2, GEX_OP_ADD);
    x->end = (int64_t)max[0];
    x->low = (int64_t)~max[1];
    x->most_runs = max[2];
    range = max[0] - ~max[1];
    if (m->writing && upc_self.threads == 1)
        return false; /* the holes must stay unwritten */

    return !max[3] && sum[0] >= 2 * (uint64_t)upc_self.threads && sum[1] / sum[0] < UPC_IO_DIRECT &&
           (m->writing ? range - range / 4 : range / 2) <= sum[1];
}

/* ---- who gets what ---- */

/* Allocates the shared area, at the same offset in all threads.  Returns false if memory is
 * exhausted. */
static bool set_up(struct exchange *x)
{
    const struct upc_file *f = x->m->file;
    uint64_t unit = (uint64_t)f->unit;
    uint64_t bytes;

    x->owners = (uint32_t)f->writers;
    x->base = x->low / (int64_t)unit * (int64_t)unit;
    x->share = ((uint64_t)(x->end - x->base) + x->owners - 1) / x->owners;
    x->share = (x->share + unit - 1) / unit * unit;
    x->window = x->share < f->buffer_bytes ? (x->share + 7) / 8 * 8 : f->buffer_bytes / 8 * 8;
    bytes = runs_addr(x) + (x->m->writing ? x->most_runs * sizeof(struct upc_run) : 0);
    x->addr = amphora_upc_all_alloc((size_t)upc_self.threads, bytes).addr;

    return x->addr != 0;
}

static int64_t share_at(const struct exchange *x, uint32_t owner)
{
    return smaller(x->base + (int64_t)(owner * x->share), x->end);
}

/* Computes this thread's position in each owner's file domain; its runs are sorted by offset. */
static bool find_lanes(struct exchange *x)
{
    const struct upc_move *m = x->m;
    struct lane at = { 0, 0, { m->piece, m->npieces, 0 } };

    if (!(x->lane = calloc(x->owners, sizeof *x->lane)))
        return false;

    amph_upc_cursor_advance(&at.memory, m->skip);
    for (uint32_t w = 0; w < x->owners; w++) {
        int64_t from = share_at(x, w);

        while (at.run < m->nruns && m->run[at.run].offset + (int64_t)m->run[at.run].len <= from) {
            amph_upc_cursor_advance(&at.memory, m->run[at.run].len - at.done);
            at.run++;
            at.done = 0;
        }

        if (at.run < m->nruns && m->run[at.run].offset + (int64_t)at.done < from) {
            amph_upc_cursor_advance(&at.memory, (uint64_t)(from - m->run[at.run].offset) - at.done);
            at.done = (uint64_t)(from - m->run[at.run].offset);
        }

        x->lane[w] = at;
    }

    return true;
}

/* Writes the runs into the own area, and which of them each owner must read. */
static void publish(struct exchange *x)
{
    const struct upc_move *m = x->m;
    struct table_row *row = amph_upc_mine(table_addr(x));

    for (uint32_t w = 0; w < x->owners; w++) {
        size_t last = x->lane[w].run;

        while (last < m->nruns && m->run[last].offset < share_at(x, w + 1))
            last++;

        row[w] = (struct table_row){ x->lane[w].run, last - x->lane[w].run };
    }

    memcpy(amph_upc_mine(runs_addr(x)), m->run, m->nruns * sizeof *m->run);
}

static int by_offset(const void *a, const void *b)
{
    int64_t x = ((const struct upc_run *)a)->offset;
    int64_t y = ((const struct upc_run *)b)->offset;

    return (x > y) - (x < y);
}

/* Sorts the runs, and merges those that touch or overlap. */
static size_t join(struct upc_run *run, size_t n)
{
    size_t last = 0;

    if (n == 0)
        return 0;

    qsort(run, n, sizeof *run, by_offset);
    for (size_t i = 1; i < n; i++) {
        int64_t end = run[last].offset + (int64_t)run[last].len;
        int64_t other = run[i].offset + (int64_t)run[i].len;

        if (run[i].offset > end)
            run[++last] = run[i];
        else if (other > end)
            run[last].len = (uint64_t)(other - run[last].offset);
    }

    return last + 1;
}

/* Collects the runs of all threads in the own file domain. */
static bool collect(struct exchange *x)
{
    uint32_t threads = (uint32_t)upc_self.threads;
    uint32_t me = (uint32_t)upc_self.mythread;
    struct table_row *row = calloc(threads, sizeof *row);
    size_t n = 0;

    for (uint32_t t = 0; row && t < threads; t++)
        amphora_upc_memget_nbi(&row[t], (struct upc_wide){ table_addr(x) + me * sizeof *row, t, 0 },
                               sizeof *row);

    upc_synci();
    for (uint32_t t = 0; row && t < threads; t++)
        n += row[t].count;

    x->cover = row ? malloc((n + 1) * sizeof *x->cover) : NULL;
    n = 0;

    for (uint32_t t = 0; x->cover && t < threads; n += row[t++].count)
        amphora_upc_memget_nbi(
            x->cover + n, (struct upc_wide){ runs_addr(x) + row[t].first * sizeof *x->cover, t, 0 },
            row[t].count * sizeof *x->cover);

    upc_synci();
    free(row);
    x->ncover = x->cover ? join(x->cover, n) : 0;

    return x->cover != NULL;
}

/* ---- transfers ---- */

static void send_batch(struct exchange *x, uint32_t owner)
{
    const struct upc_move *m = x->m;

    if (x->n && m->writing)
        (void)gex_VIS_VectorPutBlocking(upc_self.tm, owner, x->n, x->there, x->n, x->here, 0);
    else if (x->n)
        (void)gex_VIS_VectorGetBlocking(upc_self.tm, x->n, x->here, owner, x->n, x->there, 0);

    for (size_t i = 0; i < x->n && !m->writing; i++)
        if (x->passes[i] &&
            amph_upc_cursor_move(m, &x->after[i], x->here[i].gex_addr, x->here[i].gex_len))
            x->error = ENOMEM;

    x->n = 0;
    x->used = 0;
}

/* Copies n bytes between the lane's position in memory and offset `there` of the owner's window. */
static void add(struct exchange *x, struct lane *l, uint32_t owner, char *there, uint64_t n)
{
    const struct upc_move *m = x->m;

    while (n) {
        uint64_t len;
        char *memory = amph_upc_cursor_straight(&l->memory, &len);
        bool passes = !memory;

        if (x->n == BATCH || (passes && x->used == m->file->buffer_bytes))
            send_batch(x, owner);

        if (passes) {
            len = m->file->buffer_bytes - x->used;
            memory = m->file->buffer + x->used;
        }

        len = len < n ? len : n;
        x->here[x->n] = (gex_Memvec_t){ memory, len };
        x->there[x->n] = (gex_Memvec_t){ there, len };
        x->passes[x->n] = passes;
        x->after[x->n++] = l->memory;
        x->used += passes ? len : 0;

        if (!passes || !m->writing)
            amph_upc_cursor_advance(&l->memory, len);
        else if (amph_upc_cursor_move(m, &l->memory, memory, len))
            x->error = ENOMEM;

        there += len;
        n -= len;
    }
}

/* Copies this thread's data to (or from) the owner's window of this round; file_end: where the file
 * ends. */
static void carry(struct exchange *x, uint32_t owner, unsigned round, int64_t file_end)
{
    struct upc_move *m = x->m;
    struct lane *l = &x->lane[owner];
    int64_t from = share_at(x, owner) + (int64_t)(round * x->window);
    int64_t to = smaller(from + (int64_t)x->window, share_at(x, owner + 1));
    char *buffer = amph_upc_there(owner, window_addr(x, round));

    while (l->run < m->nruns && !x->error) {
        const struct upc_run *run = &m->run[l->run];
        int64_t at = run->offset + (int64_t)l->done;
        int64_t end = smaller(run->offset + (int64_t)run->len, to);
        int64_t real = smaller(end, file_end);

        if (at >= to)
            break;

        if (real > at) {
            add(x, l, owner, buffer + (at - from), (uint64_t)(real - at));
            m->done += (uint64_t)(real - at);
        }

        if (end > real && end > at)
            amph_upc_cursor_advance(&l->memory, (uint64_t)(end - (real > at ? real : at)));

        l->done += (uint64_t)(end - at);
        if (l->done == run->len) {
            l->run++;
            l->done = 0;
        }
    }

    send_batch(x, owner);
}

/* ---- the owner and the file ---- */

static void write_window(struct exchange *x, unsigned round)
{
    uint32_t me = (uint32_t)upc_self.mythread;
    int64_t from = share_at(x, me) + (int64_t)(round * x->window);
    int64_t to = smaller(from + (int64_t)x->window, share_at(x, me + 1));
    char *buffer = amph_upc_mine(window_addr(x, round));

    while (x->at < x->ncover && x->cover[x->at].offset < to && !x->error) {
        const struct upc_run *c = &x->cover[x->at];
        int64_t at = c->offset > from ? c->offset : from;
        int64_t end = smaller(c->offset + (int64_t)c->len, to);
        uint64_t done;

        if (end > at)
            x->error = amph_upc_raw_move(x->m->file, true, buffer + (at - from),
                                         (uint64_t)(end - at), at, &done);

        if (c->offset + (int64_t)c->len > to)
            break;

        x->at++;
    }
}

static void read_window(struct exchange *x, unsigned round)
{
    uint32_t me = (uint32_t)upc_self.mythread;
    struct head *head = amph_upc_mine(x->addr);
    int64_t begin = share_at(x, me) + (int64_t)(round * x->window);
    int64_t to = smaller(begin + (int64_t)x->window, share_at(x, me + 1));
    int64_t from = begin > x->low ? begin : x->low;
    char *buffer = amph_upc_mine(window_addr(x, round));
    uint64_t done = 0;

    if (to > from)
        x->error = amph_upc_raw_move(x->m->file, false, buffer + (from - begin),
                                     (uint64_t)(to - from), from, &done);

    head->end[round % 2] = from + (int64_t)done;
    head->error[round % 2] = (uint64_t)x->error;
}

static void write_round(struct exchange *x, unsigned round)
{
    for (uint32_t i = 0; i < x->owners; i++)
        carry(x, (x->owners - 1 - i + (uint32_t)upc_self.mythread) % x->owners, round, INT64_MAX);

    amph_upc_sync();
    if ((uint32_t)upc_self.mythread < x->owners)
        write_window(x, round);
}

static void read_round(struct exchange *x, unsigned round)
{
    struct head head;

    if ((uint32_t)upc_self.mythread < x->owners)
        read_window(x, round);

    amph_upc_sync();
    for (uint32_t i = 0; i < x->owners; i++) {
        uint32_t w = (i + (uint32_t)upc_self.mythread) % x->owners;

        amphora_upc_memget_nbi(&head, (struct upc_wide){ x->addr, w, 0 }, sizeof head);
        upc_synci();
        if (!x->error)
            x->error = (int)head.error[round % 2];

        carry(x, w, round, head.end[round % 2]);
    }
}

static void work(struct exchange *x)
{
    unsigned rounds = (unsigned)((x->share + x->window - 1) / x->window);

    if (!find_lanes(x))
        x->error = ENOMEM;

    if (amph_upc_max((uint64_t)x->error))
        return;

    if (x->m->writing) {
        publish(x);
        amph_upc_sync();
        if ((uint32_t)upc_self.mythread < x->owners && !collect(x))
            x->error = ENOMEM;
    }

    for (unsigned r = 0; r < rounds; r++)
        (x->m->writing ? write_round : read_round)(x, r);

    if (x->m->writing && !x->error && x->m->file->flush_writes)
        x->error = amph_upc_raw_sync(x->m->file);
}

bool amph_upc_move_exchange(struct upc_move *m)
{
    struct exchange *x = calloc(1, sizeof *x);
    bool done = false;

    if (!x)
        amph_upc_fail("UPC-IO: no memory for lists");

    x->m = m;
    m->done = 0;

    if (is_worth_it(x) && set_up(x)) {
        work(x);
        m->error = (int)amph_upc_max((uint64_t)x->error);
        amphora_upc_all_free((struct upc_wide){ x->addr, 0, 0 });
        done = true;
    }

    free(x->lane);
    free(x->cover);
    free(x);

    return done;
}
