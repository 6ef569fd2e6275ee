/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What collectives keep of a team, from its creation to its end.  Layer: extended.
 * Thread rule: open before any member uses the team; close when none does.
 */
#include "extended/gex.h"

enum amph_status amph_coll_team_open(struct amph_team *team)
{
    team->coll = NULL; /* made by the first collective */
    return AMPH_OK;
}

void amph_coll_team_close(struct amph_team *team)
{
    team->coll = NULL;
}
