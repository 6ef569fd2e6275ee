/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP addresses of the libfabric conduits: which one to listen on, and their portable form.  Layer:
 * conduits (ofi). Thread rule: callable from any thread.
 *
 * The tcp conduit does not use fi_getname, because on 64-bit big-endian hosts it fails in the tcp
 * providers.  Instead this file chooses the port: a socket with SO_REUSEADDR binds to it and keeps
 * other processes away until the provider listens there.  A card's provider chooses its address
 * itself and is asked for it.  The result travels in portable form if it is an IP address, and
 * unchanged otherwise (such providers reach only their own kind of host).
 */
#include <errno.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#include "conduits/inet.h"
#include "conduits/ofi/ofi.h"

size_t amph_ofi_sockaddr_len(const struct sockaddr_storage *sa)
{
    return amph_conduit_inet_len(sa);
}

enum amph_status amph_ofi_reserve_address(const char *conduit, const struct amph_cx_config *cfg,
                                          struct sockaddr_storage *sa_p, int *fd_p)
{
    struct sockaddr_storage sa;
    enum amph_status st = amph_conduit_inet_choose(conduit, cfg->loopback_only, cfg->interface,
                                                   &sa);

    if (st != AMPH_OK)
        return st;

    int one = 1;
    int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof sa;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&sa, (socklen_t)amph_ofi_sockaddr_len(&sa)) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0) {
        int err = errno;

        amph_conduit_inet_report(&sa, err);
        if (fd >= 0)
            close(fd);

        return amph_status_from_errno(err);
    }

    *sa_p = sa;
    *fd_p = fd;
    return AMPH_OK;
}

#define OWN_FORM 255 /* in place of the family: the provider's own bytes follow */
#define OWN_AT 2

static bool is_ip(const struct amph_ofi_cx *cx)
{
    uint32_t format = cx->info->addr_format;
    return format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6;
}

enum amph_status amph_ofi_own_address(struct amph_ofi_cx *cx)
{
    if (!cx->family->own_port) {
        uint8_t name[AMPH_ADDR_MAX_BYTES - OWN_AT];
        size_t len = is_ip(cx) ? sizeof cx->listen_addr : sizeof name;
        int ret = fi_getname(&cx->ep->fid, is_ip(cx) ? (void *)&cx->listen_addr : name, &len);

        if (ret) {
            amph_error("libfabric's provider %s does not tell its address: %s", cx->prov->name,
                       fi_strerror(-ret));
            return amph_status_from_fi(ret);
        }

        if (!is_ip(cx)) {
            cx->base.addr[0] = OFI_WIRE_VERSION;
            cx->base.addr[1] = OWN_FORM;
            memcpy(cx->base.addr + OWN_AT, name, len);
            cx->base.addr_len = OWN_AT + len;
            return AMPH_OK;
        }
    }

    cx->base.addr_len = amph_ofi_put_address(&cx->listen_addr, cx->base.addr);
    return AMPH_OK;
}

/* Is this the address of an instance of the same conduit?  If so, *name is what libfabric takes. */
static bool address_fits(const struct amph_ofi_cx *cx, const uint8_t *blob, size_t len_bytes,
                         struct sockaddr_storage *sa, const void **name)
{
    *name = is_ip(cx) ? (const void *)sa : blob + OWN_AT;
    if (is_ip(cx))
        return amph_ofi_get_address(blob, len_bytes, sa) == AMPH_OK &&
               sa->ss_family == cx->listen_addr.ss_family;

    return len_bytes == cx->base.addr_len && blob[0] == OFI_WIRE_VERSION && blob[1] == OWN_FORM;
}

enum amph_status amph_ofi_set_address(struct amph_ofi_cx *cx, struct amph_ofi_peer *p,
                                      const void *blob, size_t len_bytes)
{
    struct sockaddr_storage sa;
    const void *name;

    if (!address_fits(cx, blob, len_bytes, &sa, &name))
        return AMPH_ERR_PEER;

    p->addr = FI_ADDR_UNSPEC;
    if (len_bytes > sizeof p->name)
        return fi_av_insert(cx->av, name, 1, &p->addr, 0, NULL) == 1 ? AMPH_OK : AMPH_ERR_PEER;

    p->name_len = (uint8_t)len_bytes;
    memcpy(p->name, blob, len_bytes);
    return AMPH_OK;
}

bool amph_ofi_insert_address(struct amph_ofi_cx *cx, struct amph_ofi_peer *p)
{
    struct sockaddr_storage sa;
    const void *name;

    return address_fits(cx, p->name, p->name_len, &sa, &name) &&
           fi_av_insert(cx->av, name, 1, &p->addr, 0, NULL) == 1;
}

size_t amph_ofi_put_address(const struct sockaddr_storage *sa, uint8_t *blob)
{
    return amph_conduit_inet_put(sa, blob);
}

enum amph_status amph_ofi_get_address(const void *blob, size_t len_bytes,
                                      struct sockaddr_storage *sa_p)
{
    return amph_conduit_inet_get(blob, len_bytes, sa_p);
}
