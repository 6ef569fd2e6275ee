/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-mount: record locks and flock.
 *
 * A record lock belongs to a process of this host, which the kernel identifies by a number (the
 * owner).  At the server each owner of locks on a file is a separate open file with locks of its
 * open file description, so they exclude those of every other owner, of other mounts, of preload
 * clients and of programs on the server's host.  Closing that file releases the locks, as POSIX
 * requires of any close by the process. flock belongs to the open file, which the server has
 * already.  A lock of an open file description (F_OFD_SETLK) has an owner, too, which is the
 * description: the kernel says nothing of it at the last close, so it is released there.
 *
 * A process that gets a lock must see earlier writes, so the kernel then drops the file's pages.
 *
 * Layer: iofwd.  Thread rule: any thread of the session; a lock that must wait uses a thread of its
 * own (waiting.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

#include "base/os/clock.h"
#include "iofwd/mount/mount.h"

#define RELEASES_NS (25 * AMPH_NS_PER_MS) /* how long a refused lock waits for them */

/* The locks of one process on one file.  Guarded by the lock of the tables. */
struct amph_mount_owner {
    struct amph_mount_owner *next; /* of its node */
    uint64_t number;
    pid_t pid;
    struct amph_mount_handle *handle;
    const struct amph_mount_open *open; /* by which it got its first lock */
};

/* ---- owners ---- */

static struct amph_mount_handle *find_owner(struct amph_mount_node *node, uint64_t number)
{
    struct amph_mount_handle *handle = NULL;

    amph_mount_lock();
    for (struct amph_mount_owner *o = node->owners; o && !handle; o = o->next)
        if (o->number == number)
            handle = amph_mount_handle_get(o->handle);

    amph_mount_unlock();
    return handle;
}

/* Opens the file once more.  A write lock needs a file that is open for writing. */
static int open_for_locks(const struct amph_mount_open *open, struct amph_mount_handle **handle_p)
{
    static const int modes[] = { O_RDWR, O_RDONLY, O_WRONLY };
    struct amph_fwd_file file;
    int err = EBADF;

    for (unsigned i = 0; i < 3 && err; i++)
        err = amph_fwd_open(amph_mount.cl, &open->handle->file, "", modes[i], 0, &file);

    if (err)
        return err;

    *handle_p = amph_mount_handle_make(&file);
    return *handle_p ? 0 : ENOMEM;
}

/* Finds or makes the owner.  The caller puts the handle. */
static int owner_of(const struct amph_mount_open *open, uint64_t number, pid_t pid,
                    struct amph_mount_handle **handle_p)
{
    struct amph_mount_node *node = open->node;

    *handle_p = find_owner(node, number);
    if (*handle_p)
        return 0;

    struct amph_mount_owner *o = malloc(sizeof *o);
    struct amph_mount_handle *fresh = NULL;
    int err = o ? open_for_locks(open, &fresh) : ENOMEM;

    if (err) {
        free(o);
        return err;
    }

    amph_mount_lock();
    for (struct amph_mount_owner *other = node->owners; other; other = other->next)
        if (other->number == number) /* another thread of the process has made it meanwhile */
            *handle_p = amph_mount_handle_get(other->handle);

    if (!*handle_p) {
        *o = (struct amph_mount_owner){ node->owners, number, pid, fresh, open };
        node->owners = o;
        *handle_p = amph_mount_handle_get(fresh);
        o = NULL;
        fresh = NULL;
    }

    amph_mount_unlock();
    free(o);
    amph_mount_handle_put(fresh);
    return 0;
}

/* Takes the owner of that number, or (open not NULL) one of that open file, out of its list; NULL: there is none. */
static struct amph_mount_owner *take_owner(struct amph_mount_node *node, uint64_t number,
                                           const struct amph_mount_open *open)
{
    struct amph_mount_owner *gone = NULL;

    amph_mount_lock();
    for (struct amph_mount_owner **at = &node->owners; *at; at = &(*at)->next)
        if (open ? (*at)->open == open : (*at)->number == number) {
            gone = *at;
            *at = gone->next;
            break;
        }

    amph_mount_unlock();
    return gone;
}

static void end_owner(struct amph_mount_owner *gone)
{
    /* another thread's request may still wait with this handle */
    struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

    amph_fwd_setlock(amph_mount.cl, &gone->handle->file, &all);
    amph_mount_handle_put(gone->handle);
    free(gone);
}

void amph_mount_lock_drop(struct amph_mount_node *node, uint64_t number)
{
    struct amph_mount_owner *gone = take_owner(node, number, NULL);

    if (!gone)
        return;

    /* A process that ends closes its files, and waits for the answer. */
    if (amph_mount_thread.request)
        amph_mount_suspect(atomic_load(&amph_mount_thread.request->unique));

    end_owner(gone);
}

/* A process that has locks by this open file has dropped them when it closed its descriptor; what is left belongs to
 * the open file itself. */
void amph_mount_lock_release(const struct amph_mount_open *open)
{
    struct amph_mount_owner *gone;

    while ((gone = take_owner(open->node, 0, open)) != NULL)
        end_owner(gone);
}

void amph_mount_release_ended(void)
{
    atomic_fetch_sub(&amph_mount.releases.begun, 1);
    if (!atomic_load(&amph_mount.releases.awaited))
        return;

    pthread_mutex_lock(&amph_mount.releases.lock);
    pthread_cond_broadcast(&amph_mount.releases.ended);
    pthread_mutex_unlock(&amph_mount.releases.lock);
}

/* The end of an open file is reported to no one who waits, but before the requests that follow it.  So a lock that is
 * refused may be one whose end was on its way when the request came (releases.begun was not 0). */
static void await_releases(void)
{
    const uint64_t until_ns = amph_now_ns() + RELEASES_NS;
    const struct timespec until = { .tv_sec = (time_t)(until_ns / AMPH_NS_PER_S),
                                    .tv_nsec = (long)(until_ns % AMPH_NS_PER_S) };
    int err = 0;

    pthread_mutex_lock(&amph_mount.releases.lock);
    atomic_fetch_add(&amph_mount.releases.awaited, 1);
    while (!err && atomic_load(&amph_mount.releases.begun))
        err = pthread_cond_clockwait(&amph_mount.releases.ended, &amph_mount.releases.lock,
                                     CLOCK_MONOTONIC, &until);

    atomic_fetch_sub(&amph_mount.releases.awaited, 1);
    pthread_mutex_unlock(&amph_mount.releases.lock);
}

/* Returns the only other process of this mount with locks on the file; 0 if there are several,
 * because the server reports only this mount as the owner. */
static pid_t other_owner(struct amph_mount_node *node, uint64_t number)
{
    pid_t pid = 0;
    unsigned n = 0;

    amph_mount_lock();
    for (struct amph_mount_owner *o = node->owners; o; o = o->next)
        if (o->number != number) {
            pid = o->pid;
            n++;
        }

    amph_mount_unlock();
    return n == 1 ? pid : 0;
}

/* ---- waiting ---- */

struct lock_call {
    struct amph_mount_waiting w;
    struct amph_mount_handle *handle;
    fuse_ino_t ino;
    bool whole; /* flock */
    int op;
    struct flock lock;
};

/* Makes one attempt. waits: the request waits at the server until it has the lock or is
 * interrupted. */
static int attempt(const struct lock_call *c, bool waits)
{
    const struct amph_fwd_file *file = &c->handle->file;

    if (c->whole)
        return amph_fwd_flock(amph_mount.cl, file, waits ? c->op & ~LOCK_NB : c->op | LOCK_NB);

    return waits ? amph_fwd_waitlock(amph_mount.cl, file, &c->lock)
                 : amph_fwd_setlock(amph_mount.cl, file, &c->lock);
}

/* Repeats the request until it gets the lock.  Used for requests beyond AMPH_MOUNT_WAITERS: the
 * client's requests in flight are limited, and the request that releases the lock must get
 * through. */
static int ask_again(const struct lock_call *c)
{
    const struct timespec pause = { .tv_nsec = 10 * AMPH_NS_PER_MS };
    int err;

    while ((err = attempt(c, false)) == EAGAIN && !atomic_load(&c->w.interrupted)) {
        if (atomic_load(&amph_mount.lock_waits) < AMPH_MOUNT_WAITERS)
            return EAGAIN;

        nanosleep(&pause, NULL);
    }

    return err == EAGAIN ? EINTR : err;
}

static int wait_for_it(const struct lock_call *c)
{
    int err = EAGAIN;

    while (err == EAGAIN) {
        if (atomic_fetch_add(&amph_mount.lock_waits, 1) < AMPH_MOUNT_WAITERS) {
            err = attempt(c, true);
            atomic_fetch_sub(&amph_mount.lock_waits, 1);
            return err;
        }

        atomic_fetch_sub(&amph_mount.lock_waits, 1);
        err = ask_again(c);
    }

    return err;
}

static void finish(fuse_req_t req, fuse_ino_t ino, int type, int err)
{
    if (!err && type != F_UNLCK)
        fuse_lowlevel_notify_inval_inode(amph_mount.session, ino, 0, 0);

    fuse_reply_err(req, err);
}

static void run_lock(struct amph_mount_waiting *w)
{
    struct lock_call *c = (struct lock_call *)w;
    int err = wait_for_it(c);

    amph_mount_waiting_end(w);
    finish(w->req, c->ino, F_WRLCK, err);
    amph_mount_handle_put(c->handle);
    free(c);
}

/* Executes the call, in another thread if it has to wait.  Takes over call->handle. */
static void carry_out(fuse_req_t req, const struct lock_call *call, int type, bool waits)
{
    const bool releases = atomic_load(&amph_mount.releases.begun) > 0;
    struct lock_call *c = NULL;
    int err = attempt(call, false);

    if (err == EAGAIN && releases) {
        await_releases();
        err = attempt(call, false);
    }

    if (err == EAGAIN && waits) {
        c = malloc(sizeof *c);
        if (c) {
            *c = *call;
            c->w.req = req;
            c->w.run = run_lock;
        }

        err = c ? amph_mount_waiting_start(&c->w, true) : ENOMEM;
        if (!err)
            return;
    }

    free(c);
    finish(req, call->ino, type, err);
    amph_mount_handle_put(call->handle);
}

/* ---- the calls ---- */

static struct amph_mount_open *open_of(const struct fuse_file_info *fi)
{
    return (struct amph_mount_open *)(uintptr_t)fi->fh;
}

static void do_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock,
                     int sleeps)
{
    struct lock_call call = { .ino = ino, .lock = *lock };
    int err = 0;

    call.lock.l_pid = 0;
    if (lock->l_type != F_UNLCK)
        err = owner_of(open_of(fi), fi->lock_owner, lock->l_pid, &call.handle);
    else if (!(call.handle = find_owner(open_of(fi)->node, fi->lock_owner))) {
        fuse_reply_err(req, 0);
        return;
    }

    if (err)
        fuse_reply_err(req, err);
    else
        carry_out(req, &call, lock->l_type, sleeps);
}

static void do_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock)
{
    struct amph_mount_open *open = open_of(fi);
    struct amph_mount_handle *handle = find_owner(open->node, fi->lock_owner);
    struct flock ask = *lock, got;

    if (!handle) /* this owner has no locks, so any open file without locks can ask */
        handle = amph_mount_handle_get(open->handle);

    ask.l_pid = 0;

    int err = amph_fwd_getlock(amph_mount.cl, &handle->file, &ask, &got);

    amph_mount_handle_put(handle);
    if (err) {
        fuse_reply_err(req, err);
        return;
    }

    if (got.l_type != F_UNLCK && got.l_pid <= 0)
        got.l_pid = other_owner(open->node, fi->lock_owner);

    fuse_reply_lock(req, &got);
}

static void do_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int op)
{
    struct lock_call call = {
        .ino = ino, .whole = true, .op = op, .handle = amph_mount_handle_get(open_of(fi)->handle)
    };

    carry_out(req, &call, op & LOCK_UN ? F_UNLCK : F_WRLCK, !(op & (LOCK_NB | LOCK_UN)));
}

void amph_mount_lock_calls(struct fuse_lowlevel_ops *ops)
{
    ops->getlk = do_getlk;
    ops->setlk = do_setlk;
    ops->flock = do_flock;
}
