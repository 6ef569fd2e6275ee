/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a file anew at another server, as it was at the one that has died; see client_noted.h.  Layer: iofwd.
 * Thread rule: of all processes that share an open file, one thread moves it, and the others wait.
 */
#include "iofwd/client_noted.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define MOVER_CHECK_NS (50 * AMPH_NS_PER_MS)
#define HELD_MOST_NS (2 * AMPH_NS_PER_S)
#define HELD_NAP_NS (1 * AMPH_NS_PER_MS)

/* A lock that was ours.  The server that held it for us may still be on its way out of the kernel, which nothing announces: so what is
 * held by another is asked for again, for a while. */
static int lock_again(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct timespec nap = { 0, HELD_NAP_NS };
    uint64_t end = amph_now_ns() + HELD_MOST_NS;
    int err;
    while (((err = fwd_client_once(cl, id, args)) == EAGAIN || err == EACCES) && amph_now_ns() < end)
        nanosleep(&nap, NULL);
    return err;
}

static int replay_kind(struct amph_fwd_client *cl, struct fwd_noted *e, const struct amph_fwd_file *file, short kind)
{
    struct fwd_guard g;
    struct fwd_ranges now;
    fwd_noted_lock(&g);
    int err = e->locks.unknown || !fwd_ranges_copy(&e->locks, &now) ? ENOLCK : 0;
    fwd_noted_unlock(&g);
    if (err)
        return err;
    for (uint32_t i = 0; i < now.n && !err; i++) {
        const struct fwd_range *r = &now.item[i];
        struct flock lock = { .l_type = r->type, .l_start = r->from, .l_len = r->to == FWD_RANGE_END ? 0 : r->to - r->from };
        struct amph_fwd_args_setlock a = { .file = file, .lock = &lock };
        if (r->kind == kind)
            err = lock_again(cl, kind == FWD_LOCK_OF_PROCESS ? AMPH_FWD_PSETLOCK : AMPH_FWD_SETLOCK, &a);
    }
    free(now.item);
    return err;
}

static int replay_locks(struct amph_fwd_client *cl, struct fwd_noted *e, const struct amph_fwd_file *file)
{
    int err = replay_kind(cl, e, file, FWD_LOCK_OF_FILE);
    if (!err)
        err = replay_kind(cl, e, file, FWD_LOCK_OF_PROCESS);
    if (e->flock_op && !err) {
        struct amph_fwd_args_flock a = { .file = file, .op = e->flock_op | LOCK_NB };
        err = lock_again(cl, AMPH_FWD_FLOCK, &a);
    }
    return err;
}

/* Opens the file anew at one server: the same file, at its offset, with its locks. */
static int reopen_at(struct amph_fwd_client *cl, struct fwd_noted *e, struct fwd_link *link, struct amph_fwd_file *file)
{
    struct stat st;
    off_t now, pos = (off_t)atomic_load(&e->shared->pos);
    char *path = fwd_noted_path(e);
    struct amph_fwd_args_open open_args = { .path = path, .flags = e->oflags, .file = file };
    struct amph_fwd_args_fstat fstat_args = { .file = file, .st = &st };
    bool at_end = pos == FWD_POS_END;
    struct amph_fwd_args_lseek seek = { .file = file, .off = at_end ? 0 : pos, .whence = at_end ? SEEK_END : SEEK_SET, .pos = &now };
    int err = path ? fwd_client_simple(cl, link, AMPH_FWD_OPEN, &open_args) : ENOMEM;
    free(path);
    if (err)
        return err;
    err = fwd_client_once(cl, AMPH_FWD_FSTAT, &fstat_args);
    if (!err && (st.st_ino != e->ino || st.st_dev != e->dev))
        err = ESTALE; /* another file has that name now */
    if (!err && pos != 0)
        err = fwd_client_once(cl, AMPH_FWD_LSEEK, &seek);
    if (err == ESPIPE)
        err = 0;
    if (!err)
        err = replay_locks(cl, e, file);
    if (err) {
        struct amph_fwd_args_close close_args = { .file = file };
        fwd_client_once(cl, AMPH_FWD_CLOSE, &close_args);
    }
    return err;
}

/* The next server in the mod order that is there (or the same, where only the open file has gone).  With e's mover being this process. */
static void move(struct amph_fwd_client *cl, struct fwd_noted *e)
{
    uint32_t old = atomic_load(&e->shared->server);
    int err = EIO;
    bool dead = fwd_server_is_dead(cl, old), tangled;
    struct fwd_told before = fwd_told;
    if (dead)
        fwd_flights_wait(e->shared);
    tangled = dead && fwd_flights_tangled(e->shared);
    fwd_told = (struct fwd_told){ .calls = 0 };
    for (uint32_t i = 0; i < cl->nlinks && !tangled; i++) {
        struct fwd_link *link;
        struct amph_fwd_file file;
        uint32_t server = fwd_server_after(cl, old, i);
        if (fwd_server_is_dead(cl, server) || fwd_link_to(cl, server, &link) != 0)
            continue;
        err = reopen_at(cl, e, link, &file);
        if (err && fwd_server_is_dead(cl, server))
            continue;
        if (!err) {
            e->held = file.part[0];
            atomic_store(&e->shared->answered, fwd_told.calls);
            atomic_store(&e->shared->moves, fwd_told.moves);
            atomic_store(&e->shared->handle, file.part[0].handle);
            atomic_store(&e->shared->server, server);
        }
        break;
    }
    fwd_told = before;
    if (!err)
        return;
    atomic_store(&e->shared->lost, err);
    amph_error("%s cannot be taken over from I/O server %" PRIu32 " (%s): calls on it give EIO", e->path, old, strerror(err));
}

/* Has that thread ended?  A zombie has: its parent may be who asks. */
static bool is_gone(pid_t tid)
{
    char path[40], text[256];
    if (kill(tid, 0) != 0)
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)tid);
    struct fwd_guard g; /* the preload library leaves the file alone meanwhile */
    fwd_guard_enter(&g);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    fwd_guard_leave(&g);
    text[n > 0 ? n : 0] = 0;
    const char *state = strrchr(text, ')');
    return state && (state[2] == 'Z' || state[2] == 'X');
}

static long mover_futex(struct fwd_shared *s, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, &s->mover, op, value, timeout, NULL, 0);
}

/* Makes this thread the one that moves the file, 0, or waits for the one that is at it, EAGAIN.  EDEADLK: that is what a handler of this
 * thread has come in between. */
static int become_mover(struct fwd_shared *s)
{
    /* Nothing tells of a mover's death: who waits looks now and then. */
    const struct timespec most = { .tv_nsec = MOVER_CHECK_NS };
    uint32_t self = (uint32_t)gettid(), other = 0;
    if (atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;
    if (other == self)
        return EDEADLK;
    if (is_gone((pid_t)other) && atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;
    mover_futex(s, FUTEX_WAIT, other, &most);
    return EAGAIN;
}

static void end_move(struct fwd_shared *s)
{
    atomic_store(&s->mover, 0);
    mover_futex(s, FUTEX_WAKE, INT_MAX, NULL);
}

int fwd_noted_settle(struct amph_fwd_client *cl, struct fwd_noted *e)
{
    for (;;) {
        struct fwd_shared *s = e->shared;
        if (atomic_load(&s->lost))
            return EIO;
        struct amph_fwd_file file = { .nparts = 1, .part = { { atomic_load(&s->server), atomic_load(&s->handle) } } };
        struct amph_fwd_args_hold a = { .file = &file };
        bool there = !fwd_server_is_dead(cl, file.part[0].server);
        if (there && fwd_ref_same(&file.part[0], &e->held))
            return 0;
        if (there && fwd_client_once(cl, AMPH_FWD_HOLD, &a) == 0) { /* another process has moved it */
            e->held = file.part[0];
            replay_kind(cl, e, &file, FWD_LOCK_OF_PROCESS); /* those are each process's own */
            continue;
        }
        /* Its server has died, or who moved it has ended before this process came to hold it. */
        int err = become_mover(s);
        if (err == EDEADLK)
            return EIO;
        if (err)
            continue;
        if (!atomic_load(&s->lost) && atomic_load(&s->handle) == file.part[0].handle)
            move(cl, e);
        end_move(s);
    }
}

void fwd_noted_save_locks(struct amph_fwd_client *cl)
{
    uint32_t deaths = atomic_load(&cl->deaths);
    struct fwd_noted *e;
    if (AMPH_LIKELY(atomic_exchange(&cl->deaths_seen, deaths) == deaths))
        return;
    while ((e = fwd_noted_pin_locked(cl))) {
        (void)fwd_noted_settle(cl, e); /* one that is lost is not asked for again */
        fwd_noted_unpin(e);
    }
}
