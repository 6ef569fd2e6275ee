/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads and opens the file client, and enters inherited placeholders in the descriptor table; see
 * client.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; loading is under amph_ip_client.lock.
 */
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/process/mpi_job.h"
#include "iofwd/wire/below.h"
#include "iofwd/wire/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/settings.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/loader/dl_error.h"

struct amph_ip_client amph_ip_client = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *error_name(int err)
{
    switch (err) {
    case ENOMEM:
        return "ENOMEM";
    case EMFILE:
        return "EMFILE";
    case ENFILE:
        return "ENFILE";
    default:
        return "EIO";
    }
}

/* Prints why forwarded calls fail; once a process, since every later call fails for the same reason. */
static void complain(const char *what, const char *why, int err)
{
    char line[1024];

    if (__atomic_exchange_n(&amph_ip_client.complained, 1, __ATOMIC_RELAXED))
        return;

    const char *name = error_name(err);
    int n = amph_ip_state.optional
                ? snprintf(line, sizeof line, "amphora: %s: %s\n", what, why)
                : snprintf(line, sizeof line,
                           "amphora: %s: %s; forwarded file calls fail with %s\n", what, why, name);

    if (n > 0)
        (void)!libc_write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static int swap_inside(int depth)
{
    int before = amph_ip_inside;

    amph_ip_inside = depth;
    return before;
}

/* Is the address space exhausted, or what may be written of it (ulimit -v, -d)?  The dynamic linker does
 * not report why it could not map a library; with less than this left it may be the reason. */
static bool is_address_space_full(void)
{
    const size_t enough = 16 << 20;
    void *at = amph_ip_kernel_mmap(NULL, enough, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at != MAP_FAILED)
        amph_ip_kernel_munmap(at, enough);

    return at == MAP_FAILED && errno == ENOMEM;
}

/* The errno value for a client that could not be loaded. */
static int load_error(void)
{
    if (is_address_space_full())
        return ENOMEM;

    int fd = amph_ip_kernel_openat(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);

    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? errno : EIO;

    amph_ip_kernel_close(fd);
    return EIO;
}

static uint32_t own_table_number(void)
{
    return amph_fdtab_current()->number;
}

static int host_fstat(int fd, struct stat *st)
{
    return amph_ip_kernel_fstat(fd, st);
}

static int host_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    return amph_ip_kernel_fstatat(dir, path, st, flags);
}

static ssize_t host_readlinkat(int dir, const char *path, char *target, size_t len)
{
    return amph_ip_kernel_readlinkat(dir, path, target, len);
}

/* Valgrind 3.19 does not know the call, and prints five lines each time. */
static int host_openat2(int dir, const char *path, const struct open_how *how, size_t size)
{
    if (__atomic_load_n(&amph_ip_client.no_openat2, __ATOMIC_RELAXED)) {
        errno = ENOSYS;
        return -1;
    }

    int fd = (int)libc_syscall(SYS_openat2, dir, (long)path, (long)how, (long)size, 0, 0);

    if (fd < 0 && errno == ENOSYS)
        __atomic_store_n(&amph_ip_client.no_openat2, true, __ATOMIC_RELAXED);

    return fd;
}

static int host_fcntl(int fd, int command, void *arg)
{
    return libc_fcntl64(fd, command, arg);
}

/* By the kernel: libeatmydata asks for the descriptor first, and programs do not find this library's. */
static int host_fsync(int fd)
{
    return (int)libc_syscall(SYS_fsync, fd, 0, 0, 0, 0, 0);
}

static int host_fdatasync(int fd)
{
    return (int)libc_syscall(SYS_fdatasync, fd, 0, 0, 0, 0, 0);
}

/* Not those that the preload library catches, and not what a program may have overwritten of the C library, where
 * near.c calls it (libc/kernel.h). */
const struct amph_fwd_host_calls amph_ip_host_calls = {
    .read = libc_read,
    .write = libc_write,
    .pread = libc_pread64,
    .pwrite = libc_pwrite64,
    .lseek = libc_lseek64,
    .ftruncate = libc_ftruncate64,
    .fsync = host_fsync,
    .fdatasync = host_fdatasync,
    .fstat = host_fstat,
    .fstatat = host_fstatat,
    .statx = libc_statx,
    .faccessat = libc_faccessat,
    .readlinkat = host_readlinkat,
    .openat2 = host_openat2,
    .close = libc_close,
    .fcntl = host_fcntl,
    .holds_locks = amph_ip_near_holds_locks,
};

static int load(void)
{
    const char *what, *why;

    const struct amph_fwd_interface *table = amph_ip_client_bind(&what, &why);

    if (!table) {
        int err = load_error();

        complain(what, why, err);
        return err;
    }

    amph_ip_client.fwd = *table;
    amph_ip_client.direct = table;

    amph_ip_client.fwd.keep_settings(amph_ip_environment_kept());
    amph_ip_client.fwd.set_inside(swap_inside);
    amph_ip_client.fwd.set_cancelled(amph_ip_is_cancelled);
    amph_ip_client.fwd.set_table_number(own_table_number);
    amph_ip_client.fwd.set_log_sink(amph_ip_log_take);
    amph_ip_client.fwd.set_host_calls(&amph_ip_host_calls);
    __atomic_store_n(&amph_ip_client.loaded, true, __ATOMIC_RELEASE);
    amph_ip_trace_client_loaded();
    amph_ip_exit_watch();

    return 0;
}

bool amph_ip_client_made_room(void)
{
    int before = errno;
    bool made = before == EMFILE && __atomic_load_n(&amph_ip_client.loaded, __ATOMIC_ACQUIRE) &&
                amph_ip_client.fwd.give_up_fds();

    errno = before;
    return made;
}

static int closer(const struct amph_fwd_file *file)
{
    int err = amph_ip_client_enter();
    if (err)
        return err;

    return amph_ip_client.fwd.close(amph_ip_client.client, file);
}

/* Asks for each number: a program that has used up its descriptors leaves none for the directory. */
static void each_number(void (*fn)(int fd, void *arg), void *arg)
{
    for (int fd = 0; fd < FDTAB_MAX; fd++)
        if (libc_syscall(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0) >= 0)
            fn(fd, arg);
}

void amph_ip_each_open_fd(void (*fn)(int fd, void *arg), void *arg)
{
    char buf[4096];
    int saved = errno;
    int dir = libc_open64(amph_ip_table_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

    if (dir < 0) {
        each_number(fn, arg);
        errno = saved;
        return;
    }

    for (;;) {
        long n = libc_syscall(SYS_getdents64, dir, (long)buf, sizeof buf, 0, 0, 0);

        if (n <= 0)
            break;

        for (long at = 0; at < n;) {
            const struct dirent *entry = (const struct dirent *)(buf + at);

            at += entry->d_reclen;

            int fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);

            if (fd >= 0 && fd != dir)
                fn(fd, arg);
        }
    }

    libc_close(dir);
}

static void mark_one(int fd, void *arg)
{
    char text[AMPH_FWD_TEXT_BYTES];
    enum amph_fdtab_class cls = amph_fdtab_class(fd);

    if (cls == FDTAB_UNKNOWN && amph_ip_placeholder_text(fd, text, sizeof text))
        cls = amph_fdtab_learn(fd, FDTAB_INHERITED);

    if (cls == FDTAB_INHERITED)
        ++*(int *)arg;
}

/* The open file for file: the one in the table, else a new one (*fresh_p).  Descriptors of one file
 * share it, also if they are adopted one by one.  NULL: no memory. */
static struct amph_fd_file *ofile_for(const struct amph_fwd_file *file, bool *fresh_p)
{
    struct amph_fd_file *of = amph_fdtab_find(file);

    *fresh_p = !of;
    if (of)
        return of;

    of = amph_fdtab_new();
    if (of) {
        of->file = *file;
        of->oflags = -1;
    }

    return of;
}

struct adoption {
    bool hold;                   /* take a hold on each file; false: this client has them already */
    bool incomplete;             /* memory has run out */
    size_t count, room;          /* entries used and allocated of files */
    struct amph_fwd_file *files; /* the adopted files */
};

static void add_file(struct adoption *a, const struct amph_fwd_file *file)
{
    if (a->count == a->room) {
        size_t room = a->room ? 2 * a->room : 64;
        struct amph_fwd_file *more = realloc(a->files, room * sizeof *more);

        if (!more) {
            a->incomplete = true;
            return;
        }

        a->files = more;
        a->room = room;
    }

    a->files[a->count++] = *file;
}

/* Enters an inherited descriptor in the table.  If its server no longer has the file, calls on it
 * report that.  If the server's limit for a client is reached, the next call tries again. */
static int adopt_fd(int fd, struct adoption *a)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct amph_fwd_file file;
    bool fresh;

    if (!amph_ip_placeholder_text(fd, text, sizeof text) ||
        !amph_ip_client.fwd.file_parse(text, &file))
        return EBADF;
    if (!amph_fdtab_reserve(fd))
        return ENOMEM;

    struct amph_fd_file *of = ofile_for(&file, &fresh);
    if (!of)
        return ENOMEM;

    int err = fresh && a->hold ? amph_ip_client.fwd.hold(amph_ip_client.client, &file) : 0;

    if (err == EMFILE || err == ENOMEM) {
        amph_fdtab_put(of);
        return err;
    }

    if (fresh && !a->hold)
        add_file(a, &file);

    __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);

    struct amph_fd_file *before = amph_fdtab_set(fd, of, FDTAB_FORWARDED);

    if (before)
        amph_fdtab_put(before);

    return 0;
}

int amph_ip_file_adopt(const char *text, struct amph_fd_file **of_p)
{
    struct amph_fwd_file file;
    bool fresh;

    if (!amph_ip_client.fwd.file_parse(text, &file))
        return ENOENT;

    struct amph_fd_file *of = ofile_for(&file, &fresh);
    if (!of)
        return ENOMEM;

    if (fresh && amph_ip_client.fwd.hold(amph_ip_client.client, &file) != 0) {
        amph_fdtab_put(of);
        return ENOENT;
    }

    __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);
    *of_p = of;
    return 0;
}

static void adopt_one(int fd, void *arg)
{
    if (amph_fdtab_class(fd) == FDTAB_INHERITED)
        adopt_fd(fd, arg);
}

static void adopt_all(void)
{
    struct adoption a = { .hold = !amph_ip_client.fwd.inherited() };
    int placeholders = 0;

    amph_ip_each_open_fd(mark_one, &placeholders);
    if (placeholders)
        amph_ip_each_open_fd(adopt_one, &a);

    if (!a.hold && !a.incomplete)
        amph_ip_client.fwd.hold_only(amph_ip_client.client, a.files, a.count);

    free(a.files);
}

/* Other threads may read the pointer, and nearly always it is the same, so it is written only if it changes. */
static int find_client(void)
{
    struct amph_fwd_client *client = NULL;
    int err = amph_ip_client.fwd.process(&client);

    if (client != amph_ip_client.client)
        amph_ip_client.client = client;

    return err;
}

static int open_client(const sigset_t *program_mask)
{
    int err = 0;

    amph_ip_mpi_job_check();
    if (!amph_ip_client.loaded) {
        amph_ip_fds.close_file = closer;
        err = load();
    }

    if (err)
        return err;

    amph_ip_client.fwd.set_program_mask(program_mask);
    amph_ip_mpi_hold();
    err = find_client();

    if (err == ENOTCONN && amph_ip_state.in_server_slot && !amph_ip_client.fwd.join_mpmd(true))
        amph_ip_die_reported();

    if (err == ENOTCONN && !amph_ip_state.optional)
        complain("IOFWD_PREFIX is set, but this process belongs to no job with I/O servers",
                 "start it by amphora-run -servers S, or set IOFWD_OPTIONAL=1", EIO);

    if (!err && !amph_ip_client.adopted) {
        adopt_all();
        __atomic_store_n(&amph_ip_client.adopted, true, __ATOMIC_RELEASE);
    }

    amph_ip_client.fwd.set_program_mask(NULL);
    return err;
}

/* Loads and opens the client and adopts what was inherited, with signals blocked (see
 * amph_ip_client_enter). */
static int enter_first(void)
{
    sigset_t all, before;
    int saved = errno;
    int cancel;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the lock must be given back */
    pthread_mutex_lock(&amph_ip_client.lock);
    amph_ip_dl_error_keep();

    int depth = swap_inside(1);
    int err = open_client(&before);

    swap_inside(depth);
    amph_ip_dl_error_restore();
    pthread_mutex_unlock(&amph_ip_client.lock);
    pthread_setcancelstate(cancel, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;

    return err;
}

int amph_ip_client_enter(void)
{
    struct amph_fwd_client *client;
    int err = 0;

    if (AMPH_UNLIKELY(__atomic_load_n(&amph_ip_client.lines.len, __ATOMIC_RELAXED) != 0))
        amph_ip_log_put();

    if (AMPH_UNLIKELY(!__atomic_load_n(&amph_ip_client.adopted, __ATOMIC_ACQUIRE)))
        err = amph_ip_inside ? 0 : enter_first(); /* inside: a call made by adopt_all */
    else if ((client = amph_ip_client.fwd.process_if_open()) != amph_ip_client.client || !client) {
        int saved = errno;

        err = find_client();
        errno = saved;
    }

    return err == ENOTCONN ? EIO : err;
}

/* Nothing was forwarded yet, so the program may go on with the files of its own host, and what it starts
 * need not ask the servers again. */
static void leave_all_local(void)
{
    static const char line[] = "amphora: IOFWD_OPTIONAL: the program goes on without forwarding\n";

    if (__atomic_exchange_n(&amph_ip_state.left_local, true, __ATOMIC_ACQ_REL))
        return;

    setenv(amph_ip_setting_name(AMPH_ENV_IOFWD_PREFIX), "", 1);
    __atomic_store_n(&amph_ip_state.on, false, __ATOMIC_RELEASE);
    (void)!libc_write(2, line, sizeof line - 1);
}

bool amph_ip_client_is_there(void)
{
    int placeholders = 0;
    int saved = errno;

    /* `optional` stays set, for threads that have looked at `on` before */
    if (__atomic_load_n(&amph_ip_state.left_local, __ATOMIC_ACQUIRE))
        return false;

    int err = amph_ip_client_enter();

    if (err)
        amph_ip_each_open_fd(mark_one, &placeholders);

    bool local = err == EIO && !placeholders && !amph_ip_cwd()->name &&
                 !amph_ip_state.in_server_slot;

    if (local)
        leave_all_local();
    else
        amph_ip_state.optional = false;

    errno = saved;
    return !local;
}

void amph_ip_client_join(void)
{
    amph_ip_fds.close_file = closer;

    int depth = swap_inside(1);

    if ((!amph_ip_client.loaded && load() != 0) || !amph_ip_client.fwd.join_mpmd(false))
        amph_ip_die_reported();

    swap_inside(depth);
}

void amph_ip_client_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_client.lock);
    else
        pthread_mutex_unlock(&amph_ip_client.lock);
}

bool amph_ip_client_has_adopted(void)
{
    return __atomic_load_n(&amph_ip_client.adopted, __ATOMIC_ACQUIRE);
}

void amph_ip_client_adopt(void)
{
    int placeholders = 0;

    if (__atomic_load_n(&amph_ip_client.adopted, __ATOMIC_ACQUIRE))
        return;

    amph_ip_each_open_fd(mark_one, &placeholders);
    if (placeholders)
        amph_ip_client_enter();
}

int amph_ip_file_get(int fd, struct amph_fd_file **of_p)
{
    *of_p = amph_fdtab_get(fd);
    if (AMPH_LIKELY(*of_p != NULL))
        return 0;

    amph_ip_missed = true;
    if (amph_fdtab_class(fd) != FDTAB_INHERITED)
        return EBADF;

    /* An inherited descriptor that is not in the table yet: the first call adopts all, and one that
     * was received later (SCM_RIGHTS) is adopted by itself. */
    int err = amph_ip_client_enter();
    if (err)
        return err;

    if (amph_fdtab_class(fd) == FDTAB_INHERITED) {
        struct adoption a = { .hold = true };
        err = adopt_fd(fd, &a);
    }

    *of_p = err ? NULL : amph_fdtab_get(fd);
    if (err)
        return err;

    return *of_p ? 0 : EBADF;
}

int amph_ip_file_begin(int fd, struct amph_fd_file **of_p)
{
    int err = amph_ip_file_get(fd, of_p);

    if (AMPH_UNLIKELY(err))
        return amph_ip_fail(err);

    err = amph_ip_client_enter();
    if (!err)
        err = amph_ip_file_reach(*of_p, fd);

    if (AMPH_UNLIKELY(err)) {
        amph_fdtab_put(*of_p);
        return amph_ip_fail(err);
    }

    return 0;
}

int amph_ip_file_end(struct amph_fd_file *of, int err)
{
    amph_fdtab_put(of);
    return amph_ip_result(err);
}
