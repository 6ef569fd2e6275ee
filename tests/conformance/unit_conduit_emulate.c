/* SPDX-License-Identifier: BSD-3-Clause */
/* The conformance suite on put and get over messages, laid over shared memory; what emulate.c
 * itself promises; the registry. */
#include <stdio.h>

#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "conduits/emulate.h"
#include "tests/conformance/conduit_suite.h"

static const struct suite_target target = { "emulate-smp", "smp", true, false };
static const struct suite_target bare = { "smp", "smp", false, false };

static enum amph_status put(struct suite_node *a, uint32_t peer, const struct amph_rmem *rmem,
                            uint64_t offset, size_t len)
{
    static uint8_t data[1 << 20];
    struct suite_op rc = SUITE_OP;

    CHECK(a->cx->ops->put(a->cx, peer, rmem, offset, data, len, NULL, &rc.op) == AMPH_OK);
    SUITE_UNTIL(a->world, rc.done);
    return rc.st;
}

/* The target checks what a put or get names, whatever the origin believes. */
static void bounds(void)
{
    struct suite_world *w = suite_world(2, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_segment seg;
    struct amph_rmem rmem, wrong;
    uint8_t back[64];

    suite_segment_open(b, 65536, &seg);
    memset(seg.base, 7, 65536);
    CHECK(a->cx->ops->mem_import(a->cx, 1, seg.mem.key, seg.mem.key_len, &rmem) == AMPH_OK);
    static const struct {
        uint64_t offset;
        size_t len;
    } outside[] = { { 65536, 1 },      { 65535, 2 },          { 0, 65537 },
                    { UINT64_MAX, 1 }, { UINT64_MAX - 3, 8 }, { UINT64_C(1) << 63, 100 } };

    for (size_t i = 0; i < AMPH_COUNTOF(outside); i++) {
        struct suite_op done = SUITE_OP;

        /* Of a put that is cut, the fragments that fit may arrive. */
        CHECK_MSG(put(a, 1, &rmem, outside[i].offset, outside[i].len) != AMPH_OK,
                  "put %zu was taken", i);
        CHECK(outside[i].len > 64 || a->cx->ops->get(a->cx, 1, &rmem, outside[i].offset, back,
                                                     outside[i].len, &done.op) == AMPH_OK);
        SUITE_UNTIL(w, outside[i].len > 64 || done.done);
        CHECK(outside[i].len > 64 || done.st != AMPH_OK);
    }

    CHECK(seg.base[65535] == 7);
    wrong = rmem;
    wrong.rkey ^= 1;
    CHECK(put(a, 1, &wrong, 0, 8) != AMPH_OK);
    CHECK(put(a, 1, &rmem, 65528, 8) == AMPH_OK && seg.base[65535] == 0);
    suite_segment_close(b, &seg);
    suite_segment_open(b, 65536, &seg);
    CHECK(put(a, 1, &rmem, 0, 8) != AMPH_OK); /* the old key */
    suite_segment_close(b, &seg);
    suite_world_close(w);
}

/* A peer that never answers has its own window: transfers with others go on, before, between and
 * after. */
static void silent_peer(void)
{
    enum {
        COUNT = 100,
        LEN = 1 << 20
    };

    static struct suite_op lost[COUNT];
    static uint8_t data[LEN];
    struct suite_world *w = suite_world(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    struct suite_segment of_b, of_c;
    struct amph_rmem to_b, to_c;

    suite_segment_open(b, LEN, &of_b);
    suite_segment_open(c, LEN, &of_c);
    CHECK(a->cx->ops->mem_import(a->cx, 1, of_b.mem.key, of_b.mem.key_len, &to_b) == AMPH_OK);
    CHECK(a->cx->ops->mem_import(a->cx, 2, of_c.mem.key, of_c.mem.key_len, &to_c) == AMPH_OK);

    struct amph_cx *silent = c->cx;

    c->cx = NULL; /* makes no progress */
    for (unsigned k = 0; k < COUNT; k++) {
        lost[k] = (struct suite_op)SUITE_OP;
        CHECK(a->cx->ops->put(a->cx, 2, &to_c, 0, data, LEN, NULL, &lost[k].op) == AMPH_OK);
        CHECK(put(a, 1, &to_b, 0, LEN) == AMPH_OK);
    }

    a->cx->ops->del_peer(a->cx, 2);
    for (unsigned k = 0; k < COUNT; k++)
        CHECK(lost[k].done == 1 && lost[k].st == AMPH_ERR_PEER);

    CHECK(put(a, 1, &to_b, 0, LEN) == AMPH_OK);
    c->cx = silent;
    suite_segment_close(b, &of_b);
    suite_segment_close(c, &of_c);
    suite_world_close(w);
}

/* A hostile peer's own messages of our kind: dropped, answered with a refusal, or owed in
 * bounds. */
static void hostile_messages(void)
{
    struct suite_world *w = suite_world_open(3, false);
    struct suite_node *a = &w->node[0];
    struct suite_node *b = &w->node[1];
    struct suite_node *c = &w->node[2];
    static uint8_t payload[65536], data[5000];
    struct suite_segment seg;
    struct amph_rmem rmem;
    uint64_t state = 17;
    uint64_t before = amph_counters[AMPH_COUNTER_DROP_MALFORMED];

    suite_close_node(a);
    suite_target = &bare; /* the hostile one speaks for itself */
    a->world = NULL;
    suite_open_node(w, 0);
    suite_target = &target;

    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = 0; j < 3; j++)
            suite_link(&w->node[i], &w->node[j]);

    suite_segment_open(b, 65536, &seg);
    CHECK(c->cx->ops->mem_import(c->cx, 1, seg.mem.key, seg.mem.key_len, &rmem) == AMPH_OK);
    a->keep_last = true;

    for (unsigned k = 0; k < 5000; k++) {
        struct amph_am am = { .kind = AMPH_AM_INTERNAL,
                              .handler = (uint8_t)(AMPH_EMULATE_FIRST + k % 8),
                              .payload = payload };

        am.nbytes = (uint32_t)(suite_random(&state) % (k % 3 ? 100 : sizeof payload));
        for (uint32_t i = 0; i < am.nbytes && i < 200; i++)
            payload[i] = (uint8_t)(suite_random(&state) & (k % 2 ? 0xff : 1));

        suite_send(a, 1, k % 5 ? k % 8 >= 2 : k % 2, &am, NULL);
        if (k % 50 == 0)
            CHECK(put(c, 1, &rmem, 0, sizeof data) == AMPH_OK);
    }

    CHECK(amph_counters[AMPH_COUNTER_DROP_MALFORMED] > before);
    CHECK(put(c, 1, &rmem, 0, sizeof data) == AMPH_OK);
    suite_segment_close(b, &seg);
    suite_world_close(w);
}

static const struct amph_conduit_ops *const unset = (const struct amph_conduit_ops *)1;

static enum amph_status choose(const char *conduit, const char *smp, bool one_host,
                               const struct amph_conduit_ops **ops_p)
{
    *ops_p = unset;
    setenv("AMPHORA_CONDUIT", conduit, 1);
    setenv("AMPHORA_SMP", smp, 1);
    amph_env_reload();

    return amph_conduit_choose(one_host, ops_p);
}

/* Every conduit of this build is a word of AMPHORA_CONDUIT, and a network unless it reaches one host
 * only; the other words are auto and conduits that are not in this build. */
static void words(void)
{
    static const char list[] = AMPH_CONDUIT_WORDS "|";
    const char *next = list;
    size_t found = 0;

    for (const char *word = next; *word; word = next) {
        char name[16];

        next = strchr(word, '|') + 1;
        snprintf(name, sizeof name, "%.*s", (int)(next - 1 - word), word);

        const struct amph_conduit_ops *ops = amph_conduit_find(name);

        found += ops != NULL;
        CHECK(amph_conduit_is_one_host(name) == (ops == &amph_smp_ops));
        CHECK(amph_conduit_is_network(name) ==
              (strcmp(name, "auto") != 0 && !amph_conduit_is_one_host(name)));
    }

    size_t listed = 0;

    while (amph_conduit_list()[listed])
        listed++;

    CHECK(found == listed);
    CHECK(amph_conduit_is_network(amph_conduit_default_network()));
}

static void registry(void)
{
    const struct amph_conduit_ops *ops;

    words();
    CHECK(choose("auto", "1", true, &ops) == AMPH_OK && ops == NULL);
    CHECK(choose("smp", "1", true, &ops) == AMPH_OK && ops == NULL);
    CHECK(choose("smp", "1", false, &ops) == AMPH_ERR_ARG);
    CHECK(choose("smp", "0", true, &ops) == AMPH_ERR_ARG);
    CHECK(amph_conduit_find("smp") == &amph_smp_ops && amph_conduit_list()[0] == &amph_smp_ops);
    CHECK(amph_conduit_find("no-such-conduit") == NULL);

    char why[512];
    const struct amph_conduit_ops *tcp = amph_conduit_find("tcp");

    if (!tcp || tcp->probe(why, sizeof why) != AMPH_OK)
        suite_skip("no network to choose here");

    CHECK(choose("auto", "1", false, &ops) == AMPH_OK && ops && ops != &amph_smp_ops);
    CHECK(choose("auto", "0", true, &ops) == AMPH_OK && ops && ops != &amph_smp_ops);
    CHECK(choose("tcp", "1", true, &ops) == AMPH_OK && ops == tcp);

    static const char *const absent[] = { "udp", "verbs" };

    for (size_t i = 0; i < AMPH_COUNTOF(absent); i++)
        if (!amph_conduit_find(absent[i]))
            for (int one_host = 0; one_host < 2; one_host++)
                CHECK(choose(absent[i], "1", one_host, &ops) == AMPH_ERR_NOSYS);
}

/* AMPHORA_RMA=emulate lays emulate.c over a network. */
static void forced(void)
{
    const struct amph_conduit_ops *tcp = amph_conduit_find("tcp");
    char why[512];

    if (!tcp || tcp->probe(why, sizeof why) != AMPH_OK)
        suite_skip("no network here");

    setenv("AMPHORA_RMA", "emulate", 1);
    amph_env_reload();

    struct amph_cx_config cfg = {
        .name = "test", .max_peers = 2, .loopback_only = true, .interface = ""
    };
    struct amph_cx *cx;

    CHECK(amph_conduit_open(tcp, &cfg, &cx) == AMPH_OK);
    CHECK(cx->ops->put != tcp->put && cx->caps.native_rma && !cx->caps.put_then_am);
    cx->ops->close(cx);
}

int main(int argc, char **argv)
{
    /* clang-format off */
    static const struct suite_case own[] = {
        { "the target checks bounds and keys", bounds },
        { "a silent peer has its own window", silent_peer },
        { "hostile messages", hostile_messages },
        { "the registry chooses", registry },
        { "AMPHORA_RMA=emulate", forced },
        { NULL, NULL },
    };

    /* clang-format on */
    return conduit_suite_main(argc, argv, &target, own);
}
