/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UNIX-domain sockets below a prefix.
 *
 * As on a network mount, the name is on the server and the socket on this host.  The socket is
 * bound in a folder of the user; its name there is made of the identity of the server's file, so
 * that every path to the file finds it.  A symbolic link beside it holds the name by which the
 * program has bound it, which getsockname and getpeername return.  Sockets that nobody has open any
 * more are removed when the user's next socket gets a name, and their links when no connection is left
 * either.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/passed.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/path/resolve.h"

#define FOLDER "/tmp/iofwd-sockets-"
#define PATH_AT offsetof(struct sockaddr_un, sun_path)
#define LINK ".name"
/* Age after which an unused link is removed: for a moment a new one has no socket yet. */
#define OLD_S 60
#define PATH_BYTES sizeof((struct sockaddr_un *)0)->sun_path

/* Returns the path of a socket's address if it may be below a prefix. */
static bool forwarded(const struct sockaddr *addr, socklen_t len, char path[PATH_BYTES + 1])
{
    const struct sockaddr_un *un = (const void *)addr;

    if (AMPH_LIKELY(!addr || len <= PATH_AT || len > sizeof *un || !amph_ip_can_read(addr, len) ||
                    addr->sa_family != AF_UNIX))
        return false;

    memcpy(path, un->sun_path, len - PATH_AT);
    path[len - PATH_AT] = 0;
    return path[0] && amph_ip_path(path);
}

bool amph_ip_socket_is_forwarded(const struct sockaddr *addr, socklen_t len)
{
    char path[PATH_BYTES + 1];

    return forwarded(addr, len, path);
}

/* Creates the folder, which only the user can access. */
static bool make_folder(char *name, size_t cap_bytes)
{
    struct stat st;

    snprintf(name, cap_bytes, FOLDER "%u", (unsigned)geteuid());
    if (libc_mkdir(name, 0700) != 0 && errno != EEXIST)
        return false;
    if (libc_fstatat64(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
        return true;

    errno = EACCES;
    return false;
}

/* Finds the address on this host of the server's socket at path. */
static bool address_of(const char *path, struct sockaddr_un *un)
{
    struct statx stx;
    char folder[sizeof FOLDER + 12];

    if (amph_do_statx(AT_FDCWD, path, 0, STATX_BASIC_STATS | STATX_BTIME, &stx) != 0)
        return false;

    if (!S_ISSOCK(stx.stx_mode)) {
        errno = ECONNREFUSED;
        return false;
    }

    if (!make_folder(folder, sizeof folder))
        return false;

    *un = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(un->sun_path, sizeof un->sun_path, "%s/%x.%x.%llx.%llx.%x", folder, stx.stx_dev_major,
             stx.stx_dev_minor, (unsigned long long)stx.stx_ino,
             (unsigned long long)stx.stx_btime.tv_sec, stx.stx_btime.tv_nsec);
    return true;
}

/* Returns whether fd can get a name here: 0 or an errno value.  ENOTSOCK also for sockets of other
 * families, which have their own errors in the kernel. */
static int binding(int fd)
{
    struct sockaddr_un un;
    socklen_t len = sizeof un;

    if (libc_getsockname(fd, (void *)&un, &len) != 0 || un.sun_family != AF_UNIX)
        return ENOTSOCK;

    return len > PATH_AT ? EINVAL : 0;
}

/* Returns whether a name below a prefix leads to a file of this host; -1 with errno. */
static int is_local(const char *path)
{
    struct amph_ip_resolved w;

    if (!amph_ip_resolve(&w, AT_FDCWD, path, false))
        return -1;

    bool local = w.local;

    if (!local)
        amph_ip_resolve_end(&w, 0);

    return local;
}

static void link_of(const char *local, char link[PATH_BYTES + sizeof LINK])
{
    snprintf(link, PATH_BYTES + sizeof LINK, "%.*s" LINK, (int)PATH_BYTES, local);
}

/* Records the name for a new socket.  An existing entry belonged to a file that was removed and
 * whose inode number this one has. */
static void note_name(const char *local, const char *path)
{
    char link[PATH_BYTES + sizeof LINK];

    link_of(local, link);
    libc_unlinkat(AT_FDCWD, local, 0);
    libc_unlinkat(AT_FDCWD, link, 0);
    (void)!libc_symlinkat(path, AT_FDCWD, link);
}

/* Returns whether nobody has the socket open.  A socket of another type answers a datagram socket
 * with another error. */
static bool is_dead(const char *local)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;

    memcpy(un.sun_path, local, strnlen(local, sizeof un.sun_path - 1));

    bool dead = libc_connect(fd, (void *)&un, sizeof un) != 0 &&
                (errno == ECONNREFUSED || errno == ENOENT);

    libc_close(fd);
    return dead;
}

/* Has a connection the name of a socket that is closed?  It needs the link.  (Those of other network name
 * spaces are not found, and then have their name in the folder.) */
static bool has_connection(const char *local)
{
    char buf[8192];
    size_t kept = 0; /* the last bytes of what was read, for a name on the border */
    size_t len = strlen(local);
    bool found = false;
    ssize_t n;
    int fd = libc_open64("/proc/net/unix", O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0)
        return true;

    while (!found && (n = libc_read(fd, buf + kept, sizeof buf - kept)) > 0) {
        size_t have = kept + (size_t)n;

        found = memmem(buf, have, local, len) != NULL;
        kept = have < len ? have : len;
        memmove(buf, buf + have - kept, kept);
    }

    libc_close(fd);
    return found;
}

/* Removes one entry of the folder if it is not used: a socket, or the link of one. */
static void sweep_one(const char *folder, size_t folder_len, const char *name)
{
    char path[PATH_BYTES + sizeof LINK], socket_path[PATH_BYTES + sizeof LINK];
    struct stat st;
    struct timespec now;
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)folder_len, folder, name);

    if (n < 0 || (size_t)n >= sizeof path ||
        libc_fstatat64(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;

    size_t len = (size_t)n;
    size_t tail = sizeof LINK - 1;

    memcpy(socket_path, path, len + 1);
    if (len > tail && strcmp(path + len - tail, LINK) == 0)
        socket_path[len - tail] = 0;

    bool is_link = strlen(socket_path) < len;

    clock_gettime(CLOCK_REALTIME, &now);
    if (is_link && now.tv_sec - st.st_mtim.tv_sec <= OLD_S)
        return;

    if (is_dead(socket_path) && !(is_link && has_connection(socket_path)))
        libc_unlinkat(AT_FDCWD, path, 0);
}

/* Removes unused entries.  A link may be removed before its socket or after it, in the order of the
 * folder. */
static void sweep(const char *local)
{
    size_t len = (size_t)(strrchr(local, '/') - local);
    char folder[PATH_BYTES + 1], buf[4096];

    snprintf(folder, sizeof folder, "%.*s", (int)len, local);

    int dir = libc_open64(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    long n;

    while (dir >= 0 && (n = libc_syscall(SYS_getdents64, dir, (long)buf, sizeof buf, 0, 0, 0)) > 0)
        for (long at = 0; at < n;) {
            const struct dirent *entry = (const struct dirent *)(buf + at);

            at += entry->d_reclen;
            if (entry->d_name[0] != '.')
                sweep_one(folder, len, entry->d_name);
        }

    if (dir >= 0)
        libc_close(dir);
}

int amph_do_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    char path[PATH_BYTES + 1];
    struct sockaddr_un un;

    if (!forwarded(addr, len, path))
        return libc_bind(fd, addr, len);

    int wrong = binding(fd);
    if (wrong)
        return wrong == EINVAL ? amph_ip_fail(EINVAL) : libc_bind(fd, addr, len);

    int local = is_local(path);
    if (local)
        return local < 0 ? -1 : libc_bind(fd, addr, len);
    if (amph_do_mknodat(AT_FDCWD, path, S_IFSOCK | 0777, 0) != 0)
        return amph_ip_fail(errno == EEXIST ? EADDRINUSE : errno);

    if (address_of(path, &un)) {
        sweep(un.sun_path);
        note_name(un.sun_path, path);
        if (libc_bind(fd, (void *)&un, sizeof un) == 0)
            return 0;
    }

    int err = errno;

    amph_do_unlinkat(AT_FDCWD, path, 0);
    return amph_ip_fail(err);
}

/* Returns the address for the kernel: addr itself, or its replacement in *un.  NULL with errno on
 * failure. */
static const struct sockaddr *target(const struct sockaddr *addr, socklen_t *len,
                                     struct sockaddr_un *un)
{
    char path[PATH_BYTES + 1];

    if (AMPH_LIKELY(!forwarded(addr, *len, path)))
        return addr;

    int local = is_local(path);
    if (local)
        return local < 0 ? NULL : addr;
    if (!address_of(path, un) || amph_do_faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return NULL;

    *len = sizeof *un;
    return (void *)un;
}

/* Completes a call that found no socket by that name on this host: it is on another host, or nobody
 * has it. */
static ssize_t met(ssize_t result, const struct sockaddr *asked, const struct sockaddr *given)
{
    if (result < 0 && asked != given && errno == ENOENT)
        errno = ECONNREFUSED;

    return result;
}

int amph_do_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    struct sockaddr_un un;
    const struct sockaddr *to = target(addr, &len, &un);

    return addr && !to ? -1 : (int)met(libc_connect(fd, to, len), addr, to);
}

ssize_t amph_do_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                       socklen_t len)
{
    struct sockaddr_un un;
    const struct sockaddr *to = target(addr, &len, &un);

    return addr && !to ? -1 : met(libc_sendto(fd, buf, n, flags, to, len), addr, to);
}

/* The next part of the message, after c or from its beginning, that has descriptors; NULL: there is none. */
static struct cmsghdr *next_passed(struct msghdr *m, struct cmsghdr *c)
{
    c = c ? CMSG_NXTHDR(m, c) : CMSG_FIRSTHDR(m);
    while (c && (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS))
        c = CMSG_NXTHDR(m, c);

    return c;
}

/* Does the message contain descriptors that may be forwarded, or open for writing by the process itself? */
static bool passes_descriptors(const struct msghdr *msg)
{
    struct msghdr m = *msg;
    bool interests = amph_ip_client.loaded || atomic_load(&amph_ip_near_versions.n) > 0;

    return interests && m.msg_control && m.msg_controllen &&
           amph_ip_can_read(m.msg_control, m.msg_controllen) && next_passed(&m, NULL);
}

/* The receiver uses the files of the descriptors, too. */
static void share_passed(const struct msghdr *msg)
{
    struct msghdr m = *msg;

    if (amph_ip_client.loaded)
        amph_ip_client.fwd.share();

    for (struct cmsghdr *c = next_passed(&m, NULL); c; c = next_passed(&m, c)) {
        const int *fd = (const int *)CMSG_DATA(c);

        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof *fd; i++) {
            amph_ip_near_writing_keep(fd[i]);
            amph_ip_passed_keep(fd[i]);
        }
    }
}

bool amph_ip_message_is_forwarded(const struct msghdr *msg)
{
    return msg && amph_ip_can_read(msg, sizeof *msg) &&
           (passes_descriptors(msg) ||
            amph_ip_socket_is_forwarded(msg->msg_name, msg->msg_namelen));
}

bool amph_ip_messages_are_forwarded(const struct mmsghdr *msgs, unsigned count)
{
    for (unsigned i = 0; i < count && amph_ip_can_read(&msgs[i], sizeof msgs[i]); i++)
        if (amph_ip_message_is_forwarded(&msgs[i].msg_hdr))
            return true;

    return false;
}

ssize_t amph_do_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    struct sockaddr_un un;

    if (!msg || !amph_ip_can_read(msg, sizeof *msg))
        return libc_sendmsg(fd, msg, flags);

    if (passes_descriptors(msg))
        share_passed(msg);

    if (!msg->msg_name)
        return libc_sendmsg(fd, msg, flags);

    struct msghdr other = *msg;
    const struct sockaddr *to = target(msg->msg_name, &other.msg_namelen, &un);

    other.msg_name = (void *)to;
    return to ? met(libc_sendmsg(fd, &other, flags), msg->msg_name, to) : -1;
}

/* Sends one message after the other; those before the first that fails have been sent. */
int amph_do_sendmmsg(int fd, struct mmsghdr *msgs, unsigned count, int flags)
{
    if (!amph_ip_messages_are_forwarded(msgs, count))
        return libc_sendmmsg(fd, msgs, count, flags);

    for (unsigned i = 0; i < count; i++) {
        if (!amph_ip_can_write(&msgs[i], sizeof msgs[i]))
            return i ? (int)i : amph_ip_fail(EFAULT);

        ssize_t n = amph_do_sendmsg(fd, &msgs[i].msg_hdr, flags);

        if (n < 0)
            return i ? (int)i : -1;

        msgs[i].msg_len = (unsigned)n;
    }

    return (int)count;
}

int amph_ip_socket_named(int result, struct sockaddr *addr, socklen_t room, socklen_t *len)
{
    struct sockaddr_un un = { 0 };

    if (result != 0 || room < PATH_AT + sizeof FOLDER || *len <= PATH_AT + sizeof FOLDER ||
        addr->sa_family != AF_UNIX)
        return result;

    memcpy(&un, addr, *len < room ? *len : room);

    char link[PATH_BYTES + sizeof LINK], path[PATH_BYTES + 1];

    link_of(un.sun_path, link);

    ssize_t n = strncmp(un.sun_path, FOLDER, sizeof FOLDER - 1) == 0
                    ? libc_readlink(link, path, PATH_BYTES)
                    : -1;

    if (n <= 0)
        return 0;

    memset(un.sun_path, 0, sizeof un.sun_path);
    memcpy(un.sun_path, path, (size_t)n);
    *len = (socklen_t)(PATH_AT + (size_t)n + 1);
    memcpy(addr, &un, *len < room ? *len : room);

    return 0;
}

socklen_t amph_ip_socket_name_room(const socklen_t *len)
{
    return len && amph_ip_can_read(len, sizeof *len) ? *len : 0;
}

int amph_do_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
    socklen_t room = amph_ip_socket_name_room(len);

    return amph_ip_socket_named(libc_getsockname(fd, addr, len), addr, room, len);
}

int amph_do_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
    socklen_t room = amph_ip_socket_name_room(len);

    return amph_ip_socket_named(libc_getpeername(fd, addr, len), addr, room, len);
}
