/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the interposer that its files share, and that of entry/ and path/.
 *
 * Layer: iofwd (interposer).  Thread rule: as said at each group of fields.
 *
 * Kept apart because every caught call reads them: the descriptor table (fd/fdtab.h), the thread's
 * depth amph_ip_inside (catch.h), the table of the C library's functions (libc_real.h), the ranges
 * of memory that a thread has checked (fault_check.h), and the client (client.h).
 */
#ifndef AMPH_IOFWD_INTERPOSE_STATE_H
#define AMPH_IOFWD_INTERPOSE_STATE_H

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/platform.h"
#include "iofwd/client/client.h"
#include "iofwd/wire/prefix.h"

struct amph_fdtab;
struct amph_ip_recording;
struct amph_ip_trace_frame;

/* When all are in use, the oldest entry is overwritten: its thread has acted on it, or makes no
 * forwarded call. */
#define AMPH_IP_PENDING_CANCELS 64

/* What threads share by CLONE_FS: the working directory, if it is a forwarded one (path/cwd.c), and the mask. */
struct amph_ip_cwd {
    /* Written by chdir, read by any thread.  NULL outside the prefixes; never freed. */
    const char *name;
    int fd; /* inherited by programs that this process starts; 0: none */
    unsigned umask;
    uint64_t recorded; /* record.c: the number of its text; written by the thread that changes it */

    /* path/own_cwd.c: of those that are not the process's; atomic */
    unsigned tasks; /* that use it */
    bool taken;
    struct amph_ip_cwd *next;
};

struct amph_ip_state {
    /* Written by the constructor (init.c), `on` last; until then every call goes to the C
     * library. */
    bool on;
    bool optional;   /* IOFWD_OPTIONAL, and the servers have not answered yet (attach/client.c) */
    bool left_local; /* IOFWD_OPTIONAL has turned forwarding off */
    bool owned_fds;  /* the client is open and may have descriptors of its own */
    struct amph_fwd_prefixes prefixes;
    const char *exe; /* the program's file, if it is a forwarded one and runs from a copy */
    bool library_path_forwarded; /* LD_LIBRARY_PATH names forwarded directories */

    /* A process of another launcher's job (mpi.c); written by the constructor. */
    const char *mpi_space; /* PMIx's name of the job, or NULL */
    uint32_t mpi_ranks;    /* ranks of the program by PMIx; 0: not known */
    bool mpi_one_host;     /* all its processes and its servers are on this host */
    bool rank_guarded;     /* some descriptors are marked FDTAB_OWN */
    uint8_t trace;         /* IOFWD_TRACE (trace.h); 0: off */
    bool debug;            /* AMPHORA_LOG=debug */
    bool json;             /* AMPHORA_LOG_FORMAT=json */
    bool io_uring;         /* IOFWD_IO_URING: the program may have rings */
    /* The program was started in the slot of an I/O server but is not one: its first forwarded call
     * ends the job. */
    bool in_server_slot;
    bool forks_watched;                 /* process/fork.c: its handlers are set up */
    int (*main)(int, char **, char **); /* the program's, if they are set up just before it */

    /* Of all threads but those that have one of their own (path/own_cwd.c), whose list it begins; a destructor runs
     * when one of these ends. */
    struct amph_ip_cwd cwd;
    pthread_once_t cwd_once;
    pthread_key_t cwd_key;
    bool
        has_cwd_key; /* false: the program has taken all keys, and what such a thread had stays when it ends */

    /* Counters and limits that any thread reads and writes atomically. */
    int maps;           /* maps of forwarded files (memory/map.c) */
    int file_maps;      /* shared ones of files that the process has opened (memory/map_file.c) */
    unsigned cancels;   /* threads cancelled up to now (cancel.c) */
    unsigned turns;     /* descriptors that dup2 made forwarded or local (fd/fd.c) */
    uint32_t mem_epoch; /* increases whenever the program may have unmapped memory */
    int mem_question;   /* how memory is asked for (fault_check.c) */
    uint64_t file_size_limit; /* RLIMIT_FSIZE as last read; UINT64_MAX: unlimited */
    unsigned temp_names; /* counts the names that were tried for temporary files (path/temp.c) */
    bool libc_found;     /* the whole table of the C library's functions is filled (libc_real.c) */

    /* The cancellations that threads may not have acted on yet (cancel.c), by number; written by any
     * thread, each word atomically. */
    struct amph_ip_pending_cancel {
        pthread_t thread; /* 0: free */
        unsigned number;  /* of the cancellation */
    } pending_cancel[AMPH_IP_PENDING_CANCELS];

    /* What the processes of a rank share (init.c).  Written by the constructor, except that pid
     * becomes 0 when the rank has joined. */
    struct {
        long pid; /* of the first process */
        int result, token;
        char setting[128]; /* the setting in the environment of the programs that it starts */
    } rank;

    /* Locks that the program before this one took in this process, until late() (init.c) has
     * dropped those of closed files; or NULL. */
    char *inherited_locks;

    /* What is left of the memory that the constructor has last asked for (libc/kept.h). */
    struct {
        char *next;
        size_t left;
    } kept;

    /* Where the lines of IOFWD_TRACE go (trace.c): fd is written by the constructor, complained
     * atomically. */
    struct {
        int fd;
        int complained;
    } trace_out;

    /* IOFWD_TRACE_DIR (record.c): written by the constructor; files and complained atomically by any
     * thread, spares by the one that has set spares_busy. */
    struct {
        char dir[PATH_MAX];
        int32_t rank;
        uint64_t budget;
        unsigned kinds; /* of messages: IOFWD_RECORD */
        uint64_t clock; /* the host's number in the job's file of clocks; 0: none */
        uint64_t began_ns;
        uint32_t files;
        int files_end;    /* of the descriptors whose file is remembered; by any thread */
        bool has_counter; /* threads' clocks use it; constructor */
        int complained;
        pthread_key_t at_exit; /* of a thread */
        bool has_key;
        char spares_busy;
        struct amph_ip_recording *spares;
        struct amph_ip_flights *flights; /* record_request.c: made by any thread */
    } recorder;
};

/* A fork that is under way (process/fork.c). */
struct amph_ip_forking {
    bool loaded;   /* a client exists and takes part */
    bool alone;    /* no other thread or table holds references to open files */
    sigset_t mask; /* the program's */
};

/* What a thread has of its own, besides what every caught call reads (above). */
struct amph_ip_thread {
    struct amph_ip_trace_frame *trace;   /* of the call that it is in, or NULL (entry/trace.c) */
    struct amph_ip_recording *recording; /* its recorder's buffer, or NULL (entry/record.c) */
    struct amph_fwd_trace_sum *
        *client_sum;      /* where the client looks for its frame's sum, or NULL */
    const void *mpi_call; /* of MPI-IO that it is in, or NULL (entry/mpi_io.c) */
    /* set while it is in the C library's mremap for a forwarded mapping (memory/map.c).  If that
     * function is patched, the patch's own call goes to the kernel. */
    bool in_mremap;
    bool leads_near; /* path/near_dir.c: it opens a file at its server */
    bool ending;     /* process/threads.c: it is in _exit, which an overwritten _exit calls again */
    /* fd/epoll.c: above 0 inside the C library's epoll_pwait.  If a tool has replaced that function
     * by one that uses syscall(), that call must go to the kernel. */
    int epoll_waits;
    unsigned near_moves; /* near_versions.c: it is moving versions */
    struct {
        struct amph_ip_cwd *own; /* NULL: the process's */
        int rounds;              /* of the destructors at its end */
    } cwd;                       /* path/own_cwd.c */
    struct {
        struct amph_fdtab *forking; /* of a task that forks: the child has another number */
        int rounds;                 /* of the destructors at its end */
    } table;                        /* fd/own_table.c */
    struct {
        bool taken;
        struct amph_ip_forking now;
    } fork;                    /* process/fork.c: from one handler of fork to the next */
    struct amph_fwd_exec exec; /* process/connections.c: of the program that it executes */
    struct {
        char *kept;     /* that dlerror has not returned yet */
        char *returned; /* by the last dlerror */
        int depth;      /* of the library's own calls of the linker */
    } dl_error;         /* loader/dl_error.c: allocated texts, or NULL */
};

extern struct amph_ip_state amph_ip_state AMPH_HIDDEN;
extern __thread struct amph_ip_thread amph_ip_thread AMPH_HIDDEN
    __attribute__((tls_model("initial-exec")));

/* The caller's working directory. */
static inline struct amph_ip_cwd *amph_ip_cwd(void)
{
    struct amph_ip_cwd *own = amph_ip_thread.cwd.own;

    return AMPH_UNLIKELY(own != NULL) ? own : &amph_ip_state.cwd;
}

/* Is fd the descriptor of a forwarded working directory? */
static inline bool amph_ip_is_cwd(int fd)
{
    const struct amph_ip_cwd *c = &amph_ip_state.cwd;

    for (; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
        if (c->fd == fd)
            return fd != 0;

    return false;
}

#endif
