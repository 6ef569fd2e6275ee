/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guards of names.def: they decide whether a call goes to the interposer or straight to the C
 * library.  "No" is final.  "Yes" is provisional: a relative path may turn out to be local, and the
 * implementation of the call (amph_do_*) decides.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread and signal handlers; guards keep errno and
 * take no lock.
 */
#ifndef AMPH_IOFWD_CATCH_H
#define AMPH_IOFWD_CATCH_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/wire/prefix.h"

/* Has the working directory a name that is longer than PATH_MAX?  It is then stored as its prefix
 * and two slashes, which no clean name ends in. */
static inline bool amph_ip_cwd_is_nameless(const char *cwd)
{
    size_t len = strlen(cwd);
    return len > 2 && cwd[len - 1] == '/' && cwd[len - 2] == '/';
}

/* Above 0 while this thread executes Amphora's own code, whose calls are never forwarded. */
extern __thread int amph_ip_inside AMPH_HIDDEN __attribute__((tls_model("initial-exec")));

bool amph_ip_fd_slow(int fd);
bool amph_ip_path(const char *path);
/* The same for a path that the C library reads by itself: a text of any length, which must be
 * readable. */
bool amph_ip_text(const char *path);
bool amph_ip_at(int dir, const char *path);

/* After the kernel has not found a local path (ENOENT): does a symbolic link in it lead below a
 * prefix?  Keeps errno. */
bool amph_ip_led_in(int dir, const char *path);

/* Returns whether path is forwarded, or was not found by the kernel and leads below a prefix
 * through a symbolic link.  Keeps errno. */
bool amph_ip_led(const char *path);

/* Above 0 while this thread repeats a call for that reason: the resolution of paths then follows
 * such links. */
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

/* The first word of the interposer's FTS objects; the C library's begin with a pointer. */
#define AMPH_IP_FTS_MAGIC UINT64_C(0xf075d1e5a3c7b99d)
static inline bool amph_ip_fts(const void *walk)
{
    return walk && *(const uint64_t *)walk == AMPH_IP_FTS_MAGIC;
}

/* May the library of dlopen be forwarded?  The linker searches its directories for a name without a
 * slash. */
static inline bool amph_ip_lib(const char *path)
{
    return path && (strchr(path, '/') ? amph_ip_path(path)
                                      : amph_ip_state.library_path_forwarded && path[0] &&
                                            amph_ip_state.on && !amph_ip_inside);
}

/* The flags of dlopen, without RTLD_DEEPBIND: such a library would find the C library's functions before ours. */
static inline int amph_ip_lib_flags(int flags)
{
    bool leaves = !amph_ip_state.on || amph_ip_inside;

    return leaves ? flags : flags & ~RTLD_DEEPBIND;
}

static inline bool amph_ip_fd(int fd)
{
    enum amph_fdtab_class cls = amph_fdtab_class_or_ask(fd);
    return AMPH_LIKELY(cls == FDTAB_FORWARDED) ? !amph_ip_inside
                                               : cls != FDTAB_LOCAL && amph_ip_fd_slow(fd);
}

/*
 * Races with dup2.  Another thread's dup2 may turn a descriptor from forwarded to local, or back,
 * between the guard and the call.  The call then fails without effect: it finds no open file, or the
 * kernel finds a placeholder.  Such a call is repeated from its guard.  The checks are made after a
 * failure only, so that successful calls pay nothing.
 */
static inline unsigned amph_ip_turns_now(void)
{
    return __atomic_load_n(&amph_ip_state.turns, __ATOMIC_ACQUIRE);
}

/* This thread's last forwarded call found that its descriptor is not forwarded. */
extern __thread bool amph_ip_missed AMPH_HIDDEN __attribute__((tls_model("initial-exec")));

/* Must a call that failed with err be repeated?  ours: it was forwarded, else the kernel's; tries:
 * repetitions so far. */
bool amph_ip_turned(int err, bool ours, int tries);

/* Is fd an epoll set with forwarded files in it? */
static inline bool amph_ip_epoll(int fd)
{
    return AMPH_UNLIKELY(amph_fdtab_class_or_ask(fd) >= FDTAB_EPOLL) &&
           amph_fdtab_class(fd) == FDTAB_EPOLL && !amph_ip_inside;
}

/* Programs that search for open descriptors by fstat or fcntl, to close or to list them, do not
 * find Amphora's from this number on.  Those below belong to the job's launcher, and libraries of
 * the program use them. */
#define AMPH_IP_HIDDEN_FROM 64
static inline bool amph_ip_hidden(int fd)
{
    return fd >= AMPH_IP_HIDDEN_FROM && AMPH_UNLIKELY(amph_fdtab_class(fd) == FDTAB_OWN) &&
           !amph_ip_inside && fd != amph_ip_state.rank.result && fd != amph_ip_state.rank.token;
}

/* Has the program opened the file behind this local descriptor by itself (path/near.h)?  false also inside of
 * Amphora.  The number may have been closed unseen, and be another file's. */
bool amph_ip_near_has(int fd);

/* Are files mapped, of which the interposer keeps lists? */
static inline bool amph_ip_has_maps(void)
{
    return __atomic_load_n(&amph_ip_state.maps, __ATOMIC_RELAXED) ||
           __atomic_load_n(&amph_ip_state.file_maps, __ATOMIC_RELAXED);
}

/* The first word of the interposer's directory streams.  The C library's begin with a descriptor and
 * a lock, which never have this value. */
#define AMPH_IP_DIR_MAGIC UINT64_C(0xf0d1e5a3c7b99d27)
static inline bool amph_ip_dir(const void *dir)
{
    return dir && *(const uint64_t *)dir == AMPH_IP_DIR_MAGIC;
}

/* Is f a forwarded stream?  glibc gives cookie streams a file number below -1. */
static inline bool amph_ip_file(FILE *f)
{
    return f && f->_fileno < -1 && amph_ip_stream_known(f);
}

#endif
