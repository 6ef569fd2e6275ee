/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions of iofwd.h.  Layer: iofwd.  Thread rule: as iofwd.h says. */
#include "am/am.h"
#include "base/status.h"
#include "iofwd.h"
#include "iofwd/client/client.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/marshal.h"

#include <errno.h>

#include "base/settings/counters.h"
#include "base/platform.h"
#include "boot/standing.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/attach/private_server.h"
#include "iofwd/client/data/stripe.h"

int iofwd_init(void)
{
    struct amph_fwd_client *cl;
    return amph_fwd_process(&cl);
}

int iofwd_attach(const char *address_file)
{
    struct amph_standing set;

    if (amph_fwd_process_if_open())
        return EALREADY;
    if (amph_boot_standing_read(address_file, &set) != AMPH_OK)
        return EIO;

    char *text = amph_boot_standing_print(&set);

    amph_boot_standing_free(&set);
    if (!text)
        return ENOMEM;

    amph_boot_standing_own(text);
    amph_fwd_try_again();
    return 0;
}

int iofwd_start_server(const char *host, const char *path, const char *prefixes)
{
    if (amph_fwd_process_if_open())
        return EALREADY;

    int err = amph_client_private_server_ask(host, path, prefixes);
    return err ? err : iofwd_init();
}

uint32_t iofwd_client_number(void)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    return cl ? amph_fwd_client_number(cl) : IOFWD_NONE;
}

size_t iofwd_servers(uint32_t *servers, size_t max)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    const uint32_t *list;
    size_t n = cl ? amph_fwd_client_servers(cl, &list) : 0;
    size_t all = cl ? amph_client_stripe_widest(cl) : 0;

    for (size_t i = 0; i < n && i < max; i++)
        servers[i] = list[i];

    /* later rules may need more servers; see amph_client_stripe_open */
    for (; n < all; n++)
        if (n < max)
            servers[n] = cl->first + (uint32_t)((list[0] - cl->first + n) % cl->nlinks);

    return n;
}

int iofwd_stats(uint32_t server, struct iofwd_stats *stats)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_stats s;
    int err = amph_fwd_process(&cl);

    if (!err)
        err = amph_fwd_server_stats(cl, server == IOFWD_NONE ? cl->servers[0] : server, &s);

    if (err)
        return err;

    *stats = (struct iofwd_stats){ .server = s.server,
                                   .client = s.client,
                                   .calls = s.calls,
                                   .errors = s.errors,
                                   .bytes_written = s.bytes_out,
                                   .bytes_read = s.bytes_in,
                                   .all_calls = s.all_calls,
                                   .all_bytes_written = s.all_bytes_out,
                                   .all_bytes_read = s.all_bytes_in,
                                   .clients = s.clients,
                                   .open_files = s.handles };
    return 0;
}

static uint64_t counted(enum amph_counter_id id)
{
    return __atomic_load_n(&amph_counters[id], __ATOMIC_RELAXED);
}

void iofwd_counters(struct iofwd_counters *c)
{
    *c = (struct iofwd_counters){ .calls = counted(AMPH_COUNTER_IOFWD_CALLS),
                                  .bytes_written = counted(AMPH_COUNTER_IOFWD_BYTES_OUT),
                                  .bytes_read = counted(AMPH_COUNTER_IOFWD_BYTES_IN),
                                  .bytes_in_place = counted(AMPH_COUNTER_IOFWD_BYTES_IN_PLACE) };
}

int iofwd_set_stripe(const char *pattern, unsigned width, uint64_t unit)
{
    struct amph_client_stripe stripe;
    int err = pattern ? amph_client_stripe_make(width, unit, &stripe) : EINVAL;

    return err ? err : amph_client_stripe_add(pattern, stripe);
}

static int announce(int fd, bool write, uint64_t bytes, unsigned calls)
{
    struct amph_fwd_client *cl;
    struct amph_fwd_file file;
    int err = amph_client_file_of_fd(fd, &file);

    if (err || file.nparts == 0)
        return err;

    err = amph_fwd_process(&cl);
    return err ? err : amph_client_coalesce_announce(cl, &file, write, bytes, calls);
}

int iofwd_write_prep(int fd, uint64_t bytes, unsigned calls)
{
    return announce(fd, true, bytes, calls);
}

int iofwd_read_prep(int fd, uint64_t bytes, unsigned calls)
{
    return announce(fd, false, bytes, calls);
}

static void on_nudge(void *token)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    struct amph_client_sigguard g;

    if (!cl)
        return;

    amph_client_sigguard_enter(&g);
    amph_am_poll(cl->ep);
    amph_client_sigguard_leave(&g);
}

size_t iofwd_handlers(const struct iofwd_handler **rows)
{
    static const struct iofwd_handler table[] = { { FWD_AM_REQUEST, on_nudge, 0,
                                                    "iofwd progress" } };

    *rows = table;
    return AMPH_COUNTOF(table);
}

int iofwd_split(size_t nslots, size_t nservers, struct iofwd_slot *slots)
{
    if (nslots <= nservers || nslots > IOFWD_NONE)
        return EINVAL;

    uint32_t compute = (uint32_t)(nslots - nservers);

    for (uint32_t i = 0; i < nslots; i++) {
        bool is_server = i >= compute;

        slots[i] = (struct iofwd_slot){ .is_server = is_server,
                                        .absolute = i,
                                        .relative = is_server ? i - compute : i,
                                        .server = is_server || !nservers
                                                      ? IOFWD_NONE
                                                      : compute + i % (uint32_t)nservers };
    }

    return 0;
}
