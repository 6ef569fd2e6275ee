/* SPDX-License-Identifier: BSD-3-Clause */
/* The address file of a job (AMPHORA_JOB); see control.h.  Layer: boot. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/limits.h"
#include "base/log.h"
#include "boot/control.h"

static const char first_line[] = "amphora-job 1\n";
enum {
    TEXT_MAX = 1024
};

static bool hex_decode(const char *text, uint8_t *out, size_t len_bytes)
{
    if (strspn(text, "0123456789abcdef") != 2 * len_bytes || text[2 * len_bytes] != 0)
        return false;

    for (size_t i = 0; i < len_bytes; i++) {
        char two[3] = { text[2 * i], text[2 * i + 1], 0 };
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }

    return true;
}

/* Copies the rest of the line that starts with "word " into value and returns it; NULL: no such
 * line, or it does not fit. */
static char *find_line(char *text, const char *word, char *value, size_t cap)
{
    size_t len = strlen(word);

    for (char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, word, len) == 0 && at[len] == ' ') {
            size_t n = strcspn(at + len + 1, "\n");

            if (n >= cap)
                return NULL;

            memcpy(value, at + len + 1, n);
            value[n] = 0;
            return value;
        }

    return NULL;
}

static bool is_of_job(const char *text)
{
    return strncmp(text, first_line, sizeof first_line - 1) == 0;
}

/* Returns whether the text is whole. */
static bool parse(char *text, struct amph_jobfile *file)
{
    char key[2 * AMPH_KEY_BYTES + 1];

    return is_of_job(text) && find_line(text, "address", file->address, sizeof file->address) &&
           find_line(text, "key", key, sizeof key) && hex_decode(key, file->key, sizeof file->key);
}

/* Returns false with errno. */
static bool read_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a FIFO */

    if (fd < 0)
        return false;

    ssize_t n = read(fd, text, cap - 1);

    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return true;
}

bool amph_boot_jobfile_is(const char *path)
{
    char text[TEXT_MAX];
    struct amph_jobfile file;

    return read_text(path, text, sizeof text) && parse(text, &file);
}

enum amph_status amph_boot_jobfile_read(const char *path, struct amph_jobfile *file_p)
{
    char text[TEXT_MAX];
    struct amph_jobfile file;

    if (!read_text(path, text, sizeof text)) {
        enum amph_status st = amph_status_from_errno(errno);
        const char *hint = "";

        if (st == AMPH_ERR_NOENT)
            hint = "; has its job ended?";
        else if (errno == EMFILE)
            hint = " (ulimit -n)";

        amph_error("cannot read the address file %s (AMPHORA_JOB): %m%s", path, hint);
        return st == AMPH_ERR_NOENT || st == AMPH_ERR_DENIED ? st : AMPH_ERR_SYS;
    }

    if (parse(text, &file)) {
        *file_p = file;
        return AMPH_OK;
    }

    if (is_of_job(text))
        amph_error("the address file %s is damaged: it lacks a line \"address ...\" or \"key "
                   "...\"; start the job again",
                   path);
    else
        amph_error("the address file %s does not start with \"amphora-servers 1\" or "
                   "\"amphora-job 1\"; it is of another version, or none: AMPHORA_JOB or -servers "
                   "of iofwd-run names it",
                   path);

    return AMPH_ERR_PROTO;
}

enum amph_status amph_boot_jobfile_write(const char *path, const struct amph_jobfile *file)
{
    char text[512];
    int n = snprintf(text, sizeof text, "%saddress %s\nkey ", first_line, file->address);

    for (size_t i = 0; i < sizeof file->key; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%02x", file->key[i]);

    n += snprintf(text + n, sizeof text - (size_t)n, "\n");

    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;

    if (!ok) {
        const char *remedy = amph_limit_remedy(errno);

        amph_error("cannot write the job's address file %s: %m%s", path,
                   *remedy ? remedy : "; is there room in its directory (TMPDIR)?");
    }

    if (fd >= 0)
        close(fd);

    return ok ? AMPH_OK : AMPH_ERR_SYS;
}
