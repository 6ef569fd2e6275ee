/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the job of nbmrw, and removes its files.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#define _GNU_SOURCE 1
#include "tools/nbmrw/nbmrw.h"
#include "tools/nbmrw/state.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/program/stdout_check.h"

/* amphora-run beside this program, or along PATH. */
static void find_launcher(char *path, size_t len)
{
    ssize_t n = readlink("/proc/self/exe", path, len - 1);

    path[n > 0 ? n : 0] = 0;

    char *slash = strrchr(path, '/');

    if (slash)
        snprintf(slash + 1, len - (size_t)(slash + 1 - path), "amphora-run");

    if (access(path, X_OK) == 0)
        return;

    if (slash && slash - path > 6 && strncmp(slash - 6, "/.libs", 6) == 0)
        snprintf(slash - 6 + 1, len - (size_t)(slash - 5 - path), "amphora-run");

    if (access(path, X_OK) != 0)
        snprintf(path, len, "amphora-run");
}

struct nbmrw_state nbmrw_state;

/* Forwards the signal: the launcher ends its job, and this process removes its files. */
static void pass_on(int sig)
{
    nbmrw_state.ended_by = sig;
    if (nbmrw_state.launcher > 0)
        kill((pid_t)nbmrw_state.launcher, sig);
}

/* job: of --figures, or NULL. */
static int start_job(const struct options *o, int argc, char **argv, const char *dir,
                     const struct nbmrw_job *job)
{
    char launcher[4096], self[4096], servers[16], prefix[4200], number[16];
    char **args = calloc((size_t)argc + 20, sizeof *args);
    int n = 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (!args || len <= 0)
        return 1;

    self[len] = 0;
    find_launcher(launcher, sizeof launcher);
    snprintf(servers, sizeof servers, "%u", job ? job->servers : o->servers);
    if (job)
        setenv("AMPHORA_SMP", job->smp, 1);

    snprintf(prefix, sizeof prefix, "%s=%s", NBMRW_PREFIX, dir);

    const char *const first[] = { launcher,
                                  "-n",
                                  job ? job->procs : "1",
                                  "-servers",
                                  servers,
                                  "-conduit",
                                  job && job->conduit ? job->conduit : o->conduit,
                                  "-iofwd",
                                  prefix,
                                  self,
                                  "--inside" };

    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        args[n++] = (char *)first[i];

    for (int i = 1; i < argc; i++)
        args[n++] = argv[i];

    args[n++] = "--dir";
    args[n++] = (char *)dir;

    if (job) {
        snprintf(number, sizeof number, "%d", (int)(job - nbmrw_jobs));
        args[n++] = "--job";
        args[n++] = number;
    }

    pid_t pid = fork();

    if (pid == 0) {
        execvp(launcher, args);
        fprintf(stderr, "nbmrw: %s cannot be started: %s\n", launcher, strerror(errno));
        _exit(127);
    }

    int status = 0;

    nbmrw_state.launcher = pid;
    if (nbmrw_state.ended_by && pid > 0)
        kill(pid, nbmrw_state.ended_by);

    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;

    nbmrw_state.launcher = 0;
    free(args);

    if (pid < 0)
        return 1;

    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Removes the files of the measurements, also after an interrupt. */
static void clear(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);

    if (d)
        closedir(d);

    rmdir(dir);
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
                         .data = true,
                         .metadata = true,
                         .conduit = "auto" };

    amph_stdout_check();
    nbmrw_options(&o, argc, argv);
    if (o.inside)
        return o.figures ? nbmrw_figures_inside(&o, o.job) : nbmrw_measure(&o);

    char dir[4096];

    snprintf(dir, sizeof dir, "%s/nbmrw.XXXXXX", o.dir);
    if (!mkdtemp(dir)) {
        fprintf(stderr, "nbmrw: no directory can be made in %s: %s\n", o.dir, strerror(errno));
        return 1;
    }

    struct sigaction act = { .sa_handler = pass_on };

    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);

    int code = o.figures ? start_figures(&o, argc, argv, dir)
                         : start_job(&o, argc, argv, dir, NULL);

    clear(dir);
    return nbmrw_state.ended_by ? 128 + nbmrw_state.ended_by : code;
}
