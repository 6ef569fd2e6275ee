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

    if (!moves)
        return 0;

    begin(&v->names, moves & FWD_VERSION_NAMES);
    begin(&v->cuts, moves & FWD_VERSION_CUTS);
    if (moves & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES)) {
        begin(&v->line[rq->file->line].data, moves & FWD_VERSION_DATA);
        begin(&v->line[rq->file->line].attributes, moves & FWD_VERSION_ATTRIBUTES);
    }

    return moves;
}

void amph_server_versions_end(const struct amph_server_request *rq, unsigned moves)
{
    struct amph_fwd_versions *v = rq->server->versions;

    if (!moves)
        return;

    if ((moves & FWD_VERSION_CUTS) && rq->exec.line != FWD_VERSIONS_LINE_NONE) {
        amph_fwd_version_begin(&v->line[rq->exec.line].data);
        amph_fwd_version_end(&v->line[rq->exec.line].data);
    }

    if (moves & (FWD_VERSION_DATA | FWD_VERSION_ATTRIBUTES)) {
        end(&v->line[rq->file->line].data, moves & FWD_VERSION_DATA);
        end(&v->line[rq->file->line].attributes, moves & FWD_VERSION_ATTRIBUTES);
    }

    end(&v->cuts, moves & FWD_VERSION_CUTS);
    end(&v->names, moves & FWD_VERSION_NAMES);
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
