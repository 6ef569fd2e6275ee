/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dynamic linker's last error, as the program sees it by dlerror.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the error belongs to the calling one.
 *
 * The library itself calls the dynamic linker, for example where it first needs a function of the C
 * library.  Such a call frees the text that dlerror has returned to the program, and replaces an error
 * that the program has not asked for yet.
 */
#ifndef AMPH_IP_DL_ERROR_H
#define AMPH_IP_DL_ERROR_H

/* Enclose the library's own calls of the dynamic linker; they may be nested, and the outermost pair keeps
 * and restores.  Both keep errno. */
void amph_ip_dl_error_keep(void);
void amph_ip_dl_error_restore(void);

#endif
