/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get by messages: around a conduit that has none (or for AMPHORA_RMA=emulate), or
 * beside one whose own put and get do not reach every peer. Layer: conduits.  Thread rule: that
 * of conduit.h.
 */
#ifndef AMPH_CONDUITS_EMULATE_H
#define AMPH_CONDUITS_EMULATE_H

#include <pthread.h>
#include <stdint.h>

#include "conduits/conduit.h"

/* Opens an instance of ops and wraps it; the result has native_rma, by messages.  It uses INTERNAL
 * messages whose handler code is AMPH_EMULATE_FIRST or above; all others pass through unchanged. */
enum amph_status amph_conduit_emulate_open(const struct amph_conduit_ops *ops,
                                           const struct amph_cx_config *cfg, struct amph_cx **cx_p);

/* Opens an instance for some peers of inner, which belongs to its owner and continues to serve the
 * others.  add_peer of the result adds a peer to both.  The owner makes progress on both, and
 * passes messages and errors of such peers from inner's upcalls to the two functions below.
 * send_lock: serialises inner's send side; NULL: cfg.threaded is not set. */
enum amph_status amph_conduit_emulate_beside(struct amph_cx *inner, pthread_mutex_t *send_lock,
                                             struct amph_cx **cx_p);

/* From on_am, for an INTERNAL whose handler code is AMPH_EMULATE_FIRST or above; from
 * on_peer_error. */
void amph_conduit_emulate_take(struct amph_cx *cx, uint32_t peer, enum amph_lane lane,
                               const struct amph_am *am);
void amph_conduit_emulate_peer_gone(struct amph_cx *cx, uint32_t peer);

#define AMPH_EMULATE_FIRST 240

#endif
