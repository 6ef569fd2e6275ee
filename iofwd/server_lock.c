/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record locks (fcntl F_SETLK, F_SETLKW, F_GETLK), which belong to a process and not to an open file.  Layer: iofwd.
 * Thread rule: fwd_lock_* by the progress thread; an agent is a thread of its own.
 *
 * To the kernel the owner of such a lock is a table of descriptors.  Each client that takes one gets an agent: a thread that has left
 * the server's table for one of its own, into which the server passes the files to be locked.  So the kernel itself decides between
 * the clients of this and of every other server on the file system, finds deadlocks, and drops a client's locks where the agent closes
 * a file or ends.  A lock that has to wait waits in a thread beside the agent, which shares the agent's table; no worker waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "iofwd/ranges.h"
#include "iofwd/server_int.h"

#define UNSHARE_TABLE (1U << 1)
#define STACK_BYTES (128 << 10)
#define FIND_TRIES 100

/* A file that the agent has in its table: the same list on both sides, kept alike by the order of the messages. */
struct kept {
    struct kept *next;
    uint64_t handle;
    dev_t dev;
    ino_t ino;
    int fd; /* agent's */
    struct fwd_ranges held; /* agent's: what it has locked of the file, in the first entry for that file; agents_lock */
};

#define EVERY_SEQ UINT64_MAX

enum op { OP_CALL, OP_CLOSE_INODE, OP_CANCEL };

struct order {
    enum op op;
    struct fwd_request *rq; /* OP_CALL, and OP_CLOSE_INODE where somebody waits for it */
    uint64_t seq;           /* OP_CANCEL; EVERY_SEQ: whatever waits */
    uint64_t handle;
    dev_t dev;
    ino_t ino;
};

struct waiter {
    struct waiter *next;
    struct fwd_locker *locker;
    struct fwd_request *rq;
    pthread_t thread;
    int fd;
    bool cancelled;
};

struct fwd_locker {
    struct fwd_server *server;
    struct fwd_locker *next; /* agents_lock */
    uint32_t pid;        /* the client's */
    int door;            /* the server's end of the socket to the agent */
    /* orders: what was written before a message is seen after it, which the kernel does not promise the language */
    _Atomic uint32_t handed;
    struct kept *known;  /* progress thread's view of what the agent has */
    int sock;            /* agent's end; until it has left, and afterwards in the server's table as well */
    sem_t left;          /* counts 1 when the agent has left the table, or could not */
    bool apart;          /* it has: set before left is */
    _Atomic bool dropped; /* counted in `leaving` */
    struct kept *kept;   /* agent's */
    pthread_mutex_t lock; /* of waiters */
    struct waiter *waiters;
    unsigned nwaiters;
};

/* What the agents have locked, so that F_GETLK can name the holder: the kernel knows this process only. */
static pthread_mutex_t agents_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fwd_locker *agents;

/* Agents whose clients have ended: those that still hold what those had locked, and those that did. */
static _Atomic uint32_t leaving, have_left;

bool fwd_lock_agents_leave(const struct fwd_request *rq)
{
    return atomic_load(&leaving) > 0 || (rq->id == AMPH_FWD_PSETLOCK && rq->agents_left != atomic_load(&have_left));
}

bool fwd_lock_is(enum amph_fwd_id id)
{
    return id == AMPH_FWD_PSETLOCK || id == AMPH_FWD_PWAITLOCK || id == AMPH_FWD_PGETLOCK || id == AMPH_FWD_PUNLOCK;
}

/* ---- who holds what ---- */

static bool range_of(int fd, const struct flock *l, struct fwd_range *r)
{
    struct stat st = { .st_size = 0 };
    int64_t base = l->l_whence == SEEK_CUR ? lseek(fd, 0, SEEK_CUR) : 0;
    if (base < 0 || (l->l_whence == SEEK_END && fstat(fd, &st) != 0))
        return false;
    base += st.st_size;
    r->from = base + l->l_start + (l->l_len < 0 ? l->l_len : 0);
    r->to = l->l_len < 0 ? base + l->l_start : l->l_len == 0 || l->l_len > FWD_RANGE_END - r->from ? FWD_RANGE_END : r->from + l->l_len;
    r->type = l->l_type;
    r->kind = 0;
    return true;
}

static struct kept *first_of(struct kept *k, dev_t dev, ino_t ino)
{
    while (k && (k->dev != dev || k->ino != ino))
        k = k->next;
    return k;
}

/* The agent has set or freed a lock. */
static void note_lock(struct fwd_locker *lk, int fd, const struct flock *l)
{
    struct fwd_range r;
    struct stat st;
    if (fstat(fd, &st) != 0 || !range_of(fd, l, &r))
        return;
    pthread_mutex_lock(&agents_lock);
    struct kept *k = first_of(lk->kept, st.st_dev, st.st_ino);
    if (k)
        fwd_ranges_set(&k->held, r); /* without memory for it F_GETLK names the server */
    pthread_mutex_unlock(&agents_lock);
}

static bool holds(const struct fwd_locker *lk, dev_t dev, ino_t ino, const struct fwd_range *r)
{
    const struct kept *k = first_of(lk->kept, dev, ino);
    for (uint32_t i = 0; k && i < k->held.n; i++)
        if (k->held.item[i].type == r->type && k->held.item[i].from < r->to && r->from < k->held.item[i].to)
            return true;
    return false;
}

/* The process of the client that holds it here; 0: none. */
static uint32_t holder(dev_t dev, ino_t ino, const struct fwd_range *r)
{
    uint32_t pid = 0;
    pthread_mutex_lock(&agents_lock);
    for (const struct fwd_locker *lk = agents; lk && !pid; lk = lk->next)
        pid = holds(lk, dev, ino, r) ? lk->pid : 0;
    pthread_mutex_unlock(&agents_lock);
    return pid;
}

uint32_t fwd_lock_holder(dev_t dev, ino_t ino, off_t from, off_t len, short type)
{
    bool to_end = len <= 0 || len > FWD_RANGE_END - from;
    return holder(dev, ino, &(struct fwd_range){ .from = from, .to = to_end ? FWD_RANGE_END : from + len, .type = type });
}

bool fwd_lock_owner(int fd, struct flock *found)
{
    struct fwd_range r;
    struct stat st;
    if (found->l_type == F_UNLCK || found->l_pid != getpid() || fstat(fd, &st) != 0 || !range_of(fd, found, &r))
        return true;
    uint32_t pid = holder(st.st_dev, st.st_ino, &r);
    if (pid)
        found->l_pid = (pid_t)pid;
    return pid;
}

static void list_agent(struct fwd_locker *lk)
{
    pthread_mutex_lock(&agents_lock);
    lk->next = agents;
    agents = lk;
    pthread_mutex_unlock(&agents_lock);
}

static void unlist_agent(struct fwd_locker *lk)
{
    pthread_mutex_lock(&agents_lock);
    struct fwd_locker **at = &agents;
    while (*at != lk)
        at = &(*at)->next;
    *at = lk->next;
    pthread_mutex_unlock(&agents_lock);
}

/* ---- the agent's side ---- */

static struct flock *lock_of(struct fwd_request *rq)
{
    struct flock *l = rq->id == AMPH_FWD_PWAITLOCK  ? &rq->u.pwaitlock.lock
                      : rq->id == AMPH_FWD_PGETLOCK ? &rq->u.pgetlock.lock
                                                    : &rq->u.psetlock.lock;
    l->l_pid = 0;
    return l;
}

static void *wait_for_lock(void *arg)
{
    struct waiter *w = arg;
    struct fwd_locker *lk = w->locker;
    struct fwd_request *rq = w->rq;
    fwd_wake_let_in(true);
    rq->error = fcntl(w->fd, F_SETLKW, lock_of(rq)) == 0 ? 0 : errno;
    fwd_wake_let_in(false);
    if (!rq->error)
        note_lock(lk, w->fd, lock_of(rq));
    pthread_mutex_lock(&lk->lock);
    struct waiter **at = &lk->waiters;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    fwd_work_done(lk->server, rq);
    lk->nwaiters--; /* the agent may end from here on */
    pthread_mutex_unlock(&lk->lock);
    free(w);
    return NULL;
}

static int start_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    int err = pthread_create(thread, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return err;
}

/* The lock is not to be had now.  0: a thread waits for it and answers; else an errno value. */
static int begin_wait(struct fwd_locker *lk, struct fwd_request *rq, int fd)
{
    struct waiter *w = malloc(sizeof *w);
    if (!w)
        return ENOLCK;
    *w = (struct waiter){ .locker = lk, .rq = rq, .fd = fd };
    pthread_mutex_lock(&lk->lock);
    int err = start_thread(&w->thread, wait_for_lock, w) ? ENOLCK : 0;
    if (!err) {
        w->next = lk->waiters;
        lk->waiters = w;
        lk->nwaiters++;
    } else
        free(w);
    pthread_mutex_unlock(&lk->lock);
    return err;
}

/* A lock that its agent has set and not yet noted is looked for again. */
static int find_lock(int fd, const struct flock *wanted, struct flock *got)
{
    for (unsigned tries = 0; tries < FIND_TRIES; tries++) {
        *got = *wanted;
        if (fcntl(fd, F_GETLK, got) != 0)
            return errno;
        if (fwd_lock_owner(fd, got))
            break;
        sched_yield();
    }
    return 0;
}

static void run_call(struct fwd_locker *lk, struct fwd_request *rq, int fd)
{
    struct flock *l = lock_of(rq);
    if (rq->id == AMPH_FWD_PGETLOCK) {
        rq->error = find_lock(fd, l, &rq->u.pgetlock.got);
    } else {
        rq->error = fcntl(fd, F_SETLK, l) == 0 ? 0 : errno == EACCES ? EAGAIN : errno;
        if (!rq->error)
            note_lock(lk, fd, l);
        if (rq->error == EAGAIN && rq->id == AMPH_FWD_PWAITLOCK) {
            int err = begin_wait(lk, rq, fd);
            if (!err)
                return; /* the request is the waiting thread's, and may have been answered by now */
            rq->error = err;
        }
    }
    fwd_work_done(lk->server, rq);
}

static struct kept *find_kept(struct kept *k, uint64_t handle)
{
    while (k && k->handle != handle)
        k = k->next;
    return k;
}

/*
 * Where an agent's numbers begin or end it asks the kernel itself.  ThreadSanitizer follows recvmsg and close in one table for the whole
 * process, and takes the same number in two agents' tables for one object that both change.
 */
static void kernel_close(int fd)
{
    syscall(SYS_close, fd);
}

static void close_kept(struct kept *k)
{
    kernel_close(k->fd); /* the kernel drops all the locks that this table has on the file */
    free(k->held.item);
    free(k);
}

static void close_inode(struct fwd_locker *lk, const struct order *o)
{
    pthread_mutex_lock(&agents_lock);
    for (struct kept **at = &lk->kept; *at;) {
        struct kept *k = *at;
        if (k->dev != o->dev || k->ino != o->ino) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        close_kept(k);
    }
    pthread_mutex_unlock(&agents_lock);
    if (o->rq) {
        o->rq->error = 0;
        fwd_work_done(lk->server, o->rq);
    }
}

static void keep_last(struct fwd_locker *lk, struct kept *k)
{
    pthread_mutex_lock(&agents_lock);
    struct kept **at = &lk->kept;
    while (*at)
        at = &(*at)->next;
    *at = k;
    pthread_mutex_unlock(&agents_lock);
}

static void take_order(struct fwd_locker *lk, const struct order *o, int fd)
{
    struct kept *k = find_kept(lk->kept, o->handle);
    if (o->op == OP_CLOSE_INODE) {
        close_inode(lk, o);
        return;
    }
    if (o->op == OP_CANCEL) {
        pthread_mutex_lock(&lk->lock);
        for (struct waiter *w = lk->waiters; w; w = w->next)
            w->cancelled |= o->seq == EVERY_SEQ || w->rq->seq == o->seq;
        pthread_mutex_unlock(&lk->lock);
        return;
    }
    if (fd >= 0 && (k = malloc(sizeof *k)) != NULL) {
        *k = (struct kept){ .handle = o->handle, .dev = o->dev, .ino = o->ino, .fd = fd };
        keep_last(lk, k);
    }
    if (k) {
        run_call(lk, o->rq, k->fd);
        return;
    }
    o->rq->error = ENOLCK;
    fwd_work_done(lk->server, o->rq);
}

/* Wakes the threads whose wait is over; a signal that came before the system call was lost, so it is sent until it is heard. */
static bool wake_cancelled(struct fwd_locker *lk, bool all)
{
    bool more = false;
    pthread_mutex_lock(&lk->lock);
    for (struct waiter *w = lk->waiters; w; w = w->next)
        if (all || w->cancelled) {
            pthread_kill(w->thread, FWD_WAKE_SIGNAL);
            more = true;
        }
    more |= all && lk->nwaiters;
    pthread_mutex_unlock(&lk->lock);
    return more;
}

/* One message: an order and perhaps a file.  false: the server has closed its end. */
static bool next_order(struct fwd_locker *lk, struct order *o, int *fd_p)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { o, sizeof *o };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control };
    ssize_t n = syscall(SYS_recvmsg, lk->sock, &msg, MSG_CMSG_CLOEXEC); /* see kernel_close */
    (void)atomic_load_explicit(&lk->handed, memory_order_acquire);
    struct cmsghdr *c = n == (ssize_t)sizeof *o ? CMSG_FIRSTHDR(&msg) : NULL;
    *fd_p = -1;
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(fd_p, CMSG_DATA(c), sizeof *fd_p);
    return n == (ssize_t)sizeof *o;
}

/* Leaves the server's table of descriptors; only the socket comes along. */
static bool leave_table(int sock)
{
    return syscall(SYS_close_range, 0U, (unsigned)sock - 1, UNSHARE_TABLE) == 0 &&
        syscall(SYS_close_range, (unsigned)sock + 1, ~0U, 0U) == 0;
}

static void *agent(void *arg)
{
    struct fwd_locker *lk = arg;
    struct order o;
    int fd;
    bool works = leave_table(lk->sock), waking = false;
    lk->apart = works;
    sem_post(&lk->left);
    for (;;) {
        struct pollfd p = { .fd = lk->sock, .events = POLLIN };
        if (poll(&p, 1, waking ? 1 : -1) > 0) {
            if (!next_order(lk, &o, &fd))
                break;
            if (works || o.op != OP_CALL)
                take_order(lk, &o, fd);
            else {
                o.rq->error = ENOLCK;
                fwd_work_done(lk->server, o.rq);
            }
        }
        waking = wake_cancelled(lk, false);
    }
    while (wake_cancelled(lk, true))
        poll(NULL, 0, 1);
    unlist_agent(lk);
    while (lk->kept) {
        struct kept *k = lk->kept;
        lk->kept = k->next;
        close_kept(k);
    }
    if (atomic_load(&lk->dropped)) {
        atomic_fetch_add(&have_left, 1);
        atomic_fetch_sub(&leaving, 1);
    }
    kernel_close(lk->sock);
    pthread_mutex_destroy(&lk->lock);
    sem_destroy(&lk->left);
    free(lk);
    return NULL;
}

/* ---- the progress thread's side ---- */

static struct fwd_locker *locker_of(struct fwd_server *s, struct fwd_peer *p)
{
    int pair[2];
    pthread_t thread;
    if (p->locker)
        return p->locker;
    struct fwd_locker *lk = calloc(1, sizeof *lk);
    if (!lk)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(lk);
        return NULL;
    }
    lk->server = s;
    lk->pid = p->pid;
    lk->door = pair[0];
    lk->sock = fcntl(pair[1], F_DUPFD_CLOEXEC, 3); /* leave_table wants numbers below it */
    close(pair[1]);
    pthread_mutex_init(&lk->lock, NULL);
    sem_init(&lk->left, 0, 0);
    list_agent(lk);
    if (lk->sock < 0 || start_thread(&thread, agent, lk) != 0) {
        unlist_agent(lk);
        close(pair[0]);
        if (lk->sock >= 0)
            close(lk->sock);
        free(lk);
        return NULL;
    }
    return p->locker = lk;
}

static bool send_order(struct fwd_locker *lk, const struct order *o, int fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = { (void *)o, sizeof *o };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    if (fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    atomic_fetch_add_explicit(&lk->handed, 1, memory_order_release);
    return sendmsg(lk->door, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof *o;
}

/* The agent is told to close what it has of this file; nobody is told where it has nothing and nobody waits. */
static int order_close(struct fwd_locker *lk, int fd, struct fwd_request *rq)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    bool any = false;
    for (struct kept **at = &lk->known; *at;) {
        struct kept *k = *at;
        if (k->dev != st.st_dev || k->ino != st.st_ino) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        free(k);
        any = true;
    }
    struct order o = { .op = OP_CLOSE_INODE, .rq = rq, .dev = st.st_dev, .ino = st.st_ino };
    return (any || rq) && !send_order(lk, &o, -1) ? EAGAIN : 0;
}

static int order_call(struct fwd_locker *lk, struct fwd_request *rq)
{
    const struct fwd_handle *h = rq->file;
    struct order o = { .op = OP_CALL, .rq = rq, .handle = h->number };
    struct kept *k = find_kept(lk->known, h->number), *fresh = NULL;
    struct stat st;
    if (!k) {
        if (fstat(h->fd, &st) != 0 || !(fresh = malloc(sizeof *fresh)))
            return ENOLCK;
        *fresh = (struct kept){ .handle = h->number, .dev = o.dev = st.st_dev, .ino = o.ino = st.st_ino };
    }
    if (!send_order(lk, &o, fresh ? h->fd : -1)) {
        free(fresh);
        return ENOLCK;
    }
    if (fresh) {
        fresh->next = lk->known;
        lk->known = fresh;
    }
    return 0;
}

/* The table's entries: such a request goes to its agent and never here. */
int fwd_do_psetlock(struct fwd_request *rq, struct fwd_args_psetlock *a)
{
    return ENOLCK;
}

int fwd_do_pwaitlock(struct fwd_request *rq, struct fwd_args_pwaitlock *a)
{
    return ENOLCK;
}

int fwd_do_pgetlock(struct fwd_request *rq, struct fwd_args_pgetlock *a)
{
    return ENOLCK;
}

int fwd_do_punlock(struct fwd_request *rq, struct fwd_args_punlock *a)
{
    return ENOLCK;
}

void fwd_lock_give(struct fwd_server *s, struct fwd_request *rq)
{
    struct fwd_peer *p = rq->peer;
    bool drops = rq->id == AMPH_FWD_PUNLOCK;
    rq->error = 0;
    rq->agents_left = atomic_load(&have_left);
    if (drops && !p->locker) {
        fwd_work_done(s, rq);
        return;
    }
    struct fwd_locker *lk = locker_of(s, p);
    int err = !lk ? ENOLCK : drops ? order_close(lk, rq->file->fd, rq) : order_call(lk, rq); /* then rq is the agent's */
    if (err) {
        rq->error = err;
        fwd_work_done(s, rq);
    }
}

void fwd_lock_closed(struct fwd_peer *p, const struct fwd_handle *h)
{
    if (p->locker && find_kept(p->locker->known, h->number))
        order_close(p->locker, h->fd, NULL);
}

void fwd_lock_left(struct fwd_peer *p, const struct fwd_handle *h)
{
    if (p->locker)
        order_close(p->locker, h->fd, NULL);
}

void fwd_lock_cancel(struct fwd_peer *p, uint64_t seq)
{
    struct order o = { .op = OP_CANCEL, .seq = seq };
    if (p->locker)
        send_order(p->locker, &o, -1);
}

void fwd_lock_renew(struct fwd_peer *from, struct fwd_peer *to)
{
    to->locker = from->locker;
    from->locker = NULL;
    fwd_lock_cancel(to, EVERY_SEQ);
}

void fwd_lock_drop_peer(struct fwd_peer *p)
{
    struct fwd_locker *lk = p->locker;
    if (!lk)
        return;
    p->locker = NULL;
    while (lk->known) {
        struct kept *k = lk->known;
        lk->known = k->next;
        free(k);
    }
    while (sem_wait(&lk->left) != 0) /* a client that goes at once: its agent may still need the server's table */
        ;
    if (lk->apart)
        close(lk->sock);
    int door = lk->door;
    atomic_fetch_add(&leaving, 1);
    atomic_store(&lk->dropped, true);
    atomic_fetch_add_explicit(&lk->handed, 1, memory_order_release);
    close(door); /* the agent ends by itself */
}
