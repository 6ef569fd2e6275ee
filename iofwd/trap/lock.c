/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: record locks and flock.
 *
 * A record lock belongs to a process.  At the server an owner, a process with locks on a file, is an
 * open file of its own, whose locks (of the open file description) exclude those of every other owner,
 * of other clients and of the servers' host.  It ends when the process closes any descriptor of the
 * file, as POSIX says, or ends.  flock, and the locks of open file descriptions, belong to the open
 * file that the program has.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the owners.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define CL amph_trap.cl

/* The locks of one process on one file. */
struct owner {
    struct owner *next;
    _Atomic unsigned refs; /* one is the list's */
    pid_t pid;
    dev_t dev;
    ino_t number;
    struct amph_fwd_file file;
};

static struct {
    pthread_mutex_t lock;
    struct owner *first;
} owners = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- owners ---- */

static void owner_put(struct owner *o)
{
    if (o && atomic_fetch_sub(&o->refs, 1) == 1) {
        amph_fwd_close(CL, &o->file);
        free(o);
    }
}

/* Asks which file it is. */
static int identify(struct amph_trap_file *file)
{
    struct stat st;

    if (atomic_load(&file->has_identity))
        return 0;

    int err = amph_fwd_fstat(CL, &file->file, &st);

    if (!err) {
        file->dev = st.st_dev;
        file->number = st.st_ino;
        atomic_store(&file->has_identity, true);
    }

    return err;
}

/* With the lock held. */
static struct owner *search(const struct amph_trap_file *file, pid_t pid)
{
    struct owner *o = owners.first;

    while (o && (o->pid != pid || o->dev != file->dev || o->number != file->number))
        o = o->next;

    return o;
}

static struct owner *find(const struct amph_trap_file *file, pid_t pid)
{
    pthread_mutex_lock(&owners.lock);

    struct owner *o = search(file, pid);

    if (o)
        atomic_fetch_add(&o->refs, 1);

    pthread_mutex_unlock(&owners.lock);
    return o;
}

/* Opens the file once more.  A write lock needs an open file that may be written. */
static int open_for_locks(const struct amph_trap_file *file, struct amph_fwd_file *out)
{
    static const int modes[] = { O_RDWR, O_RDONLY, O_WRONLY };
    int err = EBADF;

    for (unsigned i = 0; i < 3 && err; i++)
        err = amph_fwd_open(CL, &file->file, "", modes[i], 0, out);

    return err;
}

/* Finds or makes the owner.  The caller puts it. */
static int owner_of(const struct amph_trap_file *file, pid_t pid, struct owner **owner_p)
{
    *owner_p = find(file, pid);
    if (*owner_p)
        return 0;

    struct owner *o = calloc(1, sizeof *o);
    int err = o ? open_for_locks(file, &o->file) : ENOMEM;

    if (err) {
        free(o);
        return err;
    }

    o->refs = 2;
    o->pid = pid;
    o->dev = file->dev;
    o->number = file->number;
    pthread_mutex_lock(&owners.lock);

    /* another thread of the process may have been faster */
    struct owner *other = search(file, pid);

    if (other) {
        atomic_fetch_add(&other->refs, 1);
    } else {
        o->next = owners.first;
        owners.first = o;
    }

    pthread_mutex_unlock(&owners.lock);
    *owner_p = other ? other : o;
    if (other) {
        atomic_store(&o->refs, 1);
        owner_put(o);
    }

    return 0;
}

static bool has_locks(pid_t pid)
{
    pthread_mutex_lock(&owners.lock);

    const struct owner *o = owners.first;

    while (o && o->pid != pid)
        o = o->next;

    pthread_mutex_unlock(&owners.lock);
    return o;
}

void amph_trap_lock_drop(struct amph_trap_file *file, pid_t pid)
{
    struct owner *gone = NULL;

    if (!has_locks(pid) || (file && identify(file) != 0))
        return;

    pthread_mutex_lock(&owners.lock);
    for (struct owner **at = &owners.first; *at;) {
        struct owner *o = *at;

        if (o->pid == pid && (!file || (o->dev == file->dev && o->number == file->number))) {
            *at = o->next;
            o->next = gone;
            gone = o;
        } else {
            at = &o->next;
        }
    }

    pthread_mutex_unlock(&owners.lock);
    while (gone) {
        /* a request of another thread of the process may still wait with it */
        const struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
        struct owner *next = gone->next;

        amph_fwd_setlock(CL, &gone->file, &all);
        owner_put(gone);
        gone = next;
    }
}

/* The only other process with locks on the file, 0 if that is unclear: the server knows no more than
 * that it is us. */
static pid_t other_owner(const struct amph_trap_file *file, pid_t pid)
{
    pid_t other = 0;
    unsigned n = 0;

    pthread_mutex_lock(&owners.lock);
    for (const struct owner *o = owners.first; o; o = o->next)
        if (o->pid != pid && o->dev == file->dev && o->number == file->number) {
            other = o->pid;
            n++;
        }

    pthread_mutex_unlock(&owners.lock);
    return n == 1 ? other : 0;
}

/* ---- waiting ---- */

struct request {
    const struct amph_fwd_file *file;
    bool whole; /* flock */
    int op;
    struct flock lock;
};

/* Returns at once. */
static int attempt(const struct request *r)
{
    return r->whole ? amph_fwd_flock(CL, r->file, r->op | LOCK_NB)
                    : amph_fwd_setlock(CL, r->file, &r->lock);
}

/* Waits at the server, until it has the lock or is interrupted. */
static int wait_for(void *arg)
{
    const struct request *r = arg;

    return r->whole ? amph_fwd_flock(CL, r->file, r->op & ~LOCK_NB)
                    : amph_fwd_waitlock(CL, r->file, &r->lock);
}

static int carry_out(struct amph_trap_call *c, struct request *r, bool waits)
{
    int err = attempt(r);

    /* the holder may be a process that has just ended, or a file that has just been closed */
    if (err == EAGAIN) {
        amph_trap_process_reap();
        amph_trap_number_flush();
        amph_trap_file_reap();
        err = attempt(r);
    }

    return err == EAGAIN && waits ? amph_trap_wait(c, AMPH_TRAP_WAIT_USE, wait_for, r) : err;
}

/* ---- the calls ---- */

static int get_lock(struct amph_trap_call *c, struct amph_trap_file *file,
                    const struct owner *owner, pid_t pid, struct flock *lock, uint64_t where)
{
    struct flock got;
    int err = amph_fwd_getlock(CL, owner ? &owner->file : &file->file, lock, &got);

    if (err)
        return err;

    if (got.l_type == F_UNLCK) /* the rest stays as it was */
        lock->l_type = F_UNLCK;
    else
        *lock = got;

    if (lock->l_type != F_UNLCK && pid && lock->l_pid <= 0)
        lock->l_pid = other_owner(file, pid);

    return amph_trap_put(c, where, lock, sizeof *lock);
}

/* Makes a lock relative to the offset absolute, because an owner has an offset of its own. */
static int make_absolute(struct amph_trap_file *file, struct flock *lock)
{
    off_t pos = 0;

    if (lock->l_whence != SEEK_CUR)
        return 0;

    int err = amph_fwd_lseek(CL, &file->file, 0, SEEK_CUR, &pos);

    lock->l_whence = SEEK_SET;
    lock->l_start += pos;
    return err;
}

/* May the descriptor have such a lock? */
static int check_access(const struct amph_trap_file *file, int type)
{
    int mode = file->flags & O_ACCMODE;

    if (file->flags & O_PATH)
        return EBADF;

    if ((type == F_RDLCK && mode == O_WRONLY) || (type == F_WRLCK && mode == O_RDONLY))
        return EBADF;

    return 0;
}

static bool is_of_file(int command)
{
    return command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

static bool asks(int command)
{
    return command == F_GETLK || command == F_OFD_GETLK;
}

static bool waits(int command)
{
    return command == F_SETLKW || command == F_OFD_SETLKW;
}

/* Reads and checks the lock at `where`, and makes its range absolute. */
static int take_lock(struct amph_trap_call *c, struct amph_trap_file *file, int command,
                     uint64_t where, struct flock *lock)
{
    int err = amph_trap_get(c, lock, where, sizeof *lock);

    if (!err)
        err = amph_trap_process_of(c, NULL);

    if (!err && is_of_file(command) && lock->l_pid)
        err = EINVAL;

    if (!err)
        err = make_absolute(file, lock);

    if (!err && !asks(command))
        err = check_access(file, lock->l_type);

    lock->l_pid = 0;
    return err;
}

/* *owner_p: the process's locks of the file, which owner_put gives back; NULL if it has none.  A
 * command that sets a lock makes them. */
static int take_owner(struct amph_trap_file *file, pid_t pid, int command, int type,
                      struct owner **owner_p)
{
    int err = identify(file);

    if (err)
        return err;

    if (!asks(command) && type != F_UNLCK)
        return owner_of(file, pid, owner_p);

    *owner_p = find(file, pid);
    return 0;
}

int amph_trap_lock(struct amph_trap_call *c, struct amph_trap_file *file, int command,
                   uint64_t where)
{
    struct owner *owner = NULL;
    struct request r = { .file = &file->file };
    pid_t pid = 0;
    int err = take_lock(c, file, command, where, &r.lock);

    if (!err && !is_of_file(command)) {
        pid = amph_trap_process_pid(c->process);
        err = take_owner(file, pid, command, r.lock.l_type, &owner);
    }

    if (owner)
        r.file = &owner->file;

    if (!err && asks(command))
        err = get_lock(c, file, owner, pid, &r.lock, where);
    else if (!err && (owner || !pid)) /* else there is nothing to unlock */
        err = carry_out(c, &r, waits(command));

    owner_put(owner);
    return err;
}

int amph_trap_flock(struct amph_trap_call *c, struct amph_trap_file *file, int op)
{
    struct request r = { .file = &file->file, .whole = true, .op = op };

    return carry_out(c, &r, !(op & (LOCK_NB | LOCK_UN)));
}
