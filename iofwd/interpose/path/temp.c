/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Temporary files and names.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"

/* Replaces the six X before the suffix by other letters.  false: no six X. */
static bool fill(char *pattern, int suffix)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    unsigned char random[6];

    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);

        unsigned mixed = ((unsigned)now.tv_nsec +
                          __atomic_add_fetch(&amph_ip_state.temp_names, 1, __ATOMIC_RELAXED)) *
                             2654435761U +
                         (unsigned)amph_ip_kernel_getpid();

        for (size_t i = 0; i < sizeof random; i++)
            random[i] = (unsigned char)(mixed >> (4 * i));
    }

    size_t len = strlen(pattern);
    if (suffix < 0 || len < (size_t)suffix + 6)
        return false;

    char *at = pattern + len - (size_t)suffix - 6;

    for (size_t i = 0; i < 6; i++)
        at[i] = letters[random[i] % (sizeof letters - 1)];

    return true;
}

enum temporary {
    TEMP_FILE,
    TEMP_DIR,
    TEMP_NAME
};

/* Returns a descriptor or 0, or -1 with errno; EEXIST: the name is in use. */
static int try_name(const char *name, int flags, enum temporary what)
{
    struct stat st;

    switch (what) {
    case TEMP_FILE:
        return amph_do_openat(AT_FDCWD, name, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL,
                              0600);
    case TEMP_DIR:
        return amph_do_mkdirat(AT_FDCWD, name, 0700);
    case TEMP_NAME:
        break;
    }

    if (amph_do_fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return amph_ip_fail(EEXIST);

    return errno == ENOENT ? 0 : -1;
}

static int make_temporary(char *pattern, int suffix, int flags, enum temporary what)
{
    size_t len = strlen(pattern);

    if (suffix < 0 || len < (size_t)suffix + 6 ||
        strncmp(pattern + len - (size_t)suffix - 6, "XXXXXX", 6) != 0)
        return amph_ip_fail(EINVAL);

    for (int tries = 0; tries < 1000; tries++) {
        fill(pattern, suffix);
        amph_ip_links++;

        int r = try_name(pattern, flags, what);

        amph_ip_links--;

        if (r >= 0 || errno != EEXIST)
            return r;
    }

    return amph_ip_fail(EEXIST);
}

int amph_do_mkstemp(char *pattern, int suffix, int flags)
{
    return make_temporary(pattern, suffix, flags, TEMP_FILE);
}

char *amph_do_mkdtemp(char *pattern)
{
    return make_temporary(pattern, 0, 0, TEMP_DIR) == 0 ? pattern : NULL;
}

char *amph_do_mktemp(char *pattern)
{
    if (make_temporary(pattern, 0, 0, TEMP_NAME) != 0)
        pattern[0] = 0;

    return pattern;
}

FILE *amph_do_tmpfile(void)
{
    char name[] = P_tmpdir "/iofwd-XXXXXX";
    int fd = amph_do_openat(AT_FDCWD, P_tmpdir, O_TMPFILE | O_RDWR | O_EXCL, 0600);

    if (fd < 0 && (fd = amph_do_mkstemp(name, 0, 0)) >= 0)
        amph_do_unlinkat(AT_FDCWD, name, 0);

    FILE *f = NULL;

    if (fd >= 0)
        f = amph_ip_fd(fd) ? amph_do_fdopen(fd, "w+") : libc_fdopen(fd, "w+");

    if (!f && fd >= 0)
        amph_do_close(fd);

    return f;
}

static bool is_directory(const char *path)
{
    struct stat st;

    amph_ip_links++;

    bool is = path && amph_do_fstatat(AT_FDCWD, path, &st, 0) == 0 && S_ISDIR(st.st_mode);

    amph_ip_links--;
    return is;
}

char *amph_do_tempnam(const char *dir, const char *start)
{
    const char *tmpdir = NULL;
    char *name = NULL;
    int saved = errno;

    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "TMPDIR=", 7) == 0)
            tmpdir = *e + 7;

    if (!amph_ip_state.on || amph_ip_inside || !(amph_ip_led(dir) || amph_ip_led(tmpdir)))
        return libc_tempnam(dir, start);

    const char *parent = P_tmpdir;

    if (is_directory(tmpdir))
        parent = tmpdir;
    else if (is_directory(dir))
        parent = dir;

    if (asprintf(&name, "%s/%.5sXXXXXX", parent, start ? start : "file") < 0)
        return NULL;

    if (!amph_do_mktemp(name)[0]) {
        free(name);
        return NULL;
    }

    errno = saved;
    return name;
}
