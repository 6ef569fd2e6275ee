/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * amphora-run: starts a job of compute processes and I/O servers.
 *
 * Layer: launcher.  Thread rule: one thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/clock.h"
#include "base/settings/counters.h"
#include "base/settings/env.h"
#include "base/os/limits.h"
#include "base/program/stdout_check.h"
#include "base/status.h"
#include "boot/boot.h"
#include "launcher/master/jobdir.h"
#include "launcher/master/launch.h"
#include "launcher/common/forwarded.h"
#include "launcher/common/message.h"
#include "launcher/common/mpi.h"
#include "launcher/common/record_pack.h"

/* The state of the master.  Static, because it is in use until the process has ended. */
static struct {
    struct amph_options options;
    struct amph_hostset hosts;
    struct amph_launch launch;
} state;

/* Returns whether the file must exist on this machine.  If it is started on other hosts only, their
 * agents check it. */
static bool runs_here(const struct amph_jobdesc *job, const struct amph_hostset *hosts,
                      enum amph_group group)
{
    enum amph_path which = group == AMPH_SERVER ? AMPH_PATH_SERVER : AMPH_PATH_PROGRAM;
    uint32_t first = group == AMPH_SERVER ? job->nproc[AMPH_COMPUTE] : 0;

    for (uint32_t i = first; i < first + job->nproc[group]; i++)
        if (!hosts->remote[job->proc[i].host] &&
            !amph_hostset_path(hosts, job->proc[i].host, NULL, which))
            return true;

    return false;
}

/* Are the processes of the job given forwarded prefixes? */
static bool forwards(const struct amph_options *o)
{
    return o->nservers > 0 && (o->prefixes || amph_env_str(AMPH_ENV_IOFWD_PREFIX)[0]);
}

/* Is the program below a prefix, and not on this host?  Each host starts its processes in the way that
 * its own files ask for (agent/spawn.c). */
static bool is_at_servers(const struct amph_options *o)
{
    const char *prefixes = o->prefixes ? o->prefixes : amph_env_str(AMPH_ENV_IOFWD_PREFIX);

    return forwards(o) &&
           amph_program_is_forwarded(o->program[0], amph_env_foreign("PATH"), prefixes);
}

/* Puts the path of the program before its command line: { path, name as given, arguments, NULL }. */
static int find_program(struct amph_options *o, bool here)
{
    char *path = o->program[0];
    size_t n = 0;
    int code = here ? amph_program_find(o->program[0], &path) : 0;

    if (code)
        return code;

    while (o->program[n])
        n++;

    char **words = calloc(n + 2, sizeof *words);
    if (!words) {
        amph_say("there is no memory for the program's arguments");
        return 1;
    }

    words[0] = path;
    for (size_t i = 0; i < n; i++)
        words[i + 1] = o->program[i];

    o->program = words;
    return 0;
}

static int find_server(struct amph_options *o, bool here)
{
    char *path;

    if (o->nservers == 0)
        return 0;

    o->server_given = o->server_program != NULL;
    if (o->server_program) {
        int code = here ? amph_program_find(o->server_program, &path) : 0;

        if (code == 0 && here)
            o->server_program = path;

        return code;
    }

    if ((o->server_program = amph_program_own("iofwd-server")))
        return 0;

    if (!here) {
        o->server_program = "iofwd-server";
        return 0;
    }

    amph_say("the program iofwd-server is found neither beside amphora-run nor in %s; install "
             "amphora again, or give "
             "-server-program",
             AMPH_BINDIR);
    return AMPH_PROGRAM_NOT_FOUND;
}

/* Runs as the agent of another host.  The argument is the time in milliseconds after which the agent
 * exits if it receives nothing. */
static bool is_agent(int argc, char **argv, uint64_t *silence_ns_p)
{
    if (argc != 3 || strcmp(argv[1], "-agent") != 0)
        return false;

    *silence_ns_p = strtoull(argv[2], NULL, 10) * AMPH_NS_PER_MS;
    return true;
}

static uint64_t read_number(const char *path, uint64_t otherwise)
{
    unsigned long long n;
    FILE *f = fopen(path, "re");
    bool ok = f && fscanf(f, "%llu", &n) == 1;

    if (f)
        fclose(f);

    return ok ? n : otherwise;
}

/* Returns whether this host has enough process numbers and descriptors for the processes that start
 * here.  The agent keeps three pipes and sockets for each. */
static bool fits_host(const struct amph_jobdesc *job, const struct amph_hostset *hosts)
{
    enum {
        FILES_EACH = 3,
        SPARE = 64
    };
    struct rlimit files = { .rlim_max = RLIM_INFINITY };
    struct rlimit own = { .rlim_cur = RLIM_INFINITY };
    uint64_t here = 0;

    for (uint32_t i = 0; i < amph_boot_jobdesc_total(job); i++)
        here += !hosts->remote[job->proc[i].host];

    getrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NPROC, &own);

    uint64_t by_files = files.rlim_max == RLIM_INFINITY ? UINT64_MAX : files.rlim_max / FILES_EACH;
    uint64_t by_number = read_number("/proc/sys/kernel/pid_max", UINT64_MAX);
    uint64_t by_user = geteuid() == 0 || own.rlim_cur == RLIM_INFINITY ? UINT64_MAX : own.rlim_cur;
    uint64_t min = by_files < by_number ? by_files : by_number;

    min = by_user < min ? by_user : min;
    if (here < SPARE || here + SPARE <= min)
        return true;

    amph_say("%" PRIu64 " processes do not fit on this host, which allows about %" PRIu64
             " (open files: ulimit -n, process numbers: /proc/sys/kernel/pid_max, processes: "
             "ulimit -u); start fewer (-n), or name more hosts by -hosts",
             here, min - SPARE);
    return false;
}

static int run(struct amph_options *o)
{
    struct amph_jobdesc job;
    struct amph_hostset *hosts = &state.hosts;

    if (amph_hostfile_job(o, &job, hosts) != AMPH_OK)
        return 1;
    if (!fits_host(&job, hosts))
        return 1;

    bool here = runs_here(&job, hosts, AMPH_COMPUTE) && !is_at_servers(o);
    int code = find_program(o, here);

    if (code == 0 && here && amph_env_str(AMPH_ENV_IOFWD_TRACE_DIR)[0])
        amph_program_warn_record(o->program[0]);

    if (code == 0 && here && forwards(o) && !amph_program_may_forward(o->program[0]))
        code = AMPH_PROGRAM_NOT_EXECUTABLE;

    if (code == 0 && here && !amph_mpi_can_start(o->program[0], job.nproc[AMPH_COMPUTE]))
        code = AMPH_PROGRAM_NOT_EXECUTABLE;

    if (code == 0)
        code = find_server(o, runs_here(&job, hosts, AMPH_SERVER));

    return code ? code : amph_launch_run(&state.launch, o, &job, hosts);
}

/* amph_fatal: the agent, which usually removes the job's directory, may be ending itself. */
static void on_fatal(int code)
{
    if (state.launch.directory)
        amph_launch_jobdir_remove(state.launch.directory);
}

/* Stack that the launcher needs, rounded up: it has buffers for the data that it forwards. */
#define STACK_BYTES ((size_t)256 << 10)

int main(int argc, char **argv)
{
    struct amph_options *o = &state.options;
    uint64_t silence_ns;

    amph_standard_hold(0); /* also for the programs that it starts, such as ssh */
    amph_stdout_check();
    if (is_agent(argc, argv, &silence_ns))
        amph_agent_remote_main(silence_ns);

    switch (amph_launch_options_read(o, argc, argv)) {
    case AMPH_OPTIONS_DONE:
        return 0;
    case AMPH_OPTIONS_WRONG:
        return 1;
    case AMPH_OPTIONS_RUN:
        break;
    }

    if (!amph_limit_stack_suffices("amphora-run", STACK_BYTES))
        return 1;

    amph_fatal_hooks.end_job = on_fatal;

    int code = run(o);

    if (o->records)
        amph_record_pack();

    if (amph_env_bool(AMPH_ENV_STATS))
        amph_counters_print(stderr);

    return code;
}
