/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher's side of the control protocol (boot/control.h): processes join the job, publish
 * values, exchange addresses and receive events.
 *
 * The reply to an exchange is one message to each member on this host, and one message down each
 * link of the tree of other hosts.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auth.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wire.h"
#include "boot/boot.h"
#include "launcher/master/launch.h"
#include "launcher/common/message.h"

#define HANDSHAKE_NS (20 * AMPH_NS_PER_S)

/* A look-up that waits for its value. */
struct lookup {
    uint32_t seq, rank;
    char key[AMPH_CONTROL_KEY_MAX + 1];
    struct lookup *next;
};

struct amph_conn {
    struct amph_launch *launch;
    struct amph_frames frames;
    struct amph_watch *watch;
    /* the agent of another host that forwards this connection; NULL: a socket of this host */
    struct amph_lagent *via;
    uint32_t number; /* the agent's number of the connection, from 1 */
    struct amph_lproc
        *proc; /* of a joined or attached member; NULL: a file client outside the groups */
    bool welcome, joined, dead;
    bool peer_closed; /* nothing can be sent, but what was sent before may not have been read */
    uint8_t nonce[AMPH_CONTROL_NONCE_BYTES];
    struct lookup *lookups;
    bool wants_servers;
    uint32_t servers_seq;
    struct amph_timer handshake;
    struct amph_conn *next;
};

/* ---- connections ---- */

/* Sends head and body to a process on another host, as one CONN frame of its agent. */
static void send_via_agent(struct amph_conn *c, uint8_t what, const void *head, size_t head_len,
                           const void *body, size_t len)
{
    uint8_t *whole = malloc(5 + head_len + len);
    struct amph_wr w;

    if (!whole) /* the process would wait for ever */
        amph_fatal("no memory for what the launcher sends to a process of the job");

    amph_wr_init(&w, whole, 5 + head_len + len);
    amph_wr_u32(&w, c->number);
    amph_wr_u8(&w, what);
    amph_wr_bytes(&w, head, head_len);
    amph_wr_bytes(&w, body, len);
    amph_tree_report(c->via, AMPH_AGENT_CONN, whole, amph_wr_len(&w));
    free(whole);
}

/* The process whose connection is closed says only that its peer is gone. */
static void say_no_memory(void)
{
    amph_say("there is no memory for a connection of a process of the job");
}

/* Closes a connection and marks it.  conn_sweep frees the struct later, because callers may
 * still use it. */
static void conn_drop(struct amph_conn *c)
{
    if (c->dead)
        return;

    c->dead = true;
    amph_watch_del(c->watch);
    amph_timer_stop(&c->launch->loop, &c->handshake);
    amph_boot_frames_close(&c->frames);

    if (c->via) {
        send_via_agent(c, AMPH_CONN_CLOSED, NULL, 0, NULL, 0);
        c->via->conn[c->number - 1] = NULL;
    }

    if (c->joined && c->proc->conn == c) {
        c->proc->conn = NULL;
        if (!c->proc->left)
            amph_launch_proc_lost(c->proc);
    }
}

static void conn_free(struct amph_conn *c)
{
    for (struct lookup *a = c->lookups; a;) {
        struct lookup *next = a->next;

        free(a);
        a = next;
    }

    free(c);
}

static void conn_sweep(struct amph_launch *l)
{
    for (struct amph_conn **at = &l->conns; *at;) {
        struct amph_conn *c = *at;

        if (!c->dead) {
            at = &c->next;
            continue;
        }

        *at = c->next;
        conn_free(c);
    }
}

/* Encodes the frame header that amph_boot_frames_send writes before a body. */
static void frame_head(uint8_t head[AMPH_FRAME_HEAD_BYTES], uint16_t type, size_t len_bytes)
{
    struct amph_wr w;

    amph_wr_init(&w, head, AMPH_FRAME_HEAD_BYTES);
    amph_wr_u32(&w, (uint32_t)len_bytes);
    amph_wr_u16(&w, type);
}

static void conn_send(struct amph_conn *c, uint16_t type, const void *body, size_t len_bytes)
{
    if (c->dead || c->peer_closed)
        return;

    if (c->via) {
        uint8_t head[AMPH_FRAME_HEAD_BYTES];

        frame_head(head, type, len_bytes);
        send_via_agent(c, AMPH_CONN_BYTES, head, sizeof head, body, len_bytes);
        return;
    }

    enum amph_status st = amph_boot_frames_send(&c->frames, type, body, len_bytes);

    /* the last message of a peer that has closed may be that it leaves the job: it is read first */
    if (st == AMPH_ERR_PEER)
        c->peer_closed = true;
    else if (st != AMPH_OK) {
        amph_say("cannot send to a process of the job: %s", amph_status_text(st));
        conn_drop(c);
    } else if (amph_boot_frames_pending(&c->frames))
        amph_watch_want(c->watch, EPOLLIN | EPOLLOUT);
}

static void send_event(struct amph_conn *c, struct amph_boot_event event)
{
    uint8_t body[9];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u8(&w, (uint8_t)event.kind);
    amph_wr_u32(&w, event.rank);
    amph_wr_u32(&w, (uint32_t)event.code);
    conn_send(c, AMPH_CONTROL_EVENT, body, amph_wr_len(&w));
}

void amph_launch_control_event(struct amph_launch *l, int group, bool attached,
                               struct amph_boot_event event)
{
    for (struct amph_conn *c = l->conns; c; c = c->next)
        if (c->welcome && !c->dead &&
            (c->joined ? group == AMPH_NGROUPS || (int)c->proc->group == group : attached))
            send_event(c, event);
}

/* ---- the handshake ---- */

static void refuse(struct amph_conn *c, enum amph_status st, const char *sentence)
{
    uint8_t body[512];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u8(&w, (uint8_t)st);
    amph_wr_blob(&w, sentence, strlen(sentence));
    conn_send(c, AMPH_CONTROL_REFUSED, body, amph_wr_len(&w));
    conn_drop(c);
}

static void drop_invalid(struct amph_conn *c)
{
    amph_count(DROP_STRANGER);
    conn_drop(c);
}

static void welcome(struct amph_conn *c, const uint8_t *nonce)
{
    struct amph_launch *l = c->launch;
    uint8_t *body = malloc(AMPH_MAC_BYTES + l->desc_len);

    if (!body) {
        say_no_memory();
        conn_drop(c);
        return;
    }

    amph_boot_control_mac(l->file.key, nonce, l->desc, l->desc_len, body);
    memcpy(body + AMPH_MAC_BYTES, l->desc, l->desc_len);
    conn_send(c, AMPH_CONTROL_WELCOME, body, AMPH_MAC_BYTES + l->desc_len);
    free(body);
    c->welcome = true;
    amph_timer_stop(&l->loop, &c->handshake);

    /* send the deaths that happened before this process joined */
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        if (l->procs[i].death_code)
            send_event(c, (struct amph_boot_event){ AMPH_BOOT_DEATH, i, l->procs[i].death_code });
}

static void bind_member(struct amph_conn *c, struct amph_lproc *p, const uint8_t *nonce)
{
    struct amph_launch *l = c->launch;
    char sentence[160];

    if (p->joined) {
        snprintf(sentence, sizeof sentence,
                 "%s %u has already joined the job; did this process start a second program "
                 "that joins too?",
                 p->group == AMPH_COMPUTE ? "compute" : "server", amph_launch_proc_number(p));
        refuse(c, AMPH_ERR_STATE, sentence);
        return;
    }

    c->joined = p->joined = true;
    p->conn = c;
    welcome(c, nonce);

    if (l->phase == AMPH_PHASE_ENDING)
        send_event(c, (struct amph_boot_event){ AMPH_BOOT_SHUTDOWN, AMPH_RANK_NONE, l->code });
    else if (l->phase == AMPH_PHASE_DRAIN && p->group == AMPH_SERVER)
        send_event(c, (struct amph_boot_event){ AMPH_BOOT_DRAIN, AMPH_RANK_NONE, 0 });
}

static void on_hello(struct amph_conn *c, struct amph_rd *r)
{
    struct amph_launch *l = c->launch;
    const uint8_t *body = r->at;
    uint8_t mac[AMPH_MAC_BYTES];
    uint32_t magic = amph_rd_u32(r);
    uint16_t version = amph_rd_u16(r);
    bool joins = amph_rd_u8(r);
    uint32_t rank = amph_rd_u32(r);
    uint32_t total = amph_boot_jobdesc_total(&l->job);

    amph_rd_u64(r); /* the process id, which is only useful in a trace */

    const uint8_t *nonce = amph_rd_bytes(r, AMPH_CONTROL_NONCE_BYTES);
    const uint8_t *theirs = amph_rd_bytes(r, AMPH_MAC_BYTES);

    if (!theirs || magic != AMPH_CONTROL_MAGIC || c->welcome) {
        drop_invalid(c);
        return;
    }

    if (version != AMPH_CONTROL_VERSION) {
        refuse(c, AMPH_ERR_PROTO,
               "the program speaks another version of the control protocol; use one installation "
               "of amphora for both");
        return;
    }

    amph_boot_control_mac(l->file.key, c->nonce, body, AMPH_CONTROL_HELLO_BYTES, mac);
    if (!amph_mac_equal(mac, theirs, sizeof mac)) {
        amph_count(DROP_STRANGER);
        refuse(
            c, AMPH_ERR_DENIED,
            "it does not know the key of this job; AMPHORA_JOB names another job's address file");
        return;
    }

    c->proc = rank < total ? &l->procs[rank] : NULL;
    if (!c->proc && (joins || rank != AMPH_RANK_NONE))
        refuse(c, AMPH_ERR_RANGE,
               "AMPHORA_RANK is not a number of this job; leave it to amphora-run");
    else if (joins)
        bind_member(c, c->proc, nonce);
    else
        welcome(c, nonce);
}

/* ---- values and facts ---- */

static void on_publish(struct amph_conn *c, struct amph_rd *r)
{
    char key[AMPH_CONTROL_KEY_MAX + 1];
    size_t len;

    amph_boot_key_get(r, key);

    const void *value = amph_rd_blob(r, &len);

    if (!value || len > AMPH_CONTROL_VALUE_MAX) {
        drop_invalid(c);
        return;
    }

    if (amph_boot_values_set(&c->proc->values, key, value, len) != AMPH_OK) {
        say_no_memory();
        conn_drop(c);
        return;
    }

    amph_launch_control_changed(c->proc); /* answers look-ups that wait for this value */
}

static void answer_servers(struct amph_conn *c)
{
    struct amph_launch *l = c->launch;
    uint32_t n = l->job.nproc[AMPH_SERVER];
    uint32_t first = l->job.nproc[AMPH_COMPUTE];
    bool dead = false;
    uint32_t awaited = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct amph_lproc *p = &l->procs[first + i];

        if (l->job.proc[first + i].stated || amph_launch_proc_is_replaced(p))
            continue;

        dead = dead || p->ended;
        awaited++;
    }

    if (!c->wants_servers || (awaited > 0 && !dead))
        return;

    c->wants_servers = false;

    size_t cap = 9 + (size_t)n * AMPH_CONTROL_FACTS_BYTES;
    uint8_t *body = malloc(cap);
    struct amph_wr w;

    if (!body) /* the process would wait for ever */
        amph_fatal("no memory for what process %u asks", c->proc->rank);

    amph_wr_init(&w, body, cap);
    amph_wr_u32(&w, c->servers_seq);
    amph_wr_u8(&w, dead ? AMPH_ERR_PEER : AMPH_OK);
    amph_wr_u32(&w, n);
    for (uint32_t i = 0; i < n; i++)
        amph_boot_facts_put(&w, &l->job.proc[first + i]);

    conn_send(c, AMPH_CONTROL_FACTS, body, amph_wr_len(&w));
    free(body);
}

static void on_servers(struct amph_conn *c, struct amph_rd *r)
{
    c->servers_seq = amph_rd_u32(r);
    c->wants_servers = !r->bad;
    answer_servers(c);
}

static void on_state(struct amph_conn *c, struct amph_rd *r)
{
    struct amph_launch *l = c->launch;
    struct amph_proc *facts = &l->job.proc[c->proc->rank];
    bool was = facts->stated;

    amph_boot_facts_get(r, facts);
    if (r->bad || was || !facts->stated)
        return;

    l->nstated[c->proc->group]++;
    for (struct amph_conn *other = l->conns; other; other = other->next)
        if (other->wants_servers && !other->dead)
            answer_servers(other);

    amph_launch_table_check(l);
}

/* ---- exchange ---- */

/* Encodes the reply that all members of a group receive. */
static uint8_t *exchange_body(struct amph_launch *l, enum amph_group group, size_t *len_p)
{
    uint32_t n = l->job.nproc[group];
    uint32_t first = group == AMPH_COMPUTE ? 0 : l->job.nproc[AMPH_COMPUTE];
    size_t cap = 4;

    for (uint32_t i = 0; i < n; i++) {
        const struct amph_value *v = amph_boot_values_get(&l->procs[first + i].values,
                                                          l->procs[first + i].exchange_key);

        cap += AMPH_CONTROL_FACTS_BYTES + 4 + (v ? v->len_bytes : 0);
    }

    uint8_t *body = malloc(cap);
    struct amph_wr w;

    if (!body)
        return NULL;

    amph_wr_init(&w, body, cap);
    amph_wr_u32(&w, n);

    for (uint32_t i = 0; i < n; i++) {
        const struct amph_value *v = amph_boot_values_get(&l->procs[first + i].values,
                                                          l->procs[first + i].exchange_key);

        amph_boot_facts_put(&w, &l->job.proc[first + i]);
        amph_wr_blob(&w, v ? v->data : "", v ? v->len_bytes : 0);
    }

    *len_p = amph_wr_len(&w);
    return body;
}

/* Sends a message to all members on other hosts, once over each link of the tree instead of once
 * for each process. */
static void send_elsewhere(struct amph_launch *l, uint32_t first, uint32_t n, uint16_t type,
                           const void *body, size_t len_bytes)
{
    struct amph_lagent **via = calloc(n, sizeof *via);
    uint32_t *number = calloc(n, sizeof *number);
    uint32_t m = 0;
    uint8_t *frame = malloc(AMPH_FRAME_HEAD_BYTES + len_bytes);

    for (uint32_t i = 0; via && number && i < n; i++) {
        const struct amph_conn *c = l->procs[first + i].conn;

        if (c && !c->dead && c->via) {
            via[m] = c->via;
            number[m++] = c->number;
        }
    }

    if (frame) {
        frame_head(frame, type, len_bytes);
        memcpy(frame + AMPH_FRAME_HEAD_BYTES, body, len_bytes);
    }

    if (!via || !number || !frame ||
        (m && !amph_tree_spread(l, via, number, m, frame, AMPH_FRAME_HEAD_BYTES + len_bytes)))
        amph_fatal("no memory to spread %zu bytes of addresses over the hosts of the job",
                   len_bytes);

    free(frame);
    free(number);
    free(via);
}

/* Returns whether each member of a group has either sent its exchange or is replaced by others. */
static bool all_exchanged(const struct amph_launch *l, enum amph_group group)
{
    uint32_t first = group == AMPH_COMPUTE ? 0 : l->job.nproc[AMPH_COMPUTE];

    for (uint32_t i = 0; i < l->job.nproc[group]; i++) {
        const struct amph_lproc *p = &l->procs[first + i];

        if (!p->exchanged && !amph_launch_proc_is_replaced(p))
            return false;
    }

    return true;
}

/* Answers the exchange of a group, once, when nobody is missing any more. */
static void try_exchange(struct amph_launch *l, enum amph_group group)
{
    uint32_t n = l->job.nproc[group];
    uint32_t first = group == AMPH_COMPUTE ? 0 : l->job.nproc[AMPH_COMPUTE];
    size_t len;

    if (l->exchange_done[group] || l->nexchanged[group] == 0 || !all_exchanged(l, group))
        return;

    l->exchange_done[group] = true;

    uint8_t *body = exchange_body(l, group, &len);

    if (!body)
        amph_fatal("out of memory for the addresses of %u processes", n);

    for (uint32_t i = 0; i < n; i++)
        if (l->procs[first + i].conn && !l->procs[first + i].conn->via)
            conn_send(l->procs[first + i].conn, AMPH_CONTROL_EXCHANGED, body, len);

    if (l->nagents > 1)
        send_elsewhere(l, first, n, AMPH_CONTROL_EXCHANGED, body, len);

    free(body);
}

static void on_exchange(struct amph_conn *c, struct amph_rd *r)
{
    struct amph_launch *l = c->launch;
    enum amph_group group = c->proc->group;

    if (c->proc->exchanged || !amph_boot_key_get(r, c->proc->exchange_key)) {
        drop_invalid(c);
        return;
    }

    c->proc->exchanged = true;
    l->nexchanged[group]++;
    amph_launch_check_absent(l, group, "for the exchange of addresses");
    try_exchange(l, group);
}

/* ---- look-ups ---- */

static void answer_lookup(struct amph_conn *c, uint32_t seq, uint32_t rank, enum amph_status st,
                          const struct amph_value *v)
{
    uint8_t body[16 + AMPH_CONTROL_FACTS_BYTES + AMPH_CONTROL_VALUE_MAX];
    struct amph_wr w;

    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, seq);
    amph_wr_u8(&w, (uint8_t)st);
    amph_boot_facts_put(&w, &c->launch->job.proc[rank]);
    amph_wr_blob(&w, v ? v->data : "", v ? v->len_bytes : 0);
    conn_send(c, AMPH_CONTROL_VALUE, body, amph_wr_len(&w));
}

/* Answers a look-up if its value is known or can no longer arrive.  Returns whether it did. */
static bool try_lookup(struct amph_conn *c, const struct lookup *a, bool wait)
{
    const struct amph_lproc *p = &c->launch->procs[a->rank];
    const struct amph_value *v = amph_boot_values_get(&p->values, a->key);
    enum amph_status st = AMPH_ERR_NOENT;

    if (p->ended)
        st = AMPH_ERR_PEER;
    else if (v)
        st = AMPH_OK;

    if (st == AMPH_ERR_NOENT && wait)
        return false;

    answer_lookup(c, a->seq, a->rank, st, st == AMPH_OK ? v : NULL);
    return true;
}

static void on_lookup(struct amph_conn *c, struct amph_rd *r)
{
    struct lookup a = { .seq = amph_rd_u32(r), .rank = amph_rd_u32(r) };
    bool wait = amph_rd_u8(r);

    if (!amph_boot_key_get(r, a.key) || a.rank >= amph_boot_jobdesc_total(&c->launch->job)) {
        drop_invalid(c);
        return;
    }

    if (try_lookup(c, &a, wait))
        return;

    struct lookup *kept = malloc(sizeof *kept);
    if (!kept) /* the process would wait for ever */
        amph_fatal("no memory for what process %u asks", c->proc->rank);

    *kept = a;
    kept->next = c->lookups;
    c->lookups = kept;
}

/* p has published a value or ended. */
void amph_launch_control_changed(struct amph_lproc *p)
{
    try_exchange(p->launch, p->group);

    for (struct amph_conn *c = p->launch->conns; c; c = c->next) {
        if (c->dead)
            continue;

        for (struct lookup **at = &c->lookups; *at && !c->dead;) {
            struct lookup *a = *at;

            if (a->rank != p->rank || !try_lookup(c, a, true)) {
                at = &a->next;
                continue;
            }

            *at = a->next;
            free(a);
        }

        if (c->wants_servers && !c->dead)
            answer_servers(c);
    }
}

/* ---- leaving ---- */

static void on_leave(struct amph_conn *c, struct amph_rd *r)
{
    bool exit_called = amph_rd_u8(r);
    int code = (int)amph_rd_u32(r);

    if (!r->bad)
        amph_launch_proc_left(c->proc, exit_called, code);
}

static void on_abort(struct amph_conn *c, struct amph_rd *r)
{
    int code = (int)amph_rd_u32(r);
    if (!r->bad)
        amph_launch_proc_abort(c->proc, code);
}

enum {
    ANYBODY = 1,
    MEMBER = 2,
    JOINED = 3
};

static const struct {
    int who; /* 0: only before the welcome message */
    void (*fn)(struct amph_conn *c, struct amph_rd *r);
} requests[AMPH_CONTROL_NTYPES] = {
    [AMPH_CONTROL_HELLO] = { 0, on_hello },
    [AMPH_CONTROL_PUBLISH] = { JOINED, on_publish },
    [AMPH_CONTROL_STATE] = { JOINED, on_state },
    [AMPH_CONTROL_EXCHANGE] = { JOINED, on_exchange },
    [AMPH_CONTROL_LOOKUP] = { ANYBODY, on_lookup },
    [AMPH_CONTROL_SERVERS] = { ANYBODY, on_servers },
    [AMPH_CONTROL_LEAVE] = { JOINED, on_leave },
    [AMPH_CONTROL_ABORT] = { MEMBER, on_abort },
};

static bool allowed(const struct amph_conn *c, uint16_t type)
{
    if (type >= AMPH_CONTROL_NTYPES || !requests[type].fn)
        return false;

    int who = requests[type].who;

    return who == 0 ? !c->welcome
                    : c->welcome && (who == ANYBODY || (who == MEMBER && c->proc) ||
                                     (who == JOINED && c->joined));
}

static void take_frames(struct amph_conn *c)
{
    struct amph_frame frame;
    enum amph_status st = AMPH_AGAIN;

    while (!c->dead && (st = amph_boot_frames_next(&c->frames, &frame)) == AMPH_OK) {
        struct amph_rd r;

        amph_rd_init(&r, frame.body, frame.len_bytes);
        if (allowed(c, frame.type))
            requests[frame.type].fn(c, &r);
        else
            drop_invalid(c);
    }

    if (!c->dead && st == AMPH_ERR_PROTO)
        drop_invalid(c);
}

/* Reads and handles all frames that have arrived. */
static void receive(struct amph_conn *c)
{
    enum amph_status st = AMPH_OK;

    while (!c->dead && (st = amph_boot_frames_fill(&c->frames)) == AMPH_OK)
        take_frames(c);

    if (!c->dead && st == AMPH_ERR_NOMEM)
        amph_say("there is no memory for what a process of the job sends");

    if (!c->dead && st != AMPH_AGAIN)
        conn_drop(c);
}

void amph_launch_control_receive_event(struct amph_lproc *p)
{
    if (p->conn &&
        !p->conn->via) /* an agent forwards all data of a process before it reports its end */
        receive(p->conn);
}

static void on_conn(void *arg, uint32_t events)
{
    struct amph_conn *c = arg;
    struct amph_launch *l = c->launch;

    if ((events & EPOLLOUT) && amph_boot_frames_flush(&c->frames) == AMPH_OK)
        amph_watch_want(c->watch, EPOLLIN);

    receive(c);
    conn_sweep(l);
}

static void on_handshake_late(void *arg)
{
    drop_invalid(arg);
}

static struct amph_conn *conn_new(struct amph_launch *l, int fd)
{
    struct amph_conn *c = calloc(1, sizeof *c);

    if (!c) {
        say_no_memory();
        return NULL;
    }

    c->launch = l;
    amph_boot_frames_open(&c->frames, fd, AMPH_CONTROL_REQUEST_MAX);
    c->next = l->conns;
    l->conns = c;
    amph_timer_set(&l->loop, &c->handshake, HANDSHAKE_NS, on_handshake_late, c);

    return c;
}

static void challenge(struct amph_conn *c)
{
    uint8_t body[6 + AMPH_CONTROL_NONCE_BYTES];
    struct amph_wr w;

    amph_random(c->nonce, sizeof c->nonce);
    amph_wr_init(&w, body, sizeof body);
    amph_wr_u32(&w, AMPH_CONTROL_MAGIC);
    amph_wr_u16(&w, AMPH_CONTROL_VERSION);
    amph_wr_bytes(&w, c->nonce, sizeof c->nonce);
    conn_send(c, AMPH_CONTROL_CHALLENGE, body, amph_wr_len(&w));
}

static void accept_local(struct amph_launch *l, int fd)
{
    struct amph_conn *c = conn_new(l, fd);

    if (!c) {
        close(fd);
        return;
    }

    c->watch = amph_watch_add(&l->loop, fd, EPOLLIN, on_conn, c);
    if (c->watch) {
        challenge(c);
        return;
    }

    say_no_memory();
    conn_drop(c);
}

/* ---- connections of other hosts ---- */

static void accept_forwarded(struct amph_lagent *agent, uint32_t number)
{
    struct amph_conn **conn = realloc(agent->conn, number * sizeof *conn);

    if (!conn) {
        say_no_memory();
        return;
    }

    agent->conn = conn;
    agent->nconns = number;

    struct amph_conn *c = conn[number - 1] = conn_new(agent->launch, -1);
    if (!c)
        return;

    c->via = agent;
    c->number = number;
    challenge(c);
}

void amph_launch_control_carried(struct amph_lagent *agent, struct amph_rd *r)
{
    uint32_t number = amph_rd_u32(r);
    uint8_t what = amph_rd_u8(r);

    if (r->bad || number == 0)
        return;

    if (what == AMPH_CONN_OPENED && number == agent->nconns + 1)
        accept_forwarded(agent, number);

    struct amph_conn *c = number <= agent->nconns ? agent->conn[number - 1] : NULL;
    if (!c || c->dead)
        return;

    if (what == AMPH_CONN_BYTES && amph_boot_frames_feed(&c->frames, r->at, amph_rd_left(r)))
        take_frames(c);
    else if (what == AMPH_CONN_CLOSED)
        conn_drop(c);

    conn_sweep(agent->launch);
}

void amph_launch_control_agent_gone(struct amph_lagent *agent)
{
    for (uint32_t i = 0; i < agent->nconns; i++)
        if (agent->conn[i])
            conn_drop(agent->conn[i]);

    conn_sweep(agent->launch);
}

static void on_listen(void *arg, uint32_t events)
{
    struct amph_launch *l = arg;
    int fd;

    while ((fd = accept4(l->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (amph_boot_control_same_user(
                fd)) { /* connections of other users are refused before they allocate anything */
            accept_local(l, fd);
        } else {
            amph_count(DROP_STRANGER);
            close(fd);
        }
    }

    conn_sweep(l);
}

enum amph_status amph_launch_control_start(struct amph_launch *l)
{
    uint64_t number;

    amph_random(&number, sizeof number);
    amph_random(l->file.key, sizeof l->file.key);
    amph_random(&l->job.id, sizeof l->job.id);
    snprintf(l->file.address, sizeof l->file.address, "unix:amphora-%016" PRIx64, number);

    enum amph_status st = amph_boot_jobdesc_encode(&l->job, &l->desc, &l->desc_len);

    if (st == AMPH_OK)
        st = amph_boot_control_listen(l->file.address, &l->listen_fd);

    if (st == AMPH_OK && !amph_watch_add(&l->loop, l->listen_fd, EPOLLIN, on_listen, l)) {
        amph_say("cannot wait for the processes of the job: %m");
        st = AMPH_ERR_SYS;
    }

    return st;
}

void amph_launch_control_stop(struct amph_launch *l)
{
    for (struct amph_conn *c = l->conns; c; c = c->next) {
        if (c->joined)
            c->proc->left =
                true; /* so that the closed connection does not count as a lost process */

        conn_drop(c);
    }

    conn_sweep(l);
    for (uint32_t i = 0; i < amph_boot_jobdesc_total(&l->job); i++)
        amph_boot_values_free(&l->procs[i].values);

    if (l->listen_fd >= 0)
        close(l->listen_fd);

    free(l->desc);
}
