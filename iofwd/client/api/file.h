/* SPDX-License-Identifier: BSD-3-Clause */
/* What iofwd_file_t is.  Layer: iofwd. */
#ifndef AMPH_IOFWD_API_FILE_H
#define AMPH_IOFWD_API_FILE_H

#include <stdbool.h>

#include "iofwd.h"
#include "iofwd/client/client.h"

/* An open file of iofwd.h.  It belongs to the client of the calling process: in a forked child, to
 * the child's client. */
struct iofwd_file {
    struct amph_fwd_file file;
    bool borrowed; /* it refers to an open descriptor, so closing it leaves the file open */
    bool doubled;  /* the process may have another iofwd_file_t of the same open file */
    struct amph_fwd_file whole;    /* for the last close: parts that another one knew, too */
    struct iofwd_file *next, **at; /* the process's list of all that are not borrowed */
};

/* Creates an iofwd_file_t.  0, or ENOMEM; then the caller still owns the open file f. */
int amph_client_file_make(const struct amph_fwd_file *f, bool borrowed, iofwd_file_t **file_p);
/* Called for a file that was opened by its name, because this process may have it open already. */
void amph_client_file_double(iofwd_file_t *file);

#endif
