/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pack: gives the files of a folder their compressed form.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/trace/pack.h"
#include "tools/trace/trace.h"

static bool ends_in(const char *name, const char *suffix)
{
    size_t n = strlen(name);
    size_t m = strlen(suffix);

    return n > m && strcmp(name + n - m, suffix) == 0;
}

static void host_name(char *out, size_t cap)
{
    memset(out, 0, cap);
    gethostname(out, cap - 1);
}

/* Was the file written on another host than this one, or does it name none? */
static bool is_of_another_host(const struct amph_trace_header *h)
{
    char host[sizeof h->host];

    host_name(host, sizeof host);
    return strncmp(host, h->host, sizeof host) != 0;
}

/* Has a process of this kernel the file open for writing, or mapped?  1: yes, 0: no, -1: the file system
 * does not say. */
static int is_open_for_writing(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return errno == EAGAIN ? 1 : -1;

    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 0;
}

enum state {
    ENDED, /* nobody writes it any more */
    WRITTEN,
    ELSEWHERE /* it is not known here whether its process, or the one that writes for it, has ended */
};

/* A file that is ENDED does not change any more; any other may have grown since it was read. */
static enum state state_of(int fd)
{
    struct amph_trace_header h;
    char process[64];
    bool is_whole = pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h;
    int is_open = is_open_for_writing(fd);

    if (is_open == 1)
        return WRITTEN;
    if (!is_whole)
        return ENDED;
    if (is_of_another_host(&h))
        return ELSEWHERE;

    /* An overlay's file is closed while its map is still there, and the writer may be another process than
     * the one that the file is about. */
    bool is_other_writer = h.recorder != AMPH_TRACE_BY_PRELOAD;

    snprintf(process, sizeof process, "/proc/%d", h.pid);
    if (access(process, F_OK) == 0)
        return is_other_writer && is_open == 0 ? ENDED : WRITTEN;

    return is_other_writer && is_open < 0 ? ELSEWHERE : ENDED;
}

static char *read_all(int fd, size_t *len_p)
{
    struct stat st;
    bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    char *bytes = is_file ? malloc((size_t)st.st_size + 1) : NULL;
    size_t got = 0;
    ssize_t n = 1;

    while (bytes && got < (size_t)st.st_size && n > 0)
        if ((n = read(fd, bytes + got, (size_t)st.st_size - got)) > 0)
            got += (size_t)n;

    if (bytes && got < (size_t)st.st_size) {
        free(bytes);
        return NULL;
    }

    *len_p = got;
    return bytes;
}

/* The compressed file gets its name when it is complete, and only then the other one goes. */
static bool write_all(const char *path, const void *bytes, size_t len)
{
    char temporary[4096 + 512];

    snprintf(temporary, sizeof temporary, "%s.new", path);

    FILE *f = fopen(temporary, "wb");
    bool ok = f && fwrite(bytes, 1, len, f) == len;

    if (f && fclose(f) != 0)
        ok = false;
    if (ok && rename(temporary, path) == 0)
        return true;

    trace_fail("%s cannot be written: %s", path, strerror(errno));
    unlink(temporary);
    return false;
}

struct sum {
    size_t files, before, after;
    bool any, failed;
};

/* Replaces the file, whose contents are bytes. */
static bool replace(const char *path, const char *bytes, size_t len, struct sum *sum)
{
    char to[4096 + 256], why[256];
    size_t packed_len;
    void *packed;

    if (!amph_trace_pack(bytes, len, &packed, &packed_len, why, sizeof why))
        return !trace_fail("%s: %s", path, why);

    snprintf(to, sizeof to, "%.*s%s", (int)(strlen(path) - strlen(AMPH_TRACE_SUFFIX)), path,
             AMPH_TRACE_PACKED_SUFFIX);

    bool ok = write_all(to, packed, packed_len) && unlink(path) == 0;

    free(packed);
    sum->files += ok;
    sum->before += len;
    sum->after += packed_len;
    return ok;
}

/* fd: of the file, locked. */
static bool shrink_open(const char *path, int fd, bool ended, struct sum *sum)
{
    enum state state = state_of(fd);

    if (state != ENDED && ended)
        return true;
    if (state == WRITTEN)
        return !trace_fail("%s: its process still runs; it is left as it is", path);

    size_t len = 0;
    char *bytes = read_all(fd, &len);
    bool ok = bytes ? replace(path, bytes, len, sum)
                    : !trace_fail("%s cannot be read: %s", path, strerror(errno));

    free(bytes);
    return ok;
}

/* Another process may pack the folder, too: the runs of several ranks end together.  It has the lock, or has
 * removed the file. */
static bool shrink_file(const char *path, bool ended, struct sum *sum)
{
    struct amph_trace_header h;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 && errno == ENOENT)
        return true;
    if (fd < 0)
        return !trace_fail("%s cannot be read: %s", path, strerror(errno));

    /* another host packs these at the same time, and would find the lock taken */
    if (ended && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && is_of_another_host(&h)) {
        close(fd);
        return true;
    }

    bool is_taken = (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) ||
                    (fstat(fd, &st) == 0 && st.st_nlink == 0);
    bool ok = is_taken || shrink_open(path, fd, ended, sum);

    close(fd);
    return ok;
}

int trace_shrink(const char *dir, bool ended)
{
    DIR *d = opendir(dir);
    struct sum sum = { 0 };
    struct dirent *e;

    if (!d)
        return trace_fail("%s cannot be read: %s", dir, strerror(errno));

    while ((e = readdir(d))) {
        char path[4096];

        sum.any |= ends_in(e->d_name, AMPH_TRACE_SUFFIX) ||
                   ends_in(e->d_name, AMPH_TRACE_PACKED_SUFFIX);
        if (!ends_in(e->d_name, AMPH_TRACE_SUFFIX))
            continue;

        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (!shrink_file(path, ended, &sum))
            sum.failed = true;
    }

    closedir(d);
    if (!sum.any)
        return trace_fail("%s has no records; name the folder that iofwd-run -record has written",
                          dir);

    printf("%zu files: %zu bytes, %zu before\n", sum.files, sum.after, sum.before);
    return sum.failed;
}
