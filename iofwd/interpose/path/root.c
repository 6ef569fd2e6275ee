/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that enter another root directory of this host, as daemons do.  Their forwarded working directory and
 * descriptors lead to the same files as before, and new files can be opened there.
 *
 * Layer: iofwd (interposer).  Thread rule: as the C library's function.
 *
 * After the call, neither the client's library nor /proc is found by its path.  The connections are made first, and
 * /proc is kept open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/fd/state.h"
#include "iofwd/interpose/libc/kernel.h"

/* Returns the kept descriptor of /proc, or -1, with errno as it is. */
static int kept_proc(void)
{
    int fd = __atomic_load_n(&amph_ip_fds.proc_plus_one, __ATOMIC_ACQUIRE) - 1;

    return fd >= 0 && amph_fdtab_class(fd) == FDTAB_OWN ? fd : -1;
}

static const char *below_proc(const char *link)
{
    return link + sizeof "/proc/" - 1;
}

int amph_ip_proc_open(const char *link, int flags)
{
    int fd = amph_ip_kernel_openat(AT_FDCWD, link, flags, 0);

    if (fd < 0 && errno == ENOENT && kept_proc() >= 0)
        fd = amph_ip_kernel_openat(kept_proc(), below_proc(link), flags, 0);

    return fd;
}

ssize_t amph_ip_proc_readlink(const char *link, char *target, size_t cap_bytes)
{
    ssize_t n = amph_ip_kernel_readlink(link, target, cap_bytes);

    if (n < 0 && errno == ENOENT && kept_proc() >= 0)
        n = amph_ip_kernel_readlinkat(kept_proc(), below_proc(link), target, cap_bytes);

    return n;
}

static void keep_proc(void)
{
    if (kept_proc() >= 0)
        return;

    int fd = amph_ip_own(
        amph_ip_kernel_openat(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC, 0));

    __atomic_store_n(&amph_ip_fds.proc_plus_one, fd + 1, __ATOMIC_RELEASE);
}

int amph_do_chroot(const char *path)
{
    if (!amph_ip_inside && !amph_ip_path(path) && amph_ip_client_enter() == 0) {
        amph_ip_client.fwd.connect_all();
        keep_proc();
    }

    return (int)amph_do_syscall(SYS_chroot, (long)path, 0, 0, 0, 0, 0);
}
