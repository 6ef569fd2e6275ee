/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backtraces: by unwinding (EXECINFO), by gdb, or by the client's own function, tried in the order
 * of GASNET_BACKTRACE_TYPE.
 *
 * Layer: extended.  Thread rule: any thread, also signal handlers; settings are copied before
 * handlers are installed.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amphora/tools/debug.h"
#include "base/settings/env.h"
#include "base/log.h"
#include "extended/tools/tools.h"

#define FRAMES_MAX 100
#define GDB_MS 60000 /* how long gdb may take */

/* The client may define it. */
extern gasnett_backtrace_type_t gasnett_backtrace_user __attribute__((weak));

/* ---- names of functions ---- */

/* A program or library, mapped as a file. */
struct object {
    const char *file;
    size_t len;
};

/* The symbol table of this kind, or NULL.  Every offset is checked, because the file's contents are
 * not trusted. */
static const ElfW(Sym) * symbols_of(const struct object *o, unsigned kind, size_t *count_p,
                                    const char **names_p, size_t *names_len_p)
{
    const ElfW(Ehdr) *eh = (const void *)o->file;
    if (o->len < sizeof *eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
        eh->e_shentsize != sizeof(ElfW(Shdr)) || eh->e_shoff > o->len ||
        (o->len - eh->e_shoff) / sizeof(ElfW(Shdr)) < eh->e_shnum || eh->e_shoff % sizeof(void *))
        return NULL;

    const ElfW(Shdr) *sh = (const void *)(o->file + eh->e_shoff);
    for (unsigned i = 0; i < eh->e_shnum; i++) {
        if (sh[i].sh_type != kind || sh[i].sh_link >= eh->e_shnum)
            continue;

        const ElfW(Shdr) *str = &sh[sh[i].sh_link];
        if (sh[i].sh_offset > o->len || sh[i].sh_size > o->len - sh[i].sh_offset ||
            sh[i].sh_offset % sizeof(void *) || str->sh_offset > o->len ||
            str->sh_size > o->len - str->sh_offset || !str->sh_size ||
            o->file[str->sh_offset + str->sh_size - 1])
            continue;

        *count_p = sh[i].sh_size / sizeof(ElfW(Sym));
        *names_p = o->file + str->sh_offset;
        *names_len_p = str->sh_size;
        return (const void *)(o->file + sh[i].sh_offset);
    }

    return NULL;
}

/* The name of the object's function that contains addr (an address as the file states them), or
 * NULL. */
static const char *function_at(const struct object *o, uintptr_t addr, uintptr_t *offset_p)
{
    static const unsigned kinds[] = { SHT_SYMTAB, SHT_DYNSYM };

    for (size_t k = 0; k < AMPH_COUNTOF(kinds); k++) {
        size_t count, names_len;
        const char *names;

        const ElfW(Sym) *sym = symbols_of(o, kinds[k], &count, &names, &names_len);
        for (size_t i = 0; sym && i < count; i++)
            if ((sym[i].st_info & 15) == STT_FUNC && addr >= sym[i].st_value &&
                addr - sym[i].st_value < sym[i].st_size && sym[i].st_name < names_len) {
                *offset_p = addr - sym[i].st_value;
                return names + sym[i].st_name;
            }
    }

    return NULL;
}

static bool map_object(const char *path, struct object *o)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;

    o->len = fstat(fd, &st) == 0 ? (size_t)st.st_size : 0;
    o->file = o->len ? mmap(NULL, o->len, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);

    return o->file != MAP_FAILED;
}

/* One line: "[3] #2 0x55d0 work+0x1f (/home/me/prog)". */
static void write_frame(int fd, int number, void *frame)
{
    char line[600];
    Dl_info info = { 0 };
    struct object o;
    uintptr_t at = (uintptr_t)frame;
    uintptr_t offset = 0;
    const char *name = NULL;
    const char *path = "?";
    bool mapped = false;

    if (dladdr(frame, &info) && info.dli_fname) {
        path = info.dli_fname[0] == '/' ? info.dli_fname : amph_tools_state.backtrace.exe;
        mapped = map_object(path, &o);
        const ElfW(Ehdr) *eh = info.dli_fbase;

        uintptr_t base = eh->e_type == ET_EXEC ? 0 : (uintptr_t)info.dli_fbase;

        /* a return address may be the first byte after the function */
        if (mapped && !(name = function_at(&o, at - base - 1, &offset)))
            /* the address of a signal may be the first byte of the function */
            name = function_at(&o, at - base, &offset);

        if (!name && info.dli_sname)
            name = info.dli_sname, offset = at - (uintptr_t)info.dli_saddr;

        if (!name)
            offset = at - base;
    }

    snprintf(line, sizeof line, "[%u] #%d %#lx %.300s+%#lx (%.200s)\n", amph_tools_rank(), number,
             (unsigned long)at, name ? name : "?", (unsigned long)offset, path);
    amph_tools_write(fd, line);
    if (mapped)
        munmap((void *)o.file, o.len);
}

/* ---- the kinds of backtrace ---- */

static int by_execinfo(int fd)
{
    void *frames[FRAMES_MAX];
    int n = backtrace(frames, FRAMES_MAX);

    for (int i = 0; i < n; i++)
        write_frame(fd, i, frames[i]);

    return n > 0 ? 0 : 1;
}

/* Waits for a child and kills it after timeout_ms.  Returns its exit status, or -1. */
static int wait_child(pid_t pid, int timeout_ms)
{
    int status = -1;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd p = { fd, POLLIN, 0 };

    if (fd < 0 || poll(&p, 1, timeout_ms) != 1)
        kill(pid, SIGKILL);

    if (fd >= 0)
        close(fd);

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;

    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs in a child that shares this process's memory until exec: makes system calls only. */
static void exec_gdb(int fd, char *const argv[], char *const envp[])
{
    int null = open("/dev/null", O_RDWR);

    dup2(null, STDIN_FILENO);
    dup2(fd, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execvpe("gdb", argv, envp);
    _exit(127);
}

static int by_gdb(int fd)
{
    char pid_text[16];
    char no_downloads[] = "DEBUGINFOD_URLS=";
    char *const command = amph_tools_state.backtrace.all_threads ? "thread apply all backtrace"
                                                                 : "backtrace";
    char *const argv[] = { "gdb", "-nx", "-batch", "-p", pid_text, "-ex", command, NULL };
    char *const envp[] = { amph_tools_state.backtrace.path, no_downloads, NULL };

    snprintf(pid_text, sizeof pid_text, "%d", (int)getpid());
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);

    /* fork would run handlers of the client and the C library, which may hold locks now */
    pid_t pid = vfork();

    if (pid == 0)
        exec_gdb(fd, argv, envp);

    return pid < 0 ? 1 : wait_child(pid, GDB_MS);
}

/* ---- choice ---- */

static bool many_threads(void)
{
    struct stat st;
    return stat("/proc/self/task", &st) == 0 && st.st_nlink > 3;
}

/* Makes the backtrace whose kind is named word (len bytes).  0: printed. */
static int try_kind(const char *word, size_t len, int fd)
{
    const gasnett_backtrace_type_t kinds[] = {
        { "EXECINFO", by_execinfo, 1 },
        { "GDB", by_gdb, 1 },
        &gasnett_backtrace_user ? gasnett_backtrace_user : (gasnett_backtrace_type_t){ 0 },
    };

    for (size_t i = 0; i < AMPH_COUNTOF(kinds); i++) {
        if (!kinds[i].name || !kinds[i].fnp || strlen(kinds[i].name) != len ||
            strncasecmp(kinds[i].name, word, len) != 0)
            continue;

        char line[400];
        if (!kinds[i].threadsupport && many_threads())
            return 1;

        snprintf(line, sizeof line, "*** Backtrace of %s, by %s:\n", amph_tools_who(),
                 kinds[i].name);
        amph_tools_write(fd, line);
        return kinds[i].fnp(fd);
    }

    return 1;
}

int gasnett_print_backtrace(int fd)
{
    static const char standard[] = "EXECINFO,GDB";

    gasnett_backtrace_init(NULL); /* signal handlers: done before they were installed */

    const char *list = amph_tools_state.backtrace.types;

    if (!list || !list[0]) {
        const char *own = &gasnett_backtrace_user ? gasnett_backtrace_user.name : NULL;
        if (own && try_kind(own, strlen(own), fd) == 0)
            return 0;

        list = standard;
    }

    while (*list) {
        size_t len = strcspn(list, ",");
        if (try_kind(list, len, fd) == 0)
            return 0;

        list += len + (list[len] == ',');
    }

    return 1;
}

static int print_if_enabled(int fd)
{
    gasnett_backtrace_init(NULL);
    return amph_tools_state.backtrace.enabled ? gasnett_print_backtrace(fd) : 1;
}

int (*gasnett_print_backtrace_ifenabled)(int fd) = print_if_enabled;

/* ---- preparation ---- */

/* Does a list such as "0,2-4" contain rank?  "" and "*" contain every rank; so does a malformed list,
 * with a warning. */
static bool in_list(const char *list, uint32_t rank)
{
    if (!list[0] || strcmp(list, "*") == 0)
        return true;

    for (char *end; *list; list = end + (*end == ',')) {
        unsigned long from = strtoul(list, &end, 10);
        unsigned long to = from;
        bool number = end != list;

        if (number && *end == '-') {
            const char *at = end + 1;

            to = strtoul(at, &end, 10);
            number = end != at;
        }

        if (!number || (*end && *end != ',')) {
            amph_warn(
                "GASNET_BACKTRACE_NODES is not a list of ranks such as 0,2-4; every process may "
                "print a backtrace");
            return true;
        }

        if (rank >= from && rank <= to)
            return true;
    }

    return false;
}

static void prepare(void)
{
    char *exe = amph_tools_state.backtrace.exe;
    ssize_t n = readlink("/proc/self/exe", exe, AMPH_TOOLS_PATH_BYTES - 1);

    if (n > 0)
        exe[n] = 0;

    const char *path = amph_env_foreign("PATH");

    snprintf(amph_tools_state.backtrace.path, sizeof amph_tools_state.backtrace.path, "PATH=%s",
             path ? path : "/usr/bin:/bin");
    amph_tools_state.backtrace.types = amph_env_str(AMPH_ENV_BACKTRACE_TYPE);
    amph_tools_state.backtrace.all_threads = amph_env_bool(AMPH_ENV_BACKTRACE_MT);

    bool enabled = amph_env_bool(AMPH_ENV_BACKTRACE) &&
                   in_list(amph_env_str(AMPH_ENV_BACKTRACE_NODES), amph_tools_rank());

    amph_tools_state.backtrace.enabled = enabled;

    void *frames[2];

    if (enabled || amph_env_is_set(AMPH_ENV_BACKTRACE_SIGNAL))
        backtrace(frames, 2); /* loads the unwinder, which signal handlers must not do */
}

void gasnett_backtrace_init(const char *exename)
{
    char *exe = amph_tools_state.backtrace.exe;

    if (exename && !exe[0])
        snprintf(exe, AMPH_TOOLS_PATH_BYTES, "%s", exename);

    pthread_once(&amph_tools_state.backtrace.prepared, prepare);
    amph_tools_arm();
}

const char *gasnett_exe_name(void)
{
    gasnett_backtrace_init(NULL);
    return amph_tools_state.backtrace.exe;
}
