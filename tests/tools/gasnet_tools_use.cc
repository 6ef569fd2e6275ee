// SPDX-License-Identifier: BSD-3-Clause
// The tools from C++: every kind of thing that the headers give, alone or beside the runtime's headers.  Prints nothing; 0 if all
// is well.  Built by tests/tools/gasnet_tools_headers.sh in each thread mode.
#include "gasnet_tools.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#if GASNETT_THREAD_SAFE
#include <thread>
#endif

static gasnett_mutex_t mutex = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t cond = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
static gasnett_atomic_t small = gasnett_atomic_init(5);
static gasnett_atomic64_t large = gasnett_atomic64_init(UINT64_C(1) << 40);

GASNETT_THREADKEY_DEFINE(use_key);
GASNETT_IDENT(use_ident, "$Use: from C++ $");

GASNETT_INLINE(twice) int twice(int a)
{
    return 2 * a;
}

static int own_backtrace(int fd)
{
    (void)fd;
    return 0;
}
gasnett_backtrace_type_t gasnett_backtrace_user = { "USE", own_backtrace, 1 };

static void count(unsigned times)
{
    gasnett_threadkey_set(use_key, &times);
    for (unsigned i = 0; i < times; i++) {
        gasnett_atomic_increment(&small, GASNETT_ATOMIC_REL);
        (void)gasnett_atomic64_subtract(&large, 1, GASNETT_ATOMIC_ACQ);
        gasnett_mutex_lock(&mutex);
        gasnett_cond_signal(&cond);
        gasnett_mutex_unlock(&mutex);
        gasnett_rwlock_rdlock(&rwlock);
        gasnett_rwlock_unlock(&rwlock);
    }
    if (gasnett_threadkey_get(use_key) != &times)
        gasnett_fatalerror("the key is not the thread's own");
}

int main()
{
    unsigned n = 1;
    gasnett_backtrace_init("use");
#if GASNETT_THREAD_SAFE
    std::vector<std::thread> threads;
    n = 4;
    for (unsigned i = 0; i < n; i++)
        threads.push_back(std::thread(count, 1000u));
    for (auto &t : threads)
        t.join();
#else
    count(1000);
#endif
    gasnett_tick_t ticks = gasnett_ticks_now();
    char *place = gasnett_current_loc, text[32];
    std::string where = place;
    std::free(place);
    switch (n) {
    case 4:
        ticks++;
        GASNETT_FALLTHROUGH
    default:
        break;
    }
    bool ok = gasnett_atomic_read(&small, 0) == 5 + 1000 * n && gasnett_atomic64_read(&large, 0) == (UINT64_C(1) << 40) - 1000 * n;
    ok = ok && where.find("main() at ") == 0 && gasnett_ticks_to_ns(gasnett_ticks_now() - ticks) < UINT64_C(60000000000);
    ok = ok && twice(4) == 8 && !std::strcmp(gasnett_format_number(2048, text, sizeof text, 1), "2 KB");
    ok = ok && gasnett_print_backtrace(2) == 0 && PLATFORM_COMPILER_CXX && gasnett_cpu_count() > 0;
    return ok ? 0 : 1;
}
