/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record locks (fcntl F_SETLK, F_SETLKW, F_GETLK), which belong to a process and not to an open
 * file.
 *
 * To the kernel, the owner of such a lock is a descriptor table.  Each client that takes one gets a
 * lock agent: a thread that has left the server's table for a table of its own, and to which the
 * server passes the files to be locked.  A client whose threads have several descriptor tables gets
 * an agent for each.  So the kernel itself arbitrates between the clients of this server and of all
 * other servers on the file system, detects deadlocks, and releases a client's locks when the agent
 * closes a file or ends.  A lock request that blocks waits in a thread beside the agent, which
 * shares the agent's table; no worker waits.
 *
 * Layer: iofwd.
 * Thread rule: amph_server_lock_* by the progress thread; each agent is a thread of its own.
 */
#include <errno.h>
#include <signal.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/os/descriptors.h"
#include "base/settings/counters.h"
#include "iofwd/calls/calls.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/server/lock/lock.h"
#include "iofwd/server/state.h"
#include "iofwd/wire/marshal.h"

#define AGENTS_MAX 256 /* of one client */

/* Longest wait for an agent that closes files; a file system that is slower delays no other client. */
#define CLOSES_NS (100 * AMPH_NS_PER_MS)

bool amph_server_lock_is(enum amph_fwd_id id)
{
    return id != AMPH_FWD_NCALLS && amph_fwd_calls[id].run == FWD_RUN_LOCKER;
}

uint32_t amph_server_lock_agents_of(const struct amph_server_peer *p)
{
    uint32_t n = 0;

    for (const struct amph_server_lock_agent *lk = p->lock_agents; lk; lk = lk->beside)
        n++;

    return n;
}

static struct amph_server_lock_agent *agent_of(const struct amph_server_peer *p, uint32_t table)
{
    struct amph_server_lock_agent *lk = p->lock_agents;

    while (lk && lk->table != table)
        lk = lk->beside;

    return lk;
}

static struct amph_server_lock_agent *make_agent(struct amph_server *s, struct amph_server_peer *p,
                                                 uint32_t table)
{
    int pair[2];

    if (!amph_server_limits_spare(s) || amph_server_lock_agents_of(p) >= AGENTS_MAX) {
        amph_count_exact(IOFWD_REFUSED, 1);
        return NULL;
    }

    struct amph_server_lock_agent *lk = calloc(1, sizeof *lk);
    if (!lk)
        return NULL;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(lk);
        return NULL;
    }

    lk->server = s;
    lk->pid = p->pid;
    lk->elsewhere = kill((pid_t)p->pid, 0) != 0 && errno == ESRCH;
    lk->table = table;
    lk->server_sock = pair[0];
    lk->sock = pair[1];
    pthread_mutex_init(&lk->lock, NULL);
    sem_init(&lk->left, 0, 0);
    amph_server_held_add_agent(lk);

    if (amph_server_agent_start(lk) != 0) {
        amph_server_held_remove_agent(lk);
        close(pair[0]);
        close(pair[1]);
        free(lk);
        return NULL;
    }

    lk->beside = p->lock_agents;
    return p->lock_agents = lk;
}

static bool send_order(struct amph_server_lock_agent *lk, const struct amph_server_lock_order *o,
                       int fd)
{
    struct amph_descriptors_room room;
    struct iovec iov = { (void *)o, sizeof *o };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    amph_descriptors_attach(&msg, &room, fd);
    atomic_fetch_add_explicit(&lk->handed, 1, memory_order_release);
    return sendmsg(lk->server_sock, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof *o;
}

/* Are all closes done that nobody awaits? */
static bool closes_are_done(const struct amph_server_lock_agent *lk)
{
    return atomic_load(&lk->closes_done) == lk->closes_sent;
}

/* Orders the agent to close its descriptors of this file.  If it has none, rq is answered without it,
 * unless an earlier close may still be under way. */
static int order_close(struct amph_server_lock_agent *lk, int fd, struct amph_server_request *rq)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return errno;

    bool any = false;

    for (struct amph_server_agent_file **at = &lk->known; *at;) {
        struct amph_server_agent_file *k = *at;

        if (k->dev != st.st_dev || k->ino != st.st_ino) {
            at = &k->next;
            continue;
        }

        *at = k->next;
        free(k);
        any = true;
    }

    struct amph_server_lock_order o = {
        .op = AMPH_SERVER_LOCK_CLOSE_INODE, .rq = rq, .dev = st.st_dev, .ino = st.st_ino
    };

    if (!any && !rq)
        return 0;

    if (!any && closes_are_done(lk)) {
        amph_server_work_done(lk->server, rq);
        return 0;
    }

    if (!rq)
        atomic_fetch_add(&amph_server_state.locks_releasing, 1);

    if (!send_order(lk, &o, -1)) {
        atomic_fetch_sub(&amph_server_state.locks_releasing, !rq);
        return EAGAIN;
    }

    lk->closes_sent += !rq;
    return 0;
}

static int order_call(struct amph_server_lock_agent *lk, struct amph_server_request *rq)
{
    const struct amph_server_handle *h = rq->file;
    struct amph_server_lock_order o = { .op = AMPH_SERVER_LOCK_CALL,
                                        .rq = rq,
                                        .handle = h->number };
    struct amph_server_agent_file *k = amph_server_agent_file_find(lk->known, h->number);
    struct amph_server_agent_file *fresh = NULL;
    struct stat st;

    if (!k) {
        if (fstat(h->fd, &st) != 0 || !(fresh = malloc(sizeof *fresh)))
            return ENOLCK;

        *fresh = (struct amph_server_agent_file){ .handle = h->number,
                                                  .dev = o.dev = st.st_dev,
                                                  .ino = o.ino = st.st_ino };
    }

    if (!send_order(lk, &o, fresh ? h->fd : -1)) {
        free(fresh);
        return ENOLCK;
    }

    if (fresh) {
        fresh->next = lk->known;
        lk->known = fresh;
    }

    return 0;
}

/* Entries of the table of calls that are never reached: these requests go to a lock agent. */
int amph_server_do_psetlock(struct amph_server_request *rq, struct amph_server_args_psetlock *a)
{
    return ENOLCK;
}

int amph_server_do_pwaitlock(struct amph_server_request *rq, struct amph_server_args_pwaitlock *a)
{
    return ENOLCK;
}

int amph_server_do_pgetlock(struct amph_server_request *rq, struct amph_server_args_pgetlock *a)
{
    return ENOLCK;
}

int amph_server_do_punlock(struct amph_server_request *rq, struct amph_server_args_punlock *a)
{
    return ENOLCK;
}

/* The number of the client's descriptor table: l_pid of a lock, or punlock's argument. */
static uint32_t table_of(const struct amph_server_request *rq)
{
    const struct amph_fwd_arg_desc *arg = amph_fwd_find_arg(rq->desc, FWD_IN_LOCK);

    if (!arg)
        return (uint32_t)rq->u.punlock.table;

    return (uint32_t)((const struct flock *)((const char *)&rq->u + arg->server_at))->l_pid;
}

void amph_server_lock_give(struct amph_server *s, struct amph_server_request *rq)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_peer *p = rq->peer;
    bool drops = !amph_fwd_find_arg(rq->desc, FWD_IN_LOCK); /* punlock */

    rq->exec.error = 0;
    rq->progress.locks_released = amph_server_locks_released();

    uint32_t table = table_of(rq);
    struct amph_server_lock_agent *lk = agent_of(p, table);

    if (drops && !lk) {
        amph_server_work_done(s, rq);
        return;
    }

    if (!lk)
        lk = make_agent(s, p, table);

    /* if sent, rq belongs to the agent */
    int err = ENOLCK;

    if (lk && drops)
        err = order_close(lk, rq->file->fd, rq);
    else if (lk)
        err = order_call(lk, rq);

    if (err) {
        rq->exec.error = err;
        amph_server_work_done(s, rq);
    }
}

void amph_server_lock_closed(struct amph_server_peer *p, const struct amph_server_handle *h)
{
    for (struct amph_server_lock_agent *lk = p->lock_agents; lk; lk = lk->beside)
        if (amph_server_agent_file_find(lk->known, h->number))
            order_close(lk, h->fd, NULL);
}

void amph_server_lock_left(struct amph_server_peer *p, const struct amph_server_handle *h)
{
    for (struct amph_server_lock_agent *lk = p->lock_agents; lk; lk = lk->beside)
        order_close(lk, h->fd, NULL);
}

void amph_server_lock_await_closes(struct amph_server_peer *p)
{
    const struct timespec pause = { .tv_nsec = 20 * AMPH_NS_PER_US };
    uint64_t end_ns = amph_now_ns() + CLOSES_NS;

    for (const struct amph_server_lock_agent *lk = p->lock_agents; lk; lk = lk->beside)
        while (!closes_are_done(lk) && amph_now_ns() < end_ns)
            nanosleep(&pause, NULL);
}

void amph_server_lock_cancel(struct amph_server_peer *p, uint64_t seq)
{
    struct amph_server_lock_order o = { .op = AMPH_SERVER_LOCK_CANCEL, .seq = seq };

    for (struct amph_server_lock_agent *lk = p->lock_agents; lk; lk = lk->beside)
        send_order(lk, &o, -1);
}

void amph_server_lock_renew(struct amph_server_peer *from, struct amph_server_peer *to)
{
    to->lock_agents = from->lock_agents;
    from->lock_agents = NULL;
    amph_server_lock_cancel(to, AMPH_SERVER_EVERY_SEQ);
}

static void drop_agent(struct amph_server_lock_agent *lk)
{
    while (lk->known) {
        struct amph_server_agent_file *k = lk->known;

        lk->known = k->next;
        free(k);
    }

    amph_server_agent_stop(lk);
}

void amph_server_lock_drop_peer(struct amph_server_peer *p)
{
    while (p->lock_agents) {
        struct amph_server_lock_agent *lk = p->lock_agents;

        p->lock_agents = lk->beside;
        drop_agent(lk);
    }
}
