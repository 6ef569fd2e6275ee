/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: declarators, parameters and type names.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

static struct type *new_type(enum type_kind kind, struct type *of)
{
    struct type *t = xl_alloc(sizeof *t);

    t->kind = kind;
    t->of = of;
    return t;
}

/* [ ... ]; the element type is filled in by the caller */
static struct type *parse_dimension(void)
{
    struct type *t = new_type(TY_ARRAY, NULL);

    t->dim_value = -1;
    while (xl.tokens[xl.pos].kind == T_ID &&
           (xl.tokens[xl.pos].kw == K_STATIC || xl.tokens[xl.pos].kw == K_CONST ||
            xl.tokens[xl.pos].kw == K_VOLATILE || xl.tokens[xl.pos].kw == K_RESTRICT))
        xl.pos++;

    if (xl_accept(']'))
        return t;

    if (xl_is_punct(xl.pos, '*') && xl_is_punct(xl.pos + 1, ']')) {
        xl.pos += 2;
        t->dim_varies = true;
        return t;
    }

    int a = xl.pos;
    struct expr e = xl_parse_assign();

    xl_use_value(&e);
    xl_expect(']');
    t->dim = xl_render_bare(e.a, e.b);

    if (e.is_const) {
        if (e.value < 0)
            xl_refuse(a, "an array of %lld elements", e.value);

        t->dim_value = e.value;
        t->dim = xl_fmt("%lld", e.value);
    } else if (e.threads) {
        t->dim_threads = true;
    } else {
        t->dim_varies = xl.deepest_name > 0 || xl_scope_level() > 0;
    }

    return t;
}

struct type *xl_adjust_param(struct type *t, int tok)
{
    if (t->kind == TY_ARRAY)
        t = xl_ty_pointer(t->of);
    else if (t->kind == TY_FUNCTION)
        t = xl_ty_pointer(t);

    if (xl_ty_shared(t))
        xl_refuse(tok,
                  "a parameter cannot be shared by itself; pass a pointer to shared or a value");

    return t;
}

static bool is_word(int tok, enum keyword kw)
{
    return xl.tokens[tok].kind == T_ID && xl.tokens[tok].kw == kw;
}

/* Adds a parameter behind the last one; returns where the next one goes. */
static struct param **add_param(struct param **tail, const char *name, struct type *t)
{
    struct param *p = xl_alloc(sizeof *p);

    p->name = name;
    p->type = t;
    *tail = p;
    return &p->next;
}

/* Names only; their types follow the declarator. */
static void parse_param_names(struct type *f)
{
    struct param **tail = &f->params;

    do {
        if (xl.tokens[xl.pos].kind != T_ID)
            xl_refuse(xl.pos, "a parameter's name is expected");

        tail = add_param(tail, xl.tokens[xl.pos++].id, xl_ty_basic(TY_INT));
    } while (xl_accept(','));

    xl_expect(')');
}

static struct param **parse_param(struct param **tail)
{
    struct specs s;
    struct decl one = { 0 };
    int a = xl.pos;

    xl_parse_specs(&s);
    xl_parse_declarator(&one, s.type, true);
    xl_skip_attributes(NULL);

    struct type *t = xl_adjust_param(one.type, a);

    if (one.name)
        xl_sym_add(S_VAR, one.name, t, a);

    if (xl_ty_involves_shared(t) && s.has_def)
        xl_refuse(a, "a structure defined inside a parameter is not translated");

    return add_param(tail, one.name, t);
}

static void parse_prototype(struct type *f)
{
    struct param **tail = &f->params;

    xl_scope_push();
    do {
        f->variadic = xl_accept(P3('.', '.', '.'));
        if (f->variadic)
            break;

        tail = parse_param(tail);
    } while (xl_accept(','));

    xl_expect(')');
    xl_scope_pop();
}

static struct type *parse_params(struct decl *d)
{
    struct type *f = new_type(TY_FUNCTION, NULL);

    if (xl_accept(')')) {
        f->no_proto = true;
    } else if (is_word(xl.pos, K_VOID) && xl_is_punct(xl.pos + 1, ')')) {
        xl.pos += 2;
    } else if (is_word(xl.pos, K_NONE) && !xl_starts_type(xl.pos)) {
        parse_param_names(f);
        f->no_proto = true;
        d->knr = true;
    } else {
        parse_prototype(f);
    }

    return f;
}

/* The suffixes of a declarator, applied to base. */
static struct type *parse_suffixes(struct decl *d, struct type *base, int tok)
{
    if (xl_accept('[')) {
        struct type *t = parse_dimension();

        t->of = parse_suffixes(d, base, tok);
        if (t->of->kind == TY_FUNCTION)
            xl_refuse(tok, "an array of functions");

        return t;
    }

    if (xl_accept('(')) {
        struct type *t = parse_params(d);

        t->of = parse_suffixes(d, base, tok);
        if (t->of->kind == TY_FUNCTION || t->of->kind == TY_ARRAY)
            xl_refuse(tok, "a function cannot return a function or an array");

        if (xl_ty_shared(t->of))
            xl_refuse(
                tok, "a function cannot return a shared object; it can return a pointer to shared");

        return t;
    }

    return base;
}

void xl_resolve_star(struct type *t, int tok)
{
    struct type *el = xl_ty_element(t);

    if (!(el->quals & Q_SHARED) || !el->block.star)
        return;

    struct type *n = xl_ty_copy(el);

    n->block.star = false;

    long long count = 1;
    bool known = xl.static_threads != 0;
    bool sized = true;

    for (struct type *a = t; a->kind == TY_ARRAY; a = a->of) {
        known &= a->dim_value >= 0;
        sized &= a->dim != NULL;
        count *= a->dim_value >= 0 ? a->dim_value : 1;
    }

    if (!sized && t->dim == NULL && xl_is_punct(xl.pos, '='))
        return;

    if (!sized)
        xl_refuse(tok, "[*] needs an array of known size");

    if (known) {
        n->block.value = (count + xl.static_threads - 1) / xl.static_threads;
    } else {
        n->block.text = xl_fmt("((%s + upc_self.threads - 1) / upc_self.threads)", xl_ty_count(t));
        n->block.value = -1;
    }

    *el = *n;
}

static bool star_below_pointer(struct type *t)
{
    for (; t->kind == TY_POINTER || t->kind == TY_ARRAY || t->kind == TY_FUNCTION; t = t->of)
        if (t->kind != TY_ARRAY && xl_ty_element(t->of)->block.star)
            return true;

    return false;
}

static void declarator(struct decl *d, struct type *base, bool abstract_ok)
{
    xl_deeper();
    xl_skip_attributes(&d->attributes);

    while (xl_accept('*')) {
        unsigned quals = 0;
        struct block b = { 0 };

        xl_skip_attributes(&d->attributes);
        while (xl_parse_qualifier(&quals, &b))
            xl_skip_attributes(&d->attributes);

        base = xl_ty_qualified(xl_ty_pointer(base), quals, &b);
    }

    int tok = xl.pos;

    if (xl_is_punct(xl.pos, '(') &&
        !(abstract_ok && (xl_is_punct(xl.pos + 1, ')') || xl_starts_type(xl.pos + 1)))) {
        struct type *hole = new_type(TY_UNKNOWN, NULL);

        xl.pos++;
        declarator(d, hole, abstract_ok);
        xl_expect(')');

        bool itself = d->type == hole;
        struct type *whole = parse_suffixes(d, base, tok);

        *hole = *whole;
        if (itself)
            d->type = whole;
    } else {
        d->tok = xl.pos;
        if (xl.tokens[xl.pos].kind == T_ID &&
            (xl.tokens[xl.pos].kw == K_NONE || xl.tokens[xl.pos].kw == K_FLOATN ||
             (!abstract_ok && xl.tokens[xl.pos].kw >= K_SHARED)))
            d->name = xl.tokens[xl.pos++].id;
        else if (!abstract_ok)
            xl_refuse(xl.pos, "a name is expected before '%.*s'",
                      xl.tokens[xl.pos].len > 40 ? 40 : xl.tokens[xl.pos].len,
                      xl.tokens[xl.pos].text);

        d->type = parse_suffixes(d, base, tok);
    }

    xl_shallower();
}

void xl_parse_declarator(struct decl *d, struct type *base, bool abstract_ok)
{
    int level_was = xl.deepest_name;

    xl.deepest_name = 0;
    if (xl_ty_element(base)->block.star) /* each declarator has a block size of its own */
        base = base->kind == TY_ARRAY ? base : xl_ty_copy(base);

    d->a = xl.pos;
    d->tok = xl.pos;
    declarator(d, base, abstract_ok);
    if (xl.tokens[d->tok].kind == T_ID && xl.tokens[d->tok].kw >= K_SHARED && d->name)
        xl_refuse(d->tok, "'%s' is a word of UPC and cannot be a name", d->name);

    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_ASM) {
        int a = xl.pos++;

        while (!xl_is_punct(xl.pos, ')') && xl.tokens[xl.pos].kind != T_EOF)
            xl.pos++;

        xl_expect(')');
        d->asm_name = xl_render_bare(a, xl.pos);
    }

    xl_skip_attributes(&d->attributes);
    if (star_below_pointer(d->type))
        xl_refuse(d->tok, "[*] belongs to arrays; a pointer needs a layout of its own");

    xl_resolve_star(d->type, d->tok);
    d->b = xl.pos;
    if (xl.deepest_name < level_was)
        xl.deepest_name = level_was;
}

struct type *xl_parse_type_name(void)
{
    struct specs s;
    struct decl d = { 0 };
    int a = xl.pos;

    xl_parse_specs(&s);
    if (s.storage)
        xl_refuse(a, "a type name has no storage class");

    xl_parse_declarator(&d, s.type, true);
    if (d.name)
        xl_refuse(d.tok, "a type name holds no name");

    if (s.rewritten || xl_ty_involves_shared(d.type)) {
        if (s.has_def)
            xl_refuse(a, "a structure defined inside a type name is not translated");

        if (d.type->kind != TY_VOID)
            xl_edit(a, xl.pos,
                    xl_ty_text(xl_ty_shared(d.type) ? xl_ty_unqualified(d.type) : d.type, "", a));
    }

    return d.type;
}
