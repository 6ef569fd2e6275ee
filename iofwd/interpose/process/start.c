/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Program files: finding them, what starts them (a script's interpreter, the dynamic linker with
 * forwarded libraries), and copies of forwarded ones.
 *
 * Layer: iofwd (interposer).  Thread rule: as execve; allocates by mmap and alloca only.
 */
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/process/start.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/query.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/loader/elf_deps.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/interpose/fd/own_table.h"

#define NAME_BYTES_MAX 249 /* of a memfd's name */
#define PIECE ((size_t)1 << 20)

int amph_ip_memory_file(const char *path)
{
    size_t len = strlen(path);
    return libc_memfd_create(path + (len > NAME_BYTES_MAX ? len - NAME_BYTES_MAX : 0), MFD_CLOEXEC);
}

/* Copies a program file into memory, for the kernel to run.  Returns its descriptor, -1 with
 * errno. */
int amph_ip_copy_in(const char *path, int amode)
{
    struct stat st;
    char *buf = NULL;
    int from = amph_do_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = -1;

    if (from < 0)
        return -1;

    if (amph_ip_fd_stat(from, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EACCES;
    else if (amph_do_faccessat(AT_FDCWD, path, amode, AT_EACCESS) == 0 &&
             (buf = amph_ip_borrow(PIECE)) != NULL)
        to = amph_ip_memory_file(path);

    for (ssize_t n = 1; to >= 0 && n > 0;) {
        n = amph_ip_fd(from) ? amph_do_read(from, buf, PIECE) : libc_read(from, buf, PIECE);
        for (ssize_t at = 0, put; n > 0 && at < n; at += put)
            if ((put = libc_write(to, buf + at, (size_t)(n - at))) <= 0)
                n = -1;

        if (n < 0) {
            libc_close(to);
            to = -1;
        }
    }

    int err = errno;

    if (buf)
        amph_ip_give_back(buf, PIECE);

    amph_do_close(from);
    errno = err;
    return to;
}

/* How a program is started, and under which name. */
struct start {
    amph_ip_start_fn run;
    void *how;
    char **env;
    int scripts; /* the interpreters followed so far */
};

static int start_program(const struct start *s, const char *path, char *const argv[]);
static int start_forwarded(const struct start *s, const char *path, const char *called,
                           char *const argv[]);

#define SCRIPTS_MAX 4 /* interpreters that are scripts themselves */

/* A script's first line, parsed as the kernel does. */
struct script {
    char line[256];             /* the kernel reads no further */
    char *interpreter, *option; /* interpreter NULL: no such line */
};

static bool read_script(struct script *s, int fd)
{
    static const char blank[] = " \t";
    ssize_t n = libc_pread64(fd, s->line, sizeof s->line - 1, 0);

    s->line[n > 0 ? n : 0] = 0;
    s->interpreter = s->option = NULL;
    if (s->line[0] != '#' || s->line[1] != '!')
        return false;

    size_t len = strcspn(s->line, "\n");
    bool ends = s->line[len] == '\n';
    bool cut = len == sizeof s->line - 1;

    while ((ends || cut) && strchr(blank, s->line[len - 1]))
        len--;

    s->line[len] = 0;

    char *name = s->line + 2 + strspn(s->line + 2, blank);
    char *end = name + strcspn(name, blank);

    if (!*name || (cut && !*end))
        return true; /* no interpreter */

    s->interpreter = name;
    if (*end) {
        *end++ = 0;
        s->option = end + strspn(end, blank);
    }

    return true;
}

/* A script: starts its interpreter, which may be forwarded too, with the script's own path; the
 * interpreter opens the script by itself. */
static int start_script(const struct start *s, const struct script *script, const char *path,
                        char *const argv[])
{
    struct start next = *s;
    size_t argc = amph_ip_env_entries(argv);
    size_t at = 0;
    char **args = alloca((argc + 4) * sizeof *args);

    if (!script->interpreter)
        return amph_ip_fail(ENOEXEC);
    if (next.scripts++ == SCRIPTS_MAX)
        return amph_ip_fail(ELOOP);

    args[at++] = script->interpreter;
    if (script->option)
        args[at++] = script->option;

    args[at++] = (char *)path;
    for (size_t i = 1; i < argc; i++)
        args[at++] = argv[i];

    args[at] = NULL;
    return start_program(&next, script->interpreter, args);
}

/* The kernel returned ENOENT for a local file that exists: it may be a script with a forwarded
 * interpreter.  Keeps errno. */
static bool needs_forwarded(const char *path, struct script *script)
{
    int err = errno;
    int fd = libc_open64(path, O_RDONLY | O_CLOEXEC, 0);
    const char *name = fd >= 0 && read_script(script, fd) ? script->interpreter : NULL;
    bool found = name && name[0] == '/' && amph_ip_path(name);

    if (fd >= 0)
        libc_close(fd);

    errno = err;
    return found;
}

static char **entry_of(char *const *env, const char *name)
{
    for (; env && *env; env++)
        if (amph_ip_env_is(*env, name))
            return (char **)env;

    return NULL;
}

static const char *value_of(char *const *env, const char *name)
{
    char **entry = entry_of(env, name);
    return entry ? *entry + strlen(name) + 1 : NULL;
}

static bool has_preload(char *const *env)
{
    const char *list = value_of(env, "LD_PRELOAD");
    return list && amph_ip_elf_deps_preload(list, value_of(env, "LD_LIBRARY_PATH"));
}

bool amph_ip_start_has_libraries(char *const *env)
{
    const char *search = value_of(env, "LD_LIBRARY_PATH");
    return (search && amph_ip_elf_deps_search(search)) || has_preload(env);
}

/* Starts the program by the kernel and the linker; deps (or NULL): its forwarded libraries, which
 * this ends. */
static int start_with(const struct start *s, struct amph_ip_elf_deps *deps, const char *path,
                      char *const argv[])
{
    char setting[4096];
    char **preload = entry_of(s->env, "LD_PRELOAD");
    char *listed = preload ? *preload : NULL;
    size_t n = amph_ip_env_entries(s->env);
    size_t end = n;

    if (deps && has_preload(s->env) && !amph_ip_bypasses(path) &&
        amph_ip_elf_deps_complete_preload(deps, listed)) {
        *preload = deps->preload;
        s->env[end++] = deps->original;
    }

    if (deps && amph_ip_elf_deps_setting(deps, setting, sizeof setting))
        s->env[end++] = setting;

    s->env[end] = NULL;

    int r = s->run(s->how, path, argv, s->env);

    s->env[n] = NULL;
    if (preload)
        *preload = listed;

    amph_ip_elf_deps_end(deps);
    return r;
}

/* Starts the program fd with the libraries of deps; takes both over. */
static int start_copy(const struct start *s, int fd, struct amph_ip_elf_deps *deps,
                      char *const argv[])
{
    char link[40];

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);

    int r = start_with(s, deps, link, argv);
    int err = errno;

    libc_close(fd);
    errno = err;
    return r;
}

/* Starts a local program that may need libraries from forwarded directories.  A set-user-ID program
 * does not search them. */
static int copy_for_deps(const char *path, char *const *env, struct amph_ip_elf_deps **needs_p)
{
    const char *search = value_of(env, "LD_LIBRARY_PATH");
    struct stat st;
    int saved = errno;
    int copy = -1;
    int fd = search && amph_ip_elf_deps_search(search) && libc_access(path, X_OK) == 0
                 ? libc_open64(path, O_RDONLY | O_CLOEXEC, 0)
                 : -1;

    if (fd >= 0 && libc_fstat64(fd, &st) == 0 && !(st.st_mode & (S_ISUID | S_ISGID)) &&
        (*needs_p = amph_ip_elf_deps_new(search, false)) != NULL)
        copy = amph_ip_elf_deps_of_local(*needs_p, fd, path);

    if (fd >= 0)
        libc_close(fd);

    if (copy < 0)
        amph_ip_elf_deps_end(*needs_p);

    errno = saved;
    return copy;
}

static int start_local(const struct start *s, const char *path, char *const argv[])
{
    struct amph_ip_elf_deps *deps = NULL;
    struct script script;
    char to[PATH_MAX];

    if (amph_ip_bypass_check(path) != 0 || amph_ip_bypass_check_arguments(path, argv) != 0)
        return -1;

    int fd = copy_for_deps(path, s->env, &deps);

    if (fd >= 0)
        return start_copy(s, fd, deps, argv);

    deps = has_preload(s->env) ? amph_ip_elf_deps_new(value_of(s->env, "LD_LIBRARY_PATH"), false)
                               : NULL;

    int r = start_with(s, deps, path, argv);
    if (r == 0 || errno != ENOENT)
        return r;
    if (amph_ip_led_in(AT_FDCWD, path) && amph_ip_link_leads_in(AT_FDCWD, path, to))
        return start_forwarded(s, to, path, argv);

    return needs_forwarded(path, &script) ? start_script(s, &script, path, argv) : r;
}

/* Looks whether the path leads out of the prefixes, as amph_ip_leads_out, and ends w. */
static int looks_out(struct amph_ip_resolved *w, char out[PATH_MAX], bool *leads_p)
{
    int err;

    *leads_p = false;
    if (amph_ip_near_access(w, F_OK, 0, &err)) { /* this process finds it by itself */
        amph_ip_resolve_end(w, 0);
        return 0;
    }

    if (!amph_ip_resolve_enter(w))
        return -1;

    err = amph_ip_client.fwd.access(amph_ip_client.client, AMPH_IP_AT(w), F_OK, 0);
    *leads_p = amph_ip_leads_out(w, err, false, out);
    amph_ip_resolve_end(w, 0);
    return 0;
}

/* Starts path, which may lie below a prefix; a script's interpreter receives the script's path. */
static int start_forwarded(const struct start *s, const char *path, const char *called,
                           char *const argv[])
{
    char out[PATH_MAX], absolute[PATH_MAX];
    struct script script;
    struct amph_ip_resolved w;
    bool leads_out;

    if (!amph_ip_resolve_near(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return start_local(s, w.path, argv);
    if (looks_out(&w, out, &leads_out) != 0)
        return -1;
    if (leads_out)
        return start_local(s, out, argv);

    /* the kernel names a program by its path without links, and so does its copy */
    int fd = amph_ip_copy_in(amph_do_realpath(path, absolute) ? absolute : path, X_OK);
    if (fd < 0)
        return -1;

    if (read_script(&script, fd)) {
        libc_close(fd);
        return start_script(s, &script, called, argv);
    }

    if (amph_ip_bypass_check_file(fd, path) != 0) {
        libc_close(fd);
        return -1;
    }

    struct amph_ip_elf_deps *deps = amph_ip_elf_deps_new(value_of(s->env, "LD_LIBRARY_PATH"),
                                                         false);

    if (deps)
        amph_ip_elf_deps_complete(deps, fd, path);

    return start_copy(s, fd, deps, argv);
}

static int start_program(const struct start *s, const char *path, char *const argv[])
{
    return amph_ip_path(path) ? start_forwarded(s, path, path, argv) : start_local(s, path, argv);
}

int amph_ip_start_program(const char *path, char *const argv[], char **env, amph_ip_start_fn start,
                          void *how)
{
    return start_program(&(struct start){ start, how, env, 0 }, path, argv);
}
