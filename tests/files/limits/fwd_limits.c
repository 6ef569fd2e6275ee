/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_limits PART [NUMBER] DIRECTORY [SCRATCH]: what file systems and servers limit, one line for
 * each thing done and what it gave; fwd_limits.sh compares a local directory with a forwarded one,
 * or with what it expects.
 *   names        names of 255 and 256 bytes, of all bytes there are
 *   sparse       beyond 4 GiB
 *   entries N    a directory of N entries: listing, telldir and seekdir, removal
 *   full         a file system of 1 MiB
 *   denied       files of another user (denied-* are there)
 *   readonly     an export that may only be read (file, dir are there)
 *   files N      open files until there are no more
 *   exhaust        open files until the server refuses; then others are still served (where its
 *                RLIMIT_NOFILE is below this program's)
 *   taken N      another process's file where there may be no more
 *   user         a process that changes its user before its first call (/fwd/file is there; the
 *                directory is a local one)
 *   untraceable  a process that lets nobody trace it before its first call (the directory is a local one)
 *   capless      a process that gives its capabilities up before its first call (the same)
 *   memory       large calls where the server keeps little memory for a client
 *   numbers      small limits of descriptors leave the lowest numbers to the program
 *   unmapped     descriptors for whose table no memory is left (with IOFWD_CLIENT_FILES=20)
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
static long number;

static void gives(const char *what, long result)
{
    int err = errno;
    printf("%s = %ld%s%s\n", what, result, result == -1 ? " " : "",
           result == -1 ? strerrorname_np(err) : "");
}

static void must(bool ok, const char *what)
{
    if (ok)
        return;

    printf("not so: %s (%s)\n", what, strerrorname_np(errno));
    exit(1);
}

/* ---- names ---- */

static void one_name(const char *name, size_t len)
{
    struct stat st;
    char other[300];
    bool seen = false;

    printf("%zu bytes, the first %d:\n", len, (unsigned char)name[0]);

    int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);

    gives("create", fd < 0 ? -1 : 0);
    if (fd < 0)
        return;

    gives("write", write(fd, "x", 1));
    close(fd);
    gives("stat", stat(name, &st));
    memcpy(other, name, len + 1);
    other[len - 1] = name[len - 1] == 'z' ? 'y' : 'z';
    gives("link", link(name, other));
    gives("rename", rename(other, name));
    gives("symlink", symlink(name, "to"));
    gives("through the link", stat("to", &st));
    gives("unlink", unlink("to"));

    DIR *d = opendir(".");

    must(d, "opendir");
    for (struct dirent *e; (e = readdir(d));)
        seen = seen || strcmp(e->d_name, name) == 0;

    closedir(d);
    printf("listed: %d\n", seen);
    gives("unlink", unlink(name));
    gives("unlink", unlink(other));
}

static void names(void)
{
    char name[300];

    for (unsigned start = 1; start < 256; start += 18) {
        for (unsigned i = 0; i < 255; i++) {
            unsigned char c = (unsigned char)((start + i * 7) % 255 + 1);
            name[i] = (char)(c == '/' ? '\n' : c);
        }

        name[255] = 0;
        one_name(name, 255);
    }

    memset(name, 'n', 256);
    name[256] = 0;
    one_name(name, 256);

    static const char *const odd[] = { " ",    "\n",    "\\",  "\"", "-",         "*",
                                       "\xff", "\xc3(", "...", "a ", "iofwd:1.2", "$(x)" };

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        one_name(odd[i], strlen(odd[i]));
}

/* ---- beyond 4 GiB ---- */

static void sparse(void)
{
    static const off_t places[] = { 0,           0x7fffffff,  0x80000000,   0xffffffff,
                                    0x100000000, 0x140000123, 0x3fffffff000 };
    struct stat st;
    char buf[8];
    int fd = open("sparse", O_RDWR | O_CREAT | O_TRUNC, 0600);

    must(fd >= 0, "open");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        gives("pwrite", pwrite(fd, "12345", 5, places[i]));
        gives("pread", pread(fd, buf, 8, places[i] - (i ? 2 : 0)));
        printf("%.2s\n", buf + (i ? 2 : 0));
        gives("seek", lseek(fd, places[i], SEEK_SET));
        gives("read", read(fd, buf, 5));
        gives("end", lseek(fd, 0, SEEK_END));
    }

    must(fstat(fd, &st) == 0, "fstat");
    printf("size %lld, sparse %d\n", (long long)st.st_size, st.st_blocks < 1000);
    gives("read in a hole", pread(fd, buf, 8, (off_t)5 << 30));
    gives("truncate", ftruncate(fd, 0x100000002));
    gives("read", pread(fd, buf, 8, 0x100000000));
    gives("write at the end", lseek(fd, 0, SEEK_END) < 0 ? -1 : write(fd, "end", 3));
    gives("end", lseek(fd, 0, SEEK_CUR));
    gives("unlink", unlink("sparse"));
    close(fd);
}

/* ---- many entries ---- */

static void entries(void)
{
    char name[32];

    for (long i = 0; i < number; i++) {
        snprintf(name, sizeof name, "e%ld", i);
        must(mknod(name, S_IFREG | 0600, 0) == 0, "mknod");
    }

    int fd = open("e0", O_WRONLY);

    must(write(fd, "entry", 5) == 5 && close(fd) == 0, "write");

    uint8_t *seen = calloc((size_t)number, 1);
    long *at = calloc((size_t)number + 3, sizeof *at);
    long *which = calloc((size_t)number + 3, sizeof *which);
    long n = 0;
    long files = 0;
    DIR *d = opendir(".");

    must(d && seen && at && which, "opendir");
    for (long here = telldir(d);; here = telldir(d)) {
        struct dirent *e = readdir(d);

        if (!e)
            break;

        must(n < number + 3, "no more entries than there are");
        at[n] = here;
        which[n++] = e->d_name[0] == 'e' ? atol(e->d_name + 1) : -1;
        if (e->d_name[0] == 'e')
            files += !seen[atol(e->d_name + 1)]++;
    }

    printf("%ld files, each once: %d\n", files, n == files + 2);
    for (long i = 0; i < 500; i++) {
        long k = (i * 7919) % n;

        seekdir(d, at[k]);

        struct dirent *e = readdir(d);

        must(e && which[k] == (e->d_name[0] == 'e' ? atol(e->d_name + 1) : -1),
             "seekdir leads to the same entry");
    }

    rewinddir(d);

    long gone = 0;

    for (struct dirent *e; (e = readdir(d));)
        gone += e->d_name[0] == 'e' && unlink(e->d_name) == 0;

    closedir(d);
    printf("%ld removed while they were listed\n", gone);
    free(seen);
    free(at);
    free(which);
}

/* ---- no space ---- */

static void full(void)
{
    char *data = malloc(3 * MIB);

    memset(data, 'f', 3 * MIB);

    int fd = open("full", O_RDWR | O_CREAT | O_TRUNC, 0600);

    must(fd >= 0, "open");
    gives("1 MiB and more at once", write(fd, data, 3 * MIB));
    gives("again", write(fd, data, 5000));
    gives("where", lseek(fd, 0, SEEK_CUR));
    gives("ftruncate", ftruncate(fd, 8192));
    gives("pwrite", pwrite(fd, data, 3 * MIB, 4096));
    gives("fallocate", posix_fallocate(fd, 0, 5 * (off_t)MIB));
    gives("mkdir", mkdir("d", 0700) == 0 ? 0 : -1);
    gives("fsync", fsync(fd));
    gives("close", close(fd));

    FILE *f = fopen("stream", "w");

    gives("a stream", f ? (long)fwrite(data, 1, 50, f) : -1);
    gives("its end", f && fclose(f) == 0 ? 0 : -1);
    gives("unlink", unlink("full"));
    fd = open("end", O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int i = 0; i < 4; i++)
        gives("700,000 bytes at the end", write(fd, data, 700000));

    gives("close", close(fd));
    gives("unlink", unlink("end"));
    fd = open("small", O_RDWR | O_CREAT | O_TRUNC, 0600);

    long sum = 0;
    long failed = 0;

    /* gathered, or one by one: it is told, with the reason, before or at the end */
    for (int i = 0; i < 2048; i++) {
        ssize_t n = write(fd, data, 1024);

        sum += n > 0 ? n : 0;
        failed += n < 0 && errno == ENOSPC;
        if (n < 0 && errno != ENOSPC)
            gives("small write", n);
    }

    failed += fsync(fd) != 0 && errno == ENOSPC;
    failed += close(fd) != 0 && errno == ENOSPC;
    printf("told: %d, not told as done: %d\n", failed > 0,
           getenv("IOFWD_CONSISTENCY") || sum < (long)MIB + 1);
    gives("unlink", unlink("small"));
    free(data);
}

/* ---- not allowed ---- */

static void attempts(const char *name)
{
    struct stat st;
    char buf[64], below[128];

    snprintf(below, sizeof below, "%s/x", name);
    printf("%s\n", name);

    int r = open(name, O_RDONLY);
    int w = open(name, O_WRONLY);
    int a = open(name, O_WRONLY | O_APPEND);
    int t = open(name, O_RDWR | O_TRUNC);

    gives("open to read", r < 0 ? r : 0);
    errno = 0;
    w = w < 0 ? open(name, O_WRONLY) : w;
    gives("open to write", w < 0 ? w : 0);
    a = a < 0 ? open(name, O_WRONLY | O_APPEND) : a;
    gives("open to append", a < 0 ? a : 0);
    t = t < 0 ? open(name, O_RDWR | O_TRUNC) : t;
    gives("open to empty", t < 0 ? t : 0);
    gives("create", open(name, O_CREAT | O_EXCL | O_WRONLY, 0600));
    gives("create below", open(below, O_CREAT | O_EXCL | O_WRONLY, 0600) < 0 ? -1 : 0);
    gives("truncate", truncate(name, 3));
    gives("chmod", chmod(name, 0777));
    gives("chown", chown(name, 0, 0));
    gives("times", utimensat(AT_FDCWD, name, NULL, 0));
    gives("attribute", setxattr(name, "user.a", "v", 1, 0));
    gives("mkdir below", mkdir(below, 0700));
    gives("link", link(name, "another"));
    gives("symlink below", symlink("x", below));
    gives("rename", rename(name, "elsewhere"));
    gives("rename here", rename("elsewhere", name));
    gives("access", access(name, R_OK));
    gives("access to write", access(name, W_OK));
    gives("access to execute", faccessat(AT_FDCWD, name, X_OK, AT_EACCESS));
    gives("stat", stat(name, &st));
    gives("stat below", stat(below, &st));
    gives("readlink", readlink(name, buf, sizeof buf));
    gives("opendir", opendir(name) ? 0 : -1);
    gives("chdir", chdir(name) == 0 && chdir("..") == 0 ? 0 : -1);
    gives("unlink another", unlink("another"));
    gives("rmdir", rmdir(name));

    for (int i = 0; i < 4; i++)
        if ((int[]){ r, w, a, t }[i] >= 0)
            close((int[]){ r, w, a, t }[i]);
}

static void denied(void)
{
    DIR *d = opendir(".");
    static char all[64][32];
    int n = 0;

    must(d, "opendir");
    for (struct dirent *e; (e = readdir(d)) && n < 64;)
        if (strncmp(e->d_name, "denied-", 7) == 0 && strlen(e->d_name) < sizeof all[0])
            strcpy(all[n++], e->d_name);

    closedir(d);
    qsort(all, (size_t)n, sizeof all[0], (int (*)(const void *, const void *))strcmp);
    for (int i = 0; i < n; i++)
        attempts(all[i]);

    printf("%d looked at\n", n);
}

static void refused(const char *what, long result)
{
    must(result == -1 && errno == EROFS, what);
}

static void readonly(void)
{
    char buf[8];
    int fd = open("file", O_RDONLY);
    int dir = open("dir", O_RDONLY | O_DIRECTORY);

    must(fd >= 0 && dir >= 0 && read(fd, buf, 4) == 4 && memcmp(buf, "read", 4) == 0,
         "what is there can be read");
    refused("open to write", open("file", O_WRONLY));
    refused("open to both", open("file", O_RDWR));
    refused("open to empty", open("file", O_RDONLY | O_TRUNC));
    refused("create", open("new", O_CREAT | O_WRONLY, 0600));
    refused("create in", openat(dir, "new", O_CREAT | O_WRONLY, 0600));
    refused("unnamed", open(".", O_TMPFILE | O_RDWR, 0600));
    refused("truncate", truncate("file", 0));
    refused("unlink", unlink("file"));
    refused("unlink in", unlinkat(dir, "inner", 0));
    refused("rename", rename("file", "other"));
    refused("link", link("file", "other"));
    refused("symlink", symlink("file", "other"));
    refused("mkdir", mkdir("d2", 0700));
    refused("rmdir", rmdir("dir"));
    refused("mkfifo", mkfifo("fifo", 0600));
    refused("chmod", chmod("file", 0600));
    refused("fchmod", fchmod(fd, 0600));
    refused("chown", chown("file", 0, 0));
    refused("fchown", fchown(fd, 0, 0));
    refused("times", utimensat(AT_FDCWD, "file", NULL, 0));
    refused("times of the open file", futimens(fd, NULL));
    refused("attribute", setxattr("file", "user.a", "v", 1, 0));
    refused("access", access("file", W_OK));
    refused("a stream", fopen("file", "a") ? 0 : -1);
    must(lseek(fd, 0, SEEK_SET) == 0 && access("file", R_OK) == 0, "reading goes on");
    puts("read-only");
}

/* ---- what a server keeps for one client ---- */

static void files(void)
{
    int *fd = calloc((size_t)number + 8, sizeof *fd);
    int n = 0;

    must(fd, "memory");
    while (n < number + 8 && (fd[n] = open("f", O_CREAT | O_RDWR, 0600)) >= 0)
        n++;

    must(n == number - 1 && errno == EMFILE,
         "as many as allowed, the working directory being one, then EMFILE");
    must(dup(fd[0]) >= 0, "a second descriptor is no file");
    must(close(fd[1]) == 0 && (fd[1] = open("f", O_RDWR)) >= 0, "one closed, one more");
    must(open("f", O_RDWR) < 0 && errno == EMFILE, "and no more");
    must(!fopen("g", "w") && errno == EMFILE && access("g", F_OK) != 0,
         "nothing is made before that is known");
    must(write(fd[0], "x", 1) == 1 && !opendir(".") && errno == EMFILE, "those that are open work");
    while (n-- > 0)
        must(close(fd[n]) == 0, "close");

    free(fd);
    puts("files");
}

/* Takes as many files as the server gives; then another program, a new client, must find room for
 * its own, and locks, too. */
static void exhaust(void)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int last = -1;
    int fd;
    int n = 0;

    while ((fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0600)) >= 0) {
        last = fd;
        n++;
    }

    must(errno == EMFILE && n > 20, "many files, then EMFILE");
    must(!fopen("g", "w") && errno == EMFILE && access("g", F_OK) != 0,
         "nothing is made before that is known");
    must(fcntl(last, F_SETLK, &lock) == 0, "a record lock");
    must(system("for i in 1 2 3 4 5; do echo x >h$i && cat h$i; done | wc -l | grep -qx 5") == 0,
         "other programs are served");
    must(close(last) == 0, "close");
    puts("exhaust");
}

/* Another process's open file, which this one comes to where it may have no more. */
static void taken(void)
{
    int *fd = calloc((size_t)number + 8, sizeof *fd);
    int n = 0;
    int theirs, told[2], go[2];
    char c;

    must(fd && pipe(told) == 0 && pipe(go) == 0, "memory and pipes");

    pid_t pid = fork();

    if (pid == 0) {
        theirs = open("theirs", O_CREAT | O_RDWR, 0600);
        _exit(write(theirs, "theirs", 6) != 6 ||
              write(told[1], &theirs, sizeof theirs) != sizeof theirs || read(go[0], &c, 1) != 1);
    }

    must(read(told[0], &theirs, sizeof theirs) == sizeof theirs, "a file of the child's");
    while (n < number + 8 && (fd[n] = open("f", O_CREAT | O_RDWR, 0600)) >= 0)
        n++;

    int from = (int)syscall(SYS_pidfd_open, pid, 0);
    int copy = (int)syscall(SYS_pidfd_getfd, from, theirs, 0);

    must(copy >= 0, "its descriptor");
    must(pread(copy, &c, 1, 0) == -1 && errno == EMFILE, "one too many");
    must(close(fd[0]) == 0 && pread(copy, &c, 1, 0) == 1 && c == 't', "one closed, one more");
    must(open("f", O_RDWR) < 0 && errno == EMFILE, "and no more");
    must(write(go[1], "", 1) == 1 && close(copy) == 0, "close");
    free(fd);
    puts("taken");
}

static void memory(void)
{
    size_t total = 24 * MIB;
    size_t step = 8 * MIB;
    uint8_t *data = malloc(total);
    uint8_t *back = malloc(total);

    must(data && back, "memory");
    for (size_t i = 0; i < total; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);

    int fd = open("m", O_CREAT | O_RDWR, 0600);
    int calls = 0;

    must(fd >= 0, "open");
    for (size_t at = 0; at < total; calls++) {
        ssize_t n = write(fd, data + at, total - at < step ? total - at : step);

        must(n > 0, "a write gets somewhere");
        at += (size_t)n;
    }

    must(lseek(fd, 0, SEEK_CUR) == (off_t)total && lseek(fd, 0, SEEK_SET) == 0,
         "the offset is that of what was written");
    for (size_t at = 0; at < total; calls++) {
        ssize_t n = read(fd, back + at, total - at < step ? total - at : step);

        must(n > 0, "a read gets somewhere");
        at += (size_t)n;
    }

    must(memcmp(data, back, total) == 0, "what was written is read");
    printf("%s\n", calls > 6 ? "memory: calls were cut short" : "memory: nothing was refused");
    close(fd);
    free(data);
    free(back);
}

/* The servers act with the rights of the user that started the job, and serve nobody else. */
static void user(void)
{
    must(seteuid(12345) == 0, "seteuid");
    must(open("/fwd/file", O_RDONLY) == -1 && errno == EACCES, "another user is refused");
    must(open("/fwd/new", O_WRONLY | O_CREAT, 0600) == -1 && errno == EACCES, "and stays so");
    must(seteuid(0) == 0 && open("/fwd/file", O_RDONLY) >= 0, "the servers' user is served");
    puts("user");
}

/* Opens many files and becomes the program that reads them: `adopted`. */
static void passed_on(void)
{
    char name[24], count[24];
    int list = open("list", O_RDWR | O_CREAT | O_TRUNC, 0644);

    for (long i = 0; i < number; i++) {
        snprintf(name, sizeof name, "p%ld", i);

        unsigned char byte = (unsigned char)(i % 251);
        int fd = open(name, O_RDWR | O_CREAT, 0644);

        must(fd >= 0 && write(fd, &byte, 1) == 1 && write(list, &fd, sizeof fd) == sizeof fd,
             "a file to pass on");
    }

    snprintf(count, sizeof count, "%ld", number);
    execl("/proc/self/exe", "fwd_limits", "adopted", count, ".", (char *)NULL);
    must(false, "exec");
}

static void adopted(void)
{
    int list = open("list", O_RDONLY);
    int fd = -1;
    long right = 0;

    for (long i = 0; i < number; i++) {
        unsigned char byte = 255;
        right += read(list, &fd, sizeof fd) == sizeof fd && pread(fd, &byte, 1, 0) == 1 &&
                 byte == i % 251;
    }

    unlink("list"); /* the numbers are another run's others */
    gives("files of the image before", right);
}

/* ---- no memory for the table of descriptors ---- */

#define FAR 5000 /* its part of the table does not exist yet */

static void set_data(rlim_t data)
{
    struct rlimit r;

    must(getrlimit(RLIMIT_DATA, &r) == 0, "getrlimit");
    r.rlim_cur = data;
    must(setrlimit(RLIMIT_DATA, &r) == 0, "setrlimit");
}

/* Each descriptor is made or not: none is there without its file. */
static void unmapped(void)
{
    struct rlimit r = { .rlim_cur = FAR + 100, .rlim_max = FAR + 100 };
    char text[8] = "";
    int fd = open("first", O_RDWR | O_CREAT, 0600);
    int null = open("/dev/null", O_RDWR);

    must(setrlimit(RLIMIT_NOFILE, &r) == 0 && write(fd, "first", 5) == 5, "a first file");
    must(dup2(null, FAR) == FAR, "a local file");

    for (int low = null; low < 1023; low = dup(null))
        must(low >= 0, "dup");

    set_data(1); /* to the kernel 0 means its hard limit */
    gives("dup2", dup2(fd, FAR + 1));
    gives("dup3", dup3(fd, FAR + 1, O_CLOEXEC));
    gives("the descriptor", fcntl(FAR + 1, F_GETFD));
    gives("dup2 onto a local file", dup2(fd, FAR));
    gives("the local file", write(FAR, "local", 5));
    gives("F_DUPFD", fcntl(fd, F_DUPFD, FAR));
    gives("dup", dup(fd));

    for (int i = 0; i < 50; i++)
        must(open("more", O_RDWR | O_CREAT, 0600) == -1 && errno == ENOMEM, "open: ENOMEM");

    must(access("more", F_OK) == -1 && errno == ENOENT, "an open without memory created the file");
    set_data(RLIM_INFINITY);

    int again = open("more", O_RDWR | O_CREAT, 0600);

    must(again >= 0 && write(again, "more", 4) == 4 && close(again) == 0, "open with memory");
    must(dup2(fd, FAR) == FAR && pread(FAR, text, sizeof text, 0) == 5 && !strcmp(text, "first"),
         "dup2 with memory");
    must(close(fd) == 0 && pread(FAR, text, sizeof text, 0) == 5 && close(FAR) == 0, "the copy");
    puts("done");
}

/* Does a file that cannot be opened stay as it was? */
static void untouched(const char *how)
{
    char text[8] = "";

    must(open("new", O_WRONLY | O_CREAT, 0600) == -1 && errno == EMFILE, "open: EMFILE");
    must(open("new", O_RDWR | O_CREAT | O_EXCL, 0600) == -1 && errno == EMFILE,
         "exclusive: EMFILE");
    must(creat("new", 0600) == -1 && errno == EMFILE, "creat: EMFILE");
    must(open("old", O_WRONLY | O_TRUNC) == -1 && errno == EMFILE, "truncating: EMFILE");
    must(!fopen("old", "w") && errno == EMFILE, "fopen: EMFILE");
    must(access("new", F_OK) == -1 && errno == ENOENT, how);
    must(pread(number, text, sizeof text, 0) == 3 && strcmp(text, "old") == 0, how);
}

/* No descriptor is left for what an open would create or truncate. */
static void late(void)
{
    struct rlimit r = { 100, 100 };
    int null = open("/dev/null", O_RDWR);
    int last = null;

    must(setrlimit(RLIMIT_NOFILE, &r) == 0, "setrlimit");
    number = open("old", O_RDWR | O_CREAT, 0600);
    must(number >= 0 && write(number, "old", 3) == 3 && fsync(number) == 0, "a file");
    for (int fd = null; fd >= 0; fd = dup(null))
        last = fd;

    must(errno == EMFILE, "all descriptors in use");
    untouched("an open without descriptors touched a file");

    must(close(last) == 0, "close");
    must(open("new", O_WRONLY | O_CREAT, 0600) == last, "the last descriptor");
    must(open("more", O_WRONLY | O_CREAT, 0600) == -1 && errno == EMFILE, "no more");
    must(access("more", F_OK) == -1 && access("new", F_OK) == 0, "only the first was created");
    puts("done");
}

/* ---- processes that nobody may trace, and ones that may not open what their servers may ---- */

/* Makes a file and compares what comes back. */
static void use_file(const char *path)
{
    char *data = malloc(MIB);
    char *back = malloc(MIB);

    must(data && back, "memory");
    memset(data, 'd', MIB);

    int fd = open(path, O_RDWR | O_CREAT, 0600);

    gives("write", fd < 0 ? -1 : write(fd, data, MIB));
    gives("read", pread(fd, back, MIB, 0));
    must(memcmp(data, back, MIB) == 0, "the data");
    puts("done");
}

static void untraceable(void)
{
    must(prctl(PR_SET_DUMPABLE, 0) == 0, "prctl");
    use_file("/fwd/untraceable");
}

int capset(cap_user_header_t header,
           const cap_user_data_t data); /* no header of the C library has it */

static void capless(void)
{
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0 } };

    must(capset(&header, NULL) == -1 && errno == EFAULT, "a bad address");
    must(capset(&header, none) == 0, "capset");
    use_file("/fwd/capless");
}

/* ---- the lowest numbers ---- */

static int lowest[3]; /* free when the program began */

static void find_lowest(void)
{
    for (int i = 0; i < 3; i++)
        lowest[i] = open("/dev/null", O_RDWR);

    for (int i = 0; i < 3; i++)
        must(close(lowest[i]) == 0, "close");
}

static void numbers(void)
{
    static const char names[3][2] = { "a", "b", "c" };

    for (int i = 0; i < 3; i++) {
        int fd = open(names[i], O_RDWR | O_CREAT, 0600);

        printf("file %d: %s\n", i, fd == lowest[i] ? "the lowest number" : "another number");
        must(fd >= 0 && write(fd, "text", 4) == 4, "a file");
    }
}

int main(int argc, char **argv)
{
    static const struct part {
        const char *name;
        void (*fn)(void);
        bool has_number;
    } parts[] = { { "names", names, false },
                  { "sparse", sparse, false },
                  { "entries", entries, true },
                  { "full", full, false },
                  { "denied", denied, false },
                  { "readonly", readonly, false },
                  { "files", files, true },
                  { "taken", taken, true },
                  { "exhaust", exhaust, false },
                  { "memory", memory, false },
                  { "user", user, false },
                  { "passed_on", passed_on, true },
                  { "adopted", adopted, true },
                  { "unmapped", unmapped, false },
                  { "late", late, false },
                  { "numbers", numbers, false },
                  { "untraceable", untraceable, false },
                  { "capless", capless, false } };

    find_lowest();
    for (size_t i = 0; argc > 2 && i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[1], parts[i].name) != 0)
            continue;

        if (parts[i].has_number)
            number = atol(argv[2]);

        must(argc > 2 + parts[i].has_number && chdir(argv[2 + parts[i].has_number]) == 0, "chdir");
        parts[i].fn();
        return 0;
    }

    return 2;
}
