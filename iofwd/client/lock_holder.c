/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * F_GETLK with several servers, or by a passed descriptor: the kernel reports another server's process, or the
 * home server's, as the holder of a lock, so that server is asked for its client.
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/platform.h"
#include "base/wire.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#define FIND_TRIES 100

/* Asks one server: returns the holder's process, 0 (that server does not hold the lock), or
 * FWD_HOLDER_UNKNOWN. */
static uint64_t ask(struct amph_fwd_client *cl, struct amph_client_link *link,
                    const struct stat *st, const struct flock *found)
{
    const uint64_t words[] = { st->st_dev,
                               st->st_ino,
                               (uint64_t)found->l_start,
                               (uint64_t)found->l_len,
                               (uint64_t)found->l_type,
                               (uint64_t)found->l_pid };
    uint64_t body[AMPH_COUNTOF(words)], answer;
    struct amph_wr w;
    struct amph_rd r;
    size_t got = 0;

    amph_wr_init(&w, (uint8_t *)body, sizeof body);
    for (size_t i = 0; i < AMPH_COUNTOF(words); i++)
        amph_wr_u64(&w, words[i]);

    if (amph_client_special(cl, link, FWD_SERVICE_HOLDER, body, sizeof body, &answer, sizeof answer,
                            &got) != 0 ||
        got != sizeof answer)
        return 0;

    amph_rd_init(&r, (const uint8_t *)&answer, sizeof answer);
    return amph_rd_u64(&r);
}

bool amph_client_lock_holder(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                             struct flock *found, bool asks_home)
{
    struct stat st;
    struct amph_client_link *link;
    struct amph_fwd_args_fstat look = { .file = file, .st = &st };

    if (found->l_type == F_UNLCK || found->l_pid <= 0 ||
        amph_client_once(cl, AMPH_FWD_FSTAT, &look) != 0)
        return true;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        uint32_t server = cl->first + i;
        uint64_t holder = FWD_HOLDER_UNKNOWN;

        if ((server == file->part[0].server && !asks_home) ||
            amph_client_server_is_dead(cl, server) || amph_client_link_to(cl, server, &link) != 0)
            continue;

        for (unsigned tries = 0; holder == FWD_HOLDER_UNKNOWN && tries < FIND_TRIES; tries++) {
            if (tries)
                sched_yield();

            holder = ask(cl, link, &st, found);
        }

        if (holder == FWD_HOLDER_UNKNOWN)
            return true;

        if (holder) {
            found->l_pid = (pid_t)holder;
            return !(holder & FWD_HOLDER_ELSEWHERE);
        }
    }

    return true;
}
