/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of GASNet-1: named, anonymous, mismatched; of all processes, and of a team.  Layer:
 * extended. Thread rule: of one team, one thread at a time.
 */
#include <string.h>

#include "amphora/barrier.h"
#include "base/log.h"
#include "extended/check.h"
#include "extended/coll/coll.h"

static const struct {
    int flags;
    enum amph_barrier_kind kind;
} kinds[] = {
    { 0, AMPH_BARRIER_NAMED },
    { GASNET_BARRIERFLAG_ANONYMOUS, AMPH_BARRIER_ANONYMOUS },
    { GASNET_BARRIERFLAG_MISMATCH, AMPH_BARRIER_MISMATCH },
    { GASNET_BARRIERFLAG_UNNAMED, AMPH_BARRIER_ANONYMOUS },
};

static struct amph_barrier_value value_of(int id, int flags, const char *call)
{
    for (size_t i = 0; i < AMPH_COUNTOF(kinds); i++)
        if (kinds[i].flags == flags)
            return (struct amph_barrier_value){ .kind = kinds[i].kind,
                                                .id = kinds[i].kind == AMPH_BARRIER_NAMED ? id
                                                                                          : 0 };

    amph_fatal("%s: flags %#x are not 0, GASNET_BARRIERFLAG_ANONYMOUS, UNNAMED or MISMATCH", call,
               (unsigned)flags);
}

static void notify(struct amph_barrier *b, int id, int flags, const char *call)
{
    if (amph_coll_barrier_busy(b))
        amph_fatal("%s was called twice without a wait or a successful try between", call);

    amph_coll_barrier_notify(b, value_of(id, flags, call));
}

static const char *notify_of(const char *call)
{
    return strncmp(call, "gasnet_coll", 11) == 0 ? "gasnet_coll_barrier_notify"
                                                 : "gasnet_barrier_notify";
}

static void need_notify(const struct amph_barrier *b, const char *call)
{
    if (!amph_coll_barrier_busy(b))
        amph_fatal("%s was called without %s before it", call, notify_of(call));
}

/* Returns this process's result of a completed barrier. v is the value that the wait or try
 * gave.  It contradicts the notify only if both have an id and the ids differ, because existing
 * clients pass other flags to the wait than to the notify. */
static int result(struct amph_barrier *b, struct amph_barrier_value v)
{
    bool both_named = v.kind == AMPH_BARRIER_NAMED && b->own.kind == AMPH_BARRIER_NAMED;
    bool same = !both_named || v.id == b->own.id;
    bool mismatch = b->combined.kind == AMPH_BARRIER_MISMATCH;

    b->last = b->combined;
    amph_coll_barrier_reset(b);
    return same && !mismatch ? GASNET_OK : GASNET_ERR_BARRIER_MISMATCH;
}

static int wait(struct amph_barrier *b, int id, int flags, const char *call)
{
    need_notify(b, call);
    amph_coll_barrier_wait(b);
    return result(b, value_of(id, flags, call));
}

/* A try without a notify finds nothing to wait for.  HPX calls it once more after the try that has succeeded. */
static int try_alone(struct amph_barrier *b, const char *call)
{
    if (!b->tried_alone)
        amph_warn("%s was called without %s before it; such calls return GASNET_OK", call,
                  notify_of(call));

    b->tried_alone = true;
    gasnet_AMPoll();
    return GASNET_OK;
}

static int try(struct amph_barrier *b, int id, int flags, const char *call)
{
    if (!amph_coll_barrier_busy(b))
        return try_alone(b, call);

    if (amph_coll_barrier_progress(b)) {
        amph_gex_found_done(amph_gex(), amph_coll_barrier_woke(b));
    } else {
        gasnet_AMPoll();
        if (!amph_coll_barrier_progress(b))
            return GASNET_ERR_NOT_READY;
    }

    return result(b, value_of(id, flags, call));
}

static int last_result(const struct amph_barrier *b, int *id, const char *call)
{
    if (amph_coll_barrier_busy(b))
        amph_fatal("%s was called between the notify and the wait of a barrier", call);

    if (b->last.kind != AMPH_BARRIER_NAMED)
        return b->last.kind == AMPH_BARRIER_MISMATCH ? GASNET_ERR_BARRIER_MISMATCH : 1;

    if (id)
        *id = b->last.id;

    return GASNET_OK;
}

/* ---- of all processes ---- */

static struct amph_barrier *of_all(const char *call)
{
    amph_check_call(call);
    return &amph_gex_need(call)->team.coll->barrier[AMPH_BARRIER_NAMED_ONE];
}

void gasnet_barrier_notify(int id, int flags)
{
    notify(of_all("gasnet_barrier_notify"), id, flags, "gasnet_barrier_notify");
}

int gasnet_barrier_wait(int id, int flags)
{
    return wait(of_all("gasnet_barrier_wait"), id, flags, "gasnet_barrier_wait");
}

int gasnet_barrier_try(int id, int flags)
{
    return try(of_all("gasnet_barrier_try"), id, flags, "gasnet_barrier_try");
}

int gasnet_barrier(int id, int flags)
{
    gasnet_barrier_notify(id, flags);
    return gasnet_barrier_wait(id, flags);
}

int gasnet_barrier_result(int *id)
{
    return last_result(of_all("gasnet_barrier_result"), id, "gasnet_barrier_result");
}

/* ---- of a team ---- */

static struct amph_barrier *of_team(gasnet_team_handle_t team, const char *call)
{
    return &amph_gex_team_of(team, call)->coll->barrier[AMPH_BARRIER_NAMED_ONE];
}

void gasnet_coll_barrier_notify(gasnet_team_handle_t team, int id, int flags)
{
    notify(of_team(team, "gasnet_coll_barrier_notify"), id, flags, "gasnet_coll_barrier_notify");
}

int gasnet_coll_barrier_wait(gasnet_team_handle_t team, int id, int flags)
{
    return wait(of_team(team, "gasnet_coll_barrier_wait"), id, flags, "gasnet_coll_barrier_wait");
}

int gasnet_coll_barrier_try(gasnet_team_handle_t team, int id, int flags)
{
    return try(of_team(team, "gasnet_coll_barrier_try"), id, flags, "gasnet_coll_barrier_try");
}

int gasnet_coll_barrier(gasnet_team_handle_t team, int id, int flags)
{
    gasnet_coll_barrier_notify(team, id, flags);
    return gasnet_coll_barrier_wait(team, id, flags);
}

int gasnet_coll_barrier_result(gasnet_team_handle_t team, int *id)
{
    return last_result(of_team(team, "gasnet_coll_barrier_result"), id,
                       "gasnet_coll_barrier_result");
}
