/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the headers of an ELF file in memory; see elf.h.
 *
 * Layer: iofwd/elf.
 */
#include "iofwd/elf/elf.h"

#include <elf.h>
#include <link.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

bool amph_elf_fits(const struct amph_elf *elf, size_t at, size_t count, size_t size)
{
    return at <= elf->len && count <= (elf->len - at) / size;
}

void *amph_elf_at_address(const struct amph_elf *elf, ElfW(Addr) address, size_t n)
{
    for (size_t i = 0; i < elf->eh->e_phnum; i++) {
        const ElfW(Phdr) *ph = &elf->ph[i];

        if (ph->p_type != PT_LOAD || address < ph->p_vaddr || address - ph->p_vaddr >= ph->p_filesz)
            continue;

        size_t at = ph->p_offset + (address - ph->p_vaddr);
        bool inside = n <= ph->p_filesz - (address - ph->p_vaddr) && amph_elf_fits(elf, at, n, 1);

        return inside ? elf->at + at : NULL;
    }

    return NULL;
}

const char *amph_elf_string(const struct amph_elf *elf, size_t at)
{
    bool ends = at < elf->nstrings && memchr(elf->strings + at, 0, elf->nstrings - at);

    return ends ? elf->strings + at : NULL;
}

ElfW(Addr) amph_elf_entry(const struct amph_elf *elf, ElfW(Sxword) tag, ElfW(Addr) fallback)
{
    for (size_t i = 0; i < elf->ndyn && elf->dyn[i].d_tag != DT_NULL; i++)
        if (elf->dyn[i].d_tag == tag)
            return elf->dyn[i].d_un.d_val;

    return fallback;
}

static bool view_headers(struct amph_elf *elf)
{
    elf->eh = (void *)elf->at;
    elf->dyn = NULL;
    if (!amph_elf_fits(elf, 0, 1, sizeof *elf->eh) ||
        memcmp(elf->eh->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->eh->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        elf->eh->e_phentsize != sizeof *elf->ph || elf->eh->e_phoff % alignof(ElfW(Phdr)) != 0 ||
        !amph_elf_fits(elf, elf->eh->e_phoff, elf->eh->e_phnum, sizeof *elf->ph))
        return false;

    elf->ph = (void *)(elf->at + elf->eh->e_phoff);

    for (size_t i = 0; i < elf->eh->e_phnum; i++) {
        const ElfW(Phdr) *ph = &elf->ph[i];

        if (ph->p_type != PT_DYNAMIC || ph->p_offset % alignof(ElfW(Dyn)) != 0 ||
            !amph_elf_fits(elf, ph->p_offset, ph->p_filesz, 1))
            continue;

        elf->dyn = (void *)(elf->at + ph->p_offset);
        elf->ndyn = ph->p_filesz / sizeof *elf->dyn;
    }

    return elf->dyn != NULL;
}

bool amph_elf_view(struct amph_elf *elf)
{
    if (!view_headers(elf))
        return false;

    elf->strings_at = amph_elf_entry(elf, DT_STRTAB, 0);
    elf->nstrings = amph_elf_entry(elf, DT_STRSZ, 0);
    elf->strings = amph_elf_at_address(elf, elf->strings_at, elf->nstrings);
    elf->versions_at = amph_elf_entry(elf, DT_VERNEED, 0);
    elf->nversions = amph_elf_entry(elf, DT_VERNEEDNUM, 0);
    if (!elf->strings || amph_elf_entry(elf, DT_NEEDED, SIZE_MAX) == SIZE_MAX)
        return false;

    elf->runpath = amph_elf_string(elf, amph_elf_entry(elf, DT_RUNPATH, SIZE_MAX));
    elf->rpath = elf->runpath ? NULL
                              : amph_elf_string(elf, amph_elf_entry(elf, DT_RPATH, SIZE_MAX));
    return true;
}
