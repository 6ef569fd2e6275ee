/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The namespace of iofwd-run -mount; see namespace.h.
 *
 * Who has CAP_SYS_ADMIN needs a mount namespace only.  Its programs may change their user and group, so
 * all users may use the mount, and the kernel checks permissions as on a local disk.  Others need a user
 * namespace in addition, in which their user is the only one.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include "launcher/attach/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/attach/mount.h"
#include "launcher/common/message.h"
#include "launcher/common/program.h"

/* ---- what this process may do ---- */

static bool has_admin_right(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    return syscall(SYS_capget, &head, data) == 0 &&
           data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN);
}

/* Are there users besides this one, who is root in a user namespace perhaps? */
static bool sees_users(void)
{
    FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned long first, outside, count;
    unsigned long users = 0;

    while (f && fscanf(f, "%lu %lu %lu", &first, &outside, &count) == 3)
        users += count;

    if (f)
        fclose(f);

    return users > 1;
}

bool amph_attach_may_mount(void)
{
    return has_admin_right() && sees_users();
}

/* ---- a new one ---- */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);

    return ok;
}

/* Mounts of others arrive here, and those of here nowhere else. */
static bool keep_mounts_here(void)
{
    return mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
}

/* Enters a new user and mount namespace, in which the user keeps its number.  Returns 0, or an errno
 * value; *made_p: the namespace exists, and its preparation failed. */
static int make_for_one_user(bool *made_p)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();

    *made_p = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!*made_p)
        return errno;

    snprintf(map, sizeof map, "%lu %lu 1\n", (unsigned long)uid, (unsigned long)uid);

    bool ok = write_text("/proc/self/uid_map", map) && write_text("/proc/self/setgroups", "deny");

    snprintf(map, sizeof map, "%lu %lu 1\n", (unsigned long)gid, (unsigned long)gid);
    ok = ok && write_text("/proc/self/gid_map", map) && keep_mounts_here();
    return ok ? 0 : errno;
}

/* The same with the users of this host, if that is possible. */
static int make_namespace(bool *has_users_p, bool *made_p)
{
    *has_users_p = amph_attach_may_mount() && unshare(CLONE_NEWNS) == 0 && keep_mounts_here();
    return *has_users_p ? 0 : make_for_one_user(made_p);
}

bool amph_attach_enter_new(bool *has_users_p)
{
    bool made = false;
    int err = make_namespace(has_users_p, &made);

    if (err && made)
        amph_say("-mount: the namespace cannot be prepared: %s", strerror(err));
    else if (err)
        amph_say("-mount: user namespaces are forbidden here (%s); use iofwd-mount, or iofwd-run "
                 "without -mount",
                 strerror(err));

    return err == 0;
}

int amph_attach_mount_fuse(int fd, const char *source, const char *target, bool has_users)
{
    char words[160];

    snprintf(words, sizeof words, "fd=%d,rootmode=40000,user_id=%lu,group_id=%lu%s", fd,
             (unsigned long)geteuid(), (unsigned long)getegid(),
             has_users ? ",allow_other,default_permissions" : "");
    return mount(source, target, "fuse.iofwd", MS_NOSUID | MS_NODEV, words) == 0 ? 0 : errno;
}

/* ---- that of another process ---- */

static int open_of(long pid, const char *name, int flags)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    return open(path, flags | O_CLOEXEC);
}

/* Is the user namespace another one than this process's? */
static bool is_other_user_namespace(int user)
{
    struct stat mine, its;

    return fstat(user, &its) != 0 || stat("/proc/self/ns/user", &mine) != 0 ||
           its.st_ino != mine.st_ino;
}

/* A process that has entered a namespace is in its root directory, which may be above that of the others
 * (chroot). */
static bool enter_root(int root)
{
    struct stat here, its;

    if (fstat(root, &its) != 0 || stat("/", &here) != 0)
        return false;

    return (its.st_dev == here.st_dev && its.st_ino == here.st_ino) ||
           (fchdir(root) == 0 && chroot(".") == 0);
}

bool amph_attach_enter(long pid)
{
    int mnt = open_of(pid, "ns/mnt", O_RDONLY);
    int user = open_of(pid, "ns/user", O_RDONLY);
    int root = open_of(pid, "root", O_PATH);
    bool ok = mnt >= 0 && user >= 0 && root >= 0;

    if (ok && is_other_user_namespace(user))
        ok = setns(user, CLONE_NEWUSER) == 0;

    if (ok && (setns(mnt, CLONE_NEWNS) != 0 || !enter_root(root))) {
        amph_say("-mount: the namespace of process %ld cannot be joined: %s", pid, strerror(errno));
        ok = false;
    }

    if (mnt >= 0)
        close(mnt);

    if (user >= 0)
        close(user);

    if (root >= 0)
        close(root);

    return ok;
}

/* ---- whether this host allows it ---- */

enum {
    STEP_NAMESPACE = 1, /* exit codes of the process that tries */
    STEP_PREPARATION,
    STEP_DEVICE,
    STEP_MOUNT
};

/* Tries each step, and stores the errno value of the one that fails in *err_p.  Nobody serves the
 * mount, which ends with this process. */
static int try_steps(int *err_p)
{
    bool made, has_users;

    *err_p = make_namespace(&has_users, &made);
    if (*err_p)
        return made ? STEP_PREPARATION : STEP_NAMESPACE;

    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    *err_p = fd < 0 ? errno : amph_attach_mount_fuse(fd, "iofwd", "/", has_users);
    if (fd < 0)
        return STEP_DEVICE;

    return *err_p ? STEP_MOUNT : 0;
}

bool amph_attach_can_mount(char *why, size_t cap)
{
    static const char *const phrases[] = {
        [STEP_NAMESPACE] = "user namespaces are forbidden here",
        [STEP_PREPARATION] = "a user namespace cannot be prepared",
        [STEP_DEVICE] = "/dev/fuse cannot be opened",
        [STEP_MOUNT] = "the kernel forbids mounts in a namespace",
    };
    char *program = amph_program_own("iofwd-mount");
    bool installed = program != NULL;
    int pair[2], err = 0, status = 0;

    free(program);
    if (!installed) {
        snprintf(why, cap, "iofwd-mount is not part of this installation");
        return false;
    }

    if (access("/dev/fuse", R_OK | W_OK) != 0) {
        snprintf(why, cap, "%s (%s)", phrases[STEP_DEVICE], strerror(errno));
        return false;
    }

    if (pipe2(pair, O_CLOEXEC) != 0) {
        snprintf(why, cap, "no pipe can be made (%s)", strerror(errno));
        return false;
    }

    pid_t child = fork();

    if (child == 0) {
        int step = try_steps(&err);

        _exit(write(pair[1], &err, sizeof err) == sizeof err ? step : STEP_PREPARATION);
    }

    close(pair[1]);
    if (child < 0 || read(pair[0], &err, sizeof err) != sizeof err)
        err = err ? err : EAGAIN;

    close(pair[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;

    int step = child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : STEP_PREPARATION;

    if (step)
        snprintf(why, cap, "%s (%s)", phrases[step <= STEP_MOUNT ? step : STEP_PREPARATION],
                 strerror(err));

    return step == 0;
}
