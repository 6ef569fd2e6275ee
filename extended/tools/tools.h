/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GASNet tools behind gasnet_tools.h: state and functions that their files and the runtime share.
 *
 *   backtrace.c   backtraces
 *   environ.c     queries of the environment, and their reports (GASNET_VERBOSEENV)
 *   fatal.c       fatal errors, signals, freezing for a debugger, the name of this process
 *   lock.c        reader/writer locks
 *   machine.c     the host, limits, streams, versions
 *   number.c      parsing and printing numbers with units
 *   ticks.c       the fast clock
 *
 * Layer: extended; includes base/ only, because libgasnet_tools-{seq,par} contain it without the
 * runtime.  Thread rule: any thread unless stated otherwise.
 */
#ifndef AMPH_EXTENDED_TOOLS_H
#define AMPH_EXTENDED_TOOLS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"

enum {
    AMPH_TOOLS_NAME_BYTES = 256,
    AMPH_TOOLS_PATH_BYTES = 4096,
    AMPH_TOOLS_SIGNAL_STACK_BYTES = 65536
};

struct amph_tools_reported;

/* The counter and the clock, read at the same moment. */
struct amph_tools_ticks {
    uint64_t counter, ns;
};

/*
 * The state of the tools.  Each part is written by its file, once (the pthread_once_t beside it),
 * and read-only afterwards unless said otherwise; handlers of signals only read it.  Not in here:
 * amphora_tick_source and gasnet_frozen, which installed headers read, and the calling thread's
 * list of locks in lock.c.
 */
struct amph_tools_state {
    struct { /* fatal.c */
        pthread_once_t named, armed;
        char who[AMPH_TOOLS_NAME_BYTES]; /* amph_tools_who */
        uint32_t rank, size;             /* of the job; size 0: not started */
        bool freeze_on_error;
        bool fatal_signal_claimed; /* a thread is handling a fatal signal; atomic */
        bool reports;              /* fatal signals and errors: a backtrace or a freeze is wanted */
        bool flushed_last;         /* what stdio held has been written out */
        char signal_stack[AMPH_TOOLS_SIGNAL_STACK_BYTES];
    } process;
    struct { /* backtrace.c */
        pthread_once_t prepared;
        bool enabled, all_threads;
        const char *types;                    /* GASNET_BACKTRACE_TYPE */
        char exe[AMPH_TOOLS_PATH_BYTES];      /* path of the program */
        char path[AMPH_TOOLS_PATH_BYTES + 8]; /* PATH=... for gdb */
    } backtrace;
    struct { /* environ.c */
        pthread_mutex_t lock;
        struct amph_tools_reported *reported; /* settings that have been printed */
    } environ;
    struct { /* machine.c */
        pthread_once_t read;
        char hostname[AMPH_TOOLS_NAME_BYTES];
    } machine;
    struct { /* ticks.c */
        pthread_once_t decided;
        struct amph_tools_ticks first; /* taken when the counter was chosen as the source */
        uint64_t ns_per_tick_32;       /* times 2^32; 0: not known for good yet; atomic */
    } ticks;
};

extern struct amph_tools_state amph_tools_state AMPH_HIDDEN;

/* ticks.c: chooses the source of ticks, so that their rate is known by the first conversion. */
void amph_tools_start_ticks(void);

/*
 * The runtime's initialisation calls this when rank and size are known: installs signal handlers,
 * reports settings (GASNET_VERBOSEENV) and waits for a debugger (GASNET_FREEZE).  exe: argv[0] or
 * NULL.
 */
void amph_tools_start(uint32_t rank, uint32_t size, const char *exe);

/* "process 3 of 4 (node07, pid 123)"; owned by the tools. */
const char *amph_tools_who(void);
uint32_t amph_tools_rank(void);
/* Is this the process that prints messages for the whole job? */
bool amph_tools_is_first(void);

/* As gasnett_parse_int, but returns false where that is fatal. */
bool amph_tools_parse(const char *str, uint64_t mem_size_multiplier, int64_t *number_p);

/* Installs the signal handlers that the settings ask for; once. */
void amph_tools_arm(void);
/* Writes all of text to fd.  Async-signal-safe. */
void amph_tools_write(int fd, const char *text);

#endif
