/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of clients and requests; see request_name.h.  Layer: iofwd. */
#include "iofwd/wire/request_name.h"

#include <inttypes.h>
#include <stdio.h>

const char *amph_fwd_client_name(uint32_t number, char out[FWD_CLIENT_NAME_BYTES])
{
    uint32_t given = number & ~FWD_NUMBER_GIVEN;

    if (number & FWD_NUMBER_GIVEN)
        snprintf(out, FWD_CLIENT_NAME_BYTES, "s%" PRIu32 "c%" PRIu32,
                 given >> FWD_NUMBER_SERVER_SHIFT, given & ((1u << FWD_NUMBER_SERVER_SHIFT) - 1));
    else
        snprintf(out, FWD_CLIENT_NAME_BYTES, "%" PRIu32, number);

    return out;
}

const char *amph_fwd_request_name(uint32_t client, uint64_t seq, char out[FWD_REQUEST_NAME_BYTES])
{
    char who[FWD_CLIENT_NAME_BYTES];

    snprintf(out, FWD_REQUEST_NAME_BYTES, "%s-%" PRIu64, amph_fwd_client_name(client, who), seq);
    return out;
}
