/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interfaces that only the kernel of a file's host could serve: they take a descriptor or a path in
 * an unusual form.  doc/limits.md lists each with its errno.
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

/* Returns whether io_uring_setup must fail.  A ring moves data without calls that could be
 * intercepted (IOFWD_IO_URING). */
bool amph_ip_ring_refused(void);

#endif
