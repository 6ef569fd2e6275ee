/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One file operation of the matrix of ways (ways_matrix.py), in C: ways OPERATION DIRECTORY [self].
 * Prints what it finds; any error ends it.  ways.cc, .f90, .go and .rs print the same.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *own_name, *dir;

static const char *in_dir(const char *name)
{
    static char path[4][4096];
    static int next;
    char *out = path[next++ % 4];

    snprintf(out, sizeof path[0], "%s/%s", dir, name);
    return out;
}

static FILE *open_stream(const char *name, const char *mode)
{
    FILE *f = fopen(in_dir(name), mode);

    if (!f)
        err(1, "%s", name);

    return f;
}

static int open_file(const char *name, int flags)
{
    int fd = open(in_dir(name), flags | O_CLOEXEC, 0644);

    if (fd < 0)
        err(1, "%s", name);

    return fd;
}

static void check(int result, const char *what)
{
    if (result < 0)
        err(1, "%s", what);
}

static void do_read(void)
{
    FILE *f = open_stream("in", "r");
    long lines = 0;
    long sum = 0;

    for (int c; (c = getc(f)) != EOF; lines += c == '\n')
        sum += c;

    printf("lines %ld sum %ld\n", lines, sum);
    fclose(f);
}

static void do_write(void)
{
    FILE *f = open_stream("new", "w");

    for (int i = 0; i < 2000; i++)
        fprintf(f, "line %d\n", i);

    check(fclose(f), "close");
    printf("written\n");
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static void do_list(void)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_visible, alphasort);

    check(n, "scandir");
    for (int i = 0; i < n; i++)
        printf("%s\n", list[i]->d_name);
}

static void do_stat(void)
{
    struct stat st;

    check(stat(in_dir("in"), &st), "stat");
    printf("size %ld\n", (long)st.st_size);
    printf("none %s\n", stat(in_dir("none"), &st) == 0 ? "exists" : "missing");
}

static void do_append(void)
{
    int fd = open_file("log", O_WRONLY | O_APPEND);

    check((int)write(fd, "second\n", 7), "write");
    check((int)write(fd, "third\n", 6), "write");
    close(fd);
    printf("appended\n");
}

static void do_rename(void)
{
    check(rename(in_dir("old"), in_dir("moved")), "rename");
    printf("old %s\n", access(in_dir("old"), F_OK) == 0 ? "exists" : "missing");
}

static void *map(const char *name, int prot, int flags, size_t *len_p)
{
    int fd = open_file(name, prot & PROT_WRITE ? O_RDWR : O_RDONLY);
    struct stat st;

    check(fstat(fd, &st), "fstat");

    void *at = mmap(NULL, (size_t)st.st_size, prot, flags, fd, 0);

    if (at == MAP_FAILED)
        err(1, "mmap");

    close(fd);
    *len_p = (size_t)st.st_size;
    return at;
}

static void do_mmap(void)
{
    size_t len;
    const unsigned char *at = map("in", PROT_READ, MAP_PRIVATE, &len);
    long sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += at[i];

    printf("sum %ld\n", sum);
}

static void do_share(void)
{
    size_t len;
    char *at = map("map", PROT_READ | PROT_WRITE, MAP_SHARED, &len);

    memcpy(at, "mapped", 6);
    check(msync(at, len, MS_SYNC), "msync");
    check(munmap(at, len), "munmap");
    printf("mapped\n");
}

static void run(char *const argv[])
{
    int status;
    pid_t child = fork();

    check(child, "fork");
    if (child == 0) {
        execvp(argv[0], argv);
        err(127, "%s", argv[0]);
    }

    check(waitpid(child, &status, 0), "wait");
    if (status)
        errx(1, "%s failed", argv[0]);
}

static void do_exec(void)
{
    run((char *[]){ "cat", (char *)in_dir("log"), NULL });
}

static void do_lock(void)
{
    struct flock lock = { .l_type = F_WRLCK };
    int fd = open_file("log", O_RDWR);

    check(fcntl(fd, F_SETLK, &lock), "lock");
    run((char *[]){ (char *)own_name, "trylock", (char *)dir, NULL });
}

static void do_trylock(void)
{
    struct flock lock = { .l_type = F_WRLCK };

    printf("%s\n", fcntl(open_file("log", O_RDWR), F_SETLK, &lock) == 0 ? "free" : "held");
}

static void do_print(void)
{
    for (int i = 0; i < 3; i++)
        printf("printed %d\n", i);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } operations[] = {
        { "read", do_read }, { "write", do_write },     { "list", do_list },
        { "stat", do_stat }, { "append", do_append },   { "rename", do_rename },
        { "mmap", do_mmap }, { "share", do_share },     { "exec", do_exec },
        { "lock", do_lock }, { "trylock", do_trylock }, { "print", do_print },
    };

    if (argc < 3)
        errx(2, "usage: ways OPERATION DIRECTORY [self]");

    own_name = argv[0];
    dir = argv[2];
    if (argc > 3)
        check(dup2(open_file("printed", O_WRONLY | O_CREAT | O_TRUNC), 1), "dup2");

    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (strcmp(operations[i].name, argv[1]) == 0) {
            operations[i].run();
            return fflush(stdout) == 0 ? 0 : 1;
        }

    errx(2, "no operation %s", argv[1]);
}
