/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of sections of an instrumented program; see instrument.h.
 *
 * Layer: iofwd/instrument.
 *
 * The dynamic linker does not read this table; strip, debuggers and eu-elflint do.  The old table
 * and its names stay in the file, unused.  The new section contains notes but does not have their
 * type, because eu-elflint knows only notes of the owner GNU.
 */
#include "iofwd/instrument/instrument.h"

#include <elf.h>
#include <link.h>
#include <stdalign.h>
#include <string.h>

static const char section_name[] = ".amphora";

enum {
    TABLE_ALIGN = 8
};

static bool is_in_file(const ElfW(Shdr) * sh)
{
    return sh->sh_type != SHT_NOBITS && sh->sh_type != SHT_NULL;
}

bool amph_instrument_sections_view(const struct amph_elf *elf, struct amph_instrument_sections *s_p)
{
    const ElfW(Ehdr) *eh = elf->eh;

    *s_p = (struct amph_instrument_sections){ .strings_at = elf->strings_at };
    for (size_t i = 0; i < eh->e_phnum; i++)
        if (elf->ph[i].p_type == PT_DYNAMIC)
            s_p->dynamic_at = elf->ph[i].p_vaddr;

    if (eh->e_shoff == 0)
        return true;

    if (eh->e_shentsize != sizeof *s_p->sh || eh->e_shoff % alignof(ElfW(Shdr)) != 0 ||
        eh->e_shnum == 0 || eh->e_shnum + 1 >= SHN_LORESERVE || eh->e_shstrndx >= eh->e_shnum ||
        !amph_elf_fits(elf, eh->e_shoff, eh->e_shnum, sizeof *s_p->sh))
        return false;

    s_p->sh = (void *)(elf->at + eh->e_shoff);
    s_p->n = eh->e_shnum;
    s_p->names = eh->e_shstrndx;

    for (size_t i = 0; i < s_p->n; i++)
        if (is_in_file(&s_p->sh[i]) &&
            !amph_elf_fits(elf, s_p->sh[i].sh_offset, s_p->sh[i].sh_size, 1))
            return false;

    return is_in_file(&s_p->sh[s_p->names]) && !(s_p->sh[s_p->names].sh_flags & SHF_ALLOC);
}

/* The table follows the names. */
static size_t table_at(const struct amph_instrument_sections *s, size_t at)
{
    size_t end = at + s->sh[s->names].sh_size + sizeof section_name;

    return (end + TABLE_ALIGN - 1) / TABLE_ALIGN * TABLE_ALIGN;
}

size_t amph_instrument_sections_room(const struct amph_instrument_sections *s,
                                     const struct amph_elf *elf, size_t at)
{
    (void)elf;
    return s->n ? table_at(s, at) + (s->n + 1) * sizeof *s->sh - at : 0;
}

static bool is_strings(const struct amph_instrument_sections *s, const ElfW(Shdr) * sh)
{
    return sh->sh_type == SHT_STRTAB && (sh->sh_flags & SHF_ALLOC) && sh->sh_addr == s->strings_at;
}

static bool is_dynamic(const struct amph_instrument_sections *s, const ElfW(Shdr) * sh)
{
    return sh->sh_type == SHT_DYNAMIC && sh->sh_addr == s->dynamic_at;
}

static void move(ElfW(Shdr) * sh, const struct amph_instrument_part *to)
{
    sh->sh_offset = to->offset;
    sh->sh_addr = to->address;
    sh->sh_size = to->len;
}

void amph_instrument_sections_put(const struct amph_instrument_sections *s,
                                  const struct amph_elf *elf,
                                  const struct amph_instrument_layout *layout, char *copy,
                                  size_t at)
{
    if (s->n == 0)
        return;

    ElfW(Ehdr) *eh = (void *)copy;
    size_t table = table_at(s, at);
    ElfW(Shdr) *sh = (void *)(copy + table);
    ElfW(Shdr) *names = &sh[s->names];
    size_t names_len = s->sh[s->names].sh_size;

    memcpy(sh, s->sh, s->n * sizeof *sh);
    memcpy(copy + at, elf->at + names->sh_offset, names_len);
    memcpy(copy + at + names_len, section_name, sizeof section_name);
    names->sh_offset = at;
    names->sh_size = names_len + sizeof section_name;

    for (size_t i = 0; i < s->n; i++)
        if (is_strings(s, &s->sh[i]))
            move(&sh[i], &layout->strings);
        else if (layout->dynamic.len && is_dynamic(s, &s->sh[i]))
            move(&sh[i], &layout->dynamic);

    sh[s->n] = (ElfW(Shdr)){ .sh_name = (ElfW(Word))names_len,
                             .sh_type = SHT_PROGBITS,
                             .sh_flags = SHF_ALLOC,
                             .sh_addralign = 4 };
    move(&sh[s->n], &layout->notes);
    eh->e_shoff = table;
    eh->e_shnum = (ElfW(Half))(s->n + 1);
}

/* The address of the moved section with this index; 0: the section stays. */
static ElfW(Addr) moved_to(const struct amph_instrument_sections *s,
                           const struct amph_instrument_layout *layout, size_t index)
{
    const ElfW(Shdr) *sh = index < s->n ? &s->sh[index] : NULL;

    if (sh && is_strings(s, sh))
        return layout->strings.address;

    return sh && layout->dynamic.len && is_dynamic(s, sh) ? layout->dynamic.address : 0;
}

size_t amph_instrument_moved_symbols(const struct amph_instrument_sections *s,
                                     const struct amph_elf *elf,
                                     const struct amph_instrument_layout *layout,
                                     struct amph_instrument_symbol *found, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < s->n; i++) {
        const ElfW(Shdr) *table = &s->sh[i];

        if (table->sh_type != SHT_SYMTAB || table->sh_offset % alignof(ElfW(Sym)) != 0)
            continue;

        const ElfW(Sym) *sym = (const void *)(elf->at + table->sh_offset);

        for (size_t k = 0; k < table->sh_size / sizeof *sym && count < max; k++) {
            ElfW(Addr) to = moved_to(s, layout, sym[k].st_shndx);

            if (to && sym[k].st_value == s->sh[sym[k].st_shndx].sh_addr)
                found[count++] = (struct amph_instrument_symbol){
                    (size_t)((const char *)&sym[k].st_value - elf->at), to
                };
        }
    }

    return count;
}
