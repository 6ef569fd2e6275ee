/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files and directories that the process has opened by itself (near.h): their names, the programs that inherit
 * them, and how they are opened at servers.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "iofwd/interpose/path/near.h"

#include "iofwd/calls/names.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near_exports.h"
#include "iofwd/interpose/path/near_place.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/path/resolve.h"

/* The export that a file is below whose path on this host is real, and *rest_p of that path; NULL: none.  Exports may
 * have a directory in common: it is the one of known, the name by which the file was opened (or NULL), else the
 * innermost one, and of two the read-only one. */
static const struct amph_ip_near_export *find_export(const char *real, const char *known,
                                                     const char **rest_p)
{
    const struct amph_ip_near_export *best = NULL;

    for (size_t i = 0; i < amph_ip_near.n; i++) {
        const struct amph_ip_near_export *e = &amph_ip_near.export[i];
        const char *rest = amph_fwd_path_below(real, e->dir, e->dir_len);
        bool is_known = rest && known && amph_fwd_path_below(known, e->name, e->name_len);

        if (!rest ||
            (best && !is_known &&
             (e->dir_len < best->dir_len || (e->dir_len == best->dir_len && best->readonly))))
            continue;

        best = e;
        *rest_p = rest;
        if (is_known)
            break;
    }

    return best;
}

/* The name below the prefix.  false: it is too long. */
static bool write_name(const struct amph_ip_near_export *e, const char *rest, char name[PATH_MAX])
{
    int len = snprintf(name, PATH_MAX, "%.*s%s%s", (int)e->name_len, e->name, rest[0] ? "/" : "",
                       rest);

    return len > 0 && len < PATH_MAX;
}

/* The export that the file behind fd is below, and its name there; NULL: none.  *removed_p: it has been removed, and
 * its name is the last one, with a mark of the kernel's.  known: as in find_export. */
static const struct amph_ip_near_export *last_export_of(int fd, const char *known,
                                                        char name[PATH_MAX], bool *removed_p)
{
    char real[PATH_MAX];
    const char *rest;
    struct amph_ip_by_fd link;
    struct stat st;
    ssize_t n = amph_ip_proc_readlink(amph_ip_name_by_fd(fd, &link), real, sizeof real - 1);

    if (n <= 0 || !amph_ip_near_exports() || amph_ip_kernel_fstat(fd, &st) != 0)
        return NULL;

    real[n] = 0;
    *removed_p = st.st_nlink == 0;

    const struct amph_ip_near_export *e = find_export(real, known, &rest);

    return e && write_name(e, rest, name) ? e : NULL;
}

/* The same, but NULL also if the file has been removed. */
static const struct amph_ip_near_export *export_of(int fd, const char *known, char name[PATH_MAX])
{
    bool removed;
    const struct amph_ip_near_export *e = last_export_of(fd, known, name, &removed);

    return e && !removed ? e : NULL;
}

bool amph_ip_near_name_of(const char *real, char name[PATH_MAX])
{
    const char *rest;
    const struct amph_ip_near_export *e = amph_ip_near_exports() ? find_export(real, NULL, &rest)
                                                                 : NULL;

    return e && write_name(e, rest, name);
}

bool amph_ip_near_name(int fd, char name[PATH_MAX])
{
    struct amph_fd_file *of = amph_fdtab_get(fd);
    bool named = of && export_of(fd, of->path, name);

    if (of)
        amph_fdtab_put(of);

    return named;
}

bool amph_ip_near_is_in(int fd, const char *known)
{
    char name[PATH_MAX];
    bool removed;
    const struct amph_ip_near_export *e = last_export_of(fd, known, name, &removed);

    return e && amph_fwd_path_below(known, e->name, e->name_len);
}

struct amph_fd_file *amph_ip_near_file(int flags, bool readonly)
{
    struct amph_fd_file *of = amph_fdtab_new();

    if (!of)
        return NULL;

    of->oflags = flags;
    __atomic_store_n(&of->near_readonly, readonly, __ATOMIC_RELAXED);
    __atomic_store_n(&of->near, __atomic_add_fetch(&amph_ip_near.directories, 1, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    of->file = (struct amph_fwd_file){ .nparts = 0 };
    return of;
}

static bool has_number(int fd)
{
    return atomic_load_explicit(&amph_ip_near.memory->files[fd / 64], memory_order_relaxed) >>
               fd % 64 &
           1;
}

/* ---- programs that this one starts ---- */

struct number_list {
    char *text;
    size_t len, cap;
};

static void append_number(struct number_list *list, int fd)
{
    if (amph_ip_kernel_fcntl(fd, F_GETFD, NULL) & FD_CLOEXEC) /* or -1: it is closed */
        return;

    int n = snprintf(list->text + list->len, list->cap - list->len, ":%d", fd);

    if (n > 0 && (size_t)n < list->cap - list->len)
        list->len += (size_t)n;
    else
        list->text[list->len] = 0; /* it is a local file for the new program */
}

static void append_directory(int fd, struct amph_fd_file *of, void *arg)
{
    if (__atomic_load_n(&of->near, __ATOMIC_RELAXED))
        append_number(arg, fd);
}

/* A child may have one that is written under another number, which is mostly one of the first three. */
static void append_files(struct number_list *list)
{
    bool writes = atomic_load(&amph_ip_near_versions.n) > 0;
    int end = atomic_load(&amph_ip_near.memory->files_end);

    for (int fd = 0; fd < end || fd < 3; fd++)
        if ((writes && fd < 3) || has_number(fd))
            append_number(list, fd);
}

bool amph_ip_near_list(char *text, size_t cap_bytes)
{
    struct number_list list = { text, 0, cap_bytes };

    if (atomic_load(&amph_ip_near.found) != AMPH_IP_NEAR_FOUND)
        return false;

    text[0] = 0;
    if (amph_fdtab_current() == &amph_fdtab_first)
        amph_fdtab_each(0, FDTAB_MAX - 1, append_directory, &list);

    append_files(&list);
    return list.len > 0;
}

static void inherit_file(int fd, const struct stat *st)
{
    int flags = amph_ip_kernel_fcntl(fd, F_GETFL, NULL);

    if (flags & O_PATH)
        return;

    amph_ip_near_note_file(fd);
    if ((flags & O_ACCMODE) != O_RDONLY)
        amph_ip_near_writing_inherit(fd, st);
}

bool amph_ip_near_inherit(int fd)
{
    char name[PATH_MAX];
    struct stat st;
    bool is_file = fd >= 0 && fd < FDTAB_MAX && amph_fdtab_current() == &amph_fdtab_first &&
                   amph_ip_kernel_fstat(fd, &st) == 0;
    bool removed;
    const struct amph_ip_near_export *e = is_file ? last_export_of(fd, NULL, name, &removed) : NULL;

    if (e && S_ISREG(st.st_mode))
        inherit_file(fd, &st);
    if (!e || !S_ISDIR(st.st_mode) || !amph_fdtab_reserve(fd))
        return false;

    struct amph_fd_file *of = amph_ip_near_file(amph_ip_kernel_fcntl(fd, F_GETFL, NULL),
                                                e->readonly);

    if (!of)
        return false;
    if (strlen(name) < sizeof of->path)
        strcpy(of->path, name);

    amph_fdtab_set(fd, of, FDTAB_FORWARDED);
    return true;
}

void amph_ip_near_inherit_all(const char *text)
{
    for (char *at = (char *)text; at && *at == ':';)
        amph_ip_near_inherit((int)strtol(at + 1, &at, 10));
}

/* Opens the directory at its server as it is named now.  *err_p: 0 or an errno value.  false: another one has this
 * name meanwhile. */
static bool open_there(struct amph_fd_file *of, int fd, struct amph_fwd_file *file, int *err_p)
{
    char name[PATH_MAX];
    struct stat here, there;
    int path_only = of->oflags & O_PATH;

    *err_p = export_of(fd, of->path, name) ? 0 : ENOENT;
    if (!*err_p)
        *err_p = amph_ip_client.fwd.open(amph_ip_client.client, NULL, name, O_DIRECTORY | path_only,
                                         0, file);
    if (*err_p)
        return true;

    *err_p = amph_ip_client.fwd.fstat(amph_ip_client.client, file, &there);
    if (*err_p || (amph_ip_kernel_fstat(fd, &here) == 0 && here.st_dev == there.st_dev &&
                   here.st_ino == there.st_ino))
        return true;

    amph_ip_client.fwd.close(amph_ip_client.client, file);
    return false;
}

#define TRIES 16 /* of a directory that others rename at the same time */

/* With signals blocked, and the lock. */
static int reach(struct amph_fd_file *of, int fd)
{
    struct amph_fwd_file file;
    int err = 0;
    bool there = false;

    for (int i = 0; i < TRIES && !there; i++)
        there = open_there(of, fd, &file, &err);

    if (!err && there) {
        of->file = file;
        __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);
    }

    return there ? err : ESTALE;
}

int amph_ip_near_reach(struct amph_fd_file *of, int fd)
{
    sigset_t all, before;

    if (__atomic_load_n(&of->ready, __ATOMIC_ACQUIRE))
        return 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&amph_ip_near.lock);

    int err = __atomic_load_n(&of->ready, __ATOMIC_ACQUIRE) ? 0 : reach(of, fd);

    pthread_mutex_unlock(&amph_ip_near.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

void amph_ip_near_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_near.lock);
    else
        pthread_mutex_unlock(&amph_ip_near.lock);
}

/* ---- regular files ---- */

bool amph_ip_near_has(int fd)
{
    return (unsigned)fd < FDTAB_MAX && !amph_ip_inside &&
           atomic_load_explicit(&amph_ip_near.found, memory_order_acquire) == AMPH_IP_NEAR_FOUND &&
           has_number(fd) && !amph_ip_fd(fd);
}

int amph_ip_near_lead(int fd)
{
    char name[PATH_MAX];
    struct stat here, there;

    if (!export_of(fd, NULL, name) || amph_ip_kernel_fstat(fd, &here) != 0 ||
        !S_ISREG(here.st_mode))
        return -1;

    amph_ip_thread.leads_near = true;

    int lead = amph_do_openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC, 0);

    amph_ip_thread.leads_near = false;
    if (lead >= 0 && amph_ip_fd_stat(lead, &there) == 0 && there.st_dev == here.st_dev &&
        there.st_ino == here.st_ino)
        return lead;

    if (lead >= 0)
        amph_do_close(lead);

    return -1;
}

/* Opens what has this name, a regular file, by this process.  -1: it cannot. */
static int open_named(const char *name, int access)
{
    struct amph_ip_near_opened o;
    struct amph_ip_resolved w;
    int err;

    if (!amph_ip_resolve_near(&w, AT_FDCWD, name, false))
        return -1;

    bool opened = !w.local && amph_ip_near_open(&w, access | O_CLOEXEC, 0, &o, &err) && !err;

    amph_ip_resolve_end(&w, 0);
    return opened ? o.fd : -1;
}

int amph_ip_near_same(const struct amph_fwd_file *file, const struct stat *st, int access)
{
    char name[PATH_MAX];
    struct stat here;
    size_t len;

    if (!amph_ip_near_exports() ||
        amph_ip_client.fwd.nameof(amph_ip_client.client, file, name, sizeof name - 1, &len) != 0)
        return -1;

    name[len < sizeof name - 1 ? len : sizeof name - 1] = 0;

    int fd = open_named(name, access);

    if (fd < 0)
        return -1;

    if (amph_ip_kernel_fstat(fd, &here) == 0 && here.st_dev == st->st_dev &&
        here.st_ino == st->st_ino) {
        amph_ip_near_writing_keep(fd);
        return fd;
    }

    amph_do_close(fd);
    return -1;
}
