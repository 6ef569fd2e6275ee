/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes the copy of a program that needs the preload library; see instrument.h.
 *
 * Layer: iofwd/instrument.
 */
#include "iofwd/instrument/instrument.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program/note.h"
#include "base/platform.h"

#define LIBRARY "libiofwd_preload.so"
#define PATHS_MAX 2 /* DT_RPATH and DT_RUNPATH */

/* Everything about one copy. */
struct work {
    const struct amph_instrument_bytes *in;
    const struct amph_instrument_plan *plan;
    struct amph_elf elf; /* the original */
    struct amph_instrument_sections sections;
    struct amph_elf_segment_slot slot;
    struct amph_instrument_layout layout;
    struct amph_instrument_undo undo;
    size_t first; /* index of the dynamic entry that the new one takes */
    size_t end;   /* index of the first DT_NULL */
    struct amph_instrument_symbol symbol[AMPH_INSTRUMENT_SYMBOLS];
    size_t nsymbols;
    struct {
        size_t dyn;
        char *text; /* the search path without $ORIGIN */
    } path[PATHS_MAX];
    size_t npaths;
    char *why;
};

static bool refuse(struct work *w, const char *why)
{
    snprintf(w->why, AMPH_INSTRUMENT_WHY, "%s", why);
    return false;
}

static size_t padded(size_t n, size_t align)
{
    return (n + align - 1) / align * align;
}

/* ---- the original ---- */

const ElfW(Phdr) * amph_instrument_segment(const struct amph_elf *elf)
{
    for (size_t i = 0; i < elf->eh->e_phnum; i++) {
        const ElfW(Phdr) *ph = &elf->ph[i];
        struct amph_note note;

        if (ph->p_type != PT_LOAD || !amph_elf_fits(elf, ph->p_offset, ph->p_filesz, 1) ||
            ph->p_filesz < sizeof note)
            continue;

        memcpy(&note, elf->at + ph->p_offset, sizeof note);
        if (note.namesz == sizeof note.name && note.type == AMPH_NOTE_SETTINGS &&
            memcmp(note.name, AMPH_NOTE_NAME, sizeof note.name) == 0)
            return ph;
    }

    return NULL;
}

static bool is_sanitizer(const char *name)
{
    const char *suffix = strstr(name, "san.so");

    return strncmp(name, "lib", 3) == 0 && suffix && (suffix[6] == 0 || suffix[6] == '.');
}

/* Finds where the new entry goes: before all other libraries, but behind those of sanitizers, which
 * insist on being first. */
static bool find_entry(struct work *w)
{
    const struct amph_elf *elf = &w->elf;
    size_t n = 0;

    w->first = SIZE_MAX;
    while (n < elf->ndyn && elf->dyn[n].d_tag != DT_NULL) {
        const char *name = elf->dyn[n].d_tag == DT_NEEDED
                               ? amph_elf_string(elf, elf->dyn[n].d_un.d_val)
                               : NULL;

        if (elf->dyn[n].d_tag == DT_NEEDED && !name)
            return refuse(w, "names a library outside of its string table: the file is damaged");
        if (name && strstr(name, LIBRARY))
            return refuse(w, "needs " LIBRARY
                             " already: it forwards without iofwd-instrument (was it linked by "
                             "iofwd-cc?)");
        if (name && w->first == SIZE_MAX && !is_sanitizer(name))
            w->first = n;

        n++;
    }

    if (n == elf->ndyn)
        return refuse(w, "has a dynamic section without an end: the file is damaged");

    w->end = n;
    if (w->first == SIZE_MAX)
        w->first = n;

    return true;
}

static bool has_interpreter(const struct amph_elf *elf)
{
    for (size_t i = 0; i < elf->eh->e_phnum; i++)
        if (elf->ph[i].p_type == PT_INTERP)
            return true;

    return false;
}

/* A library that can also be executed, such as libc.so.6, has an interpreter too.  It has a name as a
 * library, and the linker has not marked it as a program. */
static bool is_library(const struct amph_elf *elf)
{
    bool named = amph_elf_entry(elf, DT_SONAME, SIZE_MAX) != SIZE_MAX;

    return !has_interpreter(elf) ||
           (elf->eh->e_type == ET_DYN && named && !(amph_elf_entry(elf, DT_FLAGS_1, 0) & DF_1_PIE));
}

static bool look_at_original(struct work *w)
{
    w->elf = (struct amph_elf){ .at = w->in->at, .len = w->in->len };
    if (!amph_elf_view(&w->elf))
        return refuse(w, "is not a dynamic program of this machine, or it is cut off or damaged; "
                         "only whole dynamic programs can be instrumented");
    if (amph_instrument_segment(&w->elf))
        return refuse(w, "is instrumented already; restore the original by --undo first");
    if (is_library(&w->elf))
        return refuse(w, "is a shared library; instrument the program that loads it");
    if (!amph_instrument_sections_view(&w->elf, &w->sections))
        return refuse(w, "has a damaged table of sections; take an undamaged copy of the program");

    const char *payload = amph_instrument_payload(&w->elf, &w->sections);

    if (payload) {
        snprintf(w->why, AMPH_INSTRUMENT_WHY,
                 "has %s behind its end, which it would not find in a longer file; unpack it and "
                 "instrument the program inside, or run this one by iofwd-run",
                 payload);
        return false;
    }

    if (!amph_elf_find_segment_slot(&w->elf, &w->slot))
        return refuse(w, "has no program header to spare (no note segment), or no address space "
                         "behind its end; run it by iofwd-run");

    return find_entry(w);
}

/* ---- search paths ---- */

/* Replaces $ORIGIN; NULL: no memory. */
static char *expanded(const char *text, const char *origin)
{
    static const char *const forms[] = { "${ORIGIN}", "$ORIGIN" };
    size_t longer = strlen(origin);
    char *out = malloc(strlen(text) * (longer + 1) + 1);
    char *to = out;

    while (out && *text) {
        size_t taken = 0;

        for (size_t i = 0; i < AMPH_COUNTOF(forms) && !taken; i++)
            if (strncmp(text, forms[i], strlen(forms[i])) == 0)
                taken = strlen(forms[i]);

        memcpy(to, taken ? origin : text, taken ? longer : 1);
        to += taken ? longer : 1;
        text += taken ? taken : 1;
    }

    if (out)
        *to = 0;

    return out;
}

/* Expands $ORIGIN in the search paths, because the copy is in another folder and must still find
 * the libraries beside the original. */
static bool expand_paths(struct work *w)
{
    const struct amph_elf *elf = &w->elf;

    for (size_t i = 0; w->plan->origin && i < w->end; i++) {
        ElfW(Sxword) tag = elf->dyn[i].d_tag;
        const char *text = tag == DT_RPATH || tag == DT_RUNPATH || tag == DT_NEEDED
                               ? amph_elf_string(elf, elf->dyn[i].d_un.d_val)
                               : NULL;

        if (!text || !strstr(text, "ORIGIN"))
            continue;
        if (tag == DT_NEEDED)
            return refuse(w, "needs a library by a path with $ORIGIN; write the copy into the "
                             "program's own folder (-o)");
        if (w->npaths == PATHS_MAX)
            return refuse(w, "has more than two search paths of libraries: the file is damaged");

        char *path = expanded(text, w->plan->origin);

        if (!path)
            return refuse(w, "does not fit into memory");

        w->path[w->npaths].dyn = i;
        w->path[w->npaths++].text = path;
    }

    return true;
}

/* ---- the new segment ---- */

static size_t note_len(size_t desc_len)
{
    return sizeof(struct amph_note) + padded(desc_len, 4);
}

static char *put_note(char *to, unsigned type, size_t desc_len)
{
    struct amph_note note = { .namesz = sizeof note.name,
                              .descsz = (unsigned)desc_len,
                              .type = type,
                              .name = AMPH_NOTE_NAME };

    memcpy(to, &note, sizeof note);
    return to + sizeof note;
}

/* Lays out the copy: positions of the new parts, and the pieces of the original that change. */
static void lay_out(struct work *w)
{
    struct amph_instrument_layout *l = &w->layout;
    const struct amph_elf *elf = &w->elf;
    ElfW(Off) from = w->slot.offset;
    size_t text_len = strlen(w->plan->library) + 1;
    bool moves = w->end + 1 == elf->ndyn;

    for (size_t i = 0; i < w->npaths; i++)
        text_len += strlen(w->path[i].text) + 1;

    amph_instrument_undo_add(&w->undo, 0, sizeof *elf->eh);
    amph_instrument_undo_add(&w->undo, elf->eh->e_phoff, elf->eh->e_phnum * sizeof *elf->ph);
    if (!moves)
        amph_instrument_undo_add(&w->undo, (size_t)((char *)elf->dyn - elf->at),
                                 elf->ndyn * sizeof *elf->dyn);

    /* how many symbols change does not depend on where the parts go */
    l->dynamic = (struct amph_instrument_part){ .address = 1, .len = moves };
    l->strings.address = 1;
    w->nsymbols = amph_instrument_moved_symbols(&w->sections, elf, l, w->symbol,
                                                AMPH_COUNTOF(w->symbol));
    for (size_t i = 0; i < w->nsymbols; i++)
        amph_instrument_undo_add(&w->undo, w->symbol[i].at, sizeof w->symbol[i].value);

    l->notes.len = note_len(w->plan->settings_len) + note_len(amph_instrument_undo_len(&w->undo));
    l->strings.len = elf->nstrings + text_len;
    l->dynamic.len = moves ? (elf->ndyn + 1) * sizeof *elf->dyn : 0;

    struct amph_instrument_part *parts[] = { &l->notes, &l->strings, &l->dynamic };

    for (size_t i = 0; i < AMPH_COUNTOF(parts); i++) {
        parts[i]->offset = from;
        parts[i]->address = w->slot.address + (from - w->slot.offset);
        from = padded(from + parts[i]->len, sizeof(ElfW(Dyn)));
    }

    amph_instrument_moved_symbols(&w->sections, elf, l, w->symbol, w->nsymbols);
}

static size_t segment_end(const struct work *w)
{
    const struct amph_instrument_part *last = w->layout.dynamic.len ? &w->layout.dynamic
                                                                    : &w->layout.strings;

    return last->offset + last->len;
}

static void put_notes(const struct work *w, char *copy)
{
    size_t undo_len = amph_instrument_undo_len(&w->undo);
    char *settings = put_note(copy + w->layout.notes.offset, AMPH_NOTE_SETTINGS,
                              w->plan->settings_len);

    memcpy(settings, w->plan->settings, w->plan->settings_len);

    char *undo = put_note(settings + padded(w->plan->settings_len, 4), AMPH_NOTE_UNDO, undo_len);

    amph_instrument_undo_put(&w->undo, w->in, undo);
}

static void put_dynamic(const struct work *w, char *copy)
{
    const struct amph_elf *elf = &w->elf;
    const struct amph_instrument_layout *l = &w->layout;
    char *text = copy + l->strings.offset + elf->nstrings;
    size_t at = elf->nstrings;
    size_t in_place = (size_t)((char *)elf->dyn - elf->at);
    ElfW(Dyn) *dyn = (void *)(copy + (l->dynamic.len ? l->dynamic.offset : in_place));

    memcpy(copy + l->strings.offset, elf->strings, elf->nstrings);
    memcpy(dyn, elf->dyn, w->first * sizeof *dyn);
    memmove(dyn + w->first + 1, elf->dyn + w->first, (w->end - w->first) * sizeof *dyn);

    strcpy(text, w->plan->library);
    dyn[w->first] = (ElfW(Dyn)){ .d_tag = DT_NEEDED, .d_un.d_val = at };
    dyn[w->end + 1] = (ElfW(Dyn)){ .d_tag = DT_NULL };

    for (size_t i = 0; i < w->npaths; i++) {
        size_t before = strlen(text) + 1;
        size_t index = w->path[i].dyn + (w->path[i].dyn >= w->first);

        text += before;
        at += before;
        strcpy(text, w->path[i].text);
        dyn[index].d_un.d_val = at;
    }

    for (size_t i = 0; i <= w->end; i++)
        if (dyn[i].d_tag == DT_STRTAB)
            dyn[i].d_un.d_ptr = l->strings.address;
        else if (dyn[i].d_tag == DT_STRSZ)
            dyn[i].d_un.d_val = l->strings.len;
}

/* Makes the header of the dynamic section point to the moved one. */
static void move_dynamic(const struct work *w, char *copy)
{
    const struct amph_instrument_part *moved = &w->layout.dynamic;
    ElfW(Phdr) *ph = (void *)(copy + w->elf.eh->e_phoff);

    for (size_t i = 0; i < w->elf.eh->e_phnum; i++)
        if (ph[i].p_type == PT_DYNAMIC) {
            ph[i].p_offset = moved->offset;
            ph[i].p_vaddr = ph[i].p_paddr = moved->address;
            ph[i].p_filesz = ph[i].p_memsz = moved->len;
        }
}

/* Verifies the copy by restoring the original from it: overlapping headers would have been
 * changed twice. */
static bool verify(struct work *w, const struct amph_instrument_bytes *out)
{
    struct amph_instrument_bytes again = { 0 };
    struct amph_elf elf = { .at = out->at, .len = out->len };
    char why[AMPH_INSTRUMENT_WHY];
    const char *name = amph_elf_view(&elf) && amph_instrument_segment(&elf) && w->first < elf.ndyn
                           ? amph_elf_string(&elf, elf.dyn[w->first].d_un.d_val)
                           : NULL;
    bool same = name && strcmp(name, w->plan->library) == 0 &&
                amph_instrument_undo(out, &again, why) && again.len == w->in->len &&
                memcmp(again.at, w->in->at, again.len) == 0;

    free(again.at);
    return same || refuse(w, "has headers that overlap: the file is damaged");
}

static bool build(struct work *w, struct amph_instrument_bytes *out_p)
{
    size_t end = segment_end(w);
    size_t room = amph_instrument_sections_room(&w->sections, &w->elf, end);
    char *copy = calloc(1, end + room);

    if (!copy)
        return refuse(w, "does not fit into memory");

    struct amph_instrument_bytes out = { copy, end + room };
    struct amph_elf moved = {
        .at = copy, .len = out.len, .eh = (void *)copy, .ph = (void *)(copy + w->elf.eh->e_phoff)
    };

    memcpy(copy, w->in->at, w->in->len);
    put_notes(w, copy);
    put_dynamic(w, copy);
    if (w->layout.dynamic.len)
        move_dynamic(w, copy);

    for (size_t i = 0; i < w->nsymbols; i++)
        memcpy(copy + w->symbol[i].at, &w->symbol[i].value, sizeof w->symbol[i].value);

    amph_elf_put_segment(&moved, &w->slot, PF_R | (w->layout.dynamic.len ? PF_W : 0),
                         end - w->slot.offset);
    amph_instrument_sections_put(&w->sections, &w->elf, &w->layout, copy, end);

    if (!verify(w, &out)) {
        free(copy);
        return false;
    }

    *out_p = out;
    return true;
}

bool amph_instrument_make(const struct amph_instrument_bytes *in,
                          const struct amph_instrument_plan *plan,
                          struct amph_instrument_bytes *out_p, char why[AMPH_INSTRUMENT_WHY])
{
    struct work w = { .in = in, .plan = plan, .why = why };
    bool ok = look_at_original(&w) && expand_paths(&w);

    if (ok) {
        lay_out(&w);
        ok = build(&w, out_p);
    }

    for (size_t i = 0; i < w.npaths; i++)
        free(w.path[i].text);

    return ok;
}
