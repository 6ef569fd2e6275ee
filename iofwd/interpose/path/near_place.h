/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a call of near.c or near_change.c starts: a directory that the process has open, and the path below it.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 */
#ifndef AMPH_IOFWD_INTERPOSE_NEAR_PLACE_H
#define AMPH_IOFWD_INTERPOSE_NEAR_PLACE_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/resolve.h"
#include "iofwd/wire/below.h"

struct amph_ip_near_place {
    int dir;
    const char *rel;
    struct amph_fwd_plain_key key; /* of the directory, unless the call has opened it */
    bool readonly;
    bool opened; /* dir is the call's */
    bool links;  /* there are links on the way, which stay below the directory and are followed */
    /* A look-up has opened dir on its way by links; the call has begun at start, with this path. */
    bool entered;
    int start;
    const char *whole;
};

/* Finds the place of a path.  false: the call is the server's.  The file of a descriptor itself is always that. */
bool amph_ip_near_place(const struct amph_ip_resolved *w, struct amph_ip_near_place *p);

/* Ends the use of a place that has been found. */
void amph_ip_near_place_end(const struct amph_ip_near_place *p);

/* Opens the path below the directory.  Links are followed while they stay below it.  -1 with errno; EXDEV: one leaves
 * it.  The caller owns the descriptor. */
int amph_ip_near_open_below(struct amph_ip_near_place *p, const char *rel, int flags, mode_t mode);

/* Has an open failed as it would at the server, whose files need a descriptor each, too? */
static inline bool amph_ip_near_lacks_descriptors(int err)
{
    return err == EMFILE || err == ENFILE;
}

/* Looks what is there before it is opened, because the open of a FIFO or a device would have effects.  Returns 0,
 * ENOENT or FWD_BELOW_ASK.  flags: of the open. */
int amph_ip_near_look_at(struct amph_ip_near_place *p, int flags, struct stat *st);

/* Remembers that the process has opened a regular file by itself. */
void amph_ip_near_note_file(int fd);

/* near_change.c: opens a file to change it.  Returns as amph_ip_near_open. */
bool amph_ip_near_open_to_change(struct amph_ip_near_place *p, int flags, mode_t mode,
                                 struct amph_ip_near_opened *o, int *err_p);

#endif
