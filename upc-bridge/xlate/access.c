/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: reads and writes.  A place in the shared space becomes a value or a store here and
 * nowhere else; what is neither stays a structure type in the output (upcx_pts), which C refuses to
 * compute with.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

const char *place_text(struct expr *e)
{
    if (!e->idx)
        return e->base;

    struct type *el = ty_element(e->type);

    return xl_fmt("upcx_add(%s, %s, %s, %s)", e->base, e->idx, element_size(e->type, e->a),
                  ty_block_text(el));
}

const char *mode_suffix(struct type *t)
{
    unsigned q = ty_element(t)->quals;
    bool strict = q & Q_STRICT || (xl.strict_mode && !(q & Q_RELAXED));

    return strict ? "_strict" : "";
}

static void check_access(struct expr *e)
{
    if (e->type->kind == TY_VOID)
        refuse(e->a, "an object of type 'shared void' has no value");

    if (e->type->kind == TY_RECORD && !e->type->rec->complete && !e->type->rec->is_enum)
        refuse(e->a, "%s is not complete here", ty_words(e->type));

    if (ty_varies(e->type))
        refuse(e->a, "a shared object that points to an array of variable size is not translated");

    if (e->type->quals & Q_ATOMIC)
        refuse(e->a, "_Atomic shared objects are not translated; use upc_atomic.h");

    if (!xl.in_function)
        refuse(e->a, "a shared object has no value outside functions");
}

void use_value(struct expr *e)
{
    if (!e->place) {
        if (ty_pts(e->type) && !e->null)
            xl.pts_computed = true;

        e->type = ty_decay(e->type);
        if (e->lvalue)
            e->sym = NULL;

        e->lvalue = e->bits = false;
        return;
    }

    e->place = e->lvalue = false;
    e->sym = NULL;

    if (e->type->kind == TY_ARRAY) {
        edit(e->a, e->b, place_text(e));
        e->type = ty_pointer(e->type->of);
        xl.pts_computed = true;
        return;
    }

    check_access(e);

    int n = unique();
    struct type *t = ty_unqualified(e->type);
    const char *suffix = mode_suffix(e->type);

    xl.relaxed_reads += !*suffix;
    if (e->bits) {
        const char *v = xl_fmt("upcx_v%d", n);

        edit(e->a, e->b,
             xl_fmt("__extension__ ({ %s; upcx_get%s(&%s, %s, sizeof(%s)); %s.%s; })",
                    ty_text(ty_unqualified(e->bits_in), v, e->a), suffix, v, e->base, v, v,
                    e->bits_name));
        e->bits = false;
    } else if (ty_padded(t)) {
        const char *name = ty_text(t, "", e->a);

        edit(e->a, e->b,
             xl_fmt("(*(%s *)upcx_get_whole%s(__extension__ &(%s){ }, %s, sizeof(%s)))", name,
                    suffix, name, place_text(e), name));
    } else {
        const char *v = xl_fmt("upcx_v%d", n);

        edit(e->a, e->b,
             xl_fmt("__extension__ ({ %s; upcx_get%s(&%s, %s, sizeof(%s)); %s; })",
                    ty_text(t, v, e->a), suffix, v, place_text(e), v, v));
    }

    e->type = t;
    if (ty_pts(t))
        xl.pts_computed = true;
}

void use_void(struct expr *e)
{
    if (e->place && (e->type->kind == TY_ARRAY || e->type->kind == TY_VOID)) {
        edit(e->a, e->b, xl_fmt("((void)%s)", e->base));
        e->place = false;
        e->type = ty_basic(TY_VOID);
        return;
    }

    use_value(e);
}

void use_condition(struct expr *e)
{
    use_value(e);
    if (ty_pts(e->type)) {
        edit(e->a, e->b, xl_fmt("upcx_nonnull(%s)", render(e->a, e->b)));
        e->type = ty_basic(TY_INT);
    } else if (!ty_scalar(e->type)) {
        refuse(e->a, "a condition needs a number or a pointer, this is '%s'", ty_words(e->type));
    }
}

const char *value_text(struct expr *e)
{
    use_value(e);
    return render(e->a, e->b);
}

static void check_writable(struct expr *e)
{
    if (e->type->kind == TY_ARRAY)
        refuse(e->a, "an array cannot be assigned to");

    if (e->type->quals & Q_CONST)
        refuse(e->a, "a const shared object cannot be written");

    check_access(e);
}

/*
 * Writes a bit-field, in the bytes that it touches: by C11, 3.14, neighbours in the same bytes are
 * one memory location with it, which two threads may not write at one time anyway.  `before`: what
 * the new value, `next`, is computed from is read first, and lies in upcx_o<n>; `result`: what the
 * whole expression gives, NULL: the field.
 */
static const char *store_bits(struct expr *e, int n, bool before, const char *next,
                              const char *result)
{
    struct type *in = ty_unqualified(e->bits_in);
    struct type *t = ty_unqualified(e->type);
    const char *sfx = mode_suffix(e->type);
    const char *name = e->bits_name;
    const char *field = xl_fmt("upcx_s%d.%s", n, name);
    const char *whole = ty_text(in, xl_fmt("upcx_s%d", n), e->a);
    const char *mask = ty_text(in, xl_fmt("upcx_m%d", n), e->a);
    const char *read = before
                           ? xl_fmt("upcx_get%s(&upcx_s%d, upcx_p%d, sizeof upcx_s%d); %s = %s; ",
                                    sfx, n, n, n, ty_text(t, xl_fmt("upcx_o%d", n), e->a), field)
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
    const char *name = ty_text(ty_unqualified(l->type), "", l->a);

    return xl_fmt("(*(%s *)upcx_put_whole%s(%s, (%s[1]){ (%s) }, sizeof(%s)))", name,
                  mode_suffix(l->type), place_text(l), name, render(r->a, r->b), name);
}

/* What v op= r is, for v of type t; the right side has been converted. */
static const char *compute(struct type *t, const char *v, unsigned op, struct expr *r)
{
    char o[4] = { (char)op, (char)(op >> 8), (char)(op >> 16), 0 };

    o[strlen(o) - 1] = 0; /* without '=' */
    if (ty_pts(t)) {
        const char *n = pts_scaled(t->of, render(r->a, r->b));
        struct type *el = ty_element(t->of);

        return xl_fmt("upcx_add(%s, %s%s, %s, %s)", v, op == P2('-', '=') ? "-" : "", n,
                      element_size(t->of, r->a), ty_block_text(el));
    }

    return xl_fmt("%s %s (%s)", v, o, render(r->a, r->b));
}

void store(struct expr *l, unsigned op, struct expr *r, int op_tok)
{
    struct type *t = ty_unqualified(l->type);
    struct expr out = { .a = l->a, .b = r->b, .type = t };

    if (!l->lvalue && l->type->kind != TY_UNKNOWN && !l->place)
        refuse(op_tok, "what stands left of the assignment cannot be assigned to");

    if (op == '=') {
        if (!l->place || l->type->kind != TY_ARRAY)
            convert_to(r, t, "assignment", false);
    } else {
        use_value(r);

        bool add = op == P2('+', '=') || op == P2('-', '=');

        if (l->type->kind == TY_POINTER ? !add || !ty_arithmetic(r->type)
                                        : !ty_arithmetic(l->type) || !ty_arithmetic(r->type))
            refuse(op_tok, "this assignment operator does not fit '%s' and '%s'", ty_words(l->type),
                   ty_words(r->type));
    }

    int n = unique();

    if (l->place) {
        check_writable(l);

        const char *v = xl_fmt("upcx_v%d", n);
        const char *sfx = mode_suffix(l->type);
        const char *decl = ty_text(t, v, l->a);

        if (l->bits)
            edit(out.a, out.b,
                 store_bits(l, n, op != '=',
                            op == '=' ? xl_fmt("(%s)", render(r->a, r->b))
                                      : compute(t, xl_fmt("upcx_o%d", n), op, r),
                            NULL));
        else if (op == '=' && ty_padded(t))
            edit(out.a, out.b, store_whole(l, r));
        else if (op == '=')
            edit(out.a, out.b,
                 xl_fmt("__extension__ ({ %s = (%s); upcx_put%s(%s, &%s, sizeof(%s)); %s; })", decl,
                        render(r->a, r->b), sfx, place_text(l), v, v, v));
        else
            edit(out.a, out.b,
                 xl_fmt("__extension__ ({ upcx_pts upcx_p%d = %s; %s; upcx_get%s(&%s, upcx_p%d, "
                        "sizeof(%s)); %s "
                        "= %s; upcx_put%s(upcx_p%d, &%s, "
                        "sizeof(%s)); %s; })",
                        n, place_text(l), decl, sfx, v, n, v, v, compute(t, v, op, r), sfx, n, v, v,
                        v));
    } else if (ty_pts(l->type) && op != '=') {
        const char *v = xl_fmt("(*upcx_q%d)", n);

        edit(out.a, out.b,
             xl_fmt("__extension__ ({ upcx_pts *upcx_q%d = &(%s); %s = %s; })", n,
                    render(l->a, l->b), v, compute(t, v, op, r)));
    }

    *l = out;
}

void step(struct expr *e, bool up, bool after)
{
    struct expr out = { .a = e->a, .b = xl.pos, .type = ty_unqualified(e->type) };
    int n = unique();

    if (!e->lvalue && e->type->kind != TY_UNKNOWN)
        refuse(e->a, "'%s' needs an object", up ? "++" : "--");

    if (!ty_scalar(e->type))
        refuse(e->a, "'%s' does not fit '%s'", up ? "++" : "--", ty_words(e->type));

    struct type *el = e->type->kind == TY_POINTER ? ty_element(e->type->of) : NULL;
    const char *v = xl_fmt("upcx_v%d", n);
    const char *next;

    if (ty_pts(e->type))
        next = xl_fmt("upcx_add(%s, %s%s, %s, %s)", v, up ? "" : "-", pts_scaled(e->type->of, "1"),
                      element_size(e->type->of, e->a), ty_block_text(el));
    else
        next = xl_fmt("%s %c 1", v, up ? '+' : '-');

    if (e->place) {
        check_writable(e);

        struct type *t = ty_unqualified(e->type);
        const char *sfx = mode_suffix(e->type);
        const char *old = xl_fmt("upcx_o%d", n);

        if (e->bits)
            edit(
                out.a, out.b,
                store_bits(e, n, true, xl_fmt("%s %c 1", old, up ? '+' : '-'), after ? old : NULL));
        else
            edit(out.a, out.b,
                 xl_fmt("__extension__ ({ upcx_pts upcx_p%d = %s; %s; %s; upcx_get%s(&%s, "
                        "upcx_p%d, sizeof(%s)); "
                        "upcx_w%d = %s; upcx_put%s(upcx_p%d, "
                        "&upcx_w%d, sizeof(%s)); %s; })",
                        n, place_text(e), ty_text(t, v, e->a),
                        ty_text(t, xl_fmt("upcx_w%d", n), e->a), sfx, v, n, v, n, next, sfx, n, n,
                        v, after ? v : xl_fmt("upcx_w%d", n)));
    } else if (ty_pts(e->type)) {
        int first = after ? e->a : e->a + 1;
        int last = after ? xl.pos - 1 : xl.pos;

        edit(out.a, out.b,
             xl_fmt("__extension__ ({ upcx_pts *upcx_q%d = &(%s), %s = *upcx_q%d, upcx_w%d = %s; "
                    "*upcx_q%d = "
                    "upcx_w%d; %s; })",
                    n, render(first, last), v, n, n, next, n, n,
                    after ? v : xl_fmt("upcx_w%d", n)));
    }

    *e = out;
}
