/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fwd_handler_memory SECTION DIRECTORY: a signal handler, which may have come in the midst of a malloc,
 * forks, makes calls on forwarded files, or sees their server die.  None of that may allocate or free memory
 * by malloc.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files/fwd_kill.h"
#include "tests/files/fwd_say.h"

/* ---- the program's own malloc, which counts ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void __libc_free(void *at);

static volatile sig_atomic_t in_handler, used;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS false /* the sanitizer has its own malloc */
#else
#define COUNTS true

static void use(void)
{
    void *frames[24];

    if (!in_handler)
        return;

    used++;
    in_handler = 0;
    backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
    in_handler = 1;
}

void *malloc(size_t size)
{
    use();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    use();
    return __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
    use();
    return __libc_realloc(at, size);
}

void free(void *at)
{
    if (at)
        use();

    __libc_free(at);
}
#endif

/* ---- what handlers do ---- */

static const char *file, *other, *directory;
static int open_file;
static pid_t server;
static const char *failed;
static int failed_errno;

/* In a handler nothing may be printed: the first failure is. */
#define MUST(condition) \
    do { \
        errno = 0; \
        if (!(condition) && !failed) { \
            failed = #condition; \
            failed_errno = errno; \
        } \
    } while (0)

static void fork_once(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(write(open_file, "child", 5) != 5);

    MUST(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void call(void)
{
    struct stat st;
    char byte = 'x';
    struct iovec v = { &byte, 1 };
    int fd = open(other, O_RDWR | O_CREAT, 0600);

    MUST(fd >= 0);
    MUST(write(fd, "text", 4) == 4 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, &byte, 1) == 1);
    MUST(pwrite(fd, "text", 4, 8) == 4 && pread(fd, &byte, 1, 8) == 1 && writev(fd, &v, 1) == 1);
    MUST(fstat(fd, &st) == 0 && ftruncate(fd, 4) == 0 && fsync(fd) == 0 && fdatasync(fd) == 0);
    MUST(fchmod(fd, 0640) == 0 && fchown(fd, getuid(), getgid()) == 0 && futimens(fd, NULL) == 0);

    int copy = dup(fd);

    MUST(copy >= 0 && dup2(copy, fd) == fd && fcntl(copy, F_SETFD, FD_CLOEXEC) == 0);
    MUST(close(copy) == 0 && close(fd) == 0);
    MUST(stat(other, &st) == 0 && lstat(other, &st) == 0 && access(other, R_OK) == 0);
    MUST(chmod(other, 0600) == 0 && utimensat(AT_FDCWD, other, NULL, 0) == 0);
    MUST(rename(other, file) == 0 && link(file, other) == 0 && unlink(file) == 0);
    MUST(unlink(other) == 0 && symlink("text", other) == 0 && readlink(other, &byte, 1) == 1);
    MUST(unlink(other) == 0 && mkdir(directory, 0700) == 0 && rmdir(directory) == 0);
}

static void lose_server(void)
{
    MUST(kill_and_wait(server));
    MUST(write(open_file, "x", 1) == -1 && errno == EIO);
    MUST(write(open_file, "x", 1) == -1 && errno == EIO);
}

/* ---- the sections ---- */

static void (*action)(void);

static void handle(int sig)
{
    (void)sig;
    in_handler = 1;
    action();
    in_handler = 0;
}

static void interrupt(void (*then)(void))
{
    action = then;
    MUST(raise(SIGUSR1) == 0);
}

/* The first fork, and one more. */
static void forks(void)
{
    interrupt(fork_once);
    interrupt(fork_once);
}

/* Not the first calls of the process: those ask for the addresses of other servers. */
static void calls(void)
{
    call();
    interrupt(call);
    interrupt(call);
}

static void death(void)
{
    server = newest_server();
    interrupt(lose_server);
}

int main(int argc, char **argv)
{
    static const struct section sections[] = {
        { "forks", forks },
        { "calls", calls },
        { "death", death },
    };
    struct sigaction sa = { .sa_handler = handle };
    static char names[3][PATH_MAX];
    void *frames[2];

    if (argc != 3)
        return 2;

    if (!COUNTS) {
        puts("a sanitizer's malloc is not counted");
        return 77;
    }

    dir = argv[2];
    file = strcpy(names[0], in("file"));
    other = strcpy(names[1], in("other"));
    directory = strcpy(names[2], in("directory"));
    backtrace(frames, 2); /* the first one loads a library */

    open_file = open(file, O_RDWR | O_CREAT, 0600);
    MUST(open_file >= 0 && write(open_file, "x", 1) == 1);
    MUST(sigaction(SIGUSR1, &sa, NULL) == 0);
    if (!run_section(sections, sizeof sections / sizeof sections[0], argv[1]))
        return 2;

    if (failed)
        printf("%s: %s\n", failed, strerror(failed_errno));
    if (used)
        printf("malloc or free was called %d times in the handler\n", (int)used);

    return failed || used;
}
