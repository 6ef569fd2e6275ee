/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_near SECTION DIRECTORY SCRATCH: files that the process opens by itself if its servers are near.  Prints what
 * calls gave; fwd_near.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/files/fwd_is.h"
#include "tests/files/fwd_make.h"
#include "tests/files/fwd_say.h"

static const char *self;

static void make_tree(void)
{
    IS(mkdir(in("dir"), 0755), 0);
    IS(mkdir(in("dir/sub"), 0755), 0);
    make_file("file", "first line\nsecond line\n");
    make_file("dir/file", "in the directory\n");
    make_file("dir/sub/deep", "deep\n");
    IS(symlink("file", in("link")), 0);
    IS(symlink("dir", in("todir")), 0);
    IS(symlink("..", in("dir/up")), 0);
    IS(mkfifo(in("fifo"), 0600), 0);
}

/* Says what can be read from fd now. */
static void say_text(const char *what, int fd)
{
    char text[256];
    ssize_t n = read(fd, text, sizeof text - 1);

    text[n > 0 ? n : 0] = 0;
    printf("%s: %ld, %s\n", what, (long)n, n < 0 ? strerrorname_np(errno) : text);
}

/* Says the entries of a directory in order. */
static void say_entries(const char *what, DIR *list)
{
    char *name[64];
    int n = 0;

    for (struct dirent *e; list && (e = readdir(list)) != NULL && n < 64;)
        name[n++] = strdup(e->d_name);

    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (strcmp(name[i], name[k]) > 0) {
                char *other = name[i];

                name[i] = name[k];
                name[k] = other;
            }

    printf("%s:", what);
    for (int i = 0; i < n; i++) {
        printf(" %s", name[i]);
        free(name[i]);
    }

    puts(list ? "" : " none");
}

/* ---- opens ---- */

static const char *const names[] = {
    "file",      "file/",    "none",        "none/x",      "dir",
    "dir/",      "dir/file", "link",        ".",           "..x",
    "todir",     "todir/",   "todir/file",  "fifo",        "",
    "dir/.",     "dir/up",   "dir/up/file", "dir/../file", "dir/sub/../file",
    "dir//file", "./file"
};

static const int flags[] = { O_RDONLY,
                             O_RDONLY | O_CLOEXEC,
                             O_RDONLY | O_NOFOLLOW,
                             O_RDONLY | O_DIRECTORY,
                             O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                             O_RDONLY | O_NONBLOCK,
                             O_RDONLY | O_NOATIME,
                             O_PATH,
                             O_PATH | O_DIRECTORY,
                             O_RDONLY | O_CREAT,
                             O_RDWR };

static void section_opens(void)
{
    make_tree();

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++) {
            if (strcmp(names[i], "fifo") == 0 && !(flags[k] & (O_NONBLOCK | O_PATH)))
                continue;
            if ((flags[k] & O_CREAT) && strncmp(names[i], "none", 4) == 0)
                continue;

            int fd = open(in(names[i]), flags[k], 0600);
            int err = errno;

            if (fd < 0) {
                printf("%s, %#o: %s\n", names[i], (unsigned)flags[k], strerrorname_np(err));
                continue;
            }

            printf("%s, %#o: number %d, flags %#o, %d\n", names[i], (unsigned)flags[k], fd,
                   (unsigned)fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
            close(fd);
        }
}

static void section_reads(void)
{
    char text[64];
    struct stat st;

    make_tree();
    FILE *f = fopen(in("file"), "r");

    IS(f != NULL, 1);
    T(fgets(text, sizeof text, f) != NULL);
    fputs(text, stdout);
    T(fseek(f, 0, SEEK_END));
    T(ftell(f));
    fclose(f);

    int fd = open(in("file"), O_RDONLY);
    int copy = dup(fd);

    T(read(fd, text, 6));
    T(lseek(copy, 0, SEEK_CUR));
    T(pread(copy, text, sizeof text, 3));
    T(write(fd, "x", 1));
    T(ftruncate(fd, 1));
    T(fstat(fd, &st));
    T(st.st_size);
    T(fchmod(fd, 0600));
    T(stat(in("file"), &st));
    T(st.st_mode);
    T(flock(fd, LOCK_SH));
    T(flock(fd, LOCK_UN));

    char *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

    IS(map != MAP_FAILED, 1);
    printf("%.10s\n", map);
    munmap(map, 4096);
    close(fd);
    say_text("the copy", copy);
    close(copy);
}

/* What the process changes itself, by whichever way, is what it reads. */
static void section_changes(void)
{
    char text[64];
    struct stat st;

    make_file("file", "0000000000");
    int reads = open(in("file"), O_RDONLY);
    int writes = open(in("file"), O_RDWR);

    for (int i = 0; i < 300; i++) {
        snprintf(text, sizeof text, "%010d", i);
        IS(pwrite(writes, text, 10, 0), 10);
        memset(text, 0, sizeof text);
        IS(pread(reads, text, 10, 0), 10);
        IS(atoi(text), i);
        IS(stat(in("file"), &st), 0);
        IS(st.st_size, 10);
    }

    IS(ftruncate(writes, 3), 0);
    IS(pread(reads, text, 10, 0), 3);
    IS(rename(in("file"), in("other")), 0);
    IS(open(in("file"), O_RDONLY), -1);
    IS(open(in("other"), O_RDONLY) >= 0, 1);
    IS(unlink(in("other")), 0);
    IS(pread(reads, text, 10, 0), 3);
    puts("changed");
}

/* A map that is written is read by files that are opened after it. */
static void section_maps(void)
{
    make_file("file", "0000000000");
    int fd = open(in("file"), O_RDWR);
    char *map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    IS(map != MAP_FAILED, 1);
    memcpy(map, "1111", 4);

    int reads = open(in("file"), O_RDONLY);

    say_text("mapped", reads);
    close(reads);
    munmap(map, 10);
    reads = open(in("file"), O_RDONLY);
    say_text("unmapped", reads);
    close(fd);
    close(reads);

    /* numbers that have been such files */
    T(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    IS(errno, EBADF);

    int ends[2];

    IS(pipe(ends), 0);
    IS(ends[0] == fd || ends[1] == fd, 1);
    T(mmap(NULL, 10, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
    IS(errno, ENODEV);
}

/* Processes see in shared maps what others write in theirs, whichever is there first. */
static void section_shared(void)
{
    make_file("file", "0000000000");

    for (int first = 0; first < 2; first++) {
        int reads = first ? open(in("file"), O_RDONLY) : -1;
        int writes = open(in("file"), O_RDWR);
        char *map = mmap(NULL, 10, PROT_READ | PROT_WRITE, MAP_SHARED, writes, 0);

        IS(map != MAP_FAILED, 1);
        map[0] = (char)('1' + first);
        if (!first)
            reads = open(in("file"), O_RDONLY);

        fflush(stdout);
        if (fork() == 0) {
            const char *seen = mmap(NULL, 10, PROT_READ, MAP_SHARED, reads, 0);

            IS(seen != MAP_FAILED, 1);
            printf("seen %c\n", *seen);
            fflush(stdout);
            _exit(0);
        }

        T(wait(NULL) > 0);
        munmap(map, 10);
        close(writes);
        close(reads);
    }
}

/* A FIFO is opened once, by the server: a writer must not see a reader that leaves at once. */
static void section_fifo(void)
{
    IS(mkfifo(in("fifo"), 0600), 0);

    for (int i = 0; i < 20; i++) {
        pid_t child = fork();

        if (child == 0) {
            int fd = open(in("fifo"), O_WRONLY);

            usleep(1000); /* a reader that came by chance would have gone by now */
            _exit(write(fd, "text", 4) == 4 ? 0 : 1);
        }

        int fd = open(in("fifo"), O_RDONLY), status;
        char text[8];

        IS(read(fd, text, sizeof text), 4);
        IS(read(fd, text, sizeof text), 0);
        close(fd);
        IS(waitpid(child, &status, 0), child);
        IS(status, 0);
    }

    puts("20 texts");
}

/* ---- directories ---- */

static void section_directories(void)
{
    struct stat st, other;
    struct statvfs fs;
    char name[PATH_MAX];

    make_tree();
    DIR *list = opendir(in("dir"));

    say_entries("dir", list);
    rewinddir(list);
    say_entries("again", list);

    int fd = dirfd(list);

    IS(fstat(fd, &st), 0);
    IS(stat(in("dir"), &other), 0);
    T(st.st_ino == other.st_ino && st.st_dev == other.st_dev);
    T(fstatat(fd, "", &st, AT_EMPTY_PATH));
    T(fstatvfs(fd, &fs));
    T(fsync(fd));
    T(fchmod(fd, 0750));
    IS(stat(in("dir"), &st), 0);
    T(st.st_mode);
    OK(fgetxattr(fd, "user.none", name, sizeof name));
    IS(read(fd, name, 1), -1);
    T(write(fd, name, 1));

    /* calls by it: those that the process makes, and those that its server makes */
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 20);

    T(faccessat(copy, "file", R_OK, 0));
    T(faccessat(copy, "file", W_OK, 0));
    T(mkdirat(copy, "new", 0700));
    T(symlinkat("file", copy, "new/link"));
    T(readlinkat(copy, "new/link", name, sizeof name));
    T(renameat(copy, "new", copy, "newer"));
    T(unlinkat(copy, "newer/link", 0));
    T(unlinkat(copy, "newer", AT_REMOVEDIR));
    OK(openat(copy, "../file", O_RDONLY));
    OK(openat(copy, "up/file", O_RDONLY));
    OK(openat(copy, "made", O_RDWR | O_CREAT, 0644));
    OK(openat(copy, "..", O_RDONLY | O_DIRECTORY));
    closedir(list);
    T(fstatat(copy, "file", &st, 0));

    /* renamed, and removed, while it is open */
    T(rename(in("dir"), in("renamed")));
    T(fstatat(copy, "file", &st, 0));
    T(mkdirat(copy, "after", 0700));
    T(stat(in("renamed/after"), &st));
    T(mkdir(in("dir"), 0700));
    T(fstatat(copy, "file", &st, 0));
    T(mkdirat(copy, "after/it", 0700));
    T(stat(in("renamed/after/it"), &st));

    int gone = open(in("renamed/after/it"), O_RDONLY | O_DIRECTORY);

    T(rmdir(in("renamed/after/it")));
    T(fstatat(gone, "x", &st, 0));
    T(fstat(gone, &st));
    T(st.st_nlink);
    T(mkdirat(gone, "x", 0700));
    close(gone);
    close(copy);
    T(fstatat(copy, "file", &st, 0));
}

/* Says whether fd is the directory of this name. */
static void say_is(const char *what, int fd, const char *name)
{
    struct stat st, other;

    if (fd < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %s\n", what,
               fstat(fd, &st) == 0 && stat(in(name), &other) == 0 && st.st_ino == other.st_ino &&
                       st.st_dev == other.st_dev
                   ? name
                   : "another one");
}

/* The directory above an open one is where the open one is now. */
static void section_above(void)
{
    struct stat st;
    char name[PATH_MAX];

    make_tree();
    IS(mkdir(in("dir/sub/low"), 0755), 0);
    IS(mkdir(in("other"), 0755), 0);
    IS(mkdir(in("other/one"), 0755), 0);

    int low = open(in("dir/sub/low"), O_RDONLY | O_DIRECTORY);
    int up = openat(low, "..", O_RDONLY | O_DIRECTORY);

    say_is("above", up, "dir/sub");
    say_is("above that", openat(up, "..", O_RDONLY), "dir");
    say_is("two above", openat(low, "../..", O_RDONLY | O_DIRECTORY), "dir");
    say_is("by its name only", openat(low, "..", O_PATH | O_DIRECTORY), "dir/sub");
    say_is("no links", openat(low, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW), "dir/sub");
    say_is("to write", openat(low, "..", O_RDWR), "dir/sub");
    T(fstatat(up, "deep", &st, 0));
    T(mkdirat(up, "new", 0700));
    T(stat(in("dir/sub/new"), &st));
    T(fchdir(up));
    printf("cwd %s\n", getcwd(name, sizeof name));
    say_is("above the working directory", open("..", O_RDONLY | O_DIRECTORY), "dir");
    T(chdir("/"));

    T(rename(in("dir/sub/low"), in("other/one/low")));
    say_is("moved", openat(low, "..", O_RDONLY | O_DIRECTORY), "other/one");
    T(rename(in("other"), in("dir/other")));
    up = openat(low, "..", O_RDONLY | O_DIRECTORY);
    say_is("the one above moved", up, "dir/other/one");
    say_is("above that", openat(up, "..", O_RDONLY), "dir/other");
    T(fchdir(up));
    printf("cwd %s\n", getcwd(name, sizeof name));
    T(chdir("/"));
    T(rmdir(in("dir/other/one/low")));
    T(fstat(low, &st));
    T(st.st_nlink);
}

/* Paths that begin with "..", of directories that exist and of one that has been removed. */
static void section_below_above(void)
{
    struct stat st;
    char text[16];

    make_tree();
    IS(mkdir(in("dir/sub/low"), 0755), 0);
    T(chdir(in("dir/sub")));
    say_text("../file", open("../file", O_RDONLY));
    say_text("../../file", open("../../file", O_RDONLY));
    say_text("..//sub/deep", open("..//sub/deep", O_RDONLY));
    say_text("../none", open("../none", O_RDONLY));
    T(open("../new", O_WRONLY | O_CREAT | O_EXCL, 0600) < 0);
    T(rename("../new", "../../newer"));
    T(access("../../newer", R_OK | W_OK));
    T(unlink("../../newer"));
    T(mkdir("../made", 0700));
    T(mkdir("../made/", 0700));
    T(rmdir("../made//"));
    T(mkdir("..", 0700));
    T(rmdir(".."));
    T(rmdir("."));
    T(readlink("../../link", text, sizeof text));
    T(readlink("../file", text, sizeof text));
    T(stat("../up/file", &st));
    T(lstat("../up", &st));
    T(S_ISLNK(st.st_mode));
    T(stat("../file/", &st));
    T(mkdir(in("."), 0700));

    T(chdir(in("dir/sub/low")));
    T(rmdir(in("dir/sub/low")));
    say_text("../deep", open("../deep", O_RDONLY));
    T(mkdir("../made", 0700));
    T(rmdir("."));
    T(chdir(".."));
    T(rmdir("made"));
    T(chdir("/"));
}

/* ---- links and descriptors ---- */

static void say_real(const char *path)
{
    char real[PATH_MAX];

    errno = 0;
    printf("%s is %s\n", path, realpath(path, real) ? real : strerrorname_np(errno));
}

/* A link with an absolute target, below the directory and out of it. */
static void section_real(void)
{
    make_tree();
    IS(symlink(in("dir"), in("absolute")), 0);
    IS(symlink("/usr", in("out")), 0);
    IS(symlink("/none/at/all", in("nowhere")), 0);
    say_real(in("out"));
    say_real(in("out/bin/../lib"));
    say_real(in("nowhere"));
    say_real(in("absolute/sub/deep"));
    say_real(in("dir/up/todir/sub"));
}

static bool is_locked(const char *name)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };
    pid_t pid = fork();
    int status = 2 << 8;

    if (pid == 0) {
        int fd = open(in(name), O_RDWR);

        _exit(fd < 0 || fcntl(fd, F_GETLK, &l) != 0 ? 2 : l.l_type != F_UNLCK);
    }

    waitpid(pid, &status, 0);
    IS(WEXITSTATUS(status) < 2, 1);
    return WEXITSTATUS(status);
}

/* Reads often, so that the server passes the descriptor if the file is open there. */
static void read_often(int fd)
{
    char byte;

    for (int i = 0; i < 100; i++)
        IS(pread(fd, &byte, 1, 0), 1);
}

/* A record lock lasts until the program closes the file, by whichever name and flags it opens it as well. */
static void section_locks(void)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10 };

    make_tree();
    int fd = open(in("file"), O_RDWR);

    T(fcntl(fd, F_SETLK, &l));
    T(is_locked("file"));

    int same = open(in("file"), O_RDONLY | O_CREAT, 0600);

    read_often(same);
    T(is_locked("file"));

    int link = open(in("link"), O_RDWR);

    read_often(link);
    T(is_locked("file"));

    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, link, 0);

    IS(map != MAP_FAILED, 1);
    T(is_locked("file"));
    munmap(map, 4096);
    T(is_locked("link"));
    close(link);
    T(is_locked("file"));

    T(fcntl(fd, F_SETLK, &l));
    T(close(same));
    T(is_locked("file"));
    close(fd);
}

/* ---- notes of changes ---- */

static int watch_of(int notes, const char *path, uint32_t mask)
{
    int w = inotify_add_watch(notes, path, mask);

    printf("watch %s: %s\n", path, w < 0 ? strerrorname_np(errno) : "added");
    return w;
}

/* The events that have come, with the names in order of their watches. */
static void say_notes(int notes)
{
    char buf[4096] __attribute__((aligned(8)));
    ssize_t n = read(notes, buf, sizeof buf);

    printf("notes: %s\n", n < 0 ? strerrorname_np(errno) : "");
    for (ssize_t at = 0; at < n;) {
        struct inotify_event *e = (struct inotify_event *)(buf + at);

        printf("  watch %d, %#x, %s\n", e->wd, (unsigned)e->mask, e->len ? e->name : "-");
        at += (ssize_t)(sizeof *e + e->len);
    }
}

static void section_notes(void)
{
    int notes = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char number[64];

    make_tree();
    int w = watch_of(notes, in("dir"), IN_CREATE | IN_DELETE | IN_MOVE | IN_CLOSE_WRITE);

    watch_of(notes, in("file"), IN_MODIFY | IN_ATTRIB);
    watch_of(notes, in("todir/sub"), IN_CREATE | IN_ONLYDIR);
    watch_of(notes, in("link"), IN_DELETE_SELF | IN_DONT_FOLLOW);
    watch_of(notes, in("file"), IN_ONLYDIR | IN_MODIFY);
    watch_of(notes, in("none"), IN_MODIFY);
    watch_of(notes, in("none/none"), IN_MODIFY);
    watch_of(notes, in("file/"), IN_MODIFY);
    watch_of(notes, in("."), IN_CREATE);

    make_file("dir/new", "new\n");
    T(rename(in("dir/new"), in("dir/sub/newer")));
    T(chmod(in("file"), 0600));
    T(truncate(in("file"), 3));
    T(unlink(in("dir/sub/newer")));
    make_file("made", "x");
    T(system("exit 3") >> 8);
    say_notes(notes);

    T(chdir(in("dir/sub")));
    T(inotify_rm_watch(notes, w));
    watch_of(notes, ".", IN_DELETE);
    watch_of(notes, "..", IN_CREATE);
    T(unlink("deep"));
    T(mkdir("../made", 0700));
    T(chdir("/"));

    int fd = open(in("file"), O_RDONLY);

    snprintf(number, sizeof number, "/proc/self/fd/%d", fd);
    T(inotify_add_watch(notes, number, IN_CLOSE) > 0);
    T(close(fd));
    T(unlink(in("link")));
    say_notes(notes);
    close(notes);
}

/* ---- attributes ---- */

static void say_attribute(const char *file, const char *name, size_t cap)
{
    char value[256] = "";
    ssize_t n = getxattr(in(file), name, cap ? value : NULL, cap);

    printf("%s, %s, %zu: %ld %s\n", file, name, cap, (long)n, n < 0 ? strerrorname_np(errno) : "");
    if (n > 0 && cap)
        printf("  %.*s\n", (int)n, name[0] == 'u' ? value : "");

    n = lgetxattr(in(file), name, cap ? value : NULL, cap);
    printf("  itself: %ld %s\n", (long)n, n < 0 ? strerrorname_np(errno) : "");
}

static void section_attributes(void)
{
    static const char *const files[] = { "file",       "link",   "dir",   "todir",    "none",
                                         "none/x",     "file/x", "fifo",  "dangling", "dir/file",
                                         "todir/file", "file/",  "link/", "dir/" };
    static const char *const attributes[] = { "user.a",
                                              "user.none",
                                              "system.posix_acl_access",
                                              "system.posix_acl_default",
                                              "security.none",
                                              "trusted.none",
                                              "none" };
    /* version 2; the user, a user by number, the group, the mask, others */
    static const unsigned char acl[] = { 2,    0,    0,    0, 1,    0,    6,    0,    0xff,
                                         0xff, 0xff, 0xff, 2, 0,    4,    0,    1,    0,
                                         0,    0,    4,    0, 4,    0,    0xff, 0xff, 0xff,
                                         0xff, 0x10, 0,    4, 0,    0xff, 0xff, 0xff, 0xff,
                                         0x20, 0,    4,    0, 0xff, 0xff, 0xff, 0xff };
    char names[256];

    make_tree();
    IS(symlink("nowhere", in("dangling")), 0);
    OK(setxattr(in("file"), "user.a", "value of a", 10, 0));
    OK(setxattr(in("dir"), "user.a", "of the directory", 16, 0));
    OK(setxattr(in("dir/file"), "system.posix_acl_access", acl, sizeof acl, 0));
    OK(setxattr(in("dir"), "system.posix_acl_default", acl, sizeof acl, 0));

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++)
            for (size_t cap = 0; cap <= 256; cap = cap ? cap * 16 : 16)
                say_attribute(files[i], attributes[k], cap);

        T(listxattr(in(files[i]), names, sizeof names));
        T(llistxattr(in(files[i]), names, sizeof names));
        T(listxattr(in(files[i]), NULL, 0));
        T(listxattr(in(files[i]), names, 1));
    }

    T(getxattr(in("file"), "user.a", (void *)8, 100));
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which read the name */
    T(getxattr(in("file"), (void *)8, names, sizeof names));
#endif

    /* a file becomes a link, and a link a file */
    for (int i = 0; i < 4; i++) {
        say_attribute("file", "system.posix_acl_access", 0);
        say_attribute("file", "user.a", 16);
        IS(rename(in("file"), in("kept")), 0);
        IS(symlink("kept", in("file")), 0);
        say_attribute("file", "system.posix_acl_access", 0);
        say_attribute("file", "user.a", 16);
        IS(unlink(in("file")), 0);
        IS(rename(in("kept"), in("file")), 0);
    }
}

/* ---- the working directory ---- */

static void say_cwd(const char *what)
{
    char name[PATH_MAX];
    struct stat st;
    char *cwd = getcwd(name, sizeof name);

    printf("%s: %s, %ld\n", what, cwd ? cwd : strerrorname_np(errno), (long)access("file", R_OK));
    printf("  above: %ld\n", (long)stat("..", &st));
}

static void section_cwd(void)
{
    struct stat st;

    make_tree();
    T(chdir(in("dir")));
    say_cwd("dir");
    T(chdir("sub"));
    say_cwd("sub");
    T(stat("deep", &st));
    T(mkdir("here", 0700));
    T(stat(in("dir/sub/here"), &st));
    T(rename(in("dir"), in("renamed")));
    say_cwd("renamed");
    T(stat("deep", &st));
    OK(open("made", O_CREAT | O_WRONLY, 0600));
    T(stat(in("renamed/sub/made"), &st));

    int fd = open("..", O_RDONLY | O_DIRECTORY);

    T(chdir("/"));
    T(fchdir(fd));
    say_cwd("by descriptor");
    close(fd);
    say_cwd("closed");
    T(chdir(in("todir")));
    T(chdir(in("file")));
    T(chdir(in("renamed/sub/here")));
    T(rmdir(in("renamed/sub/here")));
    say_cwd("removed");
    T(chdir("/"));
}

/* ---- other programs ---- */

static int ends(pid_t child)
{
    int status = -1;

    return waitpid(child, &status, 0) == child ? status : -1;
}

/* What a program finds that was started with fd open and this working directory. */
static void look_as_child(int fd)
{
    struct stat st;
    char name[PATH_MAX];

    printf("cwd %s\n", getcwd(name, sizeof name) ? name : strerrorname_np(errno));
    T(fstatat(fd, "file", &st, 0));
    OK(openat(fd, "by-child", O_CREAT | O_WRONLY, 0600));
    T(renameat(fd, "by-child", AT_FDCWD, "from-child"));
    T(unlink("from-child"));
    T(fchdir(fd));
    printf("cwd %s\n", getcwd(name, sizeof name) ? name : strerrorname_np(errno));
    say_text("standard input", 0);
}

static void section_programs(void)
{
    char number[16];
    extern char **environ;
    pid_t child;

    make_tree();
    T(chdir(in("dir/sub")));

    int fd = open(in("dir"), O_RDONLY | O_DIRECTORY);
    int input = open(in("file"), O_RDONLY);

    IS(dup2(input, 0), 0);
    snprintf(number, sizeof number, "%d", fd);
    fflush(stdout);

    if (fork() == 0) {
        look_as_child(fd);
        fflush(stdout);
        _exit(0);
    }

    T(ends(-1));
    T(lseek(0, 0, SEEK_SET));

    char *argv[] = { (char *)self, "child", (char *)dir, number, NULL };

    IS(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
    T(ends(child));
    T(lseek(0, 0, SEEK_SET));
    T(fchdir(fd));
    fflush(stdout);
    execv(self, argv);
}

static atomic_bool forked_all;

/* Opens directories at the server, one after the other. */
static void *reach_directories(void *arg)
{
    while (!atomic_load(&forked_all)) {
        int fd = open(in("dir"), O_RDONLY | O_DIRECTORY);

        close(openat(fd, "file", O_RDWR));
        close(fd);
    }

    return arg;
}

/* A child can do it too, whatever a thread of its parent was doing. */
static void section_forks(void)
{
    pthread_t thread;

    make_tree();
    IS(pthread_create(&thread, NULL, reach_directories, NULL), 0);

    for (int i = 0; i < 200; i++) {
        int fd = open(in("dir"), O_RDONLY | O_DIRECTORY);
        pid_t child = fork();

        if (child == 0) {
            alarm(20);
            _exit(openat(fd, "file", O_RDWR) < 0);
        }

        IS(ends(child), 0);
        close(fd);
    }

    atomic_store(&forked_all, true);
    IS(pthread_join(thread, NULL), 0);
    puts("200 children");
}

static void section_child(const char *fd)
{
    look_as_child(atoi(fd));
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "opens", section_opens },
        { "reads", section_reads },
        { "changes", section_changes },
        { "maps", section_maps },
        { "shared", section_shared },
        { "fifo", section_fifo },
        { "directories", section_directories },
        { "above", section_above },
        { "below_above", section_below_above },
        { "real", section_real },
        { "locks", section_locks },
        { "notes", section_notes },
        { "attributes", section_attributes },
        { "cwd", section_cwd },
        { "programs", section_programs },
        { "forks", section_forks },
    };

    if (argc < 3)
        return 2;

    self = argv[0];
    dir = argv[2];
    if (argc == 4 && strcmp(argv[1], "child") == 0) {
        section_child(argv[3]);
        return 0;
    }

    end_after(90);
    return run_section(sections, sizeof sections / sizeof *sections, argv[1]) ? 0 : 2;
}
