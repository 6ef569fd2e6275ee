/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts of the status codes, and their translation from errno's and libfabric's codes.
 *
 * Layer: base.
 */
#include "base/status.h"

#include <errno.h>
#include <stddef.h>

#include "base/platform.h"

/* clang-format off */
static const char *const texts[AMPH_STATUS_COUNT] = {
    [AMPH_OK] = "success",
    [AMPH_AGAIN] = "no room now",
    [AMPH_ERR_ARG] = "bad argument",
    [AMPH_ERR_RANGE] = "out of range",
    [AMPH_ERR_NOMEM] = "out of memory or descriptors (see ulimit -n, -v and -d)",
    [AMPH_ERR_STATE] = "call not allowed in this state",
    [AMPH_ERR_NOENT] = "not found",
    [AMPH_ERR_DENIED] = "refused",
    [AMPH_ERR_PROTO] = "protocol violation by a peer",
    [AMPH_ERR_PEER] = "peer is gone",
    [AMPH_ERR_TIMEOUT] = "timed out",
    [AMPH_ERR_NOSYS] = "not available on this machine",
    [AMPH_ERR_SYS] = "system call failed",
    [AMPH_ERR_FULL] = "the peer accepts no more now",
    [AMPH_ERR_LOST] = "the network connection broke",
};
/* clang-format on */

static const struct {
    int err;
    enum amph_status st;
} errnos[] = {
    { EAGAIN, AMPH_AGAIN },
    { EINTR, AMPH_AGAIN },
    { EINVAL, AMPH_ERR_ARG },
    { E2BIG, AMPH_ERR_RANGE },
    { ERANGE, AMPH_ERR_RANGE },
    { EMSGSIZE, AMPH_ERR_RANGE },
    { ENOMEM, AMPH_ERR_NOMEM },
    { EMFILE, AMPH_ERR_NOMEM },
    { ENFILE, AMPH_ERR_NOMEM },
    { ENOSPC, AMPH_ERR_NOMEM },
    { ENOBUFS, AMPH_ERR_NOMEM },
    { EALREADY, AMPH_ERR_STATE },
    { EBUSY, AMPH_ERR_STATE },
    { EISCONN, AMPH_ERR_STATE },
    { ENOENT, AMPH_ERR_NOENT },
    { ENODATA, AMPH_ERR_NOENT },
    { EACCES, AMPH_ERR_DENIED },
    { EPERM, AMPH_ERR_DENIED },
    { EPROTO, AMPH_ERR_PROTO },
    { EBADMSG, AMPH_ERR_PROTO },
    { ECONNREFUSED, AMPH_ERR_PEER },
    { ECONNRESET, AMPH_ERR_PEER },
    { ECONNABORTED, AMPH_ERR_PEER },
    { EPIPE, AMPH_ERR_PEER },
    { ENOTCONN, AMPH_ERR_PEER },
    { EHOSTUNREACH, AMPH_ERR_PEER },
    { ENETUNREACH, AMPH_ERR_PEER },
    { ECANCELED, AMPH_ERR_PEER },
    { ESRCH, AMPH_ERR_PEER },
    { ESHUTDOWN, AMPH_ERR_PEER },
    { ETIMEDOUT, AMPH_ERR_TIMEOUT },
    { ETIME, AMPH_ERR_TIMEOUT },
    { ENOSYS, AMPH_ERR_NOSYS },
    { EOPNOTSUPP, AMPH_ERR_NOSYS },
    { EPROTONOSUPPORT, AMPH_ERR_NOSYS },
};

const char *amph_status_text(enum amph_status st)
{
    return (unsigned)st < AMPH_STATUS_COUNT ? texts[st] : "unknown status";
}

enum amph_status amph_status_from_errno(int err)
{
    if (err == 0)
        return AMPH_OK;

    for (size_t i = 0; i < AMPH_COUNTOF(errnos); i++)
        if (errnos[i].err == err)
            return errnos[i].st;

    return AMPH_ERR_SYS;
}

/* libfabric uses errno's numbers; its own codes begin at 256 and report errors of its objects'
 * state. */
enum amph_status amph_status_from_fi(long ret)
{
    if (ret >= 0)
        return AMPH_OK;

    if (ret <= -256)
        return AMPH_ERR_SYS;

    return amph_status_from_errno((int)-ret);
}
