/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of requests that a call only starts: POSIX AIO's and libaio's.  The C library's threads or the
 * kernel carry them out, so that no other call shows their files and bytes.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 *
 * While files are forwarded, POSIX AIO is carried out by fd/aio.c, whose calls are recorded as any other.
 * A request takes no time of its own here: the call that starts it has a record with its time.
 */
#include <aio.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/record_event.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/libc_real.h"

enum kind {
    ASYNC_READ,
    ASYNC_WRITE,
    ASYNC_SYNC
};

static const char *const names[] = { "async_read", "async_write", "async_sync" };

static void put(enum kind kind, int fd, int64_t offset, uint64_t bytes)
{
    struct amph_ip_recording *t = amph_ip_record_this();
    uint64_t file = t ? amph_ip_record_file(t, fd) : 0;

    if (!file) /* of no open file: the request fails */
        return;

    struct amph_ip_event event = {
        .number = AMPH_IP_EVENT_REQUEST + (unsigned)kind,
        .name = names[kind],
        .call = { .side = AMPH_TRACE_LOCAL, .has = AMPH_TRACE_HAS_FD, .fd = fd, .file = file }
    };

    if (kind != ASYNC_SYNC) {
        event.call.has |= AMPH_TRACE_HAS_OFFSET | AMPH_TRACE_HAS_LENGTH;
        event.call.offset = offset;
        event.call.length = bytes;
        event.call.result = (int64_t)bytes;
    }

    amph_ip_event_begin(&event);
    event.call.end_ns = event.call.start_ns;
    amph_ip_event_end(&event);
}

/* ---- POSIX AIO ---- */

static void put_control_block(enum kind kind, const struct aiocb *cb)
{
    if (amph_ip_can_read(cb, sizeof *cb))
        put(kind, cb->aio_fildes, cb->aio_offset, cb->aio_nbytes);
}

static void put_list(struct aiocb *const *list, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&list[i], sizeof list[i]); i++) {
        if (!list[i] || !amph_ip_can_read(list[i], sizeof *list[i]))
            continue;

        if (list[i]->aio_lio_opcode == LIO_READ)
            put_control_block(ASYNC_READ, list[i]);
        else if (list[i]->aio_lio_opcode == LIO_WRITE)
            put_control_block(ASYNC_WRITE, list[i]);
    }
}

/* ---- libaio ---- */

static uint64_t bytes_of(const struct iocb *cb)
{
    const struct iovec *iov = (const struct iovec *)(uintptr_t)cb->aio_buf;
    bool is_vector = cb->aio_lio_opcode == IOCB_CMD_PREADV ||
                     cb->aio_lio_opcode == IOCB_CMD_PWRITEV;
    uint64_t bytes = is_vector ? 0 : cb->aio_nbytes;

    for (uint64_t i = 0; is_vector && i < cb->aio_nbytes && amph_ip_can_read(&iov[i], sizeof *iov);
         i++)
        bytes += iov[i].iov_len;

    return bytes;
}

static void put_submitted(struct iocb *const *list, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&list[i], sizeof list[i]); i++) {
        const struct iocb *cb = list[i];

        if (!amph_ip_can_read(cb, sizeof *cb))
            continue;

        switch (cb->aio_lio_opcode) {
        case IOCB_CMD_PREAD:
        case IOCB_CMD_PREADV:
            put(ASYNC_READ, (int)cb->aio_fildes, cb->aio_offset, bytes_of(cb));
            break;
        case IOCB_CMD_PWRITE:
        case IOCB_CMD_PWRITEV:
            put(ASYNC_WRITE, (int)cb->aio_fildes, cb->aio_offset, bytes_of(cb));
            break;
        case IOCB_CMD_FSYNC:
        case IOCB_CMD_FDSYNC:
            put(ASYNC_SYNC, (int)cb->aio_fildes, 0, 0);
            break;
        default:
            break;
        }
    }
}

static void *pointer(uint64_t argument)
{
    return (void *)(uintptr_t)argument;
}

void amph_ip_record_requests(const struct amph_ip_trace_frame *frame, int64_t result)
{
    const uint64_t *arg = frame->function_arg;
    bool by_libc = AMPH_IP_WIDE && !amph_ip_state.on;

    switch (frame->function) {
    case AMPH_IP_NAME_aio_read:
    case AMPH_IP_NAME_aio_read64:
        if (by_libc)
            put_control_block(ASYNC_READ, pointer(arg[0]));
        break;
    case AMPH_IP_NAME_aio_write:
    case AMPH_IP_NAME_aio_write64:
        if (by_libc)
            put_control_block(ASYNC_WRITE, pointer(arg[0]));
        break;
    case AMPH_IP_NAME_aio_fsync:
    case AMPH_IP_NAME_aio_fsync64:
        if (by_libc)
            put_control_block(ASYNC_SYNC, pointer(arg[1]));
        break;
    case AMPH_IP_NAME_lio_listio:
    case AMPH_IP_NAME_lio_listio64:
        if (by_libc)
            put_list(pointer(arg[1]), (int)arg[2]);
        break;
    case AMPH_IP_NAME_io_submit: /* of the errors, which are negative, none is in errno */
        put_submitted(pointer(arg[2]), result);
        break;
    case AMPH_IP_NAME_syscall:
        if ((long)arg[0] == SYS_io_submit)
            put_submitted(pointer(arg[3]), result);
        break;
    default:
        break;
    }
}
