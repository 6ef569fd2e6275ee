/* SPDX-License-Identifier: BSD-3-Clause */
/* Claiming the right to join another launcher's job; see claim.h.  Layer: boot. */
#include "boot/claim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/settings/env.h"
#include "base/log.h"
#include "base/os/descriptors.h"
#include "base/os/thread.h"
#include "boot/kind.h"
#include "boot/standing.h"

/* Time for a whole job to start. */
enum {
    WAIT_MS = 120000
};

static bool find_sockets(int *result_p, int *token_p)
{
    unsigned long inode;
    struct stat st;

    return sscanf(amph_env_str(AMPH_ENV_IOFWD_RANK_SOCKETS), "%*d:%d:%d:%lu", result_p, token_p,
                  &inode) == 3 &&
           fstat(*result_p, &st) == 0 && st.st_ino == inode;
}

/* Peeks at the result, which stays in the socket; its connection is not received as a descriptor. */
static enum amph_claim peek_result(int fd, char **text_p)
{
    char *buf = malloc(AMPH_STANDING_TEXT_MAX);
    ssize_t n = buf ? recv(fd, buf, AMPH_STANDING_TEXT_MAX - 1, MSG_PEEK | MSG_DONTWAIT) : -1;
    enum amph_claim result = n > 0 ? (enum amph_claim)(buf[0] - '0') : AMPH_CLAIM_NONE;

    if (result == AMPH_CLAIM_PLAIN) {
        buf[n] = 0;
        memmove(buf, buf + 1, (size_t)n);
        *text_p = buf;
        return result;
    }

    free(buf);
    return result;
}

enum amph_claim amph_boot_claim(char **text_p)
{
    int result, token;
    char byte;

    if (amph_boot_process.token_held || !find_sockets(&result, &token))
        return AMPH_CLAIM_NONE;

    for (;;) {
        struct pollfd p[2] = { { .fd = result, .events = POLLIN },
                               { .fd = token, .events = POLLIN } };
        sigset_t before;

        amph_thread_wait_begin(&before);

        int n = poll(p, 2, WAIT_MS);

        amph_thread_wait_end(&before);
        if (n < 0 && errno == EINTR)
            continue;

        if (n <= 0) {
            amph_error(
                "another process of this rank has not reached the job's I/O servers within %d s",
                WAIT_MS / 1000);
            return AMPH_CLAIM_FAILED;
        }

        if (p[0].revents)
            return peek_result(result, text_p);

        if (recv(token, &byte, 1, MSG_DONTWAIT) == 1) {
            amph_boot_process.token_held = true;
            return AMPH_CLAIM_MINE;
        }
    }
}

void amph_boot_claimed(enum amph_claim result, const char *text, int fd)
{
    char kind = (char)('0' + result);
    struct amph_descriptors_room room;
    struct iovec iov[2] = { { &kind, 1 }, { (char *)text, text ? strlen(text) : 0 } };
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
    int to, token;

    if (!amph_boot_process.token_held || !find_sockets(&to, &token))
        return;

    amph_boot_process.token_held = false;
    amph_descriptors_attach(&m, &room, fd);
    if (sendmsg(token, &m, MSG_NOSIGNAL) <
        0) /* arrives at the other socket of the pair, where the processes peek */
        amph_error(
            "cannot give the I/O servers' addresses to the other processes of this rank: %m");
}
