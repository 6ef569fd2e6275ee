/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the C library opens by itself by a path of the program: libraries, and the files of
 * ftok.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's functions.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/stat.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/libc/kept.h"
#include "iofwd/interpose/loader/elf_deps.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/process/state.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

void amph_ip_library_path_keep(const char *list)
{
    amph_ip_loader.library_path = list ? amph_ip_keep_text(list) : NULL;
    amph_ip_state.library_path_forwarded = amph_ip_elf_deps_search(amph_ip_loader.library_path);
}

bool amph_ip_is_forwarded(const char *path)
{
    struct amph_ip_resolved w;

    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return false;

    bool forwarded = !w.local;

    if (forwarded)
        amph_ip_resolve_end(&w, 0);

    return forwarded;
}

/* dlopen; with a namespace (space) dlmopen. */
static void *load(const char *path, int flags, const long *space)
{
    return space ? libc_dlmopen(*space, path, flags) : libc_dlopen(path, amph_ip_lib_flags(flags));
}

/* The linker maps copies in memory: of the library and of its forwarded dependencies. */
static void *load_copy(struct amph_ip_elf_deps *deps, const char *path, int flags,
                       const long *space)
{
    deps->apart = space;

    const struct amph_ip_elf_dep *dep = amph_ip_elf_deps_library(deps, path);

    /* without a copy the linker reports that the file does not exist */
    void *library = load(dep ? dep->name : path, flags, space);

    amph_ip_elf_deps_end(deps);
    return library;
}

/* The linker searches a name without a slash, unless a forwarded directory of LD_LIBRARY_PATH
 * contains it. */
static void *load_found(const char *path, int flags, const long *space)
{
    char found[PATH_MAX];
    struct amph_ip_elf_deps *deps = NULL;
    void *loaded = space ? NULL : libc_dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    bool ours = !loaded &&
                (deps = amph_ip_elf_deps_new(amph_ip_loader.library_path, true)) != NULL &&
                amph_ip_elf_deps_find(deps, path, found);

    if (ours)
        return load_copy(deps, found, flags, space);

    amph_ip_elf_deps_end(deps);

    void *library = load(path, flags, space);

    if (loaded)
        dlclose(loaded);

    return library;
}

static void *amph_do_load(const char *path, int flags, const long *space)
{
    if (!strchr(path, '/'))
        return load_found(path, flags, space);

    struct amph_ip_elf_deps *deps = amph_ip_is_forwarded(path)
                                        ? amph_ip_elf_deps_new(amph_ip_loader.library_path, true)
                                        : NULL;

    return deps ? load_copy(deps, path, flags, space) : load(path, flags, space);
}

void *amph_do_dlopen(const char *path, int flags)
{
    return amph_do_load(path, flags, NULL);
}

/* A library in a name space of its own finds another C library there, and not this one. */
static void say_apart(const char *path)
{
    char line[PATH_MAX + 256];

    if (amph_ip_process.bypass.quiet ||
        __atomic_exchange_n(&amph_ip_loader.apart_said, true, __ATOMIC_RELAXED))
        return;

    int n = snprintf(line, sizeof line,
                     "amphora: warning: dlmopen has loaded %s into a name space of its own, so the "
                     "file calls of that library are not forwarded and name files of this host\n",
                     path);

    amph_ip_put_error(line, (size_t)n);
}

void *amph_do_dlmopen(long space, const char *path, int flags)
{
    void *library = path ? amph_do_load(path, flags, &space) : libc_dlmopen(space, path, flags);

    if (library && path && space == LM_ID_NEWLM)
        say_apart(path);

    return library;
}

void amph_do_backtrace_symbols_fd(void *const *frames, int n, int fd)
{
    char **names = backtrace_symbols(frames, n);

    /* backtrace_symbols has a blank before the address, the C library's own function has none */
    for (int i = 0; names && i < n; i++) {
        const char *address = strrchr(names[i], '[');
        int len = address ? (int)(address - names[i]) : (int)strlen(names[i]);

        if (address && len > 0 && names[i][len - 1] == ' ')
            len--;

        dprintf(fd, "%.*s%s\n", len, names[i], address ? address : "");
    }

    free(names);
}

key_t amph_do_ftok(const char *path, int project)
{
    struct stat st;

    if (amph_do_fstatat(AT_FDCWD, path, &st, 0) != 0)
        return -1;

    return (key_t)((st.st_ino & 0xffff) | ((st.st_dev & 0xff) << 16) |
                   ((unsigned)(project & 0xff) << 24));
}
