/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory for what the interposer keeps from the program's start until its end.
 *
 * Layer: iofwd (interposer).  Thread rule: the constructor only (entry/init.c), which runs before
 * there are threads.
 *
 * The constructor runs before main and must not call malloc: it may be the program's own, and that
 * may need what main does first.  GCL's (Maxima) lays out its heap when main has turned off the
 * randomisation of addresses, and crashes if it is called before.
 */
#ifndef AMPH_IOFWD_INTERPOSE_KEPT_H
#define AMPH_IOFWD_INTERPOSE_KEPT_H

#include <stddef.h>

/* Returns len_bytes of memory, aligned for pointers, which nothing frees; NULL: there is none. */
void *amph_ip_keep_bytes(size_t len_bytes);

/* Returns a copy of text, which nothing frees; NULL: there is no memory. */
char *amph_ip_keep_text(const char *text);

#endif
