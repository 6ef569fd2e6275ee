/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long one side of a handshake waits for the other; see patience.h.
 *
 * Layer: iofwd.  Thread rule: functions on the caller's memory and descriptors.
 */
#include "iofwd/wire/patience.h"

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/work.h"
#include "iofwd/wire/handshake.h"

struct amph_fwd_patience amph_fwd_patience_until(uint64_t deadline_ns)
{
    return (struct amph_fwd_patience){ .deadline_ns = deadline_ns };
}

void amph_fwd_patience_begin(struct amph_fwd_patience *p, int fd)
{
    if (p->end_ns)
        return;

    p->end_ns = amph_now_ns() + FWD_CONTROL_PATIENCE_NS;
    p->pid = amph_work_peer(fd);
    if (p->pid)
        (void)amph_work_look(p->pid, &p->work);
}

bool amph_fwd_patience_extend(struct amph_fwd_patience *p, uint64_t now_ns)
{
    if (now_ns >= p->end_ns || !amph_work_goes_on(p->pid, &p->work))
        return false;

    amph_info("process %ld, which has not answered yet, is at work; this process waits on",
              (long)p->pid);
    p->deadline_ns = now_ns + FWD_CONTROL_TIMEOUT_NS;
    return true;
}
