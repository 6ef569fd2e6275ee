/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files themselves; see map_file.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the lists are under amph_ip_pages_lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/memory/map_file.h"

#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/wire/map_kinds.h"

/* A file that this process maps. */
struct amph_ip_mapped_file {
    struct amph_ip_mapped_file *next;
    dev_t dev;
    ino_t ino;
    enum amph_fwd_map_kind kind;
    bool writes;
    int changing;  /* of amph_ip_near_mapped_begin, or -1 */
    int lock;      /* a descriptor of the object, or -1 */
    unsigned uses; /* maps, and calls under way */
    char *path;    /* or NULL */
};

struct amph_ip_file_map {
    struct amph_ip_file_map *next;
    uintptr_t at, end;
    uint64_t turn; /* when it was made */
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

static struct amph_ip_mapped_file *find(const struct stat *st, enum amph_fwd_map_kind kind)
{
    struct amph_ip_mapped_file *f = amph_ip_memory.files;

    while (f && (f->dev != st->st_dev || f->ino != st->st_ino || f->kind != kind))
        f = f->next;

    return f;
}

static struct amph_ip_mapped_file *make(const struct stat *st, enum amph_fwd_map_kind kind)
{
    struct amph_ip_mapped_file *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;

    f->dev = st->st_dev;
    f->ino = st->st_ino;
    f->kind = kind;
    f->changing = -1;
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
    amph_ip_near_mapped_end(f->changing);
    if (f->lock >= 0) {
        amph_fdtab_mark(f->lock, FDTAB_UNKNOWN);
        amph_ip_kernel_close(f->lock);
    }

    free(f->path);
    free(f);
}

/* false: others have maps of its pages. */
static bool may_map(const struct amph_ip_mapped_file *f, bool writes)
{
    bool reads = f->uses > 1;

    return f->lock < 0 || amph_fwd_map_kind_enter(f->lock, amph_fwd_map_kinds_at(f->dev, f->ino),
                                                  f->kind, writes, reads, amph_ip_kernel_fcntl);
}

/* Begins maps that may be written, or the first ones.  0 or an errno value. */
static int begin(struct amph_ip_mapped_file *f, const struct stat *st,
                 const struct amph_ip_map_way *way)
{
    int changing = -1;

    if (way->writes && f->kind == FWD_MAPS_PASSED) {
        changing = amph_ip_near_mapped_begin(way->versions, st);
        if (changing < 0)
            return EAGAIN;
    }

    if (!may_map(f, way->writes)) {
        amph_ip_near_mapped_end(changing);
        return EBUSY;
    }

    if (way->writes) {
        f->writes = true;
        f->changing = changing;
    }

    if (!f->path && way->path)
        f->path = strdup(way->path);

    return 0;
}

struct amph_ip_mapped_file *amph_ip_map_file_enter(const struct stat *st,
                                                   const struct amph_ip_map_way *way)
{
    struct amph_ip_pages_guard g;
    int err = 0;

    amph_ip_pages_lock(&g);

    struct amph_ip_mapped_file *f = find(st, way->kind);
    bool begins = !f || (way->writes && !f->writes);

    if (!f)
        f = make(st, way->kind);

    if (f)
        f->uses++;
    else
        err = ENOMEM;

    if (f && begins)
        err = begin(f, st, way);

    if (f && err) {
        put(f);
        f = NULL;
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

uint64_t amph_ip_map_file_turn(void)
{
    return __atomic_add_fetch(&amph_ip_memory.turn, 1, __ATOMIC_RELAXED);
}

static uintptr_t end_of(uintptr_t at, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return at + ((len + page - 1) & ~(page - 1));
}

/* Takes over a use of the file. */
static bool enlist(struct amph_ip_mapped_file *f, uintptr_t at, uintptr_t end, uint64_t turn)
{
    struct amph_ip_file_map *m = malloc(sizeof *m);

    if (!m)
        return false;

    *m = (struct amph_ip_file_map){ amph_ip_memory.file_maps, at, end, turn, f };
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

/* Takes [at, end) out of a map.  Without memory for what is behind it, that counts as mapped until the process ends. */
static void cut(struct amph_ip_file_map *m, uintptr_t at, uintptr_t end)
{
    if (at > m->at && end < m->end) {
        m->file->uses++;
        (void)enlist(m->file, end, m->end, m->turn);
    }

    if (at > m->at)
        m->end = at;
    else
        m->at = end;
}

static void forget(uintptr_t at, uintptr_t end, uint64_t turn)
{
    for (struct amph_ip_file_map **link = &amph_ip_memory.file_maps; *link;) {
        struct amph_ip_file_map *m = *link;

        if (end <= m->at || at >= m->end || m->turn > turn) {
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

    bool added = enlist(f, (uintptr_t)at, end_of((uintptr_t)at, len), amph_ip_map_file_turn());

    if (!added)
        put(f);

    amph_ip_pages_unlock(&g);
    return added;
}

void amph_ip_map_file_forget(const void *at, size_t len, uint64_t turn)
{
    struct amph_ip_pages_guard g;
    int saved = errno;

    amph_ip_pages_lock(&g);
    forget((uintptr_t)at, end_of((uintptr_t)at, len), turn);
    amph_ip_pages_unlock(&g);
    errno = saved;
}

/* The first map of the list in [at, at + len), or NULL. */
static struct amph_ip_file_map *map_at(const void *at, size_t len)
{
    uintptr_t from = (uintptr_t)at;
    uintptr_t end = end_of(from, len ? len : 1);
    struct amph_ip_file_map *m = amph_ip_memory.file_maps;

    while (m && (end <= m->at || from >= m->end))
        m = m->next;

    return m;
}

bool amph_ip_map_file_path(const void *at, size_t len, char path[PATH_MAX])
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    const struct amph_ip_file_map *m = map_at(at, len);
    bool passed = m && m->file->kind == FWD_MAPS_PASSED;

    if (passed)
        snprintf(path, PATH_MAX, "%s", m->file->path ? m->file->path : "");

    amph_ip_pages_unlock(&g);
    return passed;
}

struct amph_ip_mapped_file *amph_ip_map_file_move_begin(const void *at, size_t len)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    struct amph_ip_file_map *m = map_at(at, len);

    if (m)
        m->file->uses++;

    amph_ip_pages_unlock(&g);
    return m ? m->file : NULL;
}

void amph_ip_map_file_move_end(struct amph_ip_mapped_file *f, const struct amph_ip_moved_map *v)
{
    struct amph_ip_pages_guard g;
    bool moved = v->at != MAP_FAILED;
    int saved = errno;

    amph_ip_pages_lock(&g);
    if (moved && !v->keeps_old)
        forget((uintptr_t)v->old, end_of((uintptr_t)v->old, v->old_len), v->turn);

    /* without memory for the entry the file counts as mapped until the process ends */
    if (moved)
        (void)enlist(f, (uintptr_t)v->at, end_of((uintptr_t)v->at, v->len),
                     amph_ip_map_file_turn());
    else
        put(f);

    amph_ip_pages_unlock(&g);
    errno = saved;
}
