/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves the versions of files (wire/versions.h) around each call that changes something, so that
 * clients of this host know whether what they hold of a file is still current.
 *
 * Layer: iofwd. Thread rule: amph_server_versions_begin and _end run in the thread that executes
 * the request; the rest in the progress thread.
 *
 * A call on an open file moves that file's versions.  A call by path moves the version of all
 * names, because what it changes is known only afterwards; if it shortens a file, it also moves
 * that file's version before it ends.
 *
 * A server that is killed leaves versions that are under way, and clients then ask for each read and
 * stat. The journals in the shared object say which; the other servers of the user look for journals
 * whose server is gone, and end what it has begun.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "iofwd/calls/calls.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/internal.h"

/* What an open moves follows from its flags.  An open that waits for the other end of a FIFO moves
 * nothing. */
static unsigned moves_open(const struct amph_server_request *rq)
{
    int flags = rq->u.open.flags;
    unsigned moves = 0;

    if (rq->exec.may_block)
        return 0;

    if (flags & (O_CREAT | O_TRUNC))
        moves |= FWD_VERSION_NAMES;
    if (flags & O_TRUNC)
        moves |= FWD_VERSION_CUTS;

    return moves;
}

/* The data of the file that is written; st_atime of the other one, by the version of all names. */
static unsigned moves_copyrange(const struct amph_server_request *rq)
{
    return FWD_VERSION_NAMES | (rq->file->line == FWD_VERSIONS_LINE_NONE ? 0 : FWD_VERSION_DATA);
}

typedef unsigned (*moves_fn)(const struct amph_server_request *rq);

static const moves_fn moves_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) [AMPH_FWD_##id] = moves_##name,
    AMPH_FWD_VERSION_CHECKED_CALLS(X)
#undef X
};

/* Returns the versions that a call moves, by column "versions" of calls.def. */
static unsigned moves_of(const struct amph_server_request *rq)
{
    unsigned moves = rq->desc->versions;

    if (moves & FWD_VERSION_CHECK)
        return moves_fns[rq->id](rq);

    if (rq->file && rq->file->line == FWD_VERSIONS_LINE_NONE)
        return moves & FWD_VERSION_DIRECTORY ? FWD_VERSION_NAMES : 0;

    return moves &
           (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES | FWD_VERSION_NAMES | FWD_VERSION_CUTS);
}

/* ---- the journal ---- */

#define NO_ENTRY FWD_JOURNAL_ENTRIES
#define ENTRY_SHIFT 16 /* of an entry's number in what amph_server_versions_begin returns */

static struct amph_fwd_version *version_of(struct amph_fwd_versions *v, uint32_t line, unsigned bit)
{
    switch (bit) {
    case FWD_VERSION_NAMES:
        return &v->names;
    case FWD_VERSION_CUTS:
        return &v->cuts;
    case FWD_VERSION_DATA:
        return &v->line[line].data;
    default:
        return &v->line[line].attributes;
    }
}

/* In this order they begin, and in the reverse order they end. */
static const unsigned in_order[] = { FWD_VERSION_NAMES, FWD_VERSION_CUTS, FWD_VERSION_DATA,
                                     FWD_VERSION_ATTRIBUTES };

/* The progress thread has an entry of its own. */
static unsigned take_entry(struct amph_server *s, bool in_worker)
{
    uint32_t used = atomic_load_explicit(&s->journal_used, memory_order_relaxed);
    unsigned i;

    if (!in_worker)
        return 0;

    do {
        if (used == UINT32_MAX)
            return NO_ENTRY;

        i = (unsigned)__builtin_ctz(~used);
    } while (!atomic_compare_exchange_weak(&s->journal_used, &used, used | UINT32_C(1) << i));

    return i;
}

static void put_entry_back(struct amph_server *s, unsigned i)
{
    if (i > 0 && i < NO_ENTRY)
        atomic_fetch_and(&s->journal_used, ~(UINT32_C(1) << i));
}

/* Ends what the journal says is under way. Its server is gone, or this one. */
static void end_begun(struct amph_fwd_versions *v, struct amph_fwd_journal *journal)
{
    for (unsigned i = 0; i < FWD_JOURNAL_ENTRIES; i++) {
        struct amph_fwd_journal_entry *e = &journal->entry[i];
        unsigned begun = atomic_exchange(&e->begun, 0);

        for (size_t k = AMPH_COUNTOF(in_order); k-- > 0 && e->line < FWD_VERSIONS_LINES;)
            if (begun & in_order[k])
                amph_fwd_version_end(version_of(v, e->line, in_order[k]));
    }
}

static bool is_empty(const struct amph_fwd_journal *journal)
{
    for (unsigned i = 0; i < FWD_JOURNAL_ENTRIES; i++)
        if (atomic_load((_Atomic uint32_t *)&journal->entry[i].begun))
            return false;

    return true;
}

/* Locks or unlocks a journal's byte of the file; false: another server has it. */
static bool lock_journal(int fd, unsigned number, short type)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = FWD_JOURNAL_LOCK_AT + number, .l_len = 1
    };

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Takes the first journal that no server has. */
static void take_journal(struct amph_server *s)
{
    for (unsigned i = 0; i < FWD_JOURNALS; i++)
        if (lock_journal(s->versions_fd, i, F_WRLCK)) {
            end_begun(s->versions, &s->versions->journal[i]);
            s->journal = &s->versions->journal[i];
            s->journal_used = 1;
            return;
        }
}

void amph_server_versions_repair(struct amph_server *s)
{
    if (s->versions)
        (void)amph_fwd_writers_end_dead(s->versions);

    for (unsigned i = 0; s->versions && i < FWD_JOURNALS; i++) {
        struct amph_fwd_journal *journal = &s->versions->journal[i];

        if (journal == s->journal || is_empty(journal) || !lock_journal(s->versions_fd, i, F_WRLCK))
            continue;

        end_begun(s->versions, journal);
        lock_journal(s->versions_fd, i, F_UNLCK);
        amph_info("changes that a server of this user had under way when it was killed are ended; "
                  "clients use what they hold again");
    }
}

/* ---- around a call ---- */

/* Only the thread that has the entry writes it. e NULL: it has none. */
static void record(struct amph_fwd_journal_entry *e, unsigned begun)
{
    if (e)
        atomic_store_explicit(&e->begun, begun, memory_order_release);
}

unsigned amph_server_versions_begin(const struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    unsigned moves = s->versions ? moves_of(rq) : 0;

    if (!moves)
        return 0;

    unsigned number = s->journal ? take_entry(s, rq->shared.in_worker) : NO_ENTRY;
    struct amph_fwd_journal_entry *e = number < NO_ENTRY ? &s->journal->entry[number] : NULL;
    uint32_t line = moves & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES) ? rq->file->line : 0;
    unsigned done = 0;

    if (e)
        e->line = line;

    for (size_t k = 0; k < AMPH_COUNTOF(in_order); k++) {
        if (!(moves & in_order[k]))
            continue;

        amph_fwd_version_begin(version_of(s->versions, line, in_order[k]));
        done |= in_order[k];
        record(e, done);
    }

    return moves | number << ENTRY_SHIFT;
}

void amph_server_versions_end(const struct amph_server_request *rq, unsigned begun)
{
    struct amph_server *s = rq->server;
    struct amph_fwd_versions *v = s->versions;
    unsigned moves = begun & ((1U << ENTRY_SHIFT) - 1);
    unsigned number = begun >> ENTRY_SHIFT;

    if (!moves)
        return;

    struct amph_fwd_journal_entry *e = number < NO_ENTRY ? &s->journal->entry[number] : NULL;
    uint32_t line = moves & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES) ? rq->file->line : 0;

    if ((moves & FWD_VERSION_CUTS) && rq->exec.line != FWD_VERSIONS_LINE_NONE) {
        amph_fwd_version_begin(&v->line[rq->exec.line].data);
        amph_fwd_version_end(&v->line[rq->exec.line].data);
    }

    unsigned left = moves;

    for (size_t k = AMPH_COUNTOF(in_order); k-- > 0;) {
        if (!(moves & in_order[k]))
            continue;

        left &= ~in_order[k];
        record(e, left);
        amph_fwd_version_end(version_of(v, line, in_order[k]));
    }

    put_entry_back(s, number);
}

void amph_server_versions_open(struct amph_server *s)
{
    enum amph_status st = amph_fwd_versions_open(&s->versions, &s->versions_fd);

    if (st == AMPH_OK) {
        s->address.versions = s->versions->id;
        take_journal(s);
    } else
        amph_info("no memory for the versions of files (%s): each read and stat asks a server",
                  amph_status_text(st));
}

void amph_server_versions_close(struct amph_server *s)
{
    if (s->versions_fd >= 0)
        amph_fwd_versions_close(s->versions, s->versions_fd);

    s->versions_fd = -1;
}
