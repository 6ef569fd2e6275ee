/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of this process's descriptors: a class byte for each, and for the forwarded ones the
 * open file behind it, which descriptors made by dup share.
 *
 * Layer: iofwd (interposer); uses only the C library.  Thread rule: any thread and signal handlers;
 * no locks.
 *
 * Open files live in memory that is never freed.  A reader may therefore look at one that is being
 * closed: it adds a reference and then checks that the descriptor still leads there.
 */
#ifndef AMPH_IOFWD_FDTAB_H
#define AMPH_IOFWD_FDTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/client/client.h"

#define FDTAB_MAX (1 << 20)

enum amph_fdtab_class {
    FDTAB_UNKNOWN, /* not looked at yet: may be a placeholder that was inherited */
    FDTAB_LOCAL,
    FDTAB_FORWARDED,
    FDTAB_INHERITED, /* a placeholder, but its open file is not in the table yet */
    FDTAB_EPOLL,     /* the program's epoll set, with forwarded files in it */
    FDTAB_OWN,       /* Amphora's: the program does not know it and must not close it */
};

#define AMPH_IP_PATH_INLINE 256

struct amph_fd_file {
    int refs;   /* descriptors that lead here, and calls in progress; 0: free */
    bool ready; /* `file` is filled in */
    struct amph_fwd_file file;
    bool locked;  /* a record lock was taken through it */
    bool closing; /* the coming exec closes one of its descriptors */
    int oflags;   /* as it was opened */
    /* absolute, clean, in the forwarded name space; "" if not known or too long */
    char path[AMPH_IP_PATH_INLINE];
};

extern uint8_t amph_fdtab_classes[FDTAB_MAX] AMPH_HIDDEN;

static inline enum amph_fdtab_class amph_fdtab_class(int fd)
{
    return (unsigned)fd < FDTAB_MAX
               ? (enum amph_fdtab_class)__atomic_load_n(&amph_fdtab_classes[fd], __ATOMIC_RELAXED)
               : FDTAB_LOCAL;
}

static inline void amph_fdtab_mark(int fd, enum amph_fdtab_class cls)
{
    if ((unsigned)fd < FDTAB_MAX)
        __atomic_store_n(&amph_fdtab_classes[fd], cls, __ATOMIC_RELAXED);
}

/* Returns a new open file with one reference for the caller; NULL: no memory. */
struct amph_fd_file *amph_fdtab_new(void);

/* The open file behind fd with a reference added, or NULL. */
struct amph_fd_file *amph_fdtab_get(int fd);

/* Drops a reference.  Dropping the last one closes the file by amph_fdtab_closer and returns its
 * result; otherwise returns 0. */
int amph_fdtab_put(struct amph_fd_file *of);

/* Do two descriptors lead to one open file, and so have one offset? */
bool amph_fdtab_same(int a, int b);

/* Closes a file at its server: 0 or an errno value.  Set once, before the first file is opened. */
extern int (*amph_fdtab_closer)(const struct amph_fwd_file *file) AMPH_HIDDEN;

/* Makes fd lead to of, or, if of is NULL, sets its class to cls.  The table takes over a reference of
 * the caller.  Returns the previous open file of fd with its reference, or NULL. */
struct amph_fd_file *amph_fdtab_set(int fd, struct amph_fd_file *of, enum amph_fdtab_class cls);

/* The open file for file, with a reference added, if one is in use; NULL if none. */
struct amph_fd_file *amph_fdtab_find(const struct amph_fwd_file *file);

/* Calls fn for each forwarded descriptor from first to last. */
void amph_fdtab_each(int first, int last, void (*fn)(int fd, struct amph_fd_file *of, void *arg),
                     void *arg);

/* Counts the references again in a forked child: calls in progress in the parent's other threads do
 * not exist here. */
void amph_fdtab_recount(void);

#endif
