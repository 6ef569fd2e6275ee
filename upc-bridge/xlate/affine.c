/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: integer expressions that grow by the same amount whenever a loop's variable grows by
 * one: sums, differences and products of the variable and of constants, all signed, so that
 * they do not wrap.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* Tokens [at, end) that are still to be read. */
struct reader {
    const struct sym *var;
    int at, end;
    bool fails, computes; /* anything but the variable itself occurs */
};

/* What was read: tokens [a, b), and by how much it grows, as C; NULL: not at all. */
struct term {
    int a, b;
    const char *by;
};

static struct term read_sum(struct reader *r);

static bool takes(struct reader *r, unsigned punct)
{
    bool is = r->at < r->end && xl_is_punct(r->at, punct);

    r->at += is;
    r->computes |= is;
    return is;
}

static bool is_signed(const struct sym *s)
{
    return s->kind == S_ENUM || s->type->kind == TY_SCHAR || s->type->kind == TY_SHORT ||
           s->type->kind == TY_INT || s->type->kind == TY_LONG || s->type->kind == TY_LLONG;
}

/* A number, a name, or a sum in parentheses. */
static struct term read_single(struct reader *r)
{
    struct term t = { r->at, r->at, NULL };

    if (r->at >= r->end || r->fails) {
        r->fails = true;
        return t;
    }

    if (takes(r, '(')) {
        t.by = read_sum(r).by;
        r->fails |= !takes(r, ')');
    } else {
        const struct token *k = &xl.tokens[r->at];
        const struct sym *s = xl_name_at(r->at++);

        if (s == r->var && s)
            t.by = "1";
        else if (s)
            r->fails |= !xl_is_plain_integer(s) || !is_signed(s);
        else if (k->kind == T_NUM)
            r->fails |= !xl_is_integer_text(k) || memchr(k->text, 'u', (size_t)k->len) ||
                        memchr(k->text, 'U', (size_t)k->len);
        else
            r->fails |= k->kind != T_ID || (k->kw != K_THREADS && k->kw != K_MYTHREAD);

        r->computes |= s != r->var;
    }

    t.b = r->at;
    return t;
}

static struct term read_product(struct reader *r)
{
    struct term t = read_single(r);

    while (!r->fails) {
        bool times = takes(r, '*');

        if (!times && !takes(r, '/') && !takes(r, '%'))
            break;

        struct term u = read_single(r);
        if (r->fails)
            break;

        r->fails = times ? t.by && u.by : t.by || u.by;
        if (t.by || u.by)
            t.by = t.by ? xl_fmt("(%s) * (%s)", t.by, xl_render_bare(u.a, u.b))
                        : xl_fmt("(%s) * (%s)", xl_render_bare(t.a, t.b), u.by);

        t.b = r->at;
    }

    return t;
}

static struct term read_sum(struct reader *r)
{
    struct term t = read_product(r);

    while (!r->fails) {
        bool minus = takes(r, '-');

        if (!minus && !takes(r, '+'))
            break;

        const char *by = read_product(r).by;

        if (by)
            t.by = xl_fmt("%s %c (%s)", t.by ? t.by : "0", minus ? '-' : '+', by);

        t.b = r->at;
    }

    return t;
}

const char *xl_affine_growth(const struct sym *var, int a, int b, bool threads, bool *computes_p)
{
    struct reader r = { .var = var, .at = a, .end = b };
    bool cyclic = threads && b - a > 2 && xl_is_punct(b - 2, '%') &&
                  xl.tokens[b - 1].kind == T_ID && xl.tokens[b - 1].kw == K_THREADS;
    const char *by = read_sum(&r).by;

    if (cyclic && (r.fails || r.at < b)) { /* E % THREADS: the same thread as E */
        r = (struct reader){ .var = var, .at = a, .end = b - 2 };
        by = read_product(&r).by;
    }

    *computes_p = r.computes;
    return r.fails || r.at < r.end ? NULL : by;
}
