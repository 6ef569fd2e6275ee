/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that no specification has, and that existing clients make: BCL, whose templates do not know the
 * number of a message's arguments before they are expanded, calls the function behind
 * gex_AM_RequestShort.  They are not for new programs; amphora/tools/client_names.h has the names that
 * need no job.
 */
#ifndef AMPHORA_CLIENT_CALLS_H
#define AMPHORA_CLIENT_CALLS_H

#include <stdarg.h>

#include "amphora/message.h"

/* Stands behind the last argument before those of the message; nothing here. */
#define GASNETI_THREAD_GET

/* gex_AM_RequestShort with nargs arguments of type gex_AM_Arg_t. */
AMPHORA_INLINE int gasnetc_AMRequestShortM(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                                           gex_Flags_t flags, int nargs, ...)
{
    gex_AM_Arg_t args[AMPHORA_MAX_ARGS];
    va_list list;
    int i;

    va_start(list, nargs);

    for (i = 0; i < nargs && i < AMPHORA_MAX_ARGS; i++)
        args[i] = va_arg(list, gex_AM_Arg_t);

    va_end(list);
    return amphora_am_request_short(tm, rank, handler, flags, (unsigned)nargs, args);
}

#endif
