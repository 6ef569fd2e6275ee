/* SPDX-License-Identifier: BSD-3-Clause */
/* The guards; see catch.h.  Layer: iofwd (preload). */
#include "iofwd/interpose/entry/catch.h"

#include "iofwd/interpose/entry/kernel.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/path/resolve.h"

struct fwd_state fwd_state;
__thread int fwd_inside __attribute__((tls_model("initial-exec")));
__thread int fwd_links __attribute__((tls_model("initial-exec")));

bool fwd_placeholder_link(const char *link, char *text, size_t cap_bytes)
{
    static const char mark[] = "/memfd:" FWD_PLACEHOLDER_MARK;
    char name[320];
    ssize_t n = fwd_kernel_readlink(link, name, sizeof name - 1);
    if (n < (ssize_t)sizeof mark - 1 || memcmp(name, mark, sizeof mark - 1) != 0)
        return false;
    name[n] = 0;
    const char *from = name + sizeof mark - 1;
    size_t len = strcspn(from, " ");
    if (len >= cap_bytes)
        return false;
    memcpy(text, from, len);
    text[len] = 0;
    return true;
}

bool fwd_placeholder_text(int fd, char *text, size_t cap_bytes)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!fwd_placeholder_link(link, text, cap_bytes))
        return false;
    size_t len = strlen(text);
    return text[len - (len > 0)] != '@' || amph_fwd_text_complete(text, cap_bytes, fwd_kernel_lseek(fd, 0, SEEK_CUR));
}

bool fwd_fd_slow(int fd)
{
    enum fdtab_class cls = fdtab_class(fd);
    if (!fwd_state.on || fwd_inside)
        return false;
    if (cls == FDTAB_UNKNOWN) {
        char text[AMPH_FWD_TEXT_BYTES];
        int saved = errno;
        cls = fwd_placeholder_text(fd, text, sizeof text) ? FDTAB_INHERITED : FDTAB_LOCAL;
        errno = saved;
        fdtab_mark(fd, cls);
    }
    return cls == FDTAB_FORWARDED || cls == FDTAB_INHERITED;
}

unsigned fwd_turns;
__thread bool fwd_missed __attribute__((tls_model("initial-exec")));

#define TURNS_MAX 64 /* a thread may lose its core in each look; what is wrong with a descriptor itself stays so */

/* What the kernel says of a placeholder: it is empty, sealed and write-only. */
static bool is_placeholders(int err)
{
    return err == EBADF || err == EPERM || err == EACCES || err == ENOTDIR;
}

bool fwd_turned(int err, bool ours, int tries)
{
    bool missed = fwd_missed;
    fwd_missed = false;
    return fwd_turns_now() && (ours ? missed && err == EBADF : is_placeholders(err)) && tries < TURNS_MAX;
}

/* Where a path needs no cleaning the comparison is all. */
static bool needs_cleaning(const char *path)
{
    for (const char *at = path; (at = strchr(at, '/')) != NULL; at++)
        if (at[1] == '/' || at[1] == '.')
            return true;
    return false;
}

bool fwd_is_exe(const char *path)
{
    static const char before[] = "/proc/";
    if (AMPH_LIKELY(!fwd_state.exe) || strncmp(path, before, sizeof before - 1) != 0)
        return false;
    const char *who = path + sizeof before - 1;
    size_t len = strcspn(who, "/");
    return strcmp(who + len, "/exe") == 0 && (strncmp(who, "self", len) == 0 || strtol(who, NULL, 10) == getpid());
}

static bool absolute(const char *path)
{
    char clean[PATH_MAX];
    struct fwd_clean result;
    if (fwd_prefix_match(&fwd_state.prefixes, path))
        return true;
    if (needs_cleaning(path) && (fwd_path_clean(&fwd_state.prefixes, NULL, path, clean, sizeof clean, &result) != 0 || result.prefix ||
                                 result.left))
        return true;
    struct fwd_numbered n;
    return fwd_may_be_numbered(path) && (fwd_numbered(path, &n) || fwd_is_exe(path));
}

/* A path that cannot be read is left to the kernel, which says EFAULT. */
bool fwd_path(const char *path)
{
    if (!fwd_state.on || fwd_inside || !path || !fwd_can_read_text(path))
        return false;
    if (path[0] == '/')
        return absolute(path);
    return fwd_state.cwd || (path[0] && fwd_prefix_may_enter(&fwd_state.prefixes, path)) || fwd_is_number(path);
}

bool fwd_at(int dir, const char *path)
{
    if (!fwd_state.on || fwd_inside || (path && !fwd_can_read_text(path)))
        return false;
    if (dir == AT_FDCWD || (path && path[0] == '/'))
        return fwd_path(path);
    return fwd_fd(dir) || (path && ((path[0] && fwd_prefix_may_enter(&fwd_state.prefixes, path)) || fwd_is_number(path)));
}
