/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that forbid others to trace them (PR_SET_DUMPABLE), as sftp-server, ssh-agent and gpg-agent do, and that
 * give capabilities up, as named and knotd do.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's function.
 *
 * A process and the servers of its host open each other's shared memory by /proc, which the kernel allows only for a
 * process that they may trace, and whose capabilities they have.  What they have opened stays open, so the connections
 * are made first.
 */
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/targets.h"

static void connect_first(void)
{
    if (!amph_ip_inside && amph_ip_client_enter() == 0)
        amph_ip_client.fwd.connect_all();
}

int amph_do_prctl(int option, unsigned long a1, unsigned long a2, unsigned long a3,
                  unsigned long a4)
{
    if (option == PR_SET_DUMPABLE && a1 == 0)
        connect_first();

    return libc_prctl(option, a1, a2, a3, a4);
}

/* Whether a call of capset takes an effective capability from the calling thread.  Memory that cannot be read, and
 * versions of the header that have fewer words than the present one, are left to the kernel. */
static bool gives_up(const struct __user_cap_header_struct *header,
                     const struct __user_cap_data_struct *wanted)
{
    struct __user_cap_header_struct own = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct has[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

    if (!amph_ip_can_read(header, sizeof *header) || !amph_ip_can_read(wanted, sizeof has) ||
        header->version == _LINUX_CAPABILITY_VERSION_1)
        return false;

    if (libc_syscall(SYS_capget, (long)&own, (long)has, 0, 0, 0, 0) != 0)
        return false;

    return (has[0].effective & ~wanted[0].effective) || (has[1].effective & ~wanted[1].effective);
}

int amph_do_capset(void *header, const void *data)
{
    if (gives_up(header, data))
        connect_first();

    return libc_capset(header, data);
}
