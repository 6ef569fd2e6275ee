/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_passthrough share.  Thread rule: as the test. */
#ifndef FWD_PASSTHROUGH_H
#define FWD_PASSTHROUGH_H

#include <stddef.h>
#include <stdint.h>

#define SAY(call) say(__LINE__, #call, (long)(call))
#define ENOUGH 8 /* calls after which a file's descriptor has been passed */
enum {
    LONGEST = 300000,
    RECORD = 64
};

extern uint8_t *buf; /* LONGEST bytes and two pages, the second of which is not there */
extern const char *scratch;

/* Opens a file of the directory, and makes it. */
int make(const char *name, int flags);
void remove_file(const char *name);
/* Makes calls on the file until they are made by its passed descriptor. */
void warm(int fd);
/* Bytes that depend on the mark. */
void fill(uint8_t *at, size_t len, unsigned mark);
/* The same for all descriptors of the file. */
void print_contents(const char *name);
/* Writes records at the offset. */
void write_records(int fd, char mark, int n);
/* Prints how many records of each mark there are; none is torn. */
void check_records(const char *name, const char *marks, int n);

void section_threads(void);
void section_vectors(void);
void section_signals(void);
void section_processes(void);
void section_closes(void);
void section_maps(void);

void section_few(void);
void section_few_local(void);
void section_forever(void);
void section_until(void);
void section_failover(void);
void section_only(void);
void section_small(void);
void section_leaves(void);
void section_child_leaves(void);

/* AddressSanitizer ends a program whose memory is not there before the kernel can say so. */
#if defined __SANITIZE_ADDRESS__
#define HAS_BAD_MEMORY 0
#else
#define HAS_BAD_MEMORY 1
#endif

#endif
