/* SPDX-License-Identifier: BSD-3-Clause */
/* PAR: four threads of each member send requests, wait for their replies and poll, all on one
 * endpoint; none misses its wake-up. */
#include <pthread.h>

#include "tests/am/am_common.h"

enum {
    THREADS = 4,
    TRIPS = 400,
    H_ASK = 130,
    H_ANSWER
};

static unsigned answers[THREADS];

static void on_ask(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am reply = { .kind = AMPH_AM_MEDIUM,
                                   .handler = H_ANSWER,
                                   .nargs = 2,
                                   .args = am->args,
                                   .nbytes = am->nbytes,
                                   .payload = am->payload };

    CHECK(amph_am_reply(token, &reply, 0, NULL) == AMPH_OK, "reply");
}

static void on_answer(struct amph_token *token, const struct amph_am *am)
{
    const uint8_t *p = am->payload;

    for (uint32_t i = 0; i < am->nbytes; i++)
        CHECK(p[i] == (uint8_t)(am->args[1] + (int32_t)i), "byte %u", i);

    __atomic_add_fetch(&answers[am->args[0]], 1, __ATOMIC_RELEASE);
}

static void *work(void *arg)
{
    int32_t self = *(int32_t *)arg;
    uint8_t payload[3000];

    for (int32_t trip = 0; trip < TRIPS; trip++) {
        const int32_t args[] = { self, trip };
        uint32_t n = (uint32_t)(trip * 37 % (int)sizeof payload);

        for (uint32_t i = 0; i < n; i++)
            payload[i] = (uint8_t)(trip + (int32_t)i);

        const struct amph_am am = { .kind = AMPH_AM_MEDIUM,
                                    .handler = H_ASK,
                                    .nargs = 2,
                                    .args = args,
                                    .nbytes = n,
                                    .payload = payload };
        uint32_t to = (amph_job.rank + (uint32_t)trip) % amph_job.size;

        CHECK(amph_am_request(amph_job.ep, to, &am, 0, NULL) == AMPH_OK, "request");
        if (trip % 8 == 7)
            WAIT_UNTIL(__atomic_load_n(&answers[self], __ATOMIC_ACQUIRE) >= (unsigned)trip + 1);
    }

    WAIT_UNTIL(__atomic_load_n(&answers[self], __ATOMIC_ACQUIRE) == TRIPS);
    return NULL;
}

int main(void)
{
    pthread_t thread[THREADS];
    int32_t number[THREADS];

    am_start(true);
    am_handler(H_ASK, on_ask, 2, 1, 2);
    am_handler(H_ANSWER, on_answer, 2, 2, 2);
    am_barrier();

    for (int32_t i = 0; i < THREADS; i++) {
        number[i] = i;
        CHECK(pthread_create(&thread[i], NULL, work, &number[i]) == 0, "thread");
    }

    for (int32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);

    am_barrier();
    amph_job_exit(0);
}
