/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next server takes over from one that has died (AMPHORA_ON_SERVER_DEATH=failover).  Layer: iofwd.  Thread rule: see client_int.h.
 *
 * The servers share a file system, so what has to be carried over is what only the dead one knew: which file a handle meant (its path
 * as it was opened, checked by device and inode), how it was open, its offset and its locks.  The client notes these as calls
 * succeed.  Offset and place of the file now lie in memory that a forked child shares, as it shares the open file itself.
 *
 * A call in flight is made again where doing it twice is the same as once: the table of calls says so, and calls at the offset are so
 * because the offset before the call is known.  Appending, and changes of names, may have been done or not: they get EIO.
 */
#include "iofwd/client_failover.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"

#define SLOTS 16384
#define BUCKETS 256
#define LOCKS_MOST 64
#define POS_END (-1) /* appended: where the file ends */

/* What the processes that share an open file share of it. */
struct shared {
    _Atomic uint32_t users;  /* processes; 0: free */
    _Atomic uint32_t mover;  /* process that is looking for another server */
    _Atomic uint32_t server; /* absolute number: where the file is open now */
    _Atomic int lost;        /* it could not be taken over: why */
    _Atomic uint64_t handle;
    _Atomic int64_t pos;
};

/* An open file. */
struct entry {
    struct entry *next;
    struct amph_fwd_ref name; /* as its users call it */
    struct amph_fwd_ref held; /* what this process has a hold on */
    struct shared *shared;
    bool pinned, gone;        /* save_locks is at it; closed meanwhile: it frees it */
    char *path;
    int oflags;
    dev_t dev;
    ino_t ino;
    int flock_op;             /* LOCK_SH, LOCK_EX or 0 */
    uint32_t nlocks;          /* calls that set and removed byte locks, in order; more than LOCKS_MOST: not known */
    struct flock *locks;
};

static struct {
    struct entry *bucket[BUCKETS]; /* under fwd_state.lock */
    struct shared *slots;          /* [SLOTS], shared with forked children */
    uint32_t next;
} all;

bool fwd_failover_on(void)
{
    static const unsigned word_failover = 2;
    return amph_env_enum(AMPH_ENV_ON_SERVER_DEATH) == word_failover;
}

/* ---- servers ---- */

static bool is_dead(const struct amph_fwd_client *cl, uint32_t server)
{
    return server >= cl->first && server - cl->first < cl->nlinks &&
           atomic_load_explicit(&cl->link[server - cl->first].state, memory_order_acquire) == FWD_LINK_DEAD;
}

static uint32_t after(const struct amph_fwd_client *cl, uint32_t server, uint32_t steps)
{
    return cl->first + (server - cl->first + steps) % cl->nlinks;
}

void fwd_failover_rotate(struct amph_fwd_client *cl)
{
    for (uint32_t i = 0; i < cl->nlinks && is_dead(cl, cl->servers[0]); i++)
        cl->servers[0] = after(cl, cl->servers[0], 1);
}

/* A server for calls by path.  EIO: none is left. */
static int find_home(struct amph_fwd_client *cl)
{
    struct fwd_link *link;
    for (uint32_t i = 0; i < cl->nlinks; i++) {
        fwd_failover_rotate(cl);
        if (fwd_link_to(cl, cl->servers[0], &link) == 0)
            return 0;
    }
    return EIO;
}

/* ---- the table ---- */

static void lock_table(struct fwd_guard *g)
{
    fwd_guard_enter(g);
    pthread_mutex_lock(&fwd_state.lock);
}

static void unlock_table(struct fwd_guard *g)
{
    pthread_mutex_unlock(&fwd_state.lock);
    fwd_guard_leave(g);
}

static bool same(const struct amph_fwd_ref *a, const struct amph_fwd_ref *b)
{
    return a->server == b->server && a->handle == b->handle;
}

static struct entry **place_of(const struct amph_fwd_ref *name)
{
    struct entry **at = &all.bucket[name->handle % BUCKETS];
    while (*at && !same(&(*at)->name, name))
        at = &(*at)->next;
    return at;
}

/* Entries live until their file is closed, which is the caller's business not to do while it uses the file. */
static struct entry *find(const struct amph_fwd_file *file)
{
    struct fwd_guard g;
    if (!file || file->nparts == 0)
        return NULL;
    lock_table(&g);
    struct entry *e = *place_of(&file->part[0]);
    unlock_table(&g);
    return e;
}

static struct shared *take_slot(void)
{
    if (!all.slots) {
        void *mem = mmap(NULL, SLOTS * sizeof *all.slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        all.slots = mem == MAP_FAILED ? NULL : mem;
    }
    for (uint32_t i = 0; all.slots && i < SLOTS; i++) {
        struct shared *s = &all.slots[all.next++ % SLOTS];
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&s->users, &none, 1))
            return s;
    }
    return NULL;
}

static void free_entry(struct entry *e)
{
    free(e->path);
    free(e->locks);
    free(e);
}

static void forget(const struct amph_fwd_file *file)
{
    struct fwd_guard g;
    lock_table(&g);
    struct entry **at = place_of(&file->part[0]), *e = *at;
    if (e) {
        *at = e->next;
        atomic_fetch_sub(&e->shared->users, 1);
        e->gone = true;
    }
    bool idle = e && !e->pinned;
    unlock_table(&g);
    if (idle)
        free_entry(e);
}

/* With the lock held. */
void fwd_failover_fork(bool undo)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *e = all.bucket[i]; e; e = e->next)
            atomic_fetch_add(&e->shared->users, undo ? UINT32_MAX : 1);
}

/* The path of dir and what lies below it; NULL: not known. */
static char *whole_path(const struct amph_fwd_file *dir, const char *path)
{
    char *whole;
    if (path[0] == '/' || !dir)
        return strdup(path);
    const struct entry *e = find(dir);
    if (!e)
        return NULL;
    return asprintf(&whole, "%s%s%s", e->path, path[0] ? "/" : "", path) < 0 ? NULL : whole;
}

/* The server has died right after it opened the file: the next one does, which neither makes nor empties it once more. */
static int open_again(struct amph_fwd_client *cl, const char *path, const struct amph_fwd_args_open *a)
{
    struct amph_fwd_args_open again = { .path = path, .flags = a->flags & ~(O_CREAT | O_EXCL | O_TRUNC), .file = a->file };
    return find_home(cl) != 0 ? EIO : fwd_client_once(cl, AMPH_FWD_OPEN, &again);
}

static void add(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a)
{
    struct stat st;
    struct fwd_guard g;
    struct amph_fwd_args_fstat fstat_args = { .file = a->file, .st = &st };
    struct entry *e = calloc(1, sizeof *e);
    if (!e || (a->flags & O_TMPFILE) == O_TMPFILE || !(e->path = whole_path(a->path_dir, a->path)) ||
        (fwd_client_once(cl, AMPH_FWD_FSTAT, &fstat_args) != 0 &&
         (open_again(cl, e->path, a) != 0 || fwd_client_once(cl, AMPH_FWD_FSTAT, &fstat_args) != 0))) {
        if (e)
            free_entry(e);
        return;
    }
    e->name = e->held = a->file->part[0];
    e->oflags = a->flags & ~(O_CREAT | O_EXCL | O_TRUNC);
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    lock_table(&g);
    if ((e->shared = take_slot()) != NULL) {
        atomic_store(&e->shared->server, e->name.server);
        atomic_store(&e->shared->handle, e->name.handle);
        atomic_store(&e->shared->pos, 0);
        atomic_store(&e->shared->lost, 0);
        atomic_store(&e->shared->mover, 0);
        struct entry **at = &all.bucket[e->name.handle % BUCKETS];
        e->next = *at;
        *at = e;
    }
    unlock_table(&g);
    if (!e->shared)
        free_entry(e);
}

/* What lies under a renamed path has another path now. */
static void rename_paths(const char *from, const char *to)
{
    struct fwd_guard g;
    size_t len = strlen(from);
    lock_table(&g);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *e = all.bucket[i]; e; e = e->next) {
            char *path;
            if (strncmp(e->path, from, len) == 0 && (e->path[len] == 0 || e->path[len] == '/') &&
                asprintf(&path, "%s%s", to, e->path + len) >= 0) {
                free(e->path);
                e->path = path;
            }
        }
    unlock_table(&g);
}

/* ---- what calls leave behind ---- */

#define RECORD_LOCK 1 /* in l_pid of a noted lock: of the process (F_SETLK); 0: of the open file */

/* A file that is wholly unlocked has none of that kind. */
static void forget_kind(struct entry *e, pid_t kind)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < e->nlocks && e->nlocks <= LOCKS_MOST; i++)
        if (e->locks[i].l_pid != kind)
            e->locks[kept++] = e->locks[i];
    if (e->nlocks <= LOCKS_MOST)
        e->nlocks = kept;
}

static void note_lock(struct entry *e, const struct flock *lock, pid_t kind)
{
    bool whole = lock->l_type == F_UNLCK && lock->l_whence == SEEK_SET && lock->l_start == 0 && lock->l_len == 0;
    if (!e->locks && !(e->locks = calloc(LOCKS_MOST, sizeof *e->locks))) {
        e->nlocks = LOCKS_MOST + 1;
        return;
    }
    if (whole)
        forget_kind(e, kind);
    else if (e->nlocks < LOCKS_MOST) {
        e->locks[e->nlocks] = *lock;
        e->locks[e->nlocks++].l_pid = kind;
    } else
        e->nlocks = LOCKS_MOST + 1;
}

void fwd_failover_child(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *e = all.bucket[i]; e; e = e->next)
            forget_kind(e, RECORD_LOCK);
}

static void move_pos(struct entry *e, size_t by)
{
    if (atomic_load(&e->shared->pos) != POS_END)
        atomic_fetch_add(&e->shared->pos, (int64_t)by);
}

static void note_entries(struct entry *e, const struct amph_fwd_args_getdents *a)
{
    for (size_t at = 0; at + offsetof(struct dirent64, d_name) < *a->entries_len;) {
        const struct dirent64 *d = (const struct dirent64 *)((const char *)a->entries + at);
        atomic_store(&e->shared->pos, d->d_off);
        at += d->d_reclen ? d->d_reclen : *a->entries_len;
    }
}

static void note_rename(const struct amph_fwd_args_rename *a)
{
    char *from = whole_path(a->from_dir, a->from), *to = whole_path(a->to_dir, a->to);
    if (from && to)
        rename_paths(from, to);
    free(from);
    free(to);
}

/* A call has succeeded; e: of its file, or NULL. */
static void note(struct amph_fwd_client *cl, enum amph_fwd_id id, const union amph_fwd_args *u, struct entry *e)
{
    if (id == AMPH_FWD_OPEN)
        add(cl, &u->open);
    else if (id == AMPH_FWD_RENAME)
        note_rename(&u->rename);
    if (!e)
        return;
    switch (id) {
    case AMPH_FWD_READ: move_pos(e, *u->read.buf_len); break;
    case AMPH_FWD_WRITE:
        if (e->oflags & O_APPEND)
            atomic_store(&e->shared->pos, POS_END);
        else
            move_pos(e, *u->write.done);
        break;
    case AMPH_FWD_LSEEK: atomic_store(&e->shared->pos, *u->lseek.pos); break;
    case AMPH_FWD_GETDENTS: note_entries(e, &u->getdents); break;
    case AMPH_FWD_SETFLAGS: e->oflags = (e->oflags & ~(O_APPEND | O_NONBLOCK)) | (u->setflags.flags & (O_APPEND | O_NONBLOCK)); break;
    case AMPH_FWD_SETLOCK: note_lock(e, &u->setlock.lock[0], 0); break;
    case AMPH_FWD_WAITLOCK: note_lock(e, &u->waitlock.lock[0], 0); break;
    case AMPH_FWD_PSETLOCK: note_lock(e, &u->psetlock.lock[0], RECORD_LOCK); break;
    case AMPH_FWD_PWAITLOCK: note_lock(e, &u->pwaitlock.lock[0], RECORD_LOCK); break;
    case AMPH_FWD_PUNLOCK: forget_kind(e, RECORD_LOCK); break;
    case AMPH_FWD_FLOCK: e->flock_op = u->flock.op & LOCK_UN ? 0 : u->flock.op & (LOCK_SH | LOCK_EX); break;
    default: break;
    }
}

/* ---- taking over ---- */

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

static int replay_kind(struct amph_fwd_client *cl, const struct entry *e, const struct amph_fwd_file *file, pid_t kind)
{
    int err = e->nlocks > LOCKS_MOST ? ENOLCK : 0;
    for (uint32_t i = 0; i < e->nlocks && !err; i++) {
        if (e->locks[i].l_pid != kind)
            continue;
        struct flock lock = e->locks[i];
        struct amph_fwd_args_setlock a = { .file = file, .lock = &lock };
        lock.l_pid = 0;
        err = lock_again(cl, kind == RECORD_LOCK ? AMPH_FWD_PSETLOCK : AMPH_FWD_SETLOCK, &a);
    }
    return err;
}

static int replay_locks(struct amph_fwd_client *cl, const struct entry *e, const struct amph_fwd_file *file)
{
    int err = replay_kind(cl, e, file, 0);
    if (!err)
        err = replay_kind(cl, e, file, RECORD_LOCK);
    if (e->flock_op && !err) {
        struct amph_fwd_args_flock a = { .file = file, .op = e->flock_op | LOCK_NB };
        err = lock_again(cl, AMPH_FWD_FLOCK, &a);
    }
    return err;
}

/* Opens the file anew at one server: the same file, at its offset, with its locks. */
static int reopen_at(struct amph_fwd_client *cl, const struct entry *e, struct fwd_link *link, struct amph_fwd_file *file)
{
    struct stat st;
    off_t now, pos = (off_t)atomic_load(&e->shared->pos);
    struct amph_fwd_args_open open_args = { .path = e->path, .flags = e->oflags, .file = file };
    struct amph_fwd_args_fstat fstat_args = { .file = file, .st = &st };
    struct amph_fwd_args_lseek seek = { .file = file, .off = pos == POS_END ? 0 : pos, .whence = pos == POS_END ? SEEK_END : SEEK_SET,
                                        .pos = &now };
    int err = fwd_client_simple(cl, link, AMPH_FWD_OPEN, &open_args);
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
static void move(struct amph_fwd_client *cl, struct entry *e)
{
    uint32_t old = atomic_load(&e->shared->server);
    int err = EIO;
    for (uint32_t i = 0; i < cl->nlinks; i++) {
        struct fwd_link *link;
        struct amph_fwd_file file;
        uint32_t server = after(cl, old, i);
        if (is_dead(cl, server) || fwd_link_to(cl, server, &link) != 0)
            continue;
        err = reopen_at(cl, e, link, &file);
        if (err && is_dead(cl, server))
            continue;
        if (!err) {
            e->held = file.part[0];
            atomic_store(&e->shared->handle, file.part[0].handle);
            atomic_store(&e->shared->server, server);
        }
        break;
    }
    if (!err)
        return;
    atomic_store(&e->shared->lost, err);
    amph_error("%s cannot be taken over from I/O server %" PRIu32 " (%s): calls on it give EIO", e->path, old, strerror(err));
}

/* Waits for another process (or thread) that is at it; true: it is ours to do. */
static bool become_mover(struct shared *s)
{
    uint32_t self = (uint32_t)getpid(), other = 0;
    struct timespec pause = { .tv_nsec = 1000 * 1000 };
    if (atomic_compare_exchange_strong(&s->mover, &other, self))
        return true;
    if (other != self && kill((pid_t)other, 0) != 0 && errno == ESRCH && atomic_compare_exchange_strong(&s->mover, &other, self))
        return true;
    nanosleep(&pause, NULL);
    return false;
}

/* Sees to it that e's file is open at a server that is there, and that this process holds it.  0 or EIO. */
static int settle_entry(struct amph_fwd_client *cl, struct entry *e)
{
    for (;;) {
        struct shared *s = e->shared;
        if (atomic_load(&s->lost))
            return EIO;
        struct amph_fwd_file file = { .nparts = 1, .part = { { atomic_load(&s->server), atomic_load(&s->handle) } } };
        struct amph_fwd_args_hold a = { .file = &file };
        bool there = !is_dead(cl, file.part[0].server);
        if (there && same(&file.part[0], &e->held))
            return 0;
        if (there && fwd_client_once(cl, AMPH_FWD_HOLD, &a) == 0) { /* another process has moved it */
            e->held = file.part[0];
            replay_kind(cl, e, &file, RECORD_LOCK); /* those are each process's own */
            continue;
        }
        /* Its server has died, or who moved it has ended before this process came to hold it. */
        if (!become_mover(s))
            continue;
        if (!atomic_load(&s->lost) && atomic_load(&s->handle) == file.part[0].handle)
            move(cl, e);
        atomic_store(&s->mover, 0);
    }
}

/* Locks must not wait for the next call on their file: who else wants one could have it meanwhile. */
static struct entry *locked_at_dead(struct amph_fwd_client *cl)
{
    struct fwd_guard g;
    struct entry *found = NULL;
    lock_table(&g);
    for (unsigned i = 0; i < BUCKETS && !found; i++)
        for (struct entry *e = all.bucket[i]; e && !found; e = e->next)
            if (!e->pinned && (e->nlocks || e->flock_op) && !atomic_load(&e->shared->lost) && is_dead(cl, e->held.server))
                found = e;
    if (found)
        found->pinned = true;
    unlock_table(&g);
    return found;
}

static void save_locks(struct amph_fwd_client *cl)
{
    uint32_t deaths = atomic_load(&cl->deaths);
    struct entry *e;
    if (AMPH_LIKELY(atomic_exchange(&cl->deaths_seen, deaths) == deaths))
        return;
    while ((e = locked_at_dead(cl))) {
        struct fwd_guard g;
        int err = settle_entry(cl, e);
        lock_table(&g);
        e->pinned = false;
        bool gone = e->gone;
        unlock_table(&g);
        if (gone)
            free_entry(e);
        if (err)
            return;
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
        if (is_dead(cl, file->part[i].server))
            return true;
    return false;
}

/* Puts the files' present names into the record.  0 or EIO. */
static int put_names(struct amph_fwd_client *cl, const struct fwd_call_desc *desc, void *args, struct renamed *r)
{
    r->n = 0;
    for (unsigned i = 0; i < desc->nargs && r->n < AMPH_COUNTOF(r->file); i++) {
        uint8_t word = desc->arg[i].word;
        const struct amph_fwd_file **at = (const struct amph_fwd_file **)((char *)args + desc->arg[i].client_at);
        if ((word != FWD_IN_FILE && word != FWD_IN_PATH) || !*at || (*at)->nparts == 0)
            continue;
        struct entry *e = find(*at);
        if (!e) {
            if (is_dead(cl, (*at)->part[0].server))
                return EIO;
            continue;
        }
        if (settle_entry(cl, e) != 0)
            return EIO;
        if (same(&e->held, &e->name) && !any_dead(cl, *at))
            continue;
        r->file[r->n].at = at;
        r->file[r->n].was = *at;
        r->file[r->n].now = (struct amph_fwd_file){ .nparts = 1, .part = { e->held } };
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

/* May the call be made again although it may have been done already? */
static bool may_repeat(enum amph_fwd_id id, const union amph_fwd_args *u, const struct entry *e)
{
    if (fwd_calls[id].flags & FWD_CALL_RETRY)
        return true;
    switch (id) {
    case AMPH_FWD_OPEN: return !(u->open.flags & O_EXCL);
    case AMPH_FWD_WRITE: return e && !(e->oflags & O_APPEND);
    case AMPH_FWD_READ:
    case AMPH_FWD_LSEEK:
    case AMPH_FWD_GETDENTS:
    case AMPH_FWD_SETLOCK:
    case AMPH_FWD_WAITLOCK:
    case AMPH_FWD_PSETLOCK:
    case AMPH_FWD_PWAITLOCK:
    case AMPH_FWD_PUNLOCK:
    case AMPH_FWD_FLOCK: return e;
    case AMPH_FWD_FALLOCATE: return !(u->fallocate.how & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE));
    default: return false;
    }
}

/* A file that is spread loses one of its servers in the middle: its home, which lives, may have moved the offset already. */
static void put_offset_back(struct amph_fwd_client *cl, enum amph_fwd_id id, const struct entry *e)
{
    off_t now;
    if (!e || (id != AMPH_FWD_READ && id != AMPH_FWD_WRITE) || is_dead(cl, e->held.server) || atomic_load(&e->shared->pos) < 0)
        return;
    struct amph_fwd_file file = { .nparts = 1, .part = { e->held } };
    struct amph_fwd_args_lseek a = { .file = &file, .off = (off_t)atomic_load(&e->shared->pos), .whence = SEEK_SET, .pos = &now };
    fwd_client_once(cl, AMPH_FWD_LSEEK, &a);
}

static bool is_short(enum amph_fwd_id id, const union amph_fwd_args *u)
{
    switch (id) {
    case AMPH_FWD_READ: return *u->read.buf_len < u->read.buf_cap;
    case AMPH_FWD_PREAD: return *u->pread.buf_len < u->pread.buf_cap;
    case AMPH_FWD_WRITE: return *u->write.done < u->write.data_len;
    case AMPH_FWD_PWRITE: return *u->pwrite.done < u->pwrite.data_len;
    default: return false;
    }
}

int fwd_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct fwd_call_desc *desc = &fwd_calls[id];
    const struct amph_fwd_file *file = fwd_call_file(desc, args);
    struct entry *e = file && desc->arg[0].word == FWD_IN_FILE ? find(file) : NULL;
    int err = EIO;
    save_locks(cl);
    for (uint32_t tries = 0; tries <= cl->nlinks; tries++) {
        struct renamed r = { .n = 0 };
        if ((!file && find_home(cl) != 0) || put_names(cl, desc, args, &r) != 0) {
            restore_names(&r);
            err = EIO;
            break;
        }
        const struct amph_fwd_file *now = fwd_call_file(desc, args);
        err = fwd_client_once(cl, id, args);
        bool died = now ? any_dead(cl, now) : is_dead(cl, cl->servers[0]);
        if (died && err == 0 && is_short(id, args))
            err = EIO; /* pieces of it had been done */
        died = died && err == EIO;
        restore_names(&r);
        if (!died || id == AMPH_FWD_CLOSE || !may_repeat(id, args, e))
            break;
        put_offset_back(cl, id, e);
    }
    if (id == AMPH_FWD_CLOSE) {
        if (err == EIO && e)
            err = 0; /* with its server the handle has gone as well */
        forget(file);
    } else if (!err)
        note(cl, id, args, e);
    return err;
}
