/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Divides the server's descriptors and addresses among its clients, so that no client can take those
 * that others need.
 *
 * The kernel returns the lowest free descriptor number, so the number of a new descriptor is a
 * lower bound for how many are in use, whatever for: files, connections, lock agents, notification
 * sets.  One eighth of RLIMIT_NOFILE is a reserve.  Below the reserve every open succeeds, so a
 * single client gets seven eighths.  In the reserve only clients with few files may open more.  The
 * last quarter of the reserve is for the server's own work: connections of new clients, lock
 * agents, duplicates.
 *
 * Of the addresses that are left when the server starts, half are for clients' memory that it maps,
 * and half of those for one client.
 *
 * Layer: iofwd.
 * Thread rule: progress thread, except amph_server_limits_spare.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "iofwd/server/internal.h"

#define WARN_NS (60 * AMPH_NS_PER_S)
#define RESERVE_MIN 64u /* but at most half of the limit */
#define SPARE_MAX 16u   /* for short needs of the server itself; no client can use them */
#define SHARE_MIN 4u    /* files that each client may hold while the reserve lasts */

/* Returns how many bytes of addresses this process uses, or 0 where the kernel does not say. */
static uint64_t addresses_used(void)
{
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f && fscanf(f, "%llu", &pages) != 1)
        pages = 0;

    if (f)
        fclose(f);

    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void amph_server_limits_mapped(struct amph_server *s)
{
    uint64_t all = UINT64_C(1) << (sizeof(void *) < 8 ? 31 : 46);
    uint64_t used = addresses_used();
    struct rlimit lim;

    /* an emulator's own addresses, or ThreadSanitizer's, which are not taken from the program's */
    if (used >= all)
        used = 0;

    if (getrlimit(RLIMIT_AS, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur < all)
        all = lim.rlim_cur;

    s->mapped_limit = used < all ? (all - used) / 2 : 0;
}

void amph_server_limits_open(struct amph_server *s)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY ||
        lim.rlim_cur > UINT32_MAX)
        return;

    uint32_t limit = (uint32_t)lim.rlim_cur;
    uint32_t reserve = limit / 8 > RESERVE_MIN ? limit / 8 : RESERVE_MIN;

    if (reserve > limit / 2)
        reserve = limit / 2;

    s->fds_reserve = reserve;
    s->fds_usable = limit - reserve;
    s->fds_files = limit - reserve / 4;
    s->fds_last = limit - (reserve / 8 < SPARE_MAX ? reserve / 8 : SPARE_MAX);
}

/* Returns how many descriptors are in use, at least; UINT32_MAX: all. */
static uint32_t in_use(const struct amph_server *s)
{
    int fd = fcntl(s->notify_fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return errno == EMFILE ? UINT32_MAX : 0;

    close(fd);
    return (uint32_t)fd;
}

/* Returns how many descriptors the server uses because of p.  An inherited file counts for the
 * client that opened it. */
static uint32_t held_by(const struct amph_server *s, const struct amph_server_peer *p)
{
    uint32_t n = amph_server_notify_descriptors(s, p) + amph_server_lock_agents_of(p);

    for (uint32_t slot = 0; slot < s->progress.nslots && slot < p->nwords * 64; slot++) {
        const struct amph_server_handle *h = s->progress.handle[slot];

        if (h && amph_server_handle_held_by(p, h) &&
            (h->opener == p->number || h->progress.nholders == 1))
            n++;
    }

    return n;
}

static void warn_refused(struct amph_server *s, const struct amph_server_peer *p, uint32_t held,
                         int err)
{
    uint64_t now = amph_now_ns();

    if (s->progress.fds_warned_ns && now - s->progress.fds_warned_ns < WARN_NS)
        return;

    s->progress.fds_warned_ns = now;
    amph_warn("I/O server %" PRIu32 " opens no more files for client %" PRIu32
              ", for which it uses %" PRIu32 " descriptors, %s; "
              "raise the server's hard limit of open files (ulimit -Hn)",
              amph_server_number(s), p->number, held,
              err == EMFILE ? "more than its share of the remaining ones"
                            : "to keep descriptors for new clients");
}

int amph_server_limits_file(struct amph_server *s, const struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    if (!s->fds_usable)
        return 0;

    uint32_t used = in_use(s);
    if (used < s->fds_usable && s->progress.opening < s->fds_usable - used)
        return 0;

    uint32_t share = s->fds_reserve / 2 / (s->progress.npeers + 1);
    uint32_t held = held_by(s, p);
    int err = 0;

    if (used >= s->fds_files || s->progress.opening >= s->fds_files - used)
        err = ENFILE;

    if (held >= (share > SHARE_MIN ? share : SHARE_MIN))
        err = EMFILE;

    if (err) {
        amph_count_exact(IOFWD_REFUSED, 1);
        warn_refused(s, p, held, err);
    }

    return err;
}

bool amph_server_limits_spare(const struct amph_server *s)
{
    return !s->fds_last || in_use(s) < s->fds_last;
}
