/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the files of a recorded run.
 *
 * Layer: iofwd (trace); uses only the C library.  Thread rule: one thread for each struct amph_trace.
 *
 * A file may be damaged, foreign, of another byte order, or still being written.  What cannot be
 * read is reported in a sentence, and no byte is trusted.
 */
#ifndef AMPH_IOFWD_TRACE_READER_H
#define AMPH_IOFWD_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iofwd/trace/clocks.h"
#include "iofwd/trace/format.h"

/* Classes of calls, by their names. */
enum amph_trace_class {
    AMPH_TRACE_OTHER,
    AMPH_TRACE_OPEN,
    AMPH_TRACE_CLOSE,
    AMPH_TRACE_READ,
    AMPH_TRACE_WRITE,
    AMPH_TRACE_SEEK,
    AMPH_TRACE_SYNC,
    AMPH_TRACE_META,   /* asks about or changes a name or an inode */
    AMPH_TRACE_FOLDER, /* reads a folder */
    AMPH_TRACE_MAP,
    AMPH_TRACE_PROCESS,
    AMPH_TRACE_WAIT,
    AMPH_TRACE_MPI,   /* MPI-IO */
    AMPH_TRACE_AM,    /* active messages */
    AMPH_TRACE_RMA,   /* puts, gets and remote atomics */
    AMPH_TRACE_COLL,  /* barriers and collectives */
    AMPH_TRACE_STDIO, /* the C library's streams */
    AMPH_TRACE_CLASSES
};

extern const char *const amph_trace_class_names[AMPH_TRACE_CLASSES];

/* In addition to those of format.h: the offset was computed from earlier calls. */
#define AMPH_TRACE_HAS_POSITION 128

struct amph_trace_event {
    uint32_t name;    /* index in names */
    uint32_t process; /* index in processes */
    int32_t tid;
    uint32_t file, file2; /* index in files; 0: none */
    int32_t fd, fd2;
    int64_t start_ns, end_ns; /* of the job's clock; end 0: it has not returned */
    int64_t result, offset;
    uint64_t length;
    uint32_t flags;
    uint16_t err;
    uint8_t has, side; /* enum amph_trace_side */
    bool caused;       /* a stream of the C library has made the call */
    int32_t peer;      /* of a message; -1: none, or no single one */
    uint32_t server, requests;
    uint64_t server_ns, queue_ns; /* at the servers; of that, waiting for its turn */
};

struct amph_trace_process {
    int32_t pid, ppid, rank;
    char host[64], exe[512], cwd[1024];
    int64_t start_ns; /* of the job's clock */
    uint64_t began_ns;
    uint64_t clock_error_ns;
    uint32_t recorder;           /* enum amph_trace_recorder */
    struct amph_trace_axis axis; /* the reader's own */
};

struct amph_trace_total {
    uint32_t name, process, file;
    uint64_t calls, bytes, errors, total_ns, longest_ns;
    int64_t first_ns, last_ns;
    uint32_t bucket[AMPH_TRACE_BUCKETS];
};

struct amph_trace_text_entry;

struct amph_trace {
    struct amph_trace_event *events; /* after finish by time */
    size_t nevents;
    struct amph_trace_process *processes;
    size_t nprocesses;
    char **names; /* of calls */
    size_t nnames;
    char **files; /* paths; [0] is "" */
    size_t nfiles;
    struct amph_trace_total *totals; /* sums of calls beyond the budgets */
    size_t ntotals;
    struct amph_trace_clocks clocks;
    uint64_t dropped_calls, summed_calls, dropped_texts, unfinished, bytes;
    uint64_t unseen;  /* requests whose end the program has not seen; they are not in unfinished */
    uint64_t damaged; /* calls and sums with impossible times, which are left out */
    uint64_t missing; /* slots that files should have and do not have, at most */

    /* the reader's own */
    struct amph_trace_text_entry *texts;
    char *path; /* room for the longest path, from its first use on */
    size_t ntexts, text_room, event_room, process_room, total_room, name_room;
};

/* Adds the contents of one file, plain or packed.  false: why says what is wrong with it. */
bool amph_trace_add(struct amph_trace *t, const void *bytes, size_t len, char *why, size_t why_len);

/* Adds a file of clocks; before the files whose times it concerns. */
bool amph_trace_add_clocks(struct amph_trace *t, const void *bytes, size_t len, char *why,
                           size_t why_len);

/* After the last file: paths, order and positions. */
bool amph_trace_finish(struct amph_trace *t);

/* positions.c: computes the offsets of calls without one from earlier calls; amph_trace_finish
 * calls it. */
bool amph_trace_complete_offsets(struct amph_trace *t);

/* Reads all files below dir.  Reports each file that cannot be read on standard error. false:
 * none can be read, and why holds the reason. */
bool amph_trace_read(struct amph_trace *t, const char *dir, char *why, size_t why_len);

void amph_trace_free(struct amph_trace *t);

enum amph_trace_class amph_trace_class_of(const char *name);

/* Is it a request, an operation that one call starts and a later one sees to be complete?  Its time is not
 * that of a call: the thread does other things meanwhile. */
bool amph_trace_is_request(const char *name);

/* Which interface a call belongs to: what one moves, another one of the same process may have caused. */
enum amph_trace_layer {
    AMPH_TRACE_LAYER_POSIX,
    AMPH_TRACE_LAYER_STDIO,
    AMPH_TRACE_LAYER_MPI_IO,
    AMPH_TRACE_LAYER_MESSAGE,
    AMPH_TRACE_LAYERS
};

enum amph_trace_layer amph_trace_layer_of(enum amph_trace_side side, enum amph_trace_class cls);

#endif
