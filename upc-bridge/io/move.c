/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers scattered memory to or from a file in long calls.
 *
 * Memory that is contiguous and mapped in this process is transferred directly; other memory is
 * copied through a buffer.  Any range of a block-cyclic array is contiguous in the memory of each
 * thread, whatever the block size.  So a range is fetched (or stored) as one transfer for each
 * thread, and its blocks are put in order locally.
 *
 * Layer: upc-bridge.  Thread rule: any one thread at a time for each transfer (see files.h).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/io/files.h"

static uintptr_t here_of(uint32_t thread)
{
    return upc_self.place[thread].here;
}

/* ---- one range [x, x + n) of a block-cyclic piece, to or from buf ---- */

/* The part of one thread: the offset of its first byte, and the number of bytes. */
struct part {
    uint64_t addr, len;
    char *bytes; /* mapped, or fetched */
};

static void copy(bool to_file, char *buf, char *memory, uint64_t n)
{
    if (n == 8 && to_file)
        memcpy(buf, memory, 8);
    else if (n == 8)
        memcpy(memory, buf, 8);
    else if (to_file)
        memcpy(buf, memory, n);
    else
        memcpy(memory, buf, n);
}

/* Visits each block of the range: counts it for its thread, or copies it. */
static void each_block(const struct upc_piece *p, uint64_t x, uint64_t n, struct part *parts,
                       char *buf, bool to_file)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t block = p->at.thread + x / p->block;
    uint64_t inside = x % p->block;
    uint64_t t = block % threads;
    uint64_t row = block / threads;

    while (n) {
        uint64_t len = p->block - inside < n ? p->block - inside : n;
        struct part *part = &parts[t];

        if (!buf && part->len == 0)
            part->addr = p->at.addr + row * p->block + inside;

        if (buf) {
            copy(to_file, buf, part->bytes + part->len, len);
            buf += len;
        }

        part->len += len;
        n -= len;
        inside = 0;

        if (++t == threads) {
            t = 0;
            row++;
        }
    }
}

/* Sets the local address of each part.  Parts that are not mapped in this process get space in
 * room, and are fetched if to_file. */
static bool fetch_parts(struct part *parts, bool to_file, char *room)
{
    uint64_t need = 0;

    for (int t = 0; t < upc_self.threads; t++) {
        uintptr_t here = here_of((uint32_t)t);

        parts[t].bytes = here ? (char *)here + parts[t].addr : room + need;
        if (!here && to_file && parts[t].len)
            amphora_upc_memget_nbi(
                parts[t].bytes, (struct upc_wide){ parts[t].addr, (uint32_t)t, 0 }, parts[t].len);

        need += here ? 0 : parts[t].len;
    }

    if (need && to_file)
        upc_synci();

    return need > 0;
}

static void store_parts(const struct part *parts)
{
    for (int t = 0; t < upc_self.threads; t++)
        if (!here_of((uint32_t)t) && parts[t].len)
            amphora_upc_memput_nbi((struct upc_wide){ parts[t].addr, (uint32_t)t, 0 },
                                   parts[t].bytes, parts[t].len);

    upc_synci();
}

static int move_range(const struct upc_move *m, const struct upc_piece *p, uint64_t x, uint64_t n,
                      char *buf)
{
    struct part *parts = calloc((size_t)upc_self.threads, sizeof *parts);
    bool far;

    if (!parts)
        return ENOMEM;

    each_block(p, x, n, parts, NULL, m->writing);
    far = fetch_parts(parts, m->writing, m->file->buffer + m->file->buffer_bytes);
    for (int t = 0; t < upc_self.threads; t++)
        parts[t].len = 0;

    each_block(p, x, n, parts, buf, m->writing);
    if (far && !m->writing)
        store_parts(parts);

    free(parts);
    return 0;
}

/* ---- a position in the list of pieces ---- */

void amph_upc_cursor_advance(struct upc_cursor *c, uint64_t n)
{
    c->at += n;
    while (c->left && c->at >= c->piece->len) {
        c->at -= c->piece->len;
        c->piece++;
        c->left--;
    }
}

char *amph_upc_cursor_straight(const struct upc_cursor *c, uint64_t *n_p)
{
    const struct upc_piece *p = c->piece;
    struct upc_wide w = p->at;
    uint64_t block;
    uint64_t inside = c->at;

    *n_p = p->len - c->at;
    if (p->local)
        return p->local + c->at;

    if (p->block) {
        block = w.thread + c->at / p->block;
        inside = block / (uint64_t)upc_self.threads * p->block + c->at % p->block;
        w.thread = (uint32_t)(block % (uint64_t)upc_self.threads);
        if (*n_p > p->block - c->at % p->block && upc_self.threads > 1)
            *n_p = p->block - c->at % p->block;
    }

    return here_of(w.thread) ? (char *)here_of(w.thread) + w.addr + inside : NULL;
}

int amph_upc_cursor_move(const struct upc_move *m, struct upc_cursor *c, char *buf, uint64_t n)
{
    const bool to_file = m->writing;
    int err = 0;

    while (n && !err) {
        uint64_t len = c->piece->len - c->at < n ? c->piece->len - c->at : n;
        uint64_t run;
        char *memory = amph_upc_cursor_straight(c, &run);

        if (memory && run >= len)
            copy(to_file, buf, memory, len);
        else if (c->piece->block)
            err = move_range(m, c->piece, c->at, len, buf);
        else if (to_file)
            upc_read_far(
                buf, (struct upc_wide){ c->piece->at.addr + c->at, c->piece->at.thread, 0 }, len);
        else
            upc_write_far((struct upc_wide){ c->piece->at.addr + c->at, c->piece->at.thread, 0 },
                          buf, len);

        amph_upc_cursor_advance(c, len);
        buf += len;
        n -= len;
    }

    return err;
}

/* ---- a run of the file ---- */

static void move_run(struct upc_move *m, struct upc_cursor *c, int64_t offset, uint64_t len)
{
    struct upc_file *f = m->file;

    while (len && !m->error) {
        uint64_t n;
        uint64_t done = 0;
        char *memory = amph_upc_cursor_straight(c, &n);

        if (memory && (n >= UPC_IO_DIRECT || n >= len)) {
            n = n < len ? n : len;
            m->error = amph_upc_raw_move(f, m->writing, memory, n, offset, &done);
            amph_upc_cursor_advance(c, done);
        } else {
            n = len < f->buffer_bytes ? len : f->buffer_bytes;
            if (m->writing)
                m->error = amph_upc_cursor_move(m, c, f->buffer, n);

            if (!m->error)
                m->error = amph_upc_raw_move(f, m->writing, f->buffer, n, offset, &done);

            if (!m->error && !m->writing)
                m->error = amph_upc_cursor_move(m, c, f->buffer, done);
        }

        m->done += done;
        offset += (int64_t)done;
        len -= done;
        if (done < n)
            break; /* the end of the file */
    }
}

void amph_upc_move_run(struct upc_move *m)
{
    struct upc_cursor c = { m->piece, m->npieces, 0 };

    m->done = 0;
    m->error = 0;
    amph_upc_cursor_advance(&c, m->skip);

    for (size_t i = 0; i < m->nruns && !m->error; i++) {
        uint64_t before = m->done;

        move_run(m, &c, m->run[i].offset, m->run[i].len);
        if (m->done - before < m->run[i].len)
            break;
    }

    if (m->writing && !m->error && m->file->flush_writes)
        m->error = amph_upc_raw_sync(m->file);
}

bool amph_upc_move_is_near(const struct upc_move *m)
{
    bool all = true;

    for (int t = 0; t < upc_self.threads; t++)
        all &= here_of((uint32_t)t) != 0;

    for (size_t i = 0; i < m->npieces && !all; i++)
        if (!m->piece[i].local && (m->piece[i].block || !here_of(m->piece[i].at.thread)))
            return false;

    return true;
}
