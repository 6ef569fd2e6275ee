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

/* What is asked about a directory: its path is the first len bytes of rel. */
struct way {
    struct amph_fwd_plains *plains;
    const struct amph_fwd_host_calls *host;
    int base_fd;
    const char *rel;
    const struct amph_fwd_plain_key *key;
    uint64_t now, max_age_ns;
};

#define WORD sizeof(uint64_t)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t word_at(const char *text)
{
    uint64_t word;

    memcpy(&word, text, WORD);
    return word;
}

/* The last word of a text overlaps with the one before it. */
static uint64_t hash_of(uint64_t seed, const char *text, size_t len)
{
    uint64_t hash = mix(seed, len);

    if (len < WORD) {
        uint64_t word = 0;

        for (size_t i = 0; i < len; i++)
            word = word << 8 | (unsigned char)text[i];

        return mix(hash, word);
    }

    for (size_t i = 0; i + WORD < len; i += WORD)
        hash = mix(hash, word_at(text + i));

    return mix(hash, word_at(text + len - WORD));
}

static struct amph_fwd_plain *item_of(const struct way *w, size_t len)
{
    return &w->plains->item[hash_of(w->key->base, w->rel, len) % FWD_PLAIN_DIRECTORIES];
}

static bool take(struct amph_fwd_plain *p)
{
    return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void give_back(struct amph_fwd_plain *p)
{
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

static bool is_current(const struct amph_fwd_plain *p, const struct way *w, size_t len)
{
    return p->known && p->key.base == w->key->base && p->key.generation == w->key->generation &&
           p->key.names == w->key->names && p->len == len && memcmp(p->path, w->rel, len) == 0 &&
           w->now - p->looked_ns <= w->max_age_ns;
}

static void keep(struct amph_fwd_plain *p, const struct way *w, size_t len, uint64_t looked_ns)
{
    p->known = true;
    p->key = *w->key;
    p->looked_ns = looked_ns;
    p->len = len;
    memcpy(p->path, w->rel, len);
}

static int failure(void)
{
    return errno == ENOENT ? ENOENT : FWD_BELOW_ASK;
}

/* The path of the directory, ended.  false: it is too long. */
static bool copy_path(const char *rel, size_t len, char path[PATH_MAX])
{
    if (len >= PATH_MAX)
        return false;

    memcpy(path, rel, len);
    path[len] = 0;
    return true;
}

/* Reaches the directory from the base without links. */
static int reach(const struct amph_fwd_host_calls *host, int base_fd, const char *rel, size_t len)
{
    const struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                                  .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                                             RESOLVE_NO_MAGICLINKS };
    char path[PATH_MAX];

    if (!copy_path(rel, len, path))
        return FWD_BELOW_ASK;

    int fd = host->openat2(base_fd, path, &how, sizeof how);

    if (fd < 0)
        return amph_fwd_below_climbs(path) ? FWD_BELOW_ASK : failure();

    host->close(fd);
    return 0;
}

/* Looks at the directory only, for the one that it is in has been reached.  This takes half of the time. */
static int look_in(const struct way *w, size_t len)
{
    char path[PATH_MAX];
    struct stat st;

    if (!copy_path(w->rel, len, path))
        return FWD_BELOW_ASK;
    if (w->host->fstatat(w->base_fd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return failure();

    return S_ISDIR(st.st_mode) ? 0 : FWD_BELOW_ASK;
}

/* The length of the path of what it is in; 0: the base, or not known by the name. */
static size_t len_above(const struct way *w, size_t len)
{
    while (len && w->rel[len - 1] != '/')
        len--;

    return len ? len - 1 : 0;
}

/* When was the directory reached that this one is in?  false: it is not remembered. */
static bool reached_above(const struct way *w, size_t above, uint64_t *looked_ns_p)
{
    struct amph_fwd_plain *p = item_of(w, above);

    if (!take(p))
        return false;

    bool current = is_current(p, w, above);

    *looked_ns_p = p->looked_ns;
    give_back(p);
    return current;
}

static void keep_above(const struct way *w, size_t above)
{
    struct amph_fwd_plain *p = item_of(w, above);

    if (!take(p))
        return;

    keep(p, w, above, w->now);
    give_back(p);
}

/* Reaches the directory and remembers it.  The item is this thread's. */
static int reach_and_keep(struct amph_fwd_plain *p, const struct way *w, size_t len)
{
    size_t above = len_above(w, len);
    uint64_t looked_ns = w->now;
    bool plain = !memmem(w->rel, len, "..", 2);
    bool reached = plain && (above == 0 || reached_above(w, above, &looked_ns));
    int err = reached ? look_in(w, len) : reach(w->host, w->base_fd, w->rel, len);

    if (err)
        return err;

    keep(p, w, len, looked_ns);
    if (plain && !reached)
        keep_above(w, above);

    return 0;
}

int amph_fwd_below_way(struct amph_fwd_plains *plains, const struct amph_fwd_host_calls *host,
                       int base_fd, const char *rel, const struct amph_fwd_plain_key *key,
                       uint64_t max_age_ns)
{
    const char *slash = strrchr(rel, '/');
    size_t len = slash ? (size_t)(slash - rel) : 0;

    if (len == 0 || rel[0] == '/')
        return slash ? FWD_BELOW_ASK : 0;
    if (!key || len > FWD_PLAIN_BYTES)
        return reach(host, base_fd, rel, len);

    const struct way w = { plains, host, base_fd, rel, key, now_ns(), max_age_ns };
    struct amph_fwd_plain *p = item_of(&w, len);

    if (!take(p))
        return reach(host, base_fd, rel, len);

    int err = is_current(p, &w, len) ? 0 : reach_and_keep(p, &w, len);

    give_back(p);
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

    if (host->fstatat(base_fd, rel, &found, amph_fwd_below_itself(rel)) != 0)
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

    if (host->statx(base_fd, rel, amph_fwd_below_itself(rel), mask, &found) != 0)
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
    if (host->fstatat(base_fd, rel, &st, amph_fwd_below_itself(rel)) != 0)
        return failure();
    if (S_ISLNK(st.st_mode))
        return FWD_BELOW_ASK;
    if (amode == F_OK)
        return 0;

    flags = (flags & AT_EACCESS) | (amph_fwd_below_itself(rel) & AT_EMPTY_PATH);
    return host->faccessat(base_fd, rel, amode, flags) == 0 ? 0 : failure();
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
