/* SPDX-License-Identifier: BSD-3-Clause */
/* What drives the fuzz target of the udp conduit's protocol without libFuzzer.  Layer: tests.
 * Thread rule: one thread. */
#ifndef AMPH_TESTS_FUZZ_UDP_H
#define AMPH_TESTS_FUZZ_UDP_H

#include <stddef.h>
#include <stdint.h>

/* Feeds one input; the number of messages that came of it. */
unsigned fuzz_udp_feed(const uint8_t *bytes, size_t len);
/* `count` packets made up from a seed, many of them nearly right. */
unsigned fuzz_udp_made_up(uint64_t seed, unsigned count);

#endif
