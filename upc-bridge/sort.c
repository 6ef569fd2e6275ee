/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upc_all_sort.  UPC RL 7.4.3.3.
 *
 * Sample sort: each thread sorts a copy of its elements.  Samples of all copies give the splitters
 * between the threads' shares.  Each thread fetches its share of every sorted copy, sorts it, and
 * writes it to its position in the array.  The copies are in shared memory, because the program's
 * comparison function takes pointers to shared.
 *
 * Layer: upc-bridge.  Thread rule: one thread; collective.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "upc-bridge/upc.h"

struct sorting {
    struct upc_wide array; /* thread of the block that the array begins in */
    uint64_t before;       /* elements of that block before the array */
    uint64_t size, nelems, block;
    void (*func)(void);
    int form;
};

static struct upc_wide own(uint64_t addr)
{
    return (struct upc_wide){ addr, (uint32_t)upc_self.mythread, 0 };
}

static int compare(const struct sorting *s, uint64_t a, uint64_t b)
{
    if (s->form == 1)
        return ((int (*)(struct upc_packed, struct upc_packed))s->func)(upc_packed_of_wide(own(a)),
                                                                        upc_packed_of_wide(own(b)));

    return ((int (*)(struct upc_wide, struct upc_wide))s->func)(own(a), own(b));
}

/* Sorts n elements at offset addr by a bottom-up merge sort; other: memory for n elements.  Returns
 * the offset of the sorted elements, which is addr or other. */
static uint64_t sort_own(const struct sorting *s, uint64_t addr, uint64_t other, uint64_t n)
{
    for (uint64_t width = 1; width < n; width *= 2) {
        for (uint64_t begin = 0; begin < n; begin += 2 * width) {
            uint64_t mid = begin + width < n ? begin + width : n;
            uint64_t end = begin + 2 * width < n ? begin + 2 * width : n;
            uint64_t a = begin;
            uint64_t b = mid;

            for (uint64_t to = begin; to < end; to++) {
                bool left = b == end ||
                            (a < mid && compare(s, addr + a * s->size, addr + b * s->size) <= 0);
                uint64_t from = left ? a++ : b++;

                memcpy(amph_upc_mine(other + to * s->size), amph_upc_mine(addr + from * s->size),
                       s->size);
            }
        }

        uint64_t swap = addr;

        addr = other;
        other = swap;
    }

    return addr;
}

/* Calls step for each contiguous run of the elements first..first+n of the array, with the address
 * of the run and the number of elements before it. */
static void each_run(const struct sorting *s, uint64_t first, uint64_t n,
                     void (*step)(struct upc_wide, uint64_t, uint64_t, uint64_t), uint64_t arg)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t row;
    uint64_t done = 0;

    while (done < n) {
        uint64_t i = s->before + first + done;
        uint64_t b = i / s->block;
        uint64_t run = s->block - i % s->block;
        struct upc_wide p = s->array;

        if (run > n - done)
            run = n - done;

        row = (s->array.thread + b) / threads;
        p.thread = (uint32_t)((s->array.thread + b) % threads);
        p.addr += (row * s->block + i % s->block) * s->size;
        step(p, run * s->size, done * s->size, arg);
        done += run;
    }
}

static void fetch(struct upc_wide p, uint64_t nbytes, uint64_t before, uint64_t to)
{
    amphora_upc_memget_nbi(amph_upc_mine(to + before), p, nbytes);
}

static void write_back(struct upc_wide p, uint64_t nbytes, uint64_t before, uint64_t from)
{
    amphora_upc_memput_nbi(p, amph_upc_mine(from + before), nbytes);
}

/* What the threads publish, in shared memory at the same offset in all threads. */
struct board {
    uint64_t addr;    /* offset of the sorted copy */
    uint64_t n;       /* number of its elements */
    uint64_t begin[]; /* [threads + 1] index in it at which the share of each thread begins */
};

/* Takes samples of every thread's sorted copy at equal distances, sorts them, and stores threads -
 * 1 splitters at offset `borders` in every thread. */
static void find_borders(const struct sorting *s, uint64_t samples, uint64_t borders, uint64_t room,
                         uint64_t sorted, uint64_t n)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t total = threads * threads;
    uint64_t at;
    uint64_t dst = (uint64_t)upc_self.mythread * threads * s->size;
    struct upc_wide any = { s->array.addr + s->before * s->size, s->array.thread, 0 };

    for (uint64_t i = 0; i < threads;
         i++) /* a thread without samples repeats an element of the array */
        if (n)
            amphora_upc_memput_nbi((struct upc_wide){ samples + dst + i * s->size, 0, 0 },
                                   amph_upc_mine(sorted + i * n / threads * s->size), s->size);
        else
            amphora_upc_memcpy((struct upc_wide){ samples + dst + i * s->size, 0, 0 }, any,
                               s->size);

    upc_synci();
    amph_upc_sync();

    if (upc_self.mythread == 0) {
        at = sort_own(s, samples, room, total);
        for (uint64_t i = 1; i < threads; i++)
            memcpy(amph_upc_mine(borders + (i - 1) * s->size),
                   amph_upc_mine(at + i * threads * s->size), s->size);
    }

    if (threads > 1)
        amph_upc_broadcast(0, amph_upc_mine(borders), (threads - 1) * s->size);
}

/* Returns the index of the first of n sorted elements that is above the splitter. */
static uint64_t first_above(const struct sorting *s, uint64_t sorted, uint64_t n, uint64_t border)
{
    uint64_t low = 0;
    uint64_t high = n;

    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (compare(s, sorted + mid * s->size, border) <= 0)
            low = mid + 1;
        else
            high = mid;
    }

    return low;
}

/* Fetches the own share of each thread's copy, sorts it and writes it to its place. */
static void take_share(const struct sorting *s, uint64_t board_addr, uint64_t board_bytes)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t me = (uint64_t)upc_self.mythread;
    uint64_t before = 0;
    uint64_t share = 0;
    uint64_t done = 0;
    uint64_t a, b;
    struct board *boards = malloc(threads * board_bytes);
    struct board *t_board;

    if (!boards)
        amph_upc_fail("upc_all_sort: no memory");

    for (uint64_t t = 0; t < threads; t++)
        amphora_upc_memget_nbi((char *)boards + t * board_bytes,
                               (struct upc_wide){ board_addr, (uint32_t)t, 0 }, board_bytes);

    upc_synci();
    for (uint64_t t = 0; t < threads; t++) {
        t_board = (struct board *)((char *)boards + t * board_bytes);
        before += t_board->begin[me];
        share += t_board->begin[me + 1] - t_board->begin[me];
    }

    a = amph_upc_scratch(share * s->size, "upc_all_sort");
    b = amph_upc_scratch(share * s->size, "upc_all_sort");

    for (uint64_t t = 0; t < threads; t++) {
        t_board = (struct board *)((char *)boards + t * board_bytes);

        uint64_t n = t_board->begin[me + 1] - t_board->begin[me];

        amphora_upc_memget_nbi(
            amph_upc_mine(a + done * s->size),
            (struct upc_wide){ t_board->addr + t_board->begin[me] * s->size, (uint32_t)t, 0 },
            n * s->size);
        done += n;
    }

    upc_synci();
    amph_upc_sync();
    each_run(s, before, share, write_back, sort_own(s, a, b, share));
    upc_synci();
    amph_upc_scratch_free(a);
    amph_upc_scratch_free(b);
    free(boards);
}

/* Sorts the array.  Each thread first sorts an equal share of it, wherever the elements are. */
static void sort_all(const struct sorting *s)
{
    uint64_t threads = (uint64_t)upc_self.threads;
    uint64_t me = (uint64_t)upc_self.mythread;
    uint64_t first = s->nelems * me / threads;
    uint64_t n = s->nelems * (me + 1) / threads - first;
    uint64_t a = amph_upc_scratch(n * s->size, "upc_all_sort");
    uint64_t b = amph_upc_scratch(n * s->size, "upc_all_sort");
    uint64_t sorted;
    uint64_t board_bytes = sizeof(struct board) + (threads + 1) * sizeof(uint64_t);
    uint64_t samples_bytes = threads * threads * s->size;
    struct upc_wide common = amphora_upc_all_alloc(
        (size_t)threads, board_bytes + 2 * samples_bytes + threads * s->size + 64);
    uint64_t samples = common.addr + board_bytes;
    uint64_t borders = samples + 2 * samples_bytes;
    struct board *board = amph_upc_mine(common.addr);

    if (!common.addr)
        amph_upc_fail(
            "upc_all_sort: no shared memory for samples; AMPHORA_UPC_HEAP makes more of it");

    samples += (64 - samples % 64) % 64;
    borders = samples + 2 * samples_bytes;
    each_run(s, first, n, fetch, a);
    upc_synci();
    sorted = sort_own(s, a, b, n);
    find_borders(s, samples, borders, samples + samples_bytes, sorted, n);
    board->addr = sorted;
    board->n = n;

    board->begin[0] = 0;
    board->begin[threads] = n;
    for (uint64_t t = 1; t < threads; t++)
        board->begin[t] = first_above(s, sorted, n, borders + (t - 1) * s->size);

    amph_upc_sync();
    take_share(s, common.addr, board_bytes);
    amph_upc_sync();
    amph_upc_scratch_free(a);
    amph_upc_scratch_free(b);
    amphora_upc_all_free(common);
}

void amphora_upc_all_sort(struct upc_wide A, size_t elem_size, size_t nelems, size_t blk_size,
                          void (*func)(void), int form, upc_flag_t flags)
{
    uint64_t before = amph_upc_block_begin(&A, blk_size, elem_size);
    const struct sorting s = { A,    before, elem_size, nelems, blk_size ? blk_size : nelems,
                               func, form };

    amph_upc_enter(flags & UPC_IN_MYSYNC ? UPC_IN_ALLSYNC : flags, "upc_all_sort");
    if (nelems && elem_size)
        sort_all(&s);

    amph_upc_leave(flags);
}
