/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: the table of reported calls, by number.
 *
 * Layer: iofwd.  Thread rule: constants.
 */
#include <sys/syscall.h>

#include "iofwd/trap/trap.h"

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

/* clang-format off */
const struct amph_trap_row amph_trap_rows[AMPH_TRAP_NUMBERS] = {
#define AMPH_TRAP_ROW(name, descriptors, handler) [SYS_##name] = { #name, descriptors, amph_trap_##handler },
#include "iofwd/calls/trapped.def"
#undef AMPH_TRAP_ROW
};
/* clang-format on */
