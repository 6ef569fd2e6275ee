/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs whose processes send each other descriptors through a UNIX socket. */
#ifndef TESTS_MP_FWD_SEND_H
#define TESTS_MP_FWD_SEND_H

#include <string.h>
#include <sys/socket.h>

#include "tests/files/fwd_is.h"

static inline void send_fd(int to, int fd)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = { 0 };
    struct iovec one = { "x", 1 };
    struct msghdr m = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    IS(sendmsg(to, &m, 0), 1);
}

/* Returns a descriptor that the caller owns. */
static inline int receive_fd(int from)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = { 0 };
    char byte;
    struct iovec one = { &byte, 1 };
    struct msghdr m = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    int fd;

    IS(recvmsg(from, &m, 0), 1);
    IS(CMSG_FIRSTHDR(&m) != NULL, 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

#endif
