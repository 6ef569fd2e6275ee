/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps of forwarded files: memory that is read in when the map is made.  Layer: iofwd (preload).  Thread rule: any thread; the list has
 * a lock of its own.
 *
 * A shared map that may be written has a second copy, the shadow, of what was read.  What differs from it has been changed by the
 * program and goes to the server, byte for byte, at msync, munmap, fsync, close, exec and exit, so that others' changes in between stay.
 * A program that holds a record lock on the file means to share the memory with others at once (databases do), which nothing here
 * can give: it gets ENODEV.
 */
#include <sys/mman.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/reach.h"
#include "iofwd/preload/targets.h"

#define PAGE ((size_t)4096) /* in which changes are looked for; any size does */

struct map {
    struct map *next;
    char *at, *shadow; /* shadow NULL: not writable up to now */
    size_t len;
    off_t off;
    struct fwd_ofile *of; /* with a reference: it stays open for the map */
    bool shared;          /* memory that forked children share */
};

static struct map *maps;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
int fwd_maps;

void fwd_maps_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

void fwd_maps_recount(void)
{
    for (struct map *m = maps; m; m = m->next)
        m->of->refs++;
}

static void *failed(int err)
{
    errno = err;
    return MAP_FAILED;
}

static void *anonymous(void *at, size_t len, int flags)
{
    return real_mmap64(at, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
}

/* ---- what was changed goes out ---- */

static int write_out(struct map *m, size_t from, size_t to)
{
    while (from < to) {
        size_t n = 0;
        int err = fwd_core_enter();
        if (!err)
            err = fwd_core.pwrite(fwd_core.client, &m->of->file, m->off + (off_t)from, m->at + from, to - from, &n);
        if (err)
            return err;
        if (n == 0)
            return EIO;
        memcpy(m->shadow + from, m->at + from, n);
        from += n;
    }
    return 0;
}

/* The changed bytes of m from `from` to `to`, in runs; what lies beyond the file's end is nobody's. */
static int flush(struct map *m, size_t from, size_t to)
{
    struct stat st;
    size_t run_from = 0, run_to = 0;
    int err = m->shadow ? fwd_core_enter() : 0;
    if (!m->shadow || err || (err = fwd_core.fstat(fwd_core.client, &m->of->file, &st)) != 0)
        return err;
    if (st.st_size <= m->off)
        return 0;
    if (to > (size_t)(st.st_size - m->off))
        to = (size_t)(st.st_size - m->off);
    for (size_t at = from; at < to && !err; at += PAGE) {
        size_t end = at + PAGE < to ? at + PAGE : to, first = at, last = end;
        if (memcmp(m->at + at, m->shadow + at, end - at) == 0)
            continue;
        while (m->at[first] == m->shadow[first])
            first++;
        while (m->at[last - 1] == m->shadow[last - 1])
            last--;
        if (first == run_to && run_to > run_from) {
            run_to = last;
            continue;
        }
        err = write_out(m, run_from, run_to);
        run_from = first;
        run_to = last;
    }
    return err ? err : write_out(m, run_from, run_to);
}

static int flush_if(const struct fwd_ofile *of)
{
    int err = 0;
    pthread_mutex_lock(&lock);
    for (struct map *m = maps; m; m = m->next)
        if (!of || m->of == of) {
            int one = flush(m, 0, m->len);
            err = err ? err : one;
        }
    pthread_mutex_unlock(&lock);
    return err;
}

int fwd_maps_flush(const struct fwd_ofile *of)
{
    return AMPH_LIKELY(!__atomic_load_n(&fwd_maps, __ATOMIC_RELAXED)) ? 0 : flush_if(of);
}

static void __attribute__((destructor)) at_exit(void)
{
    fwd_maps_flush(NULL);
}

/* ---- the list ---- */

/* Takes [from, to) out of m's list entry; both lie in it. */
static void cut(struct map **place, size_t from, size_t to)
{
    struct map *m = *place;
    if (m->shadow)
        real_munmap(m->shadow + from, to - from);
    if (from == 0 && to == m->len) {
        *place = m->next;
        __atomic_sub_fetch(&fwd_maps, 1, __ATOMIC_RELAXED);
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
        rest->shadow = rest->shadow ? rest->shadow + to : NULL;
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
    m->shadow = m->shadow ? m->shadow + to : NULL;
}

/* The part of m inside [at, at + len); false: none. */
static bool common(const struct map *m, const char *at, size_t len, size_t *from_p, size_t *to_p)
{
    const char *end = at + ((len + PAGE - 1) & ~(PAGE - 1));
    if (end <= m->at || at >= m->at + m->len)
        return false;
    *from_p = at > m->at ? (size_t)(at - m->at) : 0;
    *to_p = end < m->at + m->len ? (size_t)(end - m->at) : m->len;
    return true;
}

/* Nothing of the list lies in [at, at + len) any more; what was changed there is written. */
static void forget(const void *at, size_t len)
{
    size_t from, to;
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
}

/* ---- making maps ---- */

static int read_in(const struct fwd_ofile *of, char *to, size_t len, off_t off)
{
    for (size_t done = 0, n = 1; done < len && n > 0; done += n) {
        int err = fwd_core.pread(fwd_core.client, &of->file, off + (off_t)done, to + done, len - done, &n);
        if (err)
            return err;
    }
    return 0;
}

/* Puts a map into the list; false: no memory. */
static bool keep(char *at, size_t len, off_t off, struct fwd_ofile *of, bool shared, bool writable)
{
    struct map *m = malloc(sizeof *m);
    char *shadow = m && writable ? anonymous(NULL, len, MAP_PRIVATE) : NULL;
    if (!m || shadow == MAP_FAILED) {
        free(m);
        return false;
    }
    if (shadow)
        memcpy(shadow, at, len);
    __atomic_add_fetch(&of->refs, 1, __ATOMIC_RELAXED);
    *m = (struct map){ .at = at, .shadow = shadow, .len = len, .off = off, .of = of, .shared = shared };
    pthread_mutex_lock(&lock);
    m->next = maps;
    maps = m;
    __atomic_add_fetch(&fwd_maps, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    return true;
}

/* What the kernel would say to such a map of such a file. */
static int refused(const struct fwd_ofile *of, int prot, bool shared, int *access_p)
{
    struct stat st;
    int flags, err = fwd_core.getflags(fwd_core.client, &of->file, &flags);
    if (err)
        return err;
    *access_p = flags & O_ACCMODE;
    if (flags & O_PATH)
        return EBADF;
    if (*access_p == O_WRONLY || (shared && (prot & PROT_WRITE) && *access_p != O_RDWR))
        return EACCES;
    if ((err = fwd_core.fstat(fwd_core.client, &of->file, &st)) != 0)
        return err;
    return S_ISREG(st.st_mode) && !(shared && (prot & PROT_WRITE) && of->locked) ? 0 : ENODEV;
}

static void *map_file(struct fwd_ofile *of, void *at, size_t len, int prot, int flags, off_t off)
{
    bool shared = (flags & MAP_TYPE) != MAP_PRIVATE, writable = shared && (prot & PROT_WRITE);
    int access, err = refused(of, prot, shared, &access);
    if (err)
        return failed(err);
    size_t whole = (len + PAGE - 1) & ~(PAGE - 1);
    char *map = anonymous(at, len, (flags & ~(MAP_TYPE | MAP_SYNC)) | (writable ? MAP_SHARED : MAP_PRIVATE));
    if (map == MAP_FAILED)
        return MAP_FAILED;
    err = read_in(of, map, len, off);
    if (!err && shared && access == O_RDWR && !keep(map, whole, off, of, writable, writable))
        err = ENOMEM;
    if (err) {
        real_munmap(map, len);
        return failed(err);
    }
    if (prot != (PROT_READ | PROT_WRITE))
        real_mprotect(map, len, prot);
    return map;
}

void *x_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    struct fwd_ofile *of;
    if (off < 0 || (off & (sysconf(_SC_PAGESIZE) - 1)))
        return failed(EINVAL);
    if (flags & MAP_FIXED)
        forget(at, len);
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
    if (have_maps())
        forget(at, len);
    return memory_changed(real_munmap(at, len));
}

int x_msync(void *at, size_t len, int flags)
{
    size_t from, to;
    int err = 0;
    if (real_msync(at, len, flags) != 0)
        return -1;
    pthread_mutex_lock(&lock);
    for (struct map *m = maps; m && !err; m = m->next)
        if (common(m, at, len, &from, &to)) {
            err = flush(m, from, to);
            if (!err && (flags & MS_INVALIDATE) && m->shadow && (err = read_in(m->of, m->at + from, to - from, m->off + (off_t)from)) == 0)
                memcpy(m->shadow + from, m->at + from, to - from);
        }
    pthread_mutex_unlock(&lock);
    return fwd_result(err);
}

/* A shared map that was read-only is to be written: from here on it needs its shadow. */
int x_mprotect(void *at, size_t len, int prot)
{
    size_t from, to;
    int err = 0;
    if (!have_maps())
        return memory_changed(real_mprotect(at, len, prot));
    pthread_mutex_lock(&lock);
    for (struct map *m = maps; m && (prot & PROT_WRITE) && !err; m = m->next) {
        if (m->shadow || !common(m, at, len, &from, &to))
            continue;
        char *shadow = m->of->locked ? NULL : anonymous(NULL, m->len, MAP_PRIVATE);
        if (!shadow || shadow == MAP_FAILED)
            err = shadow ? ENOMEM : EACCES;
        else
            memcpy(m->shadow = shadow, m->at, m->len);
    }
    pthread_mutex_unlock(&lock);
    return err ? fwd_fail(err) : memory_changed(real_mprotect(at, len, prot));
}

/* A larger map is a new one, a smaller one ends earlier. */
void *x_mremap(void *old, size_t old_len, size_t len, int flags, void *at)
{
    size_t from, to;
    struct map *m;
    struct map found = { 0 };
    fwd_reach_forget();
    if (!have_maps())
        return real_mremap(old, old_len, len, flags, at);
    pthread_mutex_lock(&lock);
    for (m = maps; m; m = m->next)
        if (common(m, old, old_len, &from, &to)) {
            found = *m;
            __atomic_add_fetch(&found.of->refs, 1, __ATOMIC_RELAXED);
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!found.of)
        return real_mremap(old, old_len, len, flags, at);
    void *result = old;
    if (len <= old_len && !(flags & MREMAP_FIXED)) {
        if (len < old_len)
            x_munmap((char *)old + len, old_len - len);
    } else if (!(flags & MREMAP_MAYMOVE)) {
        result = failed(ENOMEM);
    } else {
        flush_if(found.of);
        result = fwd_core_enter() ? failed(EIO)
                                  : map_file(found.of, flags & MREMAP_FIXED ? at : NULL, len, PROT_READ | (found.shadow ? PROT_WRITE : 0),
                                             MAP_SHARED | (flags & MREMAP_FIXED ? MAP_FIXED : 0), found.off + ((char *)old - found.at));
        if (result != MAP_FAILED)
            x_munmap(old, old_len);
    }
    int saved = errno;
    fdtab_put(found.of);
    errno = saved;
    return result;
}
