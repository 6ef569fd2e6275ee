/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A static program whose forwarded calls are recorded; record_ways_lib.sh compares the records with
 * the lines that it prints: for which way (trap, mount, both), process, thread, name, path, offset,
 * length, result, errno; -1: the call has none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static char dir[1024], buf[4096];

static char *at(const char *name)
{
    static _Thread_local char path[2048];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void expect(const char *way, const char *name, const char *file, long long offset,
                   long long length, long long result)
{
    int err = result < 0 ? errno : 0;

    printf("%s %d %d %s %s %lld %lld %lld %d\n", way, (int)getpid(), (int)syscall(SYS_gettid), name,
           at(file), offset, length, result, err);
    fflush(stdout);
}

/* Without pages of the kernel, each read is one of the servers'. */
static int open_direct(const char *file, int flags)
{
    int fd = open(at(file), flags | O_DIRECT, 0666);

    if (fd < 0)
        exit(3);

    return fd;
}

/* Of an open; iofwd-mount does not learn the descriptor. */
static void expect_open(const char *file, int fd)
{
    expect("trap", "open", file, -1, -1, fd);
    expect("mount", "open", file, -1, -1, 0);
}

static void move_data(void)
{
    int fd = open_direct("data", O_RDWR | O_CREAT | O_TRUNC);
    char name[] = "data";

    expect_open(name, fd);
    expect("trap", "write", name, 0, 100, write(fd, buf, 100));
    expect("mount", "pwrite", name, 0, 100, 100);
    expect("trap", "write", name, 100, 50, write(fd, buf, 50));
    expect("mount", "pwrite", name, 100, 50, 50);
    expect("both", "pwrite", name, 1000, 200, pwrite(fd, buf, 200, 1000));
    expect("trap", "lseek", name, 10, -1, lseek(fd, 10, SEEK_SET));
    expect("trap", "read", name, 10, 64, read(fd, buf, 64));
    expect("mount", "pread", name, 10, 64, 64);
    expect("trap", "read", name, 74, 64, read(fd, buf, 64));
    expect("both", "pread", name, 1100, 300, pread(fd, buf, 300, 1100));
    expect("both", "ftruncate", name, 500, -1, ftruncate(fd, 500));

    int copy = dup(fd); /* of the same offset */

    expect("trap", "write", name, 138, 7, write(copy, buf, 7));
    expect("trap", "write", name, 145, 7, write(fd, buf, 7));
    close(copy);
    close(fd);

    fd = open_direct(name, O_RDWR);
    expect("trap", "read", name, 0, 9, read(fd, buf, 9));
    expect("mount", "pread", name, 0, 9, 9);
    close(fd);
}

static void change_names(void)
{
    expect("both", "mkdir", "folder", -1, -1, mkdir(at("folder"), 0777));
    expect("trap", "mkdir", "folder", -1, -1, mkdir(at("folder"), 0777));

    int fd = open_direct("folder/inner", O_WRONLY | O_CREAT);
    char from[2048];

    expect_open("folder/inner", fd);
    snprintf(from, sizeof from, "%s", at("folder"));
    if (rename(from, at("other")) != 0)
        exit(4);

    expect("both", "rename", "folder", -1, -1, 0);
    expect("both", "pwrite", "other/inner", 5, 6, pwrite(fd, buf, 6, 5));
    close(fd);
    expect("both", "unlink", "other/inner", -1, -1, unlink(at("other/inner")));
    expect("both", "unlink", "other", -1, -1, rmdir(at("other")));
    expect("trap", "open", "missing", -1, -1, open(at("missing"), O_RDONLY));
    errno = ENOENT;
    expect("mount", "stat", "missing", -1, -1, -1);
}

static void *write_part(void *arg)
{
    long part = (long)arg;
    int fd = open_direct("parts", O_WRONLY | O_CREAT);

    for (int i = 0; i < 10; i++)
        expect("both", "pwrite", "parts", (part * 10 + i) * 100, 100,
               pwrite(fd, buf, 100, (part * 10 + i) * 100));

    close(fd);
    return NULL;
}

static void use_threads(void)
{
    pthread_t thread[THREADS];

    for (long i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, write_part, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void use_children(int n)
{
    for (int i = 0; i < n; i++)
        if (fork() == 0) {
            write_part((void *)(long)(THREADS + i));
            exit(0);
        }

    while (wait(NULL) > 0) {
    }
}

static void write_many(long n)
{
    int fd = open_direct("many", O_WRONLY | O_CREAT);

    for (long i = 0; i < n; i++)
        if (pwrite(fd, buf, 8, i * 8) != 8)
            exit(5);
}

/* record_ways DIR all | children N | many N [kill | parent | missing | wait] */
int main(int argc, char **argv)
{
    snprintf(dir, sizeof dir, "%s", argv[1]);

    const char *what = argv[2];
    long n = argc > 3 ? atol(argv[3]) : 0;
    const char *end = argc > 4 ? argv[4] : "";

    if (strcmp(what, "all") == 0) {
        move_data();
        change_names();
        use_threads();
        use_children(2);
    } else if (strcmp(what, "children") == 0) {
        use_children((int)n);
    } else if (strcmp(what, "many") == 0) {
        write_many(n);
    }

    if (strcmp(end, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(end, "parent") == 0) { /* the supervisor */
        kill(getppid(), SIGKILL);
        pause();
    }
    if (strcmp(end, "missing") == 0) {
        struct stat st;

        return stat(at("missing"), &st) == 0;
    }
    if (strcmp(end, "wait") == 0) {
        puts("waits");
        fflush(stdout);
        return read(0, buf, 1) < 0;
    }

    return 0;
}
