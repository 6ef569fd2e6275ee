/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of collectives.  Layer: extended.  Thread rule: handlers run on any polling thread;
 * mail_lock guards what they share with the stages.
 *
 * A message is addressed to (team, segment, port).  The receiver opens ports, each for a given
 * number of bytes from one member.  Up to the team's `eager` bytes are sent at once, and kept by a
 * receiver that has not opened the port yet.  For more, the receiver first reports that its port is
 * open (AMPH_GEX_COLL_READY).  Then the data comes in messages, or by puts that messages announce
 * (AMPH_GEX_COLL_PUT; direct.c).
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
    ARG_BYTES = NARGS,
    NARGS_PUT,
    NARGS_MAX = 7
};
#define EARLY_MAX_BYTES ((size_t)1 << 30) /* far above what correct members can produce */
/* A copy of more takes longer than to notice that the data has been sent.  Stages that may end before that send less
 * or as much (coll/star.c). */
#define IN_PLACE_BYTES 8192u
/* For a receiver that uses the first pieces while others are arriving.  Long puts take less time; along a chain of many
 * participants short ones do, since each sends on what it has. */
#define PIECES_IN_CHAIN 16u
#define PIECES_IN_PUT_MIN 2u
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

static void discard(struct amph_coll_early *l)
{
    amph_colls()->early_bytes -= sizeof *l + l->nbytes;
    free(l);
}

void amph_coll_mail_keep(struct amph_token *token, const struct amph_am *am)
{
    keep(&amph_colls()->unclaimed, token->peer, am);
}

/* ---- arriving messages; mail_lock ---- */

/* Counts nbytes at offset of an open port. */
static void count_in(struct amph_coll *c, struct amph_mail_in *in, uint32_t offset, uint32_t nbytes)
{
    const uint32_t piece = c->mail.piece;
    const uint32_t counts = nbytes ? nbytes : 1;

    for (uint32_t i = offset / piece; i < 64 && i <= (offset + counts - 1) / piece; i++)
        __atomic_or_fetch(&in->pieces, UINT64_C(1) << i, __ATOMIC_RELEASE);

    __atomic_store_n(&in->left, in->left - counts, __ATOMIC_RELEASE);
}

/* Are nbytes at offset of the port still to come from this peer? */
static bool expects(const struct amph_coll *c, const struct amph_mail_in *in, uint32_t peer,
                    uint32_t offset, uint32_t nbytes)
{
    const bool inside = offset <= in->len && nbytes <= in->len - offset && (nbytes || !in->len);

    return inside && (nbytes ? nbytes : 1) <= in->left && amph_coll_peer(c, in->from) == peer;
}

static enum fate take_data(struct amph_coll *c, uint32_t peer, const int32_t *args,
                           const void *bytes, uint32_t nbytes)
{
    uint32_t port = (uint32_t)args[ARG_PORT];
    uint32_t offset = (uint32_t)args[ARG_OFFSET];

    if (port >= c->mail.nin)
        return BAD;

    struct amph_mail_in *in = &c->mail.in[port];

    if (!in->open)
        return EARLY;
    if (!expects(c, in, peer, offset, nbytes))
        return BAD;

    if (nbytes)
        memcpy(in->buf + offset, bytes, nbytes);

    count_in(c, in, offset, nbytes);
    return TAKEN;
}

/* The data is at its destination already. */
static enum fate take_put(struct amph_coll *c, uint32_t peer, const int32_t *args)
{
    uint32_t port = (uint32_t)args[ARG_PORT];
    uint32_t offset = (uint32_t)args[ARG_OFFSET];
    uint32_t nbytes = (uint32_t)args[ARG_BYTES];
    struct amph_mail_in *in = port < c->mail.nin ? &c->mail.in[port] : NULL;

    if (!in || !in->open || !in->max_put || !nbytes || !expects(c, in, peer, offset, nbytes))
        return BAD;

    count_in(c, in, offset, nbytes);
    return TAKEN;
}

static enum fate take_ready(struct amph_coll *c, uint32_t peer, const int32_t *args,
                            const void *offer, uint32_t nbytes)
{
    struct amph_mail *m = &c->mail;

    for (uint32_t i = 0; i < m->nout; i++) {
        struct amph_mail_out *out = &m->out[i];

        if (out->port != (uint32_t)args[ARG_PORT] || out->to != (uint32_t)args[ARG_FROM] ||
            amph_coll_peer(c, out->to) != peer)
            continue;

        if (out->ready_seen || (nbytes && !amph_coll_direct_accept(out, peer, offer, nbytes)))
            return BAD;

        __atomic_store_n(&out->ready_seen, true, __ATOMIC_RELEASE);
        return TAKEN;
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

    if (handler == AMPH_GEX_COLL_DATA)
        return take_data(c, peer, args, bytes, nbytes);

    return handler == AMPH_GEX_COLL_PUT ? take_put(c, peer, args)
                                        : take_ready(c, peer, args, bytes, nbytes);
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
        discard(l);
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
        discard(l);
    }

    amph_coll_spin_unlock(&all->mail_lock);
}

enum amph_status amph_coll_mail_open(struct amph_gex *g)
{
    static const struct amph_am_entry data = { (void *)on_mail, false, 3,          1,
                                               NARGS,           NULL,  "coll_data" };
    static const struct amph_am_entry ready = { (void *)on_mail, false, 3,           1,
                                                NARGS,           NULL,  "coll_ready" };
    static const struct amph_am_entry put = { (void *)on_mail, false, 1,         1,
                                              NARGS_PUT,       NULL,  "coll_put" };
    enum amph_status st = amph_am_register(g->ep.am, AMPH_GEX_COLL_DATA, &data);

    if (st == AMPH_OK)
        st = amph_am_register(g->ep.am, AMPH_GEX_COLL_READY, &ready);

    return st == AMPH_OK ? amph_am_register(g->ep.am, AMPH_GEX_COLL_PUT, &put) : st;
}

/* ---- sending; the team is locked ---- */

void amph_coll_mail_failed(struct amph_coll *c, uint32_t to, enum amph_status st)
{
    if (st != AMPH_AGAIN && !amph_job.exiting)
        amph_fatal("a collective cannot reach process %u: %s", amph_coll_peer(c, to),
                   amph_job_failure_text(st));

    __atomic_store_n(&amph_colls()->no_room, true, __ATOMIC_RELAXED);
}

bool amph_coll_mail_send(struct amph_coll *c, uint32_t to, const struct amph_am *am,
                         struct amph_op *lc)
{
    enum amph_status st = amph_am_request(amph_gex()->ep.am, amph_coll_peer(c, to), am,
                                          AMPH_AM_IMMEDIATE, lc);

    if (AMPH_LIKELY(st == AMPH_OK))
        return true;

    amph_coll_mail_failed(c, to, st);
    return false;
}

static bool send_ready(struct amph_coll *c, uint32_t port)
{
    struct amph_mail_in *in = &c->mail.in[port];
    const uint64_t id = amph_gex_team_id_at(c->team, in->from);
    const int32_t args[] = { (int32_t)(id >> 32), (int32_t)id, (int32_t)c->mail.seq, (int32_t)port,
                             (int32_t)c->team->pub.rank };
    uint8_t offer[AMPH_COLL_OFFER_BYTES];
    struct amph_am am = {
        .kind = AMPH_AM_SHORT, .handler = AMPH_GEX_COLL_READY, .nargs = NARGS, .args = args
    };

    if (!in->ready_due)
        return true;

    if (in->max_put) {
        am.kind = AMPH_AM_MEDIUM;
        am.nbytes = (uint32_t)amph_coll_direct_offer(c, in, offer);
        am.payload = offer;
    }

    if (amph_coll_mail_send(c, in->from, &am, NULL))
        in->ready_due = false;

    return !in->ready_due;
}

static void part_done(struct amph_op *op, enum amph_status st)
{
    struct amph_mail_out *out = AMPH_CONTAINER_OF(op, struct amph_mail_out, op);

    /* if it has failed, the receiver is dead, and the next message to it reports that */
    __atomic_sub_fetch(&out->in_flight, 1, __ATOMIC_RELEASE);
}

/* Sends a part of a message; a large one is sent from its place.  false: no room now. */
static bool send_part(struct amph_coll *c, struct amph_mail_out *out, const struct amph_am *am)
{
    if (am->nbytes <= IN_PLACE_BYTES ||
        !amph_am_sends_in_place(amph_gex()->ep.am, amph_coll_peer(c, out->to)))
        return amph_coll_mail_send(c, out->to, am, NULL);

    __atomic_add_fetch(&out->in_flight, 1, __ATOMIC_RELAXED);
    if (amph_coll_mail_send(c, out->to, am, &out->op))
        return true;

    __atomic_sub_fetch(&out->in_flight, 1, __ATOMIC_RELAXED);
    return false;
}

/* Sends the pieces that are ready.  true: everything has been sent. */
static bool send_pieces(struct amph_coll *c, struct amph_mail_out *out)
{
    const struct amph_mail *m = &c->mail;
    bool all = out->len && out->sent == out->len;
    const uint64_t id = amph_gex_team_id_at(c->team, out->to);

    if (out->len > c->eager && !__atomic_load_n(&out->ready_seen, __ATOMIC_ACQUIRE))
        return false;
    if (out->max_put)
        return amph_coll_direct_send(c, out);

    while (!all) {
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

        if (!send_part(c, out, &am))
            return false;

        out->sent += n;
        all = out->sent == out->len;
    }

    out->over = !__atomic_load_n(&out->in_flight, __ATOMIC_ACQUIRE);
    return out->over;
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

static void open_port(struct amph_coll *c, uint32_t port, uint32_t from, void *buf, size_t len,
                      uint32_t max_put)
{
    struct amph_colls *all = amph_colls();
    const bool asks = len > c->eager;
    const bool direct = asks && len >= AMPH_COLL_DIRECT && amph_coll_direct_from(c, from);

    if (direct)
        amph_coll_direct_area(c, buf, len);

    amph_coll_spin_lock(&all->mail_lock);
    c->mail.in[port] = (struct amph_mail_in){ .buf = buf,
                                              .len = (uint32_t)len,
                                              .left = len ? (uint32_t)len : 1,
                                              .from = from,
                                              .max_put = direct ? max_put : 0,
                                              .open = true,
                                              .ready_due = asks };
    if (AMPH_UNLIKELY(c->mail.early != NULL))
        take_early(c);

    amph_coll_spin_unlock(&all->mail_lock);
    send_ready(c, port);
}

void amph_coll_mail_in(struct amph_coll *c, uint32_t port, uint32_t from, void *buf, size_t len)
{
    open_port(c, port, from, buf, len, (uint32_t)len);
}

void amph_coll_mail_in_pieces(struct amph_coll *c, uint32_t port, uint32_t from, void *buf,
                              size_t len, uint32_t count)
{
    uint32_t pieces = PIECES_IN_CHAIN / count;

    if (pieces < PIECES_IN_PUT_MIN)
        pieces = PIECES_IN_PUT_MIN;

    open_port(c, port, from, buf, len, pieces * c->mail.piece);
}

void amph_coll_mail_area(struct amph_coll *c, void *base, size_t bytes, size_t len)
{
    bool direct = false;

    if (len <= c->eager || len < AMPH_COLL_DIRECT)
        return;

    for (uint32_t i = 0; i < c->team->pub.size && !direct; i++)
        direct = i != c->team->pub.rank && amph_coll_direct_from(c, i);

    if (direct)
        amph_coll_direct_area(c, base, bytes);
}

uint32_t amph_coll_mail_out(struct amph_coll *c, uint32_t to, uint32_t port, const void *buf,
                            size_t len, size_t ready)
{
    struct amph_colls *all = amph_colls();
    struct amph_mail *m = &c->mail;

    amph_coll_spin_lock(&all->mail_lock);

    uint32_t i = m->nout++;

    m->out[i] = (struct amph_mail_out){ .buf = buf,
                                        .len = (uint32_t)len,
                                        .ready = (uint32_t)ready,
                                        .to = to,
                                        .port = port,
                                        .op = { part_done } };
    if (AMPH_UNLIKELY(m->early != NULL && len > c->eager))
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
    amph_coll_direct_end(c);
    amph_coll_spin_lock(&amph_colls()->mail_lock);
    c->mail.on = false;
    amph_coll_spin_unlock(&amph_colls()->mail_lock);
}
