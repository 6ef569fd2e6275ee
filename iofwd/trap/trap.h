/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: forwards the file calls of a program that no library reaches (static programs, Go) and
 * that may neither mount nor have namespaces.  A seccomp filter reports its calls on paths, and those
 * whose descriptors may be forwarded files, to this process, the supervisor, which is an ancestor of
 * the program and a client of the servers.  The supervisor carries a call out, or lets the kernel go
 * on with it.
 *
 * A forwarded file is an open placeholder in the program: a memory file of no use, whose inode the
 * supervisor knows again.  So dup, fork, exec, close-on-exec and messages with descriptors are the
 * kernel's work, and an inotify watch reports the last close.  poll, select and epoll find a regular
 * file.  Where the program maps the file, the memory of another placeholder holds its data.  What reads
 * or writes a placeholder itself, as a process to which a message brings it, gets an error: it is open
 * for writing only, and sealed.
 *
 * CONTINUE of a local call is no decision about rights: a program may change a path between the look
 * of the supervisor and that of the kernel, and then reaches what it may reach anyway.  What it may
 * do at the servers, their exports say.
 *
 * Layer: iofwd.
 * Thread rule: any thread of the supervisor, except where said.  Each table has a lock of its own,
 * which is never held during a call to a server.
 *
 * File map (the room may include base, boot, iofwd/wire, iofwd/calls and client/client.h):
 *
 *   main.c        command line
 *   run.h         the processes of a run: front, supervisor, program; run.c: what they share
 *   front.c       the front, which ends as the program ends
 *   supervisor.c  the supervisor's start, and its wait for the program's processes
 *   program.c     the program's process until it executes the program
 *   check.c       is -trap possible on this host?
 *   filter.c      the seccomp filter, made from the table of calls
 *   receive.c     threads that receive calls, carry them out and reply
 *   table.c       the rows of iofwd/calls/trapped.def
 *   process.c     processes of the program; process.h: their record
 *   fs.c          working directories and umasks, which threads and some processes share
 *   number.c      descriptors of the program, and the numbers of forwarded files
 *   memory.c      copies between the program's memory and ours
 *   file.c        open files and their placeholders
 *   path.c        where a path leads: to the kernel, to a server, or to a local file by another name
 *   local.c       calls that leave a forwarded working directory for a local file
 *   open.c        open and its relatives
 *   names.c       calls that make, remove and read names
 *   attr.c        what a path's file is, and changes of it
 *   chdir.c       calls on the working directory
 *   xattr.c       extended attributes
 *   data.c        reading and writing open files
 *   fd.c          other calls on open files
 *   control.c     fcntl and ioctl
 *   dup.c         copies of descriptors, and their end
 *   copy.c        calls on two open files
 *   socket.c      sockets below a prefix, which are refused
 *   lock.c        record locks and flock
 *   map.c         mappings
 *   wait.c        calls that wait: the signals that end them
 *   refuse.c      calls that are refused below a prefix
 *   trap.h        this file
 *
 * Writable state of the process: struct amph_trap below; the tables and locks of process.c, fs.c, file.c,
 * lock.c, number.c and wait.c; the signals that front.c passes on; the count of idle threads (receive.c).
 * Of a thread: buffers (receive.c, data.c), the call that waits (wait.c), and whether the thread has
 * working directories of its own (local.c).  tests/tree/globals.txt lists all.
 */
#ifndef AMPH_IOFWD_TRAP_H
#define AMPH_IOFWD_TRAP_H

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "base/platform.h"
#include "iofwd/client/client.h"
#include "iofwd/wire/prefix.h"

#define AMPH_TRAP_START_S 10               /* the start may take */
#define AMPH_TRAP_BUFFER ((size_t)1 << 20) /* bytes of a thread's buffer, for a piece of a call */
#define AMPH_TRAP_STD 3                    /* descriptors below are reported in every run */

/* What a handler returns besides an errno value, or 0 with the result in c->value. */
enum {
    AMPH_TRAP_CONTINUE = -1, /* the kernel carries the call out */
    AMPH_TRAP_SENT = -2,     /* the reply has been given */
    AMPH_TRAP_GONE = -3      /* the caller has ended, or was interrupted by a fatal signal */
};

struct amph_trap_process;
struct amph_trap_file;

/* One call of the program. */
struct amph_trap_call {
    struct seccomp_notif n;
    struct amph_trap_process *process; /* see amph_trap_process_of */
    int64_t value;
    /* the error is not a server's, although one may have been asked where a path leads */
    bool refused;
    struct {
        int dir;
        uint64_t path;
    } looked[2]; /* the paths that amph_trap_look has looked at first */
    unsigned nlooked;
};

#define AMPH_TRAP_ARG(c, i) ((c)->n.data.args[i])
#define AMPH_TRAP_INT(c, i) ((int)(c)->n.data.args[i])

/* A row of trapped.def. */
struct amph_trap_row {
    const char *name;
    unsigned char descriptors; /* a bit for each argument that is one; 0: every call is reported */
    int (*handle)(struct amph_trap_call *c);
};

struct amph_trap {
    struct amph_fwd_client *cl;
    struct amph_fwd_prefixes prefixes;
    int listener;
    int low_fds; /* descriptors below are reported, and dup2 makes forwarded files of them */
    int first_fd, last_fd; /* of forwarded files in the program; last_fd carries directories */
    _Atomic pid_t program;
    _Atomic bool low_used;    /* a forwarded file has been copied to one of the low descriptors */
    _Atomic bool limit_said;  /* that the program has lowered its limit of descriptors too far */
    unsigned cwd_changes;     /* fs.c: number of the last change of a working directory */
    _Atomic bool cwd_used;    /* some process's working directory is ours to know */
    _Atomic unsigned mapping; /* processes with threads whose mmap may not be over (map.c) */
};

extern struct amph_trap amph_trap;

/* Prints one line on standard error. */
void amph_trap_say(const char *fmt, ...) AMPH_PRINTF(1, 2);

/* ---- table.c ---- */

#define AMPH_TRAP_NUMBERS 600
extern const struct amph_trap_row amph_trap_rows[AMPH_TRAP_NUMBERS];

/* ---- filter.c ---- */

/* Writes the program of the filter, which reports calls on descriptors below low_fds and from first_fd to
 * last_fd.  Returns its length in instructions, 0 if room does not suffice. */
size_t amph_trap_filter(struct sock_filter *out, size_t room, int low_fds, int first_fd,
                        int last_fd);
/* In the program's process: makes the kernel report calls.  Returns the listener, or -1 with errno. */
int amph_trap_filter_install(int low_fds, int first_fd, int last_fd);

/* ---- receive.c ---- */

/* Starts the threads.  0 or an errno value. */
int amph_trap_receive_begin(void);
/* Is the call still waiting for its reply?  If not, what was read of its memory may be another
 * process's. */
bool amph_trap_call_lives(const struct amph_trap_call *c);
/* Replies with a new descriptor in the program: a copy of own_fd, as number (or the lowest free one:
 * -1).  Returns AMPH_TRAP_SENT, AMPH_TRAP_GONE or an errno value. */
int amph_trap_reply_fd(struct amph_trap_call *c, int own_fd, int number, bool cloexec);
/* Gives the program a descriptor without replying.  0 or an errno value. */
int amph_trap_give_fd(struct amph_trap_call *c, int own_fd, int number, bool cloexec);
/* The calling thread's buffer of AMPH_TRAP_BUFFER bytes. */
char *amph_trap_buffer(void);

/* ---- process.c ---- */

/* The process of the call; holds a reference until the end of the call.  0, an errno value or
 * AMPH_TRAP_GONE. */
int amph_trap_process_of(struct amph_trap_call *c, struct amph_trap_process **process_p);
/* A copy of a descriptor of the thread's process by its last call, without a look whether the thread is
 * another one's by now.  -1: none. */
int amph_trap_process_likely_fd(struct amph_trap_call *c, int fd);
void amph_trap_process_end(struct amph_trap_call *c);
pid_t amph_trap_process_pid(const struct amph_trap_process *p);
/* Ends what is kept of processes that have ended. */
void amph_trap_process_reap(void);
int amph_trap_process_begin(void);

/* What is said once for each process: some try again for ever. */
enum amph_trap_said {
    AMPH_TRAP_SAID_UNREADABLE = 1,
    AMPH_TRAP_SAID_MAPPING = 2,
    AMPH_TRAP_SAID_SOCKET = 4,
    AMPH_TRAP_SAID_PASSED = 8
};

/* Is this the first time for the process of the call? */
bool amph_trap_first_time(struct amph_trap_call *c, enum amph_trap_said what);

/* May the supervisor do local work in the name of the caller?  It may not if the program has changed
 * its user. */
int amph_trap_same_user(struct amph_trap_call *c);

/* ---- number.c ---- */

/* Copies a descriptor of the process.  -1 with errno. */
int amph_trap_fd_of(struct amph_trap_process *p, int fd);
/* Copies a descriptor of the caller.  0, an errno value (EBADF: it is not open) or AMPH_TRAP_GONE. */
int amph_trap_fd_of_call(struct amph_trap_call *c, int fd, int *own_fd_p);
/* Replies with a copy of own_fd, a placeholder of the file, as descriptor `number`.  Closes own_fd and
 * puts the file. */
int amph_trap_number_give(struct amph_trap_call *c, struct amph_trap_file *file, int own_fd,
                          int number, bool cloexec);
/* The same with a number that it finds, not below min. */
int amph_trap_number_reply(struct amph_trap_call *c, struct amph_trap_file *file, int own_fd,
                           int min, bool cloexec);
/* Waits until no file is open only because a reply that has given it is not over. */
void amph_trap_number_flush(void);
/* A descriptor of the range is about to be closed. */
void amph_trap_number_freed(struct amph_trap_process *p, int fd);

/* ---- fs.c ---- */

/* Working directory and umask, which threads of a process, and some processes, share. */
struct amph_trap_fs {
    _Atomic unsigned refs;
    unsigned changes; /* number of the last change of cwd; no two have the same */
    mode_t umask;
    char *cwd; /* absolute, in place of the kernel's; NULL: the kernel's */
};

/* The working directory, if it is not the kernel's: into out.  Else "" */
int amph_trap_cwd(struct amph_trap_call *c, char out[PATH_MAX]);
/* The same of another process, in its first thread. */
int amph_trap_cwd_of(struct amph_trap_call *c, pid_t pid, char out[PATH_MAX]);
/* Sets it; NULL: it is the kernel's from now on. */
int amph_trap_cwd_set(struct amph_trap_call *c, const char *path);
int amph_trap_umask(struct amph_trap_call *c, mode_t *mask_p);
/* The caller wants a descriptor table of its own.  0, or refused with a sentence: another thread would
 * keep the old one, of which the kernel shows one a process. */
int amph_trap_own_table(struct amph_trap_call *c);
/* Of a directory that the kernel knows: fd, or AT_FDCWD. */
int amph_trap_kernel_dir(struct amph_trap_call *c, int fd, char out[PATH_MAX]);

/* ---- memory.c ---- */

/* Copies between the program's memory and ours.  0, EFAULT, EPERM after a sentence, or
 * AMPH_TRAP_GONE. */
int amph_trap_get(struct amph_trap_call *c, void *to, uint64_t from, size_t len);
int amph_trap_put(struct amph_trap_call *c, uint64_t to, const void *from, size_t len);
/* As much as is there: *n_p bytes. */
int amph_trap_get_some(struct amph_trap_call *c, void *to, uint64_t from, size_t len, size_t *n_p);
/* The kernel forbids a look at the caller: says so, once a process.  EPERM or AMPH_TRAP_GONE. */
int amph_trap_cannot_look(struct amph_trap_call *c);
/* A text with its NUL; ENAMETOOLONG. */
int amph_trap_get_text(struct amph_trap_call *c, char *to, size_t cap, uint64_t from);

/* ---- file.c ---- */

/* An open file at a server, with placeholders in the program. */
struct amph_trap_file {
    _Atomic unsigned refs;
    struct amph_fwd_file file; /* no parts: it carries a working directory */
    char *name; /* absolute, at the open; "": none.  Of a carried directory: NULL, the kernel's */
    unsigned changes;
    int flags; /* of open */
    _Atomic bool
        direct; /* O_DIRECT, which F_GETFL shows; the data goes through buffers all the same */
    /* Who was the last to call close for it, by which descriptor: thread << 32 | descriptor.  0: nobody, or
     * a call has used it since. */
    _Atomic uint64_t closer;
    /* of the file at its server, where locks have asked for it */
    _Atomic bool has_identity;
    dev_t dev;
    ino_t number;
};

int amph_trap_file_begin(void);
/* Makes the record and the placeholder; takes over file, and closes it on errors.  *own_fd_p is for
 * the program, and the caller closes it. */
int amph_trap_file_make(const struct amph_fwd_file *file, const char *name, int flags,
                        struct amph_trap_file **file_p, int *own_fd_p);
/* Makes a second placeholder, whose pages the program may read and the supervisor fill.  *own_fd_p as
 * above. */
int amph_trap_file_readable(struct amph_trap_file *file, int *own_fd_p);
/* The forwarded file that is descriptor fd of the caller: *file_p with a reference, or NULL.
 * own_fd_p, if not NULL: a copy of the descriptor, or -1.  0, an errno value (EBADF: it is not open)
 * or AMPH_TRAP_GONE. */
int amph_trap_file_of(struct amph_trap_call *c, int fd, struct amph_trap_file **file_p,
                      int *own_fd_p);
/* Descriptor fd of the caller has a number whose data calls are not reported.  If it is a forwarded file,
 * which a message has brought there: EBADF after a sentence, once a process.  Else 0. */
int amph_trap_file_passed(struct amph_trap_call *c, int fd);
/* The same of a descriptor of the supervisor. */
struct amph_trap_file *amph_trap_file_of_own(int own_fd);
void amph_trap_file_put(struct amph_trap_file *file);
/* Closes the files at the servers whose last descriptor has been closed by now. */
void amph_trap_file_reap(void);

/* For calls on descriptor argument 0: its forwarded file.  False: *ret_p is the result. */
bool amph_trap_has_file(struct amph_trap_call *c, struct amph_trap_file **file_p, int *ret_p);
/* Ends the use of the file and returns ret. */
int amph_trap_done(struct amph_trap_file *file, int ret);

/* ---- path.c ---- */

enum amph_trap_where {
    AMPH_TRAP_LOCAL,    /* for the kernel as it is */
    AMPH_TRAP_RENAMED,  /* local, but not what the kernel would find: absolute in path */
    AMPH_TRAP_FORWARDED /* forwarded */
};

struct amph_trap_path {
    enum amph_trap_where where;
    struct amph_trap_file *dir; /* with a reference, or NULL */
    const char *path;           /* absolute, or relative to dir ("": dir itself) */
    char raw[PATH_MAX];         /* as the program gave it */
    char buf[PATH_MAX + 2];
};

/* With AT_SYMLINK_NOFOLLOW: a name of /proc for a descriptor is its file nevertheless. */
#define AMPH_TRAP_MAGIC_LINK 0x10000000

/* Looks where (dir, path) leads, dir as for openat.  flags: AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW and the
 * one above; others mean nothing.  The caller ends the result, also after errors. */
int amph_trap_look(struct amph_trap_call *c, int dir, uint64_t path, int flags,
                   struct amph_trap_path *p);
/* The same of a path that is not in the caller's memory as such. */
int amph_trap_look_text(struct amph_trap_call *c, int dir, const char *text, int flags,
                        struct amph_trap_path *p);
void amph_trap_look_end(struct amph_trap_path *p);
/* If the path names a working directory (/proc/PID/cwd) that is not the kernel's: into out.  Else "" */
int amph_trap_cwd_named(struct amph_trap_call *c, const char *path, char out[PATH_MAX]);
/* The same of the path in argument `at`.  Returns true if it is forwarded; else the result of the call
 * is in *ret_p.  renamed: can the supervisor make the call itself? */
bool amph_trap_leads(struct amph_trap_call *c, int dir, int at, int flags, bool renamed,
                     struct amph_trap_path *p, int *ret_p);
/* The absolute path. */
int amph_trap_absolute(struct amph_trap_call *c, const struct amph_trap_path *p, int dir,
                       char out[PATH_MAX]);
/* The path of a local file as the supervisor sees it. */
#define AMPH_TRAP_SEEN_MAX (PATH_MAX + 64)
void amph_trap_seen(struct amph_trap_call *c, const struct amph_trap_path *p, int dir,
                    char seen[AMPH_TRAP_SEEN_MAX]);
/* Says that the call, by a path that leaves the forwarded working directory, is refused. */
void amph_trap_say_local(struct amph_trap_call *c, const struct amph_trap_path *p);
/* Arguments of the client's calls. */
#define AMPH_TRAP_AT(p) ((p)->dir ? &(p)->dir->file : NULL), (p)->path

/* ---- local.c ---- */

/* Opens a renamed path and replies. */
int amph_trap_local_open(struct amph_trap_call *c, const char *path, int flags, mode_t mode);
/* Carries out the call with absolute paths in place of arguments at and (if not below 0) at2, whose
 * directories are the arguments before them if `dirs`.  The other arguments must be numbers. */
int amph_trap_local_path(struct amph_trap_call *c, const char *path, int at, const char *path2,
                         int at2);

/* ---- dup.c ---- */

/* fcntl(fd, F_DUPFD, min) of argument 0. */
int amph_trap_copy_above(struct amph_trap_call *c, int min, bool cloexec);

/* ---- map.c ---- */

/* A call of a thread is reported: mappings that it made before exist by now. */
void amph_trap_map_over(struct amph_trap_call *c);
/* Descriptor fd of the process (below 0: all of them) is about to be closed. */
void amph_trap_map_closed(struct amph_trap_process *p, int fd);

/* ---- lock.c ---- */

int amph_trap_lock(struct amph_trap_call *c, struct amph_trap_file *file, int command,
                   uint64_t where);
int amph_trap_flock(struct amph_trap_call *c, struct amph_trap_file *file, int op);
/* The process has closed a descriptor of the file, or (NULL) has ended. */
void amph_trap_lock_drop(struct amph_trap_file *file, pid_t pid);

/* ---- wait.c ---- */

void amph_trap_wait_init(void);
enum amph_trap_wait_for {
    AMPH_TRAP_WAIT_OPEN,
    AMPH_TRAP_WAIT_READY, /* it should not wait, unless another thread is faster */
    AMPH_TRAP_WAIT_USE
};

/* Makes the attempt, which may wait at a server, and again if it must give up its turn.  Returns its
 * result.  A signal of the program ends the wait: what the call returns then, or AMPH_TRAP_GONE. */
int amph_trap_wait(struct amph_trap_call *c, enum amph_trap_wait_for what,
                   int (*attempt)(void *arg), void *arg);

/* ---- data.c ---- */

/* Sends the caller SIGPIPE, as the kernel does for a pipe without a reader. */
void amph_trap_sigpipe(struct amph_trap_call *c);

/* ---- handlers, named in trapped.def ---- */

#define AMPH_TRAP_ROW(name, descriptors, handler) int amph_trap_##handler(struct amph_trap_call *c);
#include "iofwd/calls/trapped.def"
#undef AMPH_TRAP_ROW

#endif
