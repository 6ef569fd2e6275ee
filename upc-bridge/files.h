/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO inside: an open file, and the engine that moves bytes between a list of memory pieces and
 * a list of file pieces. Layer: upc-bridge.
 */
#ifndef AMPHORA_UPC_FILES_H
#define AMPHORA_UPC_FILES_H

#include <pthread.h>

#include "iofwd.h"
#include "upc-bridge/upc.h"

/* A piece of memory: private, or blocks of `block` bytes of shared memory from `at` on (0:
 * indefinite). */
struct upc_piece {
    char *local; /* NULL: shared */
    struct upc_wide at;
    uint64_t block, len;
};

/* A piece of a file. */
struct upc_run {
    int64_t offset;
    uint64_t len;
};

/* A position in a list of pieces. */
struct upc_cursor {
    const struct upc_piece *piece;
    size_t left; /* pieces, this one included */
    uint64_t at; /* bytes of this one that are done */
};

/* One movement: the bytes of the pieces, without the first `skip`, to or from the runs, in
 * order. */
struct upc_move {
    struct upc_file *file;
    bool writing;
    struct upc_piece *piece;
    size_t npieces;
    struct upc_run *run; /* none follows directly on the one before */
    size_t nruns;
    uint64_t skip;
    /* what came of it */
    uint64_t done; /* bytes */
    int error;
};

/* A stretch of a block-cyclic piece and of the file that all threads do at one time; see
 * io_joint.c. */
#define UPC_JOINT_SERVERS 8
struct upc_joint {
    enum {
        UPC_JOINT_UNKNOWN,
        UPC_JOINT_READY,
        UPC_JOINT_NONE
    } state;
    size_t nfiles;
    /* the same open files in all threads, one at each server; [own] is the thread's own */
    iofwd_file_t *file[UPC_JOINT_SERVERS];
    size_t own, most; /* most: bytes of one thread in one stretch */
    uint64_t number;  /* of the next stretch */
};

struct upc_async {
    struct upc_move move;
    struct upc_move far; /* with a copy: the memory that it stands for */
    char *copy;          /* or NULL */
    pthread_t thread;
    bool threaded, ended; /* carried out by a thread; that has ended (atomic) */
    bool list;            /* each thread has runs of its own */
    bool common;          /* one movement of all threads together */
    /* carried out by io_joint.c: `whole` bytes of the piece from the file pointer on */
    bool joint;
    uint64_t whole, number;
    bool at_pointer; /* the file pointer moves */
    upc_flag_t flags;
    int refused; /* errno of a call that was wrong in itself: nothing is moved */
};

struct upc_file {
    bool used;
    char *name;
    int flags;               /* as opened, with later changes */
    int64_t position;        /* of the file pointer */
    iofwd_file_t *forwarded; /* or NULL: fd */
    int fd;
    /* twice buffer_bytes, for collecting scattered memory; NULL: none yet */
    char *buffer;
    /* buffer_addr: where it lies in the own shared memory, or 0: private */
    uint64_t buffer_bytes, buffer_addr;
    int64_t unit; /* threads' shares of a collective call begin at multiples of it */
    int writers;  /* threads that read and write in collective calls */
    struct upc_joint joint;
    bool flush_writes; /* strong consistency where the client gathers writes */
    upc_hint_t *hints;
    size_t nhints;
    struct upc_async *async;
};

/* io_file.c: one file as a thread has it.  0 or an errno value. */
int upc_raw_open(struct upc_file *f, int flags, mode_t mode);
int upc_raw_close(struct upc_file *f);
int upc_raw_sync(struct upc_file *f);
int upc_raw_size(struct upc_file *f, int64_t *size_p);
int upc_raw_set_size(struct upc_file *f, int64_t size);
int upc_raw_allocate(struct upc_file *f, int64_t size);
int upc_raw_unlink(const char *name);
/* All bytes, or until the file's end or an error; *done_p is right in any case. */
int upc_raw_move(struct upc_file *f, bool writing, void *buf, uint64_t len, int64_t offset,
                 uint64_t *done_p);

/* io.c */
/* Makes the buffers; false: no memory. */
bool upc_file_buffers(struct upc_file *f);
struct upc_file *upc_file_find(upc_file_t *fd);

/* io_move.c: carries a movement out; fills in done and error.  With all memory mapped here it makes
 * no gex call, so a thread may do it. */
void upc_move_run(struct upc_move *m);
bool upc_move_is_near(const struct upc_move *m);
void upc_cursor_advance(struct upc_cursor *c, uint64_t n);
/* Memory in one piece here at the cursor, and how long it is; NULL: there is none. */
char *upc_cursor_straight(const struct upc_cursor *c, uint64_t *n_p);
/* n bytes (at most the file's buffer_bytes) from the cursor on, to (writing) or from buf; the
 * cursor moves on.  0 or ENOMEM. */
int upc_cursor_move(const struct upc_move *m, struct upc_cursor *c, char *buf, uint64_t n);
#define UPC_IO_DIRECT (64 * 1024) /* pieces of this size and more need no buffer */

/* io_joint.c: one piece of shared memory, by all threads at the same place of the file. */
bool upc_joint_open(struct upc_file *f); /* collective; false: no */
/* collective: can it be done so?  Then a->joint, and room in the numbers. */
bool upc_joint_begin(struct upc_async *a);
/* fills in a->move's done and error; makes no gex call, so a thread may do it */
void upc_joint_run(struct upc_async *a);
void upc_joint_close(struct upc_file *f);

/* io_exchange.c: all threads' lists together; false: they are better off one by one, nothing was
 * done. */
bool upc_move_exchange(struct upc_move *m);

#endif
