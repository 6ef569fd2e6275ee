/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_more DIRECTORY SCRATCH: record locks between processes, asynchronous calls, system calls by
 * number, walks, maps that are written, wide reading, a library.  Prints what each gave;
 * fwd_more.sh runs it in a local directory and in a forwarded one and compares.
 */
#define _GNU_SOURCE 1
#include <aio.h>
#include <dlfcn.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

#include "tests/files/fwd_say.h"

static int locks(int fd, int command, short type, off_t from, off_t len)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = len };
    int r = fcntl(fd, command, &l);

    return r == 0 && command == F_GETLK ? l.l_type : r;
}

static pid_t holder(int fd, int command, off_t at)
{
    struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1 };
    return fcntl(fd, command, &l) == 0 && l.l_type != F_UNLCK ? l.l_pid : 0;
}

/* A child and its parent take turns by pipes. */
static int to_child[2], to_parent[2];

static void tell_that(int fd, char what)
{
    if (write(fd, &what, 1) != 1)
        _exit(9);
}

static void tell(int fd)
{
    tell_that(fd, 0);
}

static char hear(int fd)
{
    char c;

    if (read(fd, &c, 1) != 1)
        _exit(8);

    return c;
}

static void child(int fd)
{
    int other = open(in("locked"), O_RDWR);

    hear(to_child[0]);
    T(locks(fd, F_SETLK, F_WRLCK, 0, 10)); /* the parent's: not inherited */
    T(locks(other, F_GETLK, F_WRLCK, 0, 10));
    T(holder(other, F_GETLK, 9) == getppid());
    T(holder(other, F_OFD_GETLK, 6) == getppid());
    T(locks(other, F_SETLK, F_RDLCK, 20, 10));
    T(locks(fd, F_SETLK, F_WRLCK, 100, 10));
    T(locks(fd, F_SETLK, F_WRLCK, 200, 10));
    tell(to_parent[1]);
    hear(to_child[0]);

    /* the parent waits for 100 by now, or will */
    bool dead = locks(fd, F_SETLKW, F_WRLCK, 0, 10) != 0 && errno == EDEADLK;

    if (dead)
        locks(fd, F_SETLK, F_UNLCK, 100, 10);

    tell_that(to_parent[1], dead);
    hear(to_child[0]);
    T(close(other)); /* drops all that this process has on the file */
    tell(to_parent[1]);
    hear(to_child[0]);
    _exit(0);
}

static void on_alarm(int sig)
{
}

static void record_locks(void)
{
    int status;
    int fd = open(in("locked"), O_RDWR | O_CREAT, 0644);
    int copy = dup(fd);

    if (pipe(to_child) != 0 || pipe(to_parent) != 0)
        exit(2);

    T(locks(fd, F_SETLK, F_WRLCK, 0, 10));
    T(locks(copy, F_SETLK, F_RDLCK, 5, 2)); /* one's own never conflict */
    T(locks(fd, F_SETLK, F_WRLCK, 0, 10));

    pid_t pid = fork();

    if (pid == 0)
        child(fd);

    tell(to_child[1]);
    hear(to_parent[0]);
    T(locks(fd, F_GETLK, F_WRLCK, 20, 1));
    T(holder(fd, F_GETLK, 29) == pid);
    T(holder(fd, F_GETLK, 205) == pid);
    T(holder(fd, F_GETLK, 210));

    pid_t third = fork();

    if (third == 0) {
        T(holder(fd, F_GETLK, 3) == getppid());
        T(holder(fd, F_GETLK, 205) == pid);
        _exit(0);
    }

    waitpid(third, &status, 0);
    T(locks(fd, F_SETLK, F_RDLCK, 20, 1));

    struct sigaction sa = { .sa_handler = on_alarm };

    sigaction(SIGALRM, &sa, NULL);
    alarm(1);
    T(locks(fd, F_SETLKW, F_WRLCK, 200, 10)); /* EINTR */
    fflush(stdout);

    /* lets the child go on once we wait; the deadlock is found whichever comes first */
    pid_t waiter = fork();

    if (waiter == 0) {
        tell(to_child[1]);
        _exit(0);
    }

    waitpid(waiter, &status, 0);

    int dead = locks(fd, F_SETLKW, F_WRLCK, 100, 10) != 0 && errno == EDEADLK;

    locks(fd, F_SETLK, F_UNLCK, 0, 10);
    dead += hear(to_parent[0]);
    T(dead); /* just one of the two hears EDEADLK */
    tell(to_child[1]);
    hear(to_parent[0]);
    T(locks(fd, F_SETLK, F_WRLCK, 20, 10));
    T(locks(fd, F_SETLK, F_WRLCK, 100, 10));
    tell(to_child[1]);
    waitpid(pid, &status, 0);
    T(status);
    T(close(copy));
    T(locks(fd, F_GETLK, F_WRLCK, 100, 10));
    T(close(fd));
}

static void on_timer(int sig)
{
    tell(to_child[1]);
}

static void soon(int flags)
{
    struct sigaction sa = { .sa_handler = on_timer, .sa_flags = flags };
    struct itimerval t = { .it_value.tv_usec = 30000 };

    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &t, NULL);
}

/* What waits at a FIFO ends with a signal whose handler does not want it to go on, and only
 * then. */
static void waits_end(void)
{
    static char much[65536];
    char c = 0;

    if (pipe(to_child) != 0 || mkfifo(in("waits"), 0600) != 0)
        exit(2);

    soon(0);
    T(open(in("waits"), O_RDONLY));
    soon(0);
    T(open(in("waits"), O_WRONLY));

    int fd = open(in("waits"), O_RDWR);

    soon(0);
    T(read(fd, &c, 1));
    T(write(fd, much, sizeof much));
    soon(0);
    T(write(fd, "x", 1));
    T(read(fd, much, sizeof much));
    for (int i = 0; i < 4; i++)
        hear(to_child[0]);

    pid_t pid = fork();

    if (pid == 0) {
        hear(to_child[0]); /* the handler has run */
        _exit(write(open(in("waits"), O_WRONLY), "y", 1) != 1);
    }

    soon(SA_RESTART);
    T(read(fd, &c, 1));
    T(c);

    int status;

    waitpid(pid, &status, 0);
    T(status);
    T(close(fd));
    T(unlink(in("waits")));
}

static void asynchronous(void)
{
    char a[100] = "";
    char b[100] = "";
    int fd = open(in("aio"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct aiocb w = {
        .aio_fildes = fd, .aio_buf = "hello, world", .aio_nbytes = 12, .aio_offset = 3
    };
    struct aiocb r1 = {
        .aio_fildes = fd, .aio_buf = a, .aio_nbytes = 50, .aio_lio_opcode = LIO_READ
    };
    struct aiocb r2 = {
        .aio_fildes = fd, .aio_buf = b, .aio_nbytes = 5, .aio_offset = 3, .aio_lio_opcode = LIO_READ
    };
    struct aiocb bad = { .aio_fildes = 999, .aio_buf = a, .aio_nbytes = 5 };
    struct aiocb sync = { .aio_fildes = fd };
    const struct aiocb *list[1] = { &w };
    struct aiocb *both[2] = { &r1, &r2 };

    T(aio_write(&w));
    T(aio_suspend(list, 1, NULL));
    T(aio_error(&w));
    T(aio_return(&w));
    T(aio_fsync(O_SYNC, &sync));
    T(lio_listio(LIO_WAIT, both, 2, NULL));
    T(aio_return(&r1));
    T(memcmp(a + 3, "hello, world", 12));
    T(aio_return(&r2));
    T(memcmp(b, "hello", 5));
    list[0] = &bad;
    OK(aio_read(&bad));
    T(aio_suspend(list, 1, NULL));
    T(aio_error(&bad));
    r2.aio_reqprio = -1;
    T(aio_read(&r2));
    T(aio_error(&r2));
    T(aio_return(&r2));
    r2.aio_reqprio = 21;
    T(aio_read(&r2));
    r2.aio_reqprio = 20;
    T(aio_read(&r2));
    list[0] = &r2;
    T(aio_suspend(list, 1, NULL));
    T(aio_return(&r2));
    T(aio_cancel(fd, NULL));
    T(close(fd));
}

static void by_number(void)
{
    char buf[20] = "";
    struct stat st;
    long fd = syscall(SYS_openat, AT_FDCWD, in("raw"), O_RDWR | O_CREAT, 0640);

    OK(fd);
    T(syscall(SYS_write, fd, "by number", 9));
    T(syscall(SYS_pread64, fd, buf, 6, 3));
    T(strcmp(buf, "number"));
    T(syscall(SYS_lseek, fd, 0, SEEK_END));
    T(syscall(SYS_fstat, fd, &st));
    T(st.st_size);
    T(syscall(SYS_renameat2, AT_FDCWD, in("raw"), AT_FDCWD, in("raw2"), 0));
    T(syscall(SYS_newfstatat, AT_FDCWD, in("raw"), &st, 0));
    T(syscall(SYS_close, fd));
}

/* ---- openat2 ---- */

static const struct {
    const char *text;
    uint64_t resolve;
} resolves[] = {
    { "any", 0 },
    { "no links", RESOLVE_NO_SYMLINKS },
    { "beneath", RESOLVE_BENEATH },
    { "in root", RESOLVE_IN_ROOT },
    { "no xdev", RESOLVE_NO_XDEV },
    { "no magic", RESOLVE_NO_MAGICLINKS },
    { "beneath, no links", RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS },
    { "in root, no xdev", RESOLVE_IN_ROOT | RESOLVE_NO_XDEV },
    { "both", RESOLVE_IN_ROOT | RESOLVE_BENEATH },
    { "nobody's", 1 << 20 },
};

/* What an open with every set of these flags gives: which file it is shows in its size. */
static void resolved(int at, const char *path, int flags, int mode, uint64_t without)
{
    for (size_t i = 0; i < sizeof resolves / sizeof resolves[0]; i++) {
        struct open_how how = { .flags = (uint64_t)(unsigned)flags,
                                .mode = (uint64_t)mode,
                                .resolve = resolves[i].resolve };
        struct stat st = { .st_size = 0 };

        if ((how.resolve & without) &&
            !(how.resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS)))
            continue;

        int low = dup(0);
        int fd;

        close(low);
        fd = (int)syscall(SYS_openat2, at, path, &how, sizeof how);

        int err = errno;

        printf("%s, %o, %s: ", path, flags, resolves[i].text);
        if (fd < 0)
            puts(strerrorname_np(err));
        else {
            fstat(fd, &st);
            printf("%+d %o %ld, flags %o\n", fd - low, st.st_mode,
                   S_ISREG(st.st_mode) ? (long)st.st_size : 0,
                   fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_PATH));
            close(fd);
        }

        if ((flags & O_CREAT) && fd >= 0)
            unlinkat(at, path, 0), unlink(in("r/d/new")), unlink(in("r/new"));
    }
}

static void make_file(const char *name, int size)
{
    int fd = open(in(name), O_CREAT | O_WRONLY | O_TRUNC, 0644);

    T(ftruncate(fd, size));
    close(fd);
}

static void wrong_records(int at)
{
    char name[300];
    struct open_how how = { .flags = O_RDONLY, .resolve = RESOLVE_BENEATH };

    struct {
        struct open_how how;
        uint64_t more;
    } longer = { .how = { .flags = O_RDONLY }, .more = 0 };
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    T(syscall(SYS_openat2, at, name, &how, sizeof how));
    T(syscall(SYS_openat2, at, "x", &how, sizeof how - 1));
    T(syscall(SYS_openat2, at, "x", &how, 0));
    T(syscall(SYS_openat2, at, "x", NULL, sizeof how));
    T(syscall(SYS_openat2, at, NULL, &how, sizeof how));
    OK(syscall(SYS_openat2, at, "x", &longer, sizeof longer));
    longer.more = 1;
    T(syscall(SYS_openat2, at, "x", &longer, sizeof longer));
    T(syscall(SYS_openat2, at, "x", &(struct open_how){ .flags = UINT64_C(1) << 40 }, sizeof how));
    T(syscall(SYS_openat2, at, "x", &(struct open_how){ .flags = O_PATH | O_RDWR }, sizeof how));
    T(syscall(SYS_openat2, at, "x", &(struct open_how){ .flags = O_CREAT, .mode = 0100644 },
              sizeof how));
    T(syscall(SYS_openat2, at, "new",
              &(struct open_how){ .flags = O_CREAT, .mode = 0644, .resolve = RESOLVE_CACHED },
              sizeof how));
    T(syscall(SYS_openat2, 999, "x", &how, sizeof how));

    int file = open(in("r/x"), O_RDONLY);

    T(syscall(SYS_openat2, file, "x", &how, sizeof how));
    close(file);
}

static void resolving(void)
{
    /* clang-format off */
    static const char *const paths[] = {
        "x", "d", "d/f", "d/in", "d/up", "dirlink/f", "dirlink", "dirlink/", "d/absin", "out", "../outside", "d/../x", "d/../../outside",
        "dirlink/../x", "loop", "missing", "missing/x", "x/y", "x/..", "x/", "d/f/..", ".", "..", "./", "../", "d/.", "d/..", "d/../..",
        "d//f", "dangling", "", "dirlink/in/", "/x", "/", "//d/f", "/../x", "/d/../../x", "/dirlink/absin",
    };

    /* clang-format on */
    static const char *const links[][2] = { { "f", "r/d/in" },         { "../x", "r/d/up" },
                                            { "/x", "r/d/absin" },     { "../outside", "r/out" },
                                            { "loop", "r/loop" },      { "d", "r/dirlink" },
                                            { "d/new", "r/dangling" }, { "/etc", "r/abs" } };
    char *whole = strdup(in("r/d/in"));
    struct open_how how = { .flags = O_RDONLY };

    T(mkdir(in("r"), 0755));
    T(mkdir(in("r/d"), 0755));
    make_file("outside", 1);
    make_file("r/x", 2);
    make_file("r/d/f", 3);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        T(symlink(links[i][0], in(links[i][1])));

    int at = open(in("r"), O_RDONLY | O_DIRECTORY);
    int path_only = open(in("r"), O_PATH);

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        /* what this host's root has */
        uint64_t without = paths[i][0] == '/' ? RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS : 0;

        resolved(at, paths[i], O_RDONLY, 0, without);
        resolved(path_only, paths[i], O_PATH | O_NOFOLLOW, 0, without);
        resolved(at, paths[i], O_RDWR | O_NOFOLLOW | O_APPEND, 0, without);
    }

    static const char *const made[] = { "new",         "d/new",       "dangling", "d/in",
                                        "dirlink/new", "new/",        "d",        "d/up",
                                        "../new",      "missing/new", "loop" };

    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        resolved(at, made[i], O_RDWR | O_CREAT, 0640, 0);
        resolved(at, made[i], O_RDWR | O_CREAT | O_EXCL, 0640, 0);
    }

    resolved(at, "d", O_TMPFILE | O_WRONLY, 0600, 0);
    resolved(at, "x", O_RDONLY, 0600, 0); /* a mode for nothing new */
    resolved(at, "abs", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_XDEV);

    for (uint64_t resolve = RESOLVE_NO_MAGICLINKS; resolve <= RESOLVE_BENEATH; resolve <<= 1) {
        how.resolve = resolve;
        OK(syscall(SYS_openat2, AT_FDCWD, whole, &how, sizeof how));
    }

    T(chdir(in("r/d")));
    resolved(AT_FDCWD, "f", O_RDONLY, 0, 0);
    resolved(AT_FDCWD, "../x", O_RDONLY, 0, 0);
    resolved(AT_FDCWD, "up", O_RDONLY, 0, 0);
    T(chdir("/"));
    wrong_records(at);
    close(at);
    close(path_only);
    free(whole);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static void walks(void)
{
    mkdir(in("tree"), 0755);
    mkdir(in("tree/sub"), 0755);
    mkdir(in("tree/empty"), 0755);
    mkdir(in("tree/skipped"), 0755);
    close(open(in("tree/file"), O_CREAT | O_WRONLY, 0644));
    close(open(in("tree/sub/deep"), O_CREAT | O_WRONLY, 0644));
    close(open(in("tree/skipped/unseen"), O_CREAT | O_WRONLY, 0644));
    T(symlink("sub", in("tree/link")));
    T(symlink("nowhere", in("tree/broken")));

    for (int options = FTS_PHYSICAL;; options = FTS_LOGICAL) {
        char *paths[] = { (char *)in("tree"), (char *)in("missing"), NULL };
        FTS *f = fts_open(paths, options | FTS_NOCHDIR, by_name);
        int n = 0;

        for (FTSENT *e; f && (e = fts_read(f)) != NULL; n++) {
            printf("%d %d %s %d\n", e->fts_info, e->fts_level, e->fts_name,
                   e->fts_info == FTS_NS ? e->fts_errno : 0);
            if (strcmp(e->fts_name, "skipped") == 0 && e->fts_info == FTS_D)
                fts_set(f, e, FTS_SKIP);

            if (strcmp(e->fts_name, "sub") == 0 && e->fts_info == FTS_D)
                for (FTSENT *c = fts_children(f, 0); c; c = c->fts_link)
                    printf("child %s\n", c->fts_name);
        }

        T(errno);
        T(n);
        T(fts_close(f));
        if (options == FTS_LOGICAL)
            break;
    }
}

/* Without FTS_NOCHDIR: the current directory of the walk, and what is found from there by fts_accpath. */
static void tell_place(const char *what, const FTSENT *e)
{
    char here[PATH_MAX] = "";
    struct stat st;

    if (!getcwd(here, sizeof here))
        snprintf(here, sizeof here, "%s", strerrorname_np(errno));

    int found = lstat(e->fts_accpath, &st) == 0 ? st.st_ino == e->fts_statp->st_ino : -errno;

    printf("%s %d %d %s by %s in %s: %d, errno %d\n", what, e->fts_info, e->fts_level,
           strcmp(what, "at") == 0 ? e->fts_path : e->fts_name, e->fts_accpath, here, found,
           e->fts_errno);
}

static void walk_about(char **paths, int options, const char *rename_to)
{
    char here[PATH_MAX] = "";
    FTS *f = fts_open(paths, options, by_name);
    int n = 0;

    for (FTSENT *e; f && (e = fts_read(f)) != NULL; n++) {
        tell_place("at", e);
        if (strcmp(e->fts_name, "a") == 0 && e->fts_info == FTS_D)
            for (FTSENT *c = fts_children(f, 0); c; c = c->fts_link)
                /* their paths are not yet there then */
                if (!(options & (FTS_NOCHDIR | FTS_LOGICAL)))
                    tell_place("child", c);

        if (strcmp(e->fts_name, "jump") == 0 && e->fts_info == FTS_SL)
            T(fts_set(f, e, FTS_FOLLOW));

        if (rename_to && strcmp(e->fts_name, "b") == 0 && e->fts_info == FTS_D)
            T(rename(e->fts_accpath, rename_to)); /* before the walk is in it */

        if (strcmp(e->fts_name, "stop") == 0)
            break;
    }

    T(errno);
    T(fts_close(f));
    printf("%d, back in %s\n", n, getcwd(here, sizeof here) ? here : "");
}

static void walks_about(void)
{
    static const char *const dirs[] = { "about",   "about/a",    "about/a/deep",
                                        "about/b", "about/none", "about/other" };

    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
        mkdir(in(dirs[i]), 0755);

    T(symlinkat("a/deep", AT_FDCWD, in("about/jump")));
    close(open(in("about/a/file"), O_CREAT | O_WRONLY, 0644));
    close(open(in("about/a/deep/leaf"), O_CREAT | O_WRONLY, 0644));
    close(open(in("about/b/file"), O_CREAT | O_WRONLY, 0644));

    char *whole[] = { (char *)in("about"), (char *)in("missing"), (char *)in("about/a/"), NULL };

    walk_about(whole, FTS_PHYSICAL, NULL);
    walk_about(whole, FTS_LOGICAL, NULL);
    walk_about(whole, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    T(chdir(in("about")));
    walk_about((char *[]){ "a", "../about/a/deep", ".", NULL }, FTS_PHYSICAL | FTS_SEEDOT, NULL);
    T(chdir("/"));
    walk_about(whole, FTS_PHYSICAL, in("about/c"));
    T(rename(in("about/c"), in("about/stop")));
    walk_about(whole, FTS_PHYSICAL, NULL);
}

static void maps(void)
{
    char buf[10] = "";
    int status;
    int fd = open(in("map"), O_RDWR | O_CREAT | O_TRUNC, 0644);

    T(ftruncate(fd, 20000));

    char *p = mmap(NULL, 20000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    OK(p == MAP_FAILED ? -1 : 0);
    memcpy(p + 100, "first", 5);
    memcpy(p + 4094, "over the edge", 13);
    T(pwrite(fd, "other", 5, 9000)); /* somebody else's bytes stay */
    T(msync(p, 20000, MS_SYNC));
    T(pread(fd, buf, 5, 4094));
    T(memcmp(buf, "over ", 5));

    if (fork() == 0) {
        memcpy(p + 200, "child", 5);
        _exit(0);
    }

    wait(&status);
    T(memcmp(p + 200, "child", 5));
    T(munmap(p + 8192, 4096));
    T(munmap(p, 20000));
    p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    T(memcmp(p + 200, "child", 5));
    T(mprotect(p, 4096, PROT_READ | PROT_WRITE));
    p[300] = 'x';
    T(munmap(p, 4096));
    T(pread(fd, buf, 1, 300));
    T(buf[0]);
    T(close(fd));
    fd = open(in("map"), O_RDONLY);
    p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    OK(p == MAP_FAILED ? -1 : 0);
    T(close(fd));
}

static void wide(void)
{
    int a = 0;
    int b = 0;
    wchar_t word[20] = L"";
    FILE *f = fopen(in("wide"), "w+");

    T(fwprintf(f, L"%d %ls %d rest", 17, L"word", 42));
    rewind(f);
    T(fwscanf(f, L"%d %19ls %d", &a, word, &b));
    T(a + b);
    T(wcscmp(word, L"word"));
    T(fgetwc(f));
    T(fgetwc(f));
    T(fclose(f));
}

static void library(void)
{
    Dl_info info;
    double (*cube_root)(double) = NULL;
    void *m = dlopen("libm.so.6", RTLD_NOW);

    if (!m || !dladdr(dlsym(m, "cbrt"), &info))
        return;

    char command[2 * PATH_MAX];

    snprintf(command, sizeof command, "cp %s %s", info.dli_fname, in("libcopied.so"));
    T(system(command));

    void *copy = dlopen(in("libcopied.so"), RTLD_NOW | RTLD_LOCAL);

    T(copy ? 0 : -1);
    if (copy && (cube_root = (double (*)(double))dlsym(copy, "cbrt")))
        T(cube_root(27.0));

    T(dlopen(in("nolib.so"), RTLD_NOW) ? 0 : -2);
    T(unlink(in("libcopied.so")));

    FILE *p = popen("cat > /dev/null", "w");

    T(p ? pclose(p) : -1);
}

static int tell_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    printf("entry %s %d %d %d\n", path, type, at->level, S_ISDIR(st->st_mode));
    return 0;
}

static int tell_plainly(const char *path, const struct stat *st, int type)
{
    printf("entry %s %d\n", path, type);
    return 0;
}

/* Links that lead nowhere, round, or through a file: as the root, and inside. */
static void lost_links(void)
{
    static const char *const roots[] = {
        "dangling",   "round",        "through", "with-dangling",
        "with-round", "with-through", "absent",  "file/x",
    };
    static const int flags[] = { 0, FTW_PHYS, FTW_CHDIR, FTW_DEPTH };
    static const char *const targets[][2] = { { "dangling", "nowhere" },
                                              { "round", "round" },
                                              { "through", "../lost/file/x" } };
    char name[50];

    T(mkdir(in("lost"), 0755));
    close(open(in("lost/file"), O_CREAT | O_WRONLY, 0644));

    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "lost/%s", targets[i][0]);
        T(symlink(targets[i][1], in(name)));
        snprintf(name, sizeof name, "lost/with-%s", targets[i][0]);
        T(mkdir(in(name), 0755));
        snprintf(name, sizeof name, "lost/with-%s/%s", targets[i][0], targets[i][0]);
        T(symlink(i == 2 ? "../file/x" : targets[i][1], in(name)));
    }

    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        snprintf(name, sizeof name, "lost/%s", roots[i]);
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            T(nftw(in(name), tell_entry, 10, flags[k]));

        T(ftw(in(name), tell_plainly, 10));
    }
}

static int action, visits;
static const char *acts_at;

static int act(const char *path, const struct stat *st, int type, struct FTW *at)
{
    visits++;
    return strcmp(path + at->base, acts_at) == 0 ? action : FTW_CONTINUE;
}

/* What is left out by a walk that skips: told by numbers, since the order of a directory is not the
 * same everywhere. */
static void skipping(void)
{
    static const char *const made[] = { "skip", "skip/down", "skip/down/deeper",
                                        "skip/down/deeper/still", "skip/same" };
    static const char *const places[] = { "skip", "down", "deeper", "still", "file", "none" };
    static const int flags[] = { 0, FTW_PHYS, FTW_CHDIR, FTW_DEPTH, FTW_DEPTH | FTW_CHDIR };
    char name[50];

    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        T(mkdir(in(made[i]), 0755));

    close(open(in("skip/down/deeper/file"), O_CREAT | O_WRONLY, 0644));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
            for (action = FTW_STOP; action <= FTW_SKIP_SIBLINGS; action++) {
                acts_at = places[i];
                visits = 0;
                snprintf(name, sizeof name, "skip%s", i % 2 ? "/down/deeper" : "/down");
                T(nftw(in(name), act, 10, flags[k] | FTW_ACTIONRETVAL));
                if (strcmp(places[i], "none") == 0 || action == FTW_SKIP_SUBTREE)
                    printf("%d visits\n", visits);
            }
}

/* Names that lead below the directory by a local link, for the functions that the C library does by
 * itself. */
static void local_links(const char *scratch)
{
    char here[PATH_MAX];
    glob_t g;

    T(getcwd(here, sizeof here) ? 0 : -1);
    T(chdir(scratch));
    T(symlink(dir, "to"));
    T(mkdir("to/led", 0755));
    T(close(open("to/led/leaf", O_WRONLY | O_CREAT, 0644)));

    char file[] = "to/led/tXXXXXX";
    char suffixed[] = "to/led/tXXXXXX.c";
    char place[] = "to/led/dXXXXXX";
    char name[] = "to/led/nXXXXXX";
    char none[] = "no/tXXXXXX";
    int fd = mkstemp(file);

    T(write(fd, "text", 4));
    T(strncmp(file, "to/led/t", 8));
    T(access(file, R_OK));
    T(unlink(file));
    OK(mkostemps(suffixed, 2, O_APPEND));
    T(strcmp(suffixed + strlen(suffixed) - 2, ".c"));
    T(unlink(suffixed));
    T(mkdtemp(place) ? 0 : -1);
    T(rmdir(place));
    T(mktemp(name)[0]);
    OK(mkstemp(none));

    char *made = tempnam("to/led", "x");

    T(strncmp(made ? made : "", "to/led/x", 8));
    free(made);

    FILE *f = freopen("to/led/again", "w", fopen("/dev/null", "r"));

    T(f ? fputs("again", f) : -1);
    T(f ? fclose(f) : -1);
    f = freopen("to/led/again", "r", fopen("to/led/leaf", "r"));
    T(f ? fgetc(f) : -1);
    T(f ? fclose(f) : -1);

    for (int i = 0; i < 4; i++) {
        static const char *const patterns[] = { "to/led/*", "*/led/l*", "to/none*",
                                                "t[o]/le*/again" };

        T(glob(patterns[i], GLOB_MARK, NULL, &g));
        for (size_t k = 0; k < g.gl_pathc; k++)
            printf("found %s\n", g.gl_pathv[k]);

        globfree(&g);
    }

    T(unlink("to/led/again"));
    T(nftw("to/led", tell_entry, 10, 0));
    T(nftw("to", tell_entry, 10, FTW_PHYS));

    struct dirent **list;

    T(scandir("to/led", &list, NULL, alphasort));
    T(realpath("to/led/leaf", here) ? 0 : -1);
    printf("%s\n", here);
    T(unlink("to/led/leaf"));
    T(rmdir("to/led"));
    T(unlink("to"));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;

    dir = argv[1];
    record_locks();
    waits_end();
    asynchronous();
    by_number();
    resolving();
    walks();
    walks_about();
    lost_links();
    skipping();
    maps();
    wide();
    library();
    if (argc > 2)
        local_links(argv[2]);

    return 0;
}
