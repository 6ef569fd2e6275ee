/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded into an I/O server whose start is to fail: the FAULT_AT-th of the calls below, counted
 * from 1, gives EMFILE (pthread_create: EAGAIN) and is named in the file FAULT_NOTE.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_uint calls;

static void note(const char *name)
{
    const char *path = getenv("FAULT_NOTE");
    FILE *f = path ? fopen(path, "w") : NULL;

    if (f) {
        fprintf(f, "%s\n", name);
        fclose(f);
    }
}

/* Returns whether this call is the one that fails; then errno is set. */
static bool fails(const char *name)
{
    static __thread bool inside;
    const char *at = getenv("FAULT_AT");

    /* the shell that starts the server has the variable, too */
    if (inside || !at || !strstr(program_invocation_short_name, "iofwd-server") ||
        atomic_fetch_add(&calls, 1) + 1 != (unsigned)atoi(at))
        return false;

    inside = true;
    note(name);
    inside = false;
    errno = EMFILE;
    return true;
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

int socket(int domain, int type, int protocol)
{
    return fails("socket") ? -1 : REAL(int, socket, int, int, int)(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fd[2])
{
    return fails("socketpair")
               ? -1
               : REAL(int, socketpair, int, int, int, int *)(domain, type, protocol, fd);
}

int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
    return fails("bind") ? -1
                         : REAL(int, bind, int, const struct sockaddr *, socklen_t)(fd, addr, len);
}

int listen(int fd, int backlog)
{
    return fails("listen") ? -1 : REAL(int, listen, int, int)(fd, backlog);
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return fails("connect")
               ? -1
               : REAL(int, connect, int, const struct sockaddr *, socklen_t)(fd, addr, len);
}

int epoll_create1(int flags)
{
    return fails("epoll_create1") ? -1 : REAL(int, epoll_create1, int)(flags);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    return op == EPOLL_CTL_ADD &&
                   fails("epoll_ctl") /* the others need nothing that may be lacking */
               ? -1
               : REAL(int, epoll_ctl, int, int, int, struct epoll_event *)(epfd, op, fd, event);
}

int eventfd(unsigned int value, int flags)
{
    return fails("eventfd") ? -1 : REAL(int, eventfd, unsigned int, int)(value, flags);
}

int pipe2(int fd[2], int flags)
{
    return fails("pipe2") ? -1 : REAL(int, pipe2, int *, int)(fd, flags);
}

int memfd_create(const char *name, unsigned int flags)
{
    return fails("memfd_create") ? -1
                                 : REAL(int, memfd_create, const char *, unsigned int)(name, flags);
}

int ftruncate(int fd, off_t len)
{
    return fails("ftruncate") ? -1 : REAL(int, ftruncate, int, off_t)(fd, len);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
    return fails("mmap") ? MAP_FAILED
                         : REAL(void *, mmap, void *, size_t, int, int, int, off_t)(at, len, prot,
                                                                                    flags, fd, off);
}

int open(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);

    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, int) : 0;

    va_end(ap);
    return fails("open") ? -1 : REAL(int, open, const char *, int, ...)(path, flags, mode);
}

char *realpath(const char *restrict path, char *restrict out)
{
    return fails("realpath") ? NULL : REAL(char *, realpath, const char *, char *)(path, out);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                   void *(*fn)(void *), void *restrict arg)
{
    if (fails("pthread_create"))
        return EAGAIN;

    return REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *),
                void *)(thread, attr, fn, arg);
}
