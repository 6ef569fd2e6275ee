/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `lookups`; see lookups.h.
 *
 * A path starts at a base: an export, or an open directory.  The client asks for a base's descriptor after a few
 * look-ups below it.  What it cannot answer as the server would goes to the server: links on the way or at the
 * end, "..", exports that contain others, every error but ENOENT (the server may have other rights, and says why).
 *
 * The call itself is one system call relative to the base, as the program would make it without forwarding.  It
 * must not follow a link that leads out of the export, so the directory on the way is looked up first, without
 * links and below the base (openat2).  That it has been is remembered while the version of all names shows no
 * change (wire/versions.h), for IOFWD_CACHE_AGE at most, because other programs of the host move no versions.
 *
 * Layer: iofwd.
 * Thread rule: any thread.  Bases change under `lock`; a call that runs meanwhile sees by the generation that its
 * base has changed, and asks the server.  A remembered directory is used by one thread at a time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "base/platform.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/wire.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/data/passed.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/lookups.h"
#include "iofwd/client/versions.h"
#include "iofwd/wire/below.h"
#include "iofwd/wire/encode.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/passthrough.h"
#include "iofwd/wire/prefix.h"

#define EXPORTS 4u
#define DIRECTORIES 16u
#define BASES (EXPORTS + DIRECTORIES)
/* Look-ups before a base is asked for, which takes as long as five of them at the server; twice as many after each
 * refusal. */
#define ASK_FOR_EXPORT 4u
#define ASK_FOR_DIRECTORY 12u
#define PATH_BYTES 160u /* exports with longer names are not looked up below */

/* Where look-ups start.  known: fd is there to be used. */
struct base {
    _Atomic uint32_t generation; /* grows when the base changes */
    _Atomic bool known;
    uint32_t server;
    _Atomic uint64_t directory; /* the handle of an open directory; 0: an export */
    _Atomic uint32_t calls, ask_at;
    char name[PATH_BYTES]; /* of an export */
    size_t name_len;
    int fd;
    /* identity, as the program may have closed the descriptor by the kernel's own call */
    dev_t dev;
    ino_t ino;
};

static struct amph_client_lookups {
    struct base base[BASES]; /* exports, then open directories by their handles */
    struct amph_fwd_plains plains;
    pthread_mutex_t lock;
    bool scarce; /* the process has used up its descriptors once: it gets no more of these */
    _Atomic uint32_t exports_calls, exports_ask_at;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .exports_ask_at = ASK_FOR_EXPORT };

/* A look-up: the call's arguments, and where it starts. */
struct lookup {
    const struct amph_fwd_file *dir; /* NULL: the path is absolute */
    const char *path;
    uint32_t server;
    struct base *base;
    uint32_t generation;
    const char *rel; /* below the base */
};

/* ---- bases ---- */

static struct base *directory_of(uint64_t handle)
{
    return &state.base[EXPORTS + amph_client_hash(handle) % DIRECTORIES];
}

/* Finds the base of a look-up, if it is known, and its path below it. */
static bool find_base(struct lookup *l)
{
    for (unsigned i = 0; !l->dir && i < EXPORTS; i++) {
        struct base *b = &state.base[i];

        l->generation = atomic_load_explicit(&b->generation, memory_order_acquire);
        if (atomic_load_explicit(&b->known, memory_order_acquire) && b->server == l->server &&
            (l->rel = amph_fwd_path_below(l->path, b->name, b->name_len)) != NULL) {
            l->rel = l->rel[0] ? l->rel : ".";
            l->base = b;
            return true;
        }
    }

    if (!l->dir)
        return false;

    l->rel = l->path;
    l->base = directory_of(l->dir->part[0].handle);
    l->generation = atomic_load_explicit(&l->base->generation, memory_order_acquire);

    return atomic_load_explicit(&l->base->known, memory_order_acquire) &&
           l->base->server == l->server &&
           atomic_load(&l->base->directory) == l->dir->part[0].handle;
}

static bool is_itself(const struct base *b)
{
    return amph_client_passed_is_itself(b->fd, b->dev, b->ino);
}

/* The lock is held. */
static void withdraw(struct base *b)
{
    if (!atomic_load(&b->known))
        return;

    atomic_store(&b->known, false);
    atomic_fetch_add(&b->generation, 1);
    if (is_itself(b))
        amph_client_state.host.close(b->fd);
}

static bool has_descriptors_left(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < BASES; i++)
        n += atomic_load(&state.base[i].known);

    return !state.scarce && amph_client_passed_may_have(n);
}

/* ---- asking for a base ---- */

/* Has the server send the descriptor.  0 or an errno value. */
static int ask(struct amph_fwd_client *cl, struct amph_client_link *link, const struct lookup *l,
               uint32_t *name_bytes_p, int *fd_p)
{
    uint64_t handle = l->dir ? l->dir->part[0].handle : 0;
    uint8_t body[sizeof handle + FWD_PATH_MAX], answer[FWD_DIRECTORY_BYTES];
    size_t got, len = l->dir ? 0 : strlen(l->path);
    struct amph_wr w;
    struct amph_rd r;

    if (len >= FWD_PATH_MAX)
        return ENAMETOOLONG;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, handle);
    amph_wr_bytes(&w, l->path, len);

    int err = amph_client_special(cl, link, FWD_SERVICE_DIRECTORY, body, amph_wr_len(&w), answer,
                                  sizeof answer, &got);

    if (err)
        return err;

    amph_rd_init(&r, answer, got);
    *name_bytes_p = amph_rd_u32(&r);
    if (amph_fwd_control_take(link->control_fd, handle, fd_p) != AMPH_OK)
        return EMFILE;

    return r.bad || *name_bytes_p > len ? EPROTO : 0;
}

/* The entry for a new base, which is made free; NULL: there is none. */
static struct base *free_base(const struct lookup *l)
{
    struct base *b = NULL;

    if (l->dir)
        b = directory_of(l->dir->part[0].handle);

    for (unsigned i = 0; !b && i < EXPORTS; i++)
        if (!atomic_load(&state.base[i].known))
            b = &state.base[i];

    if (b)
        withdraw(b);

    return b;
}

/* Gets a base.  The lock is held.  false: the server gives none. */
static bool obtain(struct amph_fwd_client *cl, const struct lookup *l)
{
    struct amph_client_link *link;
    struct stat st;
    uint32_t name_bytes = 0;
    int fd = -1;

    if (!has_descriptors_left() || amph_client_link_to(cl, l->server, &link) != 0 || !link->near ||
        !link->part)
        return false;

    /* descriptors of files come by the same connection */
    pthread_mutex_lock(&amph_client_passthrough.lock);

    int err = ask(cl, link, l, &name_bytes, &fd);

    pthread_mutex_unlock(&amph_client_passthrough.lock);
    if (fd >= 0)
        fd = amph_client_fd_up(fd);

    struct base *b = err || fd < 0 || name_bytes >= PATH_BYTES || fstat(fd, &st) != 0
                         ? NULL
                         : free_base(l);

    if (!b) {
        if (fd >= 0)
            close(fd);

        return false;
    }

    b->server = l->server;
    b->fd = fd;
    b->dev = st.st_dev;
    b->ino = st.st_ino;
    b->name_len = name_bytes;
    memcpy(b->name, l->path, name_bytes);
    atomic_store(&b->calls, 0);
    atomic_store(&b->directory, l->dir ? l->dir->part[0].handle : 0);
    atomic_store_explicit(&b->known, true, memory_order_release);

    return true;
}

/* Is the base worth the question now?  A short program makes so few look-ups that it is not. */
static bool is_worth_asking(const struct lookup *l)
{
    _Atomic uint32_t *calls = &state.exports_calls;
    _Atomic uint32_t *ask_at = &state.exports_ask_at;

    if (l->dir) {
        uint64_t handle = l->dir->part[0].handle;

        if (!atomic_load(&l->base->known) &&
            atomic_exchange(&l->base->directory, handle) != handle) {
            atomic_store(&l->base->calls, 0);
            atomic_store(&l->base->ask_at, ASK_FOR_DIRECTORY);
        }

        calls = &l->base->calls;
        ask_at = &l->base->ask_at;
    }

    return atomic_fetch_add_explicit(calls, 1, memory_order_relaxed) + 1 >= atomic_load(ask_at);
}

static void put_off(const struct lookup *l)
{
    _Atomic uint32_t *calls = l->dir ? &l->base->calls : &state.exports_calls;
    _Atomic uint32_t *ask_at = l->dir ? &l->base->ask_at : &state.exports_ask_at;

    atomic_store(calls, 0);
    if (atomic_load(ask_at) < UINT32_MAX / 2)
        atomic_store(ask_at, 2 * atomic_load(ask_at));
}

/* Asks for the look-up's base, unless another thread is asking for one. */
static void ask_for_base(struct amph_fwd_client *cl, struct lookup *l)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    if (pthread_mutex_trylock(&state.lock) == 0) {
        if (!find_base(l) && !obtain(cl, l))
            put_off(l);

        pthread_mutex_unlock(&state.lock);
    }

    amph_client_sigguard_leave(&g);
}

static void forget(struct base *b)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&state.lock);
    withdraw(b);
    pthread_mutex_unlock(&state.lock);
    amph_client_sigguard_leave(&g);
}

bool amph_client_lookups_give_up(void)
{
    bool any = false;

    pthread_mutex_lock(&state.lock);
    for (unsigned i = 0; i < BASES; i++) {
        any |= atomic_load(&state.base[i].known);
        withdraw(&state.base[i]);
    }

    state.scarce = state.scarce || any;
    pthread_mutex_unlock(&state.lock);

    return any;
}

/* ---- calls ---- */

/* The way to the directory of the path's last component, as amph_fwd_below_way. */
static int way(struct amph_fwd_client *cl, const struct lookup *l)
{
    const struct amph_fwd_versions *v = amph_client_versions(cl);
    struct amph_fwd_plain_key key = { .base = (uint64_t)(l->base - state.base),
                                      .generation = l->generation };
    bool is_known = v && amph_fwd_version_take(&v->names, &key.names);

    return amph_fwd_below_way(&state.plains, &amph_client_state.host, l->base->fd, l->rel,
                              is_known ? &key : NULL, amph_client_state.versions.age_ns);
}

static int do_stat(const struct lookup *l, union amph_fwd_args *u)
{
    return amph_fwd_below_stat(&amph_client_state.host, l->base->fd, l->rel, u->stat.flags,
                               u->stat.st);
}

static int do_statx(const struct lookup *l, union amph_fwd_args *u)
{
    return amph_fwd_below_statx(&amph_client_state.host, l->base->fd, l->rel, u->statx.flags,
                                (unsigned)u->statx.mask, u->statx.stx);
}

static int do_access(const struct lookup *l, union amph_fwd_args *u)
{
    return amph_fwd_below_access(&amph_client_state.host, l->base->fd, l->rel, u->access.amode,
                                 u->access.flags);
}

static int do_readlink(const struct lookup *l, union amph_fwd_args *u)
{
    return amph_fwd_below_readlink(&amph_client_state.host, l->base->fd, l->rel, u->readlink.target,
                                   u->readlink.target_cap, u->readlink.target_len);
}

typedef int (*call_fn)(const struct lookup *l, union amph_fwd_args *u);

/* The function of each call that is a look-up, and where its record has the name. */
static const struct {
    call_fn fn;
    size_t dir, path;
} call_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) \
    [AMPH_FWD_##id] = { do_##name, offsetof(union amph_fwd_args, name.path_dir), \
                        offsetof(union amph_fwd_args, name.path) },
    AMPH_FWD_LOOKUP_CALLS(X)
#undef X
};

/* Can the client answer for such a path?  Not for the open file itself, nor where the last component is empty or
 * the way leads up. */
static bool is_simple(const char *path)
{
    size_t len = strlen(path);

    return len > 0 && path[len - 1] != '/' && !strstr(path, "..");
}

/* Prepares the look-up of a call.  false: the server makes it. */
static bool prepare(const struct amph_fwd_call *call, struct lookup *l)
{
    const char *args = (const char *)&call->u;

    memcpy(&l->dir, args + call_fns[call->id].dir, sizeof l->dir);
    memcpy(&l->path, args + call_fns[call->id].path, sizeof l->path);

    if (!l->path || !is_simple(l->path) || (l->dir && l->dir->nparts != 1) ||
        amph_thread_fd_table() != 0)
        return false;

    if (l->path[0] == '/')
        l->dir = NULL;

    l->server = l->dir ? l->dir->part[0].server : call->client->servers[0];
    return true;
}

static void count_lookup(const struct amph_fwd_client *cl, const struct amph_client_link *link,
                         int err)
{
    struct amph_fwd_passthrough *shared = amph_client_passed_shared(cl, link);

    atomic_fetch_add_explicit(&shared->lookups.calls, 1, memory_order_relaxed);
    if (err)
        atomic_fetch_add_explicit(&shared->lookups.errors, 1, memory_order_relaxed);

    amph_count(IOFWD_PASSED);
    if (AMPH_UNLIKELY(amph_client_thread.trace_sum != NULL))
        amph_client_thread.trace_sum->passed++;
}

/* Makes the call below its base.  Returns its error, or FWD_BELOW_ASK. */
static int look_up(struct amph_fwd_call *call, const struct lookup *l)
{
    struct amph_client_link *link;
    int cancel;

    amph_client_check_at_times(call->client);
    if (amph_client_link_to(call->client, l->server, &link) != 0 || !link->part)
        return FWD_BELOW_ASK;

    if (!is_itself(l->base)) {
        forget(l->base);
        return FWD_BELOW_ASK;
    }

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);

    int err = way(call->client, l);

    if (!err)
        err = call_fns[call->id].fn(l, &call->u);

    pthread_setcancelstate(cancel, NULL);
    if (atomic_load(&l->base->generation) != l->generation)
        err = FWD_BELOW_ASK;

    if (err != FWD_BELOW_ASK)
        count_lookup(call->client, link, err);
    if (err == 0)
        amph_client_raise_block_size(call->client, call);

    return err;
}

/* The program closes a directory. */
static void forget_directory(const struct amph_fwd_file *file)
{
    struct base *b = directory_of(file->part[0].handle);

    if (atomic_load(&b->known) && atomic_load(&b->directory) == file->part[0].handle)
        forget(b);
}

static int lookups_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    struct lookup l;

    if (desc->coalesce_flags & FWD_COALESCE_DROP) {
        const struct amph_fwd_file *file = amph_fwd_call_file(desc, &call->u);

        if (file && file->nparts > 0)
            forget_directory(file);
    }

    if (!call->client || !call_fns[call->id].fn || !prepare(call, &l))
        return amph_layer_pass(self->next, call);

    if (!find_base(&l)) {
        if (is_worth_asking(&l))
            ask_for_base(call->client, &l);

        return amph_layer_pass(self->next, call);
    }

    int err = look_up(call, &l);

    return err == FWD_BELOW_ASK ? amph_layer_pass(self->next, call) : err;
}

/* A forked child inherits the descriptors, and holds on the directories. */
static void lookups_event(const struct amph_layer *self, enum amph_layer_event event)
{
    if (event == AMPH_LAYER_FORK_CHILD)
        pthread_mutex_init(&state.lock, NULL);
}

static const struct amph_layer layer = {
    .name = "lookups", .rank = 38, .call = lookups_call, .event = lookups_event
};

void amph_client_lookups_open(void)
{
    if (amph_env_bool(AMPH_ENV_IOFWD_PASSTHROUGH))
        amph_layer_add(&layer);
}

bool amph_client_lookups_any(void)
{
    bool any = false;

    for (unsigned i = 0; i < BASES; i++)
        any |= atomic_load(&state.base[i].known);

    return any;
}

bool amph_client_lookups_own(int fd)
{
    for (unsigned i = 0; fd >= 0 && i < BASES; i++)
        if (atomic_load(&state.base[i].known) && state.base[i].fd == fd)
            return true;

    return false;
}
