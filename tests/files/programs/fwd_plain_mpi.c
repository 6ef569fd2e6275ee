/* SPDX-License-Identifier: BSD-3-Clause */
/* A GASNet client that says it has called MPI_Init before: under another launcher with
 * AMPHORA_SERVERS it is refused. */
#include <gasnetex.h>
#include <stdio.h>

/* Of the MPI library that this program pretends to have. */
int MPI_Initialized(int *flag);
int MPI_Initialized(int *flag)
{
    *flag = 1;
    return 0;
}

int main(int argc, char **argv)
{
    gex_TM_t team;
    int rc = gex_Client_Init(NULL, NULL, &team, "AFTER_MPI", &argc, &argv, 0);

    printf("gex_Client_Init gives %d\n", rc);
    return rc != GASNET_OK;
}
