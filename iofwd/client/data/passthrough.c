/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer `passthrough`; see passthrough.h.
 *
 * A file's first calls go to the server, so that programs that only open and read a short file do not pay for
 * the descriptor.  What the layer does not do goes to the server as before: everything but reads, writes,
 * lseek, ftruncate, fsync, fstat and record locks; calls at the offset of an open file that other processes
 * share, because a large call of theirs may be under way at the server in pieces; striped files; threads with
 * a descriptor table of their own; with failover, calls at the offset, which another server would have to
 * continue.
 *
 * Layer: iofwd.
 * Thread rule: any thread.  A file's entry is published by its handle and withdrawn when the program closes
 * the file; a call that runs beside the close has the same outcome as beside close(2).  Signals are not
 * blocked during the calls, which wait for nothing but the file system.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/os/thread.h"
#include "base/platform.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/wire.h"
#include "iofwd/calls/calls.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/data.h"
#include "iofwd/client/data/passed.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/internal.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/passthrough.h"
#include "iofwd/wire/versions.h"

#define ASK_AFTER 4        /* calls on a file after which its descriptor is requested */
#define ASK_AGAIN_AFTER 64 /* calls, if the server could not pass it */
#define ASK_BYTES 65536u   /* count as one more call, because the server takes as long for them */
#define FDS_SHARE 8u /* at most 1 in 8 of the process's descriptors is used for passed files */

struct amph_client_passthrough amph_client_passthrough = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

static unsigned set_of(uint64_t handle)
{
    return amph_client_hash(handle) % PASSED_SETS;
}

/* ---- asking for a descriptor ---- */

bool amph_client_passed_may_have(unsigned n)
{
    struct rlimit may;

    return getrlimit(RLIMIT_NOFILE, &may) == 0 && n < may.rlim_cur / FDS_SHARE;
}

static bool has_descriptors_left(void)
{
    return !atomic_load(&amph_client_passthrough.scarce) &&
           amph_client_passed_may_have(atomic_load(&amph_client_passthrough.has));
}

/* Maps the versions that the server moves.  false: this client could not move them. */
static bool map_versions(uint64_t id)
{
    if (id == 0)
        return true;

    struct amph_client_passthrough *pt = &amph_client_passthrough;

    if (!pt->versions)
        pt->versions = amph_fwd_versions_map(id, true);
    if (!pt->versions || pt->versions->id != id)
        return false;

    if (!pt->claims)
        pt->claims = amph_fwd_versions_same_pids(pt->versions)
                         ? amph_fwd_passer_take(pt->versions, (uint32_t)getpid())
                         : &pt->versions->others;

    return true;
}

/* Has the server send the descriptor.  0 or an errno value. */
static int ask(struct amph_fwd_client *cl, struct amph_client_link *link, uint64_t handle,
               struct amph_fwd_passed *passed, int *fd_p)
{
    uint8_t body[sizeof handle], answer[FWD_PASSED_BYTES];
    size_t got;
    struct amph_wr w;
    struct amph_rd r;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, handle);

    int err = amph_client_special(cl, link, FWD_SERVICE_PASSTHROUGH, body, sizeof body, answer,
                                  sizeof answer, &got);

    if (err)
        return err;

    amph_rd_init(&r, answer, got);
    *passed = (struct amph_fwd_passed){ .slot = amph_rd_u32(&r), .line = amph_rd_u32(&r) };
    passed->versions = amph_rd_u64(&r);

    if (amph_fwd_control_take(link->control_fd, handle, fd_p) != AMPH_OK)
        return EMFILE;

    return r.bad || passed->slot >= FWD_PASSTHROUGH_MAX || passed->line >= FWD_VERSIONS_LINES
               ? EPROTO
               : 0;
}

/* Another file's descriptor had this number, and was closed by the kernel's own call. */
static void forget_number(int fd)
{
    for (unsigned i = 0; i < PASSED_FILES; i++) {
        uint32_t has = HAS;

        if (amph_client_passthrough.entry[i].fd == fd &&
            atomic_compare_exchange_strong(&amph_client_passthrough.entry[i].state, &has, REFUSED))
            atomic_fetch_sub(&amph_client_passthrough.has, 1);
    }
}

bool amph_client_passed_holds_locks(int fd)
{
    return amph_client_state.host.holds_locks && amph_client_state.host.holds_locks(fd);
}

/* Gets the descriptor and what belongs to it.  0 or an errno value; EAGAIN: not now. */
static int fill(struct amph_fwd_client *cl, struct amph_client_link *link, struct passed_file *e)
{
    struct amph_fwd_passthrough *shared = amph_client_passed_shared(cl, link);
    struct amph_fwd_passed passed = { 0 };
    struct stat st;
    int fd = -1;
    int err = ask(cl, link, atomic_load(&e->handle), &passed, &fd);

    if (fd >= 0 && !amph_client_passed_holds_locks(fd)) /* else it keeps its number */
        fd = amph_client_fd_up(fd);

    if (!err && (fd < 0 || fstat(fd, &st) != 0 || !map_versions(passed.versions)))
        err = EOPNOTSUPP;

    if (err) {
        if (fd >= 0 && !amph_client_passed_holds_locks(fd))
            close(fd);

        return err;
    }

    forget_number(fd);
    e->fd = fd;
    e->access = fcntl(fd, F_GETFL) & O_ACCMODE;
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    e->shared = &shared->file[passed.slot];
    e->data = passed.versions ? &amph_client_passthrough.versions->line[passed.line].data : NULL;
    e->attributes = passed.versions
                        ? &amph_client_passthrough.versions->line[passed.line].attributes
                        : NULL;

    return 0;
}

/* The lock is held, and so is the entry. */
static enum passed_state ask_for(struct amph_fwd_client *cl, struct passed_file *e)
{
    struct amph_client_link *link;

    if (!has_descriptors_left() || amph_client_link_to(cl, e->server, &link) != 0 || !link->near ||
        !link->part)
        return REFUSED;

    int err = amph_client_record_locks_allow(cl, e) ? fill(cl, link, e) : EAGAIN;

    if (err == EAGAIN)
        atomic_store(&e->calls, -ASK_AGAIN_AFTER);
    if (err)
        return err == EAGAIN ? COUNTS : REFUSED;

    atomic_fetch_add(&amph_client_passthrough.has, 1);
    return HAS;
}

void amph_client_passed_ask(struct amph_fwd_client *cl, struct passed_file *e, uint64_t handle)
{
    uint32_t counts = COUNTS;

    if (!atomic_compare_exchange_strong(&e->state, &counts, ASKS))
        return;

    bool ours = atomic_load(&e->handle) == handle;

    atomic_store_explicit(&e->state, ours ? ask_for(cl, e) : COUNTS, memory_order_release);
}

/* Asks for the file's descriptor, unless another thread is asking. */
static void obtain(struct amph_fwd_client *cl, struct passed_file *e, uint64_t handle)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    if (pthread_mutex_trylock(&amph_client_passthrough.lock) == 0) {
        amph_client_passed_ask(cl, e, handle);
        pthread_mutex_unlock(&amph_client_passthrough.lock);
    }

    amph_client_sigguard_leave(&g);
}

/* ---- entries ---- */

bool amph_client_passed_is_itself(int fd, dev_t dev, ino_t ino)
{
    struct stat st;

    return amph_client_state.host.fstat(fd, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

/* Closes the descriptor of an entry that the caller holds (ASKS), unless the number is the program's now. */
static void close_descriptor(const struct passed_file *e)
{
    if (amph_client_passed_is_itself(e->fd, e->dev, e->ino))
        close(e->fd);

    atomic_fetch_sub(&amph_client_passthrough.has, 1);
}

/* Nobody else changes the entry before this is done. */
void amph_client_passed_withdraw(struct passed_file *e, uint64_t handle)
{
    struct amph_client_sigguard g;
    uint32_t has = HAS;

    if (!atomic_compare_exchange_strong(&e->state, &has, ASKS)) {
        /* unless it is another file's meanwhile */
        atomic_compare_exchange_strong(&e->handle, &handle, 0);
        return;
    }

    if (atomic_load(&e->handle) != handle) {
        atomic_store(&e->state, HAS);
        return;
    }

    amph_client_sigguard_enter(&g);
    close_descriptor(e);
    atomic_store(&e->handle, 0);
    atomic_store(&e->state, REFUSED);
    amph_client_sigguard_leave(&g);
}

/* Closes the descriptor, if the entry has one, no call uses it, and the client holds no record locks on the file, which
 * the close would drop.  The descriptor is not requested again. */
static bool give_up(struct passed_file *e)
{
    uint32_t has = HAS;

    if (!atomic_compare_exchange_strong(&e->state, &has, ASKS))
        return false;

    bool unused = atomic_load(&e->users) == 0 && !amph_client_record_locks_on(e->dev, e->ino) &&
                  !amph_client_passed_holds_locks(e->fd);

    if (unused)
        close_descriptor(e);

    atomic_store(&e->state, unused ? REFUSED : HAS);
    return unused;
}

bool amph_client_passthrough_give_up(void)
{
    bool any = false;

    if (atomic_load(&amph_client_passthrough.has) == 0)
        return false;

    atomic_store(&amph_client_passthrough.scarce, true);
    pthread_mutex_lock(&amph_client_passthrough.lock);
    for (unsigned i = 0; i < PASSED_FILES; i++)
        any |= give_up(&amph_client_passthrough.entry[i]);

    pthread_mutex_unlock(&amph_client_passthrough.lock);
    return any;
}

/* Gives a forked child an unused entry, whatever a thread of the parent was doing with it. */
static void clear(struct passed_file *e)
{
    amph_client_passed_withdraw(e, atomic_load(&e->handle));
    atomic_store(&e->handle, 0);
    atomic_store(&e->users, 0);
    atomic_store(&e->locks_remote, false);
    atomic_store(&e->state, COUNTS);
}

struct passed_file *amph_client_passed_peek(const struct amph_fwd_ref *part)
{
    struct passed_file *set = &amph_client_passthrough.entry[set_of(part->handle) * PASSED_WAYS];

    for (unsigned i = 0; i < PASSED_WAYS; i++)
        if (atomic_load(&set[i].handle) == part->handle && set[i].server == part->server)
            return &set[i];

    return NULL;
}

/* May another file get this entry? */
static bool is_replaceable(const struct passed_file *e)
{
    uint32_t state = atomic_load(&e->state);

    return (state == COUNTS || state == REFUSED) && !atomic_load(&e->locks_remote);
}

/* The entry of a set that a new file gets: an unused one, or that of a file without a descriptor, which differs from
 * file to file.  NULL: there is none. */
static struct passed_file *choose(struct passed_file *set, uint64_t handle)
{
    struct passed_file *chosen = NULL;

    for (unsigned i = 0; i < PASSED_WAYS; i++) {
        struct passed_file *e = &set[(handle + i) % PASSED_WAYS];

        if (!is_replaceable(e))
            continue;
        if (atomic_load(&e->handle) == 0)
            return e;
        if (!chosen)
            chosen = e;
    }

    return chosen;
}

/* Gives the entry to another file, unless it is used meanwhile. */
static bool replace(struct passed_file *e, const struct amph_fwd_ref *part)
{
    uint64_t before = atomic_load(&e->handle);
    uint32_t now = atomic_load(&e->state);

    if ((now != COUNTS && now != REFUSED) || atomic_load(&e->locks_remote) ||
        !atomic_compare_exchange_strong(&e->state, &now, ASKS))
        return false;

    bool taken = atomic_load(&e->handle) == before;

    if (taken) {
        atomic_store(&e->handle, 0);
        atomic_store(&e->calls, 0);
        atomic_store(&e->read_bound, UINT64_MAX);
        e->server = part->server;
        atomic_store_explicit(&e->handle, part->handle, memory_order_release);
    }

    atomic_store_explicit(&e->state, taken ? COUNTS : now, memory_order_release);
    return taken;
}

/* Only one thread at a time, so that a file gets one entry.  With signals blocked. */
static struct passed_file *add(const struct amph_fwd_ref *part, struct passed_file *set)
{
    struct passed_file *e = amph_client_passed_peek(part);

    if (e)
        return e;

    e = choose(set, part->handle);
    return e && replace(e, part) ? e : NULL;
}

struct passed_file *amph_client_passed_find(const struct amph_fwd_ref *part)
{
    unsigned number = set_of(part->handle);
    struct passed_file *set = &amph_client_passthrough.entry[number * PASSED_WAYS];
    struct passed_file *e = amph_client_passed_peek(part);
    sigset_t all, before;

    if (AMPH_LIKELY(e != NULL) || !choose(set, part->handle))
        return e;

    /* a handler that jumps away would leave the set to nobody */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);

    if (!atomic_exchange(&amph_client_passthrough.adds[number], true)) {
        e = add(part, set);
        atomic_store(&amph_client_passthrough.adds[number], false);
    }

    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

bool amph_client_passed_enter(struct passed_file *e, uint64_t handle)
{
    atomic_fetch_add(&e->users, 1);
    if (atomic_load(&e->state) == HAS && atomic_load(&e->handle) == handle)
        return true;

    atomic_fetch_sub(&e->users, 1);
    return false;
}

void amph_client_passed_leave(struct passed_file *e)
{
    atomic_fetch_sub(&e->users, 1);
}

/* ---- calls ---- */

static int count(ssize_t n, size_t *out)
{
    if (n < 0)
        return errno;

    *out = (size_t)n;
    return 0;
}

static int outcome(int ret)
{
    return ret < 0 ? errno : 0;
}

static int do_read(int fd, union amph_fwd_args *u)
{
    return count(amph_client_state.host.read(fd, u->read.buf, u->read.buf_cap), u->read.buf_len);
}

static int do_write(int fd, union amph_fwd_args *u)
{
    return count(amph_client_state.host.write(fd, u->write.data, u->write.data_len), u->write.done);
}

static int do_pread(int fd, union amph_fwd_args *u)
{
    return count(amph_client_state.host.pread(fd, u->pread.buf, u->pread.buf_cap, u->pread.off),
                 u->pread.buf_len);
}

static int do_pwrite(int fd, union amph_fwd_args *u)
{
    return count(
        amph_client_state.host.pwrite(fd, u->pwrite.data, u->pwrite.data_len, u->pwrite.off),
        u->pwrite.done);
}

static int do_lseek(int fd, union amph_fwd_args *u)
{
    off_t at = amph_client_state.host.lseek(fd, u->lseek.off, u->lseek.whence);

    if (at < 0)
        return errno;

    *u->lseek.pos = at;
    return 0;
}

static int do_ftruncate(int fd, union amph_fwd_args *u)
{
    return outcome(amph_client_state.host.ftruncate(fd, u->ftruncate.length));
}

static int do_fsync(int fd, union amph_fwd_args *u)
{
    return outcome(amph_client_state.host.fsync(fd));
}

static int do_fdatasync(int fd, union amph_fwd_args *u)
{
    return outcome(amph_client_state.host.fdatasync(fd));
}

static int do_fstat(int fd, union amph_fwd_args *u)
{
    return outcome(amph_client_state.host.fstat(fd, u->fstat.st));
}

typedef int (*call_fn)(int fd, union amph_fwd_args *u);

static const call_fn call_fns[AMPH_FWD_NCALLS] = {
#define X(id, name) [AMPH_FWD_##id] = do_##name,
    AMPH_FWD_PASSTHROUGH_CALLS(X)
#undef X
};

/*
 * A signal handler may fork in the midst of a call, and its child may return from the handler. The parent ends the
 * call then; the child, whose descriptor is closed, moves nothing, unless it was in the midst of a move, which it makes
 * to its end in memory of its own (leave_moves).
 */
static bool is_mover(const struct amph_client_passed_call *c)
{
    return (c->data || c->attributes) && c->claims && c->forks == amph_client_passthrough.forks;
}

static void begin(const struct amph_client_passed_call *c)
{
    amph_client_thread.passed_moves++;
    atomic_signal_fence(memory_order_seq_cst);

    if (is_mover(c)) {
        atomic_fetch_add(c->claims, 1);
        if (c->data)
            amph_fwd_version_begin(c->data);
        if (c->attributes)
            amph_fwd_version_begin(c->attributes);
    }

    atomic_signal_fence(memory_order_seq_cst);
    amph_client_thread.passed_moves--;
}

static void end(const struct amph_client_passed_call *c)
{
    amph_client_thread.passed_moves++;
    atomic_signal_fence(memory_order_seq_cst);

    if (is_mover(c)) {
        if (c->attributes)
            amph_fwd_version_end(c->attributes);
        if (c->data)
            amph_fwd_version_end(c->data);

        atomic_fetch_sub(c->claims, 1);
    }

    atomic_signal_fence(memory_order_seq_cst);
    amph_client_thread.passed_moves--;
}

/* In a forked child, in the midst of a move. Servers pass it no descriptors. */
static void leave_moves(struct amph_client_passthrough *pt)
{
    if (!pt->versions)
        return;

    void *at = mmap(pt->versions, sizeof *pt->versions, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    if (at == MAP_FAILED)
        amph_warn("a forked child shares versions of files with its parent: %s", strerror(errno));
}

/* The frame is set last and cleared first, since a signal handler may leave this function by a jump. */
static void set_passed_call(const struct amph_client_passed_call *c)
{
    struct amph_client_passed_call *now = &amph_client_thread.passed_call;
    const void *frame = c->frame;

    now->frame = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    *now = *c;
    now->frame = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    now->frame = frame;
}

/* Ends what an earlier call of this thread has begun, if a signal handler has left that call by longjmp.  That is
 * certain if the earlier call had the same stack frame as this one.  A call with another frame may only be
 * interrupted and continues when the handler returns.  If it has been left after all, its change counts as under way
 * until the process ends; other processes then ask the server more often. */
static void end_left(const void *frame)
{
    struct amph_client_passed_call left = amph_client_thread.passed_call;

    if (AMPH_LIKELY(left.frame != frame))
        return;

    amph_client_thread.passed_call.frame = NULL;

    end(&left);
    amph_client_passed_leave(left.e);
    pthread_setcancelstate(left.cancel, NULL);
}

void amph_client_passed_count(struct amph_fwd_passthrough_file *shared, int err, size_t written,
                              size_t read)
{
    amph_count(IOFWD_PASSED);
    if (AMPH_UNLIKELY(amph_client_thread.trace_sum != NULL))
        amph_client_thread.trace_sum->passed++;

    if (!shared)
        return;

    atomic_fetch_add_explicit(&shared->calls, 1, memory_order_relaxed);
    if (err)
        atomic_fetch_add_explicit(&shared->errors, 1, memory_order_relaxed);
    else if (written)
        atomic_fetch_add_explicit(&shared->bytes_written, written, memory_order_relaxed);
    else if (read)
        atomic_fetch_add_explicit(&shared->bytes_read, read, memory_order_relaxed);
}

static int make_call(struct passed_file *e, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    struct amph_fwd_passthrough_file *shared = e->shared;
    const void *frame = __builtin_frame_address(0);

    end_left(frame);

    struct amph_client_passed_call outer = amph_client_thread.passed_call;
    struct amph_client_passed_call own = {
        .frame = frame,
        .e = e,
        .forks = amph_client_passthrough.forks, /* read first: see is_mover */
    };
    struct amph_client_data d;
    size_t moved = 0;

    /* A thread that is cancelled here would leave changes under way, and its reference of the file. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &own.cancel);
    atomic_signal_fence(memory_order_seq_cst);
    own.claims = amph_client_passthrough.claims;
    own.data = desc->versions & FWD_VERSION_DATA ? e->data : NULL;
    own.attributes = desc->versions & FWD_VERSION_ATTRIBUTES ? e->attributes : NULL;
    begin(&own);
    set_passed_call(&own);

    int err = call_fns[call->id](e->fd, &call->u);

    set_passed_call(&outer);
    end(&own);
    pthread_setcancelstate(own.cancel, NULL);

    bool moves = amph_client_data_of(call->id, &call->u, &d);

    if (moves && !err)
        moved = *d.done_p;

    amph_client_passed_count(shared, err, moves && !d.reads ? moved : 0,
                             moves && d.reads ? moved : 0);
    return err;
}

/* Does the call only ask for attributes? */
static bool is_question(const struct amph_fwd_call *call)
{
    uint32_t flags = amph_fwd_calls[call->id].flags;

    return (flags & FWD_CALL_PURE) && !(flags & FWD_CALL_BULK);
}

/* How many calls more these bytes count as. */
static int32_t calls_of(uint64_t len)
{
    return (int32_t)(len / ASK_BYTES < ASK_AFTER ? len / ASK_BYTES : ASK_AFTER);
}

/* Have the file's calls taken so long that its descriptor was worth the question?  Then it is likely that more of
 * them follow.  Questions for attributes do not count: many programs ask once or twice for each file that they
 * read.  Nor does the length of a buffer that is larger than the file, as that of cat and grep is for most files. */
static bool is_worth_asking(struct passed_file *e, const struct amph_fwd_call *call)
{
    struct amph_client_data d;
    uint64_t len = 0;

    if (is_question(call))
        return false;

    if (amph_client_data_of(call->id, &call->u, &d)) {
        uint64_t bound = atomic_load_explicit(&e->read_bound, memory_order_relaxed);

        len = d.reads && d.len > bound ? bound : d.len;
    }

    int32_t calls = 1 + calls_of(len);

    return atomic_fetch_add_explicit(&e->calls, calls, memory_order_relaxed) + calls >= ASK_AFTER;
}

/* Notes after a call that the server has made how much a read of the file can move.  A first read counted with all of
 * its buffer. */
static void learn_bound(const struct amph_fwd_call *call, const struct amph_fwd_file *file)
{
    bool asks = call_fns[call->id] == do_fstat;
    struct amph_client_data d;

    if (!asks && (!amph_client_data_of(call->id, &call->u, &d) || !d.reads || *d.done_p == d.len))
        return;

    struct passed_file *e = amph_client_passed_peek(&file->part[0]);

    if (!e)
        return;

    uint64_t bound = asks ? (uint64_t)call->u.fstat.st->st_size : *d.done_p;
    uint64_t before = atomic_exchange_explicit(&e->read_bound, bound, memory_order_relaxed);

    if (!asks && before == UINT64_MAX)
        atomic_fetch_sub_explicit(&e->calls, calls_of(d.len) - calls_of(bound),
                                  memory_order_relaxed);
}

/* May another process, or the next server, have to do with the offset? */
static bool shares_offset(const struct amph_fwd_client *cl, const struct passed_file *e)
{
    return cl->failover ||
           atomic_load_explicit(&amph_client_passthrough.tables, memory_order_relaxed) ||
           atomic_load_explicit(&e->shared->shares_offset, memory_order_acquire);
}

/* May this call use the file's descriptor, which the client has? */
static bool may_use(const struct amph_fwd_call *call, const struct passed_file *e)
{
    bool at_offset = amph_fwd_calls[call->id].flags & FWD_CALL_OFFSET;
    struct amph_client_link *link;

    if (at_offset && shares_offset(call->client, e))
        return false;

    amph_client_check_at_times(call->client);
    return amph_client_link_to(call->client, e->server, &link) == 0;
}

/* Returns the entry whose descriptor this call uses, which must leave it, or NULL. */
static struct passed_file *usable(struct amph_fwd_call *call, const struct amph_fwd_file *file)
{
    if (file->nparts != 1 || file->rwf || amph_fwd_file_waits(file) || amph_thread_fd_table() != 0)
        return NULL;

    struct passed_file *e = amph_client_passed_find(&file->part[0]);
    uint64_t handle = file->part[0].handle;

    if (!e)
        return NULL;

    if (atomic_load_explicit(&e->state, memory_order_acquire) == COUNTS && is_worth_asking(e, call))
        obtain(call->client, e, handle);

    if (atomic_load_explicit(&e->state, memory_order_acquire) != HAS || !may_use(call, e) ||
        !amph_client_passed_enter(e, handle))
        return NULL;

    if (amph_client_passed_is_itself(e->fd, e->dev, e->ino))
        return e;

    amph_client_passed_leave(e);
    amph_client_passed_withdraw(e, handle);
    return NULL;
}

static int passthrough_call(const struct amph_layer *self, struct amph_fwd_call *call)
{
    const struct amph_fwd_call_desc *desc = &amph_fwd_calls[call->id];
    const struct amph_fwd_file *file = amph_fwd_call_file(desc, &call->u);

    if (!call->client || !file || file->nparts == 0)
        return amph_layer_pass(self->next, call);

    if (desc->run == FWD_RUN_LOCKER)
        return amph_client_record_lock(self, call, file);

    if (desc->coalesce_flags & FWD_COALESCE_DROP) {
        amph_client_record_locks_close(&file->part[0]);
        return amph_layer_pass(self->next, call);
    }

    struct passed_file *e = call_fns[call->id] ? usable(call, file) : NULL;

    if (!e) {
        int err = amph_layer_pass(self->next, call);

        if (!err && call_fns[call->id])
            learn_bound(call, file);

        return err;
    }

    int err = make_call(e, call);

    amph_client_passed_leave(e);
    if (!err && is_question(call))
        amph_client_raise_block_size(call->client, call);

    /* another holder may have set O_DIRECT, whose rules for memory and length the server obeys */
    return err == EINVAL ? amph_layer_pass(self->next, call) : err;
}

static void passthrough_event(const struct amph_layer *self, enum amph_layer_event event)
{
    if (event != AMPH_LAYER_FORK_CHILD)
        return;

    pthread_mutex_init(&amph_client_passthrough.lock, NULL);
    amph_client_record_locks_forget();
    amph_client_thread.passed_call.frame = NULL;
    amph_client_passthrough.claims = NULL;
    amph_client_passthrough.forks++;
    if (amph_client_thread.passed_moves)
        leave_moves(&amph_client_passthrough);

    /* it has memory of its own, which the parent does not share */
    for (unsigned i = 0; i < PASSED_FILES; i++)
        clear(&amph_client_passthrough.entry[i]);
    for (unsigned i = 0; i < PASSED_SETS; i++)
        atomic_store(&amph_client_passthrough.adds[i], false);
}

static const struct amph_layer layer = {
    .name = "passthrough", .rank = 37, .call = passthrough_call, .event = passthrough_event
};

void amph_client_passthrough_open(void)
{
    bool passes = amph_env_bool(AMPH_ENV_IOFWD_PASSTHROUGH);
    bool holds_locks = amph_client_record_locks_inherit(&amph_client_state.inherited, passes);

    amph_client_state.inherited.nkept = 0;
    if (passes || holds_locks)
        amph_layer_add(&layer);
}

void amph_client_passthrough_tables(void)
{
    atomic_store(&amph_client_passthrough.tables, true);
}

bool amph_client_passthrough_owns(int fd)
{
    /* each close of a local file asks; amph_client_fd_up leaves the low numbers to the program */
    if (fd < AMPH_CLIENT_FDS_FROM || atomic_load(&amph_client_passthrough.has) == 0)
        return false;

    for (unsigned i = 0; i < PASSED_FILES; i++)
        if (atomic_load(&amph_client_passthrough.entry[i].state) == HAS &&
            amph_client_passthrough.entry[i].fd == fd)
            return true;

    return false;
}
