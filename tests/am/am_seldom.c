/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that polls once in 2 ms, because it computes between its polls, gets many large messages
 * and puts through at each poll, not one. */
#include "tests/am/am_common.h"

#define BYTES 65536u
#define MESSAGES 400u
#define PUTS 128u
#define AT_LEAST 6u /* through at the best poll, or a poll on average */
#define COMPUTE_NS (2 * AMPH_NS_PER_MS)

static unsigned arrived, done, ended;
static uint8_t payload[BYTES];
static struct amph_rmem rmem[2];

static void on_message(struct amph_token *token, const struct amph_am *am)
{
    CHECK(am->nbytes == amph_am_max_medium(amph_job.ep, 0) || am->nbytes == BYTES, "length %u",
          am->nbytes);
    arrived++;
}

static void on_end(struct amph_token *token, const struct amph_am *am)
{
    ended++;
}

static void on_put(struct amph_op *op, enum amph_status st)
{
    CHECK(st == AMPH_OK, "a put ended with status %d", st);
    done++;
}

static void compute(void)
{
    const uint64_t end_ns = amph_now_ns() + COMPUTE_NS;

    while (amph_now_ns() < end_ns)
        continue;
}

static void send(enum amph_am_kind kind, uint8_t handler, uint32_t nbytes)
{
    const struct amph_am am = {
        .kind = kind, .handler = handler, .nbytes = nbytes, .payload = nbytes ? payload : NULL
    };

    CHECK(amph_am_request(amph_job.ep, 1, &am, 0, NULL) == AMPH_OK, "request");
}

static void send_all(void)
{
    static struct amph_op put[PUTS];
    const uint32_t max = amph_am_max_medium(amph_job.ep, 1);

    for (unsigned i = 0; i < MESSAGES; i++)
        send(AMPH_AM_MEDIUM, 130, max < BYTES ? max : BYTES);

    for (unsigned i = 0; i < PUTS; i++) {
        put[i] = (struct amph_op){ on_put };
        CHECK(amph_am_put(amph_job.ep, 1, &rmem[1], 0, payload, BYTES, 0, NULL, &put[i]) == AMPH_OK,
              "put");
    }

    WAIT_UNTIL(done == PUTS);
    send(AMPH_AM_SHORT, 131, 0);
}

static void take_all(void)
{
    unsigned best = 0;
    unsigned polls = 0;

    while (arrived < MESSAGES) {
        const unsigned before = arrived;

        compute();
        amph_am_poll(amph_job.ep);
        best = arrived - before > best ? arrived - before : best;
    }

    for (; !ended; polls++) {
        compute();
        amph_am_poll(amph_job.ep);
    }

    CHECK(best >= AT_LEAST, "the best poll handled %u messages of %u bytes", best, BYTES);
    CHECK(polls * AT_LEAST < PUTS, "%u puts of %u bytes took %u polls", PUTS, BYTES, polls);
}

int main(void)
{
    uint8_t *base;

    am_start(false);
    am_handler(130, on_message, 2, 1, 0);
    am_handler(131, on_end, 1, 1, 0);
    am_segment(BYTES, rmem, &base);

    if (amph_job.rank == 0)
        send_all();
    else
        take_all();

    am_barrier();
    return 0;
}
