/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that computes, without a poll, for longer than its peers' time-out (AMPHORA_UDP_TIMEOUT) is
 * not dead.  Member 0 waits for member 1's answer; member 1 computes and has nothing in flight; member 2
 * computes while its own request to member 1 is not acknowledged. */
#include "base/settings/env.h"
#include "tests/am/am_common.h"

static unsigned asked, answered;

static void on_ask(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = { .kind = AMPH_AM_SHORT, .handler = 131 };

    asked++;
    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_answer(struct amph_token *token, const struct amph_am *am)
{
    answered++;
}

static void ask(uint32_t rank)
{
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 130 };

    CHECK(amph_am_request(amph_job.ep, rank, &am, 0, NULL) == AMPH_OK, "request");
}

static void compute(uint64_t ns)
{
    uint64_t end = amph_now_ns() + ns;

    while (amph_now_ns() < end)
        continue;
}

int main(void)
{
    uint64_t timeout = amph_env_ns(AMPH_ENV_UDP_TIMEOUT);

    am_start(false);
    am_handler(130, on_ask, 1, 1, 0);
    am_handler(131, on_answer, 1, 2, 0);
    am_barrier();

    for (uint32_t rank = 0; rank < amph_job.size; rank++)
        ask(rank); /* connects */

    WAIT_UNTIL(answered == amph_job.size && asked == amph_job.size);
    am_barrier();

    if (amph_job.rank != 1)
        ask(1);

    if (amph_job.rank != 0)
        compute(3 * timeout);

    if (amph_job.rank == 1)
        WAIT_UNTIL(asked == amph_job.size + 2);
    else
        WAIT_UNTIL(answered == amph_job.size + 1);

    am_barrier();
    return 0;
}
