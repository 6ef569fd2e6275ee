/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated network; see udp_sim.h.  Layer: tests. */
#include "tests/conformance/udp_sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_packet {
    struct sim_packet *next; /* in a node's kernel */
    uint64_t at, order;
    uint32_t to;
    size_t len_bytes;
    uint64_t bytes[];
};

uint64_t sim_random(struct sim *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool chance(struct sim *s, uint32_t of_10000)
{
    return of_10000 && sim_random(s) % 10000 < of_10000;
}

/* ---- packets under way, the earliest first ---- */

static bool earlier(const struct sim_packet *a, const struct sim_packet *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(struct sim *s, struct sim_packet *p)
{
    if (s->nheap == s->room) {
        s->room = s->room ? 2 * s->room : 1024;
        s->heap = realloc(s->heap, s->room * sizeof *s->heap);
    }

    size_t i = s->nheap++;

    for (; i && earlier(p, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];

    s->heap[i] = p;
}

static struct sim_packet *pop(struct sim *s)
{
    struct sim_packet *first = s->heap[0];
    struct sim_packet *last = s->heap[--s->nheap];
    size_t i = 0;

    for (;;) {
        size_t k = 2 * i + 1;

        if (k >= s->nheap)
            break;

        if (k + 1 < s->nheap && earlier(s->heap[k + 1], s->heap[k]))
            k++;

        if (!earlier(s->heap[k], last))
            break;

        s->heap[i] = s->heap[k];
        i = k;
    }

    if (s->nheap)
        s->heap[i] = last;

    return first;
}

/* ---- the wire ---- */

static void put_on_wire(struct sim *s, uint32_t from, const struct amph_port_out *o, uint64_t at)
{
    struct sim_packet *p = malloc(sizeof *p + o->len_bytes);
    size_t n = 0;

    for (unsigned i = 0; i < o->nparts; i++) {
        memcpy((uint8_t *)p->bytes + n, o->part[i].at, o->part[i].len_bytes);
        n += o->part[i].len_bytes;
    }

    p->at = at + (s->link.jitter_ns ? sim_random(s) % s->link.jitter_ns : 0);
    p->order = s->order++;
    p->to = o->peer;
    p->len_bytes = n;
    if (chance(s, s->link.damage))
        ((uint8_t *)p->bytes)[sim_random(s) % n] ^= (uint8_t)(1u << sim_random(s) % 8);

    if (chance(s, s->link.damage) && n > 8)
        p->len_bytes = 8 * (sim_random(s) % (n / 8));

    push(s, p);
}

static unsigned wire_send(void *ctx, const struct amph_port_out *v, unsigned n)
{
    struct sim_node *node = ctx;
    struct sim *s = node->sim;

    for (unsigned i = 0; i < n; i++) {
        uint64_t *free_at = &s->free_at[node->index][v[i].peer];
        uint64_t leaves = s->now;

        s->packets++;
        s->now += s->packet_ns;
        if (s->link.rate > 0) {
            uint64_t start = *free_at > s->now ? *free_at : s->now;
            double waiting = (double)(start - s->now) * s->link.rate / 1e9;

            if (waiting > (double)s->link.queue_bytes) {
                s->lost++;
                continue;
            }

            leaves = start + (uint64_t)((double)v[i].len_bytes * 1e9 / s->link.rate);
            *free_at = leaves;
        }

        if (chance(s, s->link.loss)) {
            s->lost++;
            continue;
        }

        s->bytes += v[i].len_bytes;
        put_on_wire(s, node->index, &v[i], leaves + s->link.delay_ns);

        if (chance(s, s->link.twice))
            put_on_wire(s, node->index, &v[i],
                        leaves + s->link.delay_ns + sim_random(s) % (4 * s->link.delay_ns + 1));
    }

    return n;
}

/* ---- receiving ---- */

static size_t peek(void *ctx, void *head, size_t room)
{
    const struct sim_packet *p = ((struct sim_node *)ctx)->next;

    memcpy(head, p->bytes, p->len_bytes < room ? p->len_bytes : room);
    return p->len_bytes;
}

static bool take(void *ctx, const struct amph_port_in_parts *parts)
{
    const struct sim_packet *p = ((struct sim_node *)ctx)->next;
    const uint8_t *bytes = (const uint8_t *)p->bytes;

    if (parts->head_len + parts->bulk_len + parts->pad_len != p->len_bytes)
        abort();

    memcpy(parts->head, bytes, parts->head_len);
    memcpy(parts->bulk, bytes + parts->head_len, parts->bulk_len);
    return true;
}

/* The bulk of every other packet is received in place if it has a place. */
static unsigned receive(struct sim_node *node, struct sim_packet *p, unsigned budget)
{
    uint64_t refused = amph_count_now(AMPH_COUNTER_DROP_COOKIE);
    unsigned n = 0;

    node->next = p;
    if (p->order % 2 == 0 && amph_rdp_input_placed(node->rdp, 3, budget, &n) == RDP_NEXT_HANDLED) {
        node->sim->placed++;
        node->sim->refused += amph_count_now(AMPH_COUNTER_DROP_COOKIE) - refused;
        return n;
    }

    return amph_rdp_input(node->rdp, p->bytes, p->len_bytes, 3, budget);
}

/* Does a packet wait in the node's kernel? */
static bool queued(void *ctx)
{
    return ((struct sim_node *)ctx)->kernel != NULL;
}

static uint64_t virtual_now(void *ctx)
{
    return ((struct sim_node *)ctx)->sim->now;
}

/* ---- running ---- */

#define TURN_NS 1000u     /* between turns of a node that ended because of the budget */
#define FREE_SEGMENTS 64u /* that a check may look at for each step */

static bool in_turns(const struct sim *s)
{
    return s->budget && !s->napping;
}

/* A node receives as amph_udp_progress() does: first what it holds, then packets from its kernel,
 * until the budget is used up.  Packets that remain wait for the next turn. */
static unsigned receive_next(struct sim_node *node, unsigned budget)
{
    struct sim_packet *p = node->kernel;

    node->kernel = p->next;
    if (!node->kernel)
        node->kernel_tail = &node->kernel;

    unsigned n = receive(node, p, budget);

    free(p);
    return n;
}

static void take_turn(struct sim_node *node)
{
    struct sim *s = node->sim;
    unsigned n = amph_rdp_progress(node->rdp, 3, s->budget);

    while (node->kernel && n < s->budget)
        n += receive_next(node, s->budget - n);

    if (node->kernel)
        node->asleep_until = s->now + TURN_NS;
}

/* A node looks: as a process does that polls, and before it sleeps. */
static void look(struct sim_node *node)
{
    struct sim *s = node->sim;
    unsigned lanes = s->napping && sim_random(s) % 4 == 0 ? 1u << AMPH_LANE_REPLY : 3u;
    unsigned budget = s->napping ? 1 + sim_random(s) % 64 : 1000;
    uint64_t due;

    if (in_turns(s))
        take_turn(node);
    else
        amph_rdp_progress(node->rdp, lanes, budget);

    if (!node->kernel)
        amph_rdp_drained(node->rdp, s->now);

    amph_rdp_after_input(node->rdp);
    if (sim_random(s) % 8 == 0)
        amph_rdp_quiesce(node->rdp, &due);

    if (node->rdp->held_bytes > s->most_held)
        s->most_held = node->rdp->held_bytes;

    if (s->napping && sim_random(s) % 64 == 0)
        node->asleep_until = s->now + sim_random(s) % (20 * (s->link.delay_ns + 50000));
}

static void to_kernel(struct sim_node *node, struct sim_packet *p)
{
    p->next = NULL;
    *node->kernel_tail = p;
    node->kernel_tail = &p->next;
}

static uint64_t node_due(const struct sim_node *node)
{
    uint64_t due = node->rdp->timer_ns;

    if (node->rdp->nready || node->rdp->nfinished || node->rdp->nfailed)
        due = node->sim->now + TURN_NS; /* it polls on */

    if (node->kernel)
        due = node->sim->now;

    return due > node->asleep_until ? due : node->asleep_until;
}

bool sim_step(struct sim *s)
{
    uint64_t at = s->nheap ? s->heap[0]->at : RDP_NEVER;
    struct sim_node *who = NULL;

    for (unsigned i = 0; i < s->n; i++) {
        uint64_t due = s->node[i].rdp ? node_due(&s->node[i]) : RDP_NEVER;

        if (due < at) {
            at = due;
            who = &s->node[i];
        }
    }

    if (at == RDP_NEVER)
        return false;

    s->now = at > s->now ? at : s->now;
    if (who) {
        look(who);
        return true;
    }

    struct sim_packet *p = pop(s);
    struct sim_node *to = &s->node[p->to];

    if (to->rdp && in_turns(s)) {
        to_kernel(to, p);
        return true;
    }

    if (to->rdp && to->asleep_until > s->now) { /* it waits in the kernel */
        p->at = to->asleep_until;
        p->order = s->order++;
        push(s, p);
        return true;
    }

    if (to->rdp) {
        receive(to, p, s->napping ? (unsigned)(sim_random(s) % 3) : 1000);
        look(to);
    }

    free(p);
    return true;
}

/* ---- nodes that share a core ---- */

#define RECEIVED_AT_ONCE 64u /* packets, in one call of progress */

static void arrivals(struct sim *s)
{
    while (s->nheap && s->heap[0]->at <= s->now) {
        struct sim_packet *p = pop(s);

        to_kernel(&s->node[p->to], p);
    }
}

/* One call of amph_udp_progress(). */
static void poll_once(struct sim_node *node)
{
    struct sim *s = node->sim;
    uint64_t since = s->now;

    amph_rdp_progress(node->rdp, 3, RECEIVED_AT_ONCE);
    for (unsigned i = 0; i < RECEIVED_AT_ONCE && node->kernel; i++) {
        s->now += s->packet_ns;
        receive_next(node, RECEIVED_AT_ONCE);
    }

    if (!node->kernel)
        amph_rdp_drained(node->rdp, since);

    amph_rdp_after_input(node->rdp);
}

static void run_node(struct sim_node *node)
{
    struct sim *s = node->sim;
    uint64_t end = s->now + s->slice_ns;
    uint64_t due;

    do {
        poll_once(node);
        s->now += TURN_NS;
        arrivals(s);
    } while (s->now < end && (node->kernel || !amph_rdp_quiesce(node->rdp, &due)));

    s->now += s->away_ns;
}

/* One of the nodes that have something to do, or NULL. */
static struct sim_node *any_ready(struct sim *s)
{
    struct sim_node *ready[SIM_NODES];
    unsigned n = 0;

    for (unsigned i = 0; i < s->n; i++)
        if (node_due(&s->node[i]) <= s->now)
            ready[n++] = &s->node[i];

    return n ? ready[sim_random(s) % n] : NULL;
}

bool sim_run_shared(struct sim *s)
{
    arrivals(s);

    struct sim_node *node = any_ready(s);

    if (node) {
        run_node(node);
        return true;
    }

    uint64_t due = s->nheap ? s->heap[0]->at : RDP_NEVER;

    for (unsigned i = 0; i < s->n; i++)
        due = node_due(&s->node[i]) < due ? node_due(&s->node[i]) : due;

    if (due == RDP_NEVER)
        return false;

    s->now = due > s->now ? due : s->now;
    return true;
}

/* ---- accounts ---- */

static const struct amph_rdp_held *held_at(const struct amph_rdp_rxlane *rx, uint64_t lseq)
{
    return lseq - rx->expected < rx->ring_size ? rx->ring[lseq & (rx->ring_size - 1)] : NULL;
}

/* What the sender `tx` has charged must be found at the receiver `rx`, or in flight. */
static bool window_is_whole(const struct amph_rdp_txlane *tx, const struct amph_rdp_rxlane *rx,
                            uint64_t *looked_p)
{
    uint64_t found = rx->used_bytes;
    uint32_t nheld = 0;

    for (uint64_t lseq = rx->expected; nheld < rx->nheld; lseq++) {
        const struct amph_rdp_held *h = held_at(rx, lseq);

        if (h) {
            found += h->window_bytes;
            nheld++;
        }

        ++*looked_p;
    }

    for (const struct amph_rdp_seg *seg = tx->out; seg; seg = seg->next) {
        if (seg->lseq >= rx->expected && !held_at(rx, seg->lseq))
            found += seg->body_len + RDP_SEG_COST;

        ++*looked_p;
    }

    return found == tx->sent_bytes && tx->sent_bytes <= tx->limit && tx->limit <= rx->limit &&
           rx->limit <= rx->used_bytes + rx->window;
}

static bool queue_is_whole(const struct amph_rdp_txlane *tx, uint64_t *looked_p)
{
    uint64_t found = 0;

    for (const struct amph_rdp_seg *seg = tx->head; seg; seg = seg->next) {
        found += seg->body_len + RDP_SEG_COST;
        ++*looked_p;
    }

    return found == tx->queued_bytes;
}

static const char *wrong_account_of(const struct amph_rdp_conn *from,
                                    const struct amph_rdp_conn *to, uint64_t *looked_p)
{
    for (unsigned lane = 0; lane < RDP_NLANES; lane++)
        if (!queue_is_whole(&from->tx[lane], looked_p))
            return "the bytes of a queue are not those of its segments";

    for (unsigned lane = 0; lane < AMPH_NLANES; lane++)
        if (!window_is_whole(&from->tx[lane], &to->rx[lane], looked_p))
            return "bytes of a window are neither consumed, nor held, nor in flight, nor free";

    return NULL;
}

const char *sim_wrong_account(struct sim *s)
{
    const char *wrong = NULL;
    uint64_t looked = 0;

    if (s->unchecked) {
        s->unchecked--;
        return NULL;
    }

    for (unsigned i = 0; i < s->n && !wrong; i++)
        for (unsigned j = 0; j < s->n && !wrong; j++)
            wrong = wrong_account_of(s->node[i].rdp->conn[j], s->node[j].rdp->conn[i], &looked);

    s->unchecked = looked / FREE_SEGMENTS;
    return wrong;
}

struct sim *sim_open(unsigned n, const struct sim_link *link, uint64_t seed,
                     const struct amph_upcalls *upcalls, uint64_t memory)
{
    struct sim *s = calloc(1, sizeof *s);

    s->link = *link;
    s->n = n;
    s->random = seed;
    s->now = 1000000;

    for (unsigned i = 0; i < n; i++) {
        struct sim_node *node = &s->node[i];

        node->sim = s;
        node->index = i;
        node->kernel_tail = &node->kernel;

        struct amph_rdp_config cfg = { .env = { node, virtual_now, wire_send, peek, take, queued },
                                       .place_min = 1,
                                       .auth = RDP_AUTH_NH,
                                       .upcalls = upcalls,
                                       .up = node,
                                       .max_peers = n,
                                       .datagram = link->datagram,
                                       .queue_bytes = 0,
                                       .memory = memory };

        if (amph_rdp_open(&cfg, &node->rdp) != AMPH_OK)
            abort();

        for (unsigned j = 0; j < n; j++)
            if (amph_rdp_add_peer(node->rdp, j, i, i * 1000 + j + 7, j * 1000 + i + 7,
                                  link->datagram) != AMPH_OK)
                abort();
    }

    return s;
}

void sim_close(struct sim *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        struct sim_node *node = &s->node[i];

        if (node->rdp)
            amph_rdp_close(node->rdp);

        while (node->kernel) {
            struct sim_packet *next = node->kernel->next;

            free(node->kernel);
            node->kernel = next;
        }
    }

    while (s->nheap)
        free(pop(s));

    free(s->heap);
    free(s);
}
