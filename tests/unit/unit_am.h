/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of unit_am share: two endpoints in one process.  Thread rule: one thread. */
#ifndef UNIT_AM_H
#define UNIT_AM_H

#include "am/address.h"

extern struct amph_am_ep *a, *b; /* peer 1 of a is b; peer 0 of b is a */
/* What the handlers have seen. */
struct seen {
    unsigned n, replies;
    uint32_t nbytes;
    uint8_t first, last;
    const void *payload;
    int32_t sum;
    enum amph_status st;
    unsigned polled;
};

extern struct seen seen;
extern uint8_t segment[256 << 10] __attribute__((aligned(64)));
struct amph_am_ep *open_one(uint64_t host, bool threaded);
void start(void);
void teardown(void);
/* Handlers: a request that is answered (by handler 21), and that reply. */
void answer(struct amph_token *token, const struct amph_am *am);
void count_reply(struct amph_token *token, const struct amph_am *am);
void count(struct amph_token *token, const struct amph_am *am);
void add(struct amph_am_ep *ep, unsigned index, amph_am_fn fn, int kinds, int dirs, int nargs);
enum amph_status send_short(unsigned handler, unsigned nargs, unsigned flags);
enum amph_status send_long(uint64_t dest, const void *src, uint32_t nbytes, unsigned flags,
                           struct amph_op *lc);

#endif
