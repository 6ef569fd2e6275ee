/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that change files by themselves; see writers.h.
 *
 * A change begins before it is recorded, and is removed from the record before it ends: whoever ends the changes of
 * a killed process never ends one too many, with which others could take a later change for none.
 *
 * Layer: iofwd.  Uses the C library only.  Thread rule: any thread, and signal handlers.
 */
#include "iofwd/wire/writers.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include "iofwd/wire/versions.h"

static struct amph_fwd_versions_line *line_of(struct amph_fwd_versions *v, uint32_t recorded)
{
    uint32_t number = recorded & ~FWD_WRITER_KEPT;

    return number == 0 || number > FWD_VERSIONS_LINES ? NULL : &v->line[number - 1];
}

void amph_fwd_writer_begin(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts)
{
    amph_fwd_version_begin(&v->names);
    atomic_fetch_add(&w->names, 1);
    if (!cuts)
        return;

    amph_fwd_version_begin(&v->cuts);
    atomic_fetch_add(&w->cuts, 1);
}

void amph_fwd_writer_end(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts)
{
    if (cuts) {
        atomic_fetch_sub(&w->cuts, 1);
        amph_fwd_version_end(&v->cuts);
    }

    atomic_fetch_sub(&w->names, 1);
    amph_fwd_version_end(&v->names);
}

void amph_fwd_writer_open(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i,
                          uint32_t line)
{
    amph_fwd_version_begin(&v->line[line].data);
    amph_fwd_version_begin(&v->line[line].attributes);
    atomic_store(&w->line[i], line + 1);
}

void amph_fwd_writer_close(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i)
{
    struct amph_fwd_versions_line *line = line_of(v, atomic_exchange(&w->line[i], 0));

    if (!line)
        return;

    amph_fwd_version_end(&line->attributes);
    amph_fwd_version_end(&line->data);
}

/* ---- records ---- */

/* Ends what the record says is under way.  It is the caller's. */
static void end_all(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool with_kept)
{
    atomic_fetch_add(&v->names.ended, atomic_exchange(&w->names, 0));
    atomic_fetch_add(&v->cuts.ended, atomic_exchange(&w->cuts, 0));
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++)
        if (with_kept || !(atomic_load(&w->line[i]) & FWD_WRITER_KEPT))
            amph_fwd_writer_close(v, w, i);
}

static bool is_free(uint32_t owner)
{
    return !(owner & (FWD_WRITER_PID | FWD_WRITER_TAKEN));
}

/* The process that has number pid, or nobody, owns the record after `owner`. */
static uint32_t owner_after(uint32_t owner, uint32_t pid)
{
    return ((owner & ~(FWD_WRITER_PID | FWD_WRITER_TAKEN)) + FWD_WRITER_TURN) | pid;
}

static bool is_dead(uint32_t owner)
{
    uint32_t pid = owner & FWD_WRITER_PID;
    int saved = errno;
    bool dead = pid != 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;

    errno = saved;
    return dead;
}

/* Takes the record of a process that exists no more, for the process that has number pid, or for nobody, without
 * changes.  false: it has a living owner, which may be a new process that has got the same number meanwhile. */
static bool take_dead(struct amph_fwd_versions *v, struct amph_fwd_writer *w, uint32_t pid)
{
    uint32_t owner = atomic_load(&w->owner);
    uint32_t next = owner_after(owner, pid);

    if (!is_dead(owner) || !atomic_compare_exchange_strong(
                               &w->owner, &owner, owner_after(owner, 0) | FWD_WRITER_TAKEN))
        return false;

    end_all(v, w, true);
    atomic_store(&w->owner, next);
    return true;
}

static bool take_from(struct amph_fwd_writer *w, uint32_t owner, uint32_t pid)
{
    return atomic_compare_exchange_strong(&w->owner, &owner, owner_after(owner, pid));
}

/* The record that the process has had before an exec, or that a dead one had which had its number. */
static struct amph_fwd_writer *take_former(struct amph_fwd_versions *v, uint32_t pid)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        uint32_t owner = atomic_load(&v->writer[i].owner);

        if ((owner & FWD_WRITER_PID) == pid && take_from(&v->writer[i], owner, pid)) {
            end_all(v, &v->writer[i], false);
            return &v->writer[i];
        }
    }

    return NULL;
}

static struct amph_fwd_writer *take_free(struct amph_fwd_versions *v, uint32_t pid)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        uint32_t owner = atomic_load(&v->writer[i].owner);

        if (is_free(owner) && take_from(&v->writer[i], owner, pid))
            return &v->writer[i];
    }

    return NULL;
}

struct amph_fwd_writer *amph_fwd_writer_take(struct amph_fwd_versions *v, uint32_t pid)
{
    struct amph_fwd_writer *w = take_former(v, pid);

    if (!w)
        w = take_free(v, pid);

    for (unsigned i = 0; i < FWD_WRITERS && !w; i++)
        if (take_dead(v, &v->writer[i], pid))
            w = &v->writer[i];

    return w;
}

void amph_fwd_writers_end_dead(struct amph_fwd_versions *v)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++)
        (void)take_dead(v, &v->writer[i], 0);
}

static bool is_idle(struct amph_fwd_writer *w)
{
    bool idle = atomic_load(&w->names) == 0;

    for (unsigned i = 0; i < FWD_WRITER_FILES; i++)
        idle &= atomic_load(&w->line[i]) == 0;

    return idle;
}

bool amph_fwd_writers_any(struct amph_fwd_versions *v)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        uint32_t owner = atomic_load(&v->writer[i].owner);

        if ((owner & FWD_WRITER_PID) && !is_dead(owner) && !is_idle(&v->writer[i]))
            return true;
    }

    return false;
}

static void begin_all(struct amph_fwd_versions *v, struct amph_fwd_writer *w)
{
    atomic_fetch_add(&v->names.begun, atomic_load(&w->names));
    atomic_fetch_add(&v->cuts.begun, atomic_load(&w->cuts));
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++) {
        struct amph_fwd_versions_line *line = line_of(v, atomic_load(&w->line[i]));

        if (!line)
            continue;

        amph_fwd_version_begin(&line->data);
        amph_fwd_version_begin(&line->attributes);
    }
}

static void forget(struct amph_fwd_writer *w)
{
    atomic_store(&w->names, 0);
    atomic_store(&w->cuts, 0);
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++)
        atomic_store(&w->line[i], 0);

    atomic_store(&w->owner, owner_after(atomic_load(&w->owner), 0));
}

void amph_fwd_writers_begin_again(struct amph_fwd_versions *v)
{
    for (unsigned i = 0; i < FWD_WRITERS; i++) {
        struct amph_fwd_writer *w = &v->writer[i];
        uint32_t owner = atomic_load(&w->owner);

        /* taken: whoever emptied it was killed */
        if ((owner & FWD_WRITER_TAKEN) || is_dead(owner))
            forget(w);
        else if (owner & FWD_WRITER_PID)
            begin_all(v, w);
    }
}
