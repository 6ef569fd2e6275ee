/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carry-less multiplication, where the processor has instructions for it.
 *
 * Layer: base.  Thread rule: pure functions.
 */
#ifndef AMPH_BASE_CLMUL_H
#define AMPH_BASE_CLMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AMPH_CLMUL_GROUP 32u /* bytes */

/* Returns true if this processor has the instructions. */
bool amph_clmul_works(void);

/* Reads `groups` groups of four little-endian words at `at` and adds key[0], key[1], ... to them;
 * returns in sum[0] (low) and sum[1] the sum of the products of each two neighbours.  Addition and
 * multiplication are those of polynomials over GF(2).  Only if amph_clmul_works(). */
void amph_clmul_sum(const uint64_t *key, const void *at, size_t groups, uint64_t sum[2]);

#endif
