/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: unary operators, casts, the sizeof family and the compiler's own forms that take type
 * names.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

const char *size_text(struct type *t, int tok)
{
    struct type *el = ty_element(t);

    if (el->kind == TY_FUNCTION)
        refuse(tok, "a function has no size");

    if (t->kind == TY_ARRAY && !t->dim)
        refuse(tok, "the size of this array is not known here");

    const char *one = xl_fmt("sizeof(%s)", ty_text(ty_unqualified(el), "", tok));

    return t->kind == TY_ARRAY ? xl_fmt("(%s * %s)", ty_count(t), one) : one;
}

static const char *local_size_text(struct type *t, int tok)
{
    struct type *el = ty_element(t);
    return xl_fmt("upcx_localsize(%s, sizeof(%s), %s)", ty_count(t),
                  ty_text(ty_unqualified(el), "", tok), ty_block_text(t));
}

/* sizeof, _Alignof, upc_blocksizeof, upc_localsizeof, upc_elemsizeof */
static struct expr parse_sizeof(void)
{
    int a = xl.pos;
    enum keyword kw = xl.tokens[xl.pos++].kw;
    struct expr x;
    bool type_name = is_punct(xl.pos, '(') && starts_type(xl.pos + 1);
    bool was = xl.pts_computed;

    if (type_name) {
        xl.pos++;
        x = value_of(xl.pos, parse_type_name());
        expect(')');
        if (is_punct(xl.pos, '{'))
            refuse(xl.pos, "the size of a compound literal is not translated");
    } else {
        x = parse_unary();
    }

    xl.pts_computed = was; /* nothing is evaluated */

    struct expr r = value_of(a, ty_basic(TY_ULONG));
    bool shared = ty_shared(x.type);

    if (kw != K_SIZEOF && kw != K_ALIGNOF && !shared)
        refuse(a, "%.*s needs a shared type or object, this is '%s'", xl.tokens[a].len,
               xl.tokens[a].text, ty_words(x.type));

    long long n = -1; /* if it is known here */

    if (kw == K_SIZEOF)
        n = ty_size(x.type);
    else if (kw == K_ELEMSIZEOF)
        n = ty_size(ty_element(x.type));
    else if (kw == K_BLOCKSIZEOF && !ty_element(x.type)->block.text)
        n = ty_element(x.type)->block.value;

    if (n >= 0) {
        r.is_const = true;
        r.value = n;
    } else if (kw == K_BLOCKSIZEOF || (shared && !ty_varies(x.type))) {
        r.threads = true;
    }

    if (x.bits && kw == K_SIZEOF)
        refuse(a, "a bit-field has no size");

    switch (kw) {
    case K_BLOCKSIZEOF:
        edit(a, xl.pos, xl_fmt("((unsigned long)(%s))", ty_block_text(x.type)));
        break;
    case K_LOCALSIZEOF:
        edit(a, xl.pos, local_size_text(x.type, a));
        break;
    case K_ELEMSIZEOF:
        edit(a, xl.pos, size_text(ty_element(x.type), a));
        break;
    case K_ALIGNOF:
        if (shared)
            edit(a, xl.pos,
                 xl_fmt("_Alignof(%s)", ty_text(ty_unqualified(ty_element(x.type)), "", a)));
        break;
    default:
        if (shared)
            edit(a, xl.pos, size_text(x.type, a));
    }
    return r;
}

static struct expr address_of(int a)
{
    struct expr x = parse_cast();
    struct expr r = value_of(a, NULL);

    if (x.bits)
        refuse(a, "a bit-field has no address");

    if (x.place) {
        r.type = ty_pointer(x.type);

        const char *text = place_text(&x); /* of a member: where it lies */

        edit(a, xl.pos, text);
        xl.pts_computed = true;
        return r;
    }

    if (!x.lvalue && x.type->kind != TY_FUNCTION && x.type->kind != TY_UNKNOWN &&
        x.type->kind != TY_RECORD)
        refuse(a, "'&' needs an object");

    r.type = ty_pointer(x.type);
    return r;
}

static struct expr deref(int a)
{
    struct expr x = parse_cast();
    struct expr r = { .a = a, .b = xl.pos, .lvalue = true };

    if (x.place && x.type->kind == TY_ARRAY) {
        r.type = x.type->of;
        r.place = true;
        r.base = x.base;
        r.idx = x.idx;
        return r;
    }

    use_value(&x);
    if (x.type->kind == TY_UNKNOWN || x.type->kind == TY_OPAQUE)
        r.type = ty_basic(TY_UNKNOWN);
    else if (x.type->kind != TY_POINTER)
        refuse(a, "'*' needs a pointer, this is '%s'", ty_words(x.type));
    else
        r.type = x.type->of;

    if (ty_pts(x.type)) {
        r.place = true;
        r.base = render(x.a, x.b);
    }

    if (r.type->kind == TY_FUNCTION)
        r.lvalue = false;

    return r;
}

static struct expr sign(int a, unsigned op)
{
    struct expr x = parse_cast();

    use_value(&x);
    if (!ty_arithmetic(x.type))
        refuse(a, "'%c' needs a number, this is '%s'", (char)op, ty_words(x.type));

    struct expr r = value_of(a, ty_promote(x.type));

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
        struct expr e = parse_cast();
        if (e.place)
            use_value(&e);
        e.a = a;
        return e;
    default:
        break;
    }
    if (xl.tokens[xl.pos].len > 6 && (strncmp(xl.tokens[xl.pos].text, "__real", 6) == 0 ||
                                      strncmp(xl.tokens[xl.pos].text, "__imag", 6) == 0)) {
        xl.pos++;

        struct expr x = parse_cast();

        use_value(&x);

        struct expr r = value_of(a, x.type);

        if (x.type->kind >= TY_CFLOAT && x.type->kind <= TY_CLDOUBLE)
            r.type = ty_basic(TY_FLOAT + (x.type->kind - TY_CFLOAT));

        r.lvalue = x.lvalue;
        return r;
    }

    return parse_postfix();
}

struct expr parse_unary(void)
{
    int a = xl.pos;

    if (xl.tokens[xl.pos].kind == T_ID)
        return parse_unary_id(a);
    if (xl.tokens[xl.pos].kind != T_PUNCT)
        return parse_postfix();

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

        struct expr x = parse_cast();

        use_condition(&x);

        struct expr r = value_of(a, ty_basic(TY_INT));

        r.is_const = x.is_const;
        r.value = !x.value;
        r.threads = x.threads;
        return r;
    }
    case P2('+', '+'):
    case P2('-', '-'): {
        xl.pos++;

        struct expr x = parse_unary();

        x.a = a;
        step(&x, op == P2('+', '+'), false);
        return x;
    }
    case P2('&', '&'): /* the address of a label */
        xl.pos += 2;
        return value_of(a, ty_pointer(ty_basic(TY_VOID)));
    default:
        return parse_postfix();
    }
}

/* (type) operand, and (type){ ... } */
static struct expr cast_or_literal(int a)
{
    int level_was = xl.deepest_name;

    xl.pos++;

    struct type *t = parse_type_name();

    expect(')');
    xl.deepest_name = level_was;

    if (is_punct(xl.pos, '{')) {
        if (ty_shared(t))
            refuse(a, "a compound literal cannot be shared");

        int brace = xl.pos;

        parse_initialiser(t);
        if (ty_pts(t))
            edit(a, xl.pos, xl_fmt("(upcx_pts[1]){ %s }[0]", render(brace, xl.pos)));
        else if (ty_involves_shared(t))
            edit(a, brace, xl_fmt("(%s)", ty_text(t, "", a)));

        struct expr e = value_of(a, t);

        e.lvalue = true;
        return parse_postfix_of(e);
    }

    struct expr x = parse_cast();
    struct expr r = value_of(a, ty_unqualified(t));

    if (t->kind == TY_ARRAY)
        refuse(a, "a cast to an array type");

    convert_to(&x, t, "cast", true);
    if (ty_pts(t)) {
        edit(a, xl.pos, render(x.a, x.b));
    } else if (t->quals & Q_SHARED) {
        edit(a, xl.pos, xl_fmt("((%s)%s)", ty_text(ty_unqualified(t), "", a), render(x.a, x.b)));
    }

    if (x.is_const && ty_integer(t)) {
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

    r.threads = x.threads && ty_integer(t);
    r.null = x.is_const && x.value == 0 &&
             (ty_integer(t) ||
              (t->kind == TY_POINTER && t->of->kind == TY_VOID && !t->of->quals && !t->quals));
    return r;
}

struct expr parse_cast(void)
{
    struct expr e;

    deeper();
    if (is_punct(xl.pos, '(') && starts_type(xl.pos + 1))
        e = cast_or_literal(xl.pos);
    else
        e = parse_unary();

    shallower();
    return e;
}

/* ---- forms of the compiler's own ---- */
static const char *const forms[] = {
    "__builtin_va_arg",      "__builtin_offsetof",      "__builtin_types_compatible_p",
    "__builtin_choose_expr", "__builtin_convertvector", "__builtin_has_attribute"
};

bool builtin_is_form(const char *name)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i], name) == 0)
            return true;

    return false;
}

struct type *builtin_result(const char *name)
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
            return table[i].pointer ? ty_pointer(ty_basic(table[i].kind)) : ty_basic(table[i].kind);

    return ty_basic(TY_INT);
}

/* Is a value of type c what the association with type t is for?  Qualifiers below a pointer count,
 * which ty_same passes over. */
static bool same_generic(struct type *t, struct type *c)
{
    const unsigned counts = Q_CONST | Q_VOLATILE | Q_SHARED | Q_STRICT | Q_RELAXED;

    if (t->kind != c->kind || !ty_same(t, c))
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

    expect('(');

    struct expr c = parse_assign();

    use_value(&c);

    bool here = ty_involves_shared(c.type);

    while (accept(',')) {
        bool is_default = accept_kw(K_DEFAULT);
        struct type *t = is_default ? NULL : parse_type_name();

        here |= t && ty_involves_shared(t);
        expect(':');

        struct expr e = parse_assign();

        use_value(&e);
        if (is_default)
            other = e;
        else if (same_generic(t, c.type))
            chosen = e;
    }

    expect(')');
    chosen = chosen.type ? chosen : other;
    if (here && (c.type->kind == TY_UNKNOWN || !chosen.type))
        refuse(a, "no association of _Generic is known to fit '%s'", ty_words(c.type));

    if (here)
        edit(a, xl.pos, xl_fmt("(%s)", render(chosen.a, chosen.b)));

    return value_of(a, chosen.type ? chosen.type : ty_basic(TY_UNKNOWN));
}

struct expr parse_builtin(const char *name)
{
    int a = xl.pos++;
    struct expr r;

    if (strcmp(name, "_Generic") == 0)
        return parse_generic(a);

    if (strcmp(name, "__builtin_has_attribute") == 0) {
        skip_parens();
        return value_of(a, ty_basic(TY_INT));
    }

    expect('(');
    if (strcmp(name, "__builtin_va_arg") == 0 || strcmp(name, "__builtin_convertvector") == 0) {
        struct expr e = parse_assign();

        use_value(&e);
        expect(',');

        struct type *t = parse_type_name();

        expect(')');
        return value_of(a, t);
    }

    if (strcmp(name, "__builtin_choose_expr") == 0) {
        struct expr c = parse_assign();

        expect(',');

        struct expr x = parse_assign();

        use_value(&x);
        expect(',');

        struct expr y = parse_assign();

        use_value(&y);
        expect(')');
        if (!c.is_const)
            return value_of(a, ty_basic(TY_UNKNOWN));

        return value_of(a, c.value ? x.type : y.type);
    }

    struct type *t = parse_type_name();

    expect(',');
    if (strcmp(name, "__builtin_offsetof") == 0) {
        if (xl.tokens[xl.pos].kind != T_ID)
            refuse(xl.pos, "a member's name is expected");

        for (xl.pos++; !is_punct(xl.pos, ')');) {
            if (accept('.')) {
                if (xl.tokens[xl.pos++].kind != T_ID)
                    refuse(xl.pos - 1, "a member's name is expected");
            } else {
                expect('[');
                r = parse_expr();
                use_value(&r);
                expect(']');
            }
        }

        r = value_of(a, ty_basic(TY_ULONG));
    } else {
        if (ty_involves_shared(t) || ty_involves_shared(parse_type_name()))
            refuse(a, "%s with a shared type is not translated", name);

        r = value_of(a, ty_basic(TY_INT));
    }

    expect(')');
    r.b = xl.pos;
    return r;
}
