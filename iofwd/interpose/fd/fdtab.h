/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptor tables: a class byte for each descriptor, and for the forwarded ones the open file behind
 * it, which descriptors made by dup share.
 *
 * A process begins with one table, which all its threads use.  A task (a thread, or a child that shares
 * the process's memory) can leave it for a copy of its own: fd/own_table.c.  Open files are counted
 * over all tables.
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
#define FDTAB_LEAF 1024

enum amph_fdtab_class {
    FDTAB_UNKNOWN, /* not looked at yet: may be a placeholder that was inherited */
    FDTAB_LOCAL,
    FDTAB_FORWARDED,
    FDTAB_INHERITED, /* a placeholder, but its open file is not in the table yet */
    FDTAB_OWN,       /* Amphora's: the program does not know it and must not close it */
    FDTAB_EPOLL,     /* the program's epoll set, with forwarded files in it */
    FDTAB_ASK,       /* several tables share this entry: amph_fdtab_current finds the right one */
};

#define AMPH_IP_PATH_INLINE 256

struct amph_fd_file {
    int refs;   /* descriptors that lead here, and calls in progress; 0: free */
    bool ready; /* `file` is filled in */
    /* its last reference was dropped while closes are held; whoever resets the mark has the reference */
    bool postponed;
    struct amph_fwd_file file;
    /* the number of a directory whose descriptors are its own (path/near.h), which no server has until
     * `ready`; 0: another file */
    uint32_t near;
    bool near_readonly; /* it is below an export that must not be changed */
    bool locked;        /* a record lock was taken through this open file */
    uint8_t access;     /* memory/map.c: 1 + O_RDONLY, O_WRONLY or O_RDWR; 0: the server was not asked */
    bool marked;        /* its server knows that it is mapped itself (memory/map_itself.c) */
    bool closing;       /* the coming exec closes one of its descriptors */
    int oflags;         /* as it was opened */
    /* absolute, clean, in the forwarded name space; "" if not known or too long */
    char path[AMPH_IP_PATH_INLINE];
};

struct amph_fdtab_leaf;

/* A descriptor table.  All fields but the first two belong to fd/own_table.c. */
struct amph_fdtab {
    uint8_t classes[FDTAB_MAX];
    struct amph_fdtab_leaf *leaves[FDTAB_MAX / FDTAB_LEAF];
    /* Tasks that have it as amph_fdtab_mine use different tables; all its classes are FDTAB_ASK. */
    bool asks;
    /* The owner of record locks: at the servers, client and number.  0: the process's first table. */
    uint32_t number;
    bool has_locks; /* a record lock was taken by this table's tasks; fd/lock.c */
    bool is_childs; /* it belongs to a child process that shares memory with this one */
    unsigned tasks; /* tasks that use it; not counted for the first table */
    unsigned aio_threads, aio_idle; /* threads of fd/aio.c among the tasks; under its lock */
    struct amph_fdtab *next;
};

extern struct amph_fdtab amph_fdtab_first AMPH_HIDDEN;
extern __thread struct amph_fdtab *amph_fdtab_mine AMPH_HIDDEN
    __attribute__((tls_model("initial-exec")));

/* Returns the table of the calling task if amph_fdtab_mine is shared; fd/own_table.c. */
struct amph_fdtab *amph_fdtab_of_task(void);

static inline struct amph_fdtab *amph_fdtab_current(void)
{
    struct amph_fdtab *table = amph_fdtab_mine;

    return AMPH_LIKELY(!table->asks) ? table : amph_fdtab_of_task();
}

/* Returns the class in amph_fdtab_mine, which may be FDTAB_ASK; for guards. */
static inline enum amph_fdtab_class amph_fdtab_class_or_ask(int fd)
{
    return (unsigned)fd < FDTAB_MAX ? (enum amph_fdtab_class)__atomic_load_n(
                                          &amph_fdtab_mine->classes[fd], __ATOMIC_RELAXED)
                                    : FDTAB_LOCAL;
}

static inline enum amph_fdtab_class amph_fdtab_class(int fd)
{
    return (unsigned)fd < FDTAB_MAX ? (enum amph_fdtab_class)__atomic_load_n(
                                          &amph_fdtab_current()->classes[fd], __ATOMIC_RELAXED)
                                    : FDTAB_LOCAL;
}

static inline void amph_fdtab_mark(int fd, enum amph_fdtab_class cls)
{
    if ((unsigned)fd < FDTAB_MAX)
        __atomic_store_n(&amph_fdtab_current()->classes[fd], cls, __ATOMIC_RELAXED);
}

/* Gives fd the class that a look at the kernel's descriptor has shown, unless a thread that has opened it
 * has given it one meanwhile.  Returns its class. */
static inline enum amph_fdtab_class amph_fdtab_learn(int fd, enum amph_fdtab_class cls)
{
    uint8_t now = FDTAB_UNKNOWN;

    if ((unsigned)fd >= FDTAB_MAX ||
        __atomic_compare_exchange_n(&amph_fdtab_current()->classes[fd], &now, (uint8_t)cls, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return cls;

    return (enum amph_fdtab_class)now;
}

/* Returns a new open file with one reference for the caller; NULL: no memory. */
struct amph_fd_file *amph_fdtab_new(void);

/* Returns the open file behind fd with a reference added, or NULL. */
struct amph_fd_file *amph_fdtab_get(int fd);

/* Is fd a directory that the process has opened by itself (path/near.h)?  The first returns its number; 0: no. */
uint32_t amph_fdtab_near(int fd, bool *readonly_p);
bool amph_fdtab_is_near(int fd);

/* Drops a reference.  Dropping the last one closes the file by amph_ip_fds.close_file (fd/state.h)
 * and returns its result; otherwise returns 0. */
int amph_fdtab_put(struct amph_fd_file *of);

/* Until the matching release, no file is closed at its server: amph_fdtab_put postpones it and returns
 * 0.  The last release closes what was postponed and is still not in use.  For copies of tables: the
 * kernel's copy may have a descriptor whose file has no other user any more. */
void amph_fdtab_closes_hold(void);
void amph_fdtab_closes_release(void);

/* Do two descriptors lead to one open file, and so have one offset? */
bool amph_fdtab_same(int a, int b);

/* Do two descriptions name one open file of a server? */
bool amph_fdtab_same_file(const struct amph_fwd_file *a, const struct amph_fwd_file *b);

/* Makes room for fd in the calling task's table, where amph_fdtab_set then cannot fail.  false: no
 * memory, or no valid descriptor; nothing has changed. */
bool amph_fdtab_reserve(int fd);

/* Makes fd lead to of, or, if of is NULL, sets its class to cls.  The table takes over a reference of
 * the caller.  Returns the previous open file of fd with its reference, or NULL; of itself if there is
 * no room for it, with fd as it was. */
struct amph_fd_file *amph_fdtab_set(int fd, struct amph_fd_file *of, enum amph_fdtab_class cls);
struct amph_fd_file *amph_fdtab_set_in(struct amph_fdtab *table, int fd, struct amph_fd_file *of,
                                       enum amph_fdtab_class cls);

/* Returns the open file in use for `file` with a reference added; NULL if no descriptor has it. */
struct amph_fd_file *amph_fdtab_find(const struct amph_fwd_file *file);

/* Calls fn for each forwarded descriptor from first to last. */
void amph_fdtab_each(int first, int last, void (*fn)(int fd, struct amph_fd_file *of, void *arg),
                     void *arg);

void amph_fdtab_each_in(const struct amph_fdtab *table, int first, int last,
                        void (*fn)(int fd, struct amph_fd_file *of, void *arg), void *arg);

/* Fills an empty table with from's contents, with a reference of its own to each open file.  false: no
 * memory; `to` is empty then. */
bool amph_fdtab_copy(struct amph_fdtab *to, const struct amph_fdtab *from);

/* Drops the references of a table that no task uses any more, and empties it. */
void amph_fdtab_empty(struct amph_fdtab *table);

/* Counts the references again in a forked child, where there is only the caller's table: calls in
 * progress in the parent's other threads do not exist here, nor does a file that one of them was
 * opening or closing. */
void amph_fdtab_recount(void);

#endif
