/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long one side of a handshake waits for the other.  A process of this host that is only slow gets more time:
 * thousands of clients may start at once beside a busy server.  One that is stopped, or asleep all the time, does not;
 * its end closes the connection.
 *
 * Layer: iofwd.  Thread rule: functions on the caller's memory and descriptors.
 */
#ifndef AMPH_IOFWD_PATIENCE_H
#define AMPH_IOFWD_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/os/work.h"

struct amph_fwd_patience {
    uint64_t deadline_ns; /* the other side must have answered until then */
    uint64_t end_ns;      /* it never gets more time; 0: no wait has been long yet */
    pid_t pid;            /* the other side; 0: it is on another host */
    struct amph_work work;
};

struct amph_fwd_patience amph_fwd_patience_until(uint64_t deadline_ns);

/* Before a wait on fd, the connection, that may be long. */
void amph_fwd_patience_begin(struct amph_fwd_patience *p, int fd);

/* The deadline has passed.  Sets another one, FWD_CONTROL_TIMEOUT_NS later, if the other side has been at work. */
bool amph_fwd_patience_extend(struct amph_fwd_patience *p, uint64_t now_ns);

#endif
