/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of files for shared maps: a process that maps the file itself shares its memory with all others of the
 * host that do so, and with the server's reads and writes.
 *
 * Used only if all servers of the job are on this host and move the same versions (versions.h).  A server on another
 * host would read and write the file through the page cache of another kernel, which the map does not share.
 *
 * If the process already has a descriptor of the file (passthrough.c), that one is mapped.  Otherwise it gets one for
 * the map and closes it afterwards.
 *
 * Layer: iofwd.  Thread rule: any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/wire.h"
#include "iofwd/client/client.h"
#include "iofwd/client/data/passed.h"
#include "iofwd/client/data/record_locks.h"
#include "iofwd/client/internal.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/client/versions.h"
#include "iofwd/wire/handshake.h"

/* The open file at the server that has it now. */
static struct amph_fwd_ref current(const struct amph_fwd_client *cl,
                                   const struct amph_fwd_file *file)
{
    const struct amph_client_record *record = cl->failover ? amph_client_record_find(file) : NULL;
    struct amph_client_sigguard g;

    if (!record)
        return file->part[0];

    amph_client_records_lock(&g);

    struct amph_fwd_ref ref = record->held;

    amph_client_records_unlock(&g);
    return ref;
}

static bool use_entry(struct passed_file *e, uint64_t handle, struct amph_fwd_map_use *use)
{
    if (!e || !amph_client_passed_enter(e, handle))
        return false;

    if (amph_client_passed_is_itself(e->fd, e->dev, e->ino)) {
        use->entry = e;
        use->fd = e->fd;
        return true;
    }

    amph_client_passed_leave(e);
    return false;
}

/* Uses the descriptor that the process has of this open file, or gets now for all its calls. */
static bool use_passed(struct amph_fwd_client *cl, const struct amph_fwd_ref *ref,
                       struct amph_fwd_map_use *use)
{
    struct passed_file *e = amph_client_passed_find(ref);

    if (e && atomic_load(&e->state) == COUNTS) {
        struct amph_client_sigguard g;

        amph_client_record_locks_enter(&g);
        amph_client_passed_ask(cl, e, ref->handle);
        amph_client_record_locks_leave(&g);
    }

    return use_entry(e, ref->handle, use);
}

/* The process holds record locks on the file, which the close of another descriptor would drop.  Uses the descriptor of
 * another open file of it. */
static bool use_same(const struct stat *st, int access, struct amph_fwd_map_use *use)
{
    for (unsigned i = 0; i < PASSED_FILES; i++) {
        struct passed_file *e = &amph_client_passthrough.entry[i];
        uint64_t handle = atomic_load(&e->handle);

        if (!handle || !use_entry(e, handle, use))
            continue;
        if (e->dev == st->st_dev && e->ino == st->st_ino &&
            (e->access == O_RDWR || e->access == access))
            return true;

        amph_client_passed_leave(e);
    }

    return false;
}

/* Has the server send a descriptor.  0 or an errno value. */
static int ask(struct amph_fwd_client *cl, const struct amph_fwd_ref *ref, int *fd_p)
{
    uint8_t body[sizeof ref->handle];
    struct amph_client_link *link;
    size_t got;
    struct amph_wr w;
    int err = amph_client_link_to(cl, ref->server, &link);

    if (err)
        return err;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u64(&w, ref->handle);
    err = amph_client_special(cl, link, FWD_SERVICE_MAP, body, sizeof body, NULL, 0, &got);

    if (!err && amph_fwd_control_take(link->control_fd, ref->handle, fd_p) != AMPH_OK)
        err = EMFILE;

    return err;
}

static int use_new(struct amph_fwd_client *cl, const struct amph_fwd_ref *ref,
                   const struct stat *st, int access, struct amph_fwd_map_use *use)
{
    struct amph_client_sigguard g;
    int err = 0;

    amph_client_record_locks_enter(&g);
    if (amph_client_record_locks_on(st->st_dev, st->st_ino))
        err = use_same(st, access, use) ? 0 : EOPNOTSUPP;
    else
        err = ask(cl, ref, &use->fd);

    if (use->fd >= 0 && !use->entry && !amph_client_passed_holds_locks(use->fd))
        use->fd = amph_client_fd_up(use->fd);

    amph_client_record_locks_leave(&g);
    return use->fd < 0 && !err ? EMFILE : err;
}

static bool is_this(int fd, const struct stat *st)
{
    struct stat here;

    return fstat(fd, &here) == 0 && here.st_dev == st->st_dev && here.st_ino == st->st_ino;
}

static bool may_use(const struct amph_fwd_file *file)
{
    return file->nparts == 1 && amph_fwd_file_type(file) == S_IFREG &&
           amph_env_bool(AMPH_ENV_IOFWD_PASSTHROUGH) &&
           amph_env_enum(AMPH_ENV_IOFWD_CONSISTENCY) == 0 && amph_thread_fd_table() == 0;
}

int amph_fwd_map_begin(struct amph_fwd_client *cl, const struct amph_fwd_file *file,
                       const struct stat *st, int access, struct amph_fwd_map_use *use)
{
    struct amph_fwd_ref ref = current(cl, file);
    const struct amph_fwd_versions *versions = amph_client_versions_common(cl);
    struct amph_client_link *link;
    int err = amph_client_link_to(cl, ref.server, &link);

    *use = (struct amph_fwd_map_use){ .fd = -1, .moves_server = cl->failover };
    if (err)
        return err;
    if (!versions || !link->near || !may_use(file))
        return EOPNOTSUPP;

    use->versions = versions->id;
    if (use_passed(cl, &ref, use))
        return 0;

    err = use_new(cl, &ref, st, access, use);
    if (!err && !is_this(use->fd, st)) {
        amph_fwd_map_end(use);
        err = EOPNOTSUPP;
    }

    return err;
}

void amph_fwd_map_end(const struct amph_fwd_map_use *use)
{
    struct amph_client_sigguard g;
    struct stat st;

    if (use->entry) {
        amph_client_passed_leave(use->entry);
        return;
    }

    amph_client_record_locks_enter(&g);

    /* Another thread may have locked the file meanwhile, and the close would drop that lock: it stays open. */
    if (fstat(use->fd, &st) == 0 && !amph_client_record_locks_on(st.st_dev, st.st_ino) &&
        !amph_client_passed_holds_locks(use->fd))
        close(use->fd);

    amph_client_record_locks_leave(&g);
}
