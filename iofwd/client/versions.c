/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the versions of files that the job's servers share with the processes of their host; see
 * versions.h.
 *
 * Layer: iofwd.  Thread rule: any thread; the look-up is made once, under amph_client_state.lock.
 *
 * The versions are complete only if every server that can change the job's files moves the same
 * ones.  So each server publishes the identity of its object, and the client uses the object if all
 * servers have the same and it is the one that the client finds on its own host.  A job with
 * servers on several hosts has none.
 */
#include "iofwd/client/state.h"
#include "iofwd/client/versions.h"
#include "iofwd/wire/handshake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/os/clock.h"
#include "base/settings/env.h"
#include "base/log.h"

/* More servers are not looked up: each look-up may be a message to the launcher. */
#define SERVERS_MAX 16u

void amph_client_versions_open(void)
{
    amph_client_state.versions.age_ns = (uint64_t)amph_env_int(AMPH_ENV_IOFWD_CACHE_AGE) *
                                        AMPH_NS_PER_MS;
}

bool amph_client_versions_wanted(void)
{
    return amph_client_state.versions.age_ns > 0;
}

bool amph_client_versions_expired(uint64_t asked_ns)
{
    return amph_now_ns() - asked_ns > amph_client_state.versions.age_ns;
}

/* Returns the identity that all servers have in common, or 0. */
static uint64_t common_id(struct amph_fwd_client *cl)
{
    uint64_t id = 0;

    if (cl->nlinks > SERVERS_MAX || !cl->link[cl->servers[0] - cl->first].near)
        return 0;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        struct amph_fwd_server_addr where;

        if (!amph_client_server_address(cl, cl->first + i, &where) || where.versions == 0 ||
            (i > 0 && where.versions != id))
            return 0;

        id = where.versions;
    }

    return id;
}

static void look(struct amph_fwd_client *cl)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);

    if (!atomic_load(&amph_client_state.versions.looked)) {
        uint64_t id = common_id(cl);

        amph_client_state.versions.map = id ? amph_fwd_versions_map(id, false) : NULL;
        amph_debug("%s", amph_client_state.versions.map
                             ? "reads ahead and holds attributes, by the servers' versions"
                             : "holds nothing: the servers share no versions of files");
        atomic_store_explicit(&amph_client_state.versions.looked, true, memory_order_release);
    }

    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(&g);
}

const struct amph_fwd_versions *amph_client_versions_common(struct amph_fwd_client *cl)
{
    if (AMPH_UNLIKELY(
            !atomic_load_explicit(&amph_client_state.versions.looked, memory_order_acquire)))
        look(cl);

    return amph_client_state.versions.map;
}

const struct amph_fwd_versions *amph_client_versions(struct amph_fwd_client *cl)
{
    return amph_client_state.versions.age_ns == 0 ? NULL : amph_client_versions_common(cl);
}
