/* SPDX-License-Identifier: BSD-3-Clause */
/* Bit-fields of shared structures beside private ones, written while other threads write their neighbours; ?: and _Generic of pointers. */
#include <stdbool.h>
#include <upc_relaxed.h>

#include "check.h"

struct mixed {
    char before;
    unsigned a : 3, b : 13;
    int : 0;
    signed c : 5;
    char between;
    bool flag : 1;
    long long wide : 41;
    unsigned long last : 64;
    struct { unsigned inner : 9; };
    short after;
};
shared struct mixed one, many[3 * THREADS];
strict shared struct mixed exact;
shared int numbers[4 * THREADS];
shared [2] int pairs[2 * THREADS];

static unsigned long random_number(void)
{
    static unsigned long x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

/* All operators, on random values: the shared one does as the private one does. */
#define BOTH(FIELD, OP) CHECK((p->FIELD OP) == (mine.FIELD OP));
#define EACH(FIELD) \
    { \
        unsigned long r = random_number(); \
        BOTH(FIELD, = r) \
        BOTH(FIELD, += 3) \
        BOTH(FIELD, ^= r >> 20) \
        BOTH(FIELD, |= 1) \
        BOTH(FIELD, *= 2) \
        CHECK(p->FIELD == mine.FIELD); \
    }
#define STEPS(FIELD) \
    { \
        BOTH(FIELD, ++) \
        BOTH(FIELD, --) \
        CHECK(++p->FIELD == ++mine.FIELD && --p->FIELD == --mine.FIELD && p->FIELD-- == mine.FIELD--); \
    }

static void alone(shared struct mixed *p)
{
    struct mixed mine = *p;
    for (int i = 0; i < 20; i++) {
        EACH(a) EACH(b) EACH(c) EACH(wide) EACH(last) EACH(inner)
        STEPS(a) STEPS(b) STEPS(wide) STEPS(last) STEPS(inner)
        unsigned long bit = random_number() % 2;
        BOTH(flag, = bit)
        BOTH(flag, |= 4)
        p->between = mine.between = (char)i;
        p->after = mine.after = (short)i;
        CHECK(p->before == mine.before && p->between == mine.between && p->after == mine.after && p->flag == mine.flag);
    }
}

/* One thread writes the fields, another what lies around them. */
static void together(void)
{
    upc_barrier;
    for (int i = 0; i < 300; i++) {
        if (MYTHREAD == 0) {
            one.a = i;
            one.b += 1;
            one.c = i % 16;
        }
        if (MYTHREAD == THREADS - 1) {
            one.before = (char)i;
            one.between = (char)(i + 1);
            one.wide = i * 3000000000LL;
            one.flag = true;
            one.after = (short)-i;
        }
    }
    upc_barrier;
    CHECK(one.a == 299 % 8 && one.b == 300 && one.c == 299 % 16 && one.before == (char)299 && one.between == (char)300);
    CHECK(one.wide == 299 * 3000000000LL && one.flag && one.after == -299 && one.last == 0 && one.inner == 0);
}

static int asked;
static shared int *ask(shared int *p)
{
    asked++;
    return p;
}

static void choices(void)
{
    shared int *p = &numbers[1], *none = 0, *q = ask(p) ?: &numbers[2];
    shared [2] int *pair = &pairs[1];
    const shared int *fixed = p;
    int zero = 0;
    CHECK(q == p && asked == 1 && (ask(none) ?: &numbers[2]) == &numbers[2] && asked == 2);
    CHECK((none ?: none) == 0 && (zero ?: 7) == 7 && (numbers[0] ?: 9) == 9);
    CHECK(upc_phaseof(pair ?: &pairs[0]) == 1);
    CHECK(_Generic(p, int *: 1, shared [2] int *: 2, shared int *: 3, default: 4) == 3);
    CHECK(_Generic(pair, int *: 1, shared [2] int *: 2, shared int *: 3, default: 4) == 2);
    CHECK(*fixed == *p && _Generic(fixed, shared int *: 1, const shared int *: 2, default: 3) == 2);
    CHECK(_Generic(&zero, int *: 1, shared int *: 2) == 1);
    CHECK(_Generic(numbers[0], shared int *: 1, int: 2) == 2);
    CHECK(*_Generic(p, shared int *: p, default: none) == numbers[1]);
    CHECK(_Generic(1.0, shared int *: 1, float: 2, default: 3) == 3);
}

int main(void)
{
    alone(&many[MYTHREAD]);
    upc_barrier;
    alone(&many[(MYTHREAD + 1) % THREADS]);
    upc_barrier;
    if (MYTHREAD == 0) {
        exact.b = 77;
        exact.b++;
        CHECK(exact.b == 78 && exact.a == 0);
    }
    together();
    choices();
    upc_barrier;
    return 0;
}
