/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of iofwd/wire/ranges.c: random locks and unlocks beside an array with one entry a byte,
 * and the cost of many ranges. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "iofwd/wire/ranges.h"

enum {
    KINDS = 3,
    BYTES = 64,
    STEPS = 20000,
    MANY = 40000
};

/* The type that each byte of each kind is locked with. */
struct model {
    short type[KINDS][BYTES];
};

static void set_model(struct model *m, const struct amph_fwd_range *r)
{
    for (int64_t i = r->from; i < r->to && i < BYTES; i++)
        m->type[r->kind][i] = r->type;
}

static bool model_holds(const struct model *m, const struct amph_fwd_range *r)
{
    for (int64_t i = r->from; i < r->to && i < BYTES; i++)
        if (m->type[r->kind][i] == r->type)
            return true;

    return false;
}

/* The set has the model's bytes, in order, and as few ranges as possible. */
static void compare(const struct amph_fwd_ranges *set, const struct model *m)
{
    struct model got;

    memset(&got, 0, sizeof got);
    for (short kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < BYTES; i++)
            got.type[kind][i] = F_UNLCK;

    for (uint32_t i = 0; i < set->n; i++) {
        const struct amph_fwd_range *now = &set->item[i];
        const struct amph_fwd_range *last = i ? now - 1 : NULL;

        cr_assert_lt(now->from, now->to);
        cr_assert_neq(now->type, F_UNLCK);
        if (last && last->kind == now->kind) {
            cr_assert_leq(last->to, now->from, "ranges overlap or are not sorted");
            cr_assert(last->to < now->from || last->type != now->type, "ranges are not merged");
        } else if (last) {
            cr_assert_lt(last->kind, now->kind);
        }

        set_model(&got, now);
    }

    cr_assert_eq(memcmp(&got, m, sizeof got), 0);
}

static struct amph_fwd_range any_range(void)
{
    static const short types[] = { F_RDLCK, F_WRLCK, F_UNLCK };
    int64_t from = rand() % BYTES;
    int64_t to = rand() % 8 ? from + 1 + rand() % 12 : FWD_RANGE_END;

    return (struct amph_fwd_range){
        .from = from, .to = to, .type = types[rand() % 3], .kind = (short)(rand() % KINDS)
    };
}

Test(ranges, random_locks)
{
    struct amph_fwd_ranges set = { .n = 0 };
    struct model m;

    for (short kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < BYTES; i++)
            m.type[kind][i] = F_UNLCK;

    const char *text = getenv("TEST_SEED");
    unsigned seed = text ? (unsigned)strtoul(text, NULL, 0) : (unsigned)time(NULL);

    printf("# TEST_SEED=%u\n", seed);
    srand(seed);
    for (int step = 0; step < STEPS; step++) {
        struct amph_fwd_range r = any_range();

        cr_assert(amph_fwd_ranges_set(&set, r));
        set_model(&m, &r);
        compare(&set, &m);

        r = any_range();
        if (r.type != F_UNLCK && r.to <= BYTES)
            cr_assert_eq(amph_fwd_ranges_holds(&set, &r), model_holds(&m, &r));
    }

    free(set.item);
}

/* Each of these took a new array and a copy of all ranges once: 40,000 took minutes. */
Test(ranges, many, .timeout = 20)
{
    struct amph_fwd_ranges set = { .n = 0 };

    for (int64_t i = 0; i < MANY; i++)
        cr_assert(amph_fwd_ranges_set(
            &set, (struct amph_fwd_range){ .from = 2 * i, .to = 2 * i + 1, .type = F_WRLCK }));

    cr_assert_eq(set.n, MANY);
    cr_assert_leq(set.cap, 2 * MANY + 2);

    for (int64_t i = MANY; i-- > 0;)
        cr_assert(amph_fwd_ranges_set(
            &set, (struct amph_fwd_range){ .from = 2 * i, .to = 2 * i + 1, .type = F_UNLCK }));

    cr_assert_eq(set.n, 0);
    free(set.item);
}
