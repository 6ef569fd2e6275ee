/* SPDX-License-Identifier: BSD-3-Clause */
/* Loading the file client and taking over what was inherited; see core.h.  Layer: iofwd (preload). */
#include "iofwd/interpose/entry/client.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

struct fwd_core fwd_core;
bool fwd_core_astray;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool adopted; /* inherited placeholders are in the table */

/* Said once a process: every later call fails in silence. */
static void complain(const char *what, const char *why, int err)
{
    static int said;
    char line[1024];
    if (__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
        return;
    const char *name = err == ENOMEM ? "ENOMEM" : "EIO";
    int n = snprintf(line, sizeof line, "amphora: %s: %s; forwarded file calls fail with %s\n", what, why, name);
    if (n > 0)
        (void)!real_write(2, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static int swap_inside(int depth)
{
    int before = fwd_inside;
    fwd_inside = depth;
    return before;
}

/* The dynamic linker does not say why it could not map a library (ulimit -v); with less than this left it may be that. */
static bool addresses_are_out(void)
{
    const size_t enough = 16 << 20;
    void *at = fwd_kernel_mmap(NULL, enough, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED)
        fwd_kernel_munmap(at, enough);
    return at == MAP_FAILED && errno == ENOMEM;
}

static int load(void)
{
    const char *what, *why;
    if (!fwd_core_bind(&what, &why)) {
        int err = addresses_are_out() ? ENOMEM : EIO;
        complain(what, why, err);
        return err;
    }
    fwd_core.keep_settings(fwd_environment_kept());
    fwd_core.set_inside(swap_inside);
    fwd_core.set_cancelled(fwd_is_cancelled);
    __atomic_store_n(&fwd_core.loaded, true, __ATOMIC_RELEASE);
    return 0;
}

static int closer(const struct amph_fwd_file *file)
{
    int err = fwd_core_enter();
    if (err)
        return err;
    return fwd_core.close(fwd_core.client, file);
}

void fwd_each_open_fd(void (*fn)(int fd, void *arg), void *arg)
{
    char buf[4096];
    int dir = real_open64("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0)
        return;
    for (;;) {
        long n = real_syscall(SYS_getdents64, dir, (long)buf, sizeof buf, 0, 0, 0);
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
    real_close(dir);
}

static void mark_one(int fd, void *arg)
{
    char text[AMPH_FWD_TEXT_BYTES];
    enum fdtab_class cls = fdtab_class(fd);
    if (cls == FDTAB_UNKNOWN && fwd_placeholder_text(fd, text, sizeof text)) {
        fdtab_mark(fd, FDTAB_INHERITED);
        cls = FDTAB_INHERITED;
    }
    if (cls == FDTAB_INHERITED)
        ++*(int *)arg;
}

/* The descriptors that lead to one file share an open file, also when they reach us one by one. */
static struct fwd_ofile *ofile_for(const struct amph_fwd_file *file, bool *fresh_p)
{
    struct fwd_ofile *of = fdtab_find(file);
    *fresh_p = !of;
    if (of)
        return of;
    of = fdtab_new();
    if (of) {
        of->file = *file;
        of->oflags = -1;
    }
    return of;
}

struct adoption {
    bool hold;       /* take a hold on each; else they are ours already */
    bool incomplete; /* memory has run out */
    size_t count, room;
    struct amph_fwd_file *files;
};

static void note(struct adoption *a, const struct amph_fwd_file *file)
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

/* An inherited descriptor comes into the table.  If its file is gone from the server, calls on it will say so.  One more than the server
 * keeps for a client is tried again at the next call. */
static int adopt_fd(int fd, struct adoption *a)
{
    char text[AMPH_FWD_TEXT_BYTES];
    struct amph_fwd_file file;
    bool fresh;
    if (!fwd_placeholder_text(fd, text, sizeof text) || !fwd_core.file_parse(text, &file))
        return EBADF;
    struct fwd_ofile *of = ofile_for(&file, &fresh);
    if (!of)
        return ENOMEM;
    int err = fresh && a->hold ? fwd_core.hold(fwd_core.client, &file) : 0;
    if (err == EMFILE || err == ENOMEM) {
        fdtab_put(of);
        return err;
    }
    if (fresh && !a->hold)
        note(a, &file);
    __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);
    struct fwd_ofile *before = fdtab_set(fd, of, FDTAB_FORWARDED);
    if (before)
        fdtab_put(before);
    return 0;
}

int fwd_file_adopt(const char *text, struct fwd_ofile **of_p)
{
    struct amph_fwd_file file;
    bool fresh;
    if (!fwd_core.file_parse(text, &file))
        return ENOENT;
    struct fwd_ofile *of = ofile_for(&file, &fresh);
    if (!of)
        return ENOMEM;
    if (fresh && fwd_core.hold(fwd_core.client, &file) != 0) {
        fdtab_put(of);
        return ENOENT;
    }
    __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);
    *of_p = of;
    return 0;
}

static void adopt_one(int fd, void *arg)
{
    if (fdtab_class(fd) == FDTAB_INHERITED)
        adopt_fd(fd, arg);
}

static void adopt_all(void)
{
    struct adoption a = { .hold = !fwd_core.inherited() };
    int placeholders = 0;
    fwd_each_open_fd(mark_one, &placeholders);
    if (placeholders)
        fwd_each_open_fd(adopt_one, &a);
    if (!a.hold && !a.incomplete)
        fwd_core.hold_only(fwd_core.client, a.files, a.count);
    free(a.files);
}

static int open_client(void)
{
    int err = 0;
    if (!fwd_core.loaded) {
        fdtab_closer = closer;
        err = load();
    }
    if (!err)
        err = fwd_core.process(&fwd_core.client);
    if (err == ENOTCONN && fwd_core_astray && !fwd_core.join_plain(true))
        real__Exit(1);
    if (err == ENOTCONN)
        complain("IOFWD_PREFIX is set, but this process belongs to no job with I/O servers",
                 "start it by amphora-run -servers S, or set IOFWD_OPTIONAL=1", EIO);
    if (!err && !adopted) {
        adopt_all();
        __atomic_store_n(&adopted, true, __ATOMIC_RELEASE);
    }
    return err;
}

/* The first call: loads, opens the client, takes over what was inherited; with signals held back, as core.h promises. */
static int enter_first(void)
{
    sigset_t all, before;
    int saved = errno;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&lock);
    int depth = swap_inside(1), err = open_client();
    swap_inside(depth);
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return err;
}

int fwd_core_enter(void)
{
    struct amph_fwd_client *client;
    int err = 0;
    if (AMPH_UNLIKELY(!__atomic_load_n(&adopted, __ATOMIC_ACQUIRE)))
        err = fwd_inside ? 0 : enter_first(); /* inside: adopt_all's own calls */
    else if ((client = fwd_core.process_if_open()) != fwd_core.client || !client) {
        int saved = errno;
        err = fwd_core.process(&fwd_core.client);
        errno = saved;
    }
    return err == ENOTCONN ? EIO : err;
}

void fwd_core_join(void)
{
    fdtab_closer = closer;
    int depth = swap_inside(1);
    if ((!fwd_core.loaded && load() != 0) || !fwd_core.join_plain(false))
        real__Exit(1);
    swap_inside(depth);
}

void fwd_core_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&lock);
    else
        pthread_mutex_unlock(&lock);
}

void fwd_core_adopt(void)
{
    int placeholders = 0;
    if (__atomic_load_n(&adopted, __ATOMIC_ACQUIRE))
        return;
    fwd_each_open_fd(mark_one, &placeholders);
    if (placeholders)
        fwd_core_enter();
}

int fwd_file_get(int fd, struct fwd_ofile **of_p)
{
    *of_p = fdtab_get(fd);
    if (AMPH_LIKELY(*of_p != NULL))
        return 0;
    fwd_missed = true;
    if (fdtab_class(fd) != FDTAB_INHERITED)
        return EBADF;
    /* Inherited and not yet in the table: the first call adopts all; one that came later (SCM_RIGHTS) is adopted alone. */
    int err = fwd_core_enter();
    if (err)
        return err;
    if (fdtab_class(fd) == FDTAB_INHERITED) {
        struct adoption a = { .hold = true };
        err = adopt_fd(fd, &a);
    }
    *of_p = err ? NULL : fdtab_get(fd);
    return err ? err : *of_p ? 0 : EBADF;
}

int fwd_file_begin(int fd, struct fwd_ofile **of_p)
{
    int err = fwd_file_get(fd, of_p);
    if (AMPH_UNLIKELY(err))
        return fwd_fail(err);
    err = fwd_core_enter();
    if (AMPH_UNLIKELY(err)) {
        fdtab_put(*of_p);
        return fwd_fail(err);
    }
    return 0;
}

int fwd_file_end(struct fwd_ofile *of, int err)
{
    fdtab_put(of);
    return fwd_result(err);
}
