/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: declarations.  One without anything shared goes out as it is; one with shared types is
 * rewritten from its types, a declarator at a time.  Function definitions likewise.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

/* static inline ... */
static const char *storage_text(struct specs *s)
{
    static const struct {
        int kw;
        const char *text;
    } words[] = { { K_TYPEDEF, "typedef " }, { K_EXTERN, "extern " }, { K_STATIC, "static " } };

    const char *w = "";

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].kw == s->storage)
            w = words[i].text;

    return xl_fmt("%s%s%s%s", w, s->thread_local_ ? "__thread " : "",
                  s->is_inline ? "__inline__ " : "", s->is_noreturn ? "_Noreturn " : "");
}

static struct sym *declare_typedef(struct specs *s, struct decl *d)
{
    struct type *t = d->type;
    const char *all = xl_fmt("%s%s", s->attributes ? s->attributes : "",
                             d->attributes ? d->attributes : "");

    if (strstr(all, "vector_size") || strstr(all, "mode__") || strstr(all, "mode(")) {
        if (xl_ty_involves_shared(t))
            xl_refuse(d->tok, "this attribute on a shared type is not translated");

        struct type *o = xl_alloc(sizeof *o);

        o->kind = TY_OPAQUE;
        o->name = d->name;
        t = o;
    }

    if (strstr(all, "aligned")) {
        t = xl_ty_copy(t);
        t->attributed = true;
    }

    struct sym *old = xl_sym_here(d->name);
    if (old && old->kind == S_TYPEDEF && xl_ty_same(old->type, t))
        return old;

    if (old)
        xl_refuse(d->tok, "'%s' is declared twice in one scope as different things", d->name);

    return xl_sym_add(S_TYPEDEF, d->name, t, d->tok);
}

/* The array of the new declaration may complete that of the old one. */
static void merge_types(struct sym *y, struct decl *d)
{
    struct type *t = d->type;
    bool fits = y->kind == S_VAR && (xl_ty_same(y->type, t) ||
                                     !(xl_ty_involves_shared(y->type) || xl_ty_involves_shared(t)));

    if (xl_ty_shared(t) || xl_ty_shared(y->type))
        fits = fits && xl_ty_same_block(y->type, t) && xl_ty_shared(t) == xl_ty_shared(y->type);

    if (!fits)
        xl_refuse(d->tok, "'%s' is declared as '%s' here and as '%s' at %s:%d", d->name,
                  xl_ty_words(t), xl_ty_words(y->type), xl_lex_file_name(xl.tokens[y->tok].file),
                  xl.tokens[y->tok].line);

    if (!(t->kind == TY_ARRAY && t->dim == NULL) && !(t->kind == TY_FUNCTION && t->no_proto))
        y->type = t;
}

static struct sym *declare_var(struct specs *s, struct decl *d)
{
    struct sym *y = xl_sym_here(d->name);
    bool linkage = s->storage == K_EXTERN || d->type->kind == TY_FUNCTION || xl_scope_level() == 0;

    if (y && linkage)
        merge_types(y, d);
    else if (y)
        xl_refuse(d->tok, "'%s' is declared twice in one scope", d->name);
    else
        y = xl_sym_add(S_VAR, d->name, d->type, d->tok);

    if (y->storage != K_STATIC)
        y->storage = s->storage;

    if (d->type->kind == TY_FUNCTION && xl_scope_level() == 0 && strcmp(d->name, "main") == 0)
        y->cname = "upcx_user_main";

    return y;
}

struct item {
    struct decl d;
    struct sym *sym;
    int init_a, init_b; /* '=' and the initialiser; equal: none */
    bool hoisted;
    struct item *next;
};

/* Of __auto_type: it gives the variable its type. */
static void auto_initialiser(struct item *it)
{
    it->init_a = xl.pos++;

    struct expr e = xl_parse_assign();

    xl_use_value(&e);
    it->sym->type = it->d.type = xl_ty_unqualified(e.type);
    it->init_b = xl.pos;
}

/* The array of the item gets the size that its initialiser gives it. */
static void complete_array(struct item *it, long long count)
{
    struct type *t = it->d.type;

    if (t->kind != TY_ARRAY || t->dim || count < 0)
        return;

    t = xl_ty_copy(t);
    t->dim_value = count;
    t->dim = xl_fmt("%lld", count);
    xl_resolve_star(t, it->d.tok);
    it->d.type = it->sym->type = t;
}

static void item_initialiser(struct specs *s, struct item *it)
{
    bool permanent = xl_scope_level() == 0 || s->storage == K_STATIC || s->storage == K_EXTERN;
    bool was = xl.pts_computed;
    int level_was = xl.deepest_name;

    xl.pts_computed = false;
    xl.deepest_name = 0;
    it->init_a = xl.pos++;
    if (s->storage == K_TYPEDEF || it->d.type->kind == TY_FUNCTION)
        xl_refuse(it->d.tok, "'%s' cannot have an initialiser", it->d.name);

    long long count = xl_parse_initialiser(it->d.type);

    it->init_b = xl.pos;
    complete_array(it, count);

    if (xl_ty_shared(it->d.type))
        xl_object_initialise(it->sym, it->init_a + 1, it->init_b);
    else if (permanent && xl.pts_computed) {
        xl_static_initialise(it->sym, it->init_a + 1, it->init_b, xl_scope_level() > 0);
        it->d.type = it->sym->type; /* no longer const */
        it->hoisted = xl_scope_level() > 0;
        it->init_a = it->init_b;
        s->rewritten = true;
    }

    xl.pts_computed = was;
    if (xl.deepest_name < level_was)
        xl.deepest_name = level_was;
}

static void item_text(struct specs *s, struct item *it, struct buf *out)
{
    struct decl *d = &it->d;
    const char *attributes = xl_fmt("%s%s", s->attributes ? s->attributes : "",
                                    d->attributes ? d->attributes : "");

    if (it->hoisted)
        return;

    if (s->storage == K_TYPEDEF) {
        if (!xl_ty_shared(d->type) && !(d->type->kind == TY_FUNCTION && xl_ty_shared(d->type->of)))
            xl_buf_fmt(out, "typedef %s%s; ", attributes, xl_ty_text(d->type, d->name, d->tok));

        return;
    }

    if (xl_ty_shared(d->type)) {
        if (*attributes && !strstr(attributes, "unused"))
            xl_refuse(d->tok, "an attribute on the shared object '%s' is not translated", d->name);

        xl_object_text(s, d, it->sym, out);
        return;
    }

    xl_buf_fmt(out, "%s%s%s%s%s", attributes, storage_text(s),
               xl_ty_text(d->type, it->sym->cname, d->tok), d->asm_name ? " " : "",
               d->asm_name ? d->asm_name : "");
    if (it->init_b > it->init_a)
        xl_buf_fmt(out, "%s", xl_render(it->init_a, it->init_b));

    xl_buf_fmt(out, "; ");
}

/* Declarators of for (...) must stay in one declaration. */
static const char *for_text(struct item *items)
{
    struct buf out = { 0 };

    for (struct item *it = items; it; it = it->next) {
        if (items->next && !xl_ty_pts(it->d.type))
            xl_refuse(it->d.tok,
                      "declare pointers to shared and other variables of this 'for' before it");

        if (items->next && it != items)
            xl_buf_fmt(&out, ", %s", it->d.name);
        else
            xl_buf_fmt(&out, "%s", xl_ty_text(it->d.type, it->d.name, it->d.tok));

        xl_buf_fmt(&out, "%s", it->init_b > it->init_a ? xl_render(it->init_a, it->init_b) : "");
    }

    xl_buf_fmt(&out, ";");
    return out.s;
}

static void parse_item(struct specs *s, struct item *it)
{
    struct decl *d = &it->d;

    if (s->storage == K_TYPEDEF)
        it->sym = declare_typedef(s, d);
    else
        it->sym = declare_var(s, d);

    if (xl_ty_involves_shared(d->type) || it->sym->cname != it->sym->name)
        s->rewritten = true;

    if (xl_ty_shared(d->type) && s->storage != K_TYPEDEF)
        xl_object_declare(s, d, it->sym, xl_is_punct(xl.pos, '='));

    if (xl_is_punct(xl.pos, '=') && s->is_auto && xl_scope_level() > 0 && s->storage == K_NONE)
        auto_initialiser(it);
    else if (xl_is_punct(xl.pos, '='))
        item_initialiser(s, it);
}

static void rewrite(struct specs *s, struct item *items, int a, bool in_for)
{
    struct buf out = { 0 };

    xl_buf_add(&out, "", 0);
    if (in_for && s->has_def)
        xl_refuse(a, "define the structure before the 'for'");

    if (s->has_def)
        xl_buf_fmt(&out, "%s; ", xl_render(s->def_a, s->def_b));

    if (in_for)
        xl_buf_fmt(&out, "%s", for_text(items));
    else
        for (struct item *it = items; it; it = it->next)
            item_text(s, it, &out);

    xl_edit(a, xl.pos, out.s);
}

static void parse_static_assert(void)
{
    xl.pos++;
    xl_expect('(');

    struct expr e = xl_parse_conditional();

    xl_use_value(&e);
    if (xl_accept(',') && xl.tokens[xl.pos].kind == T_STR)
        while (xl.tokens[xl.pos].kind == T_STR)
            xl.pos++;

    xl_expect(')');
    xl_expect(';');
}

static bool begins_body(struct decl *d)
{
    return d->type->kind == TY_FUNCTION &&
           (xl_is_punct(xl.pos, '{') ||
            (d->knr && !xl_is_punct(xl.pos, ';') && !xl_is_punct(xl.pos, ',')));
}

/* After f(a, b): the declarations of a and b. */
static void parse_knr(struct type *f)
{
    while (!xl_is_punct(xl.pos, '{')) {
        struct specs s;
        int a = xl.pos;

        xl_parse_specs(&s);
        do {
            struct decl d = { 0 };

            xl_parse_declarator(&d, s.type, false);
            if (xl_ty_involves_shared(d.type) && s.has_def)
                xl_refuse(a, "a structure defined inside a parameter is not translated");

            for (struct param *p = f->params; p; p = p->next)
                if (p->name == d.name)
                    p->type = xl_adjust_param(d.type, d.tok);
        } while (xl_accept(','));

        xl_expect(';');
    }
}

/* Its definition is written with a prototype; callers that see none pass promoted values. */
static void knr_with_prototype(struct type *f, int tok)
{
    for (const struct param *p = f->params; p; p = p->next)
        if (p->type->kind == TY_FLOAT || (p->type->kind >= TY_BOOL && p->type->kind <= TY_USHORT))
            xl_refuse(
                tok,
                "beside parameters that involve shared, '%s' of '%s' has to be declared inside "
                "the parentheses",
                p->name, xl_ty_words(p->type));

    f->no_proto = false;
}

static void function_definition(struct specs *s, struct decl *d, int a)
{
    if (xl_scope_level() > 0)
        xl_refuse(d->tok, "a function inside a function is not translated");

    if (s->storage == K_TYPEDEF)
        xl_refuse(d->tok, "a typedef is no function");

    struct sym *y = declare_var(s, d);

    y->defined = true;
    if (d->knr)
        parse_knr(d->type);

    if (xl_ty_involves_shared(d->type)) {
        if (d->knr)
            knr_with_prototype(d->type, d->tok);

        if (s->has_def)
            xl_refuse(a, "define the structure before the function");

        for (struct param *p = d->type->params; p; p = p->next)
            if (!p->name && !d->knr)
                xl_refuse(d->tok, "a parameter of this function has no name");

        xl_edit(a, xl.pos,
                xl_fmt("%s%s%s%s", s->attributes ? s->attributes : "",
                       d->attributes ? d->attributes : "", storage_text(s),
                       xl_ty_text(d->type, y->cname, d->tok)));
    } else if (y->cname != y->name) {
        xl_edit(d->tok, d->tok + 1, y->cname);
    }

    xl_parse_function_body(d->type, d->name);
}

static void declaration(bool in_for, bool may_define)
{
    struct specs s;
    struct item *items = NULL;
    struct item **tail = &items;
    int a = xl.pos;

    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_STATIC_ASSERT) {
        parse_static_assert();
        return;
    }

    xl_parse_specs(&s);
    if (xl_accept(';'))
        return;

    do {
        struct item *it = xl_alloc(sizeof *it);

        xl_parse_declarator(&it->d, s.type, false);
        if (items == NULL && begins_body(&it->d)) {
            if (!may_define)
                xl_refuse(it->d.tok, "a function inside a function is not translated");

            function_definition(&s, &it->d, a);
            return;
        }

        parse_item(&s, it);
        *tail = it;
        tail = &it->next;
    } while (xl_accept(','));

    xl_expect(';');
    if (s.rewritten)
        rewrite(&s, items, a, in_for);
}

void xl_parse_declaration(bool in_for)
{
    declaration(in_for, false);
}

void xl_parse_external(void)
{
    if (xl.tokens[xl.pos].kind == T_UPC_PRAGMA) {
        xl_pragma_upc();
        return;
    }

    if (xl_accept(';'))
        return;

    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_ASM) {
        while (!xl_is_punct(xl.pos, ';') && xl.tokens[xl.pos].kind != T_EOF)
            xl.pos++;

        xl_expect(';');
        return;
    }

    /* a function without a type, as in C before C99: it returns int */
    if (xl.tokens[xl.pos].kind == T_ID && xl.tokens[xl.pos].kw == K_NONE &&
        !xl_starts_type(xl.pos) && xl_is_punct(xl.pos + 1, '(')) {
        struct specs s = { .type = xl_ty_basic(TY_INT), .tok = xl.pos };
        struct decl d = { 0 };
        int a = xl.pos;

        xl_parse_declarator(&d, s.type, false);
        if (!begins_body(&d))
            xl_refuse(a, "a type is expected before '%.*s'", xl.tokens[a].len, xl.tokens[a].text);

        function_definition(&s, &d, a);
        return;
    }

    declaration(false, true);
}
