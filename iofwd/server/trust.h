/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rights of a process to files, as far as the kernel says them to other processes of its user.
 *
 * Layer: iofwd.  Thread rule: see trust.c.
 */
#ifndef AMPH_IOFWD_SERVER_TRUST_H
#define AMPH_IOFWD_SERVER_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define AMPH_SERVER_TRUST_OBJECTS 3
#define AMPH_SERVER_TRUST_GROUPS 256

struct amph_server_rights {
    struct {
        dev_t dev;
        ino_t ino;
    } object[AMPH_SERVER_TRUST_OBJECTS]; /* its mount and user namespaces, and its root directory */
    uint32_t uid;
    uint64_t permitted, effective;                /* capabilities */
    uint32_t group[AMPH_SERVER_TRUST_GROUPS + 1]; /* its own and the supplementary ones */
    size_t ngroups;
};

/* Stores the rights of this process.  false: they are not known, so that nobody is to be trusted. */
bool amph_server_trust_open(struct amph_server_rights *ours);

/* Has a process all rights that the server has? */
enum amph_server_trust {
    AMPH_SERVER_TRUST_UNKNOWN,
    AMPH_SERVER_TRUST_NONE,
    AMPH_SERVER_TRUST_NOW,
    AMPH_SERVER_TRUST_LASTS /* it has, until it executes a program */
};

/* Looks at the process.  Never UNKNOWN. */
enum amph_server_trust amph_server_trust_of(const struct amph_server_rights *ours, pid_t pid);

#endif
