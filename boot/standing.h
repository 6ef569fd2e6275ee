/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standing servers: I/O servers that belong to no job, and their address file.
 *
 * Layer: boot.  Thread rule: as boot.h.
 *
 * AMPHORA_JOB names the file, as it does a job's address file.  It is text, mode 0600:
 *
 *   amphora-servers 1
 *   id HEX                   a random number of this set
 *   key HEX                  the key that clients must prove to know
 *   compute COUNT            only for a job's own servers: its number of compute processes, which
 *                            are numbered before the servers
 *   conduit NAME             only if clients of other hosts are accepted: the network on which the
 *                            servers listen
 *   prefix PATH[:PATH]...    the names of the servers' exports
 *   watch PID                the process that supervises the servers
 *   here, export             for processes that read the exports by themselves (iofwd/wire/near.h)
 *   server HOST PID HEX      one line a server, in order: the value that it has published (the
 *                            address of its listener)
 */
#ifndef AMPH_BOOT_STANDING_H
#define AMPH_BOOT_STANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/boot.h"

#define AMPH_STANDING_MAX 256       /* servers of one set */
#define AMPH_STANDING_VALUE_MAX 256 /* bytes that a server publishes */
#define AMPH_STANDING_TEXT_MAX (256 << 10)

struct amph_standing_server {
    char host[256];
    uint64_t pid;
    size_t value_len;
    uint8_t value[AMPH_STANDING_VALUE_MAX];
};

struct amph_standing {
    uint64_t id;
    uint8_t key[AMPH_KEY_BYTES];
    char conduit[16];
    char prefix[4096];
    uint32_t ncompute;
    uint64_t watch_pid; /* 0: unknown */
    char *near;         /* lines that are printed as they are and not parsed; NULL: none; owned */
    uint32_t n;
    struct amph_standing_server *server; /* owned */
};

/* Returns the file's text, allocated; NULL: no memory. */
char *amph_boot_standing_print(const struct amph_standing *set);
/* Parses the file's text.  Errors: AMPH_ERR_PROTO (another version, damaged), AMPH_ERR_NOMEM;
 * logged, with `from` as the name of the source. */
enum amph_status amph_boot_standing_parse(const char *text, const char *from,
                                          struct amph_standing *set_p);
void amph_boot_standing_free(struct amph_standing *set);

/* Creates the file with mode 0600 under a temporary name and renames it when it is complete.
 * Replaces an older file. */
enum amph_status amph_boot_standing_write(const char *path, const struct amph_standing *set);
enum amph_status amph_boot_standing_read(const char *path, struct amph_standing *set_p);

/* Opens a file at a default path, such as in /tmp.  If other users may write to its directory,
 * symbolic links are not followed and the file must belong to this user or to root.  Returns -1
 * with errno; EPERM: the file belongs to another user. */
int amph_boot_standing_open(const char *path, int flags);

/* The path of the file: AMPHORA_JOB, or a default in XDG_RUNTIME_DIR or /tmp. */
const char *amph_boot_standing_default(void);

/* Is this process of this host an I/O server, or one that supervises I/O servers? */
bool amph_boot_standing_lives(uint64_t pid);

/* Is this the address file of standing servers?  (Else it may be a job's.) */
bool amph_boot_standing_is(const char *path);

/* A server's position in a set that is being started.  The server's value is given to
 * published(arg, value, len) instead of to other members.  control_fd becomes the handle's: the
 * byte 'D' on it is AMPH_BOOT_DRAIN, its end of file AMPH_BOOT_SHUTDOWN. */
struct amph_standing_config {
    uint32_t index, n;
    uint64_t id;
    uint8_t key[AMPH_KEY_BYTES];
    char conduit[16];
    int control_fd;
    bool (*published)(void *arg, const void *value, size_t len);
    void *arg;
};

enum amph_status amph_boot_stand(const struct amph_standing_config *config,
                                 struct amph_boot **boot_p);

/* Sets the text that attaching uses instead of an address file from now on (of a private server
 * of this process).  The caller owns the text and keeps it.  NULL: the address file again. */
void amph_boot_standing_own(const char *text);

/* This process's number in a parallel program of any launcher (Open MPI, PMI, Slurm), or
 * AMPH_RANK_NONE. */
uint32_t amph_boot_foreign_rank(void);
/* This process's number in a program that another launcher (mpirun, for example) has started
 * inside a process of an amphora-run job; otherwise 0. */
uint32_t amph_boot_rank_inside(const struct amph_boot *boot);

#endif
