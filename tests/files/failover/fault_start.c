/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be preloaded into a program whose start is to fail, an I/O server or a client: the FAULT_AT-th of
 * the calls below, counted from 1, fails and is named in the file FAULT_NOTE.  FAULT_PROGRAM is a part of
 * the program's name, so that the shell that starts it is left alone.  Without FAULT_ALL transfers and
 * allocations are not among the calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
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

/* Fills *info_p with where a called function was called from: the first frame that is not in this library
 * and not in a function of the same name, which only passes the call on. */
static bool find_caller(const char *name, Dl_info *info_p)
{
    void *frame[8];
    int n = backtrace(frame, 8);
    Dl_info self;

    if (!dladdr(&calls, &self))
        return false;

    for (int i = 0; i < n; i++)
        if (dladdr((char *)frame[i] - 1, info_p) && info_p->dli_fbase != self.dli_fbase &&
            !(info_p->dli_sname && strcmp(info_p->dli_sname, name) == 0))
            return true;

    return false;
}

/* Is it a call of the kind that fails?  The preload library's own calls are not steps of an attach, and
 * libfabric's transfers and allocations are not ours. */
static bool is_step(const char *name, bool own)
{
    Dl_info from;

    if (!find_caller(name, &from) || strstr(from.dli_fname, "libiofwd_preload"))
        return false;

    return !own || (getenv("FAULT_ALL") && (strstr(from.dli_fname, "libamphora.so") ||
                                            strstr(from.dli_fname, "libiofwd.so")));
}

/* Returns whether this call is the one that fails; then errno is err. */
static bool fails_with(const char *name, int err, bool own)
{
    static __thread bool inside;
    const char *at = getenv("FAULT_AT");
    const char *program = getenv("FAULT_PROGRAM");

    if (inside || !at || !program || !strstr(program_invocation_short_name, program))
        return false;

    inside = true;

    bool now = is_step(name, own) && atomic_fetch_add(&calls, 1) + 1 == (unsigned)atoi(at);

    if (now)
        note(name);

    inside = false;
    errno = now ? err : errno;
    return now;
}

static bool fails(const char *name)
{
    return fails_with(name, EMFILE, false);
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
    return fails_with("mmap", ENOMEM, false) ? MAP_FAILED
                                             : REAL(void *, mmap, void *, size_t, int, int, int,
                                                    off_t)(at, len, prot, flags, fd, off);
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

/* ---- what travels during a handshake ---- */

ssize_t send(int fd, const void *data, size_t len, int flags)
{
    return fails_with("send", ECONNRESET, true)
               ? -1
               : REAL(ssize_t, send, int, const void *, size_t, int)(fd, data, len, flags);
}

ssize_t recv(int fd, void *data, size_t len, int flags)
{
    return fails_with("recv", ECONNRESET, true)
               ? -1
               : REAL(ssize_t, recv, int, void *, size_t, int)(fd, data, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return fails_with("sendmsg", ECONNRESET, true)
               ? -1
               : REAL(ssize_t, sendmsg, int, const struct msghdr *, int)(fd, msg, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    return fails_with("recvmsg", ECONNRESET, true)
               ? -1
               : REAL(ssize_t, recvmsg, int, struct msghdr *, int)(fd, msg, flags);
}

/* ---- memory ---- */

#ifdef ALLOCATIONS

void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t len);

void *malloc(size_t len)
{
    return fails_with("malloc", ENOMEM, true) ? NULL : __libc_malloc(len);
}

void *calloc(size_t n, size_t len)
{
    return fails_with("calloc", ENOMEM, true) ? NULL : __libc_calloc(n, len);
}
#endif
