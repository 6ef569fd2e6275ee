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
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "iofwd/ranges.h"

#define SLOTS ((uint32_t)1 << 15)
#define SLOT_TRIES 4096u
#define BUCKETS 256
#define TABLE_NAME "iofwd-failover"
#define POS_END (-1) /* appended: where the file ends */

/* What the processes that share an open file share of it. */
struct shared {
    _Atomic uint32_t users;  /* processes; 0: free.  One that is killed or makes way for a new image stays counted. */
    struct amph_fwd_ref name; /* as its users call it */
    _Atomic uint32_t mover;  /* process that is looking for another server */
    _Atomic uint32_t server; /* absolute number: where the file is open now */
    _Atomic int lost;        /* it could not be taken over: why */
    _Atomic uint64_t handle;
    _Atomic int64_t pos;
    /* for images that come to it by exec; empty path: too long, they ask the server */
    _Atomic int oflags;
    dev_t dev;
    ino_t ino;
    char path[424];
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
    struct fwd_ranges locks;  /* under the table's lock */
};

/* The file behind it is shared with forked children, and found again by the images that these become. */
struct table {
    _Atomic uint32_t next; /* slots from here on have not been used yet, until the table is full */
    struct shared slot[SLOTS];
};

static struct {
    struct entry *bucket[BUCKETS]; /* under fwd_state.lock */
    struct table *table;
    int fd;                        /* of the table, where there is one */
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

/* fd -1: the images that forked children become will not find it. */
static bool map_table(int fd)
{
    int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *mem = mmap(NULL, sizeof *all.table, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (mem == MAP_FAILED)
        return false;
    all.table = mem;
    all.fd = fd;
    return true;
}

/* The table of the image before this one: its descriptor came along.  Signals are blocked. */
static bool find_table(void)
{
    static const char name[] = "/memfd:" TABLE_NAME " ";
    static bool looked;
    char path[40], target[64];
    for (int fd = 3; !all.table && !looked && fd < 1024; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target);
        if (n > (ssize_t)sizeof name && memcmp(target, name, sizeof name - 1) == 0)
            map_table(fd);
    }
    looked = true;
    return all.table != NULL;
}

static bool make_table(void)
{
    struct rlimit most;
    bool may = getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur >= sizeof *all.table; /* beyond it there is a signal */
    int low = may ? memfd_create(TABLE_NAME, 0) : -1, fd = low >= 0 ? fcntl(low, F_DUPFD, FWD_OWN_FDS) : -1;
    if (low >= 0)
        close(low);
    if (fd >= 0 && ftruncate(fd, (off_t)sizeof *all.table) == 0 && map_table(fd))
        return true;
    if (fd >= 0)
        close(fd);
    return map_table(-1);
}

static struct shared *take_slot(void)
{
    for (uint32_t i = 0; (find_table() || make_table()) && i < SLOT_TRIES; i++) {
        struct shared *s = &all.table->slot[atomic_fetch_add(&all.table->next, 1) % SLOTS];
        uint32_t none = 0;
        if (atomic_compare_exchange_strong(&s->users, &none, 1))
            return s;
    }
    return NULL;
}

/* The slot of a file that came from the image before. */
static struct shared *find_slot(const struct amph_fwd_ref *name)
{
    uint32_t used = find_table() ? atomic_load(&all.table->next) : 0;
    for (uint32_t i = 0; i < used && i < SLOTS; i++) {
        struct shared *s = &all.table->slot[i];
        if (atomic_load(&s->users) && same(&s->name, name)) {
            atomic_fetch_add(&s->users, 1);
            return s;
        }
    }
    return NULL;
}

bool fwd_failover_owns(int fd)
{
    return all.table && fd >= 0 && fd == all.fd;
}

static void free_entry(struct entry *e)
{
    free(e->path);
    free(e->locks.item);
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

/* A copy of an entry's path, which a rename may change at any time. */
static char *path_of(const struct entry *e)
{
    struct fwd_guard g;
    lock_table(&g);
    char *path = strdup(e->path);
    unlock_table(&g);
    return path;
}

/* The path of dir and what lies below it; NULL: not known. */
static char *whole_path(const struct amph_fwd_file *dir, const char *path)
{
    char *whole;
    if (path[0] == '/' || !dir)
        return strdup(path);
    const struct entry *e = find(dir);
    char *above = e ? path_of(e) : NULL;
    if (!above || asprintf(&whole, "%s%s%s", above, path[0] ? "/" : "", path) < 0)
        whole = NULL;
    free(above);
    return whole;
}

/* The server has died right after it opened the file: the next one does, which neither makes nor empties it once more. */
static int open_again(struct amph_fwd_client *cl, const char *path, const struct amph_fwd_args_open *a)
{
    struct amph_fwd_args_open again = { .path = path, .flags = a->flags & ~(O_CREAT | O_EXCL | O_TRUNC), .file = a->file };
    return find_home(cl) != 0 ? EIO : fwd_client_once(cl, AMPH_FWD_OPEN, &again);
}

static void publish_path(struct entry *e)
{
    size_t len = strlen(e->path);
    if (len < sizeof e->shared->path)
        memcpy(e->shared->path, e->path, len + 1);
    else
        e->shared->path[0] = 0;
}

static void publish(struct entry *e)
{
    struct shared *s = e->shared;
    publish_path(e);
    atomic_store(&s->oflags, e->oflags);
    s->dev = e->dev;
    s->ino = e->ino;
    s->name = e->name;
}

static void enlist(struct entry *e)
{
    struct entry **at = &all.bucket[e->name.handle % BUCKETS];
    e->next = *at;
    *at = e;
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
        publish(e);
        atomic_store(&e->shared->server, e->name.server);
        atomic_store(&e->shared->handle, e->name.handle);
        atomic_store(&e->shared->pos, 0);
        atomic_store(&e->shared->lost, 0);
        atomic_store(&e->shared->mover, 0);
        enlist(e);
    }
    unlock_table(&g);
    if (!e->shared)
        free_entry(e);
}

/* Path, flags and identity of the file: as those before have noted them, or as its server says. */
static bool learn(struct amph_fwd_client *cl, struct entry *e, const struct amph_fwd_file *now, const struct shared *s)
{
    if (s->path[0]) {
        e->path = strdup(s->path);
        e->oflags = atomic_load(&s->oflags);
        e->dev = s->dev;
        e->ino = s->ino;
        return e->path;
    }
    struct stat st;
    char name[PATH_MAX];
    size_t len;
    struct amph_fwd_args_nameof nameof_args = { .file = now, .name = name, .name_cap = sizeof name - 1, .name_len = &len };
    struct amph_fwd_args_getflags flags_args = { .file = now, .flags = &e->oflags };
    struct amph_fwd_args_fstat fstat_args = { .file = now, .st = &st };
    if (fwd_client_once(cl, AMPH_FWD_NAMEOF, &nameof_args) || fwd_client_once(cl, AMPH_FWD_GETFLAGS, &flags_args) ||
        fwd_client_once(cl, AMPH_FWD_FSTAT, &fstat_args))
        return false;
    name[len] = 0;
    e->path = strdup(name);
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    return e->path;
}

struct amph_fwd_ref fwd_failover_adopt(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    struct fwd_guard g;
    struct amph_fwd_ref now = file->part[0];
    struct entry *e = find(file);
    if (e)
        return e->held.handle ? e->held : now;
    lock_table(&g);
    struct shared *s = find_slot(&file->part[0]);
    unlock_table(&g);
    if (!s)
        return now;
    now = (struct amph_fwd_ref){ atomic_load(&s->server), atomic_load(&s->handle) };
    struct amph_fwd_file there = { .nparts = 1, .part = { now } };
    e = calloc(1, sizeof *e);
    if (!e || !learn(cl, e, &there, s)) {
        atomic_fetch_sub(&s->users, 1);
        if (e)
            free_entry(e);
        return now;
    }
    e->name = file->part[0]; /* held: nothing for sure, as who has moved the file may have ended */
    e->shared = s;
    lock_table(&g);
    enlist(e);
    unlock_table(&g);
    return now;
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
                publish_path(e);
            }
        }
    unlock_table(&g);
}

/* ---- what calls leave behind ---- */

#define RECORD_LOCK 1 /* kind of a noted lock: of the process (F_SETLK); 0: of the open file */

/* The bytes that a lock is about, with places counted from the start of the file.  false: they cannot be asked for any more. */
static bool range_of(struct amph_fwd_client *cl, const struct amph_fwd_file *file, const struct flock *lock, struct fwd_range *r)
{
    struct stat st;
    off_t base = 0;
    struct amph_fwd_args_lseek seek = { .file = file, .whence = SEEK_CUR, .pos = &base };
    struct amph_fwd_args_fstat look = { .file = file, .st = &st };
    if (lock->l_whence == SEEK_CUR && fwd_client_once(cl, AMPH_FWD_LSEEK, &seek))
        return false;
    if (lock->l_whence == SEEK_END && fwd_client_once(cl, AMPH_FWD_FSTAT, &look))
        return false;
    if (lock->l_whence == SEEK_END)
        base = st.st_size;
    r->from = base + lock->l_start + (lock->l_len < 0 ? lock->l_len : 0);
    r->to = lock->l_len < 0 ? base + lock->l_start : lock->l_len == 0 || lock->l_len > FWD_RANGE_END - r->from ? FWD_RANGE_END : r->from + lock->l_len;
    r->type = lock->l_type;
    return true;
}

static void note_lock(struct amph_fwd_client *cl, struct entry *e, const struct amph_fwd_file *file, const struct flock *lock, short kind)
{
    struct fwd_guard g;
    struct fwd_range r = { .kind = kind };
    bool known = range_of(cl, file, lock, &r);
    lock_table(&g);
    if (known && r.type == F_UNLCK && r.from == 0 && r.to == FWD_RANGE_END)
        fwd_ranges_forget(&e->locks, kind);
    else if (!known || !fwd_ranges_set(&e->locks, r))
        e->locks.unknown = true;
    unlock_table(&g);
}

static void note_unlocked(struct entry *e)
{
    struct fwd_guard g;
    lock_table(&g);
    fwd_ranges_forget(&e->locks, RECORD_LOCK);
    unlock_table(&g);
}

void fwd_failover_child(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct entry *e = all.bucket[i]; e; e = e->next)
            fwd_ranges_forget(&e->locks, RECORD_LOCK);
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
    case AMPH_FWD_SETFLAGS:
        e->oflags = (e->oflags & ~(O_APPEND | O_NONBLOCK)) | (u->setflags.flags & (O_APPEND | O_NONBLOCK));
        atomic_store(&e->shared->oflags, e->oflags);
        break;
    case AMPH_FWD_SETLOCK: note_lock(cl, e, u->setlock.file, &u->setlock.lock[0], 0); break;
    case AMPH_FWD_WAITLOCK: note_lock(cl, e, u->waitlock.file, &u->waitlock.lock[0], 0); break;
    case AMPH_FWD_PSETLOCK: note_lock(cl, e, u->psetlock.file, &u->psetlock.lock[0], RECORD_LOCK); break;
    case AMPH_FWD_PWAITLOCK: note_lock(cl, e, u->pwaitlock.file, &u->pwaitlock.lock[0], RECORD_LOCK); break;
    case AMPH_FWD_PUNLOCK: note_unlocked(e); break;
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

static int replay_kind(struct amph_fwd_client *cl, struct entry *e, const struct amph_fwd_file *file, short kind)
{
    struct fwd_guard g;
    struct fwd_ranges now;
    lock_table(&g);
    int err = e->locks.unknown || !fwd_ranges_copy(&e->locks, &now) ? ENOLCK : 0;
    unlock_table(&g);
    if (err)
        return err;
    for (uint32_t i = 0; i < now.n && !err; i++) {
        const struct fwd_range *r = &now.item[i];
        struct flock lock = { .l_type = r->type, .l_start = r->from, .l_len = r->to == FWD_RANGE_END ? 0 : r->to - r->from };
        struct amph_fwd_args_setlock a = { .file = file, .lock = &lock };
        if (r->kind == kind)
            err = lock_again(cl, kind == RECORD_LOCK ? AMPH_FWD_PSETLOCK : AMPH_FWD_SETLOCK, &a);
    }
    free(now.item);
    return err;
}

static int replay_locks(struct amph_fwd_client *cl, struct entry *e, const struct amph_fwd_file *file)
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
static int reopen_at(struct amph_fwd_client *cl, struct entry *e, struct fwd_link *link, struct amph_fwd_file *file)
{
    struct stat st;
    off_t now, pos = (off_t)atomic_load(&e->shared->pos);
    char *path = path_of(e);
    struct amph_fwd_args_open open_args = { .path = path, .flags = e->oflags, .file = file };
    struct amph_fwd_args_fstat fstat_args = { .file = file, .st = &st };
    struct amph_fwd_args_lseek seek = { .file = file, .off = pos == POS_END ? 0 : pos, .whence = pos == POS_END ? SEEK_END : SEEK_SET,
                                        .pos = &now };
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

/* Has that process ended?  A zombie has: its parent may be who asks. */
static bool is_gone(pid_t pid)
{
    char path[40], text[256];
    if (kill(pid, 0) != 0)
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
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

/* Waits for another process (or thread) that is at it; true: it is ours to do. */
static bool become_mover(struct shared *s)
{
    uint32_t self = (uint32_t)getpid(), other = 0;
    struct timespec pause = { .tv_nsec = 1000 * 1000 };
    if (atomic_compare_exchange_strong(&s->mover, &other, self))
        return true;
    if (other != self && is_gone((pid_t)other) && atomic_compare_exchange_strong(&s->mover, &other, self))
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
            if (!e->pinned && (e->locks.n || e->locks.unknown || e->flock_op) && !atomic_load(&e->shared->lost) && is_dead(cl, e->held.server))
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
        (void)settle_entry(cl, e); /* one that is lost is not asked for again */
        lock_table(&g);
        e->pinned = false;
        bool gone = e->gone;
        unlock_table(&g);
        if (gone)
            free_entry(e);
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

/* A file that was spread and has moved: its other parts are still open where their servers are there. */
static void close_rest(struct amph_fwd_client *cl, const struct amph_fwd_file *file)
{
    for (uint32_t i = 1; i < file->nparts; i++) {
        struct amph_fwd_file part = { .nparts = 1, .part = { file->part[i] } };
        struct amph_fwd_args_close a = { .file = &part };
        if (!is_dead(cl, file->part[i].server))
            (void)fwd_client_once(cl, AMPH_FWD_CLOSE, &a);
    }
}

int fwd_failover_call(struct amph_fwd_client *cl, enum amph_fwd_id id, void *args)
{
    const struct fwd_call_desc *desc = &fwd_calls[id];
    const struct amph_fwd_file *file = fwd_call_file(desc, args);
    if (id == AMPH_FWD_HOLD)
        fwd_failover_adopt(cl, file);
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
        if (e && !same(&e->held, &e->name))
            close_rest(cl, file);
        forget(file);
    } else if (!err)
        note(cl, id, args, e);
    return err;
}
