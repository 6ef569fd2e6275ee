/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: names in their scopes.  Both name spaces (ordinary names, tags) are hash tables whose
 * newest entry hides the older ones.
 *
 * Layer: upc-bridge/xlate.  Thread rule: one thread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "xlate.h"

struct tag {
    const char *name;
    struct record *rec;
    int level;
    struct tag *shadowed;
};

/* What to undo at the end of a scope. */
struct undo {
    struct undo *next;
    unsigned slot;
    bool is_tag;
    int level;
};

static unsigned slot_of(const char *name) /* interned: its address will do */
{
    uintptr_t v = (uintptr_t)name;
    return (unsigned)((v >> 4) ^ (v >> 17)) % XL_NAME_SLOTS;
}

static void undo_add(unsigned slot, bool is_tag)
{
    if (xl.sym.level == 0)
        return;

    struct undo *u = xl_alloc(sizeof *u);

    u->slot = slot;
    u->is_tag = is_tag;
    u->level = xl.sym.level;
    u->next = xl.sym.undos;
    xl.sym.undos = u;
}

void xl_scope_push(void)
{
    xl.sym.level++;
}

void xl_scope_pop(void)
{
    while (xl.sym.undos && xl.sym.undos->level == xl.sym.level) {
        if (xl.sym.undos->is_tag)
            xl.sym.tags[xl.sym.undos->slot] = xl.sym.tags[xl.sym.undos->slot]->shadowed;
        else
            xl.sym.names[xl.sym.undos->slot] = xl.sym.names[xl.sym.undos->slot]->shadowed;

        xl.sym.undos = xl.sym.undos->next;
    }

    xl.sym.level--;
}

int xl_scope_level(void)
{
    return xl.sym.level;
}

struct sym *xl_sym_find(const char *name)
{
    for (struct sym *s = xl.sym.names[slot_of(name)]; s; s = s->shadowed)
        if (s->name == name)
            return s;

    return NULL;
}

struct sym *xl_sym_here(const char *name)
{
    struct sym *s = xl_sym_find(name);
    return s && s->level == xl.sym.level ? s : NULL;
}

struct sym *xl_sym_add(enum sym_kind kind, const char *name, struct type *type, int tok)
{
    struct sym *s = xl_alloc(sizeof *s);
    unsigned slot = slot_of(name);

    s->kind = kind;
    s->name = s->cname = name;
    s->type = type;
    s->level = xl.sym.level;
    s->tok = tok;
    s->shadowed = xl.sym.names[slot];
    xl.sym.names[slot] = s;
    undo_add(slot, false);

    return s;
}

struct record *xl_tag_find(const char *name)
{
    for (struct tag *t = xl.sym.tags[slot_of(name)]; t; t = t->shadowed)
        if (t->name == name)
            return t->rec;

    return NULL;
}

struct record *xl_tag_here(const char *name)
{
    for (struct tag *t = xl.sym.tags[slot_of(name)]; t; t = t->shadowed)
        if (t->name == name)
            return t->level == xl.sym.level ? t->rec : NULL;

    return NULL;
}

void xl_tag_add(const char *name, struct record *r)
{
    struct tag *t = xl_alloc(sizeof *t);
    unsigned slot = slot_of(name);

    t->name = name;
    t->rec = r;
    t->level = r->level = xl.sym.level;
    t->shadowed = xl.sym.tags[slot];
    xl.sym.tags[slot] = t;
    undo_add(slot, true);
}
