/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes that share a core, on a machine with more: waits for a barrier notice that spinning
 * keeps the other process from arriving, and stop it.  Processor time is what tells, because it
 * depends little on what else the machine does: waits beside a busy process sleep, which takes more.
 * A spin in vain takes 20 us. */
#define _GNU_SOURCE 1
#include <sched.h>
#include <sys/resource.h>

#include "gasnetex.h"

#include "tests/gex/gex_common.h"

enum {
    FIRST = 1000, /* to notice */
    BARRIERS = 10000,
    LIMIT_US = 15 /* of processor time a barrier: it takes 2 to 5, beside a busy process 6 to 11 */
};

static double cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Both processes move to the first core that this one may use. */
static bool move_to_one_core(void)
{
    cpu_set_t may;
    cpu_set_t one;
    int core = 0;

    if (sched_getaffinity(0, sizeof may, &may) != 0 || CPU_COUNT(&may) < 2)
        return false;

    while (!CPU_ISSET(core, &may))
        core++;

    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
}

int main(int argc, char **argv)
{
    gex_TM_t tm;

    if (gex_Client_Init(NULL, NULL, &tm, "TEST_ONE_CORE", &argc, &argv, 0) != GASNET_OK)
        return 2;

    if (!move_to_one_core()) {
        printf("needs two cores\n");
        gasnet_exit(77);
    }

    for (int i = 0; i < FIRST; i++)
        CHECK(gasnet_barrier(i, 0) == GASNET_OK);

    double start = cpu_us();

    for (int i = 0; i < BARRIERS; i++)
        CHECK(gasnet_barrier(i, 0) == GASNET_OK);

    double used = (cpu_us() - start) / BARRIERS;

    printf("%.2f us of processor time a barrier\n", used);
    CHECK(used < LIMIT_US);
    gasnet_exit(0);
}
