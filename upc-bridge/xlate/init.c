/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: initialisers.  Walked with the type that each value initialises, since a null pointer
 * or a pointer to shared needs that.
 */
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

    return c->m ? c->m->type : ty_basic[TY_UNKNOWN];
}

static void cursor_next(struct cursor *c)
{
    if (c->type->kind == TY_ARRAY || !c->m)
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

    while (is_punct(xl.pos, '[') || is_punct(xl.pos, '.')) {
        if (accept('[')) {
            struct expr e = parse_conditional();

            use_value(&e);
            if (accept(P3('.', '.', '.'))) {
                e = parse_conditional();
                use_value(&e);
            }

            expect(']');
            if (t->kind != TY_ARRAY)
                refuse(xl.pos, "an index designates no element of '%s'", ty_words(t));

            t = t->of;
        } else {
            xl.pos++;
            if (xl.tokens[xl.pos].kind != T_ID || t->kind != TY_RECORD)
                refuse(xl.pos, "no such member to initialise in '%s'", ty_words(t));

            struct type *in = NULL;
            struct member *m = member_for(t, xl.tokens[xl.pos].id, &in);

            if (m == NULL)
                refuse(xl.pos, "'%s' has no member '%s'", ty_words(t), xl.tokens[xl.pos].id);

            if (first) {
                c->m = m;
                c->started = true;
            }

            t = in;
            xl.pos++;
        }

        first = false;
    }

    expect('=');
    return t;
}

static void assign_value(struct expr *e, struct type *t)
{
    if (t->kind == TY_ARRAY || t->kind == TY_UNKNOWN)
        use_value(e);
    else
        convert_to(e, ty_unqualified(t), "initialiser", false);
}

static void init_list(struct type *t, bool braces, struct expr *first);

/* One value or nested list for a place of type t; where braces are left out, as many values as the
 * aggregate takes. */
static void init_one(struct type *t, struct expr *got)
{
    struct expr e;

    if (!got && is_punct(xl.pos, '{')) {
        parse_initialiser(t);
        return;
    }

    if (got)
        e = *got;
    else
        e = parse_assign();

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
    if (!is_punct(xl.pos, ','))
        return false;
    if (is_punct(xl.pos + 1, '}'))
        return false;
    if (!braces && (is_punct(xl.pos + 1, '.') || is_punct(xl.pos + 1, '[')))
        return false; /* designates something of an outer list */

    xl.pos++;
    return true;
}

static void init_list(struct type *t, bool braces, struct expr *first)
{
    struct cursor c = { .type = t };
    long long left = t->kind == TY_ARRAY && !braces ? (t->dim_value >= 0 ? t->dim_value : -1) : -1;

    deeper();
    if (!braces && t->kind == TY_ARRAY && t->dim_value < 0)
        refuse(xl.pos, "put braces around the values of an inner array");

    for (;;) {
        struct type *at = NULL;

        if (braces && (is_punct(xl.pos, '.') || is_punct(xl.pos, '[')))
            at = designation(&c);

        /* GNU of old */
        else if (braces && xl.tokens[xl.pos].kind == T_ID && is_punct(xl.pos + 1, ':') &&
                 t->kind == TY_RECORD)
            refuse(xl.pos, "write '.%s =' for '%s:'", xl.tokens[xl.pos].id, xl.tokens[xl.pos].id);
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

    shallower();
}

void parse_initialiser(struct type *t)
{
    if (!is_punct(xl.pos, '{')) {
        struct expr e = parse_assign();

        if (t->kind == TY_ARRAY && (e.string || e.type->kind == TY_ARRAY) && !e.place)
            return;

        if (t->kind == TY_ARRAY)
            refuse(e.a, "an array's initialiser stands in braces");

        assign_value(&e, t);
        return;
    }

    int brace = xl.pos++;
    int end = xl.pos;

    deeper();
    if (!is_punct(xl.pos, '}')) {
        if (aggregate(t)) {
            init_list(t, true, NULL);
        } else {
            init_one(t, NULL);
            end = xl.pos;
            while (another(true))
                init_one(t, NULL);
        }
    }

    accept(',');
    expect('}');

    /* a structure in C, whose value braces would give to its first member */
    if (ty_pts(t) && end > brace + 1)
        edit(brace, xl.pos, render(brace + 1, end));

    shallower();
}
