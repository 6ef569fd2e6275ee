/* SPDX-License-Identifier: BSD-3-Clause */
/* Gathering tables of many sizes, back to back, so that members run ahead of each other; then an
 * orderly return from main. */
#include "tests/am/am_common.h"

static uint8_t byte(uint32_t rank, size_t i, unsigned call)
{
    return (uint8_t)(rank * 17 + i * 3 + i / 256 + call);
}

static void one(size_t len, unsigned call)
{
    uint8_t *mine = malloc(len + 1);
    uint8_t *all = malloc(len * amph_job.size + 1);

    CHECK(mine && all, "memory");
    for (size_t i = 0; i < len; i++)
        mine[i] = byte(amph_job.rank, i, call);

    CHECK(amph_job_allgather(mine, len, all) == AMPH_OK, "gather of %zu", len);
    for (uint32_t r = 0; r < amph_job.size; r++)
        for (size_t i = 0; i < len; i++)
            CHECK(all[r * len + i] == byte(r, i, call),
                  "call %u, length %zu: byte %zu of member %u", call, len, i, r);

    free(mine);
    free(all);
}

int main(void)
{
    static const size_t len[] = { 1, 0, 8, 333, 65408, 65409, 300000, 1, 1, 1 };

    am_start(false);
    CHECK(amph_job.page_bytes >= 4096 && amph_job.rank < amph_job.size, "job");
    for (unsigned call = 0; call < 60; call++)
        one(len[call % (sizeof len / sizeof len[0])], call);

    printf("page %zu\n", amph_job.page_bytes);
    return 0;
}
