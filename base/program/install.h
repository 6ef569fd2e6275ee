/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the files of this installation are, from the place of the running program: as configured, moved
 * after the installation, or a build tree.
 *
 * Layer: base.  Thread rule: any thread; no state.  Uses the C library only: programs that are linked
 * without libamphora compile the file in.
 */
#ifndef AMPH_BASE_INSTALL_H
#define AMPH_BASE_INSTALL_H

/* Returns the directory of the running program; in a build tree its top, not libtool's ".libs".  The
 * caller frees it.  NULL: /proc/self/exe cannot be read, or no memory. */
char *amph_install_bin(void);

/* Returns where dir, an absolute path as configured, is now that the programs are in bin: the way up and
 * down between the two is that between the configured directories.  The caller frees it; NULL: no memory. */
char *amph_install_moved(const char *dir, const char *bin);

/* Returns the folder of the preload library, for programs in bin, also in a build tree.  The caller frees
 * it; NULL: no memory. */
char *amph_install_modules(const char *bin);

#endif
