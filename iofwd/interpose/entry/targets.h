/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What takes a caught call (names.def says which).  Each has the shape and the errors of the C library's function of that name, and
 * still serves a call that turns out local.  Layer: iofwd (preload).  Thread rule: as the C library's functions.
 */
#ifndef AMPH_IOFWD_TARGETS_H
#define AMPH_IOFWD_TARGETS_H

#include "base/env_defs.h"
#include "iofwd/interpose/entry/client.h"
#include "iofwd/interpose/entry/kernel.h"
#include "iofwd/interpose/entry/time64.h"
#include "iofwd/interpose/entry/libc_real.h"

extern char **environ;

static inline bool fwd_needs_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* The length of a fortified call; a buffer that is too small ends the program, as the C library would end it. */
static inline size_t fwd_fits(size_t len, size_t cap)
{
    if (len > cap)
        abort();
    return len;
}

/* fd.c */
int fwd_note_local(int fd); /* a descriptor that the C library has just opened */
int fwd_own(int fd);        /* one that Amphora has opened for itself */
int fwd_own_pair(int result, int fds[2]);
bool fwd_hold_cwd(int fd);  /* takes fd over as fwd_cwd_fd; false: there are no descriptors left */
int x_openat(int dir, const char *path, int flags, mode_t mode);
int x_close(int fd);
int fwd_close(enum fwd_way way, int fd);
int x_close_range(unsigned first, unsigned last, int flags);
int fwd_close_range(enum fwd_way way, unsigned first, unsigned last, int flags);
void x_closefrom(int first);
int x_dup(int fd);
int x_dup2(int from, int to);
int x_dup3(int from, int to, int flags);
int fwd_dup3(enum fwd_way way, int from, int to, int flags);
int fwd_enter_copy(int fd, struct fwd_ofile *of); /* fd, a kernel copy of a forwarded descriptor or -1; of's reference goes over to it */

/* control.c */
int x_fcntl(int fd, int command, void *arg);
int x_ioctl(int fd, unsigned long request, void *arg);

/* cancel.c */
int x_pthread_cancel(pthread_t thread);
/* A new thread has that name: what was noted under it until then (fwd_cancels_now) was of another. */
unsigned fwd_cancels_now(void);
void fwd_cancel_forget(pthread_t thread, unsigned until);

/* fd/file_size_limit.c */
int fwd_limits_changed(int result); /* the limits may be others now; gives result back */

/* io.c */
ssize_t x_read(int fd, void *buf, size_t len);
ssize_t x_write(int fd, const void *buf, size_t len);
ssize_t x_pread(int fd, void *buf, size_t len, off_t off);
ssize_t x_pwrite(int fd, const void *buf, size_t len, off_t off);
off_t fwd_not_negative(off_t off); /* preadv refuses the -1 that preadv2 knows */
ssize_t x_preadv(int fd, const struct iovec *iov, int count, off_t off, int flags);
ssize_t x_pwritev(int fd, const struct iovec *iov, int count, off_t off, int flags);
off_t x_lseek(int fd, off_t off, int whence);
int x_vdprintf(int fd, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
int x_fsync(int fd);
int x_fdatasync(int fd);
int x_syncfs(int fd);
int x_ftruncate(int fd, off_t length);
int x_fallocate(int fd, int how, off_t off, off_t length);
int x_posix_fallocate(int fd, off_t off, off_t length);
int x_sync_file_range(int fd, off_t off, off_t len, unsigned flags);
int x_posix_fadvise(int fd, off_t len, int advice);
ssize_t x_readahead(int fd);
void *fwd_borrow(size_t len); /* zeroed memory for the length of one call, or NULL */
void fwd_give_back(void *memory, size_t len);

/* copy.c */
ssize_t x_copy_file_range(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags);
ssize_t x_sendfile(int out, int in, off_t *off, size_t len);
ssize_t x_splice(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags);
ssize_t x_tee(int in, int out, size_t len, unsigned flags);

/* socket.c */
int x_bind(int fd, const struct sockaddr *addr, socklen_t len);
int x_connect(int fd, const struct sockaddr *addr, socklen_t len);
ssize_t x_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr, socklen_t len);
ssize_t x_sendmsg(int fd, const struct msghdr *msg, int flags);
int x_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int x_getpeername(int fd, struct sockaddr *addr, socklen_t *len);

/* fd/poll.c */
int x_poll(struct pollfd *p, nfds_t n, int timeout);
/* Is a forwarded file among them of which only its server knows whether it is ready?  Else the call is the kernel's. */
bool fwd_poll_waits(const struct pollfd *p, nfds_t n);
bool fwd_select_waits(int n, fd_set *reads, fd_set *writes, fd_set *excepts);
int x_ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask);
int x_select(int n, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *limit);
int x_pselect(int n, fd_set *reads, fd_set *writes, fd_set *excepts, const struct timespec *limit, const sigset_t *mask);

/* epoll.c */
int x_epoll_ctl(int ep, int op, int fd, struct epoll_event *event);
int x_epoll_pwait(int ep, struct epoll_event *out, int most, int timeout, const sigset_t *mask);
/* What the kernel said of a set without forwarded files; false: nothing that the program is to hear. */
bool fwd_epoll_told(struct epoll_event *out, int n, int *n_p);
bool fwd_epoll_within(void); /* this thread is in the kernel's part of a wait on a set with forwarded files */
int x_epoll_pwait2(int ep, struct epoll_event *out, int most, const struct timespec *limit, const sigset_t *mask);
void fwd_epoll_closed(int fd); /* an epoll set of the program that was marked FDTAB_EPOLL */
int fwd_epoll_copied(int from, int to); /* to, or -1 with errno, is a copy of such a set's descriptor; gives to back */
void fwd_epoll_fork_lock(bool take);

/* path/names.c */
int x_fstat(int fd, struct stat *st);
int x_fstatat(int dir, const char *path, struct stat *st, int flags);
int x_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx);
int x_faccessat(int dir, const char *path, int amode, int flags);
int x_statfs(const char *path, struct statfs *fs);
int x_fstatfs(int fd, struct statfs *fs);
int x_statvfs(const char *path, struct statvfs *v);
int x_fstatvfs(int fd, struct statvfs *v);
int x_mkdirat(int dir, const char *path, mode_t mode);
int x_mknodat(int dir, const char *path, mode_t mode, dev_t dev);
int x_unlinkat(int dir, const char *path, int flags);
int x_remove(const char *path);
int x_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int x_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int x_symlinkat(const char *target, int dir, const char *path);
ssize_t x_readlinkat(int dir, const char *path, char *buf, size_t cap);
int x_fchmodat(int dir, const char *path, mode_t mode, int flags);
int x_fchmod(int fd, mode_t mode);
int x_fchownat(int dir, const char *path, uid_t uid, gid_t gid, int flags);
int x_fchown(int fd, uid_t uid, gid_t gid);
int x_truncate(const char *path, off_t length);
int x_utimensat(int dir, const char *path, const struct timespec *times, int flags);
int x_futimens(int fd, const struct timespec *times);
int x_utimes(int dir, const char *path, const struct timeval *times, int flags);
int x_futimes(int fd, const struct timeval *times);
int x_utime(const char *path, const struct utimbuf *times);

/* temp.c */
FILE *x_tmpfile(void);
char *x_tempnam(const char *dir, const char *start);
int x_mkstemp(char *pattern, int suffix, int flags);
char *x_mkdtemp(char *pattern);
char *x_mktemp(char *pattern);

/* syscall.c */
long x_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5);

/* aio.c */
int x_aio_read(struct aiocb *cb);
int x_aio_write(struct aiocb *cb);
int x_aio_fsync(int op, struct aiocb *cb);
int x_aio_suspend(const struct aiocb *const list[], int n, const struct timespec *limit);
int x_aio_cancel(int fd, struct aiocb *cb);
int x_lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event);

/* library.c */
void *x_dlopen(const char *path, int flags);
void *x_dlmopen(long space, const char *path, int flags);
bool fwd_is_forwarded(const char *path);
void fwd_library_path_keep(const char *list); /* LD_LIBRARY_PATH at the program's start */
void x_backtrace_symbols_fd(void *const *frames, int n, int fd);
key_t x_ftok(const char *path, int project);

/* lock.c */
int x_flock(int fd, int op);
int x_lockf(int fd, int command, off_t length);
int fwd_record_lock(struct fwd_ofile *of, int command, struct flock *lock);
void fwd_file_left(struct fwd_ofile *of); /* a descriptor of it is closed: its maps are written, the process's record locks on it go */
void fwd_forget_locks(void);              /* in a forked child */
bool fwd_has_locks(void);                 /* has this process taken a record lock? */
/* Of a process that goes on as another program: its number, and descriptors of the files of which exec closes other copies. */
#define FWD_LOCKS_NAME AMPH_PRIVATE_LOCKS
void fwd_locks_tell(char *text, size_t cap);
bool fwd_locks_came_along(const char *told); /* had this process taken one before? */
void fwd_locks_drop_closed(const char *told); /* those on files of which exec has closed a descriptor */

/* map.c */
int fwd_maps_flush(const struct fwd_ofile *of); /* NULL: of all files; 0 or an errno value */
void fwd_maps_resize(void); /* a file may have been cut by its name */
void fwd_maps_fork_lock(bool take);
void fwd_maps_recount(void); /* after fdtab_recount */
void *x_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int x_munmap(void *at, size_t len);
int x_msync(void *at, size_t len, int flags);
int x_mprotect(void *at, size_t len, int prot);
void *x_mremap(void *old, size_t old_len, size_t len, int flags, void *at);
/* The same by one way or the other, where a part of them is left to this host. */
void *fwd_mmap(enum fwd_way way, void *at, size_t len, int prot, int flags, int fd, off_t off);
int fwd_munmap(enum fwd_way way, void *at, size_t len);
int fwd_msync(enum fwd_way way, void *at, size_t len, int flags);
int fwd_mprotect(enum fwd_way way, void *at, size_t len, int prot);
void *fwd_mremap(enum fwd_way way, void *old, size_t old_len, size_t len, int flags, void *at);

/* limits.c */
long x_pathconf(const char *path, int name);
long x_fpathconf(int fd, int name);

/* xattr.c */
ssize_t x_getxattr(const char *path, const char *name, void *buf, size_t cap, int flags);
ssize_t x_fgetxattr(int fd, const char *name, void *buf, size_t cap);
ssize_t x_listxattr(const char *path, char *buf, size_t cap, int flags);
ssize_t x_flistxattr(int fd, char *buf, size_t cap);
int x_setxattr(const char *path, const char *name, const void *value, size_t len, int how, int flags);
int x_fsetxattr(int fd, const char *name, const void *value, size_t len, int how);
int x_removexattr(const char *path, const char *name, int flags);
int x_fremovexattr(int fd, const char *name);

/* cwd.c */
int x_chdir(const char *path);
int x_fchdir(int fd);
int fwd_chdir(enum fwd_way way, const char *path);
int fwd_fchdir(enum fwd_way way, int fd);
char *x_getcwd(char *buf, size_t cap);
char *x_realpath(const char *path, char *buf);
mode_t x_umask(mode_t mask);
mode_t fwd_umask(enum fwd_way way, mode_t mask);

/* dir.c */
DIR *x_opendir(const char *path);
DIR *x_fdopendir(int fd);
struct dirent *x_readdir(DIR *dir);
int x_readdir_r(DIR *dir, struct dirent *entry, struct dirent **result);
int x_closedir(DIR *dir);
void x_rewinddir(DIR *dir);
void x_seekdir(DIR *dir, long at);
long x_telldir(DIR *dir);
int x_dirfd(DIR *dir);
ssize_t x_getdents64(int fd, void *buf, size_t len);
ssize_t x_getdirentries(int fd, char *buf, size_t len, off_t *base);

/* walk.c */
typedef int (*fwd_order_fn)(const struct dirent **, const struct dirent **);
int x_scandirat(int dir, const char *path, struct dirent ***list, int (*choose)(const struct dirent *), fwd_order_fn order);
int x_glob(const char *pattern, int flags, int (*onerror)(const char *, int), glob_t *found);
int x_nftw(const char *path, int (*fn)(const char *, const struct stat *, int, struct FTW *), int flags);
int x_ftw(const char *path, int (*fn)(const char *, const struct stat *, int));

/* fts.c */
FTS *x_fts_open(char *const *paths, int options, int (*order)(const FTSENT **, const FTSENT **));
FTSENT *x_fts_read(FTS *walk);
FTSENT *x_fts_children(FTS *walk, int options);
int x_fts_set(FTSENT *entry, int option);
int x_fts_close(FTS *walk);

/* stream.c */
FILE *x_fopen(const char *path, const char *mode);
FILE *x_fdopen(int fd, const char *mode);
FILE *x_freopen(const char *path, const char *mode, FILE *f);
int x_fileno(FILE *f);
void fwd_stream_landed(int fd); /* fd leads to a forwarded file now: streams of the C library's that have it become forwarded ones */
FILE *fwd_note_stream(FILE *f); /* a stream that the C library has just opened */
void x_abort(void) AMPH_NORETURN;
struct fwd_charset;
mbstate_t *fwd_stream_state(FILE *f, bool writing);
int fwd_stream_orient(FILE *f, int mode); /* as fwide */
struct fwd_charset *fwd_stream_charset(FILE *f); /* of its wide functions, or NULL: the locale's */

/* wide.c */
bool fwd_charset_open(const char *mode, struct fwd_charset **set_p); /* of fopen's mode, or NULL; false: there is no such one (EINVAL) */
void fwd_charset_close(struct fwd_charset *set);
int x_fwide(FILE *f, int mode);
wint_t x_fgetwc(FILE *f);
wchar_t *x_fgetws(wchar_t *buf, int n, FILE *f);
wint_t x_ungetwc(wint_t c, FILE *f);
wint_t x_fputwc(wchar_t c, FILE *f);
int x_fputws(const wchar_t *text, FILE *f);
int x_vfwprintf(FILE *f, const wchar_t *format, va_list ap);
int x_vfwscanf(FILE *f, const wchar_t *format, va_list ap);

/* search.c: the first program of this name along PATH, if one of PATH's directories is forwarded, or libraries for what gets env;
 * false: the C library is to look */
bool fwd_find_program(const char *file, char *const *env, char *out, size_t cap);

/* environ.c */
void fwd_environment_keep(char **env); /* what every new program of this process has to find in its environment */
char *const *fwd_environment_kept(void);

/* fork.c */
pid_t x_fork(void);
void fwd_fork_watch(void); /* once, when forwarding begins, before the program can register handlers of its own */
pid_t x__Fork(void);
int x_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid, void *tls, void *child_tid);
long x_fork_call(long number, const long *a); /* SYS_fork, SYS_clone or SYS_clone3 by syscall() */

/* process/threads.c */
int x_system(const char *command);
FILE *x_popen(const char *command, const char *type);
int x_daemon(int no_chdir, int no_close);
void x_exit_now(int status) AMPH_NORETURN;
void fwd_exit_now(enum fwd_way way, int status) AMPH_NORETURN;

/* init.c */
int x_libc_start_main(void *main, void *argc, void *argv, void *init, void *fini, void *ending, void *stack);

/* start.c */
/* A forwarded file copied into memory, if it may be used so: a local descriptor; -1 with errno. */
int fwd_copy_in(const char *path, int amode);
/* An empty file in memory called by as much of the end of path as the kernel takes; -1 with errno. */
int fwd_memory_file(const char *path);

/* exec.c */
int x_execve(const char *path, char *const argv[], char *const envp[]);
int fwd_execve(enum fwd_way way, const char *path, char *const argv[], char *const envp[]);
int x_execvpe(const char *file, char *const argv[], char *const envp[]);
int x_fexecve(int fd, char *const argv[], char *const envp[]);
int x_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
int fwd_execveat(enum fwd_way way, int dir, const char *path, char *const argv[], char *const envp[], int flags);
int x_execl(const char *path, const char *arg, va_list ap);
int x_execlp(const char *file, const char *arg, va_list ap);
int x_execle(const char *path, const char *arg, va_list ap);
int x_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                  char *const argv[], char *const envp[]);
int x_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                   char *const argv[], char *const envp[]);

/* spawn.c */
int x_spawn_init(posix_spawn_file_actions_t *actions);
int x_spawn_destroy(posix_spawn_file_actions_t *actions);
int x_spawn_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags, mode_t mode);
int x_spawn_addclose(posix_spawn_file_actions_t *actions, int fd);
int x_spawn_adddup2(posix_spawn_file_actions_t *actions, int fd, int to);
int x_spawn_addchdir(posix_spawn_file_actions_t *actions, const char *path);
int x_spawn_addfchdir(posix_spawn_file_actions_t *actions, int fd);
int x_spawn_addclosefrom(posix_spawn_file_actions_t *actions, int first);
int x_spawn_addtcsetpgrp(posix_spawn_file_actions_t *actions, int fd);
bool fwd_spawn_forwards(const posix_spawn_file_actions_t *actions); /* they have to do with forwarded names: fwd_spawn is to be used */
/* The program may have a forwarded standard descriptor then. */
bool fwd_spawn_gives_std(const posix_spawn_file_actions_t *actions);
/* As posix_spawn, and with search as posix_spawnp. */
int fwd_spawn(pid_t *pid_p, const char *file, bool search, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
              char *const argv[], char *const envp[]);
int x_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);

#endif
