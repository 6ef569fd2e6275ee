/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that this process cannot reach any more: how it learns of them, and what it reports.
 *
 * Layer: iofwd.
 * Thread rule: any thread; a link becomes dead once.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "base/status.h"
#include "iofwd/client/internal.h"

#define NOTICE_WAIT_NS (2 * AMPH_NS_PER_S) /* for the launcher's report of a death */
#define NOTICE_LOOK_MS 20

bool amph_client_is_standing(const struct amph_fwd_client *cl)
{
    return cl->boot && strcmp(amph_boot_kind(cl->boot), "standing") == 0;
}

/* Returns whether the launcher reports the server's death: it ends the job for it, or the server
 * has ended because the job is being ended. */
static bool launcher_reports(const struct amph_fwd_client *cl)
{
    static const unsigned word_end = 0;
    return amph_env_enum(AMPH_ENV_ON_SERVER_DEATH) == word_end && cl->boot &&
           !amph_client_is_standing(cl);
}

/* Reports whether another server is left that can take over. */
static bool another_is_left(const struct amph_fwd_client *cl)
{
    bool left = false;

    for (uint32_t i = 0; i < cl->nlinks && !left; i++)
        left = atomic_load(&cl->link[i].state) != AMPH_CLIENT_LINK_DEAD;

    return left;
}

/* What becomes of the files of a server that cannot be reached, and what the user can do. */
static const char *consequence(const struct amph_fwd_client *cl)
{
    if (!cl->failover && amph_client_is_standing(cl))
        return "calls on its files give EIO; start the program again, or let another server take "
               "over (AMPHORA_ON_SERVER_DEATH=failover)";
    if (!cl->failover)
        return "calls on its files give EIO; start the program again, or let another server take "
               "over (-on-server-death failover)";
    if (!another_is_left(cl))
        return "no other server is left, and calls on forwarded files give EIO; start the job "
               "again "
               "with more servers";

    return "the next one takes over";
}

static void drop_link(struct amph_fwd_client *cl, struct amph_client_link *link, const char *why,
                      enum amph_log_level level)
{
    uint32_t state = atomic_exchange(&link->state, AMPH_CLIENT_LINK_DEAD);

    if (state == AMPH_CLIENT_LINK_DEAD)
        return;

    atomic_fetch_add(&cl->deaths, 1);
    if (state == AMPH_CLIENT_LINK_READY) {
        amph_client_pipes_end(link);
        amph_am_unwatch_fd(cl->ep, link->control_fd);

        /* if the server is alive after all, it releases the client's files and locks */
        shutdown(link->control_fd, SHUT_RDWR);

        /* wakes threads that wait for room to send */
        amph_am_peer_failed(cl->ep, link->server - cl->first, AMPH_ERR_PEER, why);
    }

    amph_log(level, "I/O server %" PRIu32 " cannot be reached (%s): %s",
             amph_client_server_number(cl, link->server), why, consequence(cl));
}

void amph_client_link_dead(struct amph_fwd_client *cl, struct amph_client_link *link,
                           const char *why)
{
    drop_link(cl, link, why, AMPH_LOG_ERROR);
}

/* Handles the end of the server's process. */
static void server_ended(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    drop_link(cl, link, "its process has ended",
              launcher_reports(cl) ? AMPH_LOG_INFO : AMPH_LOG_ERROR);
}

static void take_notices(struct amph_fwd_client *cl)
{
    struct amph_boot_event ev;

    if (pthread_mutex_trylock(&cl->boot_lock) != 0)
        return;

    while (amph_boot_progress(cl->boot, &ev) == AMPH_OK)
        if (ev.kind == AMPH_BOOT_DEATH && ev.rank >= cl->first && ev.rank - cl->first < cl->nlinks)
            server_ended(cl, &cl->link[ev.rank - cl->first]);

    pthread_mutex_unlock(&cl->boot_lock);
}

/* Handles the end of the control connection.  If the server's process has ended, the launcher reports that
 * soon and ends the job.  Otherwise only the connection is lost, and this process must say so. */
static void control_lost(struct amph_fwd_client *cl, struct amph_client_link *link)
{
    uint64_t end_ns = amph_now_ns() + NOTICE_WAIT_NS;

    while (launcher_reports(cl) && amph_now_ns() < end_ns &&
           atomic_load(&link->state) == AMPH_CLIENT_LINK_READY) {
        struct pollfd p = { .fd = amph_boot_fd(cl->boot), .events = POLLIN };

        amph_client_let_default_actions_in();
        take_notices(cl);
        poll(&p, 1, NOTICE_LOOK_MS);
    }

    drop_link(cl, link, "the control connection to it was lost", AMPH_LOG_ERROR);
}

void amph_client_check_at_times(struct amph_fwd_client *cl)
{
    struct amph_client_sigguard g;

    if (amph_now_ns() - atomic_load_explicit(&cl->checked_ns, memory_order_relaxed) <
        AMPH_NS_PER_MS)
        return;

    amph_client_sigguard_enter(&g);
    amph_client_check(cl);
    amph_client_sigguard_leave(&g);
}

void amph_client_check(struct amph_fwd_client *cl)
{
    if (atomic_load(&cl->left))
        return;

    uint64_t now = amph_now_ns();
    uint64_t last = atomic_load(&cl->checked_ns);

    if (now - last < AMPH_NS_PER_MS || !atomic_compare_exchange_strong(&cl->checked_ns, &last, now))
        return;

    amph_client_let_default_actions_in();

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        struct amph_client_link *link = &cl->link[i];
        char byte;

        if (atomic_load(&link->state) != AMPH_CLIENT_LINK_READY)
            continue;

        ssize_t n = recv(link->control_fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);

        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            control_lost(cl, link);
    }

    take_notices(cl);
}
