/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libiofwd_messages: records of active messages, puts, gets and collectives (IOFWD_RECORD), for programs
 * that use libamphora as a shared library.
 *
 *   messages.def  the calls that are caught
 *   messages.awk  makes their functions
 *   messages.c    what the functions share, and those that no row describes
 *
 * Layer: iofwd (messages); the public headers and the recorder's interface, which libiofwd_preload
 * exports.  Thread rule: any thread, and handlers.
 *
 * A launcher preloads the library only for a run that is to be recorded so, and its functions lie
 * between the program and libamphora: other runs pay nothing.
 */
#ifndef AMPH_IOFWD_MESSAGES_H
#define AMPH_IOFWD_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings/env_parse.h"
#include "gasnet.h"
#include "gasnet_coll.h"
#include "gasnet_ratomic.h"
#include "gasnet_vis.h"
#include "iofwd/interpose/entry/record_event.h"

enum {
    AMPH_MESSAGE_ROWS = 256,
    AMPH_MESSAGE_AM = AMPH_RECORD_AM,
    AMPH_MESSAGE_RMA = AMPH_RECORD_RMA,
    AMPH_MESSAGE_COLL = AMPH_RECORD_COLL,
    AMPH_MESSAGE_WAIT = AMPH_RECORD_RMA | AMPH_RECORD_COLL
};

/* One call, in the memory of its caller. */
struct amph_message {
    bool on;
    uint64_t bytes;
    struct amph_ip_event event;
};

/* libamphora's function.  Does not return if it does not exist. */
void *amph_message_real(unsigned row, const char *symbol);

bool amph_message_wanted(unsigned kinds);
void amph_message_begin(struct amph_message *m, unsigned row, const char *name, int32_t peer,
                        uint64_t bytes, uint32_t flags);
/* sent: false if the call has found no room and done nothing. */
void amph_message_end(struct amph_message *m, bool sent);

/* Peers, as ranks of the job. */
int32_t amph_message_member(gex_TM_t tm, gex_Rank_t rank);
int32_t amph_message_domain(gex_AD_t ad, gex_Rank_t rank);
int32_t amph_message_source(gex_Token_t token);
/* Of a message that this thread has prepared. */
int32_t amph_message_prepared(gex_AM_SrcDesc_t sd);

/* Bytes. */
uint64_t amph_message_size_of(gex_DT_t type);
uint64_t amph_message_total(size_t n, const gex_Memvec_t *list);
uint64_t amph_message_box(size_t element, const size_t *count, size_t levels);

#endif
