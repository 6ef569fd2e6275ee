/* SPDX-License-Identifier: BSD-3-Clause */
/* Wall clock.  RL 7.5. */
#ifndef UPC_TICK_H
#define UPC_TICK_H
#include <inttypes.h>

typedef uint64_t upc_tick_t;
#define UPC_TICK_MIN ((upc_tick_t)0)
#define UPC_TICK_MAX ((upc_tick_t)-1)
upc_tick_t upc_ticks_now(void);
uint64_t upc_ticks_to_ns(upc_tick_t ticks);

#endif
