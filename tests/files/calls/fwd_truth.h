/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_truth share.  Thread rule: as the test. */
#ifndef FWD_TRUTH_H
#define FWD_TRUTH_H

extern const char *scratch;
extern const char *self;
/* Called after exec, with the descriptors of the program before it. */
void went_on(void);
/* exec closes a copy of the descriptor, then another one of the file; both end the locks, although
 * the first stays open. */
void gone_on(void);
void copy_gone(void);
void other_gone(void);
void still_held(void);
void locked(void);
/* Two clients, each with a server of its own: F_GETLK of one names the other, which holds the lock. */
void held_by(void);
/* Many ranges, by two processes. */
void ranges(void);
/* Many locked files of one process. */
void many_files(void);
/* Flags of preadv2 and pwritev2 that newer kernels have, and SIGPIPE, which one of them is about. */
void flagged_lately(void);

#endif
