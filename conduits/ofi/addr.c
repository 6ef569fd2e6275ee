/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP addresses of the libfabric conduits: which one to listen on, and their portable form.  Layer: conduits (ofi).
 * Thread rule: callable from any thread.
 *
 * fi_getname is not used: on 64-bit big-endian hosts its tcp providers fail, and its bytes are the host's own.  The port is chosen
 * here instead: a socket that allows reuse binds to it and keeps other processes away until the provider listens there.
 */
#include <errno.h>
#include <unistd.h>

#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

size_t ofi_sockaddr_len(const struct sockaddr_storage *sa)
{
    return amph_inet_len(sa);
}

enum amph_status ofi_reserve_address(const struct amph_cx_config *cfg, struct sockaddr_storage *sa_p, int *fd_p)
{
    struct sockaddr_storage sa;
    enum amph_status st = amph_inet_choose("tcp", cfg->loopback_only, cfg->interface, &sa);
    if (st != AMPH_OK)
        return st;
    int one = 1, fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof sa;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&sa, (socklen_t)ofi_sockaddr_len(&sa)) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        int err = errno;
        amph_inet_report(&sa, err);
        if (fd >= 0)
            close(fd);
        return amph_status_from_errno(err);
    }
    *sa_p = sa;
    *fd_p = fd;
    return AMPH_OK;
}

size_t ofi_put_address(const struct sockaddr_storage *sa, uint8_t *blob)
{
    return amph_inet_put(sa, blob);
}

enum amph_status ofi_get_address(const void *blob, size_t len_bytes, struct sockaddr_storage *sa_p)
{
    return amph_inet_get(blob, len_bytes, sa_p);
}
