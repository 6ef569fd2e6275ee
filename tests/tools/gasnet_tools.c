/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tools in a job.  Usage: gasnet_tools WHAT
 *   all      both headers in one program: clocks, atomics by handlers, locks, host, environment;
 *            the processes agree
 *   env      asks for a setting of its own (GASNET_VERBOSEENV is the test's business)
 *   fatal    the last process ends by gasnett_fatalerror, the others wait for it
 *   crash    the last process writes to address 0
 *   refuse   the last process makes an error of the API that is fatal
 *   signal   every process sends itself SIGUSR2 and goes on
 *   islands  prints "<process> of <neighbourhood's number>/<size>" and exchanges messages with all
 *   freeze   every process says that it goes on (GASNET_FREEZE is the test's business)
 */
#include "gasnet_tools.h"
#include "gasnetex.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gasnet.h"
#include "gasnet_fwd.h"
#include "tests/gex/gex_common.h"

#define REQUEST 200

static gasnett_atomic_t arrived = gasnett_atomic_init(0);
static gasnett_atomic64_t total = gasnett_atomic64_init(0);
static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static volatile int *nowhere;

GASNETT_THREADKEY_DEFINE(own_key);

static void on_request(gex_Token_t token, gex_AM_Arg_t value)
{
    (void)token;
    (void)gasnett_atomic64_add(&total, (uint64_t)value, 0);
    gasnett_atomic_increment(&arrived, GASNETT_ATOMIC_REL);
}

static void use_all(void)
{
    const gex_Rank_t n = gex_System_QueryJobSize();
    const gex_Rank_t me = gex_System_QueryJobRank();
    gasnett_tick_t start = gasnett_ticks_now();

    for (gex_Rank_t i = 0; i < n; i++)
        CHECK(gex_AM_RequestShort(amphora_team0, i, REQUEST, 0, (gex_AM_Arg_t)(me + 1)) ==
              GASNET_OK);

    GASNET_BLOCKUNTIL(gasnett_atomic_read(&arrived, GASNETT_ATOMIC_ACQ) == n);
    CHECK(gasnett_atomic64_read(&total, 0) == (uint64_t)n * (n + 1) / 2);
    CHECK(gasnett_ticks_to_ns(gasnett_ticks_now() - start) < UINT64_C(60000000000));
    gasnett_mutex_lock(&mutex);
    gasnett_mutex_assertlocked(&mutex);
    gasnett_mutex_unlock(&mutex);
    gasnett_threadkey_set(own_key, &mutex);
    CHECK(gasnett_threadkey_get(own_key) == &mutex);
    CHECK(strlen(gasnett_gethostname()) > 0 && gasnett_gethostname() == gasneti_gethostname());
    CHECK(GASNETT_MAX_THREADS == GASNETI_MAX_THREADS);
    CHECK(strcmp(gasnett_getenv("TOOLS_TEST"), "value") == 0);
    CHECK(strlen(gasnett_exe_name()) > 0);
}

static void *keep_locked(void *locked)
{
    flockfile(stdout);
    sem_post((sem_t *)locked);
    while (pause() < 0)
        ;

    return NULL;
}

/* Another thread locks standard output and keeps it. */
static void lock_output(void)
{
    static sem_t locked;
    pthread_t t;

    CHECK(sem_init(&locked, 0, 0) == 0);
    CHECK(pthread_create(&t, NULL, keep_locked, &locked) == 0);
    CHECK(sem_wait(&locked) == 0);
}

GASNETT_NEVER_INLINE(end_badly, static void end_badly(const char *what))
{
    const gex_Rank_t n = gex_System_QueryJobSize();

    if (gex_System_QueryJobRank() + 1 < n)
        GASNET_BLOCKUNTIL(0); /* until the launcher ends the job */

    if (strcmp(what, "fatal") == 0)
        gasnett_fatalerror("the last of %u gives up", n);

    if (strcmp(what, "lock") == 0)
        lock_output();

    if (strcmp(what, "words") == 0 || strcmp(what, "abort") == 0 || strcmp(what, "error") == 0)
        printf("last words of %u", n);

    if (strcmp(what, "abort") == 0 || strcmp(what, "lock") == 0)
        abort();

    if (strcmp(what, "crash") == 0 || strcmp(what, "words") == 0)
        *nowhere = 1;

    (void)gex_AM_RequestShort(amphora_team0, n + 7, REQUEST, 0, 1);
    gasnet_exit(99); /* not reached */
}

int main(int argc, char **argv)
{
    gex_AM_Entry_t entry = {
        REQUEST,     (gex_AM_Fn_t)on_request, GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL,
        "on_request"
    };
    const char *what = argc > 1 ? argv[1] : "all";
    gex_Client_t client;
    gex_EP_t ep;
    gex_TM_t tm;

    if (gex_Client_Init(&client, &ep, &tm, "TOOLS", &argc, &argv, 0) != GASNET_OK)
        return 3;

    CHECK(gex_EP_RegisterHandlers(ep, &entry, 1) == GASNET_OK);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);

    if (strcmp(what, "all") == 0) {
        use_all();
    } else if (strcmp(what, "env") == 0) {
        (void)gasnett_getenv_int_withdefault("TOOLS_SIZE", 4096, 1);
        (void)gasnett_getenv_withdefault("TOOLS_TEST", "none");
    } else if (strcmp(what, "islands") == 0) {
        gex_Rank_t nbrhd, size;

        use_all();
        gex_System_QueryMyPosition(NULL, &nbrhd, NULL, NULL);
        gex_System_QueryNbrhdInfo(NULL, &size, NULL);
        printf("%u of %u/%u, threads %u\n", gex_System_QueryJobRank(), nbrhd, size,
               (unsigned)gex_System_QueryMaxThreads());
    } else if (strcmp(what, "signal") == 0) {
        raise(SIGUSR2);
        printf("%u goes on\n", gex_System_QueryJobRank());
    } else if (strcmp(what, "freeze") == 0) {
        printf("%u goes on\n", gex_System_QueryJobRank());
    } else {
        end_badly(what);
    }

    fflush(stdout);
    gasnet_barrier(0, GASNET_BARRIERFLAG_ANONYMOUS);
    gasnet_exit(0);

    return 0;
}
