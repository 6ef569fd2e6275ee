/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Client side of the PMI-1 text protocol: each request and each answer is one line, "cmd=NAME
 * word=value ...".
 *
 * Layer: boot; internal.  Thread rule: one thread at a time.  Every call blocks until the server
 * answers or its connection ends.
 */
#ifndef AMPH_BOOT_PMI1_H
#define AMPH_BOOT_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define AMPH_PMI_LINE_BYTES 4096
/* Maximum length of one value.  Some servers and clients have lines of 1024 bytes, whatever
 * vallen_max they state. */
#define AMPH_PMI_TEXT_BYTES 512

struct amph_pmi {
    int fd;
    uint32_t rank, size;
    size_t text_max; /* characters of one value */
    char kvs[256];
    char line[AMPH_PMI_LINE_BYTES]; /* received bytes; those of the last answer come first */
    size_t len, used;
};

/* Does the environment name a server (PMI_FD or PMI_PORT)? */
bool amph_boot_pmi_present(void);

/* Connects to the server and gets rank, size, limits and the name of the key space. */
enum amph_status amph_boot_pmi_open(struct amph_pmi *pmi);

/* Stores len_bytes under name, as hex digits in as many keys (NAME-0, NAME-1, ...) as the server's
 * maximum length of a value requires. */
enum amph_status amph_boot_pmi_put(struct amph_pmi *pmi, const char *name, const void *data,
                                   size_t len_bytes);
/* The counterpart; data is allocated.  AMPH_ERR_NOENT: no process has put it. */
enum amph_status amph_boot_pmi_get(struct amph_pmi *pmi, const char *name, void **data_p,
                                   size_t *len_p);
enum amph_status amph_boot_pmi_barrier(struct amph_pmi *pmi);
/* AMPH_OK also if the connection is closed already: another library of this process, MPI's, has said
 * goodbye by it. */
enum amph_status amph_boot_pmi_finalize(struct amph_pmi *pmi);
bool amph_boot_pmi_is_closed(int fd);
void amph_boot_pmi_abort(struct amph_pmi *pmi, int code); /* async-signal-safe */

/* Copies the value of `word` in a line of the protocol, up to the next blank.  false: no such
 * word, or the value does not fit. */
bool amph_boot_pmi_word(const char *line, const char *word, char *value, size_t cap);

#endif
