/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file client over exec and posix_spawn.  Layer: iofwd.  Thread rule: see client/internal.h.
 *
 * All connections of a client are close-on-exec.  If the program that is executed inherits open files, it gets
 * connections of its own that hold these files, and no others, until it makes its first call:
 *
 * - exec: the successor of the process's own connection (wire/handshake.h);
 * - posix_spawn, and exec in a vfork child, which shares the client with its parent: a connection for a child.
 *
 * They have never carried anything else, and without the job's key nobody can speak on them.
 *
 * If no successor can be made (the server may be out of descriptors), the process's own connection stays open over
 * exec, and with it all files of the process, until the new image says which ones it has.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/thread.h"
#include "base/settings/env.h"
#include "iofwd/client/client.h"
#include "iofwd/client/coalesce/coalesce.h"
#include "iofwd/client/data/passthrough.h"
#include "iofwd/client/lookups.h"
#include "iofwd/client/recovery/failover.h"
#include "iofwd/client/recovery/record.h"
#include "iofwd/client/state.h"
#include "iofwd/wire/handshake.h"

/* By the kernel's own call: these descriptors do not exist for the program. */
static void close_at_exec(int fd, bool closes)
{
    amph_client_state.host.fcntl(fd, F_SETFD, closes ? (void *)FD_CLOEXEC : NULL);
}

/* ---- the files that are kept ---- */

/* The handles of these files at one server, without more than FWD_KEEP_MAX. */
struct handles {
    uint32_t server;
    uint32_t n; /* or FWD_KEEP_ALL: there are more */
    uint64_t handle[FWD_KEEP_MAX];
};

static void note_any(const struct amph_fwd_file *file, void *arg)
{
    *(bool *)arg = true;
}

static bool keeps_any(const struct amph_fwd_kept *kept)
{
    bool any = false;

    kept->each(kept, note_any, &any);
    return any;
}

struct sought {
    const struct amph_fwd_ref *ref;
    bool found;
};

static void seek(const struct amph_fwd_file *file, void *arg)
{
    struct sought *s = arg;

    s->found = s->found || (file->nparts == 1 && file->part[0].server == s->ref->server &&
                            file->part[0].handle == s->ref->handle);
}

bool amph_client_keeps(const struct amph_fwd_kept *kept, const struct amph_fwd_ref *ref)
{
    struct sought s = { .ref = ref };

    kept->each(kept, seek, &s);
    return s.found;
}

static void note_handles(const struct amph_fwd_file *file, void *arg)
{
    struct handles *h = arg;

    for (uint32_t i = 0; i < file->nparts; i++) {
        if (file->part[i].server != h->server || h->n == FWD_KEEP_ALL)
            continue;

        if (h->n < FWD_KEEP_MAX)
            h->handle[h->n++] = file->part[i].handle;
        else
            h->n = FWD_KEEP_ALL;
    }
}

/* failover: a file may be at another server than its name says; the new image finds that out. */
static void find_handles(struct handles *h, const struct amph_fwd_kept *kept, uint32_t server,
                         bool failover)
{
    h->server = server;
    h->n = failover ? FWD_KEEP_ALL : 0;
    kept->each(kept, note_handles, h);
}

/* ---- connections for the new image ---- */

static void add(struct amph_fwd_exec *exec, uint32_t server, int fd, bool made)
{
    close_at_exec(fd, false);
    exec->server[exec->n] = server;
    exec->fd[exec->n] = fd;
    exec->made[exec->n++] = made;
}

/* Of a process that goes on as the same client. */
static void add_successor(struct amph_fwd_exec *exec, const struct amph_fwd_kept *kept,
                          uint32_t server, int control_fd)
{
    struct handles h;
    int fd;

    find_handles(&h, kept, server, amph_client_failover_on());
    if (amph_fwd_control_successor(control_fd, h.handle, h.n, &fd) == AMPH_OK &&
        (fd = amph_client_fd_up(fd)) >= 0)
        add(exec, server, fd, true);
    else
        add(exec, server, control_fd, false);
}

/* For another process: of a connection that amph_client_link_child has made. */
static void keep_only(const struct amph_fwd_kept *kept, uint32_t server, int fd)
{
    struct handles h;

    find_handles(&h, kept, server, amph_client_failover_on());
    if (h.n != FWD_KEEP_ALL)
        (void)amph_fwd_control_keep_only(fd, h.handle, h.n); /* else its server has ended */
}

static void add_child(struct amph_fwd_exec *exec, const struct amph_fwd_kept *kept,
                      struct amph_fwd_client *cl, struct amph_client_link *link)
{
    struct amph_fwd_welcome wc;
    int fd;

    if (amph_client_handshake(cl, link, FWD_HELLO_CHILD, exec->number, &wc, &fd) != AMPH_OK ||
        (fd = amph_client_fd_up(fd)) < 0)
        return;

    exec->number = wc.number;
    keep_only(kept, link->server, fd);
    add(exec, link->server, fd, true);
}

/* A forked child has made no call: may its connection, which has never carried anything, go to the new image as it
 * is? */
static bool is_passed_whole(const struct amph_fwd_kept *kept)
{
    return kept->all && !amph_client_lookups_any() && !amph_client_state.files.first;
}

static bool is_ready(struct amph_client_link *link)
{
    return atomic_load(&link->state) == AMPH_CLIENT_LINK_READY;
}

static void add_connections(struct amph_fwd_exec *exec, const struct amph_fwd_kept *kept,
                            struct amph_fwd_client *cl, bool own)
{
    const struct amph_client_inherited *inh = &amph_client_state.inherited;

    for (uint32_t i = 0; cl && i < cl->nlinks && exec->n < AMPH_FWD_PARTS_MAX; i++) {
        struct amph_client_link *link = &cl->link[i];

        if (!is_ready(link))
            continue;

        if (own)
            add_successor(exec, kept, link->server, link->control_fd);
        else
            add_child(exec, kept, cl, link);
    }

    for (uint32_t i = 0; !cl && inh->any && i < inh->n; i++) {
        if (inh->control_fd[i] < 0)
            continue;

        if (is_passed_whole(kept))
            add(exec, inh->server[i], inh->control_fd[i], false);
        else
            add_successor(exec, kept, inh->server[i], inh->control_fd[i]);
    }
}

/* ":NUMBER[:SERVER=FD]..."; returns its length, or len_bytes if it does not fit. */
static size_t print_connections(const struct amph_fwd_exec *exec, char *buf, size_t len_bytes)
{
    int n = snprintf(buf, len_bytes, ":%" PRIu32, exec->number);
    size_t at = (size_t)n;

    for (uint32_t i = 0; i < exec->n && at < len_bytes; i++) {
        n = snprintf(buf + at, len_bytes - at, ":%" PRIu32 "=%d", exec->server[i], exec->fd[i]);
        at += (size_t)n;
    }

    return at < len_bytes ? at : len_bytes;
}

/* ---- exec ---- */

static size_t print_exec(const struct amph_fwd_exec *exec, char *buf, size_t len_bytes)
{
    int n = snprintf(buf, len_bytes, "IOFWD_PRIVATE_CLIENT=%ld", (long)getpid());

    if (n < 0 || (size_t)n >= len_bytes)
        return 0;

    size_t at = (size_t)n + print_connections(exec, buf + n, len_bytes - (size_t)n);

    return at < len_bytes ? at : 0;
}

size_t amph_fwd_exec_begin(struct amph_fwd_exec *exec, const struct amph_fwd_kept *kept, char *buf,
                           size_t len_bytes)
{
    struct amph_fwd_client *cl = amph_fwd_process_if_open();
    const struct amph_client_inherited *inh = &amph_client_state.inherited;
    char alone[sizeof inh->alone] = "";
    bool own = cl && cl->pid == getpid(); /* false in a vfork child */
    struct amph_client_sigguard g;
    size_t len = 0;

    amph_client_sigguard_enter(&g);
    exec->n = 0;
    exec->number = own ? cl->number : FWD_NUMBER_NONE;
    if (!cl)
        exec->number = inh->number;

    if (own)
        amph_client_coalesce_export_exclusive(alone, sizeof alone);

    amph_layer_event(AMPH_LAYER_EXEC);
    if (own && cl->failover)
        amph_client_failover_exec();

    amph_client_record_locks_close_over_exec();
    if (keeps_any(kept)) {
        add_connections(exec, kept, cl, own);
        amph_client_records_close_at_exec(false);
        len = exec->n ? print_exec(exec, buf, len_bytes) : 0;
    }

    if (len && own && amph_thread_fd_table() == 0)
        len += amph_client_record_locks_exec(kept, buf + len, len_bytes - len);

    if (len && strlen(alone) < len_bytes - len)
        len = (size_t)(stpcpy(buf + len, alone) - buf);

    amph_client_sigguard_leave(&g);
    return len;
}

void amph_fwd_exec_end(struct amph_fwd_exec *exec)
{
    struct amph_client_sigguard g;

    amph_client_sigguard_enter(&g);
    amph_client_record_locks_close_over_exec();
    for (uint32_t i = 0; i < exec->n; i++) {
        if (exec->made[i])
            close(exec->fd[i]);
        else
            close_at_exec(exec->fd[i], true);
    }

    exec->n = 0;
    amph_client_records_close_at_exec(true);
    amph_client_sigguard_leave(&g);
}

/* ---- posix_spawn ---- */

/* Moves both ends of a pipe to high descriptor numbers; the program that is started inherits the first one. */
static bool open_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return false;

    for (int i = 0; i < 2; i++)
        ends[i] = amph_client_fd_up(low[i]);

    if (ends[0] >= 0)
        close_at_exec(ends[0], false);

    return ends[0] >= 0 && ends[1] >= 0;
}

/* "IOFWD_PRIVATE_CLIENT=-FD.PIPE...": which process the program is, is not known yet.  It reads that from this pipe, so
 * that no other process takes its place which gets its environment from a program in between that does not forward. */
static size_t print_spawn(const struct amph_fwd_exec *exec, char *buf, size_t len_bytes)
{
    int *ends = amph_client_state.fork.number_pipe;
    struct stat st;

    if (exec->n == 0 || !open_pipe(ends) || amph_client_state.host.fstat(ends[0], &st) != 0)
        return 0;

    int n = snprintf(buf, len_bytes, "IOFWD_PRIVATE_CLIENT=-%d.%020" PRIu64, ends[0],
                     (uint64_t)st.st_ino);

    if (n < 0 || (size_t)n >= len_bytes)
        return 0;

    size_t at = (size_t)n + print_connections(exec, buf + n, len_bytes - (size_t)n);

    return at < len_bytes ? at : 0;
}

size_t amph_fwd_spawn_before(const struct amph_fwd_kept *kept, char *buf, size_t len_bytes)
{
    struct amph_fwd_client *cl = amph_client_fork_begin();
    struct amph_fwd_exec exec = { .number = FWD_NUMBER_NONE };

    if (!keeps_any(kept))
        return 0;

    for (uint32_t i = 0; cl && i < cl->nlinks && exec.n < AMPH_FWD_PARTS_MAX; i++) {
        struct amph_client_link *link = &cl->link[i];

        /* if a server cannot be reached now, the program's first call on it fails with a message */
        if (!is_ready(link) || amph_client_link_child(cl, link, &exec.number) != AMPH_OK)
            continue;

        keep_only(kept, link->server, link->child_control_fd);
        add(&exec, link->server, link->child_control_fd, true);
    }

    amph_client_records_close_at_exec(false);
    return print_spawn(&exec, buf, len_bytes);
}

void amph_fwd_spawn_after(pid_t pid)
{
    int *ends = amph_client_state.fork.number_pipe;

    /* a few bytes find room in a pipe; a program that has closed its end does not need them */
    if (pid > 0 && ends[1] >= 0)
        (void)!amph_client_state.host.write(ends[1], &pid, sizeof pid);

    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);

        ends[i] = -1;
    }

    amph_client_records_close_at_exec(true);
    amph_fwd_fork_parent(-1); /* the child shares no memory with this process */
}

/* ---- the new image ---- */

/* [+SERVER.HANDLE=FD]...[+]; returns what follows. */
static const char *parse_kept(const char *text, struct amph_client_inherited *inh)
{
    struct amph_client_kept kept;

    while (*text == '+') {
        int used = 0;

        if (sscanf(text, AMPH_CLIENT_KEPT_SCAN, &kept.ref.server, &kept.ref.handle, &kept.fd,
                   &used) == 3 &&
            used > 0 && inh->nkept < AMPH_CLIENT_KEPT_MAX) {
            inh->kept[inh->nkept++] = kept;
            text += used;
        } else {
            inh->locks_remote = true;
            text++;
        }
    }

    return text;
}

/* IOFWD_PRIVATE_CLIENT: PID:NUMBER[:SERVER=FD]...[+SERVER.HANDLE=FD]...[+][/SERVER.HANDLE]... */
static bool parse_inherited(const char *text, struct amph_client_inherited *inh)
{
    long pid;
    int used = 0;

    if (sscanf(text, "%ld:%" SCNu32 "%n", &pid, &inh->number, &used) != 2 || pid != (long)getpid())
        return false;

    text += used;
    while (*text == ':' && inh->n < AMPH_FWD_PARTS_MAX) {
        int fd;

        used = 0;
        if (sscanf(text, ":%" SCNu32 "=%d%n", &inh->server[inh->n], &fd, &used) != 2 || used == 0)
            return false;

        inh->control_fd[inh->n++] = fd;
        text += used;
    }

    snprintf(inh->alone, sizeof inh->alone, "%s", parse_kept(text, inh));
    return inh->n > 0;
}

bool amph_fwd_inherited(void)
{
    if (!amph_client_state.looked) {
        struct amph_client_inherited inh = { 0 };

        amph_client_state.looked = true;
        if (!amph_client_state.inherited.any &&
            parse_inherited(amph_env_str(AMPH_ENV_IOFWD_INHERITED), &inh)) {
            inh.any = true;
            amph_client_state.inherited = inh;
            amph_client_state.new_image = true;
        }
    }

    return amph_client_state.new_image;
}
