/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces of the kernel that take a descriptor or a path in a way of their own, and that only the
 * kernel of a file's host could serve.  doc/limits.md lists each with its errno.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_REFUSE_H
#define AMPH_IOFWD_REFUSE_H

#include <stdbool.h>
#include <stddef.h>

/* Some requests of ioctl carry another descriptor in their argument (LOOP_SET_FD, FICLONE).  Returns
 * the errno value with which the request fails, if that descriptor is forwarded; else 0. */
int amph_ip_ioctl_carried(unsigned long request, const void *arg);

/* The guard of ioctl for descriptors of this host. */
static inline bool amph_ip_carries(unsigned long request, const void *arg)
{
    return amph_ip_ioctl_carried(request, arg) != 0;
}

/* Of an io_submit with `count` requests: how many stand before the first whose descriptor is
 * forwarded.  Unreadable memory ends the search, since the kernel stops there as well. */
long amph_ip_submit_local(long count, void *const *list);

/* io_submit with the errno convention of system calls: the kernel gets the requests before the first
 * one of a forwarded file; EINVAL if that is the first. */
long amph_ip_submit(const long *a);

/* Must io_uring_setup fail?  A ring moves data past all interposition (IOFWD_IO_URING). */
bool amph_ip_ring_refused(void);

#endif
