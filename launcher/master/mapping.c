/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rules that assign a server to each compute process.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "base/status.h"
#include "launcher/hosts/hostfile.h"
#include "launcher/common/message.h"

static uint32_t by_mod(const struct amph_jobdesc *job, uint32_t c)
{
    return c % job->nproc[AMPH_SERVER];
}

/* Divides the compute processes into one block for each server, in order. */
static uint32_t by_block(const struct amph_jobdesc *job, uint32_t c)
{
    return (uint32_t)((uint64_t)c * job->nproc[AMPH_SERVER] / job->nproc[AMPH_COMPUTE]);
}

/* Assigns servers of the same host, in turn to the compute processes of that host; like mod on hosts
 * without a server. */
static uint32_t by_near(const struct amph_jobdesc *job, uint32_t c)
{
    uint32_t host = job->proc[c].host;
    uint32_t first = job->nproc[AMPH_COMPUTE];
    uint32_t here = 0;
    uint32_t before = 0;

    for (uint32_t s = 0; s < job->nproc[AMPH_SERVER]; s++)
        here += job->proc[first + s].host == host;

    if (here == 0)
        return by_mod(job, c);

    for (uint32_t i = 0; i < c; i++)
        before += job->proc[i].host == host;

    uint32_t skip = before % here;

    for (uint32_t s = 0; s < job->nproc[AMPH_SERVER]; s++)
        if (job->proc[first + s].host == host && skip-- == 0)
            return s;

    return by_mod(job, c);
}

static const struct {
    const char *name;
    uint32_t (*server_of)(const struct amph_jobdesc *job, uint32_t c);
} rules[] = { { "mod", by_mod }, { "block", by_block }, { "near", by_near } };

static enum amph_status refuse(const struct amph_jobdesc *job, const char *text)
{
    amph_say("-map %s is not allowed; it takes mod, block, near, or a list such as 0,1,1 of server "
             "numbers below %u",
             text, job->nproc[AMPH_SERVER]);
    return AMPH_ERR_ARG;
}

/* Without servers the rule has no effect, so a script may give it for any number of them. */
static enum amph_status check_unused(const struct amph_jobdesc *job, const char *text)
{
    for (size_t i = 0; i < AMPH_COUNTOF(rules); i++)
        if (strcmp(rules[i].name, text) == 0)
            return AMPH_OK;

    bool list = isdigit((unsigned char)text[0]) && text[strspn(text, "0123456789,")] == 0;

    return list ? AMPH_OK : refuse(job, text);
}

/* Parses for example "1,0,0": the servers, counted from 0, of compute processes 0, 1 and 2.  A shorter
 * list is repeated. */
static enum amph_status by_list(struct amph_jobdesc *job, const char *text)
{
    uint32_t nc = job->nproc[AMPH_COMPUTE];
    uint32_t n = 0;

    /* to its end, also if there are fewer processes: a wrong list is refused for any number of them */
    for (const char *at = text; at; n++) {
        char *end = NULL;
        unsigned long s = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : UINT32_MAX;

        if (s >= job->nproc[AMPH_SERVER] || (*end != ',' && *end))
            return refuse(job, text);
        if (n < nc)
            job->server_of[n] = nc + (uint32_t)s;

        at = *end ? end + 1 : NULL;
    }

    for (uint32_t c = n; c < nc; c++)
        job->server_of[c] = job->server_of[c % n];

    return AMPH_OK;
}

enum amph_status amph_launch_map_servers(struct amph_jobdesc *job, const char *rule)
{
    uint32_t nc = job->nproc[AMPH_COMPUTE];

    if (job->nproc[AMPH_SERVER] == 0)
        return check_unused(job, rule);
    if (!(job->server_of = calloc(nc, sizeof *job->server_of)))
        return AMPH_ERR_NOMEM;

    for (size_t i = 0; i < AMPH_COUNTOF(rules); i++)
        if (strcmp(rules[i].name, rule) == 0) {
            for (uint32_t c = 0; c < nc; c++)
                job->server_of[c] = nc + rules[i].server_of(job, c);

            return AMPH_OK;
        }

    return by_list(job, rule);
}
