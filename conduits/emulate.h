/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get over messages, laid over a conduit that has none (or where AMPHORA_RMA=emulate asks for it).  Layer: conduits. */
#ifndef AMPH_CONDUITS_EMULATE_H
#define AMPH_CONDUITS_EMULATE_H

#include "conduits/conduit.h"

/* Opens an instance of ops and wraps it; the result has native_rma, by messages.  It uses INTERNAL messages whose handler code is
 * AMPH_EMULATE_FIRST or above; all others pass through unchanged. */
enum amph_status amph_emulate_open(const struct amph_conduit_ops *ops, const struct amph_cx_config *cfg, struct amph_cx **cx_p);

#define AMPH_EMULATE_FIRST 240

#endif
