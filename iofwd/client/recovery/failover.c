/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next server takes over from one that has died (AMPHORA_ON_SERVER_DEATH=failover).  Layer:
 * iofwd.  Thread rule: see client/internal.h.
 *
 * The servers share a file system, so what has to be carried over is what only the dead one knew:
 * which file a handle meant (its path as it was opened, checked by device and inode), how it was
 * open, its offset and its locks.  The client notes these as calls succeed.  Offset and place of
 * the file now lie in memory that a forked child shares, as it shares the open file itself.
 *
 * A call in flight is made again where doing it twice is the same as once: the table of calls says
 * so, and calls at the offset are so because the offset before the call is known.  Processes that
 * share an offset note what they were answered, and the server counts in its answers, so that it
 * shows where a call that nobody was answered lies before one that was: then the file is lost.
 * Appending, and changes of names, may have been done or not: they get EIO.
 */
#include "iofwd/client/recovery/failover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/uio.h>

#include "base/env.h"
#include "base/log.h"
#include "iofwd/client/recovery/record.h"

bool amph_client_failover_on(void)
{
    static const unsigned word_failover = 2;
    return amph_env_enum(AMPH_ENV_ON_SERVER_DEATH) == word_failover;
}

/* ---- servers ---- */

bool amph_client_server_is_dead(const struct amph_fwd_client *cl, uint32_t server)
{
    return server >= cl->first && server - cl->first < cl->nlinks &&
           atomic_load_explicit(&cl->link[server - cl->first].state, memory_order_acquire) ==
               AMPH_CLIENT_LINK_DEAD;
}

uint32_t amph_client_server_after(const struct amph_fwd_client *cl, uint32_t server, uint32_t steps)
{
    return cl->first + (server - cl->first + steps) % cl->nlinks;
}

void amph_client_failover_rotate(struct amph_fwd_client *cl)
{
    for (uint32_t i = 0; i < cl->nlinks && amph_client_server_is_dead(cl, cl->servers[0]); i++)
        cl->servers[0] = amph_client_server_after(cl, cl->servers[0], 1);
}

int amph_client_server_home(struct amph_fwd_client *cl)
{
    struct amph_client_link *link;

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        amph_client_failover_rotate(cl);
        if (amph_client_link_to(cl, cl->servers[0], &link) == 0)
            return 0;
    }

    return EIO;
}

bool amph_client_ref_same(const struct amph_fwd_ref *a, const struct amph_fwd_ref *b)
{
    return a->server == b->server && a->handle == b->handle;
}

/* ---- what calls leave behind ---- */

/* The bytes that a lock is about, with places counted from the start of the file.  false: they
 * cannot be asked for any more. */
static bool range_of(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                     const struct flock *lock, struct amph_fwd_range *r)
{
    struct stat st;
    off_t base = 0;
    struct amph_fwd_args_lseek seek = { .file = file, .whence = SEEK_CUR, .pos = &base };
    struct amph_fwd_args_fstat look = { .file = file, .st = &st };

    if (lock->l_whence == SEEK_CUR && amph_client_once(cl, AMPH_FWD_LSEEK, &seek))
        return false;
    if (lock->l_whence == SEEK_END && amph_client_once(cl, AMPH_FWD_FSTAT, &look))
        return false;

    if (lock->l_whence == SEEK_END)
        base = st.st_size;

    r->from = base + lock->l_start + (lock->l_len < 0 ? lock->l_len : 0);

    bool to_end = lock->l_len == 0 || lock->l_len > FWD_RANGE_END - r->from;

    r->to = lock->l_len < 0 ? base + lock->l_start : to_end ? FWD_RANGE_END : r->from + lock->l_len;
    r->type = lock->l_type;
    return true;
}

static void note_lock(struct amph_fwd_client *cl, struct amph_client_record *e,
                      const struct amph_fwd_file *file, const struct flock *lock, short kind)
{
    struct amph_client_sigguard g;
    struct amph_fwd_range r = { .kind = kind };
    bool known = range_of(cl, file, lock, &r);

    amph_client_records_lock(&g);
    if (known && r.type == F_UNLCK && r.from == 0 && r.to == FWD_RANGE_END)
        amph_fwd_ranges_forget(&e->locks, kind);
    else if (!known || !amph_fwd_ranges_set(&e->locks, r))
        e->locks.unknown = true;

    amph_client_records_unlock(&g);
}

static bool appends(enum amph_fwd_id id, const union amph_fwd_args *u,
                    const struct amph_client_record *e)
{
    struct amph_client_data d;
    return amph_client_data_of(id, u, &d) && !d.reads &&
           ((d.file->rwf & RWF_APPEND) || (e && (e->oflags & O_APPEND)));
}

static void move_pos(struct amph_client_record *e, size_t by)
{
    if (atomic_load(&e->shared->pos) != AMPH_CLIENT_POS_END)
        atomic_fetch_add(&e->shared->pos, (int64_t)by);
}

static void record_read(struct amph_fwd_client *cl, struct amph_client_record *e,
                        const union amph_fwd_args *u)
{
    move_pos(e, *u->read.buf_len);
}

static void record_write(struct amph_fwd_client *cl, struct amph_client_record *e,
                         const union amph_fwd_args *u)
{
    if (e->oflags & O_APPEND)
        atomic_store(&e->shared->pos, AMPH_CLIENT_POS_END);
    else
        move_pos(e, *u->write.done);
}

static void record_lseek(struct amph_fwd_client *cl, struct amph_client_record *e,
                         const union amph_fwd_args *u)
{
    atomic_store(&e->shared->pos, *u->lseek.pos);
}

static void record_getdents(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    const struct amph_fwd_args_getdents *a = &u->getdents;

    for (size_t at = 0; at + offsetof(struct dirent64, d_name) < *a->entries_len;) {
        const struct dirent64 *d = (const struct dirent64 *)((const char *)a->entries + at);

        atomic_store(&e->shared->pos, d->d_off);
        at += d->d_reclen ? d->d_reclen : *a->entries_len;
    }
}

static void record_setflags(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    e->oflags = (e->oflags & ~(O_APPEND | O_NONBLOCK)) |
                (u->setflags.flags & (O_APPEND | O_NONBLOCK));
    atomic_store(&e->shared->oflags, e->oflags);
}

static void record_setlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                           const union amph_fwd_args *u)
{
    note_lock(cl, e, u->setlock.file, &u->setlock.lock[0], AMPH_CLIENT_LOCK_OF_FILE);
}

static void record_waitlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    note_lock(cl, e, u->waitlock.file, &u->waitlock.lock[0], AMPH_CLIENT_LOCK_OF_FILE);
}

static void record_psetlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    note_lock(cl, e, u->psetlock.file, &u->psetlock.lock[0], AMPH_CLIENT_LOCK_OF_PROCESS);
}

static void record_pwaitlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                             const union amph_fwd_args *u)
{
    note_lock(cl, e, u->pwaitlock.file, &u->pwaitlock.lock[0], AMPH_CLIENT_LOCK_OF_PROCESS);
}

static void record_punlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                           const union amph_fwd_args *u)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);
    amph_fwd_ranges_forget(&e->locks, AMPH_CLIENT_LOCK_OF_PROCESS);
    amph_client_records_unlock(&g);
}

static void record_flock(struct amph_fwd_client *cl, struct amph_client_record *e,
                         const union amph_fwd_args *u)
{
    e->flock_op = u->flock.op & LOCK_UN ? 0 : u->flock.op & (LOCK_SH | LOCK_EX);
}

static void record_open(struct amph_fwd_client *cl, struct amph_client_record *e,
                        const union amph_fwd_args *u)
{
    amph_client_record_add(cl, &u->open);
}

static void record_rename(struct amph_fwd_client *cl, struct amph_client_record *e,
                          const union amph_fwd_args *u)
{
    amph_client_record_renamed(&u->rename);
}

typedef void (*record_fn)(struct amph_fwd_client *cl, struct amph_client_record *e,
                          const union amph_fwd_args *u);

static const record_fn record_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) [AMPH_FWD_##id] = record_##name,
    AMPH_FWD_RECORDED_CALLS(X)
#undef X
};

/* Updates the recovery records after a call that has succeeded.  e: the record of its open file;
 * NULL if it has none or the call goes by path. */
static void record_call(struct amph_fwd_client *cl, enum amph_fwd_id id,
                        const union amph_fwd_args *u, struct amph_client_record *e)
{
    bool by_path = amph_fwd_calls[id].arg[0].word != FWD_IN_FILE;

    if (record_fns[id] && (e || by_path))
        record_fns[id](cl, e, u);
}

/* ---- may the call be made again although it may have been done already? ---- */

static bool repeats_open(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->open.flags & O_EXCL);
}

static bool repeats_fallocate(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->fallocate.how &
             ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE));
}

typedef bool (*repeats_fn)(const union amph_fwd_args *u, const struct amph_client_record *e);

static const repeats_fn repeats_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) [AMPH_FWD_##id] = repeats_##name,
    AMPH_FWD_CHECKED_CALLS(X)
#undef X
};

static bool may_repeat(enum amph_fwd_id id, const union amph_fwd_args *u,
                       const struct amph_client_record *e)
{
    if (appends(id, u, e))
        return false;

    switch (amph_fwd_calls[id].repeat) {
    case FWD_REPEAT_ALWAYS:
        return true;
    case FWD_REPEAT_RECORDED:
        return e != NULL;
    case FWD_REPEAT_CHECK:
        return repeats_fns[id](u, e);
    default:
        return false;
    }
}

/* ---- calls ---- */

/* The files among a call's arguments, as they are to be named now. */
struct renamed {
    struct {
        const struct amph_fwd_file **at, *was;
        struct amph_fwd_file now;
    } file[2];
    unsigned n;
};

static bool any_dead(const struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    for (uint32_t i = 0; i < file->nparts && i < AMPH_FWD_PARTS_MAX; i++)
        if (amph_client_server_is_dead(cl, file->part[i].server))
            return true;

    return false;
}

/* Puts the files' present names into the record.  0 or EIO. */
static int put_names(struct amph_fwd_client *cl, const struct amph_fwd_call_desc *desc, void *args,
                     struct renamed *r)
{
    r->n = 0;
    for (unsigned i = 0; i < desc->nargs && r->n < AMPH_COUNTOF(r->file); i++) {
        uint8_t word = desc->arg[i].word;
        const struct amph_fwd_file **at = (const struct amph_fwd_file **)((char *)args +
                                                                          desc->arg[i].client_at);

        if ((word != FWD_IN_FILE && word != FWD_IN_PATH) || !*at || (*at)->nparts == 0)
            continue;

        struct amph_client_record *e = amph_client_record_find(*at);

        if (!e) {
            if (amph_client_server_is_dead(cl, (*at)->part[0].server))
                return EIO;

            continue;
        }

        if (amph_client_record_recover(cl, e) != 0)
            return EIO;
        if (amph_client_ref_same(&e->held, &e->name) && !any_dead(cl, *at))
            continue;

        r->file[r->n].at = at;
        r->file[r->n].was = *at;
        r->file[r->n].now =
            (struct amph_fwd_file){ .nparts = 1, .rwf = (*at)->rwf, .part = { e->held } };
        *at = &r->file[r->n++].now;
    }

    return 0;
}

static void restore_names(struct renamed *r)
{
    while (r->n > 0) {
        r->n--;
        *r->file[r->n].at = r->file[r->n].was;
    }
}

/* A file that is spread loses one of its servers in the middle: its home, which lives, may have
 * moved the offset already. */
static void put_offset_back(struct amph_fwd_client *cl, enum amph_fwd_id id,
                            const struct amph_client_record *e)
{
    off_t now;

    const unsigned moves_data = FWD_CALL_OFFSET | FWD_CALL_BULK;

    if (!e || (amph_fwd_calls[id].flags & moves_data) != moves_data ||
        amph_client_server_is_dead(cl, e->held.server) || atomic_load(&e->shared->pos) < 0)
        return;

    struct amph_fwd_file file = { .nparts = 1, .part = { e->held } };
    struct amph_fwd_args_lseek a = {
        .file = &file, .off = (off_t)atomic_load(&e->shared->pos), .whence = SEEK_SET, .pos = &now
    };

    amph_client_once(cl, AMPH_FWD_LSEEK, &a);
}

static bool is_short(enum amph_fwd_id id, const union amph_fwd_args *u)
{
    struct amph_client_data d;
    return amph_client_data_of(id, u, &d) && *d.done_p < d.len;
}

/* A file that was spread and is one server's now: its other parts are still open where their
 * servers are there. */
static void close_rest(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    for (uint32_t i = 1; i < file->nparts; i++) {
        struct amph_fwd_file part = { .nparts = 1, .part = { file->part[i] } };
        struct amph_fwd_args_close a = { .file = &part };

        if (!amph_client_server_is_dead(cl, file->part[i].server))
            (void)amph_client_once(cl, AMPH_FWD_CLOSE, &a);
    }
}

static struct amph_client_shared *offset_of(enum amph_fwd_id id, const struct amph_client_record *e)
{
    return e && (amph_fwd_calls[id].flags & FWD_CALL_OFFSET) ? e->shared : NULL;
}

int amph_client_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];
    const struct amph_fwd_file *file = amph_fwd_call_file(desc, args);

    if (desc->failover_flags & FWD_FAILOVER_ADOPT)
        amph_client_failover_adopt(cl, file);

    struct amph_client_record *e = file && desc->arg[0].word == FWD_IN_FILE
                                       ? amph_client_record_find(file)
                                       : NULL;
    int err = EIO;

    amph_client_recover_locks(cl);

    struct amph_client_inflight flight = { .shared = NULL };

    for (uint32_t tries = 0; tries <= cl->nlinks; tries++) {
        struct renamed r = { .n = 0 };

        if ((!file && amph_client_server_home(cl) != 0) || put_names(cl, desc, args, &r) != 0) {
            restore_names(&r);
            err = EIO;
            break;
        }

        const struct amph_fwd_file *now = amph_fwd_call_file(desc, args);

        amph_client_inflight_begin(&flight, offset_of(id, e));
        err = amph_client_once(cl, id, args);

        bool died = amph_client_inflight_is_abandoned(&flight) ||
                    (now ? any_dead(cl, now) : amph_client_server_is_dead(cl, cl->servers[0]));

        if (died && err == 0 && (is_short(id, args) || amph_client_inflight_is_abandoned(&flight)))
            err = EIO; /* pieces of it had been done, or the file has gone on without it */

        died = died && err == EIO;
        restore_names(&r);
        if (!died || (desc->failover_flags & FWD_FAILOVER_FORGET))
            break;

        bool repeats = may_repeat(id, args, e);

        amph_debug("%s: its I/O server died during the call, which %s", desc->name,
                   repeats ? "is made again at the next server"
                           : "may not be made twice, and gives EIO");
        if (!repeats)
            break;

        put_offset_back(cl, id, e);
        amph_client_inflight_strand(&flight);
    }

    if (desc->failover_flags & FWD_FAILOVER_FORGET) {
        if (err == EIO && e)
            err = 0; /* with its server the handle has gone as well */

        if (e && (!amph_client_ref_same(&e->held, &e->name) || any_dead(cl, file)))
            close_rest(cl, file);

        amph_client_record_remove(file);
    } else if (!err)
        record_call(cl, id, args, e);

    amph_client_inflight_end(&flight);
    return err;
}
