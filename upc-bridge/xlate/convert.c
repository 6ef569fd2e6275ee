/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: conversions between types, and what operators do with pointers to shared (UPC 1.3,
 * 6.4.2 and 6.4.3).
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* n objects of this type, in elements. */
const char *xl_pts_scaled(struct type *pointee, const char *n)
{
    return pointee->kind == TY_ARRAY ? xl_fmt("(long)(%s) * (long)(%s)", n, xl_ty_count(pointee))
                                     : xl_fmt("(long)(%s)", n);
}

static bool incomplete(struct type *t)
{
    struct type *el = xl_ty_element(t);

    return el->kind == TY_RECORD && !el->rec->complete;
}

/* Its size as C; shared void moves by bytes. */
const char *xl_element_size(struct type *pointee, int tok)
{
    struct type *el = xl_ty_element(pointee);

    if (incomplete(el))
        xl_refuse(tok, "%s is not complete here", xl_ty_words(el));

    return el->kind == TY_VOID ? "1"
                               : xl_fmt("sizeof(%s)", xl_ty_text(xl_ty_unqualified(el), "", tok));
}

static bool generic(struct type *p)
{
    return p->of->kind == TY_VOID;
}

static bool same_element(struct type *a, struct type *b)
{
    a = xl_ty_element(a);
    b = xl_ty_element(b);
    return xl_ty_same(a, b) || (xl_ty_integer(a) && xl_ty_integer(b) && a->kind != TY_OPAQUE &&
                                xl_ty_size(a) > 0 && xl_ty_size(a) == xl_ty_size(b));
}

static void shared_to_shared(struct expr *e, struct type *to, const char *what, bool is_cast)
{
    struct type *from = e->type;

    if (generic(to))
        return;

    if (generic(from)) {
        struct type *el = xl_ty_element(to->of);

        if (!el->block.text && el->block.value <= 1)
            xl_edit(e->a, e->b, xl_fmt("upcx_phase0(%s)", xl_render(e->a, e->b)));

        return;
    }

    if (same_element(from->of, to->of) && xl_ty_same_block(from->of, to->of))
        return;

    if (!is_cast)
        xl_refuse(e->a, "%s: '%s' does not go with '%s' without a cast", what, xl_ty_words(from),
                  xl_ty_words(to));

    /* No arithmetic gave it a phase, and nobody knows whether the sizes agree. */
    if (incomplete(to->of) || (incomplete(from->of) && !same_element(from->of, to->of))) {
        xl_edit(e->a, e->b, xl_fmt("upcx_phase0(%s)", xl_render(e->a, e->b)));
        return;
    }

    if (same_element(from->of, to->of) || xl_ty_element(to->of)->rec ||
        xl_ty_element(from->of)->rec) {
        /* The phase stays where element size and block size stay; the compiler knows sizes that are
         * not known here. */
        const char *a = "1";
        const char *b = "1";

        if (!same_element(from->of, to->of)) {
            a = xl_element_size(from->of, e->a);
            b = xl_element_size(to->of, e->a);
        }

        xl_edit(e->a, e->b,
                xl_fmt("upcx_recast(%s, %s == %s && %s == %s)", xl_render(e->a, e->b), a, b,
                       xl_ty_block_text(from->of), xl_ty_block_text(to->of)));
        return;
    }

    long long m = xl_ty_size(xl_ty_element(from->of));
    long long n = xl_ty_size(xl_ty_element(to->of));

    if (m < 0 || n < 0 || m != n || !xl_ty_same_block(from->of, to->of))
        xl_edit(e->a, e->b, xl_fmt("upcx_phase0(%s)", xl_render(e->a, e->b)));
}

static void to_shared(struct expr *e, struct type *to, const char *what, bool is_cast)
{
    if (e->null)
        xl_edit(e->a, e->b, "(upcx_pts){ 0 }");
    else if (xl_ty_pts(e->type))
        shared_to_shared(e, to, what, is_cast);
    else
        xl_refuse(e->a, "%s: '%s' cannot become the pointer to shared '%s'", what,
                  xl_ty_words(e->type), xl_ty_words(to));
}

static void from_shared(struct expr *e, struct type *to, const char *what, bool is_cast)
{
    if (to->kind == TY_BOOL) {
        xl_edit(e->a, e->b, xl_fmt("upcx_nonnull(%s)", xl_render(e->a, e->b)));
        return;
    }

    if (to->kind != TY_POINTER)
        xl_refuse(e->a,
                  "%s: the pointer to shared '%s' cannot become '%s'; upc_addrfield and "
                  "upc_threadof give numbers",
                  what, xl_ty_words(e->type), xl_ty_words(to));

    if (!is_cast)
        xl_refuse(e->a, "%s: the pointer to shared '%s' becomes the private '%s' by a cast only",
                  what, xl_ty_words(e->type), xl_ty_words(to));

    if (xl_ty_involves_shared(to->of) && to->of->kind == TY_FUNCTION)
        xl_refuse(e->a, "a pointer to shared cannot become a function's address");

    xl_edit(e->a, e->b, xl_fmt("upcx_local(%s)", xl_render(e->a, e->b)));
}

/* Do the two pointers hide different pointers to shared behind one more pointer? */
static bool mixes_worlds(struct type *from, struct type *to)
{
    return from->kind == TY_POINTER && to->kind == TY_POINTER && from->of->kind != TY_VOID &&
           to->of->kind != TY_VOID && (xl_ty_involves_shared(from) || xl_ty_involves_shared(to)) &&
           !xl_ty_same(from, to);
}

void xl_convert_to(struct expr *e, struct type *to, const char *what, bool is_cast)
{
    xl_use_value(e);

    struct type *from = e->type;
    if (from->kind == TY_FUNCTION || to->kind == TY_UNKNOWN || to->kind == TY_VOID)
        return;

    if (xl_ty_pts(to)) {
        to_shared(e, to, what, is_cast);
        e->type = to;
        return;
    }

    if (xl_ty_pts(from)) {
        from_shared(e, to, what, is_cast);
        e->type = to;
        return;
    }

    if (!is_cast && !e->null && mixes_worlds(from, to))
        xl_refuse(e->a, "%s: '%s' does not go with '%s'", what, xl_ty_words(from), xl_ty_words(to));

    e->type = to->kind == TY_ARRAY ? from : to;
}

void xl_pointer_add(struct expr *p, struct expr *n, bool minus, struct expr *out)
{
    struct type *el = xl_ty_element(p->type->of);

    if (!xl_ty_integer(n->type) && n->type->kind != TY_UNKNOWN)
        xl_refuse(n->a, "only an integer can be added to a pointer, this is '%s'",
                  xl_ty_words(n->type));

    xl_edit(out->a, out->b,
            xl_fmt("upcx_add(%s, %s%s, %s, %s)", xl_render(p->a, p->b), minus ? "-" : "",
                   xl_pts_scaled(p->type->of, xl_render(n->a, n->b)),
                   xl_element_size(p->type->of, p->a), xl_ty_block_text(el)));
    out->type = p->type;
}

static struct type *pts_compare(unsigned op, int op_tok, struct expr *x, struct expr *y)
{
    bool equality = op == P2('=', '=') || op == P2('!', '=');

    if (x->null || y->null) {
        struct expr *p = x->null ? y : x;

        if (!equality)
            xl_refuse(op_tok, "a null pointer comes neither before nor after another");

        xl_edit(
            x->a, y->b,
            xl_fmt("(%supcx_nonnull(%s))", op == P2('=', '=') ? "!" : "", xl_render(p->a, p->b)));
        return xl_ty_basic(TY_INT);
    }

    if (!xl_ty_pts(x->type) || !xl_ty_pts(y->type))
        xl_refuse(op_tok, "'%s' and '%s' cannot be compared", xl_ty_words(x->type),
                  xl_ty_words(y->type));

    if (equality) {
        if (!generic(x->type) && !generic(y->type) && !same_element(x->type->of, y->type->of))
            xl_refuse(op_tok, "'%s' and '%s' cannot be compared", xl_ty_words(x->type),
                      xl_ty_words(y->type));

        xl_edit(x->a, y->b,
                xl_fmt("(%supcx_eq(%s, %s))", op == P2('=', '=') ? "" : "!", xl_render(x->a, x->b),
                       xl_render(y->a, y->b)));
        return xl_ty_basic(TY_INT);
    }

    return NULL;
}

static bool is_equality(unsigned op)
{
    return op == P2('=', '=') || op == P2('!', '=');
}

static bool is_relation(unsigned op)
{
    return op == '<' || op == '>' || op == P2('<', '=') || op == P2('>', '=');
}

__attribute__((noreturn)) static void refuse_operands(int op_tok, struct expr *x, struct expr *y)
{
    xl_refuse(op_tok, "'%.*s' does not fit '%s' and '%s'", xl.tokens[op_tok].len,
              xl.tokens[op_tok].text, xl_ty_words(x->type), xl_ty_words(y->type));
}

/* p - q, p < q and the like, for two pointers to shared of one layout. */
static struct type *pts_distance(bool relation, int op_tok, struct expr *x, struct expr *y)
{
    struct type *pointee = x->type->of;

    if (!same_element(pointee, y->type->of) || !xl_ty_same_block(pointee, y->type->of))
        xl_refuse(op_tok, "'%s' and '%s' point to different layouts; cast one of them",
                  xl_ty_words(x->type), xl_ty_words(y->type));

    const char *d = xl_fmt("upcx_%s(%s, %s, %s, %s)", relation ? "cmp" : "diff",
                           xl_render(x->a, x->b), xl_render(y->a, y->b),
                           xl_element_size(pointee, x->a), xl_ty_block_text(pointee));

    if (relation)
        d = xl_fmt("(%s %.*s 0)", d, xl.tokens[op_tok].len, xl.tokens[op_tok].text);
    else if (pointee->kind == TY_ARRAY)
        d = xl_fmt("(%s / (long)(%s))", d, xl_ty_count(pointee));

    xl_edit(x->a, y->b, d);
    return xl_ty_basic(relation ? TY_INT : TY_LONG);
}

/* One operand or both are pointers to shared. */
static struct type *pts_binary(unsigned op, int op_tok, struct expr *x, struct expr *y)
{
    bool px = xl_ty_pts(x->type);
    bool py = xl_ty_pts(y->type);

    if (is_equality(op) || is_relation(op)) {
        struct type *t = pts_compare(op, op_tok, x, y);
        if (t)
            return t;
    }

    struct expr out = { .a = x->a, .b = y->b };

    if (px && !py && (op == '+' || op == '-')) {
        xl_pointer_add(x, y, op == '-', &out);
        return out.type;
    }

    if (!px && op == '+') {
        xl_pointer_add(y, x, false, &out);
        return out.type;
    }

    if (!px || !py || (op != '-' && !is_relation(op)))
        refuse_operands(op_tok, x, y);

    return pts_distance(is_relation(op), op_tok, x, y);
}

/* Operands that are values; the result's type, with an edit where a pointer to shared takes
 * part. */
struct type *xl_binary_type(unsigned op, int op_tok, struct expr *x, struct expr *y)
{
    if (xl_ty_pts(x->type) || xl_ty_pts(y->type))
        return pts_binary(op, op_tok, x, y);

    if (is_equality(op) || is_relation(op))
        return xl_ty_basic(TY_INT);
    if (x->type->kind == TY_UNKNOWN || y->type->kind == TY_UNKNOWN)
        return xl_ty_basic(TY_UNKNOWN);
    if (x->type->kind == TY_POINTER && y->type->kind == TY_POINTER)
        return xl_ty_basic(TY_LONG);
    if (x->type->kind == TY_POINTER)
        return x->type;
    if (y->type->kind == TY_POINTER)
        return y->type;

    if (!xl_ty_arithmetic(x->type) || !xl_ty_arithmetic(y->type))
        refuse_operands(op_tok, x, y);

    bool shift = op == P2('<', '<') || op == P2('>', '>');

    return shift ? xl_ty_promote(x->type) : xl_ty_arith(x->type, y->type);
}
