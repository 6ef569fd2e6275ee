/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pack: gives the files of a folder their compressed form.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* A file whose process still writes it stays as it is. */
static bool is_written(const char *bytes, size_t len)
{
    struct amph_trace_header h;
    char host[sizeof h.host] = "", exe[64];

    if (len < sizeof h)
        return false;

    memcpy(&h, bytes, sizeof h);
    gethostname(host, sizeof host - 1);
    snprintf(exe, sizeof exe, "/proc/%d", h.pid);
    return strncmp(host, h.host, sizeof host) == 0 && access(exe, F_OK) == 0;
}

static char *read_all(const char *path, size_t *len_p)
{
    struct stat st;
    bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    FILE *f = is_file ? fopen(path, "rb") : NULL;
    char *bytes = NULL;

    if (f && fstat(fileno(f), &st) == 0 && (bytes = malloc((size_t)st.st_size + 1))) {
        *len_p = fread(bytes, 1, (size_t)st.st_size, f);
        if (*len_p != (size_t)st.st_size) {
            free(bytes);
            bytes = NULL;
        }
    }

    if (f)
        fclose(f);

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

static bool shrink_file(const char *path, size_t *before_p, size_t *after_p)
{
    char to[4096 + 256], why[256];
    size_t len = 0, packed_len;
    char *bytes = read_all(path, &len);
    void *packed;

    if (!bytes)
        return !trace_fail("%s cannot be read: %s", path, strerror(errno));

    if (is_written(bytes, len)) {
        free(bytes);
        return !trace_fail("%s: its process still runs; it is left as it is", path);
    }

    bool ok = amph_trace_pack(bytes, len, &packed, &packed_len, why, sizeof why);

    free(bytes);
    if (!ok)
        return !trace_fail("%s: %s", path, why);

    snprintf(to, sizeof to, "%.*s%s", (int)(strlen(path) - strlen(AMPH_TRACE_SUFFIX)), path,
             AMPH_TRACE_PACKED_SUFFIX);
    ok = write_all(to, packed, packed_len) && unlink(path) == 0;
    free(packed);
    *before_p += len;
    *after_p += packed_len;
    return ok;
}

int trace_shrink(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t before = 0;
    size_t after = 0;
    size_t n = 0;
    bool any = false;
    int code = 0;

    if (!d)
        return trace_fail("%s cannot be read: %s", dir, strerror(errno));

    while ((e = readdir(d))) {
        any |= ends_in(e->d_name, AMPH_TRACE_SUFFIX) ||
               ends_in(e->d_name, AMPH_TRACE_PACKED_SUFFIX);
        if (ends_in(e->d_name, AMPH_TRACE_SUFFIX)) {
            char path[4096];

            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            if (shrink_file(path, &before, &after))
                n++;
            else
                code = 1;
        }
    }

    closedir(d);
    if (!any)
        return trace_fail("%s has no records; name the folder that iofwd-run -record has written",
                          dir);

    printf("%zu files: %zu bytes, %zu before\n", n, after, before);
    return code;
}
