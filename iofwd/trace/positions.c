/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Offsets of reads and writes that were given none: an open file begins at 0, and each call moves it
 * on.  Descriptors made by dup, and those of a child, share it.
 *
 * Layer: iofwd (trace).  Thread rule: see reader.h.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/reader.h"

struct open_file {
    int64_t at; /* below 0: not known */
    bool appends;
};

struct place {
    uint64_t key;  /* process and descriptor; 0: free */
    uint32_t file; /* index of the open file, plus one; 0: closed */
};

struct places {
    struct place *table;
    size_t room, n;
    struct open_file *open;
    size_t nopen, open_room;
    uint8_t *cls;  /* of each name */
    int64_t *size; /* of each path, as far as is known; -1: not */
};

static struct place *find(struct places *p, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t at = (h >> 20) & (p->room - 1);; at = (at + 1) & (p->room - 1))
        if (!p->table[at].key || p->table[at].key == key)
            return &p->table[at];
}

static struct place *place_of(struct places *p, uint32_t process, int fd)
{
    uint64_t key = ((uint64_t)process + 1) << 32 | (uint32_t)fd;

    if (p->n * 2 >= p->room) {
        struct places bigger = { .room = p->room ? p->room * 2 : 1024 };

        bigger.table = calloc(bigger.room, sizeof *bigger.table);
        if (!bigger.table)
            return NULL;

        for (size_t i = 0; i < p->room; i++)
            if (p->table[i].key)
                *find(&bigger, p->table[i].key) = p->table[i];

        free(p->table);
        p->table = bigger.table;
        p->room = bigger.room;
    }

    struct place *at = find(p, key);

    if (!at->key) {
        at->key = key;
        p->n++;
    }

    return at;
}

static uint32_t new_open(struct places *p, int64_t at, bool appends)
{
    if (p->nopen == p->open_room) {
        size_t room = p->open_room ? p->open_room * 2 : 256;
        struct open_file *longer = realloc(p->open, room * sizeof *longer);

        if (!longer)
            return 0;

        p->open = longer;
        p->open_room = room;
    }

    p->open[p->nopen] = (struct open_file){ at, appends };
    return (uint32_t)++p->nopen;
}

/* The parent's, which the child has inherited. */
static uint32_t inherited(const struct amph_trace *t, struct places *p, uint32_t process, int fd)
{
    const struct amph_trace_process *child = &t->processes[process];

    for (uint32_t i = 0; i < t->nprocesses; i++)
        if (i != process && t->processes[i].pid == child->ppid &&
            strcmp(t->processes[i].host, child->host) == 0) {
            struct place *at = place_of(p, i, fd);

            return at ? at->file : 0;
        }

    return 0;
}

static bool is_copy(const char *name)
{
    name += strspn(name, "_");
    return strncmp(name, "dup", 3) == 0;
}

static bool place(const struct amph_trace *t, struct places *p, struct amph_trace_event *e)
{
    enum amph_trace_class cls = p->cls[e->name];
    bool failed = e->has & AMPH_TRACE_HAS_FAILED || !e->end_ns;
    bool opens = cls == AMPH_TRACE_OPEN && !failed && e->result >= 0 && e->result < 1 << 20;

    if (opens) {
        struct place *at = place_of(p, e->process, (int)e->result);
        bool appends = e->has & AMPH_TRACE_HAS_FLAGS && e->flags & O_APPEND;

        if (!at)
            return false;

        if (e->file && (e->flags & O_TRUNC))
            p->size[e->file] = 0;

        at->file = new_open(p, 0, appends);
        return at->file != 0;
    }

    if (e->fd < 0)
        return true;

    if (is_copy(t->names[e->name]) && !failed && e->result >= 0 && e->result < 1 << 20) {
        struct place *from = place_of(p, e->process, e->fd);
        uint32_t file = from ? from->file : 0;
        struct place *to = place_of(p, e->process, (int)e->result);

        if (!to)
            return false;

        to->file = file;
        return true;
    }

    if (cls != AMPH_TRACE_READ && cls != AMPH_TRACE_WRITE && cls != AMPH_TRACE_SEEK &&
        cls != AMPH_TRACE_CLOSE)
        return true;

    struct place *at = place_of(p, e->process, e->fd);

    if (!at)
        return false;

    if (cls == AMPH_TRACE_CLOSE) {
        at->file = 0;
        return true;
    }

    if (!at->file) {
        uint32_t file = inherited(t, p, e->process, e->fd);

        at = place_of(p, e->process, e->fd); /* the table may have grown */
        at->file = file ? file : new_open(p, -1, false);
        if (!at->file)
            return false;
    }

    struct open_file *of = &p->open[at->file - 1];

    if (cls == AMPH_TRACE_SEEK && !failed)
        of->at = e->result;
    if (cls == AMPH_TRACE_SEEK || failed)
        return true;

    bool is_own = e->offset < 0;
    int64_t from = is_own ? of->at : e->offset;

    if (is_own && of->appends && cls == AMPH_TRACE_WRITE)
        from = e->file ? p->size[e->file] : -1;

    if (from >= 0 && e->result >= 0 && from <= INT64_MAX - e->result) {
        if (is_own) {
            e->offset = from;
            e->has |= AMPH_TRACE_HAS_POSITION;
            of->at = from + e->result;
        }

        if (cls == AMPH_TRACE_WRITE && e->file && p->size[e->file] < from + e->result)
            p->size[e->file] = from + e->result;
    }

    return true;
}

bool amph_trace_place(struct amph_trace *t)
{
    struct places p = { 0 };
    bool ok = true;

    p.cls = malloc(t->nnames + 1);
    p.size = malloc((t->nfiles + 1) * sizeof *p.size);
    for (size_t i = 0; p.cls && i < t->nnames; i++)
        p.cls[i] = (uint8_t)amph_trace_class_of(t->names[i]);
    for (size_t i = 0; p.size && i < t->nfiles; i++)
        p.size[i] = -1;

    for (size_t i = 0; ok && i < t->nevents; i++)
        ok = p.cls && p.size && place(t, &p, &t->events[i]);

    free(p.cls);
    free(p.size);
    free(p.table);
    free(p.open);
    return ok;
}
