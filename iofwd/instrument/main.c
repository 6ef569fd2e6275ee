/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-instrument: the command line; man/iofwd-instrument.1 has the options.
 *
 * Layer: iofwd/instrument.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/program/install.h"
#include "base/program/program_look.h"
#include "base/platform.h"
#include "base/program/stdout_check.h"
#include "base/status.h"
#include "boot/control.h"
#include "boot/standing.h"
#include "iofwd/instrument/check.h"
#include "iofwd/instrument/instrument.h"

enum {
    EXIT_FAILED = 1,
    EXIT_WRONG = 2
};

#define SUFFIX ".iofwd"
#define LIBRARY "libiofwd_preload.so"

/* clang-format off */
static const char usage[] =
    "usage: iofwd-instrument [options] BINARY\n"
    "Writes a copy of the dynamic program BINARY that forwards its file calls without any environment variable.\n"
    "  -o OUT               the copy; the default is BINARY's name with " SUFFIX ", in this folder\n"
    "  -server ADDRESSFILE  bake in the servers to which the copy attaches\n"
    "  -prefix PATH[:...]   bake in the forwarded paths; the default is the servers' exports, from the address file\n"
    "  -library FILE        the preload library's path on the hosts where the copy runs\n"
    "  -check               print which calls would be forwarded and which way suits; write nothing\n"
    "  -undo                restore the original from the copy BINARY, bit for bit\n"
    "  -help, -version\n";
/* clang-format on */

struct given {
    const char *binary, *out, *server, *prefix, *library;
    bool check, undo;
};

__attribute__((noreturn, format(printf, 2, 3))) static void die(int code, const char *fmt, ...)
{
    va_list args;

    fprintf(stderr, "iofwd-instrument: ");
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(code);
}

/* ---- the command line ---- */

static bool is_option(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1 + (word[1] == '-'), name) == 0;
}

/* Returns where the value of an option is stored; NULL: the word is not such an option. */
static const char **value_of(struct given *g, const char *word)
{
    const struct {
        const char *name;
        const char **text;
    } values[] = { { "o", &g->out },
                   { "server", &g->server },
                   { "servers", &g->server },
                   { "prefix", &g->prefix },
                   { "library", &g->library } };

    for (size_t i = 0; i < AMPH_COUNTOF(values); i++)
        if (is_option(word, values[i].name))
            return values[i].text;

    return NULL;
}

static void parse(struct given *g, char **argv)
{
    bool options = true;

    for (argv++; *argv; argv++) {
        const char **text = options ? value_of(g, *argv) : NULL;

        if (!options || argv[0][0] != '-') {
            if (g->binary)
                die(EXIT_WRONG, "%s and %s: one program at a time", g->binary, *argv);

            g->binary = *argv;
        } else if (strcmp(*argv, "--") == 0) {
            options = false;
        } else if (is_option(*argv, "help") || is_option(*argv, "h")) {
            fputs(usage, stdout);
            exit(0);
        } else if (is_option(*argv, "version")) {
            printf("iofwd-instrument (%s) %s\n", PACKAGE_NAME, PACKAGE_VERSION);
            exit(0);
        } else if (is_option(*argv, "check")) {
            g->check = true;
        } else if (is_option(*argv, "undo")) {
            g->undo = true;
        } else if (!text) {
            die(EXIT_WRONG, "%s is not an option; -help lists them", *argv);
        } else if (!argv[1] || !argv[1][0]) {
            die(EXIT_WRONG, "%s needs a value", *argv);
        } else {
            *text = *++argv;
        }
    }

    if (!g->binary) {
        fputs(usage, stderr);
        exit(EXIT_WRONG);
    }

    if (g->undo && (g->check || g->server || g->prefix || g->library))
        die(EXIT_WRONG, "-undo takes no other option than -o");
}

/* ---- files ---- */

/* Makes a path absolute; the file need not exist. */
static char *absolute(const char *path)
{
    char *out;
    char *dir = path[0] == '/' ? NULL : realpath(".", NULL);

    if (path[0] != '/' && !dir)
        die(EXIT_FAILED, "the working directory has no name: %s", strerror(errno));
    if (asprintf(&out, "%s%s%s", dir ? dir : "", dir ? "/" : "", path) < 0)
        die(EXIT_FAILED, "no memory");

    free(dir);
    return out;
}

/* Returns the folder of a file, with symbolic links resolved. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir;

    if (asprintf(&dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") < 0)
        die(EXIT_FAILED, "no memory");

    char *real = realpath(dir, NULL);

    if (!real)
        die(EXIT_FAILED, "the folder %s cannot be used: %s", dir, strerror(errno));

    free(dir);
    return real;
}

static struct amph_instrument_bytes read_file(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, st) != 0)
        die(EXIT_FAILED, "%s cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st->st_mode))
        die(EXIT_FAILED, "%s is not a file; name a program", path);

    struct amph_instrument_bytes b = { malloc((size_t)st->st_size + 1), 0 };
    ssize_t n = 1;

    while (b.at && n > 0 && b.len < (size_t)st->st_size) {
        n = read(fd, b.at + b.len, (size_t)st->st_size - b.len);
        b.len += n > 0 ? (size_t)n : 0;
    }

    if (!b.at || n < 0)
        die(EXIT_FAILED, "%s cannot be read: %s", path, strerror(errno));

    close(fd);
    return b;
}

/* Writes a file under a temporary name and renames it when it is complete. */
static void write_file(const char *path, const struct amph_instrument_bytes *b, mode_t mode)
{
    char *temporary;

    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        die(EXIT_FAILED, "no memory");

    int fd = mkostemp(temporary, O_CLOEXEC);

    if (fd < 0)
        die(EXIT_FAILED, "%s cannot be written: %s; name another file by -o", path,
            strerror(errno));

    size_t done = 0;
    ssize_t n = 1;

    while (done < b->len && (n = write(fd, b->at + done, b->len - done)) > 0)
        done += (size_t)n;

    if (n < 0 || fchmod(fd, mode & 0777) != 0 || close(fd) != 0 || rename(temporary, path) != 0) {
        int err = errno;

        unlink(temporary);
        die(EXIT_FAILED, "%s cannot be written: %s; name another file by -o", path, strerror(err));
    }

    free(temporary);
}

/* ---- what is baked in ---- */

static char *library_path(const struct given *g)
{
    char *bin = amph_install_bin();
    char *modules = bin ? amph_install_modules(bin) : NULL;
    char *path;

    if (g->library)
        return absolute(g->library);
    if (!modules || asprintf(&path, "%s/" LIBRARY, modules) < 0)
        die(EXIT_FAILED, "/proc/self/exe cannot be read; is /proc mounted?");
    if (access(path, R_OK) != 0)
        die(EXIT_FAILED,
            "%s is missing; install Amphora completely, or name the library by "
            "-library",
            path);

    free(modules);
    free(bin);
    return path;
}

/* An address file may be missing until the servers start, but one that is there must be whole. */
static void check_address_file(const char *path)
{
    struct amph_standing set = { .n = 0 };

    if (access(path, R_OK) != 0 || amph_boot_jobfile_is(path))
        return;

    if (!amph_boot_standing_is(path))
        die(EXIT_FAILED, "%s is not an address file of I/O servers", path);

    if (amph_boot_standing_read(path, &set) != AMPH_OK)
        exit(EXIT_FAILED);

    amph_boot_standing_free(&set);
}

/* Returns the forwarded paths: the given ones, else the servers' exports. */
static char *prefixes(const struct given *g)
{
    struct amph_standing set = { .n = 0 };

    if (g->prefix) {
        if (g->server)
            check_address_file(g->server);

        return strdup(g->prefix);
    }

    if (access(g->server, R_OK) != 0)
        die(EXIT_FAILED,
            "the address file %s cannot be read (%s), so the forwarded paths are not known; start "
            "the servers, or give -prefix PATH",
            g->server, strerror(errno));
    if (!amph_boot_standing_is(g->server))
        die(EXIT_FAILED,
            "%s is not the address file of standing servers, so it does not name the "
            "forwarded paths; give -prefix PATH",
            g->server);
    if (amph_boot_standing_read(g->server, &set) != AMPH_OK)
        exit(EXIT_FAILED);

    char *text = strdup(set.prefix);

    amph_boot_standing_free(&set);
    return text;
}

static void check_prefixes(const char *text)
{
    for (const char *at = text; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        if (at[0] != '/' || at[1] == 0 || at[1] == ':' || at[1] == '=')
            die(EXIT_WRONG,
                "-prefix %s: each path must be absolute and below the root, as in "
                "/fwd or /fwd=/scratch",
                text);
}

/* Returns the texts of the note; *len_p is their length. */
static char *settings(const struct given *g, size_t *len_p)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len_p);

    if (out && g->server) {
        char *file = absolute(g->server);

        fprintf(out, "%s=%s%c", amph_env_name(AMPH_ENV_JOB), file, 0);
        free(file);
    }

    if (out && (g->server || g->prefix)) {
        char *paths = prefixes(g);

        check_prefixes(paths);
        fprintf(out, "%s=%s%c", amph_env_name(AMPH_ENV_IOFWD_PREFIX), paths, 0);
        free(paths);
    }

    if (!out || fclose(out) != 0)
        die(EXIT_FAILED, "no memory");

    return text;
}

/* ---- the copy and the original ---- */

static char *output_path(const struct given *g)
{
    const char *slash = strrchr(g->binary, '/');
    const char *base = slash ? slash + 1 : g->binary;
    size_t len = strlen(g->binary);
    char *out;

    if (g->out)
        return strdup(g->out);

    if (g->undo) {
        if (len <= sizeof SUFFIX - 1 || strcmp(g->binary + len - (sizeof SUFFIX - 1), SUFFIX) != 0)
            die(EXIT_WRONG, "-undo: %s has no " SUFFIX " in its name; name the restored file by -o",
                g->binary);

        return strndup(g->binary, len - (sizeof SUFFIX - 1));
    }

    if (asprintf(&out, "%s" SUFFIX, base) < 0)
        die(EXIT_FAILED, "no memory");

    return out;
}

static void check_output(const char *out, const struct stat *in)
{
    struct stat st;

    if (stat(out, &st) != 0)
        return;
    if (st.st_dev == in->st_dev && st.st_ino == in->st_ino)
        die(EXIT_WRONG, "%s is the input; name another file by -o", out);
    if (!S_ISREG(st.st_mode))
        die(EXIT_WRONG, "%s exists and is not a file; name another one by -o", out);
}

/* Refuses programs of a kind to which no library can be added. */
static void check_kind(const char *binary, const struct stat *st,
                       const struct amph_instrument_bytes *in)
{
    struct amph_elf elf = { .at = in->at, .len = in->len };
    struct amph_image image;
    char why[2048], rights[64];

    amph_image_of(binary, &image);
    if ((st->st_mode & (S_ISUID | S_ISGID)) ||
        getxattr(binary, "security.capability", rights, sizeof rights) > 0)
        die(EXIT_FAILED,
            "%s is set-uid, set-gid or has file capabilities, which a copy would lose; mount the "
            "servers' files (iofwd-mount), or take a copy without these rights",
            binary);
    if (strcmp(image.path, binary) != 0)
        die(EXIT_FAILED, "%s is a script; instrument its interpreter %s, or run it by iofwd-run",
            binary, image.path);

    /* a shared library has no dynamic linker either, but it needs others */
    if (image.kind == AMPH_IMAGE_STATIC && amph_elf_view(&elf))
        return;

    if (amph_image_evades(&image)) {
        amph_image_explain(&image, why, sizeof why);
        die(EXIT_FAILED, "%s", why);
    }
}

static void make(const struct given *g)
{
    struct stat st;
    struct amph_instrument_bytes in = read_file(g->binary, &st);
    struct amph_instrument_bytes out;
    char why[AMPH_INSTRUMENT_WHY];
    char *path = output_path(g);
    size_t settings_len;

    check_output(path, &st);
    check_kind(g->binary, &st, &in);

    char *real = realpath(g->binary, NULL);
    char *from = folder_of(real ? real : g->binary);
    char *to = folder_of(path);
    char *library = library_path(g);
    char *texts = settings(g, &settings_len);
    const struct amph_instrument_plan plan = { .library = library,
                                               .settings = texts,
                                               .settings_len = settings_len,
                                               .origin = strcmp(from, to) == 0 ? NULL : from };

    if (!amph_instrument_make(&in, &plan, &out, why))
        die(EXIT_FAILED, "%s %s", g->binary, why);

    write_file(path, &out, st.st_mode);
    free(out.at);
    free(in.at);
    free(texts);
    free(library);
    free(to);
    free(from);
    free(real);
    free(path);
}

static void undo(const struct given *g)
{
    struct stat st;
    struct amph_instrument_bytes in = read_file(g->binary, &st);
    struct amph_instrument_bytes out;
    char why[AMPH_INSTRUMENT_WHY];
    char *path = output_path(g);

    check_output(path, &st);
    if (!amph_instrument_undo(&in, &out, why))
        die(EXIT_FAILED, "%s %s", g->binary, why);

    write_file(path, &out, st.st_mode);
    free(out.at);
    free(in.at);
    free(path);
}

int main(int argc, char **argv)
{
    struct given g = { 0 };

    (void)argc;
    amph_stdout_check();
    parse(&g, argv);

    if (g.check) {
        char *library = library_path(&g);
        int code = amph_check_print(stdout, g.binary, library);

        free(library);
        return code;
    }

    if (g.undo)
        undo(&g);
    else
        make(&g);

    return 0;
}
