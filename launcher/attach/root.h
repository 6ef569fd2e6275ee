/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mount points that the host does not have; see root.c.
 *
 * Layer: launcher.  Thread rule: one thread, in a mount namespace of its own.
 */
#ifndef AMPH_LAUNCHER_ROOT_H
#define AMPH_LAUNCHER_ROOT_H

/* Makes a directory at path in this mount namespace, without changing any file system.  0 or an
 * errno value. */
int amph_attach_make_dir(const char *path);

#endif
