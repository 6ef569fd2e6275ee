/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files that the process has opened by itself; see map_file.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the lists are under amph_ip_pages_lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/memory/map_file.h"

#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/wire/map_kinds.h"

/* A file that this process maps. */
struct amph_ip_mapped_file {
    struct amph_ip_mapped_file *next;
    dev_t dev;
    ino_t ino;
    bool writes;
    int lock;      /* a descriptor of the object, or -1 */
    unsigned uses; /* maps, and calls under way */
};

struct amph_ip_file_map {
    struct amph_ip_file_map *next;
    uintptr_t at, end;
    struct amph_ip_mapped_file *file;
};

int amph_ip_map_kinds_open(void)
{
    int dir = amph_ip_space_open();
    int fd = dir < 0 ? -1
                     : amph_ip_kernel_openat(dir, FWD_MAP_KINDS_NAME,
                                             O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (dir >= 0)
        amph_ip_kernel_close(dir);

    return fd < 0 ? -1 : amph_ip_own(fd);
}

/* ---- files; under the lock ---- */

static struct amph_ip_mapped_file *find(const struct stat *st)
{
    struct amph_ip_mapped_file *f = amph_ip_memory.files;

    while (f && (f->dev != st->st_dev || f->ino != st->st_ino))
        f = f->next;

    return f;
}

static struct amph_ip_mapped_file *make(const struct stat *st)
{
    struct amph_ip_mapped_file *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;

    f->dev = st->st_dev;
    f->ino = st->st_ino;
    f->lock = amph_ip_map_kinds_open();
    f->next = amph_ip_memory.files;
    amph_ip_memory.files = f;
    return f;
}

static void put(struct amph_ip_mapped_file *f)
{
    struct amph_ip_mapped_file **link = &amph_ip_memory.files;

    if (--f->uses)
        return;

    while (*link != f)
        link = &(*link)->next;

    *link = f->next;
    if (f->lock >= 0) {
        amph_fdtab_mark(f->lock, FDTAB_UNKNOWN);
        amph_ip_kernel_close(f->lock);
    }

    free(f);
}

/* false: others have maps of its pages. */
static bool may_map(const struct amph_ip_mapped_file *f, bool writes)
{
    bool reads = f->uses > 1;

    return f->lock < 0 ||
           amph_fwd_map_kind_enter(f->lock, amph_fwd_map_kinds_at(f->dev, f->ino), FWD_MAPS_OF_FILE,
                                   writes, reads, amph_ip_kernel_fcntl);
}

struct amph_ip_mapped_file *amph_ip_map_file_enter(const struct stat *st, bool writes)
{
    struct amph_ip_pages_guard g;
    int err = ENOMEM;

    amph_ip_pages_lock(&g);

    struct amph_ip_mapped_file *f = find(st);
    bool enters = !f || (writes && !f->writes);

    if (!f)
        f = make(st);

    if (f)
        f->uses++;

    if (f && enters) {
        if (may_map(f, writes)) {
            f->writes |= writes;
        } else {
            put(f);
            f = NULL;
            err = EBUSY;
        }
    }

    amph_ip_pages_unlock(&g);
    if (!f)
        errno = err;

    return f;
}

void amph_ip_map_file_leave(struct amph_ip_mapped_file *f)
{
    struct amph_ip_pages_guard g;
    int saved = errno;

    amph_ip_pages_lock(&g);
    put(f);
    amph_ip_pages_unlock(&g);
    errno = saved;
}

/* ---- maps; under the lock ---- */

static uintptr_t end_of(uintptr_t at, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return at + ((len + page - 1) & ~(page - 1));
}

/* Takes over a use of the file. */
static bool enlist(struct amph_ip_mapped_file *f, uintptr_t at, uintptr_t end)
{
    struct amph_ip_file_map *m = malloc(sizeof *m);

    if (!m)
        return false;

    *m = (struct amph_ip_file_map){ amph_ip_memory.file_maps, at, end, f };
    amph_ip_memory.file_maps = m;
    __atomic_add_fetch(&amph_ip_state.file_maps, 1, __ATOMIC_RELAXED);
    return true;
}

static void delist(struct amph_ip_file_map **link)
{
    struct amph_ip_file_map *m = *link;

    *link = m->next;
    __atomic_sub_fetch(&amph_ip_state.file_maps, 1, __ATOMIC_RELAXED);
    put(m->file);
    free(m);
}

/* Takes [at, end) out of a map.  Without memory for what is behind it, that counts as mapped no more. */
static void cut(struct amph_ip_file_map *m, uintptr_t at, uintptr_t end)
{
    if (at > m->at && end < m->end) {
        m->file->uses++;
        if (!enlist(m->file, end, m->end))
            put(m->file);
    }

    if (at > m->at)
        m->end = at;
    else
        m->at = end;
}

static void forget(uintptr_t at, uintptr_t end)
{
    for (struct amph_ip_file_map **link = &amph_ip_memory.file_maps; *link;) {
        struct amph_ip_file_map *m = *link;

        if (end <= m->at || at >= m->end) {
            link = &m->next;
        } else if (at <= m->at && end >= m->end) {
            delist(link);
        } else {
            cut(m, at, end);
            link = &m->next;
        }
    }
}

bool amph_ip_map_file_add(struct amph_ip_mapped_file *f, void *at, size_t len)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    bool added = enlist(f, (uintptr_t)at, end_of((uintptr_t)at, len));

    if (!added)
        put(f);

    amph_ip_pages_unlock(&g);
    return added;
}

void amph_ip_map_file_forget(const void *at, size_t len)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);
    forget((uintptr_t)at, end_of((uintptr_t)at, len));
    amph_ip_pages_unlock(&g);
}

struct amph_ip_mapped_file *amph_ip_map_file_move_begin(const void *at, size_t len)
{
    uintptr_t from = (uintptr_t)at;
    uintptr_t end = end_of(from, len ? len : 1);
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    struct amph_ip_file_map *m = amph_ip_memory.file_maps;

    while (m && (end <= m->at || from >= m->end))
        m = m->next;

    if (m)
        m->file->uses++;

    amph_ip_pages_unlock(&g);
    return m ? m->file : NULL;
}

void amph_ip_map_file_move_end(struct amph_ip_mapped_file *f, const void *old, size_t old_len,
                               void *at, size_t len, bool keeps_old)
{
    struct amph_ip_pages_guard g;
    bool moved = at != MAP_FAILED;
    int saved = errno;

    amph_ip_pages_lock(&g);
    if (moved && !keeps_old)
        forget((uintptr_t)old, end_of((uintptr_t)old, old_len));
    if (!moved || !enlist(f, (uintptr_t)at, end_of((uintptr_t)at, len)))
        put(f);

    amph_ip_pages_unlock(&g);
    errno = saved;
}
