/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of io_uring by liburing's functions.  Their system calls are made within liburing, and its inline
 * functions look into the ring by themselves; so each caught function looks at the entries that it will submit,
 * and afterwards at those that have been completed since the last look.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, as far as liburing allows: one at a time uses a ring.
 *
 * Rings of programs that make the system calls themselves are not seen; iofwd-trace says how many there were.
 */
#include <linux/io_uring.h>
#include <sys/uio.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/record_request.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"

/* The part of liburing's struct io_uring that all its versions 2 have in common. */
struct ring {
    struct {
        unsigned *head, *tail, *mask, *entries, *flags, *dropped, *array;
        struct io_uring_sqe *sqes;
        unsigned sqe_head, sqe_tail; /* entries in between have not been handed to the kernel */
        size_t bytes;
        void *at;
        unsigned pad[4];
    } sq;

    struct {
        unsigned *head, *tail, *mask, *entries, *flags, *overflow;
        struct io_uring_cqe *cqes;
        size_t bytes;
        void *at;
        unsigned pad[4];
    } cq;

    unsigned flags; /* of io_uring_setup */
};

enum {
    WIDE_ENTRIES = 3 << 10 /* IORING_SETUP_SQE128 and IORING_SETUP_CQE32: entries of another size */
};

static bool is_recorded(const struct ring *ring)
{
    return amph_ip_state.trace & AMPH_IP_TRACE_RECORD && !amph_ip_inside &&
           amph_ip_can_read(ring, sizeof *ring) && !(ring->flags & WIDE_ENTRIES) && ring->sq.sqes &&
           ring->cq.cqes;
}

static uint64_t key_of(const struct ring *ring, uint64_t user_data)
{
    uint64_t mixed = (user_data ^ (uintptr_t)ring << 20) * UINT64_C(0x9e3779b97f4a7c15);

    return amph_ip_request_key(AMPH_IP_REQUEST_RING, mixed ^ mixed >> 32);
}

/* ---- what is submitted ---- */

static uint64_t bytes_of(const struct io_uring_sqe *sqe)
{
    const struct iovec *iov = (const struct iovec *)(uintptr_t)sqe->addr;
    bool is_vector = sqe->opcode == IORING_OP_READV || sqe->opcode == IORING_OP_WRITEV;
    uint64_t bytes = is_vector ? 0 : sqe->len;

    for (uint32_t i = 0; is_vector && i < sqe->len && amph_ip_can_read(&iov[i], sizeof *iov); i++)
        bytes += iov[i].iov_len;

    return bytes;
}

/* The name of the request; AMPH_IP_ASYNC_NAMES: it is none that is recorded. */
static unsigned name_of(const struct io_uring_sqe *sqe)
{
    switch (sqe->opcode) {
    case IORING_OP_READ:
    case IORING_OP_READV:
    case IORING_OP_READ_FIXED:
    case IORING_OP_RECV:
        return AMPH_IP_ASYNC_READ;
    case IORING_OP_WRITE:
    case IORING_OP_WRITEV:
    case IORING_OP_WRITE_FIXED:
    case IORING_OP_SEND:
        return AMPH_IP_ASYNC_WRITE;
    case IORING_OP_FSYNC:
    case IORING_OP_SYNC_FILE_RANGE:
        return AMPH_IP_ASYNC_SYNC;
    case IORING_OP_OPENAT:
        return AMPH_IP_ASYNC_OPEN;
    case IORING_OP_CLOSE:
        return AMPH_IP_ASYNC_CLOSE;
    case IORING_OP_STATX:
        return AMPH_IP_ASYNC_STAT;
    case IORING_OP_FALLOCATE:
        return AMPH_IP_ASYNC_ALLOCATE;
    default:
        return AMPH_IP_ASYNC_NAMES;
    }
}

static void put_path(struct amph_trace_call *call, const struct io_uring_sqe *sqe)
{
    const char *path = (const char *)(uintptr_t)sqe->addr;
    struct amph_ip_recording *t = amph_ip_record_this();

    if (!t || !amph_ip_can_read_text(path))
        return;

    call->file = amph_ip_record_path_at(t, sqe->fd, path);
    call->has |= AMPH_TRACE_HAS_PATH;
}

/* A file by its place in the ring's own table is not known. */
static void put_file(struct amph_trace_call *call, const struct io_uring_sqe *sqe)
{
    struct amph_ip_recording *t = amph_ip_record_this();

    if (sqe->flags & IOSQE_FIXED_FILE || !t)
        return;

    call->fd = sqe->fd;
    call->file = amph_ip_record_file(t, sqe->fd);
    call->has |= AMPH_TRACE_HAS_FD;
}

static void start(const struct ring *ring, const struct io_uring_sqe *sqe, uint64_t start_ns)
{
    struct amph_trace_call call = { .side = AMPH_TRACE_LOCAL, .start_ns = start_ns };
    unsigned name = name_of(sqe);

    switch (name) {
    case AMPH_IP_ASYNC_NAMES:
        return;
    case AMPH_IP_ASYNC_READ:
    case AMPH_IP_ASYNC_WRITE:
        put_file(&call, sqe);
        call.length = bytes_of(sqe);
        call.has |= AMPH_TRACE_HAS_LENGTH;
        if (sqe->off != UINT64_MAX) { /* that is the file's own */
            call.offset = (int64_t)sqe->off;
            call.has |= AMPH_TRACE_HAS_OFFSET;
        }
        break;
    case AMPH_IP_ASYNC_OPEN:
        put_path(&call, sqe);
        call.flags = sqe->open_flags;
        call.has |= AMPH_TRACE_HAS_FLAGS;
        break;
    case AMPH_IP_ASYNC_STAT:
        put_path(&call, sqe);
        break;
    case AMPH_IP_ASYNC_CLOSE:
        put_file(&call, sqe);
        amph_ip_record_set_file(sqe->fd, 0);
        break;
    default:
        put_file(&call, sqe);
        break;
    }

    amph_ip_request_start(key_of(ring, sqe->user_data), name, &call);
}

static void look_before(struct ring *ring)
{
    uint64_t start_ns = 0;

    if (!is_recorded(ring))
        return;

    amph_ip_request_ring(ring, *ring->cq.head);
    for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; i++) {
        uint64_t now_ns = amph_ip_record_now();

        start_ns = now_ns > start_ns ? now_ns : start_ns + 1;
        start(ring, &ring->sq.sqes[i & *ring->sq.mask], start_ns);
    }
}

/* ---- what has been completed ---- */

static void look_after(struct ring *ring)
{
    uint32_t *seen = NULL;

    if (!is_recorded(ring) || !(seen = amph_ip_request_ring(ring, *ring->cq.head)))
        return;

    uint32_t tail = __atomic_load_n(ring->cq.tail, __ATOMIC_ACQUIRE);
    uint32_t at = __atomic_exchange_n(seen, tail, __ATOMIC_ACQ_REL);

    if (tail - at > *ring->cq.entries) /* the oldest have been overwritten */
        at = tail - *ring->cq.entries;

    for (; at != tail; at++) {
        const struct io_uring_cqe *cqe = &ring->cq.cqes[at & *ring->cq.mask];

        amph_ip_request_end(key_of(ring, cqe->user_data), cqe->res < 0 ? 0 : cqe->res,
                            cqe->res < 0 ? -cqe->res : 0);
    }
}

/* ---- liburing's functions ---- */

int amph_do_io_uring_submit(void *ring)
{
    look_before(ring);

    int n = libc_io_uring_submit(ring);

    look_after(ring);
    return n;
}

int amph_do_io_uring_submit_and_wait(void *ring, unsigned wait)
{
    look_before(ring);

    int n = libc_io_uring_submit_and_wait(ring, wait);

    look_after(ring);
    return n;
}

int amph_do_io_uring_submit_and_wait_timeout(void *ring, void *cqe, unsigned wait, void *limit,
                                             void *mask)
{
    look_before(ring);

    int n = libc_io_uring_submit_and_wait_timeout(ring, cqe, wait, limit, mask);

    look_after(ring);
    return n;
}

int amph_do_io_uring_submit_and_get_events(void *ring)
{
    look_before(ring);

    int n = libc_io_uring_submit_and_get_events(ring);

    look_after(ring);
    return n;
}

int amph_do_io_uring_get_events(void *ring)
{
    int n = libc_io_uring_get_events(ring);

    look_after(ring);
    return n;
}

int amph_do_io_uring_wait_cqes(void *ring, void *cqe, unsigned count, void *limit, void *mask)
{
    look_before(ring);

    int n = libc_io_uring_wait_cqes(ring, cqe, count, limit, mask);

    look_after(ring);
    return n;
}

int amph_do_io_uring_wait_cqe_timeout(void *ring, void *cqe, void *limit)
{
    look_before(ring);

    int n = libc_io_uring_wait_cqe_timeout(ring, cqe, limit);

    look_after(ring);
    return n;
}

int amph_do___io_uring_get_cqe(void *ring, void *cqe, unsigned submit, unsigned wait, void *mask)
{
    int n = libc___io_uring_get_cqe(ring, cqe, submit, wait, mask);

    look_after(ring);
    return n;
}

int amph_do_io_uring_peek_batch_cqe(void *ring, void *cqes, unsigned count)
{
    int n = libc_io_uring_peek_batch_cqe(ring, cqes, count);

    look_after(ring);
    return n;
}

void amph_do_io_uring_queue_exit(void *ring)
{
    look_after(ring);
    if (amph_ip_state.trace & AMPH_IP_TRACE_RECORD)
        amph_ip_request_ring_ends(ring);

    libc_io_uring_queue_exit(ring);
}
