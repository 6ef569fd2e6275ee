/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage of a collective inside a neighbourhood, through shared memory.  Layer: extended.
 * Thread rule: the team is locked.
 *
 * A block is processed in pieces; piece i takes one cell of each member's ring, the same cell
 * number at all members.  A member posts its piece (writes its cell, then the cell's number), reads
 * what others have posted, and acknowledges the number.  Into its cell it copies only what others
 * read; its own data it takes from the source.  Large reductions are split: when all have posted,
 * member j folds the j-th part of the piece and leaves the result in that part of its own cell,
 * where the others (or the root) then read it; nobody else reads that part before.
 *
 * Operands are folded from the last member to the first, which preserves the order.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "extended/coll/coll.h"

/* Reductions of at least this many bytes, summed over all members, are split. */
#define SPLIT_MIN_BYTES ((size_t)16 << 10)
/* If a cell has less than this for each member, blocks that need several cells go by messages. */
#define PART_MIN_BYTES ((size_t)4 << 10)

struct amph_local_mode {
    bool root_posts; /* only the root provides data */
    bool root_reads; /* only the root receives data */
    bool folds;
    bool each; /* a cell has a part for each member: the same piece of different blocks */
    void (*write)(const struct amph_coll_op *op, uint32_t piece, uint8_t *cell);
    void (*read)(struct amph_coll_op *op, uint32_t piece);
};

static uint64_t cell_number(const struct amph_local *l, uint32_t piece)
{
    return l->first + piece;
}

static struct amph_share_cell *cell(const struct amph_coll *c, uint32_t member, uint32_t piece)
{
    return amph_share_cell(&c->slot, member, cell_number(&c->l, piece), c->l.size);
}

static size_t piece_len(const struct amph_local *l, uint32_t piece)
{
    size_t at = (size_t)piece * l->piece;
    return l->len - at < l->piece ? l->len - at : l->piece;
}

static const uint8_t *piece_src(const struct amph_local *l, uint32_t piece)
{
    return l->src + (size_t)piece * l->piece;
}

static uint8_t *piece_dst(const struct amph_local *l, uint32_t piece)
{
    return l->dst + (size_t)piece * l->piece;
}

/* Where part j of len bytes begins. */
static size_t part(const struct amph_coll_op *op, uint32_t j, size_t len)
{
    size_t elems = len / op->fold.elem_bytes;
    return elems * j / op->coll->nlocal * op->fold.elem_bytes;
}

/* Where a cell of member `from` has the part for member `to`. */
static size_t part_for(uint32_t from, uint32_t to, size_t len)
{
    return (to < from ? to : to - 1) * len;
}

/* ---- writing a piece into the own cell, by mode ----
 *
 * A block that this member sends to itself is copied here, too: others need their time to post. */

static void write_block(const struct amph_coll_op *op, uint32_t piece, uint8_t *own)
{
    const struct amph_local *l = &op->coll->l;

    if (l->len)
        memcpy(own, piece_src(l, piece), piece_len(l, piece));
}

static void keep_block(const struct amph_coll_op *op, uint32_t piece)
{
    const struct amph_local *l = &op->coll->l;

    amph_coll_copy(piece_dst(l, piece) + op->coll->self * l->stride, piece_src(l, piece),
                   piece_len(l, piece));
}

static void write_and_keep(const struct amph_coll_op *op, uint32_t piece, uint8_t *own)
{
    write_block(op, piece, own);
    keep_block(op, piece);
}

static void write_or_keep(const struct amph_coll_op *op, uint32_t piece, uint8_t *own)
{
    if (op->coll->self == op->coll->l.root)
        keep_block(op, piece);
    else
        write_block(op, piece, own);
}

/* The parts that other members fold. */
static void write_operand(const struct amph_coll_op *op, uint32_t piece, uint8_t *own)
{
    const struct amph_local *l = &op->coll->l;

    if (!l->split) {
        write_block(op, piece, own);
        return;
    }

    size_t len = piece_len(l, piece);
    size_t from = part(op, op->coll->self, len);
    size_t to = part(op, op->coll->self + 1, len);

    memcpy(own, piece_src(l, piece), from);
    memcpy(own + to, piece_src(l, piece) + to, len - to);
}

/* The same piece of the blocks of all other members. */
static void write_blocks(const struct amph_coll_op *op, uint32_t piece, uint8_t *own)
{
    const struct amph_coll *c = op->coll;
    const struct amph_local *l = &c->l;
    const size_t len = piece_len(l, piece);
    const uint8_t *src = piece_src(l, piece);
    uint8_t *kept = piece_dst(l, piece) + (l->mode->root_posts ? 0 : c->self * l->stride);

    for (uint32_t j = 0; j < c->nlocal; j++)
        if (j != c->self)
            memcpy(own + part_for(c->self, j, len), src + j * l->stride, len);

    amph_coll_copy(kept, src + c->self * l->stride, len);
}

/* ---- reading, by mode ---- */

static void read_root(struct amph_coll_op *op, uint32_t piece)
{
    struct amph_local *l = &op->coll->l;

    if (l->len)
        memcpy(piece_dst(l, piece), cell(op->coll, l->root, piece)->data, piece_len(l, piece));
}

/* The root of a reduction to it alone folds its part in place, as far as it can. */
static bool folds_into_dst(const struct amph_coll_op *op)
{
    const struct amph_local *l = &op->coll->l;

    return l->mode->root_reads && op->coll->self == l->root && l->dst != l->src;
}

static void read_parts(struct amph_coll_op *op, uint32_t piece)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;
    size_t len = piece_len(l, piece);

    for (uint32_t j = 0; j < c->nlocal; j++) {
        size_t from = part(op, j, len);
        size_t to = part(op, j + 1, len);

        if (j != c->self || !folds_into_dst(op))
            memcpy(piece_dst(l, piece) + from, cell(c, j, piece)->data + from, to - from);
    }
}

/* Folds bytes from..to of the operands of members 0..last into out.  own: this member's operand. */
static void fold_operands(struct amph_coll_op *op, uint32_t piece, uint32_t last, size_t from,
                          size_t to, const uint8_t *own, uint8_t *out)
{
    struct amph_coll *c = op->coll;

    for (uint32_t j = last + 1; j-- > 0;) {
        const uint8_t *operand = j == c->self ? own : cell(c, j, piece)->data;

        if (j == last)
            memcpy(out, operand + from, to - from);
        else
            amph_fold(&op->fold, operand + from, out, to - from);
    }
}

/* Folds whole pieces.  The own operand is read in the cell, because dst may be src. */
static void fold_cells(struct amph_coll_op *op, uint32_t piece, uint32_t last)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;

    if (l->len)
        fold_operands(op, piece, last, 0, piece_len(l, piece), cell(c, c->self, piece)->data,
                      piece_dst(l, piece));
}

static void read_folded(struct amph_coll_op *op, uint32_t piece)
{
    if (op->coll->l.split)
        read_parts(op, piece);
    else
        fold_cells(op, piece, op->coll->nlocal - 1);
}

static void read_scan(struct amph_coll_op *op, uint32_t piece)
{
    fold_cells(op, piece, op->coll->self);
}

static void read_each(struct amph_coll_op *op, uint32_t piece)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;

    for (uint32_t j = 0; j < c->nlocal; j++)
        if (j != c->self)
            memcpy(piece_dst(l, piece) + j * l->stride, cell(c, j, piece)->data,
                   piece_len(l, piece));
}

static void read_own_block(struct amph_coll_op *op, uint32_t piece)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;
    const size_t len = piece_len(l, piece);

    memcpy(piece_dst(l, piece), cell(c, l->root, piece)->data + part_for(l->root, c->self, len),
           len);
}

static void read_blocks(struct amph_coll_op *op, uint32_t piece)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;
    const size_t len = piece_len(l, piece);

    for (uint32_t j = 0; j < c->nlocal; j++)
        if (j != c->self)
            memcpy(piece_dst(l, piece) + j * l->stride,
                   cell(c, j, piece)->data + part_for(j, c->self, len), len);
}

/* clang-format off */
static const struct amph_local_mode modes[AMPH_LOCAL_KINDS] = {
    /*                          root posts, root reads, folds, a part for each, written, read */
    [AMPH_LOCAL_BROADCAST] = { true, false, false, false, write_block, read_root },
    [AMPH_LOCAL_REDUCE] = { false, true, true, false, write_operand, read_folded },
    [AMPH_LOCAL_REDUCE_ALL] = { false, false, true, false, write_operand, read_folded },
    [AMPH_LOCAL_SCAN] = { false, false, true, false, write_block, read_scan },
    [AMPH_LOCAL_SCATTER] = { true, false, false, true, write_blocks, read_own_block },
    [AMPH_LOCAL_GATHER] = { false, true, false, false, write_or_keep, read_each },
    [AMPH_LOCAL_GATHER_ALL] = { false, false, false, false, write_and_keep, read_each },
    [AMPH_LOCAL_EXCHANGE] = { false, false, false, true, write_blocks, read_blocks },
};
/* clang-format on */

/* ---- others ---- */

/* Is the cell posted (or folded, see field) at all members? */
static bool all_have(const struct amph_coll *c, uint32_t piece, size_t field)
{
    const uint64_t number = cell_number(&c->l, piece);

    for (uint32_t j = 0; j < c->nlocal; j++) {
        const char *at = (const char *)cell(c, j, piece) + field;
        if (__atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_ACQUIRE) != number)
            return false;
    }

    return true;
}
#define POSTED offsetof(struct amph_share_cell, posted)
#define FOLDED offsetof(struct amph_share_cell, folded)

static void wake_all(struct amph_coll *c)
{
    for (uint32_t j = 0; j < c->nlocal; j++)
        amph_coll_wake(c, j);
}

static bool sleeps(const struct amph_coll *c, uint32_t member)
{
    return member != c->self &&
           amph_coll_share_sleeps(&amph_colls()->share, c->nbrhd_index[member]);
}

/* Wakes the members that may sleep for what has been written.  Of several writers the last one
 * wakes: with this fence at least one sees all. */
static void written(struct amph_coll *c, uint32_t piece, size_t field)
{
    const struct amph_local *l = &c->l;
    const bool to_root = l->mode->root_reads && (field == FOLDED || !l->split);

    if (AMPH_LIKELY(!amph_coll_share_anyone_sleeps(&amph_colls()->share)) ||
        (to_root && !sleeps(c, l->root)))
        return;

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!l->mode->root_posts && !all_have(c, piece, field))
        return;

    if (to_root)
        amph_coll_wake(c, l->root);
    else
        wake_all(c);
}

/* Returns the number of the last cell that no member will read again. */
static uint64_t min_done(const struct amph_coll *c)
{
    uint64_t min = UINT64_MAX;

    for (uint32_t j = 0; j < c->nlocal; j++) {
        uint64_t done = __atomic_load_n(&c->slot.done[j].done, __ATOMIC_ACQUIRE);

        min = done < min ? done : min;
    }

    return min;
}

/* May cell `number` be written?  All members must have acknowledged the cell's previous number.  A
 * member that finds no room waits until half of its ring is free, so that it does not run for one
 * cell at a time.  Readers look for it when their numbers are multiples of AMPH_SHARE_WAKES. */
static bool has_room(struct amph_coll *c, uint64_t number)
{
    const uint64_t ring = amph_share_rings[c->l.size].cells;
    uint64_t *wanted = &c->slot.done[c->self].wanted;

    if (number <= c->min_done + ring && !*wanted)
        return true;

    c->min_done = min_done(c);
    if (!*wanted && number > c->min_done + ring) {
        __atomic_store_n(wanted, amph_align_up(number - ring / 2, AMPH_SHARE_WAKES),
                         __ATOMIC_RELAXED);
    }

    if (c->min_done < *wanted)
        return false;

    __atomic_store_n(wanted, 0, __ATOMIC_RELAXED);
    return number <= c->min_done + ring;
}

/* Wakes the members that wait for this member's number. */
static void wake_writers(struct amph_coll *c, uint64_t number)
{
    for (uint32_t j = 0; j < c->nlocal; j++) {
        uint64_t wanted = __atomic_load_n(&c->slot.done[j].wanted, __ATOMIC_RELAXED);

        if (wanted && wanted <= number)
            amph_coll_wake(c, j);
    }
}

static void done_with(struct amph_coll *c, uint64_t number)
{
    __atomic_store_n(&c->slot.done[c->self].done, number, __ATOMIC_RELEASE);
    if (number % AMPH_SHARE_WAKES == 0 && amph_coll_share_anyone_sleeps(&amph_colls()->share))
        wake_writers(c, number);
}

/* ---- which member is awaited ---- */

/* Returns the last cell that a member waits for all others to be done with; 0: none waits. */
static uint64_t max_wanted(const struct amph_coll *c)
{
    uint64_t max = 0;

    for (uint32_t j = 0; j < c->nlocal; j++) {
        uint64_t wanted = __atomic_load_n(&c->slot.done[j].wanted, __ATOMIC_RELAXED);

        max = wanted > max ? wanted : max;
    }

    return max;
}

bool amph_coll_local_awaits(const struct amph_coll_op *op, uint32_t member)
{
    const struct amph_coll *c = op->coll;
    const struct amph_local *l = &c->l;
    const struct amph_share_done *at = &c->slot.done[member];
    const bool waits_for_room = l->read == l->posted;
    const bool posts = !l->mode->root_posts || member == l->root;

    if (l->pieces > 1 || l->split)
        return true;

    if (!waits_for_room) {
        uint64_t posted = __atomic_load_n(&at->posted, __ATOMIC_RELAXED);

        if (posted < (posts ? cell_number(l, l->read) : c->slot.done[c->self].posted))
            return true;
    }

    return __atomic_load_n(&at->done, __ATOMIC_RELAXED) < max_wanted(c);
}

/* ---- steps ---- */

static bool posts(const struct amph_coll *c)
{
    return !c->l.mode->root_posts || c->self == c->l.root;
}

static bool reads(const struct amph_coll *c)
{
    const bool root = c->self == c->l.root;

    return c->l.mode->root_reads ? root : !(c->l.mode->root_posts && root);
}

static bool post(const struct amph_coll_op *op)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;
    uint64_t number = cell_number(l, l->posted);

    if (l->posted == l->pieces || !has_room(c, number))
        return false;

    if (posts(c)) {
        struct amph_share_cell *own = cell(c, c->self, l->posted);

        l->mode->write(op, l->posted, own->data);
        __atomic_store_n(&own->posted, number, __ATOMIC_RELEASE);
        __atomic_store_n(&c->slot.done[c->self].posted, number, __ATOMIC_RELAXED);
        amph_coll_note_post();
        written(c, l->posted, POSTED);
    }

    l->posted++;
    return true;
}

static bool fold(struct amph_coll_op *op)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;

    if (l->folded == l->posted || !all_have(c, l->folded, POSTED))
        return false;

    struct amph_share_cell *own = cell(c, c->self, l->folded);
    size_t len = piece_len(l, l->folded);
    size_t from = part(op, c->self, len);
    size_t to = part(op, c->self + 1, len);

    uint8_t *out = folds_into_dst(op) ? piece_dst(l, l->folded) : own->data;

    if (to > from)
        fold_operands(op, l->folded, c->nlocal - 1, from, to, piece_src(l, l->folded), out + from);

    __atomic_store_n(&own->folded, cell_number(l, l->folded), __ATOMIC_RELEASE);
    written(c, l->folded, FOLDED);
    l->folded++;

    return true;
}

static bool can_read(const struct amph_coll *c)
{
    const struct amph_local *l = &c->l;

    if (l->read == l->posted || (l->split && l->read == l->folded))
        return false;
    if (!reads(c))
        return true;

    if (l->mode->root_posts)
        return __atomic_load_n(&cell(c, l->root, l->read)->posted, __ATOMIC_ACQUIRE) ==
               cell_number(l, l->read);

    return all_have(c, l->read, l->split ? FOLDED : POSTED);
}

static bool read_one(struct amph_coll_op *op)
{
    struct amph_coll *c = op->coll;
    struct amph_local *l = &c->l;

    if (!can_read(c))
        return false;

    if (reads(c))
        l->mode->read(op, l->read);

    done_with(c, cell_number(l, l->read));
    l->read++;
    return true;
}

bool amph_coll_local_step(struct amph_coll_op *op)
{
    struct amph_local *l = &op->coll->l;
    bool moved;

    do {
        moved = post(op);
        if (l->split)
            moved |= fold(op);

        moved |= read_one(op);
    } while (moved && l->read < l->pieces);

    return l->read == l->pieces;
}

size_t amph_coll_local_max_block(const struct amph_coll *c, bool all_post)
{
    const size_t part = c->part_bytes;
    const bool one_cell = part < PART_MIN_BYTES || (all_post && amph_gex()->oversubscribed);
    const size_t cells = all_post ? AMPH_SHARE_RING / 2 : AMPH_SHARE_RING;

    return one_cell ? part : cells * (part - part % AMPH_CACHE_LINE);
}

/* The bytes of a block that a piece has at most. */
static size_t piece_bytes(const struct amph_coll_op *op, const struct amph_local_mode *mode,
                          size_t len)
{
    const size_t max = mode->each ? op->coll->part_bytes : AMPH_SHARE_CELL_BYTES;
    const size_t unit = mode->folds && op->fold.elem_bytes ? op->fold.elem_bytes : AMPH_CACHE_LINE;

    return len <= max ? max : max - max % unit;
}

void amph_coll_local_begin(struct amph_coll_op *op, enum amph_local_kind kind, uint32_t root,
                           const void *src, void *dst, size_t len, size_t stride)
{
    struct amph_coll *c = op->coll;
    const struct amph_local_mode *mode = &modes[kind];
    const size_t parts = mode->each ? c->nlocal - 1 : 1;
    const size_t piece = piece_bytes(op, mode, len);

    c->l = (struct amph_local){
        .mode = mode,
        .src = src,
        .dst = dst,
        .root = root,
        .len = len,
        .stride = stride,
        .first = c->cell,
        .piece = (uint32_t)piece,
        .pieces = len > piece ? (uint32_t)((len + piece - 1) / piece) : 1,
        .size = amph_share_size(len * parts),
        .split = mode->folds && mode->read == read_folded && len * c->nlocal >= SPLIT_MIN_BYTES,
    };
    c->cell += c->l.pieces;
}
