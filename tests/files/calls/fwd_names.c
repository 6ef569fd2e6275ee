/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_names SECTION DIRECTORY SCRATCH: the ways there are to name a file.  Prints what each call
 * gave; fwd_names.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_say.h"

static const char *scratch, *self;

static int make(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    return fd < 0 ? fd : close(fd);
}

/* Runs another image of this program, which has inherited descriptors only, and says how it
 * ended. */
static void run(const char *section)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execl(self, self, section, dir, scratch, (char *)NULL);
        _exit(9);
    }

    waitpid(pid, &status, 0);
    printf("%s ended with %d\n", section, status);
    fflush(stdout);
}

/* ---- two names, of which one starts at a directory that another process has opened ---- */

#define INHERITED 20 /* the directory "held", which is also the working directory */
#define NAMELESS 21  /* a file that never had a name */
#define REMOVED 22   /* a directory that is gone */

static bool same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino;
}

static void pairs_here(void)
{
    int own = open(in("own"), O_RDONLY | O_DIRECTORY);

    T(make(in("a")));
    T(rename(in("a"), "b"));
    T(rename("b", in("own/b")));
    T(renameat(own, "b", INHERITED, "c"));
    T(renameat(INHERITED, "c", own, "d"));
    T(renameat2(own, "d", INHERITED, "new", RENAME_NOREPLACE));
    T(make(in("own/other")));
    T(renameat2(INHERITED, "new", own, "other", RENAME_EXCHANGE));
    T(renameat2(INHERITED, "new", own, "other", RENAME_NOREPLACE));
    T(linkat(own, "other", INHERITED, "hard", 0));
    T(linkat(INHERITED, "new", own, "hard", 0));
    T(same(in("own/other"), "hard"));
    T(same("new", in("own/hard")));
    T(link("hard", in("own/third")));
    T(rename(in("nothing"), "x"));
    T(renameat(INHERITED, "nothing", own, "x"));
    T(renameat(own, "other", INHERITED, "nothing/x"));
    T(renameat(own, "other", INHERITED, "hard/x"));
    T(renameat(own, "other", NAMELESS, "x"));
    T(renameat(own, "other", REMOVED, "x"));
    T(linkat(own, "other", REMOVED, "x", 0));

    /* Linux wants a capability for this one */
    T(linkat(NAMELESS, "", own, "named", AT_EMPTY_PATH) == 0 || errno == ENOENT);
    T(linkat(AT_FDCWD, "/proc/self/fd/21", own, "by-number", AT_SYMLINK_FOLLOW));

    int nameless = open(in("own"), O_TMPFILE | O_RDWR, 0600);
    char number[40];

    snprintf(number, sizeof number, "/proc/self/fd/%d", nameless);
    T(linkat(AT_FDCWD, number, INHERITED, "mine", AT_SYMLINK_FOLLOW));
    T(write(nameless, "mine", 4));
    T(rename(in("own"), "moved")); /* own is one place, its name another */
    T(renameat(INHERITED, "mine", own, "mine"));
    T(access("moved/mine", F_OK));
    T(rename("moved", in("own")));
    T(fchdir(own));
    T(rename("mine", in("held/mine")));
    T(renameat(INHERITED, "mine", AT_FDCWD, "last"));
    T(fchdir(INHERITED));
    T(rename(in("own/last"), "end"));
    close(own);
    if (system("rm -f * ../own/*") != 0)
        exit(1);

    /* each image that lives has a server of its own in turn */
    const char *deep = getenv("FWD_DEEP");

    size_t images = deep ? strlen(deep) : 0;

    if (images < 3) {
        static const char *const next[] = { "1", "12", "123" };

        setenv("FWD_DEEP", next[images], 1);
        run("pairs-here");
    }
}

static void pairs(void)
{
    T(mkdir(in("own"), 0755));
    T(mkdir(in("held"), 0755));
    T(mkdir(in("gone"), 0755));

    int held = open(in("held"), O_RDONLY | O_DIRECTORY);
    int gone = open(in("gone"), O_PATH);
    int nameless = open(dir, O_TMPFILE | O_RDWR, 0600);

    T(dup2(held, INHERITED));
    T(dup2(nameless, NAMELESS));
    T(dup2(gone, REMOVED));
    T(write(nameless, "nameless", 8));
    T(rmdir(in("gone")));
    T(chdir(in("held")));
    run("pairs-here");
    T(rename(in("held"), in("elsewhere"))); /* what is open stays, by whatever name */
    T(make(in("a")));
    T(renameat(AT_FDCWD, in("a"), held, "a"));
}

/* ---- /proc/self/fd/N ---- */

static const char *number(int fd)
{
    static char path[2][40];
    static int next;
    char *p = path[next++ & 1];

    snprintf(p, sizeof path[0], "/proc/self/fd/%d", fd);
    return p;
}

static void say_link(int fd)
{
    struct stat st;
    struct statx stx;
    char name[PATH_MAX];

    T(lstat(number(fd), &st));
    T(st.st_mode);
    T(statx(AT_FDCWD, number(fd), AT_SYMLINK_NOFOLLOW, STATX_MODE, &stx));
    T(stx.stx_mode);
    T(stat(number(fd), &st));
    T(st.st_mode);

    ssize_t n = readlink(number(fd), name, sizeof name - 1);

    name[n < 0 ? 0 : n] = 0;
    puts(name);
    puts(realpath(number(fd), name) ? name : "no path");
    fflush(stdout);
}

static void say_opened(int fd)
{
    char buf[8] = "";
    struct stat st;

    if (OK(fd) != 0)
        return;

    T(fstat(fd, &st));
    T(st.st_mode & S_IFMT);
    T(read(fd, buf, 4));
    printf("%s\n", buf);
    T(write(fd, "x", 1));
    close(fd);
}

/* The same names with more slashes and dots than are needed, of this process and of its parent. */
static void other_forms(int fd)
{
    static const char *const forms[] = { "//proc/%d/fd/%d", "/./proc/./%d/./fd/./%d",
                                         "/proc//%d//fd//%d", "/proc/%d/fd/%d/" };
    char path[64];
    struct stat st;

    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, forms[i % 4], (int)(i < 4 ? getpid() : getppid()), fd);
        T(stat(path, &st) == 0 ? (long)st.st_mode : -1);
        OK(open(path, O_RDONLY));
    }

    snprintf(path, sizeof path, "/dev//fd/./%d", fd);
    T(stat(path, &st) == 0 ? (long)st.st_mode : -1);
    T(chdir("/"));
    snprintf(path, sizeof path, "./proc/self/fd/%d", fd);
    T(faccessat(open(dir, O_PATH), path, F_OK, 0));
}

static void numbers(void)
{
    struct stat st;
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };

    T(make(in("file")));
    T(symlink("/etc/passwd", in("out")));
    T(mkfifo(in("fifo"), 0600));

    int path = open(in("file"), O_PATH);
    int reader = open(in("file"), O_RDONLY);
    int writer = open(in("file"), O_WRONLY);
    int link = open(in("out"), O_PATH | O_NOFOLLOW);
    int top = open(dir, O_RDONLY | O_DIRECTORY);
    int nameless = open(dir, O_TMPFILE | O_RDWR, 0600);
    int fifo = open(in("fifo"), O_RDWR);

    T(write(writer, "words", 5));
    say_link(path);
    say_link(reader);
    say_link(writer);
    say_link(top);
    T(chmod(number(path), 0640));
    T(stat(in("file"), &st));
    T(st.st_mode);
    T(utimensat(AT_FDCWD, number(path), times, 0));
    T(truncate(number(reader), 4));
    T(stat(in("file"), &st));
    T(st.st_size);
    T(chown(number(path), getuid(), getgid()));
    T(access(number(path), R_OK | W_OK));
    say_opened(open(number(reader), O_RDONLY));
    say_opened(open(number(reader), O_RDWR));
    say_opened(open(number(path), O_RDWR | O_CREAT, 0600));
    say_opened(open(number(path), O_RDWR | O_CREAT | O_EXCL, 0600));
    say_opened(open(number(path), O_RDONLY | O_DIRECTORY));
    say_opened(open(number(path), O_RDONLY | O_NOFOLLOW));
    say_opened(open(number(path), O_PATH | O_NOFOLLOW));
    say_opened(open(number(path), O_PATH));
    say_opened(open(number(link), O_RDONLY));
    say_opened(open(number(top), O_RDONLY));
    say_opened(open(number(top), O_RDWR));
    T(write(nameless, "none", 4));
    say_opened(open(number(nameless), O_RDWR));
    T(write(fifo, "pipe", 4));
    say_opened(open(number(fifo), O_RDWR | O_NONBLOCK));
    T(chmod(number(nameless), 0400));
    T(fstat(nameless, &st));
    T(st.st_mode);
    OK(open(number(path), O_WRONLY | O_TRUNC));
    T(fstat(reader, &st));
    T(st.st_size);
    fflush(stdout);

    pid_t child = fork();

    if (child == 0) {
        other_forms(reader);
        _exit(0);
    }

    T(waitpid(child, NULL, 0) == child);

    int procfs = open("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    char name[PATH_MAX], digits[16];

    snprintf(digits, sizeof digits, "%d", reader);
    T(fstatat(procfs, digits, &st, 0));
    T(st.st_mode);

    ssize_t n = readlinkat(procfs, digits, name, sizeof name - 1);

    name[n < 0 ? 0 : n] = 0;
    puts(name);
}

/* ---- a walk that changes directory ---- */

static int see(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char cwd[PATH_MAX];

    printf("%s %d from %s at %d in %s: %d\n", path, type, path + at->base, at->level,
           getcwd(cwd, sizeof cwd), access(path + at->base, F_OK));
    return strcmp(path + at->base, "stop") == 0 ? 7 : 0;
}

static void walk_from(const char *path)
{
    static const int flags[] = { 0, FTW_DEPTH, FTW_PHYS, FTW_PHYS | FTW_DEPTH };
    char cwd[PATH_MAX];

    for (int i = 0; i < 4; i++) {
        T(nftw(path, see, 20, flags[i] | FTW_CHDIR));
        puts(getcwd(cwd, sizeof cwd));
    }
}

static void walks(void)
{
    T(chdir(dir));
    T(mkdir("a", 0755));
    T(mkdir("a/b", 0755));
    T(mkdir("a/b/c", 0755));
    T(make("a/b/c/deep"));
    T(symlink("b/c", "a/link"));
    T(write(open("a/b/c/deep", O_WRONLY), "deep", 4)); /* one file with something in it */
    walk_from("a");
    walk_from("a/b/c/deep");
    walk_from("./a/b");
    walk_from(in("a/b"));
    walk_from("nothing");
    T(chdir("a/b"));
    walk_from("../b");
    T(make("c/stop"));
    T(chdir("/"));
    walk_from(in("a/b/c"));

    struct open_how how = { .flags = O_RDONLY, .resolve = RESOLVE_NO_MAGICLINKS };

    OK(syscall(SYS_openat2, AT_FDCWD, in("a/link"), &how, sizeof how));
    OK(syscall(SYS_openat2, AT_FDCWD, number(0), &how, sizeof how));

    int fd = open(in("a/b/c/deep"), O_RDONLY);

    OK(syscall(SYS_openat2, AT_FDCWD, number(fd), &how, sizeof how));
    how.resolve = RESOLVE_BENEATH; /* or ENOSYS, on which programs do without */
    T(syscall(SYS_openat2, open(dir, O_RDONLY), "a/b", &how, sizeof how) >= 0 || errno == ENOSYS);
}

/* ---- a working directory that has been removed ---- */

static void entries(const char *path)
{
    struct dirent **list;
    int n = scandir(path, &list, NULL, alphasort);

    printf("%s has %d:", path, n);
    for (int i = 0; i < n; i++)
        printf(" %s", list[i]->d_name);

    puts("");
}

static void where(void)
{
    char cwd[PATH_MAX];
    T(getcwd(cwd, sizeof cwd) ? (puts(cwd), 0) : -1);
}

static void nothing_here(void)
{
    char name[PATH_MAX];
    struct stat st;

    where();
    T(realpath(".", name) ? 0 : -1);
    T(open("x", O_RDONLY));
    T(open("x", O_CREAT | O_WRONLY, 0600));
    T(open("./x", O_CREAT | O_WRONLY, 0600));
    T(mkdir("d", 0755));
    T(symlink("to", "x"));
    T(rename("x", "y"));
    T(unlink("x"));
    T(rmdir("."));
    T(access(".", F_OK));
    T(stat(".", &st));
    T(st.st_nlink);
    entries(".");
    T(chdir("."));
    T(chdir("d"));
}

static void gone(void)
{
    struct stat st;

    T(mkdir(in("g"), 0755));
    T(make(in("g/file")));
    T(mkdir(in("g/h"), 0755));
    T(chdir(in("g/h")));
    T(rmdir(in("g/h")));
    nothing_here();
    T(stat("..", &st));
    T(S_ISDIR(st.st_mode));
    entries("..");
    T(access("../file", F_OK));
    T(access("../h", F_OK));
    T(make("../new"));
    OK(open("..", O_RDONLY | O_DIRECTORY));
    T(access("../..", X_OK));
    T(access("../../g/file", F_OK));
    T(rename("../new", "../newer"));
    fflush(stdout);
    T(system("ls .. && cat ../file && echo more >../by-shell"));
    T(chdir(".."));
    where();
    T(chdir("/"));

    /* and its parent, too */
    T(mkdir(in("g/a"), 0755));
    T(mkdir(in("g/a/b"), 0755));
    T(chdir(in("g/a/b")));
    T(rmdir(in("g/a/b")));
    T(rmdir(in("g/a")));
    nothing_here();
    T(make("../no"));
    T(stat("../..", &st));
    entries("../..");
    T(access("../../file", F_OK));
    T(chdir("../.."));
    where();

    /* one that comes again is another one */
    T(mkdir(in("g/h"), 0755));
    T(chdir(in("g/h")));
    T(rmdir(in("g/h")));
    T(mkdir(in("g/h"), 0755));
    nothing_here();
    T(make("../h/there"));
    entries("../h");
    T(chdir("../h"));
    where();
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "pairs", pairs },     { "pairs-here", pairs_here },
        { "numbers", numbers }, { "walks", walks },
        { "gone", gone },
    };

    if (argc != 4)
        return 2;

    self = argv[0];
    dir = argv[2];
    scratch = argv[3];

    return run_section(sections, sizeof sections / sizeof sections[0], argv[1]) ? 0 : 2;
}
