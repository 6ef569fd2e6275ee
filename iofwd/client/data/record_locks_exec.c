/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Record locks over exec: the passed descriptors of locked files that the new image gets.
 *
 * Over exec a process keeps its record locks.  The kernel would drop those that the process itself holds
 * (record_locks.c) with the first descriptor of their file that is closed, so these descriptors stay open.  The new
 * image finds their numbers in the setting IOFWD_PRIVATE_CLIENT, beside its open files, and uses them for locks only.
 *
 * Layer: iofwd.  Thread rule: as record_locks.c.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/log.h"
#include "iofwd/client/data/passed.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/data/record_locks.h"
#include "iofwd/client/internal.h"

static struct {
    struct kept_file kept[AMPH_CLIENT_KEPT_MAX];
    _Atomic uint32_t nkept;
    bool passes_on;         /* over exec: descriptors are not closed by it */
    _Atomic pid_t has_said; /* the process that has said that locks are lost */
} over_exec;

/* ---- in the new image ---- */

bool amph_client_kept_any(void)
{
    return atomic_load(&over_exec.nkept) > 0;
}

static void close_kept(struct kept_file *k)
{
    if (amph_client_passed_is_itself(k->fd, k->dev, k->ino))
        close(k->fd);

    k->fd = -1;
    atomic_fetch_sub(&over_exec.nkept, 1);
}

static struct kept_file *find(const struct amph_fwd_ref *ref)
{
    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd >= 0 && over_exec.kept[i].ref.handle == ref->handle &&
            over_exec.kept[i].ref.server == ref->server)
            return &over_exec.kept[i];

    return NULL;
}

const struct kept_file *amph_client_kept_find(const struct amph_fwd_ref *ref)
{
    return find(ref);
}

void amph_client_kept_close(const struct amph_fwd_ref *ref)
{
    struct kept_file *k = find(ref);

    if (k)
        close_kept(k);
}

void amph_client_kept_close_file(dev_t dev, ino_t ino)
{
    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd >= 0 && over_exec.kept[i].dev == dev &&
            over_exec.kept[i].ino == ino)
            close_kept(&over_exec.kept[i]);
}

void amph_client_kept_forget(void)
{
    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd >= 0)
            close_kept(&over_exec.kept[i]);

    over_exec.passes_on = false;
}

static void adopt(const struct amph_client_kept *came)
{
    struct kept_file *k = &over_exec.kept[atomic_load(&over_exec.nkept)];
    struct stat st;

    if (amph_client_state.host.fstat(came->fd, &st) != 0)
        return;

    fcntl(came->fd, F_SETFD, FD_CLOEXEC); /* exec left it open for this image only */
    *k = (struct kept_file){ .fd = came->fd,
                             .access = fcntl(came->fd, F_GETFL) & O_ACCMODE,
                             .dev = st.st_dev,
                             .ino = st.st_ino,
                             .ref = came->ref };
    atomic_fetch_add(&over_exec.nkept, 1);
}

void amph_client_kept_inherit(const struct amph_client_inherited *inherited)
{
    for (unsigned i = 0; i < AMPH_CLIENT_KEPT_MAX; i++)
        over_exec.kept[i].fd = -1;

    for (unsigned i = 0; i < inherited->nkept; i++)
        adopt(&inherited->kept[i]);

    for (unsigned i = 0; i < AMPH_CLIENT_KEPT_MAX; i++) {
        const struct kept_file *k = &over_exec.kept[i];

        if (k->fd >= 0 && k->access == O_RDWR)
            amph_client_record_locks_adopt(k->fd, k->dev, k->ino);
    }
}

static bool is_among(const struct amph_fwd_ref *ref, const struct amph_fwd_file *files,
                     size_t nfiles)
{
    for (size_t i = 0; i < nfiles; i++)
        if (files[i].nparts == 1 && files[i].part[0].server == ref->server &&
            files[i].part[0].handle == ref->handle)
            return true;

    return false;
}

void amph_client_record_locks_hold_only(const struct amph_fwd_file *files, size_t nfiles)
{
    struct amph_client_sigguard g;

    amph_client_record_locks_enter(&g);
    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++) {
        struct kept_file *k = &over_exec.kept[i];

        if (k->fd < 0 || is_among(&k->ref, files, nfiles))
            continue;

        /* the drop closes it, too */
        if (!amph_client_record_locks_drop(k->dev, k->ino))
            close_kept(k);
    }

    amph_client_record_locks_leave(&g);
}

bool amph_client_record_locks_own(int fd)
{
    for (unsigned i = 0; fd >= 0 && amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd == fd)
            return true;

    return false;
}

/* ---- before exec ---- */

/* Says it once in a process: execvp tries one directory of PATH after the other, each time with the same files. */
static void say_that_locks_are_lost(void)
{
    pid_t self = getpid();

    if (atomic_exchange(&over_exec.has_said, self) != self)
        amph_warn("a program that is executed loses record locks: its process has more than %u "
                  "locked files open; set IOFWD_PASSTHROUGH=0",
                  AMPH_CLIENT_KEPT_MAX);
}

/* Appends "+SERVER.HANDLE=FD"; without the text, for which there is room for AMPH_CLIENT_KEPT_MAX files, the
 * descriptor is closed, and its locks with it. */
static size_t pass_on(int fd, const struct amph_fwd_ref *ref, char *buf, size_t len_bytes)
{
    int n = snprintf(buf, len_bytes, AMPH_CLIENT_KEPT_FORMAT, ref->server, ref->handle, fd);

    if (n < 0 || (size_t)n >= len_bytes) {
        say_that_locks_are_lost();
        buf[0] = 0;
        return 0;
    }

    fcntl(fd, F_SETFD, 0);
    over_exec.passes_on = true;
    return (size_t)n;
}

size_t amph_client_record_locks_exec(const struct amph_fwd_kept *kept, char *buf, size_t len_bytes)
{
    struct amph_client_sigguard g;
    size_t at = 0;
    unsigned n = 0;

    buf[0] = 0;
    amph_client_record_locks_enter(&g);
    for (unsigned i = 0; i < PASSED_FILES; i++) {
        struct passed_file *e = &amph_client_passthrough.entry[i];
        struct amph_fwd_ref ref = { .server = e->server, .handle = atomic_load(&e->handle) };

        /* each descriptor of a locked file, since the close of any one drops the locks */
        if (amph_client_record_locks_on(e->dev, e->ino) && amph_client_passed_has(e) &&
            amph_client_keeps(kept, &ref)) {
            at += pass_on(e->fd, &ref, buf + at, n < AMPH_CLIENT_KEPT_MAX ? len_bytes - at : 0);
            n++;
        }
    }

    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd >= 0 && amph_client_keeps(kept, &over_exec.kept[i].ref))
            at += pass_on(over_exec.kept[i].fd, &over_exec.kept[i].ref, buf + at, len_bytes - at);

    if (amph_client_record_locks_are_remote() && len_bytes - at > 1)
        at = (size_t)(stpcpy(buf + at, AMPH_CLIENT_KEPT_REMOTE) - buf);

    amph_client_record_locks_leave(&g);
    return at;
}

void amph_client_record_locks_close_over_exec(void)
{
    for (unsigned i = 0; over_exec.passes_on && i < PASSED_FILES; i++)
        if (amph_client_passed_has(&amph_client_passthrough.entry[i]))
            fcntl(amph_client_passthrough.entry[i].fd, F_SETFD, FD_CLOEXEC);

    for (unsigned i = 0; amph_client_kept_any() && i < AMPH_CLIENT_KEPT_MAX; i++)
        if (over_exec.kept[i].fd >= 0)
            fcntl(over_exec.kept[i].fd, F_SETFD, FD_CLOEXEC);
}
