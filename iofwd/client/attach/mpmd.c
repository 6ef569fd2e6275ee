/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of other launchers with programs that are no GASNet clients (mpirun -n C PROGRAM : -n S
 * iofwd-server).
 *
 * Layer: iofwd.
 * Thread rule: under amph_client_state.lock, or in a process that is exiting.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "boot/claim.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/handshake.h"

#define LOOKUP_NS (30 * AMPH_NS_PER_S)

/* AMPHORA_TEST_JOIN_FAILURE=N: the Nth step of joining fails. */
static enum amph_status step(unsigned number, enum amph_status st)
{
    return st == AMPH_OK && amph_env_int(AMPH_ENV_TEST_JOIN_FAILURE) == number ? AMPH_ERR_SYS : st;
}

static enum amph_status stay(struct amph_boot *boot, int *fd_p)
{
    const struct amph_jobdesc *job = amph_boot_job(boot);
    uint32_t self = amph_boot_self(boot);
    uint32_t first = amph_boot_first(boot, AMPH_SERVER);
    struct amph_fwd_server_addr where;
    void *value;
    size_t len;
    enum amph_status st = amph_boot_lookup(boot, first, FWD_CONTROL_KEY, LOOKUP_NS, &value, &len);

    if ((st = step(5, st)) != AMPH_OK)
        return st;

    bool ok = amph_fwd_server_addr_parse(value, len, &where);

    free(value);
    if (!ok)
        return AMPH_ERR_PROTO;

    bool same_host = job->proc[first].host == job->proc[self].host;

    return step(6, amph_fwd_control_keep(&where, same_host, job->key, self, fd_p));
}

static enum amph_status take_part(struct amph_boot *boot, int *fd_p)
{
    const void *const *value;

    const size_t *len;

    if (amph_boot_group(boot) == AMPH_SERVER) {
        amph_error("AMPHORA_SERVERS makes this process (%" PRIu32
                   ") an I/O server, but its program is neither iofwd-server nor a GASNet "
                   "client; start such programs as mpirun -n C PROGRAM : -n S iofwd-server",
                   amph_boot_self(boot));
        return AMPH_ERR_STATE;
    }

    enum amph_status st = step(2, amph_boot_state(boot, amph_avail_mem_bytes(), 0));

    if (st == AMPH_OK)
        st = step(3, amph_boot_publish(boot, AMPH_BOOT_PLAIN_KEY, "1", 1));

    if (st == AMPH_OK)
        st = step(4, amph_boot_exchange(boot, AMPH_BOOT_PLAIN_KEY, &value, &len));

    return st == AMPH_OK ? stay(boot, fd_p) : st;
}

/* On failure the process exits without leaving the process manager, which then ends the job.  An
 * explicit abort could end the job before the error message is passed on. */
static bool join(int *fd_p)
{
    struct amph_boot *boot;
    const char *doing = "join its job";
    enum amph_status st = step(1, amph_boot_join(&boot));

    if (st == AMPH_OK) {
        doing = "reach its job's I/O servers";
        st = take_part(boot, fd_p);
    }

    if (st == AMPH_OK) {
        doing = "take leave of its launcher";
        st = step(7, amph_boot_leave(boot, false, 0));
    }

    if (st == AMPH_OK)
        amph_boot_close(boot);
    else if (!amph_log_error_said())
        amph_error("this process cannot %s: %s; it ends, and its launcher then ends the job", doing,
                   amph_status_text(st));

    return st == AMPH_OK;
}

/* "RANK SERVERS": as settings, and back. */
static bool take_result(char *text)
{
    char *servers = text ? strchr(text, ' ') : NULL;

    if (!servers)
        return false;

    *servers++ = 0;

    bool ok = setenv(amph_env_name(AMPH_ENV_RANK), text, 1) == 0 &&
              setenv(amph_env_name(AMPH_ENV_IOFWD_OWN_SERVERS), servers, 1) == 0;

    amph_env_reload();
    return ok;
}

/* The result of the process of this rank that has joined, for this one. */
static bool take_part_of_rank(char *text)
{
    bool ok = step(8, take_result(text) ? AMPH_OK : AMPH_ERR_NOMEM) == AMPH_OK;

    if (!ok)
        amph_error("this process cannot use the connection that the first process of its rank has "
                   "made to the I/O servers (%s); it ends",
                   text ? text : "it has left no address");

    return ok;
}

static void leave_result(int fd)
{
    char *text = NULL;

    if (asprintf(&text, "%" PRId64 " %s", amph_env_int(AMPH_ENV_RANK),
                 amph_env_str(AMPH_ENV_IOFWD_OWN_SERVERS)) < 0)
        text = NULL;

    amph_boot_claimed(text ? AMPH_CLAIM_PLAIN : AMPH_CLAIM_FAILED, text, fd);
    free(text);
    close(fd);
}

bool amph_fwd_join_mpmd(bool astray)
{
    char *text = NULL;
    int fd = -1;
    enum amph_claim claim = amph_boot_claim(&text);

    if (claim == AMPH_CLAIM_PLAIN) {
        bool ok = take_part_of_rank(text);

        free(text);
        return ok;
    }

    if (claim == AMPH_CLAIM_NONE && astray && amph_boot_among_servers())
        return join(&fd);
    if (claim == AMPH_CLAIM_FAILED && !amph_log_error_said())
        amph_error(
            "another process of this rank could not join the job's I/O servers; this one ends");

    if (claim != AMPH_CLAIM_MINE)
        return claim != AMPH_CLAIM_FAILED;

    bool ok = join(&fd);

    if (ok)
        leave_result(fd);
    else
        amph_boot_claimed(AMPH_CLAIM_FAILED, NULL, -1);

    return ok;
}
