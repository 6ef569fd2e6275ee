/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job: they join, pin themselves, and sample each test and its limit in turn, so
 * that disturbances of the machine affect both.
 *
 * Layer: tools.
 */
#define GASNET_SEQ 1
#include <fcntl.h>
#include <gasnet.h>
#include <gasnetex.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/settings/env.h"
#include "base/os/topo.h"
#include "conduits/conduit.h"
#include "tools/perf/perf.h"
#include "tools/perf/state.h"

void perf_no_value(struct perf_run *run, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(run->why, sizeof run->why, fmt, args);
    va_end(args);
}

/* The memory is a descriptor of the tool that started the job: it needs no name and leaves nothing
 * behind. */
struct perf_shared *perf_shared_open(const char *inside)
{
    char path[64];
    long pid, number;

    if (sscanf(inside, "%ld:%ld", &pid, &number) != 2)
        return NULL;

    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", pid, number);

    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;

    void *at = mmap(NULL, sizeof(struct perf_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static bool fail(const char *what, int ret)
{
    fprintf(stderr, "amphora-perf: %s failed: %s\n", what, gasnet_ErrorDesc(ret));
    return false;
}

bool perf_join(struct perf_run *run, size_t segment_bytes)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    int ret = gex_Client_Init(&client, &ep, &tm, "AMPHORA_PERF", NULL, NULL, GEX_FLAG_USES_GASNET1);

    if (ret != GASNET_OK)
        return fail("gex_Client_Init", ret);

    run->rank = gex_TM_QueryRank(tm);
    run->procs = gex_TM_QuerySize(tm);

    if (run->procs > PERF_MAX_PROCS) {
        fprintf(stderr, "amphora-perf: %u processes are more than %u\n", run->procs,
                PERF_MAX_PROCS);
        return false;
    }

    ret = gex_Segment_Attach(&segment, tm, segment_bytes);
    if (ret != GASNET_OK)
        return fail("gex_Segment_Attach", ret);

    perf_am_register(ep);
    run->segment = gex_Segment_QueryAddr(segment);

    uintptr_t size;
    void *remote = run->segment;

    if (run->procs > 1)
        gex_Event_Wait(
            gex_EP_QueryBoundSegmentNB(tm, run->rank == 0 ? 1 : 0, &remote, NULL, &size, 0));

    run->remote = remote;
    return true;
}

/* True: every process has a core of its own and keeps it. */
static bool pin(const struct perf_run *run)
{
    struct amph_topo *topo;

    if (run->procs > (unsigned)sysconf(_SC_NPROCESSORS_ONLN) || amph_topo_open(&topo) != AMPH_OK)
        return false;

    bool pinned = run->procs <= amph_topo_cores(topo) &&
                  amph_topo_bind(topo, 0, AMPH_BIND_CORE, run->rank, run->procs) == AMPH_OK;

    amph_topo_close(topo);
    return pinned;
}

/* May samples be taken at real-time priority?  Two pinned processes may spin; where there are more
 * than cores every wait has to yield. (Jobs with servers are started with it as a whole, see
 * main.c.)  Where the system refuses, the figures are taken without.
 */
static bool is_urgent(const struct perf_run *run, const struct perf_test *t, bool pinned)
{
    if (t->kind == PERF_PAIR)
        return pinned && run->procs == 2;

    return t->kind == PERF_JOB_ALL && !t->once && !t->plain &&
           strcmp(amph_env_str(AMPH_ENV_WAIT), "spin") != 0;
}

static void real_time(bool on)
{
    struct sched_param param = { .sched_priority = on ? 10 : 0 };
    sched_setscheduler(0, (on ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK, &param);
}

/* Limits are named for tcp; udp has limits of its own. */
static const char *limit_on_udp(const char *name)
{
    static const char *const pairs[][2] = {
        { "tcp_rtt", "udp_rtt" },         { "tcp_put", "udp_rtt" },
        { "tcp_stream", "udp_stream" },   { "tcp_ring", "udp_ring" },
        { "tcp_ring_10", "udp_ring_10" }, { "tcp_all", "udp_all" },
        { "tcp_write", "direct_write" },  { "tcp_read", "direct_read" }
    };

    for (size_t i = 0; name && i < AMPH_COUNTOF(pairs); i++)
        if (strcmp(name, pairs[i][0]) == 0)
            return pairs[i][1];

    return name;
}

static const struct perf_test *limit_of(const struct perf_run *run, const struct perf_test *t)
{
    const char *name = amph_conduit_is_one_host(run->conduit) ? t->limit_smp : t->limit_net;

    /* no limit: with AMPHORA_UDP_LOSS datagrams are lost on purpose, and the sampler of the limit
     * does not repeat them */
    if (amph_conduit_is_datagram(run->conduit))
        name = amph_env_int(AMPH_ENV_UDP_LOSS) ? NULL : limit_on_udp(name);

    return name ? perf_find(name, strlen(name)) : NULL;
}

/* A TCP echo needs a byte at least: short messages are compared with one of 8 bytes. */
static size_t limit_bytes(size_t bytes)
{
    return bytes ? bytes : 8;
}

/* ---- the deadline of a sample ---- */

#define LATER_S 5u

/* The start or a sample has passed its deadline: one sentence with its state, and the job ends. */
static void on_deadline(int sig)
{
    char text[400];
    unsigned long long sent, taken;

    perf_am_state(&sent, &taken);

    int n = snprintf(text, sizeof text,
                     "amphora-perf: %s stands still: %s has waited for more than %u s "
                     "(flood messages sent %llu, taken "
                     "%llu); -deadline allows more time\n",
                     perf_state.now.what, perf_state.now.who, perf_state.now.deadline, sent, taken);

    (void)!write(STDERR_FILENO, text, (size_t)n);
    _exit(3);
}

/* Sets the deadline for what follows, up to the next call or deadline_end.  later_s: seconds by
 * which this process waits longer, so that others report first. */
static void deadline_set(const struct perf_run *run, unsigned later_s)
{
    perf_state.now.deadline = run->opt->deadline;
    signal(SIGALRM, on_deadline);
    alarm(perf_state.now.deadline + later_s);
}

static void deadline_start(const struct perf_run *run)
{
    snprintf(perf_state.now.what, sizeof perf_state.now.what, "the start of a job on %s",
             run->conduit);
    snprintf(perf_state.now.who, sizeof perf_state.now.who, "a process");
    deadline_set(run, 0);
}

/* The two measuring processes report first; if they cannot, the others do. */
static void deadline_begin(const struct perf_run *run, const char *test, uint32_t bytes,
                           unsigned sample, unsigned samples)
{
    alarm(0);
    snprintf(perf_state.now.what, sizeof perf_state.now.what,
             "%s on %s with %u bytes, sample %u of %u,", test, run->conduit, bytes, sample,
             samples);
    snprintf(perf_state.now.who, sizeof perf_state.now.who, "process %u", run->rank);
    deadline_set(run, run->rank > 1 ? LATER_S : 0);
}

static void deadline_end(void)
{
    alarm(0);
}

static void one_size(struct perf_run *run, const struct perf_test *t, uint32_t bytes, bool pinned)
{
    const struct perf_test *limit = limit_of(run, t);
    struct perf_series values = { .count = 0 };
    struct perf_series limits = { .count = 0 };
    unsigned repeat = t->once ? 1 : run->opt->repeat;
    bool urgent = is_urgent(run, t, pinned);

    run->why[0] = '\0';
    run->used_bytes = bytes;
    deadline_begin(run, t->name, bytes, 1, repeat);
    perf_sync(run);

    for (unsigned i = 0; i < repeat; i++) {
        deadline_begin(run, t->name, bytes, i + 1, repeat);
        perf_sync(run);
        if (urgent)
            real_time(true);

        for (unsigned turn = 0; turn < 2; turn++) { /* in alternating order */
            if (turn != i % 2)
                values.value[values.count++] = t->sample(run,
                                                         t->machine ? limit_bytes(bytes) : bytes);
            else if (limit)
                limits.value[limits.count++] = limit->sample(run, limit_bytes(run->used_bytes));
            perf_sync(run);
        }

        deadline_end();
        if (urgent)
            real_time(false);
    }

    if (run->rank != 0)
        return;

    if (run->why[0]) {
        fprintf(stderr, "amphora-perf: %s on %s with %u bytes gives no figure: %s\n", t->name,
                run->conduit, bytes, run->why);
        run->shared->failed++;
        return;
    }

    struct perf_row row = { t,
                            run->conduit,
                            run->procs,
                            (uint32_t)run->used_bytes,
                            &values,
                            limit ? limit->name : NULL,
                            limit ? &limits : NULL };

    perf_report_row(run->opt, run->shared, &row);
}

static void all_sizes(struct perf_run *run, const struct perf_test *t, bool pinned)
{
    if (!run->opt->bytes || t->sizes[0] == 0) {
        for (unsigned i = 0; t->sizes[i] != PERF_END; i++)
            one_size(run, t, t->sizes[i], pinned);

        return;
    }

    for (const char *at = run->opt->bytes; *at; at += *at == ',') {
        char word[32];
        uint64_t bytes;
        size_t len = strcspn(at, ",");

        snprintf(word, sizeof word, "%.*s", (int)len, at);
        at += len;
        if (amph_parse_size(word, &bytes))
            one_size(run, t, (uint32_t)bytes, pinned);
    }
}

int perf_inside(const struct perf_options *opt)
{
    struct perf_run run = { .opt = opt, .conduit = opt->conduits, .tcp_fd = -1, .udp_fd = -1 };
    bool pair = false;

    for (size_t i = 0; i < perf_test_count; i++)
        pair |= perf_selected(opt, &perf_tests[i]) &&
                (perf_tests[i].kind == PERF_PAIR || perf_tests[i].kind == PERF_FILE);

    deadline_start(&run);
    run.shared = perf_shared_open(opt->inside);
    if (!run.shared) {
        fprintf(stderr, "amphora-perf: %s is not the memory of a running amphora-perf: %m\n",
                opt->inside);
        return 1;
    }

    if (!perf_join(&run, pair ? PERF_MAX_BYTES : 1u << 20))
        return 1;

    if (pair) {
        run.buffer = aligned_alloc(4096, PERF_MAX_BYTES);
        run.scratch = aligned_alloc(4096, PERF_MAX_BYTES);
        if (!run.buffer || !run.scratch) {
            fprintf(stderr, "amphora-perf: no memory for two buffers of %u bytes\n",
                    PERF_MAX_BYTES);
            return 1;
        }

        memset(run.buffer, 1, PERF_MAX_BYTES);
        memset(run.segment, 1, PERF_MAX_BYTES);
    }

    bool pinned = pin(&run);

    for (size_t i = 0; i < perf_test_count; i++)
        if (perf_selected(opt, &perf_tests[i]))
            all_sizes(&run, &perf_tests[i], pinned);

    perf_tcp_close(&run);
    perf_udp_close(&run);
    perf_sync(&run);
    gasnet_exit(0);

    return 0;
}
