/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends the changes of processes that were killed; see repair.h.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include "iofwd/wire/repair.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "iofwd/wire/marshal.h"
#include "iofwd/wire/versions.h"
#include "iofwd/wire/writers.h"

/* ---- processes ---- */

/* Has the process ended, though it exists, since its parent has not waited for it yet? */
static bool is_unreaped(uint32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool ended = fd >= 0 && poll(&p, 1, 0) == 1;

    if (fd >= 0)
        close(fd);

    return ended;
}

static bool is_alive(uint32_t pid)
{
    return amph_fwd_process_exists(pid) && !is_unreaped(pid);
}

static uint32_t owner_of(const _Atomic uint32_t *owner)
{
    return atomic_load((_Atomic uint32_t *)owner) & FWD_WRITER_PID;
}

static void forget_dead(_Atomic uint32_t *owner)
{
    uint32_t seen = atomic_load(owner);
    uint32_t pid = seen & FWD_WRITER_PID;

    if (pid && !is_alive(pid))
        (void)amph_fwd_record_pass(owner, seen, 0);
}

void amph_fwd_writers_forget_dead(struct amph_fwd_versions *v)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++)
        forget_dead(&v->writer[i].owner);
    for (unsigned i = 0; i < FWD_PASSERS; i++)
        forget_dead(&v->passer[i].owner);
}

static bool is_idle(const struct amph_fwd_writer *w)
{
    bool idle = atomic_load((_Atomic uint32_t *)&w->names) == 0;

    for (unsigned i = 0; i < FWD_WRITER_FILES; i++)
        idle &= atomic_load((_Atomic uint32_t *)&w->line[i]) == 0;

    return idle;
}

bool amph_fwd_writers_any(struct amph_fwd_versions *v)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        uint32_t pid = owner_of(&v->writer[i].owner);

        if (pid && !is_idle(&v->writer[i]) && is_alive(pid))
            return true;
    }

    return false;
}

/* ---- versions that are not of a file ---- */

/* moves: FWD_VERSION_NAMES or FWD_VERSION_CUTS */
static bool journals_claim(struct amph_fwd_versions *v, unsigned moves)
{
    bool claims = false;

    for (unsigned i = 0; i < FWD_JOURNALS; i++) {
        claims |= atomic_load(&v->journal[i].others) > 0;
        for (unsigned k = 0; k < FWD_JOURNAL_ENTRIES; k++)
            claims |= atomic_load(&v->journal[i].entry[k].claims) & moves;
    }

    return claims;
}

static bool writers_claim(struct amph_fwd_versions *v, unsigned moves)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        struct amph_fwd_writer *w = &v->writer[i];

        if (owner_of(&w->owner) &&
            atomic_load(moves == FWD_VERSION_NAMES ? &w->names : &w->cuts) > 0)
            return true;
    }

    return false;
}

/*
 * What differs, as it was before the claims were looked at. Every change that can still end is claimed then, or has
 * ended by then, or begins later. What has ended meanwhile has moved the second number, and nothing is done; what
 * begins later moves the first one beyond what was seen.
 */
struct seen {
    uint32_t begun, ended;
};

static struct seen see(const struct amph_fwd_version *version)
{
    struct seen seen = { .ended = atomic_load((_Atomic uint32_t *)&version->ended) };

    seen.begun = atomic_load((_Atomic uint32_t *)&version->begun);
    return seen;
}

static unsigned end_left(struct amph_fwd_version *version, struct seen seen)
{
    return seen.begun != seen.ended &&
           atomic_compare_exchange_strong(&version->ended, &seen.ended, seen.begun);
}

static unsigned repair_common(struct amph_fwd_versions *v, struct amph_fwd_version *version,
                              unsigned moves)
{
    struct seen seen = see(version);

    if (seen.begun == seen.ended || atomic_load(&v->others) || journals_claim(v, moves) ||
        writers_claim(v, moves))
        return 0;

    return end_left(version, seen);
}

/* ---- versions of files ---- */

#define GROUP 512u /* lines for which the claims are looked at once */

struct group {
    uint32_t first; /* line */
    struct seen data[GROUP], attributes[GROUP];
    bool claimed[GROUP];
};

static bool see_group(struct group *g, struct amph_fwd_versions *v)
{
    bool any = false;

    for (uint32_t i = 0; i < GROUP; i++) {
        g->data[i] = see(&v->line[g->first + i].data);
        g->attributes[i] = see(&v->line[g->first + i].attributes);
        any |= g->data[i].begun != g->data[i].ended ||
               g->attributes[i].begun != g->attributes[i].ended;
        g->claimed[i] = false;
    }

    return any;
}

static void claim(struct group *g, uint32_t line)
{
    if (line >= g->first && line - g->first < GROUP)
        g->claimed[line - g->first] = true;
}

static void claim_by_writer(struct group *g, struct amph_fwd_writer *w)
{
    for (unsigned i = 0; i < FWD_WRITER_FILES && owner_of(&w->owner); i++) {
        uint32_t claimed = atomic_load(&w->line[i]) & ~(FWD_WRITER_KEPT | FWD_WRITER_MOVES);

        if (claimed)
            claim(g, claimed - 1);
    }
}

static void claim_by_server(struct group *g, struct amph_fwd_journal *journal)
{
    for (unsigned i = 0; i < FWD_JOURNAL_ENTRIES; i++)
        if (atomic_load(&journal->entry[i].claims) & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES))
            claim(g, atomic_load(&journal->entry[i].line));
}

/* Does somebody make changes without saying of which file? */
static bool claims_any(struct amph_fwd_versions *v)
{
    bool any = atomic_load(&v->others) > 0;

    for (unsigned i = 0; i < FWD_JOURNALS; i++)
        any |= atomic_load(&v->journal[i].others) > 0;
    for (unsigned i = 0; i < FWD_PASSERS; i++)
        any |= owner_of(&v->passer[i].owner) && atomic_load(&v->passer[i].changes) > 0;

    return any;
}

static unsigned repair_group(struct amph_fwd_versions *v, uint32_t first)
{
    struct group g = { .first = first };
    unsigned n = 0;

    if (!see_group(&g, v) || claims_any(v))
        return 0;

    for (unsigned i = 0; i < FWD_JOURNALS; i++)
        claim_by_server(&g, &v->journal[i]);
    for (unsigned i = 0; i < FWD_WRITERS; i++)
        claim_by_writer(&g, &v->writer[i]);

    for (uint32_t i = 0; i < GROUP; i++)
        if (!g.claimed[i])
            n += end_left(&v->line[first + i].data, g.data[i]) +
                 end_left(&v->line[first + i].attributes, g.attributes[i]);

    return n;
}

unsigned amph_fwd_versions_repair(struct amph_fwd_versions *v)
{
    unsigned n = repair_common(v, &v->names, FWD_VERSION_NAMES) +
                 repair_common(v, &v->cuts, FWD_VERSION_CUTS);

    _Static_assert(FWD_VERSIONS_LINES % GROUP == 0, "groups have as many lines");
    for (uint32_t first = 0; first < FWD_VERSIONS_LINES; first += GROUP)
        n += repair_group(v, first);

    return n;
}
