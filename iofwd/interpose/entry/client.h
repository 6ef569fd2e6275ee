/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file client as the preload library sees it: loaded with libiofwd at the first call that must
 * be forwarded. Layer: iofwd (preload).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_CORE_H
#define AMPH_IOFWD_CORE_H

#include <errno.h>
#include <stdbool.h>

#include "iofwd/client/interface.h"
#include "iofwd/interpose/entry/state.h"
#include "iofwd/interpose/fd/fdtab.h"

/* The process's client and how to call it. */
struct amph_ip_client {
    /* the functions to call: a copy of *direct, with those of memory/coherent.c in place of some
     * while the process maps forwarded files */
    struct amph_fwd_interface fwd;
    const struct amph_fwd_interface *direct; /* the client's own functions */
    struct amph_fwd_client *client;          /* as of the last amph_ip_client_enter */
    bool loaded;                             /* fwd and direct are set */
};

extern struct amph_ip_client amph_ip_client AMPH_HIDDEN;

/* Loads libiofwd and opens the process's client where that has not been done: before each call of
 * the client's.  0 or an errno value. While the client works, this thread's calls are Amphora's own
 * (amph_ip_inside); it says so itself, and only while signals are held back, so that a signal
 * handler is always taken for what it is: the program's code. */
int amph_ip_client_enter(void);

/* At the end of the first process of a rank in another launcher's job (init.c): see
 * amph_fwd_join_mpmd. */
void amph_ip_client_join(void);
void amph_ip_rank_end(void);

/* Looks through all open descriptors for placeholders that were inherited and takes them over;
 * opens the client if there are any. */
void amph_ip_client_adopt(void);

/* Finds the client's functions, checked to be those this library was built with.  On failure it
 * returns NULL and sets what is wrong, and why, for a message. */
const struct amph_fwd_interface *amph_ip_client_bind(const char **what_p, const char **why_p);

/* Around a fork: no other thread is loading the client when the child comes to life. */
void amph_ip_client_fork_lock(bool take);

/* The open file behind a forwarded descriptor, with a reference: 0 or an errno value (EBADF: fd is
 * not forwarded). */
int amph_ip_file_get(int fd, struct amph_fd_file **of_p);

/* Both steps before a call by descriptor: 0, or -1 with errno.  After it: 0 or -1 with errno =
 * err. */
int amph_ip_file_begin(int fd, struct amph_fd_file **of_p);
int amph_ip_file_end(struct amph_fd_file *of, int err);

/* cancel.c: a call that waited has ended with EINTR; it does not return if that is because the
 * thread was cancelled. */
void amph_ip_wait_ended(void);
bool amph_ip_is_cancelled(void);

/* -1 and errno = err, or 0 where err is 0. */
static inline int amph_ip_result(int err)
{
    if (AMPH_LIKELY(!err))
        return 0;

    if (AMPH_UNLIKELY(err == EINTR))
        amph_ip_wait_ended();

    errno = err;
    return -1;
}

static inline int amph_ip_fail(int err)
{
    errno = err;
    return -1;
}

/* Calls fn for every descriptor that this process has open. */
void amph_ip_each_open_fd(void (*fn)(int fd, void *arg), void *arg);

/* Is fd a descriptor of the client's own, which the program must neither close nor replace? */
static inline bool amph_ip_owns(int fd)
{
    return amph_fdtab_class(fd) == FDTAB_OWN || (fd && fd == amph_ip_state.cwd_fd) ||
           (amph_ip_client.loaded && amph_ip_client.fwd.owns_fd(fd));
}

/* A placeholder's name: this, then amph_fwd_file_print's text.  The text without the mark is given
 * by amph_ip_placeholder_text. */
#define AMPH_IP_PLACEHOLDER_MARK AMPH_FWD_PLACEHOLDER_MARK
bool amph_ip_placeholder_text(int fd, char *text, size_t cap_bytes);
/* The same of a link of /proc, without what the offset says. */
bool amph_ip_placeholder_link(const char *link, char *text, size_t cap_bytes);
/* The open file of a text that another process's placeholder has, with a hold and a reference.
 * After amph_ip_client_enter.  ENOENT: its server does not know it (any more). */
int amph_ip_file_adopt(const char *text, struct amph_fd_file **of_p);

/* this is a static program, which has the client linked in */
extern const bool amph_ip_client_is_linked AMPH_HIDDEN;

#endif
