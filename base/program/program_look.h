/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes program files by the C library's own calls, for programs that are not forwarded themselves.
 *
 * Layer: base.  Thread rule: any thread; no state.
 */
#ifndef AMPH_BASE_PROGRAM_LOOK_H
#define AMPH_BASE_PROGRAM_LOOK_H

#include "base/program/program_image.h"

/* Describes the program that the kernel runs for path, a script's interpreter too. */
void amph_image_of(const char *path, struct amph_image *image_p);

#endif
