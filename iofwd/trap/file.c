/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: open files, and the placeholders that stand for them in the program.
 *
 * A placeholder is a sealed memory file that is open for writing only, so that a call that reaches it by
 * mistake (by a number that the filter does not know, after a message) fails.  It has one byte, since
 * readers take an empty file for done.  Its inode number leads to the record, and its mode is one that no
 * other memory file has, so that none is taken for it.  Where the file is mapped, a placeholder of a
 * second kind takes its number for a while: one that can be read, whose pages hold the file's data (map.c).
 * inotify says when the last descriptor of a placeholder has been closed, in whichever process.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the tables, another one the events.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/thread.h"

#define BUCKETS 1024
#define NAME_BYTES 200 /* of a placeholder's name, which the kernel limits to 249 */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* The modes of placeholders, which no other memory file has: the common kind cannot be opened for
 * reading by its name in /proc. */
#define MARK (S_ISVTX | 0222)
#define MARK_READABLE (S_ISVTX | 0622)

struct placeholder {
    struct placeholder *next_ino, *next_watch; /* of their hash chains */
    ino_t ino;
    int watch;
    struct amph_trap_file *file; /* with a reference */
};

static struct {
    pthread_mutex_t lock;
    struct placeholder *by_ino[BUCKETS];
    struct placeholder *by_watch[BUCKETS];
    dev_t dev;        /* of memory files */
    _Atomic bool any; /* a file has been open */
    int inotify;
    pthread_mutex_t reaping; /* events are read and worked on */
} files = { .lock = PTHREAD_MUTEX_INITIALIZER, .reaping = PTHREAD_MUTEX_INITIALIZER };

/* ---- the last close ---- */

static struct placeholder *take_out(int watch)
{
    struct placeholder **at = &files.by_watch[(unsigned)watch % BUCKETS];

    while (*at && (*at)->watch != watch)
        at = &(*at)->next_watch;

    struct placeholder *p = *at;

    if (!p)
        return NULL;

    *at = p->next_watch;
    at = &files.by_ino[p->ino % BUCKETS];
    while (*at != p)
        at = &(*at)->next_ino;

    *at = p->next_ino;
    return p;
}

/* A process that ends or executes another program closes without a call. */
static struct amph_fwd_caller closer_of(struct amph_trap_file *file)
{
    uint64_t closer = atomic_load_explicit(&file->closer, memory_order_relaxed);

    return closer ? (struct amph_fwd_caller){ (pid_t)(closer >> 32), (int)(uint32_t)closer }
                  : AMPH_FWD_NO_CALLER;
}

static void closed(int watch)
{
    pthread_mutex_lock(&files.lock);

    struct placeholder *p = take_out(watch);

    pthread_mutex_unlock(&files.lock);
    if (!p)
        return;

    amph_fwd_set_caller(closer_of(p->file));
    amph_trap_file_put(p->file);
    amph_fwd_set_caller(AMPH_FWD_NO_CALLER);
    free(p);
}

void amph_trap_file_reap(void)
{
    _Alignas(struct inotify_event) char buf[4096];
    ssize_t n;

    struct amph_fwd_caller caller = amph_fwd_set_caller(AMPH_FWD_NO_CALLER);

    pthread_mutex_lock(&files.reaping);
    while ((n = read(files.inotify, buf, sizeof buf)) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(buf + at);

            if (e->mask & (IN_CLOSE_WRITE | IN_CLOSE_NOWRITE))
                closed(e->wd);
            else if (e->mask & IN_Q_OVERFLOW)
                amph_trap_say("the kernel has lost notices of closed files, which stay open at the "
                              "servers until the program ends (fs.inotify.max_queued_events)");

            at += (ssize_t)sizeof *e + e->len;
        }

    pthread_mutex_unlock(&files.reaping);
    amph_fwd_set_caller(caller);
}

static void *watch(void *unused)
{
    struct pollfd fd = { .fd = files.inotify, .events = POLLIN };

    for (;;)
        if (poll(&fd, 1, -1) > 0)
            amph_trap_file_reap();

    return NULL;
}

int amph_trap_file_begin(void)
{
    pthread_t thread;
    struct stat st;
    int fd = memfd_create("iofwd", MFD_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) != 0)
        return errno;

    files.dev = st.st_dev;
    close(fd);
    files.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (files.inotify >= 0)
        return amph_thread_start(&thread, true, 0, watch, NULL);

    if (errno == EMFILE)
        amph_trap_say(
            "this user has too many inotify instances, of which each run of -trap needs one "
            "(fs.inotify.max_user_instances)");

    return errno;
}

/* ---- placeholders ---- */

/* Watches a memory file, and gives it its mode afterwards: only root may watch what it cannot read.
 * The watch's number, or -1. */
static int watch_memory(int own_fd, mode_t mark, uint32_t event)
{
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", own_fd);

    int number = inotify_add_watch(files.inotify, path, event);

    if (number < 0)
        amph_trap_say("no more files can be opened: inotify does not watch another one: %s%s",
                      strerror(errno), errno == ENOSPC ? " (fs.inotify.max_user_watches)" : "");

    if (number >= 0 && fchmod(own_fd, mark) != 0) {
        amph_trap_say("a placeholder's mode cannot be set: %s", strerror(errno));
        inotify_rm_watch(files.inotify, number);
        return -1;
    }

    return number;
}

/* Enters a placeholder that own_fd is open to, and takes over a reference of the file.  The descriptor
 * that was closed before is not reported. */
static int enter(struct amph_trap_file *file, int own_fd, mode_t mark, uint32_t event)
{
    struct placeholder *p = calloc(1, sizeof *p);
    struct stat st;

    if (!p || fstat(own_fd, &st) != 0) {
        free(p);
        return ENOMEM;
    }

    p->ino = st.st_ino;
    p->file = file;
    pthread_mutex_lock(&files.lock);

    int number = watch_memory(own_fd, mark, event);

    p->watch = number;
    if (number >= 0) {
        struct placeholder **ino = &files.by_ino[p->ino % BUCKETS];
        struct placeholder **by_watch = &files.by_watch[(unsigned)p->watch % BUCKETS];

        p->next_ino = *ino;
        p->next_watch = *by_watch;
        *ino = *by_watch = p;
    }

    pthread_mutex_unlock(&files.lock);
    if (number >= 0)
        return 0;

    free(p);
    return ENFILE;
}

/* Makes a memory file, and opens it once more, with these flags; enter() gives it its mode.  -1 with
 * errno. */
static int make_memory(const char *name, bool sealed, int flags)
{
    char text[NAME_BYTES], path[40];

    snprintf(text, sizeof text, "iofwd:%s", name ? name : "");

    int memory = memfd_create(text, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    if (memory < 0 && errno == EINVAL) /* Linux before 6.3 */
        memory = memfd_create(text, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (memory < 0)
        return -1;

    int own_fd = -1;

    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    if (fchmod(memory, S_IRUSR | S_IWUSR) == 0 &&
        (!sealed || (ftruncate(memory, 1) == 0 &&
                     fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0)))
        own_fd = open(path, flags | O_CLOEXEC);

    int err = errno;

    close(memory);
    errno = err;
    return own_fd;
}

int amph_trap_file_readable(struct amph_trap_file *file, int *own_fd_p)
{
    int own_fd = make_memory(file->name, false, O_RDONLY);

    if (own_fd < 0)
        return errno;

    lseek(own_fd, INT64_MAX, SEEK_SET); /* read fails there */
    atomic_fetch_add(&file->refs, 1);

    int err = enter(file, own_fd, MARK_READABLE, IN_CLOSE_NOWRITE);

    if (err) {
        amph_trap_file_put(file);
        close(own_fd);
        return err;
    }

    *own_fd_p = own_fd;
    return 0;
}

/* ---- records ---- */

static struct amph_trap_file *make_record(const struct amph_fwd_file *given, const char *name,
                                          int flags)
{
    struct amph_trap_file *file = calloc(1, sizeof *file);

    if (!file)
        return NULL;

    *file = (struct amph_trap_file){ .refs = 1, .file = *given, .flags = flags };
    file->name = name ? strdup(name) : NULL;
    if (!name || file->name)
        return file;

    free(file);
    return NULL;
}

int amph_trap_file_make(const struct amph_fwd_file *given, const char *name, int flags,
                        struct amph_trap_file **file_p, int *own_fd_p)
{
    struct amph_trap_file *file = make_record(given, name, flags);

    if (!file) {
        if (given->nparts)
            amph_fwd_close(amph_trap.cl, given);

        return ENOMEM;
    }

    int own_fd = make_memory(name, true, O_WRONLY);
    int err = own_fd < 0 ? errno : 0;

    if (!err) {
        atomic_fetch_add(&file->refs, 1);
        err = enter(file, own_fd, MARK, IN_CLOSE_WRITE);
        if (err)
            amph_trap_file_put(file);
        else
            atomic_store_explicit(&files.any, true, memory_order_relaxed);
    }

    if (err) {
        if (own_fd >= 0)
            close(own_fd);

        amph_trap_file_put(file);
        return err;
    }

    *file_p = file;
    *own_fd_p = own_fd;
    return 0;
}

void amph_trap_file_put(struct amph_trap_file *file)
{
    if (!file || atomic_fetch_sub(&file->refs, 1) != 1)
        return;

    if (file->file.nparts)
        amph_fwd_close(amph_trap.cl, &file->file);

    free(file->name);
    free(file);
}

/* ---- from a descriptor to its file ---- */

struct amph_trap_file *amph_trap_file_of_own(int own_fd)
{
    struct stat st;

    if (fstat(own_fd, &st) != 0 || st.st_dev != files.dev ||
        ((st.st_mode & 07777) != MARK && (st.st_mode & 07777) != MARK_READABLE))
        return NULL;

    pthread_mutex_lock(&files.lock);

    struct placeholder *p = files.by_ino[st.st_ino % BUCKETS];

    while (p && p->ino != st.st_ino)
        p = p->next_ino;

    if (p)
        atomic_fetch_add(&p->file->refs, 1);

    pthread_mutex_unlock(&files.lock);
    return p ? p->file : NULL;
}

/* May the descriptor be that of a forwarded file? */
static bool is_possible(int fd)
{
    if (fd >= 0 && fd < amph_trap.low_fds)
        return atomic_load_explicit(&amph_trap.low_used, memory_order_relaxed);

    return fd >= amph_trap.first_fd && fd <= amph_trap.last_fd;
}

int amph_trap_file_of(struct amph_trap_call *c, int fd, struct amph_trap_file **file_p,
                      int *own_fd_p)
{
    int own_fd;

    *file_p = NULL;
    if (own_fd_p)
        *own_fd_p = -1;

    if (!is_possible(fd))
        return 0;

    int err = amph_trap_fd_of_call(c, fd, &own_fd);

    if (err)
        return err;

    *file_p = amph_trap_file_of_own(own_fd);
    if (*file_p && (*file_p)->file.nparts == 0) { /* the kernel's business */
        amph_trap_file_put(*file_p);
        *file_p = NULL;
    }

    if (*file_p)
        atomic_store_explicit(&(*file_p)->closer, 0, memory_order_relaxed);

    if (own_fd_p && *file_p)
        *own_fd_p = own_fd;
    else
        close(own_fd);

    return 0;
}

int amph_trap_file_passed(struct amph_trap_call *c, int fd)
{
    if (fd < 0 || !atomic_load_explicit(&files.any, memory_order_relaxed))
        return 0;

    int own_fd = amph_trap_process_likely_fd(c, fd);

    if (own_fd < 0)
        return 0; /* the kernel's to say */

    struct amph_trap_file *file = amph_trap_file_of_own(own_fd);
    bool passed = file && file->file.nparts && amph_trap_process_of(c, NULL) == 0;

    close(own_fd);
    if (passed && amph_trap_first_time(c, AMPH_TRAP_SAID_PASSED))
        amph_trap_say("descriptor %d of process %d is %s, which a message has brought there: under "
                      "-trap a forwarded file cannot be used by its receiver; iofwd-run -mount "
                      "PROGRAM makes that possible",
                      fd, (int)c->n.pid,
                      file->name && file->name[0] ? file->name : "a forwarded file");

    amph_trap_file_put(file);
    c->refused |= passed;
    return passed ? EBADF : 0;
}

bool amph_trap_has_file(struct amph_trap_call *c, struct amph_trap_file **file_p, int *ret_p)
{
    *ret_p = amph_trap_file_of(c, AMPH_TRAP_INT(c, 0), file_p, NULL);
    if (!*ret_p && !*file_p)
        *ret_p = AMPH_TRAP_CONTINUE;

    return !*ret_p;
}

int amph_trap_done(struct amph_trap_file *file, int ret)
{
    amph_trap_file_put(file);
    return ret;
}
