/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors: opening, closing, copying, and the placeholders that hold their numbers.  Layer:
 * iofwd (preload). Thread rule: any thread, and signal handlers.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/own_table.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/interpose/process/connections.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/wire/file.h"

/* Called after fd has become the descriptor of another file than `before`. */
static int entered(int fd, struct amph_fd_file *before)
{
    if (before) {
        amph_ip_file_left(before);
        amph_fdtab_put(before);
    }

    amph_ip_stream_landed(fd);
    return fd;
}

/* Drops the reference of a descriptor that was removed from the table.  The last descriptor of a
 * file closes it at its server. */
static int let_go(struct amph_fd_file *of)
{
    return of ? amph_fdtab_put(of) : 0;
}

/* Enters the placeholder fd in the table as a descriptor of `of`, whose reference the table takes
 * over.  If there is no memory for the table, both are closed: a placeholder without an open file
 * would look like a closed descriptor. */
static int enter_table(int fd, struct amph_fd_file *of)
{
    if (!amph_fdtab_reserve(fd)) {
        amph_ip_kernel_close(fd);
        let_go(of);
        return amph_ip_fail(ENOMEM);
    }

    return entered(fd, amph_fdtab_set(fd, of, FDTAB_FORWARDED));
}

/*
 * Amphora's own descriptors begin in the upper quarter of those that the process may have: away
 * from the small numbers of shells, select() and dup2, but not so high that the kernel's table of
 * descriptors becomes long.
 */
#define OWN_LIMIT_MAX 1024

static int own_min(void)
{
    struct rlimit may;
    rlim_t max = getrlimit(RLIMIT_NOFILE, &may) == 0 && may.rlim_cur < OWN_LIMIT_MAX
                     ? may.rlim_cur
                     : OWN_LIMIT_MAX;

    return (int)(max - max / 4);
}

/* Copies fd, by F_DUPFD or F_DUPFD_CLOEXEC, to one of our own numbers; if they are in use, to the highest free one
 * above fd.  -1: there is none. */
static int copy_up(int fd, int command)
{
    int copy = -1;

    for (int number = own_min(); copy < 0 && number > fd; number--)
        copy = amph_ip_kernel_fcntl(fd, command, (void *)(long)number);

    return copy;
}

int amph_ip_own(int fd)
{
    if (fd < 0 || !amph_ip_state.on)
        return fd;

    int saved = errno;

    if (fd < own_min()) {
        int cloexec = amph_ip_kernel_fcntl(fd, F_GETFD, NULL) & FD_CLOEXEC;
        int high = copy_up(fd, cloexec ? F_DUPFD_CLOEXEC : F_DUPFD);

        if (high >= 0) {
            amph_ip_kernel_close(fd);
            fd = high;
        }
    }

    amph_fdtab_mark(fd, FDTAB_OWN);
    errno = saved;
    return fd;
}

int amph_ip_own_pair(int result, int fds[2])
{
    if (result == 0) {
        fds[0] = amph_ip_own(fds[0]);
        fds[1] = amph_ip_own(fds[1]);
    }

    return result;
}

int amph_ip_note_local(int fd)
{
    if (fd < 0 || !amph_ip_state.on)
        return fd;
    if (amph_ip_inside)
        return amph_ip_own(fd);

    if (AMPH_UNLIKELY(amph_fdtab_class(fd) == FDTAB_FORWARDED)) {
        int before = errno;

        /* it was closed without a call that this library sees */
        let_go(amph_fdtab_set(fd, NULL, FDTAB_LOCAL));
        errno = before;
    }

    amph_fdtab_mark(fd, FDTAB_LOCAL);
    return fd;
}

/* Creates an empty sealed memfd, or returns -1. */
static int sealed_memfd(const char *name)
{
    int fd = amph_ip_kernel_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && amph_ip_kernel_fcntl(fd, F_ADD_SEALS,
                                        (void *)(long)(F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
                                                       F_SEAL_WRITE)) < 0) {
        int err = errno;

        amph_ip_kernel_close(fd);
        return amph_ip_fail(err);
    }

    return fd;
}

static int open_again(int fd, int flags)
{
    char link[40];

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);
    return amph_ip_proc_open(link, flags);
}

/* Returns the memfd from which the placeholders of a server's files are opened, one of our own
 * descriptors; or -1. */
static int stamp_of(uint32_t server)
{
    uint64_t *stamps = amph_ip_fds.stamps;
    char name[sizeof AMPH_IP_PLACEHOLDER_MARK + 16];
    size_t i = 0;

    for (uint64_t s;
         i < AMPH_FWD_PARTS_MAX && (s = __atomic_load_n(&stamps[i], __ATOMIC_ACQUIRE)) != 0; i++)
        if (s >> 32 == server) {
            int fd = (int)(s & UINT32_MAX) - 1;

            /* it may have been made in another task's table, after ours was copied */
            return amph_fdtab_class(fd) == FDTAB_OWN ? fd : -1;
        }

    if (i == AMPH_FWD_PARTS_MAX)
        return -1;

    snprintf(name, sizeof name, AMPH_IP_PLACEHOLDER_MARK "%" PRIu32 "@", server);

    int fd = sealed_memfd(name);
    int high = fd < 0 ? -1 : amph_ip_kernel_fcntl(fd, F_DUPFD_CLOEXEC, (void *)(long)own_min());

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    if (high < 0 || high >= FDTAB_MAX) {
        if (high >= 0)
            amph_ip_kernel_close(high);

        return -1; /* the process may have so few descriptors that the program would miss one */
    }

    amph_fdtab_mark(high, FDTAB_OWN);

    uint64_t none = 0;

    if (__atomic_compare_exchange_n(&stamps[i], &none,
                                    (uint64_t)server << 32 | (uint32_t)(high + 1), false,
                                    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return high;

    amph_fdtab_mark(high, FDTAB_UNKNOWN); /* another thread was faster */
    amph_ip_kernel_close(high);
    return stamp_of(server);
}

/* Opens a placeholder with the handle as its offset.  Returns -1 if the file needs a placeholder
 * with a name of its own. */
static int stamped(const struct amph_fwd_file *file, bool cloexec)
{
    const struct amph_fwd_ref *ref = &file->part[0];
    off_t at = (off_t)(ref->handle & ~AMPH_FWD_HANDLE_TOP);

    if (file->nparts != 1 || !(ref->handle & AMPH_FWD_HANDLE_TOP))
        return -1;

    int stamp = stamp_of(ref->server);

    if (stamp < 0)
        return -1;

    int fd = open_again(stamp, O_WRONLY | (cloexec ? O_CLOEXEC : 0));

    if (fd >= 0 && fd < FDTAB_MAX && at > 0 && amph_ip_kernel_lseek(fd, at, SEEK_SET) == at)
        return fd;

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return -1;
}

/*
 * Opens a placeholder: a descriptor of the kernel that occupies the number.  It is an empty sealed
 * memfd, whose name or offset identifies the forwarded file, opened again for writing only, so that
 * a read, write or map that was not caught fails instead of losing data.  It takes the lowest
 * number, as open must.  The placeholder of an O_PATH descriptor is an O_PATH descriptor itself, so
 * that the kernel answers poll, epoll_ctl and the like.
 */
static int make_placeholder(const struct amph_fwd_file *file, int flags)
{
    bool cloexec = flags & O_CLOEXEC;
    int how = flags & O_PATH ? O_PATH : O_WRONLY;
    char name[sizeof AMPH_IP_PLACEHOLDER_MARK + AMPH_FWD_TEXT_BYTES] = AMPH_IP_PLACEHOLDER_MARK;
    int fd = flags & O_PATH ? -1 : stamped(file, cloexec); /* O_PATH has no offset */

    if (fd >= 0)
        return fd;
    if (!amph_ip_client.fwd.file_print(file, name + sizeof AMPH_IP_PLACEHOLDER_MARK - 1,
                                       AMPH_FWD_TEXT_BYTES))
        return amph_ip_fail(EOVERFLOW);

    fd = sealed_memfd(name);
    if (fd < 0)
        return -1;

    int again = open_again(fd, how | O_CLOEXEC);
    int held = -1;

    if (again >= 0)
        held = amph_ip_kernel_dup3(again, fd, cloexec ? O_CLOEXEC : 0);

    int err = errno;

    if (again >= 0)
        amph_ip_kernel_close(again);

    if (held >= 0 && held < FDTAB_MAX)
        return held;

    amph_ip_kernel_close(fd);
    return amph_ip_fail(held >= 0 ? EMFILE : err);
}

static int placeholder(const struct amph_fwd_file *file, int flags)
{
    int fd = make_placeholder(file, flags);

    return fd < 0 && amph_ip_client_made_room() ? make_placeholder(file, flags) : fd;
}

static void keep_path(const struct amph_ip_resolved *w, struct amph_fd_file *of)
{
    if (!amph_ip_resolve_absolute(w, of->path, sizeof of->path))
        of->path[0] = 0;

    size_t n = strlen(of->path);

    if (n && of->path[n - 1] == '/')
        of->path[n - 1] = 0;
}

/* With a limit below this the program may wonder why it reaches it with so few files. */
#define FEW_FDS 64

int amph_ip_report_few(int err)
{
    struct rlimit may;

    if (err != EMFILE || getrlimit(RLIMIT_NOFILE, &may) != 0 || may.rlim_cur >= FEW_FDS ||
        __atomic_exchange_n(&amph_ip_client.complained, 1, __ATOMIC_RELAXED))
        return err;

    amph_ip_die_say(
        "there is no descriptor left for a forwarded file: this process may have %lu open "
        "(ulimit -n), of which Amphora itself needs about ten; raise the limit",
        (unsigned long)may.rlim_cur);
    return err;
}

/* What a placeholder takes at most: a descriptor of its own, and one while it is made. */
struct held_fds {
    int n;
    int fd[2];
};

static void give_up(struct held_fds *held)
{
    while (held->n > 0)
        amph_ip_kernel_close(held->fd[--held->n]);
}

/* Before an open that creates or truncates a file: takes the descriptors and the memory that it needs, so
 * that it fails before the file has changed.  They are given up just before the placeholder takes them.
 * Returns 0 or an errno value. */
static int hold_fds(struct held_fds *held)
{
    int wanted = __atomic_load_n(&amph_ip_fds.stamps[0], __ATOMIC_RELAXED) ? 1 : 2;

    held->n = 0;
    while (held->n < wanted) {
        int fd = amph_ip_kernel_openat(AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);

        if (fd < 0 && amph_ip_client_made_room())
            continue;

        if (fd < 0) {
            int err = errno;

            give_up(held);
            return err;
        }

        held->fd[held->n++] = fd;
    }

    int min = held->fd[0];

    if (min < FDTAB_MAX && amph_fdtab_reserve(min))
        return 0;

    give_up(held);
    return min < FDTAB_MAX ? ENOMEM : EMFILE;
}

/* Opens the file at its server and allocates a descriptor for it; the client is entered.  hidden: the program does not
 * see the descriptor, which may then have a placeholder that shows no O_PATH, as most have. */
static int open_forwarded(struct amph_ip_resolved *w, int flags, mode_t mode, bool hidden)
{
    struct amph_fd_file *of = amph_fdtab_new();
    struct held_fds held = { .n = 0 };

    if (!of)
        return amph_ip_resolve_end(w, ENOMEM);

    int refused = flags & (O_CREAT | O_TRUNC) ? amph_ip_report_few(hold_fds(&held)) : 0;

    if (refused) {
        amph_fdtab_put(of);
        return amph_ip_resolve_end(w, refused);
    }

    bool creates = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    mode_t new_mode = creates ? amph_fwd_new_mode(mode & 07777, amph_ip_cwd()->umask) : 0;
    int err = amph_ip_client.fwd.open(amph_ip_client.client, AMPH_IP_AT(w), flags & ~O_CLOEXEC,
                                      new_mode, &of->file);

    give_up(&held);
    if (err) {
        char out[PATH_MAX];
        bool itself = (flags & O_NOFOLLOW) || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
        bool leads_out = amph_ip_leads_out(w, err, itself, out);

        amph_fdtab_put(of);
        amph_ip_resolve_end(w, err);
        return leads_out ? amph_ip_note_local(libc_open64(out, flags, mode)) : amph_ip_fail(err);
    }

    of->oflags = flags;
    keep_path(w, of);
    __atomic_store_n(&of->ready, true, __ATOMIC_RELEASE);

    int fd = placeholder(&of->file, hidden ? flags & ~O_PATH : flags);

    if (fd < 0) {
        err = amph_ip_report_few(errno);
        amph_fdtab_put(of);
        return amph_ip_resolve_end(w, err);
    }

    amph_ip_resolve_end(w, 0);
    return enter_table(fd, of);
}

/* The process has opened a file by itself. */
static int opened_near(struct amph_ip_resolved *w, const struct amph_ip_near_opened *o, int flags)
{
    struct amph_fd_file *of = o->directory ? amph_ip_near_file(flags, o->readonly) : NULL;

    if (of)
        keep_path(w, of);

    amph_ip_resolve_end(w, 0);
    if (!o->directory)
        return amph_ip_note_local(o->fd);
    if (of)
        return enter_table(o->fd, of);

    amph_ip_kernel_close(o->fd);
    return amph_ip_fail(ENOMEM);
}

static int open_local(const struct amph_ip_resolved *w, int flags, mode_t mode)
{
    int fd = libc_openat64(w->dirfd, w->path, flags, mode);

    return fd < 0 && amph_ip_client_made_room() ? libc_openat64(w->dirfd, w->path, flags, mode)
                                                : fd;
}

/* The name of a descriptor, as /proc/self/fd/3.  If the file is one that processes open by themselves, it is so
 * opened, too. */
static int open_numbered(const struct amph_ip_resolved *w, int flags, mode_t mode)
{
    bool cuts = (flags & O_TRUNC) && amph_ip_near_may_change();
    struct amph_fwd_writer *record = cuts ? amph_ip_near_change_begin(true) : NULL;
    int fd = open_local(w, flags, mode);
    bool directory = fd >= 0 && amph_ip_near_inherit(fd);

    if (cuts)
        amph_ip_near_change_end(record, true);

    return directory ? fd : amph_ip_note_local(fd);
}

static int open_at(int dir, const char *path, int flags, mode_t mode, bool hidden)
{
    struct amph_ip_near_opened near;
    struct amph_ip_resolved w;
    int err;

    if (!amph_ip_resolve_near(&w, dir, path, false))
        return -1;
    if (!w.local && amph_ip_near_open(&w, flags, mode, &near, &err))
        return err ? amph_ip_resolve_end(&w, err) : opened_near(&w, &near, flags);
    if (!amph_ip_resolve_enter(&w))
        return -1;

    if (w.local)
        return w.numbered ? open_numbered(&w, flags, mode)
                          : amph_ip_note_local(open_local(&w, flags, mode));

    if (w.by != AMPH_IP_BY_NAME && (flags & O_NOFOLLOW)) { /* the link itself */
        amph_ip_resolve_end(&w, 0);
        return amph_ip_note_local(amph_ip_kernel_openat(dir, path, flags, mode));
    }

    return open_forwarded(&w, flags, mode, hidden);
}

int amph_do_openat(int dir, const char *path, int flags, mode_t mode)
{
    return open_at(dir, path, flags, mode, false);
}

int amph_ip_open_directory(const char *path)
{
    return open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, true);
}

/* Closes a local descriptor. */
static int close_by(enum amph_client_route way, int fd)
{
    return way == AMPH_IP_LIBC ? libc_close(fd) : amph_ip_kernel_close(fd);
}

int amph_ip_close(enum amph_client_route way, int fd)
{
    if (!amph_ip_state.on)
        return close_by(way, fd);

    /* a file that the program before this one has left open */
    if (AMPH_UNLIKELY(amph_ip_connections_wait()) && !amph_ip_inside && amph_ip_fd(fd))
        amph_ip_client_adopt();

    enum amph_fdtab_class cls = amph_fdtab_class(fd);

    if (amph_ip_inside) {
        amph_fdtab_mark(fd, FDTAB_UNKNOWN);
        return close_by(way, fd);
    }

    if (cls == FDTAB_FORWARDED && !amph_ip_is_cwd(fd)) {
        struct amph_fd_file *of = amph_fdtab_set(fd, NULL, FDTAB_UNKNOWN);

        amph_ip_file_left(of);

        int failed = amph_ip_kernel_close(fd);
        int err = let_go(of);

        if (AMPH_UNLIKELY(__atomic_load_n(&amph_ip_fds.closes_held, __ATOMIC_RELAXED) != 0))
            amph_ip_tables_forget_killed();

        return failed ? failed : amph_ip_result(err);
    }

    if (AMPH_UNLIKELY(amph_ip_owns(fd)))
        return amph_ip_fail(EBADF);

    if (AMPH_UNLIKELY(cls == FDTAB_EPOLL))
        amph_ip_epoll_closed(fd);

    /* before the close: afterwards the number may be another thread's */
    struct amph_ip_near_writing *writing = amph_ip_near_writing_leave(fd);

    amph_fdtab_mark(fd, FDTAB_UNKNOWN);

    int failed = close_by(way, fd);

    if (AMPH_UNLIKELY(writing != NULL))
        amph_ip_near_writing_give_up(writing);

    return failed;
}

int amph_do_close(int fd)
{
    return amph_ip_close(AMPH_IP_LIBC, fd);
}

static void close_one(int fd, struct amph_fd_file *of, void *arg)
{
    amph_ip_close(AMPH_IP_KERNEL, fd);
}

static int close_range_by(enum amph_client_route way, unsigned first, unsigned last, int flags)
{
    return way == AMPH_IP_LIBC ? libc_close_range(first, last, flags)
                               : amph_ip_kernel_close_range(first, last, flags);
}

struct range {
    enum amph_client_route way;
    unsigned first, last;
    int flags, result;
    int owned[1024];
    int nowned;
};

static void note_owned(int fd, void *arg)
{
    struct range *r = arg;

    if ((unsigned)fd < r->first || (unsigned)fd > r->last)
        return;

    if (!amph_ip_owns(fd))
        amph_fdtab_mark(fd, FDTAB_UNKNOWN); /* the number may be used for any file next */
    else if (r->nowned < (int)AMPH_COUNTOF(r->owned))
        r->owned[r->nowned++] = fd;
}

static int ascending(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Closes what lies between the next of the client's own descriptors.  Returns whether there may be more of
 * them; the range then begins behind those. */
static bool close_between(struct range *r, int *failed_p)
{
    r->nowned = 0;
    amph_ip_each_open_fd(note_owned, r);
    qsort(r->owned, (size_t)r->nowned, sizeof r->owned[0], ascending);

    for (int i = 0; i < r->nowned; i++) {
        unsigned own = (unsigned)r->owned[i];

        if (own > r->first)
            *failed_p |= close_range_by(r->way, r->first, own - 1, r->flags);

        r->first = own + 1;
    }

    return r->nowned == (int)AMPH_COUNTOF(r->owned);
}

/* Closes a range, except the client's own descriptors. */
static int close_around(struct range *r)
{
    int failed = 0;

    while (close_between(r, &failed)) {
    }

    if (r->first <= r->last)
        failed |= close_range_by(r->way, r->first, r->last, r->flags);

    return failed;
}

#define CLOEXEC_ONLY (1U << 2) /* CLOSE_RANGE_CLOEXEC */
#define UNSHARE (1U << 1)      /* CLOSE_RANGE_UNSHARE */
#define RANGE_FLAGS (CLOEXEC_ONLY | UNSHARE)

static int unshare_files(void *arg)
{
    return libc_unshare(CLONE_FILES);
}

int amph_ip_close_range(enum amph_client_route way, unsigned first, unsigned last, int flags)
{
    if (!amph_ip_state.on || amph_ip_inside || first > last || (flags & ~RANGE_FLAGS))
        return close_range_by(way, first, last, flags);

    if (flags & UNSHARE) {
        if (!amph_ip_table_is_unshared() && amph_ip_table_unshare(unshare_files, NULL) != 0)
            return -1;

        flags &= ~(int)UNSHARE;
    }

    if (flags & CLOEXEC_ONLY)
        return close_range_by(way, first, last, flags);

    if (amph_ip_connections_wait())
        amph_ip_client_adopt();

    amph_fdtab_each(first < FDTAB_MAX ? (int)first : FDTAB_MAX,
                    last < FDTAB_MAX ? (int)last : FDTAB_MAX - 1, close_one, NULL);
    if (!amph_ip_client.loaded && !amph_ip_state.rank_guarded && !amph_ip_cwd()->fd)
        return close_range_by(way, first, last, flags);

    struct range r = { .way = way, .first = first, .last = last, .flags = flags };

    return close_around(&r);
}

int amph_do_close_range(unsigned first, unsigned last, int flags)
{
    return amph_ip_close_range(AMPH_IP_LIBC, first, last, flags);
}

void amph_do_closefrom(int first)
{
    if (amph_do_close_range(first < 0 ? 0 : (unsigned)first, ~0U, 0) != 0 && errno == ENOSYS)
        libc_closefrom(first);
}

int amph_ip_enter_copy(int fd, struct amph_fd_file *of)
{
    if (fd < 0 || fd >= FDTAB_MAX) {
        int err = fd < 0 ? errno : EMFILE;

        if (fd >= 0)
            amph_ip_kernel_close(fd);

        let_go(of);
        return amph_ip_fail(err);
    }

    return enter_table(fd, of);
}

int amph_do_dup(int fd)
{
    struct amph_fd_file *of;

    if (amph_ip_epoll(fd))
        return amph_ip_epoll_copied(fd, amph_ip_note_local(amph_ip_kernel_dup(fd)));
    if (amph_ip_near_has(fd))
        return amph_ip_near_copied(fd, amph_ip_note_local(libc_dup(fd)));

    int err = amph_ip_file_get(fd, &of);

    if (err)
        return amph_ip_fail(err);

    int copy = amph_ip_kernel_dup(fd);

    if (copy < 0 && amph_ip_client_made_room())
        copy = amph_ip_kernel_dup(fd);

    return amph_ip_enter_copy(copy, of);
}

/* The calls that copy a descriptor to another number. */
enum onto {
    BY_DUP2,
    BY_DUP3,
    BY_NUMBER
};

static int local_onto(enum onto how, int from, int to, int flags)
{
    if (how == BY_NUMBER)
        return amph_ip_kernel_dup3(from, to, flags);

    return how == BY_DUP3 ? libc_dup3(from, to, flags) : libc_dup2(from, to);
}

/* Copies a forwarded descriptor onto a number.  The table is changed before the kernel is called: a
 * thread that uses the descriptor meanwhile gets one file or the other, never the placeholder,
 * which looks closed. */
static int forwarded_onto(int from, int to, int flags, struct amph_fd_file *of)
{
    enum amph_fdtab_class cls = amph_fdtab_class(to);

    if (!amph_fdtab_reserve(to)) {
        let_go(of);
        return amph_ip_fail(to < FDTAB_MAX ? ENOMEM : EBADF);
    }

    if (cls != FDTAB_FORWARDED)
        __atomic_fetch_add(&amph_ip_state.turns, 1, __ATOMIC_ACQ_REL);

    struct amph_fd_file *before = amph_fdtab_set(to, of, FDTAB_FORWARDED);
    int fd = amph_ip_kernel_dup3(from, to, flags);

    if (fd >= 0) {
        if (AMPH_UNLIKELY(cls == FDTAB_EPOLL))
            amph_ip_epoll_closed(to);

        return entered(to, before);
    }

    int err = errno;

    let_go(amph_fdtab_set(to, before, cls));
    return amph_ip_fail(err);
}

/* Forgets what descriptor `to` was before the kernel made it a copy of another one. */
static void forget_replaced(int to)
{
    if (amph_fdtab_class(to) == FDTAB_FORWARDED)
        __atomic_fetch_add(&amph_ip_state.turns, 1, __ATOMIC_ACQ_REL);

    struct amph_fd_file *before = amph_fdtab_set(to, NULL, FDTAB_LOCAL);

    amph_ip_file_left(before);
    let_go(before);
}

static int dup_onto(enum onto how, int from, int to, int flags)
{
    struct amph_fd_file *of = NULL;

    if (!amph_ip_state.on || amph_ip_inside)
        return local_onto(how, from, to, flags);
    if (amph_ip_owns(from))
        return amph_ip_fail(EBADF);
    if (amph_ip_owns(to))
        return amph_ip_fail(EBUSY);

    if (amph_ip_connections_wait() && amph_ip_fd(to))
        amph_ip_client_adopt();

    int err = amph_ip_fd(from) ? amph_ip_file_get(from, &of) : 0;

    if (err)
        return amph_ip_fail(err);
    if (of && from != to && to >= 0)
        return forwarded_onto(from, to, flags, of);

    struct amph_ip_near_writing *writing = from == to ? NULL : amph_ip_near_writing_leave(to);
    int fd = local_onto(how, from, to, flags);

    if (AMPH_UNLIKELY(writing != NULL))
        amph_ip_near_writing_left(writing, to, fd >= 0);
    if (AMPH_UNLIKELY(fd >= 0 && from != to && amph_fdtab_class(to) == FDTAB_EPOLL))
        amph_ip_epoll_closed(to);

    if (fd >= 0 && from != to) {
        forget_replaced(to);
        if (amph_ip_epoll(from))
            amph_ip_epoll_copied(from, to);

        if (!of)
            amph_ip_near_copied(from, to);
    }

    let_go(of);
    return fd;
}

/* The working directory is the same for all tasks. */
static void set_cwd_in(struct amph_fdtab *table, void *arg)
{
    int fd = *(int *)arg;
    struct amph_fd_file *of = amph_fdtab_get(fd);

    if (!of)
        return;

    struct amph_fd_file *before = amph_fdtab_set_in(table, fd, of, FDTAB_FORWARDED);

    if (before)
        amph_fdtab_put(before);
}

void amph_ip_cwd_to_kernel(void)
{
    struct amph_fd_file *of = amph_ip_tables_had() && amph_ip_cwd()->fd
                                  ? amph_fdtab_get(amph_ip_cwd()->fd)
                                  : NULL;

    if (!of)
        return;

    int fd = of->near ? -1 : placeholder(&of->file, O_PATH | O_CLOEXEC);

    if (fd >= 0) {
        amph_ip_kernel_dup3(fd, amph_ip_cwd()->fd, 0);
        amph_ip_kernel_close(fd);
    }

    amph_fdtab_put(of);
}

int amph_ip_copy_cwd(int fd, int old)
{
    struct amph_fd_file *of;
    int held = -1;

    if (amph_ip_file_get(fd, &of) == 0) {
        /* replaces the old descriptor, so that other threads' calls get the one or the other */
        held = old ? amph_ip_kernel_dup3(fd, old, 0) : copy_up(fd, F_DUPFD);
        held = amph_ip_enter_copy(held < 0 ? amph_ip_kernel_fcntl(fd, F_DUPFD, (void *)3L) : held,
                                  of);
    }

    if (held >= 0)
        amph_ip_tables_others(set_cwd_in, &held);

    return held;
}

bool amph_ip_hold_cwd(int fd)
{
    int held = amph_ip_copy_cwd(fd, amph_ip_cwd()->fd);

    amph_do_close(fd);

    int old = __atomic_exchange_n(&amph_ip_cwd()->fd, held < 0 ? 0 : held, __ATOMIC_ACQ_REL);

    if (held < 0 && old)
        amph_do_close(old);

    return held >= 0;
}

int amph_do_dup2(int from, int to)
{
    return dup_onto(BY_DUP2, from, to, 0);
}

int amph_do_dup3(int from, int to, int flags)
{
    return dup_onto(BY_DUP3, from, to, flags);
}

int amph_ip_dup3(enum amph_client_route way, int from, int to, int flags)
{
    return dup_onto(way == AMPH_IP_LIBC ? BY_DUP3 : BY_NUMBER, from, to, flags);
}
