/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of calls as text, for traces: by the type words of calls.def, and of what the C library's
 * functions have beside them.
 *
 * Layer: iofwd (wire); uses only the C library.  Thread rule: pure functions on the caller's memory.
 */
#ifndef AMPH_IOFWD_SHOW_H
#define AMPH_IOFWD_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/platform.h"
#include "iofwd/wire/marshal.h"

/* Type words of the C library's functions, which names.awk takes from the prototypes of names.def;
 * the words below FWD_NWORDS are calls.def's (enum amph_fwd_word). */
enum amph_fwd_show {
    AMPH_FWD_SHOW_FD = FWD_NWORDS,
    AMPH_FWD_SHOW_DIRFD, /* AT_FDCWD, or a descriptor that the path after it begins at */
    AMPH_FWD_SHOW_PATH,
    AMPH_FWD_SHOW_TEXT,
    AMPH_FWD_SHOW_STREAM,
    AMPH_FWD_SHOW_DIR,
    AMPH_FWD_SHOW_DATA_IN,  /* bytes; the next argument is their number */
    AMPH_FWD_SHOW_DATA_OUT, /* bytes; the result is their number */
    AMPH_FWD_SHOW_COMMAND,  /* of fcntl */
    AMPH_FWD_SHOW_PROTECTION,
    AMPH_FWD_SHOW_MAP,
    AMPH_FWD_SHOW_CALL, /* the number of a system call; what its arguments are follows from it */
    AMPH_FWD_SHOW_NUMBER,
    AMPH_FWD_SHOW_HEX,
    AMPH_FWD_SHOW_POINTER,
    AMPH_FWD_SHOW_UNUSED /* an argument of syscall() that the system call does not have */
};

/* What a function returns, and how it says that it has failed. */
enum amph_fwd_outcome {
    AMPH_FWD_OUTCOME_NONE,
    AMPH_FWD_OUTCOME_NUMBER, /* below 0: failed, errno */
    AMPH_FWD_OUTCOME_FD,     /* the same, and else a descriptor */
    AMPH_FWD_OUTCOME_MODE,
    AMPH_FWD_OUTCOME_POINTER, /* NULL or MAP_FAILED: failed, if errno is set */
    AMPH_FWD_OUTCOME_ERRNO    /* an errno value */
};

/* A text that grows up to its room and is cut there. */
struct amph_fwd_text {
    char *at;
    size_t len, room; /* room: with the NUL */
};

void amph_fwd_text_put(struct amph_fwd_text *t, const char *format, ...) AMPH_PRINTF(2, 3);

/* The bytes as a literal of C, as strace prints them: at most 32 of them, unless all is set. */
void amph_fwd_show_bytes(struct amph_fwd_text *t, const void *bytes, size_t len, bool all);
/* A path between < and >, as strace prints that of a descriptor. */
void amph_fwd_show_name(struct amph_fwd_text *t, const char *path);

/* A value without a pointer, by its word. */
void amph_fwd_show_value(struct amph_fwd_text *t, unsigned word, uint64_t value);

void amph_fwd_show_stat(struct amph_fwd_text *t, const struct stat *st);

/* "ENOENT (No such file or directory)" */
void amph_fwd_show_errno(struct amph_fwd_text *t, int err);

/* What the client adds up for one traced call (IOFWD_TRACE). */
struct amph_fwd_trace_sum {
    uint32_t calls;    /* of calls.def, that the layers were given */
    uint32_t passed;   /* of these: made by a descriptor that a server has passed */
    uint32_t requests; /* that servers have got */
    uint32_t unawaited; /* of these: sent, and no answer awaited */
    uint32_t server;   /* the number of the last one's, 0 to S-1 */
    uint64_t file_ns;  /* that the servers say they have worked on them */
    uint64_t queue_ns; /* that they may have waited there for their turn */
    uint32_t client;   /* the last request's id: the client's number ... */
    uint64_t seq;      /* ... and the request's among its own */
};

/* How long the requests have waited at the servers.  A server knows since when it has been busy, but not
 * when a request arrived; so the wait is at most what the file time leaves of ns, the call's duration. */
static inline uint64_t amph_fwd_trace_queue(const struct amph_fwd_trace_sum *sum, uint64_t ns)
{
    uint64_t room = ns > sum->file_ns ? ns - sum->file_ns : 0;

    return sum->queue_ns < room ? sum->queue_ns : room;
}

/* Which side decided a call. */
enum amph_fwd_side {
    AMPH_FWD_SIDE_LOCAL,    /* the kernel or the C library of this host, for the given reason */
    AMPH_FWD_SIDE_FORWARDED /* Amphora: a server, or, if none was asked, the client */
};

/* The end of a line: "  <server 4, request 3-128, 35.2 us, 12.0 us there>", "  <held, ...>" (the client's coalescing
 * layer has taken or given the data), "  <passed, ...>" (by the server's descriptor), "  <client, ...>" or
 * "  <local: REASON, ...>". */
void amph_fwd_trace_side(struct amph_fwd_text *t, const struct amph_fwd_trace_sum *sum,
                         enum amph_fwd_side side, const char *reason, uint64_t ns);

/* Where the lines of a trace go, as IOFWD_TRACE says: 0 or empty: nothing; 1: standard error; all:
 * the same with local calls; another word is a file, to which lines are appended, and "all,FILE" is
 * one with local calls, too. */
struct amph_fwd_trace_target {
    bool on, all;
    const char *file; /* NULL: standard error */
};

struct amph_fwd_trace_target amph_fwd_trace_parse(const char *setting);

#endif
