/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) with the numbers of file calls: numbers.def has a row for each.
 *
 * Layer: iofwd (interposer).  Thread rule: as the functions.
 *
 * A call without a forwarded file goes to the kernel under the number that the program gave.  It
 * never goes to the C library's function of that name, which may do something else, or may have
 * been overwritten and have led here (kernel.h).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/time_types.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/refuse.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/entry/syscall_numbers.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/fd/libaio.h"
#include "iofwd/interpose/fd/procfs.h"
#include "iofwd/interpose/fd/poll.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/openat2.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/path/resolve.h"

/* An argument as a descriptor or number, as a pointer, as a length. */
#define I(n) ((int)a[n])
#define P(n) ((void *)a[n])
#define L(n) ((size_t)a[n])

/* Makes the call as the program made it. */
#define LOCAL(number) libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5])

/* Here the kernel and the C library differ. */

static long sys_getcwd(const long *a)
{
    if (!__atomic_load_n(&amph_ip_cwd()->name, __ATOMIC_ACQUIRE))
        return LOCAL(SYS_getcwd);

    char *name = amph_do_getcwd(NULL, 0);
    size_t len = name ? strlen(name) + 1 : 0;
    int err = name ? 0 : errno;

    if (!err && len > PATH_MAX)
        err = ENAMETOOLONG;

    if (!err && len > L(1))
        err = ERANGE;

    if (!err && !amph_ip_can_write(P(0), len))
        err = EFAULT;

    if (!err)
        memcpy(P(0), name, len);

    free(name);
    return err ? amph_ip_fail(err) : (long)len;
}

static long sys_dup2(const long *a)
{
    /* if both descriptors are equal, dup2 only checks them, and dup3 fails */
    return I(0) == I(1) ? LOCAL(SYS_dup2) : amph_ip_dup3(AMPH_IP_KERNEL, I(0), I(1), 0);
}

/* openat of a path that may be forwarded or local; a link may lead below a prefix. */
static long open_below(int dir, const char *path, const struct open_how *how, const long *a)
{
    struct amph_ip_resolved w;

    bool found = amph_ip_resolve(&w, dir, path, false);

    if (found && w.local) {
        int fd = (int)libc_syscall(SYS_openat2, w.dirfd, (long)w.path, a[2], a[3], 0, 0);

        if (fd >= 0 || errno != ENOENT || !amph_ip_led_in(dir, path))
            return amph_ip_note_local(fd);

        amph_ip_links++;
        fd = amph_do_openat(dir, path, (int)how->flags, (mode_t)how->mode);
        amph_ip_links--;
        return fd;
    }

    if (found)
        amph_ip_resolve_end(&w, 0);

    return amph_do_openat(dir, path, (int)how->flags, (mode_t)how->mode);
}

static long sys_openat2(const long *a)
{
    struct open_how how;
    const char *path = amph_ip_path_in_root(P(1), P(2), L(3));

    if (!amph_ip_at(I(0), path))
        return amph_ip_note_local((int)LOCAL(SYS_openat2));

    /* The kernel checks the record before it looks at the path.  The empty path makes this call
     * fail without an effect. */
    if (libc_syscall(SYS_openat2, -1, (long)"", a[2], a[3], 0, 0) >= 0 || errno != ENOENT)
        return -1;

    memcpy(&how, P(2), sizeof how);
    if (!path || !path[0])
        return amph_ip_fail(path ? ENOENT : EFAULT);
    if (how.resolve & RESOLVE_CACHED) /* this kernel's cache contains no forwarded path */
        return amph_ip_fail(EAGAIN);

    if (how.resolve & ~(uint64_t)RESOLVE_NO_MAGICLINKS) {
        int fd = amph_ip_open_resolved(I(0), path, &how);
        return fd == AMPH_IP_RESOLVE_LOCAL ? amph_ip_note_local((int)LOCAL(SYS_openat2)) : fd;
    }

    struct amph_ip_numbered number;
    if (how.resolve && amph_ip_numbered(path, &number)) /* a prefix has no such names */
        return amph_ip_fail(ELOOP);

    return open_below(I(0), path, &how, a);
}

/* The kernel's oldest form of directory entries: name first, type last. */
struct old_entry {
    unsigned long ino, off;
    unsigned short reclen;
    char name[];
};

/* The length of an entry in the old form. */
static size_t old_length(const struct dirent *e)
{
    return (offsetof(struct old_entry, name) + strlen(e->d_name) + 2 + 7) & ~(size_t)7;
}

static void put_old(char *out, const struct dirent *e, size_t len)
{
    struct old_entry *o = (struct old_entry *)out;

    *o = (struct old_entry){ .ino = e->d_ino,
                             .off = (unsigned long)e->d_off,
                             .reclen = (unsigned short)len };
    strcpy(o->name, e->d_name);
    out[len - 1] = (char)e->d_type;
}

/* Entries that do not fit stay for the next call: the offset of the directory is set back to
 * them. */
static long sys_getdents(const long *a)
{
    char entries[4096];
    char *out = P(1);
    size_t cap = L(2);
    size_t used = 0;
    off_t next = amph_do_lseek(I(0), 0, SEEK_CUR);
    size_t room = cap < sizeof entries ? cap : sizeof entries;
    ssize_t n = next < 0 ? -1 : amph_do_getdents64(I(0), entries, room);

    for (ssize_t at = 0; at < n;) {
        const struct dirent *e = (const struct dirent *)(entries + at);
        size_t len = old_length(e);
        int err = used + len > cap ? EINVAL : 0;

        if (!err && !amph_ip_can_write(out + used, len))
            err = EFAULT;

        if (err) {
            bool back = amph_do_lseek(I(0), next, SEEK_SET) >= 0;
            return used && back ? (long)used : amph_ip_fail(err);
        }

        put_old(out + used, e, len);
        next = e->d_off;
        used += len;
        at += e->d_reclen;
    }

    return n < 0 ? -1 : (long)used;
}

static long sys_utimensat(const long *a)
{
    return P(1) ? amph_do_utimensat(I(0), P(1), P(2), I(3)) : amph_do_futimens(I(0), P(2));
}

static long sys_futimesat(const long *a)
{
    return amph_do_futimesat(I(0), P(1), P(2));
}

/* ---- waiting: the kernel's calls have the length of a set of signals with it, and say in the
 * limit what is left of it ---- */

#define SIGNALS_BYTES (size_t)(_NSIG / 8)

static bool has_length(const sigset_t *mask, size_t bytes)
{
    return !mask || bytes == SIGNALS_BYTES;
}

/* Calls a wait with a copy of the program's time limit, and stores in the original what is left of
 * it. -1: the kernel reports what is wrong with the call. */
static long limited(long number, const long *a, struct timespec *limit,
                    long (*wait)(const long *a, const struct timespec *limit))
{
    if (limit && !amph_ip_can_read(limit, sizeof *limit))
        return libc_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

    struct timespec own = limit ? *limit : (struct timespec){ 0, 0 };
    bool valid = limit && own.tv_sec >= 0 && own.tv_nsec >= 0 && own.tv_nsec < 1000000000;
    int64_t until = valid ? amph_ip_until(&own) : INT64_MAX;
    long n = wait(a, limit ? &own : NULL);

    if (limit && until != INT64_MAX && amph_ip_can_write(limit, sizeof *limit))
        *limit = amph_ip_span(amph_ip_left(until));

    return n;
}

static long ppoll_for(const long *a, const struct timespec *limit)
{
    return amph_do_ppoll(P(0), (nfds_t)a[1], limit, P(3));
}

static long sys_poll(const long *a)
{
    return amph_ip_poll_waits(P(0), (nfds_t)a[1]) ? amph_do_poll(P(0), (nfds_t)a[1], I(2))
                                                  : LOCAL(SYS_poll);
}

static long sys_ppoll(const long *a)
{
    if (!amph_ip_poll_waits(P(0), (nfds_t)a[1]))
        return LOCAL(SYS_ppoll);

    return has_length(P(3), L(4)) ? limited(SYS_ppoll, a, P(2), ppoll_for) : amph_ip_fail(EINVAL);
}

/* The last argument of pselect6. */
struct signals {
    const sigset_t *mask;
    size_t bytes;
};

static long pselect_for(const long *a, const struct timespec *limit)
{
    const struct signals *signals = P(5);
    return amph_do_pselect(I(0), P(1), P(2), P(3), limit, signals ? signals->mask : NULL);
}

static long sys_select(const long *a)
{
    const struct timeval *limit = P(4);

    if (!amph_ip_select_waits(I(0), P(1), P(2), P(3)) ||
        (limit && !amph_ip_can_read(limit, sizeof *limit)))
        return LOCAL(SYS_select);

    return amph_do_select(I(0), P(1), P(2), P(3), P(4));
}

static long sys_pselect6(const long *a)
{
    const struct signals *signals = P(5);

    if (!amph_ip_select_waits(I(0), P(1), P(2), P(3)) ||
        (signals && !amph_ip_can_read(signals, sizeof *signals)))
        return LOCAL(SYS_pselect6);
    if (signals && !has_length(signals->mask, signals->bytes))
        return amph_ip_fail(EINVAL);

    return limited(SYS_pselect6, a, P(4), pselect_for);
}

/* Makes the wait in the kernel and stores its result in *n_p.  false: the set contains forwarded
 * files. */
static bool epoll_locally(long number, const long *a, int *n_p)
{
    if (amph_ip_epoll(I(0)) && !amph_ip_epoll_within())
        return false;

    *n_p = (int)LOCAL(number);
    return amph_ip_epoll_within() || amph_ip_epoll_filter(P(1), *n_p, n_p);
}

static long sys_epoll_wait(const long *a)
{
    int n;
    return epoll_locally(SYS_epoll_wait, a, &n) ? n
                                                : amph_do_epoll_pwait(I(0), P(1), I(2), I(3), NULL);
}

static long sys_epoll_pwait(const long *a)
{
    int n;

    if (epoll_locally(SYS_epoll_pwait, a, &n))
        return n;

    return has_length(P(4), L(5)) ? amph_do_epoll_pwait(I(0), P(1), I(2), I(3), P(4))
                                  : amph_ip_fail(EINVAL);
}

static long sys_epoll_pwait2(const long *a)
{
    const struct __kernel_timespec *given = P(3); /* on 32-bit machines, too */
    int n;

    if (epoll_locally(SYS_epoll_pwait2, a, &n))
        return n;
    if (given && !amph_ip_can_read(given, sizeof *given))
        return amph_ip_fail(EFAULT);

    const struct timespec limit = { .tv_sec = given ? (time_t)given->tv_sec : 0,
                                    .tv_nsec = given ? (long)given->tv_nsec : 0 };

    if (!has_length(P(4), L(5)))
        return amph_ip_fail(EINVAL);

    return amph_do_epoll_pwait2(I(0), P(1), I(2), given ? &limit : NULL, P(4));
}

/* ---- sockets ---- */

static long sys_bind(const long *a)
{
    return amph_ip_socket_is_forwarded(P(1), (socklen_t)a[2])
               ? amph_do_bind(I(0), P(1), (socklen_t)a[2])
               : LOCAL(SYS_bind);
}

static long sys_connect(const long *a)
{
    return amph_ip_socket_is_forwarded(P(1), (socklen_t)a[2])
               ? amph_do_connect(I(0), P(1), (socklen_t)a[2])
               : LOCAL(SYS_connect);
}

static long sys_sendto(const long *a)
{
    return amph_ip_socket_is_forwarded(P(4), (socklen_t)a[5])
               ? amph_do_sendto(I(0), P(1), L(2), I(3), P(4), (socklen_t)a[5])
               : LOCAL(SYS_sendto);
}

static long sys_sendmsg(const long *a)
{
    return amph_ip_message_is_forwarded(P(1)) ? amph_do_sendmsg(I(0), P(1), I(2))
                                              : LOCAL(SYS_sendmsg);
}

static long sys_sendmmsg(const long *a)
{
    return amph_ip_messages_are_forwarded(P(1), (unsigned)a[2])
               ? amph_do_sendmmsg(I(0), P(1), (unsigned)a[2], I(3))
               : LOCAL(SYS_sendmmsg);
}

static long sys_socket_name(long number, const long *a)
{
    socklen_t room = amph_ip_socket_name_room(P(2));

    return amph_ip_socket_named((int)LOCAL(number), P(1), room, P(2));
}

/* ---- mounts ---- */

static long sys_mount(const long *a);

static long no_mount(const long *a)
{
    return amph_ip_fail(EPERM);
}

/* A path or a descriptor takes the place of an argument of the file system. */
static long sys_fsconfig(const long *a)
{
    unsigned command = (unsigned)a[1];
    bool by_path = command == FSCONFIG_SET_PATH || command == FSCONFIG_SET_PATH_EMPTY;

    if ((by_path && amph_ip_at(I(4), P(3))) || (command == FSCONFIG_SET_FD && amph_ip_fd(I(4))))
        return amph_ip_fail(EPERM);

    return LOCAL(SYS_fsconfig);
}

/* ---- the table ---- */

/* Fails a call that cannot be forwarded; used in call_NAME. */
#define REFUSE(err) refuse(__func__ + sizeof "call_" - 1, err)

static long refuse(const char *name, int err)
{
    amph_ip_debug("%s is refused on a forwarded file: %s", name, strerrorname_np(err));
    return amph_ip_fail(err);
}

#define ROW(name, first, second, result, call) \
    static long call_##name(const long *a) \
    { \
        return (long)(call); \
    }
#include "iofwd/calls/numbers.def"
#undef ROW

enum operand_kind {
    IS_NONE,
    IS_FD,
    IS_SET,
    IS_PATH,
    IS_AT,
    IS_CARRIED,
    IS_ALL
};

enum result_kind {
    PLAIN,
    OPENS,
    RECORDS
};

struct operand {
    unsigned char kind, at; /* an operand_kind; the first of its arguments */
};

struct row {
    const char *name;
    struct operand operand[2];
    unsigned char result; /* a result_kind */
    uint16_t function;    /* of the C library, with the same arguments; that of syscall: none */
    long (*call)(const long *a);
};

/* Functions of system calls for which the C library has another name, or none with these arguments. */
enum {
    AMPH_IP_NAME_newfstatat = AMPH_IP_NAME_fstatat,
    AMPH_IP_NAME_faccessat2 = AMPH_IP_NAME_faccessat,
    AMPH_IP_NAME_fchmodat2 = AMPH_IP_NAME_fchmodat,
    AMPH_IP_NAME_fadvise64 = AMPH_IP_NAME_posix_fadvise,
    AMPH_IP_NAME_exit_group = AMPH_IP_NAME__exit,
    AMPH_IP_NAME_pselect6 = AMPH_IP_NAME_pselect,
    AMPH_IP_NAME_openat2 = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_getdents = AMPH_IP_NAME_getdents64,
    AMPH_IP_NAME_open_tree_attr = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_quotactl_fd = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_cachestat = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_setxattrat = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_getxattrat = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_listxattrat = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_removexattrat = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_file_getattr = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_file_setattr = AMPH_IP_NAME_syscall,
    AMPH_IP_NAME_clone3 = AMPH_IP_NAME_syscall
};

/* System calls with fewer arguments than the function of their name, or with others behind these. */
static const struct {
    uint16_t number;
    uint8_t args;
} shorter[] = { { SYS_faccessat, 3 },
                { SYS_fchmodat, 3 },
                { SYS_preadv2, 4 },
                { SYS_pwritev2, 4 },
                { SYS_clone, 0 } };

/* clang-format off */
#define NONE { IS_NONE, 0 }
#define ALL { IS_ALL, 0 }
#define FD(n) { IS_FD, n }
#define SET(n) { IS_SET, n }
#define CARRIES(n) { IS_CARRIED, n }
#define PATH(n) { IS_PATH, n }
#define AT(n) { IS_AT, n }
/* clang-format on */

static const struct row rows[AMPH_IP_ALL_NUMBERS] = {
#define ROW(name, first, second, result, call) \
    [SYS_##name] = { #name, { first, second }, result, AMPH_IP_NAME_##name, call_##name },
#include "iofwd/calls/numbers.def"
#undef ROW
};

/* ---- for traces ---- */

static const struct row *row_of(long number)
{
    bool known = number >= 0 && number < AMPH_IP_KERNEL_NUMBERS && rows[number].call;

    return known ? &rows[number] : NULL;
}

const char *amph_ip_number_name(long number)
{
    const struct row *row = row_of(number);

    return row ? row->name : NULL;
}

static unsigned word_of_operand(const struct operand *o, unsigned i)
{
    if (o->kind == IS_PATH && o->at == i)
        return AMPH_FWD_SHOW_PATH;
    if ((o->kind == IS_FD || o->kind == IS_SET) && o->at == i)
        return AMPH_FWD_SHOW_FD;
    if (o->kind == IS_AT && o->at == i)
        return AMPH_FWD_SHOW_DIRFD;

    return o->kind == IS_AT && o->at + 1u == i ? AMPH_FWD_SHOW_PATH : AMPH_FWD_SHOW_HEX;
}

/* 64-bit arguments take two of the kernel's where a word is shorter. */
int amph_ip_number_function(long number, unsigned *args_p)
{
    const struct row *row = row_of(number);

    if (!row || row->function == AMPH_IP_NAME_syscall || !AMPH_IP_WIDE)
        return AMPH_IP_NAME_syscall;

    *args_p = amph_ip_shapes[row->function].nargs;
    for (size_t i = 0; i < AMPH_COUNTOF(shorter); i++)
        if (shorter[i].number == number)
            *args_p = shorter[i].args;

    return row->function;
}

unsigned amph_ip_number_word(long number, unsigned i)
{
    unsigned args;
    int function = amph_ip_number_function(number, &args);

    if (function != AMPH_IP_NAME_syscall)
        return i < args ? amph_ip_shapes[function].arg[i] : (unsigned)AMPH_FWD_SHOW_UNUSED;

    const struct row *row = row_of(number);
    unsigned word = row ? word_of_operand(&row->operand[0], i) : AMPH_FWD_SHOW_HEX;

    return row && word == AMPH_FWD_SHOW_HEX ? word_of_operand(&row->operand[1], i) : word;
}

/* ---- calls by descriptor ---- */

static bool is_forwarded(const struct row *row, const long *a)
{
    for (int i = 0; i < 2; i++) {
        const struct operand *o = &row->operand[i];
        if (o->kind == IS_CARRIED && amph_ip_carries((unsigned long)a[o->at], P(o->at + 1)))
            return true;
        if ((o->kind == IS_FD || o->kind == IS_SET) && amph_ip_fd(I(o->at)))
            return true;
        if (o->kind == IS_SET && amph_ip_epoll(I(o->at)))
            return true;
    }

    return false;
}

/* Repeats a call that has failed because another thread's dup2 made its descriptor forwarded or
 * local meanwhile (catch.h). */
static long by_descriptor(const struct row *row, long number, const long *a)
{
    for (int tries = 0;; tries++) {
        unsigned turns = amph_ip_turns_now();
        bool ours = is_forwarded(row, a);
        long result = ours ? row->call(a) : LOCAL(number);

        if (!ours && row->result == OPENS)
            amph_ip_note_local((int)result);

        bool false_record = row->result == RECORDS && !ours &&
                            (is_forwarded(row, a) || turns != amph_ip_turns_now());

        if (AMPH_LIKELY(result >= 0 && !false_record) ||
            !amph_ip_turned(result < 0 ? errno : EBADF, ours, tries))
            return result;
    }
}

/* ---- calls by path ---- */

static int dir_of(const struct operand *o, const long *a)
{
    return o->kind == IS_AT ? I(o->at) : AT_FDCWD;
}

static const char *path_of(const struct operand *o, const long *a)
{
    return P(o->at + (o->kind == IS_AT));
}

/* Returns whether the operand is forwarded.  If not, stores in b the arguments for the kernel, and
 * in w->buf the path, to which b may point. */
static bool leads_to_server(const struct operand *o, const long *a, struct amph_ip_resolved *w,
                            long *b)
{
    int dir = dir_of(o, a);

    if (o->kind == IS_NONE || !amph_ip_at(dir, path_of(o, a)))
        return false;
    if (!amph_ip_resolve(w, dir, path_of(o, a), true))
        return true; /* the call itself reports the error */

    if (!w->local) {
        amph_ip_resolve_end(w, 0);
        return true;
    }

    if (o->kind == IS_AT)
        b[o->at] = w->dirfd;

    b[o->at + (o->kind == IS_AT)] = (long)w->path;
    return false;
}

static bool is_led(const struct operand *o, const long *a)
{
    return o->kind != IS_NONE && amph_ip_led_in(dir_of(o, a), path_of(o, a));
}

static long by_path(const struct row *row, long number, const long *a)
{
    const struct operand *first = &row->operand[0];
    const struct operand *second = &row->operand[1];
    long b[6] = { a[0], a[1], a[2], a[3], a[4], a[5] };
    struct amph_ip_resolved w[2];

    if (leads_to_server(first, a, &w[0], b) || leads_to_server(second, a, &w[1], b))
        return row->call(a);

    long result = libc_syscall(number, b[0], b[1], b[2], b[3], b[4], b[5]);
    if (AMPH_LIKELY(result >= 0) || errno != ENOENT || !(is_led(first, a) || is_led(second, a)))
        return row->result == OPENS ? amph_ip_note_local((int)result) : result;

    /* the kernel did not find it: it is behind a link into a prefix */
    amph_ip_links++;
    result = row->call(a);
    amph_ip_links--;

    return result;
}

/* The source is a path if it is absolute, or if it is to be bound or moved; otherwise it is a word
 * such as "none". */
static long sys_mount(const long *a)
{
    /* clang-format off */
    static const struct row by_both = { "mount", { PATH(0), PATH(1) }, PLAIN, AMPH_IP_NAME_mount, no_mount };
    static const struct row by_target = { "mount", { PATH(1), NONE }, PLAIN, AMPH_IP_NAME_mount, no_mount };
    /* clang-format on */
    const char *from = P(0);
    bool absolute = from && amph_ip_can_read(from, 1) && from[0] == '/';
    bool binds = a[3] & (MS_BIND | MS_MOVE);

    return by_path(absolute || binds ? &by_both : &by_target, SYS_mount, a);
}

int amph_do_fanotify_mark(int fd, unsigned flags, uint64_t mask, int dir, const char *path)
{
#if __SIZEOF_POINTER__ == 4
    return (int)amph_do_syscall(SYS_fanotify_mark, fd, (long)flags,
                                __LONG_LONG_PAIR((long)(mask >> 32), (long)mask), dir, (long)path);
#else
    return (int)amph_do_syscall(SYS_fanotify_mark, fd, (long)flags, (long)mask, dir, (long)path, 0);
#endif
}

long amph_do_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5)
{
    const long a[6] = { a0, a1, a2, a3, a4, a5 };

    if (!amph_ip_state.on || amph_ip_inside || number < 0 || number >= AMPH_IP_KERNEL_NUMBERS ||
        !rows[number].call)
        return LOCAL(number);

    const struct row *row = &rows[number];
    if (row->operand[0].kind == IS_ALL)
        return row->call(a);
    if (row->operand[0].kind == IS_FD || row->operand[0].kind == IS_SET)
        return by_descriptor(row, number, a);

    return by_path(row, number, a);
}
