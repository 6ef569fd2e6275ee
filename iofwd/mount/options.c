/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: the words of -o, and messages to the user.
 *
 * Layer: iofwd.  Thread rule: one thread.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iofwd/mount/mount.h"

#define ATTRIBUTES_S 1.0 /* time-out of close-to-open */
#define FOR_EVER_S 86400.0

/* Words that libfuse and the kernel understand and that do not affect this program. */
static const char *const kernel_words[] = {
    "noexec", "noatime", "nodev", "nosuid", "default_permissions", "sync", "dirsync"
};

void amph_mount_say(const char *fmt, ...)
{
    char line[2048];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "iofwd-mount: %s\n", line);
}

static bool take_cache(struct amph_mount_options *o, const char *value)
{
    static const char *const modes[] = { [AMPH_MOUNT_CACHE_NONE] = "none",
                                         [AMPH_MOUNT_CACHE_OPEN] = "open",
                                         [AMPH_MOUNT_CACHE_ALWAYS] = "always" };

    for (unsigned i = 0; i < 3; i++)
        if (strcmp(value, modes[i]) == 0) {
            o->cache = (enum amph_mount_cache)i;
            return true;
        }

    amph_mount_say("-o cache=%s: none, open and always are possible", value);
    return false;
}

static bool take_number(const char *word, const char *value, double min, double max,
                        double *number_p)
{
    char *end;

    *number_p = strtod(value, &end);
    if (end != value && *end == 0 && *number_p >= min && *number_p <= max)
        return true;

    amph_mount_say("-o %s: this is not a number from %.0f to %.0f", word, min, max);
    return false;
}

static bool pass_on(struct amph_mount_options *o, const char *word)
{
    size_t used = strlen(o->kernel);
    size_t len = strlen(word);

    if (used + len + 2 > sizeof o->kernel) {
        amph_mount_say("-o: too many words");
        return false;
    }

    o->kernel[used] = ',';
    memcpy(o->kernel + used + 1, word, len + 1);
    return true;
}

static bool take_word(struct amph_mount_options *o, const char *word)
{
    double number;

    if (strncmp(word, "cache=", 6) == 0)
        return take_cache(o, word + 6);

    if (strncmp(word, "timeout=", 8) == 0)
        return take_number(word, word + 8, 0, FOR_EVER_S, &o->attr_s);

    if (strncmp(word, "max_read=", 9) == 0) {
        if (!take_number(word, word + 9, 4096, (double)AMPH_MOUNT_IO_BYTES, &number))
            return false;

        o->max_read = (unsigned)number;
        return true;
    }

    if (strcmp(word, "ro") == 0 || strcmp(word, "rw") == 0) {
        o->ro = word[1] == 'o';
        return true;
    }

    if (strcmp(word, "allow_other") == 0)
        return o->allow_other = true;
    if (strcmp(word, "clone_fd") == 0)
        return o->clone_fd = true;

    for (size_t i = 0; i < sizeof kernel_words / sizeof kernel_words[0]; i++)
        if (strcmp(word, kernel_words[i]) == 0)
            return pass_on(o, word);

    amph_mount_say("-o %s is not an option of iofwd-mount; -help lists them", word);
    return false;
}

bool amph_mount_options_take(struct amph_mount_options *o, const char *words)
{
    char *copy = strdup(words);
    char *at = copy;
    bool ok = copy != NULL;

    while (ok && at) {
        const char *word = strsep(&at, ",");

        ok = !word[0] || take_word(o, word);
    }

    free(copy);
    return ok;
}

double amph_mount_options_timeout(const struct amph_mount_options *o)
{
    static const double by_mode[] = { [AMPH_MOUNT_CACHE_NONE] = 0,
                                      [AMPH_MOUNT_CACHE_OPEN] = ATTRIBUTES_S,
                                      [AMPH_MOUNT_CACHE_ALWAYS] = FOR_EVER_S };

    return o->attr_s >= 0 && o->cache != AMPH_MOUNT_CACHE_NONE ? o->attr_s : by_mode[o->cache];
}
