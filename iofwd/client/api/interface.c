/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fills the table of functions that the interposer calls; see interface.h.
 *
 * Layer: iofwd.  Thread rule: constant.
 */
#include "iofwd/client/api/interface.h"

const struct amph_fwd_interface amph_fwd_interface = {
    .version = AMPH_FWD_INTERFACE_VERSION,
    .size_bytes = sizeof(struct amph_fwd_interface),
    .names = AMPH_FWD_INTERFACE_NAMES,

#define AMPH_FWD_INTERFACE_ENTRY(name) .name = amph_fwd_##name,
    AMPH_FWD_INTERFACE_FUNCTIONS(AMPH_FWD_INTERFACE_ENTRY)
#undef AMPH_FWD_INTERFACE_ENTRY
};
