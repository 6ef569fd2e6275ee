/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trap: open files, and the placeholders that stand for them in the program.
 *
 * A placeholder is a memory file that is opened once more, for reading only.  Its inode number leads
 * to the record, and its mode is one that no other memory file has, so that none is taken for it.
 * inotify says when the last descriptor of it has been closed, in whichever process.
 *
 * Layer: iofwd.  Thread rule: any thread; one lock guards the table.
 */
#include "iofwd/trap/trap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

static struct {
    pthread_mutex_t lock;
    struct amph_trap_file *bucket[BUCKETS];
    dev_t dev; /* of memory files */
    int inotify;
} files = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The mode of all placeholders, which no other memory file has. */
#define MARK (S_ISVTX | 0621)

/* ---- the last close ---- */

static void take_out(struct amph_trap_file *file)
{
    struct amph_trap_file **at = &files.bucket[file->ino % BUCKETS];

    while (*at && *at != file)
        at = &(*at)->next;

    if (*at)
        *at = file->next;
}

static struct amph_trap_file *take_out_by_watch(int watch)
{
    struct amph_trap_file *found = NULL;

    pthread_mutex_lock(&files.lock);
    for (unsigned i = 0; i < BUCKETS && !found; i++) {
        found = files.bucket[i];
        while (found && found->watch != watch)
            found = found->next;
    }

    if (found)
        take_out(found);

    pthread_mutex_unlock(&files.lock);
    return found;
}

static void *watch(void *unused)
{
    _Alignas(struct inotify_event) char buf[4096];

    for (;;) {
        ssize_t n = read(files.inotify, buf, sizeof buf);

        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const struct inotify_event *)(buf + at);

            if (e->mask & IN_CLOSE_NOWRITE)
                amph_trap_file_put(take_out_by_watch(e->wd));

            at += (ssize_t)sizeof *e + e->len;
        }

        if (n < 0 && errno != EINTR)
            return NULL;
    }
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
    files.inotify = inotify_init1(IN_CLOEXEC);
    return files.inotify < 0 ? errno : amph_thread_start(&thread, true, 0, watch, NULL);
}

/* ---- placeholders ---- */

/* Makes a placeholder, watched.  Returns a descriptor of it, or -1 with errno. */
static int make_placeholder(struct amph_trap_file *file)
{
    char name[NAME_BYTES], path[40];
    struct stat st;

    snprintf(name, sizeof name, "iofwd:%s", file->name ? file->name : "");

    int memory = memfd_create(name, MFD_CLOEXEC);

    if (memory < 0)
        return -1;

    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);

    int own_fd = -1;

    if (fstat(memory, &st) == 0 && fchmod(memory, MARK) == 0)
        own_fd = open(path, O_RDONLY | O_CLOEXEC);

    close(memory);
    if (own_fd < 0)
        return -1;

    /* the descriptor that was closed last is not to be reported */
    snprintf(path, sizeof path, "/proc/self/fd/%d", own_fd);
    file->ino = st.st_ino;
    pthread_mutex_lock(&files.lock);
    file->watch = inotify_add_watch(files.inotify, path, IN_CLOSE_NOWRITE);
    if (file->watch >= 0) {
        struct amph_trap_file **bucket = &files.bucket[file->ino % BUCKETS];

        file->next = *bucket;
        *bucket = file;
    }

    pthread_mutex_unlock(&files.lock);
    if (file->watch >= 0)
        return own_fd;

    amph_trap_say("no more files can be opened: the kernel's limit of inotify watches is reached "
                  "(fs.inotify.max_user_watches)");
    close(own_fd);
    errno = ENFILE;
    return -1;
}

int amph_trap_file_make(const struct amph_fwd_file *given, const char *name, int flags,
                        struct amph_trap_file **file_p, int *own_fd_p)
{
    struct amph_trap_file *file = calloc(1, sizeof *file);
    int err = ENOMEM;

    if (file) {
        *file = (struct amph_trap_file){ .refs = 2, .file = *given, .flags = flags };
        file->name = name ? strdup(name) : NULL;
    }

    if (file && (!name || file->name)) {
        *own_fd_p = make_placeholder(file);
        if (*own_fd_p >= 0) {
            *file_p = file;
            return 0;
        }

        err = errno;
    }

    if (given->nparts)
        amph_fwd_close(amph_trap.cl, given);

    if (file)
        free(file->name);

    free(file);
    return err;
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

struct amph_trap_file *amph_trap_file_of_own(int own_fd)
{
    struct stat st;

    if (fstat(own_fd, &st) != 0 || st.st_dev != files.dev || (st.st_mode & 07777) != MARK)
        return NULL;

    pthread_mutex_lock(&files.lock);

    struct amph_trap_file *file = files.bucket[st.st_ino % BUCKETS];

    while (file && file->ino != st.st_ino)
        file = file->next;

    if (file)
        atomic_fetch_add(&file->refs, 1);

    pthread_mutex_unlock(&files.lock);
    return file;
}

int amph_trap_file_of(struct amph_trap_call *c, int fd, struct amph_trap_file **file_p,
                      int *own_fd_p)
{
    struct amph_trap_process *p;

    *file_p = NULL;
    if (own_fd_p)
        *own_fd_p = -1;

    bool possible = fd >= amph_trap.first_fd && fd <= amph_trap.last_fd;

    if (fd >= 0 && fd < AMPH_TRAP_STD)
        possible = atomic_load_explicit(&amph_trap.std_used, memory_order_relaxed);

    if (!possible)
        return 0;

    int err = amph_trap_process_of(c, &p);

    if (err)
        return err;

    int own_fd = amph_trap_fd_of(p, fd);

    if (own_fd < 0 && (errno == ESRCH || errno == EBADF))
        return 0;

    if (own_fd < 0)
        return errno;

    *file_p = amph_trap_file_of_own(own_fd);
    if (*file_p && (*file_p)->file.nparts == 0) { /* the kernel's business */
        amph_trap_file_put(*file_p);
        *file_p = NULL;
    }

    if (own_fd_p && *file_p)
        *own_fd_p = own_fd;
    else
        close(own_fd);

    return 0;
}
