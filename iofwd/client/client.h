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
#include <sys/types.h>

#include "iofwd/calls/calls.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/show.h"

struct amph_fwd_client;

/* The client of this process, opened at the first call: attaches to the job (AMPHORA_JOB), opens
 * the endpoint, greets its servers. Works before, after and without gasnet_init.  0, or: ENOTCONN
 * (this process belongs to no job, or the job has no servers; nothing was logged), EIO (the cause
 * was logged in one sentence). */
int amph_fwd_process(struct amph_fwd_client **client_p);

/* A client that could not be opened is tried again: servers have been named since. */
void amph_fwd_try_again(void);

/* Has the process's client been opened?  Cheap; NULL if not. */
struct amph_fwd_client *amph_fwd_process_if_open(void);

/* Text form of a file, for a placeholder's name: "server.handle[,server.handle]...[/unit]", at most
 * AMPH_FWD_TEXT_BYTES with its NUL (the name of a memfd has at most 249 bytes). */
#define AMPH_FWD_TEXT_BYTES 236
size_t amph_fwd_file_print(const struct amph_fwd_file *file, char *buf,
                           size_t len_bytes); /* 0: does not fit */
bool amph_fwd_file_parse(const char *text, struct amph_fwd_file *file_p);
bool amph_fwd_file_equal(const struct amph_fwd_file *a, const struct amph_fwd_file *b);

/*
 * Holds.  A server keeps an open file until no client holds it.  A client holds a file or does not
 * (no counts): amph_fwd_open gives the opener a hold, amph_fwd_hold takes one (a handle that was
 * passed on), amph_fwd_close drops it.  Who has several descriptors for one file (dup) counts them
 * by himself and calls amph_fwd_close at the last.  A client that ends in whatever way loses its
 * holds.
 */

/* After exec: this client holds exactly these files (drops what was closed by exec). */
int amph_fwd_hold_only(struct amph_fwd_client *client, const struct amph_fwd_file *files,
                       size_t nfiles);

/* Fork: in a program that the preload library is not in, the C library's fork calls these by
 * itself; else call them around fork(2), in this order; signals may be blocked, no locks of the
 * caller are taken.  Before: opens a connection for the child, which gets holds on all files of the
 * parent, and brings the client to rest.  pid_or_error: what fork gave.  The child's client is
 * opened again at its first call.  All are no-ops while the client is not open. */
void amph_fwd_fork_before(void);
void amph_fwd_fork_parent(pid_t pid_or_error);
void amph_fwd_fork_child(void);

/* Connects to all servers that this client may use; those that cannot be reached are missed by the
 * first call on them.  For a process that is about to share its memory, but not its descriptors,
 * with another. */
void amph_fwd_connect_all(void);

/* Exec: writes the setting "IOFWD_DOOR=..." that the new image needs in its environment to go on as
 * the same client.  Returns its length without the NUL, 0 where nothing is needed (client not open)
 * or it does not fit.  Safe in a vfork child.  Without the setting the new image joins as a new
 * client and must amph_fwd_hold what it inherits. */
size_t amph_fwd_exec_env(char *buf, size_t len_bytes);

/* The setting "IOFWD_PRIVATE_SERVERS=..." that lets what the process starts find the server of its
 * own (IOFWD_SERVER_HOST); NULL: it has none.  Kept for ever. */
const char *amph_fwd_own_env(void);

/* The settings that the program was started with, see amph_env_keep: before the client opens. */
void amph_fwd_keep_settings(char *const *entries);

/* A process of a rank of another launcher's job with AMPHORA_SERVERS that is no GASNet client
 * (boot/claim.h) learns where the servers are; the first of the rank joins the job's fences with
 * everybody for that.  Sets IOFWD_PRIVATE_SERVERS and AMPHORA_RANK for itself and for what it
 * starts.  The client does so when it opens; the preload library at the end of a rank's first
 * process, since the servers wait for all ranks, and (astray) of a program in a server's place.
 * False: it cannot, and has said why; the job cannot go on. */
bool amph_fwd_join_mpmd(bool astray);

/*
 * Bells.  Who waits for files that their servers alone know to be ready waits in his own kernel for
 * a bell, a descriptor that becomes readable when one of the files does that he watches by it
 * (amph_fwd_poll with its number, amph_fwd_watch).  take: one of that server for the caller alone,
 * or, for_set, one that watches nothing yet and that forked children have, too; 0 or an errno
 * value.  hear: takes out what has rung, false: its server has gone.  give: back, for the next who
 * waits, or away for ever where its server has gone, or it was taken for a set.  Signal handlers
 * may.
 */
struct amph_fwd_notifier {
    int fd;
    uint32_t server;
    uint32_t number;
};

int amph_fwd_notifier_acquire(struct amph_fwd_client *client, uint32_t server, bool for_set,
                              struct amph_fwd_notifier *bell_p);
bool amph_fwd_notifier_drain(const struct amph_fwd_notifier *bell);
void amph_fwd_notifier_release(const struct amph_fwd_notifier *bell, bool gone);
/* What has happened on the files of amph_fwd_watch (as epoll_wait with no time gives it); the bell
 * rings at the next.  0 or an errno value. */
struct amph_fwd_happened {
    uint32_t events;
    uint64_t data; /* as amph_fwd_watch was given it */
};

int amph_fwd_notifier_collect(struct amph_fwd_client *client, const struct amph_fwd_notifier *bell,
                              struct amph_fwd_happened *out, size_t most, size_t *n_p);

/* Before a message takes descriptors to another process. */
void amph_fwd_share(void);
/* Before the process ends by _exit, which runs no destructors: gathered writes reach their
 * server. */
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

/* Did this image inherit a client from the image before it (IOFWD_DOOR names this very process)?
 * Then call amph_fwd_hold_only once; if not, amph_fwd_hold each inherited file. */
bool amph_fwd_inherited(void);

/* Is fd a descriptor that the client itself uses (a connection to a server)?  For close_range and
 * the like. */
bool amph_fwd_owns_fd(int fd);

/* For the interposition, which keeps for each thread whether it is inside of Amphora: swap sets
 * that and gives the state before.  The client sets it to 1 while it works and puts it back before
 * it lets in the signals that it held back. */
void amph_fwd_set_inside(int (*swap)(int depth));

/* For the interposition, too: has this thread been cancelled (pthread_cancel)?  A call that waits
 * at a FIFO or for a lock then ends with EINTR, and who made it acts on that. */
void amph_fwd_set_cancelled(bool (*is_cancelled)(void));

/* And: the program's own mask of signals, where the interposition has blocked all before it calls
 * the client; NULL: it puts them back.  A signal that the program does not block, and whose action
 * is the default, ends a call that waits for its server. */
void amph_fwd_set_program_mask(const sigset_t *mask);

/* What one server has counted for this client since it joined. */
struct amph_fwd_stats {
    uint32_t server; /* absolute number */
    uint32_t client; /* this client's number */
    uint64_t calls, errors;
    uint64_t bytes_out;                              /* written by this client */
    uint64_t bytes_in;                               /* read by this client */
    uint64_t all_calls, all_bytes_out, all_bytes_in; /* of all the clients it has had */
    uint32_t clients, handles;                       /* now */
};

int amph_fwd_server_stats(struct amph_fwd_client *client, uint32_t server,
                          struct amph_fwd_stats *stats_p);

/* This client's number (its rank for compute processes) and its servers in order. */
uint32_t amph_fwd_client_number(const struct amph_fwd_client *client);
size_t amph_fwd_client_servers(const struct amph_fwd_client *client, const uint32_t **servers_p);

/* For the interposition: what this thread does from now on is added to *sum, and the client prints
 * no lines of its own; NULL: until here. */
void amph_fwd_trace_frame(struct amph_fwd_trace_sum *sum);

/* ---- layers ---- */

struct amph_layer;

/* One caught call on its way through the layers.  client NULL: not to be forwarded. */
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
    AMPH_LAYER_SHARE, /* a descriptor is about to go to another process in a message */
    AMPH_LAYER_EXIT
};

/* A layer: does the call or passes it on with amph_layer_pass(self->next, call), and gives back 0
 * or an errno value. */
struct amph_layer {
    const char *name;
    /* order in the list, least first: trace 10, stage 20, cache 30, forward 40, local 50 */
    int rank;
    int (*call)(const struct amph_layer *self, struct amph_fwd_call *call);
    void (*event)(const struct amph_layer *self, enum amph_layer_event event); /* or NULL */
    const struct amph_layer *next; /* set by amph_layer_add */
};

/* Puts a layer into the process's list; before the first call, by one thread.  `forward` is in it
 * from the start. */
void amph_layer_add(struct amph_layer *layer);
/* Hands a call to the first layer that is in use (the generated stubs do this), and to the next
 * one. */
int amph_layer_enter(struct amph_fwd_call *call);
/* layer NULL: ENOSYS */
int amph_layer_pass(const struct amph_layer *layer, struct amph_fwd_call *call);
void amph_layer_event(enum amph_layer_event event);

#endif
