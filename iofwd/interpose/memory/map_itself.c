/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared maps of files themselves; see map_itself.h.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread.  No lock is held during the call that makes a map: a patched C
 * library function may use forwarded files.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "iofwd/interpose/memory/map_itself.h"

#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/fd/fdtab.h"
#include "iofwd/interpose/memory/map_file.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/interpose/path/near.h"
#include "iofwd/interpose/path/near_versions.h"
#include "iofwd/interpose/process/die.h"
#include "iofwd/wire/map_kinds.h"

static void *failed(int err)
{
    errno = err;
    return MAP_FAILED;
}

void *amph_ip_map_refused(const char *path, bool passed)
{
    const char *file = path[0] ? path : "a file";

    if (passed)
        amph_ip_die_say("%s is mapped (MAP_SHARED) by programs to which the servers pass its "
                        "descriptor and by others to which they do not, which cannot share memory; "
                        "start all of them with IOFWD_PASSTHROUGH=0",
                        file);
    else
        amph_ip_die_say("%s is mapped (MAP_SHARED) by programs that open it by themselves and by "
                        "others that do not, which cannot share memory; start all of them with "
                        "IOFWD_NEAR=0",
                        file);

    return failed(ENODEV);
}

/* Maps a file that the process has open as fd. */
static void *map_listed(enum amph_client_route way, const struct amph_ip_map_call *c, int fd,
                        struct amph_ip_mapped_file *file)
{
    void *map = amph_ip_mmap_by(way, c, fd);

    if (map == MAP_FAILED) {
        amph_ip_map_file_leave(file);
        return map;
    }

    if (amph_ip_map_file_add(file, map, c->len))
        return map;

    amph_ip_munmap_by(way, map, c->len);
    return failed(ENOMEM);
}

/* ---- by a descriptor of its own ---- */

static bool map_opened(enum amph_client_route way, const struct amph_fd_file *of,
                       const struct amph_ip_map_call *c, const struct stat *st, bool writes,
                       void **map_p)
{
    const struct amph_ip_map_way how = { .kind = FWD_MAPS_OF_FILE, .writes = writes };
    int fd = amph_ip_near_same(&of->file, st, writes ? O_RDWR : O_RDONLY);
    struct amph_ip_mapped_file *file = fd < 0 ? NULL : amph_ip_map_file_enter(st, &how);

    if (file)
        *map_p = map_listed(way, c, fd, file);

    int saved = errno;

    if (fd >= 0 &&
        !amph_ip_near_holds_locks(fd)) /* else it stays open, since the close would drop them */
        amph_do_close(fd);

    errno = saved;
    return file;
}

void *amph_ip_map_near(enum amph_client_route way, const struct amph_ip_map_call *c, int fd)
{
    struct amph_ip_map_way how = { .kind = FWD_MAPS_OF_FILE };
    struct stat st;

    /* the program may have closed it, and the number is free or that of something else */
    if (libc_fstat64(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return amph_ip_mmap_by(way, c, fd);

    how.writes = (amph_ip_kernel_fcntl(fd, F_GETFL, NULL) & O_ACCMODE) == O_RDWR;

    struct amph_ip_mapped_file *file = amph_ip_map_file_enter(&st, &how);

    if (file) {
        amph_ip_near_writing_keep(fd);
        return map_listed(way, c, fd, file);
    }

    if (errno == ENOMEM)
        return failed(ENOMEM);

    int lead = how.writes ? -1 : amph_ip_near_lead(fd);

    if (lead < 0)
        return amph_ip_map_refused("", false);

    void *map = amph_ip_mmap(way, c->at, c->len, c->prot, c->flags, lead, c->off);
    int saved = errno;

    amph_do_close(lead);
    errno = saved;
    return map;
}

/* ---- by a passed descriptor ---- */

/* Marks the file as mapped, for processes of other hosts.  A process that holds record locks on it, and changes it in
 * the map, must know that none of these has mapped it. */
static bool mark(struct amph_fd_file *of, bool strict, bool again)
{
    char name[AMPH_IP_PAGES_NAME];
    size_t len, elsewhere;

    if (__atomic_load_n(&of->marked, __ATOMIC_RELAXED) && !again)
        return true;
    if (amph_ip_client.direct->sharemap(amph_ip_client.client, &of->file, FWD_MAP_SPACE_FILE, name,
                                        sizeof name, &len, &elsewhere) != 0)
        return false;

    if (!elsewhere)
        __atomic_store_n(&of->marked, true, __ATOMIC_RELAXED);

    return !elsewhere || !strict;
}

/* May the file's pages be mapped where the kernel refuses a map of the file?  Its file system may have none; or not
 * for programs, and pages that are only read may be copied. */
static bool may_copy(int err)
{
    return err == ENODEV || err == EACCES || err == EPERM;
}

static bool map_by(enum amph_client_route way, struct amph_fd_file *of,
                   const struct amph_ip_map_call *c, const struct stat *st, bool writes,
                   const struct amph_fwd_map_use *use, void **map_p)
{
    const struct amph_ip_map_way how = {
        .kind = FWD_MAPS_PASSED, .writes = writes, .versions = use->versions, .path = of->path
    };
    bool strict = (c->prot & PROT_WRITE) && of->locked;
    struct amph_ip_mapped_file *file = mark(of, strict, use->moves_server)
                                           ? amph_ip_map_file_enter(st, &how)
                                           : NULL;

    if (!file)
        return false;

    *map_p = map_listed(way, c, use->fd, file);
    return *map_p != MAP_FAILED || !may_copy(errno);
}

static bool map_passed(enum amph_client_route way, struct amph_fd_file *of,
                       const struct amph_ip_map_call *c, const struct stat *st, bool writes,
                       void **map_p)
{
    struct amph_fwd_map_use use;
    int err = amph_ip_client.fwd.map_begin(amph_ip_client.client, &of->file, st,
                                           writes ? O_RDWR : O_RDONLY, &use);

    if (err)
        return false;

    bool mapped = map_by(way, of, c, st, writes, &use, map_p);
    int saved = errno;

    amph_ip_client.fwd.map_end(&use);
    errno = saved;
    return mapped;
}

bool amph_ip_map_itself(enum amph_client_route way, struct amph_fd_file *of,
                        const struct amph_ip_map_call *c, const struct stat *st, bool writes,
                        void **map_p)
{
    return map_opened(way, of, c, st, writes, map_p) || map_passed(way, of, c, st, writes, map_p);
}

bool amph_ip_map_itself_private(enum amph_client_route way, const struct amph_fd_file *of,
                                const struct amph_ip_map_call *c, const struct stat *st, int access,
                                void **map_p)
{
    struct amph_fwd_map_use use;

    if ((off_t)c->len < AMPH_IP_MAP_PRIVATE_MIN || st->st_size - c->off < AMPH_IP_MAP_PRIVATE_MIN ||
        amph_ip_client.fwd.map_begin(amph_ip_client.client, &of->file, st, access, &use) != 0)
        return false;

    *map_p = amph_ip_mmap_by(way, c, use.fd);

    bool mapped = *map_p != MAP_FAILED || !may_copy(errno);
    int saved = errno;

    amph_ip_client.fwd.map_end(&use);
    errno = saved;
    return mapped;
}
