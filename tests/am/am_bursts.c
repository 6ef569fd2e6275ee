/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that sends many small messages and then computes: all of them arrive meanwhile, also where the
 * first of them are sent at once and the rest together (tcp, udp).  What sends them for it ends when it
 * has had nothing to do for a while, and begins again with the next messages. */
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/am/am_common.h"

#define SIZES 6u
#define ROUNDS 12u
#define TRIPS 200u /* after these a connection delays its acknowledgements */
#define COMPUTE_NS (60 * AMPH_NS_PER_MS)
/* TCP by itself sends what is kept back after a round trip, or after 40 to 200 ms. */
#define SOON_NS (10 * AMPH_NS_PER_MS)
/* of a process in which no thread of the library runs, at most; ThreadSanitizer may have one of its own */
#ifdef __SANITIZE_THREAD__
#define THREADS_ALONE_MAX 2u
#else
#define THREADS_ALONE_MAX 1u
#endif

static const unsigned burst[SIZES] = { 5, 6, 20, 60, 33, 8 };
static unsigned arrived, asked, questions, trips;
static bool keeps;
static uint64_t last_ns;

static void on_message(struct amph_token *token, const struct amph_am *am)
{
    arrived++;
    last_ns = amph_now_ns();
}

static void send_to(uint32_t peer, uint8_t handler, uint32_t nbytes)
{
    static uint8_t payload[64];
    const struct amph_am am = { .kind = nbytes ? AMPH_AM_MEDIUM : AMPH_AM_SHORT,
                                .handler = handler,
                                .nbytes = nbytes,
                                .payload = nbytes ? payload : NULL };

    CHECK(amph_am_request(amph_job.ep, peer, &am, 0, NULL) == AMPH_OK, "request");
}

static void compute(uint64_t for_ns)
{
    const uint64_t end_ns = amph_now_ns() + for_ns;

    while (amph_now_ns() < end_ns)
        continue;
}

static void on_ask(struct amph_token *token, const struct amph_am *am)
{
    asked++;
}

/* Answers; the last handler of a burst computes then, in the poll in which the others have answered, too. */
static void on_question(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am answer = { .kind = AMPH_AM_SHORT, .handler = 130 };

    CHECK(amph_am_reply(token, &answer, 0, NULL) == AMPH_OK, "reply");
    if (++questions == burst[asked % SIZES]) {
        questions = 0;
        asked++;
        compute(COMPUTE_NS);
    }
}

static void on_trip(struct amph_token *token, const struct amph_am *am)
{
    const struct amph_am answer = { .kind = AMPH_AM_SHORT, .handler = 134 };

    CHECK(amph_am_reply(token, &answer, 0, NULL) == AMPH_OK, "reply");
}

static void on_trip_end(struct amph_token *token, const struct amph_am *am)
{
    trips++;
}

static unsigned threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    unsigned n = 0;

    CHECK(dir, "/proc/self/task");
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';

    closedir(dir);
    return n;
}

/* Makes the kernel keep back all that is sent over this process's TCP connections from now on, also when
 * acknowledgements come, which by themselves often end that. */
static void keep_back(void)
{
    const int on = 1;

    for (int fd = 0; fd < 1024; fd++) {
        int domain = 0;
        socklen_t len = sizeof domain;

        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on); /* listeners refuse it */
    }
}

static void send_bursts(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        WAIT_UNTIL(asked == i + 1);
        if (keeps)
            keep_back();

        for (unsigned k = 0; k < burst[i % SIZES]; k++)
            send_to(1, 130, i % 2 ? 64 : 0);

        compute(COMPUTE_NS);
    }

    WAIT_UNTIL(asked == 2 * ROUNDS);
}

/* Asks for each burst: by one message, or by one for each answer.  Returns how long the fastest took from the
 * first question to the last answer. */
static uint64_t take_bursts(uint8_t handler, bool each)
{
    uint64_t least_ns = UINT64_MAX;

    for (unsigned i = 0; i < ROUNDS; i++) {
        for (trips = 0; trips < TRIPS;) {
            const unsigned next = trips + 1;

            send_to(0, 133, 0);
            WAIT_UNTIL(trips == next);
        }

        const uint64_t begin_ns = amph_now_ns();

        arrived = 0;
        for (unsigned k = 0; k < (each ? burst[i % SIZES] : 1); k++)
            send_to(0, handler, 0);

        WAIT_UNTIL(arrived == burst[i % SIZES]);
        least_ns = last_ns - begin_ns < least_ns ? last_ns - begin_ns : least_ns;
        if (i == ROUNDS / 2)
            compute(700 * AMPH_NS_PER_MS); /* the sender is idle meanwhile */
    }

    return least_ns;
}

int main(int argc, char **argv)
{
    keeps = argc == 2 && strcmp(argv[1], "-keep") == 0;
    am_start(false);
    am_needs_two();
    am_handler(130, on_message, 3, 3, 0);
    am_handler(131, on_ask, 1, 1, 0);
    am_handler(132, on_question, 1, 1, 0);
    am_handler(133, on_trip, 1, 1, 0);
    am_handler(134, on_trip_end, 1, 2, 0);
    am_barrier();

    if (amph_job.rank == 0) {
        send_bursts();
    } else {
        uint64_t ns = take_bursts(131, false);

        CHECK(ns < SOON_NS, "the last message of a burst came after %llu us at best",
              (unsigned long long)(ns / AMPH_NS_PER_US));
        ns = take_bursts(132, true);
        CHECK(ns < SOON_NS, "the last answer came after %llu us at best",
              (unsigned long long)(ns / AMPH_NS_PER_US));
    }

    am_barrier();
    if (argc == 1 || keeps)
        WAIT_UNTIL(threads() <= THREADS_ALONE_MAX);

    am_barrier();
    return 0;
}
