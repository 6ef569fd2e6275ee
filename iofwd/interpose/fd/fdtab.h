/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of this process's descriptors: a class byte for each, and for the forwarded ones the open file behind it, which
 * descriptors made by dup share.  Layer: iofwd.  Uses nothing but the C library.
 * Thread rule: every function may be called from any thread and from signal handlers; nothing here takes a lock.  Open files live in
 * memory that is never given back, so that a reader may look at one that is just being closed: it takes a reference and then checks
 * that the descriptor still leads there.
 */
#ifndef AMPH_IOFWD_FDTAB_H
#define AMPH_IOFWD_FDTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/client/client.h"

#define FDTAB_MAX (1 << 20)

enum fdtab_class {
    FDTAB_UNKNOWN, /* not looked at yet: may be a placeholder that was inherited */
    FDTAB_LOCAL,
    FDTAB_FORWARDED,
    FDTAB_INHERITED, /* a placeholder, but its open file is not in the table yet */
    FDTAB_EPOLL,     /* the program's epoll set, with forwarded files in it */
    FDTAB_OWN,       /* Amphora's: the program does not know it and must not close it */
};

#define FWD_PATH_INLINE 256

struct fwd_ofile {
    int refs; /* descriptors that lead here, and calls under way; 0: free */
    bool ready; /* `file` is filled in */
    struct amph_fwd_file file;
    bool locked;                 /* a record lock was taken through it */
    bool closing;                /* an exec that is about to come closes one of its descriptors */
    int oflags;                  /* as it was opened */
    char path[FWD_PATH_INLINE];  /* absolute, clean, in the forwarded name space; "" if not known or too long */
};

extern uint8_t fdtab_classes[FDTAB_MAX] AMPH_HIDDEN;

static inline enum fdtab_class fdtab_class(int fd)
{
    return (unsigned)fd < FDTAB_MAX ? (enum fdtab_class)__atomic_load_n(&fdtab_classes[fd], __ATOMIC_RELAXED) : FDTAB_LOCAL;
}

static inline void fdtab_mark(int fd, enum fdtab_class cls)
{
    if ((unsigned)fd < FDTAB_MAX)
        __atomic_store_n(&fdtab_classes[fd], cls, __ATOMIC_RELAXED);
}

/* A new open file with one reference, which is the caller's; NULL: no memory. */
struct fwd_ofile *fdtab_new(void);

/* The open file behind fd with a reference added, or NULL. */
struct fwd_ofile *fdtab_get(int fd);

/* Drops a reference.  The last one closes the file by fdtab_closer and gives back what that gave; 0 otherwise. */
int fdtab_put(struct fwd_ofile *of);

/* Do two descriptors lead to one open file, and so have one offset? */
bool fdtab_same(int a, int b);

/* Closes a file at its server: 0 or an errno value.  Set once, before the first file is opened. */
extern int (*fdtab_closer)(const struct amph_fwd_file *file) AMPH_HIDDEN;

/* Makes fd lead to of, or, with of NULL, gives it the class cls.  A reference of the caller's goes over to the table.  Gives back
 * what fd led to before, with its reference, or NULL. */
struct fwd_ofile *fdtab_set(int fd, struct fwd_ofile *of, enum fdtab_class cls);

/* The open file for file, with a reference added, if one is in use; NULL if none. */
struct fwd_ofile *fdtab_find(const struct amph_fwd_file *file);

/* Calls fn for each forwarded descriptor from first to last. */
void fdtab_each(int first, int last, void (*fn)(int fd, struct fwd_ofile *of, void *arg), void *arg);

/* In a forked child: the calls of the parent's other threads are not under way here, so references are counted afresh. */
void fdtab_recount(void);

#endif
