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
 * Processes and servers that are killed leave versions that are under way, and clients then ask for each read and
 * stat. The others of the user's servers end what nobody claims any more (wire/repair.h).
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "iofwd/calls/calls.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/repair.h"
#include "iofwd/wire/versions.h"

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

static bool is_empty(const struct amph_fwd_journal *journal)
{
    for (unsigned i = 0; i < FWD_JOURNAL_ENTRIES; i++)
        if (atomic_load((_Atomic uint32_t *)&journal->entry[i].claims))
            return false;

    return atomic_load((_Atomic uint32_t *)&journal->others) == 0;
}

/* The server that has made these claims is gone. */
static void clear_journal(struct amph_fwd_journal *journal)
{
    for (unsigned i = 0; i < FWD_JOURNAL_ENTRIES; i++)
        atomic_store(&journal->entry[i].claims, 0);

    atomic_store(&journal->others, 0);
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
            clear_journal(&s->versions->journal[i]);
            s->journal = &s->versions->journal[i];
            s->journal_used = 1;
            return;
        }
}

static void clear_if_left(const struct amph_server *s, unsigned number)
{
    struct amph_fwd_journal *journal = &s->versions->journal[number];

    if (journal == s->journal || is_empty(journal) ||
        !lock_journal(s->versions_fd, number, F_WRLCK))
        return;

    clear_journal(journal);
    lock_journal(s->versions_fd, number, F_UNLCK);
}

void amph_server_versions_repair(struct amph_server *s)
{
    if (!s->versions)
        return;

    for (unsigned i = 0; i < FWD_JOURNALS; i++)
        clear_if_left(s, i);

    if (amph_fwd_versions_same_pids(s->versions))
        amph_fwd_writers_forget_dead(s->versions);

    if (amph_fwd_versions_repair(s->versions))
        amph_info("changes that killed programs or servers of this user had under way are ended; "
                  "clients use what they hold again");
}

/* ---- around a call ---- */

/* Where changes are counted that have no entry. */
static _Atomic uint32_t *others_of(const struct amph_server *s)
{
    return s->journal ? &s->journal->others : &s->versions->others;
}

/* Only the thread that has an entry writes it. */
static void claim(const struct amph_server *s, unsigned number, unsigned moves, uint32_t line)
{
    if (number == NO_ENTRY) {
        atomic_fetch_add(others_of(s), 1);
        return;
    }

    atomic_store_explicit(&s->journal->entry[number].line, line, memory_order_relaxed);
    atomic_store_explicit(&s->journal->entry[number].claims, moves, memory_order_release);
}

static void end_claim(struct amph_server *s, unsigned number)
{
    if (number == NO_ENTRY) {
        atomic_fetch_sub(others_of(s), 1);
        return;
    }

    atomic_store_explicit(&s->journal->entry[number].claims, 0, memory_order_release);
    put_entry_back(s, number);
}

static uint32_t line_of(const struct amph_server_request *rq, unsigned moves)
{
    return moves & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES) ? rq->file->line : 0;
}

unsigned amph_server_versions_begin(const struct amph_server_request *rq)
{
    struct amph_server *s = rq->server;
    unsigned moves = s->versions ? moves_of(rq) : 0;

    if (!moves)
        return 0;

    unsigned number = s->journal ? take_entry(s, rq->shared.in_worker) : NO_ENTRY;
    uint32_t line = line_of(rq, moves);

    claim(s, number, moves, line);
    for (size_t k = 0; k < AMPH_COUNTOF(in_order); k++)
        if (moves & in_order[k])
            amph_fwd_version_begin(version_of(s->versions, line, in_order[k]));

    return moves | number << ENTRY_SHIFT;
}

/* Moves the data version of a file that a call by path has shortened. The call's own entry does not name the file, and
 * what is under way without a claim may be ended by others at any moment: the second number would then pass the first
 * one, and the next change of the file would go unseen. */
static void move_cut(struct amph_server *s, uint32_t line)
{
    claim(s, NO_ENTRY, FWD_VERSION_DATA, line);
    amph_fwd_version_begin(&s->versions->line[line].data);
    amph_fwd_version_end(&s->versions->line[line].data);
    end_claim(s, NO_ENTRY);
}

void amph_server_versions_end(const struct amph_server_request *rq, unsigned begun)
{
    struct amph_server *s = rq->server;
    struct amph_fwd_versions *v = s->versions;
    unsigned moves = begun & ((1U << ENTRY_SHIFT) - 1);

    if (!moves)
        return;

    uint32_t line = line_of(rq, moves);

    if ((moves & FWD_VERSION_CUTS) && rq->exec.line != FWD_VERSIONS_LINE_NONE)
        move_cut(s, rq->exec.line);

    for (size_t k = AMPH_COUNTOF(in_order); k-- > 0;)
        if (moves & in_order[k])
            amph_fwd_version_end(version_of(v, line, in_order[k]));

    end_claim(s, begun >> ENTRY_SHIFT);
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
        amph_fwd_versions_close(s->versions, s->versions_fd, s->journal && !is_empty(s->journal));

    s->versions_fd = -1;
}
