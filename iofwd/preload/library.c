/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that the C library opens by itself by a path of the program's: libraries, and the keys that are made of a file.
 * Layer: iofwd (preload).  Thread rule: as the C library's functions.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/ipc.h>

#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/targets.h"
#include "iofwd/preload/where.h"

/* The linker maps a copy in memory; what that library needs itself is looked for where the linker always looks. */
static void *open_copy(const char *path, int flags, bool in_space, long space)
{
    char name[40];
    int fd = fwd_copy_in(path, R_OK);
    if (fd < 0) { /* the linker says it in words */
        return in_space ? real_dlmopen(space, path, flags) : real_dlopen(path, flags);
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *library = in_space ? real_dlmopen(space, name, flags) : real_dlopen(name, flags);
    real_close(fd);
    return library;
}

static bool is_forwarded(const char *path)
{
    struct fwd_where w;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return false;
    bool forwarded = !w.local;
    if (forwarded)
        fwd_where_end(&w, 0);
    return forwarded;
}

void *x_dlopen(const char *path, int flags)
{
    return is_forwarded(path) ? open_copy(path, flags, false, 0) : real_dlopen(path, flags);
}

void *x_dlmopen(long space, const char *path, int flags)
{
    return is_forwarded(path) ? open_copy(path, flags, true, space) : real_dlmopen(space, path, flags);
}

void x_backtrace_symbols_fd(void *const *frames, int n, int fd)
{
    char **names = backtrace_symbols(frames, n);
    for (int i = 0; names && i < n; i++)
        dprintf(fd, "%s\n", names[i]);
    free(names);
}

key_t x_ftok(const char *path, int project)
{
    struct stat st;
    if (x_fstatat(AT_FDCWD, path, &st, 0) != 0)
        return -1;
    return (key_t)((st.st_ino & 0xffff) | ((st.st_dev & 0xff) << 16) | ((unsigned)(project & 0xff) << 24));
}
