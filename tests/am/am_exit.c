/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways out of a job: am_exit WAY CODE.  all: each member calls the exit; one: only the last
 * one, while the others wait for ever; handler: a handler of member 0 does; return: main returns;
 * fail: only the last member's main returns, die: the last member calls _exit, abort: abort, the
 * others wait. am_exit word: prints the number of the handler that is told when all have met at
 * the exit.
 */
#include <signal.h>
#include <unistd.h>

#include "am/job.h"
#include "tests/am/am_common.h"

static int code;

static void on_bye(struct amph_token *token, const struct amph_am *am)
{
    amph_job_exit(code);
}

static void wait_for_ever(void)
{
    struct amph_waiter w = AMPH_WAITER_INIT;
    for (;;)
        amph_am_wait_step(amph_job.ep, &w);
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[1] : "return";

    code = argc > 2 ? atoi(argv[2]) : 0;
    if (argc == 2 && strcmp(argv[1], "word") == 0)
        return printf("%d\n", AMPH_AM_ALL_EXIT) < 0;

    /* This program is linked with libfabric, some of whose libraries catch signals when loaded. */
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);

    am_start(false);
    am_handler(130, on_bye, 1, 1, 0);
    am_barrier();

    bool last = amph_job.rank == amph_job.size - 1;

    printf("unflushed words of %u", amph_job.rank);
    if (!strcmp(way, "all"))
        amph_job_exit(code);

    if (!strcmp(way, "one") && last)
        amph_job_exit(code);

    if (!strcmp(way, "handler") && last)
        amph_am_request(amph_job.ep, 0, &(struct amph_am){ .kind = AMPH_AM_SHORT, .handler = 130 },
                        0, NULL);

    if (!strcmp(way, "die") && last)
        _exit(code);

    if (!strcmp(way, "abort") && last)
        abort();

    if (strcmp(way, "return") && !(strcmp(way, "fail") == 0 && last))
        wait_for_ever();

    return code;
}
