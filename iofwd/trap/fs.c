/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: working directories and umasks, which the threads of a process share, and some
 * processes (CLONE_FS).
 *
 * The kernel does not know a working directory below a prefix, so a new process learns it from a
 * placeholder that fork copies: it has the last number of the range, and names the directory.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards all of them.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/trap/process.h"

/* A thread that has a working directory of its own (unshare). */
struct own_fs {
    struct own_fs *next;
    pid_t tid;
    struct amph_trap_fs *fs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

/* Enters a thread in the list of its process. */
static bool fs_own(struct amph_trap_process *p, pid_t tid, struct amph_trap_fs *fs)
{
    struct own_fs *own = calloc(1, sizeof *own);

    if (!own)
        return false;

    *own = (struct own_fs){ p->own_fs, tid, fs };
    p->own_fs = own;
    return true;
}

/* The fs that a thread shares with one that has its own, which has started it; or the process's. */
static struct amph_trap_fs *fs_of_starter(struct amph_trap_process *p, pid_t tid)
{
    if ((!p->own_fs && !p->left_fs) || tid == p->pid || shares_fs(tid, p->pid))
        return p->fs;

    for (const struct own_fs *own = p->own_fs; own; own = own->next)
        if (shares_fs(tid, own->tid) && fs_own(p, tid, own->fs)) {
            atomic_fetch_add(&own->fs->refs, 1);
            return own->fs;
        }

    return p->left_fs ? p->left_fs : p->fs;
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

    return fs_of_starter(p, (pid_t)c->n.pid);
}

/* ---- new and ended processes ---- */

bool amph_trap_fs_inherit(struct amph_trap_process *p, mode_t mask)
{
    int own_fd = amph_trap_fd_of(p, amph_trap.last_fd);
    struct amph_trap_file *carrier = own_fd >= 0 ? amph_trap_file_of_own(own_fd) : NULL;
    bool is_carrier = carrier && carrier->file.nparts == 0;

    p->fs = fs_make(is_carrier ? carrier->name : NULL, mask);
    if (p->fs && is_carrier)
        p->carried = p->fs->changes = carrier->changes;

    amph_trap_file_put(carrier);
    if (own_fd >= 0)
        close(own_fd);

    return p->fs;
}

void amph_trap_fs_share(struct amph_trap_process *parent, struct amph_trap_process *child)
{
    if (!shares_fs(parent->pid, child->pid))
        return;

    pthread_mutex_lock(&lock);

    struct amph_trap_fs *before = child->fs;

    child->fs = parent->fs;
    atomic_fetch_add(&child->fs->refs, 1);
    pthread_mutex_unlock(&lock);
    fs_put(before);
}

void amph_trap_fs_end(struct amph_trap_process *p)
{
    while (p->own_fs) {
        struct own_fs *own = p->own_fs;

        p->own_fs = own->next;
        fs_put(own->fs);
        free(own);
    }

    fs_put(p->left_fs);
    fs_put(p->fs);
}

/* ---- working directory and umask of the caller ---- */

int amph_trap_cwd(struct amph_trap_call *c, char out[PATH_MAX])
{
    out[0] = 0;
    if (!atomic_load_explicit(&amph_trap.cwd_used, memory_order_relaxed))
        return 0;

    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    pthread_mutex_lock(&lock);

    const struct amph_trap_fs *fs = fs_of(c);

    if (fs->cwd)
        snprintf(out, PATH_MAX, "%s", fs->cwd);

    pthread_mutex_unlock(&lock);
    return 0;
}

int amph_trap_cwd_of(struct amph_trap_call *c, pid_t pid, char out[PATH_MAX])
{
    if (pid == (pid_t)c->n.pid)
        return amph_trap_cwd(c, out);

    out[0] = 0;
    if (!atomic_load_explicit(&amph_trap.cwd_used, memory_order_relaxed))
        return 0;

    struct amph_trap_process *p = amph_trap_process_find(pid);

    if (!p)
        return 0;

    pthread_mutex_lock(&lock);
    if (p->fs->cwd)
        snprintf(out, PATH_MAX, "%s", p->fs->cwd);

    pthread_mutex_unlock(&lock);
    amph_trap_process_put(p);
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

    pthread_mutex_lock(&lock);

    struct amph_trap_fs *fs = fs_of(c);
    char *before = fs->cwd;

    if (path || before)
        fs->changes = ++amph_trap.cwd_changes;

    fs->cwd = copy;
    pthread_mutex_unlock(&lock);
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

    pthread_mutex_lock(&lock);
    *mask_p = fs_of(c)->umask;
    pthread_mutex_unlock(&lock);
    return 0;
}

int amph_trap_on_umask(struct amph_trap_call *c)
{
    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    pthread_mutex_lock(&lock);
    fs_of(c)->umask = (mode_t)AMPH_TRAP_ARG(c, 0) & 0777;
    pthread_mutex_unlock(&lock);
    return AMPH_TRAP_CONTINUE;
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

/* ---- fork and its relatives ---- */

/* Gives the process the placeholder that carries its directory to a child. */
static int carry(struct amph_trap_call *c)
{
    static const struct amph_fwd_file none;
    struct amph_trap_process *p = c->process;
    struct amph_trap_file *file;
    char cwd[PATH_MAX] = "";
    int own_fd;

    pthread_mutex_lock(&lock);

    const struct amph_trap_fs *fs = fs_of(c);
    unsigned changes = fs->changes;
    bool same = changes == p->carried;

    if (fs->cwd)
        snprintf(cwd, sizeof cwd, "%s", fs->cwd);

    pthread_mutex_unlock(&lock);
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

static bool has_threads(const struct amph_trap_process *p)
{
    char path[40];
    struct stat st;

    snprintf(path, sizeof path, "/proc/%d/task", (int)p->pid);
    return stat(path, &st) == 0 && st.st_nlink > 3;
}

int amph_trap_own_table(struct amph_trap_call *c)
{
    int err = amph_trap_process_of(c, NULL);

    return !err && has_threads(c->process) ? refuse_tables(c) : err;
}

/* The first thread parts from the others: it is found by the process's number, and they keep the old fs. */
static void part_first_thread(struct amph_trap_process *p, struct amph_trap_fs *fs)
{
    struct amph_trap_fs *before = p->fs;

    p->fs = fs;
    if (p->left_fs)
        fs_put(before);
    else
        p->left_fs = before;
}

/* Gives the calling thread a working directory of its own, as the kernel will. */
static int part_fs(struct amph_trap_call *c)
{
    pid_t tid = (pid_t)c->n.pid;
    int err = amph_trap_process_of(c, NULL);

    if (err)
        return err;

    struct amph_trap_process *p = c->process;

    pthread_mutex_lock(&lock);

    const struct amph_trap_fs *before = fs_of(c);
    struct amph_trap_fs *fs = fs_make(before->cwd, before->umask);

    if (fs)
        fs->changes = before->changes;

    if (fs && tid == p->pid) {
        part_first_thread(p, fs);
    } else if (!fs || !fs_own(p, tid, fs)) {
        fs_put(fs);
        err = ENOMEM;
    }

    pthread_mutex_unlock(&lock);
    return err;
}

int amph_trap_on_unshare(struct amph_trap_call *c)
{
    unsigned flags = (unsigned)AMPH_TRAP_ARG(c, 0);
    int err = flags & CLONE_FILES ? amph_trap_own_table(c) : 0;

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
