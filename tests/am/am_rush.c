/* SPDX-License-Identifier: BSD-3-Clause */
/* All members begin to connect to one and then compute, so their connections say nothing for a second:
 * it refuses none of them, and receives every message. */
#include <time.h>

#include "base/settings/counters.h"
#include "base/status.h"
#include "tests/am/am_common.h"

static unsigned came;

static void on_message(struct amph_token *token, const struct amph_am *am)
{
    came++;
}

int main(void)
{
    const struct timespec computes = { 1, 0 };
    const struct amph_am am = { .kind = AMPH_AM_SHORT, .handler = 130 };

    am_start(false);
    am_handler(130, on_message, 1, 3, 0);
    am_barrier();

    if (amph_job.rank != 0) {
        enum amph_status st = amph_am_request(amph_job.ep, 0, &am, AMPH_AM_IMMEDIATE, NULL);

        nanosleep(&computes, NULL);
        if (st == AMPH_AGAIN)
            st = amph_am_request(amph_job.ep, 0, &am, 0, NULL);

        CHECK(st == AMPH_OK, "request: %s", amph_status_text(st));
    } else {
        WAIT_UNTIL(came == amph_job.size - 1);

        uint64_t refused = amph_counters[AMPH_COUNTER_DROP_STRANGER];

        CHECK(refused == 0, "%llu connections of members were refused",
              (unsigned long long)refused);
    }

    am_barrier();
    return 0;
}
