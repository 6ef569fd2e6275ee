/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: reads and writes.  A place in the shared space becomes a value or a store here and
 * nowhere else; what is neither stays a structure type in the output (upcx_pts), which C refuses to
 * compute with.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

const char *xl_place_text(struct expr *e)
{
    if (!e->idx)
        return e->base;

    struct type *el = xl_ty_element(e->type);

    return xl_fmt("upcx_add(%s, %s, %s, %s)", e->base, e->idx, xl_element_size(e->type, e->a),
                  xl_ty_block_text(el));
}

const char *xl_mode_suffix(struct type *t)
{
    unsigned q = xl_ty_element(t)->quals;
    bool strict = q & Q_STRICT || (xl.strict_mode && !(q & Q_RELAXED));

    return strict ? "_strict" : "";
}

static void check_access(struct expr *e)
{
    if (e->type->kind == TY_VOID)
        xl_refuse(e->a, "an object of type 'shared void' has no value");

    if (e->type->kind == TY_RECORD && !e->type->rec->complete && !e->type->rec->is_enum)
        xl_refuse(e->a, "%s is not complete here", xl_ty_words(e->type));

    if (xl_ty_varies(e->type))
        xl_refuse(e->a,
                  "a shared object that points to an array of variable size is not translated");

    if (e->type->quals & Q_ATOMIC)
        xl_refuse(e->a, "_Atomic shared objects are not translated; use upc_atomic.h");

    if (!xl.in_function)
        xl_refuse(e->a, "a shared object has no value outside functions");
}

/* What reads a place, in C.  t: its type without qualifiers. */
static const char *read_text(struct expr *e, struct type *t)
{
    const char *suffix = xl_mode_suffix(e->type);
    const char *v = xl_fmt("upcx_v%d", xl_unique());

    if (e->bits)
        return xl_fmt("__extension__ ({ %s; upcx_get%s(&%s, %s, sizeof(%s)); %s.%s; })",
                      xl_ty_text(xl_ty_unqualified(e->bits_in), v, e->a), suffix, v, e->base, v, v,
                      e->bits_name);

    if (xl_ty_padded(t)) {
        const char *name = xl_ty_text(t, "", e->a);

        return xl_fmt("(*(%s *)upcx_get_whole%s(__extension__ &(%s){ }, %s, sizeof(%s)))", name,
                      suffix, name, xl_place_text(e), name);
    }

    return xl_fmt("__extension__ ({ %s; upcx_get%s(&%s, %s, sizeof(%s)); %s; })",
                  xl_ty_text(t, v, e->a), suffix, v, xl_place_text(e), v, v);
}

void xl_use_value(struct expr *e)
{
    if (!e->place) {
        if (xl_ty_pts(e->type) && !e->null)
            xl.pts_computed = true;

        e->type = xl_ty_decay(e->type);
        if (e->lvalue)
            e->sym = NULL;

        e->lvalue = e->bits = false;
        return;
    }

    e->place = e->lvalue = false;
    e->sym = NULL;

    if (e->type->kind == TY_ARRAY) {
        xl_edit(e->a, e->b, xl_place_text(e));
        e->type = xl_ty_pointer(e->type->of);
        xl.pts_computed = true;
        return;
    }

    check_access(e);

    struct type *t = xl_ty_unqualified(e->type);

    xl.relaxed_reads += !*xl_mode_suffix(e->type);
    xl_edit(e->a, e->b, read_text(e, t));
    e->bits = false;
    e->type = t;
    if (xl_ty_pts(t))
        xl.pts_computed = true;
}

void xl_use_void(struct expr *e)
{
    if (e->place && (e->type->kind == TY_ARRAY || e->type->kind == TY_VOID)) {
        xl_edit(e->a, e->b, xl_fmt("((void)%s)", e->base));
        e->place = false;
        e->type = xl_ty_basic(TY_VOID);
        return;
    }

    xl_use_value(e);
}

void xl_use_condition(struct expr *e)
{
    xl_use_value(e);
    if (xl_ty_pts(e->type)) {
        xl_edit(e->a, e->b, xl_fmt("upcx_nonnull(%s)", xl_render(e->a, e->b)));
        e->type = xl_ty_basic(TY_INT);
    } else if (!xl_ty_scalar(e->type)) {
        xl_refuse(e->a, "a condition needs a number or a pointer, this is '%s'",
                  xl_ty_words(e->type));
    }
}

const char *xl_value_text(struct expr *e)
{
    xl_use_value(e);
    return xl_render(e->a, e->b);
}

static void check_writable(struct expr *e)
{
    if (e->type->kind == TY_ARRAY)
        xl_refuse(e->a, "an array cannot be assigned to");

    if (e->type->quals & Q_CONST)
        xl_refuse(e->a, "a const shared object cannot be written");

    check_access(e);
}

/*
 * Writes a bit-field, in the bytes that it touches: by C11, 3.14, neighbours in the same bytes are
 * one memory location with it, which two threads may not write at one time anyway.  `before`: what
 * the new value, `next`, is computed from is read first, into upcx_o<n>; `result`: what the
 * whole expression gives, NULL: the field.
 */
static const char *store_bits(struct expr *e, int n, bool before, const char *next,
                              const char *result)
{
    struct type *in = xl_ty_unqualified(e->bits_in);
    struct type *t = xl_ty_unqualified(e->type);
    const char *sfx = xl_mode_suffix(e->type);
    const char *name = e->bits_name;
    const char *field = xl_fmt("upcx_s%d.%s", n, name);
    const char *whole = xl_ty_text(in, xl_fmt("upcx_s%d", n), e->a);
    const char *mask = xl_ty_text(in, xl_fmt("upcx_m%d", n), e->a);
    const char *read = before
                           ? xl_fmt("upcx_get%s(&upcx_s%d, upcx_p%d, sizeof upcx_s%d); %s = %s; ",
                                    sfx, n, n, n, xl_ty_text(t, xl_fmt("upcx_o%d", n), e->a), field)
                           : "";

    return xl_fmt(
        "__extension__ ({ upcx_pts upcx_p%d = %s; %s; %s; __builtin_memset(&upcx_m%d, 0, sizeof "
        "upcx_m%d); "
        "__builtin_memset(&upcx_s%d, 0, sizeof upcx_s%d); upcx_m%d.%s = upcx_ones(); %s%s = %s; "
        "upcx_put_bits%s(upcx_p%d, &upcx_s%d, &upcx_m%d, sizeof upcx_s%d); %s; })",
        n, e->base, whole, mask, n, n, n, n, n, name, read, field, next, sfx, n, n, n, n,
        result ? result : field);
}

/*
 * Writes a structure with all its bytes.  A compiler may copy a structure member by member where it
 * knows the variable that holds it, and does so with the value of ({ ... }): hence no such variable,
 * but an object of the enclosing block whose address is known elsewhere.
 */
static const char *store_whole(struct expr *l, struct expr *r)
{
    const char *name = xl_ty_text(xl_ty_unqualified(l->type), "", l->a);

    return xl_fmt("(*(%s *)upcx_put_whole%s(%s, (%s[1]){ (%s) }, sizeof(%s)))", name,
                  xl_mode_suffix(l->type), xl_place_text(l), name, xl_render(r->a, r->b), name);
}

/* What v op= r is, for v of type t; the right side has been converted. */
static const char *compute(struct type *t, const char *v, unsigned op, struct expr *r)
{
    char o[4] = { (char)op, (char)(op >> 8), (char)(op >> 16), 0 };

    o[strlen(o) - 1] = 0; /* without '=' */
    if (xl_ty_pts(t)) {
        const char *n = xl_pts_scaled(t->of, xl_render(r->a, r->b));
        struct type *el = xl_ty_element(t->of);

        return xl_fmt("upcx_add(%s, %s%s, %s, %s)", v, op == P2('-', '=') ? "-" : "", n,
                      xl_element_size(t->of, r->a), xl_ty_block_text(el));
    }

    return xl_fmt("%s %s (%s)", v, o, xl_render(r->a, r->b));
}

/* The right side of l op= r is used; refuses types that the operator does not fit. */
static void use_operand(struct expr *l, unsigned op, struct expr *r, int op_tok)
{
    bool add = op == P2('+', '=') || op == P2('-', '=');

    xl_use_value(r);

    bool fits = xl_ty_arithmetic(r->type) &&
                (l->type->kind == TY_POINTER ? add : xl_ty_arithmetic(l->type));

    if (!fits)
        xl_refuse(op_tok, "this assignment operator does not fit '%s' and '%s'",
                  xl_ty_words(l->type), xl_ty_words(r->type));
}

/* What stores r in the place l, in C.  n: of the names in it. */
static const char *store_text(struct expr *l, unsigned op, struct expr *r, int n)
{
    struct type *t = xl_ty_unqualified(l->type);
    const char *v = xl_fmt("upcx_v%d", n);
    const char *sfx = xl_mode_suffix(l->type);
    const char *decl = xl_ty_text(t, v, l->a);

    if (l->bits && op == '=')
        return store_bits(l, n, false, xl_fmt("(%s)", xl_render(r->a, r->b)), NULL);
    if (l->bits)
        return store_bits(l, n, true, compute(t, xl_fmt("upcx_o%d", n), op, r), NULL);

    if (op == '=' && xl_ty_padded(t))
        return store_whole(l, r);

    if (op == '=')
        return xl_fmt("__extension__ ({ %s = (%s); upcx_put%s(%s, &%s, sizeof(%s)); %s; })", decl,
                      xl_render(r->a, r->b), sfx, xl_place_text(l), v, v, v);

    return xl_fmt(
        "__extension__ ({ upcx_pts upcx_p%d = %s; %s; upcx_get%s(&%s, upcx_p%d, sizeof(%s)); "
        "%s = %s; upcx_put%s(upcx_p%d, &%s, sizeof(%s)); %s; })",
        n, xl_place_text(l), decl, sfx, v, n, v, v, compute(t, v, op, r), sfx, n, v, v, v);
}

void xl_store(struct expr *l, unsigned op, struct expr *r, int op_tok)
{
    struct type *t = xl_ty_unqualified(l->type);
    struct expr out = { .a = l->a, .b = r->b, .type = t };

    if (!l->lvalue && l->type->kind != TY_UNKNOWN && !l->place)
        xl_refuse(op_tok, "the left side of the assignment cannot be assigned to");

    if (op == '=') {
        if (!l->place || l->type->kind != TY_ARRAY)
            xl_convert_to(r, t, "assignment", false);
    } else {
        use_operand(l, op, r, op_tok);
    }

    int n = xl_unique();

    if (l->place) {
        check_writable(l);
        xl_edit(out.a, out.b, store_text(l, op, r, n));
    } else if (xl_ty_pts(l->type) && op != '=') {
        const char *v = xl_fmt("(*upcx_q%d)", n);

        xl_edit(out.a, out.b,
                xl_fmt("__extension__ ({ upcx_pts *upcx_q%d = &(%s); %s = %s; })", n,
                       xl_render(l->a, l->b), v, compute(t, v, op, r)));
    }

    *l = out;
}

/* What increments a bit-field of a place, or decrements it.  after: its value is the one before. */
static const char *step_bits(struct expr *e, int n, bool up, bool after)
{
    const char *old = xl_fmt("upcx_o%d", n);

    return store_bits(e, n, true, xl_fmt("%s %c 1", old, up ? '+' : '-'), after ? old : NULL);
}

/* The same for the whole of a place.  next: the new value, made from upcx_v<n>, the old one. */
static const char *step_text(struct expr *e, int n, const char *next, bool after)
{
    struct type *t = xl_ty_unqualified(e->type);
    const char *v = xl_fmt("upcx_v%d", n);
    const char *w = xl_fmt("upcx_w%d", n);
    const char *sfx = xl_mode_suffix(e->type);

    return xl_fmt(
        "__extension__ ({ upcx_pts upcx_p%d = %s; %s; %s; upcx_get%s(&%s, upcx_p%d, sizeof(%s)); "
        "%s = %s; upcx_put%s(upcx_p%d, &%s, sizeof(%s)); %s; })",
        n, xl_place_text(e), xl_ty_text(t, v, e->a), xl_ty_text(t, w, e->a), sfx, v, n, v, w, next,
        sfx, n, w, v, after ? v : w);
}

void xl_step(struct expr *e, bool up, bool after)
{
    struct expr out = { .a = e->a, .b = xl.pos, .type = xl_ty_unqualified(e->type) };
    int n = xl_unique();

    if (!e->lvalue && e->type->kind != TY_UNKNOWN)
        xl_refuse(e->a, "'%s' needs an object", up ? "++" : "--");

    if (!xl_ty_scalar(e->type))
        xl_refuse(e->a, "'%s' does not fit '%s'", up ? "++" : "--", xl_ty_words(e->type));

    struct type *el = e->type->kind == TY_POINTER ? xl_ty_element(e->type->of) : NULL;
    const char *v = xl_fmt("upcx_v%d", n);
    const char *next;

    if (xl_ty_pts(e->type))
        next = xl_fmt("upcx_add(%s, %s%s, %s, %s)", v, up ? "" : "-",
                      xl_pts_scaled(e->type->of, "1"), xl_element_size(e->type->of, e->a),
                      xl_ty_block_text(el));
    else
        next = xl_fmt("%s %c 1", v, up ? '+' : '-');

    if (e->place) {
        check_writable(e);
        xl_edit(out.a, out.b, e->bits ? step_bits(e, n, up, after) : step_text(e, n, next, after));
    } else if (xl_ty_pts(e->type)) {
        int first = after ? e->a : e->a + 1;
        int last = after ? xl.pos - 1 : xl.pos;

        xl_edit(
            out.a, out.b,
            xl_fmt("__extension__ ({ upcx_pts *upcx_q%d = &(%s), %s = *upcx_q%d, upcx_w%d = %s; "
                   "*upcx_q%d = "
                   "upcx_w%d; %s; })",
                   n, xl_render(first, last), v, n, n, next, n, n,
                   after ? v : xl_fmt("upcx_w%d", n)));
    }

    *e = out;
}
