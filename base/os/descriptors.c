/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptor tables, and descriptors in messages of Unix sockets.  Layer: base. */
#include "base/os/descriptors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;

    return (x > y) - (x < y);
}

int amph_descriptors_close_except(int *keep, size_t n)
{
    unsigned first = 0;

    qsort(keep, n, sizeof *keep, compare);

    for (size_t i = 0; i < n; i++) {
        if (keep[i] < 0 || (unsigned)keep[i] < first)
            continue; /* none, or the same number again */

        /* a direct call: ThreadSanitizer has one table for all threads' close_range */
        if ((unsigned)keep[i] > first &&
            syscall(SYS_close_range, first, (unsigned)keep[i] - 1, 0U) != 0)
            return errno;

        first = (unsigned)keep[i] + 1;
    }

    return syscall(SYS_close_range, first, ~0U, 0U) == 0 ? 0 : errno;
}

void amph_descriptors_expect(struct msghdr *m, struct amph_descriptors_room *room)
{
    memset(room, 0, sizeof *room);
    m->msg_control = room->bytes;
    m->msg_controllen = sizeof room->bytes;
}

void amph_descriptors_attach(struct msghdr *m, struct amph_descriptors_room *room, int fd)
{
    if (fd < 0)
        return;

    amph_descriptors_expect(m, room);

    struct cmsghdr *head = CMSG_FIRSTHDR(m);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
}

int amph_descriptors_detach(struct msghdr *m)
{
    const struct cmsghdr *head = CMSG_FIRSTHDR(m);
    int fd = -1;

    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
        return -1;

    /* the room's padding may have taken in more than the one that is expected */
    for (size_t at = CMSG_LEN(0); at + sizeof fd <= head->cmsg_len; at += sizeof fd) {
        if (fd >= 0)
            close(fd);

        memcpy(&fd, (const char *)head + at, sizeof fd);
    }

    return fd;
}
