/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record locks of files that the process has opened by itself (near.h).  They are the kernel's, which drops them when
 * the process closes any descriptor of the file, also one that Amphora has used for a moment: such a file can be open
 * at a server, too, for instance by a link.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/path/near.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near_exports.h"

#define DIGITS "0123456789"

/* Is it one of this process on this file?  "1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF" */
static bool is_own(const char *line, pid_t pid, ino_t ino)
{
    const char *kind = strstr(line, "POSIX ");
    char *at = kind ? (char *)kind + strcspn(kind, DIGITS) : NULL;

    if (!at || strtol(at, &at, 10) != pid)
        return false;

    at = strchr(at, ':');
    at = at ? strchr(at + 1, ':') : NULL;
    return at && strtoull(at + 1, NULL, 10) == ino;
}

/* Looks through the kernel's list of all locks. */
static bool is_listed(int list, pid_t pid, ino_t ino)
{
    char text[4096];
    size_t len = 0;
    bool found = false;

    for (ssize_t n;
         !found && (n = amph_ip_kernel_read(list, text + len, sizeof text - 1 - len)) > 0;) {
        char *line = text;

        text[len += (size_t)n] = 0;
        for (char *end; !found && (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            found = is_own(line, pid, ino);
        }

        len -= (size_t)(line - text);
        memmove(text, line, len);
    }

    return found;
}

bool amph_ip_near_holds_locks(int fd)
{
    struct stat st;

    if (atomic_load_explicit(&amph_ip_near.found, memory_order_acquire) != AMPH_IP_NEAR_FOUND ||
        atomic_load(&amph_ip_near.memory->files_end) == 0 || amph_ip_kernel_fstat(fd, &st) != 0)
        return false;

    int list = amph_ip_kernel_openat(AT_FDCWD, "/proc/locks", O_RDONLY | O_CLOEXEC, 0);
    bool listed = list >= 0 && is_listed(list, amph_ip_kernel_getpid(), st.st_ino);

    if (list >= 0)
        amph_ip_kernel_close(list);

    return listed;
}
