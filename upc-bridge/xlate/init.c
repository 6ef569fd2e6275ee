/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: initialisers.  Walked with the type that each value initialises, since a null pointer
 * or a pointer to shared needs that.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "xlate.h"

static bool aggregate(struct type *t)
{
    return t->kind == TY_ARRAY || (t->kind == TY_RECORD && !t->rec->is_enum);
}

/* Where in an aggregate the next value goes. */
struct cursor {
    struct type *type;
    struct member *m;
    bool started;
    long long index, count; /* array: of the next value; elements so far, or -1: not known */
};

static struct member *first_named(struct member *m)
{
    while (m && m->name == NULL && m->bits)
        m = m->next;

    return m;
}

static struct type *cursor_type(struct cursor *c)
{
    if (c->type->kind == TY_ARRAY)
        return c->type->of;

    if (!c->started) {
        c->m = first_named(c->type->rec->members);
        c->started = true;
    }

    return c->m ? c->m->type : xl_ty_basic(TY_UNKNOWN);
}

static void cursor_next(struct cursor *c)
{
    if (c->type->kind == TY_ARRAY) {
        c->index++;
        if (c->count >= 0 && c->index > c->count)
            c->count = c->index;

        return;
    }

    if (!c->m)
        return;

    c->m = c->type->rec->is_union ? NULL : first_named(c->m->next);
}

static struct member *member_for(struct type *t, const char *name, struct type **in)
{
    for (struct member *m = t->rec->members; m; m = m->next) {
        if (m->name == name) {
            *in = m->type;
            return m;
        }

        if (!m->name && m->type->kind == TY_RECORD && member_for(m->type, name, in))
            return m;
    }

    return NULL;
}

/* [3].x = and the like; returns the type designated, and leaves the cursor at the first step. */
static struct type *designation(struct cursor *c)
{
    struct type *t = c->type;
    bool first = true;

    while (xl_is_punct(xl.pos, '[') || xl_is_punct(xl.pos, '.')) {
        if (xl_accept('[')) {
            struct expr e = xl_parse_conditional();

            xl_use_value(&e);
            if (xl_accept(P3('.', '.', '.'))) {
                e = xl_parse_conditional();
                xl_use_value(&e);
            }

            xl_expect(']');
            if (t->kind != TY_ARRAY)
                xl_refuse(xl.pos, "an index designates no element of '%s'", xl_ty_words(t));

            if (first)
                c->index = e.value;

            if (first && !e.is_const)
                c->count = -1;

            t = t->of;
        } else {
            xl.pos++;
            if (xl.tokens[xl.pos].kind != T_ID || t->kind != TY_RECORD)
                xl_refuse(xl.pos, "no such member to initialise in '%s'", xl_ty_words(t));

            struct type *in = NULL;
            struct member *m = member_for(t, xl.tokens[xl.pos].id, &in);

            if (m == NULL)
                xl_refuse(xl.pos, "'%s' has no member '%s'", xl_ty_words(t), xl.tokens[xl.pos].id);

            if (first) {
                c->m = m;
                c->started = true;
            }

            t = in;
            xl.pos++;
        }

        first = false;
    }

    /* GNU's old form: [3] 5 */
    if (!xl_is_punct(xl.pos - 1, ']') || xl_is_punct(xl.pos, '='))
        xl_expect('=');

    return t;
}

/* GNU's old form, x: for .x = */
static struct type *old_designation(struct cursor *c)
{
    struct type *in = NULL;
    struct member *m = member_for(c->type, xl.tokens[xl.pos].id, &in);

    if (m == NULL)
        xl_refuse(xl.pos, "'%s' has no member '%s'", xl_ty_words(c->type), xl.tokens[xl.pos].id);

    c->m = m;
    c->started = true;
    xl.pos += 2;

    return in;
}

static void assign_value(struct expr *e, struct type *t)
{
    if (t->kind == TY_ARRAY || t->kind == TY_UNKNOWN)
        xl_use_value(e);
    else
        xl_convert_to(e, xl_ty_unqualified(t), "initialiser", false);
}

static long long init_list(struct type *t, bool braces, struct expr *first);

/* One value or nested list for a place of type t; where braces are left out, as many values as the
 * aggregate takes. */
static void init_one(struct type *t, struct expr *got)
{
    struct expr e;

    if (!got && xl_is_punct(xl.pos, '{')) {
        xl_parse_initialiser(t);
        return;
    }

    if (got)
        e = *got;
    else
        e = xl_parse_assign();

    if (aggregate(t) && !(t->kind == TY_ARRAY && e.string && !aggregate(t->of)) &&
        !(t->kind == TY_RECORD && e.type->kind == TY_RECORD)) {
        init_list(t, false, &e);
        return;
    }

    if (e.string && t->kind == TY_ARRAY)
        return;

    assign_value(&e, t);
}

static bool another(bool braces)
{
    if (!xl_is_punct(xl.pos, ','))
        return false;
    if (xl_is_punct(xl.pos + 1, '}'))
        return false;
    if (!braces && (xl_is_punct(xl.pos + 1, '.') || xl_is_punct(xl.pos + 1, '[')))
        return false; /* designates something of an outer list */

    xl.pos++;
    return true;
}

/* Returns the elements of an array that the list makes up, or -1: not known. */
static long long init_list(struct type *t, bool braces, struct expr *first)
{
    struct cursor c = { .type = t };
    bool counts = t->kind == TY_ARRAY && !braces && t->dim_value >= 0;
    long long left = counts ? t->dim_value : -1;

    xl_deeper();
    if (!braces && t->kind == TY_ARRAY && t->dim_value < 0)
        xl_refuse(xl.pos, "put braces around the values of an inner array");

    for (;;) {
        struct type *at = NULL;

        if (braces && (xl_is_punct(xl.pos, '.') || xl_is_punct(xl.pos, '[')))
            at = designation(&c);

        /* GNU's older form, "member: value" */
        else if (braces && xl.tokens[xl.pos].kind == T_ID && xl_is_punct(xl.pos + 1, ':') &&
                 t->kind == TY_RECORD)
            at = old_designation(&c);
        if (at == NULL)
            at = cursor_type(&c);

        init_one(at, first);
        first = NULL;
        cursor_next(&c);
        if (!braces && ((left > 0 && --left == 0) || (t->kind == TY_RECORD && c.m == NULL)))
            break;
        if (!another(braces))
            break;
    }

    xl_shallower();
    return c.count;
}

/* Behind the backslash at p: behind the escape sequence. */
static const char *escape_end(const char *p)
{
    if (*++p == 'x') {
        while (isxdigit((unsigned char)*++p))
            ;

        return p;
    }

    if (*p < '0' || *p > '7')
        return p + 1;

    for (int digits = 0; digits < 3 && *p >= '0' && *p <= '7'; digits++)
        p++;

    return p;
}

/* The characters of the string literals in tokens [a, b), with the zero; -1: they are of a kind
 * whose length the compiler's character sets decide. */
static long long string_length(int a, int b)
{
    long long n = 1;

    for (int i = a; i < b; i++) {
        const struct token *t = &xl.tokens[i];

        if (t->kind == T_PUNCT) /* ("text") */
            continue;

        if (t->kind != T_STR || t->text[0] != '"')
            return -1;

        const char *end = t->text + t->len - 1;

        for (const char *p = t->text + 1; p < end; n++) {
            if (*p != '\\')
                p++;
            else if (p[1] == 'u' || p[1] == 'U')
                return -1;
            else
                p = escape_end(p);
        }
    }

    return n;
}

long long xl_parse_initialiser(struct type *t)
{
    if (!xl_is_punct(xl.pos, '{')) {
        struct expr e = xl_parse_assign();

        if (t->kind == TY_ARRAY && e.string)
            return string_length(e.a, e.b);

        if (t->kind == TY_ARRAY && e.type->kind == TY_ARRAY && !e.place)
            return e.type->dim_value;

        if (t->kind == TY_ARRAY)
            xl_refuse(e.a, "an array's initialiser must be in braces");

        assign_value(&e, t);
        return -1;
    }

    int brace = xl.pos++;
    int end = xl.pos;
    long long count = 0;

    xl_deeper();
    if (!xl_is_punct(xl.pos, '}')) {
        if (aggregate(t)) {
            bool text = t->kind == TY_ARRAY && xl.tokens[xl.pos].kind == T_STR &&
                        !aggregate(t->of) && t->of->kind != TY_POINTER;

            count = init_list(t, true, NULL);
            if (text) /* { "text" } */
                count = string_length(brace + 1, xl.pos);
        } else {
            init_one(t, NULL);
            end = xl.pos;
            while (another(true))
                init_one(t, NULL);
        }
    }

    xl_accept(',');
    xl_expect('}');

    /* a structure in C, whose value braces would give to its first member */
    if (xl_ty_pts(t) && end > brace + 1)
        xl_edit(brace, xl.pos, xl_render(brace + 1, end));

    xl_shallower();
    return count;
}
