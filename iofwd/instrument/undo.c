/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restores the original of an instrumented program; see instrument.h.
 *
 * Layer: iofwd/instrument.
 *
 * The note of the copy contains the length of the original, its checksum, and the pieces that the
 * copy has changed.  All other bytes of the original are unchanged in the copy.  A copy that
 * another tool has rewritten, such as strip, fails the checksum.
 */
#include "iofwd/instrument/instrument.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/program/note.h"

struct record {
    uint64_t len, sum, npieces;
};

struct piece {
    uint64_t at, len; /* the bytes follow, up to a multiple of 8 */
};

static size_t padded(size_t n)
{
    return (n + 7) / 8 * 8;
}

/* Computes FNV-1a.  It detects accidental changes; an adversary could change the program itself. */
static uint64_t checksum(const char *at, size_t len)
{
    uint64_t sum = 0xcbf29ce484222325;

    for (size_t i = 0; i < len; i++)
        sum = (sum ^ (unsigned char)at[i]) * 0x100000001b3;

    return sum;
}

void amph_instrument_undo_add(struct amph_instrument_undo *u, size_t at, size_t len)
{
    u->piece[u->n].at = at;
    u->piece[u->n++].len = len;
}

size_t amph_instrument_undo_len(const struct amph_instrument_undo *u)
{
    size_t len = sizeof(struct record);

    for (size_t i = 0; i < u->n; i++)
        len += sizeof(struct piece) + padded(u->piece[i].len);

    return len;
}

void amph_instrument_undo_put(const struct amph_instrument_undo *u,
                              const struct amph_instrument_bytes *in, char *record)
{
    struct record r = { in->len, checksum(in->at, in->len), u->n };

    memcpy(record, &r, sizeof r);
    record += sizeof r;

    for (size_t i = 0; i < u->n; i++) {
        struct piece p = { u->piece[i].at, u->piece[i].len };

        memcpy(record, &p, sizeof p);
        memcpy(record + sizeof p, in->at + p.at, p.len);
        record += sizeof p + padded(p.len);
    }
}

/* Finds the record in the notes of the added segment. */
static const char *find_record(const struct amph_elf *elf, const ElfW(Phdr) * ph, size_t *len_p)
{
    const char *at = elf->at + ph->p_offset;
    const char *end = at + ph->p_filesz;
    struct amph_note note;

    while ((size_t)(end - at) >= sizeof note) {
        memcpy(&note, at, sizeof note);
        at += sizeof note;
        if (note.namesz != sizeof note.name ||
            memcmp(note.name, AMPH_NOTE_NAME, sizeof note.name) != 0 ||
            note.descsz > (size_t)(end - at))
            return NULL;

        if (note.type == AMPH_NOTE_UNDO) {
            *len_p = note.descsz;
            return at;
        }

        size_t step = ((size_t)note.descsz + 3) / 4 * 4;

        if (step > (size_t)(end - at))
            return NULL;

        at += step;
    }

    return NULL;
}

/* Puts the pieces of the record back; false: it is damaged. */
static bool put_back(const char *at, size_t len, size_t npieces, struct amph_instrument_bytes *out)
{
    for (size_t i = 0; i < npieces; i++) {
        struct piece p;

        if (len < sizeof p)
            return false;

        memcpy(&p, at, sizeof p);
        at += sizeof p;
        len -= sizeof p;
        if (p.len > len || padded(p.len) > len || p.at > out->len || p.len > out->len - p.at)
            return false;

        memcpy(out->at + p.at, at, p.len);
        at += padded(p.len);
        len -= padded(p.len);
    }

    return true;
}

bool amph_instrument_undo(const struct amph_instrument_bytes *in,
                          struct amph_instrument_bytes *out_p, char why[AMPH_INSTRUMENT_WHY])
{
    struct amph_elf elf = { .at = in->at, .len = in->len };
    const ElfW(Phdr) *ph = amph_elf_view(&elf) ? amph_instrument_segment(&elf) : NULL;
    size_t len = 0;
    const char *at = ph ? find_record(&elf, ph, &len) : NULL;
    struct record r;

    if (!at || len < sizeof r) {
        snprintf(why, AMPH_INSTRUMENT_WHY, "is not an output of iofwd-instrument");
        return false;
    }

    memcpy(&r, at, sizeof r);

    struct amph_instrument_bytes out = { NULL, r.len };

    if (r.len <= in->len && r.npieces <= AMPH_INSTRUMENT_PIECES)
        out.at = malloc(out.len ? out.len : 1);
    if (out.at) {
        memcpy(out.at, in->at, out.len);
        if (put_back(at + sizeof r, len - sizeof r, r.npieces, &out) &&
            checksum(out.at, out.len) == r.sum) {
            *out_p = out;
            return true;
        }
    }

    free(out.at);
    snprintf(why, AMPH_INSTRUMENT_WHY,
             "has been changed since it was instrumented (by strip?), so the original cannot be "
             "restored from it; take the original itself");
    return false;
}
