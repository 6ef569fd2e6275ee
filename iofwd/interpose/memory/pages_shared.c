/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the pages that a mapped file has on this host, and counts their users; see pages.h.
 *
 * Layer: iofwd (interposer).  Thread rule: as there.
 */
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/memory/map_file.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/map_kinds.h"
#include "iofwd/wire/versions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "iofwd/interpose/fd/file_size_limit.h"
#include "iofwd/interpose/libc/kernel.h"
#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"
#include "iofwd/interpose/fd/own_table.h"

#define NAME_LETTERS "0123456789abcdef."

/* Bytes of the control file that processes lock: while they read or change the pages, and, for reading,
 * as long as they use them. */
#define BUSY_BYTE 0
#define USED_BYTE 1

struct amph_ip_memory_state amph_ip_memory = { .mutex = PTHREAD_MUTEX_INITIALIZER };

void amph_ip_pages_lock(struct amph_ip_pages_guard *g)
{
    sigset_t every;

    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &g->signals);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &g->cancel);
    g->set_program_mask = amph_ip_client.fwd.set_program_mask;
    if (g->set_program_mask) /* calls to a server may wait while this lock is held */
        g->set_program_mask(&g->signals);

    pthread_mutex_lock(&amph_ip_memory.mutex);
    g->limited = AMPH_UNLIKELY(amph_ip_is_limited()) &&
                 amph_ip_kernel_prlimit(RLIMIT_FSIZE, NULL, &g->limit) == 0;

    if (g->limited) {
        struct rlimit64 max = { .rlim_cur = g->limit.rlim_max, .rlim_max = g->limit.rlim_max };
        amph_ip_kernel_prlimit(RLIMIT_FSIZE, &max, NULL);
    }
}

void amph_ip_pages_unlock(const struct amph_ip_pages_guard *g)
{
    int was;

    if (g->limited)
        amph_ip_kernel_prlimit(RLIMIT_FSIZE, &g->limit, NULL);

    pthread_mutex_unlock(&amph_ip_memory.mutex);
    if (g->set_program_mask)
        g->set_program_mask(NULL);

    pthread_setcancelstate(g->cancel, &was);
    pthread_sigmask(SIG_SETMASK, &g->signals, NULL);
}

void amph_ip_pages_fork_lock(bool take)
{
    if (take)
        pthread_mutex_lock(&amph_ip_memory.mutex);
    else
        pthread_mutex_unlock(&amph_ip_memory.mutex);
}

void amph_ip_pages_forked(void)
{
    for (struct amph_ip_pages *p = amph_ip_memory.all; p; p = p->next)
        p->inherited = true;
}

/* ---- locks between processes ---- */

static bool ask_lock(int fd, int command, struct flock *l)
{
    int r;

    while ((r = amph_ip_kernel_fcntl(fd, command, l)) < 0 && errno == EINTR)
        ;

    return r == 0;
}

/* Waits for a lock whose owner may be waiting for a server. */
static bool wait_for_lock(int fd, struct flock *l)
{
    if (!amph_ip_client.fwd.wait_begin)
        return ask_lock(fd, F_OFD_SETLKW, l);

    sigset_t before;

    amph_ip_client.fwd.wait_begin(&before);

    bool locked = ask_lock(fd, F_OFD_SETLKW, l);

    amph_ip_client.fwd.wait_end(&before);
    return locked;
}

static bool lock_byte(int fd, short type, off_t byte, bool wait)
{
    struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

    return ask_lock(fd, F_OFD_SETLK, &l) || (wait && wait_for_lock(fd, &l));
}

static void own_close(int fd)
{
    if (fd < 0)
        return;

    amph_fdtab_mark(fd, FDTAB_UNKNOWN);
    amph_ip_kernel_close(fd);
}

static int open_again(int fd, int flags)
{
    char link[40];

    snprintf(link, sizeof link, "%s/%d", amph_ip_table_directory(), fd);
    return amph_ip_kernel_openat(AT_FDCWD, link, flags | O_CLOEXEC, 0);
}

/* Opens the control file again for this process alone: its locks belong to the open file, which the
 * parent shares. */
static void take_own(struct amph_ip_pages *p)
{
    int fresh = open_again(p->control, O_RDWR);

    if (fresh < 0)
        return;

    lock_byte(fresh, F_RDLCK, USED_BYTE, true);
    if (amph_ip_kernel_dup3(fresh, p->control, O_CLOEXEC) >= 0)
        p->inherited = false;

    amph_ip_kernel_close(fresh);
}

void amph_ip_pages_begin(struct amph_ip_pages *p)
{
    if (p->inherited)
        take_own(p);

    lock_byte(p->control, F_WRLCK, BUSY_BYTE, true);
}

void amph_ip_pages_end(struct amph_ip_pages *p)
{
    lock_byte(p->control, F_UNLCK, BUSY_BYTE, false);
}

/* ---- the directory of one user ---- */

int amph_ip_space_open(void)
{
    char path[40];
    struct stat st;

    snprintf(path, sizeof path, FWD_VERSIONS_DIRECTORY, (unsigned long)geteuid());
    (void)!libc_mkdir(path, 0700);

    int dir = amph_ip_kernel_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                                    0);

    if (dir >= 0 && (libc_fstat64(dir, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077))) {
        amph_ip_kernel_close(dir);
        dir = -1;
    }

    return dir;
}

/* A number for the running kernel, as servers have it in the names of files (iofwd/server/fs/map.c). */
static uint64_t kernel_id(void)
{
    char text[64];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    int fd = amph_ip_kernel_openat(AT_FDCWD, "/proc/sys/kernel/random/boot_id",
                                   O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? 0 : amph_ip_kernel_read(fd, text, sizeof text);

    for (ssize_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return h;
}

/* Returns a number for the directory that is unique among all hosts; without a directory, one for
 * this process. */
static int64_t space_id(int dir)
{
    struct stat st = { 0 };
    uint64_t h = kernel_id();

    if (dir < 0 || libc_fstat64(dir, &st) != 0)
        st.st_ino = (ino_t)amph_ip_kernel_getpid();

    h = (h ^ st.st_dev) * UINT64_C(0x100000001b3);
    h = (h ^ st.st_ino) * UINT64_C(0x100000001b3);
    return (int64_t)(h >> 1 | 1);
}

static void file_name(char out[AMPH_IP_PAGES_NAME + 2], const char *name, char kind)
{
    snprintf(out, AMPH_IP_PAGES_NAME + 2, "%s%c", name, kind);
}

static void remove_both(int dir, const char *name)
{
    char path[AMPH_IP_PAGES_NAME + 2];

    /* the control file last: a process that finds only it starts again */
    for (const char *kind = "dc"; *kind; kind++) {
        file_name(path, name, *kind);
        libc_unlinkat(dir, path, 0);
    }
}

/* Removes what killed processes have left. */
static void sweep(int dir)
{
    int copy = amph_ip_kernel_openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *list = copy < 0 ? NULL : libc_fdopendir(copy);
    struct dirent64 *entry;

    while (list && (entry = (struct dirent64 *)libc_readdir64(list))) {
        size_t len = strlen(entry->d_name);

        if (len < 2 || len >= AMPH_IP_PAGES_NAME || entry->d_name[len - 1] != 'c')
            continue;

        int fd = amph_ip_kernel_openat(dir, entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);

        if (fd >= 0 && lock_byte(fd, F_WRLCK, BUSY_BYTE, false) &&
            lock_byte(fd, F_WRLCK, USED_BYTE, false)) {
            entry->d_name[len - 1] = 0;
            remove_both(dir, entry->d_name);
        }

        if (fd >= 0)
            amph_ip_kernel_close(fd);
    }

    if (list)
        libc_closedir(list);
    else if (copy >= 0)
        amph_ip_kernel_close(copy);
}

/* ---- opening and giving up ---- */

/* Opens the control file, locked as by amph_ip_pages_begin, and checks that it still has its name.
 * -1 with errno.  *first_p: nobody uses it, and it is empty. */
static int open_control(int dir, const char *name, bool *first_p)
{
    char path[AMPH_IP_PAGES_NAME + 2];
    struct stat st;

    file_name(path, name, 'c');
    for (;;) {
        int fd = amph_ip_kernel_openat(dir, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0 || !lock_byte(fd, F_WRLCK, BUSY_BYTE, true) || libc_fstat64(fd, &st) != 0) {
            int err = errno;

            if (fd >= 0)
                amph_ip_kernel_close(fd);

            return amph_ip_fail(err);
        }

        *first_p = lock_byte(fd, F_WRLCK, USED_BYTE, false);
        if (st.st_nlink > 0 && (!*first_p || st.st_size == 0))
            return fd;

        if (st.st_nlink > 0)
            /* its last user was killed, or is ending and may use its memory until then */
            remove_both(dir, name);

        amph_ip_kernel_close(fd);
    }
}

/* Maps the head of a control file that has one, through an open file of its own: a map keeps its
 * open file open, and with it the locks. */
static int map_head(struct amph_ip_pages *p)
{
    int fd = open_again(p->control, O_RDWR);

    p->head = fd < 0 ? MAP_FAILED
                     : amph_ip_kernel_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p->head == MAP_FAILED)
        p->head = NULL;

    if (fd >= 0)
        amph_ip_kernel_close(fd);

    return p->head ? 0 : ENOMEM;
}

static void close_files(struct amph_ip_pages *p)
{
    if (p->head)
        amph_ip_kernel_munmap(p->head, 4096);

    own_close(p->data);
    own_close(p->control);
    own_close(p->kind);
    p->head = NULL;
    p->data = p->control = p->kind = -1;
}

static int open_named(struct amph_ip_pages *p, int dir)
{
    char path[AMPH_IP_PAGES_NAME + 2];
    bool first = false;

    p->control = amph_ip_own(open_control(dir, p->name, &first));
    if (p->control < 0)
        return errno;

    file_name(path, p->name, 'd');
    p->data = amph_ip_own(amph_ip_kernel_openat(
        dir, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (first ? O_TRUNC : 0), 0600));

    int err = p->data < 0 ? errno : 0;

    if (!err && first && amph_ip_kernel_fallocate(p->control, 0, 0, 4096) != 0)
        err = errno;

    if (!err && !lock_byte(p->control, F_RDLCK, USED_BYTE, true))
        err = errno;

    if (!err)
        err = map_head(p);

    if (err && first)
        remove_both(dir, p->name);

    amph_ip_pages_end(p);
    if (err)
        close_files(p);

    p->named = !err;
    return err;
}

static int open_alone(struct amph_ip_pages *p)
{
    p->data = amph_ip_own(amph_ip_kernel_memfd_create("iofwd map", MFD_CLOEXEC));
    p->control = p->data < 0
                     ? -1
                     : amph_ip_own(amph_ip_kernel_memfd_create("iofwd map control", MFD_CLOEXEC));

    int err = p->control < 0 || amph_ip_kernel_ftruncate(p->control, 4096) != 0 ? errno
                                                                                : map_head(p);

    if (err)
        close_files(p);

    return err;
}

/* Gives up the pages at the last use, or at the end of this process.  The last process removes
 * them. */
static void retire(struct amph_ip_pages *p)
{
    int dir = p->named ? amph_ip_space_open() : -1;

    if (dir < 0)
        return;

    take_own(p); /* a parent or child may share the old open file, and so its lock */
    lock_byte(p->control, F_WRLCK, BUSY_BYTE, true);
    if (lock_byte(p->control, F_WRLCK, USED_BYTE, false))
        remove_both(dir, p->name);

    lock_byte(p->control, F_UNLCK, USED_BYTE, false);
    lock_byte(p->control, F_UNLCK, BUSY_BYTE, false);
    p->named = false;
    amph_ip_kernel_close(dir);
}

void amph_ip_pages_ending(void)
{
    for (struct amph_ip_pages *p = amph_ip_memory.all; p; p = p->next)
        retire(p);
}

void amph_ip_pages_leave(struct amph_ip_pages *p)
{
    if (--p->maps)
        return;

    retire(p);
    close_files(p);

    struct amph_ip_pages **link = &amph_ip_memory.all;

    while (*link != p)
        link = &(*link)->next;

    *link = p->next;
    amph_ip_memory.epoch++;
    free(p);
}

/* ---- which file it is ---- */

static bool is_good_name(const char *name, size_t len)
{
    return len > 0 && len < AMPH_IP_PAGES_NAME && name[0] != '.' &&
           strspn(name, NAME_LETTERS) == len;
}

/* Asks the server for the file's identity.  0 or an errno value. */
static int ask_name(const struct amph_fwd_file *file, int64_t space, char name[AMPH_IP_PAGES_NAME],
                    size_t *elsewhere_p)
{
    size_t len;
    int err = amph_ip_client.direct->sharemap(amph_ip_client.client, file, space, name,
                                              AMPH_IP_PAGES_NAME - 1, &len, elsewhere_p);

    if (err)
        return err;

    name[len] = 0;
    return is_good_name(name, len) ? 0 : EPROTO;
}

static struct amph_ip_pages *find_name(const char *name)
{
    struct amph_ip_pages *p = amph_ip_memory.all;

    while (p && strcmp(p->name, name) != 0)
        p = p->next;

    return p;
}

struct amph_ip_pages *amph_ip_pages_of(const struct amph_fwd_file *file, bool ask)
{
    const struct amph_fwd_ref *ref = &file->part[0];

    __typeof__(&amph_ip_memory.known[0]) k =
        &amph_ip_memory.known[(ref->handle ^ ref->handle >> 32) % AMPH_IP_PAGES_KNOWN];

    if (!amph_ip_memory.all)
        return NULL;
    if (k->handle == ref->handle && k->server == ref->server && k->epoch == amph_ip_memory.epoch)
        return k->pages;
    if (!ask)
        return NULL;

    char name[AMPH_IP_PAGES_NAME];
    size_t elsewhere;

    k->pages = ask_name(file, 0, name, &elsewhere) ? NULL : find_name(name);
    k->handle = ref->handle;
    k->server = ref->server;
    k->epoch = amph_ip_memory.epoch;

    return k->pages;
}

/* Returns whether the shared memory of this host has room for the file. */
static bool has_room(int dir, off_t len_bytes)
{
    struct statfs fs;
    return libc_fstatfs64(dir, &fs) == 0 &&
           (fs.f_blocks == 0 || (off_t)(fs.f_bavail / 2 * (uint64_t)fs.f_bsize) >= len_bytes);
}

/* Returns whether the process's hard limit of file sizes is too small for the shadow.  A write
 * beyond it would raise a signal. */
static bool is_limited(void)
{
    struct rlimit64 now;
    return amph_ip_is_limited() && amph_ip_kernel_prlimit(RLIMIT_FSIZE, NULL, &now) == 0 &&
           now.rlim_max != RLIM64_INFINITY;
}

/* Creates the pages of that name: in dir, where other processes find them, or for this process
 * alone unless strict.  Returns 0 or an errno value. */
static int make_pages(struct amph_ip_pages **p_p, int dir, const char *name, off_t len_bytes,
                      bool strict)
{
    struct amph_ip_pages *p = calloc(1, sizeof *p);
    int err;

    if (!p)
        return ENOMEM;

    strcpy(p->name, name);
    p->data = p->control = p->kind = -1;
    if (dir >= 0 && !amph_ip_memory.swept)
        sweep(dir);

    amph_ip_memory.swept = true;

    if (dir >= 0 && has_room(dir, len_bytes))
        err = open_named(p, dir);
    else
        err = strict ? ENODEV : open_alone(p);

    if (err && !strict && err != EMFILE && err != ENFILE && dir >= 0)
        err = open_alone(p);

    if (err) {
        free(p);
        return err;
    }

    *p_p = p;
    return 0;
}

/* Returns the pages of a file that this process has, or creates them and adds them to the list. */
static int find_or_make(const struct amph_fwd_file *file, int dir, off_t len_bytes, bool strict,
                        struct amph_ip_pages **p_p)
{
    char name[AMPH_IP_PAGES_NAME];
    size_t elsewhere = 0;
    int err = ask_name(file, space_id(dir), name, &elsewhere);

    if (err)
        return err;

    *p_p = find_name(name);
    if (strict && (elsewhere || dir < 0 || (*p_p && !(*p_p)->named)))
        return ENODEV;
    if (*p_p)
        return 0;

    err = make_pages(p_p, dir, name, len_bytes, strict);
    if (err)
        return err;

    (*p_p)->next = amph_ip_memory.all;
    amph_ip_memory.all = *p_p;
    amph_ip_memory.epoch++;
    return 0;
}

static bool enter(const struct amph_ip_pages *p, const struct amph_ip_pages_user *user,
                  enum amph_fwd_map_kind kind)
{
    return amph_fwd_map_kind_enter(p->kind,
                                   amph_fwd_map_kinds_at(user->st->st_dev, user->st->st_ino), kind,
                                   user->writes, p->maps > 1, amph_ip_kernel_fcntl);
}

/* Does the file's server run on this host? */
static bool is_here(const struct amph_ip_pages *p)
{
    const char *last = strrchr(p->name, '.');

    return last && strtoull(last + 1, NULL, 16) == kernel_id();
}

/* Do other processes have maps of the file itself?  0, EBUSY or EALREADY. */
static int may_map_pages(struct amph_ip_pages *p, const struct amph_ip_pages_user *user)
{
    if (p->kind < 0)
        p->kind = amph_ip_map_kinds_open();

    if (p->kind < 0)
        return 0;
    if (is_here(p) && !enter(p, user, FWD_MAPS_OF_PAGES_HERE))
        return EALREADY;

    return enter(p, user, FWD_MAPS_OF_PAGES) ? 0 : EBUSY;
}

int amph_ip_pages_join(const struct amph_fwd_file *file, const struct amph_ip_pages_user *user,
                       struct amph_ip_pages **pages_p)
{
    struct amph_ip_pages *p = NULL;

    if (is_limited())
        return ENOMEM;

    int dir = amph_ip_space_open();
    int err = find_or_make(file, dir, user->st->st_size, user->strict, &p);

    if (dir >= 0)
        amph_ip_kernel_close(dir);

    if (err)
        return err;

    p->maps++;
    err = may_map_pages(p, user);
    if (err) {
        amph_ip_pages_leave(p);
        return err;
    }

    *pages_p = p;
    return 0;
}

int amph_ip_pages_map_fd(const struct amph_ip_pages *p, bool writable)
{
    return open_again(p->data, writable ? O_RDWR : O_RDONLY);
}
