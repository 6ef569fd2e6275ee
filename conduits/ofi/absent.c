/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps libfabric from searching for providers that are not installed.
 * Layer: conduits (ofi).  Thread rule: while libfabric starts, one thread (imports.c).
 *
 * Each provider may be a library of its own, libtcp-fi.so and so on.  libfabric tries to load all that it
 * knows of by their names when it starts, and the dynamic linker searches each in its cache and in every
 * directory, with variants for the processor: 230 system calls, 0.7 ms.  Usually there is none, which is found
 * out here for less.  Where the linker may search elsewhere (LD_LIBRARY_PATH, a run path of libfabric) or its
 * cache names one, it searches as without this file.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "base/settings/env.h"
#include "conduits/ofi/ofi.h"

static const char ending[] = "-fi.so";

/* Is file the name of a provider's library, without a directory? */
static bool is_provider(const char *file)
{
    size_t len = file ? strlen(file) : 0;

    return len > sizeof ending && !strchr(file, '/') && strncmp(file, "lib", 3) == 0 &&
           strcmp(file + len - (sizeof ending - 1), ending) == 0;
}

/* Does the dynamic linker's cache name a provider, or can it not be read? */
static bool cache_may_have_one(void)
{
    int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool may = true;

    if (fd < 0)
        return true;

    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        size_t len = (size_t)st.st_size;
        void *cache = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);

        if (cache != MAP_FAILED) {
            may = memmem(cache, len, ending, sizeof ending) != NULL;
            munmap(cache, len);
        }
    }

    close(fd);
    return may;
}

/* What dl_iterate_phdr finds out about libfabric. */
struct own {
    bool found, has_run_path;
    char directory[PATH_MAX]; /* with a slash at the end */
};

static int look_at_libfabric(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct own *own = arg;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

    if (!slash || strncmp(slash + 1, "libfabric.so", strlen("libfabric.so")) != 0)
        return 0;

    int n = snprintf(own->directory, sizeof own->directory, "%.*s",
                     (int)(slash + 1 - info->dlpi_name), info->dlpi_name);

    own->found = n > 0 && (size_t)n < sizeof own->directory;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        if (ph->p_type != PT_DYNAMIC)
            continue;

        for (const ElfW(Dyn) *d = (const void *)(info->dlpi_addr + ph->p_vaddr);
             d->d_tag != DT_NULL; d++)
            own->has_run_path |= d->d_tag == DT_RUNPATH || d->d_tag == DT_RPATH;
    }

    return 1;
}

static bool is_in(const char *directory, const char *file)
{
    char path[PATH_MAX + NAME_MAX];
    int n = snprintf(path, sizeof path, "%s%s", directory, file);

    return n < 0 || (size_t)n >= sizeof path || access(path, F_OK) == 0;
}

static struct {
    char directory[PATH_MAX]; /* of libfabric */
} absent;

/* In the place of dlopen, for libfabric. */
static void *open_if_there(const char *file, int flags)
{
    static const char *const directories[] = { "/lib64/", "/usr/lib64/", "/lib/", "/usr/lib/" };

    if (!is_provider(file) || is_in(absent.directory, file))
        return dlopen(file, flags);

    for (size_t i = 0; i < AMPH_COUNTOF(directories); i++)
        if (is_in(directories[i], file))
            return dlopen(file, flags);

    return NULL;
}

bool amph_ofi_absent_begin(void)
{
    const char *search = amph_env_foreign("LD_LIBRARY_PATH");
    struct own own = { .found = false };

    if (search && search[0])
        return false;

    dl_iterate_phdr(look_at_libfabric, &own);
    if (!own.found || own.has_run_path || cache_may_have_one())
        return false;

    memcpy(absent.directory, own.directory, sizeof absent.directory);
    return amph_ofi_swap_import("dlopen", (void *)(uintptr_t)open_if_there);
}

void amph_ofi_absent_end(void)
{
    amph_ofi_swap_import("dlopen", (void *)(uintptr_t)dlopen);
}
