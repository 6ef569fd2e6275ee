/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Has the program this memory?  A kernel answers a bad pointer with EFAULT; here the pointer would
 * be followed by our own code.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers; errno stays.
 *
 * What has been found once is remembered for each thread, so that a buffer that is used again costs
 * two comparisons.  Where the program gives memory back by munmap, mprotect or mremap all is
 * forgotten; what free gives back is not noticed.
 */
#ifndef AMPH_IOFWD_REACH_H
#define AMPH_IOFWD_REACH_H

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/platform.h"
#include "iofwd/interpose/entry/state.h"

#define AMPH_IP_MEM_CACHED 4

struct amph_ip_mem {
    struct {
        uintptr_t from, to;
    } range[AMPH_IP_MEM_CACHED]; /* the newest first */
    uint32_t epoch;
};

/* [0]: may be read, [1]: may be written as well */
extern __thread struct amph_ip_mem amph_ip_mem_checked[2] AMPH_HIDDEN
    __attribute__((tls_model("initial-exec")));

/* The slow ways of the next two. */
size_t amph_ip_mem_ask(const void *at, size_t len, bool write);
int amph_ip_mem_text_ask(const char *text);

static inline bool amph_ip_mem_known(uintptr_t from, size_t len, bool write)
{
    const struct amph_ip_mem *r = &amph_ip_mem_checked[write];

    if (r->epoch != __atomic_load_n(&amph_ip_state.mem_epoch, __ATOMIC_RELAXED))
        return false;

    for (int i = 0; i < AMPH_IP_MEM_CACHED; i++)
        if (from >= r->range[i].from && from < r->range[i].to && len <= r->range[i].to - from)
            return true;

    return false;
}

/* How far the memory from `at` on is known to be readable; 0: nothing is known of it. */
static inline uintptr_t amph_ip_mem_known_end(const void *at)
{
    const struct amph_ip_mem *r = &amph_ip_mem_checked[0];

    if (r->epoch != __atomic_load_n(&amph_ip_state.mem_epoch, __ATOMIC_RELAXED))
        return 0;

    for (int i = 0; i < AMPH_IP_MEM_CACHED; i++)
        if ((uintptr_t)at >= r->range[i].from && (uintptr_t)at < r->range[i].to)
            return r->range[i].to;

    return 0;
}

/* How many of len bytes are there, from the first on. */
static inline size_t amph_ip_mem(const void *at, size_t len, bool write)
{
    return AMPH_LIKELY(amph_ip_mem_known((uintptr_t)at, len, write))
               ? len
               : amph_ip_mem_ask(at, len, write);
}

static inline bool amph_ip_can_read(const void *at, size_t len)
{
    return amph_ip_mem(at, len, false) == len;
}

static inline bool amph_ip_can_write(const void *at, size_t len)
{
    return amph_ip_mem(at, len, true) == len;
}

/* What the kernel says to a path: 0, EFAULT, or ENAMETOOLONG if it does not end within PATH_MAX
 * bytes.  Only a text that passes may be given to strlen and its like. */
static inline int amph_ip_text_error(const char *text)
{
    const struct amph_ip_mem *r = &amph_ip_mem_checked[0];

    if (AMPH_LIKELY(r->epoch == __atomic_load_n(&amph_ip_state.mem_epoch, __ATOMIC_RELAXED)))
        for (int i = 0; i < AMPH_IP_MEM_CACHED; i++) {
            uintptr_t from = (uintptr_t)text;

            if (from >= r->range[i].from && from < r->range[i].to) {
                size_t here = r->range[i].to - from;
                if (memchr(text, 0, here < PATH_MAX ? here : PATH_MAX))
                    return 0;
            }
        }

    return amph_ip_mem_text_ask(text);
}

static inline bool amph_ip_can_read_text(const char *text)
{
    return amph_ip_text_error(text) == 0;
}

/* Can a list of texts that ends with NULL be read, as execve takes them?  NULL is an empty list. */
bool amph_ip_can_read_list(char *const *list);

/* Where a call puts its result: the caller's record, or, if that cannot be written, one that is
 * thrown away before EFAULT is said. */
#define AMPH_IP_ROOM(record, spare) \
    (amph_ip_can_write(record, sizeof *(record)) ? (record) : (spare))

/* Is it no address of a program at all?  Then a call fails at once, and not when it comes to the
 * data. */
static inline bool amph_ip_is_wild(const void *at, size_t len)
{
    uintptr_t end = (uintptr_t)at + len;
    return end < (uintptr_t)at || (sizeof end == 8 && (intptr_t)end < 0);
}

/* The program changes its memory. */
static inline void amph_ip_mem_forget(void)
{
    __atomic_add_fetch(&amph_ip_state.mem_epoch, 1, __ATOMIC_RELAXED);
}

#endif
