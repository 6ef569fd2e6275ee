/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: integer constant expressions, with a third state: constant but for the number of
 * threads.
 */
#include "xlate.h"

static bool compute(unsigned op, long long a, long long b, bool is_unsigned, long long *out)
{
    unsigned long long ua = (unsigned long long)a;
    unsigned long long ub = (unsigned long long)b;

    switch (op) {
    case P1('+'):
        *out = (long long)(ua + ub);
        return true;
    case P1('-'):
        *out = (long long)(ua - ub);
        return true;
    case P1('*'):
        *out = (long long)(ua * ub);
        return true;
    case P1('/'):
    case P1('%'):
        if (b == 0 || (b == -1 && !is_unsigned))
            return false;
        if (is_unsigned)
            *out = (long long)(op == P1('/') ? ua / ub : ua % ub);
        else
            *out = op == P1('/') ? a / b : a % b;
        return true;
    case P2('<', '<'):
    case P2('>', '>'):
        if (b < 0 || b > 62)
            return false;
        *out = op == P2('<', '<') ? (long long)(ua << b)
               : is_unsigned      ? (long long)(ua >> b)
                                  : a >> b;
        return true;
    case P1('&'):
        *out = a & b;
        return true;
    case P1('|'):
        *out = a | b;
        return true;
    case P1('^'):
        *out = a ^ b;
        return true;
    case P1('<'):
        *out = is_unsigned ? ua < ub : a < b;
        return true;
    case P1('>'):
        *out = is_unsigned ? ua > ub : a > b;
        return true;
    case P2('<', '='):
        *out = is_unsigned ? ua <= ub : a <= b;
        return true;
    case P2('>', '='):
        *out = is_unsigned ? ua >= ub : a >= b;
        return true;
    case P2('=', '='):
        *out = a == b;
        return true;
    case P2('!', '='):
        *out = a != b;
        return true;
    case P2('&', '&'):
        *out = a && b;
        return true;
    case P2('|', '|'):
        *out = a || b;
        return true;
    default:
        return false;
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

struct expr fold_binary(unsigned op, struct expr x, struct expr y)
{
    struct expr r = { .a = x.a, .b = y.b };
    bool xc = x.is_const || x.threads;
    bool yc = y.is_const || y.threads;

    if (x.is_const && y.is_const) {
        struct type *t = ty_arith(x.type, y.type);
        bool u = t->kind == TY_UINT || t->kind == TY_ULONG || t->kind == TY_ULLONG;

        r.is_const = compute(op, x.value, y.value, u, &r.value);
        if (r.is_const)
            r.value = in_range(t, r.value);
    } else if (xc && yc) {
        r.threads = true;
    }

    return r;
}
