/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File I/O forwarding, for programs that know of it.  Most need not: under amphora-run -iofwd
 * PREFIX, plain open, read and write on paths below the prefix go to the job's I/O servers.  Link
 * with -liofwd.
 *
 * Thread rule: every function may be called from any thread, before, after and without gasnet_init,
 * and from handlers. Errors are errno values (positive); results are set only on 0.
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

/* Opens the way to the I/O servers now instead of at the first forwarded call. ENOTCONN: this
 * process belongs to no job with servers; EIO: they cannot be reached (said in one sentence on
 * standard error). */
int iofwd_init(void);

/* Before the first call, in a process that belongs to no job: attaches to standing servers
 * (iofwd-server -daemon) by their address file, as AMPHORA_JOB would.  EALREADY (the way is open),
 * EIO (no such file, or damaged: said in one sentence). */
int iofwd_attach(const char *address_file);

/* Likewise: starts an I/O server of this process's own on host, by ssh (IOFWD_SERVER_SSH) or, on
 * this host, by fork, as IOFWD_SERVER_HOST would; it ends with the process and its children.  path:
 * the program, NULL: iofwd-server of this installation.  prefixes: PREFIX[=DIR][:...], what it
 * exports, NULL: IOFWD_PREFIX.  EALREADY, ENOMEM, EIO (said in one sentence). */
int iofwd_start_server(const char *host, const char *path, const char *prefixes);

/* This client's number (a compute process's absolute number; others get one from a server) or
 * IOFWD_NONE before iofwd_init. */
uint32_t iofwd_client_number(void);

/* Absolute numbers of the servers that this client's files may use by the rules there are now, the
 * first being its home; gives how many there are (at most most are stored). */
size_t iofwd_servers(uint32_t *servers, size_t most);

/* What one server has counted. */
struct iofwd_stats {
    uint32_t server; /* absolute number */
    uint32_t client; /* this client's number */
    uint64_t calls;  /* of this client, as long as the server has known it */
    uint64_t errors; /* those of them that gave an error */
    uint64_t bytes_written, bytes_read;
    uint64_t all_calls; /* of all clients that the server has had */
    uint64_t all_bytes_written, all_bytes_read;
    uint32_t clients, open_files; /* now */
};

/* Asks a server (absolute number; IOFWD_NONE: the home server) for its counters.  EINVAL: the
 * number is none of a server's. */
int iofwd_stats(uint32_t server, struct iofwd_stats *stats);

/* What this process has counted, of all its servers. */
struct iofwd_counters {
    uint64_t calls; /* file calls that were forwarded */
    uint64_t bytes_written, bytes_read;
    /* of both: those that servers took from or put into the program's segment, without a copy
     * here */
    uint64_t bytes_in_place;
};

void iofwd_counters(struct iofwd_counters *counters);

/* Announces that the next `calls` writes (reads) on fd are consecutive and `bytes` long together:
 * they are gathered here and travel as one (fetched ahead, and served from here).  They are
 * executed when the last of them returns; a write that fails is reported by the next call on fd,
 * fsync or close, once.  Runs that turn out otherwise are right too: any other call ends the run.
 * Until then other processes do not see what is gathered; this one does, by all its descriptors. 0:
 * nothing announced.  On a descriptor that is not forwarded: no effect.  EBADF, ENOMEM, EIO (no
 * server). */
int iofwd_write_prep(int fd, uint64_t bytes, unsigned calls);
int iofwd_read_prep(int fd, uint64_t bytes, unsigned calls);

/* Spreads files over `width` servers (1 to 8; over all where there are fewer): those whose path
 * below a prefix fits `pattern` (as fnmatch; one without a slash speaks of the last name) and that
 * this process opens from now on.  unit: how many bytes in a row one server does, a multiple of
 * 1024; 0: each call of at least 256 KiB in equal parts.  The newest rule that fits counts, then
 * those of IOFWD_STRIPE.  Files opened to append, and what is no regular file, stay with one
 * server.  The servers must share the file system. EINVAL, ENAMETOOLONG (a pattern of more than 255
 * bytes), ENOMEM. */
int iofwd_set_stripe(const char *pattern, unsigned width, uint64_t unit);

/*
 * Files by name.  A path is absolute and lies below a forwarded prefix; a file is this process's
 * until iofwd_close.  Calls have the meaning of their POSIX namesakes but for how they say what
 * happened: 0 or an errno value, results through pointers.
 */
typedef struct iofwd_file iofwd_file_t;

int iofwd_open(const char *path, int flags, mode_t mode, iofwd_file_t **file);
/* The open file behind a descriptor that plain open gave; closing it leaves the descriptor open.
 * ENOTSUP: it is not forwarded. */
int iofwd_of_fd(int fd, iofwd_file_t **file);
/* Also where it gives an error (a late one of a collected write, say) the file is closed.  No
 * operation may be under way on it. */
int iofwd_close(iofwd_file_t *file);
/* done: how many bytes, pos: where the offset is then; NULL where that is of no interest. */
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
 * Non-blocking forms.  They are carried out by threads of the library (IOFWD_THREADS) while the
 * program goes on, in any order; buf is the library's until the operation is done.  Not in signal
 * handlers.  A write or read goes on until all bytes are moved, the end of the file, or an error.
 * A forked child has no operations: its parent finishes them.
 */
typedef void *iofwd_op_t;
#define IOFWD_OP_NONE ((iofwd_op_t)0)

struct iofwd_result {
    int error; /* 0 or an errno value; 0 too where bytes were moved before it */
    size_t bytes;
    double seconds; /* from the call to the end */
    double bytes_per_second;
};

/* EINVAL (off below 0, buf NULL), ENOMEM, EAGAIN (no thread can be started). */
int iofwd_pread_nb(iofwd_file_t *file, void *buf, size_t len, off_t off, iofwd_op_t *op);
int iofwd_pwrite_nb(iofwd_file_t *file, const void *buf, size_t len, off_t off, iofwd_op_t *op);
/* Waits at most that long (below 0: for ever).  0: done, *op is IOFWD_OP_NONE again and result (or
 * NULL) filled in; ETIMEDOUT: it goes on, wait again; EINVAL: no operation (of this process), or no
 * time. */
int iofwd_wait(iofwd_op_t *op, double seconds, struct iofwd_result *result);
int iofwd_test(iofwd_op_t *op, struct iofwd_result *result);
/* 0: it had not begun; iofwd_wait will say ECANCELED in its result.  EBUSY: too late. */
int iofwd_cancel(iofwd_op_t op);

/*
 * Joint reads and writes: several processes of the job do stretches of a file together, each the
 * bytes of a stretch that it has, or wants. The server waits for all parts of a stretch and then
 * reads or writes it in long calls, however short the runs are; each byte crosses the network once,
 * and no process sees another's memory.
 *
 * Every process opens the same open file by its name first, and all have done so before the first
 * joint call.  Each then calls with the same stretches in the same order, and its own rows; a
 * process without a part in a stretch takes part with no rows.  Stretches follow each other without
 * waiting, so a call with many is faster than many calls.
 */

/* A name by which other processes of the job open this open file (at its server, with its flags).
 * It is good while somebody has it open. A process may open it several times, also beside a file of
 * its own: the last to be closed ends it there. */
#define IOFWD_NAME_BYTES 240
int iofwd_name(const iofwd_file_t *file, char name[IOFWD_NAME_BYTES]);
/* EINVAL: no such name; EBADF: nobody has it open any more; EIO: its server cannot be reached. */
int iofwd_open_name(const char *name, iofwd_file_t **file);
/* Absolute number of the server where it is open: the first, where the file is spread. */
uint32_t iofwd_file_server(const iofwd_file_t *file);

/* `count` runs of `len` bytes of a stretch, the first at `at`, each `stride` after the one before.
 * Rows follow each other. */
struct iofwd_row {
    uint32_t at, len, stride, count;
};
#define IOFWD_ROWS_MOST 512           /* of one process in one stretch */
#define IOFWD_STRETCH_MOST (1u << 30) /* bytes of a stretch */

struct iofwd_joint {
    iofwd_file_t *file;
    /* the same in all processes; another for each stretch of the file that is under way */
    uint64_t number;
    uint32_t processes; /* that take part */
    off_t off;          /* the stretch: the same in all processes */
    size_t len;
    const struct iofwd_row *rows; /* this process's */
    size_t nrows;
    void *buf; /* their bytes, one after the other; at most iofwd_joint_most */
    /* results */
    /* bytes of the own part; fewer where a file that is read ends before */
    size_t done;
    int error;
};

/* Most bytes that one process may have in one stretch.  Processes of other settings may have
 * another answer: the least counts. */
size_t iofwd_joint_most(const iofwd_file_t *file);

/* Gives the error of the first stretch that has one, or 0.  An error is the same in all processes,
 * but for EIO where the server or a process dies; a stretch with an error may have been done in
 * parts.  EINVAL: a part that is none; E2BIG: too long a part; EAGAIN: no room for the data now;
 * EOPNOTSUPP: the file appends or is no regular one.  Not from handlers and signal handlers. */
int iofwd_pwrite_joint(struct iofwd_joint *stretch, size_t n);
int iofwd_pread_joint(struct iofwd_joint *stretch, size_t n);

/*
 * Handlers.  iofwd has an endpoint and handlers of its own.  A client that keeps one table for
 * everything it registers (and polls only through it) merges these rows: a message to such a
 * handler makes the receiving process's file client make progress. The indices lie in the range
 * 96..127 that is kept for iofwd.
 */
struct iofwd_handler {
    unsigned index;
    void (*fn)(void *token); /* a short request without arguments */
    unsigned nargs;
    const char *name;
};

/* Stores a pointer to the rows (the library's, never changing) and gives their number. */
size_t iofwd_handlers(const struct iofwd_handler **rows);

/*
 * The split of a netlist: which places of a list of hosts are compute processes and which are
 * servers, and who serves whom, as amphora-run -servers S does it (the last S places are servers;
 * compute process c has server C + c mod S).
 */
struct iofwd_place {
    int is_server;
    uint32_t absolute; /* compute 0..C-1, servers C..C+S-1 */
    uint32_t relative; /* within the own group */
    /* absolute number of its server; IOFWD_NONE for servers and where there are none */
    uint32_t server;
};

/* Fills in places[0..nplaces-1].  EINVAL: fewer than one compute process would be left. */
int iofwd_split(size_t nplaces, size_t nservers, struct iofwd_place *places);

AMPHORA_END_C

#endif
