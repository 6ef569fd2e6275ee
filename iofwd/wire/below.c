/* SPDX-License-Identifier: BSD-3-Clause */
/* Look-ups below a directory that a process has open; see below.h.  Layer: iofwd. */
#include "iofwd/wire/below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* ---- directories on the way ---- */

static struct amph_fwd_plain *item_of(struct amph_fwd_plains *plains, const char *rel, size_t len,
                                      const struct amph_fwd_plain_key *key)
{
    uint64_t hash = key->base;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)rel[i]) * UINT64_C(0x100000001b3);

    return &plains->item[(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) % FWD_PLAIN_DIRECTORIES];
}

static bool is_current(const struct amph_fwd_plain *p, const char *rel, size_t len,
                       const struct amph_fwd_plain_key *key, uint64_t max_age_ns)
{
    return p->known && p->key.base == key->base && p->key.generation == key->generation &&
           p->key.names == key->names && p->len == len && memcmp(p->path, rel, len) == 0 &&
           now_ns() - p->looked_ns <= max_age_ns;
}

static int failure(void)
{
    return errno == ENOENT ? ENOENT : FWD_BELOW_ASK;
}

/* Reaches the directory, whose path is the first len bytes, from the base without links. */
static int reach(const struct amph_fwd_host_calls *host, int base_fd, const char *rel, size_t len)
{
    const struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                             RESOLVE_NO_MAGICLINKS };
    char path[PATH_MAX];

    if (len >= sizeof path)
        return FWD_BELOW_ASK;

    memcpy(path, rel, len);
    path[len] = 0;

    int fd = host->openat2(base_fd, path, &how, sizeof how);

    if (fd < 0)
        return amph_fwd_below_climbs(path) ? FWD_BELOW_ASK : failure();

    host->close(fd);
    return 0;
}

/* The same, remembered.  The item is this thread's. */
static int reach_and_keep(struct amph_fwd_plain *p, const struct amph_fwd_host_calls *host,
                          int base_fd, const char *rel, size_t len,
                          const struct amph_fwd_plain_key *key, uint64_t max_age_ns)
{
    if (is_current(p, rel, len, key, max_age_ns))
        return 0;

    uint64_t now = now_ns();
    int err = reach(host, base_fd, rel, len);

    if (err)
        return err;

    p->known = true;
    p->key = *key;
    p->looked_ns = now;
    p->len = len;
    memcpy(p->path, rel, len);

    return 0;
}

int amph_fwd_below_way(struct amph_fwd_plains *plains, const struct amph_fwd_host_calls *host,
                       int base_fd, const char *rel, const struct amph_fwd_plain_key *key,
                       uint64_t max_age_ns)
{
    const char *slash = strrchr(rel, '/');
    size_t len = slash ? (size_t)(slash - rel) : 0;

    if (len == 0)
        return slash ? FWD_BELOW_ASK : 0;
    if (!key || len > FWD_PLAIN_BYTES)
        return reach(host, base_fd, rel, len);

    struct amph_fwd_plain *p = item_of(plains, rel, len, key);

    if (atomic_exchange_explicit(&p->busy, true, memory_order_acquire))
        return reach(host, base_fd, rel, len);

    int err = reach_and_keep(p, host, base_fd, rel, len, key, max_age_ns);

    atomic_store_explicit(&p->busy, false, memory_order_release);
    return err;
}

/* ---- look-ups ---- */

/* The server has to follow a link, for it may lead out of the export. */
static bool is_for_server(mode_t mode, int flags)
{
    return S_ISLNK(mode) && !(flags & AT_SYMLINK_NOFOLLOW);
}

int amph_fwd_below_stat(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                        int flags, struct stat *st)
{
    struct stat found;

    if (host->fstatat(base_fd, rel, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return failure();
    if (is_for_server(found.st_mode, flags))
        return FWD_BELOW_ASK;

    *st = found;
    return 0;
}

/* What follows the last member that a server passes on (amph_fwd_put_statx): the mount's number and others. */
#define STATX_USED_BYTES \
    (offsetof(struct statx, stx_dev_minor) + sizeof((struct statx *)0)->stx_dev_minor)

/* Takes out of a local answer what a server's has not. */
static void reduce(struct statx *stx)
{
    stx->stx_mask &= STATX_BASIC_STATS | STATX_BTIME;
    memset((char *)stx + STATX_USED_BYTES, 0, sizeof *stx - STATX_USED_BYTES);
}

int amph_fwd_below_statx(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                         int flags, unsigned mask, struct statx *stx)
{
    struct statx found;

    if (host->statx(base_fd, rel, AT_SYMLINK_NOFOLLOW, mask, &found) != 0)
        return failure();
    if (!(found.stx_mask & STATX_TYPE) || is_for_server(found.stx_mode, flags))
        return FWD_BELOW_ASK;

    reduce(&found);
    *stx = found;
    return 0;
}

/* Whether a file may be written also depends on its export, so the server says that. */
int amph_fwd_below_access(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                          int amode, int flags)
{
    struct stat st;

    if (amode & ~(R_OK | X_OK))
        return FWD_BELOW_ASK;
    if (host->fstatat(base_fd, rel, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return failure();
    if (S_ISLNK(st.st_mode))
        return FWD_BELOW_ASK;
    if (amode == F_OK)
        return 0;

    return host->faccessat(base_fd, rel, amode, flags & AT_EACCESS) == 0 ? 0 : failure();
}

int amph_fwd_below_readlink(const struct amph_fwd_host_calls *host, int base_fd, const char *rel,
                            char *target, size_t cap_bytes, size_t *len_p)
{
    ssize_t n = host->readlinkat(base_fd, rel, target, cap_bytes);

    if (n < 0)
        return errno == EINVAL ? EINVAL : failure(); /* it is no link */

    *len_p = (size_t)n;
    return 0;
}
