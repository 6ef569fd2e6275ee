/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that change files by themselves; see writers.h.
 *
 * Layer: iofwd.  Uses the C library only.  Thread rule: any thread, and signal handlers.
 */
#include "iofwd/wire/writers.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "iofwd/wire/versions.h"

#define FLAGS (FWD_WRITER_KEPT | FWD_WRITER_MOVES)

/* ---- changes ---- */

static struct amph_fwd_versions_line *line_of(struct amph_fwd_versions *v, uint32_t claimed)
{
    uint32_t number = claimed & ~FLAGS;

    return number == 0 || number > FWD_VERSIONS_LINES ? NULL : &v->line[number - 1];
}

void amph_fwd_writer_begin(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts)
{
    atomic_fetch_add(&w->names, 1);
    amph_fwd_version_begin(&v->names);
    if (!cuts)
        return;

    atomic_fetch_add(&w->cuts, 1);
    amph_fwd_version_begin(&v->cuts);
}

void amph_fwd_writer_end(struct amph_fwd_versions *v, struct amph_fwd_writer *w, bool cuts)
{
    if (cuts) {
        amph_fwd_version_end(&v->cuts);
        atomic_fetch_sub(&w->cuts, 1);
    }

    amph_fwd_version_end(&v->names);
    atomic_fetch_sub(&w->names, 1);
}

void amph_fwd_writer_open(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i,
                          uint32_t line)
{
    atomic_store(&w->line[i], (line + 1) | FWD_WRITER_MOVES);
    amph_fwd_version_begin(&v->line[line].data);
    amph_fwd_version_begin(&v->line[line].attributes);
    atomic_store_explicit(&w->line[i], line + 1, memory_order_release);
}

static void end_line(struct amph_fwd_versions_line *line)
{
    amph_fwd_version_end(&line->attributes);
    amph_fwd_version_end(&line->data);
}

void amph_fwd_writer_close(struct amph_fwd_versions *v, struct amph_fwd_writer *w, unsigned i)
{
    struct amph_fwd_versions_line *line = line_of(v, atomic_load(&w->line[i]));

    if (!line)
        return;

    atomic_fetch_or(&w->line[i], FWD_WRITER_MOVES);
    end_line(line);
    atomic_store_explicit(&w->line[i], 0, memory_order_release);
}

/* ---- owners of records ---- */

bool amph_fwd_record_pass(_Atomic uint32_t *owner, uint32_t seen, uint32_t pid)
{
    uint32_t turn = (seen & ~FWD_WRITER_PID) + FWD_WRITER_TURN;

    return atomic_compare_exchange_strong(owner, &seen, turn | pid);
}

/* The process, or one that had its number, has the record. */
static bool take_former(_Atomic uint32_t *owner, uint32_t pid)
{
    uint32_t seen = atomic_load(owner);

    return (seen & FWD_WRITER_PID) == pid && amph_fwd_record_pass(owner, seen, pid);
}

static bool take_free(_Atomic uint32_t *owner, uint32_t pid)
{
    uint32_t seen = atomic_load(owner);

    return (seen & FWD_WRITER_PID) == 0 && amph_fwd_record_pass(owner, seen, pid);
}

bool amph_fwd_process_exists(uint32_t pid)
{
    int saved = errno;
    bool exists = kill((pid_t)pid, 0) == 0 || errno != ESRCH;

    errno = saved;
    return exists;
}

/* false: the record has a living owner, which may be a new process that has got the same number meanwhile. */
static bool take_dead(_Atomic uint32_t *owner, uint32_t pid)
{
    uint32_t seen = atomic_load(owner);
    uint32_t former = seen & FWD_WRITER_PID;

    return former && !amph_fwd_process_exists(former) && amph_fwd_record_pass(owner, seen, pid);
}

/* ---- records ---- */

/* What another process has claimed is under way without a claim from here on. */
static void clear(struct amph_fwd_writer *w)
{
    atomic_store(&w->names, 0);
    atomic_store(&w->cuts, 0);
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++)
        atomic_store(&w->line[i], 0);
}

/* Ends what this process had open before an exec. */
static void end_former(struct amph_fwd_versions *v, struct amph_fwd_writer *w)
{
    for (unsigned i = 0; i < FWD_WRITER_FILES; i++) {
        uint32_t line = atomic_load(&w->line[i]);

        if (line & FWD_WRITER_MOVES)
            atomic_store(&w->line[i], 0);
        else if (!(line & FWD_WRITER_KEPT))
            amph_fwd_writer_close(v, w, i);
    }

    atomic_store(&w->names, 0);
    atomic_store(&w->cuts, 0);
}

static struct amph_fwd_writer *take_any(struct amph_fwd_versions *v, uint32_t pid,
                                        bool (*take)(_Atomic uint32_t *owner, uint32_t pid))
{
    for (unsigned i = 0; i < FWD_WRITERS; i++)
        if (take(&v->writer[i].owner, pid))
            return &v->writer[i];

    return NULL;
}

struct amph_fwd_writer *amph_fwd_writer_take(struct amph_fwd_versions *v, uint32_t pid)
{
    struct amph_fwd_writer *w = take_any(v, pid, take_former);

    if (w) {
        end_former(v, w);
        return w;
    }

    w = take_any(v, pid, take_free);
    if (!w)
        w = take_any(v, pid, take_dead);
    if (w)
        clear(w);

    return w;
}

_Atomic uint32_t *amph_fwd_passer_take(struct amph_fwd_versions *v, uint32_t pid)
{
    static bool (*const take[])(_Atomic uint32_t *, uint32_t) = { take_former, take_free,
                                                                  take_dead };

    for (size_t k = 0; k < sizeof take / sizeof take[0]; k++)
        for (unsigned i = 0; i < FWD_PASSERS; i++)
            if (take[k](&v->passer[i].owner, pid)) {
                atomic_store(&v->passer[i].changes, 0);
                return &v->passer[i].changes;
            }

    return &v->others;
}
