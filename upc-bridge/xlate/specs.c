/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: declaration specifiers: storage, qualifiers with shared layouts, base types,
 * structures, unions and enumerations.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* Words of base types; they are counted. */
static const bool is_base_word[K_END] = {
    [K_CHAR] = true,     [K_INT] = true,    [K_SHORT] = true,   [K_LONG] = true, [K_SIGNED] = true,
    [K_UNSIGNED] = true, [K_FLOAT] = true,  [K_DOUBLE] = true,  [K_VOID] = true, [K_BOOL] = true,
    [K_COMPLEX] = true,  [K_INT128] = true, [K_UINT128] = true,
};

/* Other words that a declaration may begin with. */
/* clang-format off */
static const bool is_specifier[K_END] = {
    [K_FLOATN] = true, [K_AUTO_TYPE] = true, [K_TYPEOF] = true, [K_STRUCT] = true, [K_UNION] = true, [K_ENUM] = true,
    [K_TYPEDEF] = true, [K_EXTERN] = true, [K_STATIC] = true, [K_AUTO] = true, [K_REGISTER] = true, [K_THREAD_LOCAL] = true,
    [K_INLINE] = true, [K_NORETURN] = true, [K_ALIGNAS] = true, [K_ATTRIBUTE] = true,
    [K_CONST] = true, [K_VOLATILE] = true, [K_RESTRICT] = true, [K_ATOMIC] = true, [K_SHARED] = true, [K_STRICT] = true,
    [K_RELAXED] = true,
};
/* clang-format on */

/* The compiler's own types without declaration. */
static bool is_va_list(const char *name)
{
    return strcmp(name, "__builtin_va_list") == 0 || strcmp(name, "__builtin_ms_va_list") == 0 ||
           strcmp(name, "__builtin_sysv_va_list") == 0;
}

/* [[ of C2x */
bool xl_starts_attribute(int tok)
{
    return xl_is_punct(tok, '[') && xl_is_punct(tok + 1, '[');
}

bool xl_starts_type(int tok)
{
    const struct token *t = &xl.tokens[tok];

    if (xl_starts_attribute(tok))
        return true;

    if (t->kind != T_ID)
        return false;

    if (t->kw == K_NONE) {
        struct sym *s = xl_sym_find(t->id);
        return s ? s->kind == S_TYPEDEF : is_va_list(t->id);
    }

    if (t->kw == K_EXTENSION) /* it precedes declarations and expressions */
        return xl_starts_type(tok + 1);

    return is_base_word[t->kw] || is_specifier[t->kw];
}

void xl_skip_parens(void)
{
    int n = 0;
    int a = xl.pos;

    do {
        if (xl.tokens[xl.pos].kind == T_EOF)
            xl_refuse(a, "this '(' is never closed");

        if (xl_is_punct(xl.pos, '('))
            n++;
        else if (xl_is_punct(xl.pos, ')'))
            n--;

        xl.pos++;
    } while (n);
}

void xl_skip_attributes(const char **text)
{
    for (;;) {
        int a = xl.pos;

        if (xl.tokens[xl.pos].kind == T_ID &&
            (xl.tokens[xl.pos].kw == K_ATTRIBUTE || xl.tokens[xl.pos].kw == K_ALIGNAS)) {
            xl.pos++;
            if (!xl_is_punct(xl.pos, '('))
                xl_refuse(xl.pos, "'(' is expected");

            xl_skip_parens();
            if (text)
                *text = xl_fmt("%s%s ", *text ? *text : "", xl_render_bare(a, xl.pos));
        } else if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_EXTENSION) {
            xl.pos++;
        } else if (xl_starts_attribute(xl.pos)) {
            while (!xl_is_punct(xl.pos, ']') || !xl_is_punct(xl.pos + 1, ']')) {
                if (xl.tokens[xl.pos].kind == T_EOF)
                    xl_refuse(a, "this '[[' is never closed");

                xl.pos++;
            }

            xl.pos += 2;
            if (text)
                *text = xl_fmt("%s%s ", *text ? *text : "", xl_render_bare(a, xl.pos));
        } else {
            return;
        }
    }
}

/* After 'shared': [ ], [*], [constant] or nothing. */
static struct block parse_layout(void)
{
    struct block b = { .value = 1, .given = true };

    if (!xl_accept('['))
        return b;

    if (xl_accept(']')) {
        b.value = 0;
        return b;
    }

    if (xl_is_punct(xl.pos, '*') && xl_is_punct(xl.pos + 1, ']')) {
        xl.pos += 2;
        b.star = true;
        return b;
    }

    int a = xl.pos;
    struct expr e = xl_parse_conditional();

    xl_use_value(&e);
    xl_expect(']');

    if (e.is_const) {
        if (e.value < 0 || e.value > MAX_BLOCK)
            xl_refuse(a, "a block size lies between 0 and %lld, this is %lld", MAX_BLOCK, e.value);

        b.value = e.value;
    } else if (e.threads) {
        b.text = xl_fmt("((unsigned long)(%s))", xl_render_bare(e.a, e.b));
        b.value = -1;
    } else {
        xl_refuse(a, "a block size must be a constant that upcxlate can compute");
    }

    return b;
}

bool xl_parse_qualifier(unsigned *quals, struct block *b)
{
    const struct token *t = &xl.tokens[xl.pos];

    if (t->kind != T_ID)
        return false;

    switch (t->kw) {
    case K_CONST:
        *quals |= Q_CONST;
        break;
    case K_VOLATILE:
        *quals |= Q_VOLATILE;
        break;
    case K_RESTRICT:
        *quals |= Q_RESTRICT;
        break;
    case K_ATOMIC:
        if (xl_is_punct(xl.pos + 1, '('))
            return false;
        *quals |= Q_ATOMIC;
        break;
    case K_STRICT:
        *quals |= Q_STRICT;
        break;
    case K_RELAXED:
        *quals |= Q_RELAXED;
        break;
    case K_SHARED: {
        int at = xl.pos++;
        struct block n = parse_layout();

        if ((*quals & Q_SHARED) && (n.value != b->value || n.text != b->text))
            xl_refuse(at, "'shared' is given twice with different layouts");

        *quals |= Q_SHARED;
        *b = n;
        xl.pos--; /* the caller's step */
        break;
    }
    default:
        return false;
    }
    xl.pos++;
    if ((*quals & Q_STRICT) && (*quals & Q_RELAXED))
        xl_refuse(xl.pos - 1, "'strict' and 'relaxed' exclude each other");

    return true;
}

/* ---- structures ---- */
static void member_text(struct specs *s, struct decl *d, const char *bits, struct buf *out)
{
    xl_buf_fmt(
        out, "%s%s%s%s%s; ", s->attributes ? s->attributes : "", d->attributes ? d->attributes : "",
        xl_ty_text(d->type, d->name ? d->name : "", d->tok), bits ? " :" : "", bits ? bits : "");
}

static void add_member(struct member ***tail, struct member m)
{
    struct member *new = xl_alloc(sizeof *new);

    *new = m;
    **tail = new;
    *tail = &new->next;
}

/* One declarator of a member's declaration; true: its text must be rewritten. *attributed_p is
 * set if it has attributes. */
static bool parse_member(struct specs *s, struct member ***tail, struct buf *text, bool rewrite,
                         bool *attributed_p)
{
    struct decl d = { .type = s->type, .tok = xl.pos };
    const char *bits = NULL;

    if (!xl_is_punct(xl.pos, ':'))
        xl_parse_declarator(&d, s->type, false);

    if (xl_accept(':')) {
        struct expr w = xl_parse_conditional();

        xl_use_value(&w);
        bits = xl_render_bare(w.a, w.b);
    }

    xl_skip_attributes(&d.attributes);
    if (xl_ty_shared(d.type))
        xl_refuse(d.tok,
                  "a member cannot be shared by itself; the whole structure can, and a member "
                  "can point to shared");

    rewrite |= xl_ty_involves_shared(d.type);
    *attributed_p |= s->attributes || d.attributes;
    add_member(tail, (struct member){ .name = d.name, .type = d.type, .bits = bits != NULL });
    if (rewrite)
        member_text(s, &d, bits, text);

    return rewrite;
}

/* A declaration of members. */
static void parse_member_declaration(struct member ***tail, bool *attributed_p)
{
    struct specs s;
    struct buf text = { 0 };
    int a = xl.pos;

    xl_parse_specs(&s);

    bool rewrite = s.rewritten;

    if (s.storage)
        xl_refuse(a, "a member has no storage class");

    if (s.has_def)
        xl_buf_fmt(&text, "%s; ", xl_render(s.def_a, s.def_b));

    if (xl_accept(';')) {
        /* A tag alone is a member with -fms-extensions only. */
        if (s.type->kind == TY_RECORD && s.type->rec->complete)
            add_member(tail, (struct member){ .type = s.type });

        return;
    }

    do
        rewrite = parse_member(&s, tail, &text, rewrite, attributed_p);
    while (xl_accept(','));
    xl_expect(';');
    if (!rewrite)
        return;

    if (s.type->kind == TY_RECORD && s.has_def && s.type->rec->tag == NULL)
        xl_refuse(
            a, "an unnamed structure with shared declarators inside a structure is not translated");

    xl_edit(a, xl.pos, text.s);
}

static void parse_members(struct record *r)
{
    struct member **tail = &r->members;

    while (!xl_is_punct(xl.pos, '}')) {
        if (xl_accept(';'))
            continue;

        if (xl.tokens[xl.pos].kw == K_STATIC_ASSERT && xl.tokens[xl.pos].kind == T_ID) {
            xl.pos++;
            xl_skip_parens();
            xl_expect(';');
        } else
            parse_member_declaration(&tail, &r->attributed);
    }
}

static void parse_enumerators(void)
{
    long long next = 0;
    bool known = true;

    while (!xl_is_punct(xl.pos, '}')) {
        if (xl.tokens[xl.pos].kind != T_ID)
            xl_refuse(xl.pos, "a name is expected in the enumeration");

        int at = xl.pos++;

        xl_skip_attributes(NULL);
        if (xl_accept('=')) {
            struct expr e = xl_parse_conditional();

            xl_use_value(&e);
            known = e.is_const;
            next = e.value;
        }

        struct sym *s = xl_sym_add(S_ENUM, xl.tokens[at].id, xl_ty_basic(TY_INT), at);

        s->value = next++;
        s->defined = known;
        if (!xl_accept(','))
            break;
    }
}

static struct type *record_type(struct record *r)
{
    struct type *t = xl_alloc(sizeof *t);

    t->kind = r->is_enum ? TY_ENUM : TY_RECORD;
    t->rec = r;
    return t;
}

/* The type with this tag, or with none, which may be new.  here: a type of an outer scope is not meant. */
static struct record *find_or_add_record(enum keyword kw, const char *tag, bool here, int a)
{
    struct record *r = NULL;

    if (tag)
        r = here ? xl_tag_here(tag) : xl_tag_find(tag);

    if (r && (r->is_enum != (kw == K_ENUM) || r->is_union != (kw == K_UNION)))
        xl_refuse(a, "the tag '%s' belongs to something of another kind", tag);

    if (r)
        return r;

    r = xl_alloc(sizeof *r);
    r->is_enum = kw == K_ENUM;
    r->is_union = kw == K_UNION;
    r->tag = tag;
    if (tag)
        xl_tag_add(tag, r);

    return r;
}

/* Gives a type without a tag one, before the brace of its definition, so that other text can name it. */
static void add_tag(struct record *r, int brace)
{
    const char *name = xl_fmt("upcx_anon_%d", xl_unique());

    r->tag = xl_intern(name, strlen(name));
    xl_tag_add(r->tag, r);
    xl_edit_before(brace, xl_fmt(" %s ", r->tag));
}

/* struct, union or enum; pos behind the keyword */
static struct type *parse_tagged(enum keyword kw, struct specs *s, int a)
{
    const char *tag = NULL;
    const char *attributes = NULL;

    xl_skip_attributes(&attributes);
    if (xl.tokens[xl.pos].kind == T_ID && !xl_is_punct(xl.pos, '{'))
        tag = xl.tokens[xl.pos++].id;

    if (!tag && !xl_is_punct(xl.pos, '{'))
        xl_refuse(xl.pos, "a tag or '{' is expected");

    bool def = xl_is_punct(xl.pos, '{');

    struct record *r = find_or_add_record(kw, tag, def || xl_is_punct(xl.pos, ';'), a);

    if (!def)
        return record_type(r);

    if (r->complete)
        xl_refuse(a, "'%s' is defined twice", tag);

    int brace = xl.pos++;

    xl_deeper();
    if (kw == K_ENUM)
        parse_enumerators();
    else
        parse_members(r);

    xl_shallower();
    xl_expect('}');
    r->complete = true;
    xl_skip_attributes(&attributes);
    r->attributed |= attributes != NULL;

    if (!tag && !xl_is_punct(xl.pos, ';'))
        add_tag(r, brace);

    s->has_def = true;
    s->def_a = a;
    s->def_b = xl.pos;

    return record_type(r);
}

/* ---- base types ---- */
struct counts {
    int words, n[K_END]; /* n: of each keyword */
};

/* float, double and _Complex, without a word of integers. */
static enum type_kind floating_kind(const int *n)
{
    if (n[K_FLOAT])
        return n[K_COMPLEX] ? TY_CFLOAT : TY_FLOAT;
    if (n[K_COMPLEX])
        return n[K_LONG] ? TY_CLDOUBLE : TY_CDOUBLE;

    return n[K_LONG] ? TY_LDOUBLE : TY_DOUBLE;
}

static enum type_kind integer_kind(const int *n)
{
    const bool is_unsigned = n[K_UNSIGNED] || n[K_UINT128];
    enum type_kind signed_kind = TY_INT;

    if (n[K_CHAR] && !is_unsigned)
        return n[K_SIGNED] ? TY_SCHAR : TY_CHAR;

    if (n[K_CHAR])
        signed_kind = TY_SCHAR;
    else if (n[K_INT128] || n[K_UINT128])
        signed_kind = TY_INT128;
    else if (n[K_SHORT])
        signed_kind = TY_SHORT;
    else if (n[K_LONG])
        signed_kind = n[K_LONG] > 1 ? TY_LLONG : TY_LONG;

    return is_unsigned ? signed_kind + 1 : signed_kind; /* each pair is adjacent */
}

static struct type *base_type(const struct counts *c, int tok)
{
    const int *n = c->n;

    if (c->words == 0)
        xl_refuse(tok, "a type is expected before '%.*s'",
                  xl.tokens[xl.pos].len > 40 ? 40 : xl.tokens[xl.pos].len, xl.tokens[xl.pos].text);

    if (n[K_LONG] > 2 || n[K_SHORT] > 1 || (n[K_SIGNED] && n[K_UNSIGNED]) ||
        (n[K_VOID] && c->words > 1))
        xl_refuse(tok, "these type words do not go together");

    if (n[K_VOID])
        return xl_ty_basic(TY_VOID);
    if (n[K_BOOL])
        return xl_ty_basic(TY_BOOL);
    if (n[K_CHAR])
        return xl_ty_basic(integer_kind(n));
    if (n[K_FLOAT] || n[K_DOUBLE] || (n[K_COMPLEX] && !n[K_INT]))
        return xl_ty_basic(floating_kind(n));

    return xl_ty_basic(integer_kind(n));
}

static struct type *named_type(enum type_kind kind, const struct token *t)
{
    struct type *n = xl_alloc(sizeof *n);

    n->kind = kind;
    n->name = xl_strndup(t->text, (size_t)t->len);
    return n;
}

static struct type *parse_typeof(void)
{
    struct type *t;
    int a = xl.pos - 1;

    xl_expect('(');
    if (xl_starts_type(xl.pos)) {
        t = xl_parse_type_name();
    } else {
        struct expr e = xl_parse_expr();
        t = e.type;
    }

    xl_expect(')');
    if (t->kind == TY_UNKNOWN)
        xl_refuse(a, "the type of this expression cannot be found out");

    return t;
}

/* One word that counts towards a base type. */
static bool base_word(enum keyword kw, struct counts *c)
{
    c->words += is_base_word[kw];
    c->n[kw] += is_base_word[kw];
    return is_base_word[kw];
}

static bool storage_word(enum keyword kw, struct specs *s)
{
    switch (kw) {
    case K_TYPEDEF:
    case K_EXTERN:
    case K_STATIC:
    case K_AUTO:
    case K_REGISTER:
        if (s->storage && s->storage != (int)kw)
            xl_refuse(xl.pos, "two storage classes");
        s->storage = (int)kw;
        return true;
    case K_INLINE:
        s->is_inline = true;
        return true;
    case K_NORETURN:
        s->is_noreturn = true;
        return true;
    case K_THREAD_LOCAL:
        s->thread_local_ = true;
        return true;
    default:
        return false;
    }
}

/* A complete type: structure, typedef name, typeof; NULL: none here. */
static struct type *whole_type(struct specs *s, bool have)
{
    const struct token *t = &xl.tokens[xl.pos];

    switch (t->kw) {
    case K_STRUCT:
    case K_UNION:
    case K_ENUM:
        xl.pos++;
        return parse_tagged(t->kw, s, xl.pos - 1);
    case K_TYPEOF:
        xl.pos++;
        return parse_typeof();
    case K_AUTO_TYPE:
        xl.pos++;
        s->is_auto = true;
        return xl_ty_basic(TY_UNKNOWN);
    case K_FLOATN: /* Clang's headers declare them: typedef float _Float32; */
        return have ? NULL : named_type(TY_FLOATN, &xl.tokens[xl.pos++]);
    case K_ATOMIC: {
        xl.pos++;
        xl_expect('(');

        struct type *u = xl_parse_type_name();

        xl_expect(')');
        return xl_ty_qualified(u, Q_ATOMIC, NULL);
    }
    case K_NONE: {
        if (have)
            return NULL;

        struct sym *y = xl_sym_find(t->id);

        if (y && y->kind == S_TYPEDEF) {
            xl.pos++;
            if (xl_ty_shared(y->type))
                s->rewritten = true;

            return y->type;
        }

        if (!y && is_va_list(t->id))
            return named_type(TY_OPAQUE, &xl.tokens[xl.pos++]);

        return NULL;
    }
    default:
        return NULL;
    }
}

/* After static, const and the like: does a declarator follow immediately, as in C89? */
static bool implicit_int(void)
{
    static const unsigned follow[] = { '=', ';', ',', '[', '(', ')' };

    if (xl.tokens[xl.pos].kind != T_ID || xl.tokens[xl.pos].kw != K_NONE)
        return false;

    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++)
        if (xl_is_punct(xl.pos + 1, follow[i]))
            return true;

    return false;
}

/* What the words of a declaration have said so far. */
struct said {
    unsigned quals;
    struct block block;
    struct counts base;
    struct type *whole; /* a record, an enumeration or a name of a type; NULL: base words */
};

/* Takes the next word.  false: it is none of the specifiers. */
static bool take_word(struct specs *s, struct said *said)
{
    xl_skip_attributes(&s->attributes);
    if (xl_parse_qualifier(&said->quals, &said->block))
        return true;
    if (xl.tokens[xl.pos].kind != T_ID)
        return false;

    enum keyword kw = xl.tokens[xl.pos].kw;
    const struct counts *base = &said->base;

    if (storage_word(kw, s) || base_word(kw, &said->base)) {
        xl.pos++;
        return true;
    }

    struct type *t = whole_type(s, said->whole || (base->words && !base->n[K_COMPLEX]));

    if (t == NULL)
        return false;

    if (said->whole || (base->words && !(kw == K_FLOATN && base->n[K_COMPLEX])))
        xl_refuse(xl.pos - 1, "two types in one declaration");

    said->whole = t;
    return true;
}

void xl_parse_specs(struct specs *s)
{
    struct said said = { 0 };

    memset(s, 0, sizeof *s);
    s->tok = xl.pos;
    while (take_word(s, &said))
        ;

    bool has_type = said.whole || said.base.words;

    if (!has_type && (s->storage || said.quals) && implicit_int())
        said.whole = xl_ty_basic(TY_INT);

    struct type *whole = said.whole;
    struct type *t = whole ? whole : base_type(&said.base, s->tok);

    if (said.quals & Q_SHARED) {
        struct type *layout = xl_ty_qualified(xl_ty_basic(TY_INT), Q_SHARED, &said.block);

        s->rewritten = true;
        if (xl_ty_shared(t) && !xl_ty_same_block(t, layout))
            xl_refuse(s->tok, "'shared' is given twice with different layouts");
    }

    s->type = xl_ty_qualified(t, said.quals, &said.block);
    if (s->attributes && whole == NULL && strstr(s->attributes, "vector_size"))
        s->type = xl_ty_basic(TY_UNKNOWN);
}
