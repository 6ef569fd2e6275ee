/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of -pid-file; see pid_file.h.  Layer: iofwd (server).  Thread rule: see pid_file.h. */
#include "iofwd/server/pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "boot/standing.h"

enum {
    TRIES = 100
};

/* Do path and descriptor name the same file?  Servers that end remove theirs, and another process may have opened it
 * just before. */
static bool is_at(const char *path, int fd)
{
    struct stat there, here;

    return stat(path, &there) == 0 && fstat(fd, &here) == 0 && there.st_dev == here.st_dev &&
           there.st_ino == here.st_ino;
}

static void report_owner(const char *path, int fd)
{
    char number[24] = "";

    if (pread(fd, number, sizeof number - 1, 0) < 0)
        number[0] = 0;

    amph_error(
        "%s is the file of other servers, which still run (process %ld); give -pid-file another "
        "one, or end them first",
        path, strtol(number, NULL, 10));
}

int amph_server_pid_file_take(const char *path)
{
    for (int tries = 0; tries < TRIES; tries++) {
        /* opened like the address file, which follows no other user's symbolic link */
        int fd = amph_boot_standing_open(path, O_RDWR | O_CREAT);

        if (fd < 0) {
            amph_error("cannot write %s: %m", path);
            return -1;
        }

        const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;

        if (!locked && errno == EWOULDBLOCK) {
            report_owner(path, fd);
            close(fd);
            return -1;
        }

        /* file systems without locks: as if it were free */
        if (!locked || is_at(path, fd))
            return fd;

        close(fd);
    }

    amph_error("cannot keep %s: it was removed or replaced %d times while it was opened; give "
               "-pid-file another one",
               path, TRIES);
    return -1;
}

bool amph_server_pid_file_write(int fd, const char *path)
{
    const bool ok = ftruncate(fd, 0) == 0 && fchmod(fd, 0644) == 0 &&
                    dprintf(fd, "%ld\n", (long)getpid()) > 0;

    if (!ok)
        amph_error("cannot write %s: %m", path);

    return ok;
}
