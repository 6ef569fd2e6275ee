/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's asynchronous input and output (io_submit, libaio) with requests of forwarded files.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_LIBAIO_H
#define AMPH_IOFWD_LIBAIO_H

/* io_submit with the errno convention of system calls.  A request of a forwarded file has been executed when this
 * returns, and its event is in the context.  A request that fails is the last: the call returns how many precede it,
 * or its error if it is the first. */
long amph_ip_submit(const long *a);

/* Returns result, that of io_getevents.  Waits until the program's requests have their own contents again. */
long amph_ip_events(long result);

/* In a forked child: none of its threads is in a call. */
void amph_ip_libaio_forked(void);

#endif
