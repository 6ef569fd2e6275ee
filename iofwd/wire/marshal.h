/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and replies on the wire: their headers, and the marshalling of arguments by the
 * generated table amph_fwd_calls.
 *
 * Layer: iofwd.  Thread rule: pure functions on the caller's memory.
 *
 * Request: header, the arguments in the table's order, for a bulk call the location of its data,
 *          then inline data.
 * Reply:   header, tagged fields (a receiver skips unknown ones), the results in the table's order.
 *
 * Numbers are little-endian with a fixed width (base/wire.h); texts include their NUL.
 *
 * File map of the room (it may include base, boot, conduits, am, iofwd/calls):
 *
 *   marshal.c, .h    requests, replies, and the facts of each call
 *   header.c         the fixed headers (declared in marshal.h)
 *   encode.c, .h     errno, flags, stat and other values that differ between systems
 *   handshake.c, .h  frames and proofs of the control connection, and the client's side
 *   patience.c, .h   how long a handshake waits for the other side
 *   file.h           open files and modes as client and server share them
 *   prefix.c, .h     forwarded prefixes, cleaning of paths
 *   ranges.c, .h     sets of locked byte ranges
 *   show.c, .h       values of calls as text
 *   passthrough.h    what clients with descriptors of files share with their servers
 *   below.c, .h      look-ups below a directory that a process has open
 *   map_kinds.h      which kind of shared maps a file has on a host
 *   near.h           what standing servers say about their exports to processes of their host
 *   request_name.c, .h  names of clients and requests in messages
 *   inode_flags.h    inode flags of lsattr and chattr
 *   inode_requests.h the ioctl requests for them, and their arguments
 *   watch.c, .h      what iofwd-ctl asks servers, and the answers
 *   watch_columns.h  columns of the answers
 *   versions.c, .h   versions of files, in memory that servers and clients of a host share
 *   writers.c, .h    processes that change files by themselves, in the same memory
 *   repair.c, .h     ends changes there whose processes were killed
 *
 * The room has no writable state.  marshal.c builds one index at first use.
 */
#ifndef AMPH_IOFWD_MARSHAL_H
#define AMPH_IOFWD_MARSHAL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire.h"
#include "iofwd/calls/server_calls.h"
#include "iofwd/wire/file.h"

#define FWD_MAGIC UINT32_C(0x444f4946) /* "FIOD" */
/* End of a server's lock for a client's lock to the end of the file.  The bytes after it are used
 * for the servers' own locks, which show which hosts map a file (server/fs/map.c). */
#define FWD_LOCKS_END (INT64_C(1) << 62)

/* Ends a client's lock there, so that it is not in the way of the servers' own. */
void amph_fwd_lock_end(struct flock *lock);
/* Shows a lock that ends there as the client has asked for it: to the end of the file. */
void amph_fwd_lock_show(struct flock *lock);

#define FWD_VERSION 5
#define FWD_PATH_MAX 4096  /* bytes of a path or text, with its NUL */
#define FWD_BLOB_MAX 32768 /* bytes of a value inside a request */
#define FWD_MSG_MAX 65408  /* bytes of a request or reply */
/* Requests of a client in flight.  It sends no other with the same seq % FWD_PENDING_MAX before it
 * has the reply, unless it has abandoned the request. */
#define FWD_PENDING_MAX 64
#define FWD_STREAM_MIN \
    32768 /* minimum size of pieces copied past the caches between cores of one host */

/* Services that are not calls of calls.def. */
enum {
    FWD_SERVICE_FIRST = 200,
    FWD_SERVICE_STATS = FWD_SERVICE_FIRST,
    FWD_SERVICE_HOLD_ONLY = 201,
    FWD_SERVICE_SEGMENT = 202,
    FWD_SERVICE_CANCEL = 203,
    FWD_SERVICE_NOTIFICATIONS = 204,
    FWD_SERVICE_HOLDER = 205,
    FWD_SERVICE_PASSTHROUGH = 206,
    FWD_SERVICE_DIRECTORY = 207,
    FWD_SERVICE_RECEIVE_AREA = 208,
    FWD_SERVICE_MAP = 209,
    FWD_SERVICE_END = 210
};

#define FWD_RECEIVE_MAX_BYTES ((size_t)1 << 20) /* of a client's receive area at a server */

#define FWD_NOTIFICATIONS_MAX 64 /* events of one answer to FWD_SERVICE_NOTIFICATIONS */

#define FWD_HOLDER_UNKNOWN \
    UINT64_MAX /* FWD_SERVICE_HOLDER: this server's lock, which is just being acquired or released \
                */

#define FWD_HOLDER_ELSEWHERE (UINT64_C(1) << 32) /* beside its number: it is on another host than the server */

/* The active-message handlers of iofwd. */
enum {
    FWD_AM_REQUEST = 96,
    FWD_AM_REPLY = 97
};

struct amph_fwd_req_head {
    uint32_t magic;
    uint8_t version;
    uint8_t hops; /* number of servers that have forwarded it */
    uint16_t service;
    uint32_t length; /* of the whole request */
    uint32_t client;
    uint64_t seq; /* with client: the request's id */
    uint64_t cookie;
};
#define FWD_REQ_HEAD_BYTES 32

struct amph_fwd_rep_head {
    uint32_t magic;
    uint8_t version;
    uint16_t service;
    uint32_t length;
    uint16_t error; /* wire number of an errno, 0: done */
    uint64_t seq;
    uint16_t tags_len;
    /* how long the call took at the server, with 16 significant bits; 0: it does not say */
    uint64_t file_ns;
    /* how long the request, with its data, waited there for its turn, with 11 bits, up to an hour */
    uint64_t queue_ns;
};
#define FWD_REP_HEAD_BYTES 28

/* Tagged fields of a reply: u16 tag, u16 length, bytes. */
enum amph_fwd_tag {
    FWD_TAG_REASON = 1,
    FWD_TAG_WHOLE = 3,
    FWD_TAG_MOVES = 4,
    FWD_TAG_BUSY = 5 /* to a write by a pipe, without bytes: several clients write that way */
};

/* Location of the data of a bulk call, and which piece of the call this is. */
struct amph_fwd_bulk {
    uint8_t where; /* enum amph_fwd_data_location */
    uint8_t flags; /* FWD_PIECE_* */
    uint16_t rwf;  /* RWF_* of preadv2 and pwritev2, which are the same on every Linux */
    uint32_t op;   /* number of the call that the piece belongs to */
    uint32_t len;  /* bytes of data, or wanted */
    /* FWD_AREA: offset in the client's part of its transfer area; FWD_SEGMENT: in its segment;
     * FWD_PIPE: number of the pipe; FWD_RECEIVED: offset in its receive area */
    uint64_t at;
};

enum amph_fwd_data_location {
    FWD_INLINE,
    FWD_AREA,
    FWD_SEGMENT,
    FWD_PIPE, /* a write only: the next bytes of a pipe (FWD_HELLO_PIPE) */
    /* a write only: put into the receive area that the server has made for the client
     * (FWD_SERVICE_RECEIVE_AREA) before the request was sent */
    FWD_RECEIVED,
    FWD_DATA_LOCATIONS
};
#define FWD_PIECE_FIRST 1u
#define FWD_PIECE_LAST 2u
#define FWD_PIECE_SPREAD \
    8u /* of a call at several servers; EOPNOTSUPP if the file has O_APPEND, as one server must \
          then do it all */
#define FWD_PIECE_STAGED \
    4u /* a read: the server copies past its caches, as its core shares no cache with the client's \
        */
#define FWD_PIECE_TELL \
    16u /* the reply shall report the number of moves of the open file's offset */
#define FWD_PIECE_ALL \
    (FWD_PIECE_FIRST | FWD_PIECE_LAST | FWD_PIECE_STAGED | FWD_PIECE_SPREAD | FWD_PIECE_TELL)
#define FWD_BULK_BYTES 20

/*
 * The view of one process in a collective call (pwritej, preadj): which call, how many processes
 * take part, and the bytes of the extent that this process writes or reads, as rows.  Encoding: u64
 * number, u32 processes, u32 absent, then the rows of 16 bytes each.
 */
struct amph_fwd_view {
    uint64_t number; /* identifies the call among those in flight on the open file */
    uint32_t processes;
    /* wire number of an errno: the process cannot take part, and the whole call fails; 0: it takes
     * part */
    uint32_t absent;
    const uint8_t *rows; /* encoded */
    uint32_t nrows;
};

/* `count` blocks of len bytes, the first at `at`, with distance `stride`. */
struct amph_fwd_extent {
    uint32_t at, len, stride, count;
};
#define FWD_VIEW_BYTES 16
#define FWD_EXTENT_BYTES 16
#define FWD_COLLECTIVE_MAX ((size_t)1 << 30) /* maximum bytes of an extent */
void amph_fwd_put_view(struct amph_wr *w, const struct amph_fwd_view *s); /* without the rows */
void amph_fwd_put_extent(struct amph_wr *w, const struct amph_fwd_extent *row);
/* false: malformed */
bool amph_fwd_get_view(const void *blob, size_t len, struct amph_fwd_view *s);
struct amph_fwd_extent amph_fwd_view_extent(const struct amph_fwd_view *s, uint32_t i);
/* Returns whether the next row is after the previous ones (*at_p) and within an extent of `len`
 * bytes. Adds its bytes to *sum_p; both begin as 0. */
bool amph_fwd_extent_fits(const struct amph_fwd_extent *row, uint64_t len, uint64_t *at_p,
                          uint64_t *sum_p);

void amph_fwd_put_req_head(struct amph_wr *w, const struct amph_fwd_req_head *h);
/* false: not a request of this protocol or length */
bool amph_fwd_get_req_head(struct amph_rd *r, struct amph_fwd_req_head *h);
void amph_fwd_put_rep_head(struct amph_wr *w, const struct amph_fwd_rep_head *h);
bool amph_fwd_get_rep_head(struct amph_rd *r, struct amph_fwd_rep_head *h);
void amph_fwd_put_bulk(struct amph_wr *w, const struct amph_fwd_bulk *b);
bool amph_fwd_get_bulk(struct amph_rd *r, struct amph_fwd_bulk *b);

/* ---- the table ---- */

enum amph_fwd_word {
    FWD_IN_PATH = 1,
    FWD_IN_FILE,
    FWD_IN_OFLAGS,
    FWD_IN_SFLAGS,
    FWD_IN_MODE,
    FWD_IN_ATFLAGS,
    FWD_IN_AMODE,
    FWD_IN_WHENCE,
    FWD_IN_OFF,
    FWD_IN_LEN,
    FWD_IN_UID,
    FWD_IN_GID,
    FWD_IN_DEV,
    FWD_IN_RFLAGS,
    FWD_IN_XFLAGS,
    FWD_IN_FALLOC,
    FWD_IN_LOCKOP,
    FWD_IN_TIMES,
    FWD_IN_LOCK,
    FWD_IN_TEXT,
    FWD_IN_BLOB,
    FWD_IN_DATA,
    FWD_OUT_NEWFILE,
    FWD_OUT_OFFSET,
    FWD_OUT_STATBUF,
    FWD_OUT_FSBUF,
    FWD_OUT_COUNT,
    FWD_OUT_SFLAGS,
    FWD_OUT_GOTLOCK,
    FWD_OUT_STRING,
    FWD_OUT_DIRENTS,
    FWD_OUT_STATXBUF,
    FWD_OUT_BUF,
    FWD_NWORDS
};

#define FWD_WORD(word) (UINT64_C(1) << (word))

/* The facts of a call are columns of calls.def, where each word is explained.  READS, WRITES and
 * OPENS follow from its arguments: buf, data, newfile. */
enum amph_fwd_call_flags {
    FWD_CALL_PURE = 1,
    FWD_CALL_BLOCKING = 2,
    FWD_CALL_BULK = 4,
    FWD_CALL_CHANGE = 8,
    FWD_CALL_OFFSET = 16,
    FWD_CALL_INTERRUPTIBLE = 32,
    FWD_CALL_TRYLOCK = 64,
    FWD_CALL_READS = 128,
    FWD_CALL_WRITES = 256,
    FWD_CALL_OPENS = 512,
    FWD_CALL_PASSTHROUGH = 1024,
    FWD_CALL_LOOKUP = 2048,
    FWD_CALL_LIGHT = 4096
};

/* What executes a call at the server. */
enum amph_fwd_run {
    FWD_RUN_ANY,
    FWD_RUN_PROGRESS,
    FWD_RUN_LOCKER,
    FWD_RUN_COLLECTIVE
};

/* What the client's coalescing layer does before a call. */
enum amph_fwd_coalesce {
    FWD_COALESCE_DATA,
    FWD_COALESCE_FILE,
    FWD_COALESCE_ALL,
    FWD_COALESCE_END
};

enum amph_fwd_coalesce_flags {
    FWD_COALESCE_REPORT = 1,
    FWD_COALESCE_UNLOCK = 2,
    FWD_COALESCE_DROP = 4,
    FWD_COALESCE_RECHECK = 8,
    FWD_COALESCE_OPEN = 16
};

/* Whether failover may repeat a call. */
enum amph_fwd_repeat {
    FWD_REPEAT_NEVER,
    FWD_REPEAT_ALWAYS,
    FWD_REPEAT_RECORDED,
    FWD_REPEAT_CHECK
};

enum amph_fwd_failover_flags {
    FWD_FAILOVER_RECORD = 1,
    FWD_FAILOVER_ADOPT = 2,
    FWD_FAILOVER_FORGET = 4
};

/* At which servers of a striped file a call is executed. */
enum amph_fwd_stripe {
    FWD_STRIPE_HOME,
    FWD_STRIPE_ALL,
    FWD_STRIPE_SPREAD,
    FWD_STRIPE_OPEN
};

/* Which versions of files the server moves before and after a call, and whether the client may
 * answer it from an earlier answer. */
enum amph_fwd_call_versions {
    FWD_VERSION_DATA = 1,
    FWD_VERSION_ATTRIBUTES = 2,
    FWD_VERSION_DIRECTORY = 4,
    FWD_VERSION_NAMES = 8,
    FWD_VERSION_CUTS = 16,
    FWD_VERSION_CHECK = 32,
    FWD_VERSION_HOLD = 64
};

struct amph_fwd_arg_desc {
    uint8_t word;
    uint16_t client_at, server_at; /* offset in the records of the two sides */
    const char *name;
};

struct amph_fwd_call_desc {
    const char *name;
    uint16_t service;
    uint16_t flags;         /* enum amph_fwd_call_flags */
    uint8_t nargs;          /* arguments and results */
    uint8_t run;            /* enum amph_fwd_run */
    uint8_t stripe;         /* enum amph_fwd_stripe */
    uint8_t coalesce;       /* enum amph_fwd_coalesce */
    uint8_t coalesce_flags; /* enum amph_fwd_coalesce_flags */
    uint8_t repeat;         /* enum amph_fwd_repeat */
    uint8_t failover_flags; /* enum amph_fwd_failover_flags */
    uint8_t versions;       /* enum amph_fwd_call_versions */
    /* of a call with file data, offsets in the server's record: of the pointer to the data (0:
     * none), and of the number of bytes transferred */
    uint16_t data_at, result_at;
    uint64_t words; /* FWD_WORD of each argument and result */
    struct amph_fwd_arg_desc arg[6];
};

extern const struct amph_fwd_call_desc amph_fwd_calls[AMPH_FWD_NCALLS];

/* Returns the first argument or result of that type, or NULL. */
static inline const struct amph_fwd_arg_desc *amph_fwd_find_arg(
    const struct amph_fwd_call_desc *desc, enum amph_fwd_word word)
{
    if (!(desc->words & FWD_WORD(word)))
        return NULL;

    const struct amph_fwd_arg_desc *arg = desc->arg;

    while (arg->word != word)
        arg++;

    return arg;
}

/* Returns where the client's record points for that argument or result, or NULL if the call has
 * none of that type. */
static inline void *amph_fwd_client_pointer(const struct amph_fwd_call_desc *desc, const void *args,
                                            enum amph_fwd_word word)
{
    const struct amph_fwd_arg_desc *arg = amph_fwd_find_arg(desc, word);

    return arg ? *(void *const *)((const char *)args + arg->client_at) : NULL;
}

/* Returns the call with that service number, or AMPH_FWD_NCALLS. */
enum amph_fwd_id amph_fwd_call_of_service(uint16_t service);

/* ---- client side: `args` is the call's record, struct amph_fwd_args_NAME ---- */

/* Returns the file (or the directory of the first path that has one) that determines the server of
 * the call; NULL: the home server. */
const struct amph_fwd_file *amph_fwd_call_file(const struct amph_fwd_call_desc *desc,
                                               const void *args);

/* Encodes all arguments but bulk data; files become their handle on `server`.  0 or an errno value:
 * EXDEV (a file of another server), ENAMETOOLONG, EINVAL (a flag or number without encoding),
 * EFAULT (a NULL path). */
int amph_fwd_put_args(struct amph_wr *w, const struct amph_fwd_call_desc *desc, const void *args,
                      uint32_t server);

/* Decodes the results of a reply without error; the caller takes the bulk data.  false: malformed.
 */
bool amph_fwd_get_results(struct amph_rd *r, const struct amph_fwd_call_desc *desc, void *args,
                          uint32_t server);

/* ---- server side: `args` is the call's record, struct amph_server_args_NAME ---- */

/* Finds handles while arguments are decoded. */
struct amph_fwd_resolver {
    struct amph_server_handle *(*find)(void *ctx, uint64_t handle);
    void *ctx;
};

/* Decodes all arguments but bulk data; texts point into the message.  0 or an errno value: EBADF
 * (no such handle), EINVAL, EPROTO. */
int amph_fwd_get_args(struct amph_rd *r, const struct amph_fwd_call_desc *desc, void *args,
                      const struct amph_fwd_resolver *resolver);

/* Encodes the results.  The buffer must have room for the contents of out-buffers. */
void amph_fwd_put_results(struct amph_wr *w, const struct amph_fwd_call_desc *desc,
                          const void *args);

#endif
