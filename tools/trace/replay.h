/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * replay: makes the calls of a recorded run again, with other data, below a scratch folder.
 *
 * Layer: tools.  Thread rule: a plan is made by one thread and is constant while it runs, except for
 * what struct replay_shared says.
 */
#ifndef AMPH_TOOLS_TRACE_REPLAY_H
#define AMPH_TOOLS_TRACE_REPLAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "iofwd/trace/reader.h"

enum {
    REPLAY_FDS = 4096,          /* descriptors of a process that are followed */
    REPLAY_BYTES_MAX = 64 << 20 /* of one call: the rest of a longer one is left out */
};

#define REPLAY_NONE UINT32_MAX

enum replay_kind {
    REPLAY_SKIP, /* no call: it takes the time that it took */
    REPLAY_MARK, /* no call, but others wait for it, or it starts processes */
    REPLAY_OPEN,
    REPLAY_CLOSE,
    REPLAY_READ,
    REPLAY_WRITE,
    REPLAY_SEEK,
    REPLAY_COPY, /* from one file to another */
    REPLAY_SYNC,
    REPLAY_DATASYNC,
    REPLAY_TRUNCATE,
    REPLAY_ALLOCATE,
    REPLAY_STAT,
    REPLAY_STATFS,
    REPLAY_ACCESS,
    REPLAY_READLINK,
    REPLAY_CHMOD,
    REPLAY_TIMES,
    REPLAY_RENAME,
    REPLAY_LINK,
    REPLAY_SYMLINK,
    REPLAY_UNLINK,
    REPLAY_MKDIR,
    REPLAY_RMDIR,
    REPLAY_FOLDER, /* a folder is opened: it is read whole, and closed */
    REPLAY_LOCK,
    REPLAY_DUP,
    REPLAY_START, /* of a request: it is carried out while the thread goes on */
    REPLAY_AWAIT  /* its end, where the program has seen it */
};

struct replay_step {
    uint32_t event;  /* in the trace */
    uint8_t kind;    /* enum replay_kind */
    uint8_t cls;     /* enum amph_trace_class */
    bool awaited;    /* some step waits for this one */
    bool starts;     /* processes begin here */
    uint32_t thread; /* that must have done `done` steps before; REPLAY_NONE: none */
    uint32_t done;
    uint64_t think_ns; /* of computing before it */
    uint64_t sleep_ns; /* of waiting */
};

struct replay_thread {
    uint32_t process;
    int32_t tid;
    uint32_t first, n;    /* its steps */
    uint32_t first_event; /* in order[] */
    uint32_t nevents;
};

struct replay_process {
    uint32_t first_thread, nthreads;
    uint32_t parent;     /* REPLAY_NONE: started by the command itself */
    uint32_t start_step; /* of the parent's that starts it, as an index of steps */
};

/* What the processes of a replay change. */
struct replay_shared {
    _Atomic uint32_t go, failed;
    _Atomic uint64_t calls, other_results, end_ns;
    _Atomic uint32_t first_other; /* event of the first call that ended otherwise */
    _Atomic uint64_t class_ns[AMPH_TRACE_CLASSES], class_calls[AMPH_TRACE_CLASSES];
    _Atomic uint32_t done[]; /* steps of each thread, up to the last one that was awaited */
};

struct replay {
    const struct amph_trace *trace;
    char root[3072];   /* the new folder below the scratch folder */
    const char *below; /* only files below this path; NULL: see replay_plan.c */
    bool thinks;
    uint32_t *order; /* events by thread, then by time */
    struct replay_step *steps;
    size_t nsteps;
    struct replay_thread *threads;
    size_t nthreads;
    struct replay_process *processes;
    uint8_t *chosen;  /* of each path: its calls are made */
    uint64_t skipped; /* calls that are not made */
    int64_t zero_ns;  /* when the first process began to record */
    struct replay_shared *shared;
};

/* replay_plan.c.  false: no memory. */
bool replay_plan(struct replay *r);
void replay_free(struct replay *r);

/* replay_files.c */
bool replay_path(const struct replay *r, uint32_t file, char *path, size_t room);
/* Makes what was there before the run; in a process of its own, so that the replay's processes find
 * their servers themselves.  false: it has said why. */
bool replay_make_files(const struct replay *r);

/* replay_run.c: gives the time from the first call to the last, or 0 if the replay failed. */
uint64_t replay_run(struct replay *r);

/* replay_call.c */
struct replay_task {
    const struct replay *r;
    int *fds;   /* of the process: from a recorded descriptor to the replay's; -1: none */
    char *data; /* REPLAY_BYTES_MAX */
    struct replay_flight *flights; /* requests that have been started and not been awaited */
};
/* Makes the call of step s.  Gives its result, -1 and errno for an error. */
int64_t replay_call(struct replay_task *task, const struct replay_step *s);

/* replay_request.c: starts the request of event e on that descriptor; awaits it, and gives its result as
 * replay_call does; awaits those that are left. */
int64_t replay_start(struct replay_task *task, const struct amph_trace_event *e, int fd);
int64_t replay_await(struct replay_task *task, const struct amph_trace_event *e);
void replay_await_all(struct replay_task *task);

#endif
