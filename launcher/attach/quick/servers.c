/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the address file of standing servers; see quick.h.
 *
 * Layer: launcher.  Thread rule: one thread.
 *
 * The file's format is in boot/standing.h, its reader with all messages boot/address_file.c.
 */
#include "launcher/attach/quick/quick.h"

#include <limits.h>

#include "boot/boot.h"
#include "launcher/attach/quick/kernel.h"

#define TEXT_BYTES 8192 /* a longer file is left to the other reader */

/* Puts the absolute path of the folder that fd is open on into path. */
static bool name_folder(int fd, struct amph_quick_text *path)
{
    char link_bytes[40];
    struct amph_quick_text link = { link_bytes, 0, sizeof link_bytes, false };

    amph_quick_add(&link, "/proc/self/fd/");
    amph_quick_add_number(&link, (unsigned long)fd);

    long n = amph_quick_readlink(link_bytes, path->buf, path->cap);

    if (n <= 0 || (size_t)n >= path->cap || path->buf[0] != '/')
        return false;

    path->len = (size_t)n;
    path->buf[path->len] = 0;
    return true;
}

/* Opens the folder of the address file, and puts its absolute path into path.  A folder that is named by that path
 * needs no look at /proc, whose first one takes 20 us.  A negative number: it cannot. */
static int open_folder(const char *name, struct amph_quick_text *path)
{
    int dir = amph_quick_is_clean(name) ? amph_quick_open_linkless(name, O_DIRECTORY) : -1;

    if (dir >= 0) {
        amph_quick_add(path, name);
        path->len -= path->len > 1 && path->buf[path->len - 1] == '/';
        return dir;
    }

    dir = amph_quick_open(AT_FDCWD, name, O_PATH | O_DIRECTORY);
    if (dir >= 0 && !name_folder(dir, path)) {
        amph_quick_close(dir);
        return -1;
    }

    return dir;
}

/* Opens the address file, and puts its absolute path into servers.  Returns -1 unless it is a file of
 * this user or of root and no link. */
static int open_file(const char *file, const struct amph_quick_user *user,
                     struct amph_quick_servers *servers)
{
    struct amph_quick_text path = { servers->path, 0, sizeof servers->path, false };
    const char *name = amph_quick_base(file);
    char folder_bytes[PATH_MAX] = ".";
    struct amph_quick_text folder = { folder_bytes, 0, sizeof folder_bytes, false };
    struct statx st;

    if (name != file)
        amph_quick_add_part(&folder, file, (size_t)(name - file));

    int dir = folder.cut ? -1 : open_folder(folder_bytes, &path);

    if (dir < 0)
        return -1;

    int fd = amph_quick_open(dir, name, O_NOFOLLOW);

    amph_quick_close(dir);
    if (path.len > 1) /* only the root's path ends in a slash */
        amph_quick_add(&path, "/");

    amph_quick_add(&path, name);

    bool trusted = fd >= 0 && !path.cut && amph_quick_stat(fd, &st) &&
                   (st.stx_mode & S_IFMT) == S_IFREG &&
                   (st.stx_uid == user->euid || st.stx_uid == 0);

    if (!trusted && fd >= 0)
        amph_quick_close(fd);

    return trusted ? fd : -1;
}

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;

    return len > 0;
}

/* Is this the key of all servers' connections, and not zero? */
static bool is_key(const char *text, size_t len)
{
    bool zero = true;

    for (size_t i = 0; i < len; i++)
        zero = zero && text[i] == '0';

    return len == 2 * (size_t)AMPH_KEY_BYTES && is_hex(text, len) && !zero;
}

/* HOST PID HEX */
static bool is_server(const char *text)
{
    size_t host = amph_quick_span(text, ' ', '\n');
    const char *pid = text + host + (text[host] == ' ');
    size_t digits = amph_quick_span(pid, ' ', '\n');
    const char *value = pid + digits + (pid[digits] == ' ');
    size_t len = amph_quick_span(value, '\n', '\n');

    for (size_t i = 0; i < digits; i++)
        if (pid[i] < '0' || pid[i] > '9')
            return false;

    return host > 0 && digits > 0 && len % 2 == 0 && is_hex(value, len);
}

static bool read_number(const char *text, unsigned long *number_p)
{
    size_t len = amph_quick_span(text, '\n', '\n');

    *number_p = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;

        *number_p = *number_p * 10 + (unsigned long)(text[i] - '0');
    }

    return len > 0 && len < 10;
}

/* What the lines have said so far. */
struct seen {
    bool key, prefix, count, wrong;
    unsigned long said, servers;
};

static void take_line(struct seen *seen, const char *line, struct amph_quick_servers *servers)
{
    const char *rest = line + amph_quick_span(line, ' ', '\n');

    rest += *rest == ' ';

    if (amph_quick_begins(line, "key ")) {
        seen->key = is_key(rest, amph_quick_span(rest, '\n', '\n'));
        seen->wrong |= !seen->key;
    } else if (amph_quick_begins(line, "prefix ")) {
        struct amph_quick_text text = { servers->prefixes, 0, sizeof servers->prefixes, false };

        amph_quick_add_part(&text, rest, amph_quick_span(rest, '\n', '\n'));
        seen->prefix = text.len > 0;
        seen->wrong |= text.cut;
    } else if (amph_quick_begins(line, "count ")) {
        seen->count = read_number(rest, &seen->said);
        seen->wrong |= !seen->count;
    } else if (amph_quick_begins(line, "server ")) {
        seen->servers++;
        seen->wrong |= !is_server(rest);
    }
}

bool amph_quick_read_servers(const char *path, const struct amph_quick_user *user,
                             struct amph_quick_servers *servers)
{
    static const char first[] = "amphora-servers 1\n";
    char text[TEXT_BYTES];
    struct seen seen = { .wrong = false };
    int fd = open_file(path, user, servers);

    if (fd < 0)
        return false;

    long n = amph_quick_pread(fd, text, sizeof text - 1, 0);

    amph_quick_close(fd);
    if (n <= 0 || n == sizeof text - 1)
        return false;

    text[n] = 0;
    if (!amph_quick_begins(text, first))
        return false;

    for (const char *line = text + sizeof first - 1; *line;) {
        take_line(&seen, line, servers);
        line += amph_quick_span(line, '\n', '\n');
        line += *line == '\n';
    }

    return !seen.wrong && seen.key && seen.prefix && seen.count && seen.servers > 0 &&
           seen.servers == seen.said;
}
