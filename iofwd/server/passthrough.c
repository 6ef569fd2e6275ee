/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passthrough, the server's side (wire/passthrough.h): passes descriptors of regular files and directories to
 * clients that could open them by themselves (trust.h), and collects what these count.
 *
 * Layer: iofwd.
 * Thread rule: progress thread.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "iofwd/server/internal.h"
#include "iofwd/wire/handshake.h"

/* ---- who gets descriptors ---- */

/* Looking at a process takes 20 us, so one that can change its rights is looked at again after this time. */
#define TRUST_NS AMPH_NS_PER_MS

static bool is_trusted(const struct amph_server *s, struct amph_server_peer *p)
{
    struct amph_server_passthrough *pt = &p->passthrough;
    uint64_t now = amph_now_ns();
    bool looks = pt->trust == AMPH_SERVER_TRUST_UNKNOWN ||
                 (pt->trust == AMPH_SERVER_TRUST_NOW && now - pt->looked_ns >= TRUST_NS);

    if (looks) {
        pt->trust = amph_server_trust_of(&s->rights, p->sender);
        pt->looked_ns = now;
    }

    return pt->trust != AMPH_SERVER_TRUST_NONE;
}

/* The memory that the client shares with the server; NULL: it has none. */
static struct amph_fwd_passthrough *shared_with(const struct amph_server_peer *p)
{
    if (!p->has_area || !p->area.local || p->part_len < AMPH_AREA_SHARED_BYTES)
        return NULL;

    uint64_t at = p->part_at + p->part_len - AMPH_AREA_SHARED_BYTES;
    uint8_t *shared = (uint8_t *)p->area.local + at;

    return (uintptr_t)shared % _Alignof(struct amph_fwd_passthrough) == 0 ? (void *)shared : NULL;
}

static bool is_passable(const struct amph_server_handle *h)
{
    return h->regular && h->line != FWD_VERSIONS_LINE_NONE && !h->exec.direct &&
           !h->exec.direct_asked;
}

/* While a call on the file is executed, its thread may change what is_passable looks at; and the pieces of a
 * call belong together. */
static bool is_in_use(const struct amph_server_handle *h)
{
    return h->progress.busy || h->progress.reserved;
}

static uint32_t free_slot(const struct amph_server_peer *p, const struct amph_server_handle *h)
{
    uint32_t slot = FWD_PASSTHROUGH_NONE;

    for (uint32_t i = FWD_PASSTHROUGH_MAX; i-- > 0;) {
        if (p->passthrough.file[i].handle == h)
            return FWD_PASSTHROUGH_NONE; /* it has it */
        if (!p->passthrough.file[i].handle)
            slot = i;
    }

    return slot;
}

/* Has the client locked this file, or one with the same versions? */
static bool is_locked(const struct amph_server_peer *p, const struct amph_fwd_passthrough *shared,
                      const struct amph_server_handle *h)
{
    for (uint32_t i = 0; i < FWD_PASSTHROUGH_MAX; i++)
        if (p->passthrough.file[i].handle && p->passthrough.file[i].handle->line == h->line &&
            atomic_load(&shared->file[i].locked))
            return true;

    return false;
}

static bool send_descriptor(const struct amph_server_conn *c, uint64_t handle, int fd)
{
    uint8_t out[FWD_FRAME_HEAD_BYTES + sizeof handle];
    struct amph_wr w;

    amph_wr_init(&w, out + FWD_FRAME_HEAD_BYTES, sizeof handle);
    amph_wr_u64(&w, handle);

    size_t n = amph_fwd_frame_build(out, FWD_FRAME_DESCRIPTOR, out + FWD_FRAME_HEAD_BYTES,
                                    sizeof handle);

    return amph_fwd_control_pass(c->fd, out, n, fd);
}

static bool may_have_descriptors(const struct amph_server *s, struct amph_server_peer *p)
{
    return s->passes && p->conn && !p->gone && shared_with(p) && is_trusted(s, p);
}

int amph_server_passthrough_give(struct amph_server *s, struct amph_server_peer *p, uint64_t number,
                                 struct amph_fwd_passed *passed_p)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_server_handle *h = amph_server_handle_find(s, number);
    struct amph_fwd_passthrough *shared = shared_with(p);

    if (!h || !amph_server_handle_held_by(p, h))
        return EBADF;
    if (!may_have_descriptors(s, p))
        return EOPNOTSUPP;
    if (is_in_use(h) || is_locked(p, shared, h))
        return EAGAIN;
    if (!is_passable(h))
        return EOPNOTSUPP;

    uint32_t slot = free_slot(p, h);

    if (slot == FWD_PASSTHROUGH_NONE || !send_descriptor(p->conn, h->number, h->fd))
        return EAGAIN;

    p->passthrough.nfiles++;
    p->passthrough.file[slot].handle = h;
    p->passthrough.file[slot].seen = (struct amph_server_passed_counts){ 0 };
    memset(&shared->file[slot], 0, sizeof shared->file[slot]);
    atomic_store(&shared->file[slot].shares_offset, h->progress.nholders > 1);
    h->progress.npassed++;

    *passed_p = (struct amph_fwd_passed){ .slot = slot,
                                          .line = h->line,
                                          .versions = s->versions ? s->versions->id : 0 };
    amph_count(SERVER_PASSED);
    return 0;
}

/* The map is the kernel's, so neither calls that are under way nor O_DIRECT matter, nor is anything counted. */
int amph_server_passthrough_give_map(struct amph_server *s, struct amph_server_peer *p,
                                     uint64_t number)
{
    amph_server_assert_owner(&s->progress.owner);

    const struct amph_server_handle *h = amph_server_handle_find(s, number);

    if (!h || !amph_server_handle_held_by(p, h))
        return EBADF;
    if (!may_have_descriptors(s, p) || !h->regular || h->line == FWD_VERSIONS_LINE_NONE)
        return EOPNOTSUPP;

    return send_descriptor(p->conn, h->number, h->fd) ? 0 : EAGAIN;
}

static bool is_directory(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Look-ups below an export that contains others are the server's, since it must not enter those. */
static int pass_directory(const struct amph_server_peer *p, const struct amph_server_export *e,
                          uint64_t handle, int fd)
{
    if (e->outer || !is_directory(fd))
        return EOPNOTSUPP;

    return send_descriptor(p->conn, handle, fd) ? 0 : EAGAIN;
}

int amph_server_passthrough_give_directory(struct amph_server *s, struct amph_server_peer *p,
                                           uint64_t directory, const char *path,
                                           uint32_t *name_bytes_p)
{
    amph_server_assert_owner(&s->progress.owner);

    const struct amph_server_handle *h = directory ? amph_server_handle_find(s, directory) : NULL;
    struct amph_server_path pl;

    if (!may_have_descriptors(s, p))
        return EOPNOTSUPP;

    *name_bytes_p = 0;
    if (directory)
        return h && amph_server_handle_held_by(p, h)
                   ? pass_directory(p, h->export, directory, h->fd)
                   : EBADF;

    int err = amph_server_path_find(&s->exports, NULL, -1, path, &pl);

    if (err)
        return err;

    *name_bytes_p = (uint32_t)pl.export->name_len;
    return pass_directory(p, pl.export, 0, pl.export->fd);
}

static void notify_holders(struct amph_server_peer *p, const struct amph_server_handle *h,
                           bool is_shared)
{
    struct amph_fwd_passthrough *shared = p->passthrough.nfiles ? shared_with(p) : NULL;

    for (uint32_t i = 0; shared && i < FWD_PASSTHROUGH_MAX; i++)
        if (p->passthrough.file[i].handle == h)
            atomic_store(&shared->file[i].shares_offset, is_shared);
}

void amph_server_passthrough_holders(struct amph_server *s, const struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    bool is_shared = h->progress.nholders > 1;

    /* a call of a client that has just left may still move the offset */
    if (h->progress.npassed == 0 ||
        (!is_shared && (h->progress.busy || h->progress.reserved || h->progress.inflight > 0)))
        return;

    for (uint32_t i = 0; s->progress.peer && i < s->max_peers; i++)
        if (s->progress.peer[i])
            notify_holders(s->progress.peer[i], h, is_shared);
}

/* ---- what clients count ---- */

static uint64_t grown(_Atomic uint64_t *counter, uint64_t *seen)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    uint64_t n = now - *seen;

    *seen = now;
    return n;
}

static void collect_file(struct amph_server_peer *p, struct amph_server_passed *passed,
                         struct amph_fwd_passthrough_file *f)
{
    struct amph_server_handle *h = passed->handle;
    uint64_t calls = grown(&f->calls, &passed->seen.calls);
    uint64_t errors = grown(&f->errors, &passed->seen.errors);
    uint64_t written = grown(&f->bytes_written, &passed->seen.bytes_written);
    uint64_t read = grown(&f->bytes_read, &passed->seen.bytes_read);

    p->calls += calls;
    p->errors += errors;
    p->bytes_out += written;
    p->bytes_in += read;

    h->progress.calls += calls;
    h->progress.bytes_out += written;
    h->progress.bytes_in += read;

    amph_count_n(AMPH_COUNTER_SERVER_CALLS, calls);
    amph_count_n(AMPH_COUNTER_SERVER_CALLS_PASSED, calls);
    amph_count_n(AMPH_COUNTER_SERVER_ERRORS, errors);
    amph_count_n(AMPH_COUNTER_SERVER_BYTES_WRITTEN, written);
    amph_count_n(AMPH_COUNTER_SERVER_BYTES_READ, read);
}

static void collect_lookups(struct amph_server_peer *p, struct amph_fwd_passthrough_lookups *l)
{
    uint64_t calls = grown(&l->calls, &p->passthrough.lookups_seen);
    uint64_t errors = grown(&l->errors, &p->passthrough.lookup_errors_seen);

    p->calls += calls;
    p->errors += errors;
    amph_count_n(AMPH_COUNTER_SERVER_CALLS, calls);
    amph_count_n(AMPH_COUNTER_SERVER_CALLS_PASSED, calls);
    amph_count_n(AMPH_COUNTER_SERVER_ERRORS, errors);
}

void amph_server_passthrough_collect(struct amph_server *s, struct amph_server_peer *p)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_fwd_passthrough *shared = shared_with(p);

    if (shared)
        collect_lookups(p, &shared->lookups);

    for (uint32_t i = 0; shared && i < FWD_PASSTHROUGH_MAX; i++)
        if (p->passthrough.file[i].handle)
            collect_file(p, &p->passthrough.file[i], &shared->file[i]);
}

void amph_server_passthrough_collect_all(struct amph_server *s)
{
    amph_server_assert_owner(&s->progress.owner);

    for (uint32_t i = 0; s->progress.peer && i < s->max_peers; i++)
        if (s->progress.peer[i] && !s->progress.peer[i]->gone)
            amph_server_passthrough_collect(s, s->progress.peer[i]);
}

void amph_server_passthrough_drop(struct amph_server *s, struct amph_server_peer *p,
                                  const struct amph_server_handle *h)
{
    amph_server_assert_owner(&s->progress.owner);

    struct amph_fwd_passthrough *shared = p->passthrough.nfiles || !h ? shared_with(p) : NULL;

    if (shared && !h)
        collect_lookups(p, &shared->lookups);

    for (uint32_t i = 0; shared && i < FWD_PASSTHROUGH_MAX; i++) {
        struct amph_server_passed *passed = &p->passthrough.file[i];
        struct amph_fwd_passthrough_file *f = &shared->file[i];

        if (!passed->handle || (h && passed->handle != h))
            continue;

        collect_file(p, passed, f);
        passed->handle->progress.npassed--;
        passed->handle = NULL;
        p->passthrough.nfiles--;
    }
}
