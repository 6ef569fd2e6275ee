/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openat2's RESOLVE flags on forwarded paths.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_RESOLVE_H
#define AMPH_IOFWD_RESOLVE_H

#include <linux/openat2.h>
#include <stddef.h>

#define AMPH_IP_RESOLVE_LOCAL (-2) /* the path is not forwarded: call the kernel */

/* The path as openat would take it: with RESOLVE_IN_ROOT an absolute path begins at the
 * directory. */
const char *amph_ip_path_in_root(const char *path, const struct open_how *how, size_t size);

/* openat2 with any of the flags RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV, RESOLVE_BENEATH and
 * RESOLVE_IN_ROOT; the kernel has found `how` valid. */
int amph_ip_open_resolved(int dir, const char *path, const struct open_how *how);

#endif
