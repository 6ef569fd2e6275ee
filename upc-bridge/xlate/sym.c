/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upcxlate: names in their scopes.  Both name spaces (ordinary names, tags) are hash tables whose
 * newest entry hides the older ones.
 */
#include <stdint.h>

#include "xlate.h"

#define SLOTS 4096
struct tag {
    const char *name;
    struct record *rec;
    int level;
    struct tag *shadowed;
};

static struct sym *syms[SLOTS];
static struct tag *tags[SLOTS];
static int level;

/* What to undo at the end of a scope. */
struct undo {
    struct undo *next;
    unsigned slot;
    bool is_tag;
    int level;
};

static struct undo *undos;

static unsigned slot_of(const char *name) /* interned: its address will do */
{
    uintptr_t v = (uintptr_t)name;
    return (unsigned)((v >> 4) ^ (v >> 17)) % SLOTS;
}

static void undo_add(unsigned slot, bool is_tag)
{
    if (level == 0)
        return;

    struct undo *u = xl_alloc(sizeof *u);

    u->slot = slot;
    u->is_tag = is_tag;
    u->level = level;
    u->next = undos;
    undos = u;
}

void scope_push(void)
{
    level++;
}

void scope_pop(void)
{
    while (undos && undos->level == level) {
        if (undos->is_tag)
            tags[undos->slot] = tags[undos->slot]->shadowed;
        else
            syms[undos->slot] = syms[undos->slot]->shadowed;

        undos = undos->next;
    }

    level--;
}

int scope_level(void)
{
    return level;
}

struct sym *sym_find(const char *name)
{
    for (struct sym *s = syms[slot_of(name)]; s; s = s->shadowed)
        if (s->name == name)
            return s;

    return NULL;
}

struct sym *sym_here(const char *name)
{
    struct sym *s = sym_find(name);
    return s && s->level == level ? s : NULL;
}

struct sym *sym_add(enum sym_kind kind, const char *name, struct type *type, int tok)
{
    struct sym *s = xl_alloc(sizeof *s);
    unsigned slot = slot_of(name);

    s->kind = kind;
    s->name = s->cname = name;
    s->type = type;
    s->level = level;
    s->tok = tok;
    s->shadowed = syms[slot];
    syms[slot] = s;
    undo_add(slot, false);

    return s;
}

struct record *tag_find(const char *name)
{
    for (struct tag *t = tags[slot_of(name)]; t; t = t->shadowed)
        if (t->name == name)
            return t->rec;

    return NULL;
}

struct record *tag_here(const char *name)
{
    for (struct tag *t = tags[slot_of(name)]; t; t = t->shadowed)
        if (t->name == name)
            return t->level == level ? t->rec : NULL;

    return NULL;
}

void tag_add(const char *name, struct record *r)
{
    struct tag *t = xl_alloc(sizeof *t);
    unsigned slot = slot_of(name);

    t->name = name;
    t->rec = r;
    t->level = r->level = level;
    t->shadowed = tags[slot];
    tags[slot] = t;
    undo_add(slot, true);
}
