/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a job costs as it grows: time to the first barrier, memory and descriptors of a process
 * before and after everybody has talked to everybody, time of that and of a barrier.  Process 0
 * prints one line; the checks are that each message came and that what the caller allows is kept.
 *
 *   gex_scale START-NS [MAX-MIB]      START-NS: the clock (CLOCK_REALTIME) when the launcher was
 *   started
 */
#include <dirent.h>
#include <gasnetex.h>
#include <time.h>

#include "tests/gex/gex_common.h"

enum {
    H_PING = 140,
    H_PONG,
    SEGMENT = 1 << 20,
    BARRIERS = 20
};

static volatile uint32_t pings, pongs;

static void ping(gex_Token_t token)
{
    pings++;
    gex_AM_ReplyShort0(token, H_PONG, 0);
}

static void pong(gex_Token_t token)
{
    pongs++;
}

static double now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A number of /proc/self/smaps_rollup, in MiB. */
static double rollup(const char *word)
{
    char line[256];
    double kib = 0;
    FILE *in = fopen("/proc/self/smaps_rollup", "r");

    CHECK(in);
    while (fgets(line, sizeof line, in))
        if (strncmp(line, word, strlen(word)) == 0)
            kib = strtod(line + strlen(word), NULL);

    fclose(in);
    return kib / 1024;
}

static double descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    double n = -3; /* ".", ".." and this one */

    CHECK(dir);
    while (readdir(dir))
        n++;

    closedir(dir);
    return n;
}

static void barrier(gex_TM_t tm)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static double largest(gex_TM_t tm, double mine)
{
    double all = 0;

    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, &all, &mine, GEX_DT_DBL, sizeof all, 1, GEX_OP_MAX,
                                          NULL, NULL, 0));
    return all;
}

static double everybody(gex_TM_t tm, uint32_t me, uint32_t n)
{
    double start = now(CLOCK_MONOTONIC);

    for (uint32_t i = 1; i < n; i++)
        gex_AM_RequestShort0(tm, (me + i) % n, H_PING, 0);

    GASNET_BLOCKUNTIL(pings == n - 1 && pongs == n - 1);
    barrier(tm);
    return now(CLOCK_MONOTONIC) - start;
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    gex_Segment_t segment;
    gex_AM_Entry_t handlers[] = {
        { H_PING, (gex_AM_Fn_t)ping, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "ping" },
        { H_PONG, (gex_AM_Fn_t)pong, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "pong" }
    };

    CHECK(gex_Client_Init(&client, &ep, &tm, "SCALE", &argc, &argv, 0) == GASNET_OK);
    CHECK(gex_Segment_Attach(&segment, tm, SEGMENT) == GASNET_OK);
    CHECK(gex_EP_RegisterHandlers(ep, handlers, 2) == GASNET_OK);

    uint32_t me = gex_TM_QueryRank(tm);
    uint32_t n = gex_TM_QuerySize(tm);
    double start_ns = argc > 1 ? strtod(argv[1], NULL) : 0;
    double allowed = argc > 2 ? strtod(argv[2], NULL) : 1e9;

    barrier(tm);

    double started = now(CLOCK_REALTIME) - start_ns / 1e9;
    double quiet = largest(tm, rollup("Pss:"));
    double fds = largest(tm, descriptors());
    double first = largest(tm, everybody(tm, me, n));
    double talked = largest(tm, rollup("Pss:"));
    double more_fds = largest(tm, descriptors());

    pings = pongs = 0;
    barrier(tm);

    double second = largest(tm, everybody(tm, me, n));
    double t = now(CLOCK_MONOTONIC);

    for (int i = 0; i < BARRIERS; i++)
        barrier(tm);

    t = (now(CLOCK_MONOTONIC) - t) / BARRIERS;
    if (me == 0)
        printf("%u processes: first barrier after %.2f s, then %.2f MiB and %.0f descriptors each; "
               "all to all %.1f ms, then %.2f MiB and "
               "%.0f descriptors (%.1f KiB a peer); once more %.1f ms; barrier %.0f us\n",
               n, started, quiet, fds, first * 1e3, talked, more_fds,
               n > 1 ? (talked - quiet) * 1024 / (n - 1) : 0, second * 1e3, t * 1e6);

    CHECK(talked <= allowed);
    gasnet_exit(0);
}
