/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files of a recorded run (IOFWD_TRACE_DIR), as doc/trace-format.md describes them.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: constants and layouts.
 *
 * A file belongs to one thread at a time.  It is a header, a ring of slots of 64 bytes that the writer
 * has mapped, and a stream of blocks, each the slots of one lap of the ring.  The first word of a
 * slot is stored last, with release order, and says what the slot is and of which lap: a reader takes
 * a slot whole or not at all, whenever the writer was killed.
 *
 * The room:
 *   format.h            the layout of a file
 *   writer.h            what the writers share: numbers of texts, the begin of a header
 *   append.c, .h        writes files without ring and stream
 *   stream.c, .h        slots in few bytes each
 *   stream_former.c     the same of version 2, which is only read
 *   numbers.h           numbers and spans of time in few bytes
 *   unroll.c, .h        ring and stream as one row of slots
 *   reader.c, .h        reads a folder of such files into events; the only reader
 *   classes.c           what kind of call a name stands for
 *   clocks.c, .h        hosts' times as the job's
 *   positions.c         offsets of reads and writes that have none
 *   pack.c, .h          the compressed form of a file
 */
#ifndef AMPH_IOFWD_TRACE_FORMAT_H
#define AMPH_IOFWD_TRACE_FORMAT_H

#include <stdint.h>

#define AMPH_TRACE_MAGIC "AMPHTRC2"
#define AMPH_TRACE_PACKED "AMPHTRZ5" /* the last digit is the version */
#define AMPH_TRACE_SUFFIX ".trace"
#define AMPH_TRACE_PACKED_SUFFIX ".tracez"

enum {
    AMPH_TRACE_VERSION = 5,
    AMPH_TRACE_OLDEST = 2,      /* that the reader reads */
    AMPH_TRACE_WITH_CLOCKS = 3, /* the first with the number of a clock */
    AMPH_TRACE_WITH_QUEUES = 4, /* the first with queue times */
    AMPH_TRACE_ORDER = 0x01020304,
    AMPH_TRACE_HEADER = 4096, /* bytes before the first slot */
    AMPH_TRACE_SLOT = 64,
    AMPH_TRACE_RING = 1024,   /* slots */
    AMPH_TRACE_LAP = 1 << 23, /* in a word: whether the lap's number is odd */
    AMPH_TRACE_TEXT_PART = 48,
    AMPH_TRACE_TEXT_MAX = 4200,
    AMPH_TRACE_BUCKETS = 12,       /* of sizes: bucket b counts lengths below 4^(b+1) bytes */
    AMPH_TRACE_BY_NUMBER = 1 << 15 /* in a call's number: a system call made by syscall() */
};

/* commit: kind << 24 | lap << 23 | state << 16 | value */
enum amph_trace_kind {
    AMPH_TRACE_NOTHING,
    AMPH_TRACE_CALL,   /* value: the call */
    AMPH_TRACE_EXTRA,  /* a call's second file, and what it cost at the servers */
    AMPH_TRACE_TEXT,   /* a part of a path; value: which part */
    AMPH_TRACE_NAME,   /* the name of a call; value: the call */
    AMPH_TRACE_THREAD, /* from here on another thread writes */
    AMPH_TRACE_SUM,    /* beyond the budget: calls of one kind on one file; value: the call */
    AMPH_TRACE_SIZES,  /* their sizes; value: the call */
    AMPH_TRACE_KINDS
};

enum amph_trace_state {
    AMPH_TRACE_STARTED = 1, /* of a call: it had not returned when the file was last written */
    AMPH_TRACE_DONE
};

/* Who has decided a call, or what it is if it is no file call. */
enum amph_trace_side {
    AMPH_TRACE_LOCAL,
    AMPH_TRACE_FORWARDED, /* Amphora */
    AMPH_TRACE_MPI_IO,    /* a call of MPI-IO: its errno is the class of MPI's error */
    AMPH_TRACE_MESSAGE,   /* an active message, a put or get, or a collective */
    AMPH_TRACE_SIDES
};

#define AMPH_TRACE_COMMIT(kind, state, value) \
    ((uint32_t)(kind) << 24 | (uint32_t)(state) << 16 | (uint32_t)(value))

/* The members of a call that are valid. */
enum {
    AMPH_TRACE_HAS_FD = 1,
    AMPH_TRACE_HAS_OFFSET = 2,
    AMPH_TRACE_HAS_LENGTH = 4,
    AMPH_TRACE_HAS_FLAGS = 8,
    AMPH_TRACE_HAS_PATH = 16, /* `file` is a path that was given, not a descriptor's */
    AMPH_TRACE_HAS_EXTRA = 32,
    AMPH_TRACE_HAS_FAILED = 64,
    AMPH_TRACE_HAS_CAUSE = 128 /* a stream of the C library has made the call */
};

struct amph_trace_header {
    char magic[8];
    uint32_t order, version;
    uint32_t header_bytes, slot_bytes;
    uint64_t monotonic_ns, realtime_ns; /* both clocks at one moment */
    int64_t clock_offset_ns;            /* to add to times of this host for those of the job */
    uint64_t clock_error_ns;            /* its bound; UINT64_MAX: not measured */
    int32_t pid, tid, ppid, rank;       /* rank -1: none */
    uint64_t budget;                    /* bytes that the stream may have */
    uint64_t flushed;                   /* slots that are in the stream; without a ring:
                                           that are in the file, 0: not known */
    uint64_t ring_slots;                /* 0: no ring and no stream; slots follow on the header */
    uint64_t dropped_calls;             /* beyond the budget: neither recorded nor summed up */
    uint64_t summed_calls;              /* beyond the budget: in the sums */
    uint64_t dropped_texts;
    uint64_t tail; /* where the slots of sums, errors and slowest calls begin; 0: none */
    uint64_t tail_slots;
    uint64_t began_ns; /* when the program began: with pid and host it names the process */
    char host[64];
    char exe[512];
    char cwd[1024];
    uint64_t clock;    /* the host's in the job's file of clocks; 0: none has been measured */
    uint32_t recorder; /* enum amph_trace_recorder */
};

/* Who has written a file.  Both others see only the calls of a program that they forward. */
enum amph_trace_recorder {
    AMPH_TRACE_BY_PRELOAD, /* the preload library, within the program */
    AMPH_TRACE_BY_TRAP,    /* iofwd-trap */
    AMPH_TRACE_BY_MOUNT,   /* iofwd-mount */
    AMPH_TRACE_RECORDERS
};

/* A file of clocks, of one job: a line "AMPHCLK1 JOB MONOTONIC_NS REALTIME_NS", both clocks of the job's
 * launcher at one moment, and a line for each measurement: "CLOCK HOST_NS OFFSET_NS ERROR_NS".  At HOST_NS of
 * the host's CLOCK_MONOTONIC, the launcher's was HOST_NS + OFFSET_NS, by at most ERROR_NS more or less. */
#define AMPH_TRACE_CLOCKS "AMPHCLK1"
#define AMPH_TRACE_CLOCKS_SUFFIX ".clocks"

/* Files that name programs which could not be recorded, a sentence each. */
#define AMPH_TRACE_UNRECORDED_SUFFIX ".unrecorded"

struct amph_trace_call {
    uint32_t commit;
    uint16_t err;
    uint8_t side; /* enum amph_trace_side */
    uint8_t has;
    uint64_t start_ns, end_ns;
    int64_t result;
    int64_t offset;
    uint64_t length;
    int32_t fd; /* of a message: the peer's rank */
    uint32_t flags;
    uint64_t file; /* the number of a text; 0: not known */
};

struct amph_trace_extra {
    uint32_t commit;
    int32_t fd2;
    uint64_t start_ns; /* of the call that it belongs to */
    uint64_t file2;
    uint32_t server, requests;
    uint64_t server_ns; /* that its requests spent at the servers, of which */
    uint64_t queue_ns;  /* waiting for their turn */
    uint64_t spare[2];
};

/* A text's number is a hash of the text, so it is the same in all files of a run. */
struct amph_trace_text {
    uint32_t commit;
    uint16_t total; /* bytes of the whole text */
    uint16_t spare;
    uint64_t file;
    /* part of the text, which begins with the number of the folder that a relative path starts
     * at, or 0 */
    char part[AMPH_TRACE_TEXT_PART];
};

struct amph_trace_name {
    uint32_t commit;
    uint32_t spare;
    char name[56];
};

struct amph_trace_thread {
    uint32_t commit;
    int32_t tid;
    uint64_t start_ns;
    uint64_t spare[6];
};

struct amph_trace_sum {
    uint32_t commit;
    uint32_t errors;
    uint64_t file;
    uint64_t calls, bytes;
    uint64_t total_ns, longest_ns;
    uint64_t first_ns, last_ns;
};

struct amph_trace_sizes {
    uint32_t commit;
    uint32_t spare;
    uint64_t file;
    uint32_t bucket[AMPH_TRACE_BUCKETS];
};

union amph_trace_slot {
    uint32_t commit;
    struct amph_trace_call call;
    struct amph_trace_extra extra;
    struct amph_trace_text text;
    struct amph_trace_name name;
    struct amph_trace_thread thread;
    struct amph_trace_sum sum;
    struct amph_trace_sizes sizes;
};

_Static_assert(sizeof(union amph_trace_slot) == AMPH_TRACE_SLOT, "a slot is one cache line");
_Static_assert(sizeof(struct amph_trace_header) <= AMPH_TRACE_HEADER, "the header has room");

#endif
