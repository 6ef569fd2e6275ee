/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files themselves: which of them a process can make, and what map.c and map_itself.c share.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_INTERPOSE_MAP_ITSELF_H
#define AMPH_IOFWD_INTERPOSE_MAP_ITSELF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"

/* The arguments of mmap but for the file. */
struct amph_ip_map_call {
    void *at;
    size_t len;
    int prot, flags;
    off_t off;
};

static inline void *amph_ip_mmap_by(enum amph_client_route way, const struct amph_ip_map_call *c,
                                    int fd)
{
    if (way == AMPH_IP_KERNEL)
        return amph_ip_kernel_mmap(c->at, c->len, c->prot, c->flags, fd, c->off);

    return libc_mmap64(c->at, c->len, c->prot, c->flags, fd, c->off);
}

static inline int amph_ip_munmap_by(enum amph_client_route way, void *at, size_t len)
{
    return way == AMPH_IP_LIBC ? libc_munmap(at, len) : amph_ip_kernel_munmap(at, len);
}

/* Maps a forwarded file itself, if this process can open it (path/near.h) or a server passes its descriptor.  st,
 * writes: its attributes, and whether it is open for writing.  false: it cannot, or others have maps of its pages. */
bool amph_ip_map_itself(enum amph_client_route way, struct amph_fd_file *of,
                        const struct amph_ip_map_call *c, const struct stat *st, bool writes,
                        void **map_p);

/* The same for a private map, which shows what others change in the file, as locally.  Smaller ones are read, which
 * takes less time than a question for a descriptor.  access: as the file is open. */
#define AMPH_IP_MAP_PRIVATE_MIN ((off_t)64 << 10)
bool amph_ip_map_itself_private(enum amph_client_route way, const struct amph_fd_file *of,
                                const struct amph_ip_map_call *c, const struct stat *st, int access,
                                void **map_p);

/* A shared map of a file that the process has opened by itself as fd.  If others have maps of its pages, and it is only
 * read, it becomes one of these. */
void *amph_ip_map_near(enum amph_client_route way, const struct amph_ip_map_call *c, int fd);

/* Others have maps of the other kind: says so, and returns MAP_FAILED with ENODEV.  passed: theirs are by passed
 * descriptors. */
void *amph_ip_map_refused(const char *path, bool passed);

#endif
