/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library's own FILE objects: which of them have a descriptor, and how one of them becomes a
 * forwarded stream where it is.
 *
 * Layer: iofwd (interposer).
 */
#ifndef AMPH_IOFWD_FOREIGN_H
#define AMPH_IOFWD_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/platform.h"

/* How glibc lays out a stream of fopencookie.  A stream of any other kind begins with the same two
 * members.  The functions are kept mangled, so they can be copied from one stream to another and
 * not be read. */
struct amph_ip_cookie_file {
    FILE file;
    const void *vtable;
    void *cookie;
    cookie_io_functions_t functions;
};

/* std_files.c: stdin, stdout and stderr, with room for the members of a cookie stream. */
extern struct amph_ip_cookie_file amph_ip_std_in AMPH_HIDDEN, amph_ip_std_out AMPH_HIDDEN,
    amph_ip_std_err AMPH_HIDDEN;
struct amph_ip_cookie_file *amph_ip_std_file(int fd); /* of 0, 1 or 2 */
/* The C library's own object for fd, which amph_ip_std_file(fd) stands in for. */
const FILE *amph_ip_std_original(int fd);
/* Completes the three objects by what only the C library has, once; before any of them is used for
 * wide characters. */
void amph_ip_std_complete(void);

/* The C library's fopencookie, whoever else has one of that name. */
FILE *amph_ip_plain_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);

/* ---- foreign.c ---- */

/* A FILE of the C library's has just been opened.  Gives it back. */
FILE *amph_ip_note_stream(FILE *f);
/* Stores the local streams that have this descriptor, at most max of them, and gives their
 * number. */
size_t amph_ip_foreign_find(int fd, FILE **found, size_t max);
/* Calls fn for each descriptor that a local stream has had since the program's start. */
void amph_ip_foreign_each_fd(void (*fn)(int fd));
/*
 * Makes f a stream of the same functions as model, which amph_ip_plain_fopencookie has just made
 * for model_cookie; f gets cookie.  What f has in its buffers stays there, but for a stream of wide
 * characters: *text_p gets what that had read ahead or not yet written, as *text_len_p bytes, to be
 * freed.  false: f is of a kind that has no room for it, or another thread is using it.
 */
bool amph_ip_foreign_convert(FILE *f, const FILE *model, const void *model_cookie, void *cookie,
                             char **text_p, size_t *text_len_p);
/* A stream that was converted is being closed: it is a local one again, for a program that reopens
 * it. */
void amph_ip_foreign_restore(FILE *f);

/* ---- stdio/lost_data.c ---- */

/* A local stream leads to a placeholder and cannot be converted: from now on the end of the process
 * is checked. */
void amph_ip_lost_watch(void);
/* Says so if a local stream on a placeholder has data that was not written.  Keeps errno. */
bool amph_ip_lost_report(void);
void amph_ip_lost_ending(void); /* destructors run: the streams are flushed next */
void amph_ip_lost_forked(void); /* in the child, whose streams are copies */

#endif
