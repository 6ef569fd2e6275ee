/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients of one server are served in turn: while one keeps writes of 16 MiB under way, several at
 * a time, another one makes small calls, and the server's counters tell how much of the first one's
 * data went by for each.  Not a matter of time, so a loaded machine changes little; what is checked
 * is the median, since a process that the system puts aside for a while sees much go by.
 *   fwd_fair    of two processes; the first is the greedy one
 */
#include <fcntl.h>
#include <gasnetex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "iofwd.h"

enum {
    LARGE = 16 << 20,
    UNDER_WAY = 4,
    CALLS = 300,
    SMALL = 1024,
    PIECE = 128 << 10
};

/* of the greedy one for a small call: 0 to 4; 33 and more where small calls are put off while it is
 * at it */
enum {
    PIECES_MAX = 16
};

static volatile int over;

static void need(int ok, const char *what, unsigned long long value)
{
    if (ok)
        return;

    fprintf(stderr, "%s: %llu\n", what, value);
    gasnet_exit(1);
}

static void on_over(gex_Token_t token)
{
    over = 1;
}

/* Keeps UNDER_WAY writes going until the other one has had enough. */
static void be_greedy(iofwd_file_t *f)
{
    char *data = malloc(LARGE);
    iofwd_op_t op[UNDER_WAY] = { 0 };
    struct iofwd_result result = { 0 };

    need(data != NULL, "memory", LARGE);
    memset(data, 'g', LARGE);

    while (!over) {
        for (int i = 0; i < UNDER_WAY; i++) {
            if (op[i] == IOFWD_OP_NONE)
                need(iofwd_pwrite_nb(f, data, LARGE, (off_t)i * LARGE, &op[i]) == 0,
                     "greedy write begins", (unsigned long long)i);
            else if (iofwd_test(&op[i], &result) == 0)
                need(result.error == 0 && result.bytes == LARGE, "greedy write",
                     (unsigned long long)result.error);
        }

        gasnet_AMPoll();
        if (iofwd_wait(&op[0], 0.001, &result) == 0)
            need(result.error == 0, "greedy write", (unsigned long long)result.error);
    }

    for (int i = 0; i < UNDER_WAY; i++)
        if (op[i] != IOFWD_OP_NONE)
            need(iofwd_wait(&op[i], -1, &result) == 0 && result.error == 0, "last greedy write",
                 (unsigned long long)result.error);

    free(data);
}

static uint64_t all_written(void)
{
    struct iofwd_stats st;

    need(iofwd_stats(IOFWD_NONE, &st) == 0, "counters", 0);
    return st.all_bytes_written;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Small calls by path and by file; fills in what went by for each, the call that asks for it
 * counted too. */
static void be_small(iofwd_file_t *f, const char *path, uint64_t by[CALLS])
{
    char data[SMALL];
    struct stat st;
    size_t done;

    memset(data, 's', sizeof data);

    uint64_t begin = all_written();
    uint64_t before;

    while ((before = all_written()) - begin < LARGE) /* the greedy one is at it */
        ;

    for (int i = 0; i < CALLS; i++) {
        if (i % 2)
            need(iofwd_stat(path, &st) == 0, "stat", (unsigned long long)i);
        else
            need(iofwd_pwrite(f, data, SMALL, (off_t)i * SMALL, &done) == 0 && done == SMALL,
                 "small write", (unsigned long long)i);

        uint64_t now = all_written();

        by[i] = (now - before) / 2;
        before = now;
    }

    qsort(by, CALLS, sizeof *by, by_size);
}

int main(int argc, char **argv)
{
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;
    iofwd_file_t *f;
    char path[64];
    gex_AM_Entry_t entry = { .gex_index = 128,
                             .gex_fnptr = (gex_AM_Fn_t)on_over,
                             .gex_flags = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST };

    if (gex_Client_Init(&client, &ep, &tm, "FAIR", &argc, &argv, 0) != GASNET_OK ||
        gex_TM_QuerySize(tm) != 2)
        return 1;

    need(gex_EP_RegisterHandlers(ep, &entry, 1) == GASNET_OK, "handler", 0);
    snprintf(path, sizeof path, "/fwd/fair.%u", (unsigned)gex_TM_QueryRank(tm));
    need(iofwd_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &f) == 0, "open", 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));

    if (gex_TM_QueryRank(tm) == 0)
        be_greedy(f);
    else {
        uint64_t by[CALLS];

        be_small(f, path, by);
        gex_AM_RequestShort0(tm, 0, 128, 0);
        printf("pieces of 128 KiB for each small call: median %.1f, nine of ten within %.1f, most "
               "%.1f\n",
               (double)by[CALLS / 2] / PIECE, (double)by[CALLS * 9 / 10] / PIECE,
               (double)by[CALLS - 1] / PIECE);
        need(by[CALLS - 1] > 0, "the greedy one wrote meanwhile", 0);
        need(by[CALLS / 2] <= (uint64_t)PIECES_MAX * PIECE,
             "pieces went by for half of the small calls, more than", PIECES_MAX);
    }

    need(iofwd_close(f) == 0 && iofwd_unlink(path) == 0, "close", 0);
    gex_Event_Wait(gex_Coll_BarrierNB(tm, 0));
    gasnet_exit(0);

    return 0;
}
