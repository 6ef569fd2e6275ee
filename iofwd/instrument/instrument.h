/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-instrument: makes a copy of a dynamic program that forwards its file calls without any
 * environment variable.
 *
 * Layer: iofwd/instrument.  Thread rule: one thread.
 *
 * The copy names the preload library first among the libraries that it needs.  All additions are in
 * one segment after the end of the file: a note with the built-in settings, a note by which the
 * original is restored, the string table, and the dynamic section if it had no room for one more
 * entry.  Nothing else of the file moves.
 *
 *   main.c        the command line; reading and writing files
 *   make.c        the copy, from the bytes of the original
 *   sections.c    the table of sections, which strip and debuggers read
 *   payload.c     what lies behind the end of a program, such as an archive that it unpacks
 *   undo.c        the original, from the bytes of the copy
 *   check.c       what a program file is to forwarding, for iofwd-run, too
 *   check.h       the same
 *   instrument.h  this file
 */
#ifndef AMPH_IOFWD_INSTRUMENT_H
#define AMPH_IOFWD_INSTRUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/elf/elf.h"

#define AMPH_INSTRUMENT_WHY 512 /* bytes of a sentence that says why not */

/* The bytes of a file; at is allocated. */
struct amph_instrument_bytes {
    char *at;
    size_t len;
};

/* ---- make.c ---- */

struct amph_instrument_plan {
    const char *library;  /* the preload library's path on the hosts where the copy runs */
    const char *settings; /* NAME=VALUE texts, each with its NUL */
    size_t settings_len;
    const char
        *origin; /* the folder that $ORIGIN means in the original; NULL: the same in the copy */
};

/* Makes the copy of the program in `in`, which is not changed; the caller frees out_p->at.  false: why
 * has the second half of a sentence that begins with the program's name. */
bool amph_instrument_make(const struct amph_instrument_bytes *in,
                          const struct amph_instrument_plan *plan,
                          struct amph_instrument_bytes *out_p, char why[AMPH_INSTRUMENT_WHY]);

/* Returns the header of the segment that an earlier run has added; NULL: none. */
const ElfW(Phdr) * amph_instrument_segment(const struct amph_elf *elf);

/* ---- sections.c ---- */

/* The table of sections of a file; n is 0 if it has none. */
struct amph_instrument_sections {
    ElfW(Shdr) * sh;
    size_t n, names;                   /* names: index of the table of names */
    ElfW(Addr) strings_at, dynamic_at; /* by which the sections of these are found */
};

/* false: the table is damaged. */
bool amph_instrument_sections_view(const struct amph_elf *elf,
                                   struct amph_instrument_sections *s_p);

/* Returns the bytes that the new table and its names need after offset `at` of the copy. */
size_t amph_instrument_sections_room(const struct amph_instrument_sections *s,
                                     const struct amph_elf *elf, size_t at);

/* Where the moved parts are: in the file, in memory, and how long. */
struct amph_instrument_part {
    ElfW(Off) offset;
    ElfW(Addr) address;
    size_t len;
};

struct amph_instrument_layout {
    struct amph_instrument_part notes, strings, dynamic; /* dynamic.len is 0 if it stays */
};

/* Writes the new table and its names after offset `at` of the copy, and its position into the
 * copy's header. */
void amph_instrument_sections_put(const struct amph_instrument_sections *s,
                                  const struct amph_elf *elf,
                                  const struct amph_instrument_layout *layout, char *copy,
                                  size_t at);

/* A symbol that names the start of a moved part, such as _DYNAMIC: the offset of its value, and the new
 * value. */
struct amph_instrument_symbol {
    size_t at;
    ElfW(Addr) value;
};

/* Finds up to max of them; returns how many. */
size_t amph_instrument_moved_symbols(const struct amph_instrument_sections *s,
                                     const struct amph_elf *elf,
                                     const struct amph_instrument_layout *layout,
                                     struct amph_instrument_symbol *found, size_t max);

/* ---- payload.c ---- */

/* Returns a phrase that names the data after the end of the program; NULL: no such data. */
const char *amph_instrument_payload(const struct amph_elf *elf,
                                    const struct amph_instrument_sections *s);

/* ---- undo.c ---- */

enum {
    AMPH_INSTRUMENT_SYMBOLS = 5,
    AMPH_INSTRUMENT_PIECES = 3 + AMPH_INSTRUMENT_SYMBOLS
};

/* Pieces of the original that the copy changes. */
struct amph_instrument_undo {
    size_t n;
    struct {
        size_t at, len;
    } piece[AMPH_INSTRUMENT_PIECES];
};

void amph_instrument_undo_add(struct amph_instrument_undo *u, size_t at, size_t len);

/* Return the length of the record of the original in `in`, and write the record. */
size_t amph_instrument_undo_len(const struct amph_instrument_undo *u);
void amph_instrument_undo_put(const struct amph_instrument_undo *u,
                              const struct amph_instrument_bytes *in, char *record);

/* Restores the original; the caller frees out_p->at.  false: why, as amph_instrument_make's. */
bool amph_instrument_undo(const struct amph_instrument_bytes *in,
                          struct amph_instrument_bytes *out_p, char why[AMPH_INSTRUMENT_WHY]);

#endif
