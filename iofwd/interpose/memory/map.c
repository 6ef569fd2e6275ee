/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings of forwarded files.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; the list is under amph_ip_pages_lock.
 *
 * A shared mapping, and a large private one, maps the file itself, if the process can have a descriptor of it
 * (map_itself.h).  Otherwise a private mapping is anonymous memory filled when the mapping is made, and a shared one
 * maps the file's pages, which all processes of this host share (pages.h); changes are written to the server at msync,
 * munmap, fsync, close, exec and exit.
 *
 * A program's mmap and munmap pass through the C library's function exactly once: a registration
 * cache of a network library may have patched that function and must see them.  Mappings made with
 * syscall() do not pass through it (kernel.h).  The client's own mappings do, like any library's,
 * since its network library may have such a cache.  System calls of the cache itself go to the
 * kernel, because the client counts as inside of Amphora (amph_ip_inside).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/memory/map_file.h"
#include "iofwd/interpose/memory/map_itself.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/process/die.h"

#define KEEP_OLD 4 /* MREMAP_DONTUNMAP */

struct amph_ip_map {
    struct amph_ip_map *next;
    char *at;
    size_t len;
    off_t off;
    struct amph_fd_file *of; /* a reference: the file stays open for the mapping */
    struct amph_ip_pages *pages;
    bool may_write; /* of is open for writing */
};

void amph_ip_maps_fork_lock(bool take)
{
    amph_ip_pages_fork_lock(take);
}

void amph_ip_maps_forked(bool recounted)
{
    for (struct amph_ip_map *m = amph_ip_memory.maps; m && recounted; m = m->next)
        m->of->refs++;

    amph_ip_pages_forked();
}

static void *failed(int err)
{
    errno = err;
    return MAP_FAILED;
}

static bool have_maps(void)
{
    return __atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED);
}

/* ---- which implementation a call uses ---- */

static int mprotect_by(enum amph_client_route way, void *at, size_t len, int prot)
{
    return way == AMPH_IP_LIBC ? libc_mprotect(at, len, prot)
                               : amph_ip_kernel_mprotect(at, len, prot);
}

static void *mremap_by(enum amph_client_route way, void *old, size_t old_len, size_t len, int flags,
                       void *at)
{
    if (way == AMPH_IP_KERNEL)
        return amph_ip_kernel_mremap(old, old_len, len, flags, at);

    return libc_mremap(old, old_len, len, flags, at);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t len)
{
    return (len + page_bytes() - 1) & ~(page_bytes() - 1);
}

/* ---- writing changes back ---- */

/* Writes the changed bytes of m from `from` to `to`. */
static int flush(struct amph_ip_map *m, size_t from, size_t to)
{
    int err = m->may_write ? amph_ip_client_enter() : 0;

    if (!m->may_write || err || !amph_ip_pages_changed(m->pages))
        return err;

    amph_ip_pages_begin(m->pages);
    err = amph_ip_pages_flush(m->pages, &m->of->file, m->off + (off_t)from, m->off + (off_t)to);
    amph_ip_pages_end(m->pages);

    return err;
}

static int flush_if(const struct amph_fd_file *of)
{
    struct amph_ip_pages_guard g;
    int err = 0;

    amph_ip_pages_lock(&g);

    const struct amph_ip_pages *p = of ? amph_ip_pages_of(&of->file, false) : NULL;

    for (struct amph_ip_map *m = amph_ip_memory.maps; m; m = m->next)
        if (!of || m->of == of || m->pages == p) {
            int one = flush(m, 0, m->len);
            err = err ? err : one;
        }

    amph_ip_pages_unlock(&g);
    return err;
}

int amph_ip_maps_flush(const struct amph_fd_file *of)
{
    return AMPH_LIKELY(!__atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED)) ? 0 : flush_if(of);
}

void amph_ip_maps_resize(void)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);
    for (struct amph_ip_map *m = amph_ip_memory.maps; m; m = m->next) {
        amph_ip_pages_begin(m->pages);
        (void)amph_ip_pages_resize(m->pages, &m->of->file);
        amph_ip_pages_end(m->pages);
    }

    amph_ip_pages_unlock(&g);
}

static void __attribute__((destructor)) at_exit(void)
{
    struct amph_ip_pages_guard g;

    if (!__atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED))
        return;

    flush_if(NULL);
    amph_ip_pages_lock(&g);
    amph_ip_pages_ending();
    amph_ip_pages_unlock(&g);
}

/* ---- the list of mappings ---- */

/* Does m go on before and behind [from, to)? */
static bool splits(const struct amph_ip_map *m, size_t from, size_t to)
{
    return from > 0 && to < m->len;
}

/* Removes [from, to), which is in m, from m's list entry.  rest: the entry for what follows, if that splits
 * m. */
static void cut(struct amph_ip_map **link, size_t from, size_t to, struct amph_ip_map *rest)
{
    struct amph_ip_map *m = *link;

    if (from == 0 && to == m->len) {
        *link = m->next;
        __atomic_sub_fetch(&amph_ip_state.maps, 1, __ATOMIC_RELAXED);
        amph_ip_pages_leave(m->pages);
        amph_fdtab_put(m->of);
        free(m);
        return;
    }

    if (rest && splits(m, from, to)) {
        *rest = *m;
        rest->at += to;
        rest->off += (off_t)to;
        rest->len -= to;
        rest->pages->maps++;
        __atomic_add_fetch(&rest->of->refs, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&amph_ip_state.maps, 1, __ATOMIC_RELAXED);
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

/* The part of m inside [at, at + len).  false: empty. */
static bool common(const struct amph_ip_map *m, const char *at, size_t len, size_t *from_p,
                   size_t *to_p)
{
    const char *end = at + whole_pages(len);

    if (end <= m->at || at >= m->at + m->len)
        return false;

    *from_p = at > m->at ? (size_t)(at - m->at) : 0;
    *to_p = end < m->at + m->len ? (size_t)(end - m->at) : m->len;
    return true;
}

/* Removes [at, at + len) from the list; changes in it are written back first.  0, or ENOMEM, and nothing has
 * been done: memory is needed only if the range is inside one mapping. */
static int forget(const void *at, size_t len)
{
    struct amph_ip_pages_guard g;
    size_t from, to;
    int err = 0;

    amph_ip_pages_lock(&g);
    for (struct amph_ip_map **link = &amph_ip_memory.maps; *link;) {
        struct amph_ip_map *m = *link;

        if (!common(m, at, len, &from, &to)) {
            link = &m->next;
            continue;
        }

        struct amph_ip_map *rest = splits(m, from, to) ? malloc(sizeof *rest) : NULL;

        if (splits(m, from, to) && !rest) {
            err = ENOMEM;
            break;
        }

        flush(m, from, to);
        cut(link, from, to, rest);
        if (*link == m)
            link = &m->next;
    }

    amph_ip_pages_unlock(&g);
    return err;
}

/* ---- making mappings ---- */

/* How the file is open, which never changes.  0 or an errno value. */
static int access_of(struct amph_fd_file *of, int *access_p)
{
    unsigned known = __atomic_load_n(&of->access, __ATOMIC_RELAXED);
    int flags;

    if (known) {
        *access_p = (int)known - 1;
        return 0;
    }

    int err = amph_ip_client.fwd.getflags(amph_ip_client.client, &of->file, &flags);

    if (err)
        return err;
    if (flags & O_PATH)
        return EBADF;

    *access_p = flags & O_ACCMODE;
    __atomic_store_n(&of->access, (uint8_t)(1 + *access_p), __ATOMIC_RELAXED);
    return 0;
}

/* The error that the kernel would return for such a mapping of such a file. */
static int refused(struct amph_fd_file *of, int prot, bool shared, struct stat *st, int *access_p)
{
    int err = access_of(of, access_p);

    if (err)
        return err;
    if (*access_p == O_WRONLY || (shared && (prot & PROT_WRITE) && *access_p != O_RDWR))
        return EACCES;
    if ((err = amph_ip_client.fwd.fstat(amph_ip_client.client, &of->file, st)) != 0)
        return err;

    return S_ISREG(st->st_mode) ? 0 : ENODEV;
}

/* Access beyond a file's last page raises SIGBUS, as in a mapping of an empty file. */
static int end_map(char *at, size_t len)
{
    int fd = amph_ip_kernel_memfd_create("iofwd", MFD_CLOEXEC);
    char *end = fd < 0 ? MAP_FAILED
                       : amph_ip_kernel_mmap(at, len, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
    int err = end == MAP_FAILED ? errno : 0;

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return err;
}

static void *map_private(enum amph_client_route way, const struct amph_fd_file *of, void *at,
                         size_t len, int prot, int flags, off_t off, off_t size)
{
    int own_flags = (flags & ~(MAP_TYPE | MAP_SYNC)) | MAP_PRIVATE | MAP_ANONYMOUS;
    char *map = amph_ip_mmap_by(
        way, &(struct amph_ip_map_call){ at, len, PROT_READ | PROT_WRITE, own_flags, 0 }, -1);

    if (map == MAP_FAILED)
        return MAP_FAILED;

    size_t there = off < size ? whole_pages((size_t)(size - off)) : 0;
    int err = amph_ip_read_in(&of->file, map, len, off);

    if (!err && there < len)
        err = end_map(map + there, len - there);

    if (err) {
        amph_ip_munmap_by(way, map, len);
        return failed(err);
    }

    if (prot != (PROT_READ | PROT_WRITE))
        amph_ip_kernel_mprotect(map, len, prot);

    return map;
}

/* Adds a mapping to the list, which takes over a reference to the pages. */
static bool enlist(char *at, size_t len, off_t off, struct amph_fd_file *of,
                   struct amph_ip_pages *pages, bool may_write)
{
    struct amph_ip_map *m = malloc(sizeof *m);

    if (!m)
        return false;

    __atomic_add_fetch(&of->refs, 1, __ATOMIC_RELAXED);
    *m = (struct amph_ip_map){ .next = amph_ip_memory.maps,
                               .at = at,
                               .len = whole_pages(len),
                               .off = off,
                               .of = of,
                               .pages = pages,
                               .may_write = may_write };
    amph_ip_memory.maps = m;
    __atomic_add_fetch(&amph_ip_state.maps, 1, __ATOMIC_RELAXED);

    return true;
}

/* Makes the pages, up to date with the file. */
static int prepare(struct amph_ip_pages *p, const struct amph_fd_file *of, size_t len, int prot,
                   off_t off)
{
    amph_ip_pages_begin(p);

    int err = amph_ip_pages_load(p, &of->file, off, (off_t)len);

    if (!err && (prot & PROT_WRITE))
        err = amph_ip_pages_writable(p);

    amph_ip_pages_end(p);
    return err;
}

/* Pages for a new mapping, and their descriptor. */
static int take_pages(struct amph_fd_file *of, const struct amph_ip_map_call *c,
                      const struct amph_ip_pages_user *user, struct amph_ip_pages **pages_p,
                      int *fd_p)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    int err = amph_ip_pages_join(&of->file, user, pages_p);

    if (!err) {
        err = prepare(*pages_p, of, c->len, c->prot, c->off);
        *fd_p = err ? -1 : amph_ip_pages_map_fd(*pages_p, user->writes);
        if (!err && *fd_p < 0)
            err = errno;

        if (err)
            amph_ip_pages_leave(*pages_p);
    }

    amph_ip_pages_unlock(&g);
    return err;
}

/* No lock is held during the call that makes the mapping: a patched C library function may use
 * forwarded files. */
static void *map_shared(enum amph_client_route way, struct amph_fd_file *of,
                        const struct amph_ip_map_call *c, const struct amph_ip_pages_user *user)
{
    struct amph_ip_pages_guard g;
    struct amph_ip_pages *p;
    int fd;
    int err = take_pages(of, c, user, &p, &fd);

    if (err == EBUSY || err == EALREADY)
        return amph_ip_map_refused(of->path, err == EALREADY);
    if (err)
        return failed(err);

    char *map = amph_ip_mmap_by(way, c, fd);

    if (map == MAP_FAILED)
        err = errno;

    amph_ip_kernel_close(fd);

    amph_ip_pages_lock(&g);

    bool listed = !err && enlist(map, c->len, c->off, of, p, user->writes);

    if (!listed)
        amph_ip_pages_leave(p);

    amph_ip_pages_unlock(&g);

    if (!err && !listed) {
        amph_ip_munmap_by(way, map, c->len);
        err = ENOMEM;
    }

    return err ? failed(err) : map;
}

/* Maps the file's pages, since it cannot be mapped itself. */
static void *map_pages(enum amph_client_route way, struct amph_fd_file *of,
                       const struct amph_ip_map_call *c, const struct amph_ip_pages_user *user)
{
    amph_ip_coherent_begin();

    /* a shared map needs files that each task has open under the same number */
    void *map = amph_ip_tables_many() ? failed(ENODEV) : map_shared(way, of, c, user);
    int err = errno;

    /* A read-only file that cannot be shared (no descriptors left, file sizes limited, memory from
     * which no program may run, or several descriptor tables) is mapped privately. */
    if (map == MAP_FAILED && !user->writes &&
        (err == ENODEV || err == EMFILE || err == ENFILE || err == ENOMEM || err == EPERM ||
         err == ENOSPC))
        return map_private(way, of, c->at, c->len, c->prot, c->flags, c->off, user->st->st_size);

    errno = err;
    return map;
}

static void *map_file(enum amph_client_route way, struct amph_fd_file *of,
                      const struct amph_ip_map_call *c)
{
    struct stat st;
    bool shared = (c->flags & MAP_TYPE) != MAP_PRIVATE;
    int access;
    int err = refused(of, c->prot, shared, &st, &access);

    if (err)
        return failed(err);
    void *map;

    if (!shared)
        return !have_maps() && amph_ip_map_itself_private(way, of, c, &st, access, &map)
                   ? map
                   : map_private(way, of, c->at, c->len, c->prot, c->flags, c->off, st.st_size);

    struct amph_ip_pages_user user = { .st = &st, .writes = access == O_RDWR };

    if (amph_ip_map_itself(way, of, c, &st, user.writes, &map))
        return map;

    user.strict = (c->prot & PROT_WRITE) && of->locked;
    return map_pages(way, of, c, &user);
}

/* Flags that MAP_SHARED_VALIDATE accepts: those that every kernel has (LEGACY_MAP_MASK). */
#define MAP_KNOWN \
    (MAP_TYPE | MAP_FIXED | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_DENYWRITE | MAP_EXECUTABLE | \
     MAP_LOCKED | MAP_NORESERVE | MAP_POPULATE | MAP_NONBLOCK | MAP_STACK | MAP_HUGETLB | \
     MAP_SYNC | 0xc0 /* 32BIT, ABOVE4G */ | 0x7c000000 /* UNINITIALIZED, HUGE_2MB, HUGE_1GB */)

static int map_kind_error(int flags)
{
    switch (flags & MAP_TYPE) {
    case MAP_SHARED:
    case MAP_PRIVATE:
        return 0;
    case MAP_SHARED_VALIDATE:
        return flags & ~MAP_KNOWN ? EOPNOTSUPP : 0;
    default:
        return EINVAL;
    }
}

static void *map_local(enum amph_client_route way, const struct amph_ip_map_call *c, int fd)
{
    bool shared = (c->flags & MAP_TYPE) != MAP_PRIVATE;

    return shared && amph_ip_near_has(fd) ? amph_ip_map_near(way, c, fd)
                                          : amph_ip_mmap_by(way, c, fd);
}

static void *map_any(enum amph_client_route way, const struct amph_ip_map_call *c, int fd)
{
    struct amph_fd_file *of;

    if (!amph_ip_fd(fd))
        return map_local(way, c, fd);

    if (c->off < 0 || (c->off & (off_t)(page_bytes() - 1)) || c->len == 0 || (off_t)c->len < 0)
        return failed(EINVAL);

    int kind_error = amph_ip_is_path_only(fd) ? 0 : map_kind_error(c->flags);

    if (kind_error)
        return failed(kind_error);
    if (amph_ip_file_begin(fd, &of) != 0)
        return MAP_FAILED;

    void *map = map_file(way, of, c);
    int saved = errno;

    amph_fdtab_put(of);
    errno = saved;
    return map;
}

void *amph_ip_mmap(enum amph_client_route way, void *at, size_t len, int prot, int flags, int fd,
                   off_t off)
{
    const struct amph_ip_map_call c = { at, len, prot, flags, off };

    if (!(flags & MAP_FIXED))
        return map_any(way, &c, fd);

    uint64_t turn = amph_ip_map_file_turn();

    amph_ip_mem_forget();
    if (__atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED) && forget(at, len) != 0)
        return failed(ENOMEM);

    void *map = map_any(way, &c, fd);

    if (map != MAP_FAILED && amph_ip_map_files())
        amph_ip_map_file_forget(at, len, turn);

    return map;
}

void *amph_do_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    return amph_ip_mmap(AMPH_IP_LIBC, at, len, prot, flags, fd, off);
}

/* ---- changing mappings, and other memory ---- */

bool amph_ip_map_path(const void *at, size_t len, char path[PATH_MAX])
{
    struct amph_ip_pages_guard g;
    size_t from, to;
    bool found = false;

    path[0] = 0;
    if (amph_ip_map_files() && amph_ip_map_file_path(at, len, path))
        return true;
    if (!have_maps())
        return false;

    amph_ip_pages_lock(&g);
    for (struct amph_ip_map *m = amph_ip_memory.maps; m && !found; m = m->next)
        if ((found = common(m, at, len, &from, &to)))
            snprintf(path, PATH_MAX, "%s", m->of->path);

    amph_ip_pages_unlock(&g);
    return found;
}

static int memory_changed(int result)
{
    amph_ip_mem_forget();
    return result;
}

int amph_ip_munmap(enum amph_client_route way, void *at, size_t len)
{
    bool aligned = ((uintptr_t)at & (page_bytes() - 1)) == 0;

    if (have_maps() && aligned && forget(at, len) != 0) {
        errno = ENOMEM;
        return -1;
    }

    if (!amph_ip_map_files())
        return memory_changed(amph_ip_munmap_by(way, at, len));

    uint64_t turn = amph_ip_map_file_turn();
    int result = amph_ip_munmap_by(way, at, len);

    if (result == 0)
        amph_ip_map_file_forget(at, len, turn);

    return memory_changed(result);
}

int amph_do_munmap(void *at, size_t len)
{
    return amph_ip_munmap(AMPH_IP_LIBC, at, len);
}

int amph_ip_msync(enum amph_client_route way, void *at, size_t len, int flags)
{
    struct amph_ip_pages_guard g;
    size_t from, to;
    int err = 0;

    if ((way == AMPH_IP_LIBC ? libc_msync(at, len, flags) : amph_ip_kernel_msync(at, len, flags)) !=
        0)
        return -1;

    amph_ip_pages_lock(&g);
    for (struct amph_ip_map *m = amph_ip_memory.maps; m && !err; m = m->next) {
        if (!common(m, at, len, &from, &to))
            continue;

        err = flush(m, from, to);
        if (!err && (flags & MS_INVALIDATE))
            err = prepare(m->pages, m->of, to - from, 0, m->off + (off_t)from);
    }

    amph_ip_pages_unlock(&g);
    return amph_ip_result(err);
}

int amph_do_msync(void *at, size_t len, int flags)
{
    return amph_ip_msync(AMPH_IP_LIBC, at, len, flags);
}

/* A read-only shared mapping becomes writable. */
int amph_ip_mprotect(enum amph_client_route way, void *at, size_t len, int prot)
{
    struct amph_ip_pages_guard g;
    size_t from, to;
    int err = 0;

    if (!have_maps())
        return memory_changed(mprotect_by(way, at, len, prot));

    amph_ip_pages_lock(&g);
    for (struct amph_ip_map *m = amph_ip_memory.maps; m && (prot & PROT_WRITE) && !err; m = m->next)
        if (m->may_write && common(m, at, len, &from, &to) &&
            !(err = m->of->locked && !m->pages->named ? EACCES : 0))
            err = prepare(m->pages, m->of, to - from, PROT_WRITE, m->off + (off_t)from);

    amph_ip_pages_unlock(&g);
    return err ? amph_ip_fail(err) : memory_changed(mprotect_by(way, at, len, prot));
}

int amph_do_mprotect(void *at, size_t len, int prot)
{
    return amph_ip_mprotect(AMPH_IP_LIBC, at, len, prot);
}

/* The first mapping of the list in [at, at + len), and the part of it inside. */
static struct amph_ip_map *map_at(const void *at, size_t len, size_t *from_p, size_t *to_p)
{
    struct amph_ip_map *m = amph_ip_memory.maps;

    while (m && !common(m, at, len, from_p, to_p))
        m = m->next;

    return m;
}

/* A mapping that is moved or grown: its old entry, with a reference to its file and pages for the
 * new size. */
struct moved {
    struct amph_ip_map was;
    off_t off;                /* file offset of the part that moves */
    size_t from, to;          /* of the part that moves, in its mapping */
    struct amph_ip_map *rest; /* for what remains behind the part that moves; or NULL */
};

/* Returns false if no mapping is moved, or if it cannot be (*err_p). */
static bool move_begin(char *old, size_t old_len, size_t len, struct moved *v, int *err_p)
{
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    struct amph_ip_map *m = map_at(old, old_len ? old_len : 1, &v->from, &v->to);

    if (m) {
        v->was = *m;
        v->off = m->off + (off_t)v->from;
        v->to = old_len ? v->to : v->from; /* without a length nothing leaves its place */
        v->rest = splits(m, v->from, v->to) ? malloc(sizeof *v->rest) : NULL;
        *err_p = splits(m, v->from, v->to) && !v->rest ? ENOMEM : amph_ip_client_enter();
        if (!*err_p)
            *err_p = prepare(m->pages, m->of, len, 0, v->off);

        if (*err_p)
            free(v->rest);
    }

    if (m && !*err_p) {
        m->pages->maps++;
        __atomic_add_fetch(&m->of->refs, 1, __ATOMIC_RELAXED);
    }

    amph_ip_pages_unlock(&g);
    return m && !*err_p;
}

/* Adds the mapping at its new address (MAP_FAILED: at the old one) to the list. */
static void move_end(const struct moved *v, char *map, size_t len, bool keep_old)
{
    const struct amph_ip_map *was = &v->was;
    struct amph_ip_pages_guard g;

    amph_ip_pages_lock(&g);

    struct amph_ip_map **link = &amph_ip_memory.maps;

    while (*link && ((*link)->at != was->at || (*link)->pages != was->pages))
        link = &(*link)->next;

    const bool leaves = map != MAP_FAILED && !keep_old && *link && v->from < v->to;
    const bool has_rest = leaves && splits(*link, v->from, v->to);

    if (leaves)
        cut(link, v->from, v->to, v->rest);
    if (!has_rest)
        free(v->rest);

    if (map == MAP_FAILED || !enlist(map, len, v->off, was->of, was->pages, was->may_write))
        amph_ip_pages_leave(was->pages);

    amph_ip_pages_unlock(&g);

    amph_fdtab_put(was->of);
}

static void *move_pages(enum amph_client_route way, void *old, size_t old_len, size_t len,
                        int flags, void *at)
{
    struct moved v;
    int err = 0;

    if ((flags & MREMAP_FIXED) && forget(at, len) != 0)
        return failed(ENOMEM);

    if (!move_begin(old, old_len, len, &v, &err))
        return err ? failed(err) : mremap_by(way, old, old_len, len, flags, at);

    /* the kernel applies the change to the mapping of the pages */
    amph_ip_thread.in_mremap = true;

    void *map = mremap_by(way, old, old_len, len, flags, at);
    int saved = errno;

    amph_ip_thread.in_mremap = false;
    move_end(&v, map, len, flags & KEEP_OLD);
    errno = saved;

    return map;
}

/* The move of a map in memory of which the process maps files themselves. */
static void *move_among_files(enum amph_client_route way, void *old, size_t old_len, size_t len,
                              int flags, void *at)
{
    struct amph_ip_mapped_file *file = amph_ip_map_file_move_begin(old, old_len);
    struct amph_ip_moved_map v = { .old = old,
                                   .old_len = old_len,
                                   .len = len,
                                   .keeps_old = flags & KEEP_OLD,
                                   .turn = amph_ip_map_file_turn() };

    v.at = file || !have_maps() ? mremap_by(way, old, old_len, len, flags, at)
                                : move_pages(way, old, old_len, len, flags, at);
    if (v.at != MAP_FAILED && (flags & MREMAP_FIXED))
        amph_ip_map_file_forget(at, len, v.turn);
    if (file)
        amph_ip_map_file_move_end(file, &v);

    return v.at;
}

void *amph_ip_mremap(enum amph_client_route way, void *old, size_t old_len, size_t len, int flags,
                     void *at)
{
    amph_ip_mem_forget();
    if (amph_ip_thread.in_mremap)
        return amph_ip_kernel_mremap(old, old_len, len, flags, at);
    if (amph_ip_map_files())
        return move_among_files(way, old, old_len, len, flags, at);
    if (!have_maps())
        return mremap_by(way, old, old_len, len, flags, at);

    return move_pages(way, old, old_len, len, flags, at);
}

void *amph_do_mremap(void *old, size_t old_len, size_t len, int flags, void *at)
{
    return amph_ip_mremap(AMPH_IP_LIBC, old, old_len, len, flags, at);
}
