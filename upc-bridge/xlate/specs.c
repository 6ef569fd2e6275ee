/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: declaration specifiers: storage, qualifiers with shared layouts, base types,
 * structures, unions and enumerations.
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
bool starts_attribute(int tok)
{
    return is_punct(tok, '[') && is_punct(tok + 1, '[');
}

bool starts_type(int tok)
{
    const struct token *t = &xl.tokens[tok];

    if (starts_attribute(tok))
        return true;

    if (t->kind != T_ID)
        return false;

    if (t->kw == K_NONE) {
        struct sym *s = sym_find(t->id);
        return s ? s->kind == S_TYPEDEF : is_va_list(t->id);
    }

    if (t->kw == K_EXTENSION) /* it stands before declarations and before expressions */
        return starts_type(tok + 1);

    return is_base_word[t->kw] || is_specifier[t->kw];
}

void skip_parens(void)
{
    int n = 0;
    int a = xl.pos;

    do {
        if (xl.tokens[xl.pos].kind == T_EOF)
            refuse(a, "this '(' is never closed");

        if (is_punct(xl.pos, '('))
            n++;
        else if (is_punct(xl.pos, ')'))
            n--;

        xl.pos++;
    } while (n);
}

void skip_attributes(const char **text)
{
    for (;;) {
        int a = xl.pos;

        if (xl.tokens[xl.pos].kind == T_ID &&
            (xl.tokens[xl.pos].kw == K_ATTRIBUTE || xl.tokens[xl.pos].kw == K_ALIGNAS)) {
            xl.pos++;
            if (!is_punct(xl.pos, '('))
                refuse(xl.pos, "'(' is expected");

            skip_parens();
            if (text)
                *text = xl_fmt("%s%s ", *text ? *text : "", render_bare(a, xl.pos));
        } else if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_EXTENSION) {
            xl.pos++;
        } else if (starts_attribute(xl.pos)) {
            while (!is_punct(xl.pos, ']') || !is_punct(xl.pos + 1, ']')) {
                if (xl.tokens[xl.pos].kind == T_EOF)
                    refuse(a, "this '[[' is never closed");

                xl.pos++;
            }

            xl.pos += 2;
            if (text)
                *text = xl_fmt("%s%s ", *text ? *text : "", render_bare(a, xl.pos));
        } else {
            return;
        }
    }
}

/* After 'shared': [ ], [*], [constant] or nothing. */
static struct block parse_layout(void)
{
    struct block b = { .value = 1, .given = true };

    if (!accept('['))
        return b;

    if (accept(']')) {
        b.value = 0;
        return b;
    }

    if (is_punct(xl.pos, '*') && is_punct(xl.pos + 1, ']')) {
        xl.pos += 2;
        b.star = true;
        return b;
    }

    int a = xl.pos;
    struct expr e = parse_conditional();

    use_value(&e);
    expect(']');

    if (e.is_const) {
        if (e.value < 0 || e.value > MAX_BLOCK)
            refuse(a, "a block size lies between 0 and %lld, this is %lld", MAX_BLOCK, e.value);

        b.value = e.value;
    } else if (e.threads) {
        b.text = xl_fmt("((unsigned long)(%s))", render_bare(e.a, e.b));
        b.value = -1;
    } else {
        refuse(a, "a block size must be a constant that upcxlate can compute");
    }

    return b;
}

bool parse_qualifier(unsigned *quals, struct block *b)
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
        if (is_punct(xl.pos + 1, '('))
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
            refuse(at, "'shared' is given twice with different layouts");

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
        refuse(xl.pos - 1, "'strict' and 'relaxed' exclude each other");

    return true;
}

/* ---- structures ---- */
static void member_text(struct specs *s, struct decl *d, const char *bits, struct buf *out)
{
    buf_fmt(out, "%s%s%s%s%s; ", s->attributes ? s->attributes : "",
            d->attributes ? d->attributes : "", ty_text(d->type, d->name ? d->name : "", d->tok),
            bits ? " :" : "", bits ? bits : "");
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

    if (!is_punct(xl.pos, ':'))
        parse_declarator(&d, s->type, false);

    if (accept(':')) {
        struct expr w = parse_conditional();

        use_value(&w);
        bits = render_bare(w.a, w.b);
    }

    skip_attributes(&d.attributes);
    if (ty_shared(d.type))
        refuse(d.tok, "a member cannot be shared by itself; the whole structure can, and a member "
                      "can point to shared");

    rewrite |= ty_involves_shared(d.type);
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

    parse_specs(&s);

    bool rewrite = s.rewritten;

    if (s.storage)
        refuse(a, "a member has no storage class");

    if (s.has_def)
        buf_fmt(&text, "%s; ", render(s.def_a, s.def_b));

    if (accept(';')) {
        /* A tag alone is a member with -fms-extensions only. */
        if (s.type->kind == TY_RECORD && s.type->rec->complete)
            add_member(tail, (struct member){ .type = s.type });

        return;
    }

    do
        rewrite = parse_member(&s, tail, &text, rewrite, attributed_p);
    while (accept(','));
    expect(';');
    if (!rewrite)
        return;

    if (s.type->kind == TY_RECORD && s.has_def && s.type->rec->tag == NULL)
        refuse(a,
               "an unnamed structure with shared declarators inside a structure is not translated");

    edit(a, xl.pos, text.s);
}

static void parse_members(struct record *r)
{
    struct member **tail = &r->members;

    while (!is_punct(xl.pos, '}')) {
        if (accept(';'))
            continue;

        if (xl.tokens[xl.pos].kw == K_STATIC_ASSERT && xl.tokens[xl.pos].kind == T_ID) {
            xl.pos++;
            skip_parens();
            expect(';');
        } else
            parse_member_declaration(&tail, &r->attributed);
    }
}

static void parse_enumerators(void)
{
    long long next = 0;
    bool known = true;

    while (!is_punct(xl.pos, '}')) {
        if (xl.tokens[xl.pos].kind != T_ID)
            refuse(xl.pos, "a name is expected in the enumeration");

        int at = xl.pos++;

        skip_attributes(NULL);
        if (accept('=')) {
            struct expr e = parse_conditional();

            use_value(&e);
            known = e.is_const;
            next = e.value;
        }

        struct sym *s = sym_add(S_ENUM, xl.tokens[at].id, ty_basic(TY_INT), at);

        s->value = next++;
        s->defined = known;
        if (!accept(','))
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

/* struct, union or enum; pos behind the keyword */
static struct type *parse_tagged(enum keyword kw, struct specs *s, int a)
{
    const char *tag = NULL;
    const char *attributes = NULL;
    struct record *r = NULL;

    skip_attributes(&attributes);
    if (xl.tokens[xl.pos].kind == T_ID && !is_punct(xl.pos, '{'))
        tag = xl.tokens[xl.pos++].id;

    if (!tag && !is_punct(xl.pos, '{'))
        refuse(xl.pos, "a tag or '{' is expected");

    bool def = is_punct(xl.pos, '{');

    if (tag)
        r = def || is_punct(xl.pos, ';') ? tag_here(tag) : tag_find(tag);

    if (r && (r->is_enum != (kw == K_ENUM) || r->is_union != (kw == K_UNION)))
        refuse(a, "the tag '%s' belongs to something of another kind", tag);

    if (r == NULL) {
        r = xl_alloc(sizeof *r);
        r->is_enum = kw == K_ENUM;
        r->is_union = kw == K_UNION;
        r->tag = tag;
        if (tag)
            tag_add(tag, r);
    }

    if (!def)
        return record_type(r);

    if (r->complete)
        refuse(a, "'%s' is defined twice", tag);

    int brace = xl.pos++;

    deeper();
    if (kw == K_ENUM)
        parse_enumerators();
    else
        parse_members(r);

    shallower();
    expect('}');
    r->complete = true;
    skip_attributes(&attributes);
    r->attributed |= attributes != NULL;

    if (!tag && !is_punct(xl.pos, ';')) {
        const char *name = xl_fmt("upcx_anon_%d", unique());

        r->tag = intern(name, strlen(name));
        tag_add(r->tag, r);
        edit_before(brace, xl_fmt(" %s ", r->tag));
    }

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
        refuse(tok, "a type is expected before '%.*s'",
               xl.tokens[xl.pos].len > 40 ? 40 : xl.tokens[xl.pos].len, xl.tokens[xl.pos].text);

    if (n[K_LONG] > 2 || n[K_SHORT] > 1 || (n[K_SIGNED] && n[K_UNSIGNED]) ||
        (n[K_VOID] && c->words > 1))
        refuse(tok, "these type words do not go together");

    if (n[K_VOID])
        return ty_basic(TY_VOID);
    if (n[K_BOOL])
        return ty_basic(TY_BOOL);
    if (n[K_CHAR])
        return ty_basic(integer_kind(n));
    if (n[K_FLOAT] || n[K_DOUBLE] || (n[K_COMPLEX] && !n[K_INT]))
        return ty_basic(floating_kind(n));

    return ty_basic(integer_kind(n));
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

    expect('(');
    if (starts_type(xl.pos)) {
        t = parse_type_name();
    } else {
        struct expr e = parse_expr();
        t = e.type;
    }

    expect(')');
    if (t->kind == TY_UNKNOWN)
        refuse(a, "the type of this expression cannot be found out");

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
            refuse(xl.pos, "two storage classes");
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

/* A type that stands as a whole: structure, typedef name, typeof; NULL: no such thing here. */
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
        return ty_basic(TY_UNKNOWN);
    case K_FLOATN: /* Clang's headers declare them: typedef float _Float32; */
        return have ? NULL : named_type(TY_FLOATN, &xl.tokens[xl.pos++]);
    case K_ATOMIC: {
        xl.pos++;
        expect('(');

        struct type *u = parse_type_name();

        expect(')');
        return ty_qualified(u, Q_ATOMIC, NULL);
    }
    case K_NONE: {
        if (have)
            return NULL;

        struct sym *y = sym_find(t->id);

        if (y && y->kind == S_TYPEDEF) {
            xl.pos++;
            if (ty_shared(y->type))
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
        if (is_punct(xl.pos + 1, follow[i]))
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
    skip_attributes(&s->attributes);
    if (parse_qualifier(&said->quals, &said->block))
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
        refuse(xl.pos - 1, "two types in one declaration");

    said->whole = t;
    return true;
}

void parse_specs(struct specs *s)
{
    struct said said = { 0 };

    memset(s, 0, sizeof *s);
    s->tok = xl.pos;
    while (take_word(s, &said))
        ;

    bool has_type = said.whole || said.base.words;

    if (!has_type && (s->storage || said.quals) && implicit_int())
        said.whole = ty_basic(TY_INT);

    struct type *whole = said.whole;
    struct type *t = whole ? whole : base_type(&said.base, s->tok);

    if (said.quals & Q_SHARED) {
        struct type *layout = ty_qualified(ty_basic(TY_INT), Q_SHARED, &said.block);

        s->rewritten = true;
        if (ty_shared(t) && !ty_same_block(t, layout))
            refuse(s->tok, "'shared' is given twice with different layouts");
    }

    s->type = ty_qualified(t, said.quals, &said.block);
    if (s->attributes && whole == NULL && strstr(s->attributes, "vector_size"))
        s->type = ty_basic(TY_UNKNOWN);
}
