/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a recorded job: the records that processes of other hosts have written, maybe on disks of
 * those hosts, are compressed there.  Those of this host follow when the job has ended (record_pack.h).
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/settings/env.h"
#include "base/wire.h"
#include "launcher/agent/agent.h"
#include "launcher/common/message.h"
#include "launcher/master/launch.h"

static void say(const struct amph_lagent *agent, const char *why)
{
    const char *dir = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR);

    amph_say(
        "the records of the host %s below %s are not all compressed%s; there, iofwd-trace pack %s "
        "tries it again (IOFWD_TRACE_PACK=0 leaves them as they are)",
        agent->launch->job.host_name[agent->host], dir, why, dir);
}

bool amph_launch_records_pack(struct amph_launch *l)
{
    const char *dir = amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR);
    uint64_t min_bytes = amph_env_size(AMPH_ENV_IOFWD_TRACE_PACK);
    size_t cap = strlen(dir) + 16;
    uint8_t *body = l->o->records && dir[0] && min_bytes && l->spawned ? malloc(cap) : NULL;
    struct amph_wr w;

    if (!body)
        return false;

    amph_wr_init(&w, body, cap);
    amph_wr_blob(&w, dir, strlen(dir));
    amph_wr_u64(&w, min_bytes);
    for (uint32_t i = 0; i < l->nagents; i++) {
        struct amph_lagent *agent = &l->agents[i];

        if (!agent->remote || agent->gone)
            continue;

        agent->packs = true;
        amph_tree_report(agent, AMPH_AGENT_PACK, body, amph_wr_len(&w));
    }

    free(body);
    return amph_launch_records_wait(l);
}

bool amph_launch_records_wait(const struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].packs && !l->agents[i].gone)
            return true;

    return false;
}

bool amph_launch_records_packed(struct amph_lagent *agent, struct amph_rd *r)
{
    bool failed = amph_rd_u8(r) || r->bad;

    if (agent->packs && failed)
        say(agent, "");

    agent->packs = false;
    return !amph_launch_records_wait(agent->launch);
}

void amph_launch_records_give_up(struct amph_launch *l)
{
    for (uint32_t i = 0; i < l->nagents; i++)
        if (l->agents[i].packs)
            say(&l->agents[i],
                l->agents[i].gone ? ", because it is lost" : ", because the job's end is due");
}
