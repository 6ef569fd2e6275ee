/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports that this process can open by itself, and the state of near.c, near_exports.c and near_dir.c.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_INTERPOSE_NEAR_EXPORTS_H
#define AMPH_IOFWD_INTERPOSE_NEAR_EXPORTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/wire/below.h"
#include "iofwd/wire/prefix.h"

#define AMPH_IP_NEAR_TEXT 8192 /* of an address file; from a longer one nothing is taken */

enum amph_ip_near_found {
    AMPH_IP_NEAR_OFF,
    AMPH_IP_NEAR_NOT_YET,
    AMPH_IP_NEAR_LOOKS, /* a thread is reading the address file */
    AMPH_IP_NEAR_FOUND
};

struct amph_ip_near_export {
    const char *name, *dir; /* in the text; the name ends at name_len */
    size_t name_len, dir_len;
    uint64_t dev, ino;
    bool readonly;
    _Atomic int fd; /* of dir, or -1 */
};

/* What only processes with exports of their own need. */
struct amph_ip_near_memory {
    char text[AMPH_IP_NEAR_TEXT];
    struct amph_fwd_plains plains;
    /* Numbers of regular files that were opened; one that has been closed may be another file's. */
    _Atomic uint64_t files[FDTAB_MAX / 64];
    _Atomic int files_end;    /* all numbers are below it */
    _Atomic uint32_t changes; /* of names, by this process */
};

struct amph_ip_near {
    _Atomic int found;                  /* enum amph_ip_near_found */
    char *file;                         /* the address file */
    struct amph_ip_near_memory *memory; /* while and after it is read; NULL: none */
    struct amph_ip_near_export export[FWD_PREFIX_MAX];
    size_t n;
    bool says_versions;   /* the address file names the servers' object of file versions */
    uint64_t versions;    /* its id; 0: they have none */
    uint64_t age_ns;      /* how long a directory on the way is taken to be free of links */
    uint32_t directories; /* opened so far */
    bool no_xattrat; /* the kernel cannot read the attributes of a file below a directory; atomic */
    pthread_mutex_t lock; /* of a thread that opens one at its server; with signals blocked */
};

extern struct amph_ip_near amph_ip_near AMPH_HIDDEN;

/* Has this process exports?  The first call looks. */
bool amph_ip_near_exports(void);

/* The descriptor of an export's directory; -1: it is not the servers' any more, or cannot be opened. */
int amph_ip_near_export_fd(struct amph_ip_near_export *e);

/* The name in /proc of an open file. */
struct amph_ip_by_fd {
    char text[40];
};
const char *amph_ip_name_by_fd(int fd, struct amph_ip_by_fd *n);

#endif
