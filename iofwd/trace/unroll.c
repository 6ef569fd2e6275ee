/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ring, stream and tail as one row of slots; see unroll.h.
 *
 * Layer: iofwd (trace).  Thread rule: see unroll.h.
 */
#include "iofwd/trace/unroll.h"

#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/format.h"
#include "iofwd/trace/stream.h"

enum {
    RING_BYTES = AMPH_TRACE_RING * AMPH_TRACE_SLOT,
    STREAM = AMPH_TRACE_HEADER + RING_BYTES
};

struct row {
    union amph_trace_slot *slots; /* behind as many as the header needs */
    size_t n, room;
    uint64_t missing; /* slots that the file says it has, at most */
};

enum {
    HEADER_SLOTS = AMPH_TRACE_HEADER / AMPH_TRACE_SLOT
};

static bool reserve(struct row *row, size_t more)
{
    if (row->n + more <= row->room)
        return true;

    size_t room = (row->n + more) * 2;
    union amph_trace_slot *longer = realloc(row->slots, room * sizeof *longer);

    if (!longer)
        return false;

    row->slots = longer;
    row->room = room;
    return true;
}

static bool decode(const uint8_t *bytes, const struct amph_trace_block *block, unsigned version,
                   union amph_trace_slot *slots)
{
    return version == AMPH_TRACE_OLDEST
               ? amph_trace_decode_former(bytes, block->bytes, slots, block->slots)
               : amph_trace_decode(bytes, block->bytes, version, slots, block->slots);
}

/* The blocks up to the last slot that the writer has taken out of the ring. */
static bool take_stream(struct row *row, const char *bytes, size_t len,
                        const struct amph_trace_header *header)
{
    struct amph_trace_block block;
    uint64_t laps = 0;

    for (size_t at = STREAM; at <= len && len - at >= sizeof block;) {
        memcpy(&block, bytes + at, sizeof block);
        at += sizeof block;
        if (block.first >= header->flushed || block.first % AMPH_TRACE_RING ||
            block.slots > AMPH_TRACE_RING || block.bytes > len - at)
            break;

        if (!reserve(row, block.slots))
            return false;

        if (decode((const uint8_t *)bytes + at, &block, header->version, row->slots + row->n))
            row->n += block.slots;
        else
            row->missing += block.slots;

        at += block.bytes;
        laps++;
    }

    if (laps < header->flushed / AMPH_TRACE_RING)
        row->missing += (header->flushed / AMPH_TRACE_RING - laps) * AMPH_TRACE_RING;

    return true;
}

static bool take_ring(struct row *row, const char *bytes, size_t len, uint64_t flushed)
{
    uint32_t lap = flushed / AMPH_TRACE_RING % 2 ? AMPH_TRACE_LAP : 0;

    if (!reserve(row, AMPH_TRACE_RING))
        return false;

    if (len < STREAM)
        row->missing += (STREAM - len) / AMPH_TRACE_SLOT;

    for (size_t at = AMPH_TRACE_HEADER; at < STREAM && len - at >= AMPH_TRACE_SLOT;
         at += AMPH_TRACE_SLOT) {
        union amph_trace_slot *slot = &row->slots[row->n];

        memcpy(slot, bytes + at, sizeof *slot);
        if (!(slot->commit >> 24) || (slot->commit & AMPH_TRACE_LAP) != lap)
            continue;

        slot->commit &= ~(uint32_t)AMPH_TRACE_LAP;
        row->n++;
    }

    return true;
}

static bool take_tail(struct row *row, const char *bytes, size_t len,
                      const struct amph_trace_header *header)
{
    if (!header->tail)
        return true;

    size_t n = header->tail < len ? (len - header->tail) / AMPH_TRACE_SLOT : 0;

    if (n < header->tail_slots)
        row->missing += header->tail_slots - n;
    else
        n = header->tail_slots;

    if (!reserve(row, n))
        return false;

    memcpy(row->slots + row->n, bytes + header->tail, n * AMPH_TRACE_SLOT);
    row->n += n;
    return true;
}

bool amph_trace_unroll(const void *bytes, size_t len, void **plain_p, size_t *plain_len_p)
{
    struct row row = { 0 };
    struct amph_trace_header header;

    memcpy(&header, bytes, sizeof header);

    bool ok = reserve(&row, HEADER_SLOTS);

    row.n = HEADER_SLOTS;
    ok = ok && take_stream(&row, bytes, len, &header) &&
         take_ring(&row, bytes, len, header.flushed) && take_tail(&row, bytes, len, &header);
    if (!ok) {
        free(row.slots);
        return false;
    }

    header.ring_slots = 0;
    header.flushed = row.n - HEADER_SLOTS + row.missing;
    memset(row.slots, 0, AMPH_TRACE_HEADER);
    memcpy(row.slots, &header, sizeof header);
    *plain_p = row.slots;
    *plain_len_p = row.n * sizeof *row.slots;
    return true;
}
