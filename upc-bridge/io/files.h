/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UPC-IO: the type of an open file, and the functions that transfer bytes between a list of memory
 * pieces and a list of file pieces.
 *
 * Layer: upc-bridge.  Thread rule: the program's thread, except amph_upc_move_run and
 * amph_upc_collective_run (see there).
 */
#ifndef AMPHORA_UPC_FILES_H
#define AMPHORA_UPC_FILES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "iofwd.h"
#include "upc-bridge/upc.h"

/* A piece of memory: private, or shared in blocks of `block` bytes that begin at `at` (block 0:
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

/* One transfer: the bytes of the pieces except the first `skip` bytes, to or from the runs, in
 * order. */
struct upc_move {
    struct upc_file *file;
    bool writing;
    struct upc_piece *piece;
    size_t npieces;
    struct upc_run *run; /* no two adjacent ones; those are merged */
    size_t nruns;
    uint64_t skip;
    /* the result */
    uint64_t done; /* bytes */
    int error;
};

/* State of two-phase I/O on an open file; see collective.c. */
#define UPC_COLLECTIVE_SERVERS 8
struct upc_collective {
    enum {
        UPC_COLLECTIVE_UNKNOWN,
        UPC_COLLECTIVE_READY,
        UPC_COLLECTIVE_NONE
    } state;
    size_t nfiles;
    /* one open file of each server, the same in all threads; [own] is this thread's own */
    iofwd_file_t *file[UPC_COLLECTIVE_SERVERS];
    size_t own;
    size_t max_bytes; /* of one thread in one extent */
    uint64_t number;  /* of the next extent */
};

struct upc_async {
    struct upc_move move;
    struct upc_move far; /* if there is a copy: the transfer whose memory it replaces */
    char *copy;          /* or NULL */
    pthread_t thread;
    bool threaded; /* a second thread executes it */
    bool ended;    /* that thread has finished; atomic */
    bool list;     /* each thread has its own runs */
    bool common;   /* one transfer of all threads together */
    /* collective.c executes it: `whole` bytes of the piece at the file pointer */
    bool collective;
    uint64_t whole, number;
    bool at_pointer; /* it uses and advances the file pointer */
    upc_flag_t flags;
    int refused; /* errno of a call with invalid arguments, which transfers nothing; or 0 */
};

struct upc_file {
    bool used;
    char *name;
    int flags;               /* of upc_all_fopen, with later changes */
    int64_t position;        /* of the file pointer */
    iofwd_file_t *forwarded; /* or NULL: fd */
    int fd;
    char *buffer; /* two buffers of buffer_bytes each, for scattered memory; NULL: not allocated */
    uint64_t buffer_bytes;
    uint64_t buffer_addr; /* its offset in this thread's shared memory; 0: private memory */
    int64_t unit;         /* the threads' shares of a collective call begin at multiples of it */
    int writers;          /* number of threads that access the file in collective calls */
    struct upc_collective collective;
    bool flush_writes; /* strong consistency is required, and the client coalesces writes */
    upc_hint_t *hints;
    size_t nhints;
    struct upc_async *async;
};

/* ---- file.c: one file in one thread.  All return 0 or an errno value. ---- */

int amph_upc_raw_open(struct upc_file *f, int flags, mode_t mode);
int amph_upc_raw_close(struct upc_file *f);
int amph_upc_raw_sync(struct upc_file *f);
int amph_upc_raw_size(struct upc_file *f, int64_t *size_p);
int amph_upc_raw_set_size(struct upc_file *f, int64_t size);
int amph_upc_raw_allocate(struct upc_file *f, int64_t size);
int amph_upc_raw_unlink(const char *name);
/* Transfers len bytes, or fewer at the end of the file or after an error.  *done_p is always
 * set. */
int amph_upc_raw_move(struct upc_file *f, bool writing, void *buf, uint64_t len, int64_t offset,
                      uint64_t *done_p);

/* ---- io.c ---- */

/* Allocates the buffers if they do not exist yet.  Returns false if memory is exhausted. */
bool amph_upc_file_buffers(struct upc_file *f);
/* Returns the open file, or NULL with errno EBADF. */
struct upc_file *amph_upc_file_find(upc_file_t *fd);

/* ---- move.c ---- */

/* Executes a transfer and sets done and error.  If amph_upc_move_is_near, it makes no gex call,
 * so a second thread may call it. */
void amph_upc_move_run(struct upc_move *m);
/* Returns whether all memory of the transfer is mapped in this process. */
bool amph_upc_move_is_near(const struct upc_move *m);
void amph_upc_cursor_advance(struct upc_cursor *c, uint64_t n);
/* Returns the contiguous local memory at the cursor and stores its length in *n_p; NULL if the
 * memory is not mapped here. */
char *amph_upc_cursor_straight(const struct upc_cursor *c, uint64_t *n_p);
/* Copies n bytes (at most the file's buffer_bytes) at the cursor to buf (writing) or from buf, and
 * advances the cursor.  Returns 0 or ENOMEM. */
int amph_upc_cursor_move(const struct upc_move *m, struct upc_cursor *c, char *buf, uint64_t n);
#define UPC_IO_DIRECT (64 * 1024) /* bytes; longer pieces are transferred without a buffer */

/* ---- collective.c: one piece of shared memory, by all threads at the common file pointer
 * ---- */

/* Opens the files of all servers in all threads.  Collective.  Returns false if two-phase I/O is
 * not possible for this file. */
bool amph_upc_collective_open(struct upc_file *f);
/* Decides whether the transfer can use two-phase I/O; if so, sets a->collective and reserves extent
 * numbers.  Collective.  Returns a->collective. */
bool amph_upc_collective_begin(struct upc_async *a);
bool amph_upc_collective_begin(struct upc_async *a);
/* Executes the transfer and sets a->move.done and error.  It makes no gex call, so a second thread
 * may call it. */
void amph_upc_collective_run(struct upc_async *a);
void amph_upc_collective_close(struct upc_file *f);

/* ---- exchange.c ---- */

/* Transfers the lists of all threads together.  Collective.  Returns false, having done nothing, if
 * separate transfers are faster. */
bool amph_upc_move_exchange(struct upc_move *m);

#endif
