/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: processes of the program: their memory, descriptors, working directory and umask.
 *
 * A process is found by the thread of a call, and recorded when it makes the first call that needs
 * it.  A working directory below a prefix is not the kernel's, so that a new process is told of it by
 * a placeholder that fork copies: it has the last number of the range, and names the directory.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the tables.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os/thread.h"

#define BUCKETS 256
#define THREADS 1024 /* of the memory which process a thread belongs to */

/* A thread that has a working directory of its own (unshare). */
struct own_fs {
    struct own_fs *next;
    pid_t tid;
    struct amph_trap_fs *fs;
};

struct amph_trap_process {
    struct amph_trap_process *next; /* of its hash chain */
    _Atomic unsigned refs;          /* one is the table's */
    pid_t pid;
    int pidfd;
    bool gone; /* out of the table */
    struct amph_trap_fs *fs;
    struct own_fs *own_fs;
    unsigned carried; /* the state of fs->changes that its placeholder carries */
    _Atomic bool unreadable;
    pthread_mutex_t placing; /* from the search for a number to its use */
    uint64_t *used;          /* numbers of the range, the first is bit 0; may say too much */
};

static struct {
    pthread_mutex_t lock;
    pthread_mutex_t reaping;
    struct amph_trap_process *bucket[BUCKETS];
    struct {
        pid_t tid;
        struct amph_trap_process *process;
    } thread[THREADS];
    int epoll; /* of pidfds */
} processes = { .lock = PTHREAD_MUTEX_INITIALIZER, .reaping = PTHREAD_MUTEX_INITIALIZER };

static unsigned range_words(void)
{
    return (unsigned)(amph_trap.last_fd - amph_trap.first_fd) / 64 + 1;
}

/* ---- working directories ---- */

static struct amph_trap_fs *fs_make(const char *cwd, mode_t mask)
{
    struct amph_trap_fs *fs = calloc(1, sizeof *fs);

    if (!fs)
        return NULL;

    fs->refs = 1;
    fs->umask = mask;
    fs->cwd = cwd ? strdup(cwd) : NULL;
    if (cwd && !fs->cwd) {
        free(fs);
        return NULL;
    }

    return fs;
}

static void fs_put(struct amph_trap_fs *fs)
{
    if (fs && atomic_fetch_sub(&fs->refs, 1) == 1) {
        free(fs->cwd);
        free(fs);
    }
}

static bool shares_fs(pid_t a, pid_t b)
{
    return syscall(SYS_kcmp, a, b, KCMP_FS, 0, 0) == 0;
}

/* The fs of the calling thread, with the lock held. */
static struct amph_trap_fs *fs_of(const struct amph_trap_call *c)
{
    struct amph_trap_process *p = c->process;

    for (struct own_fs **at = &p->own_fs; *at; at = &(*at)->next) {
        struct own_fs *own = *at;

        if (own->tid != (pid_t)c->n.pid)
            continue;

        if (!shares_fs(own->tid, p->pid))
            return own->fs;

        /* another thread has the number now */
        *at = own->next;
        fs_put(own->fs);
        free(own);
        break;
    }

    return p->fs;
}

/* ---- processes ---- */

static void process_put(struct amph_trap_process *p)
{
    if (atomic_fetch_sub(&p->refs, 1) != 1)
        return;

    while (p->own_fs) {
        struct own_fs *own = p->own_fs;

        p->own_fs = own->next;
        fs_put(own->fs);
        free(own);
    }

    close(p->pidfd);
    fs_put(p->fs);
    pthread_mutex_destroy(&p->placing);
    free(p->used);
    free(p);
}

static bool is_alive(const struct amph_trap_process *p)
{
    return syscall(SYS_pidfd_send_signal, p->pidfd, 0, NULL, 0) == 0 || errno == EPERM;
}

/* The kernel's words on a thread. */
struct status {
    pid_t tgid, ppid;
    mode_t umask;
    unsigned uid, gid; /* effective */
    bool read;
};

static struct status status_of(pid_t tid)
{
    struct status s = { 0 };
    char path[40], line[256];

    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f)) {
        unsigned mask;

        if (sscanf(line, "Umask: %o", &mask) == 1)
            s.umask = mask;

        s.read |= sscanf(line, "Tgid: %d", &s.tgid) == 1;
        sscanf(line, "PPid: %d", &s.ppid);
        sscanf(line, "Uid: %*u %u", &s.uid);
        if (sscanf(line, "Gid: %*u %u", &s.gid) == 1)
            break;
    }

    if (f)
        fclose(f);

    return s;
}

static struct amph_trap_process *find(pid_t pid)
{
    struct amph_trap_process *p = processes.bucket[(unsigned)pid % BUCKETS];

    while (p && p->pid != pid)
        p = p->next;

    return p;
}

static void take_out(struct amph_trap_process *p)
{
    struct amph_trap_process **at = &processes.bucket[(unsigned)p->pid % BUCKETS];

    while (*at != p)
        at = &(*at)->next;

    *at = p->next;
    p->gone = true;
    for (unsigned i = 0; i < THREADS; i++)
        if (processes.thread[i].process == p)
            processes.thread[i].process = NULL;
}

/* Ends the record of a process that has ended. */
static void end_process(struct amph_trap_process *p)
{
    pthread_mutex_lock(&processes.lock);

    bool first = !p->gone;

    if (first)
        take_out(p);

    pthread_mutex_unlock(&processes.lock);
    if (!first)
        return;

    epoll_ctl(processes.epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
    amph_trap_lock_drop(NULL, p->pid);
    process_put(p);
}

void amph_trap_process_reap(void)
{
    struct epoll_event e[16];
    int n;

    pthread_mutex_lock(&processes.reaping);
    while ((n = epoll_wait(processes.epoll, e, 16, 0)) > 0)
        for (int i = 0; i < n; i++)
            end_process(e[i].data.ptr);

    pthread_mutex_unlock(&processes.reaping);
}

static void *watch(void *unused)
{
    for (;;) {
        struct epoll_event e;

        if (epoll_wait(processes.epoll, &e, 1, -1) > 0)
            amph_trap_process_reap();
    }

    return NULL;
}

int amph_trap_process_begin(void)
{
    pthread_t thread;

    processes.epoll = epoll_create1(EPOLL_CLOEXEC);
    return processes.epoll < 0 ? errno : amph_thread_start(&thread, true, 0, watch, NULL);
}

/* What the new process has from its parent: the directory that the placeholder carries. */
static bool inherit(struct amph_trap_process *p, const struct status *s)
{
    int own_fd = amph_trap_fd_of(p, amph_trap.last_fd);
    struct amph_trap_file *carrier = own_fd >= 0 ? amph_trap_file_of_own(own_fd) : NULL;
    bool is_carrier = carrier && carrier->file.nparts == 0;

    p->fs = fs_make(is_carrier ? carrier->name : NULL, s->umask);
    if (p->fs && is_carrier)
        p->carried = p->fs->changes = carrier->changes;

    amph_trap_file_put(carrier);
    if (own_fd >= 0)
        close(own_fd);

    return p->fs;
}

static struct amph_trap_process *make(const struct status *s)
{
    struct amph_trap_process *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;

    *p = (struct amph_trap_process){ .refs = 1, .pid = s->tgid, .pidfd = -1 };
    pthread_mutex_init(&p->placing, NULL);
    p->used = calloc(range_words(), sizeof *p->used);
    p->pidfd = (int)syscall(SYS_pidfd_open, s->tgid, 0);
    if (p->used && p->pidfd >= 0 && inherit(p, s))
        return p;

    process_put(p);
    return NULL;
}

/* Puts a new process into the table, unless another thread was faster. */
static struct amph_trap_process *enter(struct amph_trap_process *fresh, const struct status *s)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = fresh };
    struct amph_trap_process *p = find(fresh->pid);

    if (p) {
        process_put(fresh);
        return p;
    }

    struct amph_trap_process *parent = find(s->ppid);

    if (parent && shares_fs(parent->pid, fresh->pid)) {
        fs_put(fresh->fs);
        fresh->fs = parent->fs;
        atomic_fetch_add(&fresh->fs->refs, 1);
    }

    struct amph_trap_process **bucket = &processes.bucket[(unsigned)fresh->pid % BUCKETS];

    fresh->next = *bucket;
    *bucket = fresh;
    epoll_ctl(processes.epoll, EPOLL_CTL_ADD, fresh->pidfd, &e);
    return fresh;
}

/* The process of a thread that is seen for the first time. */
static int meet(struct amph_trap_call *c)
{
    pid_t tid = (pid_t)c->n.pid;
    struct status s = status_of(tid);
    struct amph_trap_process *fresh = NULL;

    if (!s.read || !amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    for (;;) {
        pthread_mutex_lock(&processes.lock);

        struct amph_trap_process *p = find(s.tgid);

        if (p && !is_alive(p)) { /* an earlier process of this number */
            atomic_fetch_add(&p->refs, 1);
            pthread_mutex_unlock(&processes.lock);
            end_process(p);
            process_put(p);
            continue;
        }

        if (!p && fresh)
            p = enter(fresh, &s);
        else if (fresh)
            process_put(fresh);

        if (p) {
            processes.thread[(unsigned)tid % THREADS].tid = tid;
            processes.thread[(unsigned)tid % THREADS].process = p;
            atomic_fetch_add(&p->refs, 1);
            c->process = p;
        }

        pthread_mutex_unlock(&processes.lock);
        if (p)
            return 0;

        fresh = make(&s);
        if (!fresh)
            return amph_trap_call_lives(c) ? ENOMEM : AMPH_TRAP_GONE;
    }
}

int amph_trap_process_of(struct amph_trap_call *c, struct amph_trap_process **process_p)
{
    pid_t tid = (pid_t)c->n.pid;
    int err = 0;

    if (!c->process) {
        pthread_mutex_lock(&processes.lock);

        struct amph_trap_process *p = processes.thread[(unsigned)tid % THREADS].process;

        if (p && processes.thread[(unsigned)tid % THREADS].tid == tid) {
            atomic_fetch_add(&p->refs, 1);
            c->process = p;
        }

        pthread_mutex_unlock(&processes.lock);

        /* the numbers may be those of others by now */
        if (c->process &&
            (syscall(SYS_tgkill, c->process->pid, tid, 0) != 0 || !is_alive(c->process)))
            amph_trap_process_end(c);

        if (!c->process)
            err = meet(c);
    }

    if (process_p)
        *process_p = c->process;

    return err;
}

void amph_trap_process_end(struct amph_trap_call *c)
{
    if (c->process)
        process_put(c->process);

    c->process = NULL;
}

pid_t amph_trap_process_pid(const struct amph_trap_process *p)
{
    return p->pid;
}

int amph_trap_same_user(struct amph_trap_call *c)
{
    struct status s = status_of((pid_t)c->n.pid);

    if (!s.read || !amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    return s.uid == geteuid() && s.gid == getegid() ? 0 : EACCES;
}

/* ---- descriptors ---- */

int amph_trap_fd_of(struct amph_trap_process *p, int fd)
{
    return (int)syscall(SYS_pidfd_getfd, p->pidfd, fd, 0);
}

/* Is the number free in the process? */
static bool is_free(struct amph_trap_process *p, int fd)
{
    int own_fd = amph_trap_fd_of(p, fd);

    if (own_fd >= 0)
        close(own_fd);

    return own_fd < 0 && errno == EBADF;
}

/* Finds the lowest free number, at least min; -1: none. */
static int find_number(struct amph_trap_process *p, int min, bool believe)
{
    int n = amph_trap.last_fd - amph_trap.first_fd; /* the last carries a directory */

    for (int i = min > amph_trap.first_fd ? min - amph_trap.first_fd : 0; i < n; i++) {
        uint64_t bit = UINT64_C(1) << (i % 64);

        if (believe && (p->used[i / 64] & bit))
            continue;

        p->used[i / 64] |= bit;
        if (is_free(p, amph_trap.first_fd + i))
            return amph_trap.first_fd + i;
    }

    return -1;
}

int amph_trap_process_place(struct amph_trap_call *c, int own_fd, int min, bool cloexec)
{
    struct amph_trap_process *p;
    int err = amph_trap_process_of(c, &p);

    if (err)
        return err;

    pthread_mutex_lock(&p->placing);

    int number = find_number(p, min, true);

    if (number < 0)
        number = find_number(p, min, false);

    err = number < 0 ? EMFILE : amph_trap_reply_fd(c, own_fd, number, cloexec);
    if (number >= 0 && err != AMPH_TRAP_SENT)
        amph_trap_process_freed(p, number);

    pthread_mutex_unlock(&p->placing);
    return err;
}

void amph_trap_process_freed(struct amph_trap_process *p, int fd)
{
    int i = fd - amph_trap.first_fd;

    if (fd == amph_trap.last_fd) /* fork gives it anew */
        p->carried = UINT_MAX;

    if (fd >= amph_trap.first_fd && fd < amph_trap.last_fd)
        __atomic_fetch_and(&p->used[i / 64], ~(UINT64_C(1) << (i % 64)), __ATOMIC_RELAXED);
}

/* ---- working directory and umask ---- */

int amph_trap_cwd(struct amph_trap_call *c, char out[PATH_MAX])
{
    out[0] = 0;
    if (!atomic_load_explicit(&amph_trap.cwd_used, memory_order_relaxed))
        return 0;

    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    pthread_mutex_lock(&processes.lock);

    const struct amph_trap_fs *fs = fs_of(c);

    if (fs->cwd)
        snprintf(out, PATH_MAX, "%s", fs->cwd);

    pthread_mutex_unlock(&processes.lock);
    return 0;
}

int amph_trap_cwd_set(struct amph_trap_call *c, const char *path)
{
    if (!path && !atomic_load(&amph_trap.cwd_used))
        return 0;

    int err = amph_trap_process_of(c, NULL);
    char *copy = path ? strdup(path) : NULL;

    if (err || (path && !copy)) {
        free(copy);
        return err ? err : ENOMEM;
    }

    pthread_mutex_lock(&processes.lock);

    struct amph_trap_fs *fs = fs_of(c);
    char *before = fs->cwd;

    if (path || before)
        fs->changes++;

    fs->cwd = copy;
    pthread_mutex_unlock(&processes.lock);
    if (path)
        atomic_store(&amph_trap.cwd_used, true);

    free(before);
    return 0;
}

int amph_trap_umask(struct amph_trap_call *c, mode_t *mask_p)
{
    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    pthread_mutex_lock(&processes.lock);
    *mask_p = fs_of(c)->umask;
    pthread_mutex_unlock(&processes.lock);
    return 0;
}

int amph_trap_kernel_dir(struct amph_trap_call *c, int fd, char out[PATH_MAX])
{
    char link[64];

    if (fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", (int)c->n.pid);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)c->n.pid, fd);

    ssize_t n = readlink(link, out, PATH_MAX - 1);

    out[n > 0 ? n : 0] = 0;
    if (!amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    return n > 0 && out[0] == '/' ? 0 : ENOENT;
}

int amph_trap_on_getcwd(struct amph_trap_call *c)
{
    char cwd[PATH_MAX];
    int err = amph_trap_cwd(c, cwd);
    size_t len = strlen(cwd) + 1;

    if (err || !cwd[0])
        return err ? err : AMPH_TRAP_CONTINUE;

    if (AMPH_TRAP_ARG(c, 1) < len)
        return ERANGE;

    c->value = (int64_t)len;
    return amph_trap_put(c, AMPH_TRAP_ARG(c, 0), cwd, len);
}

int amph_trap_on_umask(struct amph_trap_call *c)
{
    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    pthread_mutex_lock(&processes.lock);
    fs_of(c)->umask = (mode_t)AMPH_TRAP_ARG(c, 0) & 0777;
    pthread_mutex_unlock(&processes.lock);
    return AMPH_TRAP_CONTINUE;
}

/* Gives the process the placeholder that carries its directory to a child. */
static int carry(struct amph_trap_call *c)
{
    static const struct amph_fwd_file none;
    struct amph_trap_process *p = c->process;
    struct amph_trap_file *file;
    char cwd[PATH_MAX] = "";
    int own_fd;

    pthread_mutex_lock(&processes.lock);

    const struct amph_trap_fs *fs = fs_of(c);
    unsigned changes = fs->changes;
    bool same = changes == p->carried;

    if (fs->cwd)
        snprintf(cwd, sizeof cwd, "%s", fs->cwd);

    pthread_mutex_unlock(&processes.lock);
    if (same)
        return 0;

    int err = amph_trap_file_make(&none, cwd[0] ? cwd : NULL, 0, &file, &own_fd);

    if (err)
        return err;

    file->changes = changes;
    err = amph_trap_give_fd(c, own_fd, amph_trap.last_fd, false);
    if (!err)
        p->carried = changes;

    amph_trap_file_put(file);
    close(own_fd);
    return err;
}

int amph_trap_on_fork(struct amph_trap_call *c)
{
    if (!atomic_load(&amph_trap.cwd_used))
        return AMPH_TRAP_CONTINUE;

    int err = amph_trap_process_of(c, NULL);

    if (!err)
        err = carry(c);

    return err ? err : AMPH_TRAP_CONTINUE;
}

static int refuse_tables(const struct amph_trap_call *c)
{
    amph_trap_say("process %d wants a descriptor table for one thread alone, which -trap cannot "
                  "follow: the call is refused; iofwd-run -mount runs such programs",
                  (int)c->n.pid);
    return EINVAL;
}

/* Gives the calling thread a working directory of its own, as the kernel will. */
static int part_fs(struct amph_trap_call *c)
{
    struct own_fs *own = calloc(1, sizeof *own);
    int err = amph_trap_process_of(c, NULL);

    if (err || !own) {
        free(own);
        return err ? err : ENOMEM;
    }

    pthread_mutex_lock(&processes.lock);

    struct amph_trap_process *p = c->process;
    struct amph_trap_fs *before = fs_of(c);
    struct amph_trap_fs *fs = fs_make(before->cwd, before->umask);

    if (!fs) {
        err = ENOMEM;
    } else if ((pid_t)c->n.pid == p->pid) {
        /* the others keep the old one, and this one is found by the process's number */
        fs->changes = before->changes;
        p->fs = fs;
        fs_put(before);
        free(own);
    } else {
        fs->changes = before->changes;
        *own = (struct own_fs){ p->own_fs, (pid_t)c->n.pid, fs };
        p->own_fs = own;
    }

    pthread_mutex_unlock(&processes.lock);
    if (err)
        free(own);

    return err;
}

int amph_trap_on_unshare(struct amph_trap_call *c)
{
    unsigned flags = (unsigned)AMPH_TRAP_ARG(c, 0);
    int err = amph_trap_process_of(c, NULL);

    if (!err && (flags & CLONE_FILES) && (pid_t)c->n.pid != c->process->pid)
        err = refuse_tables(c);

    if (!err && (flags & (CLONE_FS | CLONE_NEWNS)))
        err = part_fs(c);

    return err ? err : AMPH_TRAP_CONTINUE;
}

int amph_trap_on_clone(struct amph_trap_call *c)
{
    uint64_t flags = AMPH_TRAP_ARG(c, 0);

    if (c->n.data.nr == SYS_clone3) { /* in memory */
        int err = amph_trap_get(c, &flags, AMPH_TRAP_ARG(c, 0), sizeof flags);

        if (err)
            return err;
    }

    if (!(flags & CLONE_THREAD))
        return amph_trap_on_fork(c);

    return flags & CLONE_FILES ? AMPH_TRAP_CONTINUE : refuse_tables(c);
}

/* ---- memory ---- */

static int cannot_look(struct amph_trap_call *c)
{
    if (!amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    if (amph_trap_process_of(c, NULL) == 0 && !atomic_exchange(&c->process->unreadable, true))
        amph_trap_say("process %d does not let its parent look at its memory (PR_SET_DUMPABLE, or "
                      "an executable without read permission): its calls on files are refused; "
                      "iofwd-run -mount runs it",
                      (int)c->n.pid);

    return EPERM;
}

/* Pieces of the program's memory that end with pages: the kernel copies whole pieces. */
static size_t pieces(struct iovec *out, size_t most, uint64_t at, size_t len, size_t *covered_p)
{
    size_t page = 4096;
    size_t n = 0;

    *covered_p = 0;
    while (len && n < most) {
        size_t room = n + 1 < most ? page - at % page : len;
        size_t part = len < room ? len : room;

        out[n++] = (struct iovec){ (void *)(uintptr_t)at, part };
        at += part;
        len -= part;
        *covered_p += part;
    }

    return n;
}

static int transfer(struct amph_trap_call *c, void *own, uint64_t at, size_t len, bool in,
                    size_t *n_p)
{
    struct iovec mine = { own, len };
    struct iovec whole = { (void *)(uintptr_t)at, len };
    pid_t tid = (pid_t)c->n.pid;
    ssize_t n = in ? process_vm_readv(tid, &mine, 1, &whole, 1, 0)
                   : process_vm_writev(tid, &mine, 1, &whole, 1, 0);

    *n_p = n > 0 ? (size_t)n : 0;
    if (n < 0 && errno == EPERM)
        return cannot_look(c);

    return n < 0 && errno == ESRCH ? AMPH_TRAP_GONE : 0;
}

int amph_trap_get_some(struct amph_trap_call *c, void *to, uint64_t from, size_t len, size_t *n_p)
{
    struct iovec part[64];
    size_t covered;
    int err = transfer(c, to, from, len, true, n_p);

    /* what is there before the first bad page */
    if (!err && *n_p < len) {
        struct iovec mine = { to, len };
        size_t count = pieces(part, 64, from, len, &covered);
        ssize_t n = process_vm_readv((pid_t)c->n.pid, &mine, 1, part, count, 0);

        *n_p = n > 0 ? (size_t)n : 0;
    }

    if (!err && !amph_trap_call_lives(c))
        err = AMPH_TRAP_GONE;

    return err;
}

int amph_trap_get(struct amph_trap_call *c, void *to, uint64_t from, size_t len)
{
    size_t n;

    if (!len)
        return 0;

    int err = transfer(c, to, from, len, true, &n);

    if (!err && !amph_trap_call_lives(c))
        err = AMPH_TRAP_GONE;

    return !err && n < len ? EFAULT : err;
}

int amph_trap_put(struct amph_trap_call *c, uint64_t to, const void *from, size_t len)
{
    size_t n;

    if (!len)
        return 0;

    /* the process must still be the caller */
    if (!amph_trap_call_lives(c))
        return AMPH_TRAP_GONE;

    int err = transfer(c, (void *)(uintptr_t)from, to, len, false, &n);

    return !err && n < len ? EFAULT : err;
}

int amph_trap_get_text(struct amph_trap_call *c, char *to, size_t cap, uint64_t from)
{
    size_t page = 4096;
    size_t have = 0;

    if (!from)
        return EFAULT;

    /* at first what is left of the page, at least a path of usual length */
    size_t want = page - from % page;

    while (have < cap) {
        size_t n;
        size_t part = want < cap - have ? want : cap - have;
        int err = transfer(c, to + have, from + have, part, true, &n);

        if (!err && n < part)
            err = EFAULT;

        if (err)
            return err;

        if (memchr(to + have, 0, part))
            return amph_trap_call_lives(c) ? 0 : AMPH_TRAP_GONE;

        have += part;
        want = page;
    }

    return amph_trap_call_lives(c) ? ENAMETOOLONG : AMPH_TRAP_GONE;
}
