/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of fwd_random share.  Thread rule: one thread. */
#ifndef FWD_RANDOM_H
#define FWD_RANDOM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define DATA_MAX 70000

extern size_t at;
extern unsigned char data[2 * DATA_MAX];
uint32_t any(uint32_t below);
bool once_in(uint32_t n);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
long gives(long result);
void say_data(const void *p, ssize_t n);
/* Six may be in use at once. */
const char *path(void);
int *place(void);
size_t size(void);
off_t offset(void);
const void *fill(size_t n);
void do_read(void);
void do_write(void);
void do_pread(void);
void do_pwrite(void);
void do_vectors(void);
extern bool *reserved; /* in some file, by some process */
void do_seek(void);
void do_truncate(void);
void do_allocate(void);
void do_copy(void);
void do_sync(void);
void do_map(void);
void do_stream(void);
void do_nowhere(void);
extern volatile sig_atomic_t over;
void on_limit(int sig);
void do_limit(void);

#endif
