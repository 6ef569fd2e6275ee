/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record locks (fcntl F_SETLK, F_SETLKW, F_GETLK) by descriptors that a server has passed.
 *
 * The owner of a record lock is a process, to the kernel its descriptor table.  At a server, an agent's table
 * takes the client's place (server/lock/); by a passed descriptor the client itself is the owner, as without
 * forwarding.  Both would be in each other's way:
 *
 * - A process has one owner at a time.  While a server may hold locks for it, all its lock calls go there.
 *   While it holds locks itself, those on the same file use a passed descriptor of that file, through whichever
 *   open file the program makes them; that descriptor can read and write, so it suffices for each of them.  A
 *   file of which the process can get no such descriptor is locked at its server.
 *
 * - The kernel drops a process's locks on a file when it closes any descriptor of it.  The program's own closes
 *   shall do that: punlock where a copy of the descriptor stays, else the closing of the passed descriptor.
 *   Nothing else may close one: the server passes no other descriptor of a file that is marked as locked,
 *   because a descriptor that has just come is closed when it is moved to a high number.
 *
 * - Over exec the process keeps its locks (record_locks_exec.c).
 *
 * - A wait for a lock is left to the server, as long as the process holds no other: it ends there with the server,
 *   with a cancelled thread, or when clients that have ended have released theirs.  So is a lock that the server
 *   holds for a client, which may have ended.
 *   If the process does hold others, it waits in its own kernel, which sees whether that is a deadlock.  Such
 *   a wait ends with the lock or a signal; the death of the server is noticed afterwards, and the thread is
 *   cancelled afterwards.
 *
 * Locks through threads with descriptor tables of their own, with failover and of striped files are the servers'
 * alone.
 *
 * Layer: iofwd.  Thread rule: any thread and signal handlers; everything is under amph_client_passthrough.lock,
 * with signals blocked, but for the waits and the counters.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/os/clock.h"
#include "base/os/thread.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/passed.h"
#include "iofwd/client/data/record_locks.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/marshal.h"

#define LOCKED_FILES 16u
#define ASK_TRIES 2
#define ENDED_NS (100 * AMPH_NS_PER_MS) /* longest wait for the lock of a process that may have ended */

/* A file on which the process itself holds locks, or is about to. */
struct locked_file {
    bool used, held;
    /* threads that wait for a lock; one that a signal handler's jump has ended is counted until the thread
     * makes its next lock call from the same place */
    unsigned waits;
    int fd; /* a passed descriptor to read and write */
    dev_t dev;
    ino_t ino;
    struct amph_fwd_passthrough_file *shared; /* NULL: the previous image's */
};

static struct amph_client_record_locks {
    struct locked_file file[LOCKED_FILES];
    _Atomic uint32_t nfiles;
    _Atomic uint32_t nremote;                   /* entries with locks_remote */
    _Atomic bool remote_unknown;                /* a server may hold a lock that no entry records */
    _Atomic uint32_t remote_begun, remote_done; /* calls that may take a lock at a server */
    bool off;                                   /* IOFWD_PASSTHROUGH: no further descriptors */
} locks;

/* A call that is being made. */
struct lock_call {
    struct amph_fwd_client *cl;
    const struct amph_fwd_file *file;
    struct passed_file *e; /* or NULL */
    bool has;              /* the entry has a descriptor, and it is the file's */
    struct locked_file *f; /* or NULL */
    int fd;
    struct amph_fwd_passthrough_file *shared; /* where the call is counted, or NULL */
    struct flock lock;
    int cancel; /* the program's cancellation state */
    struct amph_client_lock_wait
        outer; /* the wait that a signal handler with this call has interrupted */
};

static int control(int fd, int command, struct flock *lock)
{
    if (amph_client_state.host.fcntl(fd, command, lock) == 0)
        return 0;

    return errno == EACCES ? EAGAIN : errno;
}

static bool is_whole(const struct flock *lock)
{
    return lock->l_whence == SEEK_SET && lock->l_start == 0 && lock->l_len == 0;
}

/* ---- locks at the server ---- */

bool amph_client_record_locks_are_remote(void)
{
    return atomic_load(&locks.nremote) > 0 || atomic_load(&locks.remote_unknown);
}

/* The server may get a lock for this process. */
static void mark_remote(struct passed_file *e)
{
    atomic_fetch_add(&locks.remote_begun, 1);
    if (!e)
        atomic_store(&locks.remote_unknown, true);
    else if (!atomic_exchange(&e->locks_remote, true))
        atomic_fetch_add(&locks.nremote, 1);
}

static void unmark_remote(struct passed_file *e)
{
    if (e && atomic_exchange(&e->locks_remote, false))
        atomic_fetch_sub(&locks.nremote, 1);
}

/* Makes a call at the server that drops all locks of this process on the file. */
static int drop_remote(const struct amph_layer *self, struct amph_fwd_call *call,
                       const struct amph_fwd_file *file)
{
    uint32_t done = atomic_load(&locks.remote_done);
    uint32_t begun = atomic_load(&locks.remote_begun);
    int err = amph_layer_pass(self->next, call);
    struct amph_client_sigguard g;

    if (err)
        return err;

    amph_client_record_locks_enter(&g);
    /* unless another thread may have taken one meanwhile */
    if (begun == done && begun == atomic_load(&locks.remote_begun))
        unmark_remote(amph_client_passed_peek(&file->part[0]));

    amph_client_record_locks_leave(&g);
    return 0;
}

static int take_remote(const struct amph_layer *self, struct amph_fwd_call *call)
{
    int err = amph_layer_pass(self->next, call);

    atomic_fetch_add(&locks.remote_done, 1);
    return err;
}

/* ---- locked files ---- */

/* No lock on this file is left. */
static void release(struct locked_file *f)
{
    if (f->shared)
        atomic_store(&f->shared->locked, 0);

    f->used = false;
    atomic_fetch_sub(&locks.nfiles, 1);

    amph_client_kept_close_file(f->dev, f->ino);
}

static void release_if_free(struct locked_file *f)
{
    if (f && !f->held && f->waits == 0)
        release(f);
}

/* The process holds no lock on the file; threads may still wait for one. */
static void dropped(struct locked_file *f)
{
    if (!f)
        return;

    f->held = false;
    release_if_free(f);
}

/* The program has closed the descriptor by the kernel's own call, which has dropped the locks. */
static void closed_beside(struct locked_file *f)
{
    if (f->waits == 0) {
        release(f);
        return;
    }

    if (f->shared)
        atomic_store(&f->shared->locked, 0);

    f->shared = NULL;
    f->held = false;
    f->fd = -1;
}

/* NULL: the process holds no locks on this file.  checked_fd: is the file's, or -1. */
static struct locked_file *find_locked(dev_t dev, ino_t ino, int checked_fd)
{
    for (unsigned i = 0; atomic_load(&locks.nfiles) > 0 && i < LOCKED_FILES; i++) {
        struct locked_file *f = &locks.file[i];

        if (!f->used || f->fd < 0 || f->dev != dev || f->ino != ino)
            continue;
        if (f->fd == checked_fd || amph_client_passed_is_itself(f->fd, dev, ino))
            return f;

        closed_beside(f);
    }

    return NULL;
}

/* NULL: there are too many. */
static struct locked_file *add_locked(int fd, dev_t dev, ino_t ino,
                                      struct amph_fwd_passthrough_file *shared)
{
    for (unsigned i = 0; i < LOCKED_FILES; i++) {
        struct locked_file *f = &locks.file[i];

        if (f->used)
            continue;

        *f = (struct locked_file){
            .used = true, .fd = fd, .dev = dev, .ino = ino, .shared = shared
        };
        atomic_fetch_add(&locks.nfiles, 1);
        if (shared)
            atomic_store(&shared->locked, 1); /* before the server can pass another descriptor */

        return f;
    }

    return NULL;
}

/* ---- which descriptor ---- */

struct identity {
    dev_t dev;
    ino_t ino;
    int fd; /* the open file's own, or -1 */
};

/* Which file is it?  If this process has no descriptor of its own for it, the server knows.  0 or an errno
 * value. */
static int identify(struct lock_call *c, struct identity *id)
{
    const struct kept_file *k = amph_client_kept_find(&c->file->part[0]);
    struct stat st;
    struct amph_fwd_args_fstat look = { .file = c->file, .st = &st };

    if (c->has) {
        *id = (struct identity){ c->e->dev, c->e->ino, c->e->fd };
        return 0;
    }

    if (k) {
        *id = (struct identity){ k->dev, k->ino, k->fd };
        return 0;
    }

    int err = amph_client_once(c->cl, AMPH_FWD_FSTAT, &look);

    if (!err)
        *id = (struct identity){ st.st_dev, st.st_ino, -1 };

    return err;
}

static bool may_have(int access, short type)
{
    return !(type == F_RDLCK && access == O_WRONLY) && !(type == F_WRLCK && access == O_RDONLY);
}

/* The call uses the descriptor of another open file of this file, which has another offset and may have another
 * access mode.  0 or an errno value. */
static int borrow(struct lock_call *c, bool takes)
{
    int flags;
    off_t pos;
    struct amph_fwd_args_getflags get = { .file = c->file, .flags = &flags };
    struct amph_fwd_args_lseek seek = { .file = c->file, .whence = SEEK_CUR, .pos = &pos };
    int err = takes ? amph_client_once(c->cl, AMPH_FWD_GETFLAGS, &get) : 0;

    if (!err && takes && !may_have(flags & O_ACCMODE, c->lock.l_type))
        err = EBADF;

    if (!err && c->lock.l_whence == SEEK_CUR) {
        err = amph_client_once(c->cl, AMPH_FWD_LSEEK, &seek);
        c->lock.l_whence = SEEK_SET;
        c->lock.l_start += pos;
    }

    c->fd = c->f->fd;
    return err;
}

/* Finds the file and, if this process holds locks on it, the descriptor.  false: the server knows better.
 * *err_p: 0, or the call's outcome. */
static bool find_descriptor(struct lock_call *c, bool takes, int *err_p)
{
    struct identity id;

    *err_p = 0;
    c->has = amph_client_passed_has(c->e);
    if ((!c->has && atomic_load(&locks.nfiles) == 0) || identify(c, &id) != 0)
        return false;

    c->f = find_locked(id.dev, id.ino, id.fd);
    c->fd = id.fd;
    if (c->f && id.fd < 0)
        *err_p = borrow(c, takes);

    if (c->has)
        c->shared = c->e->shared;
    else if (c->f)
        c->shared = c->f->shared;

    return c->f || (c->has && !amph_client_record_locks_are_remote());
}

/* A lock is worth the question for the file's descriptor.  The server refuses it while one of its threads has not
 * left the file yet, which it may have used for the call before this one. */
static void ask_for_descriptor(struct lock_call *c)
{
    if (!c->e || amph_client_record_locks_are_remote() || atomic_fetch_add(&c->e->calls, 1) < 0)
        return;

    for (unsigned tries = 0; tries < ASK_TRIES && atomic_load(&c->e->state) == COUNTS; tries++)
        amph_client_passed_ask(c->cl, c->e, c->file->part[0].handle);
}

/* ---- setting locks ---- */

enum outcome {
    HERE,      /* the call has been made */
    AT_SERVER, /* the server makes it */
    WAITS      /* it waits for c->fd */
};

/* The process of the server that has passed the descriptor; 0: unknown. */
static pid_t server_of(const struct amph_client_link *link)
{
    struct ucred server;
    socklen_t len = sizeof server;

    return getsockopt(link->control_fd, SOL_SOCKET, SO_PEERCRED, &server, &len) == 0 ? server.pid
                                                                                     : 0;
}

/* Is it possible that a server is about to release the lock that is in the way, as its client has ended?  A
 * lock that is free by now was. */
static bool may_be_ended(const struct lock_call *c, pid_t server)
{
    struct flock found = c->lock;

    return control(c->fd, F_GETLK, &found) != 0 || found.l_type == F_UNLCK || server <= 0 ||
           found.l_pid == server;
}

/* Does it belong to a client that has ended, as the server says, which knows only those that have not?  A lock that is
 * free by now did. */
static bool is_of_ended(const struct lock_call *c, pid_t server)
{
    struct flock found = c->lock;

    if (control(c->fd, F_GETLK, &found) != 0)
        return false;
    if (found.l_type == F_UNLCK)
        return true;

    (void)amph_client_lock_holder(c->cl, c->file, &found, true);
    return found.l_pid == server;
}

/* Ends when the server has released the lock, or has ended itself.  If the server's process is not known here, because
 * it belongs to another container, the lock may be of any process, and the wait is short. */
static int try_again(struct lock_call *c, pid_t server)
{
    uint64_t end_ns = server > 0 ? UINT64_MAX : amph_now_ns() + ENDED_NS;
    int err = EAGAIN;

    while (err == EAGAIN && is_of_ended(c, server) && amph_now_ns() < end_ns) {
        sched_yield();
        err = control(c->fd, F_SETLK, &c->lock);
    }

    return err;
}

/* Another process has a lock in the way. */
static enum outcome conflict(struct lock_call *c, const struct amph_client_link *link, bool waits,
                             int *err_p)
{
    bool is_only = atomic_load(&locks.nfiles) == 1 && !c->f->held && c->f->waits == 0;

    pid_t server = server_of(link);

    if (!waits && !may_be_ended(c, server)) {
        release_if_free(c->f);
        return HERE;
    }

    if (is_only) {
        release(c->f);
        mark_remote(c->e);
        return AT_SERVER;
    }

    if (waits) {
        c->f->waits++;
        c->outer = amph_client_thread.lock_wait;
        amph_client_thread.lock_wait = (struct amph_client_lock_wait){ c, c->f, c->cancel };
        return WAITS;
    }

    *err_p = try_again(c, server);
    if (!*err_p)
        c->f->held = true;

    release_if_free(c->f);
    return HERE;
}

static enum outcome take(struct lock_call *c, bool waits, int *err_p)
{
    struct amph_client_link *link;

    if (amph_client_link_to(c->cl, c->file->part[0].server, &link) == 0) {
        ask_for_descriptor(c);

        bool here = find_descriptor(c, true, err_p);

        if (here && *err_p)
            return HERE;
        if (here && !c->f && c->e->access == O_RDWR)
            c->f = add_locked(c->e->fd, c->e->dev, c->e->ino, c->e->shared);
    }

    if (!c->f) {
        mark_remote(c->e);
        return AT_SERVER;
    }

    *err_p = control(c->fd, F_SETLK, &c->lock);
    if (*err_p == EAGAIN)
        return conflict(c, link, waits, err_p);

    if (!*err_p)
        c->f->held = true;

    release_if_free(c->f);
    return HERE;
}

static enum outcome give_back(struct lock_call *c, int *err_p)
{
    if (!find_descriptor(c, false, err_p))
        return AT_SERVER;

    if (!*err_p)
        *err_p = control(c->fd, F_SETLK, &c->lock);

    if (!*err_p && is_whole(&c->lock))
        dropped(c->f);

    return HERE;
}

/* Waits in the kernel, as a program does that is not forwarded: its signals are let in. */
static int wait_here(struct lock_call *c)
{
    struct amph_client_sigguard g;
    struct amph_client_link *link;
    int cancel;

    /* a thread that is cancelled here would leave its references */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);

    int err = control(c->fd, F_SETLKW, &c->lock);

    pthread_setcancelstate(cancel, NULL);
    amph_client_record_locks_enter(&g);
    amph_client_thread.lock_wait = c->outer;
    c->f->waits--;
    c->f->held |= !err;
    amph_client_check(c->cl);
    if (!err && amph_client_link_to(c->cl, c->file->part[0].server, &link) != 0) {
        c->lock.l_type = F_UNLCK;
        control(c->fd, F_SETLK, &c->lock);
        err = EIO;
    }

    release_if_free(c->f);
    amph_client_record_locks_leave(&g);
    return err;
}

/* Ends the wait that a signal handler of this thread has left by a jump.  It has if the present call is in the
 * same place on the stack. */
static void end_left_wait(const struct lock_call *c)
{
    struct amph_client_lock_wait left = amph_client_thread.lock_wait;
    struct amph_client_sigguard g;

    if (AMPH_LIKELY(left.frame != c))
        return;

    pthread_setcancelstate(left.cancel, NULL);
    amph_client_record_locks_enter(&g);
    amph_client_thread.lock_wait.frame = NULL;
    left.file->waits--;
    release_if_free(left.file);
    amph_client_record_locks_leave(&g);
}

static int set_lock(const struct amph_layer *self, struct amph_fwd_call *call, struct lock_call *c,
                    const struct flock *lock, bool waits)
{
    struct amph_client_sigguard g;
    bool takes = lock->l_type != F_UNLCK;
    int err;

    c->lock = *lock;
    if (takes)
        amph_fwd_lock_end(&c->lock);

    amph_client_record_locks_enter(&g);
    c->cancel = g.cancel;
    c->e = amph_client_passed_find(&c->file->part[0]);

    enum outcome outcome = takes ? take(c, waits, &err) : give_back(c, &err);

    amph_client_record_locks_leave(&g);
    if (outcome == AT_SERVER && takes)
        return take_remote(self, call);
    if (outcome == AT_SERVER)
        return is_whole(lock) ? drop_remote(self, call, c->file)
                              : amph_layer_pass(self->next, call);
    if (outcome == WAITS)
        err = wait_here(c);

    amph_client_passed_count(c->shared, err, 0, 0);
    return err;
}

static int do_psetlock(const struct amph_layer *self, struct amph_fwd_call *call,
                       struct lock_call *c)
{
    return set_lock(self, call, c, call->u.psetlock.lock, false);
}

static int do_pwaitlock(const struct amph_layer *self, struct amph_fwd_call *call,
                        struct lock_call *c)
{
    return set_lock(self, call, c, call->u.pwaitlock.lock, true);
}

/* ---- looking for locks ---- */

static int do_pgetlock(const struct amph_layer *self, struct amph_fwd_call *call,
                       struct lock_call *c)
{
    struct amph_client_sigguard g;
    struct flock *got = call->u.pgetlock.got;
    int err;

    c->lock = *call->u.pgetlock.lock;
    amph_fwd_lock_end(&c->lock);
    amph_client_record_locks_enter(&g);
    c->e = amph_client_passed_find(&c->file->part[0]);

    bool here = find_descriptor(c, false, &err);

    if (here && !err)
        err = control(c->fd, F_GETLK, &c->lock);

    amph_client_record_locks_leave(&g);
    if (!here)
        return amph_layer_pass(self->next, call);

    if (!err) {
        *got = c->lock;
        amph_client_lock_holder(c->cl, c->file, got, true);
        amph_fwd_lock_show(got);
    }

    amph_client_passed_count(c->shared, err, 0, 0);
    return err;
}

/* ---- closes ---- */

/* The program has closed a descriptor of the file. */
static int do_punlock(const struct amph_layer *self, struct amph_fwd_call *call,
                      struct lock_call *c)
{
    struct amph_client_sigguard g;
    struct identity id;

    if (atomic_load(&locks.nfiles) > 0) {
        amph_client_record_locks_enter(&g);
        c->e = amph_client_passed_peek(&c->file->part[0]);
        c->has = amph_client_passed_has(c->e);

        struct locked_file *f = identify(c, &id) == 0 ? find_locked(id.dev, id.ino, id.fd) : NULL;
        struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

        if (f)
            control(f->fd, F_SETLK, &all);

        dropped(f);
        amph_client_record_locks_leave(&g);
    }

    return amph_client_record_locks_are_remote() ? drop_remote(self, call, c->file) : 0;
}

void amph_client_record_locks_close(const struct amph_fwd_ref *part)
{
    struct passed_file *e = amph_client_passed_peek(part);
    struct amph_client_sigguard g;

    if (!e && !amph_client_kept_any())
        return;

    amph_client_record_locks_enter(&g);
    e = amph_client_passed_peek(part);
    if (e) {
        struct locked_file *f = amph_client_passed_has(e) ? find_locked(e->dev, e->ino, e->fd)
                                                          : NULL;

        dropped(f);
        unmark_remote(e);
        amph_client_passed_withdraw(e, part->handle);
    }

    amph_client_kept_close(part);
    amph_client_record_locks_leave(&g);
}

/* ---- the calls ---- */

typedef int (*lock_fn)(const struct amph_layer *self, struct amph_fwd_call *call,
                       struct lock_call *c);

static const lock_fn lock_fns[AMPH_FWD_NCALLS] = {
    [AMPH_FWD_PSETLOCK] = do_psetlock,
    [AMPH_FWD_PWAITLOCK] = do_pwaitlock,
    [AMPH_FWD_PGETLOCK] = do_pgetlock,
    [AMPH_FWD_PUNLOCK] = do_punlock,
};

/* The number of the descriptor table that owns the lock. */
static uint32_t table_of(const struct amph_fwd_call *call)
{
    const struct flock *lock = amph_fwd_client_pointer(&amph_fwd_calls[call->id], &call->u,
                                                       FWD_IN_LOCK);

    return lock ? (uint32_t)lock->l_pid : (uint32_t)call->u.punlock.table;
}

int amph_client_record_lock(const struct amph_layer *self, struct amph_fwd_call *call,
                            const struct amph_fwd_file *file)
{
    struct lock_call c = { .cl = call->client, .file = file, .fd = -1 };

    if (file->nparts != 1 || c.cl->failover || table_of(call) != 0 || amph_thread_fd_table() != 0)
        return amph_layer_pass(self->next, call);

    end_left_wait(&c);
    amph_client_check_at_times(c.cl);
    return lock_fns[call->id](self, call, &c);
}

/* Another server may have passed a descriptor of the same file, under another name, and does not know that it
 * must not be dropped. */
static bool is_locked_elsewhere(struct amph_fwd_client *cl, const struct passed_file *e)
{
    struct amph_fwd_file file = {
        .nparts = 1, .part = { { .server = e->server, .handle = atomic_load(&e->handle) } }
    };
    struct lock_call c = { .cl = cl, .file = &file };
    struct identity id;

    return cl->nlinks > 1 && atomic_load(&locks.nfiles) > 0 &&
           (identify(&c, &id) != 0 || find_locked(id.dev, id.ino, -1));
}

bool amph_client_record_locks_on(dev_t dev, ino_t ino)
{
    return find_locked(dev, ino, -1);
}

bool amph_client_record_locks_allow(struct amph_fwd_client *cl, const struct passed_file *e)
{
    return !locks.off && !amph_client_kept_any() && !is_locked_elsewhere(cl, e);
}

/* ---- fork and exec ---- */

void amph_client_record_locks_forget(void)
{
    amph_client_kept_forget();
    amph_client_thread.lock_wait.frame = NULL;
    memset(locks.file, 0, sizeof locks.file);
    atomic_store(&locks.nfiles, 0);
    atomic_store(&locks.nremote, 0);
    atomic_store(&locks.remote_unknown, false);
    atomic_store(&locks.remote_begun, 0);
    atomic_store(&locks.remote_done, 0);
}

bool amph_client_record_locks_inherit(const struct amph_client_inherited *inherited, bool passes)
{
    locks.off = !passes;
    atomic_store(&locks.remote_unknown, inherited->locks_remote);
    amph_client_kept_inherit(inherited);
    return amph_client_kept_any();
}

void amph_client_record_locks_adopt(int fd, dev_t dev, ino_t ino)
{
    struct locked_file *f = find_locked(dev, ino, -1) ? NULL : add_locked(fd, dev, ino, NULL);

    if (f)
        f->held = true;
}

bool amph_client_record_locks_drop(dev_t dev, ino_t ino)
{
    struct locked_file *f = find_locked(dev, ino, -1);

    dropped(f);
    return f;
}
