/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target of program files for iofwd-instrument and of the copies that it restores.  Run by
 * tests/fuzz/fuzz.sh.  The last four bytes of the input damage the copy.
 */
#include <stdlib.h>
#include <string.h>

#include "iofwd/instrument/instrument.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char settings[] = "AMPHORA_JOB=/servers\0IOFWD_PREFIX=/fwd";

static struct amph_instrument_bytes copy_of(const void *at, size_t len)
{
    struct amph_instrument_bytes b = { malloc(len ? len : 1), len };

    memcpy(b.at, at, len);
    return b;
}

/* What is refused has a sentence; what is made leads back to the original. */
static bool make(const struct amph_instrument_bytes *in, const char *origin,
                 struct amph_instrument_bytes *out_p)
{
    const struct amph_instrument_plan plan = { .library = "/lib/libiofwd_preload.so",
                                               .settings = settings,
                                               .settings_len = sizeof settings,
                                               .origin = origin };
    struct amph_instrument_bytes again;
    char why[AMPH_INSTRUMENT_WHY] = "";

    if (!amph_instrument_make(in, &plan, out_p, why)) {
        if (!why[0])
            abort();

        return false;
    }

    if (!amph_instrument_undo(out_p, &again, why) || again.len != in->len ||
        memcmp(again.at, in->at, in->len) != 0)
        abort();

    free(again.at);
    return true;
}

static void damage(struct amph_instrument_bytes *b, const uint8_t how[4])
{
    size_t at = (size_t)how[0] | (size_t)how[1] << 8;

    if (at < b->len)
        b->at[at] = (char)how[2];
    if (how[3] && how[3] < b->len)
        b->len -= how[3];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct amph_instrument_bytes out, again;
    char why[AMPH_INSTRUMENT_WHY] = "";

    if (len < 4)
        return 0;

    struct amph_instrument_bytes in = copy_of(bytes, len - 4);

    if (make(&in, len % 2 ? "/folder" : NULL, &out)) {
        damage(&out, bytes + len - 4);

        struct amph_instrument_bytes whole = copy_of(out.at, out.len);

        if (amph_instrument_undo(&whole, &again, why))
            free(again.at);
        if (make(&whole, NULL, &again))
            free(again.at);

        free(whole.at);
        free(out.at);
    }

    if (amph_instrument_undo(&in, &again, why))
        free(again.at);

    free(in.at);
    return 0;
}
