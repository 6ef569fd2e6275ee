/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads ahead without weakening consistency: the data of one block is used only while the file's
 * version, which the server moves at each change, is the one from before the block was read
 * (wire/versions.h).
 *
 * Layer: iofwd.  Thread rule: the caller owns the coalescer.
 *
 * A read that the block answers takes effect when its version is looked at, after the copy.  A read
 * that needs a new block takes effect at the server.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/os/clock.h"
#include "base/platform.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/coalesce/blocks.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/versions.h"

#define FIRST_BYTES ((size_t)32 << 10)
#define MAX_BYTES ((size_t)256 << 10)
/* If less than this was used of a block before the file changed, the next block is smaller. */
#define MIN_BYTES ((size_t)8 << 10)
#define PAUSE_READS 32u

void amph_client_ahead_begin(struct coalescer *c, uint32_t line)
{
    c->ahead.line = line;
    c->ahead.len = 0;
    c->ahead.next = FIRST_BYTES;
}

bool amph_client_ahead_may(struct coalescer *c)
{
    if (c->ahead.pauses == 0)
        return true;

    c->ahead.pauses--;
    return false;
}

/* ---- the memory of blocks: mapped, because a signal handler may read a file while its thread
 * allocates memory ---- */

static uint8_t *memory_get(void)
{
    uint8_t *data = NULL;

    for (size_t i = 0; i < AMPH_COUNTOF(amph_client_coalesce.spare_data) && !data; i++)
        if (atomic_load_explicit(&amph_client_coalesce.spare_data[i], memory_order_relaxed))
            data = atomic_exchange(&amph_client_coalesce.spare_data[i], NULL);

    if (data)
        return data;

    void *at = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

static void memory_put(uint8_t *data)
{
    for (size_t i = 0; i < AMPH_COUNTOF(amph_client_coalesce.spare_data) && data; i++) {
        uint8_t *none = NULL;

        if (atomic_compare_exchange_strong(&amph_client_coalesce.spare_data[i], &none, data))
            return;
    }

    if (data)
        munmap(data, MAX_BYTES);
}

void amph_client_ahead_free(struct coalescer *c)
{
    memory_put(c->ahead.data);
    c->ahead.data = NULL;
    c->ahead.len = 0;
    c->ahead.pauses = 0;
}

/* ---- blocks ---- */

static bool is_current(const struct coalescer *c, const struct amph_fwd_versions *v)
{
    uint32_t unused;

    return c->ahead.known && amph_fwd_version_take(&v->cuts, &unused) &&
           amph_fwd_version_is(&v->line[c->ahead.line].data, c->ahead.version);
}

/* Chooses the size of the next block: larger after one that was used up, smaller after one that a
 * change has made useless. Returns false if reading ahead does not pay at present. */
static bool choose_size(struct coalescer *c, bool changed)
{
    size_t used = c->pos > c->ahead.off ? (size_t)(c->pos - c->ahead.off) : 0;

    if (!changed) {
        if (c->ahead.len > 0 && c->ahead.next < MAX_BYTES)
            c->ahead.next *= 2;

        return true;
    }

    if (used < c->ahead.len / 2)
        c->ahead.next /= 4;

    if (c->ahead.next >= MIN_BYTES)
        return true;

    c->ahead.pauses = PAUSE_READS;
    return false;
}

/* Reads the block at the sequence's position. */
static bool fetch(struct coalescer *c, const struct amph_fwd_versions *v, size_t want)
{
    size_t len = c->ahead.next > want ? c->ahead.next : want;

    c->ahead.len = 0;
    if (!c->ahead.data && !(c->ahead.data = memory_get()))
        return false;

    struct amph_fwd_args_pread a = { .file = &c->file,
                                     .off = c->pos,
                                     .buf = c->ahead.data,
                                     .buf_cap = len,
                                     .buf_len = &c->ahead.len };

    c->ahead.off = c->pos;
    c->ahead.asked_ns = amph_now_ns();
    c->ahead.known = amph_fwd_version_take(&v->line[c->ahead.line].data, &c->ahead.version);

    if (amph_client_call(c->cl, AMPH_FWD_PREAD, &a) == 0)
        return true;

    c->ahead.len = 0;
    return false;
}

/* Copies what the block has of the next bytes; returns how many. */
static size_t copy(struct coalescer *c, const struct amph_client_data *d)
{
    size_t at = (size_t)(c->pos - c->ahead.off);
    size_t left = at < c->ahead.len ? c->ahead.len - at : 0;
    size_t n = left < d->len ? left : d->len;

    memcpy(d->data, c->ahead.data + at, n);
    return n;
}

static bool holds(const struct coalescer *c, size_t len)
{
    return c->ahead.len > 0 && c->pos >= c->ahead.off &&
           (size_t)(c->pos - c->ahead.off) <= c->ahead.len &&
           len <= c->ahead.len - (size_t)(c->pos - c->ahead.off);
}

bool amph_client_ahead_serve(struct coalescer *c, const struct amph_client_data *d)
{
    const struct amph_fwd_versions *v = amph_client_versions(c->cl);
    bool held = holds(c, d->len) && !amph_client_versions_expired(c->ahead.asked_ns);
    size_t n = held ? copy(c, d) : 0;
    bool current = is_current(c, v);

    if (!held || !current) {
        if (!choose_size(c, c->ahead.len > 0 && !current) || !fetch(c, v, d->len))
            return false;

        n = copy(c, d);
    }

    c->pos += (off_t)n;
    *d->done_p = n;
    return true;
}
