/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the offsets of reads and writes without an explicit one: an open file begins at 0, and
 * each call advances it.  Descriptors made by dup, and a child's, share the offset.
 *
 * Layer: iofwd (trace).  Thread rule: see reader.h.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/trace/reader.h"

enum {
    DESCRIPTORS_MAX = 1 << 20 /* results above are no descriptors */
};

struct open_file {
    int64_t at; /* below 0: not known */
    bool appends;
};

struct descriptor {
    uint64_t key;  /* process and descriptor; 0: free */
    uint32_t file; /* index of the open file, plus one; 0: closed */
};

/* The descriptors and open files of all processes, at the time of the current event. */
struct tracker {
    struct descriptor *table;
    size_t room, n;
    struct open_file *open;
    size_t nopen, open_room;
    uint8_t *cls;  /* of each name */
    int64_t *size; /* of each path, as far as is known; -1: not */
};

static struct descriptor *find(struct tracker *k, uint64_t key)
{
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);

    for (size_t at = (h >> 20) & (k->room - 1);; at = (at + 1) & (k->room - 1))
        if (!k->table[at].key || k->table[at].key == key)
            return &k->table[at];
}

static struct descriptor *descriptor_of(struct tracker *k, uint32_t process, int fd)
{
    uint64_t key = ((uint64_t)process + 1) << 32 | (uint32_t)fd;

    if (k->n * 2 >= k->room) {
        struct tracker bigger = { .room = k->room ? k->room * 2 : 1024 };

        bigger.table = calloc(bigger.room, sizeof *bigger.table);
        if (!bigger.table)
            return NULL;

        for (size_t i = 0; i < k->room; i++)
            if (k->table[i].key)
                *find(&bigger, k->table[i].key) = k->table[i];

        free(k->table);
        k->table = bigger.table;
        k->room = bigger.room;
    }

    struct descriptor *d = find(k, key);

    if (!d->key) {
        d->key = key;
        k->n++;
    }

    return d;
}

static uint32_t new_open(struct tracker *k, int64_t at, bool appends)
{
    if (k->nopen == k->open_room) {
        size_t room = k->open_room ? k->open_room * 2 : 256;
        struct open_file *longer = realloc(k->open, room * sizeof *longer);

        if (!longer)
            return 0;

        k->open = longer;
        k->open_room = room;
    }

    k->open[k->nopen] = (struct open_file){ at, appends };
    return (uint32_t)++k->nopen;
}

static bool has_failed(const struct amph_trace_event *e)
{
    return e->has & AMPH_TRACE_HAS_FAILED || !e->end_ns;
}

/* Returns the open file that a child's descriptor was inherited from. */
static uint32_t inherited(const struct amph_trace *t, struct tracker *k, uint32_t process, int fd)
{
    const struct amph_trace_process *child = &t->processes[process];

    for (uint32_t i = 0; i < t->nprocesses; i++)
        if (i != process && t->processes[i].pid == child->ppid &&
            strcmp(t->processes[i].host, child->host) == 0) {
            struct descriptor *d = descriptor_of(k, i, fd);

            return d ? d->file : 0;
        }

    return 0;
}

/* Returns the open file of a descriptor; one of unknown offset for a descriptor that was open before
 * the record began.  NULL: no memory. */
static struct open_file *open_file_of(const struct amph_trace *t, struct tracker *k,
                                      uint32_t process, int fd)
{
    struct descriptor *d = descriptor_of(k, process, fd);

    if (!d)
        return NULL;

    if (!d->file) {
        uint32_t file = inherited(t, k, process, fd);

        d = descriptor_of(k, process, fd); /* the table may have grown */
        d->file = file ? file : new_open(k, -1, false);
    }

    return d->file ? &k->open[d->file - 1] : NULL;
}

/* ---- calls, by what they do; false: no memory ---- */

static bool gives_descriptor(const struct amph_trace_event *e)
{
    return !has_failed(e) && e->result >= 0 && e->result < DESCRIPTORS_MAX;
}

static bool take_open(struct tracker *k, const struct amph_trace_event *e, int fd)
{
    struct descriptor *d = descriptor_of(k, e->process, fd);
    bool appends = e->has & AMPH_TRACE_HAS_FLAGS && e->flags & O_APPEND;

    if (!d)
        return false;

    if (e->file && (e->flags & O_TRUNC))
        k->size[e->file] = 0;

    d->file = new_open(k, 0, appends);
    return d->file != 0;
}

static bool take_copy(struct tracker *k, const struct amph_trace_event *e)
{
    struct descriptor *from = descriptor_of(k, e->process, e->fd);
    uint32_t file = from ? from->file : 0;
    struct descriptor *to = descriptor_of(k, e->process, (int)e->result);

    if (!to)
        return false;

    to->file = file;
    return true;
}

static bool take_close(struct tracker *k, const struct amph_trace_event *e)
{
    struct descriptor *d = descriptor_of(k, e->process, e->fd);

    if (!d)
        return false;

    d->file = 0;
    return true;
}

static bool take_seek(const struct amph_trace *t, struct tracker *k,
                      const struct amph_trace_event *e)
{
    struct open_file *file = open_file_of(t, k, e->process, e->fd);

    if (file && !has_failed(e))
        file->at = e->result;

    return file != NULL;
}

/* A read or write: gives it its offset, and advances the open file's. */
static bool take_transfer(const struct amph_trace *t, struct tracker *k, struct amph_trace_event *e,
                          bool writes)
{
    struct open_file *file = open_file_of(t, k, e->process, e->fd);
    int64_t *size = e->file ? &k->size[e->file] : NULL;

    if (!file || has_failed(e))
        return file != NULL;

    bool explicit_offset = e->offset >= 0;
    int64_t from = explicit_offset ? e->offset : file->at;

    if (!explicit_offset && file->appends && writes)
        from = size ? *size : -1;

    if (from < 0 || e->result < 0 || from > INT64_MAX - e->result)
        return true;

    int64_t end = from + e->result;

    if (!explicit_offset) {
        e->offset = from;
        e->has |= AMPH_TRACE_HAS_POSITION;
        file->at = end;
    }

    if (writes && size && *size < end)
        *size = end;

    return true;
}

static bool is_copy(const char *name)
{
    name += strspn(name, "_");
    return strncmp(name, "dup", 3) == 0;
}

static bool is_close_of_stream(const char *name)
{
    return strstr(name, "fclose") != NULL;
}

static bool take_event(const struct amph_trace *t, struct tracker *k, struct amph_trace_event *e)
{
    enum amph_trace_class cls = k->cls[e->name];

    if (cls == AMPH_TRACE_OPEN && gives_descriptor(e))
        return take_open(k, e, (int)e->result);
    if (e->fd < 0)
        return true;
    if (cls == AMPH_TRACE_OPEN && !has_failed(e)) /* fopen's result is a stream */
        return take_open(k, e, e->fd);
    if (is_copy(t->names[e->name]) && gives_descriptor(e))
        return take_copy(k, e);

    switch (cls) {
    case AMPH_TRACE_CLOSE:
        return take_close(k, e);
    case AMPH_TRACE_STDIO: /* where a forwarded stream writes before, its close has a record */
        return is_close_of_stream(t->names[e->name]) && e->side == AMPH_TRACE_LOCAL
                   ? take_close(k, e)
                   : true;
    case AMPH_TRACE_SEEK:
        return take_seek(t, k, e);
    case AMPH_TRACE_READ:
    case AMPH_TRACE_WRITE:
        return take_transfer(t, k, e, cls == AMPH_TRACE_WRITE);
    default:
        return true;
    }
}

bool amph_trace_complete_offsets(struct amph_trace *t)
{
    struct tracker k = { 0 };
    bool ok = true;

    k.cls = malloc(t->nnames + 1);
    k.size = malloc((t->nfiles + 1) * sizeof *k.size);
    for (size_t i = 0; k.cls && i < t->nnames; i++)
        k.cls[i] = (uint8_t)amph_trace_class_of(t->names[i]);
    for (size_t i = 0; k.size && i < t->nfiles; i++)
        k.size[i] = -1;

    for (size_t i = 0; ok && i < t->nevents; i++)
        ok = k.cls && k.size && take_event(t, &k, &t->events[i]);

    free(k.cls);
    free(k.size);
    free(k.table);
    free(k.open);
    return ok;
}
