/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One call of a replay; see replay.h.
 *
 * Layer: tools.  Thread rule: a task belongs to one thread; its descriptors belong to the process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/trace/replay.h"

static void set_fd(struct replay_task *task, int64_t recorded, int fd)
{
    if (recorded < 0 || recorded >= REPLAY_FDS)
        return;

    int before = __atomic_exchange_n(&task->fds[recorded], fd, __ATOMIC_RELAXED);

    if (before >= 0 && before != fd)
        close(before);
}

/* The descriptor that the recorded one stands for; opened here if the run has inherited it. */
static int fd_of(struct replay_task *task, int recorded, uint32_t file)
{
    char path[8192];

    if (recorded < 0 || recorded >= REPLAY_FDS) {
        errno = EBADF;
        return -1;
    }

    int fd = __atomic_load_n(&task->fds[recorded], __ATOMIC_RELAXED);

    if (fd >= 0 || !replay_path(task->r, file, path, sizeof path))
        return fd;

    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        fd = open(path, O_RDONLY | O_CLOEXEC);

    set_fd(task, recorded, fd);
    return fd;
}

static int open_file(struct replay_task *task, const struct amph_trace_event *e, const char *path)
{
    const char *name = task->r->trace->names[e->name];
    int flags = e->has & AMPH_TRACE_HAS_FLAGS ? (int)e->flags : O_RDONLY;
    bool is_stream = strstr(name, "fopen") != NULL;

    if (strstr(name, "creat"))
        flags = O_WRONLY | O_CREAT | O_TRUNC;
    else if (strstr(name, "temp"))
        flags = O_RDWR | O_CREAT | O_EXCL;
    else if (is_stream && !(e->has & AMPH_TRACE_HAS_FLAGS))
        flags = O_RDWR;

    int fd = open(path, flags | O_CLOEXEC, 0666);

    if (fd < 0)
        return -1;

    /* what a stream of the host does is not recorded */
    bool is_alone = is_stream && (e->side == AMPH_TRACE_LOCAL || e->fd < 0);

    if (is_alone || e->has & AMPH_TRACE_HAS_FAILED) {
        close(fd);
        return 0;
    }

    set_fd(task, is_stream ? e->fd : e->result, fd);
    return fd;
}

static int64_t read_folder(const char *path)
{
    DIR *dir = opendir(path);

    if (!dir)
        return -1;

    while (readdir(dir)) {
    }

    return closedir(dir);
}

static bool has_own_offset(const struct amph_trace_event *e)
{
    return e->has & AMPH_TRACE_HAS_OFFSET && e->offset >= 0;
}

static int64_t move_data(struct replay_task *task, const struct amph_trace_event *e, bool writes)
{
    int fd = fd_of(task, e->fd, e->file);
    uint64_t n = e->has & AMPH_TRACE_HAS_LENGTH ? e->length : 0;

    /* a call with several pieces has a number of pieces */
    if (e->result > 0 && n < (uint64_t)e->result)
        n = (uint64_t)e->result;
    if (n > REPLAY_BYTES_MAX)
        n = REPLAY_BYTES_MAX;

    if (writes)
        return has_own_offset(e) ? pwrite(fd, task->data, n, e->offset) : write(fd, task->data, n);

    return has_own_offset(e) ? pread(fd, task->data, n, e->offset) : read(fd, task->data, n);
}

static int64_t copy_data(struct replay_task *task, const struct amph_trace_event *e)
{
    int in = fd_of(task, e->fd2, e->file2);
    int out = fd_of(task, e->fd, e->file);

    return copy_file_range(in, NULL, out, NULL, e->length, 0);
}

static int64_t lock(struct replay_task *task, const struct amph_trace_event *e)
{
    int fd = fd_of(task, e->fd, e->file);
    struct flock l = { .l_type = (short)(e->flags >> 16 & 3), .l_whence = SEEK_SET };

    if (e->has & AMPH_TRACE_HAS_OFFSET)
        l.l_start = e->offset;
    if (e->has & AMPH_TRACE_HAS_LENGTH)
        l.l_len = (off_t)e->length;

    return fcntl(fd, (int)(e->flags & 0xffff), &l);
}

static int64_t stat_file(struct replay_task *task, const struct amph_trace_event *e,
                         const char *path)
{
    const char *name = task->r->trace->names[e->name];
    struct stat st;

    if (!(e->has & AMPH_TRACE_HAS_PATH))
        return fstat(fd_of(task, e->fd, e->file), &st);
    if (strstr(name, "lstat") || strstr(name, "lxstat") ||
        (e->has & AMPH_TRACE_HAS_FLAGS && e->flags & AT_SYMLINK_NOFOLLOW))
        return lstat(path, &st);

    return stat(path, &st);
}

/* Calls on names. */
static int64_t call_path(struct replay_task *task, const struct replay_step *s,
                         const struct amph_trace_event *e, const char *path)
{
    struct statvfs fs;
    char other[8192];

    switch (s->kind) {
    case REPLAY_OPEN:
        return open_file(task, e, path);
    case REPLAY_ACCESS:
        return access(path, e->has & AMPH_TRACE_HAS_FLAGS ? (int)e->flags & (R_OK | W_OK) : F_OK);
    case REPLAY_READLINK:
        return readlink(path, other, sizeof other);
    case REPLAY_RENAME:
    case REPLAY_LINK:
        if (!replay_path(task->r, e->file2, other, sizeof other))
            return 0;

        return s->kind == REPLAY_RENAME ? rename(path, other) : link(path, other);
    case REPLAY_SYMLINK:
        return symlink("target", path);
    case REPLAY_UNLINK:
        return remove(path);
    case REPLAY_MKDIR:
        return mkdir(path, 0777);
    case REPLAY_RMDIR:
        return rmdir(path);
    case REPLAY_FOLDER:
        return read_folder(path);
    case REPLAY_CHMOD:
        return chmod(path, 0644);
    case REPLAY_TIMES:
        return utimensat(AT_FDCWD, path, NULL, 0);
    case REPLAY_TRUNCATE:
        return truncate(path, e->offset);
    case REPLAY_STATFS:
        return statvfs(path, &fs);
    default:
        return 0;
    }
}

/* Calls on descriptors. */
static int64_t call_fd(struct replay_task *task, const struct replay_step *s,
                       const struct amph_trace_event *e)
{
    int fd = fd_of(task, e->fd, e->file);
    struct statvfs fs;

    switch (s->kind) {
    case REPLAY_SEEK:
        return lseek(fd, e->has & AMPH_TRACE_HAS_OFFSET ? e->offset : 0, (int)e->flags);
    case REPLAY_SYNC:
        return fsync(fd);
    case REPLAY_DATASYNC:
        return fdatasync(fd);
    case REPLAY_TRUNCATE:
        return ftruncate(fd, e->offset);
    case REPLAY_ALLOCATE:
        return fallocate(fd, (int)e->flags, e->offset, (off_t)e->length);
    case REPLAY_STATFS:
        return fstatvfs(fd, &fs);
    case REPLAY_CHMOD:
        return fchmod(fd, 0644);
    case REPLAY_TIMES:
        return futimens(fd, NULL);
    case REPLAY_DUP:
        fd = dup(fd);
        if (fd >= 0)
            set_fd(task, e->result, fd);

        return fd;
    default:
        return 0;
    }
}

int64_t replay_call(struct replay_task *task, const struct replay_step *s)
{
    const struct amph_trace_event *e = &task->r->trace->events[s->event];
    char path[8192] = "";
    bool by_path = e->has & AMPH_TRACE_HAS_PATH;

    if (by_path && !replay_path(task->r, e->file, path, sizeof path))
        return 0;

    switch (s->kind) {
    case REPLAY_READ:
    case REPLAY_WRITE:
        return move_data(task, e, s->kind == REPLAY_WRITE);
    case REPLAY_COPY:
        return copy_data(task, e);
    case REPLAY_STAT:
        return stat_file(task, e, path);
    case REPLAY_LOCK:
        return lock(task, e);
    case REPLAY_START:
        return replay_start(task, e, fd_of(task, e->fd, e->file));
    case REPLAY_AWAIT:
        return replay_await(task, e);
    case REPLAY_CLOSE:
        if (e->fd >= 0 && e->fd < REPLAY_FDS && task->fds[e->fd] >= 0)
            return close(__atomic_exchange_n(&task->fds[e->fd], -1, __ATOMIC_RELAXED));

        return 0;
    default:
        return by_path ? call_path(task, s, e, path) : call_fd(task, s, e);
    }
}
