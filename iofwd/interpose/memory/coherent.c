/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that read and write files, in a process that maps forwarded files.  What they read
 * contains the changes made in memory, and what they write appears in memory.
 *
 * Layer: iofwd (interposer).  Thread rule: any thread, and signal handlers.
 *
 * They replace the functions in amph_ip_client when the first shared map is made, so that other
 * processes do not pay for them.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

#include "iofwd/calls/calls.h"
#include "iofwd/client/api/interface.h"
#include "iofwd/interpose/memory/pages.h"
#include "iofwd/wire/file.h"

#include "iofwd/calls/names.h"
#include "iofwd/interpose/entry/targets.h"

#define APPENDS 16 /* RWF_APPEND */

/* Returns the pages of file, locked by amph_ip_pages_lock and between amph_ip_pages_begin and _end.
 * NULL: there are none, and no lock is held. */
static struct amph_ip_pages *enter(const struct amph_fwd_file *file, struct amph_ip_pages_guard *g)
{
    amph_ip_pages_lock(g);

    struct amph_ip_pages *p = amph_ip_pages_of(file, true);

    if (p)
        amph_ip_pages_begin(p);
    else
        amph_ip_pages_unlock(g);

    return p;
}

static void leave(struct amph_ip_pages *p, const struct amph_ip_pages_guard *g)
{
    amph_ip_pages_end(p);
    amph_ip_pages_unlock(g);
}

/* Returns the offset at which a call has transferred len bytes. */
static off_t transfer_offset(struct amph_fwd_client *c, const struct amph_fwd_file *file,
                             size_t len)
{
    off_t at;
    return amph_ip_client.direct->lseek(c, file, 0, SEEK_CUR, &at) ? 0 : at - (off_t)len;
}

static int co_read(struct amph_fwd_client *c, const struct amph_fwd_file *file, void *buf,
                   size_t cap, size_t *len_p)
{
    struct amph_ip_pages_guard g;
    int err = amph_ip_client.direct->read(c, file, buf, cap, len_p);
    struct amph_ip_pages *p = err || !*len_p ? NULL : enter(file, &g);

    if (p) {
        if (amph_ip_pages_changed(p))
            amph_ip_pages_overlay(p, buf, transfer_offset(c, file, *len_p), *len_p);

        leave(p, &g);
    }

    return err;
}

static int co_pread(struct amph_fwd_client *c, const struct amph_fwd_file *file, off_t off,
                    void *buf, size_t cap, size_t *len_p)
{
    struct amph_ip_pages_guard g;
    int err = amph_ip_client.direct->pread(c, file, off, buf, cap, len_p);
    struct amph_ip_pages *p = err || !*len_p ? NULL : enter(file, &g);

    if (p) {
        amph_ip_pages_overlay(p, buf, off, *len_p);
        leave(p, &g);
    }

    return err;
}

static int co_write(struct amph_fwd_client *c, const struct amph_fwd_file *file, const void *data,
                    size_t len, size_t *done_p)
{
    struct amph_ip_pages_guard g;
    struct amph_ip_pages *p = enter(file, &g);
    int err = amph_ip_client.direct->write(c, file, data, len, done_p);

    if (p) {
        if (!err)
            err = amph_ip_pages_written(p, file, data, transfer_offset(c, file, *done_p), *done_p);

        leave(p, &g);
    }

    return err;
}

/* Returns whether a write goes to the end of the file because that is open for appending. */
static bool appends(struct amph_fwd_client *c, const struct amph_fwd_file *file)
{
    int flags;
    return (file->rwf & APPENDS) ||
           (amph_ip_client.direct->getflags(c, file, &flags) == 0 && (flags & O_APPEND));
}

static int co_pwrite(struct amph_fwd_client *c, const struct amph_fwd_file *file, off_t off,
                     const void *data, size_t len, size_t *done_p)
{
    struct amph_ip_pages_guard g;
    struct stat st;
    struct amph_ip_pages *p = enter(file, &g);
    int err = amph_ip_client.direct->pwrite(c, file, off, data, len, done_p);

    if (p) {
        if (!err && appends(c, file) && (err = amph_ip_client.direct->fstat(c, file, &st)) == 0)
            off = st.st_size - (off_t)*done_p;

        if (!err)
            err = amph_ip_pages_written(p, file, data, off, *done_p);

        leave(p, &g);
    }

    return err;
}

static int co_ftruncate(struct amph_fwd_client *c, const struct amph_fwd_file *file, off_t length)
{
    struct amph_ip_pages_guard g;
    struct amph_ip_pages *p = enter(file, &g);
    int err = amph_ip_client.direct->ftruncate(c, file, length);

    if (p) {
        if (!err)
            err = amph_ip_pages_resize(p, file);

        leave(p, &g);
    }

    return err;
}

static int co_fallocate(struct amph_fwd_client *c, const struct amph_fwd_file *file, int how,
                        off_t off, off_t length)
{
    struct amph_ip_pages_guard g;
    struct amph_ip_pages *p = enter(file, &g);

    if (p && (how & ~FALLOC_FL_KEEP_SIZE)) /* the call may move data to other offsets */
        (void)amph_ip_pages_flush(p, file, 0, INT64_MAX);

    int err = amph_ip_client.direct->fallocate(c, file, how, off, length);

    if (p) {
        bool moves = how & (FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE);

        if (!err && (how & ~FALLOC_FL_KEEP_SIZE))
            err = amph_ip_pages_replaced(p, file, off, moves ? INT64_MAX : off + length);
        else if (!err)
            err = amph_ip_pages_resize(p, file);

        leave(p, &g);
    }

    return err;
}

static int co_truncate(struct amph_fwd_client *c, const struct amph_fwd_file *dir, const char *path,
                       off_t length)
{
    int err = amph_ip_client.direct->truncate(c, dir, path, length);

    if (!err)
        amph_ip_maps_resize();

    return err;
}

static int co_open(struct amph_fwd_client *c, const struct amph_fwd_file *dir, const char *path,
                   int flags, mode_t mode, struct amph_fwd_file *file)
{
    int err = amph_ip_client.direct->open(c, dir, path, flags, mode, file);

    if (!err && (flags & O_TRUNC))
        amph_ip_maps_resize();

    return err;
}

/* Replaces the functions in the interposer's copy of the table.  Repeating it changes nothing. */
void amph_ip_coherent_begin(void)
{
#define REPLACE(name) __atomic_store_n(&amph_ip_client.fwd.name, co_##name, __ATOMIC_RELEASE)
    REPLACE(read);
    REPLACE(pread);
    REPLACE(write);
    REPLACE(pwrite);
    REPLACE(ftruncate);
    REPLACE(fallocate);
    REPLACE(truncate);
    REPLACE(open);
#undef REPLACE
}
