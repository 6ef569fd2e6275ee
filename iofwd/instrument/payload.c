/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data after the end of a program; see instrument.h.
 *
 * Layer: iofwd/instrument.
 *
 * Self-extracting programs locate such data relative to the end of the file or to the table of
 * sections, and both move in a copy.
 */
#include "iofwd/instrument/instrument.h"

#include <elf.h>
#include <string.h>

#include "base/platform.h"

enum {
    TAIL_BYTES = (64 << 10) + 64 /* a zip archive's directory ends within these */
};

/* The signatures of archives, at their start or near the end of the file. */
struct kind {
    const char *phrase, *bytes;
    size_t len;
    bool at_start;
};

// clang-format off
static const struct kind kinds[] = {
    { "a PyInstaller archive",     "MEI\014\013\012\013\016", 8, false },
    { "a zip archive",             "PK\005\006",              4, false },
    { "a squashfs image",          "hsqs",                    4, true },
    { "a 7-zip archive",           "7z\274\257\047\034",      6, true },
    { "a gzip archive",            "\037\213",                2, true },
    { "an xz archive",             "\3757zXZ",                5, true },
    { "a zstd archive",            "\050\265\057\375",        4, true },
    { "a bzip2 archive",           "BZh",                     3, true },
    { "another program",           "\177ELF",                 4, true },
};
// clang-format on

static void reach(size_t *end_p, size_t at, size_t len)
{
    if (at + len > *end_p)
        *end_p = at + len;
}

/* Returns the end of everything that the headers refer to. */
static size_t program_end(const struct amph_elf *elf, const struct amph_instrument_sections *s)
{
    size_t end = elf->eh->e_phoff + elf->eh->e_phnum * sizeof *elf->ph;

    for (size_t i = 0; i < elf->eh->e_phnum; i++)
        if (amph_elf_fits(elf, elf->ph[i].p_offset, elf->ph[i].p_filesz, 1))
            reach(&end, elf->ph[i].p_offset, elf->ph[i].p_filesz);

    for (size_t i = 0; i < s->n; i++)
        if (s->sh[i].sh_type != SHT_NOBITS && s->sh[i].sh_type != SHT_NULL)
            reach(&end, s->sh[i].sh_offset, s->sh[i].sh_size);

    if (s->n)
        reach(&end, elf->eh->e_shoff, s->n * sizeof *s->sh);

    return end;
}

static bool is_zero(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (at[i])
            return false;

    return true;
}

const char *amph_instrument_payload(const struct amph_elf *elf,
                                    const struct amph_instrument_sections *s)
{
    size_t end = program_end(elf, s);
    const char *at = elf->at + end;
    size_t len = elf->len - end;

    if (memcmp(elf->eh->e_ident + EI_PAD - 1, "AI", 2) == 0)
        return "an AppImage's file system";
    if (is_zero(at, len))
        return NULL;

    const char *tail = len > TAIL_BYTES ? at + len - TAIL_BYTES : at;

    for (size_t i = 0; i < AMPH_COUNTOF(kinds); i++) {
        const struct kind *k = &kinds[i];
        bool begins = len >= k->len && memcmp(at, k->bytes, k->len) == 0;
        bool here = k->at_start ? begins
                                : memmem(tail, (size_t)(at + len - tail), k->bytes, k->len) != NULL;

        if (here)
            return k->phrase;
    }

    return "data";
}
