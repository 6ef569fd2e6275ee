/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Refuses calls that cannot be forwarded; see refuse.h.  Calls that are refused by the guard of one
 * argument alone are rows of calls/names.def and calls/numbers.def.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include "iofwd/interpose/entry/refuse.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/entry/targets.h"

/* ---- ioctl ---- */

/* Where the argument of a request has a descriptor.  A dedupe request has a list of them. */
enum carrier {
    IN_VALUE,
    IN_WORD,
    IN_LIST
};

/* From the headers of ext4 and FUSE, which are not installed everywhere. */
#define MOVE_EXTENT _IOC(_IOC_READ | _IOC_WRITE, 'f', 15, 40)
#define FUSE_BACKING_OPEN _IOC(_IOC_WRITE, 229, 1, 16)
#ifndef LOOP_CONFIGURE
#define LOOP_CONFIGURE 0x4C0A
#endif

/* clang-format off */
static const struct carrying {
    unsigned long request;
    enum carrier how;
    unsigned at; /* offset in the memory that the argument points to */
    int err;     /* as the kernel returns it for a file that cannot be used for this request */
} carrying[] = {
    { LOOP_SET_FD, IN_VALUE, 0, EINVAL },
    { LOOP_CHANGE_FD, IN_VALUE, 0, EINVAL },
    { LOOP_CONFIGURE, IN_WORD, 0, EINVAL }, /* struct loop_config */
    { FICLONE, IN_VALUE, 0, EXDEV },
    { FICLONERANGE, IN_WORD, offsetof(struct file_clone_range, src_fd), EXDEV },
    { FIDEDUPERANGE, IN_LIST, 0, EXDEV },
    { MOVE_EXTENT, IN_WORD, 4, EXDEV },
    { FUSE_BACKING_OPEN, IN_WORD, 0, EINVAL },
};
/* clang-format on */

static bool word_is_forwarded(const void *at)
{
    int fd;

    if (!amph_ip_can_read(at, sizeof fd))
        return false;

    memcpy(&fd, at, sizeof fd);
    return amph_ip_fd(fd);
}

/* Tests the low half of a src_fd of 64 bits. */
static bool long_word_is_forwarded(const void *at)
{
    int64_t fd;

    if (!amph_ip_can_read(at, sizeof fd))
        return false;

    memcpy(&fd, at, sizeof fd);
    return fd == (int)fd && amph_ip_fd((int)fd);
}

static bool list_has_forwarded(const struct file_dedupe_range *same)
{
    if (!amph_ip_can_read(same, sizeof *same) ||
        !amph_ip_can_read(same->info, same->dest_count * sizeof same->info[0]))
        return false;

    for (unsigned i = 0; i < same->dest_count; i++)
        if (long_word_is_forwarded(&same->info[i].dest_fd))
            return true;

    return false;
}

static bool carries_forwarded(const struct carrying *c, const void *arg)
{
    if (c->how == IN_VALUE)
        return amph_ip_fd((int)(long)arg);
    if (c->how == IN_LIST)
        return list_has_forwarded(arg);
    if (!arg)
        return false;

    const char *at = (const char *)arg + c->at;

    return c->request == FICLONERANGE ? long_word_is_forwarded(at) : word_is_forwarded(at);
}

int amph_ip_ioctl_carried(unsigned long request, const void *arg)
{
    if (!amph_ip_state.on || amph_ip_inside)
        return 0;

    for (size_t i = 0; i < AMPH_COUNTOF(carrying); i++)
        if (carrying[i].request == request)
            return carries_forwarded(&carrying[i], arg) ? carrying[i].err : 0;

    return 0;
}

/* ---- io_uring ---- */

bool amph_ip_ring_refused(void)
{
    return amph_ip_state.on && !amph_ip_inside && !amph_ip_state.io_uring;
}

int amph_do_io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
    return amph_ip_ring_refused() ? -ENOSYS : libc_io_uring_queue_init(entries, ring, flags);
}

int amph_do_io_uring_queue_init_params(unsigned entries, void *ring, void *params)
{
    return amph_ip_ring_refused() ? -ENOSYS
                                  : libc_io_uring_queue_init_params(entries, ring, params);
}

int amph_do_io_uring_queue_init_mem(unsigned entries, void *ring, void *params, void *memory,
                                    size_t len)
{
    return amph_ip_ring_refused()
               ? -ENOSYS
               : libc_io_uring_queue_init_mem(entries, ring, params, memory, len);
}

int amph_do_io_uring_queue_init_try_nosqarr(unsigned entries, void *ring, void *params)
{
    return amph_ip_ring_refused() ? -ENOSYS
                                  : libc_io_uring_queue_init_try_nosqarr(entries, ring, params);
}

int amph_do_io_uring_setup(unsigned entries, void *params)
{
    return amph_ip_ring_refused() ? -ENOSYS : libc_io_uring_setup(entries, params);
}

/* Describes what the kernel's rings can do; NULL: not known. */
void *amph_do_io_uring_get_probe(void)
{
    return amph_ip_ring_refused() ? NULL : libc_io_uring_get_probe();
}
