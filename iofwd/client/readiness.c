/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bells: what a waiting thread has in its own kernel of files that wait at a server; see client.h
 * and notify/readiness.c.  Layer: iofwd.
 * Thread rule: any thread and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "iofwd/client/internal.h"

#define BELLS 256

enum {
    BELL_NONE,
    BELL_FREE,
    BELL_TAKEN
};

static struct {
    _Atomic int state;
    bool inherited; /* by children: it is in an epoll set of the program's, which they have, too */
    struct amph_fwd_notifier bell;
} bells[BELLS];

static bool change(unsigned i, int from, int to)
{
    return atomic_load_explicit(&bells[i].state, memory_order_relaxed) == from &&
           atomic_compare_exchange_strong(&bells[i].state, &from, to);
}

/* A child by clone may share our memory and have descriptors of its own: the bells in it are not
 * its, and its are not ours. */
static bool has_our_descriptors(void)
{
    struct amph_fwd_client *cl = atomic_load(&amph_client_state.client);
    return cl && cl->pid == getpid();
}

/* A connection to the server, out of the program's way; it ends with this image. */
static int connect_bell(struct amph_fwd_client *cl, struct amph_client_link *link,
                        struct amph_fwd_notifier *bell)
{
    struct amph_fwd_welcome wc;
    struct amph_client_sigguard g;
    int fd = -1;
    int up = -1;

    amph_client_sigguard_enter(&g);

    enum amph_status st = amph_client_handshake(cl, link, FWD_HELLO_NOTIFY, FWD_NUMBER_NONE, &wc,
                                                &fd);

    if (st == AMPH_OK && (up = fcntl(fd, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM)) >= 0)
        close(fd);

    amph_client_sigguard_leave(&g);
    if (st != AMPH_OK)
        return st == AMPH_ERR_FULL ? ENFILE : EIO;

    *bell = (struct amph_fwd_notifier){ .fd = up < 0 ? fd : up,
                                        .server = link->server,
                                        .number = wc.number };
    return 0;
}

/* One of that server that has been given back. */
static bool take_used(uint32_t server, struct amph_fwd_notifier *bell_p)
{
    for (unsigned i = 0; i < BELLS; i++) {
        if (!change(i, BELL_FREE, BELL_TAKEN))
            continue;

        *bell_p = bells[i].bell;
        if (bell_p->server == server)
            return true;

        atomic_store(&bells[i].state, BELL_FREE);
    }

    return false;
}

static int take_new(struct amph_fwd_client *cl, struct amph_client_link *link, bool inherited,
                    struct amph_fwd_notifier *bell_p)
{
    for (unsigned i = 0; i < BELLS; i++)
        if (change(i, BELL_NONE, BELL_TAKEN)) {
            bells[i].bell.fd = -1;
            bells[i].inherited = inherited;

            int err = connect_bell(cl, link, &bells[i].bell);

            *bell_p = bells[i].bell;
            if (err)
                atomic_store(&bells[i].state, BELL_NONE);

            return err;
        }

    return EMFILE;
}

/* One that nobody uses makes room. */
static void drop_used(void)
{
    for (unsigned i = 0; i < BELLS; i++)
        if (change(i, BELL_FREE, BELL_TAKEN)) {
            amph_fwd_notifier_release(&bells[i].bell, true);
            return;
        }
}

int amph_fwd_notifier_acquire(struct amph_fwd_client *cl, uint32_t server, bool for_set,
                              struct amph_fwd_notifier *bell_p)
{
    struct amph_client_link *link;
    int err = amph_client_link_to(cl, server, &link);

    if (err || (!for_set && has_our_descriptors() && take_used(server, bell_p)))
        return err;

    err = take_new(cl, link, for_set, bell_p);
    if (err == EMFILE) {
        drop_used();
        err = take_new(cl, link, for_set, bell_p);
    }

    return err;
}

bool amph_fwd_notifier_drain(const struct amph_fwd_notifier *bell)
{
    char rung[64];
    ssize_t n;

    while ((n = recv(bell->fd, rung, sizeof rung, MSG_DONTWAIT)) == (ssize_t)sizeof rung ||
           (n < 0 && errno == EINTR))
        ;

    return n > 0 || (n < 0 && errno == EAGAIN);
}

void amph_fwd_notifier_release(const struct amph_fwd_notifier *bell, bool gone)
{
    gone = gone || !has_our_descriptors();
    for (unsigned i = 0; i < BELLS; i++) {
        if (atomic_load(&bells[i].state) != BELL_TAKEN || bells[i].bell.fd != bell->fd)
            continue;

        if (gone) {
            struct amph_client_sigguard g;

            amph_client_sigguard_enter(&g);
            bells[i].bell.fd = -1;
            close(bell->fd);
            amph_client_sigguard_leave(&g);
        }

        atomic_store(&bells[i].state, gone ? BELL_NONE : BELL_FREE);
        return;
    }
}

int amph_fwd_notifier_collect(struct amph_fwd_client *cl, const struct amph_fwd_notifier *bell,
                              struct amph_fwd_happened *out, size_t most, size_t *n_p)
{
    uint64_t ask[2], answer[2 * FWD_NOTIFICATIONS_MAX];
    struct amph_client_link *link;
    struct amph_wr w;
    struct amph_rd r;
    size_t got = 0;

    *n_p = 0;
    amph_wr_init(&w, (uint8_t *)ask, sizeof ask);
    amph_wr_u64(&w, bell->number);
    amph_wr_u64(&w, most);

    int err = amph_client_link_to(cl, bell->server, &link);

    if (!err)
        err = amph_client_special(cl, link, FWD_SERVICE_NOTIFICATIONS, ask, sizeof ask, answer,
                                  sizeof answer, &got);

    amph_rd_init(&r, (const uint8_t *)answer, got);
    while (!err && *n_p < most && amph_rd_left(&r) >= 2 * sizeof(uint64_t)) {
        out[*n_p].events = (uint32_t)amph_rd_u64(&r);
        out[*n_p].data = amph_rd_u64(&r);
        ++*n_p;
    }

    return err;
}

bool amph_client_notify_owns(int fd)
{
    for (unsigned i = 0; i < BELLS; i++)
        if (fd >= 0 && atomic_load(&bells[i].state) != BELL_NONE && bells[i].bell.fd == fd)
            return true;

    return false;
}

void amph_client_notify_forget(void)
{
    for (unsigned i = 0; i < BELLS; i++) {
        if (atomic_load(&bells[i].state) == BELL_TAKEN && bells[i].inherited)
            continue;

        if (atomic_load(&bells[i].state) != BELL_NONE && bells[i].bell.fd >= 0)
            close(bells[i].bell.fd);

        bells[i].bell.fd = -1;
        atomic_store(&bells[i].state, BELL_NONE);
    }
}
