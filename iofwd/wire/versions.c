/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes, finds and removes the shared object of file versions; see versions.h.
 *
 * Layer: iofwd.  Thread rule: functions on the caller's memory and descriptors.
 */
#include "iofwd/wire/versions.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auth.h"
#include "iofwd/wire/map_kinds.h"
#include "iofwd/wire/repair.h"

#define DIRECTORY FWD_VERSIONS_DIRECTORY
#define NAME FWD_VERSIONS_NAME
#define LAYOUT FWD_VERSIONS_LAYOUT

/* Opens the user's directory.  Returns -1 if it does not exist or if other users can write there. */
static int open_directory(bool make)
{
    char path[40];
    struct stat st;

    snprintf(path, sizeof path, DIRECTORY, (unsigned long)geteuid());
    if (make)
        (void)!mkdir(path, 0700);

    int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (dir >= 0 && (fstat(dir, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077))) {
        close(dir);
        dir = -1;
    }

    return dir;
}

static struct amph_fwd_versions *map(int fd, int access)
{
    void *at = mmap(NULL, sizeof(struct amph_fwd_versions), access, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

static uint64_t pid_space(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

bool amph_fwd_versions_same_pids(const struct amph_fwd_versions *v)
{
    return v->pid_space == pid_space();
}

/* ---- the object ---- */

/* Initialises a new object. In one that killed servers have left, ends the changes that were under way, but those of
 * living processes. */
static void prepare(struct amph_fwd_versions *v)
{
    uint64_t id = v->id;

    while (id == 0)
        amph_random(&id, sizeof id);

    v->layout = LAYOUT;
    v->id = id;
    v->pid_space = pid_space();
    memset(v->journal, 0, sizeof v->journal);
    amph_fwd_writers_forget_dead(v);
    (void)amph_fwd_versions_repair(v);
}

static bool has_size(int fd, off_t size)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size == size;
}

/* Makes the file as long as the object, and gets its memory: where /dev/shm is full, a store to a page
 * without any would end the process (SIGBUS).  A longer or shorter file is of another version of this
 * program, and no server uses it. */
static bool set_size(int fd)
{
    struct rlimit limit;

    if (has_size(fd, sizeof(struct amph_fwd_versions)))
        return true;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < sizeof(struct amph_fwd_versions))
        return false; /* ulimit -f: exceeding it would end the process */

    return ftruncate(fd, 0) == 0 && posix_fallocate(fd, 0, sizeof(struct amph_fwd_versions)) == 0;
}

/* Maps the object in an open file, for a server.  AMPH_AGAIN: the file is being removed or
 * initialised. */
static enum amph_status use(int fd, struct amph_fwd_versions **versions_p)
{
    struct stat st;
    bool first = flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (!first && flock(fd, LOCK_SH) != 0)
        return AMPH_ERR_NOENT;
    if (fstat(fd, &st) != 0 || st.st_nlink == 0)
        return AMPH_AGAIN;
    if (first ? !set_size(fd) : !has_size(fd, sizeof(struct amph_fwd_versions)))
        return AMPH_ERR_NOENT;

    struct amph_fwd_versions *v = map(fd, PROT_READ | PROT_WRITE);

    if (!v)
        return AMPH_ERR_NOMEM;

    if (first)
        prepare(v);

    /* the lock may be lost for a moment, in which another server can remove the object */
    bool kept = !first || (flock(fd, LOCK_SH) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0);

    if (kept && v->layout == LAYOUT && v->id) {
        *versions_p = v;
        return AMPH_OK;
    }

    munmap(v, sizeof *v);
    return kept ? AMPH_ERR_NOENT : AMPH_AGAIN;
}

enum amph_status amph_fwd_versions_open(struct amph_fwd_versions **versions_p, int *fd_p)
{
    int dir = open_directory(true);
    enum amph_status st = dir < 0 ? AMPH_ERR_NOENT : AMPH_AGAIN;

    while (st == AMPH_AGAIN) {
        int fd = openat(dir, NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        st = fd < 0 ? AMPH_ERR_NOENT : use(fd, versions_p);
        if (st == AMPH_OK)
            *fd_p = fd;
        else if (fd >= 0)
            close(fd);
    }

    if (dir >= 0)
        close(dir);

    return st;
}

void amph_fwd_versions_close(struct amph_fwd_versions *v, int fd, bool busy)
{
    int dir = open_directory(false);

    /* who gets this lock is the last one, and the name still leads to this file: only the holder of
     * the lock removes it */
    if (dir >= 0 && !amph_fwd_writers_any(v) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        atomic_store(&v->gone, 1);
        unlinkat(dir, NAME, 0);
    }

    if (dir >= 0)
        close(dir);

    if (!busy)
        close(fd);
}

/* Maps the object; NULL: there is none, or one of another version of this program. */
static struct amph_fwd_versions *find(bool writable)
{
    int dir = open_directory(false);
    int flags = writable ? O_RDWR : O_RDONLY;
    int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    int fd = dir < 0 ? -1 : openat(dir, NAME, flags | O_NOFOLLOW | O_CLOEXEC);
    struct amph_fwd_versions *v = fd >= 0 && has_size(fd, sizeof *v) ? map(fd, access) : NULL;

    if (fd >= 0)
        close(fd);

    if (dir >= 0)
        close(dir);

    if (v && v->layout != LAYOUT) {
        munmap(v, sizeof *v);
        v = NULL;
    }

    return v;
}

struct amph_fwd_versions *amph_fwd_versions_map(uint64_t id, bool writable)
{
    struct amph_fwd_versions *v = find(writable);

    if (v && v->id != id) {
        munmap(v, sizeof *v);
        v = NULL;
    }

    return v;
}

uint64_t amph_fwd_versions_id(void)
{
    struct amph_fwd_versions *v = find(false);
    uint64_t id = v ? v->id : 0;

    if (v)
        munmap(v, sizeof *v);

    return id;
}

int amph_fwd_map_kinds_open(void)
{
    int dir = open_directory(true);
    int fd = dir < 0
                 ? -1
                 : openat(dir, FWD_MAP_KINDS_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (dir >= 0)
        close(dir);

    return fd;
}
