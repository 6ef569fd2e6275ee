/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks the dynamic linker about a program before it is started; see linker_check.h.
 *
 * Layer: iofwd (interposer).
 *
 * The linker runs in a child, which is made by a plain clone without an exit signal: no handler of
 * the program learns of it, and its wait functions do not find it.  The answer of a program that has
 * all it needs is kept in the list of bypass.c, so that each program is asked about once.
 */
#include "iofwd/interpose/process/linker_check.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/program/program_image.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/start.h"

enum {
    EXTRA = 4,       /* entries that are added to the environment, and the NULL */
    LINE_BYTES = 512 /* longer lines are cut */
};

/* What the linker has answered. */
struct answer {
    bool has_text;    /* it would print something, most often why the program does not start */
    char symbol[256]; /* the first undefined one; "": none */
    char line[LINE_BYTES];
    size_t len;
};

static bool is_one_of(const char *entry, const char *const names[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (amph_ip_env_is(entry, names[i]))
            return true;

    return false;
}

bool amph_ip_linker_is_asked(char *const env[])
{
    static const char *const names[] = { "LD_TRACE_LOADED_OBJECTS", "LD_DEBUG" };
    bool asked = false;
    bool to_file = false;

    for (; env && *env; env++) {
        asked |= is_one_of(*env, names, AMPH_COUNTOF(names));
        to_file |= amph_ip_env_is(*env, "LD_DEBUG_OUTPUT");
    }

    return asked && !to_file;
}

/* ---- the child ---- */

static AMPH_NORETURN void become_linker(const char *linker, const char *path, char *const env[],
                                        int out)
{
    char *argv[] = { (char *)linker, (char *)path, NULL };

    libc_syscall(SYS_dup3, out, STDOUT_FILENO, 0, 0, 0, 0);
    libc_syscall(SYS_dup3, out, STDERR_FILENO, 0, 0, 0, 0);
    amph_ip_kernel_execve(linker, argv, env);
    libc_syscall(SYS_exit_group, 127, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

/* The environment that the program would get, and what makes the linker check all symbols and end
 * then. */
static void make_env(char *const env[], char **out)
{
    static const char *const own[] = { "LD_WARN", "LD_BIND_NOW", "LD_DEBUG" };
    size_t n = 0;

    for (; env && *env; env++)
        if (!is_one_of(*env, own, AMPH_COUNTOF(own)))
            out[n++] = *env;

    out[n++] = (char *)"LD_TRACE_LOADED_OBJECTS=1";
    out[n++] = (char *)"LD_WARN=yes";
    out[n++] = (char *)"LD_BIND_NOW=yes";
    out[n] = NULL;
}

/* ---- its answer ---- */

static void take_line(struct answer *a)
{
    static const char undefined[] = "undefined symbol: ";

    a->line[a->len] = 0;
    a->len = 0;
    if (strstr(a->line, "not found") || strstr(a->line, "cannot be preloaded") ||
        strstr(a->line, "error while loading shared libraries"))
        a->has_text = true;

    const char *symbol = strstr(a->line, undefined);

    if (symbol && !a->symbol[0])
        snprintf(a->symbol, sizeof a->symbol, "%.*s",
                 (int)strcspn(symbol + sizeof undefined - 1, ",\t "),
                 symbol + sizeof undefined - 1);
}

static void take_text(struct answer *a, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] == '\n')
            take_line(a);
        else if (a->len < sizeof a->line - 1)
            a->line[a->len++] = text[i];
}

static void read_answer(int fd, struct answer *a)
{
    char buf[4096];
    ssize_t n;

    while ((n = libc_read(fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            take_text(a, buf, (size_t)n);

    if (a->len)
        take_line(a);
}

/* Returns false if the linker could not be asked. */
static bool ask(const char *linker, const char *path, char *const env[], struct answer *a)
{
    char **with = alloca((amph_ip_env_entries(env) + EXTRA) * sizeof *with);
    int ends[2], status;

    make_env(env, with);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;

    long pid = libc_syscall(SYS_clone, 0, 0, 0, 0, 0, 0);

    if (pid == 0)
        become_linker(linker, path, with, ends[1]);

    libc_close(ends[1]);
    if (pid > 0) {
        read_answer(ends[0], a);
        while (libc_syscall(SYS_wait4, pid, (long)&status, __WALL, 0, 0, 0) < 0 && errno == EINTR)
            ;
    }

    libc_close(ends[0]);
    return pid > 0;
}

/* ---- the programs that have been asked about ---- */

static uint64_t hash(uint64_t h, const char *text)
{
    const uint64_t prime = 0x100000001b3;

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * prime;

    return h;
}

/* The same program with other libraries is another question. */
static uint64_t question(char *const env[], const struct stat *st)
{
    uint64_t h = 0xcbf29ce484222325 ^ (uint64_t)st->st_mtim.tv_sec ^
                 (uint64_t)st->st_mtim.tv_nsec << 32;

    for (; env && *env; env++)
        if (amph_ip_env_is(*env, "LD_LIBRARY_PATH") || amph_ip_env_is(*env, "LD_PRELOAD"))
            h = hash(h, *env);

    return h | 1;
}

static void report_symbol(const char *name, const char *symbol, int fd)
{
    char text[1024];
    int n = snprintf(
        text, sizeof text,
        "amphora: warning: the dynamic linker does not find the symbol %s, which %.300s "
        "needs: if the program uses it, it ends with code 127, and the linker's message "
        "is lost because standard error is a forwarded file; \"ldd -r\" shows what "
        "is missing\n",
        symbol, name);

    if (n > 0)
        (void)!amph_do_write(fd, text, (size_t)n);
}

bool amph_ip_linker_has_text(const char *path, char *const argv[], char *const env[], int fd)
{
    struct amph_image image;
    struct answer answer = { .len = 0 };
    struct stat st;
    char link[64];
    int saved = errno, number;

    if (fd < 0 || !amph_ip_bypass_look(path, &image) || libc_stat64(path, &st) != 0) {
        errno = saved;
        return false;
    }

    uint64_t about = question(env, &st);

    if (amph_ip_bypass_known(image.dev, image.ino, about)) {
        errno = saved;
        return false;
    }

    /* a copy in memory: the linker's process does not have the descriptor */
    const char *file = strstr(path, "/fd/");
    const char *asked = path;

    if (strncmp(path, "/proc/", sizeof "/proc/" - 1) == 0 && file &&
        sscanf(file, "/fd/%d", &number) == 1) {
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)gettid(), number);
        asked = link;
    } else if (image.path[0]) {
        asked = image.path; /* of a script, its interpreter */
    }

    if (ask(image.linker, asked, env, &answer) && !answer.has_text) {
        amph_ip_bypass_note(image.dev, image.ino, about);
        if (answer.symbol[0])
            report_symbol(argv && argv[0] ? argv[0] : path, answer.symbol, fd);
    }

    errno = saved;
    return answer.has_text;
}
