/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `offsets`: lseek of a file of a server on another host does not wait for an answer.
 *
 * Nobody but this process sees the offset of an open file that it shares with no other process.  So the offset of
 * regular files that it has opened is counted here: a question for it (lseek by 0) and a seek to where it is need no
 * request, and for any other seek a request is sent whose answer is not waited for.  The server keeps the offset, and
 * takes the requests of a client in their order, so the next read there is made at the new one.
 *
 * The offset is known after a call at it that was alone, that is, during which no other thread made one.  Calls that
 * were not alone, failed, or may move the offset in another way leave it unknown, and the next lseek asks.  A seek from
 * the end, to data or holes, and to a place that the server's file system could refuse, is left to the server.
 *
 * Not with IOFWD_CONSISTENCY=session and announced sequences, whose coalescers set the offset by themselves, nor with
 * failover, whose records of files have the offset that the server has answered.
 *
 * Layer: iofwd.  Thread rule: any thread, and signal handlers; no locks.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/settings/env.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#define FILES 256u
#define UNKNOWN INT64_C(-1)
#define FAR ((INT64_C(1) << 31) - 1) /* every file system can seek up to there */

/* Of `calls`: another call has begun before the first one ended. */
#define MIXED UINT32_C(0x80000000)

struct place {
    _Atomic uint64_t handle; /* 0: none */
    _Atomic uint32_t server;
    _Atomic uint32_t calls; /* that are under way at the offset, and MIXED */
    _Atomic int64_t offset; /* changed only by such calls; or UNKNOWN */
};

/* By a hash of the handle; where another file has the place, each seek waits. */
static struct place places[FILES];

static struct place *place_of(const struct amph_fwd_file *file)
{
    return &places[amph_client_hash(file->part[0].handle) % FILES];
}

static bool is_of(const struct place *p, const struct amph_fwd_file *file)
{
    return file->nparts == 1 && atomic_load(&p->handle) == file->part[0].handle &&
           atomic_load(&p->server) == file->part[0].server;
}

static void forget(const struct amph_fwd_file *file)
{
    uint64_t handle = file->part[0].handle;
    struct place *p = place_of(file);

    if (is_of(p, file))
        (void)atomic_compare_exchange_strong(&p->handle, &handle, 0);
}

void amph_client_offsets_forget_all(void)
{
    for (uint32_t i = 0; i < FILES; i++)
        atomic_store(&places[i].handle, 0);
}

/* ---- calls at the offset ---- */

/* offset: where the file is now, if the call was alone. */
static void end(struct place *p, bool alone, int64_t offset)
{
    uint32_t calls = 1;

    /* before the count says that nobody is under way any more */
    atomic_store(&p->offset, alone ? offset : UNKNOWN);
    if (alone && atomic_compare_exchange_strong(&p->calls, &calls, 0))
        return;

    atomic_store(&p->offset, UNKNOWN);
    calls = atomic_load(&p->calls);
    while (!atomic_compare_exchange_weak(&p->calls, &calls, calls == (1 | MIXED) ? 0 : calls - 1))
        ;
}

/* The place of a file at whose offset a call begins; NULL: the file has none.  *alone_p: no other call is under way. */
static struct place *begin(const struct amph_fwd_file *file, bool *alone_p)
{
    struct place *p = place_of(file);
    uint32_t calls = atomic_load(&p->calls);

    if (!is_of(p, file))
        return NULL;

    while (!atomic_compare_exchange_weak(&p->calls, &calls, calls == 0 ? 1 : (calls + 1) | MIXED))
        ;

    *alone_p = calls == 0;
    if (is_of(p, file))
        return p;

    end(p, false, UNKNOWN); /* it was closed meanwhile, and another one has the place */
    return NULL;
}

static int data_call(const struct amph_layer *self, struct amph_fwd_call *call,
                     const struct amph_client_data *d)
{
    bool alone;
    struct place *p = begin(d->file, &alone);

    if (!p)
        return amph_layer_pass(self->next, call);

    int64_t before = atomic_load(&p->offset);
    int err = amph_layer_pass(self->next, call);
    bool known = !err && before != UNKNOWN && !d->file->rwf;

    end(p, alone, known ? before + (int64_t)*d->done_p : UNKNOWN);
    return err;
}

/* Where a seek leads, which begins at `before`; UNKNOWN: only the server can tell. */
static int64_t target_of(const struct amph_fwd_args_lseek *a, int64_t before)
{
    bool relative = a->whence == SEEK_CUR;

    if ((a->whence != SEEK_SET && !relative) || (relative && before == UNKNOWN) || a->off > FAR ||
        a->off < -FAR)
        return UNKNOWN;

    int64_t to = a->off + (relative ? before : 0);

    return to < 0 || to > FAR ? UNKNOWN : to;
}

static int send_seek(struct amph_fwd_client *cl, const struct amph_fwd_file *file, int64_t to)
{
    off_t answer;
    struct amph_fwd_args_lseek a = {
        .file = file, .off = (off_t)to, .whence = SEEK_SET, .pos = &answer
    };

    amph_client_unawaited_note();
    return amph_client_send_only(cl, file->part[0].server, AMPH_FWD_LSEEK, &a);
}

static int seek_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_args_lseek *a = &call->u.lseek;
    bool alone;
    struct place *p = begin(a->file, &alone);

    if (!p)
        return amph_layer_pass(self->next, call);

    int64_t before = alone ? atomic_load(&p->offset) : UNKNOWN;
    int64_t to = alone ? target_of(a, before) : UNKNOWN;

    /* else a program that only seeks would not notice a server's end */
    amph_client_check_at_times(call->client);
    if (to != UNKNOWN && (to == before || !send_seek(call->client, a->file, to))) {
        *a->pos = (off_t)to;
        end(p, alone, to);
        return 0;
    }

    int err = amph_layer_pass(self->next, call);

    end(p, alone, err ? UNKNOWN : (int64_t)*a->pos);
    return err;
}

/* ---- the layer ---- */

/* A new open file, which no other thread has yet. */
static void enter(const struct amph_fwd_file *file)
{
    struct place *p = place_of(file);
    uint64_t none = 0;

    if (atomic_load(&p->calls) != 0 ||
        !atomic_compare_exchange_strong(&p->handle, &none, file->part[0].handle))
        return;

    atomic_store(&p->offset, 0);
    atomic_store(&p->server, file->part[0].server);
}

static int open_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct amph_fwd_client *cl = call->client;
    int err = amph_layer_pass(self->next, call);
    const struct amph_fwd_file *file = call->u.open.file;

    /* a server of this host answers so soon that waiting costs less */
    if (!err && !(call->u.open.flags & (O_APPEND | O_PATH)) && !cl->failover && file->nparts == 1 &&
        amph_fwd_file_type(file) == S_IFREG && !cl->link[file->part[0].server - cl->first].near)
        enter(file);

    return err;
}

/* Any other call, which may move the offset or change the file's flags unless it changes nothing. */
static void forget_files(const struct amph_fwd_call *call, const struct amph_fwd_call_desc *desc)
{
    for (unsigned i = 0; i < desc->nargs && !(desc->flags & FWD_CALL_PURE); i++)
        if (desc->arg[i].word == FWD_IN_FILE) {
            const struct amph_fwd_file *file = *(
                const struct amph_fwd_file *const *)((const char *)&call->u +
                                                     desc->arg[i].client_at);

            if (file && file->nparts > 0)
                forget(file);
        }
}

static int offsets_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    struct amph_client_data d;

    if (!call->client)
        return amph_layer_pass(self->next, call);
    if (desc->flags & FWD_CALL_OPENS)
        return open_call(self, call);

    bool moves_data = amph_client_data_of(call->id, &call->u, &d);

    if (moves_data && !d.placed)
        return data_call(self, call, &d);
    if (!moves_data && desc->flags & FWD_CALL_OFFSET)
        return seek_call(self, call);
    if (!moves_data)
        forget_files(call, desc);

    return amph_layer_pass(self->next, call);
}

/* Other processes share the files from now on, and their requests take other connections. */
static void offsets_event(const struct amph_layer *self, enum amph_layer_event event)
{
    if (event == AMPH_LAYER_EXIT)
        return;

    amph_client_offsets_forget_all();
    if (event == AMPH_LAYER_EXEC || event == AMPH_LAYER_SHARE)
        amph_client_unawaited_await();
}

static const struct amph_layer layer = {
    .name = "offsets", .rank = 39, .call = offsets_call, .event = offsets_event
};

void amph_client_offsets_open(void)
{
    if (amph_env_enum(AMPH_ENV_IOFWD_CONSISTENCY) == 0)
        amph_layer_add(&layer);
}
