/* SPDX-License-Identifier: BSD-3-Clause */
/* What iofwd_file_t is.  Layer: iofwd. */
#ifndef AMPH_IOFWD_API_FILE_H
#define AMPH_IOFWD_API_FILE_H

#include <stdbool.h>

#include "iofwd.h"
#include "iofwd/client.h"

/* Its client is the process's: in a forked child the child's. */
struct iofwd_file {
    struct amph_fwd_file file;
    bool borrowed; /* a descriptor's: closing does not end it */
};

/* 0 or ENOMEM; the open file f stays the caller's then. */
int fwd_file_make(const struct amph_fwd_file *f, bool borrowed, iofwd_file_t **file_p);

#endif
