/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ELF files of this machine in memory: a checked view of the headers that the dynamic linker reads, and
 * one more segment behind the end of the file.
 *
 * Layer: iofwd/elf.  Thread rule: any thread; no state, no allocation, and no function of the C library
 * but those on strings and memory, so that the interposer may call everything here inside execve.
 *
 *   view.c      the headers, the dynamic section and its strings
 *   segment.c   a loaded segment behind the end of the file; new names of dependencies
 *   elf.h       this file
 */
#ifndef AMPH_IOFWD_ELF_H
#define AMPH_IOFWD_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* A file in memory.  All pointers lead into it and have been checked; what the headers say about other
 * parts has not. */
struct amph_elf {
    char *at; /* aligned as by malloc */
    size_t len;
    ElfW(Ehdr) * eh;
    ElfW(Phdr) * ph;
    ElfW(Dyn) * dyn;
    size_t ndyn; /* with the entries behind the first DT_NULL */
    ElfW(Addr) strings_at, versions_at;
    const char *strings;
    size_t nstrings, nversions;
    const char *rpath, *runpath; /* NULL: none; a RUNPATH makes the linker ignore an RPATH */
};

/* ---- view.c ---- */

/* Do count elements of size bytes from offset at lie in the file? */
bool amph_elf_fits(const struct amph_elf *elf, size_t at, size_t count, size_t size);

/* Returns the n bytes loaded at a virtual address; NULL: the file does not contain them. */
void *amph_elf_at_address(const struct amph_elf *elf, ElfW(Addr) address, size_t n);

/* Returns the string at an offset of the dynamic string table; NULL: it does not end in the table. */
const char *amph_elf_string(const struct amph_elf *elf, size_t at);

/* Returns the value of the first dynamic entry of this kind; fallback if the section has none. */
ElfW(Addr) amph_elf_entry(const struct amph_elf *elf, ElfW(Sxword) tag, ElfW(Addr) fallback);

/* Fills elf from the file in elf->at and elf->len.  false: not an ELF file of this word size for the
 * dynamic linker, or without dependencies. */
bool amph_elf_view(struct amph_elf *elf);

/* ---- segment.c ---- */

/* Where one more loaded segment goes. */
struct amph_elf_segment_slot {
    size_t spare;       /* index of the program header that it takes */
    ElfW(Off) offset;   /* in the file, behind its end */
    ElfW(Addr) address; /* above all other segments */
};

/* Finds a slot.  The new segment needs a program header, and the table cannot grow: it takes that of a
 * note that nothing reads while the program runs, and never the note that identifies parts of Amphora.
 * false: no such header, or no address is left. */
bool amph_elf_find_segment_slot(const struct amph_elf *elf, struct amph_elf_segment_slot *slot_p);

/* Writes the segment's program header; flags: PF_R, ... */
void amph_elf_put_segment(struct amph_elf *elf, const struct amph_elf_segment_slot *slot,
                          ElfW(Word) flags, size_t len_bytes);

/* Gives the dependency in dynamic entry dyn the name at offset fresh of the string table, also where
 * the requirements of symbol versions name it. */
void amph_elf_rename(struct amph_elf *elf, size_t dyn, ElfW(Addr) fresh);

#endif
