/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of equal items, which grow on demand up to a limit.  Layer: conduits (ofi).  If the
 * provider requires registered memory, each slab is one registration.  Thread rule: get by the send
 * side; put by either side at any time; all other calls while neither side is active.
 *
 * Returned items are pushed onto a list from which the send side always takes all items at once.
 * So no lock is needed, and the ABA problem cannot occur.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/platform.h"
#include "conduits/ofi/ofi.h"

struct amph_ofi_slab {
    struct amph_ofi_slab *next;
    struct amph_ofi_reg *reg;
    size_t nitems;
    _Alignas(16) uint8_t items[];
};

void amph_ofi_pool_init(struct amph_ofi_pool *pool, struct amph_ofi_cx *cx, size_t item_bytes,
                        size_t per_slab, size_t limit)
{
    *pool = (struct amph_ofi_pool){ .cx = cx,
                                    .item_bytes = amph_align_up(item_bytes, AMPH_CACHE_LINE),
                                    .per_slab = per_slab,
                                    .limit = limit };
}

static bool grow(struct amph_ofi_pool *pool)
{
    if (pool->made >= pool->limit)
        return false;

    struct amph_ofi_slab *slab = calloc(1, sizeof *slab + pool->per_slab * pool->item_bytes);
    if (!slab) {
        if (!pool->made) /* else items that are in use will be returned */
            amph_ofi_note_no_room(pool->cx);

        return false;
    }

    if (pool->cx->need_reg &&
        amph_ofi_reg_make(pool->cx, slab->items, pool->per_slab * pool->item_bytes,
                          OFI_ACCESS_LOCAL, &slab->reg) != 0) {
        free(slab);
        return false;
    }

    slab->next = pool->slabs;
    slab->nitems = pool->per_slab;
    pool->slabs = slab;

    for (size_t i = 0; i < pool->per_slab; i++) {
        struct amph_ofi_item *item = (struct amph_ofi_item *)(slab->items + i * pool->item_bytes);

        item->next = pool->free;
        item->reg = slab->reg;
        pool->free = item;
    }

    pool->made += pool->per_slab;
    return true;
}

bool amph_ofi_pool_has_item(struct amph_ofi_pool *pool)
{
    if (!pool->free)
        pool->free = __atomic_exchange_n(&pool->returned, NULL, __ATOMIC_ACQUIRE);

    return pool->free || grow(pool);
}

void *amph_ofi_pool_get(struct amph_ofi_pool *pool)
{
    if (!amph_ofi_pool_has_item(pool))
        return NULL;

    struct amph_ofi_item *item = pool->free;

    pool->free = item->next;
    return item;
}

void amph_ofi_pool_put(struct amph_ofi_pool *pool, void *ptr, struct amph_ofi_reg *reg)
{
    struct amph_ofi_item *item = ptr;
    struct amph_ofi_item *head = __atomic_load_n(&pool->returned, __ATOMIC_RELAXED);

    item->reg = reg;
    do {
        item->next = head;
    } while (!__atomic_compare_exchange_n(&pool->returned, &head, item, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

void amph_ofi_pool_each(struct amph_ofi_pool *pool, void (*fn)(void *item, void *arg), void *arg)
{
    for (struct amph_ofi_slab *slab = pool->slabs; slab; slab = slab->next)
        for (size_t i = 0; i < slab->nitems; i++)
            fn(slab->items + i * pool->item_bytes, arg);
}

void amph_ofi_pool_unregister(struct amph_ofi_pool *pool)
{
    for (struct amph_ofi_slab *slab = pool->slabs; slab; slab = slab->next) {
        if (slab->reg)
            amph_ofi_reg_put(pool->cx, slab->reg);

        slab->reg = NULL;
    }
}

void amph_ofi_pool_fini(struct amph_ofi_pool *pool)
{
    while (pool->slabs) {
        struct amph_ofi_slab *slab = pool->slabs;

        pool->slabs = slab->next;
        free(slab);
    }

    amph_ofi_pool_init(pool, pool->cx, pool->item_bytes, pool->per_slab, pool->limit);
}
