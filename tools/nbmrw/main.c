/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the process that measures: in a job with servers, or as a client of standing ones.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program/stdout_check.h"

/* A program beside this one, or along PATH. */
static void find_program(const char *name, char *path, size_t len)
{
    ssize_t n = readlink("/proc/self/exe", path, len - 1);

    path[n > 0 ? n : 0] = 0;

    char *slash = strrchr(path, '/');

    if (slash)
        snprintf(slash + 1, len - (size_t)(slash + 1 - path), "%s", name);

    if (access(path, X_OK) == 0)
        return;

    if (slash && slash - path > 6 && strncmp(slash - 6, "/.libs", 6) == 0)
        snprintf(slash - 6 + 1, len - (size_t)(slash - 5 - path), "%s", name);

    if (access(path, X_OK) != 0)
        snprintf(path, len, "%s", name);
}

struct nbmrw_state nbmrw_state;

/* Forwards the signal: the launcher ends its job, and this process removes its files. */
static void pass_on(int sig)
{
    nbmrw_state.ended_by = sig;
    if (nbmrw_state.launcher > 0)
        kill((pid_t)nbmrw_state.launcher, sig);
}

/* The command line of a job or of a client of standing servers, with the texts that it refers to. */
struct command {
    char launcher[4096], self[4096], servers[16], prefix[4200], number[16];
    char **args;
    int n;
};

static void append(struct command *c, const char *word)
{
    c->args[c->n++] = (char *)(uintptr_t)word;
}

/* amphora-run with one process and the servers.  job: of --figures, or NULL. */
static void job_command(struct command *c, const struct options *o, const char *dir,
                        const struct nbmrw_job *job)
{
    find_program("amphora-run", c->launcher, sizeof c->launcher);
    snprintf(c->servers, sizeof c->servers, "%u", job ? job->servers : o->servers);
    snprintf(c->prefix, sizeof c->prefix, "%s=%s", NBMRW_PREFIX, dir);

    const char *const words[] = { c->launcher,
                                  "-n",
                                  job ? job->procs : "1",
                                  "-servers",
                                  c->servers,
                                  "-conduit",
                                  job && job->conduit ? job->conduit : o->conduit,
                                  "-iofwd",
                                  c->prefix };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        append(c, words[i]);

    if (o->hosts) {
        append(c, "-hosts");
        append(c, o->hosts);
    }
}

/* iofwd-run, which sets what a client of the standing servers needs. */
static void client_command(struct command *c, const struct options *o)
{
    find_program("iofwd-run", c->launcher, sizeof c->launcher);
    append(c, c->launcher);
    append(c, "-servers");
    append(c, o->address_file);
    append(c, "--");
}

/* The command line, to be freed, or NULL.  dir: that of a job on this host, or NULL. */
static struct command *make_command(const struct options *o, int argc, char **argv, const char *dir,
                                    const struct nbmrw_job *job)
{
    struct command *c = calloc(1, sizeof *c);
    ssize_t len = c ? readlink("/proc/self/exe", c->self, sizeof c->self - 1) : -1;

    if (len <= 0 || !(c->args = calloc((size_t)argc + 20, sizeof *c->args))) {
        free(c);
        return NULL;
    }

    const char *files = o->server_dir ? o->server_dir : o->dir;

    if (dir)
        files = dir;

    if (o->address_file)
        client_command(c, o);
    else
        job_command(c, o, files, job);

    append(c, c->self);
    append(c, "--inside");
    for (int i = 1; i < argc; i++)
        append(c, argv[i]);

    if (dir) {
        append(c, "--dir");
        append(c, dir);
    }

    if (job) {
        snprintf(c->number, sizeof c->number, "%d", (int)(job - nbmrw_jobs));
        append(c, "--job");
        append(c, c->number);
    }

    return c;
}

/* Starts the processes that measure, and waits for them.  Returns their exit code. */
static int start_job(const struct options *o, int argc, char **argv, const char *dir,
                     const struct nbmrw_job *job)
{
    struct command *c = make_command(o, argc, argv, dir, job);
    int status = 0;

    if (!c)
        return 1;

    if (job)
        setenv("AMPHORA_SMP", job->smp, 1);

    const pid_t self = getpid();
    pid_t pid = fork();

    if (pid == 0) {
        /* the job does not outlive this process, which removes its files */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != self)
            _exit(1);

        execvp(c->launcher, c->args);
        fprintf(stderr, "nbmrw: %s cannot be started: %s\n", c->launcher, strerror(errno));
        _exit(127);
    }

    nbmrw_state.launcher = pid;
    if (nbmrw_state.ended_by && pid > 0)
        kill(pid, nbmrw_state.ended_by);

    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;

    nbmrw_state.launcher = 0;
    free(c->args);
    free(c);

    if (pid < 0)
        return 1;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs all jobs of --figures.  Returns the first error, or 3 if a figure was missed. */
static int start_figures(const struct options *o, int argc, char **argv, const char *dir)
{
    int worst = 0;
    char missed[4200];

    if (!nbmrw_figures_some(o->match)) {
        fprintf(stderr, "nbmrw: no row of --figures has \"%s\"\n", o->match);
        return 2;
    }

    if (o->json && strcmp(o->json, "-") != 0)
        unlink(o->json); /* each job appends to it */

    if (!o->json || strcmp(o->json, "-") != 0)
        nbmrw_figures_head(stdout);

    fflush(stdout);
    for (unsigned i = 0; i < NBMRW_JOBS && worst == 0; i++)
        worst = start_job(o, argc, argv, dir, &nbmrw_jobs[i]);

    snprintf(missed, sizeof missed, "%s/" NBMRW_MISSED, dir);
    return unlink(missed) == 0 && worst == 0 ? 3 : worst;
}

/* What a process of the job does. */
static int run_inside(struct options *o)
{
    if (nbmrw_elsewhere(o))
        return nbmrw_measure_elsewhere(o);

    o->direct_dir = o->dir;
    o->forwarded_dir = NBMRW_PREFIX;
    return o->figures ? nbmrw_figures_inside(o, o->job) : nbmrw_measure(o);
}

/* Jobs on this host, with a directory for all files. */
static int run_here(const struct options *o, int argc, char **argv)
{
    char dir[4096];

    if (!nbmrw_make_dir(o->dir, strlen(o->dir), dir, sizeof dir))
        return 1;

    int code = o->figures ? start_figures(o, argc, argv, dir) : start_job(o, argc, argv, dir, NULL);

    nbmrw_remove_dir(dir);
    return code;
}

int main(int argc, char **argv)
{
    struct options o = { .dir = "/dev/shm",
                         .file_from = 64 << 20,
                         .file_to = 64 << 20,
                         .call_from = 8,
                         .call_to = 16 << 20,
                         .servers = 8,
                         .widths = { 1, 2, 4, 8 },
                         .nwidths = 4,
                         .random_order = true,
                         .sequential = true,
                         .measured = (1u << NWHAT) - 1,
                         .conduit = "auto" };
    struct sigaction act = { .sa_handler = pass_on };

    amph_stdout_check();
    nbmrw_options(&o, argc, argv);
    if (o.sink)
        return nbmrw_sink(o.sink);

    /* With servers on this host the process outside removes the files, also after a signal. */
    if (!o.inside || nbmrw_elsewhere(&o)) {
        sigaction(SIGINT, &act, NULL);
        sigaction(SIGTERM, &act, NULL);
        sigaction(SIGHUP, &act, NULL);
    }

    if (o.inside)
        return run_inside(&o);

    int code = nbmrw_elsewhere(&o) ? start_job(&o, argc, argv, NULL, NULL)
                                   : run_here(&o, argc, argv);

    return nbmrw_state.ended_by ? 128 + nbmrw_state.ended_by : code;
}
