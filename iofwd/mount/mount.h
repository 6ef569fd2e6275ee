/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: a prefix of the I/O servers as a file system (FUSE), for programs that the preload
 * library does not reach.  Types and functions that the program's files share.
 *
 * Layer: iofwd.
 * Thread rule: any thread of the FUSE session.  The tables of nodes and handles are guarded by one
 * lock, which is never held during a call to a server.
 *
 * File map (the room may include base, boot, iofwd/wire, iofwd/calls and client/client.h):
 *
 *   main.c      command line, start, end
 *   servers.c   address file and prefix; detects the end of the servers
 *   options.c   the words of -o, what each cache mode means, messages
 *   owner.c     new files of other users than this process's
 *   node.c      inodes that the kernel knows: identity, names, handles at the server
 *   name.c      calls on names and attributes
 *   xattr.c     extended attributes
 *   data.c      calls on open files
 *   dir.c       reading directories
 *   lock.c      record locks and flock
 *   flags.c     inode flags
 *   exchange.c  what is read from the kernel and written to it
 *   waiting.c   threads for calls that wait, so that no thread of the session does
 *   abandon.c   answers in the place of threads that a server keeps waiting
 *   mount.h     this file
 *
 * Writable state: struct amph_mount and, of a thread, struct amph_mount_thread below.  The table of
 * nodes (node.c) and the lists of requests (abandon.c) stand alone.
 */
#ifndef AMPH_IOFWD_MOUNT_H
#define AMPH_IOFWD_MOUNT_H

#define FUSE_USE_VERSION 312

#include <fuse_lowlevel.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "base/platform.h"
#include "iofwd/client/client.h"
#include "iofwd/wire/prefix.h"

#define AMPH_MOUNT_IO_BYTES ((size_t)1 << 20) /* largest read or write of the kernel */
#define AMPH_MOUNT_THREADS 32       /* of the session that stay; the client has 64 requests */
#define AMPH_MOUNT_THREADS_MAX 1024 /* while a server keeps them waiting */
#define AMPH_MOUNT_WAITERS 24       /* lock requests that wait at the servers */
#define AMPH_MOUNT_START_S 10       /* the start may take */

/* What the kernel may cache. */
enum amph_mount_cache {
    AMPH_MOUNT_CACHE_NONE,  /* nothing */
    AMPH_MOUNT_CACHE_OPEN,  /* close-to-open */
    AMPH_MOUNT_CACHE_ALWAYS /* everything: no other program changes the files */
};

struct amph_mount_options {
    const char *mountpoint;   /* or "/dev/fd/N": mounted already, N is its /dev/fuse */
    const char *address_file; /* NULL: the default */
    const char *prefix;       /* NULL: see amph_mount_servers_open */
    enum amph_mount_cache cache;
    bool ro, allow_other, clone_fd, foreground;
    int ready_fd;  /* gets one byte when the mount can be used; -1: none */
    int owner;     /* process of iofwd-run -mount whose standard error this process has; 0: none */
    double attr_s; /* how long names and attributes are cached; below 0: by the cache mode */
    unsigned max_read;
    char kernel[1024]; /* the words of -o for libfuse, each preceded by a comma */
};

/* The state of the process. */
struct amph_mount {
    struct amph_mount_options o;
    struct amph_fwd_client *cl;
    struct fuse_session *session;
    char prefix[PATH_MAX];
    char address_file[PATH_MAX];
    double timeout_s; /* of names and attributes */

    /* main.c */
    char mountpoint[PATH_MAX];
    char mount_error[512]; /* the first line that libfuse printed about a failed mount */
    struct fuse_lowlevel_ops ops;
    struct {
        pthread_mutex_t lock;
        pthread_cond_t changed;
        bool ready;
    } start;

    /* exchange.c: FUSE_HANDLE_KILLPRIV_V2 */
    bool killpriv_offered; /* by the kernel */
    _Atomic bool init_answered;

    /* lock.c: lock requests that wait at the servers now */
    _Atomic unsigned lock_waits;
    /* lock.c: ends of open files that have been read (exchange.c) and not been carried out (data.c); threads that wait
     * for them */
    struct {
        _Atomic unsigned begun, awaited;
        pthread_mutex_t lock;
        pthread_cond_t ended;
    } releases;

    /* servers.c: the prefixes that are served, and the connections that end with the servers */
    struct amph_fwd_prefixes served;
    struct {
        struct amph_fwd_notifier notifier[AMPH_FWD_PARTS_MAX];
        struct pollfd fd[AMPH_FWD_PARTS_MAX + 1]; /* the last one: the owner, or -1 */
        nfds_t n;
    } watched;
};

extern struct amph_mount amph_mount;

struct amph_mount_waiting;
struct amph_mount_request;

/* The state of a thread. */
struct amph_mount_thread {
    char *buf; /* data.c: the data of reads */
    size_t buf_bytes;
    struct amph_mount_waiting *waiting; /* waiting.c: the call that the thread executes, or NULL */
    struct amph_mount_request *request; /* abandon.c */
    bool ends_rights; /* exchange.c: its request ends set-user-id and set-group-id of its file */
};

extern _Thread_local struct amph_mount_thread amph_mount_thread;

/* ---- options.c ---- */

/* Prints one line on standard error. */
void amph_mount_say(const char *fmt, ...) AMPH_PRINTF(1, 2);
/* Parses the words of one -o. false: an error was printed. */
bool amph_mount_options_take(struct amph_mount_options *o, const char *words);
/* Returns the cache time-out that the options specify. */
double amph_mount_options_timeout(const struct amph_mount_options *o);

/* ---- servers.c ---- */

/* Finds the address file and the prefix and opens the client.  false: a sentence was printed. */
bool amph_mount_servers_open(void);
/* Starts the thread that ends the session when the servers' job has ended. */
bool amph_mount_servers_watch(void);

/* ---- abandon.c ---- */

/* Which request a thread executes.  Numbers are the kernel's; 0: none. */
struct amph_mount_request {
    struct amph_mount_request *next;
    _Atomic uint64_t unique;
    _Atomic pid_t tid; /* whose request it is */
    _Atomic int fd;    /* to which the reply is written */
};

/* Starts the thread that looks for killed programs.  0 or an errno value. */
int amph_mount_abandon_begin(void);
/* Returns a new record of a thread, or NULL. */
struct amph_mount_request *amph_mount_request_make(void);
/* Returns the record of this thread, which is freed with it; r: becomes it, if the thread has none;
 * NULL: a new one.  NULL if there is no memory. */
struct amph_mount_request *amph_mount_request_of_thread(struct amph_mount_request *r);
void amph_mount_request_begin(struct amph_mount_request *r, uint64_t unique, pid_t tid, int fd);
/* The thread has executed its request and will use nothing of it any more. */
void amph_mount_request_end(struct amph_mount_request *r);
/* Another thread, whose record is `to`, executes the request from now on. */
void amph_mount_request_hand_over(struct amph_mount_request *from, struct amph_mount_request *to);
void amph_mount_request_free(struct amph_mount_request *r);

/* The program that waits for the request may be ended before it is answered: if it is, the request is
 * abandoned. */
void amph_mount_suspect(uint64_t unique);

/* The end of something that an abandoned request may still use; part of its record. */
struct amph_mount_put_off {
    struct amph_mount_put_off *next;
    void (*run)(struct amph_mount_put_off *p);
};

/* Is an abandoned request still executed?  What it uses must not be freed then. */
bool amph_mount_any_abandoned(void);
/* Has p->run called, which may free p, once no abandoned request is left.  false: none is left now,
 * and nothing was put off. */
bool amph_mount_put_off(struct amph_mount_put_off *p);

/* ---- node.c ---- */

/* An open file at a server, closed with its last reference. */
struct amph_mount_handle {
    struct amph_fwd_file file;
    _Atomic unsigned refs;
};

/* Takes over file.  NULL: no memory, and file was closed. */
struct amph_mount_handle *amph_mount_handle_make(const struct amph_fwd_file *file);
struct amph_mount_handle *amph_mount_handle_get(struct amph_mount_handle *handle);
void amph_mount_handle_put(struct amph_mount_handle *handle);

struct amph_mount_owner; /* lock.c */

/* One inode that the kernel knows. */
struct amph_mount_node {
    struct amph_mount_node *next; /* of its hash chain */
    dev_t dev;
    ino_t ino;
    mode_t type; /* S_IFMT bits */
    uint64_t lookups;
    unsigned refs; /* children that name it as their parent */
    /* where it was last found; NULL: the root */
    struct amph_mount_node *parent;
    char *name;
    struct amph_mount_handle *handle;      /* O_PATH, or NULL */
    struct amph_mount_node *newer, *older; /* of those with a handle, by use */
    struct amph_mount_open *open;          /* its open files */
    /* as last reported to the kernel */
    bool reported, no_capability;
    bool missed; /* an open by its name has found another file */
    struct timespec mtime, ctime;
    off_t size;
    struct amph_mount_owner *owners; /* of record locks */
};

/* An open file of the kernel. */
struct amph_mount_open {
    struct amph_mount_open *next; /* of its node */
    struct amph_mount_node *node;
    struct amph_mount_handle *handle;
    struct amph_mount_handle *unappending; /* without O_APPEND, for pages of mappings; or NULL */
    bool append;
    struct amph_mount_put_off put_off; /* its end */
};

/* How to name a node in a request to its server: directory (or the file itself) and name ("":
 * itself). */
struct amph_mount_at {
    struct amph_mount_handle *dir;
    char name[NAME_MAX + 1];
};

/* Opens the root.  0 or an errno value. */
int amph_mount_node_begin(const char *prefix);
struct amph_mount_node *amph_mount_node_of(fuse_ino_t ino);
fuse_ino_t amph_mount_node_number(const struct amph_mount_node *node);
/* Names the node, without a request to a server if possible. 0 or an errno value (ESTALE). */
int amph_mount_node_at(struct amph_mount_node *node, struct amph_mount_at *at);
/* For an open: names the node by its name, so that the file is opened that has the name now.  If
 * an open by the name has found another file, and the kernel has looked the name up again and
 * still means this node, names it by its handle: the path is a link of /proc to an open file
 * whose name was removed. */
int amph_mount_node_at_name(struct amph_mount_node *node, struct amph_mount_at *at);
void amph_mount_node_missed(struct amph_mount_node *node);
void amph_mount_at_put(struct amph_mount_at *at);
/* Returns a handle of the node itself, which stays valid if others rename the file.  The caller
 * puts the handle. 0 or an errno value. */
int amph_mount_node_pin(struct amph_mount_node *node, struct amph_mount_handle **handle_p);
/* Asks for the node's attributes and records them. */
int amph_mount_node_stat(struct amph_mount_node *node, struct stat *st_p);
/* Does st describe this node? */
bool amph_mount_node_is(const struct amph_mount_node *node, const struct stat *st);
/* Records attributes that are reported to the kernel, and stores the mount's inode number in st.
 * Returns true if the same attributes were reported before. */
bool amph_mount_node_report(struct amph_mount_node *node, struct stat *st);
/* Finds or makes the node of the file that was found as name in parent, and counts a lookup.
 * Fills e. */
int amph_mount_node_found(struct amph_mount_node *parent, const char *name, const struct stat *st,
                          struct fuse_entry_param *e);
/* Records where a node is after a rename, if it is known. */
void amph_mount_node_moved(struct amph_mount_node *parent, const char *name, const struct stat *st);
void amph_mount_node_forget(struct amph_mount_node *node, uint64_t lookups);
/* The same for the kernel, which does not know of abandoned requests. */
void amph_mount_node_forget_later(struct amph_mount_node *node, uint64_t lookups);
/* Adds an open file to its node: its handle survives every rename. */
void amph_mount_node_add_open(struct amph_mount_open *open);
void amph_mount_node_remove_open(struct amph_mount_open *open);
/* The lock of the tables, for lock.c's owners. */
void amph_mount_lock(void);
void amph_mount_unlock(void);

/* ---- the calls ---- */

void amph_mount_name_calls(struct fuse_lowlevel_ops *ops);
void amph_mount_xattr_calls(struct fuse_lowlevel_ops *ops);
void amph_mount_data_calls(struct fuse_lowlevel_ops *ops);
void amph_mount_dir_calls(struct fuse_lowlevel_ops *ops);
void amph_mount_lock_calls(struct fuse_lowlevel_ops *ops);
void amph_mount_flag_calls(struct fuse_lowlevel_ops *ops);

/* lock.c: a descriptor of the process `owner` has been closed: releases its record locks on the
 * node. */
void amph_mount_lock_drop(struct amph_mount_node *node, uint64_t owner);
/* The last descriptor of an open file has been closed: releases the locks that belong to it. */
void amph_mount_lock_release(const struct amph_mount_open *open);
/* Such an end, of which begun was counted when it was read, has been carried out. */
void amph_mount_release_ended(void);

/* ---- owner.c ---- */

/* Is the request one of another user or group than the servers act for? */
bool amph_mount_is_of_other(fuse_req_t req);
/* Gives the file, which the request has made in dir, to the user of the request. */
void amph_mount_give_file(fuse_req_t req, const struct amph_fwd_file *dir,
                          const struct amph_fwd_file *file, mode_t mode);
/* The same of the name, which is of this type (S_IFMT). */
void amph_mount_give_name(fuse_req_t req, const struct amph_fwd_file *dir, const char *name,
                          mode_t type);
/* The thread's request is about to change the file's data: takes set-user-id and set-group-id away, if the kernel
 * leaves it to this process. */
void amph_mount_end_rights(fuse_ino_t ino, const struct amph_fwd_file *file);

/* ---- exchange.c ---- */

/* Called after the mount and before the first request is read. 0 or a negative errno. */
int amph_mount_exchange_begin(struct fuse_session *session);

/* ---- waiting.c ---- */

/* A call that waits; embedded in the caller's record. */
struct amph_mount_waiting {
    fuse_req_t req;
    void (*run)(struct amph_mount_waiting *w); /* replies and frees */
    struct amph_mount_request *request;        /* of the thread, until that has begun */
    _Atomic bool interrupted;
};

/* Runs w->run in a thread of its own.  interruptible: an interrupt of the request ends calls of
 * that thread with EINTR.  Returns 0 or an errno value; then nothing was started. */
int amph_mount_waiting_start(struct amph_mount_waiting *w, bool interruptible);
/* Called before the reply: from then on no interrupts arrive. */
void amph_mount_waiting_end(struct amph_mount_waiting *w);
void amph_mount_waiting_begin(void);

#endif
