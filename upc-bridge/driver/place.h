/* SPDX-License-Identifier: BSD-3-Clause
 *
 * amphora-upcc and amphora-upcrun: where the tree is that they belong to (installed, moved after
 * its installation, or the build tree), and the line that amphora-upcc leaves in a program for
 * amphora-upcrun.
 *
 * Layer: upc-bridge/driver.  Thread rule: one thread.
 */
#ifndef UPC_DRIVER_PLACE_H
#define UPC_DRIVER_PLACE_H

#include <stdbool.h>

struct place {
    char *bin;         /* amphora-run, upcxlate */
    char *lib;         /* the libraries */
    char *include;     /* gasnetex.h, amphora/ */
    char *upc_include; /* upc.h, upcx.h */
};

/* Finds the installation from the path of this program.  Returns false after a message. */
bool upcc_place_find(struct place *p, const char *self);

/* The line that amphora-upcc stores in a program: "@(#)amphora-upc: threads=4 network=udp
 * servers=2".  0 and "": not chosen. */
#define PLACE_STAMP "@(#)amphora-upc:"
#define PLACE_STAMP_FORMAT PLACE_STAMP " threads=%d network=%s servers=%d"

__attribute__((format(printf, 1, 2))) char *upcc_text(const char *fmt, ...); /* never NULL */
bool upcc_is_file(const char *path);
/* The argument of a long option that is written -name VALUE, --name VALUE, -name=VALUE or
 * --name=VALUE, or NULL when argv[*i] is another one; *i moves on.  A missing value ends the
 * program. */
const char *upcc_option_value(int argc, char **argv, int *i, const char *name);

#endif
