/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifiers: connections on which a server reports that files have become ready, so that a thread
 * can wait for forwarded FIFOs in its own kernel; see client.h and server/notify/readiness.c.
 *
 * Layer: iofwd.  Thread rule: any thread and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "base/status.h"
#include "base/wire.h"
#include "iofwd/client/internal.h"

enum {
    NOTIFIER_NONE,
    NOTIFIER_FREE,
    NOTIFIER_TAKEN
};

static struct amph_client_notifier *const notifiers = amph_client_state.notifier;

static bool change(unsigned i, int from, int to)
{
    return atomic_load_explicit(&notifiers[i].state, memory_order_relaxed) == from &&
           atomic_compare_exchange_strong(&notifiers[i].state, &from, to);
}

void amph_fwd_set_table_number(uint32_t (*number)(void))
{
    amph_thread_fd_table_by(number);
}

/* Opens a connection to the server, on a high descriptor number and close-on-exec. */
static int connect_notifier(struct amph_fwd_client *cl, struct amph_client_link *link,
                            struct amph_fwd_notifier *notifier)
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

    *notifier = (struct amph_fwd_notifier){ .fd = up < 0 ? fd : up,
                                            .server = link->server,
                                            .number = wc.number };
    return 0;
}

/* Reuses a notifier of that server that was released. */
static bool take_used(uint32_t server, struct amph_fwd_notifier *notifier_p)
{
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++) {
        if (!change(i, NOTIFIER_FREE, NOTIFIER_TAKEN))
            continue;

        *notifier_p = notifiers[i].notifier;
        if (notifier_p->server == server && notifiers[i].table == amph_thread_fd_table())
            return true;

        atomic_store(&notifiers[i].state, NOTIFIER_FREE);
    }

    return false;
}

static int take_new(struct amph_fwd_client *cl, struct amph_client_link *link, bool inherited,
                    struct amph_fwd_notifier *notifier_p)
{
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++)
        if (change(i, NOTIFIER_NONE, NOTIFIER_TAKEN)) {
            notifiers[i].notifier.fd = -1;
            notifiers[i].inherited = inherited;
            notifiers[i].table = amph_thread_fd_table();

            int err = connect_notifier(cl, link, &notifiers[i].notifier);

            *notifier_p = notifiers[i].notifier;
            if (err)
                atomic_store(&notifiers[i].state, NOTIFIER_NONE);

            return err;
        }

    return EMFILE;
}

/* Closes a released notifier to make room. */
static void drop_used(void)
{
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++)
        if (notifiers[i].table == amph_thread_fd_table() &&
            change(i, NOTIFIER_FREE, NOTIFIER_TAKEN)) {
            amph_fwd_notifier_release(&notifiers[i].notifier, true);
            return;
        }
}

int amph_fwd_notifier_acquire(struct amph_fwd_client *cl, uint32_t server, bool for_set,
                              struct amph_fwd_notifier *notifier_p)
{
    struct amph_client_link *link;
    int err = amph_client_link_to(cl, server, &link);

    if (err || (!for_set && take_used(server, notifier_p)))
        return err;

    err = take_new(cl, link, for_set, notifier_p);
    if (err == EMFILE) {
        drop_used();
        err = take_new(cl, link, for_set, notifier_p);
    }

    return err;
}

bool amph_fwd_notifier_drain(const struct amph_fwd_notifier *notifier)
{
    char bytes[64];
    ssize_t n;

    while ((n = recv(notifier->fd, bytes, sizeof bytes, MSG_DONTWAIT)) == (ssize_t)sizeof bytes ||
           (n < 0 && errno == EINTR))
        ;

    return n > 0 || (n < 0 && errno == EAGAIN);
}

void amph_fwd_notifier_release(const struct amph_fwd_notifier *notifier, bool gone)
{
    /* nobody would release what is left over in another table */
    gone = gone || amph_thread_fd_table() != 0;
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++) {
        if (atomic_load(&notifiers[i].state) != NOTIFIER_TAKEN ||
            notifiers[i].notifier.fd != notifier->fd ||
            notifiers[i].table != amph_thread_fd_table())
            continue;

        if (gone) {
            struct amph_client_sigguard g;

            amph_client_sigguard_enter(&g);
            notifiers[i].notifier.fd = -1;
            close(notifier->fd);
            amph_client_sigguard_leave(&g);
        }

        atomic_store(&notifiers[i].state, gone ? NOTIFIER_NONE : NOTIFIER_FREE);
        return;
    }
}

int amph_fwd_notifier_collect(struct amph_fwd_client *cl, const struct amph_fwd_notifier *notifier,
                              struct amph_fwd_happened *out, size_t max, size_t *n_p)
{
    uint64_t ask[2], answer[2 * FWD_NOTIFICATIONS_MAX];
    struct amph_client_link *link;
    struct amph_wr w;
    struct amph_rd r;
    size_t got = 0;

    *n_p = 0;
    amph_wr_init(&w, (uint8_t *)ask, sizeof ask);
    amph_wr_u64(&w, notifier->number);
    amph_wr_u64(&w, max);

    int err = amph_client_link_to(cl, notifier->server, &link);

    if (!err)
        err = amph_client_special(cl, link, FWD_SERVICE_NOTIFICATIONS, ask, sizeof ask, answer,
                                  sizeof answer, &got);

    amph_rd_init(&r, (const uint8_t *)answer, got);
    while (!err && *n_p < max && amph_rd_left(&r) >= 2 * sizeof(uint64_t)) {
        out[*n_p].events = (uint32_t)amph_rd_u64(&r);
        out[*n_p].data = amph_rd_u64(&r);
        ++*n_p;
    }

    return err;
}

bool amph_client_notify_owns(int fd)
{
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++)
        if (fd >= 0 && atomic_load(&notifiers[i].state) != NOTIFIER_NONE &&
            notifiers[i].notifier.fd == fd)
            return true;

    return false;
}

void amph_client_notify_forget(void)
{
    for (unsigned i = 0; i < AMPH_CLIENT_NOTIFIERS_MAX; i++) {
        if (atomic_load(&notifiers[i].state) == NOTIFIER_TAKEN && notifiers[i].inherited)
            continue;

        if (atomic_load(&notifiers[i].state) != NOTIFIER_NONE && notifiers[i].notifier.fd >= 0 &&
            notifiers[i].table == amph_thread_fd_table())
            close(notifiers[i].notifier.fd);

        notifiers[i].notifier.fd = -1;
        atomic_store(&notifiers[i].state, NOTIFIER_NONE);
    }
}
