/* SPDX-License-Identifier: BSD-3-Clause */
/* Exports: names, confined look-ups, links inside and out of an export. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/server/fs/exports.h"

static char root[128];
static struct amph_server_exports ex;
static unsigned fds_before;

static const char *path(const char *rel)
{
    static char buf[4][256];
    static int i;
    char *p = buf[i++ % 4];

    snprintf(p, sizeof buf[0], "%s/%s", root, rel);
    return p;
}

static void make_file(const char *rel, const char *text)
{
    FILE *f = fopen(path(rel), "w");

    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

static unsigned count_fds(void)
{
    unsigned n = 0;
    DIR *d = opendir("/proc/self/fd");

    cr_assert_not_null(d);
    while (readdir(d))
        n++;

    closedir(d);
    return n;
}

/* root/in is exported as /fwd, root/in2 as /two; root/out is not. */
static void set_up(void)
{
    char spec[400], target[256];

    snprintf(root, sizeof root, "%s/amphora-exports-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    cr_assert_not_null(mkdtemp(root));
    mkdir(path("in"), 0700);
    mkdir(path("in/d"), 0700);
    mkdir(path("in/d/e"), 0700);
    mkdir(path("in/d/longer"), 0700);
    mkdir(path("in2"), 0700);
    mkdir(path("out"), 0700);
    make_file("in/a", "A");
    make_file("in/d/b", "B");
    make_file("in2/c", "C");
    make_file("out/secret", "S");
    symlink("a", path("in/rel"));
    symlink("../a", path("in/d/up"));
    symlink("../../out/secret", path("in/d/climbs"));
    symlink("/fwd/d/b", path("in/abs-client"));
    symlink("/two/c", path("in/abs-two"));
    snprintf(target, sizeof target, "%s/in/d/b", root);
    symlink(target, path("in/abs-server"));
    snprintf(target, sizeof target, "%s/out/secret", root);
    symlink(target, path("in/abs-out"));
    symlink("/fwd/d", path("in/dirlink"));
    symlink("loop", path("in/loop"));
    symlink("/fwd/new", path("in/dangling"));
    snprintf(spec, sizeof spec, "/fwd=%s/in:/two=%s/in2", root, root);
    cr_assert_eq(amph_server_exports_open(spec, &ex), AMPH_OK);
    fds_before = count_fds();
}

static void tear_down(void)
{
    char cmd[200];

    amph_server_exports_close(&ex);
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", root);
    cr_assert_eq(system(cmd), 0);
}

static void set_up_by_parts(void)
{
    set_up();
    amph_server_open_by_parts(true);
}

TestSuite(exports, .init = set_up, .fini = tear_down);
TestSuite(exports_by_parts, .init = set_up_by_parts, .fini = tear_down);

/* A test with openat2, and as on kernels that have none. */
#define BOTH_WAYS(name) \
    static void name(void); \
    Test(exports, name) \
    { \
        name(); \
    } \
    Test(exports_by_parts, name) \
    { \
        name(); \
    } \
    static void name(void)

/* Opens a client's path: a descriptor's first byte, or minus an errno. */
static int look(const char *name, int flags)
{
    struct amph_server_path pl;
    char byte = 0;
    int err = amph_server_path_find(&ex, NULL, -1, name, &pl);

    if (err)
        return -err;

    int fd = amph_server_path_open(&pl, flags, 0600);
    if (fd < 0)
        return fd;

    ssize_t n = read(fd, &byte, 1);

    close(fd);
    return n == 1 ? byte : 0;
}

static void look_at_all(void)
{
    /* clang-format off */
    static const struct { const char *name; int want; } rows[] = {
        { "/fwd/a", 'A' }, { "/fwd//d///b", 'B' }, { "/fwd/d/../a", 'A' }, { "/two/c", 'C' }, { "/fwd/rel", 'A' }, { "/fwd/d/up", 'A' },
        { "/fwd/abs-client", 'B' }, { "/fwd/abs-server", 'B' }, { "/fwd/abs-two", 'C' }, { "/fwd/dirlink/b", 'B' },
        { "/fwd/dirlink/../a", 'A' }, { "/fwd/dirlink/up", 'A' },
        { "/fwd/abs-out", -EACCES }, { "/fwd/d/climbs", -EACCES }, { "/fwd/../out/secret", -EACCES },
        { "/fwd/d/../../out/secret", -EACCES },
        { "/other/a", -EACCES }, { "/fwdx/a", -EACCES }, { "/fwd/none", -ENOENT }, { "/fwd/none/x", -ENOENT }, { "/fwd/a/x", -ENOTDIR },
        { "/fwd/loop", -ELOOP }, { "", -ENOENT }, { "/fwd/a/", -ENOTDIR }, { "/fwd/dirlink/", 0 }, { "/fwd/d/./b", 'B' },
        { "/fwd/d/e/../../dirlink/e/../b", 'B' }, { "/fwd/dirlink/longer/../b", 'B' }, { "/fwd/dirlink/longer/../e/../b", 'B' },
        { "/fwd/dirlink/b/../b", -ENOTDIR }, { "/fwd/dirlink/b/.", -ENOTDIR }, { "/fwd/dirlink/./b", 'B' }, { "/fwd/d/b/..", -ENOTDIR },
    };

    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(look(rows[i].name, O_RDONLY), rows[i].want, "%s gives %d, not %d",
                     rows[i].name, look(rows[i].name, O_RDONLY), rows[i].want);

    cr_expect_eq(count_fds(), fds_before, "look-ups leave no descriptors behind");
}

BOTH_WAYS(plain_and_links)
{
    look_at_all();
}

/* An old kernel, or a container that knows no newer call. */
Test(exports, without_openat2)
{
    /* clang-format off */
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    /* clang-format on */
    struct sock_fprog prog = { sizeof filter / sizeof filter[0], filter };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0) {
        printf("skipped: this kernel filters no system calls (%s)\n", strerror(errno));
        cr_skip_test();
    }

    look_at_all();
}

/* What a path is for calls on it: the link, or what it leads to. */
static int type_at(const char *name, int flags)
{
    struct amph_server_path pl;
    struct stat st;
    int err = amph_server_path_find(&ex, NULL, -1, name, &pl);
    int fd = err ? -err : amph_server_path_open(&pl, O_PATH | flags, 0);

    if (fd < 0)
        return fd;

    cr_assert_eq(fstat(fd, &st), 0);
    close(fd);
    return (int)(st.st_mode & S_IFMT);
}

BOTH_WAYS(paths_only)
{
    cr_expect_eq(type_at("/fwd/rel", 0), S_IFREG);
    cr_expect_eq(type_at("/fwd/rel", O_NOFOLLOW), S_IFLNK);
    cr_expect_eq(type_at("/fwd/dirlink", 0), S_IFDIR);
    cr_expect_eq(type_at("/fwd/abs-two", 0), S_IFREG);
    cr_expect_eq(type_at("/fwd/abs-out", 0), -EACCES);
    cr_expect_eq(type_at("/fwd/d/climbs", 0), -EACCES);
    cr_expect_eq(type_at("/fwd/loop", 0), -ELOOP);
    cr_expect_eq(count_fds(), fds_before, "look-ups leave no descriptors behind");
}

BOTH_WAYS(creating_through_links)
{
    cr_assert_eq(look("/fwd/dangling", O_WRONLY | O_CREAT), 0);

    struct stat st;

    cr_assert_eq(stat(path("in/new"), &st), 0, "made where the link points");
    cr_assert_eq(look("/fwd/dangling", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
    cr_assert_eq(look("/fwd/abs-out", O_WRONLY | O_CREAT | O_TRUNC), -EACCES);
    cr_assert_eq(stat(path("out/secret"), &st), 0);
    cr_assert_eq(st.st_size, 1, "the file outside is untouched");
    cr_assert_eq(look("/fwd/dirlink/made", O_WRONLY | O_CREAT), 0);
    cr_assert_eq(stat(path("in/d/made"), &st), 0);
    cr_assert_eq(look("/fwd/abs-client", O_RDONLY | O_NOFOLLOW), -ELOOP);
}

BOTH_WAYS(parents)
{
    struct amph_server_path pl;
    const char *last;

    cr_assert_eq(amph_server_path_find(&ex, NULL, -1, "/fwd/dirlink/x", &pl), 0);

    int fd = amph_server_path_parent(&pl, &last);

    cr_assert_geq(fd, 0);
    cr_assert_str_eq(last, "x");
    cr_assert_eq(mkdirat(fd, last, 0700), 0);
    amph_server_path_put_parent(&pl, fd);

    struct stat st;

    cr_assert_eq(stat(path("in/d/x"), &st), 0);
    cr_assert_eq(amph_server_path_find(&ex, NULL, -1, "/fwd/dirlink/", &pl), 0);
    fd = amph_server_path_parent(&pl, &last);
    cr_assert_geq(fd, 0);
    cr_assert_eq(unlinkat(fd, last, AT_REMOVEDIR), -1,
                 "a slash does not lead through the link at the end");
    cr_assert_eq(errno, ENOTDIR);
    amph_server_path_put_parent(&pl, fd);
    cr_assert_eq(amph_server_path_find(&ex, NULL, -1, "/fwd/dirlink/e/../e/", &pl), 0);
    fd = amph_server_path_parent(&pl, &last);
    cr_assert_geq(fd, 0);
    cr_assert_str_eq(last, "e/");
    amph_server_path_put_parent(&pl, fd);
    cr_assert_eq(amph_server_path_find(&ex, NULL, -1, "/fwd/..", &pl), 0);
    cr_assert_eq(amph_server_path_parent(&pl, &last), -EACCES,
                 "the export's own parent is out of reach");
    cr_assert_eq(amph_server_path_find(&ex, NULL, -1, "/fwd", &pl), 0);
    fd = amph_server_path_parent(&pl, &last);
    cr_assert_str_eq(last, ".");
    amph_server_path_put_parent(&pl, fd);
}

BOTH_WAYS(relative_to_a_directory)
{
    struct amph_server_path pl;
    int dir = open(path("in/d/e"), O_RDONLY | O_DIRECTORY);

    cr_assert_eq(amph_server_path_find(&ex, &ex.item[0], dir, "../b", &pl), 0);

    int fd = amph_server_path_open(&pl, O_RDONLY, 0);

    cr_assert_geq(fd, 0, "up, but inside the export: %d", fd);
    close(fd);
    cr_assert_eq(amph_server_path_find(&ex, &ex.item[0], dir, "../../../out/secret", &pl), 0);
    cr_assert_eq(amph_server_path_open(&pl, O_RDONLY, 0), -EACCES);
    cr_assert_not_null(pl.reason);
    close(dir);
}

/* root/in2 is exported in the place of what root/in has as d: by no way does one come to that. */
BOTH_WAYS(in_each_other)
{
    /* clang-format off */
    static const struct { const char *name; int want; } rows[] = {
        { "/fwd/d/c", 'C' }, { "/fwd//d/c", 'C' }, { "/fwd/./d/c", 'C' }, { "/fwd/d/../d/c", 'C' }, { "/fwd/dirlink/c", 'C' },
        { "/fwd/tod/c", 'C' }, { "/fwd/d/../a", 'A' }, { "/fwd/d/../rel", 'A' }, { "/fwd/rel", 'A' }, { "/fwd/a", 'A' },
        { "/fwd/d/b", -ENOENT }, { "/fwd//d/b", -ENOENT }, { "/fwd/./d/b", -ENOENT }, { "/fwd/tod/b", -ENOENT },
        { "/fwd/dirlink/b", -ENOENT }, { "/fwd/d/../d/b", -ENOENT }, { "/fwd/d/../..", -EACCES }, { "/fwd/loop", -ELOOP },
    };

    /* clang-format on */
    char spec[400];
    struct amph_server_path pl;
    const char *last;

    amph_server_exports_close(&ex);
    symlink("d", path("in/tod"));
    snprintf(spec, sizeof spec, "/fwd=%s/in:/fwd/d=%s/in2", root, root);
    cr_assert_eq(amph_server_exports_open(spec, &ex), AMPH_OK);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(look(rows[i].name, O_RDONLY), rows[i].want, "%s gives %d, not %d",
                     rows[i].name, look(rows[i].name, O_RDONLY), rows[i].want);

    cr_assert_eq(amph_server_path_find(&ex, &ex.item[0], ex.item[0].fd, "./d", &pl), 0);

    int fd = amph_server_path_parent(&pl, &last);

    cr_assert_geq(fd, 0);
    cr_expect(amph_server_path_is_export(&pl, false));
    amph_server_path_put_parent(&pl, fd);
    cr_expect_eq(count_fds(), fds_before, "look-ups leave no descriptors behind");
}

/* The longest name counts, wherever it is in the list, with or without slashes behind it. */
BOTH_WAYS(longest_name)
{
    static const char *const specs[] = { "/fwd=%s/in:/fwd/d=%s/in2", "/fwd//=%s/in:/fwd/d/=%s/in2",
                                         "/fwd/d=%2$s/in2:/fwd=%1$s/in" };
    char spec[400];

    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        amph_server_exports_close(&ex);
        snprintf(spec, sizeof spec, specs[i], root, root);
        cr_assert_eq(amph_server_exports_open(spec, &ex), AMPH_OK);

        struct amph_server_path pl;

        cr_expect_eq(amph_server_path_find(&ex, NULL, -1, "/fwd/d/c", &pl), 0);
        cr_expect_str_eq(pl.export->name, "/fwd/d", "%s", spec);
        cr_expect_eq(look("/fwd/d/c", O_RDONLY), 'C', "%s", spec);
        cr_expect_eq(look("/fwd/a", O_RDONLY), 'A', "%s", spec);
    }
}

/* The same from a directory's descriptor. */
static int look_from(int dir, const char *rel)
{
    struct amph_server_path pl;
    int err = amph_server_path_find(&ex, &ex.item[0], dir, rel, &pl);
    int fd = err ? -err : amph_server_path_open(&pl, O_RDONLY, 0);

    if (fd >= 0)
        close(fd);

    return fd < 0 ? fd : 0;
}

/* A directory that somebody has moved out of the export leads nowhere outside, neither by its name
 * nor, removed, without one. */
BOTH_WAYS(moved_out)
{
    symlink("/fwd/a", path("in/d/e/link"));

    int dir = open(path("in/d/e"), O_PATH | O_DIRECTORY | O_CLOEXEC);

    cr_assert_geq(dir, 0);
    cr_expect_eq(look_from(dir, "link"), 0);
    cr_assert_eq(rename(path("in/d"), path("out/d")), 0);
    make_file("out/d/secret", "S");
    cr_expect_eq(look_from(dir, "link"), -EACCES);
    cr_expect_eq(look_from(dir, "../secret"), -EACCES);
    cr_assert_eq(unlink(path("out/d/e/link")), 0);
    cr_assert_eq(rmdir(path("out/d/e")), 0);
    cr_expect_lt(look_from(dir, "../secret"), 0);
    cr_expect_eq(look_from(dir, ".."), -EACCES);
    cr_expect_eq(look_from(dir, "../.."), -EACCES);
    close(dir);
}

Test(exports, readonly_by_name)
{
    cr_assert_eq(amph_server_exports_protect(&ex, "/two/"), AMPH_OK);
    cr_assert(!ex.item[0].readonly && ex.item[1].readonly);
    cr_assert_eq(amph_server_exports_protect(&ex, "/two:/fwd"), AMPH_OK);
    cr_assert(ex.item[0].readonly);
    cr_assert_eq(amph_server_exports_protect(&ex, "/tw"), AMPH_ERR_ARG, "a name that is no export");
}

Test(exports, mistakes_are_said)
{
    struct amph_server_exports bad;

    cr_assert_eq(amph_server_exports_open("/a=/no/such/directory/at/all", &bad), AMPH_ERR_NOENT);
    cr_assert_eq(amph_server_exports_open("relative", &bad), AMPH_ERR_ARG);
    cr_assert_eq(amph_server_exports_open("/a=", &bad), AMPH_ERR_ARG);
}
