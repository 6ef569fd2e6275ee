/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file client over fork, its holds, its counters, and files as values.  Layer: iofwd.
 * Thread rule: see client/internal.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "base/os/thread.h"
#include "base/settings/env.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "iofwd/client/client.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/lookups.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/attach/private_server.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/file.h"
#include "iofwd/wire/handshake.h"
#include "iofwd/wire/marshal.h"

/* ---- files as values ---- */

size_t amph_fwd_file_print(const struct amph_fwd_file *file, char *buf, size_t len_bytes)
{
    size_t at = 0;

    for (uint32_t i = 0; i < file->nparts && i < AMPH_FWD_PARTS_MAX; i++) {
        int n = snprintf(buf + at, len_bytes - at, "%s%" PRIu32 ".%" PRIx64, i ? "," : "",
                         file->part[i].server, file->part[i].handle);

        if (n < 0 || (size_t)n >= len_bytes - at)
            return 0;

        at += (size_t)n;
    }

    if (file->nparts > 1 && file->unit_kib) {
        int n = snprintf(buf + at, len_bytes - at, "/%" PRIx32, file->unit_kib);
        if (n < 0 || (size_t)n >= len_bytes - at)
            return 0;

        at += (size_t)n;
    }

    return at;
}

bool amph_fwd_file_parse(const char *text, struct amph_fwd_file *file_p)
{
    struct amph_fwd_file f = { 0 };

    while (f.nparts < AMPH_FWD_PARTS_MAX) {
        char *end;
        struct amph_fwd_ref *ref = &f.part[f.nparts];

        errno = 0;

        unsigned long server = strtoul(text, &end, 10);
        if (end == text || *end != '.' || server > UINT32_MAX || errno)
            return false;

        text = end + 1;
        ref->server = (uint32_t)server;
        ref->handle = strtoull(text, &end, 16);
        if (end == text || ref->handle == 0 || errno)
            return false;

        f.nparts++;
        text = end + 1;
        if (*end == '/')
            f.unit_kib = (uint32_t)strtoul(text, NULL, 16);

        if (*end != ',')
            break;
    }

    *file_p = f;
    return true;
}

bool amph_fwd_file_equal(const struct amph_fwd_file *a, const struct amph_fwd_file *b)
{
    if (a->nparts != b->nparts)
        return false;

    for (uint32_t i = 0; i < a->nparts && i < AMPH_FWD_PARTS_MAX; i++)
        if (a->part[i].server != b->part[i].server || a->part[i].handle != b->part[i].handle)
            return false;

    return true;
}

int amph_client_file_of_fd(int fd, struct amph_fwd_file *file)
{
    static const char mark[] = "/memfd:" AMPH_FWD_PLACEHOLDER_MARK;
    char path[40], name[AMPH_FWD_TEXT_BYTES + 64];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

    /* With the preload library loaded, a readlink outside of Amphora's code would return the path
     * that the program sees, also by syscall(). */
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);

    long n = syscall(SYS_readlinkat, AT_FDCWD, path, name, sizeof name - 1);
    off_t offset = n < 0 ? 0 : lseek(fd, 0, SEEK_CUR);

    amph_client_sigguard_leave(&g);
    if (n < 0)
        return EBADF;

    name[n] = 0;
    file->nparts = 0;

    char *text = name + sizeof mark - 1;
    if (strncmp(name, mark, sizeof mark - 1) != 0)
        return 0;

    text[strcspn(text, " ")] = 0;
    if (amph_fwd_text_complete(text, sizeof name - sizeof mark + 1, offset))
        (void)amph_fwd_file_parse(text, file);

    return 0;
}

/* ---- holds and counters ---- */

/* Returns whether only this process had the file open before its exec. */
static bool was_alone(const struct amph_fwd_file *file)
{
    char entry[48];
    int len = snprintf(entry, sizeof entry, AMPH_CLIENT_EXCLUSIVE_FORMAT, file->part[0].server,
                       file->part[0].handle);

    for (const char *at = amph_client_state.inherited.alone; (at = strstr(at, entry)) != NULL;
         at += len)
        if (at[len] == '/' || at[len] == 0)
            return true;

    return false;
}

int amph_fwd_hold_only(struct amph_fwd_client *cl, const struct amph_fwd_file *files, size_t nfiles)
{
    int worst = 0;

    /* the present location of each file */
    struct amph_fwd_ref *first = calloc(nfiles + 1, sizeof *first);
    if (!first)
        return ENOMEM;

    for (size_t f = 0; f < nfiles; f++)
        if (was_alone(&files[f]))
            amph_client_coalesce_import_exclusive(cl, &files[f]);

    for (size_t f = 0; f < nfiles; f++)
        first[f] = cl->failover ? amph_client_failover_adopt(cl, &files[f]) : files[f].part[0];

    for (uint32_t i = 0; i < cl->nlinks; i++) {
        struct amph_client_link *link = &cl->link[i];
        uint64_t handles[1024];
        size_t n = 0;
        size_t got;
        struct amph_wr w;

        if (atomic_load(&link->state) != AMPH_CLIENT_LINK_READY)
            continue;

        amph_wr_init(&w, handles, sizeof handles);
        for (size_t f = 0; f < nfiles; f++)
            for (uint32_t k = 0; k < files[f].nparts; k++) {
                const struct amph_fwd_ref *ref = k ? &files[f].part[k] : &first[f];
                if (ref->server == link->server)
                    amph_wr_u64(&w, ref->handle);
            }

        n = amph_wr_len(&w);

        int err = w.bad ? ENOBUFS
                        : amph_client_special(cl, link, FWD_SERVICE_HOLD_ONLY, handles, n, NULL, 0,
                                              &got);

        worst = err ? err : worst;
    }

    free(first);
    amph_client_record_locks_hold_only(files, nfiles);
    return worst;
}

int amph_fwd_server_stats(struct amph_fwd_client *cl, uint32_t server, struct amph_fwd_stats *st)
{
    uint64_t v[11];
    struct amph_client_link *link;
    struct amph_rd r;
    size_t got;
    int err = server < cl->first || server - cl->first >= cl->nlinks
                  ? EINVAL
                  : amph_client_link_to(cl, server, &link);

    if (!err)
        err = amph_client_special(cl, link, FWD_SERVICE_STATS, NULL, 0, v, sizeof v, &got);

    if (err)
        return err;

    amph_rd_init(&r, v, got);
    st->server = (uint32_t)amph_rd_u64(&r);
    st->client = (uint32_t)amph_rd_u64(&r);
    st->calls = amph_rd_u64(&r);
    st->errors = amph_rd_u64(&r);
    st->bytes_out = amph_rd_u64(&r);
    st->bytes_in = amph_rd_u64(&r);
    st->all_calls = amph_rd_u64(&r);
    st->all_bytes_out = amph_rd_u64(&r);
    st->all_bytes_in = amph_rd_u64(&r);
    st->clients = (uint32_t)amph_rd_u64(&r);
    st->handles = (uint32_t)amph_rd_u64(&r);

    return r.bad ? EPROTO : 0;
}

bool amph_fwd_owns_fd(int fd)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();

    for (uint32_t i = 0; cl && i < cl->nlinks; i++)
        if (fd >= 0 && (cl->link[i].control_fd == fd || cl->link[i].child_control_fd == fd ||
                        amph_client_pipes_own(&cl->link[i], fd)))
            return true;

    if (amph_client_passthrough_owns(fd) || amph_client_record_locks_own(fd) ||
        amph_client_lookups_own(fd) || amph_client_private_server_is(fd) ||
        amph_client_failover_owns(fd) || amph_client_notify_owns(fd))
        return true;

    for (uint32_t i = 0; amph_client_state.inherited.any && i < amph_client_state.inherited.n; i++)
        if (fd >= 0 && amph_client_state.inherited.control_fd[i] == fd)
            return true;

    return false;
}

bool amph_fwd_give_up_fds(void)
{
    struct amph_client_sigguard g;

    /* another table's descriptors have other numbers */
    if (amph_thread_fd_table() != 0)
        return false;

    amph_client_sigguard_enter(&g);

    bool files = amph_client_passthrough_give_up();
    bool directories = amph_client_lookups_give_up();

    amph_client_sigguard_leave(&g);
    return files || directories;
}

/* ---- fork ---- */

struct amph_fwd_client *amph_client_fork_begin(void)
{
    struct amph_client_sigguard g;
    struct amph_fwd_client *first;

    /* A forked process that has made no call yet has an unused connection, opened by its parent;
     * its child must not use the same one. */
    if (!atomic_load(&amph_client_state.client) && amph_client_state.inherited.any)
        (void)amph_fwd_process(&first);

    amph_layer_event(AMPH_LAYER_FORK_BEFORE);
    amph_client_sigguard_enter(&g);
    pthread_mutex_lock(&amph_client_state.lock);
    amph_client_state.fork.guard = g;
    amph_client_state.fork.number = FWD_NUMBER_NONE;

    struct amph_fwd_client *cl = atomic_load(&amph_client_state.client);

    /* A shell may not have made a call since its server ended; the restarted server does not know
     * it. */
    if (cl)
        amph_client_check(cl);

    amph_client_failover_fork(false);
    return cl;
}

void amph_fwd_fork_before(void)
{
    struct amph_fwd_client *cl = amph_client_fork_begin();

    /* if a server cannot be reached now, the child's first call on it fails with a message */
    for (uint32_t i = 0; cl && i < cl->nlinks; i++)
        if (atomic_load(&cl->link[i].state) == AMPH_CLIENT_LINK_READY)
            amph_client_link_child(cl, &cl->link[i], &amph_client_state.fork.number);

    /* the child closes its copy of the job, which another thread may be reading now */
    amph_client_state.fork.has_boot = cl != NULL;
    if (cl)
        pthread_mutex_lock(&cl->boot_lock);
}

static void leave_fork(bool child)
{
    struct amph_client_sigguard g = amph_client_state.fork.guard;

    pthread_mutex_unlock(&amph_client_state.lock);
    amph_layer_event(child ? AMPH_LAYER_FORK_CHILD : AMPH_LAYER_FORK_PARENT);
    amph_client_sigguard_leave(&g);
}

void amph_fwd_fork_parent(pid_t pid_or_error)
{
    struct amph_fwd_client *cl = atomic_load(&amph_client_state.client);

    if (amph_client_state.fork.has_boot)
        pthread_mutex_unlock(&cl->boot_lock);

    amph_client_state.fork.has_boot = false;
    if (pid_or_error < 0)
        amph_client_failover_fork(true);

    for (uint32_t i = 0; cl && i < cl->nlinks; i++)
        if (cl->link[i].child_control_fd >= 0) {
            close(cl->link[i].child_control_fd);
            cl->link[i].child_control_fd = -1;
        }

    leave_fork(false);
}

void amph_fwd_fork_child(void)
{
    amph_client_failover_child();
    amph_client_notify_forget();

    struct amph_fwd_client *cl = atomic_load(&amph_client_state.client);
    struct amph_client_inherited *inh = &amph_client_state.inherited;

    if (cl) {
        *inh = (struct amph_client_inherited){ .any = true,
                                               .number = amph_client_state.fork.number };
        atomic_store(&cl->left, true);
        for (uint32_t i = 0; i < cl->nlinks; i++) {
            atomic_store(&cl->link[i].state, AMPH_CLIENT_LINK_DEAD); /* nothing is sent any more */
            if (cl->link[i].control_fd >= 0)
                close(cl->link[i].control_fd);

            amph_client_pipes_forget(&cl->link[i]);
            if (cl->link[i].child_control_fd < 0 || inh->n >= AMPH_FWD_PARTS_MAX)
                continue;

            inh->server[inh->n] = cl->link[i].server;
            inh->control_fd[inh->n++] = cl->link[i].child_control_fd;
        }

        inh->any = inh->n > 0;

        /* The endpoint's memory is shared with the parent, so it is not freed.  The child's first
         * call opens its own. */
        amph_boot_close(cl->boot);
        if (amph_client_state.fork.has_boot)
            pthread_mutex_unlock(&cl->boot_lock);

        amph_arena_forget_area();
        atomic_store(&amph_client_state.client, NULL);
    }

    amph_client_state.fork.has_boot = false;
    amph_client_state.new_image = false;
    leave_fork(true);
}

void amph_fwd_connect_all(void)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    struct amph_client_link *link;

    struct amph_fwd_stats stats;

    amph_client_passthrough_tables();

    /* an answer of each server shows that the network has opened its sockets, too */
    for (uint32_t i = 0; cl && i < cl->nlinks; i++)
        if (amph_client_link_to(cl, cl->first + i, &link) == 0)
            (void)amph_fwd_server_stats(cl, cl->first + i, &stats);

    if (cl && cl->failover)
        amph_client_records_open();
}

/* Without the preload library, pthread_atfork reports forks. */
static void fork_prepare(void)
{
    if (!amph_client_is_interposed())
        amph_fwd_fork_before();
}

static void forked_parent(void)
{
    if (!amph_client_is_interposed())
        amph_fwd_fork_parent(1);
}

static void forked_child(void)
{
    if (!amph_client_is_interposed())
        amph_fwd_fork_child();
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(fork_prepare, forked_parent, forked_child);
}

/* ---- exit ---- */

void amph_fwd_share(void)
{
    if (amph_fwd_process_if_open())
        amph_layer_event(AMPH_LAYER_SHARE);
}

void amph_fwd_ending(void)
{
    if (amph_fwd_process_if_open())
        amph_layer_event(AMPH_LAYER_EXIT);
}
