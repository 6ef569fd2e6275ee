/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The last words of a process that the C library aborts: malloc's checks, fortified functions, a
 * smashed stack.  The C library writes them to standard error by a system call of its own, which the
 * placeholder of a forwarded file refuses, and keeps them in a variable for debuggers.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_ABORT_TEXT_H
#define AMPH_IOFWD_ABORT_TEXT_H

/* As glibc has it; the text ends with a null byte. */
struct amph_ip_abort_text {
    unsigned size;
    char text[];
};

/* Returns the C library's variable for its last words; NULL: it has none. */
const struct amph_ip_abort_text *const *amph_ip_abort_variable(void);

/* Called when standard error is a forwarded file: if SIGABRT has its default action, a handler for
 * it writes the last words before it ends the process.  The program does not see that handler. */
void amph_ip_abort_watch(void);

#endif
