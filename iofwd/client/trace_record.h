/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records forwarded calls for iofwd-trace (IOFWD_TRACE_DIR) in a process that makes them in the names
 * of others: the supervisor of iofwd-run -trap, and iofwd-mount.  The preload library records by
 * itself.
 *
 *   trace_record.c    from a call to its record
 *   trace_callers.c   the processes in whose names calls are made, and their files
 *   trace_files.c     names and offsets of open files
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the state and is not held while a call is
 * under way.
 */
#ifndef AMPH_IOFWD_CLIENT_TRACE_RECORD_H
#define AMPH_IOFWD_CLIENT_TRACE_RECORD_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "iofwd/client/client.h"
#include "iofwd/trace/append.h"

enum {
    AMPH_CLIENT_RECORDER_BUCKETS = 1024
};

struct amph_client_recorded_file;

/* A process in whose name calls are made. */
struct amph_client_recorded_process {
    struct amph_client_recorded_process *next;
    pid_t pid;
    unsigned refs; /* calls that are under way */
    bool gone;     /* out of the list */
    int dir;       /* its folder in /proc; -1: this process */
    char exe[512];
    struct amph_trace_append file;
};

struct amph_client_recorder {
    pthread_mutex_t lock;
    enum amph_trace_recorder wanted; /* the kind of this process; AMPH_TRACE_BY_PRELOAD: none */
    bool on;                         /* written before the first call, and at the end */
    bool follows;                    /* lines need names of files; written before the first call */
    char dir[PATH_MAX];
    uint64_t budget;

    /* trace_callers.c, under the lock */
    struct amph_client_recorded_process *first, *own;
    unsigned processes, swept; /* in the list, now and after the last sweep */
    struct {
        pid_t tid;
        struct amph_client_recorded_process *process;
    } thread[AMPH_CLIENT_RECORDER_BUCKETS];

    /* trace_files.c, under the lock */
    struct amph_client_recorded_file *file[AMPH_CLIENT_RECORDER_BUCKETS];
};

extern struct amph_client_recorder amph_client_recorder AMPH_HIDDEN;

/* A call that is being recorded. */
struct amph_client_recording {
    struct amph_client_recorded_process *process; /* NULL: it is not */
    bool is_followed;
    pid_t tid;
    uint64_t slot;
    struct amph_trace_call call;
    struct amph_trace_extra extra;
    char path[PATH_MAX], path2[PATH_MAX]; /* of its arguments; "": not known */
};

/* ---- trace_record.c ---- */

/* Begins to record, if this process is such a one and the setting names a folder. */
bool amph_client_recorder_open(void);
/* Before and after a call.  Returns when the call begins. */
uint64_t amph_client_recorder_begin(struct amph_client_recording *r,
                                    const struct amph_fwd_call *call);
void amph_client_recorder_end(struct amph_client_recording *r, const struct amph_fwd_call *call,
                              const struct amph_fwd_trace_sum *sum, int err, uint64_t end_ns);

/* A call that is none of calls.def's, because it was refused before. */
void amph_client_recorder_refused(const struct amph_fwd_refused *refused, uint64_t end_ns);

/* ---- trace_callers.c; under the lock ---- */

/* The process of the thread, with a reference; that of this process if tid is 0, or if the thread has
 * ended.  NULL: nothing can be recorded. */
struct amph_client_recorded_process *amph_client_recorder_process(pid_t tid);
void amph_client_recorder_put(struct amph_client_recorded_process *p);
/* Says once why the records are not complete. */
void amph_client_recorder_complain(const char *what, int err);
/* Closes all files. */
void amph_client_recorder_close(void);

/* ---- trace_files.c; under the lock ---- */

/* The name of an open file into out, or "": it is known from its open on, if calls are recorded, or if
 * this process makes all its calls by the client. */
void amph_client_recorder_name(const struct amph_fwd_file *file, char out[PATH_MAX]);
/* The absolute form of an argument. */
void amph_client_recorder_path(const struct amph_fwd_file *dir, const char *path,
                               char out[PATH_MAX]);
/* After a call: what it has changed.  Gives the record of a read or write its offset. */
void amph_client_recorder_effect(struct amph_client_recording *r, const struct amph_fwd_call *call,
                                 bool failed);

#endif
