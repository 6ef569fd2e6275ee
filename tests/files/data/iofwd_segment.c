/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes of random places and lengths whose buffers lie in the segment, across its ends,
 * and in other memory, mixed; the file is compared with a model, and what the client counts tells
 * that the segment was used in place.   iofwd_segment SEED
 */
#include <gasnetex.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iofwd.h"

enum {
    FILE_BYTES = 6 << 20,
    ROUNDS = 150,
    ALIGN = 4096
};

static uint8_t model[FILE_BYTES];
static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static void need(int ok, const char *what, uint64_t round)
{
    if (ok)
        return;

    fprintf(stderr, "%s, round %llu\n", what, (unsigned long long)round);
    gasnet_exit(1);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;

    if (argc != 2 || gex_Client_Init(&client, &ep, &tm, "SEGMENT", &argc, &argv, 0) != GASNET_OK)
        return 1;

    state = strtoull(argv[1], NULL, 0) * 16 + gex_TM_QueryRank(tm);

    uintptr_t bytes = 8 << 20;

    if (gex_Segment_Attach(&segment, tm, bytes) != GASNET_OK)
        gasnet_exit(1);

    uint8_t *seg = gex_Segment_QueryAddr(segment);
    uint8_t *heap = malloc(FILE_BYTES);
    char path[64];

    snprintf(path, sizeof path, "/fwd/seg.%u.%d", (unsigned)gex_TM_QueryRank(tm), (int)getpid());

    iofwd_file_t *f;

    need(heap && iofwd_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &f) == 0, "open", 0);

    uint64_t size = 0;
    uint64_t expected = 0;

    for (uint64_t i = 0; i < ROUNDS; i++) {
        size_t len = 1 + draw(draw(3) ? 200000 : FILE_BYTES);
        size_t n = 0;
        size_t at = draw(FILE_BYTES - len + 1);

        /* whole blocks beside parts of blocks: with IOFWD_DIRECT only the first pass the cache */
        if (len >= ALIGN && draw(2)) {
            len -= len % ALIGN;
            at -= at % ALIGN;
        }

        int in_segment = draw(3) != 0;
        uint8_t *buf = in_segment ? seg + draw(bytes - len + 1) : heap;

        if (in_segment && draw(8) == 0)
            buf = seg + bytes - len; /* up to its last byte */

        if (draw(2)) {
            for (size_t k = 0; k < len; k++)
                buf[k] = model[at + k] = (uint8_t)(draw(2) + i + k * 7);

            need(iofwd_pwrite(f, buf, len, (off_t)at, &n) == 0 && n == len, "pwrite", i);
            size = size > at + len ? size : at + len;
        } else {
            size_t wanted = 0;

            if (at < size)
                wanted = size - at < len ? size - at : len;

            memset(buf, 0xee, len);
            need(iofwd_pread(f, buf, len, (off_t)at, &n) == 0 && n == wanted, "pread: bytes", i);
            need(memcmp(buf, model + at, n) == 0, "pread: contents", i);
            for (size_t k = n; k < len; k++)
                need(buf[k] == 0xee, "pread: beyond the end", i);
        }

        expected += in_segment && len >= 16 << 10 ? n : 0;
    }

    struct iofwd_counters c;

    iofwd_counters(&c);
    need(expected > 0 && c.bytes_in_place >= expected / 2, "counted in place", c.bytes_in_place);
    need(iofwd_close(f) == 0 && iofwd_unlink(path) == 0, "close", 0);
    gasnet_exit(0);

    return 0;
}
