/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that polls once in 2 ms, because it computes between its polls, gets many large messages
 * and puts through at each poll, not one, and all short messages that have come. */
#include "tests/am/am_common.h"

#define BYTES 65536u
#define MESSAGES 400u
#define PUTS 128u
#define AT_LEAST 6u /* through at the best poll, or a poll on average */
#define SHORTS 16u
#define ROUNDS 20u
#define AT_ONCE 5u /* rounds at least in which one poll takes all short messages */
#define COMPUTE_NS (2 * AMPH_NS_PER_MS)

static unsigned arrived, done, ended, asked, shorts;
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

static void on_ask(struct amph_token *token, const struct amph_am *am)
{
    asked++;
}

static void on_short(struct amph_token *token, const struct amph_am *am)
{
    shorts++;
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

static void send(uint32_t peer, enum amph_am_kind kind, uint8_t handler, uint32_t nbytes)
{
    const struct amph_am am = {
        .kind = kind, .handler = handler, .nbytes = nbytes, .payload = nbytes ? payload : NULL
    };

    CHECK(amph_am_request(amph_job.ep, peer, &am, 0, NULL) == AMPH_OK, "request");
}

static void send_all(void)
{
    static struct amph_op put[PUTS];
    const uint32_t max = amph_am_max_medium(amph_job.ep, 1);

    for (unsigned i = 0; i < MESSAGES; i++)
        send(1, AMPH_AM_MEDIUM, 130, max < BYTES ? max : BYTES);

    for (unsigned i = 0; i < PUTS; i++) {
        put[i] = (struct amph_op){ on_put };
        CHECK(amph_am_put(amph_job.ep, 1, &rmem[1], 0, payload, BYTES, 0, NULL, &put[i]) == AMPH_OK,
              "put");
    }

    WAIT_UNTIL(done == PUTS);
    send(1, AMPH_AM_SHORT, 131, 0);
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

static void answer_with_shorts(void)
{
    for (unsigned i = 1; i <= ROUNDS; i++) {
        WAIT_UNTIL(asked == i);
        for (unsigned k = 0; k < SHORTS; k++)
            send(1, AMPH_AM_SHORT, 133, 0);
    }
}

/* Polls first until nothing comes, so that each round begins in the same state. */
static void take_shorts(void)
{
    unsigned at_once = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned polls = 0;

        for (unsigned empty = 0; empty < 4; empty++)
            if (amph_am_poll(amph_job.ep))
                empty = 0;

        send(0, AMPH_AM_SHORT, 132, 0);
        for (shorts = 0; shorts<SHORTS; polls += shorts> 0) {
            compute();
            amph_am_poll(amph_job.ep);
        }

        at_once += polls == 1;
    }

    CHECK(at_once >= AT_ONCE, "%u short messages came in one poll in %u of %u rounds", SHORTS,
          at_once, ROUNDS);
}

int main(void)
{
    uint8_t *base;

    am_start(false);
    am_needs_two();
    am_handler(130, on_message, 2, 1, 0);
    am_handler(131, on_end, 1, 1, 0);
    am_handler(132, on_ask, 1, 1, 0);
    am_handler(133, on_short, 1, 1, 0);
    am_segment(BYTES, rmem, &base);

    if (amph_job.rank == 0)
        send_all();
    else
        take_all();

    if (amph_job.rank == 0)
        answer_with_shorts();
    else
        take_shorts();

    am_barrier();
    return 0;
}
