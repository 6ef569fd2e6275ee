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
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "iofwd/server/internal.h"

/* Which versions a call moves. */
enum moves {
    MOVES_DATA = 1,
    MOVES_ATTRIBUTES = 2,
    MOVES_NAMES = 4,
    MOVES_CUTS = 8
};

/* What an open or a call by path changes. */
static unsigned moves_of_path(const struct amph_server_request *rq)
{
    if (rq->id == AMPH_FWD_OPEN && rq->exec.may_block)
        return 0; /* it waits for the other end of a FIFO */

    if (rq->id == AMPH_FWD_OPEN) {
        int flags = rq->u.open.flags;

        return (flags & (O_CREAT | O_TRUNC) ? MOVES_NAMES : 0) | (flags & O_TRUNC ? MOVES_CUTS : 0);
    }

    if (rq->id == AMPH_FWD_TRUNCATE)
        return MOVES_NAMES | MOVES_CUTS;

    return rq->desc->flags & FWD_CALL_CHANGE ? MOVES_NAMES : 0;
}

static unsigned moves_of(const struct amph_server_request *rq)
{
    const struct amph_server_handle *h = rq->file;
    uint16_t flags = rq->desc->flags;

    if (!h)
        return moves_of_path(rq);

    bool data = (flags & FWD_CALL_WRITES) || rq->id == AMPH_FWD_FTRUNCATE ||
                rq->id == AMPH_FWD_FALLOCATE;
    bool changes = flags & FWD_CALL_CHANGE;

    if (h->line == FWD_VERSIONS_LINE_NONE)
        /* a directory's mode decides which paths are found; reading it moves st_atime */
        return changes || rq->id == AMPH_FWD_GETDENTS ? MOVES_NAMES : 0;
    if (data)
        return MOVES_DATA;

    return changes || (flags & FWD_CALL_READS) /* st_atime */ ? MOVES_ATTRIBUTES : 0;
}

static void begin(struct amph_fwd_version *v, bool moves)
{
    if (moves)
        amph_fwd_version_begin(v);
}

static void end(struct amph_fwd_version *v, bool moves)
{
    if (moves)
        amph_fwd_version_end(v);
}

unsigned amph_server_versions_begin(const struct amph_server_request *rq)
{
    struct amph_fwd_versions *v = rq->server->versions;
    unsigned moves = v ? moves_of(rq) : 0;

    begin(&v->names, moves & MOVES_NAMES);
    begin(&v->cuts, moves & MOVES_CUTS);
    if (moves & (MOVES_DATA | MOVES_ATTRIBUTES)) {
        begin(&v->line[rq->file->line].data, moves & MOVES_DATA);
        begin(&v->line[rq->file->line].attributes, moves & MOVES_ATTRIBUTES);
    }

    return moves;
}

void amph_server_versions_end(const struct amph_server_request *rq, unsigned moves)
{
    struct amph_fwd_versions *v = rq->server->versions;

    if (!moves)
        return;

    if ((moves & MOVES_CUTS) && rq->exec.line != FWD_VERSIONS_LINE_NONE) {
        amph_fwd_version_begin(&v->line[rq->exec.line].data);
        amph_fwd_version_end(&v->line[rq->exec.line].data);
    }

    if (moves & (MOVES_DATA | MOVES_ATTRIBUTES)) {
        end(&v->line[rq->file->line].data, moves & MOVES_DATA);
        end(&v->line[rq->file->line].attributes, moves & MOVES_ATTRIBUTES);
    }

    end(&v->cuts, moves & MOVES_CUTS);
    end(&v->names, moves & MOVES_NAMES);
}

void amph_server_versions_open(struct amph_server *s)
{
    enum amph_status st = amph_fwd_versions_open(&s->versions, &s->versions_fd);

    if (st == AMPH_OK)
        s->address.versions = s->versions->id;
    else
        amph_info("no memory for the versions of files (%s): each read and stat asks a server",
                  amph_status_text(st));
}

void amph_server_versions_close(struct amph_server *s)
{
    if (s->versions_fd >= 0)
        amph_fwd_versions_close(s->versions_fd);

    s->versions_fd = -1;
}
