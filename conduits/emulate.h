/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get over messages: laid over a conduit that has none (or where AMPHORA_RMA=emulate asks
 * for it), or put beside one whose own put and get do not reach every peer.  Layer: conduits.
 */
#ifndef AMPH_CONDUITS_EMULATE_H
#define AMPH_CONDUITS_EMULATE_H

#include <pthread.h>

#include "conduits/conduit.h"

/* Opens an instance of ops and wraps it; the result has native_rma, by messages.  It uses INTERNAL
 * messages whose handler code is AMPH_EMULATE_FIRST or above; all others pass through unchanged. */
enum amph_status amph_emulate_open(const struct amph_conduit_ops *ops,
                                   const struct amph_cx_config *cfg, struct amph_cx **cx_p);

/* For some peers of inner, which stays its owner's and goes on serving the others: add_peer of the
 * result makes a peer known to both. The owner makes progress on inner as well as on the result
 * (which sends nothing by itself), and hands on what inner's upcalls bring of such peers, by the
 * two functions below.  send_lock: what serialises inner's send side; NULL: cfg.threaded is not
 * set. */
enum amph_status amph_emulate_beside(struct amph_cx *inner, pthread_mutex_t *send_lock,
                                     struct amph_cx **cx_p);

/* From on_am, for an INTERNAL whose handler code is AMPH_EMULATE_FIRST or above; from
 * on_peer_error. */
void amph_emulate_take(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                       const struct amph_am *am);
void amph_emulate_peer_gone(struct amph_cx *cx, uint32_t peer);

#define AMPH_EMULATE_FIRST 240

#endif
