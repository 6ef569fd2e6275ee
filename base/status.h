/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Status codes: the error type of every internal function.
 *
 * Layer: base.  Thread rule: pure functions, callable anywhere, also in signal handlers.
 *
 * The function that first decides that something is an error logs it; its callers only pass the
 * code on. Codes of libfabric and errno are translated in base/status.c only.
 */
#ifndef AMPH_BASE_STATUS_H
#define AMPH_BASE_STATUS_H

enum amph_status {
    AMPH_OK = 0,
    AMPH_AGAIN,       /* no room now: make progress and call again (never logged) */
    AMPH_ERR_ARG,     /* an argument that is not allowed */
    AMPH_ERR_RANGE,   /* an index, length or address outside its limits */
    AMPH_ERR_NOMEM,   /* memory, descriptors or another resource has run out */
    AMPH_ERR_STATE,   /* the call was made too early, too late or twice */
    AMPH_ERR_NOENT,   /* the named thing does not exist */
    AMPH_ERR_DENIED,  /* key, cookie or permission refused */
    AMPH_ERR_PROTO,   /* a peer sent what the protocol does not allow */
    AMPH_ERR_PEER,    /* the peer is dead or cannot be reached */
    AMPH_ERR_TIMEOUT, /* a deadline passed */
    AMPH_ERR_NOSYS,   /* this machine or build cannot do it */
    AMPH_ERR_SYS,     /* a system call failed; errno says how */
    AMPH_ERR_FULL,    /* the peer is alive but accepts no more now; a later attempt may succeed */
    AMPH_ERR_LOST,    /* the peer may be alive, but messages or transfers to or from it are lost */
    AMPH_STATUS_COUNT
};

/* A short English phrase for st ("no memory", "peer is gone").  Never NULL; static storage. */
const char *amph_status_text(enum amph_status st);

/* The status that an errno value stands for; 0 gives AMPH_OK. */
enum amph_status amph_status_from_errno(int err);

/* The status that a libfabric return value (negative, as in rdma/fi_errno.h, which follows errno)
 * stands for. */
enum amph_status amph_status_from_fi(long ret);

#endif
