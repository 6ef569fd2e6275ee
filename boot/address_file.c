/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The address file of standing servers; see standing.h.
 *
 * Layer: boot.  Thread rule: as boot.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings/env.h"
#include "boot/kind.h"
#include "boot/standing.h"

static const char first_line[] = "amphora-servers 1\n";
enum {
    COMPUTE_MAX = 1 << 24
};

static void put_hex(FILE *out, const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        fprintf(out, "%02x", bytes[i]);
}

static bool take_hex(const char *text, uint8_t *out, size_t max_bytes, size_t *len_p)
{
    size_t n = strspn(text, "0123456789abcdef");

    if (text[n] != 0 || n % 2 || n / 2 > max_bytes)
        return false;

    for (size_t i = 0; i < n / 2; i++) {
        char two[3] = { text[2 * i], text[2 * i + 1], 0 };
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }

    *len_p = n / 2;
    return true;
}

char *amph_boot_standing_print(const struct amph_standing *set)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    if (!out)
        return NULL;

    fprintf(out, "%sid %016" PRIx64 "\nkey ", first_line, set->id);
    put_hex(out, set->key, sizeof set->key);
    if (set->conduit[0])
        fprintf(out, "\nconduit %s", set->conduit);

    if (set->ncompute)
        fprintf(out, "\ncompute %" PRIu32, set->ncompute);

    fprintf(out, "\nprefix %s\n", set->prefix);
    if (set->watch_pid)
        fprintf(out, "watch %" PRIu64 "\n", set->watch_pid);

    if (set->near)
        fputs(set->near, out);

    fprintf(out, "count %" PRIu32 "\n", set->n);
    for (uint32_t i = 0; i < set->n; i++) {
        fprintf(out, "server %s %" PRIu64 " ", set->server[i].host, set->server[i].pid);
        put_hex(out, set->server[i].value, set->server[i].value_len);
        fputc('\n', out);
    }

    return fclose(out) == 0 ? text : NULL;
}

static enum amph_status take_server(struct amph_standing *set, const char *rest)
{
    struct amph_standing_server s = { .host = "" };
    char hex[2 * AMPH_STANDING_VALUE_MAX + 1] = "";

    if (set->n >= AMPH_STANDING_MAX ||
        sscanf(rest, "%255s %" SCNu64 " %512s", s.host, &s.pid, hex) != 3 ||
        !take_hex(hex, s.value, sizeof s.value, &s.value_len))
        return AMPH_ERR_PROTO;

    struct amph_standing_server *more = realloc(set->server, (set->n + 1) * sizeof *more);

    if (!more)
        return AMPH_ERR_NOMEM;

    set->server = more;
    set->server[set->n++] = s;
    return AMPH_OK;
}

/* Is the text whole?  nservers: what it says, or UINT32_MAX. */
static bool is_whole(const struct amph_standing *set, bool has_prefix, uint32_t nservers)
{
    static const uint8_t no_key[AMPH_KEY_BYTES];

    return has_prefix && set->n > 0 && (nservers == UINT32_MAX || nservers == set->n) &&
           memcmp(set->key, no_key, sizeof no_key) != 0;
}

static bool take_line(struct amph_standing *set, const char *word, const char *rest)
{
    size_t n;

    if (strcmp(word, "id") == 0)
        return sscanf(rest, "%16" SCNx64, &set->id) == 1;
    if (strcmp(word, "key") == 0)
        return take_hex(rest, set->key, sizeof set->key, &n) && n == sizeof set->key;
    if (strcmp(word, "compute") == 0)
        return sscanf(rest, "%" SCNu32, &set->ncompute) == 1 && set->ncompute <= COMPUTE_MAX;
    if (strcmp(word, "conduit") == 0)
        return snprintf(set->conduit, sizeof set->conduit, "%s", rest) < (int)sizeof set->conduit;
    if (strcmp(word, "prefix") == 0)
        return snprintf(set->prefix, sizeof set->prefix, "%s", rest) < (int)sizeof set->prefix;
    if (strcmp(word, "watch") == 0)
        return sscanf(rest, "%" SCNu64, &set->watch_pid) == 1;

    return true; /* ignores lines of later versions */
}

static enum amph_status no_memory(const char *from)
{
    amph_error("there is no memory for the address file of I/O servers, %s", from);
    return AMPH_ERR_NOMEM;
}

enum amph_status amph_boot_standing_parse(const char *text, const char *from,
                                          struct amph_standing *set_p)
{
    struct amph_standing set = { .n = 0 };
    uint32_t nservers = UINT32_MAX;
    bool has_prefix = false;
    enum amph_status server = AMPH_OK;
    size_t first = strlen(first_line);
    bool ok = strncmp(text, first_line, first) == 0;
    char *copy = ok ? strdup(text + first) : NULL;
    char *save = NULL;

    if (ok && !copy)
        return no_memory(from);

    for (char *line = copy ? strtok_r(copy, "\n", &save) : NULL; line && ok;
         line = strtok_r(NULL, "\n", &save)) {
        char *rest = line + strcspn(line, " ");

        if (*rest)
            *rest++ = 0;

        if (strcmp(line, "count") == 0)
            ok = sscanf(rest, "%" SCNu32, &nservers) == 1;
        else if (strcmp(line, "server") == 0)
            ok = (server = take_server(&set, rest)) == AMPH_OK;
        else
            ok = take_line(&set, line, rest);

        has_prefix |= strcmp(line, "prefix") == 0;
    }

    free(copy);
    if (ok && is_whole(&set, has_prefix, nservers)) {
        *set_p = set;
        return AMPH_OK;
    }

    amph_boot_standing_free(&set);
    if (server == AMPH_ERR_NOMEM)
        return no_memory(from);

    amph_error(
        "%s is no whole address file of I/O servers (\"amphora-servers 1\", id, key, prefix, "
        "server ...); start iofwd-server -daemon again",
        from);
    return AMPH_ERR_PROTO;
}

void amph_boot_standing_free(struct amph_standing *set)
{
    free(set->server);
    free(set->near);
    set->server = NULL;
    set->near = NULL;
    set->n = 0;
}

bool amph_boot_standing_lives(uint64_t pid)
{
    char name[64];
    char comm[32] = "";

    snprintf(name, sizeof name, "/proc/%" PRIu64 "/comm", pid);

    FILE *f = fopen(name, "re");
    bool lives = f && fgets(comm, sizeof comm, f) && strstr(comm, "iofwd-server");

    if (f)
        fclose(f);

    return lives;
}

static bool others_write_beside(const char *path)
{
    char dir[4096];
    struct stat st;
    const char *slash = strrchr(path, '/');
    int n = snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");

    return n < (int)sizeof dir && stat(n ? dir : "/", &st) == 0 && (st.st_mode & S_IWOTH);
}

int amph_boot_standing_open(const char *path, int flags)
{
    struct stat st;
    bool wary = others_write_beside(path);

    /* it does not wait where the path is a FIFO */
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | (wary ? O_NOFOLLOW : 0), 0600);

    if (fd < 0 || !wary ||
        (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0)))
        return fd;

    close(fd);
    errno = EPERM;
    return -1;
}

static bool is_distrust(int err)
{
    return err == EPERM || err == ELOOP;
}

enum amph_status amph_boot_standing_write(const char *path, const struct amph_standing *set)
{
    char *text = amph_boot_standing_print(set);
    char *temporary = NULL;
    int fd = -1;

    if (text && asprintf(&temporary, "%s.%ld", path, (long)getpid()) >= 0) {
        unlink(temporary); /* if another user has created it, that user could read it */
        fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } else
        temporary = NULL;

    size_t len = text ? strlen(text) : 0;
    bool ok = fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, text, len) == (ssize_t)len &&
              rename(temporary, path) == 0;

    if (!ok) {
        amph_error("cannot write the address file %s: %m", path);
        if (fd >= 0)
            unlink(temporary);
    }

    if (fd >= 0)
        close(fd);

    free(text);
    free(temporary);
    return ok ? AMPH_OK : AMPH_ERR_SYS;
}

static char *read_text(const char *path)
{
    char *text = NULL;
    size_t have = 0;
    size_t max = AMPH_STANDING_TEXT_MAX - 1;
    struct stat st;
    int fd = amph_boot_standing_open(path, O_RDONLY);

    /* every client reads the file when it starts, and it is short; it is replaced, never extended */
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size < max)
        max = (size_t)st.st_size;

    if (fd < 0 || !(text = malloc(max + 1)))
        goto done;

    for (ssize_t n; have < max; have += (size_t)n)
        if ((n = read(fd, text + have, max - have)) <= 0)
            break;

    text[have] = 0;
done:
    if (fd >= 0)
        close(fd);

    return text;
}

enum amph_status amph_boot_standing_read(const char *path, struct amph_standing *set_p)
{
    char *text = read_text(path);

    if (!text) {
        enum amph_status st = is_distrust(errno) ? AMPH_ERR_PROTO : amph_status_from_errno(errno);

        if (is_distrust(errno))
            amph_error("the address file %s is in a directory where others may write, and is a "
                       "link or belongs "
                       "to another user: it is not trusted",
                       path);
        else
            amph_error("cannot read the address file %s: %m; is iofwd-server -daemon running?",
                       path);

        return st;
    }

    enum amph_status st = amph_boot_standing_parse(text, path, set_p);

    free(text);
    return st;
}

bool amph_boot_standing_is(const char *path)
{
    char head[sizeof first_line] = "";
    int fd = amph_boot_standing_open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head - 1) : 0;

    if (fd >= 0)
        close(fd);
    else if (is_distrust(errno))
        return true; /* amph_boot_standing_read reports the error */

    return n == sizeof head - 1 && strcmp(head, first_line) == 0;
}

const char *amph_boot_standing_default(void)
{
    char *path = amph_boot_process.default_path;
    size_t cap = sizeof amph_boot_process.default_path;
    const char *dir = amph_env_foreign("XDG_RUNTIME_DIR");
    const char *job = amph_env_str(AMPH_ENV_JOB);

    if (job[0])
        return job;

    if (dir && dir[0] == '/')
        snprintf(path, cap, "%s/iofwd-servers", dir);
    else
        snprintf(path, cap, "/tmp/iofwd-servers-%lu", (unsigned long)getuid());

    return path;
}
