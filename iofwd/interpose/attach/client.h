/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interposer's access to the file client, which is loaded with libiofwd at the first forwarded
 * call.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.
 */
#ifndef AMPH_IOFWD_INTERPOSE_CLIENT_H
#define AMPH_IOFWD_INTERPOSE_CLIENT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "iofwd/client/api/interface.h"
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
    bool adopted;         /* inherited placeholders are in the table; written under lock */
    pthread_mutex_t lock; /* of loading and adopting */
    int complained;       /* the reason why calls fail is printed; atomic */
    bool no_openat2;      /* the kernel, or what stands in for it, does not know openat2; atomic */
    char why[128];        /* load.c: that reason, where libiofwd is another version's */

    /* log_lines.c: lines of the client's log that are not written yet */
    struct {
        char busy; /* a lock; atomic */
        size_t len;
        unsigned lost; /* lines for which there was no room */
        char text[4096];
    } lines;
};

extern struct amph_ip_client amph_ip_client AMPH_HIDDEN;

/* The C library's functions, which are not caught. */
extern const struct amph_fwd_host_calls amph_ip_host_calls AMPH_HIDDEN;

/* Loads libiofwd and opens the process's client if that has not happened yet.  Returns 0 or an errno
 * value.  Call it before each use of the client.  The client sets amph_ip_inside while it works, and
 * only while signals are blocked: the calls of a signal handler are therefore always treated as the
 * program's. */
int amph_ip_client_enter(void);

/* log_lines.c: the sink of the client's log, and what writes out the lines that it has taken, which
 * keeps errno.  forked: the child of a fork leaves the lines to its parent. */
bool amph_ip_log_take(const char *line, size_t len_bytes);
void amph_ip_log_put(void);
void amph_ip_log_forked(void);

/* For IOFWD_OPTIONAL, before the first forwarded call: opens the client.  False: no server can be reached,
 * and from now on no call is forwarded, which was printed. */
bool amph_ip_client_is_there(void);

/* Joins the job of another launcher (see amph_fwd_join_mpmd) at the end of the first process of a
 * rank; init.c. */
void amph_ip_client_join(void);
void amph_ip_rank_end(void);

/* Has a process of this rank joined that job? */
bool amph_ip_rank_has_joined(void);

/* Finds inherited placeholders among all open descriptors and enters them in the table.  Opens the
 * client if there are any. */
void amph_ip_client_adopt(void);
/* Has the client taken over what the process has inherited? */
bool amph_ip_client_has_adopted(void);

/* Returns the client's table of functions after a check that this library was built with the same.
 * On failure it returns NULL and sets *what_p and *why_p for a message. */
const struct amph_fwd_interface *amph_ip_client_bind(const char **what_p, const char **why_p);

/* Where the installation has the preload library. */
#define AMPH_IP_LIBRARY_INSTALLED AMPH_MODULEDIR "/libiofwd_preload.so"

/* The preload library's absolute path, for programs that this one starts; NULL: not known.  The text is
 * permanent. */
const char *amph_ip_library_path(void);

/* Is this library found before the C library, so that it catches calls?  Always in a static program. */
bool amph_ip_is_in_front(void);

/* Is malloc that of the program or of a preloaded library?  It locks itself around a fork by handlers then, unlike the
 * C library's.  Of a static program it is not asked. */
bool amph_ip_has_own_malloc(void);

/* Takes or releases the lock of loading around a fork, so that no other thread is loading the client
 * when the child starts. */
void amph_ip_client_fork_lock(bool take);

/* Gets the open file behind a forwarded descriptor and adds a reference.  Returns 0 or an errno value
 * (EBADF: fd is not forwarded). */
int amph_ip_file_get(int fd, struct amph_fd_file **of_p);

/* Has a directory that the process has opened by itself (path/near.h) opened at its server.  fd: one of its
 * descriptors.  The client is entered.  Returns 0 or an errno value. */
int amph_ip_near_reach(struct amph_fd_file *of, int fd);
static inline int amph_ip_file_reach(struct amph_fd_file *of, int fd)
{
    return AMPH_UNLIKELY(of->near) ? amph_ip_near_reach(of, fd) : 0;
}

/* Begin and end of a call by descriptor.  begin gets the open file and enters the client; it returns
 * 0, or -1 and sets errno.  end drops the reference and returns 0, or -1 and errno = err. */
int amph_ip_file_begin(int fd, struct amph_fd_file **of_p);
int amph_ip_file_end(struct amph_fd_file *of, int err);

/* Call it when a wait ended with EINTR: acts on a cancellation of this thread and then does not
 * return; cancel.c. */
void amph_ip_wait_ended(void);
bool amph_ip_is_cancelled(void);

/* Returns 0 if err is 0, else sets errno and returns -1. */
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

/* Calls fn for every open descriptor of this process. */
void amph_ip_each_open_fd(void (*fn)(int fd, void *arg), void *arg);

/* Does fd belong to the client?  The program must neither close nor replace such a descriptor. */
static inline bool amph_ip_owns(int fd)
{
    return amph_fdtab_class(fd) == FDTAB_OWN || amph_ip_is_cwd(fd) ||
           (amph_ip_client.loaded && amph_ip_client.fwd.owns_fd(fd));
}

/* A call has failed: did it find no free descriptor (errno is EMFILE), and has the client given up some of its own, so
 * that it can be made again?  Keeps errno. */
bool amph_ip_client_made_room(void);

/* The name of a placeholder is this mark and the text of amph_fwd_file_print.
 * amph_ip_placeholder_text gets that text; false: fd is not a placeholder. */
#define AMPH_IP_PLACEHOLDER_MARK AMPH_FWD_PLACEHOLDER_MARK
bool amph_ip_placeholder_text(int fd, char *text, size_t cap_bytes);

/* Is fd a placeholder that another task is making, or the memfd from which it does so? */
bool amph_ip_placeholder_is_unfinished(int fd);

/* The same for a link in /proc.  A text that ends in '@' is not completed from the offset. */
bool amph_ip_placeholder_link(const char *link, char *text, size_t cap_bytes);

/* Gets the open file that the text of another process's placeholder names, with a hold and a
 * reference.  Call amph_ip_client_enter first.  ENOENT: its server does not have it, or no longer. */
int amph_ip_file_adopt(const char *text, struct amph_fd_file **of_p);

/* The program is static and has the client linked in. */
extern const bool amph_ip_client_is_linked AMPH_HIDDEN;

/* Does the program itself use iofwd.h?  true: it may. */
bool amph_ip_program_uses_api(void);

#endif
