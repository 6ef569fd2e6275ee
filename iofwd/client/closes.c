/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `closes`: the close of a file that this process has only read does not wait for the answer of a server on
 * another host.
 *
 * Nobody sees when such a file is closed: it has no data that the close could lose, no lock that it releases, and no
 * other end that waits for it.  So these files are known here: regular files and directories that this process has
 * opened for reading, that no other process shares, and on which all calls were such as leave nothing behind.  All
 * other closes wait.
 *
 * A server takes the requests of a client in their order, so no later call of the process finds the file open.  A
 * forked child, whose connection is another one, would; the parent waits for an answer before.
 *
 * Layer: iofwd.  Thread rule: any thread; no locks.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#define FILES 1024u

static struct {
    /* by a hash of the handle; where another file has the place, the close waits */
    struct {
        _Atomic uint64_t handle; /* 0: none */
        _Atomic uint32_t server;
    } file[FILES];
    _Atomic bool unanswered; /* a request was sent without waiting, since the last fork */
} closes;

/* Returns whether the file was here, and takes it out. */
static bool take(const struct amph_fwd_file *file)
{
    uint64_t handle = file->part[0].handle;
    uint32_t i = amph_client_hash(handle) % FILES;

    return file->nparts == 1 && atomic_load(&closes.file[i].handle) == handle &&
           atomic_load(&closes.file[i].server) == file->part[0].server &&
           atomic_compare_exchange_strong(&closes.file[i].handle, &handle, 0);
}

static void enter(const struct amph_fwd_file *file)
{
    uint32_t i = amph_client_hash(file->part[0].handle) % FILES;
    uint64_t none = 0;

    /* no other thread has the file yet */
    if (atomic_compare_exchange_strong(&closes.file[i].handle, &none, file->part[0].handle))
        atomic_store(&closes.file[i].server, file->part[0].server);
}

static void forget_all(void)
{
    for (uint32_t i = 0; i < FILES; i++)
        atomic_store(&closes.file[i].handle, 0);
}

static int open_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    struct amph_fwd_client *cl = call->client;
    int err = amph_layer_pass(self->next, call);
    const struct amph_fwd_file *file = call->u.open.file;

    /* a server of this host answers so soon that waiting costs less */
    if (!err && (call->u.open.flags & (O_ACCMODE | O_TRUNC)) == O_RDONLY && !cl->failover &&
        file->nparts == 1 && amph_fwd_file_type(file) &&
        !cl->link[file->part[0].server - cl->first].near)
        enter(file);

    return err;
}

void amph_client_unawaited_note(void)
{
    atomic_store(&closes.unanswered, true);
}

static int close_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_file *file = call->u.close.file;

    if (!take(file))
        return amph_layer_pass(self->next, call);

    /* else a program that only reads would not notice a server's end */
    amph_client_check_at_times(call->client);

    amph_client_unawaited_note();
    return amph_client_send_only(call->client, file->part[0].server, call->id, &call->u);
}

static int closes_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];

    if (!call->client)
        return amph_layer_pass(self->next, call);
    if (desc->flags & FWD_CALL_OPENS)
        return open_call(self, call);
    if (desc->coalesce_flags & FWD_COALESCE_DROP)
        return close_call(self, call);

    if (desc->nargs && desc->arg[0].word == FWD_IN_FILE &&
        !(desc->flags & (FWD_CALL_PURE | FWD_CALL_LIGHT)))
        (void)take(amph_fwd_call_file(desc, &call->u));

    return amph_layer_pass(self->next, call);
}

/* A server answers in order. */
void amph_client_unawaited_await(void)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    struct amph_fwd_stats stats;

    if (!cl || !atomic_exchange(&closes.unanswered, false))
        return;

    for (uint32_t i = 0; i < cl->nlinks; i++)
        if (atomic_load(&cl->link[i].state) == AMPH_CLIENT_LINK_READY && !cl->link[i].near)
            (void)amph_fwd_server_stats(cl, cl->first + i, &stats);
}

static void closes_event(const struct amph_layer *self, enum amph_layer_event event)
{
    if (event == AMPH_LAYER_EXIT || event == AMPH_LAYER_FORK_PARENT)
        return;

    forget_all(); /* other processes share them from now on */
    if (event == AMPH_LAYER_FORK_BEFORE)
        amph_client_unawaited_await();
    else if (event == AMPH_LAYER_FORK_CHILD)
        atomic_store(&closes.unanswered, false);
}

static const struct amph_layer layer = {
    .name = "closes", .rank = 39, .call = closes_call, .event = closes_event
};

void amph_client_closes_open(void)
{
    amph_layer_add(&layer);
}
