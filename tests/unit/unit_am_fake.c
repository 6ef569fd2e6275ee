/* SPDX-License-Identifier: BSD-3-Clause */
/* See unit_am_fake.h. */
#include "tests/unit/unit_am_fake.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum {
    INSTANCES = 8,
    PEERS = 8,
    MAX_MEDIUM = 65408
};

struct message {
    struct message *next;
    uint32_t peer;
    struct amph_am am;
    int32_t args[AMPH_AM_MAX_ARGS];
    uint8_t payload[];
};

struct late {
    struct late *next;
    struct amph_op *lc, *rc;
};

struct fake_cx {
    struct amph_cx base;
    uint32_t number;
    struct {
        struct message *first, **last;
        unsigned n;
    } queue[AMPH_NLANES];
    struct {
        bool there;
        uint32_t instance, index;
    } peer[PEERS];
    struct late *late;
    int failed_peer;
};

struct fake fake;
static struct fake_cx *instance[INSTANCES];

void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.room[AMPH_LANE_REQUEST] = fake.room[AMPH_LANE_REPLY] = 1000;
    fake.put_then_am = true;
}

static enum amph_status probe(char *why, size_t why_len)
{
    return AMPH_OK;
}

static enum amph_status fake_open(const struct amph_cx_config *cfg, struct amph_cx **cx_p)
{
    struct fake_cx *cx = calloc(1, sizeof *cx);
    uint32_t n = 0;

    while (n < INSTANCES && instance[n])
        n++;

    if (n == INSTANCES || !cx)
        return AMPH_ERR_NOMEM;

    cx->base.ops = &fake_ops;
    cx->base.cfg = *cfg;
    cx->base.caps = (struct amph_conduit_caps){ .max_medium = MAX_MEDIUM,
                                                .self_flow = fake.self_flow,
                                                .native_rma = true,
                                                .put_then_am = fake.put_then_am };
    cx->base.protocol = fake.protocol;
    cx->base.provider = fake.provider;
    cx->number = n;
    cx->failed_peer = -1;
    for (int lane = 0; lane < AMPH_NLANES; lane++)
        cx->queue[lane].last = &cx->queue[lane].first;

    memcpy(cx->base.addr, &n, sizeof n);
    cx->base.addr_len = sizeof n;
    instance[n] = cx;
    *cx_p = &cx->base;

    return AMPH_OK;
}

static void fake_close(struct amph_cx *base)
{
    struct fake_cx *cx = (struct fake_cx *)base;
    struct message *m;

    for (int lane = 0; lane < AMPH_NLANES; lane++)
        while ((m = cx->queue[lane].first) != NULL) {
            cx->queue[lane].first = m->next;
            free(m);
        }

    instance[cx->number] = NULL;
    free(cx);
}

static enum amph_status add_peer(struct amph_cx *base, uint32_t peer,
                                 const struct amph_peer_spec *spec)
{
    struct fake_cx *cx = (struct fake_cx *)base;

    if (peer >= PEERS || spec->addr_len != sizeof cx->number)
        return AMPH_ERR_RANGE;

    memcpy(&cx->peer[peer].instance, spec->addr, sizeof cx->number);
    cx->peer[peer].index = spec->remote_index;
    cx->peer[peer].there = true;

    return AMPH_OK;
}

static void del_peer(struct amph_cx *base, uint32_t peer)
{
    ((struct fake_cx *)base)->peer[peer].there = false;
}

static enum amph_status mem_reg(struct amph_cx *cx, void *base, size_t len_bytes, int fd,
                                uint64_t fd_offset, struct amph_mem *mem)
{
    *mem = (struct amph_mem){ .base = base, .len_bytes = len_bytes, .key_len = 16 };
    uint64_t words[2] = { (uintptr_t)base, len_bytes };

    memcpy(mem->key, words, sizeof words);
    return AMPH_OK;
}

static void mem_dereg(struct amph_cx *cx, struct amph_mem *mem)
{
    mem->key_len = 0;
}

static enum amph_status mem_import(struct amph_cx *cx, uint32_t peer, const void *key,
                                   size_t key_len, struct amph_rmem *rmem)
{
    uint64_t words[2];

    if (key_len != sizeof words)
        return AMPH_ERR_PROTO;

    memcpy(words, key, sizeof words);
    *rmem = (struct amph_rmem){ .base = words[0], .len_bytes = words[1] };
    return AMPH_OK;
}

static void enqueue(struct fake_cx *cx, uint32_t peer, enum amph_lane lane,
                    const struct amph_am *am)
{
    size_t payload = am->kind == AMPH_AM_MEDIUM || am->kind == AMPH_AM_LONG_PACKED ? am->nbytes : 0;
    struct message *m = calloc(1, sizeof *m + payload);

    if (!m)
        abort();

    m->peer = peer;
    m->am = *am;

    if (am->nargs)
        memcpy(m->args, am->args,
               (am->nargs < AMPH_AM_MAX_ARGS ? am->nargs : AMPH_AM_MAX_ARGS) * sizeof m->args[0]);

    if (payload)
        memcpy(m->payload, am->payload, payload);

    m->am.args = m->args;
    m->am.payload = m->payload;
    *cx->queue[lane].last = m;
    cx->queue[lane].last = &m->next;
    cx->queue[lane].n++;
}

static enum amph_status am_send(struct amph_cx *base, uint32_t peer, enum amph_lane lane,
                                const struct amph_am *am, struct amph_op *lc)
{
    struct fake_cx *cx = (struct fake_cx *)base;
    struct fake_cx *to = instance[cx->peer[peer].instance];

    if (am->nargs > AMPH_AM_MAX_ARGS || (am->kind != AMPH_AM_LONG && am->nbytes > MAX_MEDIUM))
        return AMPH_ERR_ARG;
    if (!to || to->queue[lane].n >= fake.room[lane])
        return AMPH_AGAIN;

    fake.sent[am->kind]++;
    enqueue(to, cx->peer[peer].index, lane, am);
    if (lc)
        lc->done(lc, AMPH_OK);

    return AMPH_OK;
}

static void finish(struct amph_op *op)
{
    if (op)
        op->done(op, AMPH_OK);
}

static enum amph_status put(struct amph_cx *base, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, const void *src, size_t len_bytes, struct amph_op *lc,
                            struct amph_op *rc)
{
    struct fake_cx *cx = (struct fake_cx *)base;

    if (fake.put_again) {
        fake.put_again--;
        return AMPH_AGAIN;
    }

    fake.puts++;
    memcpy((uint8_t *)(uintptr_t)rmem->base + offset, src, len_bytes);

    if (!fake.put_late) {
        finish(lc);
        finish(rc);
        return AMPH_OK;
    }

    struct late *late = calloc(1, sizeof *late);

    if (!late)
        abort();

    *late = (struct late){ cx->late, lc, rc };
    cx->late = late;
    return AMPH_OK;
}

static enum amph_status get(struct amph_cx *base, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, void *dst, size_t len_bytes, struct amph_op *done)
{
    memcpy(dst, (const uint8_t *)(uintptr_t)rmem->base + offset, len_bytes);
    finish(done);
    return AMPH_OK;
}

static struct message *dequeue(struct fake_cx *cx, int lane)
{
    struct message *m = cx->queue[lane].first;

    cx->queue[lane].first = m->next;
    if (!m->next)
        cx->queue[lane].last = &cx->queue[lane].first;

    cx->queue[lane].n--;
    return m;
}

static unsigned progress(struct amph_cx *base, unsigned lanes, unsigned budget)
{
    struct fake_cx *cx = (struct fake_cx *)base;
    unsigned n = 0;

    if (cx->failed_peer >= 0) {
        uint32_t peer = (uint32_t)cx->failed_peer;

        cx->failed_peer = -1;
        cx->base.cfg.upcalls->on_peer_error(cx->base.cfg.up, peer, AMPH_ERR_PEER,
                                            "the test says so");
    }

    for (struct late *late; (late = cx->late) != NULL; n++) {
        cx->late = late->next;
        finish(late->lc);
        finish(late->rc);
        free(late);
    }

    for (int lane = 0; lane < AMPH_NLANES; lane++)
        while ((lanes & 1u << lane) && cx->queue[lane].first && n < budget) {
            struct message *m = dequeue(cx, lane);

            cx->base.cfg.upcalls->on_am(cx->base.cfg.up, m->peer, lane, &m->am);
            free(m);
            n++;
        }

    return n;
}

static int wait_fd(struct amph_cx *cx)
{
    return -1;
}

/* Refuses a sleep while messages are queued, as conduits do. */
static enum amph_status arm(struct amph_cx *base, enum amph_arm how, uint64_t timeout_ns)
{
    const struct fake_cx *cx = (const struct fake_cx *)base;
    bool work = cx->queue[AMPH_LANE_REQUEST].first || cx->queue[AMPH_LANE_REPLY].first;

    return work && how != AMPH_ARM_OFF ? AMPH_AGAIN : AMPH_OK;
}

const struct amph_conduit_ops fake_ops = {
    .name = "fake",
    .summary = "queues inside one process",
    .probe = probe,
    .open = fake_open,
    .close = fake_close,
    .add_peer = add_peer,
    .del_peer = del_peer,
    .peer_gone = amph_conduit_no_peer_gone,
    .mem_reg = mem_reg,
    .mem_dereg = mem_dereg,
    .mem_import = mem_import,
    .am_send = am_send,
    .am_prepare = amph_conduit_no_prepare,
    .am_commit = amph_conduit_no_commit,
    .put = put,
    .get = get,
    .atomic = amph_conduit_no_atomic,
    .flush = amph_conduit_no_flush,
    .counts = amph_conduit_no_counts,
    .progress = progress,
    .tick = amph_conduit_no_tick,
    .wait_fd = wait_fd,
    .arm = arm,
};

void fake_inject(unsigned to, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    enqueue(instance[to], peer, lane, am);
}

void fake_lose(unsigned to, enum amph_lane lane)
{
    if (!instance[to]->queue[lane].first)
        abort();

    free(dequeue(instance[to], lane));
}

void fake_fail_peer(unsigned to, uint32_t peer)
{
    instance[to]->failed_peer = (int)peer;
}
