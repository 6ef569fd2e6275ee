/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target of the messages of the libfabric conduits.  Run by tests/fuzz/fuzz.sh.  The first
 * byte says what is right in the input: 1, the cookie; 2, version and kind. */
#include "conduits/ofi/rx.c"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    COOKIE = 77
};

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    static volatile unsigned sum;
    const uint8_t *b = am->payload;

    for (unsigned i = 0; i < am->nargs; i++)
        sum += (unsigned)am->args[i];

    for (uint32_t i = 0; amph_ofi_kind_packs(am->kind) && i < am->nbytes; i++)
        sum += b[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct amph_upcalls upcalls = { on_am, NULL };
    static struct amph_ofi_peer peers[2] = { { .cookie_in = COOKIE, .state = OFI_PEER_UP } };
    struct amph_ofi_cx cx = { .base.cfg = { .name = "fuzz", .max_peers = 2, .upcalls = &upcalls },
                              .peer = peers };

    if (len < 1)
        return 0;

    uint8_t how = *bytes++;

    len--;

    uint8_t *msg = aligned_alloc(8, (len + 7 + 8) & ~(size_t)7);
    uint8_t *exact = msg;

    if (!(how & 4))
        exact = malloc(len ? len : 1); /* one whose end a sanitizer knows */

    memcpy(exact, bytes, len);

    struct amph_ofi_hdr *h = (struct amph_ofi_hdr *)(void *)exact;

    if (len >= sizeof *h && (how & 1)) {
        h->cookie = amph_le64(COOKIE);
        h->src = 0;
    }

    if (len >= sizeof *h && (how & 2)) {
        h->version = OFI_WIRE_VERSION;
        h->kind %= AMPH_AM_INTERNAL + 1;
        h->nargs %= AMPH_AM_MAX_ARGS + 1;
        if (amph_ofi_kind_packs(h->kind) && len >= amph_ofi_head_len(h->nargs))
            h->nbytes = amph_le32((uint32_t)(len - amph_ofi_head_len(h->nargs)));
    }

    deliver(&cx, exact, len, 3);
    if (exact != msg)
        free(exact);

    free(msg);
    return 0;
}
