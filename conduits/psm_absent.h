/* SPDX-License-Identifier: BSD-3-Clause */
/* What psm_absent.c offers the registry.  Layer: conduits. */
#ifndef AMPH_PSM_ABSENT_H
#define AMPH_PSM_ABSENT_H

/* Loads the stand-ins of Intel's PSM libraries from the directory dir followed by sub, for those whose
 * device this machine lacks.  If a stand-in cannot be loaded, libfabric loads the library itself,
 * which takes 0.1 s.  To be called before libfabric is loaded; later calls have no effect. */
void amph_conduit_skip_psm(const char *dir, const char *sub);

#endif
