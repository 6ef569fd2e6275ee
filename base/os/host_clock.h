/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number of the clock that CLOCK_MONOTONIC is for this process: processes with the same number have
 * one clock, those with different numbers may not.  It follows from the kernel's boot and from the time
 * name space.
 *
 * Layer: base; uses only the C library.  Thread rule: callable anywhere.
 */
#ifndef AMPH_BASE_HOST_CLOCK_H
#define AMPH_BASE_HOST_CLOCK_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define AMPH_HOST_CLOCK_BOOT "/proc/sys/kernel/random/boot_id" /* a file with the boot's name */
#define AMPH_HOST_CLOCK_SPACE "/proc/self/ns/time"             /* a link to the name space's */
#define AMPH_HOST_CLOCK_BYTES 64 /* of each name; longer ones are cut */

static inline uint64_t amph_host_clock_add(uint64_t number, const char *bytes, ssize_t len)
{
    for (ssize_t i = 0; i < len; i++)
        number = (number ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */

    return number;
}

/* The number for these names, of which the second may be missing (len below 1); 0: the boot's is not known. */
static inline uint64_t amph_host_clock_number(const char *boot, ssize_t boot_len, const char *space,
                                              ssize_t space_len)
{
    if (boot_len < 1)
        return 0;

    uint64_t number = amph_host_clock_add(UINT64_C(0xcbf29ce484222325), boot, boot_len);

    number = amph_host_clock_add(number, space, space_len);
    return number ? number : 1;
}

static inline uint64_t amph_host_clock(void)
{
    char boot[AMPH_HOST_CLOCK_BYTES], space[AMPH_HOST_CLOCK_BYTES];
    ssize_t boot_len = -1;
    int fd = open(AMPH_HOST_CLOCK_BOOT, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        boot_len = read(fd, boot, sizeof boot);
        close(fd);
    }

    return amph_host_clock_number(boot, boot_len, space,
                                  readlink(AMPH_HOST_CLOCK_SPACE, space, sizeof space));
}

#endif
