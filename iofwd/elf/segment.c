/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One more loaded segment behind the end of an ELF file, and new names of dependencies; see elf.h.
 *
 * Layer: iofwd/elf.
 *
 * The table of program headers stays where it is and keeps its length: kernels before 5.18 look for it
 * at the start of the file, and tools that rewrite a file (strip) put it there.
 */
#include "iofwd/elf/elf.h"

#include <elf.h>
#include <link.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

#include "base/program/note.h"

#define PAGE_MAX 0x10000 /* a multiple of every host's page size */
#define CONTENT_ALIGN 16

static bool is_same_range(const ElfW(Phdr) * a, const ElfW(Phdr) * b)
{
    return a->p_offset == b->p_offset && a->p_filesz == b->p_filesz;
}

static bool has_amphora_note(const struct amph_elf *elf, const ElfW(Phdr) * ph)
{
    return !amph_elf_fits(elf, ph->p_offset, ph->p_filesz, 1) ||
           memmem(elf->at + ph->p_offset, ph->p_filesz, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME - 1);
}

/* The best header to give up: a note that PT_GNU_PROPERTY names a second time, else PT_GNU_PROPERTY,
 * else the last note.  SIZE_MAX: none. */
static size_t spare_header(const struct amph_elf *elf)
{
    size_t property = SIZE_MAX;
    size_t spare = SIZE_MAX;

    for (size_t i = 0; i < elf->eh->e_phnum; i++)
        if (elf->ph[i].p_type == PT_GNU_PROPERTY)
            property = i;

    for (size_t i = 0; i < elf->eh->e_phnum; i++) {
        const ElfW(Phdr) *ph = &elf->ph[i];

        if (ph->p_type != PT_NOTE || has_amphora_note(elf, ph))
            continue;
        if (property != SIZE_MAX && is_same_range(ph, &elf->ph[property]))
            return i;

        spare = i;
    }

    return property == SIZE_MAX ? spare : property;
}

bool amph_elf_find_segment_slot(const struct amph_elf *elf, struct amph_elf_segment_slot *slot_p)
{
    size_t spare = spare_header(elf);
    size_t offset = (elf->len + CONTENT_ALIGN - 1) / CONTENT_ALIGN * CONTENT_ALIGN;
    ElfW(Addr) end = 0;

    if (spare == SIZE_MAX)
        return false;

    for (size_t i = 0; i < elf->eh->e_phnum; i++) {
        const ElfW(Phdr) *ph = &elf->ph[i];

        if (ph->p_type != PT_LOAD)
            continue;
        if (ph->p_memsz > SIZE_MAX - ph->p_vaddr || ph->p_filesz > ph->p_memsz)
            return false;
        if (ph->p_vaddr + ph->p_memsz > end)
            end = ph->p_vaddr + ph->p_memsz;
    }

    if (end == 0 || end > SIZE_MAX / 2 || offset < elf->len)
        return false;

    /* the kernel maps whole pages: address and offset agree within the largest page */
    ElfW(Addr) page = (end + PAGE_MAX - 1) & ~(ElfW(Addr))(PAGE_MAX - 1);

    *slot_p = (struct amph_elf_segment_slot){ spare, offset, page + (offset & (PAGE_MAX - 1)) };
    return true;
}

/* PT_LOAD headers are sorted by address, so the new one follows the last of them. */
void amph_elf_put_segment(struct amph_elf *elf, const struct amph_elf_segment_slot *slot,
                          ElfW(Word) flags, size_t len_bytes)
{
    ElfW(Phdr) *ph = elf->ph;
    size_t spare = slot->spare;
    size_t last = 0;

    for (size_t i = 0; i < elf->eh->e_phnum; i++)
        if (ph[i].p_type == PT_LOAD)
            last = i;

    if (spare > last)
        memmove(&ph[last + 2], &ph[last + 1], (spare - last - 1) * sizeof *ph);
    else
        memmove(&ph[spare], &ph[spare + 1], (last - spare) * sizeof *ph);

    ph[spare > last ? last + 1 : last] = (ElfW(Phdr)){ .p_type = PT_LOAD,
                                                       .p_flags = flags,
                                                       .p_offset = slot->offset,
                                                       .p_vaddr = slot->address,
                                                       .p_paddr = slot->address,
                                                       .p_filesz = len_bytes,
                                                       .p_memsz = len_bytes,
                                                       .p_align = PAGE_MAX };
}

/* The version requirements of symbols name the library a second time. */
static void rename_versions(struct amph_elf *elf, const char *old, ElfW(Addr) fresh)
{
    ElfW(Addr) at = elf->versions_at;

    for (size_t i = 0; i < elf->nversions; i++) {
        ElfW(Verneed) *v = amph_elf_at_address(elf, at, sizeof *v);

        if (!v || (uintptr_t)v % alignof(ElfW(Verneed)) != 0)
            return;

        const char *name = amph_elf_string(elf, v->vn_file);

        if (name && strcmp(name, old) == 0)
            v->vn_file = (ElfW(Word))fresh;

        if (!v->vn_next)
            return;

        at += v->vn_next;
    }
}

void amph_elf_rename(struct amph_elf *elf, size_t dyn, ElfW(Addr) fresh)
{
    const char *old = amph_elf_string(elf, elf->dyn[dyn].d_un.d_val);

    if (old)
        rename_versions(elf, old, fresh);

    elf->dyn[dyn].d_un.d_val = fresh;
}
