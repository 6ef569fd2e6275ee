/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: unary operators, casts, the sizeof family and the compiler's own forms that take type
 * names.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

const char *xl_size_text(struct type *t, int tok)
{
    struct type *el = xl_ty_element(t);

    if (el->kind == TY_FUNCTION)
        xl_refuse(tok, "a function has no size");

    if (t->kind == TY_ARRAY && !t->dim)
        xl_refuse(tok, "the size of this array is not known here");

    const char *one = xl_fmt("sizeof(%s)", xl_ty_text(xl_ty_unqualified(el), "", tok));

    return t->kind == TY_ARRAY ? xl_fmt("(%s * %s)", xl_ty_count(t), one) : one;
}

static const char *local_size_text(struct type *t, int tok)
{
    struct type *el = xl_ty_element(t);
    return xl_fmt("upcx_localsize(%s, sizeof(%s), %s)", xl_ty_count(t),
                  xl_ty_text(xl_ty_unqualified(el), "", tok), xl_ty_block_text(t));
}

/* sizeof, _Alignof, upc_blocksizeof, upc_localsizeof, upc_elemsizeof */
static struct expr parse_sizeof(void)
{
    int a = xl.pos;
    enum keyword kw = xl.tokens[xl.pos++].kw;
    struct expr x;
    bool type_name = xl_is_punct(xl.pos, '(') && xl_starts_type(xl.pos + 1);
    bool was = xl.pts_computed;

    if (type_name) {
        xl.pos++;
        x = xl_value_of(xl.pos, xl_parse_type_name());
        xl_expect(')');
        if (xl_is_punct(xl.pos, '{'))
            xl_refuse(xl.pos, "the size of a compound literal is not translated");
    } else {
        x = xl_parse_unary();
    }

    xl.pts_computed = was; /* nothing is evaluated */

    struct expr r = xl_value_of(a, xl_ty_basic(TY_ULONG));
    bool shared = xl_ty_shared(x.type);

    if (kw != K_SIZEOF && kw != K_ALIGNOF && !shared)
        xl_refuse(a, "%.*s needs a shared type or object, this is '%s'", xl.tokens[a].len,
                  xl.tokens[a].text, xl_ty_words(x.type));

    long long n = -1; /* if it is known here */

    if (kw == K_SIZEOF)
        n = xl_ty_size(x.type);
    else if (kw == K_ELEMSIZEOF)
        n = xl_ty_size(xl_ty_element(x.type));
    else if (kw == K_BLOCKSIZEOF && !xl_ty_element(x.type)->block.text)
        n = xl_ty_element(x.type)->block.value;

    if (n >= 0) {
        r.is_const = true;
        r.value = n;
    } else if (kw == K_BLOCKSIZEOF || (shared && !xl_ty_varies(x.type))) {
        r.threads = true;
    }

    if (x.bits && kw == K_SIZEOF)
        xl_refuse(a, "a bit-field has no size");

    switch (kw) {
    case K_BLOCKSIZEOF:
        xl_edit(a, xl.pos, xl_fmt("((unsigned long)(%s))", xl_ty_block_text(x.type)));
        break;
    case K_LOCALSIZEOF:
        xl_edit(a, xl.pos, local_size_text(x.type, a));
        break;
    case K_ELEMSIZEOF:
        xl_edit(a, xl.pos, xl_size_text(xl_ty_element(x.type), a));
        break;
    case K_ALIGNOF:
        if (shared)
            xl_edit(a, xl.pos,
                    xl_fmt("_Alignof(%s)",
                           xl_ty_text(xl_ty_unqualified(xl_ty_element(x.type)), "", a)));
        break;
    default:
        if (shared)
            xl_edit(a, xl.pos, xl_size_text(x.type, a));
    }
    return r;
}

static struct expr address_of(int a)
{
    struct expr x = xl_parse_cast();
    struct expr r = xl_value_of(a, NULL);

    if (x.bits)
        xl_refuse(a, "a bit-field has no address");

    if (x.place) {
        r.type = xl_ty_pointer(x.type);

        const char *text = xl_place_text(&x); /* of a member: its place */

        xl_edit(a, xl.pos, text);
        xl.pts_computed = true;
        return r;
    }

    if (!x.lvalue && x.type->kind != TY_FUNCTION && x.type->kind != TY_UNKNOWN &&
        x.type->kind != TY_RECORD)
        xl_refuse(a, "'&' needs an object");

    r.type = xl_ty_pointer(x.type);
    return r;
}

static struct expr deref(int a)
{
    struct expr x = xl_parse_cast();
    struct expr r = { .a = a, .b = xl.pos, .lvalue = true };

    if (x.place && x.type->kind == TY_ARRAY) {
        r.type = x.type->of;
        r.place = true;
        r.base = x.base;
        r.idx = x.idx;
        return r;
    }

    xl_use_value(&x);
    if (x.type->kind == TY_UNKNOWN || x.type->kind == TY_OPAQUE)
        r.type = xl_ty_basic(TY_UNKNOWN);
    else if (x.type->kind != TY_POINTER)
        xl_refuse(a, "'*' needs a pointer, this is '%s'", xl_ty_words(x.type));
    else
        r.type = x.type->of;

    if (xl_ty_pts(x.type)) {
        r.place = true;
        r.base = xl_render(x.a, x.b);
    }

    if (r.type->kind == TY_FUNCTION)
        r.lvalue = false;

    return r;
}

static struct expr sign(int a, unsigned op)
{
    struct expr x = xl_parse_cast();

    xl_use_value(&x);
    if (!xl_ty_arithmetic(x.type))
        xl_refuse(a, "'%c' needs a number, this is '%s'", (char)op, xl_ty_words(x.type));

    struct expr r = xl_value_of(a, xl_ty_promote(x.type));

    r.threads = x.threads;
    r.is_const = x.is_const;
    r.value = x.value;
    if (op == '-')
        r.value = (long long)(0 - (unsigned long long)x.value);
    else if (op == '~')
        r.value = ~x.value;

    if (r.type->kind == TY_UINT)
        r.value = (unsigned)r.value;

    return r;
}

static struct expr parse_unary_id(int a)
{
    switch (xl.tokens[xl.pos].kw) {
    case K_SIZEOF:
    case K_ALIGNOF:
    case K_BLOCKSIZEOF:
    case K_LOCALSIZEOF:
    case K_ELEMSIZEOF:
        return parse_sizeof();
    case K_EXTENSION:
        xl.pos++;
        struct expr e = xl_parse_cast();
        if (e.place)
            xl_use_value(&e);
        e.a = a;
        return e;
    default:
        break;
    }
    if (xl.tokens[xl.pos].len > 6 && (strncmp(xl.tokens[xl.pos].text, "__real", 6) == 0 ||
                                      strncmp(xl.tokens[xl.pos].text, "__imag", 6) == 0)) {
        xl.pos++;

        struct expr x = xl_parse_cast();

        xl_use_value(&x);

        struct expr r = xl_value_of(a, x.type);

        if (x.type->kind >= TY_CFLOAT && x.type->kind <= TY_CLDOUBLE)
            r.type = xl_ty_basic(TY_FLOAT + (x.type->kind - TY_CFLOAT));

        r.lvalue = x.lvalue;
        return r;
    }

    return xl_parse_postfix();
}

struct expr xl_parse_unary(void)
{
    int a = xl.pos;

    if (xl.tokens[xl.pos].kind == T_ID)
        return parse_unary_id(a);
    if (xl.tokens[xl.pos].kind != T_PUNCT)
        return xl_parse_postfix();

    unsigned op = xl.tokens[xl.pos].punct;

    switch (op) {
    case '&':
        xl.pos++;
        return address_of(a);
    case '*':
        xl.pos++;
        return deref(a);
    case '+':
    case '-':
    case '~':
        xl.pos++;
        return sign(a, op);
    case '!': {
        xl.pos++;

        struct expr x = xl_parse_cast();

        xl_use_condition(&x);

        struct expr r = xl_value_of(a, xl_ty_basic(TY_INT));

        r.is_const = x.is_const;
        r.value = !x.value;
        r.threads = x.threads;
        return r;
    }
    case P2('+', '+'):
    case P2('-', '-'): {
        xl.pos++;

        struct expr x = xl_parse_unary();

        x.a = a;
        xl_step(&x, op == P2('+', '+'), false);
        return x;
    }
    case P2('&', '&'): /* the address of a label */
        xl.pos += 2;
        return xl_value_of(a, xl_ty_pointer(xl_ty_basic(TY_VOID)));
    default:
        return xl_parse_postfix();
    }
}

/* (type) operand, and (type){ ... } */
static struct expr cast_or_literal(int a)
{
    int level_was = xl.deepest_name;

    xl.pos++;

    struct type *t = xl_parse_type_name();

    xl_expect(')');
    xl.deepest_name = level_was;

    if (xl_is_punct(xl.pos, '{')) {
        if (xl_ty_shared(t))
            xl_refuse(a, "a compound literal cannot be shared");

        int brace = xl.pos;

        xl_parse_initialiser(t);
        if (xl_ty_pts(t))
            xl_edit(a, xl.pos, xl_fmt("(upcx_pts[1]){ %s }[0]", xl_render(brace, xl.pos)));
        else if (xl_ty_involves_shared(t))
            xl_edit(a, brace, xl_fmt("(%s)", xl_ty_text(t, "", a)));

        struct expr e = xl_value_of(a, t);

        e.lvalue = true;
        return xl_parse_postfix_of(e);
    }

    struct expr x = xl_parse_cast();
    struct expr r = xl_value_of(a, xl_ty_unqualified(t));

    if (t->kind == TY_ARRAY)
        xl_refuse(a, "a cast to an array type");

    xl_convert_to(&x, t, "cast", true);
    if (xl_ty_pts(t)) {
        xl_edit(a, xl.pos, xl_render(x.a, x.b));
    } else if (t->quals & Q_SHARED) {
        xl_edit(a, xl.pos,
                xl_fmt("((%s)%s)", xl_ty_text(xl_ty_unqualified(t), "", a), xl_render(x.a, x.b)));
    }

    if (x.is_const && xl_ty_integer(t)) {
        r.is_const = true;
        r.value = x.value;
        if (t->kind == TY_INT)
            r.value = (int)x.value;
        else if (t->kind == TY_UINT)
            r.value = (unsigned)x.value;

        if (t->kind < TY_INT && t->kind != TY_UNKNOWN)
            /* small values need no thought; others are left to the compiler */
            r.is_const = r.value >= 0 && r.value <= 1;
    }

    r.threads = x.threads && xl_ty_integer(t);
    r.null = x.is_const && x.value == 0 &&
             (xl_ty_integer(t) ||
              (t->kind == TY_POINTER && t->of->kind == TY_VOID && !t->of->quals && !t->quals));
    return r;
}

struct expr xl_parse_cast(void)
{
    struct expr e;

    xl_deeper();
    if (xl_is_punct(xl.pos, '(') && xl_starts_type(xl.pos + 1))
        e = cast_or_literal(xl.pos);
    else
        e = xl_parse_unary();

    xl_shallower();
    return e;
}

/* ---- forms of the compiler's own ---- */
static const char *const forms[] = {
    "__builtin_va_arg",      "__builtin_offsetof",      "__builtin_types_compatible_p",
    "__builtin_choose_expr", "__builtin_convertvector", "__builtin_has_attribute"
};

bool xl_builtin_is_form(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i], name) == 0)
            return true;

    return false;
}

struct type *xl_builtin_result(const char *name)
{
    static const struct {
        const char *prefix;
        enum type_kind kind;
        bool pointer;
    } table[] = {
        { "__builtin_expect", TY_LONG, false },
        { "__builtin_bswap16", TY_USHORT, false },
        { "__builtin_bswap32", TY_UINT, false },
        { "__builtin_bswap64", TY_ULONG, false },
        { "__builtin_huge_valf", TY_FLOAT, false },
        { "__builtin_huge_vall", TY_LDOUBLE, false },
        { "__builtin_huge_val", TY_DOUBLE, false },
        { "__builtin_inff", TY_FLOAT, false },
        { "__builtin_infl", TY_LDOUBLE, false },
        { "__builtin_inf", TY_DOUBLE, false },
        { "__builtin_nanf", TY_FLOAT, false },
        { "__builtin_nan", TY_DOUBLE, false },
        { "__builtin_fabsf", TY_FLOAT, false },
        { "__builtin_fabs", TY_DOUBLE, false },
        { "__builtin_sqrtf", TY_FLOAT, false },
        { "__builtin_sqrt", TY_DOUBLE, false },
        { "__builtin_alloca", TY_VOID, true },
        { "__builtin_memcpy", TY_VOID, true },
        { "__builtin_memset", TY_VOID, true },
        { "__builtin_memmove", TY_VOID, true },
        { "__builtin_assume_aligned", TY_VOID, true },
        { "__builtin_strlen", TY_ULONG, false },
        { "__builtin_object_size", TY_ULONG, false },
        { "__builtin_dynamic_object_size", TY_ULONG, false },
        { "__builtin_va_start", TY_VOID, false },
        { "__builtin_va_end", TY_VOID, false },
        { "__builtin_va_copy", TY_VOID, false },
        { "__builtin_unreachable", TY_VOID, false },
        { "__builtin_trap", TY_VOID, false },
        { "__builtin_prefetch", TY_VOID, false },
        { "__builtin_return_address", TY_VOID, true },
        { "__builtin_frame_address", TY_VOID, true },
        { "__builtin_popcount", TY_INT, false },
        { "__builtin_clz", TY_INT, false },
        { "__builtin_ctz", TY_INT, false },
        { "__builtin_ffs", TY_INT, false },
        { "__builtin_parity", TY_INT, false },
        { "__builtin_constant_p", TY_INT, false },
        { "__builtin_is", TY_INT, false },
        { "__builtin_signbit", TY_INT, false },
        { "__builtin_fpclassify", TY_INT, false },
        { "__sync_bool", TY_BOOL, false },
        { "__sync_synchronize", TY_VOID, false },
        { "__builtin_", TY_UNKNOWN, false },
        { "__atomic_", TY_UNKNOWN, false },
        { "__sync_", TY_UNKNOWN, false },
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(name, table[i].prefix, strlen(table[i].prefix)) == 0)
            return table[i].pointer ? xl_ty_pointer(xl_ty_basic(table[i].kind))
                                    : xl_ty_basic(table[i].kind);

    return xl_ty_basic(TY_INT);
}

/* Is a value of type c what the association with type t is for?  Qualifiers below a pointer count,
 * which ty_same passes over. */
static bool same_generic(struct type *t, struct type *c)
{
    const unsigned counts = Q_CONST | Q_VOLATILE | Q_SHARED | Q_STRICT | Q_RELAXED;

    if (t->kind != c->kind || !xl_ty_same(t, c))
        return false;

    for (; t->kind == TY_POINTER && c->kind == TY_POINTER; t = t->of, c = c->of)
        if ((t->of->quals & counts) != (c->of->quals & counts) || t->of->kind != c->of->kind)
            return false;

    return true;
}

/* Where a type is shared the choice is made here: in C all pointers-to-shared are one type. */
static struct expr parse_generic(int a)
{
    struct expr chosen = { .type = NULL };
    struct expr other = { .type = NULL };

    xl_expect('(');

    struct expr c = xl_parse_assign();

    xl_use_value(&c);

    bool here = xl_ty_involves_shared(c.type);

    while (xl_accept(',')) {
        bool is_default = xl_accept_kw(K_DEFAULT);
        struct type *t = is_default ? NULL : xl_parse_type_name();

        here |= t && xl_ty_involves_shared(t);
        xl_expect(':');

        struct expr e = xl_parse_assign();

        xl_use_value(&e);
        if (is_default)
            other = e;
        else if (same_generic(t, c.type))
            chosen = e;
    }

    xl_expect(')');
    chosen = chosen.type ? chosen : other;
    if (here && (c.type->kind == TY_UNKNOWN || !chosen.type))
        xl_refuse(a, "no association of _Generic is known to fit '%s'", xl_ty_words(c.type));

    if (here)
        xl_edit(a, xl.pos, xl_fmt("(%s)", xl_render(chosen.a, chosen.b)));

    return xl_value_of(a, chosen.type ? chosen.type : xl_ty_basic(TY_UNKNOWN));
}

struct expr xl_parse_builtin(const char *name)
{
    int a = xl.pos++;
    struct expr r;

    if (strcmp(name, "_Generic") == 0)
        return parse_generic(a);

    if (strcmp(name, "__builtin_has_attribute") == 0) {
        xl_skip_parens();
        return xl_value_of(a, xl_ty_basic(TY_INT));
    }

    xl_expect('(');
    if (strcmp(name, "__builtin_va_arg") == 0 || strcmp(name, "__builtin_convertvector") == 0) {
        struct expr e = xl_parse_assign();

        xl_use_value(&e);
        xl_expect(',');

        struct type *t = xl_parse_type_name();

        xl_expect(')');
        return xl_value_of(a, t);
    }

    if (strcmp(name, "__builtin_choose_expr") == 0) {
        struct expr c = xl_parse_assign();

        xl_expect(',');

        struct expr x = xl_parse_assign();

        xl_use_value(&x);
        xl_expect(',');

        struct expr y = xl_parse_assign();

        xl_use_value(&y);
        xl_expect(')');
        if (!c.is_const)
            return xl_value_of(a, xl_ty_basic(TY_UNKNOWN));

        return xl_value_of(a, c.value ? x.type : y.type);
    }

    struct type *t = xl_parse_type_name();

    xl_expect(',');
    if (strcmp(name, "__builtin_offsetof") == 0) {
        if (xl.tokens[xl.pos].kind != T_ID)
            xl_refuse(xl.pos, "a member's name is expected");

        for (xl.pos++; !xl_is_punct(xl.pos, ')');) {
            if (xl_accept('.')) {
                if (xl.tokens[xl.pos++].kind != T_ID)
                    xl_refuse(xl.pos - 1, "a member's name is expected");
            } else {
                xl_expect('[');
                r = xl_parse_expr();
                xl_use_value(&r);
                xl_expect(']');
            }
        }

        r = xl_value_of(a, xl_ty_basic(TY_ULONG));
    } else {
        if (xl_ty_involves_shared(t) || xl_ty_involves_shared(xl_parse_type_name()))
            xl_refuse(a, "%s with a shared type is not translated", name);

        r = xl_value_of(a, xl_ty_basic(TY_INT));
    }

    xl_expect(')');
    r.b = xl.pos;
    return r;
}
