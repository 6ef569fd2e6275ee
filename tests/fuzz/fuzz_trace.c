/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of files of recorded calls, plain and compressed: another user's, or damaged.  Run by
 * tests/fuzz/fuzz.sh.  The first byte says whether the rest is given a header that passes its check,
 * and whether that has a ring and a stream.
 */
#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/numbers.h"
#include "iofwd/trace/pack.h"
#include "iofwd/trace/reader.h"
#include "iofwd/trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* What comes out is whole: every number leads somewhere. */
static void look(const struct amph_trace *t)
{
    for (size_t i = 0; i < t->nevents; i++) {
        const struct amph_trace_event *e = &t->events[i];

        if (e->name >= t->nnames || e->process >= t->nprocesses || e->file >= t->nfiles ||
            e->file2 >= t->nfiles || (e->end_ns && e->end_ns < e->start_ns))
            abort();
    }

    for (size_t i = 0; i < t->ntotals; i++)
        if (t->totals[i].name >= t->nnames || t->totals[i].process >= t->nprocesses ||
            t->totals[i].file >= t->nfiles)
            abort();
}

static void read_it(const void *bytes, size_t len)
{
    struct amph_trace t = { 0 };
    char why[256];

    if (amph_trace_add(&t, bytes, len, why, sizeof why)) {
        if (amph_trace_finish(&t))
            look(&t);
    } else if (!why[0])
        abort(); /* a refusal without a sentence */

    amph_trace_free(&t);
}

/* Compressing and back gives the same slots. */
static void there_and_back(const char *plain, size_t len)
{
    char why[256];
    void *packed, *again;
    size_t packed_len, again_len;

    if (!amph_trace_pack(plain, len, &packed, &packed_len, why, sizeof why))
        return;

    if (!amph_trace_unpack(packed, packed_len, &again, &again_len, why, sizeof why))
        abort();

    const char *slot = (const char *)again + AMPH_TRACE_HEADER;
    const char *end = (const char *)again + again_len;

    for (size_t at = AMPH_TRACE_HEADER; at + AMPH_TRACE_SLOT <= len; at += AMPH_TRACE_SLOT) {
        uint32_t word;

        memcpy(&word, plain + at, sizeof word);
        if (!word)
            continue;

        union amph_trace_slot wanted;

        memcpy(&wanted, plain + at, sizeof wanted);
        if (word == AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0))
            memset(wanted.extra.spare, 0, sizeof wanted.extra.spare);
        if (slot + AMPH_TRACE_SLOT > end || memcmp(slot, &wanted, sizeof wanted) != 0)
            abort();

        slot += AMPH_TRACE_SLOT;
    }

    if (slot != end)
        abort();

    free(packed);
    free(again);
}

static uint64_t cut(uint64_t ns)
{
    return amph_trace_span_ns(amph_trace_span_code(ns));
}

/* Is the call written as differences? */
static bool differs(const struct amph_trace_call *c)
{
    return (!c->end_ns || c->end_ns >= c->start_ns) && c->offset > INT64_MIN / 16 &&
           c->offset < INT64_MAX / 16 && c->length < UINT64_MAX / 16;
}

/* What a block keeps of a slot; extra: it is the extra of the call before. */
static void keep(union amph_trace_slot *slot, bool extra)
{
    struct amph_trace_call *c = &slot->call;

    if (slot->commit >> 24 == AMPH_TRACE_CALL && c->end_ns && c->side == AMPH_TRACE_FORWARDED &&
        differs(c))
        c->end_ns = c->start_ns + cut(c->end_ns - c->start_ns);
    if (extra)
        memset(slot->extra.spare, 0, sizeof slot->extra.spare);
}

/* Are the times read the written ones, but for what one number cuts?  Takes them. */
static void take_times(struct amph_trace_extra *x, const struct amph_trace_extra *read,
                       const struct amph_trace_call *call)
{
    uint64_t span_ns = call->end_ns ? call->end_ns - call->start_ns : 0;
    uint64_t error_ns = span_ns / 89 + 2;
    uint64_t server_ns = x->server_ns > read->server_ns ? x->server_ns - read->server_ns
                                                        : read->server_ns - x->server_ns;
    uint64_t queue_ns = x->queue_ns > read->queue_ns ? x->queue_ns - read->queue_ns
                                                     : read->queue_ns - x->queue_ns;

    if ((server_ns > error_ns && server_ns > x->server_ns / 500) ||
        (queue_ns > error_ns && queue_ns > x->queue_ns / 500))
        abort();

    x->server_ns = read->server_ns;
    x->queue_ns = read->queue_ns;
}

/* Does slot b hold the extra of the call in slot a? */
static bool is_extra_of(const union amph_trace_slot *a, const union amph_trace_slot *b)
{
    return a->commit >> 24 == AMPH_TRACE_CALL && !(a->commit & AMPH_TRACE_LAP) &&
           differs(&a->call) &&
           b->commit == AMPH_TRACE_COMMIT(AMPH_TRACE_EXTRA, AMPH_TRACE_DONE, 0) &&
           b->extra.start_ns == a->call.start_ns;
}

/* The slots as a block, and back. */
static void through_stream(const uint8_t *bytes, size_t len)
{
    static union amph_trace_slot slots[AMPH_TRACE_RING], again[AMPH_TRACE_RING];
    static uint8_t block[AMPH_TRACE_RING * AMPH_TRACE_SLOT_MAX];
    size_t n = len / sizeof *slots < AMPH_TRACE_RING ? len / sizeof *slots : AMPH_TRACE_RING;
    uint32_t written = 0;

    memcpy(slots, bytes, n * sizeof *slots);

    size_t size = amph_trace_encode(slots, n, 0, block, &written);

    if (size > n * AMPH_TRACE_SLOT_MAX ||
        !amph_trace_decode(block, size, AMPH_TRACE_VERSION, again, written))
        abort();

    for (size_t i = 0, k = 0; i < n; i++) {
        if (!(slots[i].commit >> 24) || slots[i].commit & AMPH_TRACE_LAP)
            continue;

        bool extra = i > 0 && is_extra_of(&slots[i - 1], &slots[i]);

        keep(&slots[i], extra);
        if (extra)
            take_times(&slots[i].extra, &again[k].extra, &slots[i - 1].call);

        if (memcmp(&slots[i], &again[k++], sizeof *slots) != 0)
            abort();
    }
}

/* A file of clocks, and times by each of its clocks. */
static void read_clocks(const uint8_t *bytes, size_t len)
{
    struct amph_trace_clocks clocks = { 0 };
    char why[256] = "";

    if (!amph_trace_clocks_add(&clocks, (const char *)bytes, len, why, sizeof why) && !why[0])
        abort(); /* a refusal without a sentence */

    for (size_t i = 0; i < clocks.n; i++) {
        struct amph_trace_axis axis = amph_trace_axis_of(&clocks, clocks.all[i].number, 0);

        if (!axis.n || amph_trace_job_time(&axis, clocks.all[i].at_ns) < INT64_MIN / 2)
            abort();
    }

    free(clocks.all);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (!len)
        return 0;

    if (bytes[0] == 255) {
        read_clocks(bytes + 1, len - 1);
        return 0;
    }

    if (bytes[0] & 1) {
        read_it(bytes + 1, len - 1);
        return 0;
    }

    through_stream(bytes + 1, len - 1);

    struct amph_trace_header h = { .order = AMPH_TRACE_ORDER,
                                   .version = AMPH_TRACE_VERSION,
                                   .header_bytes = AMPH_TRACE_HEADER,
                                   .slot_bytes = AMPH_TRACE_SLOT,
                                   .host = "host" };
    size_t whole = AMPH_TRACE_HEADER + len - 1;
    char *file = calloc(1, whole);

    if (bytes[0] & 2) {
        h.ring_slots = AMPH_TRACE_RING;
        h.flushed = (uint64_t)(bytes[0] >> 2) * AMPH_TRACE_RING;
        h.tail = len % 2 ? len / 2 : 0;
        h.tail_slots = UINT64_MAX;
    }

    memcpy(h.magic, AMPH_TRACE_MAGIC, sizeof h.magic);
    memcpy(file, &h, sizeof h);
    memcpy(file + AMPH_TRACE_HEADER, bytes + 1, len - 1);
    read_it(file, whole);
    if (!h.ring_slots)
        there_and_back(file, whole);

    free(file);
    return 0;
}
