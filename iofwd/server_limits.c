/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the server's descriptors are shared out, so that no client takes those that others need.  Layer: iofwd.
 * Thread rule: progress thread only.
 *
 * The kernel gives a new descriptor the lowest free number, so that number says how many are in use, whatever they are for: files,
 * connections, agents of record locks, sets of files that clients wait for.  The last quarter of RLIMIT_NOFILE is a reserve for
 * connections and for the server's own work.  In the quarter before it a client may open files only up to its fair share.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "iofwd/server_int.h"

#define WARN_NS (60 * AMPH_NS_PER_S)

void fwd_limits_open(struct fwd_server *s)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY || lim.rlim_cur > UINT32_MAX)
        return;
    s->fds_budget = (uint32_t)(lim.rlim_cur - lim.rlim_cur / 4);
    s->fds_shared = (uint32_t)(lim.rlim_cur / 2);
}

/* How many descriptors are in use, at least; UINT32_MAX: there is none left. */
static uint32_t in_use(const struct fwd_server *s)
{
    int fd = fcntl(s->bells_fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return errno == EMFILE ? UINT32_MAX : 0;
    close(fd);
    return (uint32_t)fd;
}

static void warn(struct fwd_server *s, const struct fwd_peer *p, int err)
{
    uint64_t now = amph_now_ns();

    if (s->fds_warned_ns && now - s->fds_warned_ns < WARN_NS)
        return;
    s->fds_warned_ns = now;
    amph_warn("I/O server %" PRIu32 " opens no more files for client %" PRIu32 ", which has %" PRIu32 " open, %s; "
              "raise the server's hard limit of open files (ulimit -Hn)", s->self, p->number, p->nheld,
              err == EMFILE ? "more than its share of the descriptors that the server has left" : "to keep descriptors for new clients");
}

int fwd_limits_file(struct fwd_server *s, const struct fwd_peer *p)
{
    if (!s->fds_budget)
        return 0;

    uint32_t used = in_use(s), mine = p->nheld + 2 * p->nbells;
    if (used < s->fds_shared)
        return 0;

    int err = used >= s->fds_budget ? ENFILE : 0;
    if (mine > s->fds_budget / (s->npeers + 1))
        err = EMFILE;
    if (err)
        warn(s, p, err);
    return err;
}
