/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What takes a caught call (names.def says which).  Each has the shape and the errors of the C
 * library's function of that name, and still serves a call that turns out local.  Layer: iofwd
 * (preload).  Thread rule: as the C library's functions.
 */
#ifndef AMPH_IOFWD_TARGETS_H
#define AMPH_IOFWD_TARGETS_H

#include "base/env_defs.h"
#include "iofwd/interpose/entry/client.h"
#include "iofwd/interpose/entry/kernel.h"
#include "iofwd/interpose/entry/time64.h"
#include "iofwd/interpose/entry/libc_real.h"

extern char **environ;

static inline bool amph_ip_elf_deps_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

/* The length of a fortified call; a buffer that is too small ends the program, as the C library
 * would end it. */
static inline size_t amph_ip_fits(size_t len, size_t cap)
{
    if (len > cap)
        abort();

    return len;
}

/* fd.c */
int amph_ip_note_local(int fd); /* a descriptor that the C library has just opened */
int amph_ip_own(int fd);        /* one that Amphora has opened for itself */
int amph_ip_own_pair(int result, int fds[2]);
/* takes fd over as amph_ip_state.cwd_fd; false: there are no descriptors left */
bool amph_ip_hold_cwd(int fd);
int amph_do_openat(int dir, const char *path, int flags, mode_t mode);
int amph_do_close(int fd);
int amph_ip_close(enum amph_client_route way, int fd);
int amph_do_close_range(unsigned first, unsigned last, int flags);
int amph_ip_close_range(enum amph_client_route way, unsigned first, unsigned last, int flags);
void amph_do_closefrom(int first);
int amph_do_dup(int fd);
int amph_do_dup2(int from, int to);
int amph_do_dup3(int from, int to, int flags);
int amph_ip_dup3(enum amph_client_route way, int from, int to, int flags);
/* fd, a kernel copy of a forwarded descriptor or -1; of's reference goes over to it */
int amph_ip_enter_copy(int fd, struct amph_fd_file *of);

/* control.c */
int amph_do_fcntl(int fd, int command, void *arg);
int amph_do_ioctl(int fd, unsigned long request, void *arg);

/* cancel.c */
int amph_do_pthread_cancel(pthread_t thread);
/* A new thread has that name: what was noted under it until then (amph_ip_cancels_now) was of
 * another. */
unsigned amph_ip_cancels_now(void);
void amph_ip_cancel_forget(pthread_t thread, unsigned until);

/* fd/file_size_limit.c */
int amph_ip_limits_changed(int result); /* the limits may be others now; gives result back */

/* io.c */
ssize_t amph_do_read(int fd, void *buf, size_t len);
ssize_t amph_do_write(int fd, const void *buf, size_t len);
ssize_t amph_do_pread(int fd, void *buf, size_t len, off_t off);
ssize_t amph_do_pwrite(int fd, const void *buf, size_t len, off_t off);
off_t amph_ip_not_negative(off_t off); /* preadv refuses the -1 that preadv2 knows */
ssize_t amph_do_preadv(int fd, const struct iovec *iov, int count, off_t off, int flags);
ssize_t amph_do_pwritev(int fd, const struct iovec *iov, int count, off_t off, int flags);
off_t amph_do_lseek(int fd, off_t off, int whence);
int amph_do_vdprintf(int fd, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
int amph_do_fsync(int fd);
int amph_do_fdatasync(int fd);
int amph_do_syncfs(int fd);
int amph_do_ftruncate(int fd, off_t length);
int amph_do_fallocate(int fd, int how, off_t off, off_t length);
int amph_do_posix_fallocate(int fd, off_t off, off_t length);
int amph_do_sync_file_range(int fd, off_t off, off_t len, unsigned flags);
int amph_do_posix_fadvise(int fd, off_t len, int advice);
ssize_t amph_do_readahead(int fd);
void *amph_ip_borrow(size_t len); /* zeroed memory for the length of one call, or NULL */
void amph_ip_give_back(void *memory, size_t len);

/* copy.c */
ssize_t amph_do_copy_file_range(int in, off_t *in_off, int out, off_t *out_off, size_t len,
                                unsigned flags);
ssize_t amph_do_sendfile(int out, int in, off_t *off, size_t len);
ssize_t amph_do_splice(int in, off_t *in_off, int out, off_t *out_off, size_t len, unsigned flags);
ssize_t amph_do_tee(int in, int out, size_t len, unsigned flags);

/* socket.c */
int amph_do_bind(int fd, const struct sockaddr *addr, socklen_t len);
int amph_do_connect(int fd, const struct sockaddr *addr, socklen_t len);
ssize_t amph_do_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *addr,
                       socklen_t len);
ssize_t amph_do_sendmsg(int fd, const struct msghdr *msg, int flags);
int amph_do_getsockname(int fd, struct sockaddr *addr, socklen_t *len);
int amph_do_getpeername(int fd, struct sockaddr *addr, socklen_t *len);

/* fd/poll.c */
int amph_do_poll(struct pollfd *p, nfds_t n, int timeout);
/* Is a forwarded file among them of which only its server knows whether it is ready?  Else the call
 * is the kernel's. */
bool amph_ip_poll_waits(const struct pollfd *p, nfds_t n);
bool amph_ip_select_waits(int n, fd_set *reads, fd_set *writes, fd_set *excepts);
int amph_do_ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask);
int amph_do_select(int n, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *limit);
int amph_do_pselect(int n, fd_set *reads, fd_set *writes, fd_set *excepts,
                    const struct timespec *limit, const sigset_t *mask);

/* epoll.c */
int amph_do_epoll_ctl(int ep, int op, int fd, struct epoll_event *event);
int amph_do_epoll_pwait(int ep, struct epoll_event *out, int most, int timeout,
                        const sigset_t *mask);
/* What the kernel said of a set without forwarded files; false: nothing that the program is to
 * hear. */
bool amph_ip_epoll_told(struct epoll_event *out, int n, int *n_p);
/* this thread is in the kernel's part of a wait on a set with forwarded files */
bool amph_ip_epoll_within(void);
int amph_do_epoll_pwait2(int ep, struct epoll_event *out, int most, const struct timespec *limit,
                         const sigset_t *mask);
void amph_ip_epoll_closed(int fd); /* an epoll set of the program that was marked FDTAB_EPOLL */
/* to, or -1 with errno, is a copy of such a set's descriptor; gives to back */
int amph_ip_epoll_copied(int from, int to);
void amph_ip_epoll_fork_lock(bool take);

/* path/names.c */
int amph_do_fstat(int fd, struct stat *st);
int amph_do_fstatat(int dir, const char *path, struct stat *st, int flags);
int amph_do_statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx);
int amph_do_faccessat(int dir, const char *path, int amode, int flags);
int amph_do_statfs(const char *path, struct statfs *fs);
int amph_do_fstatfs(int fd, struct statfs *fs);
int amph_do_statvfs(const char *path, struct statvfs *v);
int amph_do_fstatvfs(int fd, struct statvfs *v);
int amph_do_mkdirat(int dir, const char *path, mode_t mode);
int amph_do_mknodat(int dir, const char *path, mode_t mode, dev_t dev);
int amph_do_unlinkat(int dir, const char *path, int flags);
int amph_do_remove(const char *path);
int amph_do_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int amph_do_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int amph_do_symlinkat(const char *target, int dir, const char *path);
ssize_t amph_do_readlinkat(int dir, const char *path, char *buf, size_t cap);
int amph_do_fchmodat(int dir, const char *path, mode_t mode, int flags);
int amph_do_fchmod(int fd, mode_t mode);
int amph_do_fchownat(int dir, const char *path, uid_t uid, gid_t gid, int flags);
int amph_do_fchown(int fd, uid_t uid, gid_t gid);
int amph_do_truncate(const char *path, off_t length);
int amph_do_utimensat(int dir, const char *path, const struct timespec *times, int flags);
int amph_do_futimens(int fd, const struct timespec *times);
int amph_do_utimes(int dir, const char *path, const struct timeval *times, int flags);
int amph_do_futimes(int fd, const struct timeval *times);
int amph_do_utime(const char *path, const struct utimbuf *times);

/* temp.c */
FILE *amph_do_tmpfile(void);
char *amph_do_tempnam(const char *dir, const char *start);
int amph_do_mkstemp(char *pattern, int suffix, int flags);
char *amph_do_mkdtemp(char *pattern);
char *amph_do_mktemp(char *pattern);

/* syscall.c */
long amph_do_syscall(long number, long a0, long a1, long a2, long a3, long a4, long a5);

/* aio.c */
int amph_do_aio_read(struct aiocb *cb);
int amph_do_aio_write(struct aiocb *cb);
int amph_do_aio_fsync(int op, struct aiocb *cb);
int amph_do_aio_suspend(const struct aiocb *const list[], int n, const struct timespec *limit);
int amph_do_aio_cancel(int fd, struct aiocb *cb);
int amph_do_lio_listio(int mode, struct aiocb *const list[], int n, struct sigevent *event);

/* library.c */
void *amph_do_dlopen(const char *path, int flags);
void *amph_do_dlmopen(long space, const char *path, int flags);
bool amph_ip_is_forwarded(const char *path);
void amph_ip_library_path_keep(const char *list); /* LD_LIBRARY_PATH at the program's start */
void amph_do_backtrace_symbols_fd(void *const *frames, int n, int fd);
key_t amph_do_ftok(const char *path, int project);

/* lock.c */
int amph_do_flock(int fd, int op);
int amph_do_lockf(int fd, int command, off_t length);
int amph_ip_record_lock(struct amph_fd_file *of, int command, struct flock *lock);
/* a descriptor of it is closed: its maps are written, the process's record locks on it go */
void amph_ip_file_left(struct amph_fd_file *of);
void amph_ip_forget_locks(void); /* in a forked child */
bool amph_ip_has_locks(void);    /* has this process taken a record lock? */
/* Of a process that goes on as another program: its number, and descriptors of the files of which
 * exec closes other copies. */
#define AMPH_IP_LOCKS_NAME AMPH_PRIVATE_LOCKS
void amph_ip_locks_tell(char *text, size_t cap);
bool amph_ip_locks_came_along(const char *told); /* had this process taken one before? */
/* those on files of which exec has closed a descriptor */
void amph_ip_locks_drop_closed(const char *told);

/* map.c */
int amph_ip_maps_flush(const struct amph_fd_file *of); /* NULL: of all files; 0 or an errno value */
void amph_ip_maps_resize(void);                        /* a file may have been cut by its name */
void amph_ip_maps_fork_lock(bool take);
void amph_ip_maps_recount(void); /* after amph_fdtab_recount */
void *amph_do_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int amph_do_munmap(void *at, size_t len);
int amph_do_msync(void *at, size_t len, int flags);
int amph_do_mprotect(void *at, size_t len, int prot);
void *amph_do_mremap(void *old, size_t old_len, size_t len, int flags, void *at);
/* The same by one way or the other, where a part of them is left to this host. */
void *amph_ip_mmap(enum amph_client_route way, void *at, size_t len, int prot, int flags, int fd,
                   off_t off);
int amph_ip_munmap(enum amph_client_route way, void *at, size_t len);
int amph_ip_msync(enum amph_client_route way, void *at, size_t len, int flags);
int amph_ip_mprotect(enum amph_client_route way, void *at, size_t len, int prot);
void *amph_ip_mremap(enum amph_client_route way, void *old, size_t old_len, size_t len, int flags,
                     void *at);

/* limits.c */
long amph_do_pathconf(const char *path, int name);
long amph_do_fpathconf(int fd, int name);

/* xattr.c */
ssize_t amph_do_getxattr(const char *path, const char *name, void *buf, size_t cap, int flags);
ssize_t amph_do_fgetxattr(int fd, const char *name, void *buf, size_t cap);
ssize_t amph_do_listxattr(const char *path, char *buf, size_t cap, int flags);
ssize_t amph_do_flistxattr(int fd, char *buf, size_t cap);
int amph_do_setxattr(const char *path, const char *name, const void *value, size_t len, int how,
                     int flags);
int amph_do_fsetxattr(int fd, const char *name, const void *value, size_t len, int how);
int amph_do_removexattr(const char *path, const char *name, int flags);
int amph_do_fremovexattr(int fd, const char *name);

/* cwd.c */
int amph_do_chdir(const char *path);
int amph_do_fchdir(int fd);
int amph_ip_chdir(enum amph_client_route way, const char *path);
int amph_ip_fchdir(enum amph_client_route way, int fd);
char *amph_do_getcwd(char *buf, size_t cap);
char *amph_do_realpath(const char *path, char *buf);
mode_t amph_do_umask(mode_t mask);
mode_t amph_ip_umask(enum amph_client_route way, mode_t mask);

/* dir.c */
DIR *amph_do_opendir(const char *path);
DIR *amph_do_fdopendir(int fd);
struct dirent *amph_do_readdir(DIR *dir);
int amph_do_readdir_r(DIR *dir, struct dirent *entry, struct dirent **result);
int amph_do_closedir(DIR *dir);
void amph_do_rewinddir(DIR *dir);
void amph_do_seekdir(DIR *dir, long at);
long amph_do_telldir(DIR *dir);
int amph_do_dirfd(DIR *dir);
ssize_t amph_do_getdents64(int fd, void *buf, size_t len);
ssize_t amph_do_getdirentries(int fd, char *buf, size_t len, off_t *base);

/* walk.c */
typedef int (*amph_ip_order_fn)(const struct dirent **, const struct dirent **);
int amph_do_scandirat(int dir, const char *path, struct dirent ***list,
                      int (*choose)(const struct dirent *), amph_ip_order_fn order);
int amph_do_glob(const char *pattern, int flags, int (*onerror)(const char *, int), glob_t *found);
int amph_do_nftw(const char *path, int (*fn)(const char *, const struct stat *, int, struct FTW *),
                 int flags);
int amph_do_ftw(const char *path, int (*fn)(const char *, const struct stat *, int));

/* fts.c */
FTS *amph_do_fts_open(char *const *paths, int options,
                      int (*order)(const FTSENT **, const FTSENT **));
FTSENT *amph_do_fts_read(FTS *walk);
FTSENT *amph_do_fts_children(FTS *walk, int options);
int amph_do_fts_set(FTSENT *entry, int option);
int amph_do_fts_close(FTS *walk);

/* stream.c */
FILE *amph_do_fopen(const char *path, const char *mode);
FILE *amph_do_fdopen(int fd, const char *mode);
FILE *amph_do_freopen(const char *path, const char *mode, FILE *f);
int amph_do_fileno(FILE *f);
/* fd leads to a forwarded file now: streams of the C library's that have it become forwarded
 * ones */
void amph_ip_stream_landed(int fd);
FILE *amph_ip_note_stream(FILE *f); /* a stream that the C library has just opened */
void amph_do_abort(void) AMPH_NORETURN;
struct amph_ip_charset;
mbstate_t *amph_ip_stream_state(FILE *f, bool writing);
int amph_ip_stream_orient(FILE *f, int mode); /* as fwide */
/* of its wide functions, or NULL: the locale's */
struct amph_ip_charset *amph_ip_stream_charset(FILE *f);

/* wide.c */
/* of fopen's mode, or NULL; false: there is no such one (EINVAL) */
bool amph_ip_charset_open(const char *mode, struct amph_ip_charset **set_p);
void amph_ip_charset_close(struct amph_ip_charset *set);
int amph_do_fwide(FILE *f, int mode);
wint_t amph_do_fgetwc(FILE *f);
wchar_t *amph_do_fgetws(wchar_t *buf, int n, FILE *f);
wint_t amph_do_ungetwc(wint_t c, FILE *f);
wint_t amph_do_fputwc(wchar_t c, FILE *f);
int amph_do_fputws(const wchar_t *text, FILE *f);
int amph_do_vfwprintf(FILE *f, const wchar_t *format, va_list ap);
int amph_do_vfwscanf(FILE *f, const wchar_t *format, va_list ap);

/* search.c: the first program of this name along PATH, if one of PATH's directories is forwarded,
 * or libraries for what gets env; false: the C library is to look */
bool amph_ip_find_program(const char *file, char *const *env, char *out, size_t cap);

/* environ.c */
/* what every new program of this process has to find in its environment */
void amph_ip_environment_keep(char **env);
char *const *amph_ip_environment_kept(void);

/* fork.c */
pid_t amph_do_fork(void);
/* once, when forwarding begins, before the program can register handlers of its own */
void amph_ip_fork_watch(void);
pid_t amph_do__Fork(void);
int amph_do_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *parent_tid, void *tls,
                  void *child_tid);
/* SYS_fork, SYS_clone or SYS_clone3 by syscall() */
long amph_do_fork_call(long number, const long *a);

/* process/threads.c */
int amph_do_system(const char *command);
FILE *amph_do_popen(const char *command, const char *type);
int amph_do_daemon(int no_chdir, int no_close);
void amph_do_exit_now(int status) AMPH_NORETURN;
void amph_ip_exit_now(enum amph_client_route way, int status) AMPH_NORETURN;

/* init.c */
int amph_do_libc_start_main(void *main, void *argc, void *argv, void *init, void *fini,
                            void *ending, void *stack);

/* start.c */
/* A forwarded file copied into memory, if it may be used so: a local descriptor; -1 with errno. */
int amph_ip_copy_in(const char *path, int amode);
/* An empty file in memory called by as much of the end of path as the kernel takes; -1 with
 * errno. */
int amph_ip_memory_file(const char *path);

/* exec.c */
int amph_do_execve(const char *path, char *const argv[], char *const envp[]);
int amph_ip_execve(enum amph_client_route way, const char *path, char *const argv[],
                   char *const envp[]);
int amph_do_execvpe(const char *file, char *const argv[], char *const envp[]);
int amph_do_fexecve(int fd, char *const argv[], char *const envp[]);
int amph_do_execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
int amph_ip_execveat(enum amph_client_route way, int dir, const char *path, char *const argv[],
                     char *const envp[], int flags);
int amph_do_execl(const char *path, const char *arg, va_list ap);
int amph_do_execlp(const char *file, const char *arg, va_list ap);
int amph_do_execle(const char *path, const char *arg, va_list ap);
int amph_do_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);
int amph_do_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);

/* spawn.c */
int amph_do_spawn_init(posix_spawn_file_actions_t *actions);
int amph_do_spawn_destroy(posix_spawn_file_actions_t *actions);
int amph_do_spawn_addopen(posix_spawn_file_actions_t *actions, int fd, const char *path, int flags,
                          mode_t mode);
int amph_do_spawn_addclose(posix_spawn_file_actions_t *actions, int fd);
int amph_do_spawn_adddup2(posix_spawn_file_actions_t *actions, int fd, int to);
int amph_do_spawn_addchdir(posix_spawn_file_actions_t *actions, const char *path);
int amph_do_spawn_addfchdir(posix_spawn_file_actions_t *actions, int fd);
int amph_do_spawn_addclosefrom(posix_spawn_file_actions_t *actions, int first);
int amph_do_spawn_addtcsetpgrp(posix_spawn_file_actions_t *actions, int fd);
/* they have to do with forwarded names: amph_ip_spawn is to be used */
bool amph_ip_spawn_forwards(const posix_spawn_file_actions_t *actions);
/* The program may have a forwarded standard descriptor then. */
bool amph_ip_spawn_gives_std(const posix_spawn_file_actions_t *actions);
/* As posix_spawn, and with search as posix_spawnp. */
int amph_ip_spawn(pid_t *pid_p, const char *file, bool search,
                  const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                  char *const argv[], char *const envp[]);
int amph_do_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                           void *arg);

#endif
