/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: types, and how C writes them.  A type is never changed once it has been used; qualified
 * versions are copies.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

struct type *xl_ty_basic(enum type_kind kind)
{
    return &xl.basic[kind];
}

void xl_ty_start(void)
{
    xl.basic = xl_alloc(TY_OPAQUE * sizeof *xl.basic);
    for (int kind = 0; kind < TY_OPAQUE; kind++)
        xl.basic[kind] = (struct type){ .kind = (enum type_kind)kind };
}

static const struct {
    const char *name;
    long long size;
} basic_facts[TY_OPAQUE] = {
    [TY_VOID] = { "void", -1 },
    [TY_BOOL] = { "_Bool", sizeof(_Bool) },
    [TY_CHAR] = { "char", 1 },
    [TY_SCHAR] = { "signed char", 1 },
    [TY_UCHAR] = { "unsigned char", 1 },
    [TY_SHORT] = { "short", sizeof(short) },
    [TY_USHORT] = { "unsigned short", sizeof(short) },
    [TY_INT] = { "int", sizeof(int) },
    [TY_UINT] = { "unsigned int", sizeof(int) },
    [TY_LONG] = { "long", sizeof(long) },
    [TY_ULONG] = { "unsigned long", sizeof(long) },
    [TY_LLONG] = { "long long", sizeof(long long) },
    [TY_ULLONG] = { "unsigned long long", sizeof(long long) },
    [TY_INT128] = { "__int128", 16 },
    [TY_UINT128] = { "unsigned __int128", 16 },
    [TY_FLOAT] = { "float", sizeof(float) },
    [TY_DOUBLE] = { "double", sizeof(double) },
    [TY_LDOUBLE] = { "long double", sizeof(long double) },
    [TY_FLOATN] = { NULL, -1 },
    [TY_CFLOAT] = { "_Complex float", 2 * sizeof(float) },
    [TY_CDOUBLE] = { "_Complex double", 2 * sizeof(double) },
    [TY_CLDOUBLE] = { "_Complex long double", 2 * sizeof(long double) },
    [TY_ENUM] = { NULL, -1 },
    [TY_RECORD] = { NULL, -1 },
};

struct type *xl_ty_copy(const struct type *t)
{
    struct type *n = xl_alloc(sizeof *n);

    *n = *t;
    return n;
}

struct type *xl_ty_pointer(struct type *of)
{
    struct type *n = xl_alloc(sizeof *n);

    n->kind = TY_POINTER;
    n->of = of;
    return n;
}

struct type *xl_ty_qualified(struct type *t, unsigned quals, const struct block *b)
{
    if (quals == 0)
        return t;

    struct type *n = xl_ty_copy(t);

    if (t->kind == TY_ARRAY) { /* the qualifiers of an array are its elements' */
        n->of = xl_ty_qualified(t->of, quals, b);
        return n;
    }

    n->quals |= quals;
    if ((quals & Q_SHARED) && b)
        n->block = *b;

    return n;
}

struct type *xl_ty_unqualified(struct type *t)
{
    if (t->kind == TY_ARRAY) {
        struct type *of = xl_ty_unqualified(t->of);

        if (of == t->of)
            return t;

        struct type *n = xl_ty_copy(t);

        n->of = of;
        return n;
    }

    if (t->quals == 0)
        return t;

    struct type *n = xl_ty_copy(t);

    n->quals = 0;
    memset(&n->block, 0, sizeof n->block);
    return n;
}

struct type *xl_ty_element(struct type *t)
{
    while (t->kind == TY_ARRAY)
        t = t->of;

    return t;
}

bool xl_ty_shared(struct type *t)
{
    return (xl_ty_element(t)->quals & Q_SHARED) != 0;
}

bool xl_ty_pts(struct type *t)
{
    return t->kind == TY_POINTER && xl_ty_shared(t->of);
}

bool xl_ty_involves_shared(struct type *t)
{
    for (; t; t = t->of) {
        if (t->quals & Q_SHARED)
            return true;

        if (t->kind == TY_FUNCTION)
            for (struct param *p = t->params; p; p = p->next)
                if (xl_ty_involves_shared(p->type))
                    return true;

        if (t->kind != TY_POINTER && t->kind != TY_ARRAY && t->kind != TY_FUNCTION)
            return false;
    }

    return false;
}

bool xl_ty_integer(struct type *t)
{
    return (t->kind >= TY_BOOL && t->kind <= TY_UINT128) || t->kind == TY_ENUM ||
           t->kind == TY_OPAQUE;
}

bool xl_ty_arithmetic(struct type *t)
{
    return (t->kind >= TY_BOOL && t->kind <= TY_ENUM) || t->kind == TY_OPAQUE ||
           t->kind == TY_UNKNOWN;
}

bool xl_ty_scalar(struct type *t)
{
    return xl_ty_arithmetic(t) || t->kind == TY_POINTER;
}

bool xl_ty_varies(struct type *t)
{
    for (; t; t = t->of) {
        if (t->kind == TY_ARRAY && t->dim_varies)
            return true;
        if (t->kind != TY_POINTER && t->kind != TY_ARRAY && t->kind != TY_FUNCTION)
            return false;
    }

    return false;
}

bool xl_ty_same_block(struct type *a, struct type *b)
{
    a = xl_ty_element(a);
    b = xl_ty_element(b);
    if (a->block.text || b->block.text)
        return a->block.text && b->block.text && strcmp(a->block.text, b->block.text) == 0;

    return a->block.value == b->block.value;
}

static bool same_kind(struct type *a, struct type *b)
{
    if (a->kind == b->kind)
        return true;

    return (a->kind == TY_ENUM && (b->kind == TY_INT || b->kind == TY_UINT)) ||
           (b->kind == TY_ENUM && (a->kind == TY_INT || a->kind == TY_UINT));
}

static bool same_pointer(struct type *a, struct type *b)
{
    bool shared = xl_ty_shared(a->of);

    return shared == xl_ty_shared(b->of) && (!shared || xl_ty_same_block(a->of, b->of)) &&
           xl_ty_same(a->of, b->of);
}

static bool same_array(struct type *a, struct type *b)
{
    bool known = a->dim_value >= 0 && b->dim_value >= 0;

    return (!known || a->dim_value == b->dim_value) && xl_ty_shared(a) == xl_ty_shared(b) &&
           xl_ty_same(a->of, b->of);
}

static bool same_function(struct type *a, struct type *b)
{
    struct param *p = a->params;
    struct param *q = b->params;

    if (!xl_ty_same(a->of, b->of))
        return false;
    if (a->no_proto || b->no_proto)
        return true;

    for (; p && q; p = p->next, q = q->next)
        if (!xl_ty_same(p->type, q->type))
            return false;

    return p == NULL && q == NULL && a->variadic == b->variadic;
}

bool xl_ty_same(struct type *a, struct type *b)
{
    if (a == b || a->kind == TY_UNKNOWN || b->kind == TY_UNKNOWN)
        return true;
    if (!same_kind(a, b))
        return false;

    switch (a->kind) {
    case TY_RECORD:
        return a->rec == b->rec;
    case TY_OPAQUE:
    case TY_FLOATN:
        return strcmp(a->name, b->name) == 0;
    case TY_POINTER:
        return same_pointer(a, b);
    case TY_ARRAY:
        return same_array(a, b);
    case TY_FUNCTION:
        return same_function(a, b);
    default:
        return true;
    }
}

const char *xl_ty_block_text(struct type *t)
{
    t = xl_ty_element(t);
    return t->block.text ? t->block.text : xl_fmt("%lld", t->block.value);
}

const char *xl_ty_count(struct type *t)
{
    if (t->kind != TY_ARRAY)
        return "1";
    if (t->of->kind != TY_ARRAY)
        return xl_fmt("(unsigned long)(%s)", t->dim ? t->dim : "0");

    return xl_fmt("(unsigned long)(%s) * %s", t->dim ? t->dim : "0", xl_ty_count(t->of));
}

long long xl_ty_size(struct type *t)
{
    if (t->kind == TY_ARRAY) {
        long long n = xl_ty_size(t->of);
        return n < 0 || t->dim_value < 0 || (n > 0 && t->dim_value > (1LL << 50) / n)
                   ? -1
                   : n * t->dim_value;
    }

    if (t->kind == TY_POINTER)
        return xl_ty_pts(t) ? -1 : (long long)sizeof(void *);

    return t->kind < TY_OPAQUE && basic_facts[t->kind].name ? basic_facts[t->kind].size : -1;
}

/* All scalars in it, which must be whole and of one size for true; *size_p is that size, or 0 before
 * the first one. */
static bool one_size(struct type *t, long long *size_p)
{
    t = xl_ty_element(t);
    if (t->kind == TY_RECORD) {
        if (t->attributed || t->rec->is_union || t->rec->attributed || !t->rec->complete)
            return false;

        for (const struct member *m = t->rec->members; m; m = m->next)
            if (m->bits || !one_size(m->type, size_p))
                return false;

        return true;
    }

    /* The bytes of a long double are more than its value. */
    if (t->kind == TY_LDOUBLE || t->kind == TY_CLDOUBLE)
        return false;

    long long size = xl_ty_size(t);

    if (t->kind == TY_CFLOAT || t->kind == TY_CDOUBLE)
        size /= 2;

    if (size <= 0 || t->attributed || (*size_p && *size_p != size))
        return false;

    *size_p = size;
    return true;
}

bool xl_ty_padded(struct type *t)
{
    long long size = 0;

    return t->kind == TY_RECORD && !one_size(t, &size);
}

/* ---- arithmetic ---- */
struct type *xl_ty_promote(struct type *t)
{
    if (t->kind == TY_BOOL || (t->kind >= TY_CHAR && t->kind <= TY_USHORT))
        return xl_ty_basic(TY_INT);
    if (t->kind == TY_ENUM)
        return xl_ty_basic(TY_UINT);

    return xl_ty_unqualified(t);
}

static bool is_complex(struct type *t)
{
    return t->kind >= TY_CFLOAT && t->kind <= TY_CLDOUBLE;
}

/* The complex type of t's precision; that of float for integers. */
static enum type_kind complex_kind(struct type *t)
{
    if (is_complex(t))
        return t->kind;

    switch (t->kind) {
    case TY_LDOUBLE:
        return TY_CLDOUBLE;
    case TY_DOUBLE:
        return TY_CDOUBLE;
    default:
        return TY_CFLOAT;
    }
}

/* Whether the signed type of a, of the higher rank, is no larger than the unsigned type of b. */
static bool same_size_unsigned(struct type *a, struct type *b)
{
    return (a->kind == TY_LONG && b->kind == TY_UINT && sizeof(long) == sizeof(int)) ||
           (a->kind == TY_LLONG && b->kind == TY_ULONG && sizeof(long) == sizeof(long long));
}

struct type *xl_ty_arith(struct type *a, struct type *b)
{
    a = xl_ty_promote(a);
    b = xl_ty_promote(b);
    if (a->kind == TY_UNKNOWN || b->kind == TY_UNKNOWN)
        return xl_ty_basic(TY_UNKNOWN);
    if (a->kind == TY_OPAQUE)
        return a;
    if (b->kind == TY_OPAQUE)
        return b;

    if (is_complex(a) || is_complex(b)) {
        enum type_kind ca = complex_kind(a);
        enum type_kind cb = complex_kind(b);

        return xl_ty_basic(ca > cb ? ca : cb);
    }

    if (a->kind == TY_FLOATN)
        return a;
    if (b->kind == TY_FLOATN)
        return b;

    /* The kinds are in the order of their ranks, each unsigned one after its signed one. */
    struct type *higher = a->kind > b->kind ? a : b;
    struct type *lower = a->kind > b->kind ? b : a;

    return same_size_unsigned(higher, lower) ? xl_ty_basic(higher->kind + 1) : higher;
}

struct type *xl_ty_decay(struct type *t)
{
    if (t->kind == TY_ARRAY)
        return xl_ty_pointer(t->of);
    if (t->kind == TY_FUNCTION)
        return xl_ty_pointer(t);

    return xl_ty_shared(t) || t->quals ? xl_ty_unqualified(t) : t;
}

/* ---- text ---- */
static const char *quals_text(unsigned q)
{
    return xl_fmt("%s%s%s%s", q & Q_CONST ? "const " : "", q & Q_VOLATILE ? "volatile " : "",
                  q & Q_RESTRICT ? "__restrict " : "", q & Q_ATOMIC ? "_Atomic " : "");
}

/* The keyword in front of the tag of an enumeration, structure or union. */
static const char *tag_keyword(const struct record *rec)
{
    if (rec->is_enum)
        return "enum";

    return rec->is_union ? "union" : "struct";
}

static const char *base_text(struct type *t, int tok)
{
    const char *q = quals_text(t->quals & ~(unsigned)Q_RESTRICT);

    switch (t->kind) {
    case TY_UNKNOWN:
        xl_refuse(tok,
                  "the type of an expression here cannot be found out; assign it to a variable "
                  "of a declared type first");
    case TY_ENUM:
    case TY_RECORD:
        if (xl_tag_find(t->rec->tag) != t->rec)
            xl_refuse(tok, "%s %s is needed here but its tag is hidden or out of scope",
                      tag_keyword(t->rec), t->rec->tag);
        return xl_fmt("%s%s %s", q, tag_keyword(t->rec), t->rec->tag);
    case TY_FLOATN:
    case TY_OPAQUE:
        return xl_fmt("%s%s", q, t->name);
    default:
        return xl_fmt("%s%s", q, basic_facts[t->kind].name);
    }
}

static const char *params_text(struct type *t, int tok)
{
    struct buf b = { 0 };

    xl_buf_add(&b, "(", 1);
    if (!t->params && !t->no_proto)
        xl_buf_fmt(&b, "void");

    for (struct param *p = t->params; p; p = p->next)
        xl_buf_fmt(&b, "%s%s", xl_ty_text(p->type, p->name ? p->name : "", tok),
                   p->next || t->variadic ? ", " : "");

    if (t->variadic)
        xl_buf_fmt(&b, "...");

    xl_buf_add(&b, ")", 1);
    return b.s;
}

const char *xl_ty_text(struct type *t, const char *name, int tok)
{
    const char *inner = name;

    for (;;) {
        switch (t->kind) {
        case TY_POINTER:
            if (xl_ty_shared(t->of))
                return xl_fmt("%supcx_pts %s", quals_text(t->quals & ~(unsigned)Q_RESTRICT), inner);
            inner = xl_fmt("*%s%s", quals_text(t->quals), inner);
            if (t->of->kind == TY_ARRAY || t->of->kind == TY_FUNCTION)
                inner = xl_fmt("(%s)", inner);
            break;
        case TY_ARRAY:
            inner = xl_fmt("%s[%s]", inner, t->dim ? t->dim : "");
            break;
        case TY_FUNCTION:
            inner = xl_fmt("%s%s", inner, params_text(t, tok));
            break;
        default:
            return xl_fmt("%s %s", base_text(t, tok), inner);
        }
        t = t->of;
    }
}

const char *xl_ty_words(struct type *t)
{
    struct buf b = { 0 };
    unsigned q = t->quals;

    xl_buf_fmt(&b, "%s%s%s", q & Q_STRICT ? "strict " : "", q & Q_RELAXED ? "relaxed " : "",
               q & Q_CONST ? "const " : "");
    if (q & Q_SHARED) {
        xl_buf_fmt(&b, "shared ");
        if (t->block.text)
            xl_buf_fmt(&b, "[*] ");
        else if (t->block.value != 1)
            t->block.value ? xl_buf_fmt(&b, "[%lld] ", t->block.value) : xl_buf_fmt(&b, "[] ");
    }

    switch (t->kind) {
    case TY_POINTER:
        xl_buf_fmt(&b, "%s *", xl_ty_words(t->of));
        break;
    case TY_ARRAY:
        xl_buf_fmt(&b, "%s [%s]", xl_ty_words(t->of),
                   t->dim_value >= 0 ? xl_fmt("%lld", t->dim_value) : "");
        break;
    case TY_FUNCTION:
        xl_buf_fmt(&b, "%s ()", xl_ty_words(t->of));
        break;
    case TY_ENUM:
    case TY_RECORD:
        xl_buf_fmt(&b, "%s %s", tag_keyword(t->rec), t->rec->tag);
        break;
    case TY_UNKNOWN:
        xl_buf_fmt(&b, "(unknown)");
        break;
    default:
        xl_buf_fmt(&b, "%s", t->name ? t->name : basic_facts[t->kind].name);
    }
    return b.s;
}
