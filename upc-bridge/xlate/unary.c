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

/* A type name in parentheses, or an expression, which is not evaluated. */
static struct expr parse_sizeof_operand(void)
{
    const bool was = xl.pts_computed;
    struct expr x;

    if (xl_is_punct(xl.pos, '(') && xl_starts_type(xl.pos + 1)) {
        xl.pos++;
        x = xl_value_of(xl.pos, xl_parse_type_name());
        xl_expect(')');

        if (xl_is_punct(xl.pos, '{'))
            xl_refuse(xl.pos, "the size of a compound literal is not translated");
    } else {
        x = xl_parse_unary();
    }

    xl.pts_computed = was;
    return x;
}

/* The value of sizeof and its kind if it is known here, else a negative number. */
static long long known_size(enum keyword kw, struct type *t)
{
    switch (kw) {
    case K_SIZEOF:
        return xl_ty_size(t);
    case K_ELEMSIZEOF:
        return xl_ty_size(xl_ty_element(t));
    case K_BLOCKSIZEOF:
        return xl_ty_element(t)->block.text ? -1 : xl_ty_element(t)->block.value;
    default:
        return -1;
    }
}

/* What is written for sizeof and its kind, at token tok.  NULL: it is C already. */
static const char *sizeof_text(enum keyword kw, struct type *t, int tok)
{
    switch (kw) {
    case K_BLOCKSIZEOF:
        return xl_fmt("((unsigned long)(%s))", xl_ty_block_text(t));
    case K_LOCALSIZEOF:
        return local_size_text(t, tok);
    case K_ELEMSIZEOF:
        return xl_size_text(xl_ty_element(t), tok);
    default:
        break;
    }

    if (!xl_ty_shared(t))
        return NULL;
    if (kw == K_ALIGNOF)
        return xl_fmt("_Alignof(%s)", xl_ty_text(xl_ty_unqualified(xl_ty_element(t)), "", tok));

    return xl_size_text(t, tok);
}

/* sizeof, _Alignof, upc_blocksizeof, upc_localsizeof, upc_elemsizeof */
static struct expr parse_sizeof(void)
{
    int a = xl.pos;
    enum keyword kw = xl.tokens[xl.pos++].kw;
    struct expr x = parse_sizeof_operand();
    struct expr r = xl_value_of(a, xl_ty_basic(TY_ULONG));
    bool shared = xl_ty_shared(x.type);

    if (kw != K_SIZEOF && kw != K_ALIGNOF && !shared)
        xl_refuse(a, "%.*s needs a shared type or object, this is '%s'", xl.tokens[a].len,
                  xl.tokens[a].text, xl_ty_words(x.type));

    if (x.bits && kw == K_SIZEOF)
        xl_refuse(a, "a bit-field has no size");

    long long n = known_size(kw, x.type);

    if (n >= 0) {
        r.is_const = true;
        r.value = n;
    } else if (kw == K_BLOCKSIZEOF || (shared && !xl_ty_varies(x.type))) {
        r.threads = true;
    }

    const char *text = sizeof_text(kw, x.type, a);

    if (text)
        xl_edit(a, xl.pos, text);

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

/* The { ... } of (type){ ... }, whose first token is a. */
static struct expr parse_literal(int a, struct type *t)
{
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

/* Stores in r the value of constant x as one of integer type t, if it is known here. */
static void convert_constant(struct expr *r, const struct expr *x, const struct type *t)
{
    r->is_const = true;
    r->value = x->value;

    if (t->kind == TY_INT)
        r->value = (int)x->value;
    else if (t->kind == TY_UINT)
        r->value = (unsigned)x->value;
    else if (t->kind < TY_INT && t->kind != TY_UNKNOWN)
        r->is_const = x->value >= 0 &&
                      x->value <= 1; /* what exceeds the type is left to the compiler */
}

/* The operand of (type), whose first token is a. */
static struct expr parse_cast_operand(int a, struct type *t)
{
    struct expr x = xl_parse_cast();
    struct expr r = xl_value_of(a, xl_ty_unqualified(t));

    if (t->kind == TY_ARRAY)
        xl_refuse(a, "a cast to an array type");

    xl_convert_to(&x, t, "cast", true);
    if (xl_ty_pts(t))
        xl_edit(a, xl.pos, xl_render(x.a, x.b));
    else if (t->quals & Q_SHARED)
        xl_edit(a, xl.pos,
                xl_fmt("((%s)%s)", xl_ty_text(xl_ty_unqualified(t), "", a), xl_render(x.a, x.b)));

    bool is_integer = xl_ty_integer(t);
    bool is_void_pointer = t->kind == TY_POINTER && t->of->kind == TY_VOID && !t->of->quals &&
                           !t->quals;

    if (x.is_const && is_integer)
        convert_constant(&r, &x, t);

    r.threads = x.threads && is_integer;
    r.null = x.is_const && x.value == 0 && (is_integer || is_void_pointer);
    return r;
}

/* (type) operand, and (type){ ... } */
static struct expr cast_or_literal(int a)
{
    int level_was = xl.deepest_name;

    xl.pos++;

    struct type *t = xl_parse_type_name();

    xl_expect(')');
    xl.deepest_name = level_was;

    return xl_is_punct(xl.pos, '{') ? parse_literal(a, t) : parse_cast_operand(a, t);
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
/* The types of the compiler's own functions.  The first row whose prefix fits counts; the last ones are for
 * those that depend on their arguments. */
static const struct {
    const char *prefix;
    enum type_kind kind;
    bool pointer;
} results[] = {
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

struct type *xl_builtin_result(const char *name)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (strncmp(name, results[i].prefix, strlen(results[i].prefix)) == 0)
            return results[i].pointer ? xl_ty_pointer(xl_ty_basic(results[i].kind))
                                      : xl_ty_basic(results[i].kind);

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

static struct expr parse_has_attribute(int a)
{
    xl_skip_parens();
    return xl_value_of(a, xl_ty_basic(TY_INT));
}

static struct expr parse_used(void)
{
    struct expr e = xl_parse_assign();

    xl_use_value(&e);
    return e;
}

/* (value, type): __builtin_va_arg, __builtin_convertvector */
static struct expr parse_typed(int a)
{
    xl_expect('(');
    parse_used();
    xl_expect(',');

    struct type *t = xl_parse_type_name();

    xl_expect(')');
    return xl_value_of(a, t);
}

static struct expr parse_choose_expr(int a)
{
    xl_expect('(');

    struct expr c = xl_parse_assign();

    xl_expect(',');

    struct expr x = parse_used();

    xl_expect(',');

    struct expr y = parse_used();

    xl_expect(')');
    if (!c.is_const)
        return xl_value_of(a, xl_ty_basic(TY_UNKNOWN));

    return xl_value_of(a, c.value ? x.type : y.type);
}

static void expect_member(void)
{
    if (xl.tokens[xl.pos++].kind != T_ID)
        xl_refuse(xl.pos - 1, "a member's name is expected");
}

/* (type, member.member[index]...) */
static struct expr parse_offsetof(int a)
{
    xl_expect('(');
    xl_parse_type_name();
    xl_expect(',');
    expect_member();

    while (!xl_accept(')')) {
        if (xl_accept('.')) {
            expect_member();
        } else {
            xl_expect('[');

            struct expr index = xl_parse_expr();

            xl_use_value(&index);
            xl_expect(']');
        }
    }

    return xl_value_of(a, xl_ty_basic(TY_ULONG));
}

/* (type, type) */
static struct expr parse_types_compatible(int a)
{
    xl_expect('(');

    struct type *t = xl_parse_type_name();

    xl_expect(',');
    if (xl_ty_involves_shared(t) || xl_ty_involves_shared(xl_parse_type_name()))
        xl_refuse(a, "%s with a shared type is not translated", xl.tokens[a].id);

    xl_expect(')');
    return xl_value_of(a, xl_ty_basic(TY_INT));
}

/* What looks like a call of one of these has arguments of its own grammar.  a: the token of the name. */
static const struct form {
    const char *name;
    struct expr (*parse)(int a);
} forms[] = {
    { "_Generic", parse_generic },
    { "__builtin_va_arg", parse_typed },
    { "__builtin_convertvector", parse_typed },
    { "__builtin_offsetof", parse_offsetof },
    { "__builtin_types_compatible_p", parse_types_compatible },
    { "__builtin_choose_expr", parse_choose_expr },
    { "__builtin_has_attribute", parse_has_attribute },
};

static const struct form *find_form(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];

    return NULL;
}

bool xl_builtin_is_form(const char *name)
{
    return find_form(name) != NULL;
}

struct expr xl_parse_builtin(const char *name)
{
    return find_form(name)->parse(xl.pos++);
}
