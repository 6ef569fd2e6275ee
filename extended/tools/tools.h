/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GASNet tools behind gasnet_tools.h: what their files and the runtime know of each other.
 * Layer: extended; uses only base/, so that libgasnet_tools-{seq,par} can hold it without the
 * runtime.  Thread rule: any thread unless said otherwise.
 */
#ifndef AMPH_EXTENDED_TOOLS_H
#define AMPH_EXTENDED_TOOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Called by the runtime's initialisation once the process knows who it is: freezes if
 * GASNET_FREEZE, arms signals, reports settings if GASNET_VERBOSEENV.  exe: argv[0] or NULL.
 */
void amph_tools_start(uint32_t rank, uint32_t size, const char *exe);

/* "process 3 of 4 (node07, pid 123)"; owned by the tools. */
const char *amph_tools_who(void);
uint32_t amph_tools_rank(void);
/* Is this the process that reports for the job? */
bool amph_tools_is_first(void);

/* gasnett_parse_int; false where that would be fatal. */
bool amph_tools_parse(const char *str, uint64_t mem_size_multiplier, int64_t *number_p);

/* Installs the handlers that the environment asks for; once. */
void amph_tools_arm(void);
/* Writes text to fd, all of it; may be called in signal handlers. */
void amph_tools_write(int fd, const char *text);

#endif
