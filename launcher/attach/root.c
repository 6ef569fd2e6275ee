/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mount points for directories that the host does not have.
 *
 * The nearest existing directory above the mount point is replaced by a tmpfs, in which its entries
 * are bound again and the mount point is added.  Then the tmpfs becomes read-only, so that creating
 * a file beside the mount point fails.  An overlay would accept the file, and lose it at the end.
 *
 * Layer: launcher.  Thread rule: one thread, in a mount namespace of its own.
 */
#include "launcher/attach/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 4
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif

/* The directory that the tmpfs replaces. */
struct copied {
    char source[PATH_MAX]; /* path of its entries */
    char target[PATH_MAX]; /* path of the tmpfs */
    const char *stage;     /* entry of "/" at which the tmpfs is created, or NULL */
    int stage_tree;        /* mount of the original directory of that entry */
};

static int join(char *out, const char *dir, const char *name)
{
    int n = snprintf(out, PATH_MAX, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
    return n < PATH_MAX ? 0 : ENAMETOOLONG;
}

static int make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;

    close(fd);
    return 0;
}

static int make_folder(const char *path)
{
    return mkdir(path, 0700) == 0 ? 0 : errno;
}

/* Binds entry `name` of the copied directory in the tmpfs. */
static int bind_entry(const struct copied *c, const char *name)
{
    char from[PATH_MAX], to[PATH_MAX], target[PATH_MAX];
    struct stat st;
    int err = join(from, c->source, name);

    if (!err)
        err = join(to, c->target, name);

    if (err)
        return err;

    bool is_stage = c->stage && strcmp(c->stage + 1, name) == 0;

    if (!is_stage && lstat(from, &st) != 0)
        return errno == ENOENT || errno == EACCES || errno == ENOTCONN ? 0 : errno;

    if (is_stage)
        st.st_mode = S_IFDIR;

    if (S_ISLNK(st.st_mode)) {
        ssize_t n = readlink(from, target, sizeof target - 1);

        if (n < 0)
            return errno;

        target[n] = 0;
        return symlink(target, to) == 0 ? 0 : errno;
    }

    err = S_ISDIR(st.st_mode) ? make_folder(to) : make_file(to);
    if (err)
        return err;

    if (is_stage)
        return syscall(SYS_move_mount, c->stage_tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) ==
                       0
                   ? 0
                   : errno;

    return mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0 ? 0 : errno;
}

static int bind_entries(const struct copied *c, DIR *dir)
{
    struct dirent *d;
    int err = 0;

    while (!err && (d = readdir(dir)) != NULL)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            err = bind_entry(c, d->d_name);

    return err;
}

/* Creates the directories `rest` ("a/b") below dir. */
static int make_below(const char *dir, const char *rest)
{
    char path[PATH_MAX];
    int err = join(path, dir, rest);

    for (char *at = path + strlen(dir) + 1; !err && (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            err = errno;

        *at = '/';
    }

    if (!err && mkdir(path, 0755) != 0 && errno != EEXIST)
        err = errno;

    return err;
}

static int mount_tmpfs(const char *target, mode_t mode)
{
    char data[32];

    snprintf(data, sizeof data, "mode=%o,size=16m", (unsigned)(mode & 07777));
    return mount("iofwd", target, "tmpfs", MS_NOSUID | MS_NODEV, data) == 0 ? 0 : errno;
}

static int make_readonly(const char *target)
{
    const unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    return mount(NULL, target, NULL, flags, NULL) == 0 ? 0 : errno;
}

/* Makes the tmpfs the root. */
static int change_root(const char *target)
{
    if (chdir(target) != 0)
        return errno;

    if (syscall(SYS_pivot_root, ".", ".") == 0) {
        if (umount2(".", MNT_DETACH) != 0)
            return errno;
    } else if (mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0) {
        return errno; /* the initial root file system cannot be pivoted, so the tmpfs is moved over it */
    }

    return chdir("/") == 0 ? 0 : errno;
}

/* Returns a directory of "/" at which the tmpfs can be created. */
static const char *find_stage(void)
{
    static const char *const dirs[] = { "/mnt", "/tmp", "/var", "/usr", "/etc" };
    struct stat st;

    for (unsigned i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        if (lstat(dirs[i], &st) == 0 && S_ISDIR(st.st_mode))
            return dirs[i];

    return NULL;
}

/* Says where the entries of the root come from, and where their copies are mounted. */
static int copy_root(struct copied *c)
{
    c->stage = find_stage();
    if (!c->stage)
        return ENOENT;

    snprintf(c->source, sizeof c->source, "/");
    snprintf(c->target, sizeof c->target, "%s", c->stage);
    c->stage_tree = (int)syscall(SYS_open_tree, AT_FDCWD, c->stage,
                                 OPEN_TREE_CLONE | O_CLOEXEC | AT_RECURSIVE);
    return c->stage_tree >= 0 ? 0 : errno;
}

static void copy_directory(struct copied *c, const char *above, int old)
{
    snprintf(c->source, sizeof c->source, "/proc/self/fd/%d", old);
    snprintf(c->target, sizeof c->target, "%s", above);
}

static int replace(const char *above, const char *rest)
{
    bool is_root = strcmp(above, "/") == 0;
    struct copied c = { .stage_tree = -1 };
    struct stat st;
    DIR *dir = opendir(above);
    int old = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int err = dir && old >= 0 && stat(above, &st) == 0 ? 0 : errno;

    if (!err && is_root)
        err = copy_root(&c);
    else if (!err)
        copy_directory(&c, above, old);

    if (!err)
        err = mount_tmpfs(c.target, st.st_mode);

    if (!err)
        err = bind_entries(&c, dir);

    if (!err)
        err = make_below(c.target, rest);

    if (!err)
        err = make_readonly(c.target);

    if (!err && is_root)
        err = change_root(c.target);

    if (dir)
        closedir(dir);

    if (old >= 0)
        close(old);

    if (c.stage_tree >= 0)
        close(c.stage_tree);

    return err;
}

int amph_attach_make_dir(const char *path)
{
    char above[PATH_MAX], real[PATH_MAX];
    struct stat st;

    if (stat(path, &st) == 0)
        return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (errno != ENOENT && errno != ENOTCONN)
        return errno;

    snprintf(above, sizeof above, "%s", path);
    for (char *slash; (slash = strrchr(above, '/')) != NULL && slash > above;) {
        *slash = 0;
        if (stat(above, &st) == 0) {
            if (!S_ISDIR(st.st_mode))
                return ENOTDIR;

            return realpath(above, real) ? replace(real, path + (slash + 1 - above)) : errno;
        }
    }

    return replace("/", path + 1);
}
