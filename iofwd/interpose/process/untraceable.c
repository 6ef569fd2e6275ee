/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that forbid others to trace them (PR_SET_DUMPABLE), as sftp-server, ssh-agent and gpg-agent do.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's function.
 *
 * The servers of the host open its shared memory by /proc, which the kernel allows only for a process that they
 * may trace.  What they have opened stays open, so the connections are made first.
 */
#include <sys/prctl.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"

int amph_do_prctl(int option, unsigned long a1, unsigned long a2, unsigned long a3,
                  unsigned long a4)
{
    if (option == PR_SET_DUMPABLE && a1 == 0 && !amph_ip_inside && amph_ip_client_enter() == 0)
        amph_ip_client.fwd.connect_all();

    return libc_prctl(option, a1, a2, a3, a4);
}
