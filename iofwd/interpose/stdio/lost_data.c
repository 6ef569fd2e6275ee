/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects lost output.  A stream of the C library whose descriptor leads to a placeholder, and that
 * cannot be converted (foreign_file.c), loses what is written to it.  The process then prints why and
 * ends with a failure.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "iofwd/interpose/entry/catch.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/interpose/stdio/foreign_file.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/stdio/state.h"

#define HAS_ERROR 0x20 /* of FILE._flags */

static bool has_lost(const FILE *f)
{
    bool pending = f->_IO_write_ptr > f->_IO_write_base;

    return f->_fileno >= 0 && amph_ip_fd(f->_fileno) && (pending || f->_flags & HAS_ERROR);
}

static int lost_fd(void)
{
    int fd = -1;

    _IO_list_lock();
    for (void *at = _IO_iter_begin(); at != _IO_iter_end() && fd < 0; at = _IO_iter_next(at)) {
        const FILE *f = _IO_iter_file(at);

        if (has_lost(f))
            fd = f->_fileno;
    }

    _IO_list_unlock();
    return fd;
}

bool amph_ip_lost_report(void)
{
    int saved = errno;
    int fd = AMPH_UNLIKELY(amph_ip_stdio.lost.watched) ? lost_fd() : -1;
    char line[320];

    if (fd < 0)
        return false;

    int n = snprintf(line, sizeof line,
                     "amphora: process %d: output of a stream on descriptor %d was not written: "
                     "dup2 led the descriptor to a "
                     "forwarded file, and the stream, of popen or in use by another thread, could "
                     "not follow; open the file by "
                     "fopen or freopen instead\n",
                     (int)amph_ip_kernel_getpid(), fd);

    amph_ip_put_error(line, (size_t)n);
    errno = saved;
    return true;
}

/* The C library synchronises this stream after it has flushed all others at the end of the
 * process. */
static int at_end(void *cookie, off_t *at, int whence)
{
    if (amph_ip_stdio.lost.ending && amph_ip_lost_report())
        amph_do_exit_now(EXIT_FAILURE);

    return 0;
}

void amph_ip_lost_watch(void)
{
    const cookie_io_functions_t functions = { .seek = at_end };

    __atomic_store_n(&amph_ip_stdio.lost.watched, true, __ATOMIC_RELAXED);
    if (amph_ip_stdio.lost.last)
        return;

    FILE *last = amph_ip_plain_fopencookie(NULL, "r", functions);

    amph_ip_stdio.lost.last = last;
    if (!last)
        return;

    /* one unread byte: it makes the C library move the offset back when it synchronises the
     * stream */
    last->_IO_buf_base = last->_IO_read_base = last->_IO_read_ptr = amph_ip_stdio.lost.unread;
    last->_IO_buf_end = last->_IO_read_end = amph_ip_stdio.lost.unread + 1;
    last->_flags |= 1; /* the C library must not free the buffer */
}

void amph_ip_lost_ending(void)
{
    amph_ip_stdio.lost.ending = true;
}

void amph_ip_lost_forked(void)
{
    amph_ip_stdio.lost.watched = false;
}

void amph_do_abort(void)
{
    if (!amph_ip_inside)
        amph_ip_lost_report();

    libc_abort();
    __builtin_unreachable();
}
