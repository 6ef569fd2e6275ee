/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptor tables.
 * Layer: base.  Thread rule: any thread.
 */
#ifndef AMPH_BASE_DESCRIPTORS_H
#define AMPH_BASE_DESCRIPTORS_H

#include <stddef.h>

/*
 * Closes the descriptors of the calling thread's table, except the n numbers at `keep`, which it sorts.
 * Returns 0 or an errno value (ENOSYS: the kernel is older than 5.9).
 */
int amph_descriptors_close_except(int *keep, size_t n);

#endif
