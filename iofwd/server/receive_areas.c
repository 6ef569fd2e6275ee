/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive areas: memory of the server for the data of large writes of clients on other hosts.  The client
 * puts a piece of the data there and then sends the request, which arrives after the data, so the file call
 * is made at once, in place.  Without a receive area the server gets each piece after its request, which
 * takes a round trip and one message more.
 *
 * A client asks for its receive area after some large writes.  It writes a slot of the area again only
 * when the piece before has been answered.
 *
 * When a client ends, libfabric may be in the middle of one of its puts, and nothing says when that put has
 * ended.  So the addresses of a receive area are never used for anything else: its pages are given back,
 * and what is still written there is lost.  The sum of these addresses is bounded.
 *
 * Layer: iofwd.
 * Thread rule: progress thread; workers read the data of their requests.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "am/am.h"
#include "base/log.h"
#include "base/settings/counters.h"
#include "base/platform.h"
#include "iofwd/server/internal.h"

/* Returns pages at `at`, or anywhere if it is NULL; or MAP_FAILED. */
static void *map_pages(void *at, size_t len_bytes)
{
    return mmap(at, len_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
}

/* Has the server memory and addresses for another receive area? */
static bool has_room(const struct amph_server *s, size_t len_bytes)
{
    return s->progress.memory + len_bytes <= s->memory_limit / 2 &&
           s->progress.receive_addresses + len_bytes <= s->mapped_limit / 4;
}

static void count_memory(struct amph_server *s, size_t before, size_t now)
{
    s->progress.memory += now - before;
    amph_count_level(AMPH_COUNTER_SERVER_MEMORY, s->progress.memory);
}

int amph_server_receive_area_open(struct amph_server *s, struct amph_server_peer *p,
                                  uint64_t len_bytes)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_am_mem *area = &p->receive_area;

    if (area->base)
        return area->len_bytes == len_bytes ? 0 : EBUSY;

    if (!p->has_area || p->area.local || len_bytes == 0 || len_bytes > FWD_RECEIVE_MAX_BYTES ||
        len_bytes % amph_page_bytes())
        return EOPNOTSUPP;

    if (!has_room(s, (size_t)len_bytes))
        return ENOMEM;

    void *base = map_pages(NULL, (size_t)len_bytes);

    if (base == MAP_FAILED)
        return ENOMEM;

    if (amph_am_mem_reg(s->ep, base, (size_t)len_bytes, -1, 0, area) != AMPH_OK) {
        munmap(base, (size_t)len_bytes); /* no client knows its key */
        memset(area, 0, sizeof *area);
        return EOPNOTSUPP;
    }

    s->progress.receive_addresses += area->len_bytes;
    count_memory(s, 0, area->len_bytes);

    return 0;
}

void amph_server_receive_area_close(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_am_mem *area = &p->receive_area;

    if (!area->base)
        return;

    amph_am_mem_dereg(s->ep, area);
    if (map_pages(area->base, area->len_bytes) == MAP_FAILED)
        amph_info("the memory of a client's receive area is not given back: %m");

    count_memory(s, area->len_bytes, 0);
    area->base = NULL;
}
