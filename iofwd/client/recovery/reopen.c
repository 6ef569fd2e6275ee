/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a file anew at another server, as it was at the one that has died; see recovery/record.h.
 * Layer: iofwd.
 * Thread rule: of all processes that share an open file, one thread moves it, and the
 * others wait.
 */
#include "iofwd/client/recovery/record.h"

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
#define STOPPED_MOST_NS (1 * AMPH_NS_PER_S)
#define HELD_MOST_NS (2 * AMPH_NS_PER_S)
#define HELD_NAP_NS (1 * AMPH_NS_PER_MS)

/* A lock that was ours.  The server that held it for us may still be on its way out of the kernel,
 * which nothing announces: so what is held by another is asked for again, for a while. */
static int lock_again(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct timespec nap = { 0, HELD_NAP_NS };
    uint64_t end = amph_now_ns() + HELD_MOST_NS;
    int err;

    while (((err = amph_client_once(cl, id, args)) == EAGAIN || err == EACCES) &&
           amph_now_ns() < end)
        nanosleep(&nap, NULL);

    return err;
}

static int replay_kind(struct amph_fwd_client *cl, struct amph_client_record *e,
                       const struct amph_fwd_file *file, short kind)
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
                              .l_len = r->to == FWD_RANGE_END ? 0 : r->to - r->from };
        struct amph_fwd_args_setlock a = { .file = file, .lock = &lock };

        if (r->kind == kind)
            err = lock_again(
                cl, kind == AMPH_CLIENT_LOCK_OF_PROCESS ? AMPH_FWD_PSETLOCK : AMPH_FWD_SETLOCK, &a);
    }

    free(now.item);
    return err;
}

static int replay_locks(struct amph_fwd_client *cl, struct amph_client_record *e,
                        const struct amph_fwd_file *file)
{
    int err = replay_kind(cl, e, file, AMPH_CLIENT_LOCK_OF_FILE);

    if (!err)
        err = replay_kind(cl, e, file, AMPH_CLIENT_LOCK_OF_PROCESS);

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

/* Opens the file anew at one server: the same file, at its offset, with its locks. */
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
        err = ESTALE; /* another file has that name now */

    if (!err && pos != 0)
        err = amph_client_once(cl, AMPH_FWD_LSEEK, &seek);

    if (err == ESPIPE)
        err = 0;

    if (!err)
        err = replay_locks(cl, e, file);

    if (err)
        close_again(cl, file);

    return err;
}

/* The seat counts from now on, unless another thread, which took this one for dead or stopped, has
 * been faster. */
static bool take_seat(struct amph_client_shared *s, uint32_t before,
                      struct amph_client_location seat)
{
    uint32_t number = atomic_fetch_add(&s->turns, 1) + 1;

    s->seat[number % AMPH_CLIENT_LOCATIONS] = seat;
    return atomic_compare_exchange_strong(&s->now, &before, number);
}

/* The next server in the mod order that is there (or the same, where only the open file has gone).
 * With e's mover being this thread; before: the number of the seat that the file has left. */
static void move(struct amph_fwd_client *cl, struct amph_client_record *e, uint32_t before)
{
    uint32_t old = e->shared->seat[before % AMPH_CLIENT_LOCATIONS].server;
    int err = EIO;
    bool dead = amph_client_server_is_dead(cl, old);
    bool tangled;
    struct amph_client_told told_before = amph_client_told;

    if (dead)
        amph_client_inflight_wait(e->shared);

    tangled = dead && amph_client_inflight_tangled(e->shared);
    amph_client_told = (struct amph_client_told){ .calls = 0 };

    for (uint32_t i = 0; i < cl->nlinks && !tangled; i++) {
        struct amph_client_link *link;
        struct amph_fwd_file file;
        uint32_t server = amph_client_server_after(cl, old, i);

        if (amph_client_server_is_dead(cl, server) || amph_client_link_to(cl, server, &link) != 0)
            continue;

        err = reopen_at(cl, e, link, &file);
        if (err && amph_client_server_is_dead(cl, server))
            continue;

        if (!err && take_seat(e->shared, before,
                              (struct amph_client_location){ .handle = file.part[0].handle,
                                                             .server = server,
                                                             .answered = amph_client_told.calls,
                                                             .moves = amph_client_told.moves }))
            e->held = file.part[0];
        else if (!err)
            close_again(cl, &file);

        break;
    }

    amph_client_told = told_before;
    if (err &&
        take_seat(e->shared, before, (struct amph_client_location){ .server = old, .lost = err }))
        amph_error("%s cannot be taken over from I/O server %" PRIu32 " (%s): calls on it give EIO",
                   e->path, old, strerror(err));
}

/* ---- who moves the file ---- */

/* Word of a thread in amph_client_shared.mover: its number below, a futex; above it the time when
 * it began, for its number may be another's some time after its end.  *state_p: as the kernel gives
 * it.  0: it is not there. */
static uint64_t look_at(pid_t tid, char *state_p)
{
    char path[40], text[1024];
    unsigned long long began;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)tid);

    struct amph_client_sigguard g; /* the preload library leaves the file alone meanwhile */

    amph_client_sigguard_enter(&g);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

    if (fd >= 0)
        close(fd);

    amph_client_sigguard_leave(&g);
    text[n > 0 ? n : 0] = 0;

    const char *after = strrchr(text, ')'); /* 19 numbers stand between its state and that */

    if (!after ||
        sscanf(after,
               ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               state_p, &began) != 2)
        return 0;

    return began << 32 | (uint32_t)tid;
}

/* A look at a mover that is stopped. */
struct stopped {
    uint64_t mover, since_ns;
};

/* Has that thread ended, or been stopped for long?  A zombie has ended: its parent may be who
 * asks. */
static bool is_out(uint64_t mover, struct stopped *stopped)
{
    char state = 0;
    uint64_t now = look_at((pid_t)(uint32_t)mover, &state);

    if (now == 0) /* or /proc cannot be read */
        return kill((pid_t)(uint32_t)mover, 0) != 0 && errno == ESRCH;
    if (now != mover || state == 'Z' || state == 'X')
        return true;

    if ((state != 'T' && state != 't') || stopped->mover != mover) {
        *stopped = (struct stopped){ .mover = state == 'T' || state == 't' ? mover : 0,
                                     .since_ns = amph_now_ns() };
        return false;
    }

    return amph_now_ns() - stopped->since_ns > STOPPED_MOST_NS;
}

static long mover_futex(struct amph_client_shared *s, int op, uint32_t value,
                        const struct timespec *timeout)
{
    uint32_t *low = (uint32_t *)&s->mover + (AMPH_BIG_ENDIAN ? 1 : 0);
    return syscall(SYS_futex, low, op, value, timeout, NULL, 0);
}

/* Makes this thread, self, the one that moves the file, 0, or waits for the one that is at it,
 * EAGAIN.  EDEADLK: that is what a handler of this thread has come in between. */
static int become_mover(struct amph_client_shared *s, uint64_t self, struct stopped *stopped)
{
    /* Nothing tells of a mover's death: who waits looks now and then. */
    const struct timespec most = { .tv_nsec = MOVER_CHECK_NS };
    uint64_t other = 0;

    if (atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;
    if (other == self)
        return EDEADLK;
    if (is_out(other, stopped) && atomic_compare_exchange_strong(&s->mover, &other, self))
        return 0;

    mover_futex(s, FUTEX_WAIT, (uint32_t)other, &most);
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

        /* another process has moved it */
        if (there && amph_client_once(cl, AMPH_FWD_HOLD, &a) == 0) {
            e->held = file.part[0];

            /* those are each process's own */
            replay_kind(cl, e, &file, AMPH_CLIENT_LOCK_OF_PROCESS);
            continue;
        }

        /* Its server has died, or who moved it has ended before this process came to hold it. */
        if (self == 0 && (self = look_at(gettid(), &state)) == 0)
            self = (uint64_t)gettid();

        int err = become_mover(s, self, &stopped);
        if (err == EDEADLK)
            return EIO;
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
        (void)amph_client_record_recover(cl, e); /* one that is lost is not asked for again */
        amph_client_record_unpin(e);
    }
}
