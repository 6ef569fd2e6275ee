/* SPDX-License-Identifier: BSD-3-Clause */
/* The harness of the conduit conformance suite; see conduit_suite.h. */
#include "tests/conformance/conduit_suite.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/arena.h"
#include "conduits/emulate.h"

#define CASE_SECONDS 90 /* a case that takes longer has hung */
enum {
    EXIT_FAIL = 1,
    EXIT_SKIP = 77
};

const struct suite_target *suite_target;
const struct amph_conduit_ops *suite_ops;

void suite_fail(const char *file, int line, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
    fflush(NULL);
    _exit(EXIT_FAIL);
}

void suite_skip(const char *why)
{
    fprintf(stderr, "skipped: %s\n", why);
    fflush(NULL);
    _exit(EXIT_SKIP);
}

/* ---- worlds ---- */

uint64_t suite_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t cookie(uint32_t from, uint32_t from_incarnation, uint32_t to,
                       uint32_t to_incarnation)
{
    uint64_t state =
        ((uint64_t)(from << 16 | from_incarnation) << 32 | (to << 16 | to_incarnation)) + 1;
    return suite_random(&state);
}

uint64_t suite_cookie(uint32_t from, uint32_t to)
{
    return cookie(from, 0, to, 0);
}

void suite_message(const struct amph_cx *cx, uint32_t from, uint32_t to, enum amph_lane lane,
                   uint32_t seq, struct amph_am *am, int32_t *args, uint8_t *payload)
{
    static const uint8_t kinds[] = { AMPH_AM_SHORT, AMPH_AM_MEDIUM,      AMPH_AM_MEDIUM,
                                     AMPH_AM_LONG,  AMPH_AM_LONG_PACKED, AMPH_AM_INTERNAL };
    uint64_t state = (uint64_t)from << 48 | (uint64_t)to << 34 | (uint64_t)lane << 32 | seq;
    uint64_t r = suite_random(&state);

    memset(am, 0, sizeof *am);
    am->kind = kinds[r % AMPH_COUNTOF(kinds)];
    am->handler = (uint8_t)(r >> 8);
    if (am->kind == AMPH_AM_INTERNAL)
        am->handler &= 127; /* from 128 they are emulate.c's */

    am->flags = (uint8_t)(r >> 16);
    am->aux = (uint16_t)(r >> 24);
    am->nargs = (uint8_t)(1 + (r >> 40) % AMPH_AM_MAX_ARGS);
    am->args = args;
    args[0] = (int32_t)seq;
    for (unsigned i = 1; i < am->nargs; i++)
        args[i] = (int32_t)suite_random(&state);

    if (am->kind == AMPH_AM_LONG || am->kind == AMPH_AM_LONG_PACKED)
        am->dest = suite_random(&state);

    if (am->kind == AMPH_AM_SHORT)
        return;

    uint32_t most = cx->caps.max_medium;

    if ((r >> 48) % 16)
        most = (r >> 52) % 4 ? 150 : 5000;

    am->nbytes = (uint32_t)(suite_random(&state) % (most + 1));
    if (am->kind == AMPH_AM_LONG)
        return;

    am->payload = payload;
    for (uint32_t i = 0; i < am->nbytes; i += 8) {
        uint64_t v = suite_random(&state);
        memcpy(payload + i, &v, am->nbytes - i < 8 ? am->nbytes - i : 8);
    }
}

/* Compares what came with what stream number args[0] must be. */
static void take_numbered(struct suite_node *n, uint32_t peer, enum amph_lane lane,
                          const struct amph_am *am)
{
    struct amph_am want;
    int32_t args[AMPH_AM_MAX_ARGS];
    uint8_t *payload = n->want;

    CHECK(am->nargs >= 1);

    uint32_t seq = (uint32_t)am->args[0];

    CHECK_MSG(seq < SUITE_STREAM, "number %u has come", seq);
    if (!n->seen[peer][lane])
        n->seen[peer][lane] = calloc(1, SUITE_STREAM);

    CHECK_MSG(!n->seen[peer][lane][seq]++, "message %u of %u came twice", seq, peer);
    suite_message(n->cx, peer, n->index, lane, seq, &want, args, payload);
    CHECK(am->kind == want.kind);
    CHECK(am->handler == want.handler);
    CHECK(am->flags == want.flags);
    CHECK(am->aux == want.aux);
    CHECK(am->nargs == want.nargs);
    CHECK_MSG(am->nbytes == want.nbytes, "kind %u: %u bytes came of %u", am->kind, am->nbytes,
              want.nbytes);
    CHECK(memcmp(am->args, args, 4u * want.nargs) == 0);
    if (want.kind == AMPH_AM_LONG || want.kind == AMPH_AM_LONG_PACKED)
        CHECK(am->dest == want.dest);

    if (want.payload && want.nbytes) {
        CHECK_MSG((uintptr_t)am->payload % 8 == 0, "payload at %p", am->payload);
        CHECK_MSG(memcmp(am->payload, payload, want.nbytes) == 0,
                  "message %u of %u: payload of %u bytes differs", seq, peer, want.nbytes);
    }
}

static void keep(struct suite_node *n, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    n->last = *am;
    n->last_peer = peer;
    n->last_lane = lane;
    if (am->nargs)
        memcpy(n->last_args, am->args, 4u * am->nargs);

    if (am->nbytes && am->payload && am->kind != AMPH_AM_LONG && am->kind != AMPH_AM_SHORT) {
        CHECK_MSG((uintptr_t)am->payload % 8 == 0, "payload at %p", am->payload);
        memcpy(n->last_payload, am->payload, am->nbytes);
    }
}

static void on_am(void *up, uint32_t peer, enum amph_lane lane, const struct amph_am *am)
{
    struct suite_node *n = up;

    CHECK_MSG(peer < n->world->max_peers, "a message of peer %u", peer);
    CHECK(am->nargs <= AMPH_AM_MAX_ARGS);
    CHECK(am->nbytes <= n->cx->caps.max_medium || am->kind == AMPH_AM_LONG ||
          am->kind == AMPH_AM_SHORT);

    if (am->handler == SUITE_WARM_UP && am->nargs == 0 && am->kind == AMPH_AM_SHORT) {
        n->warm++;
        return;
    }

    if (n->hook)
        n->hook(n, peer, lane, am);
    else if (n->keep_last)
        keep(n, peer, lane, am);
    else
        take_numbered(n, peer, lane, am);

    if (n->reply && lane == AMPH_LANE_REQUEST &&
        (n->owed[peer] || suite_stream_try(n, peer, AMPH_LANE_REPLY) == AMPH_AGAIN))
        n->owed[peer]++;

    __atomic_fetch_add(&n->got[peer][lane], 1, __ATOMIC_RELEASE);
}

static void on_peer_error(void *up, uint32_t peer, enum amph_status st, const char *why)
{
    struct suite_node *n = up;

    CHECK(peer < n->world->max_peers && st != AMPH_OK && why && why[0]);
    CHECK_MSG(n->errors[peer]++ == 0, "the failure of peer %u was told twice", peer);
}

static const struct amph_upcalls upcalls = { on_am, on_peer_error };

void suite_close_node(struct suite_node *n)
{
    if (n->cx)
        n->cx->ops->close(n->cx);

    for (unsigned j = 0; j < SUITE_NODES; j++)
        for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
            free(n->seen[j][lane]);
            n->seen[j][lane] = NULL;
        }

    free(n->last_payload);
    free(n->want);
    free(n->out);
    n->last_payload = n->want = n->out = NULL;
    n->cx = NULL;
}

void suite_open_node(struct suite_world *w, unsigned index)
{
    struct suite_node *n = &w->node[index];
    uint32_t incarnation = n->world ? n->incarnation + 1 : 0;
    struct amph_cx_config cfg = { .name = "suite",
                                  .max_peers = w->max_peers,
                                  .threaded = w->threaded,
                                  .bursts = true,
                                  .loopback_only = true,
                                  .interface = "",
                                  .upcalls = &upcalls,
                                  .up = n };

    memset(n, 0, sizeof *n);
    n->world = w;
    n->index = index;
    n->incarnation = incarnation;

    enum amph_status st = suite_target->emulate ? amph_conduit_emulate_open(suite_ops, &cfg, &n->cx)
                                                : suite_ops->open(&cfg, &n->cx);

    CHECK_MSG(st == AMPH_OK, "open: %s", amph_status_text(st));
    n->last_payload = malloc(n->cx->caps.max_medium + 8);
    n->want = malloc(n->cx->caps.max_medium + 8);
    n->out = malloc(n->cx->caps.max_medium + 8);
}

struct suite_world *suite_world_open(unsigned n, bool threaded)
{
    struct suite_world *w = calloc(1, sizeof *w);

    w->n = n;
    w->threaded = threaded;
    w->max_peers = SUITE_NODES;
    for (unsigned i = 0; i < n; i++)
        suite_open_node(w, i);

    return w;
}

enum amph_status suite_add(struct suite_node *from, uint32_t peer, const void *addr,
                           size_t addr_len)
{
    const struct amph_peer_spec spec = { addr, addr_len, from->index,
                                         suite_cookie(from->index, peer),
                                         suite_cookie(peer, from->index) };
    return from->cx->ops->add_peer(from->cx, peer, &spec);
}

void suite_link(struct suite_node *from, const struct suite_node *to)
{
    const struct amph_peer_spec spec = {
        to->cx->addr, to->cx->addr_len, from->index,
        cookie(from->index, from->incarnation, to->index, to->incarnation),
        cookie(to->index, to->incarnation, from->index, from->incarnation)
    };
    enum amph_status st = from->cx->ops->add_peer(from->cx, to->index, &spec);

    CHECK_MSG(st == AMPH_OK, "add_peer %u in %u: %s", to->index, from->index, amph_status_text(st));
}

struct suite_world *suite_world(unsigned n, bool threaded)
{
    struct suite_world *w = suite_world_open(n, threaded);

    for (unsigned i = 0; i < n; i++)
        for (unsigned j = 0; j < n; j++)
            suite_link(&w->node[i], &w->node[j]);

    return w;
}

void suite_world_close(struct suite_world *w)
{
    for (unsigned i = 0; i < w->n; i++)
        suite_close_node(&w->node[i]);

    free(w);
}

unsigned suite_pump_node(struct suite_node *n)
{
    unsigned all = 1u << AMPH_LANE_REQUEST | 1u << AMPH_LANE_REPLY;

    if (!n->cx)
        return 0;

    n->cx->ops->flush(n->cx);

    unsigned done = n->cx->ops->progress(n->cx, all, 64);

    for (uint32_t peer = 0; peer < SUITE_NODES; peer++)
        while (n->owed[peer] && suite_stream_try(n, peer, AMPH_LANE_REPLY) == AMPH_OK)
            n->owed[peer]--;

    return done;
}

unsigned suite_pump(struct suite_world *w)
{
    unsigned done = 0;

    for (unsigned i = 0; i < w->n; i++)
        done += suite_pump_node(&w->node[i]);

    return done;
}

void suite_send(struct suite_node *from, uint32_t peer, enum amph_lane lane,
                const struct amph_am *am, struct amph_op *lc)
{
    enum amph_status st = AMPH_AGAIN;

    SUITE_UNTIL(from->world,
                (st = from->cx->ops->am_send(from->cx, peer, lane, am, lc)) != AMPH_AGAIN);
    CHECK_MSG(st == AMPH_OK, "am_send of kind %u, %u args, %u bytes: %s", am->kind, am->nargs,
              am->nbytes, amph_status_text(st));
}

enum amph_status suite_stream_try(struct suite_node *from, uint32_t peer, enum amph_lane lane)
{
    struct amph_am am;
    int32_t args[AMPH_AM_MAX_ARGS];

    suite_message(from->cx, from->index, peer, lane, from->sent[peer][lane], &am, args, from->out);

    enum amph_status st = from->cx->ops->am_send(from->cx, peer, lane, &am, NULL);

    if (st == AMPH_OK)
        from->sent[peer][lane]++;

    return st;
}

void suite_stream(struct suite_node *from, uint32_t peer, enum amph_lane lane)
{
    enum amph_status st = AMPH_AGAIN;

    SUITE_UNTIL(from->world, (st = suite_stream_try(from, peer, lane)) != AMPH_AGAIN);
    CHECK_MSG(st == AMPH_OK, "am_send: %s", amph_status_text(st));
}

bool suite_stream_alone(struct suite_node *from, uint32_t peer, enum amph_lane lane)
{
    enum amph_status st;
    unsigned idle = 0;

    while ((st = suite_stream_try(from, peer, lane)) == AMPH_AGAIN && idle < 2000)
        idle = suite_pump_node(from) ? 0 : idle + 1;

    CHECK_MSG(st == AMPH_OK || st == AMPH_AGAIN, "am_send: %s", amph_status_text(st));
    from->cx->ops->flush(from->cx);
    return st == AMPH_OK;
}

void suite_warm_up(struct suite_world *w)
{
    struct amph_am none = { .kind = AMPH_AM_SHORT, .handler = SUITE_WARM_UP };

    for (unsigned i = 0; i < w->n; i++)
        for (unsigned j = 0; j < w->n; j++)
            for (unsigned lane = 0; lane < AMPH_NLANES; lane++) {
                unsigned before = w->node[j].warm;

                suite_send(&w->node[i], j, lane, &none, NULL);
                SUITE_UNTIL(w, w->node[j].warm == before + 1);
            }
}

void suite_op_done(struct amph_op *op, enum amph_status st)
{
    struct suite_op *o = AMPH_CONTAINER_OF(op, struct suite_op, op);

    o->st = st;
    CHECK(__atomic_fetch_add(&o->done, 1, __ATOMIC_RELEASE) == 0);
}

void suite_segment_open(struct suite_node *n, size_t len_bytes, struct suite_segment *seg)
{
    memset(seg, 0, sizeof *seg);
    seg->len_bytes = len_bytes;
    CHECK(amph_shm_create("suite-segment", len_bytes, &seg->fd) == AMPH_OK);
    seg->base = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, seg->fd, 0);
    CHECK(seg->base != MAP_FAILED);
    CHECK(n->cx->ops->mem_reg(n->cx, seg->base, len_bytes, seg->fd, 0, &seg->mem) == AMPH_OK);
    CHECK(seg->mem.base == seg->base && seg->mem.len_bytes == len_bytes);
    CHECK(seg->mem.key_len > 0 && seg->mem.key_len <= AMPH_KEY_BLOB_MAX_BYTES);
}

void suite_segment_close(struct suite_node *n, struct suite_segment *seg)
{
    n->cx->ops->mem_dereg(n->cx, &seg->mem);
    munmap(seg->base, seg->len_bytes);
    close(seg->fd);
}

/* ---- processes ---- */

void *suite_shared(size_t len_bytes)
{
    void *p = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(p != MAP_FAILED);
    return p;
}

pid_t suite_fork(void (*fn)(void *arg), void *arg)
{
    fflush(NULL);

    pid_t parent = getpid();
    pid_t pid = fork();

    CHECK(pid >= 0);
    if (pid)
        return pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAIL);

    alarm(CASE_SECONDS);
    fn(arg);
    fflush(NULL);
    exit(0);
}

void suite_join(pid_t pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d ended with status 0x%x",
              (int)pid, (unsigned)status);
}

static void run_case(void *arg)
{
    const struct suite_case *c = arg;
    c->run();
}

static void run_probe(void)
{
    char why[512] = "";

    if (suite_ops->probe(why, sizeof why) != AMPH_OK) {
        CHECK_MSG(why[0], "probe fails and does not say why");
        suite_skip(why);
    }
}

/* Runs a case, writes its TAP line; true: not failed. */
static bool report(FILE *tap, unsigned number, const struct suite_case *c, int *code_p)
{
    int status;

    fprintf(stderr, "%s: %s\n", suite_target->name, c->name);

    uint64_t start = amph_now_ns();
    pid_t pid = suite_fork(run_case, (void *)(uintptr_t)c);

    waitpid(pid, &status, 0);

    unsigned ms = (unsigned)((amph_now_ns() - start) / AMPH_NS_PER_MS);

    *code_p = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAIL;

    bool ok = *code_p == 0 || *code_p == EXIT_SKIP;

    fprintf(tap, "%s %u - %s: %s%s\n", ok ? "ok" : "not ok", number, suite_target->name, c->name,
            *code_p == EXIT_SKIP ? " # SKIP" : "");
    if (WIFSIGNALED(status))
        fprintf(tap, "# ended by signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? " (took too long)" : "");

    fprintf(tap, "# %u ms\n", ms);
    fflush(tap);
    return ok;
}

static bool named(int argc, char **argv, const char *name)
{
    bool any = false;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            continue;

        any = true;
        if (strcmp(argv[i], name) == 0)
            return true;
    }

    return !any;
}

static bool run_list(FILE *tap, int argc, char **argv, const struct suite_case *cases,
                     unsigned *number)
{
    bool ok = true;
    int code;

    for (; cases && cases->name; cases++)
        if (named(argc, argv, cases->name))
            ok &= report(tap, ++*number, cases, &code);

    return ok;
}

int conduit_suite_main(int argc, char **argv, const struct suite_target *target,
                       const struct suite_case *more)
{
    static const struct suite_case probe = { "it can be used here", run_probe };
    const struct suite_case *const lists[] = { suite_message_cases, suite_memory_cases,
                                               suite_sleep_cases, suite_life_cases, more };
    FILE *tap = stdout;
    unsigned number = 0;
    int code;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--tap=", 6) == 0 && !(tap = fopen(argv[i] + 6, "we")))
            return 99;

    signal(SIGPIPE, SIG_IGN);
    suite_target = target;
    suite_ops = amph_conduit_find(target->conduit);

    if (!suite_ops) {
        fprintf(tap, "1..0 # SKIP this build has no conduit %s\n", target->conduit);
        return 0;
    }

    bool ok = report(tap, ++number, &probe, &code);

    if (code == 0)
        for (size_t i = 0; i < AMPH_COUNTOF(lists); i++)
            ok &= run_list(tap, argc, argv, lists[i], &number);

    fprintf(tap, "1..%u\n", number);
    fclose(tap);
    return ok ? 0 : 1;
}
