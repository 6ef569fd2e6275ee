/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptor tables, and descriptors in messages of Unix sockets.
 * Layer: base.  Thread rule: any thread.
 */
#ifndef AMPH_BASE_DESCRIPTORS_H
#define AMPH_BASE_DESCRIPTORS_H

#include <stddef.h>
#include <sys/socket.h>

/*
 * Closes the descriptors of the calling thread's table, except the n numbers at `keep`, which it sorts.
 * Returns 0 or an errno value (ENOSYS: the kernel is older than 5.9).
 */
int amph_descriptors_close_except(int *keep, size_t n);

/* Memory of a message for the descriptor that travels with its bytes; as long as the message. */
struct amph_descriptors_room {
    _Alignas(struct cmsghdr) char bytes[CMSG_SPACE(sizeof(int))];
};

/* Before sendmsg: has the message take fd along; -1: none. */
void amph_descriptors_attach(struct msghdr *m, struct amph_descriptors_room *room, int fd);

/* Before recvmsg: makes room for a descriptor.  After it has received bytes: returns the descriptor that came with
 * them, which the caller owns, or -1. */
void amph_descriptors_expect(struct msghdr *m, struct amph_descriptors_room *room);
int amph_descriptors_detach(struct msghdr *m);

#endif
