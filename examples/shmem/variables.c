/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program's global and static variables as symmetric objects.  They lie outside the segment,
 * and where a program is loaded differs from process to process, so messages carry their offsets
 * and the target copies.
 */
#include <string.h>

#include "inside.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct place behind(struct place place, uint64_t nbytes)
{
    return (struct place){ place.where, place.offset + nbytes };
}

void shmemi_variables_put(struct place place, const void *source, uint64_t nbytes, int pe)
{
    for (uint64_t done = 0, n; done < nbytes; done += n) {
        n = least(nbytes - done, gasnet_AMMaxMedium());

        uint64_t at = shmemi_packed(behind(place, done));

        shmemi.asked++;
        gasnet_AMRequestMedium2((gasnet_node_t)pe, H_VARIABLE_PUT, (char *)source + done, n,
                                ARG_HIGH(at), ARG_LOW(at));
    }
}

void shmemi_variable_put(gasnet_token_t token, void *data, size_t nbytes, gasnet_handlerarg_t at1,
                         gasnet_handlerarg_t at0)
{
    void *at = shmemi_here(shmemi_unpacked(shmemi_joined(at1, at0)), nbytes);

    if (!at)
        shmemi_fail("put", "another PE wants to write outside the symmetric variables");

    memcpy(at, data, nbytes);
    gasnet_AMReplyShort0(token, H_VARIABLE_PUT_DONE);
}

void shmemi_answered(gasnet_token_t token)
{
    (void)token;
    shmemi.answered++;
}

void shmemi_variables_get(void *dest, struct place place, uint64_t nbytes, int pe)
{
    for (uint64_t done = 0, n; done < nbytes; done += n) {
        n = least(nbytes - done, gasnet_AMMaxMedium());

        uint64_t at = shmemi_packed(behind(place, done));
        uint64_t to = (uintptr_t)dest + done;

        shmemi.asked++;
        gasnet_AMRequestShort5((gasnet_node_t)pe, H_VARIABLE_GET, ARG_HIGH(at), ARG_LOW(at),
                               (gasnet_handlerarg_t)n, ARG_HIGH(to), ARG_LOW(to));
    }
}

void shmemi_variable_get(gasnet_token_t token, gasnet_handlerarg_t at1, gasnet_handlerarg_t at0,
                         gasnet_handlerarg_t nbytes, gasnet_handlerarg_t to1,
                         gasnet_handlerarg_t to0)
{
    void *at = shmemi_here(shmemi_unpacked(shmemi_joined(at1, at0)), (uint32_t)nbytes);

    if (!at)
        shmemi_fail("get", "another PE wants to read outside the symmetric variables");

    gasnet_AMReplyMedium2(token, H_VARIABLE_GET_DONE, at, (uint32_t)nbytes, to1, to0);
}

void shmemi_variable_got(gasnet_token_t token, void *data, size_t nbytes, gasnet_handlerarg_t to1,
                         gasnet_handlerarg_t to0)
{
    memcpy(POINTER_OF(to1, to0), data, nbytes);
    shmemi_answered(token);
}
