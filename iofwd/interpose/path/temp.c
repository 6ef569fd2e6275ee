/* SPDX-License-Identifier: BSD-3-Clause */
/* Temporary files and names.  Layer: iofwd (preload).  Thread rule: any thread. */
#include <sys/random.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

/* Fills the six X before the suffix with other letters; false: there are none. */
static bool fill(char *pattern, int suffix)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    static unsigned counter;
    unsigned char random[6];
    if (getrandom(random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        unsigned mixed = ((unsigned)now.tv_nsec + __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED)) * 2654435761U + (unsigned)getpid();
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

enum temporary { TEMP_FILE, TEMP_DIR, TEMP_NAME };

static int make_temporary(char *pattern, int suffix, int flags, enum temporary what)
{
    struct stat st;
    size_t len = strlen(pattern);
    if (suffix < 0 || len < (size_t)suffix + 6 || strncmp(pattern + len - (size_t)suffix - 6, "XXXXXX", 6) != 0)
        return fwd_fail(EINVAL);
    for (int tries = 0; tries < 1000; tries++) {
        fill(pattern, suffix);
        fwd_links++;
        int r = what == TEMP_FILE  ? x_openat(AT_FDCWD, pattern, (flags & ~O_ACCMODE) | O_RDWR | O_CREAT | O_EXCL, 0600)
                : what == TEMP_DIR ? x_mkdirat(AT_FDCWD, pattern, 0700)
                                   : x_fstatat(AT_FDCWD, pattern, &st, AT_SYMLINK_NOFOLLOW);
        fwd_links--;
        if (what == TEMP_NAME && (r == 0 || errno == ENOENT))
            r = r == 0 ? fwd_fail(EEXIST) : 0;
        if (r >= 0 || errno != EEXIST)
            return r;
    }
    return fwd_fail(EEXIST);
}

int x_mkstemp(char *pattern, int suffix, int flags)
{
    return make_temporary(pattern, suffix, flags, TEMP_FILE);
}

char *x_mkdtemp(char *pattern)
{
    return make_temporary(pattern, 0, 0, TEMP_DIR) == 0 ? pattern : NULL;
}

char *x_mktemp(char *pattern)
{
    if (make_temporary(pattern, 0, 0, TEMP_NAME) != 0)
        pattern[0] = 0;
    return pattern;
}

FILE *x_tmpfile(void)
{
    char name[] = P_tmpdir "/iofwd-XXXXXX";
    int fd = x_openat(AT_FDCWD, P_tmpdir, O_TMPFILE | O_RDWR | O_EXCL, 0600);
    if (fd < 0 && (fd = x_mkstemp(name, 0, 0)) >= 0)
        x_unlinkat(AT_FDCWD, name, 0);
    FILE *f = fd < 0 ? NULL : fwd_fd(fd) ? x_fdopen(fd, "w+") : real_fdopen(fd, "w+");
    if (!f && fd >= 0)
        x_close(fd);
    return f;
}

static bool is_directory(const char *path)
{
    struct stat st;
    fwd_links++;
    bool is = path && x_fstatat(AT_FDCWD, path, &st, 0) == 0 && S_ISDIR(st.st_mode);
    fwd_links--;
    return is;
}

char *x_tempnam(const char *dir, const char *start)
{
    const char *tmpdir = NULL;
    char *name = NULL;
    int saved = errno;
    for (char **e = environ; e && *e; e++)
        if (strncmp(*e, "TMPDIR=", 7) == 0)
            tmpdir = *e + 7;
    if (!fwd_state.on || fwd_inside || !(fwd_led(dir) || fwd_led(tmpdir)))
        return real_tempnam(dir, start);
    const char *place = is_directory(tmpdir) ? tmpdir : is_directory(dir) ? dir : P_tmpdir;
    if (asprintf(&name, "%s/%.5sXXXXXX", place, start ? start : "file") < 0)
        return NULL;
    if (!x_mktemp(name)[0]) {
        free(name);
        return NULL;
    }
    errno = saved;
    return name;
}
