/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open files that the process has sent in messages (SCM_RIGHTS).
 *
 * The receiver of a placeholder reports to its server that it uses the file at its first call on it.  A sender that
 * closes its own descriptor at once, as helpers that open files for others do, would have the server close the file
 * before.  So the sender keeps the files that it has sent last open, until it ends or has sent as many others.  Not
 * FIFOs, whose readers would miss the end.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread and signal handlers; no locks.
 */
#include <stddef.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/passed.h"
#include "iofwd/interpose/fd/state.h"

void amph_ip_passed_keep(int fd)
{
    struct amph_fd_file *of = amph_fdtab_get(fd);

    if (!of)
        return;

    /* a FIFO: the other end waits until all have closed it */
    if (amph_fwd_file_waits(&of->file)) {
        amph_fdtab_put(of);
        return;
    }

    unsigned at = __atomic_fetch_add(&amph_ip_fds.passed_next, 1, __ATOMIC_RELAXED);
    struct amph_fd_file **slot = &amph_ip_fds.passed[at % AMPH_IP_PASSED_KEPT];
    struct amph_fd_file *oldest = __atomic_exchange_n(slot, of, __ATOMIC_ACQ_REL);

    if (oldest)
        amph_fdtab_put(oldest);
}

void amph_ip_passed_forked(void)
{
    for (int i = 0; i < AMPH_IP_PASSED_KEPT; i++)
        amph_ip_fds.passed[i] = NULL;
}
