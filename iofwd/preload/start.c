/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Program files: where they lie, what starts them (a script's interpreter, the dynamic linker with forwarded libraries), and copies of
 * those that are themselves forwarded.  Layer: iofwd (preload).  Thread rule: as execve; nothing here allocates but by mmap and alloca.
 */
#include "iofwd/preload/start.h"

#include <alloca.h>
#include <link.h>
#include <sys/mman.h>

#include "am/note.h"
#include "iofwd/preload/catch.h"
#include "iofwd/preload/names.h"
#include "iofwd/preload/needs.h"
#include "iofwd/preload/targets.h"
#include "iofwd/preload/where.h"

#define NAME_MOST 249 /* of a memfd's name */

/* A program file copied into memory; the kernel can run that one.  Gives its descriptor, -1 with errno. */
int fwd_copy_in(const char *path, int amode)
{
    struct stat st;
    char *buf = NULL;
    int from = x_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), to = -1;
    if (from < 0)
        return -1;
    if (x_fstat(from, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EACCES;
    else if (x_faccessat(AT_FDCWD, path, amode, AT_EACCESS) == 0 && (buf = malloc(1 << 20)) != NULL)
        to = real_memfd_create(path + (strlen(path) > NAME_MOST ? strlen(path) - NAME_MOST : 0), MFD_CLOEXEC);
    for (ssize_t n = 1; to >= 0 && n > 0;) {
        n = x_read(from, buf, 1 << 20);
        for (ssize_t at = 0, put; n > 0 && at < n; at += put)
            if ((put = real_write(to, buf + at, (size_t)(n - at))) <= 0)
                n = -1;
        if (n < 0) {
            real_close(to);
            to = -1;
        }
    }
    int err = errno;
    free(buf);
    x_close(from);
    errno = err;
    return to;
}

static int start_forwarded(const char *path, const char *called, char *const argv[], char **env, fwd_start_fn start, void *how);

#define DEPTH_MAX 4 /* scripts whose interpreters are scripts */
static __thread int depth __attribute__((tls_model("initial-exec")));

/* A script: its interpreter, which may be forwarded too, is started with the script's own path, which it opens by itself. */
static int start_script(int fd, const char *path, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    char line[256];
    size_t argc = fwd_env_entries(argv);
    ssize_t n = real_pread64(fd, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    char *option = interpreter + strcspn(interpreter, " \t");
    if (*option) {
        *option++ = 0;
        option += strspn(option, " \t");
    }
    char **args = alloca((argc + 4) * sizeof *args);
    size_t at = 0;
    args[at++] = interpreter;
    if (*option)
        args[at++] = option;
    args[at++] = (char *)path;
    for (size_t i = 1; i < argc; i++)
        args[at++] = argv[i];
    args[at] = NULL;
    if (depth == DEPTH_MAX)
        return fwd_fail(ELOOP);
    depth++;
    int r = fwd_start_program(interpreter, args, env, start, how);
    depth--;
    return r;
}

/* The kernel did not find what a local file names: the file may be a script with a forwarded interpreter. */
static bool needs_forwarded(const char *path, int *fd_p)
{
    char line[256];
    int err = errno, fd = real_open64(path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? -1 : real_pread64(fd, line, sizeof line - 1, 0);
    line[n > 0 ? n : 0] = 0;
    line[strcspn(line, "\n")] = 0;
    char *interpreter = n > 2 && line[0] == '#' && line[1] == '!' ? line + 2 + strspn(line + 2, " \t") : line + strlen(line);
    interpreter[strcspn(interpreter, " \t")] = 0;
    errno = err;
    if (interpreter[0] == '/' && fwd_path(interpreter)) {
        *fd_p = fd;
        return true;
    }
    if (fd >= 0)
        real_close(fd);
    return false;
}

/* A segment of the notes of a program that has the calls linked in (am/job.c's note). */
static bool is_ours(int fd, const ElfW(Phdr) *ph)
{
    char notes[1024];
    ssize_t n = real_pread64(fd, notes, ph->p_filesz < sizeof notes ? ph->p_filesz : sizeof notes, (off_t)ph->p_offset);
    return n > 0 && memmem(notes, (size_t)n, AMPH_NOTE_NAME, sizeof AMPH_NOTE_NAME - 1);
}

/* Nothing can be loaded into this program file: it names no dynamic linker, and is none, and has no part of ours. */
static bool is_static(int fd, const char *path)
{
    ElfW(Ehdr) eh;
    ElfW(Phdr) ph;
    const char *slash = strrchr(path, '/');
    if (real_pread64(fd, &eh, sizeof eh, 0) != (ssize_t)sizeof eh || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
        eh.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) || strncmp(slash ? slash + 1 : path, "ld", 2) == 0)
        return false;
    for (int i = 0; i < eh.e_phnum; i++) {
        off_t at = (off_t)(eh.e_phoff + (size_t)i * eh.e_phentsize);
        if (real_pread64(fd, &ph, sizeof ph, at) != (ssize_t)sizeof ph || ph.p_type == PT_INTERP ||
            (ph.p_type == PT_NOTE && is_ours(fd, &ph)))
            return false;
    }
    return true;
}

bool fwd_is_static_at(const char *path)
{
    int saved = errno, fd = real_open64(path, O_RDONLY | O_CLOEXEC, 0);
    bool found = fd >= 0 && is_static(fd, path);
    if (fd >= 0)
        real_close(fd);
    errno = saved;
    return found;
}

static char **entry_of(char *const *env, const char *name)
{
    for (; env && *env; env++)
        if (fwd_env_is(*env, name))
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
    return list && fwd_needs_preload(list, value_of(env, "LD_LIBRARY_PATH"));
}

bool fwd_start_has_libraries(char *const *env)
{
    const char *search = value_of(env, "LD_LIBRARY_PATH");
    return (search && fwd_needs_search(search)) || has_preload(env);
}

/* Starts what the kernel and the linker find; needs (or NULL): what it gets of libraries, which is used up. */
static int start_with(struct fwd_needs *needs, const char *path, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    char setting[4096], **preload = entry_of(env, "LD_PRELOAD"), *listed = preload ? *preload : NULL;
    size_t n = fwd_env_entries(env), end = n;
    if (needs && has_preload(env) && !fwd_is_static_at(path) && fwd_needs_complete_preload(needs, listed)) {
        *preload = needs->preload;
        env[end++] = needs->told;
    }
    if (needs && fwd_needs_setting(needs, setting, sizeof setting))
        env[end++] = setting;
    env[end] = NULL;
    int r = start(how, path, argv, env);
    env[n] = NULL;
    if (preload)
        *preload = listed;
    fwd_needs_end(needs);
    return r;
}

/* Starts the file behind fd, whose libraries are those of needs; both are used up. */
static int start_copy(int fd, struct fwd_needs *needs, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int r = start_with(needs, link, argv, env, start, how);
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

/* A local program that is to find libraries in forwarded directories; one with rights of its own does not look there. */
static int copy_for_needs(const char *path, char *const *env, struct fwd_needs **needs_p)
{
    const char *search = value_of(env, "LD_LIBRARY_PATH");
    struct stat st;
    int saved = errno, copy = -1;
    int fd = search && fwd_needs_search(search) && real_access(path, X_OK) == 0 ? real_open64(path, O_RDONLY | O_CLOEXEC, 0) : -1;
    if (fd >= 0 && real_fstat64(fd, &st) == 0 && !(st.st_mode & (S_ISUID | S_ISGID)) && (*needs_p = fwd_needs_new(search, false)) != NULL)
        copy = fwd_needs_of_local(*needs_p, fd, path);
    if (fd >= 0)
        real_close(fd);
    if (copy < 0)
        fwd_needs_end(*needs_p);
    errno = saved;
    return copy;
}

static int start_local(const char *path, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    struct fwd_needs *needs = NULL;
    int fd = copy_for_needs(path, env, &needs);
    if (fd >= 0)
        return start_copy(fd, needs, argv, env, start, how);
    char to[PATH_MAX];
    needs = has_preload(env) ? fwd_needs_new(value_of(env, "LD_LIBRARY_PATH"), false) : NULL;
    int r = start_with(needs, path, argv, env, start, how);
    if (r == 0 || errno != ENOENT)
        return r;
    if (fwd_led_in(AT_FDCWD, path) && fwd_link_leads_in(AT_FDCWD, path, to))
        return start_forwarded(to, path, argv, env, start, how);
    if (!needs_forwarded(path, &fd))
        return r;
    r = start_script(fd, path, argv, env, start, how);
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

/* Starts path, which may lie under a prefix; a script's interpreter is told that it is called. */
static int start_forwarded(const char *path, const char *called, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    char head[2], out[PATH_MAX], absolute[PATH_MAX];
    struct fwd_where w;
    if (!fwd_where_find(&w, AT_FDCWD, path, false))
        return -1;
    if (w.local)
        return start_local(w.path, argv, env, start, how);
    int r = fwd_core.access(fwd_core.client, FWD_AT(&w), F_OK, 0);
    bool leads_out = fwd_leads_out(&w, r, false, out);
    fwd_where_end(&w, 0);
    if (leads_out)
        return start_local(out, argv, env, start, how);
    /* the kernel names a program by its path without links, and so does its copy */
    int fd = fwd_copy_in(x_realpath(path, absolute) ? absolute : path, X_OK);
    if (fd < 0)
        return -1;
    if (real_pread64(fd, head, 2, 0) == 2 && head[0] == '#' && head[1] == '!') {
        r = start_script(fd, called, argv, env, start, how);
    } else {
        struct fwd_needs *needs = fwd_needs_new(value_of(env, "LD_LIBRARY_PATH"), false);
        if (needs)
            fwd_needs_complete(needs, fd, path);
        return start_copy(fd, needs, argv, env, start, how);
    }
    int err = errno;
    real_close(fd);
    errno = err;
    return r;
}

int fwd_start_program(const char *path, char *const argv[], char **env, fwd_start_fn start, void *how)
{
    return fwd_path(path) ? start_forwarded(path, path, argv, env, start, how) : start_local(path, argv, env, start, how);
}
