/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file client: forwards file calls to the I/O servers of this process's job.  Layer: iofwd.
 * Thread rule: callable from any thread, from active-message handlers, under handler-safe locks and
 * in signal handlers, except where said.  A call blocks until its server has answered.
 *
 * The calls themselves (amph_fwd_open, amph_fwd_write, ...) are generated from
 * iofwd/calls/calls.def and declared in iofwd/calls/calls.h.  Each returns 0 or an errno value
 * (positive) and sets its results only on 0.  "No server" is EIO; so is a server that has died.
 */
#ifndef AMPH_IOFWD_CLIENT_H
#define AMPH_IOFWD_CLIENT_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "iofwd/calls/calls.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/show.h"

struct amph_fwd_client;
struct open_how;

/* Returns the client of this process and opens it at the first call: attaches to the job
 * (AMPHORA_JOB), opens the endpoint, connects to its servers.  Works before, after and without
 * gasnet_init.  0, or: ENOTCONN (this process belongs to no job, or the job has no servers; nothing
 * was logged), EIO (the cause was logged in one sentence). */
int amph_fwd_process(struct amph_fwd_client **client_p);

/* Lets the next call try again to open a client that could not be opened, after servers were named.
 */
void amph_fwd_try_again(void);

/* Returns the process's client if it is open, else NULL.  Cheap. */
struct amph_fwd_client *amph_fwd_process_if_open(void);

/* Text form of a file, for a placeholder's name: "server.handle[,server.handle]...[/unit]", at most
 * AMPH_FWD_TEXT_BYTES with its NUL (the name of a memfd has at most 249 bytes). */
#define AMPH_FWD_TEXT_BYTES 236
size_t amph_fwd_file_print(const struct amph_fwd_file *file, char *buf,
                           size_t len_bytes); /* 0: does not fit */
bool amph_fwd_file_parse(const char *text, struct amph_fwd_file *file_p);
bool amph_fwd_file_equal(const struct amph_fwd_file *a, const struct amph_fwd_file *b);

/*
 * Holds.  A server keeps an open file until no client holds it.  A client holds a file or does not;
 * holds are not counted.  amph_fwd_open gives the opener a hold, amph_fwd_hold takes one (for a
 * handle received from another client), amph_fwd_close drops it.  A caller with several descriptors
 * for one file (dup) counts them itself and calls amph_fwd_close after the last one.  A client that
 * ends in any way loses its holds.
 */

/* After exec: this client holds exactly these files; files that exec closed are dropped. */
int amph_fwd_hold_only(struct amph_fwd_client *client, const struct amph_fwd_file *files,
                       size_t nfiles);

/* Fork.  Without the preload library, the C library's fork calls these through pthread_atfork;
 * otherwise call them around fork(2), in this order.  Signals may be blocked; the functions take no
 * locks of the caller.  Before: opens a connection for the child, which gets holds on all files of
 * the parent, and flushes coalesced data.  pid_or_error: the result of fork.  The child's client
 * opens again at its first call.  All are no-ops while the client is not open. */
void amph_fwd_fork_before(void);
void amph_fwd_fork_parent(pid_t pid_or_error);
void amph_fwd_fork_child(void);

/* Connects to all servers that this client may use.  A server that cannot be reached fails the
 * first call on it.  For a process that is about to share its memory, but not its descriptors, with
 * another. */
void amph_fwd_connect_all(void);

/* Sets the function that returns the number of the calling task's descriptor table; 0 is the
 * process's first one.  The number distinguishes record locks (l_pid of their arguments) and this
 * library's descriptors of different tables. */
#define AMPH_FWD_TABLES_MAX 30000
void amph_fwd_set_table_number(uint32_t (*number)(void));

/* The open files that a program inherits: each calls take for every one of them, some may come twice. */
struct amph_fwd_kept {
    void (*each)(const struct amph_fwd_kept *kept,
                 void (*take)(const struct amph_fwd_file *file, void *arg), void *arg);
    void *arg; /* of the caller */
    bool all;  /* exec closes none, and the program maps none */
};

/* The connections that the new image inherits. */
struct amph_fwd_exec {
    uint32_t n, number;
    uint32_t server[AMPH_FWD_PARTS_MAX];
    int fd[AMPH_FWD_PARTS_MAX];
    bool made[AMPH_FWD_PARTS_MAX]; /* for this exec; false: it is the process's own */
};

/* Exec.  With it this process's connections end, and so do its holds, but for those on the files that are kept.
 * Writes the setting "IOFWD_PRIVATE_CLIENT=..." that the new image needs in its environment to go on as the same
 * client.  Returns its length without the NUL, 0 where nothing is needed (client not open, no file is kept) or it
 * does not fit.  Safe in a vfork child.  Without the setting the new image joins as a new client and must
 * amph_fwd_hold what it inherits.  If the exec fails, call amph_fwd_exec_end: nothing has changed. */
size_t amph_fwd_exec_begin(struct amph_fwd_exec *exec, const struct amph_fwd_kept *kept, char *buf,
                           size_t len_bytes);
void amph_fwd_exec_end(struct amph_fwd_exec *exec);

/* posix_spawn, between these two, as between amph_fwd_fork_before and amph_fwd_fork_parent: the program holds the files
 * that are kept, and no others.  Writes the setting that the program needs, as above, but it begins with -FD.INODE in
 * the place of the process's number: this number comes by the pipe FD.  pid: the program's; 0: it was not started. */
size_t amph_fwd_spawn_before(const struct amph_fwd_kept *kept, char *buf, size_t len_bytes);
void amph_fwd_spawn_after(pid_t pid);

/* Returns the setting "IOFWD_PRIVATE_SERVERS=..." by which child processes find the process's
 * private server (IOFWD_SERVER_HOST), or NULL.  The text is never freed. */
const char *amph_fwd_own_env(void);

/* The settings that the program was started with, see amph_env_keep: before the client opens. */
void amph_fwd_keep_settings(char *const *entries);

/* Finds the servers for a process that is no GASNet client, in a job of another launcher with
 * AMPHORA_SERVERS (boot/claim.h).  The first process of each rank takes part in the job's fences
 * for that.  Sets IOFWD_PRIVATE_SERVERS and AMPHORA_RANK for the process and its children.  The
 * client calls it when it opens.  The preload library calls it at the end of a rank's first
 * process, because the servers wait for all ranks, and (astray) at the end of a program that runs
 * in the place of a server.  Returns false if it fails: the cause was logged and the job cannot
 * continue. */
bool amph_fwd_join_mpmd(bool astray);

/*
 * Readiness notification.  Only the server knows when a FIFO or terminal becomes ready.  A notifier
 * is a connection to a server whose descriptor becomes readable when one of the files registered
 * with it (amph_fwd_poll with its number, amph_fwd_watch) becomes ready, so that a thread can wait
 * in its own kernel.  Signal handlers may call these functions.
 *
 * acquire  gets a notifier of that server for the caller alone, or (for_set) a new one that forked
 *          children share; 0 or an errno value
 * drain    reads the notifications that have arrived; false: the server is dead
 * release  gives the notifier back for reuse; gone: closes it, if its server is dead or it belonged
 *          to an epoll set
 */
struct amph_fwd_notifier {
    int fd;
    uint32_t server;
    uint32_t number;
};

int amph_fwd_notifier_acquire(struct amph_fwd_client *client, uint32_t server, bool for_set,
                              struct amph_fwd_notifier *notifier_p);
bool amph_fwd_notifier_drain(const struct amph_fwd_notifier *notifier);
void amph_fwd_notifier_release(const struct amph_fwd_notifier *notifier, bool gone);
/* An event on a file of amph_fwd_watch. */
struct amph_fwd_happened {
    uint32_t events;
    uint64_t data; /* the value passed to amph_fwd_watch */
};

/* Fetches pending events, as epoll_wait with timeout 0 does; later events notify again.  Returns 0
 * or an errno value. */
int amph_fwd_notifier_collect(struct amph_fwd_client *client,
                              const struct amph_fwd_notifier *notifier,
                              struct amph_fwd_happened *out, size_t max, size_t *n_p);

/* Call before a message passes descriptors to another process. */
void amph_fwd_share(void);
/* Call before _exit, which runs no destructors: flushes coalesced writes. */
void amph_fwd_ending(void);

/*
 * A placeholder's name: this, then amph_fwd_file_print's text; or this and "SERVER@", and then its
 * offset is the handle without its top bit, which is always set (an open of a file that is there
 * already is a third of the work of making one with a name).
 */
#define AMPH_FWD_PLACEHOLDER_MARK "iofwd:"
/* Puts the offset into a text that ends in '@'.  false: text does not hold it, or the offset cannot
 * be one. */
static inline bool amph_fwd_text_complete(char *text, size_t cap_bytes, int64_t offset)
{
    size_t len = strlen(text);

    if (len == 0 || text[len - 1] != '@')
        return true;

    int n = snprintf(text + len - 1, cap_bytes - len + 1, ".%" PRIx64,
                     (uint64_t)offset | AMPH_FWD_HANDLE_TOP);

    return offset > 0 && n > 0 && (size_t)n < cap_bytes - len + 1;
}

/* Returns whether this image inherited a client from the previous image (IOFWD_PRIVATE_CLIENT names this
 * process).  If so, call amph_fwd_hold_only once; if not, amph_fwd_hold for each inherited file. */
bool amph_fwd_inherited(void);

/* Returns whether fd is a descriptor of the client itself (a connection to a server); for
 * close_range and similar calls. */
bool amph_fwd_owns_fd(int fd);

/* A call has found no free descriptor number (EMFILE): closes descriptors of the client that it can do without, those
 * that servers have passed to it.  Returns whether there were any, so that the call can be made again. */
bool amph_fwd_give_up_fds(void);

/*
 * Shared maps of a file itself: by a descriptor that its server passes, if all servers of the job are on this host and
 * this process has the same rights as they.  st, access: the file's attributes, and O_RDWR or O_RDONLY.  begin returns
 * 0, after which end must follow when the map has been made, or an errno value: the process cannot map the file itself.
 * The map keeps the open file open, even if its server ends.
 */
struct passed_file;
struct amph_fwd_map_use {
    int fd;            /* for mmap alone */
    bool moves_server; /* another server may take over the open file (failover) */
    uint64_t versions; /* the id of the versions (wire/versions.h) of what is changed in the map */
    struct passed_file *entry; /* the client's; NULL: fd is of this use */
};
int amph_fwd_map_begin(struct amph_fwd_client *client, const struct amph_fwd_file *file,
                       const struct stat *st, int access, struct amph_fwd_map_use *use);
void amph_fwd_map_end(const struct amph_fwd_map_use *use);

/* Sets the interposer's function that records for each thread whether it runs Amphora's code: swap
 * sets the state and returns the previous one.  The client sets it to 1 while it works and restores
 * it before it delivers signals that it blocked. */
void amph_fwd_set_inside(int (*swap)(int depth));

struct amph_fwd_host_calls; /* wire/below.h */

/* The functions with which the client makes calls on descriptors that servers have passed to it.  The
 * interposer sets those that it does not catch itself. */
void amph_fwd_set_host_calls(const struct amph_fwd_host_calls *calls);

/* Gives the log's lines to `take`; see amph_log_set_sink. */
void amph_fwd_set_log_sink(bool (*take)(const char *line, size_t len_bytes));

/* Sets the interposer's function that returns whether this thread was cancelled (pthread_cancel). A
 * call that blocks at a FIFO or lock then ends with EINTR, and its caller acts on the cancellation.
 */
void amph_fwd_set_cancelled(bool (*is_cancelled)(void));

/* Tells the client which signals the program blocks, if the interposer has blocked all of them before
 * it calls the client; NULL: it has unblocked them.  A signal that the program does not block and
 * whose action is the default ends a call that waits for its server. */
void amph_fwd_set_program_mask(const sigset_t *mask);

/* Around a system call of the interposer that may block for long while signals are blocked: lets in
 * those that end or stop the program. */
void amph_fwd_wait_begin(sigset_t *before_p);
void amph_fwd_wait_end(const sigset_t *before);

/* One server's counters for this client since it joined. */
struct amph_fwd_stats {
    uint32_t server; /* absolute number */
    uint32_t client; /* this client's number */
    uint64_t calls, errors;
    uint64_t bytes_out;                              /* written by this client */
    uint64_t bytes_in;                               /* read by this client */
    uint64_t all_calls, all_bytes_out, all_bytes_in; /* of all clients since the server started */
    uint32_t clients, handles;                       /* now */
};

int amph_fwd_server_stats(struct amph_fwd_client *client, uint32_t server,
                          struct amph_fwd_stats *stats_p);

/* This client's number (its rank for compute processes) and its servers in order. */
uint32_t amph_fwd_client_number(const struct amph_fwd_client *client);
size_t amph_fwd_client_servers(const struct amph_fwd_client *client, const uint32_t **servers_p);

/* For the interposition: where the calling thread keeps the sum to which its requests are added.  While
 * one is there, the client prints no lines of its own; NULL: none.  The place is the thread's as long as
 * it runs, so that a frame costs one store. */
struct amph_fwd_trace_sum **amph_fwd_trace_place(void);

/*
 * Callers.  The supervisor of iofwd-run -trap and iofwd-mount make calls in the names of others, whom
 * IOFWD_TRACE and IOFWD_TRACE_DIR then name.
 */
enum amph_fwd_way {
    AMPH_FWD_WAY_TRAP,
    AMPH_FWD_WAY_MOUNT
};

/* This process is such a one: its calls are recorded if IOFWD_TRACE_DIR says so.  Before the client
 * opens, by one thread.  Not where the preload library is, which records by itself. */
void amph_fwd_record_for_others(enum amph_fwd_way way);

struct amph_fwd_caller {
    pid_t tid; /* a thread; 0: the calls are this process's own */
    int fd;    /* its descriptor of the file, or -1: not known */
};

/* In whose name this thread makes calls from now on.  Returns who it was before.  Cheap. */
struct amph_fwd_caller amph_fwd_set_caller(struct amph_fwd_caller caller);
/* The caller gets this descriptor for the file that this thread has just opened in its name: the record of
 * the open has it as result.  -1: it gets none; iofwd-trap calls this at the end of each call.  Cheap. */
void amph_fwd_record_descriptor(int fd);
/* For work of the process's own. */
#define AMPH_FWD_NO_CALLER ((struct amph_fwd_caller){ 0, -1 })

/* A call of the caller that was refused before it became a forwarded one: prints and records it.
 * number: at most AMPH_FWD_REFUSED_MAX, its own among such calls; paths: absolute, or ""; since:
 * amph_now_ns when the call began. */
struct amph_fwd_refused {
    unsigned number;
    const char *name, *path, *path2;
    int err;
    uint64_t since;
};
enum {
    AMPH_FWD_REFUSED_MAX = 599
};
void amph_fwd_trace_refused(const struct amph_fwd_refused *refused);
/* Are calls printed or recorded?  How many of this thread have been? */
bool amph_fwd_traces(void);
uint64_t amph_fwd_traced_calls(void);

/* ---- layers ---- */

struct amph_layer;

/* One intercepted call on its way through the layers.  client NULL: it is not forwarded. */
struct amph_fwd_call {
    enum amph_fwd_id id;
    struct amph_fwd_client *client;
    union amph_fwd_args u;
};

enum amph_layer_event {
    AMPH_LAYER_FORK_BEFORE,
    AMPH_LAYER_FORK_PARENT,
    AMPH_LAYER_FORK_CHILD,
    AMPH_LAYER_EXEC,
    AMPH_LAYER_SHARE, /* a message is about to pass a descriptor to another process */
    AMPH_LAYER_EXIT
};

/* A layer executes the call or passes it on with amph_layer_pass(self->next, call), and returns 0
 * or an errno value. */
struct amph_layer {
    const char *name;
    /* order in the list, smallest first; `forward` is the last */
    int rank;
    int (*call)(const struct amph_layer *self, struct amph_fwd_call *call);
    void (*event)(const struct amph_layer *self, enum amph_layer_event event); /* or NULL */
    const struct amph_layer *next; /* set by amph_layer_add */
};

/* Adds a copy of a layer to the process's list, before `forward`, which is always in it; once, also
 * if called again.  Called before the first call, by one thread. */
void amph_layer_add(const struct amph_layer *layer);
extern const struct amph_layer amph_layer_forward AMPH_HIDDEN;
/* Passes a call to the first active layer (called by the generated stubs), or to the next one. */
int amph_layer_enter(struct amph_fwd_call *call);
/* layer NULL: ENOSYS */
int amph_layer_pass(const struct amph_layer *layer, struct amph_fwd_call *call);
void amph_layer_event(enum amph_layer_event event);

#endif
