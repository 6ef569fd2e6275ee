/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job whose processes exchange messages, put, meet in barriers and write files until one of them
 * ends badly (launcher_cause.sh).
 *
 *   launcher_cause RANK HOW [DIR]   process RANK ends by HOW after some rounds: kill, abort, fatal,
 *                                   _exit0, _exit1, exit3 (gasnet_exit), stopped_agent (by kill, which
 *                                   the agent reports late); early: by kill, before it joins the
 *                                   job; attach: by kill, while the others attach their segments.
 *                                   DIR: for files.
 */
#define _GNU_SOURCE 1
#include "gasnetex.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/gex/gex_common.h"

enum {
    H_ASK = 200,
    H_ANSWER,
    H_ATTACHES,
    LAST_ROUND = 30,
    PEERS_A_ROUND = 8,
    BYTES = 4096
};

static gex_TM_t tm;
static gex_Rank_t attaching; /* processes that have said so */

static void ask(gex_Token_t token, gex_AM_Arg_t round)
{
    gex_AM_ReplyShort1(token, H_ANSWER, 0, round);
}

static void answer(gex_Token_t token, gex_AM_Arg_t round)
{
    (void)token;
    (void)round;
}

static void attaches(gex_Token_t token)
{
    (void)token;
    attaching++;
}

static void end_by_kill(void)
{
    raise(SIGKILL);
}

/* Its agent is stopped for longer than the launcher waits for a report.  A shell does it, because a child of this
 * program would keep the connection to the launcher open. */
static void end_by_kill_unseen(void)
{
    char order[128];

    snprintf(order, sizeof order, "kill -STOP %ld; kill -KILL %ld; sleep 1; kill -CONT %ld",
             (long)getppid(), (long)getpid(), (long)getppid());
    if (fork() == 0) {
        execl("/bin/sh", "sh", "-c", order, (char *)NULL);
        _exit(127);
    }

    pause();
}

static void end_by_fatal(void)
{
    gasnett_fatalerror("the program has found a mistake");
}

static void end_by_exit0(void)
{
    _exit(0);
}

static void end_by_exit1(void)
{
    _exit(1);
}

static void end_by_gasnet_exit(void)
{
    gasnet_exit(3);
}

static const struct {
    const char *how;
    void (*end)(void);
} ends[] = {
    { "kill", end_by_kill },         { "abort", abort },
    { "fatal", end_by_fatal },       { "stopped_agent", end_by_kill_unseen },
    { "_exit0", end_by_exit0 },      { "_exit1", end_by_exit1 },
    { "exit3", end_by_gasnet_exit },
};

static void end(const char *how)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(how, ends[i].how) == 0)
            ends[i].end();

    fprintf(stderr, "launcher_cause: %s is no way to end\n", how);
    gasnet_exit(9);
}

/* A file call that fails because the job is being ended would print a line. */
static void write_file(const char *dir, gex_Rank_t me)
{
    static char block[BYTES];
    char name[4096];

    snprintf(name, sizeof name, "%s/%u", dir, (unsigned)me);
    int fd = open(name, O_CREAT | O_RDWR, 0600);

    CHECK(fd >= 0);
    CHECK(write(fd, block, sizeof block) == sizeof block);
    CHECK(close(fd) == 0);
}

static void work(gex_Rank_t me, gex_Rank_t n, unsigned round, const char *dir)
{
    static char block[BYTES];

    for (unsigned i = 0; i < n && i < PEERS_A_ROUND; i++) {
        gex_Rank_t to = (me + i * round + 1) % n;
        void *at;

        gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, to, &at, NULL, NULL, 0));
        gex_AM_RequestShort1(tm, to, H_ASK, 0, (gex_AM_Arg_t)round);
        gex_RMA_PutBlocking(tm, to, at, block, sizeof block, 0);
    }

    if (dir && round % 5 == 0)
        write_file(dir, me);

    if (round % 10 == 0)
        gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
}

static void meet_before_attach(gex_Rank_t victim)
{
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0)); /* all have their handlers */
    if (gex_TM_QueryRank(tm) != victim) {
        gex_AM_RequestShort0(tm, victim, H_ATTACHES, 0);
        return;
    }

    GASNET_BLOCKUNTIL(attaching == gex_TM_QuerySize(tm) - 1);
    end_by_kill();
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t table[] = {
        { H_ASK, (gex_AM_Fn_t)ask, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 1, NULL, "ask" },
        { H_ANSWER, (gex_AM_Fn_t)answer, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 1, NULL, "answer" },
        { H_ATTACHES, (gex_AM_Fn_t)attaches, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_SHORT, 0, NULL,
          "attaches" },
    };
    gex_Client_t client;
    gex_EP_t ep;
    gex_Segment_t segment;
    const char *rank = getenv("AMPHORA_RANK");

    if (rank && argc > 2 && strcmp(argv[2], "early") == 0 && strcmp(rank, argv[1]) == 0)
        end_by_kill();

    if (gex_Client_Init(&client, &ep, &tm, "CAUSE", &argc, &argv, 0) != GASNET_OK || argc < 3)
        return 9;

    gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table);

    const gex_Rank_t me = gex_TM_QueryRank(tm);

    if (strcmp(argv[2], "attach") == 0)
        meet_before_attach((gex_Rank_t)atoi(argv[1]));
    if (gex_Segment_Attach(&segment, tm, 1 << 20) != GASNET_OK) {
        fprintf(stderr, "launcher_cause: process %u has no segment\n", (unsigned)me);
        return 9;
    }

    const gex_Rank_t n = gex_TM_QuerySize(tm);

    for (unsigned round = 0;; round++) {
        if (me == (gex_Rank_t)atoi(argv[1]) && round == LAST_ROUND)
            end(argv[2]);

        work(me, n, round, argc > 3 ? argv[3] : NULL);
    }
}
