/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Start of the preload library: reads what the launcher left in the environment and switches
 * forwarding on.
 *
 * Layer: iofwd (interposer).  Thread rule: runs once, before main.
 *
 * The library is linked with -z initfirst: its constructor runs before those of all other
 * libraries, whose statics may use streams and forwarded files.  The C library's own constructor has
 * not run by then.  So start() changes no environment variables, since environ is not set, and loads
 * no library; what needs either is left to late(), which runs when main is about to be called.
 *
 * A program that touches no prefix pays for what happens here and for nothing else, so libamphora
 * with its registry of settings is not there yet: the settings that matter now are looked up in the
 * environment that the dynamic linker passes (settings.h).
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program/note.h"
#include "base/settings/env_parse.h"
#include "iofwd/client/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/interpose/libc/kept.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/loader/elf_deps.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/process/connections.h"
#include "iofwd/interpose/process/bypass.h"
#include "iofwd/interpose/process/mpi_job.h"
#include "iofwd/interpose/process/start.h"
#include "iofwd/interpose/stdio/stream.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"

enum {
    RANK_FDS = 64 /* the rank's sockets have this number or a higher one */
};

/* Removes a setting from the list that is environ, or becomes it. */
static void drop_setting(char **env, const char *name)
{
    char **to = env;

    for (; *env; env++)
        if (!amph_ip_env_is(*env, name))
            *to++ = *env;

    *to = NULL;
}

static void drop_everywhere(char **env, const char *name)
{
    drop_setting(env, name);
    if (environ && environ != env)
        drop_setting(environ, name);
}

static void refuse(const char *value, const char *why)
{
    char line[512];
    int n = snprintf(line, sizeof line,
                     "amphora: IOFWD_PREFIX=\"%.300s\" is not allowed: %s; nothing is forwarded\n",
                     value, why);

    (void)!libc_write(2, line, (size_t)n);
}

/* Restores the forwarded working directory that the program before this one had, unless another
 * program in between has changed it.  Also finds the forwarded directory if the kernel's working
 * directory is one at a prefix's name. */
static void restore_cwd(char **env)
{
    char real[PATH_MAX], text[AMPH_FWD_TEXT_BYTES];
    const char *entry = amph_ip_private_text(env, AMPH_IP_PRIVATE_CWD);
    const char *cwd = entry ? strchr(entry, ':') : NULL;

    if (libc_getcwd(real, sizeof real)) {
        amph_ip_cwd()->name = amph_fwd_prefix_match(&amph_ip_state.prefixes, real)
                                  ? amph_ip_keep_text(real)
                                  : NULL;
        return;
    }

    if (errno != ENOENT || !cwd || !amph_fwd_prefix_match(&amph_ip_state.prefixes, ++cwd))
        return;

    int fd = atoi(entry);

    amph_ip_cwd()->name = amph_ip_keep_text(cwd);
    if (fd > 0 && fd < FDTAB_MAX &&
        (amph_ip_placeholder_text(fd, text, sizeof text) || amph_ip_near_inherit(fd)))
        amph_ip_cwd()->fd = fd;
}

/* dl_iterate_phdr's callback: does one of the program's files have the note of am/job.c? */
static int has_note(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char name[8] = AMPH_NOTE_NAME;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        const char *at = (const char *)(info->dlpi_addr + ph->p_vaddr);
        const char *end = at + ph->p_memsz;

        while (ph->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            at += sizeof *note;
            if (note->n_namesz == sizeof name && at + sizeof name <= end &&
                memcmp(at, name, sizeof name) == 0)
                return 1;

            size_t align = ph->p_align == 8 ? 7 : 3;

            at += (((note->n_namesz + align) & ~align) + ((note->n_descsz + align) & ~align));
        }
    }

    return 0;
}

/* Returns this process's rank in a job of another launcher; -1: no such job. */
static int64_t find_rank(char **env)
{
    int64_t rank = amph_ip_setting_rank(env, AMPH_ENV_PMIX_RANK);

    if (rank < 0)
        rank = amph_ip_setting_rank(env, AMPH_ENV_PMI_RANK);

    if (rank < 0)
        rank = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_ID);

    return rank;
}

/* Returns the number of processes of that job; -1: no variable names it. */
static int64_t find_size(char **env)
{
    int64_t size = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_OMPI_SIZE);

    if (size < 0)
        size = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_SIZE);

    if (size < 0)
        size = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_SLURM_TASKS);

    return size;
}

/* The role of this process in a job of another launcher with I/O servers (AMPHORA_SERVERS). */
enum part {
    /* no such job; or a GASNet client, which connects to the servers by itself; or started by a
     * process of the job */
    PART_NONE,
    PART_COMPUTE, /* the first process of a rank, and not a GASNet client (boot/claim.h) */
    PART_SERVER,  /* iofwd-server, or a GASNet client that becomes one: forwards nothing */
    PART_ASTRAY /* another program in a server's slot: usually a script that starts iofwd-server */
};

static enum part find_part(char **env)
{
    int64_t servers = amph_ip_setting_int(env, AMPH_ENV_SERVERS);

    if (servers <= 0 || amph_ip_setting_text(env, AMPH_ENV_JOB) ||
        amph_ip_setting_text(env, AMPH_ENV_IOFWD_RANK_SOCKETS))
        return PART_NONE;

    if (!amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMI_FD) &&
        !amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMI_PORT) &&
        !amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMIX_NAMESPACE))
        return PART_NONE;

    int64_t rank = find_rank(env);
    int64_t size = find_size(env);
    bool client = !amph_ip_private_text(env, AMPH_IP_PRIVATE_PLAIN) &&
                  dl_iterate_phdr(has_note, NULL);

    if (rank >= 0 && size >= 0 && rank >= size - servers)
        return client ? PART_SERVER : PART_ASTRAY;

    return client || rank < 0 ? PART_NONE : PART_COMPUTE;
}

/* Returns a copy of env with one more entry, or NULL.  It is never freed (kept.h). */
static char **with_entry(char **env, char *entry)
{
    size_t n = amph_ip_env_entries(env);
    char **longer = amph_ip_keep_bytes((n + 2) * sizeof *longer);

    if (!longer)
        return NULL;

    memcpy(longer, env, n * sizeof *longer);
    longer[n] = entry;
    longer[n + 1] = NULL;

    return longer;
}

/* ---- settings that iofwd-instrument has baked into the program ---- */

/* Returns iofwd-instrument's note at the start of a segment of the program; NULL: the segment has
 * another origin. */
static const struct amph_note *settings_note(const struct dl_phdr_info *info, const ElfW(Phdr) * ph)
{
    const struct amph_note *note = (const void *)(info->dlpi_addr + ph->p_vaddr);

    if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_R) || ph->p_filesz < sizeof *note ||
        note->namesz != sizeof note->name || note->type != AMPH_NOTE_SETTINGS ||
        memcmp(note->name, AMPH_NOTE_NAME, sizeof note->name) != 0 ||
        note->descsz > ph->p_filesz - sizeof *note)
        return NULL;

    return note;
}

/* dl_iterate_phdr's callback: looks at the first object, which is the program. */
static int find_settings(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct amph_note **note_p = arg;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum && !*note_p; i++)
        *note_p = settings_note(info, &info->dlpi_phdr[i]);

    return 1;
}

/* Returns env with the baked-in settings that it does not contain, as a list of its own; returns env
 * itself if there are none. */
static char **with_baked(char **env)
{
    const struct amph_note *note = NULL;

    dl_iterate_phdr(find_settings, &note);
    if (!note)
        return env;

    const char *text = (const char *)(note + 1);
    size_t left = note->descsz;

    while (left) {
        size_t len = strnlen(text, left);
        size_t name_len = strcspn(text, "=");
        bool whole = len < left && name_len < len;
        bool given = false;

        for (char **e = env; whole && *e; e++)
            given = given || strncmp(*e, text, name_len + 1) == 0;

        char **longer = whole && !given ? with_entry(env, (char *)text) : NULL;

        if (longer)
            env = longer;

        left -= len < left ? len + 1 : len;
        text += len + 1;
    }

    return env;
}

/* ---- what the processes of a rank share ---- */

/* Moves fd to a high number, away from those that the program uses.  It stays open in all programs
 * that this one starts. */
static int keep(int fd)
{
    int up = fcntl(fd, F_DUPFD, RANK_FDS);

    if (up < 0)
        return fd;

    libc_close(fd);
    return up;
}

static void open_rank(void)
{
    int pair[2];
    struct stat st;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 || send(pair[0], "T", 1, 0) != 1)
        return;

    amph_ip_state.rank.pid = amph_ip_kernel_getpid();
    amph_ip_state.rank.result = keep(pair[0]);
    amph_ip_state.rank.token = keep(pair[1]);
    if (libc_fstat64(amph_ip_state.rank.result, &st) != 0)
        return;

    snprintf(amph_ip_state.rank.setting, sizeof amph_ip_state.rank.setting, "%s=%ld:%d:%d:%lu",
             amph_ip_setting_name(AMPH_ENV_IOFWD_RANK_SOCKETS), amph_ip_state.rank.pid,
             amph_ip_state.rank.result, amph_ip_state.rank.token, (unsigned long)st.st_ino);
}

/* Counts the job's processes that an MPI library may know of.  A GASNet client takes part in PMIx's
 * fences with all of them. */
static void count_ranks(char **env)
{
    int64_t size = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_OMPI_SIZE);
    int64_t n = size - amph_ip_setting_int(env, AMPH_ENV_SERVERS);
    const char *space = amph_ip_foreign_text(env, AMPH_IP_FOREIGN_PMIX_NAMESPACE);

    amph_ip_state.mpi_one_host = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_OMPI_LOCAL_SIZE) == size;
    amph_ip_state.mpi_space = space ? amph_ip_keep_text(space) : NULL;
    if (amph_ip_state.mpi_space && n > 0 && n < size && !dl_iterate_phdr(has_note, NULL))
        amph_ip_state.mpi_ranks = (uint32_t)n;
}

/* Marks descriptors that the program must not close, because a program that it starts may need
 * them: the sockets of the rank, and the connection to the process manager. */
static void guard_rank(char **env)
{
    const char *text = amph_ip_setting_text(env, AMPH_ENV_IOFWD_RANK_SOCKETS);
    int64_t pmi = amph_ip_foreign_int(env, AMPH_IP_FOREIGN_PMI_FD);

    if (!text || sscanf(text, "%ld:%d:%d", &amph_ip_state.rank.pid, &amph_ip_state.rank.result,
                        &amph_ip_state.rank.token) != 3)
        return;

    amph_ip_state.rank_guarded = true;
    count_ranks(env);
    amph_fdtab_mark(amph_ip_state.rank.result, FDTAB_OWN);
    amph_fdtab_mark(amph_ip_state.rank.token, FDTAB_OWN);
    if (pmi > 2)
        amph_fdtab_mark((int)pmi, FDTAB_OWN);
}

bool amph_ip_rank_has_joined(void)
{
    char byte;

    return recv(amph_ip_state.rank.result, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* A rank that has not used a forwarded file joins the job when it ends, because the servers and the
 * other ranks wait for all ranks. */
void amph_ip_rank_end(void)
{
    if (!amph_ip_inside)
        amph_ip_mpi_release();

    if (amph_ip_state.rank.pid != amph_ip_kernel_getpid() || amph_ip_inside)
        return;

    amph_ip_state.rank.pid = 0;
    if (!amph_ip_rank_has_joined())
        amph_ip_client_join();
}

static void __attribute__((destructor)) end(void)
{
    amph_ip_log_put();
    amph_ip_lost_ending();
    amph_ip_rank_end();
}

/* Was the program executed by its path?  A copy in memory is executed by the name of its descriptor. */
static bool is_by_path(void)
{
    const char *name = (const char *)getauxval(AT_EXECFN);

    return name && name[0] == '/' && strncmp(name, "/proc/", sizeof "/proc/" - 1) != 0 &&
           strncmp(name, "/dev/", sizeof "/dev/" - 1) != 0;
}

/* Finds the path of a forwarded program.  It runs from a copy in memory whose name is that path,
 * but the kernel has named the process after the descriptor of the copy. */
static void find_exe(const char *called)
{
    static const char before[] = "/memfd:";
    static const char after[] = " (deleted)";
    char path[PATH_MAX];
    ssize_t n = is_by_path() ? 0 : libc_readlink("/proc/self/exe", path, sizeof path - 1);
    ssize_t more = sizeof before - 1 + sizeof after - 1;

    if (n <= more || memcmp(path, before, sizeof before - 1) != 0)
        return;

    path[n - (ssize_t)(sizeof after - 1)] = 0;

    const char *slash = called ? strrchr(called, '/') : NULL;

    if (called)
        prctl(PR_SET_NAME, slash ? slash + 1 : called, 0, 0, 0);

    if (path[sizeof before - 1] == '/')
        amph_ip_state.exe = amph_ip_keep_text(path + sizeof before - 1);
}

/* Restores LD_PRELOAD.  The dynamic linker has read it with the names of the copies that were made
 * for this program; the next program gets the libraries themselves. */
static void restore_preload(char **env)
{
    static const char before_copies[] = AMPH_IP_ELF_DEPS_ORIGINAL "LD_PRELOAD";
    char *entry = NULL;

    for (char **e = env; *e; e++)
        if (strncmp(*e, before_copies, sizeof before_copies - 1) == 0 &&
            (*e)[sizeof before_copies - 1] == '=')
            entry = *e + sizeof AMPH_IP_ELF_DEPS_ORIGINAL - 1;

    for (char **e = env; entry && *e; e++)
        if (strncmp(*e, entry, sizeof "LD_PRELOAD=" - 1) == 0)
            *e = entry;

    if (entry)
        drop_everywhere(env, before_copies);
}

/* Records the libraries that the dynamic linker was given for this program, and where it searches
 * for more. */
static void take_libraries(char **env)
{
    const char *copies = amph_ip_private_text(env, AMPH_IP_PRIVATE_LIBS);

    if (copies) {
        amph_ip_elf_deps_loaded(copies);
        drop_everywhere(env, AMPH_IP_ELF_DEPS_SETTING);
    }

    amph_ip_library_path_keep(amph_ip_foreign_text(env, AMPH_IP_FOREIGN_LIBRARY_PATH));
}

/* Returns whether a variable names servers. */
static bool knows_servers(char **env)
{
    return amph_ip_setting_text(env, AMPH_ENV_JOB) ||
           amph_ip_setting_text(env, AMPH_ENV_IOFWD_SERVER_HOST) ||
           amph_ip_setting_text(env, AMPH_ENV_IOFWD_OWN_SERVERS) ||
           amph_ip_setting_text(env, AMPH_ENV_IOFWD_RANK_SOCKETS);
}

const char amph_ip_init_linked = 1;

static void late(void)
{
    int saved = errno;

    if (amph_ip_state.rank.setting[0])
        setenv(amph_ip_setting_name(AMPH_ENV_IOFWD_RANK_SOCKETS),
               strchr(amph_ip_state.rank.setting, '=') + 1, 1);

    if (amph_ip_state.inherited_locks)
        amph_ip_locks_drop_closed(amph_ip_state.inherited_locks);

    amph_ip_state.inherited_locks = NULL;
    if (amph_ip_state.on) {
        amph_ip_environment_preload();
        amph_ip_quick_exit_watch();
        amph_ip_stream_enlarge();
        amph_ip_mpi_job_check();
    }

    errno = saved;
}

/* In front of main: the constructors of the program, which may have its malloc, have run. */
static int watch_and_run(int argc, char **argv, char **environment)
{
    amph_ip_fork_watch();
    return amph_ip_state.main(argc, argv, environment);
}

/* Runs after the constructors of all libraries and before those of the program. */
int amph_do_libc_start_main(void *main, void *argc, void *argv, void *init, void *fini,
                            void *ending, void *stack)
{
    late();
    if (amph_ip_state.on && !amph_ip_state.forks_watched) {
        amph_ip_state.main = (int (*)(int, char **, char **))main;
        main = (void *)(uintptr_t)watch_and_run;
    }

    return libc___libc_start_main(main, argc, argv, init, fini, ending, stack);
}

/* Reports that this library was found behind the C library, and therefore catches no call of the
 * program.  That happens if the program is not linked with it, but one of its shared libraries
 * is. */
static void report_behind(void)
{
    static const char line[] = "amphora: a library of this program has loaded libiofwd_preload.so "
                               "behind the C library, where "
                               "it catches no call, so nothing is forwarded; link the program "
                               "itself by iofwd-cc, or start it "
                               "by iofwd-run\n";

    (void)!write(2, line, sizeof line - 1);
}

/* Starts the recorder, which also works without prefixes. */
static void start_recorder(char **env)
{
    const char *dir = amph_ip_setting_text(env, AMPH_ENV_IOFWD_TRACE_DIR);
    int64_t rank = -1;

    if (!dir || !dir[0])
        return;

    if (amph_ip_setting_text(env, AMPH_ENV_RANK))
        rank = amph_ip_setting_int(env, AMPH_ENV_RANK);
    if (rank < 0)
        rank = find_rank(env);

    amph_ip_state.recorder.kinds = amph_record_kinds(
        amph_ip_setting_text(env, AMPH_ENV_IOFWD_RECORD), NULL);

    const char *clock = amph_ip_private_text(env, AMPH_IP_PRIVATE_CLOCK);

    amph_ip_state.recorder.clock = clock ? strtoull(clock, NULL, 10) : amph_ip_clock_number();
    amph_ip_record_start(dir, rank,
                         (uint64_t)amph_ip_setting_int(env, AMPH_ENV_IOFWD_TRACE_BUDGET));
}

/* Reads the settings of forwarding that are needed before the client is loaded. */
static void take_settings(char **env, enum part part)
{
    const char *level = amph_ip_setting_text(env, AMPH_ENV_LOG);

    amph_ip_state.debug = level && strcmp(level, "debug") == 0;
    amph_ip_state.json = amph_ip_setting_int(env, AMPH_ENV_LOG_FORMAT) != 0;
    amph_ip_state.io_uring = amph_ip_setting_bool(env, AMPH_ENV_IOFWD_IO_URING);
    amph_ip_state.optional = amph_ip_setting_bool(env, AMPH_ENV_IOFWD_OPTIONAL);
    amph_ip_state.in_server_slot = part == PART_ASTRAY;
}

/* Takes over what the process had before this image, or has from its parent: umask, limits, locks. */
static void take_process(char **env)
{
    mode_t mask = libc_umask(0);

    libc_umask(mask);
    amph_ip_cwd()->umask = mask;
    amph_ip_limits_changed(0);

    const char *locks = amph_ip_private_text(env, AMPH_IP_PRIVATE_LOCKS);

    amph_ip_state.inherited_locks = amph_ip_locks_came_along(locks) ? amph_ip_keep_text(locks)
                                                                    : NULL;
}

/* Switches forwarding on. */
static void start_forwarding(char **env, enum part part, char **environment)
{
    char **longer = NULL;

    if (part == PART_COMPUTE) {
        open_rank();
        longer = amph_ip_state.rank.setting[0] ? with_entry(env, amph_ip_state.rank.setting) : NULL;
    }

    guard_rank(longer ? longer : env);
    amph_ip_connections_take(env);
    amph_ip_bypass_start(env);
    amph_ip_mpi_job_start(env);
    restore_preload(environment);
    if (env != environment)
        restore_preload(env);

    amph_ip_environment_keep(longer ? longer : env);
    amph_ip_near_start(env);
    amph_ip_near_inherit_all(amph_ip_private_text(env, AMPH_IP_PRIVATE_NEAR));
    restore_cwd(env);
    amph_ip_state.on = true;
    if (!amph_ip_has_own_malloc())
        amph_ip_fork_watch();
}

/* Starts the recorder and the forwarding if the settings ask for them.  env: the environment with
 * the baked-in settings; nothing keeps the list. */
static void start_with(char **env, int argc, char **argv, char **environment)
{
    const char *prefixes = amph_ip_setting_text(env, AMPH_ENV_IOFWD_PREFIX);
    const char *why;
    const char *records = amph_ip_setting_text(env, AMPH_ENV_IOFWD_TRACE_DIR);
    bool asked = (prefixes && prefixes[0]) || (records && records[0]);

    if (asked && !amph_ip_is_in_front()) {
        report_behind();
        return;
    }

    start_recorder(env);
    if (!prefixes || !prefixes[0])
        return;

    enum part part = find_part(env);
    if (part == PART_SERVER)
        return;
    if (part == PART_NONE && amph_ip_setting_bool(env, AMPH_ENV_IOFWD_OPTIONAL) &&
        !knows_servers(env))
        return;

    if (!amph_fwd_prefix_parse(&amph_ip_state.prefixes, prefixes, &why)) {
        refuse(prefixes, why);
        return;
    }

    if (!amph_ip_state.prefixes.count)
        return;

    take_settings(env, part);
    take_process(env);
    start_forwarding(env, part, environment);
    take_libraries(environment);
    amph_ip_trace_start(amph_ip_setting_text(env, AMPH_ENV_IOFWD_TRACE));
    find_exe(argc > 0 ? argv[0] : NULL);
    amph_ip_stream_start();
    if (amph_ip_client_is_linked)
        late();
}

static void __attribute__((constructor(102))) start(int argc, char **argv, char **environment)
{
    int saved = errno;
    char **env = with_baked(environment);

    amph_ip_libc(AMPH_IP_NAME_dlerror); /* loader/dl_error.c needs it before all others */
    start_with(env, argc, argv, environment);
    errno = saved;
}
