/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Forwarded libraries for the dynamic linker; see loader/elf_deps.h.
 *
 * Layer: iofwd (interposer).
 *
 * A dependency (DT_NEEDED) is a string in a table of the file.  The copy's dependencies are
 * rewritten to "/proc/self/fd/N", in a string table appended behind the file's end, in a PT_LOAD
 * segment whose program header replaces a PT_NOTE.  Libraries are searched as ld.so(8) describes,
 * in the forwarded view.
 */
#include "iofwd/interpose/loader/elf_deps.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/elf/elf.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/interpose/fd/own_table.h"

#define ABOVE 512 /* the descriptors of copies, above the program's */
#define CHANGES_MAX 128
#define DEPTH_MAX 32

/* The RPATHs of an object and of those that loaded it, which also apply to its own dependencies. */
struct chain {
    const char *rpath, *origin; /* rpath NULL: none that applies */
    const struct chain *up;
    int depth;
};

/* A dependency that gets another name. */
struct change {
    size_t dyn;       /* index of its dynamic entry */
    const char *name; /* the new name */
};

/* ---- the file ---- */

static bool open_image(struct amph_elf *im, int fd, bool writable)
{
    struct stat st;

    *im = (struct amph_elf){ .at = MAP_FAILED };
    if (libc_fstat64(fd, &st) != 0 || st.st_size < (off_t)sizeof(ElfW(Ehdr)))
        return false;

    im->len = (size_t)st.st_size;
    im->at = amph_ip_kernel_mmap(NULL, im->len, PROT_READ | (writable ? PROT_WRITE : 0),
                                 writable ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (im->at == MAP_FAILED)
        return false;
    if (amph_elf_view(im))
        return true;

    amph_ip_kernel_munmap(im->at, im->len);
    return false;
}

/* Writes the new names to fd, which im maps. */
static bool apply(struct amph_elf *im, int fd, const struct change *change, size_t n)
{
    char text[CHANGES_MAX * AMPH_IP_ELF_DEPS_NAME];
    struct amph_elf_segment_slot slot;
    size_t len = 0;
    size_t at[CHANGES_MAX];

    for (size_t i = 0; i < n; i++) {
        at[i] = len;
        len += strlen(strcpy(text + len, change[i].name)) + 1;
    }

    if (!amph_elf_find_segment_slot(im, &slot) || slot.address < im->strings_at ||
        slot.address - im->strings_at > UINT32_MAX - sizeof text ||
        libc_pwrite64(fd, text, len, (off_t)slot.offset) != (ssize_t)len)
        return false;

    for (size_t i = 0; i < n; i++)
        amph_elf_rename(im, change[i].dyn, slot.address - im->strings_at + at[i]);

    amph_elf_put_segment(im, &slot, PF_R, len);
    return true;
}

/* ---- searching libraries ---- */

enum location {
    LOCATION_NONE,
    LOCATION_LOCAL,
    LOCATION_FORWARDED
};

static enum location look(const char *path)
{
    if (!amph_ip_path(path) || !amph_ip_is_forwarded(path))
        return libc_access(path, R_OK) == 0 ? LOCATION_LOCAL : LOCATION_NONE;

    return amph_do_faccessat(AT_FDCWD, path, R_OK, 0) == 0 ? LOCATION_FORWARDED : LOCATION_NONE;
}

/* Expands one entry of a directory list, with $ORIGIN.  false: too long, or with a token that only
 * the linker knows. */
static bool expand(const char *from, size_t len, const char *origin, char *out, size_t cap)
{
    static const char *const forms[] = { "$ORIGIN", "${ORIGIN}" };
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        size_t taken = 0;

        for (size_t k = 0; k < AMPH_COUNTOF(forms) && !taken && from[i] == '$'; k++)
            if (len - i >= strlen(forms[k]) && memcmp(from + i, forms[k], strlen(forms[k])) == 0)
                taken = strlen(forms[k]);

        if (from[i] == '$' && (!taken || !origin))
            return false;

        size_t more = taken ? strlen(origin) : 1;
        if (n + more + 1 > cap)
            return false;

        memcpy(out + n, taken ? origin : from + i, more);
        n += more;
        i += taken ? taken - 1 : 0;
    }

    out[n] = 0;
    return true;
}

/* Finds the first directory of a list that contains the library. */
static enum location search(const char *list, const char *origin, const char *name,
                            char out[PATH_MAX])
{
    char dir[PATH_MAX];

    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ":;");
        bool ok = expand(at, len, origin, dir, sizeof dir) &&
                  snprintf(out, PATH_MAX, "%s/%s", dir[0] ? dir : ".", name) < PATH_MAX;
        enum location where = ok ? look(out) : LOCATION_NONE;

        if (where != LOCATION_NONE)
            return where;

        at += len + (at[len] != 0);
    }

    return LOCATION_NONE;
}

/* Finds a dependency of an object if it is forwarded.  The directories after these are local. */
static enum location find(const struct amph_ip_elf_deps *deps, const struct amph_elf *im,
                          const struct chain *own, const char *name, char out[PATH_MAX])
{
    enum location where = LOCATION_NONE;

    if (strchr(name, '/'))
        return expand(name, strlen(name), own->origin, out, PATH_MAX) ? look(out) : LOCATION_NONE;

    for (const struct chain *c = own; c && !im->runpath && where == LOCATION_NONE; c = c->up)
        where = search(c->rpath, c->origin, name, out);

    if (where == LOCATION_NONE)
        where = search(deps->search, NULL, name, out);

    return where == LOCATION_NONE ? search(im->runpath, own->origin, name, out) : where;
}

bool amph_ip_elf_deps_find(const struct amph_ip_elf_deps *deps, const char *name,
                           char out[PATH_MAX])
{
    return search(deps->search, NULL, name, out) == LOCATION_FORWARDED;
}

bool amph_ip_elf_deps_search(const char *list)
{
    char dir[PATH_MAX];

    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ":;");
        if (expand(at, len, NULL, dir, sizeof dir) && amph_ip_path(dir[0] ? dir : "."))
            return true;

        at += len + (at[len] != 0);
    }

    return false;
}

/* ---- copies ---- */

/* The copies that dlopen has loaded, to be found again as long as they are loaded. */
struct amph_ip_loaded_copy {
    struct amph_ip_loaded_copy *next;
    dev_t dev;
    ino_t ino;
    char name[AMPH_IP_ELF_DEPS_NAME];
};

struct amph_ip_loader_state amph_ip_loader = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                               .error_once = PTHREAD_ONCE_INIT };

void amph_ip_loader_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_loader.lock);
    else
        pthread_mutex_unlock(&amph_ip_loader.lock);
}

static void *still_loaded(const struct stat *st, char *name)
{
    void *held = NULL;
    sigset_t before;

    amph_ip_process_lock(&amph_ip_loader.lock, &before);

    struct amph_ip_loaded_copy *k = amph_ip_loader.copies;

    while (k && (k->dev != st->st_dev || k->ino != st->st_ino))
        k = k->next;

    if (k)
        strcpy(name, k->name);

    amph_ip_process_unlock(&amph_ip_loader.lock, &before);
    if (k && !(held = libc_dlopen(name, RTLD_LAZY | RTLD_NOLOAD)))
        libc_dlerror();

    return held;
}

static void make_known(const struct amph_ip_elf_dep *dep)
{
    sigset_t before;

    amph_ip_process_lock(&amph_ip_loader.lock, &before);

    struct amph_ip_loaded_copy *k = amph_ip_loader.copies;

    while (k && (k->dev != dep->dev || k->ino != dep->ino))
        k = k->next;

    if (!k && (k = malloc(sizeof *k)) != NULL) {
        *k = (struct amph_ip_loaded_copy){ .next = amph_ip_loader.copies,
                                           .dev = dep->dev,
                                           .ino = dep->ino };
        amph_ip_loader.copies = k;
    }

    if (k)
        strcpy(k->name, dep->name);

    amph_ip_process_unlock(&amph_ip_loader.lock, &before);
}

/* The linker identifies objects by name, and descriptor numbers are reused: each copy's name has a
 * unique spelling. */
static void spell(char name[AMPH_IP_ELF_DEPS_NAME], int fd, unsigned serial)
{
    int n = snprintf(name, AMPH_IP_ELF_DEPS_NAME,
                     amph_ip_table_is_selfs() ? "/proc/self" : "/proc/thread-self");

    for (; serial; serial >>= 1)
        n += snprintf(name + n, AMPH_IP_ELF_DEPS_NAME - (size_t)n, "%s", serial & 1 ? "/." : "//");

    snprintf(name + n, AMPH_IP_ELF_DEPS_NAME - (size_t)n, "/fd/%d", fd);
}

static void complete(struct amph_ip_elf_deps *deps, int fd, const char *path,
                     const struct chain *up);

static const struct amph_ip_elf_dep *fetch(struct amph_ip_elf_deps *deps, const char *path,
                                           const struct chain *up)
{
    struct stat st;

    if (amph_do_fstatat(AT_FDCWD, path, &st, 0) != 0)
        return NULL;

    for (size_t i = 0; i < deps->n; i++)
        if (deps->item[i].dev == st.st_dev && deps->item[i].ino == st.st_ino)
            return &deps->item[i];

    if (deps->n == AMPH_IP_ELF_DEPS_MAX || (up && up->depth == DEPTH_MAX)) {
        errno = ENOMEM;
        return NULL;
    }

    struct amph_ip_elf_dep *dep = &deps->item[deps->n];

    *dep = (struct amph_ip_elf_dep){ .fd = -1, .dev = st.st_dev, .ino = st.st_ino };
    if (deps->loading && !deps->apart && (dep->held = still_loaded(&st, dep->name)) != NULL) {
        deps->n++;
        return dep;
    }

    int low = amph_ip_copy_in(path, R_OK);
    if (low < 0)
        return NULL;

    dep->fd = libc_fcntl64(low, deps->loading ? F_DUPFD_CLOEXEC : F_DUPFD, (void *)(long)ABOVE);
    if (dep->fd < 0)
        dep->fd = libc_fcntl64(low, deps->loading ? F_DUPFD_CLOEXEC : F_DUPFD, (void *)3L);

    libc_close(low);
    if (dep->fd < 0)
        return NULL;

    spell(dep->name, dep->fd,
          deps->loading ? __atomic_add_fetch(&amph_ip_loader.serial, 1, __ATOMIC_RELAXED) : 0);
    deps->n++;
    complete(deps, dep->fd, path, up);

    return dep;
}

/* Is a library of that name loaded?  Then the linker uses it, whatever the search would find. */
static bool is_loaded(const char *name)
{
    void *held = libc_dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

    if (held)
        dlclose(held);
    else
        libc_dlerror();

    return held;
}

/* Collects the changes for an object's forwarded dependencies: the names of copies. */
static size_t resolve(struct amph_ip_elf_deps *deps, const struct amph_elf *im, const char *path,
                      const struct chain *up, struct change *change)
{
    char origin[PATH_MAX], found[PATH_MAX];
    size_t n = 0;

    /* of a program, links count as well */
    if (up || deps->loading || !amph_do_realpath(path, origin))
        snprintf(origin, sizeof origin, "%s", path);

    char *slash = strrchr(origin, '/');

    if (slash)
        slash[slash == origin] = 0;

    struct chain own = { im->rpath, slash ? origin : NULL, up, up ? up->depth + 1 : 1 };

    for (size_t i = 0; i < im->ndyn && im->dyn[i].d_tag != DT_NULL && n < CHANGES_MAX; i++) {
        const char *name = im->dyn[i].d_tag == DT_NEEDED
                               ? amph_elf_string(im, im->dyn[i].d_un.d_val)
                               : NULL;

        if (!name || find(deps, im, &own, name, found) != LOCATION_FORWARDED ||
            (deps->loading && !deps->apart && is_loaded(name)))
            continue;

        const struct amph_ip_elf_dep *dep = fetch(deps, found, &own);

        if (dep)
            change[n++] = (struct change){ i, dep->name };
    }

    return n;
}

static void complete(struct amph_ip_elf_deps *deps, int fd, const char *path,
                     const struct chain *up)
{
    struct change change[CHANGES_MAX];
    struct amph_elf im;
    int saved = errno;

    if (open_image(&im, fd, true)) {
        size_t n = resolve(deps, &im, path, up, change);

        if (n)
            apply(&im, fd, change, n);

        amph_ip_kernel_munmap(im.at, im.len);
    }

    errno = saved;
}

/* ---- interface for starting and loading ---- */

struct amph_ip_elf_deps *amph_ip_elf_deps_new(const char *search, bool loading)
{
    struct amph_ip_elf_deps *deps = amph_ip_borrow(sizeof *deps);

    if (deps) {
        deps->search = search;
        deps->loading = loading;
    }

    return deps;
}

void amph_ip_elf_deps_end(struct amph_ip_elf_deps *deps)
{
    int saved = errno;

    for (size_t i = 0; deps && i < deps->n; i++) {
        if (deps->item[i].held)
            dlclose(deps->item[i].held);

        if (deps->item[i].fd >= 0)
            libc_close(deps->item[i].fd);

        if (deps->loading && !deps->apart && deps->item[i].fd >= 0)
            make_known(&deps->item[i]);
    }

    if (deps)
        amph_ip_kernel_munmap(deps, sizeof *deps);

    errno = saved;
}

void amph_ip_elf_deps_complete(struct amph_ip_elf_deps *deps, int fd, const char *path)
{
    complete(deps, fd, path, NULL);
}

int amph_ip_elf_deps_of_local(struct amph_ip_elf_deps *deps, int fd, const char *path)
{
    struct change change[CHANGES_MAX];
    struct amph_elf im, copied;
    int copy = -1;
    int saved = errno;

    if (!open_image(&im, fd, false))
        return -1;

    size_t n = resolve(deps, &im, path, NULL, change);

    if (n && (copy = amph_ip_memory_file(path)) >= 0) {
        bool ok = libc_write(copy, im.at, im.len) == (ssize_t)im.len &&
                  open_image(&copied, copy, true);

        if (ok) {
            ok = apply(&copied, copy, change, n);
            amph_ip_kernel_munmap(copied.at, copied.len);
        }

        if (!ok) {
            libc_close(copy);
            copy = -1;
        }
    }

    amph_ip_kernel_munmap(im.at, im.len);
    errno = saved;
    return copy;
}

const struct amph_ip_elf_dep *amph_ip_elf_deps_library(struct amph_ip_elf_deps *deps,
                                                       const char *path)
{
    return fetch(deps, path, NULL);
}

/* Appends one name of LD_PRELOAD; returns its length. */
static size_t preload_name(const char *at, char out[PATH_MAX])
{
    size_t len = strcspn(at, " :");

    snprintf(out, PATH_MAX, "%.*s", len < PATH_MAX ? (int)len : 0, at);
    return len;
}

bool amph_ip_elf_deps_preload(const char *list, const char *search)
{
    char name[PATH_MAX];
    bool searched = search && amph_ip_elf_deps_search(search);

    for (const char *at = list; *at; at += *at != 0) {
        at += preload_name(at, name);
        if (strchr(name, '/') ? amph_ip_path(name) : searched && name[0])
            return true;
    }

    return false;
}

bool amph_ip_elf_deps_complete_preload(struct amph_ip_elf_deps *deps, const char *entry)
{
    char name[PATH_MAX], found[PATH_MAX];
    size_t start = strcspn(entry, "=") + 1;
    size_t n = start;
    size_t before = deps->n;
    bool changed = false;

    snprintf(deps->preload, sizeof deps->preload, "%.*s", (int)start, entry);
    for (const char *at = entry + start; *at && n < sizeof deps->preload; at += *at != 0) {
        at += preload_name(at, name);

        bool here = strchr(name, '/') ? look(strcpy(found, name)) == LOCATION_FORWARDED
                                      : name[0] && amph_ip_elf_deps_find(deps, name, found);
        const struct amph_ip_elf_dep *dep = here ? fetch(deps, found, NULL) : NULL;

        changed = changed || dep;
        n += (size_t)snprintf(deps->preload + n, sizeof deps->preload - n, "%s%.1s",
                              dep ? dep->name : name, at);
    }

    bool fits = n < sizeof deps->preload &&
                (size_t)snprintf(deps->original, sizeof deps->original,
                                 AMPH_IP_ELF_DEPS_ORIGINAL "%s", entry) < sizeof deps->original;

    for (size_t i = before; !fits && i < deps->n; i++)
        libc_close(deps->item[i].fd);

    if (!fits)
        deps->n = before;

    return changed && fits;
}

bool amph_ip_elf_deps_setting(const struct amph_ip_elf_deps *deps, char *buf, size_t cap)
{
    int n = snprintf(buf, cap, AMPH_IP_ELF_DEPS_SETTING "=");

    for (size_t i = 0; i < deps->n && (size_t)n < cap; i++)
        n += snprintf(buf + n, cap - (size_t)n, "%s%d.%llx.%llx", i ? "," : "", deps->item[i].fd,
                      (unsigned long long)deps->item[i].dev, (unsigned long long)deps->item[i].ino);

    return deps->n && (size_t)n < cap;
}

void amph_ip_elf_deps_loaded(const char *value)
{
    static const char mark[] = "/memfd:";
    char link[40], name[sizeof mark];
    unsigned long long dev, ino;
    struct amph_ip_elf_dep dep;

    for (int used; sscanf(value, "%d.%llx.%llx%n", &dep.fd, &dev, &ino, &used) == 3;
         value += used + (value[used] == ',')) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dep.fd);
        if (dep.fd < 3 || libc_readlink(link, name, sizeof name - 1) != sizeof mark - 1 ||
            memcmp(name, mark, sizeof mark - 1) != 0)
            continue;

        libc_close(dep.fd);
        dep.dev = (dev_t)dev;
        dep.ino = (ino_t)ino;
        spell(dep.name, dep.fd, 0);
        make_known(&dep);
    }
}
