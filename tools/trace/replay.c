/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iofwd-trace replay: what the run would take with other settings, or other servers; see replay.h.
 *
 * Layer: tools.  Thread rule: one thread.
 */
#include "tools/trace/replay.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/trace.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

/* In a process of its own, as replay_make_files. */
static void remove_files(const struct replay *r)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(nftw(r->root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : 1);

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        trace_fail("%s cannot be removed", r->root);
}

static void print_report(const struct replay *r, uint64_t ns)
{
    const struct amph_trace *t = r->trace;
    const struct replay_shared *s = r->shared;
    uint64_t recorded[AMPH_TRACE_CLASSES] = { 0 };
    int64_t last = 0;

    for (size_t i = 0; i < t->nevents; i++)
        last = t->events[i].end_ns > last ? t->events[i].end_ns : last;

    for (size_t i = 0; i < r->nsteps; i++) {
        const struct amph_trace_event *e = &t->events[r->steps[i].event];

        if (r->steps[i].kind != REPLAY_MARK)
            recorded[amph_trace_class_of(t->names[e->name])] += (uint64_t)(e->end_ns - e->start_ns);
    }

    printf("kind        calls  recorded_ms  replayed_ms\n");
    for (int c = 0; c < AMPH_TRACE_CLASSES; c++)
        if (s->class_calls[c])
            printf("%-8s %8llu %12.3f %12.3f\n", amph_trace_class_names[c],
                   (unsigned long long)s->class_calls[c], (double)recorded[c] / 1e6,
                   (double)s->class_ns[c] / 1e6);

    printf("%llu calls were made again, %llu took the time that they took.\n",
           (unsigned long long)s->calls, (unsigned long long)r->skipped);
    if (s->other_results) {
        const struct amph_trace_event *e = &t->events[s->first_other];

        printf("%llu calls ended otherwise than in the run; the first was %s of %s.\n",
               (unsigned long long)s->other_results, t->names[e->name], t->files[e->file]);
    }

    printf("recorded %.3f s, replayed %.3f s\n", (double)(last - r->zero_ns) / 1e9,
           (double)ns / 1e9);
}

/* Executes this program again with the settings in its environment: they are read at the start only. */
static int start_again(char **settings, int n, char **argv)
{
    for (int i = 0; i < n; i++) {
        char *equals = strchr(settings[i], '=');

        *equals = 0;
        if (setenv(settings[i], equals + 1, 1) != 0)
            return trace_fail("%s cannot be set", settings[i]);
    }

    execv("/proc/self/exe", argv);
    return trace_fail("the program cannot be started again: %s", strerror(errno));
}

static int apply_settings(const struct trace_replay *o)
{
    const char *words[16] = { "iofwd-trace", "replay", o->dir, "-prefix", o->prefix };
    int n = 5;

    for (int i = 0; i < o->nsettings; i++)
        if (!trace_is_setting(o->settings[i], strcspn(o->settings[i], "=")))
            return trace_fail("%.*s is no setting; amphora-info -c lists them",
                              (int)strcspn(o->settings[i], "="), o->settings[i]);

    if (o->below) {
        words[n++] = "-below";
        words[n++] = o->below;
    }

    if (o->no_think)
        words[n++] = "-no-think";

    words[n] = NULL;
    return start_again(o->settings, o->nsettings, (char **)(uintptr_t)words);
}

int trace_replay(const struct trace_replay *o)
{
    struct amph_trace t = { 0 };
    struct replay r = { .trace = &t, .below = o->below, .thinks = !o->no_think };
    char why[512];

    if (!o->prefix)
        return trace_fail("replay needs -prefix FOLDER, below which it makes its files") + 1;
    if (o->nsettings)
        return apply_settings(o);

    int n = snprintf(r.root, sizeof r.root, "%s/replay.%d", o->prefix, (int)getpid());

    if (n < 0 || n >= (int)sizeof r.root)
        return trace_fail("-prefix: the name is too long");

    if (!amph_trace_read(&t, o->dir, why, sizeof why)) {
        amph_trace_free(&t);
        return trace_fail("%s", why);
    }

    uint64_t ns = 0;

    if (!replay_plan(&r))
        trace_fail("there is not enough memory");
    else if (!r.nsteps)
        trace_fail("%s has no calls on files that could be made again%s", o->dir,
                   o->below ? "; -below names other files" : "");
    else if (replay_make_files(&r)) {
        ns = replay_run(&r);
        if (ns)
            print_report(&r, ns);

        remove_files(&r);
    }

    replay_free(&r);
    amph_trace_free(&t);
    return ns ? 0 : 1;
}
