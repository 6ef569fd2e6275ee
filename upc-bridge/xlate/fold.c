/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: integer constant expressions, with a third state: constant but for the number of
 * threads.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>

#include "xlate.h"

/* Sets *out_p and returns true if op compares. */
static bool compare(unsigned op, long long a, long long b, bool is_unsigned, long long *out_p)
{
    /* In the order of unsigned numbers, if the highest bit of both is turned over. */
    const unsigned long long turn = is_unsigned ? 1ULL << 63 : 0;
    long long x = (long long)((unsigned long long)a ^ turn);
    long long y = (long long)((unsigned long long)b ^ turn);

    switch (op) {
    case P1('<'):
        *out_p = x < y;
        return true;
    case P1('>'):
        *out_p = x > y;
        return true;
    case P2('<', '='):
        *out_p = x <= y;
        return true;
    case P2('>', '='):
        *out_p = x >= y;
        return true;
    case P2('=', '='):
        *out_p = a == b;
        return true;
    case P2('!', '='):
        *out_p = a != b;
        return true;
    default:
        return false;
    }
}

static bool divide(bool remainder, long long a, long long b, bool is_unsigned, long long *out_p)
{
    if (b == 0 || (b == -1 && !is_unsigned))
        return false;

    if (!is_unsigned) {
        *out_p = remainder ? a % b : a / b;
        return true;
    }

    unsigned long long ua = (unsigned long long)a;
    unsigned long long ub = (unsigned long long)b;

    *out_p = (long long)(remainder ? ua % ub : ua / ub);
    return true;
}

static bool shift(bool left, long long a, long long b, bool is_unsigned, long long *out_p)
{
    if (b < 0 || b > 62)
        return false;

    if (left)
        *out_p = (long long)((unsigned long long)a << b);
    else if (is_unsigned)
        *out_p = (long long)((unsigned long long)a >> b);
    else
        *out_p = a >> b;

    return true;
}

/* Sets *out_p to a op b; false: there is no such value, or op is none of these. */
static bool compute(unsigned op, long long a, long long b, bool is_unsigned, long long *out_p)
{
    unsigned long long ua = (unsigned long long)a;
    unsigned long long ub = (unsigned long long)b;

    switch (op) {
    case P1('+'):
        *out_p = (long long)(ua + ub);
        return true;
    case P1('-'):
        *out_p = (long long)(ua - ub);
        return true;
    case P1('*'):
        *out_p = (long long)(ua * ub);
        return true;
    case P1('/'):
    case P1('%'):
        return divide(op == P1('%'), a, b, is_unsigned, out_p);
    case P2('<', '<'):
    case P2('>', '>'):
        return shift(op == P2('<', '<'), a, b, is_unsigned, out_p);
    case P1('&'):
        *out_p = a & b;
        return true;
    case P1('|'):
        *out_p = a | b;
        return true;
    case P1('^'):
        *out_p = a ^ b;
        return true;
    case P2('&', '&'):
        *out_p = a && b;
        return true;
    case P2('|', '|'):
        *out_p = a || b;
        return true;
    default:
        return compare(op, a, b, is_unsigned, out_p);
    }
}

/* The value that a result of this type really has. */
static long long in_range(struct type *t, long long v)
{
    switch (t->kind) {
    case TY_INT:
        return (int)v;
    case TY_UINT:
        return (long long)(unsigned)v;
    default:
        return v;
    }
}

struct expr xl_fold_binary(unsigned op, struct expr x, struct expr y)
{
    struct expr r = { .a = x.a, .b = y.b };
    bool xc = x.is_const || x.threads;
    bool yc = y.is_const || y.threads;

    if (x.is_const && y.is_const) {
        struct type *t = xl_ty_arith(x.type, y.type);
        bool u = t->kind == TY_UINT || t->kind == TY_ULONG || t->kind == TY_ULLONG;

        r.is_const = compute(op, x.value, y.value, u, &r.value);
        if (r.is_const)
            r.value = in_range(t, r.value);
    } else if (xc && yc) {
        r.threads = true;
    }

    return r;
}
