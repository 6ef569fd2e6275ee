/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of the client's log, where the program's standard error is a forwarded file: its placeholder
 * refuses the client's own write, and the client cannot forward while it works.  So the lines are kept
 * until the next forwarded call, or the end of the process.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/process/die.h"

static bool lock(void)
{
    return !__atomic_test_and_set(&amph_ip_client.lines.busy, __ATOMIC_ACQUIRE);
}

static void unlock(void)
{
    __atomic_clear(&amph_ip_client.lines.busy, __ATOMIC_RELEASE);
}

/* Is standard error a forwarded file, as the program sees it? */
static bool is_error_forwarded(void)
{
    int depth = amph_ip_inside;

    amph_ip_inside = 0;

    bool is = amph_ip_fd(STDERR_FILENO);

    amph_ip_inside = depth;
    return is;
}

bool amph_ip_log_take(const char *line, size_t len_bytes)
{
    if (!is_error_forwarded())
        return false;

    /* a signal handler may have interrupted its own thread here */
    if (!lock()) {
        __atomic_add_fetch(&amph_ip_client.lines.lost, 1, __ATOMIC_RELAXED);
        return true;
    }

    size_t len = amph_ip_client.lines.len;

    if (len_bytes <= sizeof amph_ip_client.lines.text - len) {
        memcpy(amph_ip_client.lines.text + len, line, len_bytes);
        __atomic_store_n(&amph_ip_client.lines.len, len + len_bytes, __ATOMIC_RELAXED);
    } else
        __atomic_add_fetch(&amph_ip_client.lines.lost, 1, __ATOMIC_RELAXED);

    unlock();
    return true;
}

void amph_ip_log_put(void)
{
    char text[sizeof amph_ip_client.lines.text + 64];

    if (AMPH_LIKELY(__atomic_load_n(&amph_ip_client.lines.len, __ATOMIC_RELAXED) == 0) ||
        amph_ip_inside || !lock())
        return;

    int saved = errno;
    size_t len = amph_ip_client.lines.len;
    unsigned lost = __atomic_exchange_n(&amph_ip_client.lines.lost, 0, __ATOMIC_RELAXED);

    memcpy(text, amph_ip_client.lines.text, len);
    __atomic_store_n(&amph_ip_client.lines.len, 0, __ATOMIC_RELAXED);
    unlock();

    if (lost)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "amphora: %u more lines had no room\n", lost);

    amph_ip_put_error(text, len);
    errno = saved;
}

void amph_ip_log_forked(void)
{
    /* another thread may have held the lock */
    amph_ip_client.lines.len = 0;
    amph_ip_client.lines.lost = 0;
    unlock();
}
