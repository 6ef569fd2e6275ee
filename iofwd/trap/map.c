/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: mappings.  The descriptor becomes a placeholder that can be read, whose pages are filled
 * with the part of the file that is mapped before the kernel maps them.  So a mapping shows the file as
 * it was at that time, which is enough for private mappings and for those that are only read.  A shared
 * mapping that is written would be lost, and is refused.
 *
 * When the thread makes its next reported call, its mapping exists, and the common placeholder takes the
 * number back.  Otherwise a process to which the descriptor is passed on could read what was mapped as if
 * it were the file.
 *
 * Layer: iofwd.  Thread rule: any thread; a process's list of threads that map is under its lock
 * `numbering`.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "iofwd/trap/process.h"

#define A(i) AMPH_TRAP_ARG(c, i)
#define CL amph_trap.cl

#define TRIES 100 /* while other threads give the number to other files */

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 3
#endif

/* Copies a part of the file into memory. */
static int fill(const struct amph_trap_file *file, int memory, off_t off, off_t end)
{
    char *buf = amph_trap_buffer();
    int err = buf ? 0 : ENOMEM;

    while (!err && off < end) {
        size_t want = end - off < (off_t)AMPH_TRAP_BUFFER ? (size_t)(end - off) : AMPH_TRAP_BUFFER;
        size_t n = 0;

        err = amph_fwd_pread(CL, &file->file, off, buf, want, &n);
        if (err || !n)
            break;

        if (pwrite(memory, buf, n, off) != (ssize_t)n)
            err = ENOMEM;

        off += (off_t)n;
    }

    return err;
}

static int stage(const struct amph_trap_file *file, int own_fd, off_t off, size_t len)
{
    char path[40];
    struct stat st;
    int err = amph_fwd_fstat(CL, &file->file, &st);

    if (err)
        return err;

    if (!S_ISREG(st.st_mode))
        return ENODEV;

    snprintf(path, sizeof path, "/proc/self/fd/%d", own_fd);

    int memory = open(path, O_RDWR | O_CLOEXEC);

    if (memory < 0)
        return errno;

    off_t end = st.st_size;

    if (off < end && (off_t)len < end - off)
        end = off + (off_t)len;

    if (ftruncate(memory, st.st_size) != 0)
        err = errno;

    if (!err)
        err = fill(file, memory, off, end);

    close(memory);
    return err;
}

/* Has the descriptor, by the caller's table, close-on-exec? */
static bool is_cloexec(const struct amph_trap_call *c, int fd)
{
    char path[64], line[128];
    unsigned flags = 0;

    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)c->n.pid, fd);

    FILE *f = fopen(path, "re");

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "flags: %o", &flags) == 1)
            break;

    if (f)
        fclose(f);

    return flags & O_CLOEXEC;
}

/* ---- threads that map ---- */

/* A thread that maps descriptor fd, from its call of mmap to the next call that is reported. */
struct amph_trap_mapper {
    struct amph_trap_mapper *next;
    pid_t tid;
    int fd;
    int common; /* own descriptor of the common placeholder; -1: another one of the list has it */
    ino_t readable; /* the placeholder that has the number now */
    bool cloexec;   /* of the descriptor, unless a call of another thread may have changed that: */
    bool is_changed;
};

/* Is the thread in the list already, with the same mapping? */
static bool is_listed(const struct amph_trap_process *p, const struct amph_trap_mapper *wanted)
{
    const struct amph_trap_mapper *m = p->mappers;

    while (m && (m->tid != wanted->tid || m->fd != wanted->fd || m->readable != wanted->readable))
        m = m->next;

    return m != NULL;
}

static ino_t inode_of(int own_fd)
{
    struct stat st;

    return fstat(own_fd, &st) == 0 ? st.st_ino : 0;
}

static void take_out(struct amph_trap_process *p, struct amph_trap_mapper **at)
{
    struct amph_trap_mapper *m = *at;

    *at = m->next;
    if (m->common >= 0)
        close(m->common);

    free(m);
    if (!p->mappers)
        atomic_fetch_sub(&amph_trap.mapping, 1);
}

/* Gives the number back to the common placeholder, unless another thread still maps what has it, or the
 * program has put something else there. */
static void give_back(struct amph_trap_call *c, struct amph_trap_mapper *m)
{
    struct amph_trap_mapper *other = c->process->mappers;

    while (other && (other == m || other->fd != m->fd || other->readable != m->readable))
        other = other->next;

    if (other) {
        if (m->common >= 0) {
            other->common = m->common;
            other->cloexec = m->cloexec;
            other->is_changed |= m->is_changed;
            m->common = -1;
        }

        return;
    }

    /* it is about to be closed anyway */
    if (m->common < 0 || (c->n.data.nr == SYS_close && AMPH_TRAP_INT(c, 0) == m->fd))
        return;

    int own_fd = amph_trap_fd_of(c->process, m->fd);

    if (own_fd < 0)
        return;

    if (inode_of(own_fd) == m->readable)
        amph_trap_give_fd(c, m->common, m->fd, m->is_changed ? is_cloexec(c, m->fd) : m->cloexec);

    close(own_fd);
}

/* Has the thread made its mapping?  It has if it makes another call, or has ended. */
static bool has_mapped(const struct amph_trap_call *c, const struct amph_trap_mapper *m)
{
    return m->tid == (pid_t)c->n.pid ||
           (syscall(SYS_tgkill, c->process->pid, m->tid, 0) != 0 && errno == ESRCH);
}

/* Does the call map the same descriptor again? */
static bool maps_again(const struct amph_trap_call *c, const struct amph_trap_mapper *m)
{
    return m->tid == (pid_t)c->n.pid && c->n.data.nr == SYS_mmap && AMPH_TRAP_INT(c, 4) == m->fd;
}

/* May the call change close-on-exec? */
static bool may_mark(const struct amph_trap_call *c)
{
    return c->n.data.nr == SYS_fcntl || c->n.data.nr == SYS_ioctl ||
           c->n.data.nr == SYS_close_range;
}

void amph_trap_map_over(struct amph_trap_call *c)
{
    struct amph_trap_process *p;

    if (!atomic_load_explicit(&amph_trap.mapping, memory_order_relaxed) ||
        amph_trap_process_of(c, &p) != 0)
        return;

    pthread_mutex_lock(&p->numbering);
    for (struct amph_trap_mapper **at = &p->mappers; *at;) {
        if (!has_mapped(c, *at) || maps_again(c, *at)) {
            (*at)->is_changed |= may_mark(c);
            at = &(*at)->next;
            continue;
        }

        give_back(c, *at);
        take_out(p, at);
    }

    pthread_mutex_unlock(&p->numbering);
}

void amph_trap_map_closed(struct amph_trap_process *p, int fd)
{
    pthread_mutex_lock(&p->numbering);
    for (struct amph_trap_mapper **at = &p->mappers; *at;)
        if (fd < 0 || (*at)->fd == fd)
            take_out(p, at);
        else
            at = &(*at)->next;

    pthread_mutex_unlock(&p->numbering);
}

/* Puts a new placeholder that can be read in the place of the common one, *own_fd_p, which m takes over. */
static int replace_common(struct amph_trap_call *c, struct amph_trap_mapper *m,
                          struct amph_trap_file *file, int *own_fd_p)
{
    int readable;
    int err = amph_trap_file_readable(file, &readable);

    if (err)
        return err;

    m->cloexec = is_cloexec(c, m->fd);
    err = amph_trap_give_fd(c, readable, m->fd, m->cloexec);
    if (err) {
        close(readable);
        return err;
    }

    m->common = *own_fd_p;
    *own_fd_p = readable;
    return 0;
}

/* Notes that the caller maps descriptor fd, and sees to it that a placeholder that can be read has the
 * number.  *own_fd_p: a copy of the descriptor, before and after.  ESTALE: another thread has given the
 * number to another file. */
static int make_readable(struct amph_trap_call *c, int fd, struct amph_trap_file *file,
                         int *own_fd_p)
{
    struct amph_trap_process *p = c->process;
    struct amph_trap_mapper *m = calloc(1, sizeof *m);
    int err = 0;

    if (!m)
        return ENOMEM;

    pthread_mutex_lock(&p->numbering);
    *m = (struct amph_trap_mapper){ .tid = (pid_t)c->n.pid, .fd = fd, .common = -1 };

    /* other threads may have changed what has the number since the caller looked */
    int now = amph_trap_fd_of(p, fd);
    struct amph_trap_file *found = now < 0 ? NULL : amph_trap_file_of_own(now);

    if (now >= 0) {
        close(*own_fd_p);
        *own_fd_p = now;
    }

    amph_trap_file_put(found);
    err = found == file ? 0 : ESTALE;

    /* One that can be read already is another thread's, which maps, or this one's, or a copy of such
     * a one. */
    if (!err && (fcntl(now, F_GETFL) & O_ACCMODE) != O_RDONLY)
        err = replace_common(c, m, file, own_fd_p);

    m->readable = inode_of(*own_fd_p);
    if (err || is_listed(p, m)) {
        free(m);
    } else {
        if (!p->mappers)
            atomic_fetch_add(&amph_trap.mapping, 1);

        m->next = p->mappers;
        p->mappers = m;
    }

    pthread_mutex_unlock(&p->numbering);
    return err;
}

/* ---- mmap ---- */

static void say_refused(struct amph_trap_call *c, const struct amph_trap_file *file)
{
    if (!amph_trap_first_time(c, AMPH_TRAP_SAID_MAPPING))
        return;

    amph_trap_say("%s cannot be mapped for shared writing under -trap: iofwd-run -mount PROGRAM "
                  "makes that possible",
                  file->name && file->name[0] ? file->name : "a forwarded file");
}

static int map(struct amph_trap_call *c)
{
    struct amph_trap_file *file;
    int own_fd;
    int fd = AMPH_TRAP_INT(c, 4);
    int type = (int)A(3) & 0xf;
    bool shared = type == MAP_SHARED || type == MAP_SHARED_VALIDATE;

    if (A(3) & MAP_ANONYMOUS)
        return AMPH_TRAP_CONTINUE;

    int err = amph_trap_file_of(c, fd, &file, &own_fd);

    if (err || !file)
        return err ? err : AMPH_TRAP_CONTINUE;

    bool writes = shared && (A(2) & PROT_WRITE);
    int access = file->flags & O_ACCMODE;

    if (file->flags & O_PATH) {
        err = EBADF;
    } else if (access == O_WRONLY || (writes && access != O_RDWR)) {
        err = EACCES;
    } else if (writes) {
        say_refused(c, file);
        err = ENODEV;
    } else {
        err = make_readable(c, fd, file, &own_fd);
        if (!err)
            err = stage(file, own_fd, (off_t)A(5), A(1));
    }

    close(own_fd);
    amph_trap_file_put(file);
    return err ? err : AMPH_TRAP_CONTINUE;
}

int amph_trap_do_mmap(struct amph_trap_call *c)
{
    int err;

    for (int tries = 0; (err = map(c)) == ESTALE && tries < TRIES; tries++)
        ;

    return err == ESTALE ? EAGAIN : err;
}
