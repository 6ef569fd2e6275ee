/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: objects with shared type, and what is initialised when the program starts.  Each shared
 * object is a C variable of type upcx_pts that the run-time library sets before main; a table of
 * this translation unit says how large and how laid out it is.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "xlate.h"

const char *xl_hoist_take(void)
{
    const char *s = xl.object.hoisted.s;

    memset(&xl.object.hoisted, 0, sizeof xl.object.hoisted);
    return s;
}

static void object_add(struct sym *y)
{
    if (y->object)
        return;

    y->object = true;
    *xl.object.tail = y;
    xl.object.tail = &y->next_object;
}

/* Refuses a declaration that no shared object can have. */
static void check_declaration(const struct specs *s, const struct decl *d, bool has_init)
{
    bool block = xl_scope_level() > 0;

    if (block && s->storage != K_STATIC && s->storage != K_EXTERN)
        xl_refuse(d->tok,
                  "the shared object '%s' cannot be automatic; make it static, or allocate it",
                  d->name);

    if (s->thread_local_ || s->storage == K_REGISTER)
        xl_refuse(d->tok, "the shared object '%s' cannot be local to a thread", d->name);

    if (d->type->kind == TY_VOID)
        xl_refuse(d->tok, "'%s' has type shared void", d->name);

    if (xl_ty_varies(d->type))
        xl_refuse(d->tok, "the size of the shared array '%s' must be constant, apart from THREADS",
                  d->name);

    for (struct type *t = d->type; t->kind == TY_ARRAY; t = t->of)
        if (t != d->type && t->dim == NULL)
            xl_refuse(d->tok, "only the first size of '%s' may be left out", d->name);

    if (has_init && s->storage == K_EXTERN)
        xl_refuse(d->tok, "'extern' and an initialiser do not go together for the shared '%s'",
                  d->name);

    struct type *el = xl_ty_element(d->type);

    if (block && s->storage != K_EXTERN && el->kind == TY_RECORD && !el->rec->complete)
        xl_refuse(d->tok, "%s is not complete here", xl_ty_words(el));
}

/* All extern declarations of a name are one variable. */
static void check_others(const struct decl *d, const struct sym *y)
{
    for (struct sym *o = xl.object.first; o; o = o->next_object)
        if (o->name == y->name && o->storage != K_STATIC &&
            (!xl_ty_same_block(o->type, y->type) || !xl_ty_same(o->type, y->type)))
            xl_refuse(d->tok, "'%s' is declared as '%s' here and as '%s' elsewhere", d->name,
                      xl_ty_words(y->type), xl_ty_words(o->type));
}

void xl_object_declare(struct specs *s, struct decl *d, struct sym *y, bool has_init)
{
    bool block = xl_scope_level() > 0;

    check_declaration(s, d, has_init);
    if (block && s->storage == K_STATIC)
        y->cname = xl_fmt("%s_upcx%d", d->name, xl_unique());

    if (block && s->storage == K_EXTERN)
        check_others(d, y);

    if (s->storage != K_EXTERN)
        y->defined = true;

    object_add(y);
}

void xl_object_text(struct specs *s, struct decl *d, struct sym *y, struct buf *out)
{
    if (xl_scope_level() > 0 && s->storage == K_STATIC) {
        struct type *el = xl_ty_element(d->type);

        if (el->kind == TY_RECORD && el->rec->level > 0)
            xl_refuse(
                d->tok,
                "define %s outside the function: the static shared object '%s' needs it at file "
                "scope",
                xl_ty_words(xl_ty_unqualified(el)), d->name);

        xl_buf_fmt(&xl.object.hoisted, "static upcx_pts %s;\n", y->cname);
        return;
    }

    const char *storage = "";

    if (s->storage == K_EXTERN)
        storage = "extern ";
    else if (s->storage == K_STATIC)
        storage = "static ";

    xl_buf_fmt(out, "%supcx_pts %s; ", storage, y->cname);
}

static void check_hoistable(struct sym *y)
{
    if (xl.deepest_name > 0)
        xl_refuse(
            y->tok,
            "the initialiser of the static '%s' uses names of the function; move it to file scope",
            y->name);

    for (struct type *t = y->type; t; t = t->of)
        if (t->rec && t->rec->level > 0)
            xl_refuse(y->tok,
                      "define %s outside the function: '%s' is initialised when the program starts",
                      xl_ty_words(xl_ty_unqualified(t)), y->name);
}

void xl_object_initialise(struct sym *y, int a, int b)
{
    struct type *t = xl_ty_unqualified(y->type);

    check_hoistable(y);

    bool threads = false;

    for (struct type *u = t; u->kind == TY_ARRAY; u = u->of)
        threads |= u->dim_threads;

    if (threads && (t->kind != TY_ARRAY || t->of->kind == TY_ARRAY))
        xl_refuse(y->tok,
                  "the initialiser of '%s' needs the number of threads at translation time "
                  "(amphora-upcc -T N)",
                  y->name);

    if (t->kind == TY_ARRAY && (t->dim == NULL || threads)) {
        t = xl_ty_copy(t);
        t->dim = NULL;
        t->dim_value = -1;
    }

    y->init = xl_render_bare(a, b);
    y->init_type = xl_ty_text(t, "upcx_value", y->tok);
    if (y->type->kind == TY_ARRAY && y->type->dim == NULL)
        xl_refuse(y->tok, "give the size of the shared array '%s', which cannot be counted",
                  y->name);
}

void xl_static_initialise(struct sym *y, int a, int b, bool in_block)
{
    check_hoistable(y);
    if (y->type->kind == TY_ARRAY && y->type->dim == NULL)
        xl_refuse(y->tok,
                  "give the size of the array '%s', whose values are known when the program starts",
                  y->name);

    if (y->type->quals & Q_CONST || xl_ty_element(y->type)->quals & Q_CONST)
        y->type = xl_ty_unqualified(y->type);

    if (in_block) {
        y->cname = xl_fmt("%s_upcx%d", y->name, xl_unique());
        xl_buf_fmt(&xl.object.hoisted, "static %s;\n", xl_ty_text(y->type, y->cname, y->tok));
    }

    xl_buf_fmt(&xl.object.values, "{ %s = %s; __builtin_memcpy(&%s, &upcx_value, sizeof %s); }\n",
               xl_ty_text(xl_ty_unqualified(y->type), "upcx_value", y->tok), xl_render_bare(a, b),
               y->cname, y->cname);
}

/* The functions and the row of one object; its name in C, or NULL where there is nothing to say. */
static const char *object_row(FILE *f, struct sym *y)
{
    struct type *el = xl_ty_element(y->type);
    bool unsized = y->type->kind == TY_ARRAY && y->type->dim == NULL;

    /* C: what is defined without a size and never completed has one element. */
    const char *completed = y->defined ? "1" : "0";
    const char *count = unsized ? completed : xl_ty_count(y->type);
    int n = xl_unique();

    if (el->kind == TY_RECORD && !el->rec->complete) {
        if (y->defined)
            xl_refuse(y->tok, "%s of the shared object '%s' is never completed", xl_ty_words(el),
                      y->name);

        return NULL;
    }

    const char *size = xl_fmt("sizeof(%s)", xl_ty_text(xl_ty_unqualified(el), "", y->tok));
    const char *block = xl_ty_block_text(y->type);
    const char *initial = "0";

    xl_out_text(f,
                xl_fmt("static unsigned long upcx_block_%d(void) { return %s; }\nstatic unsigned "
                       "long upcx_count_%d(void) { return %s; }",
                       n, block, n, count));
    if (y->init) {
        initial = xl_fmt("upcx_initial_%d", n);
        xl_out_text(f,
                    xl_fmt("static void %s(void) { %s = %s; upcx_object_set(%s, \"%s\", "
                           "&upcx_value, sizeof upcx_value, %s, %s, %s); }",
                           initial, y->init_type, y->init, y->cname, y->name, size, block, count));
    }

    /* the field `defined` of struct upcx_object */
    int defined = 0;

    if (y->defined)
        defined = y->storage == K_STATIC ? 2 : 1;

    xl_out_text(f, xl_fmt("static struct upcx_object upcx_object_%d = { &%s, \"%s\", %s, "
                          "upcx_block_%d, upcx_count_%d, %s, %d };",
                          n, y->cname, y->name, size, n, n, initial, defined));
    return xl_fmt("&upcx_object_%d, ", n);
}

static const char *quoted(const char *s)
{
    struct buf b = { 0 };

    xl_buf_add(&b, "", 0);
    for (; *s; s++)
        xl_buf_fmt(&b, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);

    return b.s;
}

void xl_object_write_all(FILE *f, const char *file)
{
    struct buf list = { 0 };

    xl_buf_add(&list, "", 0);
    for (struct sym *y = xl.object.first; y; y = y->next_object) {
        const char *row = y->defined || y->used ? object_row(f, y) : NULL;
        if (row)
            xl_buf_fmt(&list, "%s", row);
    }

    xl_out_text(
        f,
        xl_fmt(
            "static void upcx_values(void) { %s}\n"
            "static struct upcx_object *const upcx_objects[] = { %s0 };\n"
            "static struct upcx_unit upcx_unit = { \"%s\", upcx_objects, upcx_values, %lld, 0 };\n"
            "__attribute__((__constructor__)) static void upcx_register(void) { "
            "upcx_unit_add(&upcx_unit); }",
            xl.object.values.s ? xl.object.values.s : "", list.s, quoted(file), xl.static_threads));
}
