/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gex_EP_PublishBoundSegment: the members of a team exchange their bound segments.  Layer:
 * extended.  Thread rule: a collective call; the endpoints are idle.
 *
 * Two exchanges: the number of endpoints that each member lists (and whether its arguments are
 * valid), then their records.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/log.h"
#include "base/status.h"
#include "extended/check.h"
#include "extended/ep/endpoint.h"
#include "extended/team/team.h"

enum {
    RECORD_BYTES = 4 + AMPH_BOUND_BYTES,
    COUNT_BYTES = 8
};

static int check(const struct amph_gex *g, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags)
{
    if (flags || (num_eps && !eps) || num_eps > GASNET_MAXEPS) {
        amph_gex_complain("gex_EP_PublishBoundSegment: flags are %#x and must be 0; %zu endpoints "
                          "at %p: a process has at most %d",
                          (unsigned)flags, num_eps, (void *)eps, GASNET_MAXEPS);
        return GASNET_ERR_BAD_ARG;
    }

    for (size_t i = 0; i < num_eps; i++) {
        bool twice = false;

        for (size_t j = 0; j < i; j++)
            twice |= eps[i] == eps[j];

        if (eps[i] && !twice && eps[i]->index < GASNET_MAXEPS && g->eps[eps[i]->index] == eps[i])
            continue;

        amph_gex_complain("gex_EP_PublishBoundSegment: entry %zu is no endpoint of this process, "
                          "or is named twice",
                          i);
        return GASNET_ERR_BAD_ARG;
    }

    return GASNET_OK;
}

/* The result of the first exchange: GASNET_OK and the largest number of endpoints, or the reason
 * why nothing is published. */
static int count_all(struct amph_team *team, size_t num_eps, int status, uint32_t *max_p)
{
    uint8_t mine[COUNT_BYTES];
    uint8_t *all = malloc((size_t)team->pub.size * COUNT_BYTES);
    struct amph_wr w;
    struct amph_rd r;
    int result = status;

    *max_p = 0;
    if (!all)
        amph_fatal("gex_EP_PublishBoundSegment: no memory for a table of %u members",
                   team->pub.size);

    amph_wr_init(&w, mine, sizeof mine);
    amph_wr_u32(&w, (uint32_t)num_eps);
    amph_wr_u32(&w, (uint32_t)status);

    enum amph_status st = amph_gex_team_exchange(team, mine, sizeof mine, all);

    if (st != AMPH_OK)
        amph_fatal("gex_EP_PublishBoundSegment: the members of the team cannot be reached: %s",
                   amph_job_failure_text(st));

    for (uint32_t i = 0; i < team->pub.size; i++) {
        amph_rd_init(&r, all + (size_t)i * COUNT_BYTES, COUNT_BYTES);

        uint32_t n = amph_rd_u32(&r);
        uint32_t bad = amph_rd_u32(&r);

        if (n > *max_p)
            *max_p = n;

        if (bad && result == GASNET_OK)
            result = GASNET_ERR_RESOURCE;
    }

    free(all);
    return result;
}

static void write_records(uint8_t *out, size_t bytes, gex_EP_t *eps, size_t num_eps)
{
    struct amph_wr w;

    memset(out, 0, bytes);
    for (size_t i = 0; i < num_eps; i++) {
        amph_wr_init(&w, out + i * RECORD_BYTES, RECORD_BYTES);
        amph_wr_u32(&w, eps[i]->index);
        amph_gex_bound_write(&w, eps[i]);
    }
}

static enum amph_status learn_all(struct amph_gex *g, const struct amph_team *team,
                                  const uint8_t *all, uint32_t max)
{
    enum amph_status st = AMPH_OK;
    struct amph_rd r;

    for (uint32_t i = 0; i < team->pub.size; i++)
        for (uint32_t k = 0; k < max && st == AMPH_OK; k++) {
            amph_rd_init(&r, all + ((size_t)i * max + k) * RECORD_BYTES, RECORD_BYTES);
            uint32_t index = amph_rd_u32(&r);

            st = amph_gex_bound_learn(g, amph_gex_team_member(team, i), index, &r);
        }

    return st;
}

/* Succeeds if all members have stored the records of the others. */
static int agree(struct amph_team *team, enum amph_status st)
{
    uint32_t unused;

    if (st != AMPH_OK)
        amph_gex_complain("gex_EP_PublishBoundSegment: a published segment cannot be reached: %s",
                          amph_status_text(st));

    return count_all(team, 0, st == AMPH_OK ? GASNET_OK : GASNET_ERR_RESOURCE, &unused);
}

int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t *eps, size_t num_eps, gex_Flags_t flags)
{
    struct amph_gex *g = amph_gex();

    if (!g)
        return GASNET_ERR_NOT_INIT;

    amph_check_call("gex_EP_PublishBoundSegment");

    struct amph_team *team = amph_gex_team_of(tm, "gex_EP_PublishBoundSegment");
    uint32_t max;
    int err = count_all(team, num_eps, check(g, eps, num_eps, flags), &max);

    if (err || !max)
        return err;

    const size_t bytes = (size_t)max * RECORD_BYTES;
    uint8_t *mine = malloc(bytes);
    uint8_t *all = malloc(bytes * team->pub.size);

    if (!mine || !all)
        amph_fatal("gex_EP_PublishBoundSegment: no memory for %zu bytes of each of %u members",
                   bytes, team->pub.size);

    write_records(mine, bytes, eps, num_eps);

    enum amph_status st = amph_gex_team_exchange(team, mine, bytes, all);

    if (st == AMPH_OK)
        st = learn_all(g, team, all, max);

    free(mine);
    free(all);
    amph_gex_teams_refresh(g);

    return agree(team, st);
}
