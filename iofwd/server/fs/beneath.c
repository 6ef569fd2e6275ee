/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a path below a directory so that nothing outside of the directory can be reached: by
 * openat2, or component by component on kernels (and emulators) that have no openat2.
 *
 * Layer: iofwd.
 * Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/server/fs/exports.h"
#include "iofwd/server/state.h"

void amph_server_open_by_parts(bool always)
{
    atomic_store(&amph_server_state.open_by_parts, always);
}

static bool is_link(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Opens the last component.  Without O_NOFOLLOW a symbolic link is refused with link_answer. */
static int open_last(int dir, const char *name, int flags, mode_t mode, int link_answer)
{
    struct stat st;
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);

    if (fd < 0) {
        int err = errno;
        bool met_link = !(flags & O_NOFOLLOW) && (err == ELOOP || err == ENOTDIR) &&
                        is_link(dir, name);

        return met_link ? link_answer : -err;
    }

    if ((flags & O_PATH) && !(flags & O_NOFOLLOW) && fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        close(fd);
        return link_answer;
    }

    return fd;
}

/* Opens a component that is not the last: a directory.  Returns a descriptor or a negative
 * errno. */
static int enter(int dir, const char *name, int link_answer)
{
    struct stat st;
    int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int answer = 0;

    if (fd < 0)
        return -errno;

    if (fstat(fd, &st) != 0)
        answer = -errno;
    else if (!S_ISDIR(st.st_mode))
        answer = S_ISLNK(st.st_mode) ? link_answer : -ENOTDIR;

    if (answer)
        close(fd);

    return answer ? answer : fd;
}

/* Opens rel component by component.  Follows no link and no "..": if one occurs that may be
 * followed, returns -EXDEV, and the caller walks the path itself. */
static int open_parts(int base, const char *rel, int flags, mode_t mode, bool no_links)
{
    const int link_answer = no_links ? -ELOOP : -EXDEV;
    int dir = base;
    int fd = -EXDEV;

    while (rel[0] != '/') {
        char part[NAME_MAX + 1];
        size_t n = strcspn(rel, "/");
        size_t slashes = strspn(rel + n, "/");
        bool last = rel[n + slashes] == 0;

        fd = n == 0 ? -ENOENT : 0;
        if (n > NAME_MAX)
            fd = -ENAMETOOLONG;

        if (fd)
            break;

        memcpy(part, rel, n);
        part[n] = 0;
        rel += n + slashes;

        if (strcmp(part, "..") == 0)
            fd = -EXDEV;
        else if (last && slashes && (flags & O_CREAT))
            fd = -EISDIR;
        else if (last)
            fd = open_last(dir, part, slashes ? flags | O_DIRECTORY : flags, mode, link_answer);
        else
            fd = enter(dir, part, link_answer);

        if (dir != base)
            close(dir);

        dir = base;
        if (last || fd < 0)
            return fd;

        dir = fd;
    }

    if (dir != base)
        close(dir);

    return fd;
}

int amph_server_open_beneath(int base, const char *rel, int flags, mode_t mode, uint64_t resolve)
{
    struct open_how how = { .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
                            .resolve = resolve | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH };
    int fd = -1;

    if (flags & (O_CREAT | __O_TMPFILE))
        how.mode = mode & 07777;

    if (flags & O_PATH)
        how.flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

    if (!atomic_load_explicit(&amph_server_state.open_by_parts, memory_order_relaxed)) {
        /* EAGAIN: a concurrent rename kept the kernel from proving that the path stays below
         * base */
        for (int tries = 0; (fd = (int)syscall(SYS_openat2, base, rel, &how, sizeof how)) < 0 &&
                            errno == EAGAIN && tries < 64;
             tries++)
            ;

        if (fd >= 0 || errno != ENOSYS)
            return fd < 0 ? -errno : fd;

        amph_server_open_by_parts(true);
    }

    return open_parts(base, rel, (int)how.flags, (mode_t)how.mode, resolve & RESOLVE_NO_SYMLINKS);
}
