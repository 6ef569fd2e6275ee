/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: expressions.  A parser by precedence that gives each expression its type; what it means
 * for shared places is access.c's and convert.c's.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "xlate.h"

#define DEEPEST 256

void xl_deeper(void)
{
    if (++xl.depth > DEEPEST)
        xl_refuse(xl.pos, "nested more than %d levels deep", DEEPEST);
}

void xl_shallower(void)
{
    xl.depth--;
}

int xl_unique(void)
{
    return ++xl.unique_number;
}

bool xl_is_punct(int tok, unsigned punct)
{
    return tok < xl.ntokens && xl.tokens[tok].kind == T_PUNCT && xl.tokens[tok].punct == punct;
}

bool xl_accept(unsigned punct)
{
    if (!xl_is_punct(xl.pos, punct))
        return false;

    xl.pos++;
    return true;
}

void xl_expect(unsigned punct)
{
    if (xl_accept(punct))
        return;

    char p[4] = { (char)punct, (char)(punct >> 8), (char)(punct >> 16), 0 };

    if (xl.tokens[xl.pos].kind == T_EOF)
        xl_refuse(xl.pos, "the program ends where '%s' is expected", p);

    xl_refuse(xl.pos, "'%s' is expected before '%.*s'", p,
              xl.tokens[xl.pos].len > 40 ? 40 : xl.tokens[xl.pos].len, xl.tokens[xl.pos].text);
}

bool xl_accept_kw(enum keyword k)
{
    if (xl.tokens[xl.pos].kind != T_ID || xl.tokens[xl.pos].kw != k)
        return false;

    xl.pos++;
    return true;
}

struct expr xl_value_of(int a, struct type *t)
{
    return (struct expr){ .a = a, .b = xl.pos, .type = t };
}

/* ---- constants ---- */

/* The digits of a number in lower case, without separators. */
static void number_text(const struct token *t, char *s)
{
    size_t n = 0;

    for (int i = 0; i < t->len; i++)
        if (t->text[i] != '\'') /* 1'000 */
            s[n++] = (char)tolower((unsigned char)t->text[i]);

    s[n] = 0;
}

static struct type *floating_type(const char *s, bool hex)
{
    size_t n = strlen(s);
    bool imaginary = s[n - 1] == 'i' || s[n - 1] == 'j';
    char suffix = s[imaginary ? n - 2 : n - 1];
    struct type *t = xl_ty_basic(TY_DOUBLE);

    if (suffix == 'f' && !hex)
        t = xl_ty_basic(TY_FLOAT);
    else if (suffix == 'l')
        t = xl_ty_basic(TY_LDOUBLE);

    return imaginary ? xl_ty_arith(xl_ty_basic(TY_CFLOAT), t) : t;
}

/* The type of an integer constant: the first one that its suffix and its base allow and that holds it (C11,
 * 6.4.4.1). */
static struct type *integer_type(unsigned long long v, const char *suffix, bool decimal)
{
    static const struct {
        enum type_kind kind;
        unsigned long long max;
    } types[] = { { TY_INT, 0x7fffffff },
                  { TY_UINT, 0xffffffff },
                  { TY_LONG, (unsigned long)-1 >> 1 },
                  { TY_ULONG, (unsigned long)-1 },
                  { TY_LLONG, ~0ULL >> 1 },
                  { TY_ULLONG, ~0ULL } };
    bool wants_unsigned = strchr(suffix, 'u') != NULL;
    size_t longs = (strchr(suffix, 'l') != NULL) + (strstr(suffix, "ll") != NULL);

    for (size_t k = 2 * longs; k < sizeof types / sizeof *types; k++) {
        bool is_unsigned = k & 1;
        bool allowed = is_unsigned ? wants_unsigned || !decimal : !wants_unsigned;

        if (allowed && v <= types[k].max)
            return xl_ty_basic(types[k].kind);
    }

    return xl_ty_basic(TY_INT);
}

static struct expr parse_number(void)
{
    const struct token *t = &xl.tokens[xl.pos++];
    struct expr e = xl_value_of(xl.pos - 1, xl_ty_basic(TY_DOUBLE));
    char s[64];
    char *suffix;

    if (t->len >= (int)sizeof s)
        return e;

    number_text(t, s);

    bool hex = s[0] == '0' && s[1] == 'x';
    bool bin = s[0] == '0' && s[1] == 'b';

    if (!bin && strpbrk(s, hex ? ".p" : ".e")) {
        e.type = floating_type(s, hex);
        return e;
    }

    unsigned long long v = bin ? strtoull(s + 2, &suffix, 2) : strtoull(s, &suffix, 0);

    e.type = integer_type(v, suffix, s[0] != '0');
    e.is_const = true;
    e.value = (long long)v;
    e.null = v == 0;

    return e;
}

static struct expr parse_char(void)
{
    const struct token *t = &xl.tokens[xl.pos++];
    struct expr e = xl_value_of(xl.pos - 1, xl_ty_basic(TY_INT));

    e.is_const = t->len == 3 && t->text[0] == '\'';
    e.value = t->text[1];
    return e;
}

/* The element type of a string literal that has a prefix: L, u8, u or U. */
static enum type_kind character_type(const char *literal)
{
    if (literal[0] == 'L')
        return TY_INT;

    if (literal[1] == '8')
        return TY_CHAR;

    return literal[0] == 'u' ? TY_USHORT : TY_UINT;
}

static struct expr parse_string(void)
{
    int a = xl.pos;
    enum type_kind k = TY_CHAR;

    for (; xl.tokens[xl.pos].kind == T_STR; xl.pos++)
        if (xl.tokens[xl.pos].text[0] != '"')
            k = character_type(xl.tokens[xl.pos].text);

    struct type *t = xl_alloc(sizeof *t);

    t->kind = TY_ARRAY;
    t->of = xl_ty_basic(k);
    t->dim_value = -1;

    struct expr e = xl_value_of(a, t);

    e.lvalue = e.string = true;
    return e;
}

/* ---- names ---- */

/* Is it __func__ or one of GNU's words for it? */
static bool names_function(const char *name)
{
    static const char *const names[] = { "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;

    return false;
}

/* A name that the program does not declare: a function of the compiler's own, one that is declared nowhere, or the name
 * of this function.  e: its value so far. */
static struct expr undeclared_name(const char *name, struct expr e)
{
    if (xl_is_punct(xl.pos, '(')) {
        struct type *f = xl_alloc(sizeof *f);

        f->kind = TY_FUNCTION;
        f->of = xl_builtin_result(name);
        f->no_proto = true;
        e.type = f;
        return e;
    }

    if (!names_function(name))
        xl_refuse(e.a, "'%s' is not declared", name);

    e.type = xl_alloc(sizeof *e.type);
    e.type->kind = TY_ARRAY;
    e.type->of = xl_ty_qualified(xl_ty_basic(TY_CHAR), Q_CONST, NULL);
    e.type->dim_value = -1;
    e.lvalue = true;

    if (xl.in_main)
        xl_edit(e.a, xl.pos, "upcx_func_main");

    return e;
}

static struct expr parse_name(void)
{
    int a = xl.pos;
    const char *name = xl.tokens[xl.pos].id;
    struct sym *s = xl_sym_find(name);

    if (s == NULL && xl_builtin_is_form(name))
        return xl_parse_builtin(name);

    xl.pos++;

    struct expr e = xl_value_of(a, NULL);

    if (s == NULL)
        return undeclared_name(name, e);

    if (s->kind == S_TYPEDEF)
        xl_refuse(a, "a value is expected before the type name '%s'", name);

    if (s->level > xl.deepest_name)
        xl.deepest_name = s->level;

    e.type = s->type;
    e.sym = s;

    if (s->kind == S_ENUM) {
        e.is_const = true;
        e.value = s->value;
        return e;
    }

    s->used = true;
    e.lvalue = s->type->kind != TY_FUNCTION;

    if (xl_ty_shared(s->type)) {
        e.place = true;
        e.base = s->cname;
    } else if (s->cname != s->name) {
        xl_edit(a, xl.pos, s->cname);
    }

    return e;
}

static struct expr parse_threads(void)
{
    struct expr e = xl_value_of(xl.pos++, xl_ty_basic(TY_INT));

    e.b = xl.pos;
    if (xl.static_threads) {
        e.is_const = true;
        e.value = xl.static_threads;
        xl_edit(e.a, e.b, xl_fmt("%lld", xl.static_threads));
    } else {
        e.threads = true;
        xl_edit(e.a, e.b, "((int)upc_self.threads)");
    }

    return e;
}

static struct expr parse_statement_expr(int a)
{
    struct expr e;

    if (!xl.in_function)
        xl_refuse(a, "a statement in parentheses is allowed inside functions only");

    xl.last_type = xl_ty_basic(TY_VOID);
    xl_parse_compound(true);
    xl_expect(')');
    e = xl_value_of(a, xl.last_type);

    return e;
}

static struct expr parse_primary(void)
{
    const struct token *t = &xl.tokens[xl.pos];
    int a = xl.pos;
    struct expr e;

    switch (t->kind) {
    case T_NUM:
        return parse_number();
    case T_CHAR:
        return parse_char();
    case T_STR:
        return parse_string();
    case T_ID:
        break;
    case T_PUNCT:
        if (t->punct == '(') {
            xl.pos++;
            if (xl_is_punct(xl.pos, '{'))
                return parse_statement_expr(a);

            e = xl_parse_expr();
            xl_expect(')');
            e.a = a;
            e.b = xl.pos;
            return e;
        }
        /* fall through */
    default:
        if (t->kind == T_EOF)
            xl_refuse(xl.pos, "the program ends inside an expression");
        xl_refuse(xl.pos, "an expression is expected before '%.*s'", t->len > 40 ? 40 : t->len,
                  t->text);
    }
    switch (t->kw) {
    case K_NONE:
        return parse_name();
    case K_GENERIC:
        return xl_parse_builtin("_Generic");
    case K_THREADS:
        return parse_threads();
    case K_MYTHREAD:
        xl.pos++;
        xl_edit(a, xl.pos, "((int)upc_self.mythread)");
        return xl_value_of(a, xl_ty_basic(TY_INT));
    case K_MAX_BLOCK:
        xl.pos++;
        xl_edit(a, xl.pos, xl_fmt("%lld", MAX_BLOCK));
        e = xl_value_of(a, xl_ty_basic(TY_INT));
        e.is_const = true;
        e.value = MAX_BLOCK;
        return e;
    default:
        xl_refuse(xl.pos, "an expression is expected before '%.*s'", t->len, t->text);
    }
}

/* ---- postfix ---- */
static struct expr subscript(struct expr x)
{
    struct expr i = xl_parse_expr();

    xl_expect(']');

    struct expr r = { .a = x.a, .b = xl.pos, .lvalue = true };

    if (i.type->kind == TY_POINTER || i.type->kind == TY_ARRAY) { /* 3[a] */
        struct expr swap = x;
        x = i;
        i = swap;
    }

    xl_use_value(&i);
    if (!(x.place && x.type->kind == TY_ARRAY)) {
        xl_use_value(&x);
        if (x.type->kind != TY_POINTER) {
            /* a vector of the compiler's */
            if (x.type->kind == TY_UNKNOWN || x.type->kind == TY_OPAQUE) {
                r.type = xl_ty_basic(TY_UNKNOWN);
                return r;
            }

            xl_refuse(x.a, "the value before '[' is no array and no pointer (it is '%s')",
                      xl_ty_words(x.type));
        }

        if (!xl_ty_shared(x.type->of)) {
            r.type = x.type->of;
            return r;
        }

        x.base = xl_render(x.a, x.b);
        x.idx = NULL;
    }

    r.type = x.type->of;
    r.place = true;
    r.base = x.base;

    const char *n = xl_pts_scaled(r.type, xl_render(i.a, i.b));

    r.idx = x.idx ? xl_fmt("%s + %s", x.idx, n) : n;
    return r;
}

static struct member *find_member(struct record *rec, const char *name)
{
    for (struct member *m = rec->members; m; m = m->next) {
        if (m->name == name)
            return m;

        if (m->name == NULL && m->type->kind == TY_RECORD) {
            struct member *in = find_member(m->type->rec, name);
            if (in)
                return in;
        }
    }

    return NULL;
}

/* x->: x becomes the structure to which it points. */
static void follow_arrow(struct expr *x)
{
    if (!x->place || x->type->kind != TY_ARRAY) {
        xl_use_value(x);

        if (x->type->kind == TY_POINTER && xl_ty_shared(x->type->of)) {
            x->base = xl_render(x->a, x->b);
            x->idx = NULL;
            x->place = true;
        }
    }

    bool points = x->type->kind == TY_POINTER || x->type->kind == TY_ARRAY;

    x->type = points ? x->type->of : xl_ty_basic(TY_UNKNOWN);
}

/* The member of that name of type t, which the token `at` names. */
static struct member *need_member(struct type *t, const char *name, int at)
{
    if (t->kind != TY_RECORD || t->rec->is_enum)
        xl_refuse(at,
                  "'%s' is asked for as a member of something that is no structure (it is '%s')",
                  name, xl_ty_words(t));

    struct member *m = find_member(t->rec, name);

    if (m == NULL)
        xl_refuse(at, "%s %s has no member '%s'", t->rec->is_union ? "union" : "struct",
                  t->rec->tag, name);

    return m;
}

/* Makes r, the member m of the shared structure x, a place in shared memory. */
static void place_member(struct expr *r, struct expr *x, const struct member *m, int at)
{
    struct type *s = x->type;
    struct block whole = { .given = true }; /* a member is wholly with its structure's thread */

    r->type = xl_ty_qualified(m->type, Q_SHARED | (s->quals & (Q_STRICT | Q_RELAXED | Q_CONST)),
                              &whole);
    r->place = true;

    if (m->bits) {
        r->bits_in = s;
        r->bits_name = xl.tokens[at].id;
        r->base = xl_place_text(x);
        return;
    }

    r->base = xl_fmt("upcx_off(%s, __builtin_offsetof(%s, %s))", xl_place_text(x),
                     xl_ty_text(xl_ty_unqualified(s), "", at), xl.tokens[at].id);
}

static struct expr member(struct expr x, bool arrow)
{
    if (xl.tokens[xl.pos].kind != T_ID)
        xl_refuse(xl.pos, "a member's name is expected");

    int at = xl.pos++;
    struct expr r = { .a = x.a, .b = xl.pos, .lvalue = arrow || x.lvalue };

    if (arrow)
        follow_arrow(&x);

    if (x.type->kind == TY_UNKNOWN && !x.place) {
        r.type = x.type;
        return r;
    }

    struct member *m = need_member(x.type, xl.tokens[at].id, at);

    r.bits = m->bits;

    if (xl_ty_shared(x.type))
        place_member(&r, &x, m, at);
    else
        r.type = xl_ty_qualified(m->type, x.type->quals & (Q_CONST | Q_VOLATILE), NULL);

    return r;
}

static struct expr call(struct expr f)
{
    xl_use_value(&f);
    xl.calls++;

    struct type *t = f.type;

    if (t->kind == TY_POINTER && t->of->kind == TY_FUNCTION)
        t = t->of;
    else if (t->kind != TY_UNKNOWN)
        xl_refuse(f.a, "the expression before '(' is not a function (it is '%s')", xl_ty_words(t));

    struct param *p = t->kind == TY_FUNCTION ? t->params : NULL;

    if (!xl_is_punct(xl.pos, ')')) {
        do {
            struct expr e = xl_parse_assign();

            if (p) {
                xl_convert_to(&e, p->type, "argument", false);
                p = p->next;
            } else {
                xl_use_value(&e);
            }
        } while (xl_accept(','));
    }

    xl_expect(')');
    return xl_value_of(f.a, t->kind == TY_FUNCTION ? t->of : t);
}

struct expr xl_parse_postfix(void)
{
    return xl_parse_postfix_of(parse_primary());
}

struct expr xl_parse_postfix_of(struct expr e)
{
    for (;;) {
        if (xl_accept('['))
            e = subscript(e);
        else if (xl_accept('('))
            e = call(e);
        else if (xl_accept('.'))
            e = member(e, false);
        else if (xl_accept(P2('-', '>')))
            e = member(e, true);
        else if (xl_is_punct(xl.pos, P2('+', '+')) || xl_is_punct(xl.pos, P2('-', '-')))
            xl_step(&e, xl.tokens[xl.pos++].punct == P2('+', '+'), true);
        else
            return e;
    }
}

/* ---- binary operators ---- */
static int precedence(int tok)
{
    static const struct {
        unsigned op;
        int prec;
    } table[] = {
        { '*', 10 },         { '/', 10 },         { '%', 10 },         { '+', 9 },
        { '-', 9 },          { P2('<', '<'), 8 }, { P2('>', '>'), 8 }, { '<', 7 },
        { '>', 7 },          { P2('<', '='), 7 }, { P2('>', '='), 7 }, { P2('=', '='), 6 },
        { P2('!', '='), 6 }, { '&', 5 },          { '^', 4 },          { '|', 3 },
        { P2('&', '&'), 2 }, { P2('|', '|'), 1 },
    };
    if (xl.tokens[tok].kind != T_PUNCT)
        return 0;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].op == xl.tokens[tok].punct)
            return table[i].prec;

    return 0;
}

static struct expr binary(struct expr x, int min)
{
    for (int prec; (prec = precedence(xl.pos)) >= min && prec > 0;) {
        int op_tok = xl.pos;
        unsigned op = xl.tokens[xl.pos++].punct;

        if (prec <= 2)
            xl_use_condition(&x);
        else
            xl_use_value(&x);

        struct expr y = xl_parse_cast();

        while (precedence(xl.pos) > prec)
            y = binary(y, precedence(xl.pos));

        if (prec <= 2)
            xl_use_condition(&y);
        else
            xl_use_value(&y);

        struct expr r = xl_fold_binary(op, x, y);

        r.a = x.a;
        r.b = y.b;
        r.type = prec <= 2 ? xl_ty_basic(TY_INT) : xl_binary_type(op, op_tok, &x, &y);
        x = r;
    }

    return x;
}

/* x and y of c ? x : y, of which one is a pointer to shared, become r.  once: c is x (GNU's c ?: y),
 * evaluated once. */
static void pts_conditional(struct expr *x, struct expr *y, bool once, struct expr *r)
{
    struct type *to = x->type;

    if (!xl_ty_pts(x->type) ||
        (xl_ty_pts(y->type) && y->type->of->kind == TY_VOID && x->type->of->kind != TY_VOID))
        to = y->type;

    xl_convert_to(x, to, "value of ?:", false);
    xl_convert_to(y, to, "value of ?:", false);
    r->type = to;

    if (!once)
        return;

    int n = xl_unique();

    xl_edit(r->a, r->b,
            xl_fmt("__extension__ ({ upcx_pts upcx_q%d = (%s); upcx_nonnull(upcx_q%d) ? upcx_q%d : "
                   "(%s); })",
                   n, xl_render(x->a, x->b), n, n, xl_render(y->a, y->b)));
}

/* The type of c ? x : y for private values that are not both numbers. */
static struct type *conditional_type(const struct expr *x, const struct expr *y)
{
    bool px = x->type->kind == TY_POINTER && !x->null;
    bool py = y->type->kind == TY_POINTER && !y->null;

    if (px && (x->type->of->kind != TY_VOID || y->null))
        return x->type;
    if (y->type->kind == TY_VOID || py)
        return y->type;

    return x->type;
}

/* What is known of the value of c ? x : y at translation time. */
static void fold_conditional(const struct expr *c, const struct expr *x, const struct expr *y,
                             struct expr *r)
{
    if (c->is_const && x->is_const && y->is_const) {
        r->is_const = true;
        r->value = c->value ? x->value : y->value;
        return;
    }

    r->threads = (c->is_const || c->threads) && (x->is_const || x->threads) &&
                 (y->is_const || y->threads);
}

static struct expr conditional(struct expr c)
{
    xl_use_value(&c);

    struct expr x = c;

    /* GNU's a ?: b evaluates a once */
    const bool short_form = xl_is_punct(xl.pos, ':');
    const bool once = short_form && xl_ty_pts(c.type);

    if (!once)
        xl_use_condition(&c);

    if (!short_form) {
        x = xl_parse_expr();
        xl_use_value(&x);
    }

    xl_expect(':');
    xl_deeper();

    struct expr y = xl_parse_conditional();

    xl_shallower();
    xl_use_value(&y);

    struct expr r = { .a = c.a, .b = xl.pos };

    if (xl_ty_pts(x.type) || xl_ty_pts(y.type))
        pts_conditional(&x, &y, once, &r);
    else if (xl_ty_arithmetic(x.type) && xl_ty_arithmetic(y.type))
        r.type = xl_ty_arith(x.type, y.type);
    else
        r.type = conditional_type(&x, &y);

    fold_conditional(&c, &x, &y, &r);
    return r;
}

struct expr xl_parse_conditional(void)
{
    struct expr e = binary(xl_parse_cast(), 1);
    return xl_accept('?') ? conditional(e) : e;
}

static bool assignment_op(unsigned p)
{
    return p == '=' || (p >> 8 == '=' && strchr("*/%+-&^|", (int)(p & 255))) ||
           p == P3('<', '<', '=') || p == P3('>', '>', '=');
}

struct expr xl_parse_assign(void)
{
    xl_deeper();

    struct expr e = xl_parse_conditional();

    if (xl.tokens[xl.pos].kind == T_PUNCT && assignment_op(xl.tokens[xl.pos].punct)) {
        int op_tok = xl.pos;
        unsigned op = xl.tokens[xl.pos++].punct;
        struct expr r = xl_parse_assign();

        xl_store(&e, op, &r, op_tok);
    }

    xl_shallower();
    return e;
}

struct expr xl_parse_expr(void)
{
    struct expr e = xl_parse_assign();

    while (xl_accept(',')) {
        xl_use_void(&e);

        struct expr y = xl_parse_assign();

        xl_use_value(&y);
        y.a = e.a;
        y.is_const = y.threads = y.null = y.lvalue = false;
        y.sym = NULL;
        e = y;
    }

    return e;
}
