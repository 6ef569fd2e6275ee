/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client keeps that executes a program; see exec.h.
 *
 * Layer: iofwd.
 * Thread rule: progress thread.
 */
#include "iofwd/server/exec.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/settings/counters.h"
#include "base/log.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/handshake.h"

static void keep_files(struct amph_server *s, struct amph_server_peer *p,
                       const struct amph_fwd_keep *keep)
{
    if (keep->n == FWD_KEEP_ALL)
        return;

    amph_server_peer_keep_only(s, p, keep->handles, keep->n);
    s->progress.locks_changed = true;
}

static void forget_successor(struct amph_server_conn *successor)
{
    successor->progress.exec.predecessor->progress.exec.successor = NULL;
    successor->progress.exec.predecessor = NULL;
    free(successor->progress.exec.keep);
    successor->progress.exec.keep = NULL;
}

/* The client's process has executed a program: its endpoint is gone, and its connection is the successor. */
static void succeed(struct amph_server *s, struct amph_server_conn *c)
{
    struct amph_server_conn *successor = c->progress.exec.successor;
    struct amph_fwd_keep *keep = successor->progress.exec.keep;
    struct amph_server_peer *p = c->progress.peer;
    uint32_t pid = p->pid;

    successor->progress.exec.keep = NULL;
    forget_successor(successor);
    c->progress.peer = NULL;

    /* without a place for another client the old one goes on, to which nothing is sent any more */
    struct amph_server_peer *renewed = p->attached ? amph_server_peer_renew(s, p) : NULL;

    if (renewed)
        p = renewed;
    else
        amph_server_passthrough_drop(s, p, NULL);

    p->pid = pid;
    p->sender = 0;
    p->conn = successor;
    successor->progress.peer = p;
    keep_files(s, p, keep);
    free(keep);
}

void amph_server_exec_finish(struct amph_server *s, struct amph_server_conn *c)
{
    struct amph_server_conn *before = c->progress.exec.predecessor;

    if (!before)
        return;

    succeed(s, before);
    shutdown(before->fd, SHUT_RDWR); /* its process has closed it */
}

bool amph_server_exec_gone(struct amph_server *s, struct amph_server_conn *c)
{
    if (c->progress.exec.predecessor)
        forget_successor(c); /* the exec has failed, or the whole process has ended */

    if (!c->progress.exec.successor)
        return false;

    succeed(s, c);
    return true;
}

void amph_server_exec_keep(struct amph_server *s, const struct amph_server_event *event)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_conn *c = event->conn;
    struct amph_server_conn *successor = event->successor;
    struct amph_fwd_keep *keep = malloc(sizeof *keep);

    amph_server_exec_finish(s, c);
    if (!c->progress.peer || !keep || !amph_fwd_keep_parse(event->body, event->len, keep)) {
        amph_warn("a client cannot keep files over exec: %s",
                  keep ? "its connection is no client's"
                       : "the server has no memory for their list");
        free(keep);
        shutdown(successor ? successor->fd : c->fd, SHUT_RDWR);
        return;
    }

    if (!successor) {
        keep_files(s, c->progress.peer, keep);
        free(keep);
        return;
    }

    if (c->progress.exec.successor) { /* of an exec that has failed; its end is on its way */
        shutdown(c->progress.exec.successor->fd, SHUT_RDWR);
        forget_successor(c->progress.exec.successor);
    }

    successor->progress.exec.keep = keep;
    successor->progress.exec.predecessor = c;
    c->progress.exec.successor = successor;
}
