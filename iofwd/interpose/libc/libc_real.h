/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls the C library's own function of an interposed name: there is one slot for each name, filled
 * when it is first used.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread; a slot is only ever written with one value.
 */
#ifndef AMPH_IOFWD_REAL_H
#define AMPH_IOFWD_REAL_H

#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

#include "base/platform.h"

/* If off_t has two sizes, the names without 64 take offsets of 32 bits, and records that are not
 * read here.  This library is built with the wide form. */
#if __SIZEOF_LONG__ == 8
#define AMPH_IP_WIDE 1
#define amph_ip_stat stat
#define amph_ip_statfs statfs
#define amph_ip_statvfs statvfs
#define amph_ip_dirent dirent
#define AMPH_IP_WIDE_ONLY(call) (call)
#define AMPH_IP_WIDE_POINTER(call) (call)
#else
#define AMPH_IP_WIDE 0
#define AMPH_IP_WIDE_ONLY(call) (errno = EOVERFLOW, -1)
#define AMPH_IP_WIDE_POINTER(call) (errno = EOVERFLOW, NULL)
#endif
struct amph_ip_stat;
struct amph_ip_statfs;
struct amph_ip_statvfs;
struct amph_ip_dirent;
typedef __off_t amph_ip_off_t;

static inline amph_ip_off_t amph_ip_narrow_off(off_t off)
{
    if ((amph_ip_off_t)off == off)
        return (amph_ip_off_t)off;

    errno = EOVERFLOW;
    return -1;
}

#define AMPH_IP_EXPORT __attribute__((visibility("default")))

extern void *amph_ip_libc_slots[] AMPH_HIDDEN;
extern const char *const amph_ip_name_texts[] AMPH_HIDDEN;
/* names_wrap.c refers to it, so that the linker takes init.c out of the archive */
extern const char amph_ip_init_linked AMPH_HIDDEN;

/* Fills the slot of a name and returns it.  If the C library has no such function, the slot gets
 * one that sets ENOSYS and returns -1. */
void *amph_ip_libc_find(int name);

/* Fills every slot.  Called before a fork: in the child of a program with threads the dynamic
 * linker's lock may be held forever.  Called also when the program installs a signal handler: one
 * that forks, or makes another call, may have come in the midst of a malloc. */
void amph_ip_libc_find_all(void);

/* Returns the next function of that name after the interposer's own.  NULL: not found, or it has
 * that symbol version.  Keeps errno. */
void *amph_ip_next_unless(const char *name, const char *version);

static inline void *amph_ip_libc(int name)
{
    void *real = __atomic_load_n(&amph_ip_libc_slots[name], __ATOMIC_RELAXED);
    return AMPH_LIKELY(real != NULL) ? real : amph_ip_libc_find(name);
}

#endif
