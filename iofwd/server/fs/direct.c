/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IOFWD_DIRECT: file data bypasses the server's page cache.  O_DIRECT requires aligned memory,
 * length and offset, which a client's calls may not have.  So O_DIRECT is set or cleared for each
 * piece, and unaligned data goes through the cache.
 *
 * Layer: iofwd.
 * Thread rule: the thread that executes a request on the handle, one at a time.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "iofwd/server/internal.h"

#define ALIGN 4096u /* no device's block or memory rule is coarser */

static void set_direct(struct amph_server_handle *h, bool on)
{
    int flags = fcntl(h->fd, F_GETFL);

    if (flags < 0 || fcntl(h->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) < 0) {
        h->exec.direct = false; /* the file system does not support O_DIRECT */
        return;
    }

    h->exec.direct_on = on;
}

void amph_server_direct_open(struct amph_server_handle *h, int flags)
{
    struct stat st;

    h->exec.direct_asked = h->exec.direct_on = flags & O_DIRECT;

    /* The offset of an append is chosen by the file system and is seldom aligned. */
    h->exec.direct = h->regular && !(flags & O_APPEND) &&
                     (h->exec.direct_asked || amph_env_bool(AMPH_ENV_IOFWD_DIRECT)) &&
                     !(flags & O_PATH) && fstat(h->fd, &st) == 0 && S_ISREG(st.st_mode);
}

void amph_server_direct_fit(struct amph_server_handle *h, const void *data, size_t len, off_t off)
{
    if (!h->exec.direct)
        return;

    bool fits = (uintptr_t)data % ALIGN == 0 && len % ALIGN == 0 && len > 0;

    if (fits && off < 0)
        off = lseek(h->fd, 0, SEEK_CUR);

    fits = fits && off >= 0 && off % ALIGN == 0;
    if (fits != h->exec.direct_on)
        set_direct(h, fits);
}

bool amph_server_direct_disable(struct amph_server_handle *h)
{
    if (!h->exec.direct_on)
        return false;

    set_direct(h, false);
    h->exec.direct = false;
    return !h->exec.direct_on;
}

int amph_server_direct_flags(const struct amph_server_handle *h, int flags)
{
    if (h->exec.direct_asked)
        return flags | O_DIRECT;

    return h->exec.direct ? flags & ~O_DIRECT : flags;
}
