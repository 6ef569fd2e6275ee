/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The boot room's state of the process; kind.h describes the fields.
 *
 * Layer: boot.  Thread rule: as boot.h.
 */
#include "boot/kind.h"

struct amph_boot_process amph_boot_process;
