/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host, the process's limits and streams, versions.
 *
 * Layer: extended.  Thread rule: any thread; streams and limits by one thread at a time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "amphora/tools/debug.h"
#include "amphora/tools/env.h"
#include "amphora/tools/system.h"
#include "base/log.h"
#include "extended/tools/tools.h"

/* ---- the host ---- */

static void read_hostname(void)
{
    char *hostname = amph_tools_state.machine.hostname;

    if (gethostname(hostname, AMPH_TOOLS_NAME_BYTES - 1) != 0)
        snprintf(hostname, AMPH_TOOLS_NAME_BYTES, "unknown-host");
}

const char *gasneti_gethostname(void)
{
    pthread_once(&amph_tools_state.machine.read, read_hostname);
    return amph_tools_state.machine.hostname;
}

int gasnett_cpu_count(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 0;
}

uint64_t gasnett_getPhysMemSz(int failureIsFatal)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    if (pages > 0 && page > 0)
        return (uint64_t)pages * (uint64_t)page;

    if (failureIsFatal)
        gasneti_fatalerror("the system does not report how much memory this host has");

    return 0;
}

int gasnett_set_affinity(int rank)
{
    int count = gasnett_cpu_count();
    cpu_set_t set;

    if (count <= 0) {
        amph_info("this thread may not be bound: the number of processors is not known");
        return 1;
    }

    int cpu = rank % count;

    CPU_ZERO(&set);
    CPU_SET((unsigned)(cpu < 0 ? cpu + count : cpu), &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0)
        return 0;

    amph_info("this thread may not be bound to processor %d: %m", cpu);
    return 1;
}

void gasnett_sched_yield(void)
{
    sched_yield();
}

/* ---- streams ---- */

void gasnett_flush_streams(void)
{
    fflush(stdout);
    fflush(stderr);
    if (fsync(STDOUT_FILENO) != 0 || fsync(STDERR_FILENO) != 0)
        return; /* pipes and terminals cannot be synchronised, and need not */
}

/* Closes the streams and points their descriptors at /dev/null, so that a file opened later does not
 * receive printed text. */
void gasnett_close_streams(void)
{
    fflush(stdout);
    fflush(stderr);
    (void)fclose(stdin);
    (void)fclose(stdout);
    (void)fclose(stderr);

    int fd = open("/dev/null", O_RDWR);

    while (fd >= 0 && fd < STDERR_FILENO)
        fd = dup(fd);

    if (fd > STDERR_FILENO)
        close(fd);
}

/* ---- limits ---- */

int gasnett_maximize_rlimit(int res, const char *lim_desc)
{
    char name[80];
    struct rlimit now;
    struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

    snprintf(name, sizeof name, "GASNET_MAXIMIZE_%s", lim_desc);
    if (!gasnett_getenv_yesno_withdefault(name, 1))
        return 1;
    if (getrlimit((__rlimit_resource_t)res, &now) != 0)
        return 0;
    if (setrlimit((__rlimit_resource_t)res, &all) == 0)
        return 1;

    now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)res, &now) == 0;
}

int gasnett_maximize_rlimits(void)
{
    static const struct {
        int res;
        const char *name;
    } limits[] = {
        { RLIMIT_CPU, "RLIMIT_CPU" },     { RLIMIT_AS, "RLIMIT_AS" },
        { RLIMIT_DATA, "RLIMIT_DATA" },   { RLIMIT_RSS, "RLIMIT_RSS" },
        { RLIMIT_STACK, "RLIMIT_STACK" },
    };

    int ok = 1;

    for (size_t i = 0; i < AMPH_COUNTOF(limits); i++)
        ok &= gasnett_maximize_rlimit(limits[i].res, limits[i].name);

    return ok;
}

/* ---- the build ---- */

const char *gasnett_performance_warning_str(void)
{
    return AMPH_BUILD_SLOWNESS;
}

const char *gasnett_release_version_str(void)
{
    return AMPHORA_TEXT(GASNET_RELEASE_VERSION_MAJOR) "." AMPHORA_TEXT(
        GASNET_RELEASE_VERSION_MINOR) "." AMPHORA_TEXT(GASNET_RELEASE_VERSION_PATCH);
}

uint64_t gasnett_release_version(void)
{
    return GASNET_RELEASE_VERSION_MAJOR * 10000 + GASNET_RELEASE_VERSION_MINOR * 100 +
           GASNET_RELEASE_VERSION_PATCH;
}
