/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_lookups SECTION DIRECTORY SCRATCH: look-ups of names below directories that a server has passed to this
 * process.  Prints what calls gave; fwd_lookups.sh runs it in a local directory and in a forwarded one and
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
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_say.h"

#define ENOUGH 40 /* look-ups after which a directory has been passed */

/* ---- every call on every kind of name ---- */

static const char *const names[] = {
    ".",           "..",          "file",     "file/",         "file/x",   "dir",
    "dir/",        "dir/.",       "dir/..",   "dir/file",      "dir/none", "dir//file",
    "none",        "none/x",      "dir/sub",  "dir/sub/deep",  "link",     "link/",
    "dangling",    "loop",        "loop/x",   "todir",         "todir/",   "todir/file",
    "dir/up",      "dir/up/file", "absolute", "absolute/file", "secret",   "secret/file",
    "dir/../file", "fifo",        "..hidden", "dir/...",       "run",      "dir/sub/../file",
    "./file",      "dir/./file",  "",
};

static void make_file(const char *name, mode_t mode)
{
    int fd = open(in(name), O_CREAT | O_WRONLY | O_TRUNC, mode);

    IS(fd >= 0, 1);
    IS(write(fd, name, strlen(name)), (long)strlen(name));
    close(fd);
}

static void make_tree(void)
{
    IS(mkdir(in("dir"), 0755), 0);
    IS(mkdir(in("dir/sub"), 0755), 0);
    IS(mkdir(in("secret"), 0755), 0);
    make_file("file", 0644);
    make_file("run", 0755);
    make_file("dir/file", 0600);
    make_file("dir/sub/deep", 0640);
    make_file("secret/file", 0644);
    make_file("..hidden", 0644);
    IS(symlink("file", in("link")), 0);
    IS(symlink("nothing", in("dangling")), 0);
    IS(symlink("loop", in("loop")), 0);
    IS(symlink("dir", in("todir")), 0);
    IS(symlink("..", in("dir/up")), 0);
    IS(symlink(in("dir"), in("absolute")), 0);
    IS(mkfifo(in("fifo"), 0600), 0);
    IS(chmod(in("secret"), 0), 0);
}

static void say_stat(const char *what, const char *name, int result, const struct stat *st)
{
    if (result != 0)
        printf("%s %s: %s\n", what, name, strerrorname_np(errno));
    else
        printf("%s %s: %o, %ld links, %ld bytes\n", what, name, (unsigned)st->st_mode,
               S_ISDIR(st->st_mode) ? 0 : (long)st->st_nlink,
               S_ISREG(st->st_mode) ? (long)st->st_size : 0);
}

static void say_statx(const char *what, const char *name, int result, const struct statx *st)
{
    if (result != 0)
        printf("%s %s: %s\n", what, name, strerrorname_np(errno));
    else
        printf("%s %s: %o, %u\n", what, name, (unsigned)st->stx_mode,
               (unsigned)(st->stx_mask & STATX_BASIC_STATS));
}

static void say_access(const char *what, const char *name, int result)
{
    printf("%s %s: %s\n", what, name, result == 0 ? "yes" : strerrorname_np(errno));
}

static void look_at(int base, const char *path, const char *name)
{
    static const int modes[] = { F_OK, R_OK, W_OK, X_OK, R_OK | X_OK };
    struct stat st;
    struct statx stx;
    char target[16];
    int result;

    result = fstatat(base, path, &st, 0);
    say_stat("stat", name, result, &st);
    result = fstatat(base, path, &st, AT_SYMLINK_NOFOLLOW);
    say_stat("lstat", name, result, &st);
    result = statx(base, path, 0, STATX_BASIC_STATS, &stx);
    say_statx("statx", name, result, &stx);
    result = statx(base, path, AT_SYMLINK_NOFOLLOW, STATX_MODE | STATX_SIZE, &stx);
    say_statx("statx of link", name, result, &stx);

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        say_access("access", name, faccessat(base, path, modes[i], 0));
        say_access("effective", name, faccessat(base, path, modes[i], AT_EACCESS));
        say_access("of link", name, faccessat(base, path, modes[i], AT_SYMLINK_NOFOLLOW));
    }

    long n = readlinkat(base, path, target, sizeof target);

    /* where its target is absolute, the two directories differ in it */
    if (n > 0 && *target == '/')
        n = snprintf(target, sizeof target, "absolute");

    printf("readlink %s: %s\n", name, n < 0 ? strerrorname_np(errno) : strndupa(target, (size_t)n));
}

/* Before and after the directories have been passed. */
static void section_names(void)
{
    struct stat st;

    make_tree();

    int base = open(dir, O_RDONLY | O_DIRECTORY);
    int sub = open(in("dir"), O_PATH | O_DIRECTORY);

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            look_at(AT_FDCWD, in(names[i]), names[i]);
            look_at(base, names[i], names[i]);
            look_at(sub, names[i], names[i]);
        }

        IS(chdir(in("dir")), 0);
        look_at(AT_FDCWD, "file", "file here");
        look_at(AT_FDCWD, "sub/deep", "deep here");
        look_at(AT_FDCWD, "../file", "file above");

        for (int i = 0; i < ENOUGH; i++) {
            IS(stat(in("dir/file"), &st), 0);
            IS(fstatat(base, "dir/file", &st, 0), 0);
            IS(fstatat(sub, "file", &st, 0), 0);
            IS(stat("file", &st), 0);
        }
    }

    IS(chmod(in("secret"), 0755), 0);
    close(base);
    close(sub);
}

/* ---- changes by others are seen at once ---- */

/* Has a child process, which is a client of its own, make a change. */
#define OTHER(call) \
    do { \
        pid_t child_ = fork(); \
        int status_; \
        if (child_ == 0) \
            _exit((call) == 0 ? 0 : 1); \
        IS(waitpid(child_, &status_, 0), child_); \
        IS(status_, 0); \
    } while (0)

static ino_t inode_of(const char *name)
{
    struct stat st;
    return stat(in(name), &st) == 0 ? st.st_ino : 0;
}

static void section_changes(void)
{
    IS(mkdir(in("a"), 0755), 0);
    IS(mkdir(in("b"), 0755), 0);
    IS(mkdir(in("a/sub"), 0755), 0);
    IS(mkdir(in("b/sub"), 0755), 0);
    make_file("a/sub/file", 0644);
    make_file("b/sub/file", 0644);

    ino_t first = inode_of("a/sub/file");
    ino_t second = inode_of("b/sub/file");

    for (int i = 0; i < ENOUGH; i++)
        IS(inode_of("a/sub/file"), first);

    for (int i = 0; i < 100; i++) {
        OTHER(rename(in("a"), in("c")));
        IS(inode_of("a/sub/file"), 0);
        IS(inode_of("c/sub/file"), first);
        OTHER(symlink("b", in("a")));
        IS(inode_of("a/sub/file"), second);
        IS(inode_of("a/sub/none"), 0);
        OTHER(unlink(in("a")));
        IS(inode_of("a/sub/file"), 0);
        OTHER(rename(in("c"), in("a")));
        IS(inode_of("a/sub/file"), first);
        OTHER(rename(in("a/sub/file"), in("a/sub/other")));
        IS(access(in("a/sub/file"), F_OK), -1);
        IS(access(in("a/sub/other"), R_OK), 0);
        OTHER(rename(in("a/sub/other"), in("a/sub/file")));
        IS(access(in("a/sub/file"), R_OK), 0);
        OTHER(mkdir(in("new"), 0700));
        IS(access(in("new/file"), F_OK), -1);
        OTHER(link(in("a/sub/file"), in("new/file")));
        IS(inode_of("new/file"), first);
        OTHER(unlink(in("new/file")));
        IS(access(in("new/file"), F_OK), -1);
        OTHER(rmdir(in("new")));
        IS(access(in("new"), F_OK), -1);
    }

    puts("changed");
}

/* What this process has written is in the size that a look-up shows. */
static void section_sizes(void)
{
    struct stat st;
    struct statx stx;
    int fd = open(in("grows"), O_CREAT | O_WRONLY | O_TRUNC, 0644);

    for (int i = 1; i <= 500; i++) {
        IS(write(fd, "a line\n", 7), 7);
        IS(stat(in("grows"), &st), 0);
        IS(st.st_size, 7 * i);
        IS(statx(AT_FDCWD, in("grows"), 0, STATX_SIZE, &stx), 0);
        IS(stx.stx_size, 7 * i);
    }

    close(fd);
    puts("grown");
}

/* An answer does not show who has given it: the server, or the client when it has the directories. */
static void section_attributes(void)
{
    struct statx first, stx;

    make_file("file", 0640);
    memset(&first, 0, sizeof first);
    IS(statx(AT_FDCWD, in("file"), 0, STATX_ALL | STATX_MNT_ID, &first), 0);

    for (int i = 0; i < ENOUGH; i++) {
        make_file("other", 0640); /* so the answer is not remembered */
        memset(&stx, 0, sizeof stx);
        IS(statx(AT_FDCWD, in("file"), 0, STATX_ALL | STATX_MNT_ID, &stx), 0);
        IS(stx.stx_mask, first.stx_mask);
        IS(memcmp(&stx, &first, sizeof stx), 0);
    }

    puts("the same");
}

/* ---- directories that are closed ---- */

#define MANY 50

static void section_directories(void)
{
    char name[64];
    int fd[MANY];
    ino_t ino[MANY];
    struct stat st;

    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "d%d", i);
        IS(mkdir(in(name), 0755), 0);
        snprintf(name, sizeof name, "d%d/file", i);
        make_file(name, 0644);
        ino[i] = inode_of(name);
    }

    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "d%d", i);
            fd[i] = open(in(name), O_RDONLY | O_DIRECTORY);
            IS(fd[i] >= 0, 1);
        }

        for (int k = 0; k < ENOUGH; k++)
            for (int i = round; i < MANY; i += round + 1) {
                IS(fstatat(fd[i], "file", &st, 0), 0);
                IS(st.st_ino, ino[i]);
            }

        for (int i = MANY; i-- > 0;)
            close(fd[i]);
    }

    /* removed while it is open */
    fd[0] = open(in("d0"), O_RDONLY | O_DIRECTORY);
    for (int k = 0; k < ENOUGH; k++)
        IS(fstatat(fd[0], "file", &st, 0), 0);

    OTHER(unlink(in("d0/file")));
    OTHER(rmdir(in("d0")));
    IS(fstatat(fd[0], "file", &st, 0), -1);
    T(fstatat(fd[0], "file", &st, 0));
    T(fstatat(fd[0], ".", &st, 0));
    close(fd[0]);
    T(fstatat(fd[0], "file", &st, 0));
}

/* Makes fd another name of `of` without the library's knowledge. */
static void take_number(int of, int fd)
{
#if defined __x86_64__
    long ret;
    register long flags __asm__("rdx") = O_CLOEXEC;

    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"((long)SYS_dup3), "D"((long)of), "S"((long)fd), "r"(flags)
                     : "rcx", "r11", "memory");
#else
    syscall(SYS_dup3, of, fd, O_CLOEXEC);
#endif
}

/* Takes the numbers of the descriptors of the directory that the client has, as no program should. */
static void take_numbers(int of)
{
    for (int fd = 64; fd < 1024; fd++) {
        char link[64], target[PATH_MAX];

        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);

        long n = syscall(SYS_readlink, link, target, sizeof target);

        if (n > 5 && memcmp(target + n - 5, "/kept", 5) == 0)
            take_number(of, fd);
    }
}

static void section_taken(void)
{
    struct stat st;
    int base = open(in("."), O_RDONLY | O_DIRECTORY);
    int other = open("/", O_RDONLY | O_DIRECTORY);

    make_file("file", 0644);
    ino_t ino = inode_of("file");

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ENOUGH; i++) {
            IS(inode_of("file"), ino);
            IS(fstatat(base, "file", &st, 0), 0);
            IS(st.st_ino, ino);
            IS(access(in("file"), R_OK), 0);
        }

        take_numbers(other);
    }

    puts("taken");
}

/* ---- threads and processes ---- */

static _Atomic int stop;
static ino_t wanted;

static void *look(void *unused)
{
    struct stat st;

    while (!atomic_load(&stop)) {
        bool found = stat(in("a/b/c/file"), &st) == 0;

        if (found ? st.st_ino != wanted : errno != ENOENT)
            fail("a name", found ? (long)st.st_ino : -errno, (long)wanted);

        int base = open(in("a/b"), O_RDONLY | O_DIRECTORY);

        for (int i = 0; i < 30 && base >= 0; i++)
            if (fstatat(base, "c/file", &st, 0) != 0 ? errno != ENOENT : st.st_ino != wanted)
                fail("below a directory", (long)st.st_ino, (long)wanted);

        if (base >= 0)
            close(base);
    }

    return unused;
}

static void section_threads(void)
{
    pthread_t thread[4];

    IS(mkdir(in("a"), 0755), 0);
    IS(mkdir(in("a/b"), 0755), 0);
    IS(mkdir(in("a/b/c"), 0755), 0);
    make_file("a/b/c/file", 0644);
    wanted = inode_of("a/b/c/file");

    for (int i = 0; i < 4; i++)
        IS(pthread_create(&thread[i], NULL, look, NULL), 0);

    for (int i = 0; i < 1500; i++) {
        IS(rename(in("a/b"), in("elsewhere")), 0);
        IS(inode_of("a/b/c/file"), 0);
        IS(inode_of("elsewhere/c/file"), wanted);
        IS(rename(in("elsewhere"), in("a/b")), 0);
        IS(inode_of("a/b/c/file"), wanted);
    }

    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++)
        IS(pthread_join(thread[i], NULL), 0);

    puts("joined");
}

#define FILES 7

/* Descriptors of files and of directories come by one connection. */
static void *ask_for_files(void *unused)
{
    char name[16], text[8] = "12345678";

    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "f%d", i % FILES);
        int fd = open(in(name), O_RDWR | O_CREAT, 0600);

        for (int k = 0; k < 8; k++)
            IS(pwrite(fd, text, sizeof text, k * 8), 8);

        close(fd);
    }

    return unused;
}

static void *ask_for_directories(void *unused)
{
    struct stat st;
    char name[16];

    for (int i = 0; i < 300; i++) {
        int base = open(in("."), O_RDONLY | O_DIRECTORY);

        for (int k = 0; k < ENOUGH; k++) {
            snprintf(name, sizeof name, "f%d", k % FILES);
            fstatat(base, name, &st, 0);
        }

        close(base);
    }

    return unused;
}

static void section_both(void)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++)
        IS(pthread_create(&thread[i], NULL, i & 1 ? ask_for_files : ask_for_directories, NULL), 0);
    for (int i = 0; i < 4; i++)
        IS(pthread_join(thread[i], NULL), 0);

    puts("asked");
}

/* A child looks up names itself, also after its parent has closed the directory. */
static void section_processes(void)
{
    struct stat st;
    int status;

    make_file("file", 0644);

    int base = open(dir, O_RDONLY | O_DIRECTORY);
    ino_t ino = inode_of("file");

    for (int i = 0; i < ENOUGH; i++) {
        IS(fstatat(base, "file", &st, 0), 0);
        IS(inode_of("file"), ino);
    }

    for (int k = 0; k < 10; k++) {
        pid_t child = fork();

        if (child == 0) {
            if (k % 2)
                close(base);

            for (int i = 0; i < ENOUGH; i++) {
                IS(inode_of("file"), ino);
                IS(fstatat(base, "file", &st, 0), k % 2 ? -1 : 0);
            }

            _exit(0);
        }

        IS(inode_of("file"), ino);
        IS(waitpid(child, &status, 0), child);
        IS(status, 0);
    }

    fflush(stdout);
    IS(system("i=0; while [ $i -lt 20 ]; do test -e \"$DIR/file\" || exit 1; i=$((i + 1)); done"),
       0);
    puts("looked");
}

/* ---- until another program has changed it ---- */

/* Looks until the name is no longer there, which the client may remember for IOFWD_CACHE_AGE. */
static void section_foreign(void)
{
    struct stat st;

    while (stat(in("way/file"), &st) == 0)
        ;

    for (int i = 0; i < ENOUGH; i++)
        IS(stat(in("way/file"), &st), -1);

    printf("then %s\n", strerrorname_np(errno));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "names", section_names },           { "changes", section_changes },
        { "sizes", section_sizes },           { "directories", section_directories },
        { "taken", section_taken },           { "threads", section_threads },
        { "foreign", section_foreign },       { "processes", section_processes },
        { "attributes", section_attributes }, { "both", section_both },
    };

    if (argc < 3)
        return 2;

    dir = argv[2];
    setenv("DIR", dir, 1);
    end_after(90);

    return run_section(sections, sizeof sections / sizeof *sections, argv[1]) ? 0 : 2;
}
