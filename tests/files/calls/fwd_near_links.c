/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_near_links SECTION DIRECTORY SCRATCH: paths with symbolic links, for a process that opens files by itself if its
 * servers are near.  Prints what calls gave; fwd_near_links.sh runs it in a local directory and in a forwarded one and
 * compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_make.h"
#include "tests/files/fwd_say.h"

static void make_tree(void)
{
    IS(mkdir(in("dir"), 0755), 0);
    IS(mkdir(in("dir/sub"), 0755), 0);
    make_file("top", "top\n");
    make_file("dir/file", "in the directory\n");
    make_file("dir/sub/deep", "deep\n");
    IS(symlink("dir/file", in("link")), 0);
    IS(symlink("dir", in("way")), 0);
    IS(symlink("way", in("chain")), 0);
    IS(symlink("..", in("dir/up")), 0);
    IS(symlink("../../top", in("dir/sub/top")), 0);
    IS(symlink("loop", in("loop")), 0);
    IS(symlink("dir/none", in("dangling")), 0);
    IS(symlink("none/none", in("nowhere")), 0);
    IS(symlink("fifo", in("tofifo")), 0);
    IS(symlink(in("dir"), in("absolute")), 0);
    IS(mkfifo(in("fifo"), 0600), 0);
}

static const char *const names[] = {
    "link",          "link/",          "way",         "way/",
    "way/file",      "way/file/",      "way/none",    "way/sub/deep",
    "chain",         "chain/file",     "chain/sub",   "dir/up/top",
    "dir/up/way",    "dir/up/link",    "dir/sub/top", "way/sub/top",
    "way/up/link",   "way/../top",     "way/./file",  "way/sub/..",
    "way/..",        "loop",           "loop/x",      "dangling",
    "dangling/x",    "nowhere",        "tofifo",      "absolute",
    "absolute/file", "absolute/none",  "way/up",      "chain/up/link",
    "link/x",        "dir/up/up/none", "chain//sub/", "way/sub/../file",
};

/* From where the names are looked up: the directory, by an open one and by the working directory. */
enum from {
    BY_NAME,
    BY_DESCRIPTOR,
    BY_WORKING_DIRECTORY,
    NFROM
};

static int base = -1;

/* The name as the call gets it, relative to *at_p. */
static const char *start(enum from from, const char *name, int *at_p)
{
    *at_p = from == BY_DESCRIPTOR ? base : AT_FDCWD;
    return from == BY_NAME ? in(name) : name;
}

static void say_result(const char *what, long result)
{
    printf("  %s: %ld%s%s\n", what, result, result < 0 ? " " : "",
           result < 0 ? strerrorname_np(errno) : "");
}

/* ---- look-ups ---- */

static void look_up(int at, const char *name)
{
    char target[PATH_MAX];
    struct statx stx;
    struct stat st;
    ssize_t n;

    say_result("stat", fstatat(at, name, &st, 0) == 0 ? (long)(st.st_mode & S_IFMT) : -1);
    say_result("lstat",
               fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (long)(st.st_mode & S_IFMT) : -1);
    say_result("statx",
               statx(at, name, 0, STATX_BASIC_STATS, &stx) == 0 ? stx.stx_mode & S_IFMT : -1);
    say_result("exists", faccessat(at, name, F_OK, 0));
    say_result("may be read", faccessat(at, name, R_OK, 0));
    say_result("may be written", faccessat(at, name, W_OK, AT_EACCESS));
    say_result("may be executed", faccessat(at, name, X_OK, 0));
    say_result("exists itself", faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW));

    n = readlinkat(at, name, target, sizeof target);
    say_result("readlink", n > 0 ? 1 : n);
    if (n > 0)
        printf("  %.*s\n", (int)n, target);
}

/* Attributes of what a path leads to, and of a link itself. */
static void say_attributes(const char *name)
{
    static const char *const attributes[] = { "user.text", "user.none", "system.posix_acl_access" };
    char value[64];

    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        say_result(attributes[i], getxattr(in(name), attributes[i], value, sizeof value));
        say_result("of itself", lgetxattr(in(name), attributes[i], value, sizeof value));
    }

    say_result("names", listxattr(in(name), value, sizeof value));
    say_result("names of itself", llistxattr(in(name), value, sizeof value));
}

static void open_and_read(int at, const char *name, int flags)
{
    char text[64] = "";
    int fd = openat(at, name, flags | (flags & O_PATH ? 0 : O_NONBLOCK), 0600);
    struct stat st;
    long n = -1;

    say_result("open", fd < 0 ? -1 : 0);
    if (fd < 0)
        return;

    if (!(flags & (O_PATH | O_DIRECTORY)) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = read(fd, text, sizeof text - 1);

    printf("  flags %#o, %ld bytes, %s\n", (unsigned)fcntl(fd, F_GETFL), n, text);
    close(fd);
}

static void section_look_ups(void)
{
    static const int flags[] = {
        O_RDONLY, O_RDONLY | O_NOFOLLOW, O_RDONLY | O_DIRECTORY, O_PATH, O_PATH | O_NOFOLLOW,
        O_RDWR,   O_PATH | O_DIRECTORY
    };

    make_tree();
    say_result("setxattr", setxattr(in("dir/file"), "user.text", "text", 4, 0));
    base = open(in("."), O_RDONLY | O_DIRECTORY);
    IS(chdir(in(".")), 0);
    for (int from = 0; from < NFROM; from++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            int at;
            const char *name = start(from, names[i], &at);

            printf("%s, %d\n", names[i], from);
            look_up(at, name);
            if (from == BY_NAME)
                say_attributes(names[i]);

            for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
                open_and_read(at, name, flags[k]);
        }
}

/* From a directory below: links lead above where the look-up starts. */
static void section_below(void)
{
    static const char *const below[] = { "up/top",  "up/way/file",     "sub/top", "up/link",
                                         "../link", "../way/sub/deep", "up" };

    make_tree();
    IS(chdir(in("way")), 0);
    base = open(in("chain"), O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        for (int from = BY_DESCRIPTOR; from < NFROM; from++) {
            int at = from == BY_DESCRIPTOR ? base : AT_FDCWD;

            printf("%s, %d\n", below[i], from);
            look_up(at, below[i]);
            open_and_read(at, below[i], O_RDONLY);
        }
}

/* ---- changes ---- */

static void write_to(const char *name, int flags)
{
    int fd = open(in(name), O_WRONLY | flags, 0600);

    printf("%s, %#o\n", name, (unsigned)flags);
    say_result("open", fd < 0 ? -1 : 0);
    if (fd < 0)
        return;

    say_result("write", write(fd, name, strlen(name)));
    close(fd);
}

static void section_changes(void)
{
    static const char *const written[] = { "link", "way/file", "chain/sub/deep", "way/sub/top",
                                           "dir/up/top" };
    static const char *const created[] = { "way/new", "chain/sub/new", "dangling",
                                           "nowhere", "link",          "loop",
                                           "way",     "absolute/made", "way/up/newer" };

    make_tree();
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        write_to(written[i], 0);
        write_to(written[i], O_APPEND);
        write_to(written[i], O_TRUNC);
    }

    for (size_t i = 0; i < sizeof created / sizeof *created; i++) {
        write_to(created[i], O_CREAT | O_EXCL);
        write_to(created[i], O_CREAT | O_EXCL | O_NOFOLLOW);
        write_to(created[i], O_CREAT | O_NOFOLLOW);
        write_to(created[i], O_CREAT);
    }

    T(mkdir(in("way/made"), 0755));
    T(mkdir(in("dangling"), 0755));
    T(mkdir(in("way/made/"), 0755));
    T(mkdir(in("chain/sub/made/"), 0755));
    T(rename(in("way/new"), in("chain/sub/moved")));
    T(rename(in("way/up/newer"), in("way/newer")));
    T(rename(in("link"), in("way/moved_link")));
    T(rename(in("way/moved_link"), in("link")));
    T(rename(in("way"), in("chain/way")));
    T(rename(in("dir/way"), in("way")));
    T(rmdir(in("way/made")));
    T(rmdir(in("way/")));
    T(rmdir(in("way")));
    T(unlink(in("chain/newer")));
    T(unlink(in("chain/none")));
    T(unlink(in("chain/sub")));
    T(unlink(in("way/up")));
    T(unlink(in("way/")));
    T(unlink(in("loop/x")));
    T(unlink(in("loop")));
    T(unlink(in("dangling")));
}

static void say_stat(const char *name, int flags)
{
    struct stat st;

    if (fstatat(AT_FDCWD, in(name), &st, flags) == 0)
        printf("  %s: %o, %u, %u, times %ld %ld, %u links\n", name, st.st_mode, st.st_uid,
               st.st_gid, st.st_atim.tv_sec < 1000 ? (long)st.st_atim.tv_sec : -1,
               st.st_mtim.tv_sec < 1000 ? (long)st.st_mtim.tv_sec : -1, (unsigned)st.st_nlink);
}

/* Attributes by names with links, and of links. */
static void section_attributes(void)
{
    const struct timespec times[2] = { { .tv_sec = 100 }, { .tv_sec = 200 } };
    const struct timespec later[2] = { { .tv_sec = 300 }, { .tv_nsec = UTIME_OMIT } };

    make_tree();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = names[i];

        printf("%s\n", name);
        say_result("chmod", chmod(in(name), 0700 + (mode_t)i));
        say_stat(name, 0);
        say_result("chmod of itself", fchmodat(AT_FDCWD, in(name), 0640, AT_SYMLINK_NOFOLLOW));
        say_result("chown", chown(in(name), geteuid(), (gid_t)-1));
        say_result("lchown", lchown(in(name), (uid_t)-1, getegid()));
        say_result("utimens", utimensat(AT_FDCWD, in(name), times, 0));
        say_stat(name, 0);
        say_result("utimens of itself", utimensat(AT_FDCWD, in(name), later, AT_SYMLINK_NOFOLLOW));
        say_stat(name, AT_SYMLINK_NOFOLLOW);
        say_result("now", utimensat(AT_FDCWD, in(name), NULL, 0));
        say_stat(name, 0);
    }
}

/* New links and hard links, by names with links. */
static void section_new_links(void)
{
    static const char *const places[] = { "new",    "way/new",      "chain/sub/new", "dir/up/new",
                                          "link",   "dangling",     "way",           "way/new/",
                                          "loop/x", "absolute/new", "none/x" };

    make_tree();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *name = places[i];

        printf("%s\n", name);
        say_result("symlink", symlink("../dir/file", in(name)));
        say_result("symlink again", symlink("x", in(name)));
        if (strstr(name, "new"))
            say_result("unlink", unlink(in(name)));

        say_result("link", link(in("way/file"), in(name)));
        say_result("link of a link", link(in("link"), in(name)));
        say_result("link of a directory", link(in("way/sub"), in(name)));
        say_result("followed", linkat(AT_FDCWD, in("link"), AT_FDCWD, in(name), AT_SYMLINK_FOLLOW));
        say_stat("dir/file", 0);
    }
}

/* ---- links of open files ---- */

/* A name of the test's directory; what begins with a slash, and no name, stand for themselves. */
static const char *place(const char *name)
{
    return !name[0] || name[0] == '/' ? name : in(name);
}

/* Links by each set of flags, and tells what has become of the open file. */
static void link_open(int fd, int at, const char *from, const char *to)
{
    static const int flags[] = { 0, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH,
                                 AT_SYMLINK_FOLLOW | AT_EMPTY_PATH };
    struct stat st;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        printf("  to %s, %#x\n", to, (unsigned)flags[i]);
        say_result("linkat", linkat(at, from, AT_FDCWD, place(to), flags[i]));
        if (strstr(to, "new") && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && st.st_nlink > 1) {
            say_result("names", (long)st.st_nlink);
            say_result("unlink", unlink(place(to)));
        }
    }

    unlink(in("dir/none")); /* to which "dangling" leads */
}

static void link_to_bad_pointers(int fd)
{
    const char *volatile no_text = NULL;
    char number[64];

    snprintf(number, sizeof number, "/proc/self/fd/%d", fd);
    say_result("to NULL", linkat(fd, "", AT_FDCWD, no_text, AT_EMPTY_PATH));
    say_result("by number", linkat(AT_FDCWD, number, AT_FDCWD, (char *)1, AT_SYMLINK_FOLLOW));
    say_result("of NULL", linkat(fd, no_text, AT_FDCWD, in("new"), AT_EMPTY_PATH));
}

/* New names of open files: those that the process has opened by itself, those of the server, and local ones. */
static void section_open_files(void)
{
    static const struct {
        const char *name;
        int flags;
    } opened[] = { { "way/file", O_RDONLY },    { "way/file", O_RDWR },
                   { "way/file", O_PATH },      { "link", O_PATH | O_NOFOLLOW },
                   { "dir", O_RDONLY },         { "fifo", O_RDWR | O_NONBLOCK },
                   { ".", O_TMPFILE | O_RDWR }, { "gone", O_RDWR },
                   { "/dev/null", O_RDONLY } };
    static const char *const forms[] = { "", "/proc/self/fd/%d", "/dev/fd/%d", "/proc/self/fd/%d/",
                                         "%d" };
    static const char *const to[] = { "new",    "way/new",  "link", "none/x",    "way/new/",
                                      ".",      "..",       "",     "dir/..",    "dangling",
                                      "link/x", "loop/x/y", "way/", "/dev/null", "/dev/none/x" };
    char from[64];

    make_tree();
    make_file("gone", "gone\n");
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        int fd = open(place(opened[i].name), opened[i].flags, 0600);
        int numbers = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);

        say_result("open", fd < 0 ? -1 : 0);
        if (strcmp(opened[i].name, "gone") == 0)
            say_result("unlink", unlink(in("gone")));

        for (size_t form = 0; form < sizeof forms / sizeof *forms; form++) {
            int at = forms[form][0] ? numbers : fd;

            snprintf(from, sizeof from, forms[form], fd);
            printf("%s, %#o, as %s\n", opened[i].name, (unsigned)opened[i].flags, forms[form]);
            for (size_t k = 0; k < sizeof to / sizeof *to; k++)
                link_open(fd, at, from, to[k]);
        }

        link_to_bad_pointers(fd);
        close(numbers);
        close(fd);
    }
}

/* ---- renames that fail ---- */

/* Names of the tree and of this host, and links to open files, which the kernel does not follow here. */
static void section_renames(void)
{
    static const char *const names[] = { "top",    "dir", "none",      "none/x",
                                         "dir/..", "..",  ".",         "new/",
                                         "link/x", "way", "/dev/null", "/dev/none/x",
                                         "/dev/.", "",    NULL,        NULL };
    enum {
        N = sizeof names / sizeof *names
    };
    char number[2][64];
    const char *name[N];

    make_tree();
    snprintf(number[0], sizeof number[0], "/proc/self/fd/%d", open(in("top"), O_RDONLY));
    snprintf(number[1], sizeof number[1], "/dev/fd/%d", open(in("dir"), O_RDONLY));
    for (int i = 0, n = 0; i < N; i++)
        name[i] = names[i] ? names[i] : number[n++];

    for (int from = 0; from < N; from++)
        for (int to = 0; to < N; to++) {
            bool here = name[from][0] == '/';

            if (here == (name[to][0] == '/') && !strstr(name[from], "..") &&
                !strstr(name[to], ".."))
                continue; /* it may not fail, and is the subject of other tests */

            printf("%s to %s\n", names[from] ? names[from] : "an open file",
                   names[to] ? names[to] : "an open file");
            say_result("rename", rename(place(name[from]), place(name[to])));
            say_result("no replacement", renameat2(AT_FDCWD, place(name[from]), AT_FDCWD,
                                                   place(name[to]), RENAME_NOREPLACE));
            say_result("exchange", renameat2(AT_FDCWD, place(name[from]), AT_FDCWD, place(name[to]),
                                             RENAME_EXCHANGE));
        }
}

/* ---- modes ---- */

static void say_mode(const char *what, long result, const char *name)
{
    struct stat st;

    say_result(what, result);
    if (lstat(in(name), &st) == 0)
        printf("  %o\n", st.st_mode);
}

static void change_modes(mode_t mode)
{
    int file = open(in("top"), O_RDWR);
    int named = open(in("top"), O_PATH);
    int directory = open(in("dir"), O_RDONLY | O_DIRECTORY);

    say_mode("chmod", chmod(in("top"), mode), "top");
    say_mode("chmod by a link", chmod(in("link"), mode), "dir/file");
    say_mode("chmod of a link", fchmodat(AT_FDCWD, in("link"), mode, AT_SYMLINK_NOFOLLOW), "link");
    say_mode("fchmod", fchmod(file, mode ^ 0100), "top");
    say_mode("fchmod by a name only", fchmod(named, mode), "top");
    say_mode("fchmod of a directory", fchmod(directory, mode), "dir");
    close(file);
    close(named);
    close(directory);
}

static void say_opened(const char *what, int fd, const char *name)
{
    say_mode(what, fd < 0 ? -1 : 0, name);
    close(fd);
    unlink(in(name));
}

static void make_modes(mode_t mode)
{
    int directory = open(in("dir"), O_RDONLY | O_DIRECTORY);

    say_mode("mkdir", mkdir(in("made"), mode), "made");
    rmdir(in("made"));
    say_mode("mkdirat", mkdirat(directory, "made", mode), "dir/made");
    rmdir(in("dir/made"));
    say_mode("mkfifo", mkfifo(in("made"), mode), "made");
    unlink(in("made"));
    say_mode("mknod", mknod(in("made"), mode, 0), "made");
    unlink(in("made"));
    say_opened("open", open(in("made"), O_CREAT | O_EXCL | O_WRONLY, mode), "made");
    say_opened("creat", creat(in("made"), mode), "made");
    say_opened("openat", openat(directory, "made", O_CREAT | O_RDWR, mode), "dir/made");
    close(directory);
}

/* Modes with bits that none has, which the kernel ignores. */
static void section_modes(void)
{
    static const mode_t modes[] = {
        0, 0640, 07777, 010644, 0100600u, 0177777u, 020000000000u | 0600, (mode_t)-1
    };

    make_tree();
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        printf("%o\n", modes[i]);
        change_modes(modes[i]);
        for (mode_t mask = 0; mask <= 022; mask += 022) {
            umask(mask);
            make_modes(modes[i]);
        }
    }
}

/* ---- links that others replace ---- */

static atomic_bool stop;

static void *replace(void *arg)
{
    for (int i = 0; !stop; i++) {
        IS(symlink(i & 1 ? "dir" : "other", in("next")), 0);
        IS(rename(in("next"), in("changing")), 0);
    }

    return NULL;
}

/* What a link leads to changes between two directories; each call finds a file of the one or of the other. */
static void section_replaced(void)
{
    pthread_t thread;
    char text[64];
    struct stat st;

    make_tree();
    IS(mkdir(in("other"), 0755), 0);
    make_file("other/file", "of the other\n");
    IS(symlink("dir", in("changing")), 0);
    IS(pthread_create(&thread, NULL, replace, NULL), 0);

    for (int i = 0; i < 3000; i++) {
        int fd = open(in("changing/file"), O_RDONLY);
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

        IS(n == 17 || n == 13, 1);
        text[n] = 0;
        IS(strcmp(text, n == 17 ? "in the directory\n" : "of the other\n"), 0);
        close(fd);
        IS(stat(in("changing/file"), &st), 0);
        IS(st.st_size == 17 || st.st_size == 13, 1);
        IS(access(in("changing"), X_OK), 0);
    }

    stop = true;
    pthread_join(thread, NULL);
    IS(unlink(in("changing")), 0);
    puts("replaced");
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "look_ups", section_look_ups },   { "below", section_below },
        { "changes", section_changes },     { "attributes", section_attributes },
        { "new_links", section_new_links }, { "open_files", section_open_files },
        { "renames", section_renames },     { "modes", section_modes },
        { "replaced", section_replaced },
    };

    if (argc < 3)
        return 2;

    dir = argv[2];
    end_after(90);
    return run_section(sections, sizeof sections / sizeof *sections, argv[1]) ? 0 : 2;
}
