/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reopens a file at another server in the state it had at the dead one; see recovery/record.h.
 *
 * Layer: iofwd.
 * Thread rule: of all processes that share an open file, one thread (the mover) reopens it, and the
 * others wait.
 */
#include "iofwd/calls/calls.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os/clock.h"
#include "base/log.h"

#define MOVER_CHECK_NS (50 * AMPH_NS_PER_MS)
#define STOPPED_MAX_NS (1 * AMPH_NS_PER_S)
#define HELD_MAX_NS (2 * AMPH_NS_PER_S)
#define HELD_NAP_NS (1 * AMPH_NS_PER_MS)

/* Acquires a lock that this client held at the dead server.  The kernel may still be releasing the
 * dead server's locks, and nothing announces the end of that, so the call is repeated for a while.
 */
static int lock_again(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct timespec nap = { 0, HELD_NAP_NS };
    uint64_t end = amph_now_ns() + HELD_MAX_NS;
    int err;

    while (((err = amph_client_once(cl, id, args)) == EAGAIN || err == EACCES) &&
           amph_now_ns() < end)
        nanosleep(&nap, NULL);

    return err;
}

/* of_process: those of the process's descriptor tables; else those of the open file. */
static int restore_locks_of(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const struct amph_fwd_file *file, bool of_process)
{
    struct amph_client_sigguard g;
    struct amph_fwd_ranges now;

    amph_client_records_lock(&g);

    int err = e->locks.unknown || !amph_fwd_ranges_copy(&e->locks, &now) ? ENOLCK : 0;

    amph_client_records_unlock(&g);
    if (err)
        return err;

    for (uint32_t i = 0; i < now.n && !err; i++) {
        const struct amph_fwd_range *r = &now.item[i];
        struct flock lock = { .l_type = r->type,
                              .l_start = r->from,
                              .l_len = r->to == FWD_RANGE_END ? 0 : r->to - r->from,
                              .l_pid = of_process ? r->kind - AMPH_CLIENT_LOCK_OF_PROCESS : 0 };
        struct amph_fwd_args_setlock a = { .file = file, .lock = &lock };

        if (of_process == (r->kind >= AMPH_CLIENT_LOCK_OF_PROCESS))
            err = lock_again(cl, of_process ? AMPH_FWD_PSETLOCK : AMPH_FWD_SETLOCK, &a);
    }

    free(now.item);
    return err;
}

static int restore_locks(struct amph_fwd_client *cl, struct amph_client_record *e,
                         const struct amph_fwd_file *file)
{
    int err = restore_locks_of(cl, e, file, false);

    if (!err)
        err = restore_locks_of(cl, e, file, true);

    if (e->flock_op && !err) {
        struct amph_fwd_args_flock a = { .file = file, .op = e->flock_op | LOCK_NB };
        err = lock_again(cl, AMPH_FWD_FLOCK, &a);
    }

    return err;
}

static void close_again(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct amph_fwd_args_close a = { .file = file };
    amph_client_once(cl, AMPH_FWD_CLOSE, &a);
}

/* Reopens the file at one server: the same inode, with its offset and locks. */
static int reopen_at(struct amph_fwd_client *cl, struct amph_client_record *e,
                     struct amph_client_link *link, struct amph_fwd_file *file)
{
    struct stat st;
    off_t now;
    off_t pos = (off_t)atomic_load(&e->shared->pos);
    char *path = amph_client_record_path(e);
    struct amph_fwd_args_open open_args = { .path = path, .flags = e->oflags, .file = file };
    struct amph_fwd_args_fstat fstat_args = { .file = file, .st = &st };
    bool at_end = pos == AMPH_CLIENT_POS_END;
    struct amph_fwd_args_lseek seek = {
        .file = file, .off = at_end ? 0 : pos, .whence = at_end ? SEEK_END : SEEK_SET, .pos = &now
    };
    int err = path ? amph_client_simple(cl, link, AMPH_FWD_OPEN, &open_args) : ENOMEM;

    free(path);
    if (err)
        return err;

    err = amph_client_once(cl, AMPH_FWD_FSTAT, &fstat_args);
    if (!err && (st.st_ino != e->ino || st.st_dev != e->dev))
        err = ESTALE; /* the path now names another file */

    if (!err && pos != 0)
        err = amph_client_once(cl, AMPH_FWD_LSEEK, &seek);

    if (err == ESPIPE)
        err = 0;

    if (!err)
        err = restore_locks(cl, e, file);

    if (err)
        close_again(cl, file);

    return err;
}

/* Publishes a new location.  Returns false if another thread, which considered this one dead or
 * stopped, has published one first. */
static bool publish_location(struct amph_client_shared *s, uint32_t before,
                             struct amph_client_location seat)
{
    uint32_t number = atomic_fetch_add(&s->turns, 1) + 1;

    s->seat[number % AMPH_CLIENT_LOCATIONS] = seat;
    return atomic_compare_exchange_strong(&s->now, &before, number);
}

/* Reopens the file at the next live server in rank order (or at the same one, if only the open file
 * is gone).  This thread is e's mover; before: the number of the location that is no longer valid.
 */
static void move(struct amph_fwd_client *cl, struct amph_client_record *e, uint32_t before)
{
    uint32_t old = e->shared->seat[before % AMPH_CLIENT_LOCATIONS].server;
    int err = EIO;
    bool dead = amph_client_server_is_dead(cl, old);
    struct amph_client_moves moves_before = amph_client_thread.offset_moves;
    bool recorded = !dead || amph_client_inflight_wait(e->shared);

    /* If the server lives, those who held the file have ended.  One that was killed may have left a
     * call that was executed and never recorded, so the recorded offset is too small here as well. */
    bool tangled = !recorded || amph_client_inflight_tangled(e->shared);

    amph_client_thread.offset_moves = (struct amph_client_moves){ .calls = 0 };

    for (uint32_t i = 0; i < cl->nlinks && !tangled; i++) {
        struct amph_client_link *link;
        struct amph_fwd_file file;
        uint32_t server = amph_client_server_after(cl, old, i);

        if (amph_client_server_is_dead(cl, server) || amph_client_link_to(cl, server, &link) != 0)
            continue;

        err = reopen_at(cl, e, link, &file);
        if (err && amph_client_server_is_dead(cl, server))
            continue;

        if (!err && publish_location(e->shared, before,
                                     (struct amph_client_location){
                                         .handle = file.part[0].handle,
                                         .server = server,
                                         .answered = amph_client_thread.offset_moves.calls,
                                         .moves = amph_client_thread.offset_moves.moves })) {
            e->held = file.part[0];
            amph_debug("%s, which I/O server %" PRIu32 " had open, is open at I/O server %" PRIu32,
                       e->path, amph_client_server_number(cl, old),
                       amph_client_server_number(cl, server));
        } else if (!err)
            close_again(cl, &file);

        break;
    }

    amph_client_thread.offset_moves = moves_before;
    if (err && publish_location(e->shared, before,
                                (struct amph_client_location){ .server = old, .lost = err }))
        amph_error("%s, which I/O server %" PRIu32
                   " had open, cannot be reopened after the %s (%s): "
                   "calls on it give EIO; open it again",
                   e->path, amph_client_server_number(cl, old),
                   dead ? "server's death" : "end of the processes that used it",
                   tangled ? "its offset is unknown, because a call moved it whose reply nobody "
                             "recorded"
                           : strerror(err));
}

/* ---- election of the mover ---- */

/* Returns a thread's value for amph_client_shared.mover: the thread id in the low half, which is
 * also a futex word; the start time in the high half, because thread ids are reused.  *state_p gets
 * the kernel's state letter.  Returns 0 if the thread does not exist. */
static uint64_t thread_value(pid_t tid, char *state_p)
{
    char path[40], text[1024];
    unsigned long long began;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)tid);

    struct amph_client_sigguard g; /* the preload library does not forward these calls */

    amph_client_sigguard_enter(&g);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);

    amph_client_sigguard_leave(&g);
    text[n > 0 ? n : 0] = 0;

    const char *after = strrchr(text, ')'); /* 19 fields separate the state and the start time */

    if (!after ||
        sscanf(after,
               ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               state_p, &began) != 2)
        return 0;

    return began << 32 | (uint32_t)tid;
}

/* A mover that was seen stopped, and since when. */
struct stopped {
    uint64_t mover, since_ns;
};

/* Returns whether that thread has ended or has been stopped for long.  A zombie counts as ended,
 * because its parent may be the caller. */
static bool has_ended(uint64_t mover, struct stopped *stopped)
{
    char state = 0;
    pid_t tid = (pid_t)(uint32_t)mover;

    if (tid <= 0) /* no thread; kill would look for a group of processes */
        return true;

    uint64_t now = thread_value(tid, &state);

    if (now == 0) /* ended, or /proc cannot be read */
        return kill(tid, 0) != 0 && errno == ESRCH;
    if (now != mover || state == 'Z' || state == 'X')
        return true;

    if ((state != 'T' && state != 't') || stopped->mover != mover) {
        *stopped = (struct stopped){ .mover = state == 'T' || state == 't' ? mover : 0,
                                     .since_ns = amph_now_ns() };
        return false;
    }

    return amph_now_ns() - stopped->since_ns > STOPPED_MAX_NS;
}

static long mover_futex(struct amph_client_shared *s, int op, uint32_t value,
                        const struct timespec *timeout)
{
    uint32_t *low = (uint32_t *)&s->mover + (AMPH_BIG_ENDIAN ? 1 : 0);
    return syscall(SYS_futex, low, op, value, timeout, NULL, 0);
}

/* Returns 0 if this thread is now the mover.  If another thread is, waits for it and returns
 * EAGAIN. EDEADLK: this thread is the mover already, and the caller is a signal handler that
 * interrupted it. */
static int become_mover(struct amph_client_shared *s, uint64_t self, struct stopped *stopped)
{
    /* the death of a mover is not announced, so waiters check periodically */
    const struct timespec max = { .tv_nsec = MOVER_CHECK_NS };
    uint64_t other = 0;

    if (atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;
    if (other == self)
        return EDEADLK;
    if (has_ended(other, stopped) && atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;

    mover_futex(s, FUTEX_WAIT, (uint32_t)other, &max);
    return EAGAIN;
}

static void end_move(struct amph_client_shared *s, uint64_t self)
{
    if (atomic_compare_exchange_strong(&s->mover, &self, 0))
        mover_futex(s, FUTEX_WAKE, INT_MAX, NULL);
}

int amph_client_record_recover(struct amph_fwd_client *cl, struct amph_client_record *e)
{
    struct stopped stopped = { .mover = 0 };
    uint64_t self = 0;
    char state;

    for (;;) {
        struct amph_client_shared *s = e->shared;
        uint32_t number = atomic_load(&s->now);
        const struct amph_client_location *seat = &s->seat[number % AMPH_CLIENT_LOCATIONS];

        if (seat->lost)
            return EIO;

        struct amph_fwd_file file = { .nparts = 1, .part = { { seat->server, seat->handle } } };
        struct amph_fwd_args_hold a = { .file = &file };
        bool there = !amph_client_server_is_dead(cl, file.part[0].server);

        if (there && amph_client_ref_same(&file.part[0], &e->held))
            return 0;

        /* another process has reopened it */
        if (there && amph_client_once(cl, AMPH_FWD_HOLD, &a) == 0) {
            e->held = file.part[0];

            /* record locks belong to each process */
            restore_locks_of(cl, e, &file, true);
            continue;
        }

        /* The server has died, or the process that reopened the file ended before this one held
         * it. */
        if (self == 0 && (self = thread_value(gettid(), &state)) == 0)
            self = (uint64_t)gettid();

        int err = become_mover(s, self, &stopped);
        if (err == EDEADLK) {
            amph_error(
                "%s: a signal handler used it while its thread was reopening it after the death of "
                "its I/O server; the call gives EIO and can be repeated after the handler",
                e->path);
            return EIO;
        }

        if (err)
            continue;

        if (atomic_load(&s->now) == number)
            move(cl, e, number);

        end_move(s, self);
    }
}

void amph_client_recover_locks(struct amph_fwd_client *cl)
{
    uint32_t deaths = atomic_load(&cl->deaths);
    struct amph_client_record *e;

    if (AMPH_LIKELY(atomic_exchange(&cl->deaths_seen, deaths) == deaths))
        return;

    while ((e = amph_client_record_pin_locked(cl))) {
        (void)amph_client_record_recover(cl, e); /* a lost file is not tried again */
        amph_client_record_unpin(e);
    }
}
