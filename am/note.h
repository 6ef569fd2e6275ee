/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ELF note by which the preload library knows a program that joins its job by itself, whether
 * it is linked with the shared library or the static one.  Layer: am.
 */
#ifndef AMPH_AM_NOTE_H
#define AMPH_AM_NOTE_H

#define AMPH_NOTE_NAME "Amphora" /* 8 bytes with its NUL */

struct amph_note {
    unsigned namesz, descsz, type;
    char name[8];
};

#endif
