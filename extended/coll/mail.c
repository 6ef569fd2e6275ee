/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of collectives.  Layer: extended.  Thread rule: handlers run on any polling thread;
 * mail_lock guards what they share with the stages.
 *
 * A message is addressed to (team, segment, port).  The receiver opens ports, each for a given
 * number of bytes from one member.  Up to AMPH_COLL_EAGER bytes are sent at once, and kept by a
 * receiver that has not opened the port yet.  For more, the receiver first reports that its port is
 * open (AMPH_GEX_COLL_READY), and the data goes straight to its destination.
 *
 * Arriving messages are checked: the team, the segment, the port, the sender, and that the data
 * lies within the port's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/status.h"
#include "conduits/conduit.h"
#include "extended/coll/coll.h"

enum {
    ARG_ID_HIGH,
    ARG_ID_LOW,
    ARG_SEQ,
    ARG_PORT,
    ARG_OFFSET,
    ARG_FROM = ARG_OFFSET,
    NARGS,
    NARGS_MAX = 7
};
#define EARLY_MAX_BYTES ((size_t)1 << 30) /* far above what correct members can produce */
#define AHEAD_MAX (UINT32_C(1) << 30)

/* A message that arrived before its port was opened or its team created. */
struct amph_coll_early {
    struct amph_coll_early *next;
    uint32_t peer, nbytes;
    uint8_t handler;
    int32_t args[NARGS_MAX];
    uint8_t bytes[];
};

enum fate {
    TAKEN,
    EARLY,
    BAD
};

/* ---- early messages; mail_lock ---- */

static void keep(struct amph_coll_early **list, uint32_t peer, const struct amph_am *am)
{
    struct amph_colls *all = amph_colls();
    struct amph_coll_early *l = malloc(sizeof *l + am->nbytes);

    all->early_bytes += sizeof *l + am->nbytes;
    if (!l || all->early_bytes > EARLY_MAX_BYTES)
        amph_fatal("no memory for messages of collectives that this process has not reached: %zu "
                   "bytes, the last from process %u; "
                   "is a collective missing here?",
                   all->early_bytes, peer);

    *l = (struct amph_coll_early){ .peer = peer, .nbytes = am->nbytes, .handler = am->handler };
    memcpy(l->args, am->args, am->nargs * sizeof l->args[0]);
    if (am->nbytes)
        memcpy(l->bytes, am->payload, am->nbytes);

    while (*list)
        list = &(*list)->next;

    *list = l;
}

static void throw_away(struct amph_coll_early *l)
{
    amph_colls()->early_bytes -= sizeof *l + l->nbytes;
    free(l);
}

void amph_coll_mail_keep(struct amph_token *token, const struct amph_am *am)
{
    keep(&amph_colls()->unclaimed, token->peer, am);
}

/* ---- arriving messages; mail_lock ---- */

static enum fate take_data(struct amph_coll *c, uint32_t peer, const int32_t *args,
                           const void *bytes, uint32_t nbytes)
{
    struct amph_mail *m = &c->mail;
    uint32_t port = (uint32_t)args[ARG_PORT];
    uint32_t offset = (uint32_t)args[ARG_OFFSET];

    if (port >= m->nin)
        return BAD;

    struct amph_mail_in *in = &m->in[port];
    if (!in->open)
        return EARLY;

    uint32_t left = in->left;
    uint32_t counts = nbytes ? nbytes : 1;
    bool outside = offset > in->len || nbytes > in->len - offset || counts > left ||
                   (!nbytes && in->len);

    if (outside || amph_coll_peer(c, in->from) != peer)
        return BAD;

    if (nbytes)
        memcpy(in->buf + offset, bytes, nbytes);

    if (offset / m->piece < 64)
        __atomic_or_fetch(&in->pieces, UINT64_C(1) << offset / m->piece, __ATOMIC_RELEASE);

    __atomic_store_n(&in->left, left - counts, __ATOMIC_RELEASE);
    return TAKEN;
}

static enum fate take_ready(struct amph_coll *c, uint32_t peer, const int32_t *args)
{
    struct amph_mail *m = &c->mail;

    for (uint32_t i = 0; i < m->nout; i++) {
        struct amph_mail_out *out = &m->out[i];

        if (out->port == (uint32_t)args[ARG_PORT] && out->to == (uint32_t)args[ARG_FROM] &&
            amph_coll_peer(c, out->to) == peer) {
            __atomic_store_n(&out->ready_seen, true, __ATOMIC_RELAXED);
            return TAKEN;
        }
    }

    return EARLY; /* the operation has not been started yet */
}

static enum fate take(struct amph_coll *c, uint32_t peer, uint8_t handler, const int32_t *args,
                      const void *bytes, uint32_t nbytes)
{
    uint32_t ahead = (uint32_t)args[ARG_SEQ] - c->mail.seq;

    if (handler == AMPH_GEX_BARRIER) {
        amph_coll_barrier_deliver(c, args);
        return TAKEN;
    }

    if (ahead > AHEAD_MAX || (ahead == 0 && !c->mail.on))
        return BAD; /* of a completed segment */
    if (ahead)
        return EARLY;

    return handler == AMPH_GEX_COLL_DATA ? take_data(c, peer, args, bytes, nbytes)
                                         : take_ready(c, peer, args);
}

static void on_mail(struct amph_token *token, const struct amph_am *am)
{
    struct amph_colls *all = amph_gex() ? amph_colls() : NULL;

    if (!all)
        return;

    amph_coll_spin_lock(&all->mail_lock);

    struct amph_coll *c = amph_coll_mail_team((uint64_t)(uint32_t)am->args[ARG_ID_HIGH] << 32 |
                                              (uint32_t)am->args[ARG_ID_LOW]);
    enum fate fate = c ? take(c, token->peer, am->handler, am->args, am->payload, am->nbytes)
                       : EARLY;

    if (fate == EARLY)
        keep(c ? &c->mail.early : &all->unclaimed, token->peer, am);
    else if (fate == BAD)
        amph_count(DROP_MALFORMED);

    amph_coll_spin_unlock(&all->mail_lock);
}

/* Delivers the early messages whose ports are open by now. */
static void take_early(struct amph_coll *c)
{
    struct amph_coll_early **at = &c->mail.early;
    struct amph_coll_early *l;

    while ((l = *at) != NULL) {
        enum fate fate = take(c, l->peer, l->handler, l->args, l->bytes, l->nbytes);

        if (fate == EARLY) {
            at = &l->next;
            continue;
        }

        if (fate == BAD)
            amph_count(DROP_MALFORMED);

        *at = l->next;
        throw_away(l);
    }
}

/* ---- teams ---- */

static struct amph_coll **bucket(uint64_t id)
{
    return &amph_colls()->hash[(id ^ id >> 32) % AMPH_COLL_HASH];
}

struct amph_coll *amph_coll_mail_team(uint64_t id)
{
    struct amph_coll *c = *bucket(id);

    while (c && c->team->id != id)
        c = c->same_hash;

    return c;
}

void amph_coll_mail_add_team(struct amph_coll *c)
{
    struct amph_colls *all = amph_colls();
    struct amph_coll **at = bucket(c->team->id);
    struct amph_coll_early **from = &all->unclaimed;
    struct amph_coll_early **to = &c->mail.early;
    struct amph_coll_early *l;

    amph_coll_spin_lock(&all->mail_lock);
    c->mail.seq = UINT32_MAX; /* the first segment is 0 */
    c->same_hash = *at;
    *at = c;

    while ((l = *from) != NULL) {
        if (((uint64_t)(uint32_t)l->args[ARG_ID_HIGH] << 32 | (uint32_t)l->args[ARG_ID_LOW]) !=
            c->team->id) {
            from = &l->next;
            continue;
        }

        *from = l->next;
        l->next = NULL;
        *to = l;
        to = &l->next;
    }

    take_early(c);
    amph_coll_spin_unlock(&all->mail_lock);
}

void amph_coll_mail_remove_team(struct amph_coll *c)
{
    struct amph_colls *all = amph_colls();
    struct amph_coll **at = bucket(c->team->id);
    struct amph_coll_early *l;

    amph_coll_spin_lock(&all->mail_lock);
    while (*at != c)
        at = &(*at)->same_hash;

    *at = c->same_hash;
    while ((l = c->mail.early) != NULL) {
        c->mail.early = l->next;
        throw_away(l);
    }

    amph_coll_spin_unlock(&all->mail_lock);
}

enum amph_status amph_coll_mail_open(struct amph_gex *g)
{
    static const struct amph_am_entry data = { (void *)on_mail, false, 3,          1,
                                               NARGS,           NULL,  "coll_data" };
    static const struct amph_am_entry ready = { (void *)on_mail, false, 1,           1,
                                                NARGS,           NULL,  "coll_ready" };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_COLL_DATA, &data);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_COLL_READY, &ready) : st;
}

/* ---- sending; the team is locked ---- */

/* false: no room now. */
static bool send(struct amph_coll *c, uint32_t to, const struct amph_am *am)
{
    uint32_t peer = amph_coll_peer(c, to);
    enum amph_status st = amph_am_request(amph_gex()->ep.am, peer, am, AMPH_AM_IMMEDIATE, NULL);

    if (AMPH_LIKELY(st == AMPH_OK))
        return true;

    if (st != AMPH_AGAIN && !amph_job.exiting)
        amph_fatal("a collective cannot reach process %u: %s", peer, amph_job_failure_text(st));

    __atomic_store_n(&amph_colls()->no_room, true, __ATOMIC_RELAXED);
    return false;
}

static bool send_ready(struct amph_coll *c, uint32_t port)
{
    struct amph_mail_in *in = &c->mail.in[port];
    const uint64_t id = amph_gex_team_id_at(c->team, in->from);
    const int32_t args[] = { (int32_t)(id >> 32), (int32_t)id, (int32_t)c->mail.seq, (int32_t)port,
                             (int32_t)c->team->pub.rank };
    const struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_COLL_READY, .nargs = NARGS, .args = args
    };

    if (in->ready_due && send(c, in->from, &am))
        in->ready_due = false;

    return !in->ready_due;
}

static bool send_pieces(struct amph_coll *c, struct amph_mail_out *out)
{
    const struct amph_mail *m = &c->mail;
    const uint64_t id = amph_gex_team_id_at(c->team, out->to);

    if (out->len > AMPH_COLL_EAGER && !__atomic_load_n(&out->ready_seen, __ATOMIC_RELAXED))
        return false;

    while (!out->over) {
        uint32_t n = out->ready - out->sent;

        if (n > m->piece)
            n = m->piece;

        if (n < m->piece && out->sent + n < out->len)
            return false; /* whole pieces only, except the last */

        const int32_t args[] = { (int32_t)(id >> 32), (int32_t)id, (int32_t)m->seq,
                                 (int32_t)out->port, (int32_t)out->sent };
        const struct amph_am am = { .kind = n ? AMPH_AM_MEDIUM : AMPH_AM_SHORT,
                                    .handler = AMPH_GEX_COLL_DATA,
                                    .nargs = NARGS,
                                    .nbytes = n,
                                    .args = args,
                                    .payload = out->buf + out->sent };

        if (!send(c, out->to, &am))
            return false;

        out->sent += n;
        out->over = out->sent == out->len;
    }

    return true;
}

bool amph_coll_mail_pump(struct amph_coll *c)
{
    struct amph_mail *m = &c->mail;
    bool all = true;

    for (uint32_t i = 0; i < m->nin; i++)
        if (AMPH_UNLIKELY(m->in[i].ready_due))
            all &= send_ready(c, i);

    while (m->first_out < m->nout && m->out[m->first_out].over)
        m->first_out++;

    for (uint32_t i = m->first_out; i < m->nout; i++)
        if (!m->out[i].over)
            all &= send_pieces(c, &m->out[i]);

    return all;
}

/* ---- segments; the team is locked ---- */

static void *grow(void *old, uint32_t *max, uint32_t wanted, size_t each)
{
    if (wanted <= *max)
        return old;

    free(old);
    *max = wanted;
    old = calloc(wanted, each);
    if (!old)
        amph_fatal("no memory for a collective of %u parts", wanted);

    return old;
}

void amph_coll_mail_begin(struct amph_coll *c, uint32_t seq, uint32_t nin, uint32_t nout,
                          uint32_t piece)
{
    struct amph_colls *all = amph_colls();
    struct amph_mail *m = &c->mail;

    amph_coll_spin_lock(&all->mail_lock);
    m->in = grow(m->in, &m->max_in, nin, sizeof *m->in);
    m->out = grow(m->out, &m->max_out, nout, sizeof *m->out);
    if (nin)
        memset(m->in, 0, nin * sizeof *m->in);

    m->nin = nin;
    m->nout = m->first_out = 0;
    m->piece = piece;
    m->seq = seq;
    m->on = true;
    amph_coll_spin_unlock(&all->mail_lock);
}

void amph_coll_mail_in(struct amph_coll *c, uint32_t port, uint32_t from, void *buf, size_t len)
{
    struct amph_colls *all = amph_colls();

    amph_coll_spin_lock(&all->mail_lock);
    c->mail.in[port] = (struct amph_mail_in){ .buf = buf,
                                              .len = (uint32_t)len,
                                              .left = len ? (uint32_t)len : 1,
                                              .from = from,
                                              .open = true,
                                              .ready_due = len > AMPH_COLL_EAGER };
    if (AMPH_UNLIKELY(c->mail.early != NULL))
        take_early(c);

    amph_coll_spin_unlock(&all->mail_lock);
    send_ready(c, port);
}

uint32_t amph_coll_mail_out(struct amph_coll *c, uint32_t to, uint32_t port, const void *buf,
                            size_t len, size_t ready)
{
    struct amph_colls *all = amph_colls();
    struct amph_mail *m = &c->mail;

    amph_coll_spin_lock(&all->mail_lock);

    uint32_t i = m->nout++;

    m->out[i] = (struct amph_mail_out){
        .buf = buf, .len = (uint32_t)len, .ready = (uint32_t)ready, .to = to, .port = port
    };
    if (AMPH_UNLIKELY(m->early != NULL && len > AMPH_COLL_EAGER))
        take_early(c);

    amph_coll_spin_unlock(&all->mail_lock);
    send_pieces(c, &m->out[i]);
    return i;
}

size_t amph_coll_mail_prefix(const struct amph_coll *c, uint32_t port)
{
    struct amph_mail_in *in = &c->mail.in[port];
    uint64_t have = __atomic_load_n(&in->pieces, __ATOMIC_ACQUIRE);

    if (amph_coll_mail_got(c, port))
        return in->len;

    uint32_t n = ~have ? (uint32_t)__builtin_ctzll(~have) : 64;

    return (size_t)n * c->mail.piece < in->len ? (size_t)n * c->mail.piece : in->len;
}

void amph_coll_mail_end(struct amph_coll *c)
{
    amph_coll_spin_lock(&amph_colls()->mail_lock);
    c->mail.on = false;
    amph_coll_spin_unlock(&amph_colls()->mail_lock);
}
