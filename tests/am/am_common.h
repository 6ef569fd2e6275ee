/* SPDX-License-Identifier: BSD-3-Clause */
/* What the multi-process tests of am/ share.  Thread rule: as the test. */
#ifndef TESTS_MP_AM_COMMON_H
#define TESTS_MP_AM_COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/os/arena.h"
#include "base/os/clock.h"

#define CHECK(cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "rank %u: %s:%d: %s: ", amph_job.rank, __FILE__, __LINE__, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            amph_job_exit(1); \
        } \
    } while (0)

/* Every wait of a test ends; what has not come by then is an error. */
#define WAIT_UNTIL(cond) \
    do { \
        struct amph_waiter w_ = AMPH_WAITER_INIT; \
        uint64_t end_ = amph_now_ns() + 50 * AMPH_NS_PER_S; \
        while (!(cond)) { \
            amph_am_wait_step(amph_job.ep, &w_); \
            CHECK(amph_now_ns() < end_, "still waiting"); \
        } \
    } while (0)

static inline void am_start(bool threaded)
{
    if (amph_job_start(threaded) != AMPH_OK)
        exit(1);
}

/* For tests in which two processes talk to each other: a job of another size is skipped. */
static inline void am_needs_two(void)
{
    if (amph_job.size == 2)
        return;

    printf("needs 2 processes\n");
    fflush(stdout);
    amph_job_exit(77);
}

static inline void am_handler(unsigned index, amph_am_fn fn, int kinds, int dirs, int nargs)
{
    const struct amph_am_entry e = { (void *)fn, false, (uint8_t)kinds, (uint8_t)dirs,
                                     nargs,      NULL,  "test" };

    CHECK(amph_am_register(amph_job.ep, index, &e) == AMPH_OK, "handler %u", index);
}

static inline void am_barrier(void)
{
    char mine = 1;
    char *all = malloc(amph_job.size);

    CHECK(all && amph_job_allgather(&mine, 1, all) == AMPH_OK, "barrier");
    free(all);
}

/* A segment of len_bytes, registered and known to all; rmem[size] for the members'.  *base_p is set
 * before others know of it. */
static inline void am_segment(size_t len_bytes, struct amph_rmem *rmem, uint8_t **base_p)
{
    static struct amph_am_mem mem;
    struct amph_arena_part part;

    struct {
        uint8_t key[sizeof mem.key];
        uint32_t len;
    } mine, *all = calloc(amph_job.size, sizeof mine);
    CHECK(all && amph_arena_segment(len_bytes, amph_job.page_bytes, &part) == AMPH_OK, "segment");
    CHECK(amph_am_mem_reg(amph_job.ep, part.base, part.len_bytes, part.fd, part.offset, &mem) ==
              AMPH_OK,
          "mem_reg");
    *base_p = part.base;
    amph_am_set_segment(amph_job.ep, part.base, part.len_bytes);
    memset(&mine, 0, sizeof mine);
    memcpy(mine.key, mem.key, mem.key_len);
    mine.len = (uint32_t)mem.key_len;
    CHECK(amph_job_allgather(&mine, sizeof mine, all) == AMPH_OK, "keys");

    for (uint32_t i = 0; i < amph_job.size; i++) {
        CHECK(amph_am_mem_import(amph_job.ep, i, all[i].key, all[i].len, &rmem[i]) == AMPH_OK,
              "import of %u", i);
        amph_am_set_peer_segment(amph_job.ep, i, &rmem[i]);
    }

    free(all);
    am_barrier(); /* others may be written to from here on, and answer */
}

#endif
