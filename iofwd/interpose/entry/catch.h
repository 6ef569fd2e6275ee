/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What decides whether a call is caught: state of the preload library and the guards of names.def.
 * Layer: iofwd (preload). Thread rule: guards are callable anywhere, keep errno, and take no lock.
 * A guard that says yes need not be right (a relative path may turn out local): what takes the call
 * decides finally.  A guard that says no is right.
 */
#ifndef AMPH_IOFWD_CATCH_H
#define AMPH_IOFWD_CATCH_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/wire/prefix.h"

/* A working directory whose name is longer than a path may be goes by its prefix's name and two
 * slashes, which no clean name has. */
static inline bool amph_ip_cwd_is_nameless(const char *cwd)
{
    size_t len = strlen(cwd);
    return len > 2 && cwd[len - 1] == '/' && cwd[len - 2] == '/';
}

/* How deep this thread is inside of Amphora's own code, which is never forwarded. */
extern __thread int amph_ip_inside AMPH_HIDDEN __attribute__((tls_model("initial-exec")));

bool amph_ip_fd_slow(int fd);
bool amph_ip_path(const char *path);
bool amph_ip_at(int dir, const char *path);
/* The kernel has not found a local path (errno is ENOENT): does a symbolic link on it lead below a
 * prefix?  Keeps errno. */
bool amph_ip_led_in(int dir, const char *path);

/* Is it a forwarded path, or one that the kernel does not find and that such a link leads to?
 * Keeps errno. */
bool amph_ip_led(const char *path);

/* How many calls of this thread are being made again for that reason: what is found local is
 * followed through such links. */
extern __thread int amph_ip_links AMPH_HIDDEN __attribute__((tls_model("initial-exec")));

/* A cancellation point of the C library acts on a pending cancellation where it begins; this does
 * the same for a forwarded call. */
void amph_ip_cancel_act(void);
static inline void amph_ip_cancel_point(void)
{
    if (AMPH_UNLIKELY(__atomic_load_n(&amph_ip_state.cancels, __ATOMIC_RELAXED)) && !amph_ip_inside)
        amph_ip_cancel_act();
}

bool amph_ip_stream_known(FILE *f);
bool amph_ip_is_exe(const char *path); /* /proc/self/exe, and the program runs from a copy */

/* Our walks; the C library's FTS begins with a pointer. */
#define AMPH_IP_FTS_MAGIC UINT64_C(0xf075d1e5a3c7b99d)
static inline bool amph_ip_fts(const void *walk)
{
    return walk && *(const uint64_t *)walk == AMPH_IP_FTS_MAGIC;
}

/* A library is looked for in the linker's places unless its name has a slash. */
static inline bool amph_ip_lib(const char *path)
{
    return path && (strchr(path, '/') ? amph_ip_path(path)
                                      : amph_ip_state.library_path_forwarded && path[0] &&
                                            amph_ip_state.on && !amph_ip_inside);
}

static inline bool amph_ip_fd(int fd)
{
    enum amph_fdtab_class cls = amph_fdtab_class(fd);
    return AMPH_LIKELY(cls == FDTAB_FORWARDED) ? !amph_ip_inside
                                               : cls != FDTAB_LOCAL && amph_ip_fd_slow(fd);
}

/*
 * Another thread's dup2 may change what a descriptor is, forwarded or local, between a guard's look
 * at it and the call, which then finds no open file behind it, or a placeholder.  A call that has
 * failed like that has done nothing: it is decided on again.  What says so is noted where it
 * happens, so that calls which succeed look at nothing.
 */
static inline unsigned amph_ip_turns_now(void)
{
    return __atomic_load_n(&amph_ip_state.turns, __ATOMIC_ACQUIRE);
}

/* A call of this thread was for a forwarded descriptor, and it was none. */
extern __thread bool amph_ip_missed AMPH_HIDDEN __attribute__((tls_model("initial-exec")));
/* A call that was ours, or the kernel's, has failed so: is it to be made again? */
bool amph_ip_turned(int err, bool ours, int tries);

/* An epoll set with forwarded files in it. */
static inline bool amph_ip_epoll(int fd)
{
    return AMPH_UNLIKELY(amph_fdtab_class(fd) == FDTAB_EPOLL) && !amph_ip_inside;
}

/* Our directory streams begin with a word that cannot begin the C library's (there it is a
 * descriptor and a lock). */
#define AMPH_IP_DIR_MAGIC UINT64_C(0xf0d1e5a3c7b99d27)
static inline bool amph_ip_dir(const void *dir)
{
    return dir && *(const uint64_t *)dir == AMPH_IP_DIR_MAGIC;
}

/* Cookie streams have a file number below -1 in glibc. */
static inline bool amph_ip_file(FILE *f)
{
    return f && f->_fileno < -1 && amph_ip_stream_known(f);
}

#endif
