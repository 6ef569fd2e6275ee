/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that execute caught calls (names.def names one for each).  Each has the parameters
 * and the errors of the C library's function of that name, and also serves a call that turns out to
 * be local.
 *
 * Layer: iofwd (preload).  Thread rule: as the C library's functions.
 */
#ifndef AMPH_IOFWD_TARGETS_H
#define AMPH_IOFWD_TARGETS_H

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/settings/env_defs.h"
#include "iofwd/interpose/attach/client.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/interpose/libc/time64.h"
#include "iofwd/interpose/libc/libc_real.h"
#include "iofwd/interpose/entry/refuse.h"
#include "iofwd/interpose/entry/syscall_numbers.h"
#include "iofwd/interpose/process/die.h"

extern char **environ;

typedef int (*amph_ip_order_fn)(const struct dirent **, const struct dirent **);

static inline bool amph_ip_open_takes_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* Checks the length of a fortified call.  If the buffer is too small, the program ends as in the C
 * library. */
static inline size_t amph_ip_fits(size_t len, size_t cap)
{
    if (AMPH_UNLIKELY(len > cap))
        amph_ip_die_overflow(len, cap);

    return len;
}

/* If the parameters of amph_do_NAME are those of a row in names.def, its prototype is generated. */
#include "iofwd/calls/implementations.h"

/* fd.c */
int amph_ip_note_local(int fd); /* a descriptor that the C library has just opened */
int amph_ip_own(int fd);        /* one that Amphora has opened for itself */
/* Returns err, of a call that has no descriptor for a forwarded file.  Says so once, if Amphora's own are a large part
 * of those that the process may have. */
int amph_ip_report_few(int err);
int amph_ip_own_pair(int result, int fds[2]);
/* Copies a directory's descriptor to a high number, or to `old` if that is not 0, in all tables; -1: no descriptors
 * are left. */
int amph_ip_copy_cwd(int fd, int old);
/* moves fd to amph_ip_cwd()->fd; false: no descriptors are left */
bool amph_ip_hold_cwd(int fd);

/* Opens a directory that is to become the working directory (fd/fd.c).  The program must not see the descriptor. */
int amph_ip_open_directory(const char *path);
/* before exec: makes the kernel's descriptor the working directory, also if a task with another
 * descriptor table has changed it */
void amph_ip_cwd_to_kernel(void);
int amph_ip_close(enum amph_client_route way, int fd);
int amph_ip_close_range(enum amph_client_route way, unsigned first, unsigned last, int flags);
int amph_ip_dup3(enum amph_client_route way, int from, int to, int flags);
/* fd: a kernel copy of a forwarded descriptor, or -1; takes over of's reference */
int amph_ip_enter_copy(int fd, struct amph_fd_file *of);

/* syscall.c: the name of a system call that numbers.def has, or NULL; the function of the C library
 * with the same arguments, of which it has the first *args_p, or AMPH_IP_NAME_syscall; and the kind of
 * its argument i: without such a function AMPH_FWD_SHOW_FD, _DIRFD, _PATH, or _HEX if the row does not
 * say. */
const char *amph_ip_number_name(long number);
int amph_ip_number_function(long number, unsigned *args_p);
unsigned amph_ip_number_word(long number, unsigned i);

/* socket.c */
/* Returns whether a socket address, a message, or one of several messages contains a name below a
 * prefix, or descriptors. */
bool amph_ip_socket_is_forwarded(const struct sockaddr *addr, socklen_t len);
bool amph_ip_message_is_forwarded(const struct msghdr *msg);
bool amph_ip_messages_are_forwarded(const struct mmsghdr *msgs, unsigned count);
/* Replaces a socket's name that the kernel has returned, if it is one of the folder's, by the name
 * that the program knows.  room: bytes at addr; *len before the call. */
int amph_ip_socket_named(int result, struct sockaddr *addr, socklen_t room, socklen_t *len);
socklen_t amph_ip_socket_name_room(const socklen_t *len);

/* cancel.c */
/* A new thread has this id; forgets a cancellation that was recorded before `until`
 * (amph_ip_cancels_now), because it was meant for an earlier thread. */
unsigned amph_ip_cancels_now(void);
void amph_ip_cancel_forget(pthread_t thread, unsigned until);

/* fd/file_size_limit.c */
int amph_ip_limits_changed(int result); /* reads the limits again; returns result */

/* io.c */
off_t amph_ip_not_negative(off_t off); /* preadv refuses the offset -1, which preadv2 accepts */
int amph_do_vdprintf(int fd, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
int amph_do_posix_fadvise(int fd, off_t len, int advice);
void *amph_ip_borrow(size_t len); /* zeroed memory for the length of one call, or NULL */
void amph_ip_give_back(void *memory, size_t len);
/* The same for calls that programs repeat: the memory is kept for the next one, so its content is undefined. */
void *amph_ip_scratch_take(size_t len);
void amph_ip_scratch_return(void *memory, size_t len);

/* fd/poll.c */
/* Returns whether the array contains a forwarded file whose readiness only its server knows.  If
 * not, the call is left to the kernel. */
bool amph_ip_poll_waits(const struct pollfd *p, nfds_t n);
bool amph_ip_select_waits(int n, fd_set *reads, fd_set *writes, fd_set *excepts);

/* epoll.c */
/* Filters the events of a set without forwarded files; false: none of them is for the program. */
bool amph_ip_epoll_filter(struct epoll_event *out, int n, int *n_p);
/* returns whether this thread is in the kernel, waiting on a set with forwarded files */
bool amph_ip_epoll_within(void);
void amph_ip_epoll_closed(int fd); /* an epoll set of the program that was marked FDTAB_EPOLL */
/* to is a copy of such a set's descriptor (or -1 with errno); returns to */
int amph_ip_epoll_copied(int from, int to);
void amph_ip_epoll_fork_lock(bool take);
/* A new table has the sets of another one (false: too many); a table has no task any more; in a
 * forked child only this table is left. */
bool amph_ip_epoll_table_copied(const struct amph_fdtab *from, const struct amph_fdtab *to);
void amph_ip_epoll_table_left(const struct amph_fdtab *table);
void amph_ip_epoll_tables_forked(const struct amph_fdtab *table);

/* aio.c: a task no longer uses the table */
void amph_ip_aio_table_left(const struct amph_fdtab *table);
void amph_ip_aio_forked(void); /* in the child */

/* path/names.c */
int amph_do_utimes(int dir, const char *path, const struct timeval *times, int flags);

/* library.c */
bool amph_ip_is_forwarded(const char *path);
void amph_ip_library_path_keep(const char *list); /* LD_LIBRARY_PATH at the program's start */

/* lock.c */
int amph_ip_record_lock(struct amph_fd_file *of, int command, struct flock *lock);
/* a descriptor of the file is closed: writes back its maps and drops the process's record locks on
 * it */
void amph_ip_file_left(struct amph_fd_file *of);
void amph_ip_forget_locks(void); /* in a forked child */
bool amph_ip_has_locks(void);    /* has this process taken a record lock? */
/* The setting that passes record locks over exec: number of the table, and descriptors of the files
 * of which exec closes other copies. */
#define AMPH_IP_LOCKS_NAME AMPH_PRIVATE_LOCKS
void amph_ip_locks_tell(char *text, size_t cap);
bool amph_ip_locks_came_along(const char *passed); /* had this process taken one before the exec? */
/* those on files of which exec has closed a descriptor */
void amph_ip_locks_drop_closed(const char *passed);

/* map.c */
int amph_ip_maps_flush(const struct amph_fd_file *of); /* NULL: of all files; 0 or an errno value */
void amph_ip_maps_resize(void);                        /* a file may have been cut by its name */
void amph_ip_maps_fork_lock(bool take);
/* in a child; recounted: amph_fdtab_recount was called */
void amph_ip_maps_forked(bool recounted);
/* The same, with the way (kernel.h) that the part of the call takes that is left to this host. */
void *amph_ip_mmap(enum amph_client_route way, void *at, size_t len, int prot, int flags, int fd,
                   off_t off);
/* Is there a shared map of a forwarded file in [at, at + len)?  path: the file's, or "". */
bool amph_ip_map_path(const void *at, size_t len, char path[PATH_MAX]);
int amph_ip_munmap(enum amph_client_route way, void *at, size_t len);
int amph_ip_msync(enum amph_client_route way, void *at, size_t len, int flags);
int amph_ip_mprotect(enum amph_client_route way, void *at, size_t len, int prot);
void *amph_ip_mremap(enum amph_client_route way, void *old, size_t old_len, size_t len, int flags,
                     void *at);

/* xattr.c */
ssize_t amph_do_getxattr(const char *path, const char *name, void *buf, size_t cap, int flags);
ssize_t amph_do_listxattr(const char *path, char *buf, size_t cap, int flags);
int amph_do_setxattr(const char *path, const char *name, const void *value, size_t len, int how,
                     int flags);
int amph_do_removexattr(const char *path, const char *name, int flags);

/* cwd.c */
int amph_ip_chdir(enum amph_client_route way, const char *path);
int amph_ip_fchdir(enum amph_client_route way, int fd);
mode_t amph_ip_umask(enum amph_client_route way, mode_t mask);

/* walk.c */
int amph_do_nftw(const char *path, int (*fn)(const char *, const struct stat *, int, struct FTW *),
                 int flags);
int amph_do_ftw(const char *path, int (*fn)(const char *, const struct stat *, int));

/* fts.c */
int amph_do_fts_set(FTSENT *entry, int option);

/* stream.c */
/* fd has become forwarded: converts the C library's streams that use it */
void amph_ip_stream_landed(int fd);
FILE *amph_ip_note_stream(FILE *f); /* a stream that the C library has just opened */
void amph_do_abort(void) AMPH_NORETURN;
struct amph_ip_charset;
int amph_ip_mode_flags(const char *mode); /* open's flags for fopen's mode, or -1 with errno */
mbstate_t *amph_ip_stream_state(FILE *f, bool writing);
int amph_ip_stream_orient(FILE *f, int mode); /* as fwide */
/* the character set of its wide functions; NULL: the locale's */
struct amph_ip_charset *amph_ip_stream_charset(FILE *f);

/* wide.c */
/* the character set in fopen's mode, or NULL if it names none; false: no such set (EINVAL) */
bool amph_ip_charset_open(const char *mode, struct amph_ip_charset **set_p);
void amph_ip_charset_close(struct amph_ip_charset *set);

/* search.c: finds the first program of this name along PATH if PATH has a forwarded directory, or
 * if env has forwarded libraries; false: the C library searches. */
bool amph_ip_find_program(const char *file, char *const *env, char *out, size_t cap);
bool amph_ip_find_local(const char *file, char *out, size_t cap); /* along PATH, on this host */

/* environ.c */
/* records what every new program of this process must find in its environment */
void amph_ip_environment_keep(char **env);
/* puts this library into LD_PRELOAD if it was linked with the program and the list lacks it: shells and the C
 * library start programs with environ; called once main is about to run */
void amph_ip_environment_preload(void);
char *const *amph_ip_environment_kept(void);

/* fork.c */
/* called once when forwarding begins, before the program can register handlers */
void amph_ip_fork_watch(void);
/* SYS_fork, SYS_clone or SYS_clone3 by syscall() */
long amph_do_fork_call(long number, const long *a);
int amph_ip_unshare(enum amph_client_route way, int flags);

/* process/threads.c */
/* A thread that uses the caller's descriptor table; as pthread_create. */
int amph_ip_thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
                         void *arg);
void amph_do_exit_now(int status) AMPH_NORETURN;
void amph_ip_exit_now(enum amph_client_route way, int status) AMPH_NORETURN;
/* called once, before the program can register functions for quick_exit */
void amph_ip_quick_exit_watch(void);
/* Called once the client is loaded: functions of atexit run before all destructors then. */
void amph_ip_exit_watch(void);

/* path/root.c: open and readlink of a path below /proc, also in another root directory */
int amph_ip_proc_open(const char *link, int flags);
ssize_t amph_ip_proc_readlink(const char *link, char *target, size_t cap_bytes);

/* process/untraceable.c */
int amph_do_prctl(int option, unsigned long a1, unsigned long a2, unsigned long a3,
                  unsigned long a4);
int amph_do_capset(void *header, const void *data);

/* start.c */
/* Copies a forwarded file into memory, if it may be used in this way.  Returns a local descriptor,
 * or -1 with errno. */
int amph_ip_copy_in(const char *path, int amode);
/* Creates an empty file in memory, named by as much of the end of path as the kernel allows.  -1
 * with errno. */
int amph_ip_memory_file(const char *path);

/* exec.c */
int amph_ip_execve(enum amph_client_route way, const char *path, char *const argv[],
                   char *const envp[]);
int amph_ip_execveat(enum amph_client_route way, int dir, const char *path, char *const argv[],
                     char *const envp[], int flags);

/* spawn.c */
/* do they use forwarded names?  Then amph_ip_spawn must be used */
bool amph_ip_spawn_forwards(const posix_spawn_file_actions_t *actions);
/* Sets *kept_p to the forwarded files that a program inherits after these actions. */
void amph_ip_spawn_kept(const posix_spawn_file_actions_t *actions, struct amph_fwd_kept *kept_p);
/* Returns whether the program may get a forwarded standard descriptor. */
bool amph_ip_spawn_gives_std(const posix_spawn_file_actions_t *actions);
/* The forwarded descriptor, of this process, that will be its standard error; -1: none. */
int amph_ip_spawn_stderr(const posix_spawn_file_actions_t *actions);
/* As posix_spawn, and with search as posix_spawnp. */
int amph_ip_spawn(pid_t *pid_p, const char *file, bool search,
                  const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                  char *const argv[], char *const envp[]);

#endif
