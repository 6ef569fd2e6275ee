/* SPDX-License-Identifier: BSD-3-Clause */
/* Patterns of calls on names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/files/ratios/ratios.h"

#define DEPTH 20 /* of a deep tree */

/* ---- working directories ---- */

static void make_directories(void)
{
    must(mkdir(at("dir"), 0700) == 0 && mkdir(at("dir/sub"), 0700) == 0, "mkdir");
    must(chdir(at("dir/sub")) == 0, "chdir");
}

static void leave(void)
{
    must(chdir("/") == 0, "chdir");
}

static void call_chdir(int worker, int i)
{
    must(chdir(i & 1 ? "sub" : "..") == 0, "chdir");
}

static void call_chdir_absolute(int worker, int i)
{
    must(chdir(at(i & 1 ? "dir" : "dir/sub")) == 0, "chdir");
}

static void call_getcwd(int worker, int i)
{
    char name[PATH_MAX];

    must(getcwd(name, sizeof name) != NULL, "getcwd");
}

/* ---- one file ---- */

static void make_one(void)
{
    make_file(at("file"), 100);
}

static void call_stat(int worker, int i)
{
    struct stat st;

    must(stat(at("file"), &st) == 0, "stat");
}

static void call_statx(int worker, int i)
{
    struct statx stx;

    must(statx(AT_FDCWD, at("file"), AT_STATX_SYNC_AS_STAT, STATX_BTIME | STATX_SIZE, &stx) == 0,
         "statx");
}

static void call_stat_missing(int worker, int i)
{
    struct stat st;

    must(stat(at("none%d", i), &st) != 0 && errno == ENOENT, "stat");
}

static void call_open(int worker, int i)
{
    int fd = open(at("file"), O_RDONLY | O_CLOEXEC);

    must(fd >= 0 && close(fd) == 0, "open");
}

static void call_read_whole(int worker, int i)
{
    char text[4096];
    int fd = open(at("file"), O_RDONLY | O_CLOEXEC);
    struct stat st;

    must(fd >= 0 && fstat(fd, &st) == 0, "open");
    must(read(fd, text, sizeof text) == 100 && read(fd, text, sizeof text) == 0, "read");
    must(close(fd) == 0, "close");
}

static void call_chmod(int worker, int i)
{
    must(chmod(at("file"), i & 1 ? 0600 : 0644) == 0, "chmod");
}

static void call_utimens(int worker, int i)
{
    must(utimensat(AT_FDCWD, at("file"), NULL, 0) == 0, "utimensat");
}

static void call_realpath(int worker, int i)
{
    char name[PATH_MAX];

    must(realpath(at("file"), name) != NULL, "realpath");
}

/* ---- links ---- */

static void make_links(void)
{
    must(mkdir(at("dir"), 0700) == 0, "mkdir");
    make_file(at("dir/file"), 100);
    must(symlink("dir/file", at("link")) == 0 && symlink("dir", at("way")) == 0, "symlink");
}

static void call_stat_link(int worker, int i)
{
    struct stat st;

    must(stat(at("link"), &st) == 0, "stat");
}

static void call_open_link(int worker, int i)
{
    int fd = open(at("link"), O_RDONLY | O_CLOEXEC);

    must(fd >= 0 && close(fd) == 0, "open");
}

static void call_stat_way(int worker, int i)
{
    struct stat st;

    must(stat(at("way/file"), &st) == 0, "stat");
}

static void call_open_way(int worker, int i)
{
    int fd = open(at("way/file"), O_RDONLY | O_CLOEXEC);

    must(fd >= 0 && close(fd) == 0, "open");
}

static void call_symlink(int worker, int i)
{
    char target[100];

    must(symlink("target", at("new")) == 0, "symlink");
    must(readlink(at("new"), target, sizeof target) == 6 && unlink(at("new")) == 0, "readlink");
}

static void call_link(int worker, int i)
{
    must(link(at("file"), at("other")) == 0 && unlink(at("other")) == 0, "link");
}

/* ---- changes ---- */

static void call_create(int worker, int i)
{
    const char *name = at("new%d", i);
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);

    must(fd >= 0 && write(fd, name, 10) == 10 && close(fd) == 0, name);
    must(unlink(name) == 0, name);
}

static void call_mkdir(int worker, int i)
{
    must(mkdir(at("new"), 0700) == 0 && rmdir(at("new")) == 0, "mkdir");
}

static void make_maildir(void)
{
    must(mkdir(at("tmp"), 0700) == 0 && mkdir(at("new"), 0700) == 0, "mkdir");
}

static void call_maildir(int worker, int i)
{
    const char *name = at("tmp/%d", i);
    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);

    must(fd >= 0 && write(fd, name, 10) == 10 && fsync(fd) == 0 && close(fd) == 0, name);
    must(rename(name, at("new/%d", i)) == 0, "rename");
}

static void call_rename_over(int worker, int i)
{
    const char *name = at("file.new");
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);

    must(fd >= 0 && write(fd, name, 10) == 10 && close(fd) == 0, name);
    must(rename(name, at("file")) == 0, "rename");
}

static void call_setxattr(int worker, int i)
{
    char value[16];

    must(setxattr(at("file"), "user.ratios", "value", 5, 0) == 0, "setxattr");
    must(getxattr(at("file"), "user.ratios", value, sizeof value) == 5, "getxattr");
}

static void call_getxattr(int worker, int i)
{
    char value[16];

    must(getxattr(at("file"), "user.none", value, sizeof value) < 0 && errno == ENODATA,
         "getxattr");
}

/* ---- deep in a tree ---- */

static int deep = -1;

static void make_deep(void)
{
    char name[DEPTH * 5 + 1] = "";

    for (int i = 0; i < DEPTH; i++) {
        strcat(name, "/down");
        must(mkdir(at("%s", name + 1), 0700) == 0, name);
    }

    make_file(at("%s/file", name + 1), 10);
    deep = open(at("%s", name + 1), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(deep >= 0, name);
}

static void leave_deep(void)
{
    must(close(deep) == 0, "close");
}

static void call_openat(int worker, int i)
{
    int fd = openat(deep, "file", O_RDONLY | O_CLOEXEC);

    must(fd >= 0 && close(fd) == 0, "openat");
}

static void call_fstatat(int worker, int i)
{
    struct stat st;

    must(fstatat(deep, "file", &st, AT_SYMLINK_NOFOLLOW) == 0, "fstatat");
}

/* As programs do that trust no name: each directory is opened relative to the one above it. */
static void call_descend(int worker, int i)
{
    int dir = open(at("down"), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    for (int level = 1; level < DEPTH; level++) {
        int down = openat(dir, "down", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        must(down >= 0 && close(dir) == 0, "openat");
        dir = down;
    }

    must(close(dir) == 0, "close");
}

const struct pattern patterns_names[] = {
    /* clang-format off */
    { "chdir", make_directories, leave, NULL, call_chdir, 2000 },
    { "chdir_absolute", make_directories, leave, NULL, call_chdir_absolute, 2000 },
    { "getcwd", make_directories, leave, NULL, call_getcwd, 2000 },
    { "realpath", make_one, NULL, NULL, call_realpath, 1000 },
    { "stat", make_one, NULL, NULL, call_stat, 4000 },
    { "statx", make_one, NULL, NULL, call_statx, 4000 },
    { "stat_missing", make_one, NULL, NULL, call_stat_missing, 2000 },
    { "open+close", make_one, NULL, NULL, call_open, 2000 },
    { "read_whole_file", make_one, NULL, NULL, call_read_whole, 1000 },
    { "chmod", make_one, NULL, NULL, call_chmod, 1000 },
    { "utimensat", make_one, NULL, NULL, call_utimens, 1000 },
    { "stat_link", make_links, NULL, NULL, call_stat_link, 2000 },
    { "open_link", make_links, NULL, NULL, call_open_link, 2000 },
    { "stat_below_link", make_links, NULL, NULL, call_stat_way, 2000 },
    { "open_below_link", make_links, NULL, NULL, call_open_way, 2000 },
    { "symlink+readlink+unlink", NULL, NULL, NULL, call_symlink, 1000 },
    { "link+unlink", make_one, NULL, NULL, call_link, 1000 },
    { "create+write+unlink", NULL, NULL, NULL, call_create, 1000 },
    { "mkdir+rmdir", NULL, NULL, NULL, call_mkdir, 1000 },
    { "maildir", make_maildir, NULL, NULL, call_maildir, 500 },
    { "rename_over", make_one, NULL, NULL, call_rename_over, 1000 },
    { "setxattr+getxattr", make_one, NULL, NULL, call_setxattr, 1000 },
    { "getxattr_missing", make_one, NULL, NULL, call_getxattr, 1000 },
    { "openat_deep", make_deep, leave_deep, NULL, call_openat, 1000 },
    { "fstatat_deep", make_deep, leave_deep, NULL, call_fstatat, 1000 },
    { "descend", make_deep, leave_deep, NULL, call_descend, 100, .each = DEPTH },
    { NULL },
    /* clang-format on */
};
