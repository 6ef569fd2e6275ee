/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `attributes`: answers stat and fstat from an earlier answer, if the versions of the
 * file and of all names show that nothing has changed since (versions.h).
 *
 * Layer: iofwd.  Thread rule: any thread.  A set of entries is used by one thread at a time, and a
 * thread that finds it in use asks the server.  A set that another thread of the parent was using
 * at a fork stays in use in the child, which then always asks the server.
 *
 * The second answer to a query is the first one that is stored.  The version must be read before
 * the query, and the file, whose version that is, is only known from an answer.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os/clock.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/versions.h"
#include "iofwd/wire/file.h"

#define SETS 512u
#define WAYS 4u        /* entries in a set */
#define PATH_BYTES 160 /* longer paths are not cached */

/* Versions of a file's attributes, its data and all names, read before the server was asked. */
struct versions_read {
    uint32_t names, data, attributes;
    bool known; /* no change was in progress */
};

struct entry {
    bool known, cached; /* known: the file is; cached: st is a valid answer */
    int flags;
    uint32_t server, line;
    uint64_t handle; /* for fstat; 0 for stat */
    char path[PATH_BYTES];
    uint64_t asked_ns;
    struct versions_read versions;
    struct stat st;
};

struct set {
    _Atomic bool busy; /* a thread uses it */
    struct entry entry[WAYS];
};

static struct set sets[SETS]; /* large, but a page of it is only allocated when it is used */

/* A stat or fstat call. */
struct query {
    const char *path; /* NULL: fstat */
    size_t path_len;
    int flags;
    uint32_t server;
    uint64_t handle;
    struct stat *st;
};

static uint64_t hash(const struct query *q)
{
    uint64_t h = q->handle ^ (uint64_t)q->flags << 32 ^ q->server;

    for (size_t i = 0; i < q->path_len; i++)
        h = (h ^ (unsigned char)q->path[i]) * UINT64_C(0x100000001b3);

    return amph_client_hash(h);
}

/* query_NAME returns whether an answer to the call may be cached, and if so describes the call. */
static bool query_fstat(const union amph_fwd_args *u, struct query *q)
{
    const struct amph_fwd_file *file = u->fstat.file;

    if (file->nparts != 1 || amph_fwd_file_waits(file))
        return false;

    *q = (struct query){ .server = file->part[0].server,
                         .handle = file->part[0].handle,
                         .st = u->fstat.st };
    return true;
}

static bool query_stat(const union amph_fwd_args *u, struct query *q)
{
    if (u->stat.path_dir || !u->stat.path)
        return false;

    *q = (struct query){ .path = u->stat.path,
                         .path_len = strlen(u->stat.path),
                         .flags = u->stat.flags,
                         .st = u->stat.st };
    return q->path_len < PATH_BYTES;
}

typedef bool (*query_fn)(const union amph_fwd_args *u, struct query *q);

static const query_fn query_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) [AMPH_FWD_##id] = query_##name,
    AMPH_FWD_HELD_CALLS(X)
#undef X
};

/* Returns whether the call asks for attributes that may be cached. */
static bool query_of(const struct amph_fwd_call *call, struct query *q)
{
    query_fn fn = query_fns[call->id];

    return fn && fn(&call->u, q);
}

static bool is_of(const struct entry *e, const struct query *q)
{
    return e->known && e->flags == q->flags && e->handle == q->handle && e->server == q->server &&
           (!q->path || strcmp(e->path, q->path) == 0);
}

/* Returns the query's entry in its set, or the entry to use for it: an unused one, or the one with
 * the oldest answer. */
static struct entry *entry_of(struct set *set, const struct query *q)
{
    struct entry *oldest = &set->entry[0];

    for (unsigned i = 0; i < WAYS; i++) {
        struct entry *e = &set->entry[i];

        if (is_of(e, q))
            return e;
        if (oldest->known && (!e->known || e->asked_ns < oldest->asked_ns))
            oldest = e;
    }

    return oldest;
}

static void read_versions(const struct amph_fwd_versions *v, uint32_t line, struct versions_read *t)
{
    bool names = amph_fwd_version_take(&v->names, &t->names);
    bool data = amph_fwd_version_take(&v->line[line].data, &t->data);
    bool attributes = amph_fwd_version_take(&v->line[line].attributes, &t->attributes);

    t->known = names && data && attributes;
}

/* Returns whether the answer is still valid.  A call that shortens a file moves the version of all
 * names before it begins. */
static bool is_current(const struct amph_fwd_versions *v, const struct entry *e)
{
    return e->cached && amph_fwd_version_is(&v->names, e->versions.names) &&
           amph_fwd_version_is(&v->line[e->line].data, e->versions.data) &&
           amph_fwd_version_is(&v->line[e->line].attributes, e->versions.attributes) &&
           !amph_client_versions_expired(e->asked_ns);
}

/* Stores the server's answer.  known: the entry belongs to this query, and its versions were read
 * before. */
static void store(struct entry *e, const struct query *q, bool known)
{
    uint32_t line = amph_fwd_versions_line_of(q->st->st_dev, q->st->st_ino);

    e->cached = known && e->line == line && e->versions.known;
    e->known = S_ISREG(q->st->st_mode) || S_ISDIR(q->st->st_mode);
    e->cached = e->cached && e->known;
    e->line = line;
    e->flags = q->flags;
    e->server = q->server;
    e->handle = q->handle;
    e->st = *q->st;
    if (!known && q->path)
        memcpy(e->path, q->path, q->path_len + 1);
}

static int ask(const struct amph_layer *self, struct amph_fwd_call *call,
               const struct amph_fwd_versions *v, struct entry *e, const struct query *q)
{
    bool known = is_of(e, q);

    e->asked_ns = amph_now_ns();
    if (known)
        read_versions(v, e->line, &e->versions);

    int err = amph_layer_pass(self->next, call);

    if (err)
        e->cached = e->known = false;
    else
        store(e, q, known);

    return err;
}

static int attributes_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct query q;

    if (!call->client || !query_of(call, &q))
        return amph_layer_pass(self->next, call);

    const struct amph_fwd_versions *v = amph_client_versions(call->client);
    struct set *set = &sets[hash(&q) % SETS];

    if (!v || atomic_exchange_explicit(&set->busy, true, memory_order_acquire))
        return amph_layer_pass(self->next, call);

    struct entry *e = entry_of(set, &q);
    int err = 0;

    if (is_of(e, &q) && is_current(v, e))
        *q.st = e->st;
    else
        err = ask(self, call, v, e, &q);

    atomic_store_explicit(&set->busy, false, memory_order_release);
    return err;
}

static const struct amph_layer layer = { .name = "attributes",
                                         .rank = 35,
                                         .call = attributes_call };

void amph_client_attributes_open(void)
{
    if (amph_client_versions_wanted())
        amph_layer_add(&layer);
}
