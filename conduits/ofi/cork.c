/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lets the kernel send small messages and operations together, and the answers to them.
 * Layer: conduits (ofi).  Thread rule: each side begins and ends its own; any thread pushes.
 *
 * libfabric's tcp providers send each message, put, get and acknowledgement by a call of its own, and most of
 * its time is what the kernel does for a packet, at both ends.  So libfabric's calls of send and sendmsg lead
 * here (imports.c), and some of them get MSG_MORE, by which the kernel keeps an incomplete packet back:
 *
 * - small messages, puts and gets, from the fifth one on over a connection since the last push;
 * - messages after which the caller sends more at once, as the requests of a large write but its last one;
 * - what libfabric sends while progress reads, from the third time on in one progress call.
 *
 * The kernel sends what it has kept back when the packet is full, when anything comes from the peer, after the
 * next call without MSG_MORE, and when it is pushed: what the progress side has sent at the end
 * of the progress call and after every eighth packet, the rest at the beginning of the next progress call, with
 * which each wait begins, and at the end of a poll.  A process may compute after it has sent messages, so a
 * thread pushes them if nothing else has (pusher.c); where there can be none, messages are not kept back.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/log.h"
#include "conduits/ofi/ofi.h"

#define SMALL_BYTES (16384u + 256) /* with a header; larger operations fill packets by themselves */

/* Packets of one side that are sent at once, because nothing may follow them. */
static const unsigned at_once[OFI_NCORKS] = { [OFI_CORK_SEND] = 4, [OFI_CORK_PROGRESS] = 2 };

/* What this file knows of the process and of a thread. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool swapped; /* libfabric's send and sendmsg lead here */
static _Thread_local struct {
    struct amph_ofi_cork *cork; /* whose sends may be kept back; or NULL */
    unsigned at_once;
    bool each; /* the packets of each connection are counted, not those of all */
    bool more; /* the caller sends more at once */
    bool kept; /* one was kept back */
} now;

/* Returns the entry of a connection, or a free one; NULL: there is none. */
static int *entry_of(struct amph_ofi_cork *cork, int fd)
{
    int *unused = NULL;

    for (unsigned i = 0; i < OFI_CORKED_MAX; i++) {
        int fd_plus_1 = __atomic_load_n(&cork->fd_plus_1[i], __ATOMIC_RELAXED);

        if (fd_plus_1 == fd + 1)
            return &cork->fd_plus_1[i];

        if (fd_plus_1 == 0)
            unused = &cork->fd_plus_1[i];
    }

    return unused;
}

/* Counts a packet of the send side.  Returns how many its connection has had since the last push; 0: this is
 * not known, because there are too many connections. */
static unsigned packets_of(struct amph_ofi_cork *cork, int fd)
{
    for (unsigned i = 0; i < cork->nbursts; i++)
        if (cork->burst[i].fd == fd)
            return ++cork->burst[i].count;

    if (cork->nbursts == OFI_CORKED_MAX)
        return 0;

    cork->burst[cork->nbursts++] = (struct amph_ofi_burst){ fd, 1 };
    return 1;
}

/* Returns the entry of a connection over which that much is sent now, if it may be kept back. */
static int *keep_back(int fd, size_t len)
{
    struct amph_ofi_cork *cork = now.cork;

    if (AMPH_LIKELY(!cork) || len > SMALL_BYTES)
        return NULL;

    unsigned count = __atomic_add_fetch(&cork->sent, 1, __ATOMIC_RELAXED);

    if (now.each) {
        if (count == 1)
            cork->nbursts = 0;

        count = packets_of(cork, fd);
    }

    return count > now.at_once ? entry_of(cork, fd) : NULL;
}

/* After the call: a push that comes before this is not the last one. */
static void note(int *entry, int fd)
{
    if (AMPH_LIKELY(!entry))
        return;

    __atomic_store_n(entry, fd + 1,
                     __ATOMIC_SEQ_CST); /* before amph_ofi_push_soon looks at `set` */
    now.kept = true;
}

static ssize_t corked_send(int fd, const void *buf, size_t len, int flags)
{
    int *entry = keep_back(fd, len);
    ssize_t n = send(fd, buf, len, entry ? flags | MSG_MORE : flags);

    note(entry, fd);
    return n;
}

static ssize_t corked_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    size_t len = 0;

    for (size_t i = 0; i < msg->msg_iovlen; i++)
        len += msg->msg_iov[i].iov_len;

    int *entry = keep_back(fd, len);
    ssize_t n = sendmsg(fd, msg, entry ? flags | MSG_MORE : flags);

    note(entry, fd);
    return n;
}

static void swap(void)
{
    swapped = amph_ofi_swap_import("send", (void *)(uintptr_t)corked_send) &&
              amph_ofi_swap_import("sendmsg", (void *)(uintptr_t)corked_sendmsg);
    if (!swapped)
        amph_debug("libfabric's send and sendmsg were not found; each small put is sent by itself");
}

void amph_ofi_cork_open(struct amph_ofi_cx *cx)
{
    pthread_once(&once, swap);
    cx->corks = swapped;
}

void amph_ofi_cork_begin(struct amph_ofi_cx *cx, enum amph_ofi_cork_side side, size_t len_bytes)
{
    if (!cx->corks || len_bytes > SMALL_BYTES)
        return;

    now.cork = &cx->cork[side];
    now.at_once = at_once[side];
    now.each = side == OFI_CORK_SEND;
    now.more = now.kept = false;
}

void amph_ofi_cork_end(void)
{
    now.cork = NULL;
}

void amph_ofi_cork_begin_message(struct amph_ofi_cx *cx, const struct amph_am *am, size_t len_bytes)
{
    /* The message of a large long follows its data, which fill packets. */
    if (am->nbytes > SMALL_BYTES)
        return;

    if (am->more || (cx->base.cfg.bursts && amph_ofi_can_push_soon(cx)))
        amph_ofi_cork_begin(cx, OFI_CORK_SEND, len_bytes);

    if (am->more && now.cork) {
        now.at_once = 0;
        now.each = false;
        now.more = true;
    }
}

void amph_ofi_cork_end_message(struct amph_ofi_cx *cx)
{
    if (AMPH_UNLIKELY(now.cork && now.kept && !now.more))
        (void)amph_ofi_push_soon(cx, false);

    now.cork = NULL;
}

void amph_ofi_cork_push(struct amph_ofi_cork *cork)
{
    const int off = 0;
    int saved = errno;

    __atomic_store_n(&cork->sent, 0, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < OFI_CORKED_MAX; i++) {
        int fd_plus_1 = 0;

        if (__atomic_load_n(&cork->fd_plus_1[i], __ATOMIC_RELAXED))
            fd_plus_1 = __atomic_exchange_n(&cork->fd_plus_1[i], 0, __ATOMIC_SEQ_CST);

        /* changes nothing but that what was kept back is sent */
        if (fd_plus_1)
            setsockopt(fd_plus_1 - 1, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    }

    errno = saved;
}
