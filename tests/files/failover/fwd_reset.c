/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A forwarding program whose connections are reset while it writes, as by a firewall.
 *
 *   fwd_reset data|control TIMES FILE BYTES
 *
 * data: its TCP connections; control: its control connections, which are UNIX sockets.  TIMES 0: until a
 * write fails.  Prints "wrote BYTES" or the errno of the first write that failed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 1100

/* The C library's functions: the preload library hides the sockets of the client. */
static int (*libc_getsockopt)(int, int, int, void *, socklen_t *);
static int (*libc_connect)(int, const struct sockaddr *, socklen_t);
static int (*libc_getpeername)(int, struct sockaddr *, socklen_t *);
static int (*libc_shutdown)(int, int);

static bool over, control;
static int times;

static int option_of(int fd, int option)
{
    int value;
    socklen_t len = sizeof value;

    return libc_getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* A connection to a server; the one to the launcher has another name. */
static bool is_control(int fd)
{
    struct sockaddr_un sa;
    socklen_t len = sizeof sa;

    memset(&sa, 0, sizeof sa);
    return libc_getpeername(fd, (struct sockaddr *)&sa, &len) == 0 && sa.sun_family == AF_UNIX &&
           strstr(sa.sun_path + 1, "amphora-control");
}

static bool is_wanted(int fd)
{
    if (option_of(fd, SO_ACCEPTCONN) != 0)
        return false;

    return control ? is_control(fd) : option_of(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

/* Finds the connections first: one that is made because another one is lost must stay. */
static void reset_all(void)
{
    const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
    static int found[FDS_MAX];
    int n = 0;

    for (int fd = 3; fd < FDS_MAX; fd++)
        if (is_wanted(fd))
            found[n++] = fd;

    for (int i = 0; i < n; i++)
        if (control || libc_connect(found[i], &nowhere, sizeof nowhere) == 0)
            libc_shutdown(found[i], SHUT_RDWR);
}

static void *resetter(void *arg)
{
    for (int i = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED) && (i < times || times == 0); i++) {
        usleep(3000);
        reset_all();
    }

    return NULL;
}

int main(int argc, char **argv)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    pthread_t thread;
    char buf[512];

    if (argc != 5 || !libc)
        return 2;

    *(void **)&libc_getsockopt = dlsym(libc, "getsockopt");
    *(void **)&libc_connect = dlsym(libc, "connect");
    *(void **)&libc_getpeername = dlsym(libc, "getpeername");
    *(void **)&libc_shutdown = dlsym(libc, "shutdown");

    control = strcmp(argv[1], "control") == 0;
    times = atoi(argv[2]);

    int fd = open(argv[3], O_CREAT | O_TRUNC | O_RDWR, 0644);
    long bytes = atol(argv[4]);
    long at = 0;

    memset(buf, 'x', sizeof buf);
    if (fd < 0 || pwrite(fd, buf, sizeof buf, 0) != (ssize_t)sizeof buf ||
        pthread_create(&thread, NULL, resetter, NULL) != 0)
        return 2;

    while (at < bytes) {
        ssize_t n = pwrite(fd, buf, sizeof buf, at);

        if (n < 0) {
            printf("write: %s\n", strerrorname_np(errno));
            break;
        }

        at += n;
    }

    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    if (at >= bytes)
        printf("wrote %ld\n", at);

    return at < bytes;
}
