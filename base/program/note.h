/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ELF notes by which programs that contain parts of Amphora are recognised, whether they are
 * linked with the shared libraries or the static ones.  Layer: base.
 */
#ifndef AMPH_BASE_NOTE_H
#define AMPH_BASE_NOTE_H

#define AMPH_NOTE_NAME "Amphora" /* 8 bytes with its NUL */

enum {
    AMPH_NOTE_JOB = 1,      /* the program joins its job by itself (am/job.c) */
    AMPH_NOTE_FORWARDS = 2, /* its file calls are forwarded without the preload library */
    AMPH_NOTE_SETTINGS =
        3, /* iofwd-instrument: NAME=VALUE texts, each with its NUL; begins the segment */
    AMPH_NOTE_UNDO = 4 /* iofwd-instrument: how the original was (iofwd/instrument/undo.c) */
};

struct amph_note {
    unsigned namesz, descsz, type;
    char name[8];
};

#endif
