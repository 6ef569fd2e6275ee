/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failover: if a server dies, the next one serves its files (AMPHORA_ON_SERVER_DEATH=failover).
 *
 * Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * The servers share a file system, so a recovery record holds only what the dead server knew: which
 * file a handle meant (path at open, checked by device and inode), the open flags, the offset and
 * the locks.  The client updates the records after each successful call.  Offset and present
 * location of a file are in memory shared with forked children, as the open file itself is.
 *
 * Calls in flight are retried if they are idempotent (column "failover" of calls.def).  Calls at
 * the offset become idempotent because the offset before the call is recorded.  Processes that
 * share an offset count the replies they got, and servers count offset moves in their replies; this
 * shows whether an unanswered call was executed before an answered one, in which case the file is
 * lost. Appending writes and changes of names are not retried: they return EIO.
 */
#include "iofwd/client/data/data.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/request_name.h"
#include "iofwd/wire/marshal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#include "base/settings/env.h"
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

/* ---- updates of the recovery records ---- */

/* Computes the range of a lock from the start of the file.  Returns false if the server cannot be
 * asked for the offset or size that the lock is relative to. */
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

    if (lock->l_len < 0)
        r->to = base + lock->l_start;
    else
        r->to = to_end ? FWD_RANGE_END : r->from + lock->l_len;

    r->type = lock->l_type;
    return true;
}

static void record_lock(struct amph_fwd_client *cl, struct amph_client_record *e,
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
    record_lock(cl, e, u->setlock.file, &u->setlock.lock[0], AMPH_CLIENT_LOCK_OF_FILE);
}

static void record_waitlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    record_lock(cl, e, u->waitlock.file, &u->waitlock.lock[0], AMPH_CLIENT_LOCK_OF_FILE);
}

/* Record locks belong to a descriptor table of the process. */
static short kind_of_table(uint32_t number)
{
    return (short)(AMPH_CLIENT_LOCK_OF_PROCESS + number);
}

static void record_psetlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                            const union amph_fwd_args *u)
{
    record_lock(cl, e, u->psetlock.file, &u->psetlock.lock[0],
                kind_of_table((uint32_t)u->psetlock.lock->l_pid));
}

static void record_pwaitlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                             const union amph_fwd_args *u)
{
    record_lock(cl, e, u->pwaitlock.file, &u->pwaitlock.lock[0],
                kind_of_table((uint32_t)u->pwaitlock.lock->l_pid));
}

static void record_punlock(struct amph_fwd_client *cl, struct amph_client_record *e,
                           const union amph_fwd_args *u)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);
    amph_fwd_ranges_forget(&e->locks, kind_of_table((uint32_t)u->punlock.table));
    amph_client_records_unlock(&g);
}

static void record_flock(struct amph_fwd_client *cl, struct amph_client_record *e,
                         const union amph_fwd_args *u)
{
    if (u->flock.op & LOCK_MAND) /* ignored by the kernel */
        return;

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

/* ---- may a call be repeated that may have been executed already? ---- */

static bool repeats_open(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->open.flags & O_EXCL);
}

static bool repeats_fallocate(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->fallocate.how &
             ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE));
}

static bool repeats_setxattr(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->setxattr.how & XATTR_CREATE);
}

static bool repeats_fsetxattr(const union amph_fwd_args *u, const struct amph_client_record *e)
{
    return !(u->fsetxattr.how & XATTR_CREATE);
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

/* The file arguments of a call whose present location differs from the name that the program uses.
 */
struct renamed {
    struct {
        const struct amph_fwd_file **at, *was;
        struct amph_fwd_file now;
    } file[2];
    unsigned n;
};

bool amph_client_file_has_dead(const struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    for (uint32_t i = 0; i < file->nparts && i < AMPH_FWD_PARTS_MAX; i++)
        if (amph_client_server_is_dead(cl, file->part[i].server))
            return true;

    return false;
}

/* Replaces the files of the call's record by their present locations.  0 or EIO. */
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
        if (amph_client_ref_same(&e->held, &e->name) && !amph_client_file_has_dead(cl, *at))
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

/* Returns whether a call that succeeded although a server died has transferred less than it should.
 * At the offset of a striped file, the home server does what the others could not, so the result is
 * right while that one lives. */
static bool is_short(const struct amph_fwd_client *cl, enum amph_fwd_id id,
                     const union amph_fwd_args *u)
{
    struct amph_client_data d;

    if (!amph_client_data_of(id, u, &d) || *d.done_p >= d.len)
        return false;

    return d.placed || amph_client_server_is_dead(cl, d.file->part[0].server);
}

/* Closes the other parts of a file that was striped and is now open at one server only. */
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

/* Executes the call once, at the present locations of its files.  Returns an errno value; *died_p:
 * a server died during the call, so the call may have been executed in part or not at all. */
static int try_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args,
                    struct amph_client_inflight *flight, const struct amph_client_record *e,
                    bool *died_p)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];
    const struct amph_fwd_file *file = amph_fwd_call_file(desc, args);
    struct renamed r = { .n = 0 };

    *died_p = false;
    if ((!file && amph_client_server_home(cl) != 0) || put_names(cl, desc, args, &r) != 0) {
        restore_names(&r);
        return EIO;
    }

    const struct amph_fwd_file *now = amph_fwd_call_file(desc, args);

    amph_client_inflight_begin(flight, offset_of(id, e));

    int err = amph_client_once(cl, id, args);
    bool died = now ? amph_client_file_has_dead(cl, now)
                    : amph_client_server_is_dead(cl, cl->servers[0]);

    /* pieces were executed before the death */
    if (died && err == 0 && is_short(cl, id, args))
        err = EIO;

    /* the file was reopened without this call */
    if (err == 0 && !amph_client_inflight_commit(flight))
        err = EIO;

    *died_p = err == EIO && (died || amph_client_inflight_is_abandoned(flight));
    restore_names(&r);
    return err;
}

/* Removes the record of a closed file.  If its server died, the handle died with it, so the close
 * has succeeded.  Returns the error of the close. */
static int forget(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                  const struct amph_client_record *e, int err)
{
    if (err == EIO && e)
        err = 0;

    if (e && (!amph_client_ref_same(&e->held, &e->name) || amph_client_file_has_dead(cl, file)))
        close_rest(cl, file);

    amph_client_record_remove(file);
    return err;
}

/* Logs that the server of a call died during the call, and whether the call is repeated. */
static void report_death(const struct amph_fwd_client *cl, enum amph_fwd_id id, bool repeats)
{
    struct amph_log_request before = amph_log_request_set((struct amph_log_request){
        amph_fwd_request_name, cl->number, amph_client_thread.last_seq });

    if (!repeats)
        amph_error("%s: its I/O server died during the call, which gives EIO: it may have been "
                   "executed, so it is not made again; look at the result and repeat the call "
                   "if that is right",
                   amph_fwd_calls[id].name);
    else
        amph_debug(
            "%s: its I/O server died during the call, which is made again at the next server",
            amph_fwd_calls[id].name);

    amph_log_request_set(before);
}

int amph_client_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[id];
    const struct amph_fwd_file *file = amph_fwd_call_file(desc, args);
    bool forgets = desc->failover_flags & FWD_FAILOVER_FORGET;
    struct amph_client_record *e = NULL;
    struct amph_client_inflight flight = { .shared = NULL };
    int err = EIO;

    /* records follow calls on one file; the caller reads and writes instead */
    if (desc->nargs > 1 && desc->arg[0].word == FWD_IN_FILE && desc->arg[1].word == FWD_IN_FILE)
        return EXDEV;

    if (desc->failover_flags & FWD_FAILOVER_ADOPT)
        amph_client_failover_adopt(cl, file);

    if (file && desc->arg[0].word == FWD_IN_FILE)
        e = amph_client_record_find(file);

    amph_client_recover_locks(cl);

    for (uint32_t tries = 0; tries <= cl->nlinks; tries++) {
        bool died;

        err = try_call(cl, id, args, &flight, e, &died);
        if (!died || forgets)
            break;

        bool repeats = may_repeat(id, args, e);

        report_death(cl, id, repeats);
        if (!repeats)
            break;

        amph_client_inflight_strand(&flight);
    }

    if (forgets)
        err = forget(cl, file, e, err);
    else if (!err)
        record_call(cl, id, args, e);

    amph_client_inflight_end(&flight);
    return err;
}
