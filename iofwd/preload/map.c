/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps of forwarded files.  Layer: iofwd (preload).  Thread rule: any thread; the list is under fwd_pages_lock.
 *
 * A private map is memory that is read in when the map is made.  A shared one is a map of the file's pages, which all processes of this
 * host share (pages.h).  What was changed there goes to the server at msync, munmap, fsync, close, exec and exit.
 */
#include <sys/mman.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/pages.h"
#include "iofwd/preload/reach.h"
#include "iofwd/preload/targets.h"

#define KEEP_OLD 4 /* MREMAP_DONTUNMAP */

struct map {
    struct map *next;
    char *at;
    size_t len;
    off_t off;
    struct fwd_ofile *of; /* with a reference: it stays open for the map */
    struct fwd_pages *pages;
    bool may_write;       /* through of */
};

static struct map *maps;
int fwd_maps;

void fwd_maps_fork_lock(bool take)
{
    fwd_pages_fork_lock(take);
}

void fwd_maps_recount(void)
{
    for (struct map *m = maps; m; m = m->next)
        m->of->refs++;
    fwd_pages_forked();
}

static void *failed(int err)
{
    errno = err;
    return MAP_FAILED;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t len)
{
    return (len + page_bytes() - 1) & ~(page_bytes() - 1);
}

/* ---- what was changed goes out ---- */

/* The changed bytes of m from `from` to `to`. */
static int flush(struct map *m, size_t from, size_t to)
{
    int err = m->may_write ? fwd_core_enter() : 0;
    if (!m->may_write || err || !fwd_pages_changed(m->pages))
        return err;
    fwd_pages_begin(m->pages);
    err = fwd_pages_flush(m->pages, &m->of->file, m->off + (off_t)from, m->off + (off_t)to);
    fwd_pages_end(m->pages);
    return err;
}

static int flush_if(const struct fwd_ofile *of)
{
    struct fwd_pages_guard g;
    int err = 0;
    fwd_pages_lock(&g);
    const struct fwd_pages *p = of ? fwd_pages_of(&of->file, false) : NULL;
    for (struct map *m = maps; m; m = m->next)
        if (!of || m->of == of || m->pages == p) {
            int one = flush(m, 0, m->len);
            err = err ? err : one;
        }
    fwd_pages_unlock(&g);
    return err;
}

int fwd_maps_flush(const struct fwd_ofile *of)
{
    return AMPH_LIKELY(!__atomic_load_n(&fwd_maps, __ATOMIC_RELAXED)) ? 0 : flush_if(of);
}

void fwd_maps_resize(void)
{
    struct fwd_pages_guard g;
    fwd_pages_lock(&g);
    for (struct map *m = maps; m; m = m->next) {
        fwd_pages_begin(m->pages);
        (void)fwd_pages_resize(m->pages, &m->of->file);
        fwd_pages_end(m->pages);
    }
    fwd_pages_unlock(&g);
}

static void __attribute__((destructor)) at_exit(void)
{
    struct fwd_pages_guard g;
    if (!__atomic_load_n(&fwd_maps, __ATOMIC_RELAXED))
        return;
    flush_if(NULL);
    fwd_pages_lock(&g);
    fwd_pages_ending();
    fwd_pages_unlock(&g);
}

/* ---- the list ---- */

/* Takes [from, to) out of m's list entry; both lie in it. */
static void cut(struct map **place, size_t from, size_t to)
{
    struct map *m = *place;
    if (from == 0 && to == m->len) {
        *place = m->next;
        __atomic_sub_fetch(&fwd_maps, 1, __ATOMIC_RELAXED);
        fwd_pages_leave(m->pages);
        fdtab_put(m->of);
        free(m);
        return;
    }
    struct map *rest = from > 0 && to < m->len ? malloc(sizeof *rest) : NULL;
    if (rest) {
        *rest = *m;
        rest->at += to;
        rest->off += (off_t)to;
        rest->len -= to;
        rest->pages->maps++;
        __atomic_add_fetch(&rest->of->refs, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&fwd_maps, 1, __ATOMIC_RELAXED);
        m->next = rest;
    }
    if (from > 0) {
        m->len = from;
        return;
    }
    m->at += to;
    m->off += (off_t)to;
    m->len -= to;
}

/* The part of m inside [at, at + len); false: none. */
static bool common(const struct map *m, const char *at, size_t len, size_t *from_p, size_t *to_p)
{
    const char *end = at + whole_pages(len);
    if (end <= m->at || at >= m->at + m->len)
        return false;
    *from_p = at > m->at ? (size_t)(at - m->at) : 0;
    *to_p = end < m->at + m->len ? (size_t)(end - m->at) : m->len;
    return true;
}

/* Nothing of the list lies in [at, at + len) any more; what was changed there is written. */
static void forget(const void *at, size_t len)
{
    struct fwd_pages_guard g;
    size_t from, to;
    fwd_pages_lock(&g);
    for (struct map **place = &maps; *place;) {
        struct map *m = *place;
        if (!common(m, at, len, &from, &to)) {
            place = &m->next;
            continue;
        }
        flush(m, from, to);
        cut(place, from, to);
        if (*place == m)
            place = &m->next;
    }
    fwd_pages_unlock(&g);
}

/* ---- making maps ---- */

/* What the kernel would say to such a map of such a file. */
static int refused(const struct fwd_ofile *of, int prot, bool shared, struct stat *st, int *access_p)
{
    int flags, err = fwd_core.getflags(fwd_core.client, &of->file, &flags);
    if (err)
        return err;
    *access_p = flags & O_ACCMODE;
    if (flags & O_PATH)
        return EBADF;
    if (*access_p == O_WRONLY || (shared && (prot & PROT_WRITE) && *access_p != O_RDWR))
        return EACCES;
    if ((err = fwd_core.fstat(fwd_core.client, &of->file, st)) != 0)
        return err;
    return S_ISREG(st->st_mode) ? 0 : ENODEV;
}

/* Memory beyond a file's last page is a SIGBUS, as a map of an empty file is. */
static int end_map(char *at, size_t len)
{
    int fd = real_memfd_create("iofwd", MFD_CLOEXEC);
    char *end = fd < 0 ? MAP_FAILED : real_mmap64(at, len, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    int err = end == MAP_FAILED ? errno : 0;
    if (fd >= 0)
        real_close(fd);
    return err;
}

static void *map_private(const struct fwd_ofile *of, void *at, size_t len, int prot, int flags, off_t off, off_t size)
{
    char *map = real_mmap64(at, len, PROT_READ | PROT_WRITE, (flags & ~(MAP_TYPE | MAP_SYNC)) | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return MAP_FAILED;
    size_t there = off < size ? whole_pages((size_t)(size - off)) : 0;
    int err = fwd_read_in(&of->file, map, len, off);
    if (!err && there < len)
        err = end_map(map + there, len - there);
    if (err) {
        real_munmap(map, len);
        return failed(err);
    }
    if (prot != (PROT_READ | PROT_WRITE))
        real_mprotect(map, len, prot);
    return map;
}

/* Puts a map into the list, which takes over a use of the pages. */
static bool enlist(char *at, size_t len, off_t off, struct fwd_ofile *of, struct fwd_pages *pages, bool may_write)
{
    struct map *m = malloc(sizeof *m);
    if (!m)
        return false;
    __atomic_add_fetch(&of->refs, 1, __ATOMIC_RELAXED);
    *m = (struct map){ .next = maps, .at = at, .len = whole_pages(len), .off = off, .of = of, .pages = pages, .may_write = may_write };
    maps = m;
    __atomic_add_fetch(&fwd_maps, 1, __ATOMIC_RELAXED);
    return true;
}

/* The pages are there, and in step with the file. */
static int prepare(struct fwd_pages *p, const struct fwd_ofile *of, size_t len, int prot, off_t off)
{
    fwd_pages_begin(p);
    int err = fwd_pages_load(p, &of->file, off, (off_t)len);
    if (!err && (prot & PROT_WRITE))
        err = fwd_pages_writable(p);
    fwd_pages_end(p);
    return err;
}

static void *map_shared(struct fwd_ofile *of, void *at, size_t len, int prot, int flags, off_t off, off_t size, bool may_write)
{
    struct fwd_pages *p;
    char *map = MAP_FAILED;
    int err = fwd_pages_join(&of->file, size, (prot & PROT_WRITE) && of->locked, &p);
    if (err)
        return failed(err);
    int fd = (err = prepare(p, of, len, prot, off)) != 0 ? -1 : fwd_pages_map_fd(p, may_write);
    if (!err && (fd < 0 || (map = real_mmap64(at, len, prot, flags, fd, off)) == MAP_FAILED))
        err = errno;
    if (fd >= 0)
        real_close(fd);
    if (!err && !enlist(map, len, off, of, p, may_write)) {
        real_munmap(map, len);
        err = ENOMEM;
    }
    if (!err)
        return map;
    fwd_pages_leave(p);
    return failed(err);
}

static void *map_file(struct fwd_ofile *of, void *at, size_t len, int prot, int flags, off_t off)
{
    struct stat st;
    struct fwd_pages_guard g;
    bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
    int access, err = refused(of, prot, shared, &st, &access);
    if (err)
        return failed(err);
    if (!shared)
        return map_private(of, at, len, prot, flags, off, st.st_size);
    fwd_coherent_begin();
    fwd_pages_lock(&g);
    void *map = map_shared(of, at, len, prot, flags, off, st.st_size, access == O_RDWR);
    err = errno;
    fwd_pages_unlock(&g);
    /* a file that is only read, and cannot be shared: no descriptors are left, files are limited, memory from which no program may run */
    if (map == MAP_FAILED && access == O_RDONLY && (err == EMFILE || err == ENFILE || err == ENOMEM || err == EPERM || err == ENOSPC))
        return map_private(of, at, len, prot, flags, off, st.st_size);
    errno = err;
    return map;
}

void *x_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    struct fwd_ofile *of;
    if (flags & MAP_FIXED) {
        fwd_reach_forget();
        if (__atomic_load_n(&fwd_maps, __ATOMIC_RELAXED))
            forget(at, len);
    }
    if (!fwd_fd(fd))
        return real_mmap64(at, len, prot, flags, fd, off);
    if (off < 0 || (off & (off_t)(page_bytes() - 1)) || len == 0 || (off_t)len < 0)
        return failed(EINVAL);
    if (fwd_file_begin(fd, &of) != 0)
        return MAP_FAILED;
    void *map = map_file(of, at, len, prot, flags, off);
    int saved = errno;
    fdtab_put(of);
    errno = saved;
    return map;
}

/* ---- changing them, and other memory ---- */

static bool have_maps(void)
{
    return __atomic_load_n(&fwd_maps, __ATOMIC_RELAXED);
}

static int memory_changed(int result)
{
    fwd_reach_forget();
    return result;
}

int x_munmap(void *at, size_t len)
{
    if (have_maps() && ((uintptr_t)at & (page_bytes() - 1)) == 0)
        forget(at, len);
    return memory_changed(real_munmap(at, len));
}

int x_msync(void *at, size_t len, int flags)
{
    struct fwd_pages_guard g;
    size_t from, to;
    int err = 0;
    if (real_msync(at, len, flags) != 0)
        return -1;
    fwd_pages_lock(&g);
    for (struct map *m = maps; m && !err; m = m->next) {
        if (!common(m, at, len, &from, &to))
            continue;
        err = flush(m, from, to);
        if (!err && (flags & MS_INVALIDATE))
            err = prepare(m->pages, m->of, to - from, 0, m->off + (off_t)from);
    }
    fwd_pages_unlock(&g);
    return fwd_result(err);
}

/* A shared map that was read-only is to be written. */
int x_mprotect(void *at, size_t len, int prot)
{
    struct fwd_pages_guard g;
    size_t from, to;
    int err = 0;
    if (!have_maps())
        return memory_changed(real_mprotect(at, len, prot));
    fwd_pages_lock(&g);
    for (struct map *m = maps; m && (prot & PROT_WRITE) && !err; m = m->next)
        if (m->may_write && common(m, at, len, &from, &to) && !(err = m->of->locked && !m->pages->named ? EACCES : 0))
            err = prepare(m->pages, m->of, to - from, PROT_WRITE, m->off + (off_t)from);
    fwd_pages_unlock(&g);
    return err ? fwd_fail(err) : memory_changed(real_mprotect(at, len, prot));
}

/* The first map of the list in [at, at + len), and where in it. */
static struct map *map_at(const void *at, size_t len, size_t *from_p, size_t *to_p)
{
    struct map *m = maps;
    while (m && !common(m, at, len, from_p, to_p))
        m = m->next;
    return m;
}

/* Part of m goes elsewhere, or grows; the kernel does it to the pages' map by itself. */
static void *move(struct map *m, size_t from, char *old, size_t old_len, size_t len, int flags, void *at)
{
    struct map was = *m;
    off_t off = was.off + (off_t)from;
    int err = fwd_core_enter();
    if (!err)
        err = prepare(was.pages, was.of, len, 0, off);
    void *map = err ? failed(err) : real_mremap(old, old_len, len, flags, at);
    if (map == MAP_FAILED || !enlist(map, len, off, was.of, was.pages, was.may_write))
        return map;
    was.pages->maps++;
    if (flags & KEEP_OLD)
        return map;
    struct map **place = &maps->next; /* the new one is the first; the old one is cut */
    while (*place != m)
        place = &(*place)->next;
    size_t to = from + whole_pages(old_len);
    cut(place, from, to < was.len ? to : was.len);
    return map;
}

void *x_mremap(void *old, size_t old_len, size_t len, int flags, void *at)
{
    struct fwd_pages_guard g;
    size_t from, to;
    fwd_reach_forget();
    if (!have_maps())
        return real_mremap(old, old_len, len, flags, at);
    if (flags & MREMAP_FIXED)
        forget(at, len);
    fwd_pages_lock(&g);
    struct map *m = map_at(old, old_len ? old_len : 1, &from, &to);
    void *map = m ? move(m, from, old, old_len, len, flags, at) : real_mremap(old, old_len, len, flags, at);
    int saved = errno;
    fwd_pages_unlock(&g);
    errno = saved;
    return map;
}
