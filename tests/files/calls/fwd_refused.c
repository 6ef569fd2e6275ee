/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernel interfaces that only the kernel of a file's host could serve: each fails on a forwarded
 * file with the errno that doc/limits.md says, by the C library's function and by syscall(), serves
 * local files as before, and changes no file.
 *
 *   fwd_refused PART FORWARDED LOCAL    two directories; prints "PART done", or what was wrong
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "iofwd/interpose/entry/syscall_numbers.h"
#include "tests/files/fwd_is.h"

#define REFUSED(call, with) \
    do { \
        errno = 0; \
        IS(call, -1); \
        if (errno != (with)) \
            fail(#call ": errno", errno, with); \
    } while (0)

static const char *forwarded, *local; /* directories */

static const char *in(const char *dir, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ & 3];

    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static int make(const char *dir, const char *name, const char *text)
{
    int fd = open(in(dir, name), O_RDWR | O_CREAT | O_TRUNC, 0600);

    IS(fd >= 0, 1);
    IS(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void holds(int fd, const char *text)
{
    char buf[64] = { 0 };

    IS(pread(fd, buf, sizeof buf - 1, 0), strlen(text));
    IS(strcmp(buf, text), 0);
}

/* ---- io_uring ---- */

static void part_ring(void)
{
    struct io_uring_params params = { 0 };
    bool allowed = getenv("IOFWD_IO_URING") != NULL;
    int ring = (int)syscall(SYS_io_uring_setup, 4, &params);

    if (!allowed && (ring >= 0 || errno != ENOSYS))
        fail("io_uring_setup", ring, -1);
    if (allowed && ring < 0 && errno != EPERM && errno != ENOSYS)
        fail("io_uring_setup", ring, 3);
    if (allowed && ring < 0) {
        puts("no io_uring");
        return;
    }

    if (!dlopen("liburing.so.2", RTLD_NOW | RTLD_GLOBAL)) {
        puts("no liburing");
        return;
    }

    uint64_t room[256] = { 0 }; /* a struct io_uring */
    int (*init)(unsigned, void *, unsigned) = (int (*)(unsigned, void *, unsigned))dlsym(
        RTLD_DEFAULT, "io_uring_queue_init");
    int (*init_params)(unsigned, void *, void *) = (int (*)(unsigned, void *, void *))dlsym(
        RTLD_DEFAULT, "io_uring_queue_init_params");
    void *(*probe)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "io_uring_get_probe");
    int (*setup)(unsigned, void *) = (int (*)(unsigned, void *))dlsym(RTLD_DEFAULT,
                                                                      "io_uring_setup");

    IS(init(4, room, 0), allowed ? 0 : -ENOSYS);
    memset(&params, 0, sizeof params);
    IS(init_params(4, room, &params), allowed ? 0 : -ENOSYS);
    IS(probe() != NULL, allowed);

    memset(&params, 0, sizeof params);
    if (setup)
        IS(setup(4, &params) >= 0 ? 0 : -1, allowed ? 0 : -1);
}

/* ---- being told of changes, handles ---- */

static void part_watch(void)
{
    int notes = inotify_init1(IN_NONBLOCK);
    int fd = make(forwarded, "watched", "x");
    int dir = open(forwarded, O_RDONLY | O_DIRECTORY);
    char by_number[64];

    IS(notes >= 0, 1);
    snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", fd);
    REFUSED(inotify_add_watch(notes, in(forwarded, "watched"), IN_MODIFY), EOPNOTSUPP);
    REFUSED(inotify_add_watch(notes, by_number, IN_MODIFY), EOPNOTSUPP);
    REFUSED(syscall(SYS_inotify_add_watch, notes, forwarded, IN_CREATE), EOPNOTSUPP);
    IS(inotify_add_watch(notes, local, IN_CREATE) > 0, 1);
    IS(syscall(SYS_inotify_add_watch, notes, local, IN_CREATE) > 0, 1);

    int marks = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, 0);

    REFUSED(fanotify_mark(marks, FAN_MARK_ADD, FAN_MODIFY, AT_FDCWD, forwarded), EOPNOTSUPP);
    REFUSED(fanotify_mark(marks, FAN_MARK_ADD, FAN_MODIFY, dir, "watched"), EOPNOTSUPP);
    REFUSED(fanotify_mark(marks, FAN_MARK_ADD, FAN_MODIFY, fd, NULL), EOPNOTSUPP);
    if (sizeof(void *) == 8)
        REFUSED(syscall(SYS_fanotify_mark, marks, FAN_MARK_ADD, FAN_MODIFY, dir, NULL), EOPNOTSUPP);

    REFUSED(fcntl(dir, F_NOTIFY, DN_CREATE), EOPNOTSUPP);
    REFUSED(fcntl(fd, F_SETLEASE, F_WRLCK), EOPNOTSUPP);
    REFUSED(syscall(SYS_fcntl, fd, F_SETLEASE, F_RDLCK), EOPNOTSUPP);
    REFUSED(fcntl(fd, F_SETLEASE, F_UNLCK), EAGAIN);
    IS(fcntl(fd, F_GETLEASE), F_UNLCK);

    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } u = { .handle.handle_bytes = MAX_HANDLE_SZ };
    int mount;

    REFUSED(name_to_handle_at(AT_FDCWD, in(forwarded, "watched"), &u.handle, &mount, 0),
            EOPNOTSUPP);
    REFUSED(name_to_handle_at(dir, "watched", &u.handle, &mount, 0), EOPNOTSUPP);
    REFUSED(name_to_handle_at(fd, "", &u.handle, &mount, AT_EMPTY_PATH), EOPNOTSUPP);
    REFUSED(syscall(SYS_name_to_handle_at, dir, "watched", &u.handle, &mount, 0), EOPNOTSUPP);
    REFUSED(open_by_handle_at(dir, &u.handle, O_RDONLY), ESTALE);
    REFUSED(syscall(SYS_open_by_handle_at, fd, &u.handle, O_RDONLY), ESTALE);

    /* in a forwarded directory a path may lead out of it */
    IS(chdir(forwarded), 0);
    char out[4096];

    snprintf(out, sizeof out, "..%s", local);
    IS(inotify_add_watch(notes, out, IN_CREATE) > 0, 1);
    REFUSED(inotify_add_watch(notes, ".", IN_CREATE), EOPNOTSUPP);
}

/* ---- mounts and the root ---- */

static void part_mounts(void)
{
    int dir = open(forwarded, O_RDONLY | O_DIRECTORY);
    int file = make(forwarded, "image", "x");
    const char *image = in(forwarded, "image");

    REFUSED(chroot(forwarded), EPERM);
    REFUSED(syscall(SYS_chroot, forwarded), EPERM);
    REFUSED(syscall(SYS_pivot_root, forwarded, local), EPERM);
    REFUSED(syscall(SYS_pivot_root, local, forwarded), EPERM);
    REFUSED(mount("none", forwarded, "tmpfs", 0, NULL), EPERM);
    REFUSED(syscall(SYS_mount, "none", forwarded, "tmpfs", 0, NULL), EPERM);
    REFUSED(mount(forwarded, local, NULL, MS_BIND, NULL), EPERM);
    REFUSED(syscall(SYS_mount, image, local, "ext4", 0, NULL), EPERM);
    REFUSED(umount(forwarded), EPERM);
    REFUSED(umount2(forwarded, MNT_DETACH), EPERM);
    REFUSED(syscall(SYS_umount2, forwarded, 0), EPERM);
    REFUSED(swapon(image, 0), EINVAL);
    REFUSED(syscall(SYS_swapoff, image), EINVAL);
    REFUSED(acct(image), EACCES);
    REFUSED(syscall(SYS_acct, image), EACCES);
    REFUSED(quotactl(QCMD(Q_SYNC, USRQUOTA), image, 0, NULL), ENOTBLK);
    REFUSED(syscall(SYS_quotactl, QCMD(Q_GETFMT, USRQUOTA), image, 0, NULL), ENOTBLK);
    REFUSED(syscall(SYS_quotactl_fd, dir, QCMD(Q_SYNC, USRQUOTA), 0, NULL), ENOSYS);
    REFUSED(syscall(SYS_open_tree, AT_FDCWD, forwarded, 0), EPERM);
    REFUSED(syscall(SYS_open_tree, dir, "", AT_EMPTY_PATH), EPERM);
    REFUSED(syscall(SYS_open_tree_attr, AT_FDCWD, forwarded, 0, NULL, 0), EPERM);
    REFUSED(syscall(SYS_move_mount, AT_FDCWD, local, AT_FDCWD, forwarded, 0), EPERM);
    REFUSED(syscall(SYS_move_mount, dir, "", AT_FDCWD, local, MOVE_MOUNT_F_EMPTY_PATH), EPERM);
    REFUSED(syscall(SYS_fspick, AT_FDCWD, forwarded, 0), EPERM);
    REFUSED(syscall(SYS_fsconfig, -1, FSCONFIG_SET_PATH, "source", forwarded, AT_FDCWD), EPERM);
    REFUSED(syscall(SYS_fsconfig, -1, FSCONFIG_SET_FD, "source", NULL, dir), EPERM);
    REFUSED(syscall(SYS_mount_setattr, dir, "", AT_EMPTY_PATH, NULL, 0), EPERM);
    holds(file, "x");
}

/* ---- descriptors in the arguments of ioctl ---- */

static void part_carried(void)
{
    int far = make(forwarded, "carried", "far");
    int near = make(local, "carried", "near");
    struct loop_config config = { .fd = (uint32_t)far };
    struct file_clone_range range = { .src_fd = far };
    struct {
        struct file_dedupe_range range;
        struct file_dedupe_range_info info[2];
    } same = { { .src_length = 3, .dest_count = 2 }, { { .dest_fd = near }, { .dest_fd = far } } };

    REFUSED(ioctl(near, LOOP_SET_FD, far), EINVAL);
    REFUSED(ioctl(near, LOOP_CHANGE_FD, far), EINVAL);
    REFUSED(ioctl(near, LOOP_CONFIGURE, &config), EINVAL);
    REFUSED(syscall(SYS_ioctl, near, LOOP_SET_FD, far), EINVAL);
    REFUSED(syscall(SYS_ioctl, near, LOOP_CONFIGURE, &config), EINVAL);
    REFUSED(ioctl(near, FICLONE, far), EXDEV);
    REFUSED(ioctl(near, FICLONERANGE, &range), EXDEV);
    REFUSED(ioctl(near, FIDEDUPERANGE, &same), EXDEV);
    REFUSED(ioctl(far, FICLONE, near), EOPNOTSUPP);
    REFUSED(ioctl(near, LOOP_SET_FD, near),
            ENOTTY); /* as the kernel says of what is no loop device */
    REFUSED(ioctl(near, LOOP_CONFIGURE, NULL), ENOTTY);
    holds(near, "near");
    holds(far, "far");
}

/* ---- sockets by number, and several messages ---- */

static struct sockaddr_un address(const char *name)
{
    struct sockaddr_un un = { .sun_family = AF_UNIX };

    snprintf(un.sun_path, sizeof un.sun_path, "%s/%s", forwarded, name);
    return un;
}

static void part_sockets(void)
{
    struct sockaddr_un un = address("socket");
    struct sockaddr_un got = { 0 };
    socklen_t len = sizeof got;
    char buf[8] = { 0 };
    struct stat st;
    int listens = socket(AF_UNIX, SOCK_DGRAM, 0);
    int sends = socket(AF_UNIX, SOCK_DGRAM, 0);

    IS(syscall(SYS_bind, listens, &un, sizeof un), 0);
    IS(stat(un.sun_path, &st), 0);
    IS(S_ISSOCK(st.st_mode), 1);
    IS(syscall(SYS_getsockname, listens, &got, &len), 0);
    IS(strcmp(got.sun_path, un.sun_path), 0);

    IS(syscall(SYS_sendto, sends, "one", 3, 0, &un, sizeof un), 3);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 3);

    struct iovec iov[2] = { { "two", 3 }, { "four", 4 } };
    struct mmsghdr msgs[2] = { { .msg_hdr = { &un, sizeof un, &iov[0], 1, NULL, 0, 0 } },
                               { .msg_hdr = { &un, sizeof un, &iov[1], 1, NULL, 0, 0 } } };

    IS(syscall(SYS_sendmsg, sends, &msgs[0].msg_hdr, 0), 3);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 3);
    IS(sendmmsg(sends, msgs, 2, 0), 2);
    IS(msgs[0].msg_len, 3);
    IS(msgs[1].msg_len, 4);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 3);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 4);
    IS(syscall(SYS_sendmmsg, sends, msgs, 2, 0), 2);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 3);
    IS(recv(listens, buf, sizeof buf, MSG_DONTWAIT), 4);
    IS(sendmmsg(sends, msgs, 0, 0), 0);

    IS(syscall(SYS_connect, sends, &un, sizeof un), 0);
    len = sizeof got;
    IS(syscall(SYS_getpeername, sends, &got, &len), 0);
    IS(strcmp(got.sun_path, un.sun_path), 0);

    struct sockaddr_un none = address("nobody");

    REFUSED(syscall(SYS_connect, sends, &none, sizeof none), ENOENT);
    msgs[1].msg_hdr.msg_name = &none;
    IS(sendmmsg(sends, msgs, 2, 0), 1); /* those before the first that fails */
    REFUSED(sendmmsg(sends, msgs + 1, 1, 0), ENOENT);
}

/* ---- other calls by number ---- */

static void part_numbers(void)
{
    int far = make(forwarded, "numbers", "far");
    int near = make(local, "numbers", "near");
    uint64_t range[2] = { 0, 0 }, pages[8];
    char value[8];

    if (sizeof(void *) == 8) {
        IS(syscall(SYS_fadvise64, far, 0, 0, POSIX_FADV_SEQUENTIAL), 0);
        REFUSED(syscall(SYS_fadvise64, far, 0, 0, 77), EINVAL);
    }

    REFUSED(syscall(SYS_cachestat, far, range, pages, 0), EOPNOTSUPP);
    REFUSED(syscall(SYS_setxattrat, far, "", AT_EMPTY_PATH, "user.x", value, 16), ENOSYS);
    REFUSED(syscall(SYS_getxattrat, AT_FDCWD, in(forwarded, "numbers"), 0, "user.x", value, 16),
            ENOSYS);
    REFUSED(syscall(SYS_listxattrat, AT_FDCWD, in(forwarded, "numbers"), 0, value, 8), ENOSYS);
    REFUSED(syscall(SYS_removexattrat, far, "", AT_EMPTY_PATH, "user.x"), ENOSYS);
    REFUSED(syscall(SYS_file_getattr, far, "", value, 24, AT_EMPTY_PATH), EOPNOTSUPP);
    REFUSED(syscall(SYS_file_setattr, far, "", value, 24, AT_EMPTY_PATH), EOPNOTSUPP);

    /* what the kernel itself refuses: a placeholder is no pipe */
    struct iovec iov = { "lost", 4 };

    REFUSED(syscall(SYS_vmsplice, far, &iov, 1, 0), EBADF);
    holds(far, "far");

    /* a copy of the descriptor, got by way of the process */
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int copy = self < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, self, far, 0);

    if (copy >= 0)
        holds(copy, "far");

    holds(near, "near");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {
        { "ring", part_ring },       { "watch", part_watch },     { "mounts", part_mounts },
        { "carried", part_carried }, { "sockets", part_sockets }, { "numbers", part_numbers },
    };

    if (argc != 4)
        return 2;

    forwarded = argv[2];
    local = argv[3];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run();
            printf("%s done\n", argv[1]);
            return 0;
        }

    return 2;
}
