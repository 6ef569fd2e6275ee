/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C library's own FILE objects: finds those with a descriptor, and turns them into forwarded
 * streams in place.
 *
 * Layer: iofwd (interposer).
 */
#ifndef AMPH_IOFWD_FOREIGN_H
#define AMPH_IOFWD_FOREIGN_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/platform.h"

/* How glibc lays out a stream of fopencookie.  A stream of any other kind begins with the same two
 * members, which are a structure of their own there: on some 32-bit machines a gap follows them.
 * The functions are kept mangled, so they can be copied from one stream to another and not be
 * read. */
struct amph_ip_cookie_file {
    FILE file;
    const void *vtable;
    alignas(FILE) void *cookie;
    cookie_io_functions_t functions;
};

/* std_files.c: stdin, stdout and stderr, with room for the members of a cookie stream. */
extern struct amph_ip_cookie_file amph_ip_std_in AMPH_HIDDEN, amph_ip_std_out AMPH_HIDDEN,
    amph_ip_std_err AMPH_HIDDEN;
struct amph_ip_cookie_file *amph_ip_std_file(int fd); /* for descriptor 0, 1 or 2 */
/* Returns the C library's own object, which amph_ip_std_file(fd) replaces. */
const FILE *amph_ip_std_original(int fd);
/* Fills in the parts of the three objects that only the C library has; called once, before one of
 * them is used for wide characters. */
void amph_ip_std_complete(void);

/* Calls the C library's fopencookie, even if another library defines the name. */
FILE *amph_ip_plain_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);

/* glibc's list of all streams, and its lock, which is recursive. */
extern void _IO_list_lock(void);
extern void _IO_list_unlock(void);
extern void *_IO_iter_begin(void);
extern void *_IO_iter_end(void);
extern void *_IO_iter_next(void *at);
extern FILE *_IO_iter_file(void *at);

/* ---- foreign_file.c ---- */

/* Records a FILE that the C library has just opened, and returns it. */
FILE *amph_ip_note_stream(FILE *f);
/* Stores the local streams with this descriptor, at most max of them, and returns their number. */
size_t amph_ip_foreign_find(int fd, FILE **found, size_t max);
/* Calls fn for each descriptor that a local stream has had since the program's start. */
void amph_ip_foreign_each_fd(void (*fn)(int fd));
/*
 * Converts f to a stream with the functions of model, which amph_ip_plain_fopencookie has just made
 * for model_cookie; f gets cookie.  The contents of its buffers are kept, except for a wide stream:
 * *text_p gets what that had read ahead or not yet written, as *text_len_p bytes, which the caller
 * frees.  false: f is of a kind that has no room for the cookie, or another thread is using it.
 */
bool amph_ip_foreign_convert(FILE *f, const FILE *model, const void *model_cookie, void *cookie,
                             char **text_p, size_t *text_len_p);
/* Makes a converted stream that is being closed a local one again, for a program that reopens
 * it. */
void amph_ip_foreign_restore(FILE *f);

/* ---- stdio/lost_data.c ---- */

/* Called if a local stream uses a placeholder and cannot be converted: from now on the end of the
 * process is checked. */
void amph_ip_lost_watch(void);
/* Reports a local stream on a placeholder that has data which was not written.  Keeps errno. */
bool amph_ip_lost_report(void);
void amph_ip_lost_ending(void); /* called when destructors run, before the streams are flushed */
void amph_ip_lost_forked(void); /* called in a forked child, whose streams are copies */

#endif
