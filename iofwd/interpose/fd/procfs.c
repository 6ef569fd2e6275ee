/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors by their names in /proc; see procfs.h.
 *
 * Layer: iofwd (interposer).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "iofwd/client/client.h"
#include "iofwd/interpose/fd/procfs.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"

/* Skips what has no meaning between two names: slashes and "./". */
static void skip_nothing(const char **at)
{
    while (**at == '/' || ((*at)[0] == '.' && (*at)[1] == '/'))
        *at += **at == '/' ? 1 : 2;
}

static bool take(const char **at, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*at, word, len) != 0)
        return false;

    *at += len;
    if (word[len - 1] == '/')
        skip_nothing(at);

    return true;
}

/* Parses a number; -1: the text has no number. */
static long take_number(const char **at)
{
    char *end;
    long n = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : -1;

    if (n >= 0)
        *at = end;

    return n;
}

/* Parses the name of a process in /proc, or of one of its threads.  *own_p: it is this process;
 * *table_p: and its descriptors are those of the caller. */
static bool take_process(const char **at, bool *own_p, bool *table_p)
{
    bool thread = take(at, "thread-self/");

    *own_p = true;
    if (!thread && !take(at, "self/")) {
        long pid = take_number(at);
        if (pid < 0 || !take(at, "/"))
            return false;

        *own_p = pid == (long)amph_ip_kernel_getpid();
    }

    *table_p = *own_p && (thread || amph_ip_table_is_selfs());
    if (!take(at, "task/"))
        return true;

    long tid = take_number(at);

    *table_p = *own_p && (!amph_ip_tables_many() || tid == (long)gettid());
    return tid >= 0 && take(at, "/");
}

/* Takes the part of the path behind the link.  If there is one, the link must name a directory. */
static bool take_rest(const char *at, struct amph_ip_numbered *n)
{
    if (*at && *at != '/')
        return false;

    n->rest = at + strspn(at, "/");
    if (*at && !*n->rest)
        n->rest = ".";

    return true;
}

/* A descriptor of this process.  false: it is none that we know. */
static bool take_own(struct amph_ip_numbered *n)
{
    n->what = amph_ip_fd(n->fd) ? AMPH_IP_NUMBERED_OWN : AMPH_IP_NUMBERED_NEAR;
    return n->what == AMPH_IP_NUMBERED_OWN || amph_ip_near_has(n->fd);
}

static bool by_standard_name(const char *at, struct amph_ip_numbered *n)
{
    static const char *const names[] = { "stdin", "stdout", "stderr" };

    n->what = AMPH_IP_NUMBERED_OTHER;
    n->alias = true;

    for (n->fd = 0; n->fd < (int)AMPH_COUNTOF(names); n->fd++) {
        const char *behind = at;
        if (!take(&behind, names[n->fd]) || !take_rest(behind, n))
            continue;

        snprintf(n->link, sizeof n->link, "/proc/self/fd/%d", n->fd);
        return !amph_ip_table_is_selfs() || take_own(n);
    }

    return false;
}

bool amph_ip_numbered(const char *path, struct amph_ip_numbered *n)
{
    const char *at = path;
    bool own = true;
    bool table = true;

    if (AMPH_LIKELY(!amph_ip_may_be_numbered(path)))
        return false;

    skip_nothing(&at);

    bool dev = take(&at, "dev/");
    if (dev && strncmp(at, "fd/", 3) != 0 && strncmp(at, "std", 3) != 0)
        return false; /* /dev/shm and other devices */

    if (dev)
        table = amph_ip_table_is_selfs();
    else if (!take(&at, "proc/") || !take_process(&at, &own, &table))
        return false;

    if (!dev && own && amph_ip_cwd()->name && take(&at, "cwd")) {
        n->what = AMPH_IP_NUMBERED_CWD;
        n->alias = false;
        return take_rest(at, n);
    }

    size_t dir_len = (size_t)(at - path);
    if (!take(&at, "fd/"))
        return dev && by_standard_name(at, n);

    long fd = take_number(&at);
    if (fd < 0 || fd >= FDTAB_MAX || !take_rest(at, n))
        return false;

    n->what = AMPH_IP_NUMBERED_OTHER;
    n->fd = (int)fd;
    n->alias = false;
    if (table)
        return take_own(n);

    int len = dev ? snprintf(n->link, sizeof n->link, "/proc/self/fd/%ld", fd)
                  : snprintf(n->link, sizeof n->link, "%.*sfd/%ld", (int)dir_len, path, fd);

    return len > 0 && (size_t)len < sizeof n->link;
}

ssize_t amph_ip_readlink_numbered(int dir, const char *path, char *buf, size_t cap_bytes)
{
    char real[PATH_MAX], name[PATH_MAX];
    ssize_t n = libc_readlinkat(dir, path, real, sizeof real - 1);

    real[n > 0 ? n : 0] = 0;
    if (n <= 0 || !amph_ip_near_name_of(real, name))
        return libc_readlinkat(dir, path, buf, cap_bytes);

    size_t len = strlen(name);

    if (len > cap_bytes)
        len = cap_bytes;
    if (!amph_ip_can_write(buf, len))
        return amph_ip_fail(EFAULT);

    memcpy(buf, name, len);
    return (ssize_t)len;
}

/* Returns the offset of another process's descriptor, or -1. */
static int64_t offset_of(const struct amph_ip_numbered *n)
{
    static const char before[] = "pos:";
    char path[sizeof n->link + 8], text[64];
    size_t dir = (size_t)(strrchr(n->link, '/') - n->link);

    snprintf(path, sizeof path, "%.*sinfo/%d", (int)dir, n->link, n->fd);

    int fd = amph_ip_kernel_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t got = fd < 0 ? -1 : amph_ip_kernel_read(fd, text, sizeof text - 1);

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    text[got > 0 ? got : 0] = 0;
    return strncmp(text, before, sizeof before - 1) == 0
               ? strtoll(text + sizeof before - 1, NULL, 10)
               : -1;
}

int amph_ip_file_of_other(const struct amph_ip_numbered *n, struct amph_fd_file **of_p)
{
    char text[AMPH_FWD_TEXT_BYTES];

    *of_p = NULL;
    if (!amph_ip_placeholder_link(n->link, text, sizeof text) ||
        !amph_fwd_text_complete(text, sizeof text, offset_of(n)))
        return 0;

    int err = amph_ip_client_enter();

    return err ? err : amph_ip_file_adopt(text, of_p);
}
