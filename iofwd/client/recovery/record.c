/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of recovery records; see recovery/record.h.
 *
 * Layer: iofwd.
 * Thread rule: amph_client_state.lock guards the table; fields that processes share are atomic.
 */
#include "iofwd/client/recovery/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOTS ((uint32_t)1 << 15)
#define SLOT_TRIES 4096u
#define BUCKETS 256
#define TABLE_NAME "iofwd-failover"

/* In a memfd, which forked children share and which a new image finds after exec. */
struct table {
    _Atomic uint32_t next; /* first slot that was never used, until the table is full */
    struct amph_client_shared slot[SLOTS];
};

static struct {
    struct amph_client_record *bucket[BUCKETS]; /* under amph_client_state.lock */
    struct table *table;
    int fd;      /* of the table, or -1 */
    bool looked; /* for the table of the previous image */
} all;

void amph_client_records_lock(struct amph_client_sigguard *g)
{
    amph_client_sigguard_enter(g);
    pthread_mutex_lock(&amph_client_state.lock);
}

void amph_client_records_unlock(struct amph_client_sigguard *g)
{
    pthread_mutex_unlock(&amph_client_state.lock);
    amph_client_sigguard_leave(g);
}

static struct amph_client_record **slot_of(const struct amph_fwd_ref *name)
{
    struct amph_client_record **at = &all.bucket[name->handle % BUCKETS];

    while (*at && !amph_client_ref_same(&(*at)->name, name))
        at = &(*at)->next;

    return at;
}

struct amph_client_record *amph_client_record_find(const struct amph_fwd_file *file)
{
    struct amph_client_sigguard g;

    if (!file || file->nparts == 0)
        return NULL;

    amph_client_records_lock(&g);

    struct amph_client_record *e = *slot_of(&file->part[0]);

    amph_client_records_unlock(&g);
    return e;
}

/* Is it a table of this version?  A shorter file cannot be mapped whole. */
static bool is_whole(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof *all.table;
}

/* fd -1: anonymous memory, which a new image after exec does not find. */
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

/* Maps the table of the previous image by its inherited descriptor.  Signals are blocked. */
static bool find_table(void)
{
    static const char name[] = "/memfd:" TABLE_NAME " ";
    char target[64];
    DIR *dir = all.table || all.looked ? NULL : opendir("/proc/self/fd");

    for (const struct dirent *d; dir && !all.table && (d = readdir(dir));) {
        ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof target);
        if (n > (ssize_t)sizeof name && memcmp(target, name, sizeof name - 1) == 0 &&
            is_whole(atoi(d->d_name)))
            map_table(atoi(d->d_name));
    }

    if (dir)
        closedir(dir);

    amph_client_records_close_at_exec(true); /* exec left it open for this image */
    all.looked = true;
    return all.table != NULL;
}

static bool make_table(void)
{
    struct rlimit max;

    /* ftruncate beyond the limit raises SIGXFSZ */
    bool may = getrlimit(RLIMIT_FSIZE, &max) == 0 && max.rlim_cur >= sizeof *all.table;
    int low = may ? memfd_create(TABLE_NAME, MFD_CLOEXEC) : -1;
    int fd = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, AMPH_CLIENT_FDS_FROM) : -1;

    if (low >= 0)
        close(low);

    if (fd >= 0 && ftruncate(fd, (off_t)sizeof *all.table) == 0 && map_table(fd))
        return true;

    if (fd >= 0)
        close(fd);

    return map_table(-1);
}

void amph_client_records_open(void)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);
    (void)(find_table() || make_table());
    amph_client_records_unlock(&g);
}

static struct amph_client_shared *take_slot(void)
{
    for (uint32_t i = 0; (find_table() || make_table()) && i < SLOT_TRIES; i++) {
        struct amph_client_shared *s =
            &all.table->slot[atomic_fetch_add(&all.table->next, 1) % SLOTS];
        uint32_t none = 0;

        if (atomic_compare_exchange_strong(&s->users, &none, 1))
            return s;
    }

    return NULL;
}

/* Returns the slot of a file inherited over exec. */
static struct amph_client_shared *find_slot(const struct amph_fwd_ref *name)
{
    uint32_t used = find_table() ? atomic_load(&all.table->next) : 0;

    for (uint32_t i = 0; i < used && i < SLOTS; i++) {
        struct amph_client_shared *s = &all.table->slot[i];

        if (atomic_load(&s->users) && amph_client_ref_same(&s->name, name)) {
            atomic_fetch_add(&s->users, 1);
            return s;
        }
    }

    return NULL;
}

bool amph_client_failover_owns(int fd)
{
    return all.table && fd >= 0 && fd == all.fd;
}

static void free_entry(struct amph_client_record *e)
{
    free(e->path);
    free(e->locks.item);
    free(e);
}

void amph_client_record_remove(const struct amph_fwd_file *file)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);

    struct amph_client_record **at = slot_of(&file->part[0]);
    struct amph_client_record *e = *at;

    if (e) {
        *at = e->next;
        atomic_fetch_sub(&e->shared->users, 1);
        e->gone = true;
    }

    bool idle = e && !e->pinned;

    amph_client_records_unlock(&g);
    if (idle)
        free_entry(e);
}

void amph_client_records_close_at_exec(bool closes)
{
    if (all.table && all.fd >= 0)
        amph_client_state.host.fcntl(all.fd, F_SETFD, closes ? (void *)FD_CLOEXEC : NULL);
}

/* With the lock held. */
void amph_client_failover_fork(bool undo)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct amph_client_record *e = all.bucket[i]; e; e = e->next)
            atomic_fetch_add(&e->shared->users, undo ? UINT32_MAX : 1);
}

char *amph_client_record_path(const struct amph_client_record *e)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);

    char *path = strdup(e->path);

    amph_client_records_unlock(&g);
    return path;
}

/* Joins the path of dir and the relative path.  NULL: unknown. */
static char *whole_path(const struct amph_fwd_file *dir, const char *path)
{
    char *whole;

    if (path[0] == '/' || !dir)
        return strdup(path);

    const struct amph_client_record *e = amph_client_record_find(dir);
    char *above = e ? amph_client_record_path(e) : NULL;

    if (!above || asprintf(&whole, "%s%s%s", above, path[0] ? "/" : "", path) < 0)
        whole = NULL;

    free(above);
    return whole;
}

/* Asks for the identity of a file that was just opened.  If its server has died since, opens it at the
 * next one, where it must be neither created nor truncated again; that one may die as well. */
static bool identify(struct amph_fwd_client *cl, const char *path,
                     const struct amph_fwd_args_open *a, struct stat *st_p)
{
    struct amph_fwd_args_fstat fstat_args = { .file = a->file, .st = st_p };
    struct amph_fwd_args_open again = { .path = path,
                                        .flags = a->flags & ~(O_CREAT | O_EXCL | O_TRUNC),
                                        .file = a->file };

    for (uint32_t tries = 0; tries <= cl->nlinks; tries++) {
        if (amph_client_once(cl, AMPH_FWD_FSTAT, &fstat_args) == 0)
            return true;

        if (!amph_client_server_is_dead(cl, a->file->part[0].server) ||
            amph_client_server_home(cl) != 0)
            return false;

        (void)amph_client_once(cl, AMPH_FWD_OPEN, &again);
    }

    return false;
}

static void publish_path(struct amph_client_record *e)
{
    size_t len = strlen(e->path);

    if (len < sizeof e->shared->path)
        memcpy(e->shared->path, e->path, len + 1);
    else
        e->shared->path[0] = 0;
}

static void publish(struct amph_client_record *e)
{
    struct amph_client_shared *s = e->shared;

    publish_path(e);
    atomic_store(&s->oflags, e->oflags);
    s->dev = e->dev;
    s->ino = e->ino;
    s->name = e->name;
}

static void enlist(struct amph_client_record *e)
{
    struct amph_client_record **at = &all.bucket[e->name.handle % BUCKETS];

    e->next = *at;
    *at = e;
}

void amph_client_record_add(struct amph_fwd_client *cl, const struct amph_fwd_args_open *a)
{
    struct stat st;
    struct amph_client_sigguard g;
    struct amph_client_record *e = calloc(1, sizeof *e);

    /* a file without a name is lost with its server, and so is the data in a FIFO */
    if (!e || (a->flags & O_TMPFILE) == O_TMPFILE || amph_fwd_file_waits(a->file) ||
        !(e->path = whole_path(a->path_dir, a->path)) || !identify(cl, e->path, a, &st)) {
        if (e)
            free_entry(e);

        return;
    }

    e->name = e->held = a->file->part[0];
    e->oflags = a->flags & ~(O_CREAT | O_EXCL | O_TRUNC);
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    amph_client_records_lock(&g);

    if ((e->shared = take_slot()) != NULL) {
        publish(e);
        e->shared->seat[0] = (struct amph_client_location){ .server = e->name.server,
                                                            .handle = e->name.handle };
        atomic_store(&e->shared->turns, 0);
        atomic_store(&e->shared->now, 0);
        atomic_store(&e->shared->pos, 0);
        atomic_store(&e->shared->mover, 0);
        atomic_store(&e->shared->flights, 0);
        atomic_store(&e->shared->locks_of, 0);
        enlist(e);
    }

    amph_client_records_unlock(&g);
    if (!e->shared)
        free_entry(e);
}

/* Fills path, flags and identity of the file from the shared record, or asks the server. */
static bool learn(struct amph_fwd_client *cl, struct amph_client_record *e,
                  const struct amph_fwd_file *now, const struct amph_client_shared *s)
{
    size_t path_len = strnlen(s->path, sizeof s->path);

    if (path_len > 0 && path_len < sizeof s->path) {
        e->path = strdup(s->path);
        e->oflags = atomic_load(&s->oflags);
        e->dev = s->dev;
        e->ino = s->ino;
        return e->path;
    }

    struct stat st;
    char name[PATH_MAX];
    size_t len;
    struct amph_fwd_args_nameof nameof_args = {
        .file = now, .name = name, .name_cap = sizeof name - 1, .name_len = &len
    };
    struct amph_fwd_args_getflags flags_args = { .file = now, .flags = &e->oflags };
    struct amph_fwd_args_fstat fstat_args = { .file = now, .st = &st };

    if (amph_client_once(cl, AMPH_FWD_NAMEOF, &nameof_args) ||
        amph_client_once(cl, AMPH_FWD_GETFLAGS, &flags_args) ||
        amph_client_once(cl, AMPH_FWD_FSTAT, &fstat_args))
        return false;

    name[len] = 0;
    e->path = strdup(name);
    e->dev = st.st_dev;
    e->ino = st.st_ino;

    return e->path;
}

void amph_client_failover_exec(void)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct amph_client_record *e = all.bucket[i]; e; e = e->next) {
            struct amph_client_shared *s = e->shared;
            bool fits = !e->locks.unknown && e->locks.n <= AMPH_CLIENT_LOCKS_PASSED;

            if (!e->locks.n && !e->locks.unknown && !e->flock_op)
                continue;

            s->nlocks = fits ? e->locks.n : UINT32_MAX;
            s->flock_op = e->flock_op;
            if (fits && e->locks.n)
                memcpy(s->lock, e->locks.item, e->locks.n * sizeof s->lock[0]);

            atomic_store(&s->locks_of, (int32_t)getpid());
        }

    amph_client_records_unlock(&g);
}

/* Takes over the locks of the previous image. */
static void take_locks(struct amph_client_record *e)
{
    struct amph_client_shared *s = e->shared;
    int32_t self = (int32_t)getpid();

    if (atomic_load(&s->locks_of) != self)
        return;

    e->flock_op = s->flock_op;
    e->locks.unknown = s->nlocks > AMPH_CLIENT_LOCKS_PASSED;
    for (uint32_t i = 0; i < s->nlocks && !e->locks.unknown; i++)
        e->locks.unknown = !amph_fwd_ranges_set(&e->locks, s->lock[i]);

    atomic_compare_exchange_strong(&s->locks_of, &self, 0);
}

struct amph_fwd_ref amph_client_failover_adopt(struct amph_fwd_client *cl,
                                               const struct amph_fwd_file *file)
{
    struct amph_client_sigguard g;
    struct amph_fwd_ref now = file->part[0];
    struct amph_client_record *e = amph_client_record_find(file);

    if (e)
        return e->held.handle ? e->held : now;

    amph_client_records_lock(&g);

    struct amph_client_shared *s = find_slot(&file->part[0]);

    amph_client_records_unlock(&g);
    if (!s)
        return now;

    const struct amph_client_location *seat = amph_client_location_now(s);

    now = (struct amph_fwd_ref){ seat->server, seat->handle };

    struct amph_fwd_file there = { .nparts = 1, .part = { now } };

    e = calloc(1, sizeof *e);
    if (!e || !learn(cl, e, &there, s)) {
        atomic_fetch_sub(&s->users, 1);
        if (e)
            free_entry(e);

        return now;
    }

    e->name =
        file->part[0]; /* held is unknown: the process that reopened the file may have ended */
    e->shared = s;
    take_locks(e);
    amph_client_records_lock(&g);
    enlist(e);
    amph_client_records_unlock(&g);

    return now;
}

/* Updates the paths of files below a renamed directory. */
static void rename_paths(const char *from, const char *to)
{
    struct amph_client_sigguard g;
    size_t len = strlen(from);

    amph_client_records_lock(&g);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct amph_client_record *e = all.bucket[i]; e; e = e->next) {
            char *path;

            if (strncmp(e->path, from, len) == 0 && (e->path[len] == 0 || e->path[len] == '/') &&
                asprintf(&path, "%s%s", to, e->path + len) >= 0) {
                free(e->path);
                e->path = path;
                publish_path(e);
            }
        }

    amph_client_records_unlock(&g);
}

void amph_client_record_renamed(const struct amph_fwd_args_rename *a)
{
    char *from = whole_path(a->from_dir, a->from);
    char *to = whole_path(a->to_dir, a->to);

    if (from && to)
        rename_paths(from, to);

    free(from);
    free(to);
}

void amph_client_failover_child(void)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct amph_client_record *e = all.bucket[i]; e; e = e->next)
            amph_fwd_ranges_forget_above(&e->locks, AMPH_CLIENT_LOCK_OF_FILE);
}

struct amph_client_record *amph_client_record_pin_locked(struct amph_fwd_client *cl)
{
    struct amph_client_sigguard g;
    struct amph_client_record *found = NULL;

    amph_client_records_lock(&g);
    for (unsigned i = 0; i < BUCKETS && !found; i++)
        for (struct amph_client_record *e = all.bucket[i]; e && !found; e = e->next)
            if (!e->pinned && (e->locks.n || e->locks.unknown || e->flock_op) &&
                !amph_client_location_now(e->shared)->lost &&
                amph_client_server_is_dead(cl, e->held.server))
                found = e;

    if (found)
        found->pinned = true;

    amph_client_records_unlock(&g);
    return found;
}

void amph_client_record_unpin(struct amph_client_record *e)
{
    struct amph_client_sigguard g;

    amph_client_records_lock(&g);
    e->pinned = false;

    bool gone = e->gone;

    amph_client_records_unlock(&g);
    if (gone)
        free_entry(e);
}
