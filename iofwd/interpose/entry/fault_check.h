/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks whether the program can access memory that it passes to a call.  The kernel answers a bad
 * pointer with EFAULT; here our own code would follow the pointer, and crash.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers; errno is kept.
 *
 * A range that was found accessible is remembered for each thread, so that a buffer that is used
 * again costs two comparisons.  When the program unmaps or protects memory (munmap, mprotect,
 * mremap), all ranges are forgotten.  Memory that free returns to the kernel is not noticed.
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
    } range[AMPH_IP_MEM_CACHED]; /* the newest one first */
    uint32_t epoch;
};

/* [0]: may be read, [1]: may be written as well */
extern __thread struct amph_ip_mem amph_ip_mem_checked[2] AMPH_HIDDEN
    __attribute__((tls_model("initial-exec")));

/* What the next two functions call if the memory was not checked before. */
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

/* Returns up to which address the memory from `at` on is known to be readable; 0: not known. */
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

/* Returns how many of len bytes can be accessed, from the first on. */
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

/* Returns the error that the kernel reports for a path: 0, EFAULT, or ENAMETOOLONG if it does
 * not end within PATH_MAX bytes.  Only a text that passes may be given to strlen and similar
 * functions. */
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

/* Returns whether a list of texts that ends with NULL, as execve takes it, can be read.  NULL is an
 * empty list. */
bool amph_ip_can_read_list(char *const *list);

/* Selects where a call stores its result: the caller's record, or, if that cannot be written, a
 * spare one that is discarded before the call returns EFAULT. */
#define AMPH_IP_ROOM(record, spare) \
    (amph_ip_can_write(record, sizeof *(record)) ? (record) : (spare))

/* Returns whether the range is outside of the addresses that programs have.  A call then fails at
 * once, and not only when it reaches the data. */
static inline bool amph_ip_is_wild(const void *at, size_t len)
{
    uintptr_t end = (uintptr_t)at + len;
    return end < (uintptr_t)at || (sizeof end == 8 && (intptr_t)end < 0);
}

/* The program has changed its mappings: forgets all checked ranges. */
static inline void amph_ip_mem_forget(void)
{
    __atomic_add_fetch(&amph_ip_state.mem_epoch, 1, __ATOMIC_RELAXED);
}

#endif
