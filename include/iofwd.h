/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File I/O forwarding: the interface for programs that use it explicitly.  Link with -liofwd.
 *
 * Most programs do not need it: under amphora-run -iofwd PREFIX, plain open, read and write on
 * paths below the prefix already go to the job's I/O servers.  This interface adds non-blocking and
 * collective operations, striping, counters, and access to the servers without a preloaded library.
 *
 * Errors: functions that return int return 0 or a positive errno value, and set results only on 0.
 * Thread rule: any thread may call every function, before, after and without gasnet_init, and from
 * active-message handlers, unless a comment below says otherwise.
 * Blocking: functions that contact a server block until it has replied.
 */
#ifndef IOFWD_H
#define IOFWD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "amphora/compiler.h"

AMPHORA_BEGIN_C

#define IOFWD_NONE ((uint32_t)0xffffffffu)

/* Connects to the I/O servers now instead of at the first forwarded call.
 * ENOTCONN: this process belongs to no job with servers.  EIO: the servers cannot be reached; the
 * reason is printed on standard error. */
int iofwd_init(void);

/* Selects the standing servers (iofwd-server -daemon) of an address file, as AMPHORA_JOB does.  For
 * a process that belongs to no job, before its first forwarded call.
 * EALREADY: the process is connected already.  EIO: the file is missing or damaged; the reason is
 * printed on standard error.  ENOMEM. */
int iofwd_attach(const char *address_file);

/* Starts a private I/O server on a host and connects to it, as IOFWD_SERVER_HOST does.  The server
 * is started by ssh (IOFWD_SERVER_SSH) or, on this host, by fork, and ends with this process and
 * its children.  For a process that belongs to no job, before its first forwarded call.
 * path: the server program; NULL: iofwd-server of this installation.
 * prefixes: the directories that it exports, PREFIX[=DIR][:...]; NULL: those of IOFWD_PREFIX.
 * EALREADY: the process is connected already.  EIO: the server cannot be started or reached; the
 * reason is printed on standard error.  ENOMEM. */
int iofwd_start_server(const char *host, const char *path, const char *prefixes);

/* Returns this client's number, or IOFWD_NONE if the process has not connected yet.  For a compute
 * process this is its absolute number; a server assigns the numbers of other clients. */
uint32_t iofwd_client_number(void);

/* Stores up to `max` absolute numbers of the servers that this client's files may use under the
 * current striping rules, and returns their total number, which may be larger.  The first is the
 * home server.  0: the process has not connected yet. */
size_t iofwd_servers(uint32_t *servers, size_t max);

/* Counters of one server. */
struct iofwd_stats {
    uint32_t server; /* absolute number */
    uint32_t client; /* this client's number */
    uint64_t calls;  /* calls of this client since it connected */
    uint64_t errors; /* how many of them failed */
    uint64_t bytes_written, bytes_read;
    uint64_t all_calls; /* calls of all clients since the server started */
    uint64_t all_bytes_written, all_bytes_read;
    uint32_t clients, open_files; /* at present */
};

/* Fetches the counters of a server.  server: its absolute number, or IOFWD_NONE for the home
 * server.
 * EINVAL: no server has this number. */
int iofwd_stats(uint32_t server, struct iofwd_stats *stats);

/* Counters of this process, summed over all servers. */
struct iofwd_counters {
    uint64_t calls; /* forwarded file calls */
    uint64_t bytes_written, bytes_read;
    /* the part of both that servers read from or wrote to the program's segment directly, without a
     * copy in this process */
    uint64_t bytes_in_place;
};

/* Stores this process's counters.  Does not contact a server. */

void iofwd_counters(struct iofwd_counters *counters);

/* Announces that the next `calls` writes (reads) on fd are consecutive and have `bytes` bytes in
 * total, so that they can be coalesced: writes are buffered in this process and sent as one, reads
 * are served from data that was read ahead.
 *
 * The buffered writes are executed when the last of them returns.  Until then this process sees
 * their data through all its descriptors, and other processes do not.  A write that fails is
 * reported once, by the next call on fd, fsync or close.  A wrong prediction is still correct: any
 * other call on the file flushes it.
 * bytes or calls 0: cancels the announcement.  No effect if fd is not forwarded.
 * EBADF, ENOMEM, EIO (no server). */
int iofwd_write_prep(int fd, uint64_t bytes, unsigned calls);
int iofwd_read_prep(int fd, uint64_t bytes, unsigned calls);

/* Adds a striping rule: files that match `pattern` and that this process opens from now on are
 * spread over `width` servers.
 * pattern: as for fnmatch, matched against the path below the prefix, or against the last component
 * if the pattern has no slash.
 * width: 1 to 8; all servers if the job has fewer.
 * unit: how many consecutive bytes belong to one server, a multiple of 1024; 0: each call of at
 * least 256 KiB is divided into equal parts.
 * The newest matching rule applies, then the rules of IOFWD_STRIPE.  Files opened with O_APPEND and
 * files that are not regular stay with one server.  The servers must share the file system.
 * EINVAL, ENAMETOOLONG (a pattern longer than 255 bytes), ENOMEM. */
int iofwd_set_stripe(const char *pattern, unsigned width, uint64_t unit);

/*
 * Files by name.  Paths are absolute and lie below a forwarded prefix.  The calls have the meaning
 * of the POSIX calls of the same name, except that they return 0 or an errno value and store
 * results through pointers.  A file belongs to this process until iofwd_close.
 */
typedef struct iofwd_file iofwd_file_t;

int iofwd_open(const char *path, int flags, mode_t mode, iofwd_file_t **file);
/* Gives access to the open file behind a descriptor that was opened with plain open.  Closing *file
 * leaves the descriptor open.  ENOTSUP: the descriptor is not forwarded. */
int iofwd_of_fd(int fd, iofwd_file_t **file);
/* Closes the file, even if it returns an error, which may be that of an earlier buffered write.  No
 * operation on the file may be in flight. */
int iofwd_close(iofwd_file_t *file);
/* done: receives the number of bytes moved.  pos: receives the new offset.  Both may be NULL. */
int iofwd_read(iofwd_file_t *file, void *buf, size_t len, size_t *done);
int iofwd_write(iofwd_file_t *file, const void *buf, size_t len, size_t *done);
int iofwd_pread(iofwd_file_t *file, void *buf, size_t len, off_t off, size_t *done);
int iofwd_pwrite(iofwd_file_t *file, const void *buf, size_t len, off_t off, size_t *done);
int iofwd_lseek(iofwd_file_t *file, off_t off, int whence, off_t *pos);
int iofwd_ftruncate(iofwd_file_t *file, off_t length);
int iofwd_fallocate(iofwd_file_t *file, off_t off, off_t length);
int iofwd_fsync(iofwd_file_t *file);
int iofwd_fstat(iofwd_file_t *file, struct stat *st);
int iofwd_stat(const char *path, struct stat *st);
int iofwd_unlink(const char *path);
int iofwd_mkdir(const char *path, mode_t mode);
int iofwd_rename(const char *from, const char *to);
int iofwd_file_write_prep(iofwd_file_t *file, uint64_t bytes, unsigned calls);
int iofwd_file_read_prep(iofwd_file_t *file, uint64_t bytes, unsigned calls);

/*
 * Non-blocking reads and writes.  Threads of the library (IOFWD_THREADS) execute them, in any
 * order, while the program continues.  An operation ends when all bytes are moved, at the end of
 * the file, or at an error.  The library owns buf until the operation is complete.  A forked child
 * inherits no operations; its parent completes them.  Not callable from signal handlers.
 */
typedef void *iofwd_op_t;
#define IOFWD_OP_NONE ((iofwd_op_t)0)

struct iofwd_result {
    int error; /* 0 or an errno value; 0 if bytes were moved before the error */
    size_t bytes;
    double seconds; /* from the start of the operation to its completion */
    double bytes_per_second;
};

/* Start an operation and store its handle in *op.
 * EINVAL: off is negative or buf is NULL.  EAGAIN: no thread can be started.  ENOMEM. */
int iofwd_pread_nb(iofwd_file_t *file, void *buf, size_t len, off_t off, iofwd_op_t *op);
int iofwd_pwrite_nb(iofwd_file_t *file, const void *buf, size_t len, off_t off, iofwd_op_t *op);
/* Waits for an operation for at most `seconds`; negative: without a limit.
 * 0: the operation is complete; *op is IOFWD_OP_NONE and *result is filled in (result may be NULL).
 * ETIMEDOUT: it is still in flight; wait again.  EINVAL: *op is no operation of this process, or
 * seconds is not a number. */
int iofwd_wait(iofwd_op_t *op, double seconds, struct iofwd_result *result);
/* iofwd_wait with a limit of 0. */
int iofwd_test(iofwd_op_t *op, struct iofwd_result *result);
/* Cancels an operation that has not started.  It must still be waited for; its result then has the
 * error ECANCELED.  EBUSY: the operation has already started. */
int iofwd_cancel(iofwd_op_t op);

/*
 * Collective (two-phase) reads and writes: several processes of the job read or write one extent of
 * a file together, each with its own rows of it.  The server waits until the parts of all processes
 * have arrived, then reads or writes the extent in long calls, however short the rows are.  Each
 * byte crosses the network once, and no process needs memory for another's data.
 *
 * 1. One process opens the file and passes its iofwd_name to the others.
 * 2. The others open the same open file with iofwd_open_name.
 * 3. After all have done so (a barrier), every process calls with the same extents in the same
 *    order and its own rows.  A process that has no part of an extent calls with nrows 0.
 *
 * One call with many extents is faster than many calls, since an extent does not wait for the one
 * before it.  A process that never calls makes the others wait, as in any collective.
 * Not callable from handlers and signal handlers.
 */

/* Stores a name with which other processes of the job can open this open file (same server, same
 * flags).  The name is valid while any process has the file open.  A process may open it several
 * times, and beside its own iofwd_file_t; its last iofwd_close drops the process's hold.
 * EINVAL: the name does not fit. */
#define IOFWD_NAME_BYTES 240
int iofwd_name(const iofwd_file_t *file, char name[IOFWD_NAME_BYTES]);
/* EINVAL: name is not the result of iofwd_name.  EBADF: no process has the file open any more.
 * EIO: its server cannot be reached. */
int iofwd_open_name(const char *name, iofwd_file_t **file);
/* Returns the absolute number of the server that has the file open; of a striped file, its first.
 * */
uint32_t iofwd_file_server(const iofwd_file_t *file);

/* `count` runs of `len` bytes: the first at offset `at` of the extent, each further one `stride`
 * bytes after the start of the previous one.  Rows are in ascending order and do not overlap. */
struct iofwd_row {
    uint32_t at, len, stride, count;
};
#define IOFWD_ROWS_MAX 512          /* maximum rows of one process in one extent */
#define IOFWD_EXTENT_MAX (1u << 30) /* maximum bytes of an extent */

/* One extent, and this process's part of it. */
struct iofwd_extent {
    iofwd_file_t *file;
    /* identifies the extent: the same in all processes, and unique among the extents of the file
     * that are in flight */
    uint64_t number;
    uint32_t processes; /* how many processes take part */
    off_t off;          /* the extent's position in the file: the same in all processes */
    size_t len;
    const struct iofwd_row *rows; /* this process's part */
    size_t nrows;
    void *buf; /* the rows' bytes, contiguous; at most iofwd_collective_max */
    /* results */
    /* bytes of this process's part; fewer if the file ends before the end of a read */
    size_t done;
    int error;
};

/* Returns the maximum number of bytes of one process in one extent; 0: the server cannot be
 * reached.
 * It depends on the process's settings and connection: use the minimum over all processes. */
size_t iofwd_collective_max(const iofwd_file_t *file);

/* Write or read n extents collectively, and return the error of the first extent that failed, or 0.
 * All processes get the same error for an extent, except EIO after the death of a server or
 * process.
 * A failed extent may have been read or written in part.
 * EINVAL: a malformed part.  E2BIG: a part longer than iofwd_collective_max.  EAGAIN: no free slot in
 * the transfer area.  EOPNOTSUPP: the file is open with O_APPEND or is not a regular file. */
int iofwd_pwrite_collective(struct iofwd_extent *extents, size_t n);
int iofwd_pread_collective(struct iofwd_extent *extents, size_t n);

/*
 * Handlers.  iofwd has its own endpoint and handlers and needs none of the client's.  A runtime
 * that polls only its own endpoint can merge these rows into its table: a message to such a handler
 * lets the receiving process's file client make progress.  The indices are in the range 96..127,
 * which is reserved for iofwd.
 */
struct iofwd_handler {
    unsigned index;
    void (*fn)(void *token); /* a short request without arguments */
    unsigned nargs;
    const char *name;
};

/* Stores a pointer to the rows, which are constant and owned by the library, and returns their
 * number. */
size_t iofwd_handlers(const struct iofwd_handler **rows);

/*
 * The division of a host file's slots into compute processes and servers, as amphora-run -servers S
 * makes it: the last S slots are servers; the server of compute process c is C + c mod S.
 */
struct iofwd_slot {
    int is_server;
    uint32_t absolute; /* compute 0..C-1, servers C..C+S-1 */
    uint32_t relative; /* number within its group, from 0 */
    /* absolute number of its server; IOFWD_NONE for a server, and in a job without servers */
    uint32_t server;
};

/* Fills in slots[0..nslots-1].  EINVAL: no slot would be left for a compute process. */
int iofwd_split(size_t nslots, size_t nservers, struct iofwd_slot *slots);

/*
 * Former names, for one release.  The library still exports the functions, for programs that were
 * linked with them.
 */
#define IOFWD_ROWS_MOST IOFWD_ROWS_MAX
#define IOFWD_STRETCH_MOST IOFWD_EXTENT_MAX
#define iofwd_joint iofwd_extent
#define iofwd_joint_most iofwd_collective_max
#define iofwd_pwrite_joint iofwd_pwrite_collective
#define iofwd_pread_joint iofwd_pread_collective
#define iofwd_place iofwd_slot

AMPHORA_END_C

#endif
