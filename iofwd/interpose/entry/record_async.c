/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that a call only starts, POSIX AIO's and libaio's, and the calls that see their ends.  The C
 * library's threads or the kernel carry them out, so that no other call shows their files and bytes.
 *
 * Layer: iofwd (interposer).  Thread rule: see record.h.
 *
 * While files are forwarded, POSIX AIO is carried out by fd/aio.c, whose calls are recorded as any other.
 * A request begins when the call that starts it begins, and ends when the program learns of it.
 */
#include <aio.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/entry/fault_check.h"
#include "iofwd/interpose/entry/record.h"
#include "iofwd/interpose/entry/record_request.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/entry/trace.h"
#include "iofwd/interpose/libc/libc_real.h"

/* The requests of one call. */
struct starting {
    uint64_t start_ns; /* of the next one: each has a time of its own */
};

static void put(struct starting *s, uint64_t key, unsigned name, int fd, int64_t offset,
                uint64_t bytes)
{
    struct amph_ip_recording *t = amph_ip_record_this();
    uint64_t file = t ? amph_ip_record_file(t, fd) : 0;

    if (!file) /* of no open file: the request fails */
        return;

    struct amph_trace_call call = { .side = amph_ip_fd(fd) ? AMPH_TRACE_FORWARDED
                                                           : AMPH_TRACE_LOCAL,
                                    .has = AMPH_TRACE_HAS_FD,
                                    .fd = fd,
                                    .file = file,
                                    .start_ns = ++s->start_ns };

    if (name != AMPH_IP_ASYNC_SYNC) {
        call.has |= AMPH_TRACE_HAS_OFFSET | AMPH_TRACE_HAS_LENGTH;
        call.offset = offset;
        call.length = bytes;
    }

    amph_ip_request_start(key, name, &call);
}

/* ---- POSIX AIO ---- */

static uint64_t key_of(const struct aiocb *cb)
{
    return amph_ip_request_key(AMPH_IP_REQUEST_AIO, (uintptr_t)cb);
}

static void put_control_block(struct starting *s, unsigned name, const struct aiocb *cb)
{
    if (amph_ip_can_read(cb, sizeof *cb))
        put(s, key_of(cb), name, cb->aio_fildes, cb->aio_offset, cb->aio_nbytes);
}

static void put_list(struct starting *s, struct aiocb *const *list, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&list[i], sizeof list[i]); i++) {
        if (!list[i] || !amph_ip_can_read(list[i], sizeof *list[i]))
            continue;

        if (list[i]->aio_lio_opcode == LIO_READ)
            put_control_block(s, AMPH_IP_ASYNC_READ, list[i]);
        else if (list[i]->aio_lio_opcode == LIO_WRITE)
            put_control_block(s, AMPH_IP_ASYNC_WRITE, list[i]);
    }
}

static bool records_aio(void)
{
    return AMPH_IP_WIDE && amph_ip_state.trace & AMPH_IP_TRACE_RECORD && !amph_ip_state.on &&
           !amph_ip_inside;
}

/* A control block has been seen, with this error. */
static void see(const struct aiocb *cb, int err)
{
    if (err != EINPROGRESS)
        amph_ip_request_end(key_of(cb), err ? 0 : (int64_t)cb->__return_value, err);
}

static void see_list(struct aiocb *const *list, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&list[i], sizeof list[i]); i++)
        if (list[i] && amph_ip_can_read(list[i], sizeof *list[i]))
            see(list[i], libc_aio_error(list[i]));
}

int amph_do_aio_error(const void *cb)
{
    int err = libc_aio_error(cb);

    if (AMPH_UNLIKELY(records_aio()) && amph_ip_can_read(cb, sizeof(struct aiocb)))
        see(cb, err);

    return err;
}

ssize_t amph_do_aio_return(void *cb)
{
    /* its result is not there before, and may be gone after */
    if (AMPH_UNLIKELY(records_aio()) && amph_ip_can_read(cb, sizeof(struct aiocb)))
        see(cb, libc_aio_error(cb));

    return libc_aio_return(cb);
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

static void put_submitted(struct starting *s, struct iocb *const *list, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&list[i], sizeof list[i]); i++) {
        const struct iocb *cb = list[i];

        if (!amph_ip_can_read(cb, sizeof *cb))
            continue;

        uint64_t key = amph_ip_request_key(AMPH_IP_REQUEST_LIBAIO, (uintptr_t)cb);
        int fd = (int)cb->aio_fildes;

        switch (cb->aio_lio_opcode) {
        case IOCB_CMD_PREAD:
        case IOCB_CMD_PREADV:
            put(s, key, AMPH_IP_ASYNC_READ, fd, cb->aio_offset, bytes_of(cb));
            break;
        case IOCB_CMD_PWRITE:
        case IOCB_CMD_PWRITEV:
            put(s, key, AMPH_IP_ASYNC_WRITE, fd, cb->aio_offset, bytes_of(cb));
            break;
        case IOCB_CMD_FSYNC:
        case IOCB_CMD_FDSYNC:
            put(s, key, AMPH_IP_ASYNC_SYNC, fd, 0, 0);
            break;
        default:
            break;
        }
    }
}

/* What io_getevents has returned. */
static void see_events(const struct io_event *events, int64_t n)
{
    for (int64_t i = 0; i < n && amph_ip_can_read(&events[i], sizeof events[i]); i++) {
        int64_t result = events[i].res;

        amph_ip_request_end(amph_ip_request_key(AMPH_IP_REQUEST_LIBAIO, events[i].obj),
                            result < 0 ? 0 : result, result < 0 ? (int)-result : 0);
    }
}

static void *pointer(uint64_t argument)
{
    return (void *)(uintptr_t)argument;
}

static void by_number(struct starting *s, const uint64_t *arg, int64_t result)
{
    switch ((long)arg[0]) {
    case SYS_io_submit:
        put_submitted(s, pointer(arg[3]), result);
        break;
    case SYS_io_getevents:
#ifdef SYS_io_pgetevents
    case SYS_io_pgetevents:
#endif
        see_events(pointer(arg[4]), result);
        break;
    default:
        break;
    }
}

/* The calls of aio(7), which the C library makes by threads of its own. */
static void by_libc(struct starting *s, const struct amph_ip_trace_frame *frame)
{
    const uint64_t *arg = frame->function_arg;

    switch (frame->function) {
    case AMPH_IP_NAME_aio_read:
    case AMPH_IP_NAME_aio_read64:
        put_control_block(s, AMPH_IP_ASYNC_READ, pointer(arg[0]));
        break;

    case AMPH_IP_NAME_aio_write:
    case AMPH_IP_NAME_aio_write64:
        put_control_block(s, AMPH_IP_ASYNC_WRITE, pointer(arg[0]));
        break;

    case AMPH_IP_NAME_aio_fsync:
    case AMPH_IP_NAME_aio_fsync64:
        put_control_block(s, AMPH_IP_ASYNC_SYNC, pointer(arg[1]));
        break;

    case AMPH_IP_NAME_aio_suspend:
    case AMPH_IP_NAME_aio_suspend64:
        see_list(pointer(arg[0]), (int)arg[1]);
        break;

    case AMPH_IP_NAME_lio_listio:
    case AMPH_IP_NAME_lio_listio64:
        put_list(s, pointer(arg[1]), (int)arg[2]);
        if ((int)arg[0] == LIO_WAIT)
            see_list(pointer(arg[1]), (int)arg[2]);
        break;

    default:
        break;
    }
}

void amph_ip_record_requests(const struct amph_ip_trace_frame *frame, int64_t result)
{
    const uint64_t *arg = frame->function_arg;
    struct starting s = { .start_ns = frame->start_ns };

    switch (frame->function) {
    case AMPH_IP_NAME_io_submit: /* of the errors, which are negative, none is in errno */
        put_submitted(&s, pointer(arg[2]), result);
        break;

    case AMPH_IP_NAME_io_getevents:
    case AMPH_IP_NAME_io_pgetevents:
        see_events(pointer(arg[3]), result);
        break;

    case AMPH_IP_NAME_syscall:
        by_number(&s, arg, result);
        break;

    default:
        if (AMPH_IP_WIDE && !amph_ip_state.on)
            by_libc(&s, frame);
        break;
    }
}
