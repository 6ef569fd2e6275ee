/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of iofwd_calls share.  Thread rule: as the test. */
#ifndef IOFWD_CALLS_H
#define IOFWD_CALLS_H

#include "iofwd/client/internal.h"

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            printf("%s:%d: %s (rank %u)\n", __FILE__, __LINE__, #cond, iofwd_client_number()); \
            failures++; \
        } \
    } while (0)
#define IS(call, want) \
    do { \
        int got_ = (call); \
        if (got_ != (want)) { \
            printf("%s:%d: %s gives %d (%s), not %d\n", __FILE__, __LINE__, #call, got_, \
                   strerror(got_), want); \
            failures++; \
        } \
    } while (0)

extern struct amph_fwd_client *cl;
extern const char *real_dir, *self_path;
extern int failures;
const char *real(const char *rel);
int fopen_fwd(const char *rel, int flags, struct amph_fwd_file *f);

/* The child of fork goes on with the parent's open file, also when the parent closes first. */
void test_fork(void);
void test_exec(void);
int new_image(const char *text);
/* Forwarded calls in a signal handler that interrupts forwarded calls. */
void test_signals(void);
/* A client that is killed in the middle of a large write: its files are closed, its locks dropped,
 * others go on. */
void test_killed(void);

#endif
