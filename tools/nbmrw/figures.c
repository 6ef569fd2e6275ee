/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbmrw --figures: the target figures of forwarded files on one host, measured in four jobs.  Each
 * row is compared with its own limit, measured in the same run.
 *
 * Layer: tools.  Thread rule: one thread, and one for the other end of the raw TCP stream.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GASNET_PAR 1
#include <gasnetex.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define FILE_BYTES (64 * MIB)
#define SEGMENT_BYTES (16 * MIB)

const struct nbmrw_job nbmrw_jobs[NBMRW_JOBS] = {
    { "1", 1, NULL, "1" },
    { "1", 1, "tcp", "0" },
    { "1", 8, NULL, "1" },
    { "4", 2, NULL, "1" },
};

enum {
    ONE_SERVER,
    TCP,
    EIGHT_SERVERS,
    CLIENTS
};

/* What a row is compared with. */
enum limit {
    DIRECT_CALLS,
    RAW_STREAM,
    ONE_WIDE,
    ONE_CLIENT,
    RATE
};

static const char *const limit_name[] = { "direct", "raw TCP stream", "one server", "one client",
                                          "" };

struct figure {
    unsigned job;
    enum limit limit;
    double wanted; /* ratio, or calls per second */
    const char *text;
    struct series s;
};

#define WIDE(what_, width_) \
    .what = what_, .way = FORWARDED, .width = width_, .file_bytes = FILE_BYTES, \
    .call_bytes = 16 * MIB
#define DATA(what_, way_, call) \
    .what = what_, .way = way_, .width = 1, .file_bytes = FILE_BYTES, .call_bytes = call
#define SMALL(what_, call) \
    .what = what_, .way = FORWARDED, .width = 1, .file_bytes = 8 * MIB, .call_bytes = call
#define META(what_) .what = what_, .way = FORWARDED, .width = 1

/* clang-format off */
static const struct figure figures[] = {
    { ONE_SERVER, DIRECT_CALLS, 0.9, "smp, 16 MiB, fresh write", { DATA(WRITE_FRESH, FORWARDED, 16 * MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.9, "smp, 16 MiB, write over", { DATA(WRITE_OVER, FORWARDED, 16 * MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.9, "smp, 16 MiB, read", { DATA(READ, FORWARDED, 16 * MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.75, "smp, 1 MiB, fresh write", { DATA(WRITE_FRESH, FORWARDED, MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.75, "smp, 1 MiB, write over", { DATA(WRITE_OVER, FORWARDED, MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.75, "smp, 1 MiB, read", { DATA(READ, FORWARDED, MIB) } },
    { ONE_SERVER, DIRECT_CALLS, 0.9, "in segment, 1 MiB, write over", { DATA(WRITE_OVER, FORWARDED, MIB), .segment = true } },
    { ONE_SERVER, DIRECT_CALLS, 0.9, "in segment, 1 MiB, read", { DATA(READ, FORWARDED, MIB), .segment = true } },
    { ONE_SERVER, DIRECT_CALLS, 1.5, "1 KiB, collected, write over", { DATA(WRITE_OVER, COLLECTED, KIB) } },
    { ONE_SERVER, DIRECT_CALLS, 1.5, "1 KiB, collected, read", { DATA(READ, COLLECTED, KIB) } },
    { ONE_SERVER, RATE, 300e3, "smp, 4 KiB, write over", { SMALL(WRITE_OVER, 4 * KIB) } },
    { ONE_SERVER, RATE, 300e3, "smp, 4 KiB, read in random order", { SMALL(READ, 4 * KIB), .random_order = true } },
    { ONE_SERVER, RATE, 450e3, "smp, 1 KiB, write over", { SMALL(WRITE_OVER, KIB) } },
    { ONE_SERVER, RATE, 450e3, "smp, 1 KiB, read in random order", { SMALL(READ, KIB), .random_order = true } },
    { ONE_SERVER, DIRECT_CALLS, 1.0, "smp, 1 KiB, read in sequence", { DATA(READ, FORWARDED, KIB) } },
    { ONE_SERVER, RATE, 250e3, "stat", { META(STAT) } },
    { ONE_SERVER, RATE, 100e3, "open+close", { META(OPEN_CLOSE) } },
    { ONE_SERVER, RATE, 60e3, "create", { META(CREATE) } },
    { ONE_SERVER, RATE, 100e3, "unlink", { META(UNLINK) } },
    { TCP, RAW_STREAM, 0.8, "tcp, 4 MiB, write over", { DATA(WRITE_OVER, FORWARDED, 4 * MIB) } },
    { TCP, RAW_STREAM, 0.8, "tcp, 4 MiB, read", { DATA(READ, FORWARDED, 4 * MIB) } },
    { TCP, RATE, 60e3, "tcp, 1 KiB, write over", { SMALL(WRITE_OVER, KIB) } },
    { TCP, RATE, 60e3, "tcp, 1 KiB, read", { SMALL(READ, KIB) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "2 servers, 16 MiB, write over", { WIDE(WRITE_OVER, 2) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "4 servers, 16 MiB, write over", { WIDE(WRITE_OVER, 4) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "8 servers, 16 MiB, write over", { WIDE(WRITE_OVER, 8) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "2 servers, 16 MiB, read", { WIDE(READ, 2) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "4 servers, 16 MiB, read", { WIDE(READ, 4) } },
    { EIGHT_SERVERS, ONE_WIDE, 0.9, "8 servers, 16 MiB, read", { WIDE(READ, 8) } },
    { CLIENTS, ONE_CLIENT, 0.9, "4 clients on 2 servers, write over", { DATA(WRITE_OVER, FORWARDED, MIB) } },
    { CLIENTS, ONE_CLIENT, 0.9, "4 clients on 2 servers, read", { DATA(READ, FORWARDED, MIB) } },
};
/* clang-format on */
enum {
    NFIGURES = sizeof figures / sizeof figures[0]
};

/* ---- the raw stream ---- */

static void *far_end(void *arg)
{
    int fd = *(int *)arg;
    char *buf = malloc(MIB);
    char done = 1;

    if (buf && nbmrw_stream_move(fd, buf, FILE_BYTES, MIB, false))
        nbmrw_stream_move(fd, &done, 1, 1, true);

    free(buf);
    return NULL;
}

static bool connect_pair(int fds[2])
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof at;
    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = -1;

    if (listener >= 0 && fds[0] >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &len) == 0 &&
        connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0)
        fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    close(listener);
    for (int i = 0; i < 2 && fds[1] >= 0; i++)
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

    return fds[1] >= 0;
}

/* Returns the bytes per second of a TCP connection of this host, with calls of that size. */
static bool raw_stream(uint64_t call_bytes, double *value_p)
{
    int fds[2];
    pthread_t thread;
    char *buf = calloc(1, call_bytes);
    char done;
    bool ok = buf && connect_pair(fds) && pthread_create(&thread, NULL, far_end, &fds[1]) == 0;

    if (ok) {
        double start = nbmrw_now();

        ok = nbmrw_stream_move(fds[0], buf, FILE_BYTES, call_bytes, true) &&
             nbmrw_stream_move(fds[0], &done, 1, 1, false);
        *value_p = (double)FILE_BYTES / (nbmrw_now() - start);
        shutdown(fds[0], SHUT_RDWR);
        pthread_join(thread, NULL);
        close(fds[0]);
        close(fds[1]);
    }

    free(buf);
    if (!ok)
        fprintf(stderr, "nbmrw: no TCP connection within this host: %s\n", strerror(errno));

    return ok;
}

/* ---- samples ---- */

/* The samples of a row, those of its limit, and the ratio of each pair. */
struct measured {
    struct series value, limit, ratio;
};

static void barrier(void)
{
    gex_Event_Wait(gex_Coll_BarrierNB(nbmrw_state.team, 0));
}

/* Measures all clients at once.  The slowest client determines the rate. */
static bool sample_clients(const struct options *o, const struct series *s, double *value_p)
{
    double own = 0;
    double min = 0;

    nbmrw_state.ready = barrier;

    bool ok = nbmrw_sample(o, s, &own);

    nbmrw_state.ready = NULL;
    own = ok ? own : 0;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(nbmrw_state.team, &min, &own, GEX_DT_DBL, sizeof own, 1,
                                          GEX_OP_MIN, NULL, NULL, 0));
    *value_p = min * gex_TM_QuerySize(nbmrw_state.team);

    return min > 0;
}

static bool sample_limit(const struct options *o, const struct figure *f, double *value_p)
{
    struct series s = f->s;
    double unused;
    bool ok = true;

    switch (f->limit) {
    case DIRECT_CALLS:
        s.way = DIRECT;
        break;
    case RAW_STREAM:
        return raw_stream(s.call_bytes, value_p);
    case ONE_WIDE:
        s.width = 1;
        break;
    case ONE_CLIENT:
        barrier();
        ok = gex_TM_QueryRank(nbmrw_state.team) != 0 || nbmrw_sample(o, &s, value_p);
        barrier();
        return ok;
    case RATE:
        return true;
    }
    return nbmrw_sample(o, &s, value_p ? value_p : &unused);
}

static bool sample_value(const struct options *o, const struct figure *f, double *value_p)
{
    return f->limit == ONE_CLIENT ? sample_clients(o, &f->s, value_p)
                                  : nbmrw_sample(o, &f->s, value_p);
}

/*
 * Takes a sample and its limit directly one after the other, in alternating order.  Other load of
 * the machine changes within seconds, so it affects both.  Each pair gives a ratio.
 */
static bool measure(const struct options *o, const struct figure *f, struct measured *m)
{
    m->value = m->limit = m->ratio = f->s;
    for (unsigned r = 0; r <= o->repeats; r++) { /* the first pair warms up */
        double l = 0;
        double v = 0;
        bool limit_last = r % 2;
        if (r)
            nbmrw_pause(o->pause);
        if ((!limit_last && !sample_limit(o, f, &l)) || !sample_value(o, f, &v) ||
            (limit_last && !sample_limit(o, f, &l)))
            return false;
        if (r == 0)
            continue;
        m->limit.value[m->limit.n++] = l;
        m->value.value[m->value.n++] = v;
        m->ratio.value[m->ratio.n++] = v / l;
    }

    return true;
}

/* ---- rows ---- */

void nbmrw_figures_head(FILE *out)
{
    fprintf(out, "%-36s %14s %14s %-15s %7s %-11s %8s\n", "what", "median", "limit", "", "ratio",
            " quartiles", "wanted");
}

/* Returns whether the target is met. */
static bool print_row(FILE *table, FILE *json, const struct options *o, const struct figure *f,
                      const struct measured *m)
{
    bool data = f->s.what < NDATA;
    bool rate = f->limit == RATE;
    double v = nbmrw_summary(&m->value).median;
    double l = nbmrw_summary(&m->limit).median;
    double per_call = rate && data ? (double)f->s.call_bytes : 1;
    struct summary ratio = nbmrw_summary(&m->ratio);

    v /= per_call;

    bool reached = (rate ? v : ratio.median) >= f->wanted;

    if (table && rate)
        fprintf(table, "%-36s %10.1f k/s %14s %-15s %7s %11s %4.0f k/s%s\n", f->text, v / 1e3, "",
                "", "", "", f->wanted / 1e3, reached ? "" : "  MISSED");
    else if (table)
        fprintf(table, "%-36s %9.1f MB/s %9.1f MB/s %-15s %7.3f %5.2f-%5.2f %8.2f%s\n", f->text,
                v / 1e6, l / 1e6, limit_name[f->limit], ratio.median, ratio.q1, ratio.q3, f->wanted,
                reached ? "" : "  MISSED");

    if (table)
        fflush(table);

    if (!json)
        return reached;

    fprintf(json,
            "{\"test\":\"figure: "
            "%s\",\"conduit\":\"%s\",\"procs\":%s,\"bytes\":%llu,\"value\":%.6g,\"unit\":\"%s\",",
            f->text, o->conduit, nbmrw_jobs[f->job].procs, (unsigned long long)f->s.call_bytes, v,
            rate ? "1/s" : "B/s");
    if (!rate)
        fprintf(json,
                "\"limit\":\"%s\",\"limit_value\":%.6g,\"ratio\":%.4f,\"ratio_q1\":%.4f,\"ratio_"
                "q3\":%.4f,",
                limit_name[f->limit], l, ratio.median, ratio.q1, ratio.q3);

    fprintf(json, "\"wanted\":%g,\"reached\":%s}\n", f->wanted, reached ? "true" : "false");
    fflush(json);
    return reached;
}

/* The process that started the job looks for this file: a figure was missed. */
static void note_missed(const struct options *o)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/" NBMRW_MISSED, o->dir);

    FILE *f = fopen(path, "w");

    if (f)
        fclose(f);
}

static bool is_wanted(const struct figure *f, const char *match)
{
    return !match || strstr(f->text, match);
}

bool nbmrw_figures_some(const char *match)
{
    size_t i = 0;

    while (i < NFIGURES && !is_wanted(&figures[i], match))
        i++;

    return i < NFIGURES;
}

static int measure_job(const struct options *o, unsigned job, FILE *table, FILE *json)
{
    bool speaks = gex_TM_QueryRank(nbmrw_state.team) == 0;

    for (unsigned i = 0; i < NFIGURES; i++) {
        struct measured m;

        if (figures[i].job != job || !is_wanted(&figures[i], o->match))
            continue;
        if (!measure(o, &figures[i], &m))
            return 1;

        if (speaks && !print_row(table, json, o, &figures[i], &m))
            note_missed(o);
    }

    return 0;
}

int nbmrw_figures_inside(struct options *o, unsigned job)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;

    if (gex_Client_Init(&client, &ep, &nbmrw_state.team, "NBMRW", NULL, NULL, 0) != GASNET_OK ||
        gex_Segment_Attach(&segment, nbmrw_state.team, SEGMENT_BYTES) != GASNET_OK)
        return 1;

    o->rank = gex_TM_QueryRank(nbmrw_state.team);
    nbmrw_state.segment = gex_Segment_QueryAddr(segment);
    memset(nbmrw_state.segment, 0x5a, SEGMENT_BYTES);

    bool to_stdout = o->json && strcmp(o->json, "-") == 0;
    FILE *json = NULL;

    if (o->json && o->rank == 0)
        json = to_stdout ? stdout : fopen(o->json, "a");

    if (o->json && !o->rank && !json) {
        fprintf(stderr, "nbmrw: %s cannot be written: %s\n", o->json, strerror(errno));
        gasnet_exit(1);
    }

    int code = measure_job(o, job, to_stdout ? NULL : stdout, json);

    nbmrw_remove_files(o);
    if (code == 0)
        barrier(); /* other processes still use their files */

    gasnet_exit(code);
    return code;
}
