/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standing servers: I/O servers that belong to no job, and their address file.  Layer: boot.
 * Thread rule: as boot.h.
 *
 * The file, which AMPHORA_JOB names as it would name a job's, is text, mode 0600:
 *
 *   amphora-servers 1
 *   id HEX                   a random number of this set
 *   key HEX                  what clients prove that they know
 *   compute COUNT            only of a job's own servers: its compute processes, which have the
 *   numbers before the servers
 *   conduit NAME             only where clients of other hosts may come: the network that the
 *   servers listen on
 *   prefix PATH[:PATH]...    the names of what the servers export
 *   watch PID                the process that watches over them
 *   server HOST PID HEX      one line a server, in order: what it has published of itself (its
 *   door)
 */
#ifndef AMPH_BOOT_STANDING_H
#define AMPH_BOOT_STANDING_H

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
    uint32_t n;
    struct amph_standing_server *server; /* owned */
};

/* Gives an allocated text; NULL: no memory. */
char *amph_standing_print(const struct amph_standing *set);
/* Errors: AMPH_ERR_PROTO (another version, damaged), NOMEM; logged, with `from` as the name of what
 * was read. */
enum amph_status amph_standing_parse(const char *text, const char *from,
                                     struct amph_standing *set_p);
void amph_standing_free(struct amph_standing *set);

/* Creates the file with mode 0600 under another name and gives it its own when it is whole;
 * replaces an older one. */
enum amph_status amph_standing_write(const char *path, const struct amph_standing *set);
enum amph_status amph_standing_read(const char *path, struct amph_standing *set_p);

/* Opens a file that may have been named by nobody but us, in /tmp say: where others may write into
 * its directory it is followed through no link, and is this user's or root's.  -1: errno; EPERM: it
 * is another's. */
int amph_standing_open(const char *path, int flags);

/* Where the file is if nobody says: AMPHORA_JOB, else in XDG_RUNTIME_DIR or /tmp. */
const char *amph_standing_default(void);

/* Is this the address file of standing servers?  (Else it may be a job's.) */
bool amph_standing_is(const char *path);

/* A server's place in a set that is being started.  published(arg, value, len) gets what the server
 * publishes, instead of other members. control_fd: 'D' on it is AMPH_BOOT_DRAIN, its end
 * AMPH_BOOT_SHUTDOWN; becomes the handle's. */
struct amph_standing_place {
    uint32_t index, n;
    uint64_t id;
    uint8_t key[AMPH_KEY_BYTES];
    char conduit[16];
    int control_fd;
    bool (*published)(void *arg, const void *value, size_t len);
    void *arg;
};

enum amph_status amph_boot_stand(const struct amph_standing_place *place,
                                 struct amph_boot **boot_p);

/* Text that is used as the address file by attaching processes of this image from now on (a server
 * of the process's own), owned by the caller and kept; NULL: none again. */
void amph_standing_own(const char *text);

/* This process's number in a parallel program of any launcher (Open MPI, PMI, Slurm), or
 * AMPH_RANK_NONE. */
uint32_t amph_boot_foreign_rank(void);
/* The number of this process in a program that another launcher, mpirun say, has started inside a
 * process of a job of amphora-run; else 0. */
uint32_t amph_boot_rank_inside(const struct amph_boot *boot);

#endif
